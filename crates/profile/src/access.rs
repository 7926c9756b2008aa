//! The access log: entries that travel from a worker to the log thread as bytes, and the lines made of them.
//!
//! A worker only copies bytes ([`Entry::encode`]); finding out what a line looks like is the log thread's
//! work. An entry is self-delimiting, so a batch is entries back to back:
//!
//! ```text
//! record         as in the profile file
//! client         1 byte length (4 or 16), then the address
//! hierarchy      1 byte
//! method, uri, content type, peer, cache status   each: varint length, bytes
//! ```
//!
//! Limits: a URI is cut after `URI_BYTES_MAX`, the others after `WORD_BYTES_MAX`, as Squid cuts its own.

use std::net::IpAddr;

use crate::dump::json_members;
use crate::record::Record;
use crate::{text, varint};

/// The most bytes of a URI that are logged.
pub const URI_BYTES_MAX: usize = 8192;
/// The most bytes of a method, content type, peer or Cache-Status that are logged.
pub const WORD_BYTES_MAX: usize = 512;

/// Where the answer came from, in Squid's words.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hierarchy {
    /// No one was asked.
    #[default]
    None = 0,
    /// The origin the client named.
    Direct = 1,
    /// The origin a route names.
    Parent = 2,
}

impl Hierarchy {
    const ALL: [Hierarchy; 3] = [Hierarchy::None, Hierarchy::Direct, Hierarchy::Parent];

    /// Squid's hierarchy code.
    pub fn as_str(self) -> &'static str {
        match self {
            Hierarchy::None => "HIER_NONE",
            Hierarchy::Direct => "HIER_DIRECT",
            Hierarchy::Parent => "FIRSTUP_PARENT",
        }
    }
}

/// One access-log entry. Empty slices are logged as `-`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry<'a> {
    /// The request's record.
    pub record: Record,
    /// The client's address.
    pub client: IpAddr,
    /// The method as it came.
    pub method: &'a [u8],
    /// The absolute URI; for CONNECT the authority.
    pub uri: &'a [u8],
    /// The response's Content-Type.
    pub content_type: &'a [u8],
    /// Where the answer came from.
    pub hierarchy: Hierarchy,
    /// The origin's host.
    pub peer: &'a [u8],
    /// The Cache-Status sent (RFC 9211).
    pub cache_status: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Appends the entry's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.record.encode(out);
        match self.client {
            IpAddr::V4(v4) => {
                out.push(4);
                out.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                out.push(16);
                out.extend_from_slice(&v6.octets());
            }
        }
        out.push(self.hierarchy as u8);
        for (bytes, max) in [
            (self.method, WORD_BYTES_MAX),
            (self.uri, URI_BYTES_MAX),
            (self.content_type, WORD_BYTES_MAX),
            (self.peer, WORD_BYTES_MAX),
            (self.cache_status, WORD_BYTES_MAX),
        ] {
            let bytes = &bytes[..bytes.len().min(max)];
            varint::push(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
    }

    /// The entry at the front of `buf` and the bytes it takes; `None` when they are not a whole entry.
    pub fn decode(buf: &'a [u8]) -> Option<(Entry<'a>, usize)> {
        let (record, len) = Record::decode(buf)?;
        let mut rest = &buf[len..];
        let rest = &mut rest;
        let client = match cut(rest, 1)? {
            [4] => IpAddr::from(<[u8; 4]>::try_from(cut(rest, 4)?).ok()?),
            [16] => IpAddr::from(<[u8; 16]>::try_from(cut(rest, 16)?).ok()?),
            _ => return None,
        };
        let hierarchy = *Hierarchy::ALL.get(usize::from(cut(rest, 1)?[0]))?;
        let entry = Entry {
            record,
            client,
            hierarchy,
            method: word(rest, WORD_BYTES_MAX)?,
            uri: word(rest, URI_BYTES_MAX)?,
            content_type: word(rest, WORD_BYTES_MAX)?,
            peer: word(rest, WORD_BYTES_MAX)?,
            cache_status: word(rest, WORD_BYTES_MAX)?,
        };
        Some((entry, buf.len() - rest.len()))
    }
}

fn cut<'a>(buf: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, rest) = buf.split_at_checked(len)?;
    *buf = rest;
    Some(front)
}

fn word<'a>(buf: &mut &'a [u8], max: usize) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::take(buf)?)
        .ok()
        .filter(|&len| len <= max)?;
    cut(buf, len)
}

/// Appends the entry in Squid's native format: the time the request ended, milliseconds it took, client, result
/// and status, bytes sent, method, URI, `-` for the user, hierarchy and peer, media type.
pub fn squid_line(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let record = &entry.record;
    let ended_ms = record.began_unix_us.saturating_add(record.total_us.into()) / 1000;
    text::number(ended_ms / 1000, out);
    out.push(b'.');
    text::decimal(ended_ms % 1000, 3, b'0', out);
    out.push(b' ');
    text::decimal(u64::from(record.total_us / 1000), 6, b' ', out);
    out.push(b' ');
    text::address(entry.client, out);
    out.push(b' ');
    out.extend_from_slice(record.class.squid_code().as_bytes());
    out.push(b'/');
    text::decimal(record.status.into(), 3, b'0', out);
    out.push(b' ');
    text::number(record.bytes_out, out);
    out.push(b' ');
    text::word(entry.method, out);
    out.push(b' ');
    text::word(entry.uri, out);
    out.extend_from_slice(b" - ");
    out.extend_from_slice(entry.hierarchy.as_str().as_bytes());
    out.push(b'/');
    text::word(entry.peer, out);
    out.push(b' ');
    text::word(media_type(entry.content_type), out);
    out.push(b'\n');
}

/// `text/html; charset=utf-8` to `text/html`.
fn media_type(content_type: &[u8]) -> &[u8] {
    let end = content_type
        .iter()
        .position(|&b| b == b';')
        .unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}

/// Appends the entry as one JSON object and a line end: the members of [`crate::dump_json`] and the entry's own.
pub fn json_line(entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    json_members(&entry.record, entry.method, out);
    out.extend_from_slice(b",\"client\":\"");
    text::address(entry.client, out);
    out.extend_from_slice(b"\",\"uri\":");
    text::json_string(entry.uri, out);
    out.extend_from_slice(b",\"content_type\":");
    text::json_string(entry.content_type, out);
    out.extend_from_slice(b",\"hierarchy\":\"");
    out.extend_from_slice(entry.hierarchy.as_str().as_bytes());
    out.extend_from_slice(b"\",\"peer\":");
    text::json_string(entry.peer, out);
    out.extend_from_slice(b",\"cache_status\":");
    text::json_string(entry.cache_status, out);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{any_record, memory_hit};
    use expect_test::expect;
    use proptest::prelude::*;

    fn entry() -> Entry<'static> {
        Entry {
            record: memory_hit(),
            client: "192.0.2.7".parse().unwrap(),
            method: b"GET",
            uri: b"http://example.org/a b\n\"x\"",
            content_type: b"text/html; charset=utf-8",
            hierarchy: Hierarchy::None,
            peer: b"",
            cache_status: b"loligo; hit; ttl=59",
        }
    }

    fn line(write: impl Fn(&Entry<'_>, &mut Vec<u8>), entry: &Entry<'_>) -> String {
        let mut out = Vec::new();
        write(entry, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_squid_line_has_ten_words_whatever_the_uri() {
        let line = line(squid_line, &entry());
        assert_eq!(line.split_ascii_whitespace().count(), 10);
        expect![[r#"
            1700000000.123      0 192.0.2.7 TCP_MEM_HIT/200 10480 GET http://example.org/a%20b%0A"x" - HIER_NONE/- text/html
        "#]]
        .assert_eq(&line);
    }

    #[test]
    fn a_request_that_was_never_understood_still_makes_a_line() {
        let mut entry = entry();
        entry.record = Record::begun(0);
        (entry.method, entry.uri, entry.content_type) = (b"", b"", b"");
        expect![[r#"
            0.000      0 192.0.2.7 NONE/000 0 - - - HIER_NONE/- -
        "#]]
        .assert_eq(&line(squid_line, &entry));
    }

    #[test]
    fn a_json_line_keeps_the_method_as_it_came() {
        let mut entry = entry();
        entry.method = b"PROPFIND";
        let value: serde_json::Value = serde_json::from_str(&line(json_line, &entry)).unwrap();
        assert_eq!(value["method"], "PROPFIND");
        assert_eq!(value["uri"], "http://example.org/a b\n\"x\"");
        assert_eq!(value["class"], "memory-hit");
        assert_eq!(value["stages"]["proxy-reply"]["total_us"], 44);
    }

    #[test]
    fn overlong_values_are_cut() {
        let long = vec![b'a'; URI_BYTES_MAX + 1];
        let mut entry = entry();
        (entry.uri, entry.peer) = (&long, &long);
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let (back, len) = Entry::decode(&bytes).unwrap();
        assert_eq!(len, bytes.len());
        assert_eq!(
            (back.uri.len(), back.peer.len()),
            (URI_BYTES_MAX, WORD_BYTES_MAX)
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_and_nothing_shorter(
            record in any_record(), client: IpAddr, uri: Vec<u8>, content_type: Vec<u8>, hierarchy in 0..3usize
        ) {
            let hierarchy = Hierarchy::ALL[hierarchy];
            let entry = Entry { record, client, uri: &uri, content_type: &content_type, hierarchy, ..entry() };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            for cut in 0..bytes.len() {
                prop_assert!(Entry::decode(&bytes[..cut]).is_none());
            }
            bytes.push(0);
            prop_assert_eq!(Entry::decode(&bytes), Some((entry.clone(), bytes.len() - 1)));

            let squid = line(squid_line, &entry);
            prop_assert_eq!(squid.split_ascii_whitespace().count(), 10);
            prop_assert_eq!(squid.matches('\n').count(), 1);
            let json = line(json_line, &entry);
            prop_assert_eq!(json.matches('\n').count(), 1);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        }

        #[test]
        fn foreign_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Entry::decode(&bytes);
        }
    }
}
