//! The access logs: entries become lines, each in the log of its listener.
//!
//! Most proxies have one log; a listener may have another one, or none. Listeners with the same target and format share one
//! open log.

use std::collections::HashMap;
use std::io;

use profile::access::{self, Entry};

use crate::journal::Trouble;
use crate::target::{Out, named};
use plan::{AccessFormat, AccessLog, Logs};

/// All access logs.
pub struct AccessLogs {
    logs: Vec<Log>,
    /// The log of listeners without one of their own.
    common: Option<usize>,
    /// By the address of the listener, as entries name it.
    own: HashMap<Box<[u8]>, Option<usize>>,
}

struct Log {
    log: AccessLog,
    out: Out,
    lines: Vec<u8>,
    entries: u64,
    /// The last write may have ended within a line.
    is_torn: bool,
    trouble: Trouble,
}

impl AccessLogs {
    /// Opens the access logs; `None`: there are none. `listeners`: their addresses.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(plan: &Logs, listeners: &[String]) -> io::Result<Option<AccessLogs>> {
        let mut all = AccessLogs {
            logs: Vec::new(),
            common: None,
            own: HashMap::new(),
        };
        all.common = plan.access.as_ref().map(|log| all.add(log)).transpose()?;
        for (number, log) in &plan.of_listeners {
            let index = log.as_ref().map(|log| all.add(log)).transpose()?;
            if let Some(address) = listeners.get(*number) {
                all.own.insert(address.as_bytes().into(), index);
            }
        }
        Ok((!all.logs.is_empty()).then_some(all))
    }

    /// Replaces the logs `before`. A log that stays keeps the state of its last write.
    pub fn instead_of(mut self, before: Option<AccessLogs>) -> AccessLogs {
        for old in before.into_iter().flat_map(|before| before.logs) {
            match self.logs.iter_mut().find(|new| new.log == old.log) {
                Some(new) => (new.is_torn, new.trouble) = (old.is_torn, old.trouble),
                None => old.trouble.tell_the_end(),
            }
        }
        self
    }

    fn add(&mut self, log: &AccessLog) -> io::Result<usize> {
        if let Some(index) = self.logs.iter().position(|it| it.log == *log) {
            return Ok(index);
        }
        self.logs.push(Log {
            log: log.clone(),
            out: Out::open(&log.target)?,
            lines: Vec::new(),
            entries: 0,
            is_torn: false,
            trouble: Trouble::default(),
        });
        Ok(self.logs.len() - 1)
    }

    /// Reopens all logs; one that cannot be reopened is used further as it is. Returns the errors.
    pub fn reopen(&mut self) -> Vec<io::Error> {
        let mut errors = Vec::new();
        for log in &mut self.logs {
            // Keep `is_torn`: if a file was not moved away, it still ends in a torn line.
            match Out::open(&log.log.target) {
                Ok(out) => log.out = out,
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    /// Writes a batch of entries. Returns how many are lost.
    pub fn write(&mut self, batch: &[u8]) -> u64 {
        let mut rest = batch;
        while let Some((entry, len)) = Entry::decode(rest) {
            let log = match self.own.is_empty() {
                true => self.common,
                false => *self.own.get(entry.listener).unwrap_or(&self.common),
            };
            if let Some(log) = log {
                self.logs[log].note(&entry);
            }
            rest = &rest[len..];
        }
        self.logs.iter_mut().map(Log::flush).sum()
    }

    /// Reports missing records when the logs are closed.
    pub fn tell_the_end(&self) {
        for log in &self.logs {
            log.trouble.tell_the_end();
        }
    }
}

impl Log {
    fn note(&mut self, entry: &Entry<'_>) {
        if self.lines.is_empty() && self.is_torn {
            self.lines.push(b'\n');
        }
        let lines = &mut self.lines;
        match &self.log.format {
            AccessFormat::Squid => access::squid_line(entry, lines),
            AccessFormat::Json => access::json_line(entry, lines),
            AccessFormat::Combined => access::combined_line(entry, lines),
            AccessFormat::Own(template) => template.line(entry, lines),
        }
        self.entries += 1;
    }

    fn flush(&mut self) -> u64 {
        if self.lines.is_empty() {
            return 0;
        }
        let (lost, written) = self.out.write(&self.lines);
        // A daemon takes a message whole or not at all.
        self.is_torn = written.is_err() && matches!(self.out, Out::Stream(_));
        let lost = lost.min(self.entries);
        let written = written.map_err(|error| named(&self.log.target, error));
        self.trouble.tell(written, lost);
        self.lines.clear();
        self.entries = 0;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::LogTarget;
    use profile::{Record, Template};
    use std::fs::{self, File};
    use std::path::Path;

    fn to(path: &Path, format: AccessFormat) -> AccessLog {
        AccessLog {
            target: LogTarget::File(path.to_owned()),
            format,
        }
    }

    /// An encoded request of this listener.
    fn entry(listener: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let entry = Entry {
            tls: profile::access::Tls::default(),
            record: Record::begun(1),
            client: [127, 0, 0, 1].into(),
            listener,
            asking: access::Asking {
                method: b"GET",
                host: b"a.example",
                target: b"/",
                ..access::Asking::default()
            },
            content_type: b"",
            peer: b"",
            origin: b"",
            cache_status: b"",
            tag: b"",
        };
        entry.encode(&mut bytes);
        bytes
    }

    #[test]
    fn each_listener_has_the_log_that_it_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let [all, own] = ["all", "own"].map(|name| dir.path().join(name));
        let template = AccessFormat::Own(Template::parse("${listener} ${method}").unwrap());
        let plan = Logs {
            access: Some(to(&all, template.clone())),
            of_listeners: [
                (1, None),
                (2, Some(to(&own, template.clone()))),
                (3, Some(to(&own, template))),
            ]
            .into(),
            ..Logs::default()
        };
        let listeners = ["l:0", "l:1", "l:2", "l:3"].map(str::to_owned);
        let mut logs = AccessLogs::open(&plan, &listeners).unwrap().unwrap();
        let batch = listeners.each_ref().map(|it| entry(it.as_bytes())).concat();
        assert_eq!(logs.write(&batch), 0);
        assert_eq!(fs::read_to_string(&all).unwrap(), "l:0 GET\n");
        assert_eq!(fs::read_to_string(&own).unwrap(), "l:2 GET\nl:3 GET\n");
    }

    #[test]
    fn behind_a_torn_line_another_one_begins_and_what_was_lost_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access");
        let plan = Logs {
            access: Some(to(&path, AccessFormat::Squid)),
            ..Logs::default()
        };
        let mut logs = AccessLogs::open(&plan, &[]).unwrap().unwrap();
        fs::write(&path, b"half a li").unwrap();
        // Every write fails, as on a full disk.
        let full = File::options().write(true).open("/dev/full").unwrap();
        logs.logs[0].out = Out::Stream(Box::new(full));
        assert_eq!(logs.write(&[entry(b""), entry(b"")].concat()), 2);
        assert!(logs.reopen().is_empty());
        assert_eq!(logs.write(&entry(b"")), 0);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "half a li"));
        assert!(lines[1].contains(" GET http://a.example/ "), "{text}");
    }
}
