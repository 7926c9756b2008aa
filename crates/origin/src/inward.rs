//! Does an address belong to this machine?
//!
//! The kernel is asked where it would deliver a packet to the address: one `RTM_GETROUTE` over a netlink socket,
//! answered within the call. A list of the interfaces' addresses would go out of date and would lack addresses that
//! are routed to this machine without an interface. `connect` also compares both ends of a connection, but that is
//! not enough alone: a connection to the second address of an interface comes from its first.
//!
//! For IPv6 addresses of translators and tunnels, the embedded IPv4 address is checked too.
//!
//! Not visible: addresses that another machine (NAT, load balancer) or a packet filter leads back to this one. If the
//! system refuses netlink sockets (a strict sandbox), only the comparison of both ends remains; the log says so.
//!
//! Not known here: rules, listeners.

use base::mistakes::{Mistake, makes};
use std::cell::{Cell, OnceCell};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Once;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use base::access::{Destinations, Forbidden, embedded_v4};

/// One worker's netlink socket.
#[derive(Default)]
pub(super) struct Machine {
    /// Opened with the first query; `None` if the system refuses it.
    socket: OnceCell<Option<OwnedFd>>,
    /// Queries so far.
    asked: Cell<u32>,
    /// Addresses that count as this machine's in a test.
    #[cfg(test)]
    also: Vec<IpAddr>,
}

impl Machine {
    /// Adds addresses, for a test.
    #[cfg(test)]
    pub(super) fn with(also: Vec<IpAddr>) -> Machine {
        Machine {
            also,
            ..Machine::default()
        }
    }

    /// Does a connection to this address stay on this machine? Takes some microseconds and never blocks.
    pub(super) fn owns(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        #[cfg(feature = "simulation")]
        if base::socket::memory::is_set() {
            return ip.is_loopback();
        }
        let inside = match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => embedded_v4(ip).map(IpAddr::V4),
        };
        [Some(ip), inside].into_iter().flatten().any(|ip| {
            #[cfg(test)]
            if self.also.contains(&ip) {
                return true;
            }
            ip.is_loopback() || self.is_delivered_here(ip)
        })
    }

    fn is_delivered_here(&self, ip: IpAddr) -> bool {
        let Some(socket) = self.socket.get_or_init(open) else {
            return false;
        };
        let number = self.asked.get().wrapping_add(1);
        self.asked.set(number);
        ask(socket, ip, number).unwrap_or_else(|error| {
            tracing::debug!(%error, %ip, "cannot ask the kernel for a route");
            false
        })
    }
}

fn open() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol: NETLINK_ROUTE.
    match socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) {
        Ok(socket) => Some(socket),
        Err(error) => {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                tracing::warn!(
                    %error,
                    "no netlink socket: a service of this machine may be reached at a second address of an interface"
                );
            });
            None
        }
    }
}

/// The most stale answers skipped before a query counts as unanswered.
const STALE_MAX: usize = 8;

fn ask(socket: &OwnedFd, ip: IpAddr, number: u32) -> Result<bool, Errno> {
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &question(ip, number), SendFlags::empty(), &kernel)?;
    for _ in 0..STALE_MAX {
        let mut answer = [0; 1024];
        let (_, len) = recv(socket, &mut answer, RecvFlags::empty())?;
        if let Some(is_here) = is_here(&answer[..len.min(answer.len())], number) {
            return Ok(is_here);
        }
    }
    Err(Errno::PROTO)
}

/// `struct nlmsghdr`, `struct rtmsg`.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
/// Where `rtm_type` stands.
const TYPE_AT: usize = HEADER_BYTES + 7;
const RTN_LOCAL: u8 = 2;
/// IPv6: a subnet's address for its routers, this machine among them.
const RTN_ANYCAST: u8 = 4;

/// A query for the route to one address.
fn question(ip: IpAddr, number: u32) -> Vec<u8> {
    let (family, address) = match ip {
        IpAddr::V4(ip) => (AddressFamily::INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AddressFamily::INET6, ip.octets().to_vec()),
    };
    let attribute_bytes = 4 + address.len();
    let message_bytes = HEADER_BYTES + ROUTE_BYTES + attribute_bytes;
    let mut out = Vec::with_capacity(message_bytes);
    out.extend((message_bytes as u32).to_ne_bytes());
    out.extend(RTM_GETROUTE.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend([0; 4]); // port id: filled in by the kernel
    out.extend([family.as_raw() as u8, address.len() as u8 * 8]); // family, bits of the destination
    out.extend([0; ROUTE_BYTES - 2]);
    out.extend((attribute_bytes as u16).to_ne_bytes());
    out.extend(RTA_DST.to_ne_bytes());
    out.extend(address);
    debug_assert_eq!(out.len(), message_bytes);
    out
}

/// The content of an answer; `None` if it belongs to an earlier query. No route (an error) means not this machine.
fn is_here(answer: &[u8], number: u32) -> Option<bool> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let of = u32::from_ne_bytes(answer.get(8..12)?.try_into().ok()?);
    if of != number {
        return None;
    }
    match kind {
        RTM_NEWROUTE => Some(matches!(*answer.get(TYPE_AT)?, RTN_LOCAL | RTN_ANYCAST)),
        NLMSG_ERROR => Some(false),
        _ => None,
    }
}

/// The permitted addresses; if there is none, the reason for the first.
pub(super) fn permitted(
    found: Vec<IpAddr>,
    port: u16,
    access: &Destinations,
    machine: &Machine,
) -> Result<Vec<SocketAddr>, Forbidden> {
    if makes(Mistake::PermitAnything) {
        return Ok(found
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect());
    }
    let mut refused = None;
    let addresses: Vec<SocketAddr> = found
        .into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .filter(
            |&address| match access.check_route(address, |ip| machine.owns(ip)) {
                Ok(()) => true,
                Err(why) => {
                    refused.get_or_insert(why);
                    false
                }
            },
        )
        .collect();
    match refused {
        Some(why) if addresses.is_empty() => Err(why),
        _ => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_kernel_knows_its_own_addresses() {
        let machine = Machine::default();
        for own in ["127.0.0.1", "127.8.8.8", "::1"] {
            assert!(ask(&open().unwrap(), ip(own), 1) == Ok(true), "{own}");
        }
        for foreign in [
            "198.51.100.1",
            "224.0.0.1",
            "2001:db8::1",
            "255.255.255.255",
        ] {
            assert!(!machine.owns(ip(foreign)), "{foreign}");
        }
    }

    #[test]
    fn an_address_of_an_interface_is_own_in_whatever_form() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // A machine without a network has no such address.
        let Ok(()) = socket.connect("198.51.100.1:9") else {
            return;
        };
        let IpAddr::V4(own) = socket.local_addr().unwrap().ip() else {
            panic!("an IPv4 socket");
        };
        let machine = Machine::default();
        let [a, b, c, d] = own.octets();
        for form in [
            own.to_string(),
            format!("::ffff:{own}"),
            format!("64:ff9b::{own}"),
            format!(
                "2002:{:x}:{:x}::1",
                u16::from(a) << 8 | u16::from(b),
                u16::from(c) << 8 | u16::from(d)
            ),
        ] {
            assert!(machine.owns(ip(&form)), "{form}");
        }
    }

    #[test]
    fn answers_to_earlier_questions_are_not_taken() {
        let socket = open().unwrap();
        let kernel = SocketAddrNetlink::new(0, 0);
        for number in [1, 2] {
            let question = question(ip("127.0.0.1"), number);
            sendto(&socket, &question, SendFlags::empty(), &kernel).unwrap();
        }
        assert_eq!(ask(&socket, ip("198.51.100.1"), 3), Ok(false));
        assert_eq!(ask(&socket, ip("127.0.0.1"), 4), Ok(true));
    }

    #[test]
    fn a_short_answer_says_nothing() {
        let full: Vec<u8> = question(ip("127.0.0.1"), 7);
        for len in 0..full.len() {
            assert_eq!(is_here(&full[..len], 7), None);
        }
    }
}
