//! Ranges: the one that a request asks for, and the one that a response has.
//!
//! PolyMix has no ranges; they are an addition of ours (`Request::draw_range`). Supported is one range of bytes, as in Range and
//! Content-Range; several ranges, or another unit, are ignored.
//!
//! Not known here: bodies.   Source: RFC 9110, sections 14.2 and 14.4.

/// The range of an object in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// Bytes of the whole object.
    pub size: u64,
}

impl ContentRange {
    /// `bytes 0-9/100`
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let spec = value.strip_prefix(b"bytes ")?;
        let mut numbers = spec.split(|b| *b == b'-' || *b == b'/').map(number);
        let mut next = || numbers.next().flatten();
        Some(Self {
            first: next()?,
            last: next()?,
            size: next()?,
        })
    }
}

/// The range that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// From this byte to that one, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// Reads `bytes=0-9`, `bytes=90-` or `bytes=-10`. Other values are ignored, as a server may.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let spec = value.strip_prefix(b"bytes=")?;
        let dash = spec.iter().position(|b| *b == b'-')?;
        let (first, last) = (spec[..dash].trim_ascii(), spec[dash + 1..].trim_ascii());
        match (first.is_empty(), last.is_empty()) {
            (true, true) => None,
            (true, false) => number(last).map(Self::Last),
            (false, true) => Some(Self::From(number(first)?, None)),
            (false, false) => Some(Self::From(number(first)?, Some(number(last)?))),
        }
    }

    /// The first byte and the one after the last, in an object of `size` bytes; none if the range is beyond its end.
    #[must_use]
    pub fn of(self, size: u64) -> Option<(u64, u64)> {
        let (first, end) = match self {
            Self::From(first, last) => (first, last.map_or(size, |last| last.saturating_add(1))),
            Self::Last(bytes) => (size.saturating_sub(bytes), size),
        };
        let end = end.min(size);
        (first < end).then_some((first, end))
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_or_ignored() {
        let of = |text: &str| Wanted::read(text.as_bytes()).and_then(|w| w.of(100));
        assert_eq!(of("bytes=0-9"), Some((0, 10)));
        assert_eq!(of("bytes=90-"), Some((90, 100)));
        assert_eq!(of("bytes=90-500"), Some((90, 100)));
        assert_eq!(of("bytes=-10"), Some((90, 100)));
        for none in [
            "bytes=100-",
            "bytes=9-3",
            "bytes=0-1,5-6",
            "lines=1-2",
            "bytes=-",
            "bytes=x-",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
        let read = |text: &str| ContentRange::read(text.as_bytes());
        let (first, last, size) = (3, 7, 100);
        assert_eq!(
            read("bytes 3-7/100"),
            Some(ContentRange { first, last, size })
        );
        assert_eq!(read("bytes 3-7/*"), None);
        assert_eq!(read("3-7/100"), None);
    }
}
