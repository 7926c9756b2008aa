//! The contents of a line or record of a trace, before names become numbers.

use super::names::{Name, name, server_of};

/// A request as the trace has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Time by the trace's own clock.
    pub at_us: u64,
    pub object: Name,
    pub server: Name,
    /// `None`: the line has no size, as with 304.
    pub size_bytes: Option<u64>,
}

/// The reason why a valid line is not a request to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Not a GET: caches do not store the answer.
    Method,
    /// A status that caches do not store: errors, partial content, redirections that are not permanent.
    Status,
    /// The browser's own cache answered: a proxy would not see the request.
    Browser,
    /// A 304, or an answer without a length, for an object whose size no earlier line has.
    Size,
}

impl Skip {
    /// All reasons, in the order in which they are counted.
    pub const ALL: [Skip; 4] = [Skip::Method, Skip::Status, Skip::Browser, Skip::Size];

    /// The words for reports.
    pub fn words(self) -> &'static str {
        match self {
            Skip::Method => "not GET",
            Skip::Status => "status not kept by caches",
            Skip::Browser => "answered by the browser's cache",
            Skip::Size => "size not known",
        }
    }
}

/// The result of parsing a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    Request(Entry),
    Skipped(Skip),
    /// Neither a request nor a comment.
    Nothing,
    Bad(&'static str),
}

/// The error says what is wrong with a line.
pub(crate) type Result<T> = std::result::Result<T, &'static str>;

impl From<Result<Parsed>> for Parsed {
    fn from(result: Result<Parsed>) -> Self {
        result.unwrap_or_else(Parsed::Bad)
    }
}

/// A request for a URL.
pub(crate) fn request(at_us: u64, url: &[u8], size_bytes: Option<u64>) -> Parsed {
    Parsed::Request(Entry {
        at_us,
        object: name(url),
        server: server_of(url),
        size_bytes,
    })
}

/// Whether caches store the answer to a request (RFC 9110 section 15.1). A 304 shows that it was stored, but has no length.
pub(crate) fn judge(
    method: &[u8],
    status: u64,
    size_bytes: u64,
) -> std::result::Result<Option<u64>, Skip> {
    if !method.eq_ignore_ascii_case(b"GET") {
        return Err(Skip::Method);
    }
    match status {
        200 | 203 | 300 | 301 | 308 | 404 | 410 => Ok(Some(size_bytes)),
        304 => Ok(None),
        _ => Err(Skip::Status),
    }
}

/// A whole number.
pub(crate) fn number(bytes: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a number is no number")?;
    text.parse().map_err(|_| "a number is no number")
}

/// Seconds with or without a fraction, as microseconds.
pub(crate) fn seconds_us(bytes: &[u8]) -> Result<u64> {
    let point = memchr::memchr(b'.', bytes).unwrap_or(bytes.len());
    let seconds = number(&bytes[..point]).map_err(|_| "the time is no time")?;
    let digits = bytes.get(point + 1..).unwrap_or_default();
    let mut micros = 0;
    for place in 0..6 {
        micros = micros * 10
            + match digits.get(place) {
                Some(digit @ b'0'..=b'9') => u64::from(digit - b'0'),
                Some(_) => return Err("the time is no time"),
                None => 0,
            };
    }
    seconds
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(micros))
        .ok_or("the time is beyond all times")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds() {
        assert_eq!(seconds_us(b"785433179.434793"), Ok(785_433_179_434_793));
        assert_eq!(seconds_us(b"12.5"), Ok(12_500_000));
        assert_eq!(seconds_us(b"12"), Ok(12_000_000));
        assert_eq!(seconds_us(b"1.0000019"), Ok(1_000_001));
        for bad in ["", "x", "1.x", "-1", "99999999999999999999"] {
            assert!(seconds_us(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn caches_keep_answers_to_get() {
        assert_eq!(judge(b"GET", 200, 5), Ok(Some(5)));
        assert_eq!(judge(b"GET", 304, 5), Ok(None));
        assert_eq!(judge(b"GET", 206, 5), Err(Skip::Status));
        assert_eq!(judge(b"POST", 200, 5), Err(Skip::Method));
    }
}
