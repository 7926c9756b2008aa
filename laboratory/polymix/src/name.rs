//! URLs of objects, and the addresses of servers.
//!
//! `http://127.1.0.4:8880/w00000007/t1/_0003000000000005.html`: world 7, kind 1 (a page), server 3, number 5. The server is in the
//! path too, so that one address can serve for all servers where addresses are few.
//!
//! Servers may have names instead, as in PolyMix-4: `s3.bench.tst`. The proxy then has to look them up (`dns`).
//!
//! Limits: `SERVERS_MAX`; worlds are 32 bits.   Source: spec section 5, which has the server in the host only.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::content::{Kind, NUMBER_END, ObjectId};

/// A path is at most this long.
pub const PATH_BYTES_MAX: usize = "/w00000000/t0/_0000000000000000.html".len();
/// Servers, at most.
pub const SERVERS_MAX: u32 = 1 << 16;
/// Addresses used in each network of 256.
const HOSTS_A_NETWORK: u32 = 250;

/// Where the servers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    /// The first one.
    pub first: SocketAddrV4,
    /// Number of servers.
    pub count: u32,
    /// Each server has its own address, counted up from the first; otherwise all share the first.
    pub spread: bool,
    /// URLs have names, not addresses.
    pub named: bool,
}

/// The zone of the servers' names.
//= spec section 2   PolyMix-4: DNS names in zone bench.tst
pub const ZONE: &str = "bench.tst";

impl Servers {
    /// The address of a server.
    #[must_use]
    pub fn address(&self, server: u16) -> SocketAddrV4 {
        if !self.spread {
            return self.first;
        }
        SocketAddrV4::new(
            nth_address(*self.first.ip(), u32::from(server)),
            self.first.port(),
        )
    }

    /// The host and port in URLs of this server.
    #[must_use]
    pub fn host(&self, server: u16) -> String {
        if self.named {
            format!("s{server}.{ZONE}:{}", self.first.port())
        } else {
            self.address(server).to_string()
        }
    }
}

/// The server of this name, without a port, in lower case.
#[must_use]
pub fn server_of(name: &str) -> Option<u16> {
    let label = name.strip_suffix(ZONE)?.strip_suffix('.')?;
    let digits = label.strip_prefix('s')?;
    let server: u16 = digits.parse().ok()?;
    // Exactly one name is accepted for a server: no sign, no leading zero.
    (digits == server.to_string()).then_some(server)
}

/// The n-th address from `first` on, skipping the ends of each network of 256.
#[must_use]
pub fn nth_address(first: Ipv4Addr, n: u32) -> Ipv4Addr {
    let [a, b, c, d] = first.octets();
    let network = u32::from_be_bytes([a, b, c, 0]);
    let host = u32::from(d).clamp(1, HOSTS_A_NETWORK) - 1 + n;
    let at = network + (host / HOSTS_A_NETWORK) * 256 + host % HOSTS_A_NETWORK + 1;
    Ipv4Addr::from(at)
}

/// Appends the path of an object.
pub fn write_path(id: ObjectId, out: &mut Vec<u8>) {
    out.extend_from_slice(b"/w");
    write_hex(u64::from(id.world), 8, out);
    out.extend_from_slice(b"/t");
    out.push(b'0' + u8::try_from(id.kind.index()).expect("four kinds"));
    out.extend_from_slice(b"/_");
    write_hex(u64::from(id.server) << 48 | id.number, 16, out);
    out.extend_from_slice(id.extension().as_bytes());
}

/// Appends `digits` hexadecimal digits.
pub fn write_hex(n: u64, digits: u32, out: &mut Vec<u8>) {
    for digit in (0..digits).rev() {
        let value = usize::try_from(n >> (digit * 4) & 15).expect("below 16");
        out.push(b"0123456789abcdef"[value]);
    }
}

/// The object that a path or an absolute URL names; none if the URL is not of this workload.
#[must_use]
pub fn parse(target: &[u8]) -> Option<ObjectId> {
    let path = match target.strip_prefix(b"http://") {
        Some(rest) => &rest[rest.iter().position(|b| *b == b'/')?..],
        None => target,
    };
    let rest = path.strip_prefix(b"/w")?;
    let (world, rest) = rest.split_at_checked(8)?;
    let rest = rest.strip_prefix(b"/t")?;
    let (kind, rest) = rest.split_first()?;
    let kind = *Kind::ALL.get(usize::from(kind.checked_sub(b'0')?))?;
    let (number, extension) = rest.strip_prefix(b"/_")?.split_at_checked(16)?;
    let number = parse_hex(number)?;
    let id = ObjectId {
        world: u32::try_from(parse_hex(world)?).ok()?,
        server: u16::try_from(number >> 48).ok()?,
        kind,
        number: number % NUMBER_END,
    };
    (extension == id.extension().as_bytes()).then_some(id)
}

/// Hexadecimal digits, at most 16.
#[must_use]
pub fn parse_hex(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    if text.is_empty() || text.starts_with('+') {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for kind in Kind::ALL {
            for number in 0..300 {
                let id = ObjectId {
                    world: 7,
                    server: 600,
                    kind,
                    number,
                };
                let mut path = Vec::new();
                write_path(id, &mut path);
                assert!(path.len() <= PATH_BYTES_MAX);
                assert_eq!(parse(&path), Some(id));
                let url = [b"http://127.1.2.3:8080".as_slice(), &path].concat();
                assert_eq!(parse(&url), Some(id));
            }
        }
    }

    #[test]
    fn strangers_are_no_names() {
        for path in [
            "/",
            "/w1/t0/_0",
            "/w00000000/t9/_0000000000000000",
            "http://x",
            "/wé",
        ] {
            assert_eq!(parse(path.as_bytes()), None, "{path}");
        }
        let wrong_extension = b"/w00000000/t3/_0000000000000000.html";
        assert_eq!(parse(wrong_extension), None);
    }

    #[test]
    fn servers_leave_out_the_ends_of_networks() {
        let first = Ipv4Addr::new(127, 1, 0, 1);
        assert_eq!(nth_address(first, 0), first);
        assert_eq!(nth_address(first, 249), Ipv4Addr::new(127, 1, 0, 250));
        assert_eq!(nth_address(first, 250), Ipv4Addr::new(127, 1, 1, 1));
    }
}
