//! Cache-Status (RFC 9211): tells the client how the request was handled.
//!
//! One list member, written as a structured field (RFC 9651) straight into the caller's buffer:
//!
//! ```text
//! loligo; hit; ttl=123
//! loligo; fwd=uri-miss; fwd-status=200; stored; collapsed
//! ```
//!
//! Parameters are written in the order of the calls. The caller sends the lines of upstream caches before this one.
//!
//! Limits: a string is cut after [`STRING_BYTES_MAX`] bytes; bytes that a string cannot hold are written `%XX`.

use crate::judge::Why;

/// The longest string that is written, before escaping, in bytes.
pub const STRING_BYTES_MAX: usize = 512;

/// The largest integer of a structured field. (RFC 9651 §3.3.1)
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Why a request was forwarded. (RFC 9211 §2.2)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// The cache is configured not to handle it.
    Bypass,
    /// Its method requires forwarding.
    Method,
    /// No stored response has this URI.
    UriMiss,
    /// Stored responses have this URI, but none matches these request fields.
    VaryMiss,
    /// No stored response matches.
    Miss,
    /// The stored response is fresh, but the request does not accept it.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response is incomplete.
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
    /// Neither a hit nor forwarded: an answer of the proxy itself. `name` comes from [`member_name`].
    pub fn own(name: &[u8], out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        CacheStatus { out }
    }

    /// Served from the cache, without forwarding.
    pub fn hit(name: &[u8], out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        out.extend_from_slice(b"; hit");
        CacheStatus { out }
    }

    /// Forwarded, for this reason.
    pub fn forwarded(name: &[u8], why: Forward, out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        out.extend_from_slice(b"; fwd=");
        out.extend_from_slice(why.as_str().as_bytes());
        CacheStatus { out }
    }

    /// The status of the next server's answer. Leave it out if the same status is sent on.
    pub fn forward_status(self, status: u16) -> Self {
        self.integer("fwd-status", i64::from(status))
    }

    /// Seconds of freshness left, negative if stale.
    pub fn ttl(self, ttl_s: i64) -> Self {
        self.integer("ttl", ttl_s)
    }

    /// Whether the response was stored.
    pub fn stored(self, stored: bool) -> Self {
        self.boolean("stored", stored)
    }

    /// Whether the request shared the response of another one; false if it was collapsed but could not share.
    pub fn collapsed(self, reused: bool) -> Self {
        self.boolean("collapsed", reused)
    }

    /// The key under which the response is stored.
    pub fn key(self, key: &[u8]) -> Self {
        self.out.extend_from_slice(b"; key=");
        write_string(key, self.out);
        self
    }

    /// Any detail, as a token if possible, else as a string.
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

/// A cache's name in the form of a list member: a token, or a string.
//= rfc9211 §2   each member is a token or a string that identifies the cache
pub fn member_name(name: &str) -> Vec<u8> {
    if is_token(name.as_bytes()) {
        return name.as_bytes().to_vec();
    }
    let mut out = Vec::new();
    write_string(name.as_bytes(), &mut out);
    out
}

/// The value for a hit up to the number of seconds: `loligo; hit; ttl=`.
pub fn hit_prefix(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 16);
    CacheStatus::hit(name, &mut out).parameter("ttl");
    out.push(b'=');
    out
}

/// Appends the whole value for a hit: `loligo; hit; ttl=123`. `prefix` comes from [`hit_prefix`].
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
        // These are tokens in HTTP, but not in structured fields.
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
