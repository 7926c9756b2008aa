//! Lines of a head, and the checks that httparse does not make.
//!
//! httparse accepts a bare LF as a line end and skips any number of empty lines before a message. Readers differ in
//! both, so a parsed head is checked again here, byte by byte. Together the two checks exclude stray CR, LF and NUL:
//! httparse accepts no control byte but HTAB in a name, value or start line, and here every LF must follow a CR and
//! every CR must precede an LF.

use memchr::{memchr, memchr_iter};
use message::Version;

use crate::reject::Fault;

/// The most empty lines that a client may send before a request.
//= rfc9112 §2.2   a server ignores at least one empty line before the request-line
pub const LEADING_EMPTY_LINES_MAX: usize = 2;

/// The end of the first head in `buf`, just after its empty line. `None` if the head is incomplete. The search begins
/// at `from`.
///
/// For a head that arrives in pieces: after [`crate::parse_request`] or [`crate::parse_response`] said `None`,
/// remember `buf.len()` as `from`, read on, and parse again only when this finds an end or the buffer reaches
/// `Limits::head_bytes_max`. Each byte is then scanned once, however small the pieces. `from` may be 0, or any length
/// for which this function returned `None` before; it looks again at the few bytes before `from` that could begin the
/// end.
///
/// An empty line that ends in a bare LF counts too. The parser then refuses it, instead of waiting for more. Empty
/// lines before the head do not count as its end.
pub fn scan_end(buf: &[u8], from: usize) -> Option<usize> {
    let mut start = 0;
    while buf[start..].starts_with(b"\r\n") && start < LEADING_EMPTY_LINES_MAX * 2 {
        start += 2;
    }
    // An end that straddles `from` begins at most two bytes before it: LF, CR, then LF.
    let from = from.min(buf.len()).saturating_sub(2).max(start);
    memchr_iter(b'\n', &buf[from..])
        .map(|at| from + at)
        .find_map(|at| match buf[at + 1..] {
            [b'\n', ..] => Some(at + 2),
            [b'\r', b'\n', ..] => Some(at + 3),
            _ => None,
        })
}

/// The length of the empty lines before a request.
pub(crate) fn leading_empty_lines(buf: &[u8]) -> Result<usize, Fault> {
    let mut at = 0;
    while let Some(b'\r' | b'\n') = buf.get(at) {
        match buf[at..] {
            [b'\r', b'\n', ..] if at < LEADING_EMPTY_LINES_MAX * 2 => at += 2,
            [b'\r'] if at < LEADING_EMPTY_LINES_MAX * 2 => return Ok(at),
            _ => return Err(Fault::LineEnd),
        }
    }
    Ok(at)
}

/// Does each LF follow a CR, and each CR precede an LF?
pub(crate) fn ends_are_strict(head: &[u8]) -> bool {
    let ([first, rest @ ..], [.., last]) = (head, head) else {
        return true;
    };
    // In each pair of neighbours the first is a CR exactly if the second is an LF. Without a branch many bytes are compared at a time.
    let is_wrong = |(byte, next): (&u8, &u8)| u8::from((*byte == b'\r') != (*next == b'\n'));
    let wrong = head.iter().zip(rest).map(is_wrong);
    wrong.fold(0, |all, one| all | one) == 0 && *first != b'\n' && *last != b'\r'
}

/// [`ends_are_strict`] for a head that is still arriving: a CR may be its last byte.
pub(crate) fn ends_are_strict_so_far(part: &[u8]) -> bool {
    ends_are_strict(part.strip_suffix(b"\r").unwrap_or(part))
}

/// The position of the minor digit in `HTTP/1.1`.
pub(crate) const MINOR_AT: usize = 7;

/// Is it `HTTP/1.2` or a later minor version? httparse supports none of these.
#[cold]
pub(crate) fn is_later_minor(version: &[u8]) -> bool {
    version.starts_with(b"HTTP/1.") && matches!(version.get(MINOR_AT), Some(b'2'..=b'9'))
}

/// The version that a message is read as. httparse supports two minor versions.
pub(crate) fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) {
        Version::Http10
    } else {
        Version::Http11
    }
}

/// Has the first line ended?
pub(crate) fn has_line(part: &[u8]) -> bool {
    memchr(b'\n', part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_wherever_the_search_begins() {
        let head = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
        let end = head.len() - 3;
        assert_eq!(scan_end(head, 0), Some(end));
        for len in 0..end {
            assert_eq!(scan_end(&head[..len], 0), None, "{len}");
            assert_eq!(scan_end(head, len), Some(end), "{len}");
        }
    }

    #[test]
    fn a_sloppy_end_is_an_end() {
        assert_eq!(scan_end(b"GET / HTTP/1.1\nHost: a\n\nx", 0), Some(24));
        assert_eq!(scan_end(b"a\n\r\n", 0), Some(4));
        assert_eq!(scan_end(b"", 7), None);
    }

    #[test]
    fn empty_lines_before_are_not_the_end() {
        assert_eq!(scan_end(b"\r\n\r\nGET / HTTP/1.1\r\n", 0), None);
        assert_eq!(leading_empty_lines(b"\r\n\r\nGET"), Ok(4));
        assert_eq!(leading_empty_lines(b"\r\n\r"), Ok(2));
        assert_eq!(leading_empty_lines(b""), Ok(0));
        for refused in [&b"\r\n\r\n\r"[..], b"\n", b"\rG", b"\r\n\nG"] {
            assert_eq!(
                leading_empty_lines(refused),
                Err(Fault::LineEnd),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn line_ends() {
        assert!(ends_are_strict(b"a\r\nb\r\n\r\n"));
        for refused in [
            &b"a\n"[..],
            b"\n",
            b"a\r\nb\n",
            b"a\rb\r\n",
            b"a\r\r\n",
            b"a\r\n\r",
            b"\n\r",
        ] {
            assert!(!ends_are_strict(refused), "{refused:?}");
        }
        assert!(ends_are_strict_so_far(b"a\r\nb\r"));
        assert!(!ends_are_strict_so_far(b"a\r\nb\r\r"));
    }
}
