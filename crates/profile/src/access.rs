//! The access log: entries that workers send to the journal thread as bytes, and the lines made from them.
//!
//! A worker only copies bytes ([`Entry::encode`]); the journal thread formats the lines. An entry is self-delimiting,
//! so a batch is entries back to back:
//!
//! ```text
//! record         as in the profile file
//! client         1 byte length (4 or 16), then the address
//! bytes in       varint
//! method, host, target, referer, user agent, listener, content type, peer, origin, cache status, tag
//!                each: varint length, bytes
//! encryption     1 byte: 0 none, 1 of a new session, 2 of one that was resumed; unless 0:
//! version, cipher, name, subject of the client's certificate
//!                each: varint length, bytes
//! ```
//!
//! Everything a client sends may be hostile, so it is escaped and cannot end a line, a column or a string. User
//! name and password are removed from every URL.
//!
//! Limits: a target is cut after `URI_BYTES_MAX`, other texts after `REFERER_BYTES_MAX`, `AGENT_BYTES_MAX` or
//! `WORD_BYTES_MAX`, as in Squid.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::dump::json_members;
use crate::record::Record;
use crate::{Hierarchy, StageName, text, varint};

/// The most bytes of a request target that are logged.
pub const URI_BYTES_MAX: usize = 8192;
/// The most bytes of a Referer that are logged.
pub const REFERER_BYTES_MAX: usize = 2048;
/// The most bytes of a User-Agent that are logged.
pub const AGENT_BYTES_MAX: usize = 1024;
/// The most bytes of a method, host, listener, content type, peer, origin or Cache-Status that are logged.
pub const WORD_BYTES_MAX: usize = 512;

/// The longest authority. A longer one is left out, since its unseen rest may contain a user name and password.
const AUTHORITY_BYTES_MAX: usize = 300;

/// The client's request. Slices of unknown values are empty.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Asking<'a> {
    /// The method as received.
    pub method: &'a [u8],
    /// The value of Host as received.
    pub host: &'a [u8],
    /// The request target as received: a path, an absolute URI, or for CONNECT the authority.
    pub target: &'a [u8],
    /// Bytes of the request, head and body; for a tunnel all bytes that the client sent.
    pub bytes_in: u64,
    /// The request's Referer.
    pub referer: &'a [u8],
    /// The request's User-Agent.
    pub user_agent: &'a [u8],
}

/// The encryption of a client's connection.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tls<'a> {
    /// `TLSv1.3`; empty: the connection is not encrypted.
    pub version: &'a [u8],
    /// The cipher suite.
    pub cipher: &'a [u8],
    /// The server name that the client asked for (SNI).
    pub name: &'a [u8],
    /// The subject of the client's certificate.
    pub client: &'a [u8],
    /// Was an earlier session resumed?
    pub is_resumed: bool,
}

impl Tls<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        if self.version.is_empty() {
            out.push(0);
            return;
        }
        out.push(1 + u8::from(self.is_resumed));
        for bytes in [self.version, self.cipher, self.name, self.client] {
            push(bytes, WORD_BYTES_MAX, out);
        }
    }

    fn decode<'a>(rest: &mut &'a [u8]) -> Option<Tls<'a>> {
        let is_resumed = match cut(rest, 1)? {
            [0] => return Some(Tls::default()),
            [1] => false,
            [2] => true,
            _ => return None,
        };
        let tls = Tls {
            version: word(rest, WORD_BYTES_MAX)?,
            cipher: word(rest, WORD_BYTES_MAX)?,
            name: word(rest, WORD_BYTES_MAX)?,
            client: word(rest, WORD_BYTES_MAX)?,
            is_resumed,
        };
        (!tls.version.is_empty()).then_some(tls)
    }
}

fn push(bytes: &[u8], max: usize, out: &mut Vec<u8>) {
    let bytes = &bytes[..bytes.len().min(max)];
    varint::push(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// One access-log entry. Empty slices are logged as `-`, in JSON as `""`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry<'a> {
    /// The request's record.
    pub record: Record,
    /// The client's address.
    pub client: IpAddr,
    /// The listener's address.
    pub listener: &'a [u8],
    /// The encryption of the client's connection.
    pub tls: Tls<'a>,
    /// The client's request.
    pub asking: Asking<'a>,
    /// The response's Content-Type.
    pub content_type: &'a [u8],
    /// The host that the request was forwarded to.
    pub peer: &'a [u8],
    /// The origin of the route on a reverse listener, whether asked or not.
    pub origin: &'a [u8],
    /// The Cache-Status sent (RFC 9211).
    pub cache_status: &'a [u8],
    /// The tag that the operator's rules set.
    pub tag: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Appends the entry's bytes. Returns how many of them, at the front, are its record.
    pub fn encode(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        self.record.encode(out);
        let record_bytes = out.len() - start;
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
        varint::push(self.asking.bytes_in, out);
        for (bytes, max) in [
            (self.asking.method, WORD_BYTES_MAX),
            (self.asking.host, WORD_BYTES_MAX),
            (self.asking.target, URI_BYTES_MAX),
            (self.asking.referer, REFERER_BYTES_MAX),
            (self.asking.user_agent, AGENT_BYTES_MAX),
            (self.listener, WORD_BYTES_MAX),
            (self.content_type, WORD_BYTES_MAX),
            (self.peer, WORD_BYTES_MAX),
            (self.origin, WORD_BYTES_MAX),
            (self.cache_status, WORD_BYTES_MAX),
            (self.tag, WORD_BYTES_MAX),
        ] {
            push(bytes, max, out);
        }
        self.tls.encode(out);
        record_bytes
    }

    /// The entry at the front of `buf` and its length; `None` if there is no whole entry.
    pub fn decode(buf: &'a [u8]) -> Option<(Entry<'a>, usize)> {
        let (record, len) = Record::decode(buf)?;
        let mut rest = &buf[len..];
        let rest = &mut rest;
        let client = match cut(rest, 1)? {
            [4] => IpAddr::from(<[u8; 4]>::try_from(cut(rest, 4)?).ok()?),
            [16] => IpAddr::from(<[u8; 16]>::try_from(cut(rest, 16)?).ok()?),
            _ => return None,
        };
        let bytes_in = varint::take(rest)?;
        // In the order of `encode`.
        let asking = Asking {
            bytes_in,
            method: word(rest, WORD_BYTES_MAX)?,
            host: word(rest, WORD_BYTES_MAX)?,
            target: word(rest, URI_BYTES_MAX)?,
            referer: word(rest, REFERER_BYTES_MAX)?,
            user_agent: word(rest, AGENT_BYTES_MAX)?,
        };
        let entry = Entry {
            record,
            client,
            asking,
            listener: word(rest, WORD_BYTES_MAX)?,
            content_type: word(rest, WORD_BYTES_MAX)?,
            peer: word(rest, WORD_BYTES_MAX)?,
            origin: word(rest, WORD_BYTES_MAX)?,
            cache_status: word(rest, WORD_BYTES_MAX)?,
            tag: word(rest, WORD_BYTES_MAX)?,
            tls: Tls::decode(rest)?,
        };
        Some((entry, buf.len() - rest.len()))
    }

    /// Squid's code for the source of the answer.
    pub(crate) fn hierarchy_code(&self) -> &'static str {
        let asked = match self.found_nobody() {
            true => Hierarchy::None,
            false => self.record.hierarchy,
        };
        asked.squid_code(!self.origin.is_empty())
    }

    /// The host that the request was forwarded to; empty if none was.
    pub(crate) fn asked(&self) -> &'a [u8] {
        match self.found_nobody() {
            true => b"",
            false => self.peer,
        }
    }

    /// Was there not even a try to connect to a server? Its name had no address, or the client left before it was resolved.
    fn found_nobody(&self) -> bool {
        let by_name = matches!(self.record.hierarchy, Hierarchy::Direct | Hierarchy::Parent);
        by_name && self.record.stage(StageName::ProxyConnect).is_none()
    }

    /// The requested URI, without user name and password: as received, or built from Host and path.
    pub fn uri(&self) -> Cow<'a, [u8]> {
        match self.asking.target {
            [b'/', ..] => {
                let host = match self.asking.host {
                    [] => self.listener,
                    host => host,
                };
                let scheme: &[u8] = match self.tls.version {
                    [] => b"http://",
                    _ => b"https://",
                };
                Cow::Owned([scheme, host, self.asking.target].concat())
            }
            target => without_user(target),
        }
    }
}

/// A URI or an authority, without any user name and password.
pub(crate) fn without_user(uri: &[u8]) -> Cow<'_, [u8]> {
    let scheme = uri.windows(3).position(|three| three == b"://");
    let authority = scheme.map_or(0, |at| at + 3);
    let rest = &uri[authority..];
    let end = rest.iter().position(|b| b"/?#".contains(b));
    let user = rest[..end.unwrap_or(rest.len())]
        .iter()
        .rposition(|&b| b == b'@');
    match user {
        Some(at) => Cow::Owned([&uri[..authority], &rest[at + 1..]].concat()),
        None if end.unwrap_or(rest.len()) > AUTHORITY_BYTES_MAX => Cow::Borrowed(&uri[..authority]),
        None => Cow::Borrowed(uri),
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

/// Appends the entry in the combined format of Apache and nginx: client, two `-` for identity and user, the time of the request's
/// first byte (UTC), request line, status, bytes sent (head included), Referer and User-Agent.
pub fn combined_line(entry: &Entry<'_>, out: &mut Vec<u8>) {
    text::address(entry.client, out);
    out.extend_from_slice(b" - - [");
    let record = &entry.record;
    let asked_unix_us = record.began_unix_us.saturating_add(record.idle_us().into());
    text::common_time(asked_unix_us, out);
    out.extend_from_slice(b"] \"");
    if entry.asking.method.is_empty() {
        out.push(b'-');
    } else {
        text::quoted(entry.asking.method, out);
        out.push(b' ');
        match entry.asking.target {
            [b'/', ..] => text::quoted(entry.asking.target, out),
            target => text::quoted(&without_user(target), out),
        }
        out.push(b' ');
        out.extend_from_slice(entry.record.http_client.as_str().as_bytes());
    }
    out.extend_from_slice(b"\" ");
    text::decimal(entry.record.status.into(), 3, b'0', out);
    out.push(b' ');
    text::number(entry.record.bytes_out, out);
    for value in [
        &without_user(entry.asking.referer)[..],
        entry.asking.user_agent,
    ] {
        out.extend_from_slice(b" \"");
        match value {
            [] => out.push(b'-'),
            value => text::quoted(value, out),
        }
        out.push(b'"');
    }
    out.push(b'\n');
}

/// Appends the entry in Squid's native format: the time of its end, milliseconds since its first byte, client, result and status,
/// bytes sent, method, URI, `-` for the user, hierarchy and peer, media type. The milliseconds do not begin with the connection,
/// because a browser may connect long before it asks.
pub fn squid_line(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let record = &entry.record;
    let ended_ms = record.began_unix_us.saturating_add(record.total_us.into()) / 1000;
    text::number(ended_ms / 1000, out);
    out.push(b'.');
    text::decimal(ended_ms % 1000, 3, b'0', out);
    out.push(b' ');
    text::decimal(u64::from(record.response_us() / 1000), 6, b' ', out);
    out.push(b' ');
    text::address(entry.client, out);
    out.push(b' ');
    out.extend_from_slice(record.class.squid_code().as_bytes());
    out.push(b'/');
    text::decimal(record.status.into(), 3, b'0', out);
    out.push(b' ');
    text::number(record.bytes_out, out);
    out.push(b' ');
    text::word(entry.asking.method, out);
    out.push(b' ');
    text::word(&entry.uri(), out);
    out.extend_from_slice(b" - ");
    out.extend_from_slice(entry.hierarchy_code().as_bytes());
    out.push(b'/');
    text::word(entry.asked(), out);
    out.push(b' ');
    text::word(media_type(entry.content_type), out);
    out.push(b'\n');
}

/// Cuts `text/html; charset=utf-8` to `text/html`.
pub(crate) fn media_type(content_type: &[u8]) -> &[u8] {
    let end = content_type
        .iter()
        .position(|&b| b == b';')
        .unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}

/// Appends the entry as one JSON object and a line end: the members of [`crate::dump_json`] and the entry's own.
pub fn json_line(entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    json_members(&entry.record, entry.asking.method, out);
    out.extend_from_slice(b",\"client\":\"");
    text::address(entry.client, out);
    out.extend_from_slice(b"\",\"uri\":");
    text::json_string(&entry.uri(), out);
    out.extend_from_slice(b",\"content_type\":");
    text::json_string(entry.content_type, out);
    out.extend_from_slice(b",\"hierarchy\":\"");
    out.extend_from_slice(entry.hierarchy_code().as_bytes());
    out.extend_from_slice(b"\",\"peer\":");
    text::json_string(entry.asked(), out);
    out.extend_from_slice(b",\"origin\":");
    text::json_string(entry.origin, out);
    out.extend_from_slice(b",\"listener\":");
    text::json_string(entry.listener, out);
    out.extend_from_slice(b",\"protocol\":");
    text::json_string(entry.record.http_client.as_str().as_bytes(), out);
    out.extend_from_slice(b",\"bytes_in\":");
    text::number(entry.asking.bytes_in, out);
    out.extend_from_slice(b",\"referer\":");
    text::json_string(&without_user(entry.asking.referer), out);
    out.extend_from_slice(b",\"user_agent\":");
    text::json_string(entry.asking.user_agent, out);
    out.extend_from_slice(b",\"cache_status\":");
    text::json_string(entry.cache_status, out);
    if !entry.tag.is_empty() {
        out.extend_from_slice(b",\"tag\":");
        text::json_string(entry.tag, out);
    }
    let tls = &entry.tls;
    if !tls.version.is_empty() {
        for (member, value) in [
            ("tls", tls.version),
            ("tls_cipher", tls.cipher),
            ("tls_name", tls.name),
            ("tls_client", tls.client),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(member.as_bytes());
            out.extend_from_slice(b"\":");
            text::json_string(value, out);
        }
        out.extend_from_slice(b",\"tls_resumed\":");
        out.extend_from_slice(if tls.is_resumed { b"true" } else { b"false" });
    }
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
            listener: b"127.0.0.1:3128",
            tls: Tls::default(),
            asking: Asking {
                method: b"GET",
                host: b"example.org",
                target: b"http://example.org/a b\n\"x\"",
                bytes_in: 321,
                referer: b"",
                user_agent: b"curl/8.0",
            },
            content_type: b"text/html; charset=utf-8",
            peer: b"",
            origin: b"",
            cache_status: b"loligo; hit; ttl=59",
            tag: b"",
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
    fn a_connection_that_stood_open_before_is_no_time_of_its_first_request() {
        let mut entry = entry();
        entry.record.total_us = 5_044_000;
        let connect = crate::Stage {
            start_us: 0,
            first_us: 5_000_000,
            total_us: 5_000_100,
        };
        entry.record.set_stage(StageName::ClientConnect, connect);
        let squid = line(squid_line, &entry);
        assert!(squid.starts_with("1700000005.167     44 "), "{squid}");
        let combined = line(combined_line, &entry);
        assert!(combined.contains(":22:13:25 +0000]"), "{combined}");
    }

    #[test]
    fn a_request_that_was_never_understood_still_makes_a_line() {
        let mut entry = entry();
        entry.record = Record::begun(0);
        (
            entry.asking.method,
            entry.asking.host,
            entry.asking.target,
            entry.content_type,
        ) = (b"", b"", b"", b"");
        expect![[r#"
            0.000      0 192.0.2.7 NONE/000 0 - - - HIER_NONE/- -
        "#]]
        .assert_eq(&line(squid_line, &entry));
    }

    #[test]
    fn a_json_line_keeps_the_method_as_it_came() {
        let mut entry = entry();
        entry.asking.method = b"PROPFIND";
        let value: serde_json::Value = serde_json::from_str(&line(json_line, &entry)).unwrap();
        assert_eq!(value["method"], "PROPFIND");
        assert_eq!(value["uri"], "http://example.org/a b\n\"x\"");
        assert_eq!(value["class"], "memory-hit");
        assert_eq!(value["stages"]["proxy-reply"]["total_us"], 44);
    }

    /// A reverse listener's request, with log injections in its fields.
    fn reverse() -> Entry<'static> {
        let mut record = Record {
            hierarchy: Hierarchy::Direct,
            ..memory_hit()
        };
        record.set_stage(StageName::ProxyConnect, crate::Stage::default());
        Entry {
            asking: Asking {
                target: b"/a?b=\"c\"",
                referer: b"https://me:secret@www.example.org/from",
                user_agent: b"x\" 200 1 \"\\\r\n10.0.0.1 - - [",
                ..entry().asking
            },
            record,
            peer: b"origin.internal",
            origin: b"http://origin.internal:8080",
            ..entry()
        }
    }

    #[test]
    fn a_combined_line_is_what_analysers_read() {
        expect![[r#"
            192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a?b=\x22c\x22 HTTP/1.1" 200 10480 "https://www.example.org/from" "x\x22 200 1 \x22\x5C\x0D\x0A10.0.0.1 - - ["
        "#]]
        .assert_eq(&line(combined_line, &reverse()));
        let mut nothing = entry();
        (nothing.asking.method, nothing.asking.user_agent) = (b"", b"");
        let text = line(combined_line, &nothing);
        assert!(text.ends_with("] \"-\" 200 10480 \"-\" \"-\"\n"), "{text}");
    }

    #[test]
    fn a_server_whose_name_has_no_address_was_not_asked() {
        let mut entry = Entry {
            origin: b"",
            ..reverse()
        };
        let asked = |entry: &Entry<'_>| {
            let text = line(squid_line, entry);
            text.split(' ').nth_back(1).unwrap().to_owned()
        };
        assert_eq!(asked(&entry), "HIER_DIRECT/origin.internal");
        entry.record.stages[StageName::ProxyConnect as usize] = None;
        (entry.record).set_stage(StageName::Dns, crate::Stage::default());
        assert_eq!(asked(&entry), "HIER_NONE/-");
        let value: serde_json::Value = serde_json::from_str(&line(json_line, &entry)).unwrap();
        assert_eq!(
            (&value["hierarchy"], &value["peer"]),
            (&"HIER_NONE".into(), &"".into())
        );
    }

    #[test]
    fn the_client_s_uri_is_logged_with_the_origin_beside_it() {
        let text = line(squid_line, &reverse());
        assert!(
            text.contains(" GET http://example.org/a?b=\"c\" - FIRSTUP_PARENT/origin.internal "),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&line(json_line, &reverse())).unwrap();
        for (member, is) in [
            ("uri", "http://example.org/a?b=\"c\""),
            ("origin", "http://origin.internal:8080"),
            ("listener", "127.0.0.1:3128"),
            ("protocol", "HTTP/1.1"),
            ("referer", "https://www.example.org/from"),
            ("user_agent", "x\" 200 1 \"\\\r\n10.0.0.1 - - ["),
        ] {
            assert_eq!(value[member], is, "{member}");
        }
        assert_eq!(value["bytes_in"], 321);
    }

    #[test]
    fn what_came_encrypted_is_an_https_url_and_says_how() {
        let mut entry = reverse();
        entry.tls = Tls {
            version: b"TLSv1.3",
            cipher: b"TLS13_AES_128_GCM_SHA256",
            name: b"example.org",
            client: b"CN=\"me\"",
            is_resumed: true,
        };
        let value: serde_json::Value = serde_json::from_str(&line(json_line, &entry)).unwrap();
        assert_eq!(value["uri"], "https://example.org/a?b=\"c\"");
        assert_eq!(
            (&value["tls"], &value["tls_name"]),
            (&"TLSv1.3".into(), &"example.org".into())
        );
        assert_eq!(value["tls_client"], "CN=\"me\"");
        assert_eq!(value["tls_resumed"], true);
    }

    #[test]
    fn no_password_is_logged() {
        let endless = [b"http://u:", &[b'p'; 9000][..], b"@h/"].concat();
        for (target, uri) in [
            (&b"http://u:p@h:81/a@b"[..], &b"http://h:81/a@b"[..]),
            (b"http://u@p@h", b"http://h"),
            (b"http://h/?u:p@h", b"http://h/?u:p@h"),
            (b"u:p@h:443", b"h:443"),
            (b"/u:p@h", b"http://example.org/u:p@h"),
            (&endless, b"http://h/"),
            (&endless[..URI_BYTES_MAX], b"http://"),
        ] {
            let mut entry = entry();
            entry.asking.target = target;
            assert_eq!(entry.uri(), uri);
        }
    }

    #[test]
    fn overlong_values_are_cut() {
        let long = vec![b'a'; URI_BYTES_MAX + 1];
        let mut entry = entry();
        (entry.asking.target, entry.peer) = (&long, &long);
        (entry.asking.referer, entry.asking.user_agent) = (&long, &long);
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let (back, len) = Entry::decode(&bytes).unwrap();
        assert_eq!(len, bytes.len());
        assert_eq!(
            (back.asking.target.len(), back.peer.len()),
            (URI_BYTES_MAX, WORD_BYTES_MAX)
        );
        assert_eq!(
            (back.asking.referer.len(), back.asking.user_agent.len()),
            (REFERER_BYTES_MAX, AGENT_BYTES_MAX)
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_and_nothing_shorter(
            record in any_record(), client: IpAddr, target: Vec<u8>, content_type: Vec<u8>, host: Vec<u8>,
            referer: Vec<u8>, user_agent: Vec<u8>, bytes_in: u64,
            version in "[ -~]{0,9}", name: Vec<u8>, resumed: bool
        ) {
            let asking = Asking {
                host: &host, target: &target, referer: &referer, user_agent: &user_agent, bytes_in,
                ..entry().asking
            };
            let tls = match version.is_empty() {
                true => Tls::default(),
                false => Tls {
                    version: version.as_bytes(), name: &name, client: &name, is_resumed: resumed, ..Tls::default()
                },
            };
            let entry = Entry { tls, record, client, asking, content_type: &content_type, ..entry() };
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
            let combined = line(combined_line, &entry);
            prop_assert_eq!(combined.matches('\n').count(), 1);
            prop_assert_eq!(combined.matches('"').count(), 6);
            prop_assert!(combined.trim_end().bytes().all(|b| (b' '..0x7f).contains(&b)));
        }

        #[test]
        fn foreign_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Entry::decode(&bytes);
        }
    }
}
