//! HTTP/2 to origins and upstreams: whether, and how it is begun.
//!
//! Not known here: connections (`origin`).

/// How HTTP/2 is begun with an origin that is asked by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Http2 {
    /// Where the handshake of TLS agrees on it (ALPN); else the origin is asked by HTTP/1.1.
    Negotiated,
    /// At once, in plain TCP: the operator knows that the origin speaks it.
    Known,
}

impl Http2 {
    /// Is it spoken to a server that is asked by TLS, or without?
    pub fn fits(self, is_tls: bool) -> bool {
        is_tls == (self == Http2::Negotiated)
    }
}
