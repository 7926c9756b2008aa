//! How a listener knows its clients when balancers stand before it, as data. `exchange::conn::who` carries it out.

use ipnet::IpNet;

/// Whose word about the clients of a listener counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Naming {
    /// Which connections begin with a header of the PROXY protocol.
    pub proxy_protocol: ProxyProtocol,
    /// The proxies that are believed when they say for whom they ask; empty: none.
    pub trusted: Vec<IpNet>,
    /// Where they say it.
    pub field: ClientField,
}

/// Which connections begin with a header of the PROXY protocol. Those that should and do not are closed.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum ProxyProtocol {
    /// None: one that does is refused as no HTTP.
    #[default]
    Never,
    /// All.
    Always,
    /// Those from these networks.
    From(Vec<IpNet>),
}

/// The field of a request in which proxies say for whom they ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientField {
    /// What nearly all balancers write.
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
