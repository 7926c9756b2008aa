//! Messages that two readers could read differently: refused, or passed on so that there is nothing left to differ about.
//!
//! Each row is one form. Towards the origin every attack has a canary behind it, a second request on the same
//! connection. An attack that is refused gets its status, and the connection ends: the canary is not answered, and the
//! origin has seen no complete request. One that is let through arrives as exactly one well-formed request, and so
//! does the canary. The other direction is in `forged`.
//!
//! The origin is read by [`Wire`], which forgives nothing; what it cannot read is a failure.

use std::{
    net::TcpListener,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    thread,
};

use super::{
    downgraded,
    harness::{
        running::{plan, url},
        wire::{Fields, Wire, framing},
        *,
    },
};
use ::proxy::plan::Listener;

/// What a row expects.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// This status, the end of the connection, and nothing complete at the origin.
    Refused(u16),
    /// One request with this body.
    Passed(&'static str),
}
use Expect::{Passed, Refused};

/// A request as the origin read it.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub head: ::wire::Request,
    pub body: Vec<u8>,
    pub trailers: Fields,
}

/// An origin that writes down what comes, and what it cannot read.
pub struct Spy {
    pub address: std::net::SocketAddr,
    log: Arc<Mutex<Vec<Result<Arrived, String>>>>,
}

impl Spy {
    pub fn start() -> Spy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    let mut wire = Wire::new(stream);
                    // Pooled connections may rest.
                    wire.stream().set_read_timeout(None).unwrap();
                    loop {
                        let read = catch_unwind(AssertUnwindSafe(|| read_request(&mut wire)));
                        match read {
                            Ok(Some(arrived)) => seen.lock().unwrap().push(Ok(arrived)),
                            Ok(None) => return, // cut, or the end
                            Err(_) => {
                                seen.lock().unwrap().push(Err("unreadable".to_owned()));
                                return;
                            }
                        }
                        wire.send(ok(&["Cache-Control: no-store"], "fine"));
                    }
                });
            }
        });
        Spy { address, log }
    }

    pub fn take(&self) -> Vec<Result<Arrived, String>> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// A complete request; `None` if the connection ends before there is one.
fn read_request(wire: &mut Wire) -> Option<Arrived> {
    let head = wire.request_head().ok()?;
    assert_eq!(head.fields.all("host").len(), 1, "{head:?}");
    if let Framing::Length(length) = framing(head.framing()) {
        let said = head.fields.get("content-length");
        let plain = length.to_string();
        assert!(said.is_none_or(|said| said == plain), "not plain digits");
    }
    let (body, trailers, cut) = wire.body(framing(head.framing()));
    cut.is_none().then_some(Arrived {
        head,
        body,
        trailers,
    })
}

const CANARY: &str = "GET /canary HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n";

/// Sends each attack with a canary behind it, also over HTTP/2.
fn check(cases: &[(&[u8], Expect)]) {
    downgraded::check(cases.iter().map(|(attack, _)| *attack));
    let spy = Spy::start();
    let proxy = Proxy::start(plan(Listener::reverse(
        running::local(),
        Vec::new(),
        url(spy.address),
    )));
    for (attack, expect) in cases {
        let shown = String::from_utf8_lossy(&attack[..attack.len().min(200)]).into_owned();
        let mut client = proxy.client();
        // A refusal may come, and the connection end, before all is written.
        client.wire.send([attack, CANARY.as_bytes()].concat());
        let mut statuses = Vec::new();
        while let Ok(mut head) = client.wire.response_head() {
            client.wire.response_body("GET", &mut head);
            statuses.push(head.status);
            if head.status >= 400 {
                assert_eq!(head.field("connection"), Some("close"), "{shown:?}");
            }
        }
        let arrived = spy.take();
        assert!(arrived.iter().all(Result::is_ok), "{shown:?}: {arrived:?}");
        let arrived: Vec<Arrived> = arrived.into_iter().map(Result::unwrap).collect();
        match expect {
            Refused(status) => {
                assert_eq!(statuses, [*status], "{shown:?}");
                assert_eq!(arrived.len(), 0, "{shown:?}: {arrived:?}");
            }
            Passed(body) => {
                assert_eq!(statuses, [200, 200], "{shown:?}");
                assert_eq!(arrived.len(), 2, "{shown:?}: {arrived:?}");
                assert_eq!(arrived[0].head.target, "/a", "{:?}", arrived[0]);
                let text = String::from_utf8_lossy(&arrived[0].body);
                assert_eq!(text, *body, "{shown:?}");
                let (method, target) = (&arrived[1].head.method, &arrived[1].head.target);
                assert_eq!(
                    (method.as_str(), target.as_str()),
                    ("GET", "/canary"),
                    "{shown:?}"
                );
                assert!(arrived[1].body.is_empty());
                for forbidden in ["content-length", "transfer-encoding", "host", "cookie"] {
                    let found = arrived[0].trailers.all(forbidden);
                    assert!(found.is_empty(), "{shown:?}: trailer {forbidden}");
                }
                let via = arrived[0].head.fields.all("via").len();
                assert_eq!(via, 1, "{shown:?}");
            }
        }
    }
}

/// A POST to `/a` with these field lines and this body.
fn post(lines: &str, body: &str) -> Vec<u8> {
    raw(lines.as_bytes(), body)
}

fn raw(lines: &[u8], body: &str) -> Vec<u8> {
    let start = b"POST /a HTTP/1.1\r\nHost: test.example\r\n";
    [start, lines, b"\r\n\r\n", body.as_bytes()].concat()
}

fn check_posts(cases: &[(&str, &str, Expect)]) {
    let built: Vec<(Vec<u8>, Expect)> = cases
        .iter()
        .map(|(lines, body, expect)| (post(lines, body), *expect))
        .collect();
    let borrowed: Vec<(&[u8], Expect)> = built.iter().map(|(b, e)| (&b[..], *e)).collect();
    check(&borrowed);
}

/// `hello` in the chunked coding.
pub const CHUNKS: &str = "5\r\nhello\r\n0\r\n\r\n";

#[test]
fn length_and_coding_in_one_request() {
    check_posts(&[
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            CHUNKS,
            Refused(400),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            CHUNKS,
            Refused(400),
        ),
        (
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
            CHUNKS,
            Refused(400),
        ),
        (
            "Transfer-Encoding: identity\r\nContent-Length: 5",
            "hello",
            Refused(400),
        ),
        (
            "Transfer-Encoding: \r\nContent-Length: 5",
            "hello",
            Refused(400),
        ),
        (
            "Transfer-Encoding: xchunked\r\nContent-Length: 5",
            "hello",
            Refused(400),
        ),
        (
            "Connection: Content-Length\r\nContent-Length: 5",
            "hello",
            Passed("hello"),
        ),
        (
            "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
            CHUNKS,
            Passed("hello"),
        ),
        (
            "Connection: Host\r\nContent-Length: 5",
            "hello",
            Passed("hello"),
        ),
    ]);
}

#[test]
fn codings_in_disguise() {
    check_posts(&[
        ("Transfer-Encoding: chunked", CHUNKS, Passed("hello")),
        ("Transfer-Encoding: CHUNKED", CHUNKS, Passed("hello")),
        ("transfer-encoding:chunked", CHUNKS, Passed("hello")),
        ("Transfer-Encoding: \t chunked \t", CHUNKS, Passed("hello")),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            CHUNKS,
            Refused(400),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            CHUNKS,
            Refused(400),
        ),
        (
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            CHUNKS,
            Refused(400),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding:",
            CHUNKS,
            Refused(400),
        ),
        ("Transfer-Encoding: chunked, chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked, identity", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked, gzip", CHUNKS, Refused(400)),
        ("Transfer-Encoding: gzip, chunked", CHUNKS, Refused(501)),
        ("Transfer-Encoding: identity, chunked", CHUNKS, Refused(501)),
        ("Transfer-Encoding: gzip", CHUNKS, Refused(501)),
        ("Transfer-Encoding: identity", CHUNKS, Refused(501)),
        ("Transfer-Encoding: xchunked", CHUNKS, Refused(501)),
        ("Transfer-Encoding: chunkedx", CHUNKS, Refused(501)),
        ("Transfer-Encoding: x-chunked", CHUNKS, Refused(501)),
        ("Transfer-Encoding:", CHUNKS, Refused(400)),
        ("Transfer-Encoding: ,chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked,", CHUNKS, Refused(400)),
        ("Transfer-Encoding: \"chunked\"", CHUNKS, Refused(400)),
        ("Transfer-Encoding: 'chunked'", CHUNKS, Refused(501)),
        ("Transfer-Encoding: chunked;q=1", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chun ked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked identity", CHUNKS, Refused(400)),
        ("Transfer-Encoding: \u{b}chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked\u{b}", CHUNKS, Refused(400)),
        ("Transfer-Encoding: \u{c}chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked\0", CHUNKS, Refused(400)),
        ("Transfer-Encoding: \u{a0}chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chunked\u{85}", CHUNKS, Refused(400)),
        ("Transfer-Encoding : chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding\t: chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding\0: chunked", CHUNKS, Refused(400)),
        (" Transfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("\tTransfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding:\r\n chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding: chu\r\n nked", CHUNKS, Refused(400)),
        ("X: y\r\n Transfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("X: y\nTransfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("X: y\rTransfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("X: y\r\r\nTransfer-Encoding: chunked", CHUNKS, Refused(400)),
        ("Transfer-Encoding\n: chunked", CHUNKS, Refused(400)),
        ("Transfer Encoding: chunked", CHUNKS, Refused(400)),
        ("Transfer_Encoding: chunked", CHUNKS, Refused(400)),
        ("\u{feff}Transfer-Encoding: chunked", CHUNKS, Refused(400)),
    ]);
}

#[test]
fn lengths_in_disguise() {
    check_posts(&[
        ("Content-Length: 5", "hello", Passed("hello")),
        ("Content-Length: 0", "", Passed("")),
        ("CONTENT-LENGTH:5", "hello", Passed("hello")),
        ("Content-Length: \t5\t ", "hello", Passed("hello")),
        // Some read a leading 0 as octal: it does not go on.
        ("Content-Length: 005", "hello", Passed("hello")),
        ("Content-Length: 010", "hellohello", Passed("hellohello")),
        (
            "Content-Length: 5\r\nContent-Length: 5",
            "hello",
            Refused(400),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6",
            "hello",
            Refused(400),
        ),
        (
            "Content-Length: 0\r\nContent-Length: 5",
            "hello",
            Refused(400),
        ),
        (
            "Content-Length: 5\r\nContent-Length:",
            "hello",
            Refused(400),
        ),
        ("Content-Length: 5, 5", "hello", Refused(400)),
        ("Content-Length: 5,", "hello", Refused(400)),
        ("Content-Length: 5, 6", "hello", Refused(400)),
        ("Content-Length:", "hello", Refused(400)),
        ("Content-Length: ,", "hello", Refused(400)),
        ("Content-Length: +5", "hello", Refused(400)),
        ("Content-Length: -5", "hello", Refused(400)),
        ("Content-Length: -0", "", Refused(400)),
        ("Content-Length: 0x5", "hello", Refused(400)),
        ("Content-Length: 5h", "hello", Refused(400)),
        ("Content-Length: 5 5", "hello", Refused(400)),
        ("Content-Length: 5;", "hello", Refused(400)),
        ("Content-Length: 5.0", "hello", Refused(400)),
        ("Content-Length: 5e0", "hello", Refused(400)),
        ("Content-Length: \"5\"", "hello", Refused(400)),
        ("Content-Length: five", "hello", Refused(400)),
        ("Content-Length: \u{665}", "hello", Refused(400)),
        ("Content-Length: \u{b}5", "hello", Refused(400)),
        ("Content-Length: 5\0", "hello", Refused(400)),
        ("Content-Length: 9223372036854775808", "hello", Refused(400)),
        (
            "Content-Length: 18446744073709551621",
            "hello",
            Refused(400),
        ),
        (
            "Content-Length: 4294967301000000000000000000005",
            "hello",
            Refused(400),
        ),
        ("Content-Length : 5", "hello", Refused(400)),
        (" Content-Length: 5", "hello", Refused(400)),
        ("Content-Length:\r\n 5", "hello", Refused(400)),
        ("Content-Length: 5\r\n 0", "hello", Refused(400)),
        ("Content Length: 5", "hello", Refused(400)),
        ("Content_Length: 5", "hello", Refused(400)),
        ("X: y\nContent-Length: 5", "hello", Refused(400)),
        ("X: y\rContent-Length: 5", "hello", Refused(400)),
    ]);
}

#[test]
fn chunks_in_disguise() {
    let coded = "Transfer-Encoding: chunked";
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(17_000));
    let trailers = format!("5\r\nhello\r\n0\r\n{}\r\n", "X: y\r\n".repeat(5_000));
    let cases: Vec<(&str, Expect)> = vec![
        (CHUNKS, Passed("hello")),
        ("5\r\nhello\r\n000\r\n\r\n", Passed("hello")),
        ("0005\r\nhello\r\n0\r\n\r\n", Passed("hello")),
        ("A\r\nhellohello\r\n0\r\n\r\n", Passed("hellohello")),
        ("5;a\r\nhello\r\n0\r\n\r\n", Passed("hello")),
        ("5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", Passed("hello")),
        ("5 ; a = b\r\nhello\r\n0\r\n\r\n", Passed("hello")),
        ("5\t;a\r\nhello\r\n0\r\n\r\n", Passed("hello")),
        ("5\r\nhello\r\n0\r\nX: y\r\n\r\n", Passed("hello")),
        (
            "5\r\nhello\r\n0\r\nContent-Length: 9\r\nCookie: a\r\n\r\n",
            Passed("hello"),
        ),
        (
            "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n",
            Passed("hello"),
        ),
        ("5 \r\nhello\r\n0\r\n\r\n", Refused(400)),
        (" 5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("\r\n5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("-5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("+5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("0x5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("0X5\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5h\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5_0\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5,\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("g\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("\u{665}\r\nhello\r\n0\r\n\r\n", Refused(400)),
        (";a\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("\r\n\r\n", Refused(400)),
        ("100000000000000005\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("00000000000000005\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("ffffffffffffffff\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("8000000000000000\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5\rhello\r\n0\r\n\r\n", Refused(400)),
        ("5\r\rhello\r\n0\r\n\r\n", Refused(400)),
        ("5\r\nhello\n0\r\n\r\n", Refused(400)),
        ("5\r\nhello\r0\r\n\r\n", Refused(400)),
        ("5\r\nhello0\r\n\r\n", Refused(400)),
        ("5\r\nhello!\r\n0\r\n\r\n", Refused(400)),
        ("5\r\nhell\r\n0\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\n\n", Refused(400)),
        ("5;\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;bad[=x\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a=\"b\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a \r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a\nb\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a\rb\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5;a\0\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5\0\r\nhello\r\n0\r\n\r\n", Refused(400)),
        ("5\u{b}\r\nhello\r\n0\r\n\r\n", Refused(400)),
        (&long, Refused(400)),
        (&trailers, Refused(400)),
        // The canary takes the place of the empty line.
        ("5\r\nhello\r\n0\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\nX : y\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\n X: y\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\nX: y\nZ: a\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\nX: y\0\r\n\r\n", Refused(400)),
        ("5\r\nhello\r\n0\r\nno colon\r\n\r\n", Refused(400)),
    ];
    let cases: Vec<_> = cases
        .into_iter()
        .map(|(body, e)| (coded, body, e))
        .collect();
    check_posts(&cases);
}

#[test]
fn fields_in_disguise() {
    let many = "X: y\r\n".repeat(1_100);
    let long = format!("X: {}", "y".repeat(70_000));
    check_posts(&[
        ("X: y\tz", "", Passed("")),
        ("X: \u{e4}", "", Passed("")),
        ("X:", "", Passed("")),
        ("X: y:z", "", Passed("")),
        ("X", "", Refused(400)),
        (": y", "", Refused(400)),
        ("X : y", "", Refused(400)),
        ("X Y: z", "", Refused(400)),
        ("X\tY: z", "", Refused(400)),
        ("X(: y", "", Refused(400)),
        ("X\"Y\": z", "", Refused(400)),
        ("X@Y: z", "", Refused(400)),
        ("\u{e4}: y", "", Refused(400)),
        ("X\u{7f}: y", "", Refused(400)),
        ("X\u{1}: y", "", Refused(400)),
        ("X: y\0z", "", Refused(400)),
        ("X: y\u{7f}", "", Refused(400)),
        ("X: y\u{1b}[2J", "", Refused(400)),
        ("X: y\r\n z", "", Refused(400)),
        ("X: y\r\n\tz", "", Refused(400)),
        ("X: y\r\n \r\nZ: a", "", Refused(400)),
        ("X: y\nZ: a", "", Refused(400)),
        ("X: y\rZ: a", "", Refused(400)),
        ("X: y\r\n\nZ: a", "", Refused(400)),
        ("X: y\n", "", Refused(400)),
        (&many, "", Refused(431)),
        (&long, "", Refused(431)),
    ]);
}

#[test]
fn start_lines_and_hosts() {
    let host = "Host: test.example\r\n\r\n";
    let target = format!("GET /{} HTTP/1.1\r\n{host}", "a".repeat(17_000));
    let method = format!("{} /a HTTP/1.1\r\n{host}", "G".repeat(33));
    let cases: Vec<(String, Expect)> = [
        ("GET /a HTTP/1.1", Passed("")),
        ("\r\nGET /a HTTP/1.1", Passed("")),
        ("\r\n\r\nGET /a HTTP/1.1", Passed("")),
        ("get /a HTTP/1.1", Passed("")),
        ("GET http://test.example/a HTTP/1.1", Passed("")),
        ("GET HTTP://other.example/a HTTP/1.1", Passed("")),
        ("\r\n\r\n\r\nGET /a HTTP/1.1", Refused(400)),
        ("\nGET /a HTTP/1.1", Refused(400)),
        ("\rGET /a HTTP/1.1", Refused(400)),
        (" GET /a HTTP/1.1", Refused(400)),
        ("GET  /a HTTP/1.1", Refused(400)),
        ("GET /a  HTTP/1.1", Refused(400)),
        ("GET /a HTTP/1.1 ", Refused(400)),
        ("GET\t/a\tHTTP/1.1", Refused(400)),
        ("GET\u{b}/a HTTP/1.1", Refused(400)),
        ("GET /a b HTTP/1.1", Refused(400)),
        ("GET /a\tb HTTP/1.1", Refused(400)),
        ("GET /a\0 HTTP/1.1", Refused(400)),
        ("GET /a\u{7f} HTTP/1.1", Refused(400)),
        ("GET /\u{e4} HTTP/1.1", Refused(400)),
        ("GET /a#b HTTP/1.1", Refused(400)),
        ("GET a HTTP/1.1", Refused(400)),
        ("GET * HTTP/1.1", Refused(400)),
        ("GET test.example:80 HTTP/1.1", Refused(400)),
        ("GET http:///a HTTP/1.1", Refused(400)),
        ("GET http://u@test.example/a HTTP/1.1", Refused(400)),
        ("GET http://test.example:x/a HTTP/1.1", Refused(400)),
        ("GET /a", Refused(400)),
        ("GET /a ", Refused(400)),
        ("GET", Refused(400)),
        ("/a HTTP/1.1", Refused(400)),
        ("G@T /a HTTP/1.1", Refused(400)),
        ("GET /a http/1.1", Refused(400)),
        ("GET /a HTTP/1", Refused(400)),
        ("GET /a HTTP/1.1.1", Refused(400)),
        ("GET /a HTTP/01.1", Refused(400)),
        ("GET /a HTTP/1.01", Refused(400)),
        ("GET /a HTTP/+1.1", Refused(400)),
        ("GET /a HTTP/1,1", Refused(400)),
        ("GET /a HTTP /1.1", Refused(400)),
        ("GET /a HTTPS/1.1", Refused(400)),
        ("GET /a ICY/1.1", Refused(400)),
        ("GET /a HTTP/1.2", Passed("")),
        ("GET /a HTTP/1.9", Passed("")),
        ("GET /a HTTP/1.10", Refused(400)),
        ("GET /a HTTP/1.2 ", Refused(400)),
        ("GET /a HTTP/2.0", Refused(505)),
        ("GET /a HTTP/0.9", Refused(505)),
        ("GET /a HTTP/9.9", Refused(505)),
        ("PRI * HTTP/2.0", Refused(505)),
        ("GET /a HTTP/1.1\nX: y", Refused(400)),
        ("GET /a HTTP/1.1\rX: y", Refused(400)),
        ("GET /a HTTP/1.1\r\n X: y", Refused(400)),
        ("GET /a HTTP/1.1\r\nHost: other.example", Refused(400)),
        ("GET /a HTTP/1.1\r\nHost: test.example", Refused(400)),
        ("GET /a HTTP/1.1\r\nHost:", Refused(400)),
    ]
    .map(|(line, expect)| (format!("{line}\r\n{host}"), expect))
    .into_iter()
    .chain(
        [
            "", "Host:", "Host: ", "Host: a b", "Host: a/b", "Host: u@a", "Host: a:b", "Host: a:1:2",
            "Host: a:99999", "Host: [::1", "Host: ::1", "Host: a?b", "Host: a#b", "Host: \u{e4}", "Host: a\\b",
            "Host: http://a", "Host: a\0", "Host : a", "Host: a, b", " Host: a", "Host: a\r\n b", "Host: <a>",
            "Host: %zz", "Host: a\r\nHost: a", "Host: a\r\nhost: b",
        ]
        .map(|host| {
            let host = if host.is_empty() { host.to_owned() } else { format!("{host}\r\n") };
            (format!("GET /a HTTP/1.1\r\n{host}\r\n"), Refused(400))
        }),
    )
    .chain([
        (target, Refused(414)),
        (method, Refused(501)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), Refused(505)),
        (format!("TRACE /a HTTP/1.1\r\nContent-Length: 5\r\n{host}hello"), Refused(400)),
        (format!("CONNECT a:443 HTTP/1.1\r\nContent-Length: 5\r\n{host}hello"), Refused(400)),
        (format!("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n{host}{CHUNKS}"), Refused(400)),
        (
            format!("POST /a HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n{host}{CHUNKS}"),
            Refused(400),
        ),
        (
            format!("POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n{host}hello"),
            Passed("hello"),
        ),
        (format!("GET /a HTTP/1.1\r\nContent-Length: 5\r\n{host}hello"), Passed("hello")),
        (format!("GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{host}{CHUNKS}"), Passed("hello")),
        (format!("DELETE /a HTTP/1.1\r\nContent-Length: 5\r\n{host}hello"), Passed("hello")),
    ])
    .collect();
    let borrowed: Vec<(&[u8], Expect)> = cases.iter().map(|(c, e)| (c.as_bytes(), *e)).collect();
    check(&borrowed);
}

#[test]
fn an_upgrade_leads_nowhere_but_where_it_was_asked_for() {
    // Behind a switch to another HTTP there would be requests that nobody looks at.
    let origin = Origin::start(|exchange| match exchange.field("upgrade") {
        Some(asked) if asked.contains("h2c") => exchange.send(head(
            "101 Switching Protocols",
            &["Connection: Upgrade", "Upgrade: h2c"],
        )),
        Some("chat") => exchange.send(head(
            "101 Switching Protocols",
            &["Connection: Upgrade", "Upgrade: h2c"],
        )),
        Some(other) => panic!("{other}"),
        None => exchange.send(ok(&[], "ordinary")),
    });
    let proxy = Proxy::before(&origin);
    for protocol in ["h2c", "H2C", "chat, h2c", "HTTP/2.0", "h2"] {
        let upgrade = format!("Upgrade: {protocol}");
        let fields = [
            "Connection: Upgrade, HTTP2-Settings",
            "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
            &upgrade,
        ];
        let answer = proxy.ask("GET", "/a", &fields);
        assert_eq!(
            (answer.status, answer.text()),
            (200, "ordinary"),
            "{protocol}"
        );
        assert_eq!(origin.last().field("http2-settings"), None);
        assert_eq!(origin.last().field("connection"), None);
    }
    let answer = proxy.ask("GET", "/a", &["Connection: Upgrade", "Upgrade: chat"]);
    assert_eq!(answer.status, 502);
}

#[test]
fn the_target_wins_over_host() {
    let spy = Spy::start();
    let proxy = Proxy::start(running::forward_plan(&[]));
    for (target, host, expected) in [
        ("/a", "victim.example", ""),
        ("/a?b", "victim.example:80", ""),
        ("", "", "/"),
    ] {
        let host = if host.is_empty() {
            spy.address.to_string()
        } else {
            host.to_owned()
        };
        let mut client = proxy.client();
        let line = format!("GET http://{}{target} HTTP/1.1", spy.address);
        client.send(format!("{line}\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.read("GET").status, 200);
        let arrived = spy.take().remove(0).unwrap();
        assert_eq!(
            arrived.head.fields.get("host"),
            Some(spy.address.to_string().as_str())
        );
        let target = if expected.is_empty() {
            target
        } else {
            expected
        };
        assert_eq!(
            (arrived.head.method.as_str(), arrived.head.target.as_str()),
            ("GET", target)
        );
    }
}
