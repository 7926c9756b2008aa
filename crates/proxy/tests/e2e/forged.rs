//! Responses that two readers could read differently: the client gets 502, or an answer that is visibly cut.
//!
//! Each row is one form. Behind every response lies a forged one, as if somebody had got it into the origin's answer, which
//! no client may ever see, on this connection or another. What is refused, and what has bytes behind its end, comes
//! from a connection that is not used again.

use crate::{harness::*, smuggling::CHUNKS};

/// What a client makes of a response.
#[derive(Clone, Copy, Debug)]
enum Gets {
    /// 502, or an answer that is visibly not complete.
    Failure,
    /// This body.
    Body(&'static str),
}
use Gets::{Body, Failure};

const FORGED: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\nforged";

#[test]
fn responses_in_disguise() {
    let coded = |lines: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{body}");
    let many = "X: y\r\n".repeat(1_100);
    let cases: Vec<(String, Gets)> = vec![
        (coded("Content-Length: 5", "hello"), Body("hello")),
        (coded("Transfer-Encoding: chunked", CHUNKS), Body("hello")),
        (coded("Transfer-Encoding: Chunked", CHUNKS), Body("hello")),
        (
            coded("Content-Length: 5\r\nContent-Length: 5", "hello"),
            Body("hello"),
        ),
        (
            coded(
                "Transfer-Encoding: chunked",
                "5;a=b\r\nhello\r\n0;c\r\n\r\n",
            ),
            Body("hello"),
        ),
        (
            coded(
                "Transfer-Encoding: chunked",
                "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
            ),
            Body("hello"),
        ),
        (coded("Content-Length: 0", ""), Body("")),
        (
            "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello".into(),
            Body("hello"),
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".into(),
            Body(""),
        ),
        (
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
            Body(""),
        ),
        (
            coded("Content-Length: 5\r\nTransfer-Encoding: chunked", CHUNKS),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked\r\nContent-Length: 5", CHUNKS),
            Failure,
        ),
        (
            coded(
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                CHUNKS,
            ),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked, chunked", CHUNKS),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked, identity", CHUNKS),
            Failure,
        ),
        (coded("Transfer-Encoding: identity", "hello"), Failure),
        (coded("Transfer-Encoding: gzip, chunked", CHUNKS), Failure),
        (coded("Transfer-Encoding: xchunked", CHUNKS), Failure),
        (coded("Transfer-Encoding: \u{b}chunked", CHUNKS), Failure),
        (coded("Transfer-Encoding:", "hello"), Failure),
        (coded("Transfer-Encoding : chunked", CHUNKS), Failure),
        (coded("Transfer-Encoding:\r\n chunked", CHUNKS), Failure),
        (coded("Transfer_Encoding: chunked", CHUNKS), Failure),
        (coded("X: y\nTransfer-Encoding: chunked", CHUNKS), Failure),
        (coded("X: y\rTransfer-Encoding: chunked", CHUNKS), Failure),
        (
            coded("Content-Length: 5\r\nContent-Length: 6", "hello"),
            Failure,
        ),
        (coded("Content-Length: 5, 6", "hello"), Failure),
        (coded("Content-Length: +5", "hello"), Failure),
        (coded("Content-Length: -5", "hello"), Failure),
        (coded("Content-Length: 0x5", "hello"), Failure),
        (coded("Content-Length: 5 5", "hello"), Failure),
        (coded("Content-Length:", "hello"), Failure),
        (
            coded("Content-Length: 18446744073709551621", "hello"),
            Failure,
        ),
        (coded("Content-Length : 5", "hello"), Failure),
        (coded("Content-Length:\r\n 5", "hello"), Failure),
        (coded("Content-Length: 5\r\nX: y\0", "hello"), Failure),
        (coded("Content-Length: 5\r\nX Y: z", "hello"), Failure),
        (coded("Content-Length: 5\r\nX: y\r\n z", "hello"), Failure),
        (coded("Content-Length: 5\r\nno colon", "hello"), Failure),
        (coded(&many, "hello"), Failure),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into(),
            Failure,
        ),
        (
            "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello".into(),
            Failure,
        ),
        (
            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            " HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1 +20 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1 200 O\0K\r\nContent-Length: 5\r\n\r\nhello".into(),
            Failure,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".into(),
            Failure,
        ),
        ("HTTP/1.1 304 Not Modified\r\n\r\n".into(), Failure),
        (
            coded("Transfer-Encoding: chunked", "-5\r\nhello\r\n0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "0x5\r\nhello\r\n0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "5 \r\nhello\r\n0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "5\nhello\r\n0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "5;a\nhello\r\n0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "5\r\nhello0\r\n\r\n"),
            Failure,
        ),
        (
            coded("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n"),
            Failure,
        ),
        (
            coded(
                "Transfer-Encoding: chunked",
                "10000000000000005\r\nhello\r\n0\r\n\r\n",
            ),
            Failure,
        ),
        (
            coded(
                "Transfer-Encoding: chunked",
                "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
            ),
            Failure,
        ),
        (
            coded(
                "Transfer-Encoding: chunked",
                "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
            ),
            Failure,
        ),
    ];
    for (sent, gets) in cases {
        let shown = &sent[..sent.len().min(200)].to_owned();
        let bytes = [&sent[..], FORGED].concat();
        let origin = Origin::start(move |exchange| match exchange.path() {
            "/honest" => exchange.send(ok(&["Cache-Control: no-store"], "honest")),
            _ => {
                exchange.send(&bytes);
                // Some attacks have no end of their own.
                exchange.close();
            }
        });
        let proxy = Proxy::before(&origin);
        for method in ["GET", "POST", "HEAD"] {
            let mut client = proxy.client();
            client.ask(method, "/a", &[]);
            let answer = client.read_whatever(method);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!text.contains("forged"), "{method} {shown:?}: {answer:?}");
            let failed = answer.status == 502 || answer.cut.is_some();
            match gets {
                // The body of an answer to HEAD is not read, so its faults are not seen.
                Failure if method == "HEAD" => assert!(failed || text.is_empty()),
                Failure if method == "POST" && answer.status == 304 => {}
                Failure => assert!(failed, "{method} {shown:?}: {answer:?}"),
                Body(_) if method == "HEAD" => assert!(!failed),
                Body(body) => assert_eq!((text.as_str(), failed), (body, false), "{shown:?}"),
            }
            // Whatever is left on the connection belongs to nobody.
            if !failed && client.wire.send(client::request("GET", "/honest", &[], "")) {
                assert_eq!(client.read("GET").text(), "honest", "{method} {shown:?}");
            }
            assert_eq!(proxy.get("/honest").text(), "honest", "{method} {shown:?}");
        }
    }
}
