//! Fields to a block (RFC 7541 §6), without a dynamic table.
//!
//! A cache sends the same head to many clients. Without a dynamic table a block means the same on every connection, so the block of a
//! stored object is encoded once and then copied. This costs 200 to 250 bytes a head on the wire, and saves the peer's table too.
//!
//! Secret values are marked never-indexed, so that later intermediaries do not put them into a table either.

use super::constant::{STATIC, index_of};
use super::integer;
use super::note::{Kind, Note};
use crate::huffman;

/// Literal without indexing, and never indexed (RFC 7541 §6.2.2, §6.2.3).
const PLAIN: u8 = 0x00;
const NEVER: u8 = 0x10;

/// Appends `:status`, which begins the block of an answer.
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            out.push(PLAIN | 8);
            out.push(3);
            let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
            out.extend_from_slice(&[digit(100), digit(10), digit(1)]);
            return;
        }
    };
    out.push(0x80 | index);
}

/// The pseudo-fields with which a request begins.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// A token.
    pub method: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// Host and port.
    pub authority: &'a [u8],
    /// Begins with `/`, or is `*`.
    pub path: &'a [u8],
}

/// Appends the pseudo-fields of a request, with which its block begins.
pub fn write_request(line: &RequestLine<'_>, out: &mut Vec<u8>) {
    for (name, value) in [
        (&b":method"[..], line.method),
        (b":scheme", line.scheme),
        (b":authority", line.authority),
        (b":path", line.path),
    ] {
        let known = STATIC
            .iter()
            .position(|(n, v)| n.as_bytes() == name && v.as_bytes() == value && !v.is_empty());
        if let Some(at) = known {
            integer::write(0x80, 7, at + 1, out);
            continue;
        }
        let of_name = STATIC.iter().position(|(n, _)| n.as_bytes() == name);
        integer::write(PLAIN, 4, of_name.map_or(0, |at| at + 1), out);
        write_string(value, out);
    }
}

/// Appends a field. The name is written in lower case; a connection-specific field, which HTTP/2 does not have, is left out.
///
/// The caller passes a token and a value without CR, LF and NUL.
//= rfc9113 §8.2.2   an intermediary that transforms a message to HTTP/2 MUST remove connection-specific fields
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    // Names are short; a longer one is lowered on the heap.
    let mut short = [0u8; 64];
    let long;
    let lower = if let Some(room) = short.get_mut(..name.len()) {
        room.copy_from_slice(name);
        room.make_ascii_lowercase();
        &*room
    } else {
        long = name.to_ascii_lowercase();
        &long[..]
    };
    if Note::of_name(lower).kind() == Kind::OfConnection {
        return;
    }
    //= rfc7541 §7.1.3   values that are worth guessing are never indexed
    let first = match lower {
        b"set-cookie" | b"authorization" | b"proxy-authorization" | b"cookie" => NEVER,
        _ => PLAIN,
    };
    match index_of(lower) {
        Some(index) => {
            let (_, known) = STATIC[usize::from(index) - 1];
            if !known.is_empty() && known.as_bytes() == value {
                integer::write(0x80, 7, usize::from(index), out);
                return;
            }
            integer::write(first, 4, usize::from(index), out);
        }
        None => {
            out.push(first);
            write_string(lower, out);
        }
    }
    write_string(value, out);
}

/// Appends the fields of `Name: value CRLF` lines, as [`fields::Fields::as_wire`] has them and as heads are stored. Malformed lines
/// are left out, and so is white space around values.
pub fn write_lines(lines: &[u8], out: &mut Vec<u8>) {
    for line in lines.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(colon) = line.iter().position(|&byte| byte == b':')
            && colon > 0
        {
            write_field(&line[..colon], fields::trim_blanks(&line[colon + 1..]), out);
        }
    }
}

/// Appends a string, in the Huffman code if that is shorter.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let coded_len = huffman::coded_len(text);
    if coded_len < text.len() {
        integer::write(0x80, 7, coded_len, out);
        huffman::encode(text, out);
    } else {
        integer::write(0, 7, text.len(), out);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    fn round(write: impl Fn(&mut Vec<u8>)) -> Vec<String> {
        let mut block = Vec::new();
        write(&mut block);
        let mut read = Vec::new();
        Decoder::new(0)
            .decode(&block, |field| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                read.push(format!("{}={}", text(field.name), text(field.value)));
            })
            .unwrap();
        read
    }

    #[test]
    fn statuses() {
        for status in [100, 200, 204, 206, 304, 400, 404, 500, 503, 999] {
            assert_eq!(
                round(|out| write_status(status, out)),
                [format!(":status={status}")]
            );
        }
    }

    #[test]
    fn requests() {
        let line = RequestLine {
            method: b"PATCH",
            scheme: b"https",
            authority: b"a.test:8443",
            path: b"/",
        };
        assert_eq!(
            round(|out| write_request(&line, out)),
            [
                ":method=PATCH",
                ":scheme=https",
                ":authority=a.test:8443",
                ":path=/"
            ]
        );
        let mut usual = Vec::new();
        let line = RequestLine {
            method: b"GET",
            ..line
        };
        write_request(&line, &mut usual);
        assert_eq!((usual[0], usual[1]), (0x82, 0x87));
    }

    #[test]
    fn lines_of_a_stored_head() {
        let lines = b"Content-Type: text/html\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\
            X-Very-Long: ~~~~~~~~\r\nAccept-Encoding: gzip, deflate\r\nEmpty:\r\n";
        assert_eq!(
            round(|out| write_lines(lines, out)),
            [
                "content-type=text/html",
                "set-cookie=a=b",
                "x-very-long=~~~~~~~~",
                "accept-encoding=gzip, deflate",
                "empty="
            ]
        );
    }

    #[test]
    fn cookies_are_never_indexed() {
        let mut out = Vec::new();
        write_field(b"Set-Cookie", b"a=b", &mut out);
        assert_eq!(out[0] & 0xf0, NEVER);
    }

    #[test]
    fn long_names() {
        let name = vec![b'X'; 300];
        assert_eq!(
            round(|out| write_field(&name, b"v", out)),
            [format!("{}=v", "x".repeat(300))]
        );
    }
}
