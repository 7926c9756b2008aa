//! Request targets (RFC 9112 §3.2).
//!
//! A target is visible ASCII without a fragment. A path is passed on unchanged, because only the origin knows what
//! its bytes mean. Authorities are checked against the grammar.
//!
//! Not known here: Host, schemes, whether this proxy serves the host.

use message::{Authority, is_target, split_absolute};

use crate::reject::{Fault, Reject};

/// The four forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    /// `/path?query`, the usual form: the host is in Host.
    Origin(&'a str),
    /// `scheme://authority/path?query`, from clients that use a proxy. The authority takes precedence over Host.
    Absolute {
        /// The scheme as received, in any letter case.
        scheme: &'a str,
        /// The requested host.
        authority: Authority<'a>,
        /// Path and query: empty, or begins with `/` or `?`.
        path: &'a str,
    },
    /// `host:port`, for CONNECT; the port is always present.
    Authority(Authority<'a>),
    /// `*`, for OPTIONS.
    Asterisk,
}

/// Finds the form of a target and checks that the method allows it. All refusals are [`Fault::Target`].
pub fn parse_target<'a>(method: &str, target: &'a str) -> Result<Target<'a>, Reject> {
    target_form(method, target).ok_or(Reject::Request(Fault::Target))
}

fn target_form<'a>(method: &str, target: &'a str) -> Option<Target<'a>> {
    if !is_target(target.as_bytes()) {
        return None;
    }
    if method == "CONNECT" {
        //= rfc9112 §3.2.3   authority-form is host and port, and only for CONNECT
        let authority = Authority::parse(target)?;
        return authority.port.map(|_| Target::Authority(authority));
    }
    if target.starts_with('/') {
        return Some(Target::Origin(target));
    }
    if target == "*" {
        //= rfc9112 §3.2.4   asterisk-form is only for OPTIONS
        return (method == "OPTIONS").then_some(Target::Asterisk);
    }
    let (scheme, authority, path) = split_absolute(target)?;
    if !is_scheme(scheme.as_bytes()) {
        return None;
    }
    Some(Target::Absolute {
        scheme,
        authority: Authority::parse(authority)?,
        path,
    })
}

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(text: &str) -> Authority<'_> {
        Authority::parse(text).unwrap()
    }

    #[test]
    fn forms() {
        assert_eq!(parse_target("GET", "/a?b"), Ok(Target::Origin("/a?b")));
        assert_eq!(parse_target("GET", "//a"), Ok(Target::Origin("//a")));
        assert_eq!(parse_target("OPTIONS", "*"), Ok(Target::Asterisk));
        assert_eq!(
            parse_target("CONNECT", "a:443"),
            Ok(Target::Authority(authority("a:443")))
        );
        let absolute = |text, path| {
            Ok(Target::Absolute {
                scheme: "http",
                authority: authority(text),
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
