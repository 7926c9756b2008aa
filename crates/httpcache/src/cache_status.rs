//! What we tell the client we did: Cache-Status (RFC 9211).
//!
//! One list member, written as a structured field (RFC 9651) straight into the caller's buffer:
//!
//! ```text
//! loligo; hit; ttl=123
//! loligo; fwd=uri-miss; fwd-status=200; stored; collapsed
//! ```
//!
//! Parameters come out in the order in which they are called. What an upstream cache wrote stays in front of it: the
//! caller sends that as another line.
//!
//! Limits: a string is cut after [`STRING_BYTES_MAX`] bytes; bytes that a string cannot hold are written `%XX`.

use crate::judge::Why;

/// Longest string that is written, before escaping, in bytes.
pub const STRING_BYTES_MAX: usize = 512;

/// The largest integer of a structured field. (RFC 9651 §3.3.1)
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Why a request went forward. (RFC 9211 §2.2)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// We were told not to handle it.
    Bypass,
    /// Its method demands it.
    Method,
    /// Nothing stored has this URI.
    UriMiss,
    /// Something stored has this URI, but not for these request fields.
    VaryMiss,
    /// Nothing stored fits.
    Miss,
    /// What is stored is fresh, but the request does not want it.
    Request,
    /// What is stored is stale.
    Stale,
    /// What is stored is not all of it.
    Partial,
}

impl Forward {
    /// The token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Miss => "miss",
            Forward::Request => "request",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}

impl From<Why> for Forward {
    fn from(why: Why) -> Self {
        match why {
            Why::Stale | Why::NoCache => Forward::Stale,
            Why::RequestNoCache | Why::RequestMaxAge | Why::RequestMinFresh => Forward::Request,
        }
    }
}

/// Writes one list member, parameter by parameter.
pub struct CacheStatus<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> CacheStatus<'a> {
    /// Neither: an answer of our own. `name` is what [`member_name`] made of the cache's.
    pub fn own(name: &[u8], out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        CacheStatus { out }
    }

    /// Served from the cache, without going forward.
    pub fn hit(name: &[u8], out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        out.extend_from_slice(b"; hit");
        CacheStatus { out }
    }

    /// Went forward, for that reason.
    pub fn forwarded(name: &[u8], why: Forward, out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        out.extend_from_slice(b"; fwd=");
        out.extend_from_slice(why.as_str().as_bytes());
        CacheStatus { out }
    }

    /// The status that the next server answered; leave it out if it is the one sent on.
    pub fn forward_status(self, status: u16) -> Self {
        self.integer("fwd-status", i64::from(status))
    }

    /// Seconds of freshness left, negative if stale.
    pub fn ttl(self, ttl_s: i64) -> Self {
        self.integer("ttl", ttl_s)
    }

    /// The response was stored, or not.
    pub fn stored(self, stored: bool) -> Self {
        self.boolean("stored", stored)
    }

    /// The request was joined to another one; false if that was tried in vain.
    pub fn collapsed(self, reused: bool) -> Self {
        self.boolean("collapsed", reused)
    }

    /// The key under which the response is kept.
    pub fn key(self, key: &[u8]) -> Self {
        self.out.extend_from_slice(b"; key=");
        write_string(key, self.out);
        self
    }

    /// Anything else: a token if it can be one, else a string.
    pub fn detail(self, detail: &str) -> Self {
        self.out.extend_from_slice(b"; detail=");
        if is_token(detail.as_bytes()) {
            self.out.extend_from_slice(detail.as_bytes());
        } else {
            write_string(detail.as_bytes(), self.out);
        }
        self
    }

    fn integer(mut self, name: &str, value: i64) -> Self {
        self.parameter(name);
        self.out.push(b'=');
        write_integer(value, self.out);
        self
    }

    fn boolean(mut self, name: &str, value: bool) -> Self {
        self.parameter(name);
        if !value {
            self.out.extend_from_slice(b"=?0");
        }
        self
    }

    fn parameter(&mut self, name: &str) {
        self.out.extend_from_slice(b"; ");
        self.out.extend_from_slice(name.as_bytes());
    }
}

/// A cache's name as it stands in the list: a token, or a string.
//= rfc9211 §2   each member is a token or a string that identifies the cache
pub fn member_name(name: &str) -> Vec<u8> {
    if is_token(name.as_bytes()) {
        return name.as_bytes().to_vec();
    }
    let mut out = Vec::new();
    write_string(name.as_bytes(), &mut out);
    out
}

/// What stands before the seconds in the whole value for a hit: `loligo; hit; ttl=`.
pub fn hit_prefix(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 16);
    CacheStatus::hit(name, &mut out).parameter("ttl");
    out.push(b'=');
    out
}

/// The whole value for a hit: `loligo; hit; ttl=123`. `prefix` is from [`hit_prefix`].
pub fn write_hit(prefix: &[u8], ttl_s: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(prefix);
    write_integer(ttl_s, out);
}

fn write_integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    message::write_decimal(value.unsigned_abs().min(INTEGER_MAX), out);
}

/// (RFC 9651 §3.3.3)
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    for &byte in text.iter().take(STRING_BYTES_MAX) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
    out.push(b'"');
}

/// (RFC 9651 §3.3.4)
fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte);
    let starts_well = text
        .first()
        .is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'*');
    starts_well && text.len() <= STRING_BYTES_MAX && text.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"loligo";

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn hits() {
        let hit = |ttl_s| move |out: &mut Vec<u8>| write_hit(&hit_prefix(NAME), ttl_s, out);
        check(hit(376), "loligo; hit; ttl=376");
        check(hit(-412), "loligo; hit; ttl=-412");
        check(hit(i64::MIN), "loligo; hit; ttl=-999999999999999");
        check(
            |out| {
                CacheStatus::hit(NAME, out).ttl(-412).detail("disk");
            },
            "loligo; hit; ttl=-412; detail=disk",
        );
        check(
            |out| {
                CacheStatus::own(NAME, out).detail("x");
            },
            "loligo; detail=x",
        );
    }

    #[test]
    fn names() {
        let named = |name| String::from_utf8(member_name(name)).unwrap();
        assert_eq!(named("edge-7.example"), "edge-7.example");
        assert_eq!(named("*edge"), "*edge");
        // Tokens of HTTP, but not of structured fields.
        assert_eq!(named("7edge"), "\"7edge\"");
        assert_eq!(named("_edge"), "\"_edge\"");
    }

    #[test]
    fn forwarded() {
        check(
            |out| {
                CacheStatus::forwarded(NAME, Forward::UriMiss, out)
                    .forward_status(200)
                    .stored(true)
                    .collapsed(true);
            },
            "loligo; fwd=uri-miss; fwd-status=200; stored; collapsed",
        );
        check(
            |out| {
                CacheStatus::forwarded(NAME, Forward::Stale, out)
                    .forward_status(304)
                    .collapsed(false)
                    .ttl(0);
            },
            "loligo; fwd=stale; fwd-status=304; collapsed=?0; ttl=0",
        );
    }

    #[test]
    fn tokens_and_strings() {
        check(
            |out| {
                CacheStatus::forwarded(NAME, Forward::Miss, out)
                    .detail("no room")
                    .key(b"GET http://a/\"\\\xff\n");
            },
            "loligo; fwd=miss; detail=\"no room\"; key=\"GET http://a/\\\"\\\\%FF%0A\"",
        );
        check(
            |out| {
                CacheStatus::hit(NAME, out).ttl(1).detail("9lives");
            },
            "loligo; hit; ttl=1; detail=\"9lives\"",
        );
    }

    #[test]
    fn long_keys_are_cut() {
        let mut out = Vec::new();
        CacheStatus::hit(NAME, &mut out).key(&[b'a'; 4000]);
        assert_eq!(out.len(), "loligo; hit; key=\"\"".len() + STRING_BYTES_MAX);
    }
}
