//! Which clients are served, and which destinations are allowed.
//!
//! Two checks of addresses: may this client be served ([`Clients`]), and may a connection be opened to this address
//! on behalf of this listener ([`Destinations`])?
//!
//! A client of a proxy borrows the proxy's place in the network. So a listener beyond loopback must name its clients,
//! and it does not reach addresses that only the proxy's machine should see: its own services at any of its addresses
//! (*inward*), and link-local neighbours such as cloud metadata. The check is made on each *resolved address*, on
//! both ends of each new connection, and again on each pooled connection that is handed out. So neither a name that
//! points to 127.0.0.1 nor a connection opened for a more trusted listener bypasses it.
//!
//! The proxy never fetches from its own listeners, even if that address is allowed: that would be a loop.
//!
//! Addresses are judged in their canonical form: `::ffff:127.0.0.1` is 127.0.0.1, and so are the forms in
//! which a translator or tunnel carries an IPv4 address inside an IPv6 one.
//!
//! Not known here: names, sockets, HTTP. Limits: the lists are walked, so they should stay short (tens).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// The client networks one listener serves.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Networks allowed besides loopback.
    pub allow: Vec<IpNet>,
}

impl Clients {
    /// May a client at this address be served? Loopback always may.
    pub fn permits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_loopback() || self.allow.iter().any(|network| network.contains(&client))
    }
}

/// Where connections may go on behalf of one listener.
#[derive(Clone, Debug)]
pub struct Destinations {
    /// This machine may be reached: loopback, unspecified and interface addresses. True for a loopback listener,
    /// whose clients could connect to them directly.
    pub loopback: bool,
    /// Link-local addresses may be reached.
    pub link_local: bool,
    /// Networks permitted even if `loopback` or `link_local` forbids them.
    pub allow: Vec<IpNet>,
    /// Every address this process listens on, as bound (wildcards included), the admin interface too.
    pub own: Vec<SocketAddr>,
    /// Ports to which CONNECT may tunnel.
    pub connect_ports: Vec<u16>,
}

impl Default for Destinations {
    /// A loopback listener, tunnels to 443 only.
    fn default() -> Self {
        Self {
            loopback: true,
            link_local: true,
            allow: Vec::new(),
            own: Vec::new(),
            connect_ports: vec![443],
        }
    }
}

/// Why a destination is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Forbidden {
    /// An address this process listens on.
    #[error("the destination is this proxy itself")]
    OwnListener,
    /// 127.0.0.0/8 or ::1.
    #[error("loopback destinations are not allowed here")]
    Loopback,
    /// Any other address of this machine.
    #[error("destinations on the proxy's own machine are not allowed here")]
    Inward,
    /// 169.254.0.0/16 or fe80::/10.
    #[error("link-local destinations are not allowed here")]
    LinkLocal,
    /// 0.0.0.0/8 or ::, which systems take for loopback.
    #[error("the unspecified address is not allowed here")]
    Unspecified,
    /// 224.0.0.0/4 or ff00::/8.
    #[error("multicast destinations are not allowed here")]
    Multicast,
    /// 255.255.255.255.
    #[error("the broadcast address is not allowed here")]
    Broadcast,
    /// CONNECT to a port that is not on the list.
    #[error("tunnels to this port are not allowed here")]
    ConnectPort,
}

impl Forbidden {
    /// The proxy error type of RFC 9209 §2.3.
    pub fn detail_token(self) -> &'static str {
        match self {
            //= rfc9209 §2.3.32   "the intermediary tried to forward the request to itself"
            Self::OwnListener => "proxy_loop_detected",
            //= rfc9209 §2.3.17   a policy about the request, not about an address
            Self::ConnectPort => "http_request_denied",
            //= rfc9209 §2.3.5
            _ => "destination_ip_prohibited",
        }
    }
}

impl Destinations {
    /// May a connection be opened (or a pooled one be used) to this address?
    pub fn check(&self, to: SocketAddr) -> Result<(), Forbidden> {
        let ip = to.ip().to_canonical();
        if self.own.iter().any(|own| own_covers(own, ip, to.port())) {
            return Err(Forbidden::OwnListener);
        }
        let Some(kind) = reserved(ip) else {
            return Ok(());
        };
        let permitted = match kind {
            Forbidden::Loopback | Forbidden::Unspecified => self.loopback || self.allows(ip),
            Forbidden::LinkLocal => self.link_local || self.allows(ip),
            // No TCP connection can be opened to such an address.
            _ => false,
        };
        if permitted { Ok(()) } else { Err(kind) }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(&ip))
    }

    /// [`Self::check`], and a check whether the address belongs to this machine. `is_own` is called only if the
    /// answer matters.
    pub fn check_route(
        &self,
        to: SocketAddr,
        is_own: impl FnOnce(IpAddr) -> bool,
    ) -> Result<(), Forbidden> {
        self.check(to)?;
        let ip = to.ip().to_canonical();
        let is_ours = |own: &SocketAddr| wildcard_covers(own, ip, to.port());
        let why = if self.own.iter().any(is_ours) {
            Forbidden::OwnListener
        } else if self.check_inward(ip).is_err() {
            Forbidden::Inward
        } else {
            return Ok(());
        };
        if is_own(ip) { Err(why) } else { Ok(()) }
    }

    /// May this address be reached, if it is one of this machine's own?
    fn check_inward(&self, ip: IpAddr) -> Result<(), Forbidden> {
        if self.loopback || self.allows(ip) {
            Ok(())
        } else {
            Err(Forbidden::Inward)
        }
    }

    /// May a pooled connection to this address be used?
    pub fn check_pooled(&self, peer: SocketAddr, is_inward: bool) -> Result<(), Forbidden> {
        self.check(peer)?;
        if is_inward {
            self.check_inward(peer.ip().to_canonical())?;
        }
        Ok(())
    }

    /// The part of the check that needs a connected socket: a wildcard listener is reached by every address of this
    /// machine, and a connection whose two ends share an address never left the machine.
    pub fn check_connected(&self, local: SocketAddr, peer: SocketAddr) -> Result<(), Forbidden> {
        if local == peer {
            // TCP's simultaneous open with itself: possible when the destination is a free ephemeral port.
            return Err(Forbidden::OwnListener);
        }
        self.check(peer)?;
        let ip = peer.ip().to_canonical();
        let stays_here = local.ip().to_canonical() == ip;
        if stays_here
            && self
                .own
                .iter()
                .any(|own| wildcard_covers(own, ip, peer.port()))
        {
            return Err(Forbidden::OwnListener);
        }
        if stays_here {
            self.check_inward(ip)?;
        }
        Ok(())
    }

    /// May CONNECT tunnel to this port?
    pub fn check_connect_port(&self, port: u16) -> Result<(), Forbidden> {
        if self.connect_ports.contains(&port) {
            Ok(())
        } else {
            Err(Forbidden::ConnectPort)
        }
    }
}

/// Does a connection to `ip`:`port` certainly reach the listener bound to `own`?
fn own_covers(own: &SocketAddr, ip: IpAddr, port: u16) -> bool {
    if own.port() != port {
        return false;
    }
    let bound = own.ip().to_canonical();
    bound == ip
        // connecting to 0.0.0.0 or :: reaches loopback
        || (ip.is_unspecified() && bound.is_loopback())
        || ((ip.is_loopback() || ip.is_unspecified()) && wildcard_covers(own, ip, port))
}

/// Is `own` a wildcard listener that takes connections to `ip`, if `ip` is an address of this machine?
/// `[::]` takes IPv4 as well (unless told otherwise), 0.0.0.0 does not take IPv6.
fn wildcard_covers(own: &SocketAddr, ip: IpAddr, port: u16) -> bool {
    own.port() == port && own.ip().is_unspecified() && (own.is_ipv6() || ip.is_ipv4())
}

/// The IPv6 address of a large cloud's metadata service: a unique local address, unlike 169.254.169.254.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// The kind of special-purpose address this is, `None` for an ordinary one.
fn reserved(ip: IpAddr) -> Option<Forbidden> {
    match ip {
        IpAddr::V4(ip) => reserved_v4(ip),
        IpAddr::V6(ip) if ip.is_loopback() => Some(Forbidden::Loopback),
        IpAddr::V6(ip) if ip.is_unspecified() => Some(Forbidden::Unspecified),
        IpAddr::V6(ip) if ip.is_unicast_link_local() || ip == METADATA_V6 => {
            Some(Forbidden::LinkLocal)
        }
        IpAddr::V6(ip) if ip.is_multicast() => Some(Forbidden::Multicast),
        IpAddr::V6(ip) => embedded_v4(ip).and_then(reserved_v4),
    }
}

fn reserved_v4(ip: Ipv4Addr) -> Option<Forbidden> {
    if ip.is_loopback() {
        Some(Forbidden::Loopback)
    } else if ip.octets()[0] == 0 {
        Some(Forbidden::Unspecified)
    } else if ip.is_link_local() {
        Some(Forbidden::LinkLocal)
    } else if ip.is_multicast() {
        Some(Forbidden::Multicast)
    } else if ip.is_broadcast() {
        Some(Forbidden::Broadcast)
    } else {
        None
    }
}

/// The IPv4 address that a translator (64:ff9b::/96), a tunnel (2002::/16) or an old compatible form (::/96)
/// would deliver to. Mapped addresses (::ffff:0:0/96) were made canonical before.
pub fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn public(allow: &[&str], own: &[&str]) -> Destinations {
        Destinations {
            loopback: false,
            link_local: false,
            allow: allow
                .iter()
                .map(|network| network.parse().unwrap())
                .collect(),
            own: own.iter().map(|address| at(address)).collect(),
            ..Destinations::default()
        }
    }

    #[test]
    fn clients_are_loopback_and_the_named_networks() {
        let clients = Clients {
            allow: vec![
                "10.0.0.0/8".parse().unwrap(),
                "2001:db8::/32".parse().unwrap(),
            ],
        };
        for (client, served) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("2001:db8::7", true),
            ("11.0.0.1", false),
            ("2001:db9::7", false),
            ("::ffff:11.0.0.1", false),
        ] {
            assert_eq!(clients.permits(client.parse().unwrap()), served, "{client}");
        }
    }

    #[test]
    fn a_public_listener_refuses_what_only_this_machine_should_see() {
        let rules = public(&[], &[]);
        for (to, answer) in [
            ("93.184.216.34:80", None),
            ("10.0.0.1:80", None),
            ("[2001:db8::1]:80", None),
            ("127.0.0.1:80", Some(Forbidden::Loopback)),
            ("127.9.9.9:80", Some(Forbidden::Loopback)),
            ("[::1]:80", Some(Forbidden::Loopback)),
            ("[::ffff:127.0.0.1]:80", Some(Forbidden::Loopback)),
            ("[::127.0.0.1]:80", Some(Forbidden::Loopback)),
            ("[64:ff9b::127.0.0.1]:80", Some(Forbidden::Loopback)),
            ("[2002:7f00:1::]:80", Some(Forbidden::Loopback)),
            ("169.254.169.254:80", Some(Forbidden::LinkLocal)),
            ("[::ffff:169.254.169.254]:80", Some(Forbidden::LinkLocal)),
            ("[fe80::1]:80", Some(Forbidden::LinkLocal)),
            ("[febf::1]:80", Some(Forbidden::LinkLocal)),
            ("0.0.0.0:80", Some(Forbidden::Unspecified)),
            ("0.1.2.3:80", Some(Forbidden::Unspecified)),
            ("[::]:80", Some(Forbidden::Unspecified)),
            ("224.0.0.1:80", Some(Forbidden::Multicast)),
            ("[ff02::1]:80", Some(Forbidden::Multicast)),
            ("255.255.255.255:80", Some(Forbidden::Broadcast)),
        ] {
            assert_eq!(rules.check(at(to)).err(), answer, "{to}");
        }
    }

    #[test]
    fn what_is_allowed_is_allowed_and_a_loopback_listener_goes_nearly_anywhere() {
        let rules = public(&["127.0.0.0/8"], &[]);
        assert_eq!(rules.check(at("127.0.0.1:8080")), Ok(()));
        assert_eq!(rules.check(at("[::1]:8080")), Err(Forbidden::Loopback));
        assert_eq!(Destinations::default().check(at("169.254.0.1:80")), Ok(()));
        assert_eq!(
            Destinations::default().check(at("224.0.0.1:80")),
            Err(Forbidden::Multicast)
        );
    }

    #[test]
    fn own_listeners_are_refused_whatever_is_allowed() {
        let exact = public(&["127.0.0.0/8", "::/0"], &["127.0.0.1:3128"]);
        assert_eq!(
            exact.check(at("127.0.0.1:3128")),
            Err(Forbidden::OwnListener)
        );
        assert_eq!(
            exact.check(at("[::ffff:127.0.0.1]:3128")),
            Err(Forbidden::OwnListener)
        );
        assert_eq!(exact.check(at("0.0.0.0:3128")), Err(Forbidden::OwnListener));
        assert_eq!(
            exact.check(at("127.0.0.2:3128")),
            Ok(()),
            "another address, another server"
        );
        assert_eq!(exact.check(at("127.0.0.1:3129")), Ok(()));

        let wildcard = Destinations {
            loopback: true,
            ..public(&[], &["0.0.0.0:3128"])
        };
        assert_eq!(
            wildcard.check(at("127.0.0.2:3128")),
            Err(Forbidden::OwnListener)
        );
        assert_eq!(
            wildcard.check(at("[::1]:3128")),
            Ok(()),
            "0.0.0.0 does not take IPv6"
        );
        let dual = Destinations {
            loopback: true,
            ..public(&[], &["[::]:3128"])
        };
        assert_eq!(
            dual.check(at("127.0.0.1:3128")),
            Err(Forbidden::OwnListener)
        );
        assert_eq!(dual.check(at("[::1]:3128")), Err(Forbidden::OwnListener));
    }

    #[test]
    fn a_wildcard_listener_is_recognised_by_both_ends_being_one_machine() {
        let rules = Destinations {
            loopback: true,
            ..public(&[], &["0.0.0.0:3128"])
        };
        let (here, there) = (at("192.0.2.7:50000"), at("192.0.2.8:50000"));
        assert_eq!(
            rules.check(at("192.0.2.7:3128")),
            Ok(()),
            "could be anybody's"
        );
        assert_eq!(
            rules.check_connected(here, at("192.0.2.7:3128")),
            Err(Forbidden::OwnListener)
        );
        assert_eq!(rules.check_connected(there, at("192.0.2.7:3128")), Ok(()));
        assert_eq!(rules.check_connected(here, at("192.0.2.7:80")), Ok(()));
        assert_eq!(
            rules.check_connected(here, here),
            Err(Forbidden::OwnListener),
            "connected to itself"
        );
    }

    #[test]
    fn an_address_of_this_machine_is_inward() {
        let own = |ip: IpAddr| ip == at("192.0.2.7:0").ip();
        let (to, other) = (at("192.0.2.7:80"), at("192.0.2.8:80"));
        let rules = public(&[], &["0.0.0.0:3128"]);
        assert_eq!(rules.check_route(to, own), Err(Forbidden::Inward));
        assert_eq!(
            rules.check_route(at("[::ffff:192.0.2.7]:80"), own),
            Err(Forbidden::Inward)
        );
        assert_eq!(rules.check_route(other, own), Ok(()));
        // Allowed: by the networks, or because the listener is a loopback one.
        assert_eq!(public(&["192.0.2.7/32"], &[]).check_route(to, own), Ok(()));
        let local = Destinations {
            loopback: true,
            ..public(&[], &["0.0.0.0:3128"])
        };
        assert_eq!(local.check_route(to, own), Ok(()));
        // Nothing allows a connection to one of the proxy's own listeners.
        let listener = at("192.0.2.7:3128");
        assert_eq!(
            local.check_route(listener, own),
            Err(Forbidden::OwnListener)
        );
    }

    #[test]
    fn a_connection_with_both_ends_here_is_inward() {
        let rules = public(&[], &[]);
        for (local, peer, answer) in [
            ("192.0.2.7:50000", "192.0.2.7:80", Err(Forbidden::Inward)),
            (
                "[2001:db8::7]:50000",
                "[2001:db8::7]:80",
                Err(Forbidden::Inward),
            ),
            (
                "[::ffff:192.0.2.7]:50000",
                "192.0.2.7:80",
                Err(Forbidden::Inward),
            ),
            ("192.0.2.7:50000", "192.0.2.8:80", Ok(())),
        ] {
            assert_eq!(rules.check_connected(at(local), at(peer)), answer, "{peer}");
        }
        let here = at("192.0.2.7:50000");
        let allowing = public(&["192.0.2.0/24"], &[]);
        assert_eq!(allowing.check_connected(here, at("192.0.2.7:80")), Ok(()));
        assert_eq!(
            Destinations::default().check_connected(here, at("192.0.2.7:80")),
            Ok(())
        );
    }

    #[test]
    fn tunnels_go_to_listed_ports() {
        let rules = Destinations::default();
        assert_eq!(rules.check_connect_port(443), Ok(()));
        assert_eq!(rules.check_connect_port(25), Err(Forbidden::ConnectPort));
        assert_eq!(Forbidden::ConnectPort.detail_token(), "http_request_denied");
    }
}
