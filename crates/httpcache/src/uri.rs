//! Which texts name the same resource.
//!
//! Keys are target URIs in normal form: scheme and host in lower case, without the default port, with at least `/` for a
//! path, without fragment, percent-escapes with upper-case digits (RFC 9110 §4.2.3). No escape is decoded and no dot
//! segment removed: origins differ in what they make of those, and two names for one resource only cost space.
//!
//! References (in Location and the like) are resolved as RFC 3986 §5.2 says; there dot segments are removed, as a
//! client that follows them would.
//!
//! Not known here: other schemes than http and https; user information, with which a URI is refused.

/// The parts of an absolute http or https URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UriParts<'a> {
    /// `http` or `https`, in any letter case.
    pub scheme: &'a str,
    /// Name or address, in any letter case; an IPv6 address without its brackets.
    pub host: &'a str,
    /// The port, if it is written.
    pub port: Option<u16>,
    /// Path and query, perhaps empty; without fragment.
    pub path_and_query: &'a str,
}

impl UriParts<'_> {
    /// Scheme, host and port are the same. (RFC 9110 §4.3.1)
    pub fn same_origin(&self, other: &UriParts) -> bool {
        let port = |parts: &UriParts| parts.port.or(default_port(parts.scheme));
        self.scheme.eq_ignore_ascii_case(other.scheme)
            && self.host.eq_ignore_ascii_case(other.host)
            && port(self) == port(other)
    }

    /// Appends the normal form.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_uri(self.scheme, self.host, self.port, self.path_and_query, out);
    }
}

/// Appends `http://host:port/path?query` in normal form. `host` may have its brackets or not. No allocation if `out` has
/// room for the parts and eight bytes more.
pub fn write_uri(
    scheme: &str,
    host: &str,
    port: Option<u16>,
    path_and_query: &str,
    out: &mut Vec<u8>,
) {
    out.extend(scheme.bytes().map(|byte| byte.to_ascii_lowercase()));
    out.extend_from_slice(b"://");
    let bare_ipv6 = host.contains(':') && !host.starts_with('[');
    if bare_ipv6 {
        out.push(b'[');
    }
    out.extend(host.bytes().map(|byte| byte.to_ascii_lowercase()));
    if bare_ipv6 {
        out.push(b']');
    }
    //= rfc9110 §4.2.3   the default port is dropped, an empty path is "/"
    if let Some(port) = port.filter(|&port| Some(port) != default_port(scheme)) {
        out.push(b':');
        crate::cache_status::write_decimal(u64::from(port), out);
    }
    let path_and_query = without_fragment(path_and_query);
    if !path_and_query.starts_with('/') {
        out.push(b'/');
    }
    write_escapes_upper(path_and_query.as_bytes(), out);
}

/// Takes an absolute http or https URI apart; `None` if it is none, or has user information.
pub fn split_uri(uri: &str) -> Option<UriParts<'_>> {
    let (scheme, rest) = uri.split_once("://")?;
    default_port(scheme)?;
    split_after_scheme(scheme, rest)
}

/// What `reference` means in a response from `base`, in normal form; `None` if that is no http or https URI.
/// (RFC 3986 §5.2)
pub fn resolve(base: &UriParts, reference: &str) -> Option<String> {
    let reference = without_fragment(reference.trim_matches([' ', '\t']));
    if reference
        .bytes()
        .any(|byte| byte.is_ascii_control() || byte == b' ')
    {
        return None;
    }
    let path;
    let parts = if let Some(rest) = reference.strip_prefix("//") {
        split_after_scheme(base.scheme, rest)?
    } else if has_scheme(reference) {
        split_uri(reference)?
    } else {
        path = resolve_path(base.path_and_query, reference);
        UriParts {
            path_and_query: &path,
            ..*base
        }
    };
    let (target, query) = split_query(parts.path_and_query);
    let clean = remove_dot_segments(target) + query;
    let mut out = Vec::with_capacity(clean.len() + parts.host.len() + 20);
    UriParts {
        path_and_query: &clean,
        ..parts
    }
    .write(&mut out);
    String::from_utf8(out).ok()
}

fn split_after_scheme<'a>(scheme: &'a str, rest: &'a str) -> Option<UriParts<'a>> {
    let rest = without_fragment(rest);
    let path_start = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path_and_query) = rest.split_at(path_start);
    let (host, port) = split_host_port(authority)?;
    Some(UriParts {
        scheme,
        host,
        port,
        path_and_query,
    })
}

fn split_host_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let valid = host.contains(':')
                && host
                    .bytes()
                    .all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
            (
                valid.then_some(host)?,
                if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':')?)
                },
            )
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_name) {
        return None;
    }
    match port {
        None | Some("") => Some((host, None)),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(digits.parse().ok()?)))
        }
        Some(_) => None,
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Some(80),
        _ if scheme.eq_ignore_ascii_case("https") => Some(443),
        _ => None,
    }
}

/// `name:` before any other delimiter.
fn has_scheme(reference: &str) -> bool {
    reference
        .find([':', '/', '?'])
        .is_some_and(|at| reference.as_bytes()[at] == b':')
}

fn without_fragment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

/// The query keeps its question mark.
fn split_query(path_and_query: &str) -> (&str, &str) {
    path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()))
}

/// A relative reference without authority, put in its place. (RFC 3986 §5.2.2, §5.2.3)
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

/// (RFC 3986 §5.2.4), for absolute paths.
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

/// `%3a` -> `%3A`
//= rfc9110 §4.2.3   percent-encoded octets: the case of hexadecimal digits does not matter
fn write_escapes_upper(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(percent) = rest.iter().position(|&byte| byte == b'%') {
        let (before, escape) = rest.split_at(percent);
        out.extend_from_slice(before);
        let len = match escape {
            [_, high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => 3,
            _ => 1,
        };
        out.extend(escape[..len].iter().map(u8::to_ascii_uppercase));
        rest = &escape[len..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(uri: &str) -> String {
        let mut out = Vec::new();
        match split_uri(uri) {
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
            ("https://example.com:443/a#b", "https://example.com/a"),
            ("http://example.com?q=1", "http://example.com/?q=1"),
            ("http://example.com#f", "http://example.com/"),
            (
                "http://example.com/%7ea%3a%zz%",
                "http://example.com/%7Ea%3A%zz%",
            ),
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
        write_uri("http", "::1", Some(80), "/x", &mut out);
        assert_eq!(out, b"http://[::1]/x");
    }

    #[test]
    fn references() {
        let base = split_uri("http://a.example/b/c/d?q").unwrap();
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
            assert_eq!(
                resolve(&base, reference).as_deref(),
                expected,
                "{reference}"
            );
        }
    }
}
