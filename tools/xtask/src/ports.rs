//! Free ports for servers started by these tasks.
//!
//! A port that was found free may be taken by another process before the server binds it. In the range of ports that the kernel
//! gives to outgoing connections (32768 to 60999, usually) that happens often under load, so ports outside of it are used,
//! and no port is given out twice by one process. Whether the started server is the one that listens on the port is
//! checked afterwards ([`crate::procfs::listens`]).
//!
//! Limits: another process may still bind the port in between. Then the start fails; nothing is measured.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{During, Result, fail};

/// Lower ports belong to services.
const LOWEST: u16 = 10_000;
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Number of ports given out.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// A port of 127.0.0.1 without a listener, which no outgoing connection will get.
pub fn free() -> Result<u16> {
    let text = std::fs::read_to_string(RANGE).during(|| format!("reading {RANGE}"))?;
    let ports = outside(&text);
    if ports.is_empty() {
        fail!("{RANGE} leaves no port for servers: {}", text.trim());
    }
    // Parallel processes begin at different places.
    let start = std::process::id().wrapping_mul(127) as usize;
    for _ in 0..ports.len() {
        let n = GIVEN.fetch_add(1, Ordering::Relaxed) as usize;
        let port = ports[start.wrapping_add(n) % ports.len()];
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    fail!(
        "no port of 127.0.0.1 is free from {LOWEST} on, outside of {}",
        text.trim()
    )
}

/// All ports from [`LOWEST`] on that are not in the kernel's range.
fn outside(range: &str) -> Vec<u16> {
    let mut ends = range
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let kernels: RangeInclusive<u16> = match (ends.next(), ends.next()) {
        (Some(first), Some(last)) => first..=last,
        _ => 32_768..=60_999,
    };
    (LOWEST..=u16::MAX)
        .filter(|port| !kernels.contains(port))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_not_the_kernels_and_are_free_and_different() {
        let (a, b) = (free().unwrap(), free().unwrap());
        assert_ne!(a, b);
        let text = std::fs::read_to_string(RANGE).unwrap();
        let kernels = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let kernels = kernels.local_addr().unwrap().port();
        assert!(outside(&text).contains(&a) && !outside(&text).contains(&kernels));
        // Skip ports that are already in use.
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, a)).unwrap();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, a)).is_err());
        drop(held);
    }

    #[test]
    fn the_range_is_left_out() {
        let ports = outside("32768\t60999\n");
        assert_eq!((ports[0], ports.last()), (10_000, Some(&65_535)));
        assert!(!ports.contains(&32_768) && !ports.contains(&60_999));
        assert!(ports.contains(&32_767) && ports.contains(&61_000));
        assert!(outside("1024 65535").is_empty());
    }
}
