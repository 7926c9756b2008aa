//! The admin interface's end of an HTTP/1.1 connection.
//!
//! Reads a head, has it answered, writes the answer, and so on; strict about framing like the proxy itself, for
//! the same parser does the reading. Nothing here takes a body: a request that announces one is refused with 413.
//!
//! Limits: [`WAIT_MAX`] for each head, each answer and each pause between requests; head sizes by the caller.
//!
//! Not known here: what there is to ask for.

use std::time::{Duration, SystemTime};

use bytes::{Buf, BytesMut};
use http1::{Framing, Limits, Scratch, parse_request};
use message::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// The longest wait for a request, for the rest of its head, and for an answer to be taken.
pub const WAIT_MAX: Duration = Duration::from_secs(10);
/// Bytes read and thrown away after a refusal, so that the client gets to see it (RFC 9112 §9.6).
const LINGER_BYTES: usize = 64 << 10;
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A request without a body.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Target as it came.
    pub target: &'a str,
    /// Value of Host.
    pub host: Option<&'a str>,
}

/// The answer to it.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The methods that would do, with a 405.
    pub allow: Option<&'static str>,
    /// What it says.
    pub body: Vec<u8>,
}

impl Answer {
    /// A few words; a newline is put behind them.
    pub fn text(status: u16, words: &str) -> Answer {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            allow: None,
            body: [words.as_bytes(), b"\n"].concat(),
        }
    }

    /// A JSON document, indented.
    pub fn json(status: u16, document: &impl serde::Serialize) -> Answer {
        let mut body = serde_json::to_vec_pretty(document)
            .expect("our documents have text for names, which JSON can say");
        body.push(b'\n');
        Answer {
            status,
            content_type: "application/json",
            allow: None,
            body,
        }
    }

    /// A JSON document of columns, which nobody reads line by line.
    pub fn json_in_a_line(document: &impl serde::Serialize) -> Answer {
        let mut body = serde_json::to_vec(document)
            .expect("our documents have text for names, which JSON can say");
        body.push(b'\n');
        Answer {
            status: 200,
            content_type: "application/json",
            allow: None,
            body,
        }
    }

    fn write_to(&self, head_only: bool, keep_open: bool, out: &mut Vec<u8>) {
        http1::write_status_line(self.status, message::reason_phrase(self.status), out);
        let mut field = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        field("Date", &httpdate::fmt_http_date(SystemTime::now()));
        field("Content-Type", self.content_type);
        field("Content-Length", &self.body.len().to_string());
        field("Cache-Control", "no-store");
        // For browsers: nothing of this is to be framed, guessed at or mixed with other sites' content.
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

/// What the bytes at hand come to.
struct Turn {
    /// How many of them are used up.
    used: usize,
    answer: Answer,
    head_only: bool,
    keep_open: bool,
}

/// Serves a connection until one side closes it.
pub async fn converse(
    mut stream: TcpStream,
    limits: &Limits,
    answer: impl AsyncFn(&Request<'_>) -> Answer,
) {
    let mut input = BytesMut::new();
    let mut output = Vec::new();
    loop {
        // The wait for a request, then the wait for its end.
        if input.is_empty()
            && !matches!(
                timeout(WAIT_MAX, read(&mut stream, &mut input)).await,
                Ok(true)
            )
        {
            return;
        }
        let turn = match timeout(
            WAIT_MAX,
            take_turn(&mut stream, &mut input, limits, &answer),
        )
        .await
        {
            Ok(Some(turn)) => turn,
            Ok(None) => return,
            Err(_) => Turn::refused(408, "the request took too long to arrive", input.len()),
        };
        input.advance(turn.used.min(input.len()));
        output.clear();
        turn.answer
            .write_to(turn.head_only, turn.keep_open, &mut output);
        if !matches!(
            timeout(WAIT_MAX, stream.write_all(&output)).await,
            Ok(Ok(()))
        ) {
            return;
        }
        if !turn.keep_open {
            let _ = timeout(LINGER_MAX, linger(&mut stream)).await;
            return;
        }
    }
}

/// False at the end of the connection.
async fn read(stream: &mut TcpStream, input: &mut BytesMut) -> bool {
    input.reserve(4 << 10);
    matches!(stream.read_buf(input).await, Ok(n) if n > 0)
}

/// Reads until there is a head, and has it answered. `None` at the end of the connection.
async fn take_turn(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    limits: &Limits,
    answer: &impl AsyncFn(&Request<'_>) -> Answer,
) -> Option<Turn> {
    let mut scanned = 0;
    loop {
        let is_first = scanned == 0;
        let is_full = input.len() >= limits.head_bytes_max;
        if (is_first || is_full || http1::scan_end(input, scanned).is_some())
            && let Some(turn) = turn(input, limits, answer).await
        {
            return Some(turn);
        }
        scanned = input.len();
        if !read(stream, input).await {
            return None;
        }
    }
}

/// `None` when the head is not complete.
async fn turn(
    input: &[u8],
    limits: &Limits,
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
    };
    Some(Turn {
        used: view.head_bytes,
        answer: answer(&request).await,
        //= rfc9110 §9.3.2   HEAD: the fields of GET, without content
        head_only: view.method == "HEAD",
        // To an HTTP/1.0 client we would have to promise it; closing is simpler.
        keep_open: view.keep_alive && view.version == Version::Http11,
    })
}

impl Turn {
    fn refused(status: u16, words: &str, used: usize) -> Turn {
        Turn {
            used,
            answer: Answer::text(status, words),
            head_only: false,
            keep_open: false,
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
    use crate::admin::testing;

    /// What is answered to these bytes, and whether the connection stays open.
    fn asked(bytes: &str) -> Option<(String, bool)> {
        let echo = async |r: &Request<'_>| Answer::text(200, &format!("{} {}", r.method, r.target));
        let limits = Limits::default();
        let turn = testing::wait(turn(bytes.as_bytes(), &limits, &echo))?;
        let mut out = Vec::new();
        turn.answer
            .write_to(turn.head_only, turn.keep_open, &mut out);
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
