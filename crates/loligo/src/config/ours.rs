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
        // 127.0.0.1 or 0.0.0.0 as the origin reaches a socket on every address; 0.0.0.0 as ours takes all of loopback.
        Ok(ip) => {
            ip.is_loopback() && own_ip.is_unspecified()
                || ip.is_unspecified() && (own_ip.is_loopback() || own_ip.is_unspecified())
        }
        Err(_) => origin.host == "localhost" && (own_ip.is_loopback() || own_ip.is_unspecified()),
    }
}
