//! Examples of the chunked coding, well-formed and not.

use super::*;
use crate::FIELDS_MAX;

/// Body and trailers of a whole body that is handed over in pieces of `step` bytes, and the number of bytes left over.
fn decode_by(step: usize, mut text: &[u8]) -> Result<(Vec<u8>, Fields, usize), Fault> {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let mut body = Vec::new();
    let mut piece_len = step.min(text.len());
    loop {
        let consumed = match decoder
            .next(&text[..piece_len])
            .map_err(|reject| reject.fault())?
        {
            Chunk::Data { start, end } => {
                assert!(start < end && end <= piece_len);
                body.extend_from_slice(&text[start..end]);
                end
            }
            Chunk::More { consumed } => {
                assert_eq!(consumed, piece_len, "everything is consumed");
                consumed
            }
            Chunk::End { consumed, trailers } => {
                assert!(decoder.is_done());
                return Ok((body, trailers, text.len() - consumed));
            }
        };
        text = &text[consumed..];
        piece_len -= consumed;
        if piece_len == 0 {
            assert!(!text.is_empty(), "the body is complete");
            piece_len = step.min(text.len());
        }
    }
}

fn decode(text: &str) -> Result<(String, String), Fault> {
    let outcome = decode_by(usize::MAX, text.as_bytes());
    for step in 1..5 {
        assert_eq!(
            decode_by(step, text.as_bytes()),
            outcome,
            "in steps of {step}"
        );
    }
    let (body, trailers, _) = outcome?;
    let trailers = String::from_utf8(trailers.as_wire().to_vec()).unwrap();
    Ok((String::from_utf8(body).unwrap(), trailers))
}

fn accepted(text: &str, body: &str, trailers: &str) {
    assert_eq!(
        decode(text),
        Ok((body.to_owned(), trailers.to_owned())),
        "{text:?}"
    );
}

fn refused(text: &str, fault: Fault) {
    assert_eq!(decode(text), Err(fault), "{text:?}");
}

#[test]
fn bodies() {
    accepted("0\r\n\r\n", "", "");
    accepted("5\r\nhello\r\n0\r\n\r\n", "hello", "");
    accepted(
        "A\r\n0123456789\r\n0b\r\nhello world\r\n0000\r\n\r\n",
        "0123456789hello world",
        "",
    );
    accepted("0000000000000001\r\na\r\n0\r\n\r\n", "a", "");
}

#[test]
fn what_follows_is_left() {
    let (body, _, left) = decode_by(usize::MAX, b"1\r\na\r\n0\r\n\r\nGET /").unwrap();
    assert_eq!((body.as_slice(), left), (&b"a"[..], 5));
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    assert!(matches!(decoder.next(b""), Ok(Chunk::More { consumed: 0 })));
    assert!(matches!(
        decoder.next(b"0\r\n\r\nx"),
        Ok(Chunk::End { consumed: 5, .. })
    ));
    assert!(matches!(
        decoder.next(b"x"),
        Ok(Chunk::End { consumed: 0, .. })
    ));
}

#[test]
fn extensions_are_dropped() {
    accepted("1;a\r\nx\r\n0;b=\"c;\\\"\u{e4}\"\r\n\r\n", "x", "");
    accepted("1 \t;a = b\r\nx\r\n0\r\n\r\n", "x", "");
    accepted("1;a=\"\";b ; c= \"d\" ;e\r\nx\r\n0\r\n\r\n", "x", "");
    refused("1;a\n\r\nx", Fault::ChunkExtension);
    refused("1;a\0\r\nx", Fault::ChunkExtension);
    refused("1;a\x7f\r\nx", Fault::ChunkExtension);
    refused("1;a\rb\r\nx", Fault::ChunkSize);
}

#[test]
fn malformed_extensions_are_refused() {
    for extension in [
        ";",
        "; ",
        ";;a",
        ";a;",
        ";a ",
        ";a=",
        ";a= ",
        ";a=;b",
        ";a=b ",
        ";a=b=c",
        ";a b",
        ";a=b c",
        ";=b",
        ";bad[=x",
        ";a=[",
        ";a=\"b",
        ";a=\"b\\\"",
        ";a=\"b\"c",
        ";a=\"b\" ",
        ";a=b\"c\"",
        ";\u{e4}",
        ";a=\u{e4}",
        ";a,b",
    ] {
        refused(
            &format!("1{extension}\r\nx\r\n0\r\n\r\n"),
            Fault::ChunkExtension,
        );
    }
}

#[test]
fn extensions_are_bounded_over_the_body() {
    let chunk = |bytes: usize| format!("1;{}\r\nx\r\n", "e".repeat(bytes - 1));
    let half = EXTENSION_BYTES_MAX / 2;
    accepted(
        &format!("{}{}0\r\n\r\n", chunk(half), chunk(half)),
        "xx",
        "",
    );
    refused(
        &format!("{}{}0;\r\n\r\n", chunk(half), chunk(half)),
        Fault::ChunkExtension,
    );
    refused(
        &format!("1{};", " ".repeat(EXTENSION_BYTES_MAX)),
        Fault::ChunkExtension,
    );
}

#[test]
fn sizes_are_strict() {
    for text in [
        "\r\n",
        "\n",
        ";a\r\n",
        " 1\r\n",
        "\t1\r\n",
        "+1\r\n",
        "-1\r\n",
        "0x1\r\n",
        "g\r\n",
        "1g\r\n",
        "1_0\r\n",
        "1\n",
        "1 \r\n",
        "1 1\r\n",
        "1\rx",
        "1\r\r\n",
        "1,\r\n",
        "\u{ff11}\r\n",
        "00000000000000001\r\n",
        "11112222333344445\r\n",
        "\0\r\n",
        "1\0\r\n",
    ] {
        refused(text, Fault::ChunkSize);
    }
}

#[test]
fn data_must_end_where_its_size_says() {
    for text in [
        "1\r\nab\r\n",
        "1\r\na\nb",
        "1\r\na0\r\n\r\n",
        "1\r\na\r0",
        "1\r\na\r\r\n",
    ] {
        refused(text, Fault::ChunkEnd);
    }
}

#[test]
fn the_largest_size_does_not_overflow() {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let text = b"7fffffffffffffff\r\nabc";
    assert!(matches!(
        decoder.next(text),
        Ok(Chunk::Data { start: 18, end: 21 })
    ));
    assert!(matches!(
        decoder.next(b"abc"),
        Ok(Chunk::Data { start: 0, end: 3 })
    ));
    // No body is that long. Such a size aims at readers whose arithmetic overflows.
    for larger in ["8000000000000000\r\n", "ffffffffffffffff\r\n"] {
        refused(larger, Fault::ChunkSize);
    }
}

#[test]
fn trailers() {
    accepted(
        "0\r\nDigest: a\r\nETag: \"b\"\r\n\r\n",
        "",
        "Digest: a\r\nETag: \"b\"\r\n",
    );
    accepted("0\r\nX:y \r\nx:\r\n\r\n", "", "X: y\r\nx: \r\n");
    accepted(
        "0\r\nContent-Length: 5\r\nX: y\r\ntransfer-ENCODING: chunked\r\n\r\n",
        "",
        "X: y\r\n",
    );
    for name in [
        "Host",
        "Authorization",
        "Set-Cookie",
        "Content-Type",
        "Trailer",
        "Vary",
        "Connection",
        "Cache-Control",
    ] {
        accepted(&format!("0\r\n{name}: x\r\n\r\n"), "", "");
    }
    for text in [
        "0\r\nX: y\n\r\n",
        "0\r\n\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX: y\rz\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\n: y\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\nX: y\r\n\rz\r\n\r\n",
    ] {
        refused(text, Fault::Trailers);
    }
}

#[test]
fn trailers_are_bounded() {
    let of = |value: usize| format!("0\r\nX: {}\r\n\r\n", "y".repeat(value));
    let frame = of(0).len() - 3;
    assert!(decode(&of(TRAILER_BYTES_MAX - frame)).is_ok());
    refused(&of(TRAILER_BYTES_MAX - frame + 1), Fault::Trailers);
    let many = |count: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(decode(&many(FIELDS_MAX)).is_ok());
    refused(&many(FIELDS_MAX + 1), Fault::Trailers);
}
