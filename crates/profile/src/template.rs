//! Access-log lines in the operator's own format: text with named fields, `${client} "${method} ${uri}" ${status}`.
//!
//! A value between quotes is escaped as nginx does, and outside of quotes written as one word. So no value can end the line, its
//! column or its quotes, whatever a client sends. An unknown value is `-`.
//!
//! Limits: [`TEMPLATE_BYTES_MAX`], [`FIELDS_MAX`].

use crate::access::{Entry, media_type, without_user};
use crate::text;

/// The longest template, bytes.
pub const TEMPLATE_BYTES_MAX: usize = 4096;
/// The most fields in one template.
pub const FIELDS_MAX: usize = 64;

/// A parsed template.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Text(Vec<u8>),
    /// Its index in [`FIELDS`].
    Field {
        at: usize,
        is_quoted: bool,
    },
}

/// How a field's value is written.
enum Value {
    /// Written by this program: digits, or words without anything to escape.
    Plain(fn(&Entry<'_>, &mut Vec<u8>)),
    /// Bytes from outside, which must be escaped.
    Foreign(for<'a> fn(&Entry<'a>) -> std::borrow::Cow<'a, [u8]>),
}

use Value::{Foreign, Plain};

/// Every field: its name, its value, and its description for the reference.
const FIELDS: &[(&str, Value, &str)] = &[
    (
        "time",
        Plain(|e, out| seconds(ended_us(e), out)),
        "when the request ended, seconds since 1970",
    ),
    (
        "time-iso",
        Plain(|e, out| text::time(ended_us(e), out)),
        "the same as 2026-01-31T12:00:00.123456Z",
    ),
    (
        "time-common",
        Plain(|e, out| text::common_time(ended_us(e), out)),
        "the same as 31/Jan/2026:12:00:00 +0000",
    ),
    (
        "client",
        Plain(|e, out| text::address(e.client, out)),
        "the client's address",
    ),
    ("method", Foreign(|e| e.asking.method.into()), "the method"),
    (
        "uri",
        Foreign(|e| e.uri()),
        "the URL as the client asked for it, without user name and password",
    ),
    (
        "target",
        Foreign(|e| without_user(e.asking.target)),
        "the request target as it came",
    ),
    (
        "host",
        Foreign(|e| e.asking.host.into()),
        "the value of Host",
    ),
    (
        "protocol",
        Plain(|e, out| out.extend_from_slice(e.record.http_client.as_str().as_bytes())),
        "the client's protocol",
    ),
    (
        "tls",
        Foreign(|e| e.tls.version.into()),
        "the version of TLS; nothing where the connection is plain",
    ),
    (
        "tls-session",
        Plain(|e, out| {
            out.extend_from_slice(match (e.tls.version, e.tls.is_resumed) {
                (b"", _) => b"-",
                (_, true) => b"resumed",
                (_, false) => b"full",
            });
        }),
        "whether its handshake was full or resumed an earlier session",
    ),
    (
        "tls-cipher",
        Foreign(|e| e.tls.cipher.into()),
        "its cipher suite",
    ),
    (
        "tls-name",
        Foreign(|e| e.tls.name.into()),
        "the name of the server that the client asked for in its handshake",
    ),
    (
        "tls-client",
        Foreign(|e| e.tls.client.into()),
        "the subject of the client's certificate",
    ),
    (
        "status",
        Plain(|e, out| text::decimal(e.record.status.into(), 3, b'0', out)),
        "the status sent",
    ),
    (
        "class",
        Plain(|e, out| out.extend_from_slice(e.record.class.as_str().as_bytes())),
        "how it was answered: memory-hit, miss",
    ),
    (
        "result",
        Plain(|e, out| out.extend_from_slice(e.record.class.squid_code().as_bytes())),
        "the same in Squid's words: TCP_MEM_HIT",
    ),
    (
        "hierarchy",
        Plain(|e, out| out.extend_from_slice(e.hierarchy_code().as_bytes())),
        "who was asked, in Squid's words: HIER_DIRECT",
    ),
    (
        "bytes-out",
        Plain(|e, out| text::number(e.record.bytes_out, out)),
        "bytes sent, head included",
    ),
    (
        "bytes-in",
        Plain(|e, out| text::number(e.asking.bytes_in, out)),
        "bytes of the request",
    ),
    (
        "ms",
        Plain(|e, out| text::number((e.record.response_us() / 1000).into(), out)),
        "milliseconds from its first byte to its end",
    ),
    (
        "us",
        Plain(|e, out| text::number(e.record.response_us().into(), out)),
        "microseconds",
    ),
    (
        "content-type",
        Foreign(|e| media_type(e.content_type).into()),
        "the answer's media type",
    ),
    (
        "referer",
        Foreign(|e| without_user(e.asking.referer)),
        "the Referer",
    ),
    (
        "user-agent",
        Foreign(|e| e.asking.user_agent.into()),
        "the User-Agent",
    ),
    (
        "listener",
        Foreign(|e| e.listener.into()),
        "the listener's address",
    ),
    (
        "peer",
        Foreign(|e| e.asked().into()),
        "the host that was asked",
    ),
    (
        "origin",
        Foreign(|e| e.origin.into()),
        "the origin of the route",
    ),
    (
        "cache-status",
        Foreign(|e| e.cache_status.into()),
        "the Cache-Status sent",
    ),
    (
        "tag",
        Foreign(|e| e.tag.into()),
        "the tag that a rule gives the request",
    ),
];

/// The names of all fields, with their descriptions.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELDS.iter().map(|(name, _, what)| (*name, *what))
}

impl Template {
    /// Reads a template. The error, for people, says what is wrong with it.
    pub fn parse(text: &str) -> Result<Template, String> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("a format has at most {TEMPLATE_BYTES_MAX} bytes"));
        }
        if text.contains(|c: char| c.is_control() && c != '\t') {
            return Err("a format is one line".to_owned());
        }
        let mut pieces = Vec::new();
        let mut is_quoted = false;
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let before = &rest[..at];
            is_quoted ^= before.matches('"').count() % 2 == 1;
            let Some(end) = rest[at..].find('}') else {
                return Err(format!("\"{}\" is not ended by a bracket", &rest[at..]));
            };
            let name = &rest[at + 2..at + end];
            let Some(field) = FIELDS.iter().position(|(it, ..)| *it == name) else {
                let known: Vec<_> = fields().map(|(name, _)| name).collect();
                return Err(format!(
                    "there is no field ${{{name}}}; there are {}",
                    known.join(", ")
                ));
            };
            if !before.is_empty() {
                pieces.push(Piece::Text(before.into()));
            }
            pieces.push(Piece::Field {
                at: field,
                is_quoted,
            });
            rest = &rest[at + end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.into()));
        }
        match pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::Field { .. }))
            .count()
        {
            0 => Err("a format names fields: ${client} ${status} ${uri}".to_owned()),
            1..=FIELDS_MAX => Ok(Template { pieces }),
            _ => Err(format!("a format has at most {FIELDS_MAX} fields")),
        }
    }

    /// Appends the entry's line.
    pub fn line(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            let (at, is_quoted) = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Field { at, is_quoted } => (*at, *is_quoted),
            };
            match &FIELDS[at].1 {
                Plain(write) => write(entry, out),
                Foreign(value) => match (&*value(entry), is_quoted) {
                    ([], _) => out.push(b'-'),
                    (value, true) => text::quoted(value, out),
                    (value, false) => text::word(value, out),
                },
            }
        }
        out.push(b'\n');
    }
}

fn ended_us(entry: &Entry<'_>) -> u64 {
    entry
        .record
        .began_unix_us
        .saturating_add(entry.record.total_us.into())
}

fn seconds(unix_us: u64, out: &mut Vec<u8>) {
    text::number(unix_us / 1_000_000, out);
    out.push(b'.');
    text::decimal(unix_us / 1000 % 1000, 3, b'0', out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Asking;
    use crate::record::tests::{any_record, memory_hit};
    use proptest::prelude::*;

    fn entry<'a>(target: &'a [u8], user_agent: &'a [u8]) -> Entry<'a> {
        Entry {
            tls: crate::access::Tls::default(),
            record: memory_hit(),
            client: "192.0.2.7".parse().unwrap(),
            listener: b"127.0.0.1:3128",
            asking: Asking {
                method: b"GET",
                host: b"example.org",
                target,
                bytes_in: 321,
                referer: b"",
                user_agent,
            },
            content_type: b"text/html; charset=utf-8",
            peer: b"",
            origin: b"",
            cache_status: b"loligo; hit; ttl=59",
            tag: b"",
        }
    }

    fn line(template: &str, entry: &Entry<'_>) -> String {
        let mut out = Vec::new();
        Template::parse(template).unwrap().line(entry, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_stand_where_they_are_named() {
        let text = line(
            "${client} [${time-common}] \"${method} ${target}\" ${status} $5 ${peer} ${class}:${ms} \"${referer}\" ${content-type}",
            &entry(b"/a b", b""),
        );
        assert_eq!(
            text,
            "192.0.2.7 [14/Nov/2023:22:13:20 +0000] \"GET /a b\" 200 $5 - memory-hit:0 \"-\" text/html\n"
        );
    }

    #[test]
    fn a_session_is_full_or_resumed_or_none() {
        for (version, is_resumed, told) in [
            ("", false, "-"),
            ("TLSv1.3", false, "full"),
            ("TLSv1.2", true, "resumed"),
        ] {
            let mut entry = entry(b"/a", b"");
            (entry.tls.version, entry.tls.is_resumed) = (version.as_bytes(), is_resumed);
            assert_eq!(line("${tls-session}", &entry), format!("{told}\n"));
        }
    }

    #[test]
    fn the_documentation_has_every_field() {
        let page = include_str!("../../../docs/access-log.md");
        for (name, what) in fields() {
            assert!(
                page.contains(&format!("| `${{{name}}}` | {what} |")),
                "{name}"
            );
        }
    }

    #[test]
    fn what_cannot_be_a_format_is_refused() {
        for (text, why) in [
            ("", "names fields"),
            ("client status", "names fields"),
            ("${clinet}", "no field ${clinet}"),
            ("${}", "no field"),
            ("${status", "not ended"),
            ("${status}\n", "one line"),
            ("${ms}".repeat(65).as_str(), "at most 64"),
            ("x".repeat(4097).as_str(), "at most 4096"),
        ] {
            let said = Template::parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_value_ends_its_line_or_its_column(record in any_record(), target: Vec<u8>, agent: Vec<u8>) {
            let all: Vec<String> = fields()
                .filter(|(name, _)| *name != "time-common")
                .map(|(name, _)| format!("${{{name}}}"))
                .collect();
            let entry = Entry { record, ..entry(&target, &agent) };
            let text = line(&all.join(" "), &entry);
            prop_assert_eq!(text.split(' ').count(), all.len());
            prop_assert_eq!(text.matches('\n').count(), 1);
            let quoted = line("\"${target}\" \"${user-agent}\"", &entry);
            prop_assert_eq!(quoted.matches('"').count(), 4);
            prop_assert_eq!(quoted.matches('\n').count(), 1);
        }

        #[test]
        fn any_text_is_taken_or_refused(text in ".*") {
            let _ = Template::parse(&text);
        }
    }
}
