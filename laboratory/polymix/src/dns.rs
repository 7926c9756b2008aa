//! A minimal name server for the servers' names: `s17.bench.tst` has the address of server 17.
//!
//! PolyMix-4 gives its servers names, so a proxy must look them up. This server answers UDP questions about the zone: one A record
//! for a server, no record of any other type, and "no such name" otherwise. It refuses all other questions: it is no resolver.
//!
//! Not known here: which servers are asked for; caching.   Limits: one question in a datagram of `DATAGRAM_BYTES_MAX`.
//! Source: RFC 1035; spec section 2, "names in URLs".

use std::io;
use std::net::SocketAddr;

use tokio::net::UdpSocket;

use crate::name::{Servers, ZONE, server_of};

const HEADER_BYTES: usize = 12;
const DATAGRAM_BYTES_MAX: usize = 1_232;
/// Seconds for which an answer may be cached: the whole test, as with the fixed zone of the specification.
const TTL_S: u32 = 86_400;
// rfc1035 §3.2.2, §3.2.4, §4.1.1
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
const RESPONSE: u8 = 0x80;
const AUTHORITATIVE: u8 = 0x04;
const OPCODE: u8 = 0x78;
const RECURSION_DESIRED: u8 = 0x01;
const NO_ERROR: u8 = 0;
const NOT_IMPLEMENTED: u8 = 4;
const NO_SUCH_NAME: u8 = 3;
const REFUSED: u8 = 5;

/// Binds the name server's address.
///
/// # Errors
/// If the address cannot be bound.
pub async fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(address).await
}

/// Answers for ever.
pub async fn serve(socket: UdpSocket, servers: Servers) {
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    loop {
        // An error here belongs to an earlier answer that could not be delivered; ignore it.
        let Ok((n, from)) = socket.recv_from(&mut datagram).await else {
            continue;
        };
        if let Some(answer) = answer(&datagram[..n], &servers) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// The answer to a question; none if the datagram is not a question.
#[must_use]
pub fn answer(question: &[u8], servers: &Servers) -> Option<Vec<u8>> {
    let header = question.get(..HEADER_BYTES)?;
    let one_question = header[4..6] == [0, 1];
    if header[2] & RESPONSE != 0 || !one_question {
        return None;
    }
    let (name, end) = read_name(question)?;
    let ends = question.get(end..end + 4)?;
    let kind = u16::from_be_bytes([ends[0], ends[1]]);
    let class = u16::from_be_bytes([ends[2], ends[3]]);
    let in_zone = name == ZONE || name.strip_suffix(ZONE).is_some_and(|n| n.ends_with('.'));
    let server = server_of(&name).filter(|n| u32::from(*n) < servers.count);
    let code = match server {
        _ if header[2] & OPCODE != 0 => NOT_IMPLEMENTED,
        _ if !in_zone || class != CLASS_IN => REFUSED,
        None if name != ZONE => NO_SUCH_NAME,
        _ => NO_ERROR,
    };
    let address = server.filter(|_| code == NO_ERROR && kind == TYPE_A);
    let mut out = Vec::with_capacity(end + 4 + 16);
    out.extend_from_slice(&header[..2]);
    let echoed = header[2] & (OPCODE | RECURSION_DESIRED);
    out.extend_from_slice(&[RESPONSE | AUTHORITATIVE | echoed, code]);
    let answers = u8::from(address.is_some());
    out.extend_from_slice(&[0, 1, 0, answers, 0, 0, 0, 0]);
    out.extend_from_slice(&question[HEADER_BYTES..end + 4]);
    if let Some(server) = address {
        // A pointer to the name in the question.
        out.extend_from_slice(&[0xC0, HEADER_BYTES as u8]);
        out.extend_from_slice(&TYPE_A.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&TTL_S.to_be_bytes());
        out.extend_from_slice(&4_u16.to_be_bytes());
        out.extend_from_slice(&servers.address(server).ip().octets());
    }
    Some(out)
}

/// The name in the question, lower case, and where it ends.
fn read_name(question: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = HEADER_BYTES;
    loop {
        let len = usize::from(*question.get(at)?);
        at += 1;
        if len == 0 {
            return Some((name, at));
        }
        // Compression pointers are not allowed in a question.
        let label = question.get(at..at + len).filter(|_| len < 64)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&std::str::from_utf8(label).ok()?.to_ascii_lowercase());
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn servers() -> Servers {
        Servers {
            first: SocketAddrV4::new(Ipv4Addr::new(127, 1, 0, 1), 8880),
            count: 600,
            spread: true,
            named: true,
        }
    }

    fn question(name: &str, kind: u8) -> Vec<u8> {
        let mut out = vec![0xAB, 0xCD, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name.split('.') {
            out.push(u8::try_from(label.len()).unwrap());
            out.extend_from_slice(label.as_bytes());
        }
        out.extend_from_slice(&[0, 0, kind, 0, 1]);
        // An EDNS record, which the server ignores.
        out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        out
    }

    /// The response code, the number of answers, and the last four bytes.
    fn said(name: &str, kind: u8) -> (u8, u8, [u8; 4]) {
        let out = answer(&question(name, kind), &servers()).unwrap();
        assert_eq!(out[..2], [0xAB, 0xCD]);
        let end = out.last_chunk::<4>().unwrap();
        (out[3] & 15, out[7], *end)
    }

    #[test]
    fn a_server_has_its_address() {
        assert_eq!(said("s17.bench.tst", 1), (0, 1, [127, 1, 0, 18]));
        assert_eq!(said("S599.Bench.TST", 1), (0, 1, [127, 1, 2, 100]));
        let (code, answers, _) = said("s17.bench.tst", 28);
        assert_eq!((code, answers), (0, 0), "no IPv6 address");
    }

    #[test]
    fn others_have_none() {
        for (name, code) in [
            ("s600.bench.tst", 3),
            ("x.bench.tst", 3),
            ("s01.bench.tst", 3),
            ("example.org", 5),
            ("s1.notbench.tst", 5),
        ] {
            let (found, answers, _) = said(name, 1);
            assert_eq!((found, answers), (code, 0), "{name}");
        }
    }

    #[test]
    fn what_is_no_question_is_not_answered() {
        let whole = question("s17.bench.tst", 1);
        for end in 0..HEADER_BYTES + 15 + 4 {
            assert_eq!(answer(&whole[..end], &servers()), None, "{end}");
        }
        let mut response = whole;
        response[2] |= RESPONSE;
        assert_eq!(answer(&response, &servers()), None);
    }
}
