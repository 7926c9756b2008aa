//! The HTTP client of checks, benches and tortures: sends a request, and passes the answer on as it arrives.
//!
//! An answer that ends before its framing says so is [`Ended::Broken`], which a kill may cause. One that ends by its
//! framing is [`Ended::Whole`]; the receiver judges whether its length was right. Blocking.
//!
//! Limits: waits of [`WAIT_MAX`]; the limits of crate `wire`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wire::{Cut, Response};

use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::progress::Progress;

/// The longest wait for a byte, as of a patient client.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest wait for a connection, as of a balancer.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// A waiting client checks this often whether its server is gone, as behind a balancer.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes that the kernel may receive ahead of a slow reader.
const NARROW_BYTES: usize = 8 << 10;

/// Receives an answer as it arrives. False: hang up.
pub trait Receiver {
    fn head(&mut self, head: &Response) -> bool;
    fn body(&mut self, piece: &[u8]) -> bool;
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The answer is complete by its framing.
    Whole,
    /// The receiver returned false.
    HungUp,
    /// The answer ended early; `after_head` says whether its head had arrived.
    Broken { after_head: bool, reason: String },
}

/// A whole answer in memory.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Receiver for Answer {
    fn head(&mut self, head: &Response) -> bool {
        self.status = head.status;
        true
    }

    fn body(&mut self, piece: &[u8]) -> bool {
        self.body.extend_from_slice(piece);
        true
    }
}

/// A stream that measures the reader's longest wait.
#[derive(Debug)]
struct Watched {
    stream: TcpStream,
    /// Waits end when this becomes false.
    while_open: Option<Arc<AtomicBool>>,
    longest_wait: Duration,
    /// No byte has arrived since the last request.
    is_untouched: bool,
}

impl Watched {
    /// Waits up to [`WAIT_MAX`], or until `while_open` becomes false.
    fn read_patiently(&mut self, into: &mut [u8], begun: Instant) -> io::Result<usize> {
        loop {
            let read = self.stream.read(into);
            let is_given_up = match &self.while_open {
                Some(open) => !open.load(Ordering::Relaxed) || begun.elapsed() >= WAIT_MAX,
                None => true,
            };
            match &read {
                Err(e) if is_timeout(e) && !is_given_up => {}
                _ => return read,
            }
        }
    }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A server that writes head and body apart with Nagle's algorithm on (Squid does) waits for our acknowledgement,
        // and without this we would take 40 ms for it. The kernel forgets the setting, so it is set each time.
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        let begun = Instant::now();
        let read = self.read_patiently(into, begun);
        self.longest_wait = self.longest_wait.max(begun.elapsed());
        self.is_untouched &= !matches!(read, Ok(1..));
        read
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request. With a body it has a Content-Length.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    pub body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// A request with method and target only.
    pub fn of(method: &'a str, target: &'a str) -> Self {
        Self {
            method,
            target,
            fields: &[],
            body: None,
        }
    }

    fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {host}\r\n",
            self.method, self.target
        );
        for (name, value) in self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = self.body {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        [text.as_bytes(), self.body.unwrap_or_default()].concat()
    }
}

/// A client with one connection to one server, opened when needed.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    open: Option<wire::Connection<Watched>>,
    is_narrow: bool,
    while_open: Option<Arc<AtomicBool>>,
    /// During the last request.
    longest_wait: Duration,
    is_untouched: bool,
}

impl Client {
    /// A client without a connection yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            open: None,
            is_narrow: false,
            while_open: None,
            longest_wait: Duration::ZERO,
            is_untouched: true,
        }
    }

    /// A slow reader with a small receive buffer, so that the server is blocked.
    pub fn narrow(address: SocketAddr) -> Self {
        Self {
            is_narrow: true,
            ..Self::new(address)
        }
    }

    /// A client behind a balancer that ends waiting requests when its server is gone.
    pub fn while_open(address: SocketAddr, open: Arc<AtomicBool>) -> Self {
        Self {
            while_open: Some(open),
            ..Self::new(address)
        }
    }

    /// The longest wait for a byte during the last request.
    pub fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// Closes the connection; the next request opens another.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Sends a request and passes the answer to `to`.
    pub fn ask(&mut self, request: Request<'_>, to: &mut dyn Receiver) -> Ended {
        let mut after_head = false;
        let opened = self.open.take().map_or_else(|| self.connect(), Ok);
        let ended = opened.map_err(|e| e.to_string()).and_then(|mut open| {
            open.stream_mut().longest_wait = Duration::ZERO;
            open.stream_mut().is_untouched = true;
            let message = request.bytes(self.address);
            let answered = answer(&mut open, &message, request.method, &mut after_head, to);
            self.longest_wait = open.stream().longest_wait;
            self.is_untouched = open.stream().is_untouched;
            match answered {
                Ok(keeps_alive) => {
                    self.open = keeps_alive.then_some(open);
                    Ok(Ended::Whole)
                }
                Err(Cut::Enough) => Ok(Ended::HungUp),
                Err(cut) => Err(cut.to_string()),
            }
        });
        ended.unwrap_or_else(|reason| Ended::Broken { after_head, reason })
    }

    /// As [`Client::ask`], for a request that may be sent twice: sends it again on a new connection if the server closed the old one
    /// before the first byte of the answer, as a server may at any time.
    pub fn ask_repeatably(&mut self, request: Request<'_>, to: &mut dyn Receiver) -> Ended {
        let was_open = self.open.is_some();
        match self.ask(request, to) {
            Ended::Broken { .. } if was_open && self.is_untouched => self.ask(request, to),
            ended => ended,
        }
    }

    /// Requests a path and returns the whole answer.
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        let mut answer = Answer::default();
        match self.ask_repeatably(Request::of("GET", path), &mut answer) {
            Ended::Broken { reason, .. } => fail!("GET http://{}{path}: {reason}", self.address),
            Ended::Whole | Ended::HungUp => Ok(answer),
        }
    }

    fn connect(&self) -> io::Result<wire::Connection<Watched>> {
        let (connecting, reading) = match self.while_open {
            Some(_) => (CONNECT_MAX, LOOK_EVERY),
            None => (WAIT_MAX, WAIT_MAX),
        };
        let stream = TcpStream::connect_timeout(&self.address, connecting)?;
        stream.set_nodelay(true)?;
        if self.is_narrow {
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, NARROW_BYTES)?;
        }
        stream.set_read_timeout(Some(reading))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        Ok(wire::Connection::new(Watched {
            while_open: self.while_open.clone(),
            stream,
            longest_wait: Duration::ZERO,
            is_untouched: true,
        }))
    }
}

/// Sends a message and reads one answer. Returns whether another request may follow.
fn answer(
    open: &mut wire::Connection<Watched>,
    message: &[u8],
    method: &str,
    after_head: &mut bool,
    to: &mut dyn Receiver,
) -> Result<bool, Cut> {
    open.send(message)?;
    let head: Response = open.head()?;
    *after_head = true;
    if !to.head(&head) {
        return Err(Cut::Enough);
    }
    let framing = head.framing(method)?;
    open.body(framing, &mut |piece| to.body(piece))?;
    Ok(head.keeps_alive() && framing != wire::Framing::Close && open.unused().is_empty())
}

/// Requests `paths(0)` to `paths(count - 1)` over several connections, in ascending order except for the overlap of the
/// connections. Ends at the first error, at the first answer that `accept` rejects, or when interrupted.
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

/// Parses `http://127.0.0.1:8000` (or without the scheme). Only loopback: benches never leave the machine.
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
    fn an_idle_connection_that_was_closed_is_opened_anew() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 201 Made\r\n\r\nup to the end",
        ]));
        client.get("/").unwrap();
        let second = client.get("/").unwrap();
        assert_eq!(
            (second.status, &second.body[..]),
            (201, &b"up to the end"[..])
        );
    }

    #[test]
    fn a_short_body_is_an_error() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        ]));
        let failure = client.get("/").unwrap_err().to_string();
        assert!(failure.ends_with("closed before the end"), "{failure}");
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
