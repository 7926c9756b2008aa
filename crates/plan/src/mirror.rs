//! Extra work that a route does for its origin, as data: `exchange::mirror` carries it out.
//!
//! A mirror of a package index changes paths, follows redirects itself, and replaces the name of the index's file server by its own.
//! All of this is for GET and HEAD. Requests with other methods pass as on any route, except for the path and Host.

use crate::routes::host_fits;

/// Extra work of a route. The default is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mirroring {
    /// Removed from the front of the path before the origin's own path is prefixed: empty, or `/a` without a `/` at its end.
    pub strip: String,
    /// The Host that the origin gets, in place of its own.
    pub origin_host: Option<String>,
    /// Hosts to which the proxy follows redirects itself; empty: redirects go to the client.
    pub follow: Vec<HostPort>,
    /// A text to replace in bodies, if any.
    pub replace: Option<Replace>,
    /// A path that ends in `sha256:` and 64 hexadecimal digits names the digest of its body: check it.
    pub verify: bool,
    /// Hosts that a bearer token may be fetched from; `None`: a 401 goes to the client. The origin itself is always among them.
    pub tokens: Option<Vec<HostPort>>,
}

impl Mirroring {
    /// The most hosts in one list.
    pub const HOSTS_MAX: usize = 64;
    /// The most redirects that are followed for one request.
    pub const REDIRECTS_MAX: usize = 3;

    /// Must answers be inspected?
    pub fn is_active(&self) -> bool {
        !self.follow.is_empty() || self.replace.is_some() || self.verify || self.tokens.is_some()
    }

    /// A text for keys that names what makes the route's answers differ from the origin's: empty if nothing does. `strip` does only where
    /// the name in the key has the client's own path.
    pub fn tag(&self, with_strip: bool) -> String {
        let mut tag = String::new();
        let mut add = |what: &str, value: &str| tag.extend([" ", what, "=", value]);
        if with_strip && !self.strip.is_empty() {
            add("strip", &self.strip);
        }
        if let Some(host) = &self.origin_host {
            add("host", host);
        }
        if !self.follow.is_empty() {
            add("follow", "yes");
        }
        if let Some(Replace { from, to, .. }) = &self.replace {
            add("from", from);
            add("to", to);
        }
        if self.verify {
            add("verify", "yes");
        }
        tag
    }
}

/// A host, with or without a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// Lower case: a name, an address without brackets, or `*.suffix`.
    pub host: String,
    /// `None`: the scheme's own.
    pub port: Option<u16>,
}

impl HostPort {
    /// Does it match this host and port?
    pub fn fits(&self, tls: bool, host: &str, port: u16) -> bool {
        let own = self.port.unwrap_or(if tls { 443 } else { 80 });
        own == port && host_fits(&self.host, host)
    }
}

/// A text that is replaced in bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replace {
    /// The text as it occurs in bodies.
    pub from: String,
    /// The text that replaces it.
    pub to: String,
    /// Media types whose bodies are searched, lower case: `text/html`, `application/*`, or `*+json` for a suffix.
    pub types: Vec<String>,
}

impl Replace {
    /// The shortest text. A shorter one would be found in unintended places, and its replacement could make a body much longer.
    pub const FROM_BYTES_MIN: usize = 8;
    /// The longest text, and the longest replacement.
    pub const BYTES_MAX: usize = 256;
    /// The media types whose bodies are searched by default.
    pub const TYPES: [&'static str; 5] = [
        "text/html",
        "text/plain",
        "application/json",
        "*+json",
        "*+html",
    ];

    /// Are bodies of this Content-Type searched? Bodies without one are not.
    pub fn takes(&self, content_type: Option<&[u8]>) -> bool {
        let bare = content_type.unwrap_or_default();
        let bare = bare.split(|&byte| byte == b';').next().unwrap_or_default();
        let bare = bare.trim_ascii().to_ascii_lowercase();
        let fits = |ours: &String| match (ours.strip_prefix('*'), ours.strip_suffix('*')) {
            (Some(suffix), _) => bare.ends_with(suffix.as_bytes()),
            (_, Some(prefix)) => bare.starts_with(prefix.as_bytes()),
            _ => bare == ours.as_bytes(),
        };
        !bare.is_empty() && self.types.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_port_means_the_schemes_own() {
        let any = HostPort {
            host: "*.files.example".into(),
            port: None,
        };
        assert!(any.fits(true, "a.Files.example", 443));
        assert!(any.fits(false, "a.files.example", 80));
        assert!(!any.fits(true, "files.example", 443));
        assert!(!any.fits(true, "a.files.example", 22));
        assert!(!any.fits(true, "a.files.example.evil", 443));
        let one = HostPort {
            host: "127.0.0.1".into(),
            port: Some(81),
        };
        assert!(one.fits(false, "127.0.0.1", 81) && !one.fits(false, "127.0.0.1", 80));
    }

    #[test]
    fn types_by_name_beginning_and_suffix() {
        let types = |list: &[&str]| Replace {
            from: String::new(),
            to: String::new(),
            types: list.iter().map(|&word| word.to_owned()).collect(),
        };
        let usual = types(&Replace::TYPES);
        for yes in [
            "text/html; charset=utf-8",
            "Application/JSON",
            "application/vnd.pypi.simple.v1+json",
            "application/vnd.pypi.simple.v1+html",
        ] {
            assert!(usual.takes(Some(yes.as_bytes())), "{yes}");
        }
        for no in ["application/octet-stream", "text/css", "", "json"] {
            assert!(!usual.takes(Some(no.as_bytes())), "{no}");
        }
        assert!(!usual.takes(None));
        assert!(types(&["text/*"]).takes(Some(b"text/css")));
    }
}
