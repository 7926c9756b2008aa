//! Converts heads: a request in HTTP/1.1 form to a field block, and an answer's fields to a head.
//!
//! Not known here: streams, bodies.

use http2::{Asked, RequestLine, ResponseView, write_field, write_request};
use message::{Framing, ResponseHead, Version, reason_phrase};

/// A request in the form of HTTP/2.
pub(crate) struct Request {
    /// Its field block.
    pub(crate) block: Vec<u8>,
    /// Facts that the connection needs about it.
    pub(crate) asked: Asked,
    /// The length of its body, if it was announced.
    pub(crate) body_bytes: Option<u64>,
    /// Is it a gRPC call? Its answer may be long-lived, with few bytes.
    pub(crate) is_call: bool,
}

/// Converts the head of a request that we have written: request line, fields, an empty line. `None`: it is no such head.
//= rfc9113 §8.3.1   an intermediary makes :authority of Host;  §8.2.2   fields of the connection are left out
pub(crate) fn request(head: &[u8], is_tls: bool) -> Option<Request> {
    let mut lines = head.split(|&byte| byte == b'\n');
    let line = trimmed(lines.next()?);
    let mut words = line.split(|&byte| byte == b' ');
    let (method, path) = (words.next()?, words.next()?);
    let (mut host, mut length, mut is_chunked, mut is_call) = (None, None, false, false);
    let mut fields = Vec::with_capacity(head.len());
    for line in lines {
        let line = trimmed(line);
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], fields::trim_blanks(&line[colon + 1..]));
        if name.eq_ignore_ascii_case(b"host") {
            host = Some(value);
            continue;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            length = message::parse_content_length(value);
        }
        is_call |=
            name.eq_ignore_ascii_case(b"content-type") && value.starts_with(b"application/grpc");
        is_chunked |= name.eq_ignore_ascii_case(b"transfer-encoding");
        write_field(name, value, &mut fields);
    }
    let line = RequestLine {
        method,
        scheme: if is_tls { b"https" } else { b"http" },
        authority: host?,
        path,
    };
    let mut block = Vec::with_capacity(fields.len() + 64);
    write_request(&line, &mut block);
    block.extend_from_slice(&fields);
    let asked = Asked {
        is_head: method == b"HEAD",
        ends: !is_chunked && length.unwrap_or(0) == 0,
    };
    Some(Request {
        block,
        asked,
        body_bytes: length.filter(|_| !is_chunked),
        is_call,
    })
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The head of an answer, in the common form. `is_head`: its request was HEAD.
pub(crate) fn response(head: &ResponseView<'_>, is_head: bool) -> ResponseHead {
    let has_body = !is_head && head.status >= 200 && !matches!(head.status, 204 | 304);
    let framing = match head.content_length {
        _ if !has_body => Framing::None,
        Some(bytes) => Framing::Length(bytes),
        None if head.ends => Framing::Length(0),
        // The end of the stream ends the body.
        None => Framing::Chunked,
    };
    ResponseHead {
        status: head.status,
        reason: reason_phrase(head.status).to_owned(),
        version: Version::Http2,
        fields: head.fields.clone(),
        framing,
        keep_alive: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http2::hpack::Decoder;

    fn read(head: &str, is_tls: bool) -> (Vec<String>, Asked, Option<u64>) {
        let request = request(head.as_bytes(), is_tls).unwrap();
        let mut fields = Vec::new();
        let decoded = Decoder::new(0).decode(&request.block, |field| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            fields.push(format!("{}={}", text(field.name), text(field.value)));
        });
        decoded.unwrap();
        (fields, request.asked, request.body_bytes)
    }

    #[test]
    fn a_request_keeps_what_is_not_of_the_connection() {
        let head = "POST /a?b HTTP/1.1\r\nHost: a.test:81\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\
            Grpc-Timeout: 1S\r\nVia: 1.1 x\r\n\r\n";
        let (fields, asked, length) = read(head, false);
        let expected = [
            ":method=POST",
            ":scheme=http",
            ":authority=a.test:81",
            ":path=/a?b",
            "te=trailers",
            "grpc-timeout=1S",
            "via=1.1 x",
        ];
        assert_eq!(fields, expected);
        assert!(!asked.ends && !asked.is_head && length.is_none());
    }

    #[test]
    fn a_request_ends_where_its_length_says() {
        let of = |method: &str, line: &str| {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
            let (fields, asked, length) = read(&head, true);
            assert_eq!(fields[1], ":scheme=https");
            (asked.ends, asked.is_head, length)
        };
        assert_eq!(of("GET", ""), (true, false, None));
        assert_eq!(of("HEAD", ""), (true, true, None));
        assert_eq!(of("PUT", "Content-Length: 0\r\n"), (true, false, Some(0)));
        assert_eq!(of("PUT", "Content-Length: 7\r\n"), (false, false, Some(7)));
        assert!(
            request(b"GET / HTTP/1.1\r\n\r\n", true).is_none(),
            "no host"
        );
    }
}
