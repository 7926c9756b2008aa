//! Writes lines of a head and chunk headers, without `std::fmt`.
//!
//! Everything appends to a `Vec<u8>`. Callers must pass a method that is a token, and a target and a reason without
//! CR and LF.

use fields::Fields;
use message::write_decimal;

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends `METHOD target HTTP/1.1` CRLF. The version is always the proxy's own (RFC 9112 §2.3).
pub fn write_request_line(method: &str, target: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends `HTTP/1.1 status reason` CRLF. The version is always the proxy's own. The blank before an empty reason is written
/// (RFC 9112 §4).
pub fn write_status_line(status: u16, reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(u64::from(status), out);
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the size line of a chunk of `len` bytes: `1f4` CRLF. The caller appends the data and CRLF. `len` must not be 0, because
/// a chunk of length 0 ends the body.
pub fn write_chunk_header(len: usize, out: &mut Vec<u8>) {
    assert!(len > 0, "a chunk of length 0 ends the body");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for index in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(len >> (index * 4)) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body with trailers: `0` CRLF, the lines, CRLF.
pub fn write_trailers(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    trailers.write_to(out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn chunk_headers() {
        for len in [1, 15, 16, 500, 0x1000, usize::MAX] {
            assert_eq!(
                written(|out| write_chunk_header(len, out)),
                format!("{len:x}\r\n")
            );
        }
    }

    #[test]
    fn start_lines() {
        assert_eq!(
            written(|out| write_request_line("GET", "/a?b", out)),
            "GET /a?b HTTP/1.1\r\n"
        );
        assert_eq!(
            written(|out| write_status_line(404, "Not Found", out)),
            "HTTP/1.1 404 Not Found\r\n"
        );
        assert_eq!(
            written(|out| write_status_line(299, "", out)),
            "HTTP/1.1 299 \r\n"
        );
    }

    #[test]
    fn trailers() {
        let mut trailers = Fields::new();
        assert_eq!(
            written(|out| write_trailers(&trailers, out)).as_bytes(),
            LAST_CHUNK
        );
        trailers.push(b"Digest", b"x");
        assert_eq!(
            written(|out| write_trailers(&trailers, out)),
            "0\r\nDigest: x\r\n\r\n"
        );
    }
}
