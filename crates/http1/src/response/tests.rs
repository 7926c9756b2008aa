//! Response heads, accepted and refused.

use super::*;
use crate::lenient::Lenient;

/// The outcome of parsing `text`, which must be one whole head answering `to`.
fn outcome(to: &str, text: &str) -> Result<String, Fault> {
    let (head, head_bytes) = match parse_response(text.as_bytes(), &Limits::default(), to) {
        Ok(head) => head.expect("the head is complete"),
        Err(reject) => {
            assert_eq!(reject.status(), 502);
            return Err(reject.fault());
        }
    };
    assert_eq!(head_bytes, text.len());
    let keep = if head.keep_alive { " keep" } else { "" };
    Ok(format!("{} {:?}{keep}", head.status, head.framing))
}

fn accepted(to: &str, text: &str, expected: &str) {
    assert_eq!(outcome(to, text), Ok(expected.to_owned()), "{text:?}");
}

fn ok(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n")
}

#[test]
fn a_plain_response() {
    let text = b"HTTP/1.1 404 Not  Found\r\nContent-Length: 5\r\nX:y\r\n\r\nhello";
    let (head, head_bytes) = parse_response(text, &Limits::default(), "GET")
        .unwrap()
        .unwrap();
    assert_eq!((head.status, head.reason.as_str()), (404, "Not  Found"));
    assert_eq!(head.fields.as_wire(), b"Content-Length: 5\r\nX: y\r\n");
    assert_eq!(head.framing, Framing::Length(5));
    assert_eq!(&text[head_bytes..], b"hello");
    assert!(head.keep_alive);
    for len in 0..head_bytes {
        assert!(
            parse_response(&text[..len], &Limits::default(), "GET")
                .unwrap()
                .is_none()
        );
    }
}

#[test]
fn status_lines() {
    accepted("GET", "HTTP/1.1 200\r\n\r\n", "200 UntilClose");
    accepted("GET", "HTTP/1.1 200 \r\n\r\n", "200 UntilClose");
    accepted(
        "GET",
        "HTTP/1.1 999 \u{fc}\r\nContent-Length: 0\r\n\r\n",
        "999 Length(0) keep",
    );
    for (line, fault) in [
        ("HTTP/1.1 099 x", Fault::StatusCode),
        ("HTTP/1.1 20 x", Fault::StartLine),
        ("HTTP/1.1 2000 x", Fault::StartLine),
        ("HTTP/1.1  200 OK", Fault::StartLine),
        ("HTTP/1.1\t200 OK", Fault::Version),
        ("HTTP/1.1 -20 x", Fault::StartLine),
        ("HTTP/1.1 200 a\0b", Fault::StartLine),
        ("HTTP/1.1 200 a\rb", Fault::StartLine),
        ("HTTP/2.0 200 OK", Fault::Version),
        ("HTTP/1.20 200 OK", Fault::Version),
        ("HTTP/1.2\t200 OK", Fault::Version),
        ("ICY 200 OK", Fault::Version),
        ("\r\nHTTP/1.1 200 OK", Fault::LineEnd),
        ("HTTP/1.1 200 OK\n", Fault::LineEnd),
    ] {
        assert_eq!(
            outcome("GET", &format!("{line}\r\n\r\n")),
            Err(fault),
            "{line:?}"
        );
    }
}

#[test]
fn framing_by_status_and_method() {
    let both = |status: u16, line: &str| format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n");
    let (length, coding) = ("Content-Length: 5", "Transfer-Encoding: chunked");
    accepted("GET", &both(200, length), "200 Length(5) keep");
    accepted("GET", &both(200, coding), "200 Chunked keep");
    accepted("GET", &both(200, "X: y"), "200 UntilClose");
    accepted("HEAD", &both(200, length), "200 None keep");
    accepted("HEAD", &both(404, coding), "404 None keep");
    accepted("HEAD", &both(200, "X: y"), "200 None keep");
    accepted("GET", &both(304, length), "304 None keep");
    accepted("GET", &both(204, "X: y"), "204 None keep");
    accepted("GET", &both(204, "Content-Length: 0"), "204 None keep");
    accepted("GET", &both(100, "X: y"), "100 None keep");
    accepted("GET", &both(101, "Connection: Upgrade"), "101 None keep");
    accepted("CONNECT", &both(200, "X: y"), "200 None keep");
    accepted("CONNECT", &both(403, length), "403 Length(5) keep");
    // The fields announce a body that must not exist, so the connection is not reused.
    accepted("GET", &both(204, length), "204 None");
    accepted("GET", &both(103, coding), "103 None");
    accepted("CONNECT", &both(200, length), "200 None");
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
            "Content-Length: 5\r\nContent-Length: 6",
            ContentLengthRepeated,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 05",
            ContentLengthRepeated,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\nContent-Length: 5",
            ContentLengthRepeated,
        ),
        ("Content-Length: 5, 5", ContentLength),
        ("Content-Length: -1", ContentLength),
        ("Content-Length: 99999999999999999999", ContentLength),
        ("Transfer-Encoding: gzip", TransferCodingUnknown),
        ("Transfer-Encoding: chunked, chunked", TransferEncoding),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            TransferEncoding,
        ),
        ("X: a\r\n b", FieldName),
        (": a", FieldName),
        (" : a", FieldName),
        (" X: a", FieldName),
        ("X a : b", FieldName),
        ("X : a\r\n b", FieldName),
        ("Content-Length : 5", FieldName),
        ("content-length\t: 5", FieldName),
        ("Content-Length: 5\r\nContent-Length : 5", FieldName),
        ("Transfer-Encoding : chunked", FieldName),
        ("TRANSFER-ENCODING \t: chunked", FieldName),
        ("Transfer_Encoding : chunked", FieldName),
        ("X: a\0", FieldValue),
        ("X: a\rb", FieldValue),
        ("X: a\nY: b", LineEnd),
        ("X: a\r\nY: b\n", LineEnd),
    ] {
        for to in ["GET", "HEAD"] {
            assert_eq!(outcome(to, &ok(lines)), Err(fault), "{lines:?}");
        }
    }
    let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(outcome("GET", old), Err(CodingInHttp10));
}

#[test]
fn white_space_behind_a_name_goes() {
    for lines in ["X : y", "X \t :y", "X\t: y "] {
        let text = ok(&format!("Content-Length: 5\r\n{lines}\r\nZ: 1"));
        let head = parse_response(text.as_bytes(), &Limits::default(), "GET");
        let (head, _) = head.unwrap().unwrap();
        let expected = b"Content-Length: 5\r\nX: y\r\nZ: 1\r\n";
        assert_eq!(head.fields.as_wire(), expected, "{lines:?}");
        assert_eq!(head.framing, Framing::Length(5));
    }
    accepted(
        "GET",
        &ok("Content-Length: 5\r\nConnection : close"),
        "200 Length(5)",
    );
}

#[test]
fn equal_lengths_become_one() {
    let text = ok("content-length: 5\r\nX: y\r\nContent-Length: 5\r\nContent-Length: 5");
    let (head, _) = parse_response(text.as_bytes(), &Limits::default(), "GET")
        .unwrap()
        .unwrap();
    assert_eq!(head.framing, Framing::Length(5));
    assert_eq!(head.fields.count(b"Content-Length"), 1);
    assert_eq!(head.fields.len(), 2);
}

#[test]
fn persistence() {
    let of = |version: &str, lines: &str| {
        let text = format!("{version} 200 OK\r\nContent-Length: 0\r\n{lines}\r\n\r\n");
        outcome("GET", &text).unwrap().ends_with("keep")
    };
    assert!(of("HTTP/1.1", "X: y"));
    assert!(!of("HTTP/1.1", "Connection: Close"));
    assert!(!of("HTTP/1.0", "X: y"));
    assert!(of("HTTP/1.0", "Connection: keep-alive"));
    assert!(!of("HTTP/1.0", "Connection: keep-alive, close"));
}

#[test]
fn limits_hold() {
    let limits = Limits {
        head_bytes_max: 40,
        fields_max: 2,
        ..Limits::default()
    };
    let of = |text: &str| {
        let parsed = parse_response(text.as_bytes(), &limits, "GET");
        parsed
            .map(|head| head.is_some())
            .map_err(|reject| reject.fault())
    };
    let text = ok(&format!("X: {}", "y".repeat(40 - ok("X: ").len())));
    assert_eq!(of(&text), Ok(true));
    assert_eq!(of(&text[..39]), Ok(false));
    assert_eq!(of(&ok(&"y".repeat(40))), Err(Fault::HeadTooLarge));
    assert_eq!(of(&ok("A:\r\nB:\r\nC:")), Err(Fault::TooManyFields));
    let many = |count: usize| ok(&["A: b"; 5000][..count].join("\r\n"));
    for most in [127, 128, 129, crate::FIELDS_MAX] {
        let limits = Limits {
            fields_max: most,
            ..Limits::default()
        };
        let of = |text: &str| {
            let parsed = parse_response(text.as_bytes(), &limits, "GET");
            let lines = parsed.map(|parsed| parsed.map(|(head, _)| head.fields.iter().count()));
            lines.map_err(|reject| reject.fault())
        };
        assert_eq!(of(&many(most)), Ok(Some(most)));
        assert_eq!(of(&many(most + 1)), Err(Fault::TooManyFields), "{most}");
    }
}

#[test]
fn a_later_minor_version_is_read_as_1_1() {
    for minor in 2..=9 {
        let text = format!("HTTP/1.{minor} 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        let head = parse_response(text.as_bytes(), &Limits::default(), "GET");
        let (head, head_bytes) = head.unwrap().unwrap();
        assert_eq!((head.status, head.framing), (200, Framing::Length(3)));
        assert_eq!((head.version, head.keep_alive), (Version::Http11, true));
        assert_eq!(head_bytes, text.len() - 3);
        for cut in 0..head_bytes {
            let part = parse_response(&text.as_bytes()[..cut], &Limits::default(), "GET");
            assert!(matches!(part, Ok(None)), "{cut}");
        }
    }
}

/// The outcome of a response that is refused by default, parsed leniently.
fn leniently(lenient: Lenient, text: &str) -> Result<String, Fault> {
    assert!(
        outcome("GET", text).is_err(),
        "refused by default: {text:?}"
    );
    let limits = Limits {
        lenient,
        ..Limits::default()
    };
    let body = [text, "body"].concat();
    let parsed = parse_response(body.as_bytes(), &limits, "GET").map_err(|it| it.fault())?;
    let (head, head_bytes) = parsed.expect("the head is complete");
    assert_eq!(head_bytes, text.len());
    for len in 1..head_bytes {
        let part = parse_response(&text.as_bytes()[..len], &limits, "GET");
        assert!(matches!(part, Ok(None)), "{:?}", &text[..len]);
    }
    let lines = String::from_utf8(head.fields.as_wire().to_vec()).unwrap();
    Ok(format!("{:?} {lines:?}", head.framing))
}

const LF: Lenient = Lenient {
    bare_lf: true,
    folding: false,
};
const FOLDING: Lenient = Lenient {
    bare_lf: false,
    folding: true,
};
const BOTH: Lenient = Lenient {
    bare_lf: true,
    folding: true,
};

#[test]
fn odd_lines_are_read_where_they_are_permitted() {
    let bare = "HTTP/1.1 200 OK\nContent-Length: 4\nA: b\n\n";
    let folded = "HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\nContent-Length: 4\r\n\r\n";
    let both = "HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 4\n\n";
    let read_bare = "Length(4) \"Content-Length: 4\\r\\nA: b\\r\\n\"";
    let read_folded = "Length(4) \"A: b c\\r\\nContent-Length: 4\\r\\n\"";
    for (lenient, text, read) in [
        (LF, bare, read_bare),
        (BOTH, bare, read_bare),
        (FOLDING, folded, read_folded),
        (BOTH, folded, read_folded),
        (BOTH, both, read_folded),
    ] {
        assert_eq!(leniently(lenient, text).as_deref(), Ok(read), "{text:?}");
    }
    for (lenient, text) in [(FOLDING, bare), (LF, folded), (LF, both), (FOLDING, both)] {
        assert!(leniently(lenient, text).is_err(), "{text:?}");
    }
}

#[test]
fn what_is_ambiguous_is_refused_of_everybody() {
    let of = |lines: &str| leniently(BOTH, &format!("HTTP/1.1 200 OK\n{lines}\n\n"));
    assert_eq!(
        of("Content-Length: 4\nContent-Length: 5"),
        Err(Fault::ContentLengthRepeated)
    );
    assert_eq!(
        of("Content-Length: 4\nTransfer-Encoding: chunked"),
        Err(Fault::LengthAndCoding)
    );
    for lines in [
        "Content-Length: 4\n 5",
        "Content-Length:\n 4",
        "Transfer-Encoding:\n chunked",
        "Content-Length : 4",
        " A: b",
        "A: b\rC: d",
        "A: b\0",
        "A b: c",
        ": c",
    ] {
        assert!(of(lines).is_err(), "{lines:?}");
    }
    for text in [
        "\nHTTP/1.1 200 OK\n\n",
        "HTTP/1.1\n 200 OK\n\n",
        "HTTP/1.1 200 OK\r\r\n\r\n",
    ] {
        let limits = Limits {
            lenient: BOTH,
            ..Limits::default()
        };
        let parsed = parse_response(text.as_bytes(), &limits, "GET");
        assert!(parsed.is_err(), "{text:?}");
    }
    let limits = Limits {
        lenient: BOTH,
        head_bytes_max: 30,
        ..Limits::default()
    };
    let long = format!("HTTP/1.1 200 OK\nA: {}", "b".repeat(40));
    let parsed = parse_response(long.as_bytes(), &limits, "GET");
    assert_eq!(parsed.unwrap_err().fault(), Fault::HeadTooLarge);
}

/// Requests are never parsed leniently.
#[test]
fn requests_are_as_strict_as_ever() {
    let limits = Limits {
        lenient: BOTH,
        ..Limits::default()
    };
    for text in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
    ] {
        let mut scratch = Scratch::new();
        let parsed = crate::parse_request(text.as_bytes(), &limits, &mut scratch);
        assert!(parsed.is_err(), "{text:?}");
    }
}
