//! The origin: answers each request with the size and bytes that the name determines.
//!
//! Answers may be stored for a year and have both validators. Conditions and single ranges are honoured. There is a thread a
//! connection, because a proxy opens few. A name that is no object gets a 404 that may not be stored.
//!
//! Not known here: what counts as a hit.
//! Limits: [`CONNECTIONS_MAX`] connections, more are closed at once; a connection whose peer takes nothing for [`STALL_MAX`] is closed.
//! Source: RFC 9110 sections 13 and 14.

use std::io::{self, IoSlice, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use wire::{Connection, Request};

use crate::bench::{Answered, Watcher};
use crate::content::Body;
use crate::name::Ask;

/// Most open connections; more are closed at once.
pub const CONNECTIONS_MAX: usize = 1024;
/// A connection is closed if its peer takes no byte for this long.
pub const STALL_MAX: Duration = Duration::from_secs(60);
/// Connections waiting to be accepted.
const BACKLOG: i32 = 4096;
/// Interval at which the accepting thread checks whether it should end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const MODIFIED: &str = "Sat, 01 Jan 2022 00:00:00 GMT";
const FOREVER_S: u32 = 365 * 86_400;

/// An origin with a bound port: connections wait until it serves.
#[derive(Debug)]
pub struct Origin {
    listener: TcpListener,
    address: SocketAddr,
}

/// An origin that answers until it is dropped.
pub(crate) struct Serving {
    stops: Arc<AtomicBool>,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

/// The open connections, so that they can be closed.
#[derive(Default)]
struct Open(Mutex<Vec<(u64, TcpStream)>>);

impl Origin {
    /// Binds the address; port 0 means a free one.
    ///
    /// # Errors
    /// If the address is in use, or not of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener: TcpListener = socket.into();
        // Accepting must not block, so that dropping can end the thread.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address at which this machine can reach the origin.
    pub fn address(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            match address {
                SocketAddr::V4(_) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                SocketAddr::V6(_) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            }
        }
        address
    }

    /// Starts to answer.
    pub(crate) fn serve(&self, watcher: &Arc<dyn Watcher>) -> io::Result<Serving> {
        let listener = self.listener.try_clone()?;
        let stops = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Open::default());
        let accepting = {
            let (stops, open, watcher) = (stops.clone(), open.clone(), watcher.clone());
            std::thread::spawn(move || accept(&listener, &stops, &open, &watcher))
        };
        Ok(Serving {
            stops,
            open,
            accepting: Some(accepting),
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            // The thread has already reported its panic.
            let _ = accepting.join();
        }
        for (_, stream) in self.open.lock().iter() {
            // Ends the thread of this connection.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Open {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u64, TcpStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(
    listener: &TcpListener,
    stops: &AtomicBool,
    open: &Arc<Open>,
    watcher: &Arc<dyn Watcher>,
) {
    let mut number = 0;
    while !stops.load(Ordering::SeqCst) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        number += 1;
        if open.lock().len() >= CONNECTIONS_MAX || !is_ready(&stream, number, open) {
            watcher.refused();
            continue;
        }
        let (open, watcher) = (open.clone(), watcher.clone());
        std::thread::spawn(move || {
            // An error of the proxy is not handled here; the client sees its consequences.
            let _ = converse(stream, watcher.as_ref());
            open.lock().retain(|(other, _)| *other != number);
        });
    }
}

/// Sets the time limits, and adds the connection to the open ones.
fn is_ready(stream: &TcpStream, number: u64, open: &Open) -> bool {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_write_timeout(Some(STALL_MAX)))
        .and_then(|()| stream.try_clone());
    let Ok(twin) = prepared else {
        return false;
    };
    open.lock().push((number, twin));
    true
}

fn converse(stream: TcpStream, watcher: &dyn Watcher) -> Result<(), wire::Cut> {
    let mut connection = Connection::new(stream);
    loop {
        let request: Request = connection.head()?;
        connection.body(request.framing()?, &mut |_| true)?;
        let goes_on = answer(&request, connection.stream_mut(), watcher)?;
        if !goes_on {
            return Ok(());
        }
    }
}

/// Answers one request; returns whether another may follow.
fn answer(request: &Request, stream: &mut TcpStream, watcher: &dyn Watcher) -> io::Result<bool> {
    let closes = request.fields.all("connection").iter().any(|options| {
        let mut options = options.split(',').map(str::trim);
        options.any(|option| option.eq_ignore_ascii_case("close"))
    });
    let keeps = request.minor == 1 && !closes;
    let connection = if keeps { "" } else { "Connection: close\r\n" };
    let date = httpdate::fmt_http_date(SystemTime::now());
    let object = Ask::of(&request.target).map(|(_, ask)| ask);
    let Some(ask) = object.filter(|_| matches!(&request.method[..], "GET" | "HEAD")) else {
        watcher.other();
        let head = format!(
            "HTTP/1.1 404 Not Found\r\nDate: {date}\r\nCache-Control: no-store\r\n{connection}Content-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        return Ok(keeps);
    };
    let size = u64::from(ask.size_bytes);
    let tag = format!("\"{}\"", ask.tag());
    let common = format!(
        "Date: {date}\r\nCache-Control: public, max-age={FOREVER_S}\r\nETag: {tag}\r\nLast-Modified: {MODIFIED}\r\nAccept-Ranges: bytes\r\n{connection}"
    );
    let part = wanted_part(request, &tag, size);
    let (answered, head, part) = if is_unchanged(request, &tag) {
        let head = format!("HTTP/1.1 304 Not Modified\r\n{common}\r\n");
        (Answered::NotModified, head, 0..0)
    } else if let Some(part) = part {
        let (first, last, length) = (part.start, part.end - 1, part.end - part.start);
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\n{common}Content-Type: application/octet-stream\r\nContent-Range: bytes {first}-{last}/{size}\r\nContent-Length: {length}\r\n\r\n"
        );
        (Answered::Part, head, part)
    } else {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{common}Content-Type: application/octet-stream\r\nContent-Length: {size}\r\n\r\n"
        );
        (Answered::Whole, head, 0..size)
    };
    if request.method == "HEAD" {
        watcher.other();
        stream.write_all(head.as_bytes())?;
        return Ok(keeps);
    }
    // Before the first byte is sent: the client's request must be counted before the client has its answer.
    let length = part.end - part.start;
    watcher.asked(&ask, answered, length);
    let mut body = Body::new(ask.object, ask.version, part.start, length);
    let sent = send(stream, head.as_bytes(), &mut body);
    watcher.unsent(body.left());
    sent?;
    Ok(keeps)
}

//= rfc9110 §13.1.2   If-None-Match goes before If-Modified-Since
fn is_unchanged(request: &Request, tag: &str) -> bool {
    if let Some(tags) = request.fields.first("if-none-match") {
        let mut tags = tags.split(',').map(str::trim);
        return tags.any(|it| it == "*" || it.trim_start_matches("W/") == tag);
    }
    let since = request.fields.first("if-modified-since");
    let since = since.and_then(|text| httpdate::parse_http_date(text).ok());
    let modified = httpdate::parse_http_date(MODIFIED).ok();
    since.is_some_and(|since| modified.is_some_and(|modified| modified <= since))
}

/// The requested range if it is a single one that can be satisfied; otherwise none, and the whole object is sent.
//= rfc9110 §14.2   a server may ignore Range
//= rfc9110 §13.1.5   If-Range that does not hold: the whole
fn wanted_part(request: &Request, tag: &str, size: u64) -> Option<Range<u64>> {
    let range = request.fields.first("range")?;
    let if_range = request.fields.first("if-range");
    if if_range.is_some_and(|said| said != tag && said != MODIFIED) {
        return None;
    }
    let (first, last) = range.strip_prefix("bytes=")?.trim().split_once('-')?;
    let part = match (first, last) {
        ("", suffix) => size.saturating_sub(suffix.parse().ok()?)..size,
        (first, "") => first.parse().ok()?..size,
        (first, last) => {
            let end = last.parse::<u64>().ok()?.checked_add(1)?;
            first.parse().ok()?..end.min(size)
        }
    };
    (part.start < part.end).then_some(part)
}

/// Sends head and body; bytes left in `body` were not sent.
fn send(stream: &mut TcpStream, mut head: &[u8], body: &mut Body) -> io::Result<()> {
    while !head.is_empty() || body.left() > 0 {
        let pieces = [IoSlice::new(head), IoSlice::new(body.piece())];
        let written = match stream.write_vectored(&pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let of_head = written.min(head.len());
        head = &head[of_head..];
        body.advance(written - of_head);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use wire::{Framing, Response};

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Told>);

    #[derive(Default)]
    struct Told {
        asked: Vec<(u32, Answered)>,
        bytes: u64,
        others: u64,
    }

    impl Watcher for Seen {
        fn asked(&self, ask: &Ask, answered: Answered, bytes: u64) {
            let mut seen = self.0.lock().unwrap();
            seen.asked.push((ask.object, answered));
            seen.bytes += bytes;
        }

        fn unsent(&self, bytes: u64) {
            self.0.lock().unwrap().bytes -= bytes;
        }

        fn other(&self) {
            self.0.lock().unwrap().others += 1;
        }

        fn refused(&self) {}
    }

    struct Bed {
        seen: Arc<Seen>,
        client: Connection<TcpStream>,
        _serving: Serving,
    }

    fn bed() -> Bed {
        let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let seen = Arc::new(Seen::default());
        let watcher: Arc<dyn Watcher> = seen.clone();
        let serving = origin.serve(&watcher).unwrap();
        let stream = TcpStream::connect(origin.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Bed {
            seen,
            client: Connection::new(stream),
            _serving: serving,
        }
    }

    impl Bed {
        fn ask(&mut self, method: &str, target: &str, fields: &str) -> (Response, Vec<u8>) {
            let text = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            self.client.send(text.as_bytes()).unwrap();
            let head: Response = self.client.head().unwrap();
            let mut body = Vec::new();
            let framing = head.framing(method).unwrap();
            let mut take = |piece: &[u8]| {
                body.extend_from_slice(piece);
                true
            };
            self.client.body(framing, &mut take).unwrap();
            (head, body)
        }
    }

    #[test]
    fn an_object_has_the_bytes_of_its_name_and_may_be_stored() {
        let mut bed = bed();
        for (object, size) in [(1, 0), (2, 1), (3, 3_000_000)] {
            let (head, body) = bed.ask("GET", &format!("/w/s0/o{object}.4/{size}"), "");
            assert_eq!((head.status, body.len()), (200, size));
            assert!(Body::new(object, 4, 0, size as u64).takes(&body));
            assert!(
                head.fields
                    .get("cache-control")
                    .unwrap()
                    .contains("max-age=")
            );
            let tag = format!("\"{object}.4.{size}\"");
            assert_eq!(head.fields.get("etag"), Some(tag.as_str()));
        }
        let (head, _) = bed.ask("GET", "http://origin:80/w/s0/o1.0/5", "");
        assert_eq!(head.fields.get("content-length"), Some("5"));
        let seen = bed.seen.0.lock().unwrap();
        assert_eq!((seen.asked.len(), seen.bytes), (4, 3_000_006));
    }

    #[test]
    fn conditions_and_ranges_are_obeyed() {
        let mut bed = bed();
        let same = "If-None-Match: \"9.1.100\"\r\n";
        assert_eq!(bed.ask("GET", "/w/s0/o9.1/100", same).0.status, 304);
        assert_eq!(bed.ask("GET", "/w/s0/o9.2/100", same).0.status, 200);
        let since = format!("If-Modified-Since: {MODIFIED}\r\n");
        assert_eq!(bed.ask("GET", "/w/s0/o9.1/100", &since).0.status, 304);
        for (range, expected) in [
            ("bytes=10-19", 10..20),
            ("bytes=90-", 90..100),
            ("bytes=-5", 95..100),
            ("bytes=50-1000", 50..100),
        ] {
            let (head, body) = bed.ask("GET", "/w/s0/o9.1/100", &format!("Range: {range}\r\n"));
            assert_eq!(
                (head.status, body.len() as u64),
                (206, expected.end - expected.start)
            );
            let said = format!("bytes {}-{}/100", expected.start, expected.end - 1);
            assert_eq!(head.fields.get("content-range"), Some(said.as_str()));
            assert!(Body::new(9, 1, expected.start, body.len() as u64).takes(&body));
        }
        for fields in [
            "Range: bytes=100-\r\n",
            "Range: bytes=1-2,5-6\r\n",
            "Range: bytes=1-2\r\nIf-Range: \"9.0.100\"\r\n",
        ] {
            assert_eq!(
                bed.ask("GET", "/w/s0/o9.1/100", fields).0.status,
                200,
                "{fields}"
            );
        }
        let seen = bed.seen.0.lock().unwrap();
        let count = |what| seen.asked.iter().filter(|(_, it)| *it == what).count();
        assert_eq!(
            [Answered::Whole, Answered::Part, Answered::NotModified].map(count),
            [4, 4, 2]
        );
    }

    #[test]
    fn probes_are_no_requests_for_objects() {
        let mut bed = bed();
        let (head, body) = bed.ask("HEAD", "/w/s0/o1.0/77", "");
        assert_eq!((head.status, body.len()), (200, 0));
        assert_eq!(head.fields.get("content-length"), Some("77"));
        assert_eq!(bed.ask("GET", "/", "").0.status, 404);
        let (head, _) = bed.ask("POST", "/w/s0/o1.0/77", "Content-Length: 0\r\n");
        assert_eq!(head.status, 404);
        assert_eq!(head.framing("POST"), Ok(Framing::Length(0)));
        let seen = bed.seen.0.lock().unwrap();
        assert_eq!((seen.asked.len(), seen.others), (0, 3));
    }
}
