//! HTTP/1.1 as the clients of checks, benches and tortures need it: bodies are handed on as they come, and how an answer ended is
//! told apart.
//!
//! An answer that stops before its framing says so is [`Ended::Broken`], which a kill may cause; one that ends by its
//! framing is [`Ended::Whole`], and whether that was the right length is for the receiver to say. Blocking. It shares nothing with
//! the proxy: the answers of a server under test are looked at by other code than its own.
//!
//! Limits: waits of [`WAIT_MAX`]; a head of [`HEAD_BYTES_MAX`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest wait for a byte: what a patient client bears.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;
/// What the kernel may receive ahead of a slow reader.
const NARROW_BYTES: usize = 8 << 10;

/// The head of an answer.
#[derive(Debug, Clone, Default)]
pub struct Head {
    pub status: u16,
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let status_line = lines.next()?.strip_prefix("HTTP/1.")?;
        Some(Self {
            status: status_line.get(2..5)?.parse().ok()?,
            fields: lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        })
    }
}

/// Who looks at an answer as it comes. False: enough seen, hang up.
pub trait Receiver {
    fn head(&mut self, head: &Head) -> bool;
    fn body(&mut self, piece: &[u8]) -> bool;
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As its framing says.
    Whole,
    /// The receiver had enough.
    HungUp,
    /// Early. Had its head come?
    Broken { after_head: bool, reason: String },
}

/// A connection, opened when it is needed.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    after_head: bool,
    /// Nothing of an answer has come.
    is_untouched: bool,
    is_narrow: bool,
    longest_wait: Duration,
}

enum Stop {
    HungUp,
    Broken(String),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Broken(e.to_string())
    }
}

fn broken(reason: &str) -> Stop {
    Stop::Broken(reason.to_owned())
}

impl Connection {
    /// To this server. Nothing is opened yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            buffer: Vec::new(),
            after_head: false,
            is_untouched: true,
            is_narrow: false,
            longest_wait: Duration::ZERO,
        }
    }

    /// To this server, for a slow reader: next to nothing waits in this end's kernel, so that the other end is held up.
    pub fn narrow(address: SocketAddr) -> Self {
        Self {
            is_narrow: true,
            ..Self::new(address)
        }
    }

    /// To whom.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// During the last request: how long nothing came while something was waited for.
    pub fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// Closes it; the next request opens another.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Sends a request, without body or with a small one, and hands on what comes.
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        to: &mut dyn Receiver,
    ) -> Ended {
        self.after_head = false;
        self.is_untouched = true;
        self.longest_wait = Duration::ZERO;
        let mut stream = match self.stream.take().map_or_else(|| self.open(), Ok) {
            Ok(stream) => stream,
            Err(e) => {
                return Ended::Broken {
                    after_head: false,
                    reason: e.to_string(),
                };
            }
        };
        match self.exchange(&mut stream, method, target, fields, body, to) {
            Ok(keep) => {
                self.stream = keep.then_some(stream);
                Ended::Whole
            }
            Err(Stop::HungUp) => Ended::HungUp,
            Err(Stop::Broken(reason)) => Ended::Broken {
                after_head: self.after_head,
                reason,
            },
        }
    }

    /// The same for a request that may be sent twice: once more on a new connection, if the old one was closed while nobody used it.
    pub fn ask_repeatably(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        to: &mut dyn Receiver,
    ) -> Ended {
        let was_open = self.stream.is_some();
        match self.ask(method, target, fields, b"", to) {
            Ended::Broken { .. } if was_open && self.is_untouched => {
                self.ask(method, target, fields, b"", to)
            }
            ended => ended,
        }
    }

    fn open(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, WAIT_MAX)?;
        stream.set_nodelay(true)?;
        if self.is_narrow {
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, NARROW_BYTES)?;
        }
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        Ok(stream)
    }

    fn exchange(
        &mut self,
        stream: &mut TcpStream,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        to: &mut dyn Receiver,
    ) -> Result<bool, Stop> {
        self.buffer.clear();
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in fields {
            request += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        stream.write_all(&request)?;

        let end = loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(broken("the head of the answer is too long"));
            }
            if self.fill(stream)? == 0 {
                return Err(broken("closed before an answer"));
            }
        };
        let head = Head::parse(&String::from_utf8_lossy(&self.buffer[..end]))
            .ok_or_else(|| broken("the answer is not HTTP"))?;
        self.buffer.drain(..end + 4);
        self.after_head = true;
        let length = head.field("content-length").map(str::parse::<u64>);
        let is = |name: &str, value: &str| {
            head.field(name)
                .is_some_and(|v| v.eq_ignore_ascii_case(value))
        };
        let (chunked, closes) = (
            is("transfer-encoding", "chunked"),
            is("connection", "close"),
        );
        if !to.head(&head) {
            return Err(Stop::HungUp);
        }
        match (chunked, length) {
            (true, _) => self.chunks(stream, to)?,
            (false, Some(Ok(length))) => self.take(stream, length, to)?,
            (false, Some(Err(_))) => return Err(broken("Content-Length is not a number")),
            (false, None) if matches!(head.status, 204 | 304) => {}
            (false, None) => loop {
                let piece = std::mem::take(&mut self.buffer);
                if !to.body(&piece) {
                    return Err(Stop::HungUp);
                }
                if self.fill(stream)? == 0 {
                    return Ok(false);
                }
            },
        }
        Ok(!closes && self.buffer.is_empty())
    }

    fn fill(&mut self, stream: &mut TcpStream) -> Result<usize, Stop> {
        // A server that writes head and body apart with Nagle's algorithm on (Squid does) waits for our acknowledgement,
        // and without this we would take 40 ms for it. The kernel forgets the setting, so it is set each time.
        let _ = rustix::net::sockopt::set_tcp_quickack(&*stream, true);
        let old = self.buffer.len();
        self.buffer.resize(old + READ_BYTES, 0);
        let begun = Instant::now();
        let read = stream.read(&mut self.buffer[old..]);
        self.longest_wait = self.longest_wait.max(begun.elapsed());
        let came = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(old + came);
        self.is_untouched &= came == 0;
        match read {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                Err(broken("nothing came for too long"))
            }
            other => Ok(other?),
        }
    }

    /// Hands on this many bytes.
    fn take(
        &mut self,
        stream: &mut TcpStream,
        length: u64,
        to: &mut dyn Receiver,
    ) -> Result<(), Stop> {
        let mut left = length;
        while left > 0 {
            if self.buffer.is_empty() && self.fill(stream)? == 0 {
                return Err(Stop::Broken(format!(
                    "closed {left} bytes before the end of {length}"
                )));
            }
            let n = left.min(self.buffer.len() as u64) as usize;
            if !to.body(&self.buffer[..n]) {
                return Err(Stop::HungUp);
            }
            self.buffer.drain(..n);
            left -= n as u64;
        }
        Ok(())
    }

    fn line(&mut self, stream: &mut TcpStream) -> Result<String, Stop> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            if self.fill(stream)? == 0 {
                return Err(broken("closed within a chunked body"));
            }
        }
    }

    fn chunks(&mut self, stream: &mut TcpStream, to: &mut dyn Receiver) -> Result<(), Stop> {
        loop {
            let line = self.line(stream)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16)
                .map_err(|_| broken("a chunk size is not a number"))?;
            if size == 0 {
                while !self.line(stream)?.is_empty() {}
                return Ok(());
            }
            self.take(stream, size, to)?;
            self.line(stream)?;
        }
    }
}
