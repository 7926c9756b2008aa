//! Whole answers, for checks and for filling caches: a GET, and its answer in memory. What is read as it comes is read by `wire`.
//!
//! A connection that breaks before a byte of the answer has come is opened anew once: a server may close an idle
//! connection at any time.
//!
//! Limits: those of `wire`; the body is held in memory.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::progress::Progress;
use crate::wire::{Connection, Ended, Head, Receiver};

/// A response.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    head: Head,
    pub body: Vec<u8>,
}

impl Receiver for Answer {
    fn head(&mut self, head: &Head) -> bool {
        self.status = head.status;
        self.head.clone_from(head);
        true
    }

    fn body(&mut self, piece: &[u8]) -> bool {
        self.body.extend_from_slice(piece);
        true
    }
}

/// One connection to a server, opened when it is needed.
pub struct Client(Connection);

impl Client {
    /// A client of this server. Nothing is opened yet.
    pub fn new(address: SocketAddr) -> Self {
        Self(Connection::new(address))
    }

    /// Asks for a path.
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        let mut answer = Answer::default();
        match self.0.ask_repeatably("GET", path, &[], &mut answer) {
            Ended::Broken { reason, .. } => {
                fail!("GET http://{}{path}: {reason}", self.0.address())
            }
            Ended::Whole | Ended::HungUp => Ok(answer),
        }
    }
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
    use std::io::{Read as _, Write as _};
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
        assert_eq!(client.get("/").unwrap().head.field("AGE"), Some("7"));
    }

    #[test]
    fn a_short_body_is_an_error() {
        let mut client = Client::new(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        ]));
        let failure = client.get("/").unwrap_err().to_string();
        assert!(
            failure.ends_with("closed 4 bytes before the end of 9"),
            "{failure}"
        );
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
