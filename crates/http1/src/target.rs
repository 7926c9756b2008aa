//! Request targets, authorities and Host (RFC 9112 §3.2, RFC 3986 §3.2.2).
//!
//! A target is visible ASCII without a fragment; within that, a path is passed on as it came, for what its
//! bytes mean is the origin's business. Authorities are checked to the grammar, since they decide where a
//! request goes: user information is refused (RFC 9110 §4.2.4), IPv6 literals must be addresses, zones and
//! future address forms are refused.
//!
//! Not known here: default ports, names and addresses, whether the host is one we serve.

use std::net::Ipv6Addr;

use crate::{Fault, Reject};

/// The longest host, in bytes: what DNS allows (RFC 3986 §3.2.2), with the final dot.
const HOST_BYTES_MAX: usize = 255;

/// The four forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    /// `/path?query`, the usual one: the host is in Host.
    Origin(&'a str),
    /// `scheme://authority/path?query`, from clients that know we are a proxy. The authority wins over Host.
    Absolute {
        /// As it came, any case.
        scheme: &'a str,
        /// `host [":" port]`; see [`split_authority`].
        authority: &'a str,
        /// Path and query: empty, or begins with `/` or `?`.
        path: &'a str,
    },
    /// `host:port`, for CONNECT.
    Authority(&'a str),
    /// `*`, for OPTIONS.
    Asterisk,
}

/// Tells the form of a target and checks that it goes with the method. All refusals are [`Fault::Target`].
pub fn parse_target<'a>(method: &str, target: &'a str) -> Result<Target<'a>, Reject> {
    target_form(method, target).ok_or(Reject::Request(Fault::Target))
}

fn target_form<'a>(method: &str, target: &'a str) -> Option<Target<'a>> {
    if !is_clean(target.as_bytes()) {
        return None;
    }
    if method == "CONNECT" {
        //= rfc9112 §3.2.3   authority-form is host and port, and only for CONNECT
        let (_, port) = split_authority(target)?;
        return port.map(|_| Target::Authority(target));
    }
    if target.starts_with('/') {
        return Some(Target::Origin(target));
    }
    if target == "*" {
        //= rfc9112 §3.2.4   asterisk-form is only for OPTIONS
        return (method == "OPTIONS").then_some(Target::Asterisk);
    }
    let (scheme, rest) = target.split_once("://")?;
    if !is_scheme(scheme.as_bytes()) {
        return None;
    }
    let authority_len = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_len);
    split_authority(authority)?;
    Some(Target::Absolute {
        scheme,
        authority,
        path,
    })
}

/// Host and port of `host [":" port]`, None if it is neither valid nor there.
///
/// The host stays in the case it came in; an IPv6 literal loses its brackets. The port is None where there is
/// none (`a`, `a:`). Ports above 65535, user information and an empty host are refused.
pub fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let bytes = authority.as_bytes();
    let (host, rest) = if let Some(literal) = authority.strip_prefix('[') {
        let (address, rest) = literal.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        (address, rest.as_bytes())
    } else {
        let end = reg_name_len(bytes)?;
        // Only ASCII was passed over, so this is a character border.
        (authority.get(..end)?, &bytes[end..])
    };
    match rest {
        [] | [b':'] => Some((host, None)),
        [b':', digits @ ..] => parse_port(digits).map(|port| (host, Some(port))),
        _ => None,
    }
}

/// Is it a valid value of Host? Gives it as text.
//= rfc9112 §3.2   an invalid Host: 400
#[inline]
pub(crate) fn host_value(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    split_authority(text).map(|_| text)
}

/// Visible ASCII without `#`, and not empty?
#[inline]
pub(crate) fn is_clean(target: &[u8]) -> bool {
    // No early exit: this way it is done many bytes at a time.
    let foul = |b: u8| !b.is_ascii_graphic() | (b == b'#');
    !target.is_empty() && !target.iter().fold(false, |found, &b| found | foul(b))
}

/// The length of the reg-name or IPv4 address at the start; it ends at a colon or the end.
fn reg_name_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match REG_NAME[byte as usize] {
            Class::Plain => at += 1,
            Class::Percent => match bytes[at + 1..] {
                [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => at += 3,
                _ => return None,
            },
            Class::Colon => break,
            Class::Other => return None,
        }
    }
    (1..=HOST_BYTES_MAX).contains(&at).then_some(at)
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.len() > 5 {
        return None;
    }
    let mut port = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        port = port * 10 + u32::from(digit - b'0');
    }
    u16::try_from(port).ok()
}

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b))
}

/// What a byte is in a reg-name.
#[derive(Clone, Copy)]
enum Class {
    Plain,
    Percent,
    Colon,
    Other,
}

static REG_NAME: [Class; 256] = {
    let mut table = [Class::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = Class::Plain;
        }
        byte += 1;
    }
    // unreserved and sub-delims
    let others = b"-._~!$&'()*+,;=";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = Class::Plain;
        index += 1;
    }
    table[b'%' as usize] = Class::Percent;
    table[b':' as usize] = Class::Colon;
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        assert_eq!(split_authority("example.com"), Some(("example.com", None)));
        assert_eq!(split_authority("Example.com:"), Some(("Example.com", None)));
        assert_eq!(
            split_authority("127.0.0.1:8080"),
            Some(("127.0.0.1", Some(8080)))
        );
        assert_eq!(split_authority("[::1]"), Some(("::1", None)));
        assert_eq!(
            split_authority("[2001:db8::1]:65535"),
            Some(("2001:db8::1", Some(65535)))
        );
        assert_eq!(
            split_authority("a%20b!$&'()*+,;=_~"),
            Some(("a%20b!$&'()*+,;=_~", None))
        );
        assert_eq!(split_authority("a:00080"), Some(("a", Some(80))));
        for refused in [
            "",
            ":",
            ":80",
            "a:65536",
            "a:000080",
            "a:-1",
            "a:+1",
            "a:8x",
            "a:1:2",
            "a b",
            "a\t",
            "u@a",
            "u:p@a",
            "a/",
            "a?",
            "a#",
            "a\\b",
            "[",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]80",
            "::1",
            "[::1%eth0]",
            "[v1.a]",
            "[127.0.0.1]",
            "[[::1]]",
            "a[::1]",
            "a%",
            "a%2",
            "a%2g",
            "ä.de",
            "a\0",
            "a|b",
            "<a>",
            "\"a\"",
            "a^b",
        ] {
            assert_eq!(split_authority(refused), None, "{refused:?}");
        }
        assert!(split_authority(&"a".repeat(HOST_BYTES_MAX)).is_some());
        assert!(split_authority(&"a".repeat(HOST_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn forms() {
        assert_eq!(parse_target("GET", "/a?b"), Ok(Target::Origin("/a?b")));
        assert_eq!(parse_target("GET", "//a"), Ok(Target::Origin("//a")));
        assert_eq!(parse_target("OPTIONS", "*"), Ok(Target::Asterisk));
        assert_eq!(
            parse_target("CONNECT", "a:443"),
            Ok(Target::Authority("a:443"))
        );
        let absolute = |authority, path| {
            Ok(Target::Absolute {
                scheme: "http",
                authority,
                path,
            })
        };
        assert_eq!(
            parse_target("GET", "http://a:80/b?c"),
            absolute("a:80", "/b?c")
        );
        assert_eq!(parse_target("GET", "http://a"), absolute("a", ""));
        assert_eq!(parse_target("GET", "http://a?b/c"), absolute("a", "?b/c"));
        assert_eq!(parse_target("GET", "http://[::1]/"), absolute("[::1]", "/"));
    }

    #[test]
    fn refused_forms() {
        for (method, target) in [
            ("GET", ""),
            ("GET", "*"),
            ("GET", "a"),
            ("GET", "a:80"),
            ("GET", "http:/a"),
            ("GET", "http://"),
            ("GET", "http:///a"),
            ("GET", "http://u@a/"),
            ("GET", "http://u:p@a/"),
            ("GET", "http://a:x/"),
            ("GET", "1http://a/"),
            ("GET", "ht_tp://a/"),
            ("GET", "://a/"),
            ("GET", "http://a/#b"),
            ("GET", "/a#"),
            ("GET", "/a b"),
            ("GET", "/ä"),
            ("GET", "/\x7f"),
            ("GET", "\\a"),
            ("CONNECT", "a"),
            ("CONNECT", "a:"),
            ("CONNECT", "/"),
            ("CONNECT", "http://a:80"),
            ("CONNECT", "*"),
            ("options", "*"),
        ] {
            assert_eq!(
                parse_target(method, target),
                Err(Reject::Request(Fault::Target)),
                "{method} {target}"
            );
        }
    }
}
