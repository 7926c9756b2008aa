//! The header of the PROXY protocol, by which a balancer names the client of a connection before the first request.
//!
//! Both versions are read from bytes: version 1 is a line, version 2 is binary. The header is at most [`V1_BYTES_MAX`] or
//! [`V2_BYTES_MAX`] long; a malformed one is refused at the first byte that shows it. Of the additional values (TLVs) of version 2 only
//! the framing is checked: they describe TLS and the balancer's network, and the proxy does not use them.
//!
//! [`write()`] makes a header for an origin that wants to know the client.
//!
//! Not known here: sockets, and which balancers are believed. Source: the PROXY protocol, versions 1 and 2 (HAProxy, 2020), section 2.
//! Written out rather than taken from a crate: bounding and checking what a crate returns would take as many lines as reading it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header of version 1, with CR LF (section 2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The longest header of version 2 that is accepted. The protocol permits 64 KiB; senders keep to the 536 bytes that fit into the first
/// segment of any connection (section 2.2).
pub const V2_BYTES_MAX: usize = 536;

const V1_BEGINS: &[u8] = b"PROXY ";
const V2_BEGINS: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD_BYTES: usize = 16;

/// The client that a header names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// This one.
    Client(SocketAddr),
    /// None: the balancer connects for itself (LOCAL, a health check), or its client has no TCP address (UNKNOWN, a Unix socket). The
    /// socket's address stays in force.
    Nobody,
}

/// Why a header is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The connection begins with something else.
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    /// It is longer than is taken.
    #[error("the PROXY header is too long")]
    Long,
    /// It breaks the protocol.
    #[error("the PROXY header is malformed")]
    Malformed,
}

/// Reads a header from the beginning of a connection: the client, and the header's length. `None`: more bytes are needed.
///
/// # Errors
/// There is no header, or it is refused. More bytes would not change that.
pub fn read(bytes: &[u8]) -> Result<Option<(Named, usize)>, Fault> {
    let agrees = |begin: &[u8]| {
        let n = begin.len().min(bytes.len());
        bytes[..n] == begin[..n]
    };
    if agrees(V2_BEGINS) {
        read_v2(bytes)
    } else if agrees(V1_BEGINS) {
        read_v1(bytes)
    } else {
        Err(Fault::Missing)
    }
}

/// A header of version 2 for this client, which connected to our address `ours`.
pub fn write(client: SocketAddr, ours: SocketAddr) -> Vec<u8> {
    let mut out = V2_BEGINS.to_vec();
    let (client_ip, our_ip) = (client.ip().to_canonical(), ours.ip().to_canonical());
    match (client_ip, our_ip) {
        (IpAddr::V4(client), IpAddr::V4(ours)) => {
            out.extend([0x21, 0x11, 0, 12]);
            out.extend(client.octets());
            out.extend(ours.octets());
        }
        (client, ours) => {
            out.extend([0x21, 0x21, 0, 36]);
            for ip in [client, ours] {
                let ip = match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                out.extend(ip.octets());
            }
        }
    }
    out.extend(client.port().to_be_bytes());
    out.extend(ours.port().to_be_bytes());
    out
}

fn read_v1(bytes: &[u8]) -> Result<Option<(Named, usize)>, Fault> {
    let window = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return match window.len() {
            V1_BYTES_MAX => Err(Fault::Long),
            _ => Ok(None),
        };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(Fault::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Fault::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let kind = words.next().ok_or(Fault::Malformed)?;
    if kind == "UNKNOWN" {
        // The rest of the line is ignored.
        return Ok(Some((Named::Nobody, end + 1)));
    }
    let words: Vec<&str> = words.collect();
    let &[source, destination, source_port, destination_port] = &words[..] else {
        return Err(Fault::Malformed);
    };
    let address = |text: &str| {
        let address: IpAddr = text.parse().map_err(|_| Fault::Malformed)?;
        let is_of_kind = match kind {
            "TCP4" => address.is_ipv4(),
            "TCP6" => address.is_ipv6(),
            _ => false,
        };
        if is_of_kind {
            Ok(address)
        } else {
            Err(Fault::Malformed)
        }
    };
    let (source, _) = (address(source)?, address(destination)?);
    let (port, _) = (port(source_port)?, port(destination_port)?);
    let client = SocketAddr::new(source.to_canonical(), port);
    Ok(Some((Named::Client(client), end + 1)))
}

/// Decimal, without leading zeros.
fn port(text: &str) -> Result<u16, Fault> {
    let is_decimal = text.bytes().all(|b| b.is_ascii_digit());
    if !is_decimal || (text.len() > 1 && text.starts_with('0')) {
        return Err(Fault::Malformed);
    }
    text.parse().map_err(|_| Fault::Malformed)
}

fn read_v2(bytes: &[u8]) -> Result<Option<(Named, usize)>, Fault> {
    let Some((&head, rest)) = bytes.split_first_chunk::<V2_HEAD_BYTES>() else {
        // An unknown version or command is refused as soon as its byte arrives.
        return match bytes.get(V2_BEGINS.len()) {
            Some(0x20 | 0x21) | None => Ok(None),
            Some(_) => Err(Fault::Malformed),
        };
    };
    let [.., command, family, high, low] = head;
    if !matches!(command, 0x20 | 0x21) {
        return Err(Fault::Malformed);
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    let whole = V2_HEAD_BYTES + length;
    if whole > V2_BYTES_MAX {
        return Err(Fault::Long);
    }
    let is_local = command == 0x20;
    // Bytes of the addresses: section 2.2.
    let addresses = match family {
        // For LOCAL, the receiver ignores the addresses.
        _ if is_local => length,
        0x00 => length,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return Err(Fault::Malformed),
    };
    if addresses > length {
        return Err(Fault::Malformed);
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    check_values(&body[addresses..])?;
    let port_at = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let named = match family {
        _ if is_local => Named::Nobody,
        0x11 => {
            let address: [u8; 4] = body[..4].try_into().expect("12 bytes of addresses");
            Named::Client(SocketAddr::new(Ipv4Addr::from(address).into(), port_at(8)))
        }
        0x21 => {
            let address: [u8; 16] = body[..16].try_into().expect("36 bytes of addresses");
            let address = IpAddr::from(Ipv6Addr::from(address));
            Named::Client(SocketAddr::new(address.to_canonical(), port_at(32)))
        }
        // Datagrams and Unix sockets have no TCP client.
        _ => Named::Nobody,
    };
    Ok(Some((named, whole)))
}

/// Checks the additional values: each is a type, a length, and that many bytes.
fn check_values(mut bytes: &[u8]) -> Result<(), Fault> {
    while let &[_, high, low, ref rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([high, low]));
        bytes = rest.get(length..).ok_or(Fault::Malformed)?;
    }
    match bytes {
        [] => Ok(()),
        _ => Err(Fault::Malformed),
    }
}

#[cfg(test)]
#[path = "proxy_header_tests.rs"]
mod tests;
