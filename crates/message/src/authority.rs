//! Authorities: `host [":" port]` (RFC 3986 §3.2.2).
//!
//! Checked to the grammar, because an authority decides where a request goes. User information is refused
//! (RFC 9110 §4.2.4). IPv6 literals must be addresses; zones and future address forms are refused.
//!
//! Not known here: default ports, whether this proxy serves the host.

use std::fmt;
use std::net::Ipv6Addr;

/// The longest host, in bytes: the limit of DNS (RFC 3986 §3.2.2), with the final dot.
pub const HOST_BYTES_MAX: usize = 255;

/// A host and perhaps a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authority<'a> {
    /// Name or address, in any letter case; an IPv6 address without its brackets. Empty only in [`Authority::NONE`].
    pub host: &'a str,
    /// The port, if one is written.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// No host: an HTTP/1.0 request need not name one.
    pub const NONE: Authority<'static> = Authority {
        host: "",
        port: None,
    };

    /// Reads `host [":" port]`; `None` if the text is anything else. A port above 65535, user information and an empty
    /// host are refused. An empty port (`a:`) counts as no port.
    #[inline]
    pub fn parse(authority: &'a str) -> Option<Authority<'a>> {
        let bytes = authority.as_bytes();
        let (host, rest) = if let Some(literal) = authority.strip_prefix('[') {
            let (address, rest) = literal.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, rest.as_bytes())
        } else {
            let end = reg_name_len(bytes)?;
            // Everything before `end` is ASCII, so `end` is a character boundary.
            (authority.get(..end)?, &bytes[end..])
        };
        let port = match rest {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        Some(Authority { host, port })
    }
}

impl Authority<'_> {
    /// The form written in a URI and in Host: the same as `to_string`, but faster.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.host.len() + 8);
        let is_ipv6 = self.host.as_bytes().contains(&b':');
        if is_ipv6 {
            text.push('[');
        }
        text.push_str(self.host);
        if is_ipv6 {
            text.push(']');
        }
        if let Some(port) = self.port {
            text.push(':');
            push_number(port, &mut text);
        }
        text
    }
}

/// Appends a number in decimal.
pub fn push_number(number: u16, text: &mut String) {
    let mut divisor = 10_000;
    while divisor > 1 && number < divisor {
        divisor /= 10;
    }
    while divisor > 0 {
        text.push(char::from(b'0' + (number / divisor % 10) as u8));
        divisor /= 10;
    }
}

/// The form written in a URI and in Host, with brackets around an IPv6 address.
impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(self.host)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// The value of Host as text, if it is valid.
//= rfc9112 §3.2   an invalid Host: 400
#[inline]
pub fn host_text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    Authority::parse(text).map(|_| text)
}

/// The length of the reg-name or IPv4 address at the start; a colon or the end of the text ends it.
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

/// The role of a byte in a reg-name.
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

    fn split(text: &str) -> Option<(&str, Option<u16>)> {
        Authority::parse(text).map(|found| (found.host, found.port))
    }

    #[test]
    fn the_text_is_what_is_displayed() {
        for text in [
            "a",
            "a.example:0",
            "a:9",
            "a:80",
            "a:443",
            "a:8080",
            "[::1]:65535",
            "[2001:db8::1]",
        ] {
            let authority = Authority::parse(text).unwrap();
            assert_eq!(authority.to_text(), text);
            assert_eq!(authority.to_text(), authority.to_string());
        }
    }

    #[test]
    fn authorities() {
        assert_eq!(split("example.com"), Some(("example.com", None)));
        assert_eq!(split("Example.com:"), Some(("Example.com", None)));
        assert_eq!(split("127.0.0.1:8080"), Some(("127.0.0.1", Some(8080))));
        assert_eq!(split("[::1]"), Some(("::1", None)));
        assert_eq!(
            split("[2001:db8::1]:65535"),
            Some(("2001:db8::1", Some(65535)))
        );
        assert_eq!(
            split("a%20b!$&'()*+,;=_~"),
            Some(("a%20b!$&'()*+,;=_~", None))
        );
        assert_eq!(split("a:00080"), Some(("a", Some(80))));
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
            assert_eq!(split(refused), None, "{refused:?}");
        }
        assert!(split(&"a".repeat(HOST_BYTES_MAX)).is_some());
        assert!(split(&"a".repeat(HOST_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn written_as_read() {
        for text in ["example.com", "a:8080", "[::1]", "[2001:db8::1]:443"] {
            assert_eq!(Authority::parse(text).unwrap().to_string(), text);
        }
    }
}
