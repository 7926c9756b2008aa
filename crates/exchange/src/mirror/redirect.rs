//! The target of a redirect, and the request that is sent there.
//!
//! Not known here: which redirects are followed.

use base::mistakes::{Mistake, makes};
use message::{Named, Scheme};

use http1::head_lines;
use origin::Destination;

/// The target of a redirect.
pub struct Next {
    /// The server.
    pub destination: Destination,
    /// The target in origin form.
    pub target: String,
}

/// Is the status that of a redirect?
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Resolves Location in an answer from `at` to a request for `target`. `None`: not an http or https URL.
pub fn next(at: &Destination, target: &str, location: &[u8]) -> Option<Next> {
    let location = std::str::from_utf8(location).ok()?.trim();
    let location = location.split('#').next()?;
    let base = format!("{at}{target}");
    let resolved;
    // Keep an absolute URL unchanged: its query may be signed.
    let named = match Named::parse(location) {
        Some(named) => named,
        None => {
            resolved = Named::parse(&base)?.resolve(location)?;
            Named::parse(&resolved)?
        }
    };
    let slash = if named.path.starts_with('/') { "" } else { "/" };
    let destination = Destination {
        tls: named.scheme == Scheme::Https,
        host: named.authority.host.to_ascii_lowercase().into(),
        port: named.port(),
        member: None,
        terms: None,
        http2: None,
    };
    Some(Next {
        destination: destination.as_of(at),
        target: [slash, named.path].concat(),
    })
}

/// Is the field for the origin only? Other hosts must not learn about the client.
fn is_for_origin(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"cookie2",
        b"referer",
        b"forwarded",
        b"x-real-ip",
    ];
    let is_forwarded = name.len() > 11 && name[..12].eq_ignore_ascii_case(b"x-forwarded-");
    is_forwarded || NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Rewrites a request for an origin with a new first line (`line`: method and target) and Host. `crosses`: to another origin than the first.
pub fn redirected(request: &[u8], line: (&str, &str), host: &str, crosses: bool) -> Vec<u8> {
    let leaves = crosses && !makes(Mistake::CarryCredentials);
    let leave_out = |name: &[u8]| leaves && is_for_origin(name);
    rewritten(request, Some(line), Some(host.as_bytes()), &leave_out)
}

/// Sets this field in a request.
pub fn with_field(request: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = rewritten(request, None, None, &|own| own.eq_ignore_ascii_case(name));
    out.truncate(out.len() - b"\r\n".len());
    head_lines::write_field(name, value, &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// Removes these fields from a request.
pub fn without(request: &[u8], names: &[&[u8]]) -> Vec<u8> {
    let is_one = |own: &[u8]| names.iter().any(|name| own.eq_ignore_ascii_case(name));
    rewritten(request, None, None, &is_one)
}

/// The values of this field in a request.
pub fn values<'r>(request: &'r [u8], name: &[u8]) -> Vec<&'r [u8]> {
    let lines = request.split(|&byte| byte == b'\n').skip(1);
    let value = |line: &'r [u8]| {
        let (own, value) = line.split_at(memchr::memchr(b':', line)?);
        (own.eq_ignore_ascii_case(name)).then(|| value[1..].trim_ascii())
    };
    lines.filter_map(value).collect()
}

/// Rewrites a request. `request` was written by [`crate::request::onward`]: complete lines, no folded fields.
fn rewritten(
    request: &[u8],
    line: Option<(&str, &str)>,
    host: Option<&[u8]>,
    leave_out: &dyn Fn(&[u8]) -> bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.len() + 256);
    let mut left = request;
    let mut is_first = true;
    while let Some(end) = memchr::memmem::find(left, b"\r\n") {
        let this = &left[..end];
        left = &left[end + 2..];
        let name = &this[..memchr::memchr(b':', this).unwrap_or(0)];
        match (is_first, line, host) {
            (true, Some((method, target)), _) => {
                http1::write_request_line(method, target, &mut out);
            }
            (false, _, Some(host)) if name.eq_ignore_ascii_case(b"host") => {
                head_lines::write_field(b"Host", host, &mut out);
            }
            (false, ..) if !name.is_empty() && leave_out(name) => {}
            _ => {
                out.extend_from_slice(this);
                out.extend_from_slice(b"\r\n");
            }
        }
        is_first = false;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(location: &str) -> Option<String> {
        let at = Destination {
            tls: true,
            host: "a.example".into(),
            port: 443,
            member: None,
            terms: None,
            http2: None,
        };
        let next = next(&at, "/x/y?q", location.as_bytes())?;
        Some(format!("{}{}", next.destination, next.target))
    }

    #[test]
    fn what_location_means() {
        for (location, meant) in [
            (
                "https://B.example/z?sig=%2f#f",
                "https://b.example/z?sig=%2f",
            ),
            ("http://b.example:81", "http://b.example:81/"),
            ("//b.example/z", "https://b.example/z"),
            ("/z", "https://a.example/z"),
            ("z", "https://a.example/x/z"),
            ("../z", "https://a.example/z"),
        ] {
            assert_eq!(leads(location).as_deref(), Some(meant), "{location}");
        }
        for none in [
            "ftp://b.example/",
            "https://u:p@b.example/",
            "http://",
            "file:///etc/passwd",
        ] {
            assert_eq!(leads(none), None, "{none}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let request = b"GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nCOOKIE: y\r\nX-Forwarded-For: c\r\nAccept: z\r\n\r\n";
        let text = |crosses| {
            String::from_utf8(redirected(request, ("GET", "/b"), "b:81", crosses)).unwrap()
        };
        assert_eq!(
            text(true),
            "GET /b HTTP/1.1\r\nHost: b:81\r\nAccept: z\r\n\r\n"
        );
        assert!(text(false).contains("Authorization: x\r\nCOOKIE: y\r\n"));
        let with = with_field(request, b"authorization", b"Bearer t");
        let with = String::from_utf8(with).unwrap();
        assert!(
            with.ends_with("Accept: z\r\nauthorization: Bearer t\r\n\r\n"),
            "{with}"
        );
        assert!(!with.contains(": x\r\n") && with.starts_with("GET /a HTTP/1.1\r\nHost: a\r\n"));
    }
}
