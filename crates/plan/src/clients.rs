//! How a listener identifies clients behind load balancers, as data. `exchange::conn::who` carries it out.

use ipnet::IpNet;

/// Which sources may name the clients of a listener.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Naming {
    /// Which connections begin with a header of the PROXY protocol.
    pub proxy_protocol: ProxyProtocol,
    /// The proxies that are trusted to name their clients; empty: none.
    pub trusted: Vec<IpNet>,
    /// The field in which they name them.
    pub field: ClientField,
}

/// Which connections begin with a header of the PROXY protocol. A connection that should have one and has none is closed.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum ProxyProtocol {
    /// None: a connection with a header is refused, since its bytes are no HTTP.
    #[default]
    Never,
    /// All connections.
    Always,
    /// Connections from these networks.
    From(Vec<IpNet>),
}

/// The request field in which proxies name their client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientField {
    /// The field that nearly all load balancers write.
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

impl ClientField {
    /// The field's name.
    pub fn name(self) -> &'static str {
        match self {
            ClientField::XForwardedFor => "X-Forwarded-For",
            ClientField::Forwarded => "Forwarded",
        }
    }
}
