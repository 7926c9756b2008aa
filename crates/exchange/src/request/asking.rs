//! The access log's description of a request: method, host, target, Referer and User-Agent as the client sent them.
//!
//! A request on the short way logs slices of its head ([`of`]). A request that outlives its head keeps copies ([`Kept`]). Without an
//! access log, neither reads a field.

use http1::RequestView;
use message::{RequestHead, Version};
use profile::{Protocol, access::Asking};

/// The log's description of a head without a body. Reads Referer and User-Agent only if an access log is written (`logged`).
#[inline]
pub fn of<'a>(view: &RequestView<'_, 'a>, logged: bool) -> Asking<'a> {
    let field = |name: &[u8]| match logged {
        true => view.first(name).unwrap_or_default(),
        false => b"",
    };
    Asking {
        method: view.method.as_bytes(),
        host: view.host.unwrap_or_default().as_bytes(),
        target: view.target.as_bytes(),
        bytes_in: view.head_bytes as u64,
        referer: field(b"referer"),
        user_agent: field(b"user-agent"),
    }
}

/// Same as [`of`], for a parsed head that owns its text. Without an access log (`logged`), only the method is set.
pub fn of_head(head: &RequestHead, head_bytes: usize, logged: bool) -> Asking<'_> {
    let method = head.method.as_bytes();
    if !logged {
        return Asking {
            method,
            ..Asking::default()
        };
    }
    let field = |name: &[u8]| head.fields.first(name).unwrap_or_default();
    Asking {
        method,
        host: head.host.as_deref().unwrap_or_default().as_bytes(),
        target: head.target.as_bytes(),
        bytes_in: head_bytes as u64,
        referer: field(b"referer"),
        user_agent: field(b"user-agent"),
    }
}

fn protocol(version: Version) -> Protocol {
    match version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
        Version::Http2 => Protocol::Http2,
    }
}

/// A copy of the log's description of a request.
#[derive(Default)]
pub struct Kept {
    method: String,
    host: String,
    target: String,
    protocol: Protocol,
    head_bytes: u64,
    referer: Vec<u8>,
    user_agent: Vec<u8>,
}

impl Kept {
    /// Copies from a head. Without an access log (`logged`), keeps only method and protocol, so that nothing is copied in vain.
    pub fn of(head: &RequestHead, head_bytes: usize, logged: bool) -> Kept {
        let method = head.method.clone();
        if !logged {
            return Kept {
                method,
                protocol: protocol(head.version),
                ..Kept::default()
            };
        }
        let field = |name: &[u8]| head.fields.first(name).unwrap_or_default().to_vec();
        Kept {
            method,
            host: head.host.clone().unwrap_or_default(),
            target: head.target.clone(),
            protocol: protocol(head.version),
            head_bytes: head_bytes as u64,
            referer: field(b"referer"),
            user_agent: field(b"user-agent"),
        }
    }

    /// For a head that could not be parsed.
    pub fn nonsense() -> Kept {
        Kept {
            target: "error:invalid-request".to_owned(),
            ..Kept::default()
        }
    }

    /// The protocol of the request.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The entry for the access log; `body_bytes` of the request body are added to the head's.
    pub fn with_body(&self, body_bytes: u64) -> Asking<'_> {
        Asking {
            method: self.method.as_bytes(),
            host: self.host.as_bytes(),
            target: self.target.as_bytes(),
            bytes_in: self.head_bytes + body_bytes,
            referer: &self.referer,
            user_agent: &self.user_agent,
        }
    }
}

impl Kept {
    /// Copies from the description of a request on the short way.
    pub fn of_asking(asking: Asking<'_>, protocol: Protocol) -> Kept {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Kept {
            method: text(asking.method),
            host: text(asking.host),
            target: text(asking.target),
            protocol,
            head_bytes: asking.bytes_in,
            referer: asking.referer.to_vec(),
            user_agent: asking.user_agent.to_vec(),
        }
    }
}
