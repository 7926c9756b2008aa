//! Whether HTTP/2 is used to origins and upstreams, and how it begins.
//!
//! Not known here: connections (`origin`).

/// How a connection to an origin that is asked by HTTP/2 begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Http2 {
    /// If the TLS handshake agrees on it (ALPN); else the origin is asked by HTTP/1.1.
    Negotiated,
    /// At once, over plain TCP: the operator knows that the origin speaks HTTP/2.
    Known,
}

impl Http2 {
    /// Is HTTP/2 possible with a server that is asked with (or without) TLS?
    pub fn fits(self, is_tls: bool) -> bool {
        is_tls == (self == Http2::Negotiated)
    }
}
