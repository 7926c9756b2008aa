//! Log lines on standard error, which never wait for the program that reads them.
//!
//! Standard error is a pipe to a service manager or a container engine. If its reader hangs, a write hangs, and so would the worker that
//! logs. So once clients may connect, lines go through a queue to a thread of their own; when the queue is full, lines are
//! dropped and counted. Before, they are written at once: no client has to wait, and a start that fails must say why.
//!
//! Under systemd each line begins with its priority, by which `journalctl -p warning` finds it.
//!
//! Limits: [`LINES_MAX`] lines of [`LINE_BYTES_MAX`]; [`FLUSH_MAX`] at the end.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// The most lines in the queue.
const LINES_MAX: usize = 1024;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 8 << 10;
/// How long the end of the process waits for queued lines.
const FLUSH_MAX: Duration = Duration::from_secs(2);
const FLUSH_STEP: Duration = Duration::from_millis(1);

/// A handle for log lines on standard error. Clones share one queue.
#[derive(Clone, Default)]
pub struct Diagnostics(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: OnceLock<SyncSender<Vec<u8>>>,
    sent: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
    has_priorities: bool,
    filter: OnceLock<reload::Handle<EnvFilter, Registry>>,
}

impl Diagnostics {
    /// Becomes the subscriber for log lines, at this level. Colours only on a terminal.
    pub fn start(level: &str) -> Diagnostics {
        let stderr = io::stderr();
        let colours = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let diagnostics = Diagnostics(Arc::new(Shared {
            has_priorities: rustix::fs::fstat(&stderr)
                .is_ok_and(|about| is_stream(&stream, about.st_dev, about.st_ino)),
            ..Shared::default()
        }));
        let (filter, handle) = reload::Layer::new(EnvFilter::new(level));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(diagnostics.clone())
            .with_ansi(colours)
            .with_target(false)
            // An error in logging would be logged to standard error, which just failed, and would end the thread.
            .log_internal_errors(false);
        tracing_subscriber::registry()
            .with(filter)
            .with(lines)
            .init();
        let _ = diagnostics.0.filter.set(handle);
        let on_panic = diagnostics.clone();
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            on_panic.flush();
            told(panic);
        }));
        diagnostics
    }

    /// Changes the level.
    pub fn follow(&self, level: &str) {
        let filter = self.0.filter.get();
        if let Some(Err(error)) = filter.map(|filter| filter.reload(EnvFilter::new(level))) {
            tracing::warn!(%error, "log.level stays as it was");
        }
    }

    /// From now on lines go through the queue, so that no caller waits. A second call does nothing.
    pub fn stop_waiting(&self) {
        self.write_to(io::stderr());
    }

    fn write_to(&self, out: impl Write + Send + 'static) {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("diagnostics".into());
        if thread
            .spawn(move || run(&receiver, &shared.written, &shared.lost, out))
            .is_ok()
        {
            let _ = self.0.queue.set(sender);
        }
    }

    /// Waits until the thread has written all queued lines, for [`FLUSH_MAX`] at most.
    pub fn flush(&self) {
        let until = Instant::now() + FLUSH_MAX;
        let is_behind =
            || self.0.written.load(Ordering::Acquire) < self.0.sent.load(Ordering::Acquire);
        while is_behind() && Instant::now() < until {
            thread::sleep(FLUSH_STEP);
        }
    }

    fn say(&self, line: &[u8]) {
        match self.0.queue.get() {
            None => {
                let _ = io::stderr().write_all(line);
            }
            Some(queue) => {
                self.0.sent.fetch_add(1, Ordering::AcqRel);
                if queue.try_send(line.to_vec()).is_err() {
                    self.0.sent.fetch_sub(1, Ordering::AcqRel);
                    self.0.lost.fetch_add(1, Ordering::Relaxed);
                    proxy::DIAGNOSTICS_LOST.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

fn run(receiver: &Receiver<Vec<u8>>, written: &AtomicU64, lost: &AtomicU64, mut out: impl Write) {
    // How many lost lines were reported.
    let mut told = 0;
    while let Ok(line) = receiver.recv() {
        let _ = out.write_all(&line);
        written.fetch_add(1, Ordering::AcqRel);
        let lost = lost.load(Ordering::Relaxed);
        if lost > told {
            let _ = writeln!(
                out,
                "{} messages were lost, because nobody read them",
                lost - told
            );
            told = lost;
        }
    }
}

/// Is standard error this stream of systemd's journal? `stream` has its device and inode, since a child may have another standard error.
fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    let numbers = stream.split_once(':');
    numbers.is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

/// The writer of one line.
pub struct Line<'a> {
    to: &'a Diagnostics,
    level: Option<Level>,
}

impl Write for Line<'_> {
    /// The subscriber writes a line with one call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = Vec::with_capacity(bytes.len().min(LINE_BYTES_MAX) + 4);
        if let Some(level) = self.level.filter(|_| self.to.0.has_priorities) {
            line.extend_from_slice(priority(level));
        }
        line.extend_from_slice(&bytes[..bytes.len().min(LINE_BYTES_MAX)]);
        if bytes.len() > LINE_BYTES_MAX {
            line.push(b'\n');
        }
        self.to.say(&line);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The prefix of a priority, as in sd-daemon(3).
fn priority(level: Level) -> &'static [u8] {
    match level {
        Level::ERROR => b"<3>",
        Level::WARN => b"<4>",
        Level::INFO => b"<6>",
        Level::DEBUG | Level::TRACE => b"<7>",
    }
}

impl<'a> MakeWriter<'a> for Diagnostics {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            to: self,
            level: None,
        }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Line<'a> {
        let level = Some(*about.level());
        Line { to: self, level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A writer that hangs while it is locked.
    struct Locked(Arc<Mutex<Vec<u8>>>);

    impl Write for Locked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_hangs_holds_up_nobody() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let diagnostics = Diagnostics::default();
        diagnostics.write_to(Locked(Arc::clone(&written)));
        let hang = written.lock().unwrap();
        let many = LINES_MAX * 2;
        for n in 0..many {
            let mut line = diagnostics.make_writer();
            line.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        let lost = diagnostics.0.lost.load(Ordering::Relaxed);
        // One more line is with the writer.
        assert!(
            (many - LINES_MAX - 1..=many - LINES_MAX).contains(&(lost as usize)),
            "{lost}"
        );
        drop(hang);
        diagnostics.flush();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("line 0\n"), "{}", &text[..40]);
        assert!(text.contains("messages were lost"), "{}", text.len());
    }

    #[test]
    fn priorities_are_for_the_journal_alone() {
        assert!(is_stream("8:123", 8, 123));
        for stream in ["", "8:124", "9:123", "8", "8:123:1", "x:y"] {
            assert!(!is_stream(stream, 8, 123), "{stream}");
        }
        assert_eq!(priority(Level::WARN), b"<4>");
    }

    #[test]
    fn a_long_line_is_cut() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let diagnostics = Diagnostics::default();
        diagnostics.write_to(Locked(Arc::clone(&written)));
        diagnostics
            .make_writer()
            .write_all(&[b'x'; LINE_BYTES_MAX * 3])
            .unwrap();
        diagnostics.flush();
        assert_eq!(written.lock().unwrap().len(), LINE_BYTES_MAX + 1);
    }
}
