//! Destinations of access-log lines: files, standard output, syslog, systemd's journal.
//!
//! Only the journal thread writes to a target, and it may block: its queue is bounded, and beyond that lines are dropped and
//! counted, so no request waits for a log. A daemon that does not read is given [`WAIT_MAX`]; then the rest of the batch of lines
//! is lost. A daemon that was restarted is connected to again.
//!
//! Not known here: the contents of a line, except that its only line feed is at its end.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::journal::{append_to, naming};
use plan::{LogTarget, Syslog, SyslogAt};

/// If a daemon takes no line for this long, the rest of the batch is lost.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// The severity of a line: informational, for syslog and for systemd.
const INFORMATIONAL: u8 = 6;
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// An open target.
pub enum Out {
    /// Lines are written unchanged.
    Stream(Box<dyn Write + Send>),
    /// Each line is sent as a message.
    Daemon(Daemon),
}

impl Out {
    /// Opens a target.
    ///
    /// # Errors
    /// The file cannot be opened. A daemon that does not answer is no error: it is tried again with the next lines.
    pub fn open(target: &LogTarget) -> io::Result<Out> {
        Ok(match target {
            LogTarget::Stdout => Out::Stream(Box::new(io::stdout())),
            LogTarget::File(path) => Out::Stream(Box::new(append_to(path)?)),
            LogTarget::Syslog(syslog) => Out::Daemon(Daemon::new(
                Speaks::Syslog(Heads::new(syslog)),
                syslog.at.clone(),
            )),
            LogTarget::Journald => {
                let at = SyslogAt::Socket(JOURNAL_SOCKET.into());
                Out::Daemon(Daemon::new(Speaks::Journald, at))
            }
        })
    }

    /// Writes whole lines. Returns how many of them are lost, and why.
    pub fn write(&mut self, lines: &[u8]) -> (u64, io::Result<()>) {
        match self {
            Out::Stream(out) => match out.write_all(lines).and_then(|()| out.flush()) {
                Ok(()) => (0, Ok(())),
                Err(error) => (count(lines), Err(error)),
            },
            Out::Daemon(daemon) => daemon.write(lines),
        }
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

/// The format of a daemon's messages.
enum Speaks {
    Syslog(Heads),
    Journald,
}

/// The text before each syslog message: `before`, the time, `behind`.
struct Heads {
    before: String,
    behind: String,
}

impl Heads {
    //= rfc5424 §6.2.1   PRIVAL is the facility times eight and the severity
    fn new(syslog: &Syslog) -> Heads {
        let priority = syslog.facility * 8 + INFORMATIONAL;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        //= rfc5424 §6.2.4   printable US-ASCII without blanks, at most 255; "-" where it is not known
        let is_right =
            !host.is_empty() && host.len() <= 255 && host.bytes().all(|b| b.is_ascii_graphic());
        let host = if is_right { host } else { "-".to_owned() };
        let pid = std::process::id();
        Heads {
            before: format!("<{priority}>1 "),
            behind: format!(" {host} loligo {pid} access - "),
        }
    }
}

/// The socket of a daemon.
pub struct Daemon {
    speaks: Speaks,
    at: SyslogAt,
    open: Option<Socket>,
    message: Vec<u8>,
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn open(at: &SyslogAt) -> io::Result<Socket> {
        match at {
            SyslogAt::Socket(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(WAIT_MAX))?;
                Ok(Socket::Unix(socket))
            }
            SyslogAt::Udp(address) => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(WAIT_MAX))?;
                Ok(Socket::Udp(socket))
            }
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.send(message),
            Socket::Udp(socket) => socket.send(message),
        }
    }
}

impl Daemon {
    fn new(speaks: Speaks, at: SyslogAt) -> Daemon {
        Daemon {
            speaks,
            at,
            open: None,
            message: Vec::new(),
        }
    }

    fn write(&mut self, lines: &[u8]) -> (u64, io::Result<()>) {
        let mut now = Vec::new();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        profile::time_text(since_1970.unwrap_or_default().as_micros() as u64, &mut now);
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.put_together(&rest[..end], &now);
            if let Err(error) = self.send() {
                self.open = None;
                let why = io::Error::new(error.kind(), format!("{}: {error}", self.at));
                return (count(rest), Err(why));
            }
            rest = &rest[end + 1..];
        }
        (0, Ok(()))
    }

    fn put_together(&mut self, line: &[u8], now: &[u8]) {
        let message = &mut self.message;
        message.clear();
        match &self.speaks {
            Speaks::Syslog(heads) => {
                message.extend_from_slice(heads.before.as_bytes());
                message.extend_from_slice(now);
                message.extend_from_slice(heads.behind.as_bytes());
                message.extend_from_slice(line);
            }
            Speaks::Journald => {
                message
                    .extend_from_slice(b"SYSLOG_IDENTIFIER=loligo\nLOLIGO_LOG=access\nPRIORITY=");
                message.extend_from_slice(&[b'0' + INFORMATIONAL, b'\n']);
                message.extend_from_slice(b"MESSAGE=");
                message.extend_from_slice(line);
                message.push(b'\n');
            }
        }
    }

    /// Sends the message; tries once more on a new socket, in case the daemon was restarted.
    fn send(&mut self) -> io::Result<()> {
        if let Some(socket) = &self.open {
            match socket.send(&self.message) {
                Ok(_) => return Ok(()),
                // The daemon runs but does not read.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        let socket = Socket::open(&self.at)?;
        socket.send(&self.message)?;
        self.open = Some(socket);
        Ok(())
    }
}

/// The error of a stream, with the stream's name.
pub fn named(target: &LogTarget, error: io::Error) -> io::Error {
    match target {
        LogTarget::Stdout => naming("standard output", &error),
        LogTarget::File(path) => naming(Path::display(path), &error),
        LogTarget::Syslog(_) | LogTarget::Journald => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn syslog(path: &Path) -> Out {
        let syslog = Syslog {
            at: SyslogAt::Socket(path.to_owned()),
            facility: 23,
        };
        Out::open(&LogTarget::Syslog(syslog)).unwrap()
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 2000];
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    #[test]
    fn each_line_is_a_message_of_rfc_5424() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut out = syslog(&path);
        assert_eq!(out.write(b"one\ntwo 2\n").0, 0);
        for line in ["one", "two 2"] {
            let message = received(&daemon);
            let words: Vec<&str> = message.splitn(8, ' ').collect();
            assert_eq!(
                (words[0], words[3], words[7]),
                ("<190>1", "loligo", line),
                "{message}"
            );
            assert!(words[1].ends_with('Z') && words[1].len() == 27, "{message}");
            assert_eq!(
                (words[4], words[5], words[6]),
                (&*std::process::id().to_string(), "access", "-")
            );
        }
    }

    #[test]
    fn a_line_goes_to_the_journal_with_its_priority() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut out = Out::Daemon(Daemon::new(Speaks::Journald, SyslogAt::Socket(path)));
        assert_eq!(out.write(b"GET / 200\n").0, 0);
        assert_eq!(
            received(&daemon),
            "SYSLOG_IDENTIFIER=loligo\nLOLIGO_LOG=access\nPRIORITY=6\nMESSAGE=GET / 200\n"
        );
    }

    #[test]
    fn over_udp_as_well() {
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        daemon
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let at = SyslogAt::Udp(daemon.local_addr().unwrap());
        let mut out = Out::open(&LogTarget::Syslog(Syslog { at, facility: 1 })).unwrap();
        assert_eq!(out.write(b"a line\n").0, 0);
        let mut buffer = [0; 500];
        let len = daemon.recv(&mut buffer).unwrap();
        assert!(buffer[..len].starts_with(b"<14>1 ") && buffer[..len].ends_with(b" a line"));
    }

    #[test]
    fn a_daemon_that_is_started_anew_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut out = syslog(&path);
        let (lost, why) = out.write(b"one\ntwo\n");
        assert_eq!(lost, 2);
        assert!(why.unwrap_err().to_string().contains("log: "));
        let first = UnixDatagram::bind(&path).unwrap();
        assert_eq!(out.write(b"three\n").0, 0);
        drop(first);
        std::fs::remove_file(&path).unwrap();
        let second = UnixDatagram::bind(&path).unwrap();
        assert_eq!(out.write(b"four\n").0, 0);
        assert!(received(&second).ends_with("four"));
    }

    #[test]
    fn a_daemon_that_does_not_read_costs_one_wait_and_the_rest_of_the_batch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let mut out = syslog(&path);
        let many = "a line that nobody reads\n".repeat(20_000);
        let began = Instant::now();
        let (lost, why) = out.write(many.as_bytes());
        assert!(why.is_err());
        assert!((10_000..20_000).contains(&lost), "{lost}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}
