//! Request heads, accepted and refused.

use super::*;
use crate::{CONNECTION_OPTIONS_MAX, FIELDS_MAX};

/// The outcome of parsing `text`, which must be one whole head: a line of words, or the fault.
fn outcome(text: &[u8]) -> Result<String, Fault> {
    let mut scratch = Scratch::new();
    let view = match parse_request(text, &Limits::default(), &mut scratch) {
        Ok(view) => view.expect("the head is complete"),
        Err(reject) => return Err(reject.fault()),
    };
    assert_eq!(view.head_bytes, text.len());
    let mut words = vec![
        view.method.to_owned(),
        view.target.to_owned(),
        format!("{:?}", view.framing),
    ];
    words.extend(view.host.map(str::to_owned));
    words.extend(view.keep_alive.then(|| "keep".to_owned()));
    words.extend(view.expect_continue.then(|| "expect".to_owned()));
    Ok(words.join(" "))
}

fn accepted(text: &str, expected: &str) {
    assert_eq!(
        outcome(text.as_bytes()),
        Ok(expected.to_owned()),
        "{text:?}"
    );
}

fn refused(text: &str, fault: Fault) {
    assert_eq!(outcome(text.as_bytes()), Err(fault), "{text:?}");
}

/// A POST in HTTP/1.1 with these lines besides Host.
fn post(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn a_plain_get() {
    accepted(
        "GET /a?b HTTP/1.1\r\nHost: a:80\r\n\r\n",
        "GET /a?b None a:80 keep",
    );
    accepted("GET / HTTP/1.0\r\n\r\n", "GET / None");
    accepted(
        "\r\n\r\nGET / HTTP/1.1\r\nhost:a\r\n\r\n",
        "GET / None a keep",
    );
    accepted(
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * None a keep",
    );
    accepted(
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b/ None a keep",
    );
    accepted(
        "M-SEARCH /{|}\"\\ HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
        "M-SEARCH /{|}\"\\ None [::1]:8 keep",
    );
}

#[test]
fn fields_are_seen_and_found() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nX:  b c\t \r\nCookie:\r\nx: \x80\xff\r\n\r\nrest";
    let mut scratch = Scratch::new();
    let view = parse_request(text, &Limits::default(), &mut scratch)
        .unwrap()
        .unwrap();
    assert_eq!(view.seen, Seen::HOST | Seen::COOKIE);
    assert_eq!(view.first(b"x"), Some(&b"b c"[..]));
    assert_eq!(view.first(b"COOKIE"), Some(&b""[..]));
    assert_eq!(view.first(b"y"), None);
    assert_eq!(view.fields().count(), 4);
    assert_eq!(&text[view.head_bytes..], b"rest");
    let head = view.to_owned();
    assert_eq!(
        head.fields.as_wire(),
        b"Host: a\r\nX: b c\r\nCookie: \r\nx: \x80\xff\r\n"
    );
    assert_eq!(
        (head.method.as_str(), head.host.as_deref()),
        ("GET", Some("a"))
    );
}

#[test]
fn framing_of_bodies() {
    accepted(&post("Content-Length: 5"), "POST / Length(5) a keep");
    accepted(&post("content-length:0"), "POST / Length(0) a keep");
    accepted(&post("Transfer-Encoding: chunked"), "POST / Chunked a keep");
    accepted(
        &post("transfer-encoding:  CHUNKED "),
        "POST / Chunked a keep",
    );
    accepted(&post("X: y"), "POST / None a keep");
    accepted(
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        "GET / Length(5) a keep",
    );
}

#[test]
fn smuggling_is_refused() {
    use Fault::*;
    for (lines, fault) in [
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            LengthAndCoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 0",
            LengthAndCoding,
        ),
        ("Transfer-Encoding: x\r\nContent-Length: 0", LengthAndCoding),
        (
            "Content-Length: 5\r\nContent-Length: 5",
            ContentLengthRepeated,
        ),
        (
            "Content-Length: 5\r\nX: y\r\ncontent-length: 6",
            ContentLengthRepeated,
        ),
        ("Content-Length: 5, 5", ContentLength),
        ("Content-Length: +5", ContentLength),
        ("Content-Length: -5", ContentLength),
        ("Content-Length: 5 5", ContentLength),
        ("Content-Length: 0x5", ContentLength),
        ("Content-Length:", ContentLength),
        ("Content-Length: 18446744073709551616", ContentLength),
        ("Content-Length: 9223372036854775808", ContentLength),
        ("Content-Length: \u{ff15}", ContentLength),
        ("Content_Length: 5", FieldName),
        ("Transfer_Encoding: chunked", FieldName),
        ("Transfer-Encoding: gzip", TransferCodingUnknown),
        ("Transfer-Encoding: gzip, chunked", TransferCodingUnknown),
        ("Transfer-Encoding: xchunked", TransferCodingUnknown),
        ("Transfer-Encoding: identity", TransferCodingUnknown),
        ("Transfer-Encoding: chunked,", TransferEncoding),
        ("Transfer-Encoding: ,chunked", TransferEncoding),
        ("Transfer-Encoding: chunked, chunked", TransferEncoding),
        ("Transfer-Encoding: chunked, identity", TransferEncoding),
        ("Transfer-Encoding: chunked;a=b", TransferEncoding),
        ("Transfer-Encoding: \"chunked\"", TransferEncoding),
        ("Transfer-Encoding:", TransferEncoding),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            TransferEncoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
            TransferEncoding,
        ),
        ("Transfer-Encoding: \u{b}chunked", FieldValue),
        ("Transfer-Encoding: chunked\r\n ", FieldName),
        ("Transfer-Encoding : chunked", FieldName),
        (" Transfer-Encoding: chunked", FieldName),
        ("Transfer-Encoding\0: chunked", FieldName),
        ("Transfer-Encoding: chu\0nked", FieldValue),
        ("Transfer-Encoding:\r\n chunked", FieldName),
        ("X: y\r\n\tContent-Length: 5", FieldName),
        (": y", FieldName),
        ("X", FieldName),
        ("X y: z", FieldName),
        ("\u{e4}: z", FieldName),
    ] {
        refused(&post(lines), fault);
    }
    refused(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        CodingInHttp10,
    );
    for method in ["CONNECT", "TRACE"] {
        for line in ["Content-Length: 1", "Transfer-Encoding: chunked"] {
            refused(
                &format!("{method} a:1 HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"),
                BodyForbidden,
            );
        }
    }
}

#[test]
fn unknown_codings_are_501() {
    let reject = |text: &str| {
        let text = text.as_bytes();
        parse_request(text, &Limits::default(), &mut Scratch::new())
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(reject(&post("Transfer-Encoding: gzip")).status(), 501);
    assert_eq!(reject(&post("Content-Length: x")).status(), 400);
    assert_eq!(reject("GET / HTTP/2.0\r\n").status(), 505);
    assert_eq!(
        reject("GET / HTTP/2.0\r\n").reason(),
        "unsupported HTTP version"
    );
}

#[test]
fn line_ends_must_be_crlf() {
    for text in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\rX",
    ] {
        refused(text, Fault::LineEnd);
    }
    refused("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Fault::FieldValue);
    refused("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", Fault::FieldValue);
    refused(
        "GET / HTTP/1.1\r\nHost: a\r\nX:\ry\r\n\r\n",
        Fault::FieldValue,
    );
}

/// httparse has several vectorised scanners; each must refuse every control byte at any position.
#[test]
fn control_bytes_are_refused_at_any_position() {
    for len in [1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 70] {
        for at in 0..len {
            for byte in (0..=255u8).filter(|b| b.is_ascii_control() && *b != b'\n') {
                let mut value = vec![b'x'; len];
                value[at] = byte;
                let whole = |before: &[u8], after: &[u8]| [before, &value, after].concat();
                let in_value = whole(b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"\r\n\r\n");
                assert_eq!(
                    outcome(&in_value).is_ok(),
                    byte == b'\t',
                    "value {byte} at {at} of {len}"
                );
                let in_name = whole(b"GET / HTTP/1.1\r\nHost: a\r\n", b": y\r\n\r\n");
                assert!(outcome(&in_name).is_err(), "name {byte} at {at} of {len}");
                let in_target = whole(b"GET /", b" HTTP/1.1\r\nHost: a\r\n\r\n");
                assert!(
                    outcome(&in_target).is_err(),
                    "target {byte} at {at} of {len}"
                );
            }
        }
    }
}

#[test]
fn request_lines() {
    use Fault::*;
    for (line, fault) in [
        ("GET  / HTTP/1.1", Target),
        ("GET /  HTTP/1.1", StartLine),
        ("GET\t/ HTTP/1.1", StartLine),
        ("GET /\tHTTP/1.1", Target),
        (" GET / HTTP/1.1", StartLine),
        ("GET / HTTP/1.1 x", LineEnd),
        ("GET /a b HTTP/1.1", StartLine),
        ("G(T / HTTP/1.1", StartLine),
        ("GET /", Target),
        ("GET", StartLine),
        ("GET /\u{e4} HTTP/1.1", Target),
        ("GET /\u{7f} HTTP/1.1", Target),
        ("GET /#a HTTP/1.1", Target),
        ("GET / http/1.1", StartLine),
        ("GET / HTTP/1", StartLine),
        ("GET / HTTP/01.1", StartLine),
        ("GET / HTTP/1.01", LineEnd),
        ("GET / HTTP/11", StartLine),
        ("GET / HTTPS/1.1", StartLine),
        ("GET / HTTP/1.20", LineEnd),
        ("GET / HTTP/1.2 ", LineEnd),
        ("GET  / HTTP/1.2", Target),
        ("GET / HTTP/0.9", Version),
        ("GET / HTTP/3.0", Version),
        ("PRI * HTTP/2.0", Version),
        (
            "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1",
            MethodTooLong,
        ),
    ] {
        refused(&format!("{line}\r\nHost: a\r\n\r\n"), fault);
    }
}

#[test]
fn hosts() {
    refused("GET / HTTP/1.1\r\nX: y\r\n\r\n", Fault::HostMissing);
    refused("GET http://a/ HTTP/1.1\r\n\r\n", Fault::HostMissing);
    refused(
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        Fault::HostRepeated,
    );
    refused(
        "GET / HTTP/1.0\r\nHost: a\r\nhOST: b\r\n\r\n",
        Fault::HostRepeated,
    );
    for host in [
        "", "a b", "a,\tb", "u@a", "a/b", "a:x", "a:65536", "[::1", "::1", "http://a", "a\\b",
        "\u{e4}",
    ] {
        refused(
            &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            Fault::HostInvalid,
        );
    }
    refused(
        "GET http://a/ HTTP/1.0\r\nHost: a b\r\n\r\n",
        Fault::HostInvalid,
    );
}

#[test]
fn persistence() {
    let get = |target: &str, version: &str, lines: &str, expected: &str| {
        let text = format!("GET {target} {version}\r\nHost: a\r\n{lines}\r\n\r\n");
        accepted(&text, &format!("GET {target} None a{expected}"));
    };
    get("/", "HTTP/1.1", "Connection: keep-alive", " keep");
    get("/", "HTTP/1.1", "Connection: x, CLOSE", "");
    get(
        "/",
        "HTTP/1.1",
        "Connection: keep-alive\r\nConnection: close",
        "",
    );
    get("/", "HTTP/1.1", "Connection: \"x, close", "");
    get("/", "HTTP/1.1", "Connection: closed", " keep");
    get("/", "HTTP/1.0", "X: y", "");
    get("/", "HTTP/1.0", "Connection: Keep-Alive", " keep");
    get("/", "HTTP/1.0", "Connection: keep-alive, close", "");
    get(
        "/",
        "HTTP/1.0",
        "Connection: keep-alive\r\nProxy-Connection: close",
        "",
    );
    get("/", "HTTP/1.0", "Proxy-Connection: keep-alive", "");
    // A proxy must not keep the connection of an HTTP/1.0 client.
    get("http://a/", "HTTP/1.0", "Connection: keep-alive", "");
}

#[test]
fn connection_options_are_bounded() {
    let options = |count: usize| post(&format!("Connection: {}", vec!["x"; count].join(",")));
    accepted(&options(CONNECTION_OPTIONS_MAX), "POST / None a keep");
    refused(
        &options(CONNECTION_OPTIONS_MAX + 1),
        Fault::ConnectionOptions,
    );
}

#[test]
fn expectations() {
    let lines = "Content-Length: 5\r\nExpect: 100-Continue";
    accepted(&post(lines), "POST / Length(5) a keep expect");
    accepted(&post("Expect: 100-continue"), "POST / None a keep");
    accepted(
        &post("Content-Length: 5\r\nExpect: x"),
        "POST / Length(5) a keep",
    );
    accepted(
        &format!("POST / HTTP/1.0\r\n{lines}\r\n\r\n"),
        "POST / Length(5)",
    );
}

fn with_limits(limits: Limits, text: &[u8]) -> Result<bool, Fault> {
    let mut scratch = Scratch::new();
    let parsed = parse_request(text, &limits, &mut scratch);
    parsed
        .map(|view| view.is_some())
        .map_err(|reject| reject.fault())
}

#[test]
fn every_beginning_asks_for_more() {
    let text = b"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    for len in 0..text.len() {
        assert_eq!(
            with_limits(Limits::default(), &text[..len]),
            Ok(false),
            "{len}"
        );
    }
    assert_eq!(with_limits(Limits::default(), text), Ok(true));
}

#[test]
fn garbage_is_refused_at_once() {
    for (part, fault) in [
        (&b"\x16\x03\x01"[..], Fault::StartLine),
        (b"GET / SSH", Fault::StartLine),
        (b"GET / HTTP/2", Fault::Version),
        (b"GET / HTTP/1.1\n", Fault::LineEnd),
        (b"GET / HTTP/1.1\r\nHost: a\nX", Fault::LineEnd),
        (b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Fault::MethodTooLong),
        (b"GET / HTTP/1.1\r\n X", Fault::FieldName),
    ] {
        assert_eq!(with_limits(Limits::default(), part), Err(fault), "{part:?}");
    }
}

#[test]
fn limits_hold() {
    let limits = Limits {
        head_bytes_max: 60,
        fields_max: 2,
        target_bytes_max: 10,
        ..Limits::default()
    };
    let get = |target: usize, value: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n",
            "t".repeat(target - 1),
            "h".repeat(value)
        )
        .into_bytes()
    };
    let fill = 60 - get(10, 0).len();
    assert_eq!(with_limits(limits, &get(10, fill)), Ok(true));
    assert_eq!(
        with_limits(limits, &get(10, fill + 1)),
        Err(Fault::HeadTooLarge)
    );
    assert_eq!(with_limits(limits, &get(10, fill + 1)[..59]), Ok(false));
    assert_eq!(with_limits(limits, &get(11, 1)), Err(Fault::TargetTooLong));
    assert_eq!(
        with_limits(limits, &get(11, 1)[..15]),
        Err(Fault::TargetTooLong)
    );
    assert_eq!(with_limits(limits, &get(100, 1)), Err(Fault::TargetTooLong));
    let lines = |lines: &str| format!("GET / HTTP/1.1\r\n{lines}\r\n").into_bytes();
    assert_eq!(with_limits(limits, &lines("Host: a\r\nB: \r\n")), Ok(true));
    assert_eq!(
        with_limits(limits, &lines("Host: a\r\nB: \r\nC: \r\n")),
        Err(Fault::TooManyFields)
    );
    let many = |count: usize| lines(&format!("Host: a\r\n{}", "A: b\r\n".repeat(count - 1)));
    for most in [2, 127, 128, 129, FIELDS_MAX, 5000] {
        let limits = Limits {
            fields_max: most,
            ..Limits::default()
        };
        assert_eq!(with_limits(limits, &many(most)), Ok(true), "{most}");
        let one_more = many(most + 1);
        assert_eq!(
            with_limits(limits, &one_more),
            Err(Fault::TooManyFields),
            "{most}"
        );
        // The excess is noticed as soon as it is seen.
        let part = &one_more[..one_more.len() - 2];
        assert_eq!(with_limits(limits, part), Err(Fault::TooManyFields));
        assert_eq!(
            with_limits(limits, &many(most)[..part.len() - 6]),
            Ok(false)
        );
    }
    // The lines are the same, wherever they are stored.
    let mut scratch = Scratch::new();
    let text = lines(&format!("Host: a\r\n{}X: y\r\n", "A: b\r\n".repeat(998)));
    let view = parse_request(&text, &Limits::default(), &mut scratch);
    let view = view.unwrap().unwrap();
    assert_eq!((view.method, view.target), ("GET", "/"));
    assert_eq!((view.fields().count(), view.head_bytes), (1000, text.len()));
    assert_eq!(view.first(b"x"), Some(&b"y"[..]));
}

#[test]
fn a_later_minor_version_is_read_as_1_1() {
    for minor in 2..=9 {
        let text = format!("\r\nGET /a HTTP/1.{minor}\r\nHost: a\r\nX: y\r\n\r\nrest");
        let text = text.as_bytes();
        let mut scratch = Scratch::new();
        let view = parse_request(text, &Limits::default(), &mut scratch);
        let view = view.unwrap().unwrap();
        assert_eq!((view.method, view.target), ("GET", "/a"));
        assert_eq!((view.version, view.keep_alive), (Version::Http11, true));
        assert_eq!((view.host, view.first(b"x")), (Some("a"), Some(&b"y"[..])));
        assert_eq!(view.head_bytes, text.len() - 4);
        for cut in 0..view.head_bytes {
            let mut scratch = Scratch::new();
            let part = parse_request(&text[..cut], &Limits::default(), &mut scratch);
            assert!(matches!(part, Ok(None)), "{cut}");
        }
    }
    let limits = Limits {
        head_bytes_max: 64,
        fields_max: 2,
        ..Limits::default()
    };
    let long = format!("GET / HTTP/1.2\r\nHost: a\r\nX: {}", "y".repeat(64));
    assert_eq!(
        with_limits(limits, long.as_bytes()),
        Err(Fault::HeadTooLarge)
    );
    let many = b"GET / HTTP/1.2\r\nHost: a\r\nX: y\r\nX: y\r\n\r\n";
    assert_eq!(with_limits(limits, many), Err(Fault::TooManyFields));
    for (text, fault) in [
        ("GET / HTTP/1.2\n", Fault::LineEnd),
        ("GET / HTTP/1.2\r\nHost: a\nX", Fault::LineEnd),
        ("GET / HTTP/1.2\r\n X", Fault::FieldName),
        ("GET / HTTP/1.2\r\nX: y\r\n\r\n", Fault::HostMissing),
    ] {
        assert_eq!(
            with_limits(Limits::default(), text.as_bytes()),
            Err(fault),
            "{text:?}"
        );
    }
}
