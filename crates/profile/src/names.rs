//! The small closed sets of a record: class of a request, method, stage.
//!
//! On disk each value is one byte, its discriminant; new values are only added at the end.

/// How a request was answered. Each request is in exactly one class.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Served from the memory tier.
    MemoryHit = 0,
    /// Served from the disk store (or from a cluster not yet written).
    DiskHit = 1,
    /// A conditional request answered 304 from cache.
    ImsHit = 2,
    /// A stored error response.
    NegativeHit = 3,
    /// The origin confirmed the stored response; served from cache.
    Revalidated = 4,
    /// Served stale: allowed by the client, during revalidation in the background, or because the origin failed.
    Stale = 5,
    /// Shared the response of another request's fetch.
    Collapsed = 6,
    /// Fetched from the origin; the response could be stored.
    Miss = 7,
    /// Fetched from the origin; the request or the response could not be cached.
    Uncachable = 8,
    /// CONNECT or an upgraded connection.
    Tunnel = 9,
    /// Answered with an error of this proxy, or not at all. (An answer that was cut off keeps its class; see
    /// [`crate::Flags::CLIENT_ABORTED`].)
    Error = 10,
}

impl Class {
    /// All classes, in order of their discriminants.
    pub const ALL: [Class; 11] = [
        Class::MemoryHit,
        Class::DiskHit,
        Class::ImsHit,
        Class::NegativeHit,
        Class::Revalidated,
        Class::Stale,
        Class::Collapsed,
        Class::Miss,
        Class::Uncachable,
        Class::Tunnel,
        Class::Error,
    ];

    /// The name in metrics, dumps and JSON: `memory-hit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::MemoryHit => "memory-hit",
            Class::DiskHit => "disk-hit",
            Class::ImsHit => "ims-hit",
            Class::NegativeHit => "negative-hit",
            Class::Revalidated => "revalidated",
            Class::Stale => "stale",
            Class::Collapsed => "collapsed",
            Class::Miss => "miss",
            Class::Uncachable => "uncachable",
            Class::Tunnel => "tunnel",
            Class::Error => "error",
        }
    }

    /// Was the answer made from a response stored before the request came? (The answer of a collapsed request was not: it
    /// came from the origin while the request waited.)
    pub fn is_hit(self) -> bool {
        match self {
            Class::MemoryHit
            | Class::DiskHit
            | Class::ImsHit
            | Class::NegativeHit
            | Class::Revalidated
            | Class::Stale => true,
            Class::Collapsed | Class::Miss | Class::Uncachable | Class::Tunnel | Class::Error => {
                false
            }
        }
    }

    /// The result code in Squid's access log.
    pub fn squid_code(self) -> &'static str {
        match self {
            Class::MemoryHit => "TCP_MEM_HIT",
            Class::DiskHit => "TCP_HIT",
            Class::ImsHit => "TCP_IMS_HIT",
            Class::NegativeHit => "TCP_NEGATIVE_HIT",
            Class::Revalidated => "TCP_REFRESH_UNMODIFIED",
            Class::Stale => "TCP_STALE_HIT",
            Class::Collapsed => "TCP_CF_MISS",
            Class::Miss | Class::Uncachable => "TCP_MISS",
            Class::Tunnel => "TCP_TUNNEL",
            Class::Error => "NONE",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The method of a request, reduced to the values that statistics need.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Method {
    /// GET
    #[default]
    Get = 0,
    /// HEAD
    Head = 1,
    /// POST
    Post = 2,
    /// PUT
    Put = 3,
    /// DELETE
    Delete = 4,
    /// OPTIONS
    Options = 5,
    /// TRACE
    Trace = 6,
    /// CONNECT
    Connect = 7,
    /// PATCH
    Patch = 8,
    /// PURGE
    Purge = 9,
    /// Any other method, or none (a request refused before it was understood).
    Other = 10,
}

impl Method {
    /// All values, in order of their discriminants.
    pub const ALL: [Method; 11] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Delete,
        Method::Options,
        Method::Trace,
        Method::Connect,
        Method::Patch,
        Method::Purge,
        Method::Other,
    ];

    /// The value for a method as written in a request; methods are case-sensitive (RFC 9110 §9.1).
    pub fn of(method: &[u8]) -> Self {
        match method {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            b"PURGE" => Method::Purge,
            _ => Method::Other,
        }
    }

    /// The method's name; `-` for `Other`.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Patch => "PATCH",
            Method::Purge => "PURGE",
            Method::Other => "-",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Where a request was forwarded to.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Hierarchy {
    /// Nowhere: the answer is the cache's own.
    #[default]
    None = 0,
    /// The origin.
    Direct = 1,
    /// Another proxy, which fetches objects that it does not have.
    Parent = 2,
    /// Another proxy, which was asked for a stored object only.
    Sibling = 3,
    /// A cache node behind this front.
    Node = 4,
}

impl Hierarchy {
    /// All values, in order of their discriminants.
    pub const ALL: [Hierarchy; 5] = [
        Hierarchy::None,
        Hierarchy::Direct,
        Hierarchy::Parent,
        Hierarchy::Sibling,
        Hierarchy::Node,
    ];

    /// The name in dumps and exports.
    pub fn as_str(self) -> &'static str {
        match self {
            Hierarchy::None => "none",
            Hierarchy::Direct => "direct",
            Hierarchy::Parent => "parent",
            Hierarchy::Sibling => "sibling",
            Hierarchy::Node => "node",
        }
    }

    /// Squid's hierarchy code. `is_routed`: a route names the origin; Squid calls such an origin a parent.
    pub fn squid_code(self, is_routed: bool) -> &'static str {
        match self {
            Hierarchy::None => "HIER_NONE",
            Hierarchy::Direct if !is_routed => "HIER_DIRECT",
            Hierarchy::Direct | Hierarchy::Parent | Hierarchy::Node => "FIRSTUP_PARENT",
            Hierarchy::Sibling => "SIBLING_HIT",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The protocol of a message.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Protocol {
    /// There was no message, or none that could be parsed.
    #[default]
    Unknown = 0,
    /// HTTP/1.0
    Http10 = 1,
    /// HTTP/1.1
    Http11 = 2,
    /// HTTP/2
    Http2 = 3,
    /// HTTP/3
    Http3 = 4,
}

impl Protocol {
    /// All values, in order of their discriminants.
    pub const ALL: [Protocol; 5] = [
        Protocol::Unknown,
        Protocol::Http10,
        Protocol::Http11,
        Protocol::Http2,
        Protocol::Http3,
    ];

    /// The name as in a request line; empty if unknown.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Unknown => "",
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
            Protocol::Http3 => "HTTP/3",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// How a client's connection is encrypted.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Encryption {
    /// The connection is plain, or its version is not recorded: [`crate::Flags::TLS_CLIENT`] tells these apart.
    #[default]
    None = 0,
    /// TLS 1.2, a new session.
    Tls12 = 1,
    /// TLS 1.2, an earlier session resumed.
    Tls12Resumed = 2,
    /// TLS 1.3, a new session.
    Tls13 = 3,
    /// TLS 1.3, an earlier session resumed.
    Tls13Resumed = 4,
}

impl Encryption {
    /// All values, in order of their discriminants.
    pub const ALL: [Encryption; 5] = [
        Encryption::None,
        Encryption::Tls12,
        Encryption::Tls12Resumed,
        Encryption::Tls13,
        Encryption::Tls13Resumed,
    ];

    /// The version of TLS; empty if the connection is plain or the version is not recorded.
    pub fn version(self) -> &'static str {
        match self {
            Encryption::None => "",
            Encryption::Tls12 | Encryption::Tls12Resumed => "TLSv1.2",
            Encryption::Tls13 | Encryption::Tls13Resumed => "TLSv1.3",
        }
    }

    /// Was an earlier session resumed?
    pub fn is_resumed(self) -> bool {
        matches!(self, Encryption::Tls12Resumed | Encryption::Tls13Resumed)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// A stage of a request; the discriminant is its index in [`crate::Record::stages`].
//= paper 001   the stages of a request: client connect, DNS, proxy connect, server reply, swap-in, swap-out, proxy reply
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StageName {
    /// From accepting the connection to the whole head of its first request.
    ClientConnect = 0,
    /// Resolving the origin's name.
    Dns = 1,
    /// Connecting to the server, TLS included, to the last byte of the request; or taking a connection from the pool.
    ProxyConnect = 2,
    /// From the last byte of the request to the server to the last byte of its reply.
    ServerReply = 3,
    /// Reading from the disk store, to the last page sent.
    SwapIn = 4,
    /// Handing the response to the disk store. The write itself is a [`crate::Write`]; see [`crate::Record::cluster`].
    SwapOut = 5,
    /// From the first byte of the reply to the client to its last.
    ProxyReply = 6,
    /// Waiting for the response of another request's fetch.
    Wait = 7,
    /// Asking a sibling whether it has the response.
    Peer = 8,
}

impl StageName {
    /// All stages, in order of their discriminants.
    pub const ALL: [StageName; 9] = [
        StageName::ClientConnect,
        StageName::Dns,
        StageName::ProxyConnect,
        StageName::ServerReply,
        StageName::SwapIn,
        StageName::SwapOut,
        StageName::ProxyReply,
        StageName::Wait,
        StageName::Peer,
    ];

    /// The name in metrics, dumps and JSON: `client-connect`.
    pub fn as_str(self) -> &'static str {
        match self {
            StageName::ClientConnect => "client-connect",
            StageName::Dns => "dns",
            StageName::ProxyConnect => "proxy-connect",
            StageName::ServerReply => "server-reply",
            StageName::SwapIn => "swap-in",
            StageName::SwapOut => "swap-out",
            StageName::ProxyReply => "proxy-reply",
            StageName::Wait => "wait",
            StageName::Peer => "peer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_are_places_in_the_lists() {
        for (i, c) in Class::ALL.into_iter().enumerate() {
            assert_eq!(c as usize, i);
        }
        for (i, m) in Method::ALL.into_iter().enumerate() {
            assert_eq!(m as usize, i);
            assert!(m == Method::Other || Method::of(m.as_str().as_bytes()) == m);
        }
        for (i, e) in Encryption::ALL.into_iter().enumerate() {
            assert_eq!(e as usize, i);
        }
        for (i, s) in StageName::ALL.into_iter().enumerate() {
            assert_eq!(s as usize, i);
        }
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::HashSet<_> =
            Class::ALL.into_iter().map(Class::as_str).collect();
        assert_eq!(names.len(), Class::ALL.len());
    }
}
