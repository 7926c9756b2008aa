//! A client that reads large bodies and drops them: blocking threads with a connection each.
//!
//! It reads with a large buffer and checks only the length, so that it costs as little as possible. The bytes are
//! checked once beforehand ([`check`]). Its own CPU time is not part of a server's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::failure::{During, Result, fail};
use crate::origin;

/// Size of one read.
const READ_BYTES: usize = 256 << 10;
/// Longest header section of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A server that sends nothing for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The objects of the requests.
#[derive(Debug, Clone)]
pub enum Wish {
    /// One object, over and over.
    One { bytes: u64, id: String },
    /// A random object among a number of this size.
    Any {
        bytes: u64,
        prefix: String,
        count: u64,
    },
    /// A new object for each request.
    New { bytes: u64, prefix: String },
    /// A range of this length of an object, at a random offset.
    Range { of: u64, id: String, bytes: u64 },
}

/// The end of a load.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// After this many answers of all clients together.
    Answers(u64),
    /// After this time; answers in flight then are aborted and not counted.
    Time(Duration),
}

/// The counts of a load.
#[derive(Debug, Clone, Copy)]
pub struct Pulled {
    pub answers: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    pub seconds: f64,
}

struct Shared<'a> {
    address: SocketAddr,
    wish: &'a Wish,
    until: Until,
    begun: Instant,
    next: AtomicU64,
    answers: AtomicU64,
    bytes: AtomicU64,
    stop: &'a AtomicBool,
}

/// Loads the server with this many clients.
pub fn pull(address: SocketAddr, wish: &Wish, clients: u32, until: Until) -> Result<Pulled> {
    pull_until(address, wish, clients, until, &AtomicBool::new(false))
}

/// As [`pull`]; also ends once `stop` is set.
pub fn pull_until(
    address: SocketAddr,
    wish: &Wish,
    clients: u32,
    until: Until,
    stop: &AtomicBool,
) -> Result<Pulled> {
    let shared = Shared {
        address,
        wish,
        until,
        begun: Instant::now(),
        next: AtomicU64::new(0),
        answers: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        stop,
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || client(shared, number))
            })
            .collect();
        let ends = clients.into_iter().map(|it| it.join().expect("no panic"));
        ends.collect::<Result<Vec<()>>>()
    })?;
    Ok(Pulled {
        answers: shared.answers.load(Ordering::SeqCst),
        bytes: shared.bytes.load(Ordering::SeqCst),
        seconds: shared.begun.elapsed().as_secs_f64(),
    })
}

/// Compares all bytes of this object with the origin's.
pub fn check(address: SocketAddr, bytes: u64, id: &str) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let mut checked = origin::Checking::of(id);
    let mut is_right = true;
    let came = connection.ask(&origin::path(bytes, id), None, |piece| {
        is_right &= checked.takes(piece);
        true
    })?;
    if came != Some(bytes) || !is_right {
        fail!("{id}: not the bytes of the origin ({came:?} of {bytes})");
    }
    Ok(())
}

fn client(shared: &Shared<'_>, number: u32) -> Result<()> {
    let mut connection = Connection::open(shared.address)?;
    let mut random = Chance::new(u64::from(number) + 1);
    let is_over = || {
        shared.stop.load(Ordering::Relaxed)
            || matches!(shared.until, Until::Time(time) if shared.begun.elapsed() >= time)
    };
    while !is_over() {
        let nth = shared.next.fetch_add(1, Ordering::Relaxed);
        if matches!(shared.until, Until::Answers(most) if nth >= most) {
            break;
        }
        let (path, range) = match shared.wish {
            Wish::One { bytes, id } => (origin::path(*bytes, id), None),
            Wish::Any {
                bytes,
                prefix,
                count,
            } => {
                let id = format!("{prefix}{}", random.below(*count));
                (origin::path(*bytes, &id), None)
            }
            Wish::New { bytes, prefix } => (origin::path(*bytes, &format!("{prefix}{nth}")), None),
            Wish::Range { of, id, bytes } => {
                let from = random.below(of - bytes);
                (origin::path(*of, id), Some((from, from + bytes - 1)))
            }
        };
        let came = connection.ask(&path, range, |piece| {
            shared
                .bytes
                .fetch_add(piece.len() as u64, Ordering::Relaxed);
            !is_over()
        })?;
        if came.is_none() {
            break;
        }
        shared.answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

struct Connection {
    stream: TcpStream,
    host: SocketAddr,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).during(|| format!("connecting to {address}"))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .during(|| "setting a time limit".into())?;
        Ok(Self {
            stream,
            host: address,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sends a request and passes the body to `take` in pieces; returns its length, or `None` if `take` wanted no more.
    fn ask(
        &mut self,
        path: &str,
        range: Option<(u64, u64)>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>> {
        let during = || format!("asking {} for {path}", self.host);
        let range_line = range.map_or(String::new(), |(first, last)| {
            format!("Range: bytes={first}-{last}\r\n")
        });
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{range_line}\r\n",
            self.host
        );
        self.stream.write_all(request.as_bytes()).during(during)?;
        let mut filled = 0;
        let head_len = loop {
            let n = self
                .stream
                .read(&mut self.buffer[filled..])
                .during(during)?;
            filled += n;
            if let Some(end) = memchr::memmem::find(&self.buffer[..filled], b"\r\n\r\n") {
                break end + 4;
            }
            if n == 0 || filled > HEAD_BYTES_MAX {
                fail!("{path}: no whole head");
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_len]).to_ascii_lowercase();
        let status = if range.is_some() { " 206 " } else { " 200 " };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|value| value.trim().parse::<u64>().ok());
        let (Some(length), true) = (
            length,
            head.lines().next().is_some_and(|l| l.contains(status)),
        ) else {
            fail!("{path}: not the answer that was asked for: {head}");
        };
        let mut came = (filled - head_len) as u64;
        if came > 0 && !take(&self.buffer[head_len..filled]) {
            return Ok(None);
        }
        while came < length {
            let n = self.stream.read(&mut self.buffer).during(during)?;
            if n == 0 {
                fail!("{path}: it ended after {came} of {length} bytes");
            }
            came += n as u64;
            if !take(&self.buffer[..n]) && came < length {
                return Ok(None);
            }
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    #[test]
    fn it_takes_what_was_asked_for() {
        let origin = Origin::start(0, 1).unwrap();
        check(origin.address(), 3_000_000, "a").unwrap();
        let wish = Wish::Any {
            bytes: 100_000,
            prefix: "p".into(),
            count: 3,
        };
        let pulled = pull(origin.address(), &wish, 2, Until::Answers(7)).unwrap();
        assert_eq!((pulled.answers, pulled.bytes), (7, 700_000));
    }

    #[test]
    fn a_download_is_broken_off_when_the_time_is_over() {
        let origin = Origin::start(0, 1).unwrap();
        let wish = Wish::One {
            bytes: 8 << 30,
            id: "a".into(),
        };
        let time = Until::Time(Duration::from_millis(50));
        let pulled = pull(origin.address(), &wish, 1, time).unwrap();
        assert_eq!(pulled.answers, 0);
        assert!((1..8 << 30).contains(&pulled.bytes));
    }

    #[test]
    fn an_answer_to_another_question_is_an_error() {
        // The origin does not support ranges.
        let origin = Origin::start(0, 1).unwrap();
        let wish = Wish::Range {
            of: 100_000,
            id: "a".into(),
            bytes: 1000,
        };
        assert!(pull(origin.address(), &wish, 1, Until::Answers(1)).is_err());
    }
}
