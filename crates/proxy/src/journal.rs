//! Where access log and profile go: off the request path.
//!
//! A worker appends binary entries to a buffer of its own and hands the buffer over when it is large or
//! a second old. One thread turns entries into lines and writes both files. The queue between them is
//! bounded: when the disk does not keep up, records are dropped and counted; requests never wait for a log.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    mem,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
};

use profile::{
    Record,
    access::{self, Entry},
};

use crate::plan::{AccessFormat, AccessLog, LogTarget, Logs};

/// A worker hands its buffer over at this size.
const BATCH_BYTES: usize = 64 << 10;
/// Batches waiting for the log thread; beyond it records are dropped and counted.
const BATCHES_MAX: usize = 256;

enum Message {
    Access(Vec<u8>),
    Profile(Vec<u8>),
    Reopen,
    Stop,
}

/// The log thread.
pub struct Journal {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    access: bool,
    profile: bool,
}

/// A worker's end of the journal.
pub struct JournalWriter {
    sender: Option<SyncSender<Message>>,
    access: Option<Vec<u8>>,
    profile: Option<Vec<u8>>,
    access_entries: u64,
    profile_entries: u64,
}

impl Journal {
    /// Opens the files and starts the thread; none is started when nothing is to be written.
    pub fn open(logs: &Logs) -> io::Result<Journal> {
        let access = logs.access.as_ref().map(AccessFile::open).transpose()?;
        let profile = logs.profile.as_deref().map(ProfileFile::open).transpose()?;
        let (has_access, has_profile) = (access.is_some(), profile.is_some());
        if !has_access && !has_profile {
            return Ok(Journal {
                sender: None,
                thread: None,
                access: false,
                profile: false,
            });
        }
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let thread = thread::Builder::new()
            .name("journal".into())
            .spawn(move || run(&receiver, access, profile))?;
        Ok(Journal {
            sender: Some(sender),
            thread: Some(thread),
            access: has_access,
            profile: has_profile,
        })
    }

    /// A worker's end.
    pub fn writer(&self) -> JournalWriter {
        JournalWriter {
            sender: self.sender.clone(),
            access: self.access.then(Vec::new),
            profile: self.profile.then(Vec::new),
            access_entries: 0,
            profile_entries: 0,
        }
    }

    /// For whoever takes SIGHUP.
    pub fn reopener(&self) -> Reopener {
        Reopener(self.sender.clone())
    }

    /// Writes out what was handed over and ends the thread.
    pub fn stop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Message::Stop);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Closes and opens the files again, for log rotation.
pub struct Reopener(Option<SyncSender<Message>>);

impl Reopener {
    /// Asks the log thread to do it. A full queue means that it is busy, and the next signal will do.
    pub fn reopen(&self) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(Message::Reopen);
        }
    }
}

impl JournalWriter {
    /// Is an access log wanted? The caller collects what it needs only then.
    #[inline]
    pub fn wants_access(&self) -> bool {
        self.access.is_some()
    }

    /// Notes a finished request. Returns how many records were lost because the queue was full.
    #[inline]
    pub fn note(&mut self, entry: &Entry<'_>) -> u64 {
        let mut lost = 0;
        if let Some(buffer) = &mut self.profile {
            entry.record.encode(buffer);
            self.profile_entries += 1;
            if buffer.len() >= BATCH_BYTES {
                lost += self.hand_over_profile();
            }
        }
        if let Some(buffer) = &mut self.access {
            entry.encode(buffer);
            self.access_entries += 1;
            if buffer.len() >= BATCH_BYTES {
                lost += self.hand_over_access();
            }
        }
        lost
    }

    /// Notes a finished request in the profile alone.
    #[inline]
    pub fn note_record(&mut self, record: &Record) -> u64 {
        if let Some(buffer) = &mut self.profile {
            record.encode(buffer);
            self.profile_entries += 1;
            if buffer.len() >= BATCH_BYTES {
                return self.hand_over_profile();
            }
        }
        0
    }

    /// Hands over what has gathered; once a second and at the end. Returns records lost.
    pub fn flush(&mut self) -> u64 {
        self.hand_over_access() + self.hand_over_profile()
    }

    fn hand_over_access(&mut self) -> u64 {
        let entries = mem::take(&mut self.access_entries);
        match &mut self.access {
            Some(buffer) if !buffer.is_empty() => {
                let full = mem::replace(buffer, Vec::with_capacity(BATCH_BYTES + 4096));
                self.send(Message::Access(full), entries)
            }
            _ => 0,
        }
    }

    fn hand_over_profile(&mut self) -> u64 {
        let entries = mem::take(&mut self.profile_entries);
        match &mut self.profile {
            Some(buffer) if !buffer.is_empty() => {
                let full = mem::replace(buffer, Vec::with_capacity(BATCH_BYTES + 4096));
                self.send(Message::Profile(full), entries)
            }
            _ => 0,
        }
    }

    fn send(&self, message: Message, entries: u64) -> u64 {
        match self.sender.as_ref().map(|s| s.try_send(message)) {
            Some(Ok(())) | None => 0,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => entries,
        }
    }
}

fn run(
    receiver: &Receiver<Message>,
    mut access: Option<AccessFile>,
    mut profile: Option<ProfileFile>,
) {
    while let Ok(message) = receiver.recv() {
        let result = match message {
            Message::Access(batch) => access.as_mut().map_or(Ok(()), |f| f.write(&batch)),
            Message::Profile(batch) => profile.as_mut().map_or(Ok(()), |f| f.write(&batch)),
            Message::Reopen => access
                .as_mut()
                .map_or(Ok(()), AccessFile::reopen)
                .and(profile.as_mut().map_or(Ok(()), ProfileFile::reopen)),
            Message::Stop => break,
        };
        if let Err(error) = result {
            tracing::error!(%error, "cannot write the log; records are lost until it can be written again");
        }
    }
}

struct AccessFile {
    log: AccessLog,
    out: Box<dyn Write + Send>,
    lines: Vec<u8>,
}

impl AccessFile {
    fn open(log: &AccessLog) -> io::Result<AccessFile> {
        Ok(AccessFile {
            log: log.clone(),
            out: open_target(&log.target)?,
            lines: Vec::new(),
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.out = open_target(&self.log.target)?;
        Ok(())
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        self.lines.clear();
        let mut rest = batch;
        while let Some((entry, len)) = Entry::decode(rest) {
            match self.log.format {
                AccessFormat::Squid => access::squid_line(&entry, &mut self.lines),
                AccessFormat::Json => access::json_line(&entry, &mut self.lines),
            }
            rest = &rest[len..];
        }
        self.out.write_all(&self.lines)?;
        self.out.flush()
    }
}

fn open_target(target: &LogTarget) -> io::Result<Box<dyn Write + Send>> {
    Ok(match target {
        LogTarget::Stdout => Box::new(io::stdout()),
        LogTarget::File(path) => Box::new(append_to(path)?),
    })
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

struct ProfileFile {
    path: PathBuf,
    out: BufWriter<File>,
}

impl ProfileFile {
    fn open(path: &Path) -> io::Result<ProfileFile> {
        let mut out = BufWriter::new(append_to(path)?);
        // Also in front of what is appended to an older file: a reader finds its way there behind a torn record.
        let mut header = Vec::new();
        profile::write_file_header(&mut header);
        out.write_all(&header)?;
        Ok(ProfileFile {
            path: path.to_owned(),
            out,
        })
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.out.flush()?;
        *self = ProfileFile::open(&self.path)?;
        Ok(())
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        self.out.write_all(batch)?;
        self.out.flush()
    }
}
