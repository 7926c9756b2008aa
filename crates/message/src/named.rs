//! The resource that a request names: the target URI (RFC 9110 §7.1), as scheme, authority and path.
//!
//! HTTP/1.1 spreads the URI over the request line, Host and the connection; later versions send its parts as fields. Caches compare
//! its normal form: scheme and host in lower case, no default port, at least `/` for a path, no fragment, percent-escapes with
//! upper-case digits, and no escapes of unreserved characters (RFC 9110 §4.2.3), except of digits behind a `%` that begins no escape.
//! No other escape is decoded and no dot segment removed: origins treat those differently. If two normal forms name one resource, it
//! is stored twice, which costs only space.
//!
//! References (in Location and the like) are resolved as RFC 3986 §5.2 says; there dot segments are removed, as a
//! client that follows them would.
//!
//! Not known here: schemes other than http and https.

use crate::{Authority, is_target, write_decimal};

/// The schemes that a cache supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// The scheme with this name, in any letter case; `None` for others.
    #[inline]
    pub fn parse(name: &str) -> Option<Scheme> {
        match name {
            _ if name.eq_ignore_ascii_case("http") => Some(Scheme::Http),
            _ if name.eq_ignore_ascii_case("https") => Some(Scheme::Https),
            _ => None,
        }
    }

    /// `https` over TLS, else `http`.
    pub const fn of_tls(tls: bool) -> Scheme {
        if tls { Scheme::Https } else { Scheme::Http }
    }

    /// The name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// 80 or 443.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A resource, by the parts of its URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// http or https.
    pub scheme: Scheme,
    /// Host and port, as received.
    pub authority: Authority<'a>,
    /// Path and query, as received: perhaps empty, or only a query.
    pub path: &'a str,
}

impl<'a> Named<'a> {
    /// Reads an absolute http or https URI without fragment and user information.
    pub fn parse(uri: &'a str) -> Option<Named<'a>> {
        let (scheme, authority, path) = split_absolute(uri)?;
        let named = Named {
            scheme: Scheme::parse(scheme)?,
            authority: Authority::parse(authority)?,
            path,
        };
        is_target(uri.as_bytes()).then_some(named)
    }

    /// The port, explicit or default.
    pub fn port(&self) -> u16 {
        self.authority
            .port
            .unwrap_or_else(|| self.scheme.default_port())
    }

    /// Are scheme, host and port the same? (RFC 9110 §4.3.1)
    pub fn same_origin(&self, other: &Named) -> bool {
        let (own, theirs) = (self.authority.host, other.authority.host);
        self.scheme == other.scheme
            && own.eq_ignore_ascii_case(theirs)
            && self.port() == other.port()
    }

    /// Appends the normal form. Allocates nothing if `out` has room for the parts and fourteen more bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Authority { host, port } = self.authority;
        out.extend_from_slice(self.scheme.as_str().as_bytes());
        out.extend_from_slice(b"://");
        let is_ipv6 = host.contains(':');
        if is_ipv6 {
            out.push(b'[');
        }
        out.extend(host.bytes().map(|byte| byte.to_ascii_lowercase()));
        if is_ipv6 {
            out.push(b']');
        }
        //= rfc9110 §4.2.3   the default port is dropped, an empty path is "/"
        if let Some(port) = port.filter(|&port| port != self.scheme.default_port()) {
            out.push(b':');
            write_decimal(u64::from(port), out);
        }
        if !self.path.starts_with('/') {
            out.push(b'/');
        }
        write_normal(self.path.as_bytes(), out);
    }

    /// The URI that `reference` means in a response from here, in normal form; `None` if it is no http or https URI.
    /// (RFC 3986 §5.2)
    pub fn resolve(&self, reference: &str) -> Option<String> {
        let reference = without_fragment(reference.trim_matches([' ', '\t']));
        let joined;
        let found = if let Some(rest) = reference.strip_prefix("//") {
            joined = format!("{}://{rest}", self.scheme.as_str());
            Named::parse(&joined)?
        } else if has_scheme(reference) {
            Named::parse(reference)?
        } else {
            joined = resolve_path(self.path, reference);
            Named {
                path: &joined,
                ..*self
            }
        };
        let (target, query) = split_query(found.path);
        let path = remove_dot_segments(target) + query;
        let mut out = Vec::with_capacity(path.len() + found.authority.host.len() + 20);
        is_target(path.as_bytes()).then_some(())?;
        Named {
            path: &path,
            ..found
        }
        .write(&mut out);
        String::from_utf8(out).ok()
    }
}

/// Splits `scheme://authority/path?query` into three texts. Nothing is checked; the path may be empty.
pub fn split_absolute(uri: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Some((scheme, authority, path))
}

/// Does `name:` come before any other delimiter?
fn has_scheme(reference: &str) -> bool {
    reference
        .find([':', '/', '?'])
        .is_some_and(|at| reference.as_bytes()[at] == b':')
}

fn without_fragment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

/// Splits path and query. The query keeps its question mark.
fn split_query(path_and_query: &str) -> (&str, &str) {
    path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()))
}

/// The path and query that a relative reference without authority means. (RFC 3986 §5.2.2, §5.2.3)
fn resolve_path(base: &str, reference: &str) -> String {
    let (base_path, _) = split_query(base);
    if reference.is_empty() {
        base.to_owned()
    } else if reference.starts_with('/') {
        reference.to_owned()
    } else if reference.starts_with('?') {
        format!("{base_path}{reference}")
    } else {
        let directory = base_path
            .rfind('/')
            .map_or("/", |slash| &base_path[..=slash]);
        format!("{directory}{reference}")
    }
}

/// RFC 3986 §5.2.4, for absolute paths.
fn remove_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let dots = segment == "." || segment == "..";
        if segment == ".." {
            kept.pop();
        }
        if !dots {
            kept.push(segment);
        } else if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// `%3a` -> `%3A`, `%7E` -> `~`; `%%32F` stays
//= rfc9110 §4.2.3   percent-encoded octets: the case of hexadecimal digits does not matter
//= rfc3986 §6.2.2.2   those of unreserved characters are the characters
fn write_normal(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(percent) = rest.iter().position(|&byte| byte == b'%') {
        let (before, escape) = rest.split_at(percent);
        out.extend_from_slice(before);
        let byte = match escape {
            [_, high, low, ..] => escaped(*high, *low),
            _ => None,
        };
        let len = if byte.is_some() { 3 } else { 1 };
        match byte {
            Some(byte) if is_unreserved(byte) && !completes_escape(out, byte) => out.push(byte),
            _ => out.extend(escape[..len].iter().map(u8::to_ascii_uppercase)),
        }
        rest = &escape[len..];
    }
    out.extend_from_slice(rest);
}

/// Would this digit complete an escape after a `%` that begins none? That would change the URI.
fn completes_escape(out: &[u8], byte: u8) -> bool {
    let is_begun = match out {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    };
    is_begun && byte.is_ascii_hexdigit()
}

/// The byte that `%` and these digits encode.
fn escaped(high: u8, low: u8) -> Option<u8> {
    let digit = |hex: u8| char::from(hex).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// (RFC 3986 §2.3)
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(uri: &str) -> String {
        let mut out = Vec::new();
        match Named::parse(uri) {
            Some(parts) => parts.write(&mut out),
            None => return "refused".into(),
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn normal_forms() {
        for (uri, expected) in [
            ("http://Example.COM", "http://example.com/"),
            ("HTTP://example.com:80/", "http://example.com/"),
            ("http://example.com:/a", "http://example.com/a"),
            ("http://example.com:8080/A", "http://example.com:8080/A"),
            ("http://example.com:443/", "http://example.com:443/"),
            ("https://example.com:443/a", "https://example.com/a"),
            ("http://example.com/a#b", "refused"),
            ("http://example.com/\u{e4}", "refused"),
            ("http://example.com?q=1", "http://example.com/?q=1"),
            (
                "http://example.com/%7ea%3a%zz%",
                "http://example.com/~a%3A%zz%",
            ),
            (
                "http://example.com/%61%2d%2E%5f%2f%257e?%41=%26",
                "http://example.com/a-._%2F%257e?A=%26",
            ),
            ("http://example.com/a%%32Fb", "http://example.com/a%%32Fb"),
            ("http://example.com/a%2%46b", "http://example.com/a%2%46b"),
            ("http://example.com/%2%35", "http://example.com/%2%35"),
            ("http://example.com/%2%7E%%7e", "http://example.com/%2~%~"),
            ("http://example.com/%%41%42", "http://example.com/%%41B"),
            (
                "http://example.com/a/../b//c/.",
                "http://example.com/a/../b//c/.",
            ),
            ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("http://[::AB]", "http://[::ab]/"),
            ("http://user@example.com/", "refused"),
            ("http://user:pw@example.com/", "refused"),
            ("http:///a", "refused"),
            ("http://a:99999/", "refused"),
            ("http://a:8x/", "refused"),
            ("http://[::1/", "refused"),
            ("http://[::1]x/", "refused"),
            ("http://a b/", "refused"),
            ("ftp://example.com/", "refused"),
            ("example.com/", "refused"),
        ] {
            assert_eq!(normal(uri), expected, "{uri}");
        }
    }

    #[test]
    fn brackets_are_put_around_ipv6() {
        let mut out = Vec::new();
        let authority = Authority {
            host: "::1",
            port: Some(80),
        };
        Named {
            scheme: Scheme::Http,
            authority,
            path: "/x",
        }
        .write(&mut out);
        assert_eq!(out, b"http://[::1]/x");
    }

    #[test]
    fn references() {
        let base = Named::parse("http://a.example/b/c/d?q").unwrap();
        for (reference, expected) in [
            ("", Some("http://a.example/b/c/d?q")),
            ("#s", Some("http://a.example/b/c/d?q")),
            ("?y", Some("http://a.example/b/c/d?y")),
            ("g", Some("http://a.example/b/c/g")),
            ("./g", Some("http://a.example/b/c/g")),
            ("g/", Some("http://a.example/b/c/g/")),
            ("g?y#s", Some("http://a.example/b/c/g?y")),
            ("/g", Some("http://a.example/g")),
            ("//g.example", Some("http://g.example/")),
            (".", Some("http://a.example/b/c/")),
            ("..", Some("http://a.example/b/")),
            ("../g", Some("http://a.example/b/g")),
            ("../../../g", Some("http://a.example/g")),
            ("/./g", Some("http://a.example/g")),
            ("g;x=1/../y", Some("http://a.example/b/c/y")),
            ("g?y/../x", Some("http://a.example/b/c/g?y/../x")),
            ("HTTPS://X:443/p", Some("https://x/p")),
            ("./a:b", Some("http://a.example/b/c/a:b")),
            ("mailto:x", None),
            ("http:g", None),
            ("//u@g.example", None),
            ("/a b", None),
        ] {
            assert_eq!(base.resolve(reference).as_deref(), expected, "{reference}");
        }
    }
}
