//! A plain HTTP/1.1 client for checks and for filling caches.
//!
//! Blocking, one connection, GET only. It exists so that the answers of a server under test are looked at by code
//! that shares nothing with it. A connection that breaks before a byte of the answer has come is opened anew once: a
//! server may close an idle connection at any time.
//!
//! Limits: waits of [`WAIT_MAX`]; a head of [`HEAD_BYTES_MAX`]; the body is held in memory.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::progress::Progress;

/// The longest wait for a byte.
const WAIT_MAX: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// One connection to a server, opened when it is needed.
pub struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
    /// Bytes received and not yet used.
    buffer: Vec<u8>,
}

impl Client {
    /// A client of this server. Nothing is opened yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            buffer: Vec::new(),
        }
    }

    /// Asks for a path.
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        let reused = self.stream.is_some();
        let answer = match self.exchange(path) {
            Err(Broken {
                untouched: true, ..
            }) if reused => self.exchange(path),
            other => other,
        };
        answer.map_err(|broken| {
            self.stream = None;
            Failure::new(format!(
                "GET http://{}{path}: {}",
                self.address, broken.reason
            ))
        })
    }

    fn exchange(&mut self, path: &str) -> Result<Answer, Broken> {
        let early = |e: io::Error| Broken {
            untouched: true,
            reason: e.to_string(),
        };
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, WAIT_MAX).map_err(early)?;
                stream.set_nodelay(true).map_err(early)?;
                stream.set_read_timeout(Some(WAIT_MAX)).map_err(early)?;
                stream.set_write_timeout(Some(WAIT_MAX)).map_err(early)?;
                stream
            }
        };
        self.buffer.clear();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).map_err(early)?;

        let head_end = loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(Broken::late("the head of the answer is too long"));
            }
            if self.fill(&mut stream)? == 0 {
                return Err(Broken {
                    untouched: self.buffer.is_empty(),
                    reason: "connection closed before an answer".into(),
                });
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        self.buffer.drain(..head_end + 4);
        let (status, fields) =
            parse_head(&head).ok_or_else(|| Broken::late("the answer is not HTTP"))?;
        let mut answer = Answer {
            status,
            fields,
            body: Vec::new(),
        };
        let closes = answer
            .field("connection")
            .is_some_and(|v| v.eq_ignore_ascii_case("close"));
        let chunked = answer
            .field("transfer-encoding")
            .is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let length = answer.field("content-length").map(str::parse::<usize>);
        let mut keep = !closes;
        answer.body = match (chunked, length) {
            (true, _) => self.chunked(&mut stream)?,
            (false, Some(Ok(length))) => self.take(&mut stream, length)?,
            (false, Some(Err(_))) => return Err(Broken::late("Content-Length is not a number")),
            (false, None) if matches!(status, 204 | 304) => Vec::new(),
            (false, None) => {
                keep = false;
                while self.fill(&mut stream)? > 0 {}
                std::mem::take(&mut self.buffer)
            }
        };
        self.stream = keep.then_some(stream);
        Ok(answer)
    }

    fn fill(&mut self, stream: &mut TcpStream) -> Result<usize, Broken> {
        // A server that writes head and body apart with Nagle's algorithm on (Squid does) waits for our acknowledgement,
        // and without this we would take 40 ms for it. The kernel forgets the setting, so it is set each time.
        let _ = rustix::net::sockopt::set_tcp_quickack(&*stream, true);
        let old = self.buffer.len();
        self.buffer.resize(old + READ_BYTES, 0);
        let read = stream.read(&mut self.buffer[old..]);
        self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        read.map_err(|e| Broken {
            untouched: old == 0 && e.kind() == io::ErrorKind::ConnectionReset,
            reason: e.to_string(),
        })
    }

    fn take(&mut self, stream: &mut TcpStream, length: usize) -> Result<Vec<u8>, Broken> {
        while self.buffer.len() < length {
            if self.fill(stream)? == 0 {
                let got = self.buffer.len();
                return Err(Broken::late(&format!(
                    "connection closed after {got} of {length} bytes"
                )));
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn line(&mut self, stream: &mut TcpStream) -> Result<String, Broken> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                let line = self.take(stream, end + 2)?;
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.fill(stream)? == 0 {
                return Err(Broken::late("connection closed within a chunked body"));
            }
        }
    }

    fn chunked(&mut self, stream: &mut TcpStream) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let line = self.line(stream)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16)
                .map_err(|_| Broken::late("a chunk size is not a number"))?;
            if size == 0 {
                while !self.line(stream)?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(stream, size)?);
            self.line(stream)?;
        }
    }
}

/// An exchange that did not end well.
struct Broken {
    /// Nothing of the answer had come: another attempt cannot do harm.
    untouched: bool,
    reason: String,
}

impl Broken {
    fn late(reason: &str) -> Self {
        Self {
            untouched: false,
            reason: reason.to_owned(),
        }
    }
}

fn parse_head(head: &str) -> Option<(u16, Vec<(String, String)>)> {
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?.strip_prefix("HTTP/1.")?;
    let status = status_line.get(2..5)?.parse().ok()?;
    let fields = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    Some((status, fields))
}

/// Asks for `paths(0)` to `paths(count - 1)` over several connections, in rising order but for the overlap of the
/// connections. Ends at the first error, at the first answer that `accept` finds wrong, or when interrupted.
pub fn load(
    address: SocketAddr,
    title: &str,
    count: u64,
    connections: usize,
    paths: impl Fn(u64) -> String + Sync,
    accept: impl Fn(u64, &Answer) -> bool + Sync,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let trouble: Mutex<Option<Failure>> = Mutex::new(None);
    let mut progress = Progress::new(title, count);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::new(address);
                    while !stop.load(Ordering::Relaxed) {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= count {
                            return;
                        }
                        let failure = match client.get(&paths(n)) {
                            Ok(answer) if accept(n, &answer) => continue,
                            Ok(answer) => Failure::new(format!(
                                "GET http://{address}{}: wrong answer: status {}, {} bytes",
                                paths(n),
                                answer.status,
                                answer.body.len()
                            )),
                            Err(failure) => failure,
                        };
                        stop.store(true, Ordering::Relaxed);
                        trouble
                            .lock()
                            .expect("no thread panics holding this")
                            .get_or_insert(failure);
                    }
                })
            })
            .collect();
        while !workers.iter().all(|w| w.is_finished()) {
            if interrupt::pause(Duration::from_millis(50)).is_err() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
            progress.at(next.load(Ordering::Relaxed).min(count));
        }
    });
    interrupt::check()?;
    match trouble.into_inner().expect("no thread panics holding this") {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// `http://127.0.0.1:8000` (or without the scheme) as an address. Only loopback: benches never leave the machine.
pub fn loopback_address(url: &str) -> Result<SocketAddr> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let rest = rest.trim_end_matches('/').replace("localhost", "127.0.0.1");
    let address: SocketAddr = rest
        .parse()
        .during(|| format!("{url:?} is not of the form http://127.0.0.1:PORT"))?;
    if !address.ip().is_loopback() {
        fail!("{url} is not on this machine; only 127.0.0.0/8 is used");
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers each connection with one of these texts, then closes it.
    fn server(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn bodies_by_length_by_chunks_and_by_close() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
        ]));
        for _ in 0..3 {
            let answer = client.get("/").unwrap();
            assert_eq!(
                (answer.status, answer.body.as_slice()),
                (200, &b"hello"[..])
            );
        }
    }

    #[test]
    fn an_idle_connection_that_was_closed_is_opened_anew() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAge: 7\r\n\r\n",
        ]));
        client.get("/").unwrap();
        assert_eq!(client.get("/").unwrap().field("AGE"), Some("7"));
    }

    #[test]
    fn a_short_body_is_an_error() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        ]));
        let failure = client.get("/").unwrap_err().to_string();
        assert!(failure.ends_with("closed after 5 of 9 bytes"), "{failure}");
    }

    #[test]
    fn only_loopback_is_used() {
        assert!(loopback_address("http://127.0.0.1:80/").is_ok());
        assert!(loopback_address("localhost:80").is_ok());
        assert!(loopback_address("http://192.0.2.1:80").is_err());
    }

    #[test]
    fn a_load_stops_at_a_wrong_answer() {
        let origin = crate::origin::Origin::start(0, 1).unwrap();
        let name = |n: u64| crate::origin::path(100, &n.to_string());
        let good = |n: u64, a: &Answer| crate::origin::is_body_of(&a.body, &n.to_string());
        load(origin.address(), "test", 200, 4, name, good).unwrap();
        assert_eq!(origin.served(), 200);
        assert!(load(origin.address(), "test", 200, 4, name, |n, _| n < 10).is_err());
    }
}
