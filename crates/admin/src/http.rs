//! HTTP/1.1 for the admin interface.
//!
//! Reads a head, lets the caller answer it, writes the answer, and repeats. It uses the proxy's strict parser. Requests must not have a body: one
//! that announces a body is refused with 413.
//!
//! An answer may be an endless stream ([`Answer::stream`]); the connection closes after it.
//!
//! Limits: [`WAIT_MAX`] for each head, for each pause between requests, and for the client to take an answer; [`ANSWER_MAX`] for making an answer,
//! within which each resource has its own limit; [`STREAM_WAIT_MAX`] for each piece of a stream; sizes of heads are set by the caller.
//!
//! Not known here: the resources.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BytesMut};
use http1::{Limits, Scratch, parse_request};
use message::{Framing, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

use record::live::Listening;

/// Time limit for a request to begin, for the rest of its head, and for the client to take an answer.
pub const WAIT_MAX: Duration = Duration::from_secs(10);
/// Time limit for making an answer: longer than all steps of an upgrade together may take.
const ANSWER_MAX: Duration = Duration::from_secs(290);
/// Time limit for the client to take a piece of a stream.
pub const STREAM_WAIT_MAX: Duration = Duration::from_secs(60);
/// The media type of streams.
pub const BYTES: &str = "application/octet-stream";
/// Bytes read and dropped after a refusal, so that the client can read the answer (RFC 9112 §9.6).
const LINGER_BYTES: usize = 64 << 10;
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A request without a body.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// The target as received.
    pub target: &'a str,
    /// Value of Host.
    pub host: Option<&'a str>,
    /// Value of Sec-Fetch-Site, by which a browser tells which site's page makes the request.
    pub site: Option<&'a [u8]>,
    /// Value of Accept; the first line counts.
    pub accept: Option<&'a [u8]>,
    /// Has it the field Origin? Browsers send it with requests of pages.
    pub is_of_a_page: bool,
    /// The client's address.
    pub peer: Option<IpAddr>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The allowed methods, with a 405.
    pub allow: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
    /// A stream that replaces the body.
    pub stream: Option<Listening>,
}

impl Answer {
    /// An answer with some words and a newline.
    pub fn text(status: u16, words: &str) -> Answer {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            allow: None,
            body: [words.as_bytes(), b"\n"].concat(),
            stream: None,
        }
    }

    /// An answer with an endless stream of bytes.
    pub fn stream(listening: Listening) -> Answer {
        Answer {
            status: 200,
            content_type: BYTES,
            allow: None,
            body: Vec::new(),
            stream: Some(listening),
        }
    }

    /// An answer with a JSON document, indented.
    pub fn json(status: u16, document: &impl serde::Serialize) -> Answer {
        let mut body = serde_json::to_vec_pretty(document)
            .expect("our documents have text for names, which JSON can say");
        body.push(b'\n');
        Answer {
            status,
            content_type: "application/json",
            allow: None,
            body,
            stream: None,
        }
    }

    /// An answer with a JSON document in one line.
    pub fn json_in_a_line(document: &impl serde::Serialize) -> Answer {
        let mut body = serde_json::to_vec(document)
            .expect("our documents have text for names, which JSON can say");
        body.push(b'\n');
        Answer {
            status: 200,
            content_type: "application/json",
            allow: None,
            body,
            stream: None,
        }
    }

    fn write_to(&self, head_only: bool, keep_open: bool, framing: Ends, out: &mut Vec<u8>) {
        http1::write_status_line(self.status, message::reason_phrase(self.status), out);
        let mut field = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        field("Date", &httpdate::fmt_http_date(SystemTime::now()));
        field("Content-Type", self.content_type);
        match (&self.stream, framing) {
            (None, _) => field("Content-Length", &self.body.len().to_string()),
            (Some(_), Ends::Chunked) => field("Transfer-Encoding", "chunked"),
            // The end of the connection ends the body.
            (Some(_), Ends::Closed) => {}
        }
        field("Cache-Control", "no-store");
        // Tell browsers not to frame the answer, guess its type, or let it load content of other sites.
        field("X-Content-Type-Options", "nosniff");
        field("Content-Security-Policy", CONTENT_SECURITY_POLICY);
        if let Some(methods) = self.allow {
            //= rfc9110 §15.5.6   a 405 must say which methods are allowed
            field("Allow", methods);
        }
        if !keep_open {
            field("Connection", "close");
        }
        out.extend_from_slice(b"\r\n");
        if !head_only {
            out.extend_from_slice(&self.body);
        }
    }
}

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How a client recognises the end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// By the last chunk.
    Chunked,
    /// By the end of the connection; for HTTP/1.0 clients.
    Closed,
}

/// A head that was read, and the answer to it.
struct Turn {
    /// Bytes of input that are used up.
    used: usize,
    answer: Answer,
    head_only: bool,
    keep_open: bool,
    ends: Ends,
}

/// Serves a connection until one side closes it.
pub async fn converse(
    mut stream: TcpStream,
    limits: &Limits,
    answer: impl AsyncFn(&Request<'_>) -> Answer,
) {
    let peer = stream.peer_addr().ok().map(|peer| peer.ip());
    let mut input = BytesMut::new();
    let mut output = Vec::new();
    loop {
        // Wait for a request to begin; `take_turn` then waits for its end.
        if input.is_empty()
            && !matches!(
                timeout(WAIT_MAX, read(&mut stream, &mut input)).await,
                Ok(true)
            )
        {
            return;
        }
        let turn = take_turn(&mut stream, &mut input, (limits, peer), &answer);
        let Some(turn) = turn.await else {
            return;
        };
        input.advance(turn.used.min(input.len()));
        output.clear();
        let keep_open = turn.keep_open && turn.answer.stream.is_none();
        turn.answer
            .write_to(turn.head_only, keep_open, turn.ends, &mut output);
        if !matches!(
            timeout(WAIT_MAX, stream.write_all(&output)).await,
            Ok(Ok(()))
        ) {
            return;
        }
        if let Some(listening) = turn.answer.stream {
            send_stream(&mut stream, listening, turn.ends).await;
        }
        if !keep_open {
            let _ = timeout(LINGER_MAX, linger(&mut stream)).await;
            return;
        }
    }
}

/// Sends the stream until it ends, or the client closes the connection or stops reading.
async fn send_stream(stream: &mut TcpStream, mut listening: Listening, ends: Ends) {
    let mut ignored = BytesMut::new();
    loop {
        let piece = tokio::select! {
            piece = listening.next() => piece,
            is_open = read(stream, &mut ignored) => {
                ignored.clear();
                match is_open {
                    true => continue,
                    false => return,
                }
            }
        };
        let is_last = piece.is_none();
        let piece = piece.unwrap_or_default();
        let mut out = Vec::with_capacity(piece.len() + 16);
        match ends {
            Ends::Closed => out.extend_from_slice(&piece),
            Ends::Chunked => {
                out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                out.extend_from_slice(&piece);
                out.extend_from_slice(b"\r\n");
            }
        }
        let sent = timeout(STREAM_WAIT_MAX, stream.write_all(&out)).await;
        if is_last || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Reads some input. False: the connection has ended.
async fn read(stream: &mut TcpStream, input: &mut BytesMut) -> bool {
    input.reserve(4 << 10);
    matches!(stream.read_buf(input).await, Ok(n) if n > 0)
}

/// Reads a head and gets its answer. `None`: the connection has ended.
async fn take_turn(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    (limits, peer): (&Limits, Option<IpAddr>),
    answer: &impl AsyncFn(&Request<'_>) -> Answer,
) -> Option<Turn> {
    let (mut scanned, until) = (0, Instant::now() + WAIT_MAX);
    loop {
        let is_first = scanned == 0;
        let is_full = input.len() >= limits.head_bytes_max;
        if (is_first || is_full || http1::scan_end(input, scanned).is_some())
            && let Some(turn) = turn(input, (limits, peer), answer).await
        {
            return Some(turn);
        }
        scanned = input.len();
        match timeout_at(until, read(stream, input)).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(_) => {
                let words = "the request took too long to arrive";
                return Some(Turn::refused(408, words, input.len()));
            }
        }
    }
}

/// Parses a head and gets its answer. `None`: the head is not complete yet.
async fn turn(
    input: &[u8],
    (limits, peer): (&Limits, Option<IpAddr>),
    answer: &impl AsyncFn(&Request<'_>) -> Answer,
) -> Option<Turn> {
    let mut scratch = Scratch::new();
    let view = match parse_request(input, limits, &mut scratch) {
        Ok(view) => view?,
        Err(reject) => return Some(Turn::refused(reject.status(), reject.reason(), input.len())),
    };
    if !matches!(view.framing, Framing::None | Framing::Length(0)) {
        return Some(Turn::refused(
            413,
            "no request here has a body",
            input.len(),
        ));
    }
    let request = Request {
        method: view.method,
        target: view.target,
        host: view.host,
        site: view.first(b"sec-fetch-site"),
        accept: view.first(b"accept"),
        is_of_a_page: view.first(b"origin").is_some(),
        peer,
    };
    let answered = timeout(ANSWER_MAX, answer(&request)).await;
    let late = |_| Answer::text(503, "there is no answer yet; the log has what comes of it");
    Some(Turn {
        used: view.head_bytes,
        answer: answered.unwrap_or_else(late),
        //= rfc9110 §9.3.2   HEAD: the fields of GET, without content
        head_only: view.method == "HEAD",
        // HTTP/1.0 clients would have to be told that the connection stays open; closing is simpler.
        keep_open: view.keep_alive && view.version == Version::Http11,
        ends: match view.version {
            Version::Http11 => Ends::Chunked,
            _ => Ends::Closed,
        },
    })
}

impl Turn {
    fn refused(status: u16, words: &str, used: usize) -> Turn {
        Turn {
            used,
            answer: Answer::text(status, words),
            head_only: false,
            keep_open: false,
            ends: Ends::Closed,
        }
    }
}

async fn linger(stream: &mut TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut space = [0; 4 << 10];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut space).await {
            Ok(n) if n > 0 => left = left.saturating_sub(n),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::testing;

    /// The answer to these bytes, and whether the connection stays open.
    fn asked(bytes: &str) -> Option<(String, bool)> {
        let echo = async |r: &Request<'_>| Answer::text(200, &format!("{} {}", r.method, r.target));
        let limits = Limits::default();
        let turn = testing::wait(turn(bytes.as_bytes(), (&limits, None), &echo))?;
        let mut out = Vec::new();
        turn.answer
            .write_to(turn.head_only, turn.keep_open, turn.ends, &mut out);
        Some((String::from_utf8(out).unwrap(), turn.keep_open))
    }

    #[test]
    fn a_request_is_answered_and_the_connection_kept() {
        assert!(asked("GET / HTTP/1.1\r\nHost: h\r\n").is_none());
        let (text, keep) = asked("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nDate: "), "{text}");
        assert!(text.contains("\r\nContent-Length: 7\r\n"));
        assert!(text.ends_with("\r\n\r\nGET /x\n"));
        assert!(keep && !text.contains("Connection:"));
    }

    #[test]
    fn head_has_the_length_but_not_the_content() {
        let (text, _) = asked("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert!(text.contains("\r\nContent-Length: 8\r\n") && text.ends_with("\r\n\r\n"));
    }

    #[test]
    fn bodies_and_nonsense_end_the_connection() {
        for (bytes, status) in [
            (
                "DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
                "413",
            ),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                "413",
            ),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            ("hello\r\n\r\n", "400"),
            ("GET / HTTP/2.0\r\n\r\n", "505"),
        ] {
            let (text, keep) = asked(bytes).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(!keep && text.contains("\r\nConnection: close\r\n"));
        }
        let (_, keep) = asked("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        assert!(!keep);
    }
}
