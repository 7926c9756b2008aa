//! Lines of a head, chunk headers and numbers, without formatting machinery.
//!
//! Everything appends to a `Vec<u8>`. What comes in is taken for checked: a method that is a token, a target
//! and a reason without CR and LF.

use fields::Fields;

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// `METHOD target HTTP/1.1` CRLF. Always our own version (RFC 9112 §2.3).
pub fn write_request_line(method: &str, target: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// `HTTP/1.1 status reason` CRLF. Always our own version. The blank before an empty reason is written
/// (RFC 9112 §4).
pub fn write_status_line(status: u16, reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(u64::from(status), out);
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The size line of a chunk of `len` bytes: `1f4` CRLF. The caller appends the data and CRLF. A chunk of
/// length 0 would end the body, so `len` must not be 0.
pub fn write_chunk_header(len: usize, out: &mut Vec<u8>) {
    assert!(len > 0, "a chunk of length 0 ends the body");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for index in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(len >> (index * 4)) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body with trailers: `0` CRLF, the lines, CRLF.
pub fn write_trailers(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    trailers.write_to(out);
    out.extend_from_slice(b"\r\n");
}

/// A number in decimal, without leading zeros.
pub fn write_decimal(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// The reason phrase registered for a status; empty for unknown ones.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
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
    fn numbers() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(written(|out| write_decimal(n, out)), n.to_string());
        }
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
            written(|out| write_status_line(299, reason_phrase(299), out)),
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
