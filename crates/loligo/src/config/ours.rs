//! Is an address a socket of this proxy itself?

use std::net::{IpAddr, SocketAddr};

use proxy::plan::OriginUrl;

/// Does the origin's address lead to a socket of ours? Names other than localhost are not resolved here; the data
/// plane refuses its own addresses when it connects.
pub fn is_own(origin: &OriginUrl, own: SocketAddr) -> bool {
    if own.port() != origin.port || own.port() == 0 {
        return false;
    }
    let own_ip = own.ip().to_canonical();
    match origin.host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip == own_ip => true,
        // An origin on loopback reaches our socket on 0.0.0.0; an origin on 0.0.0.0 reaches our socket on loopback or on 0.0.0.0.
        Ok(ip) => {
            ip.is_loopback() && own_ip.is_unspecified()
                || ip.is_unspecified() && (own_ip.is_loopback() || own_ip.is_unspecified())
        }
        Err(_) => origin.host == "localhost" && (own_ip.is_loopback() || own_ip.is_unspecified()),
    }
}
