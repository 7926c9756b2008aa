//! What a line or record of a trace says, before names have become numbers.

use super::names::{Name, name, server_of};

/// A request as the trace has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// By the trace's own clock.
    pub at_us: u64,
    pub object: Name,
    pub server: Name,
    /// None: the line does not say, as with 304.
    pub size_bytes: Option<u64>,
}

/// Why a whole line is no request to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Not GET: nothing that a cache would keep.
    Method,
    /// A status whose answer a cache would not keep: errors, parts, redirections that are not permanent.
    Status,
    /// The browser's own cache answered: a proxy did not see it.
    Browser,
    /// A 304, or an answer without a length, for an object whose size no earlier line told.
    Size,
}

impl Skip {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Skip; 4] = [Skip::Method, Skip::Status, Skip::Browser, Skip::Size];

    /// For reports.
    pub fn words(self) -> &'static str {
        match self {
            Skip::Method => "not GET",
            Skip::Status => "status not kept by caches",
            Skip::Browser => "answered by the browser's cache",
            Skip::Size => "size not known",
        }
    }
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    Request(Entry),
    Skipped(Skip),
    /// Neither a request nor a comment.
    Nothing,
    Bad(&'static str),
}

/// Bad lines are errors while a line is taken apart.
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

/// Is the answer to a GET one that caches keep (RFC 9110 section 15.1)? A 304 says that it was kept, and does not say how long it is.
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
