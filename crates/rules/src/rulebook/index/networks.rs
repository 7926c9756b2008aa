//! Networks and ranges of ports: prefixes of numbers, in bits.
//!
//! A network is a prefix of addresses; a range of ports is at most thirty blocks, each a prefix of ports. A look-up takes one search
//! for each prefix length in use.
//!
//! Not known here: rules.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive};

use ipnet::IpNet;

use super::numbers::{Found, Next};

/// Prefixes of numbers.
#[derive(Debug, Default)]
struct Beginnings {
    /// The values, by length and prefix.
    numbers: BTreeMap<(u8, u128), u32>,
    /// The lengths in use.
    lengths: Vec<u8>,
}

/// The first bits of a number of `bits` bits.
fn beginning(number: u128, length: u8, bits: u8) -> u128 {
    number.checked_shr(u32::from(bits - length)).unwrap_or(0)
}

impl Beginnings {
    fn number(&mut self, length: u8, beginning: u128, next: Next<'_>) -> u32 {
        if !self.lengths.contains(&length) {
            self.lengths.push(length);
        }
        *self.numbers.entry((length, beginning)).or_insert_with(next)
    }

    /// The values of all prefixes of a number of `bits` bits.
    fn of(&self, number: u128, bits: u8) -> Found {
        let lengths = self.lengths.iter();
        let found = lengths
            .filter_map(|&length| (self.numbers).get(&(length, beginning(number, length, bits))));
        found.copied().collect()
    }
}

/// Networks.
#[derive(Debug, Default)]
pub struct Networks {
    v4: Beginnings,
    v6: Beginnings,
}

impl Networks {
    /// The number of a network.
    pub fn number_of(&mut self, network: &IpNet, next: Next<'_>) -> u32 {
        let length = network.prefix_len();
        match network.network() {
            IpAddr::V4(at) => {
                let bits = beginning(at.to_bits().into(), length, 32);
                self.v4.number(length, bits, next)
            }
            IpAddr::V6(at) => {
                let bits = beginning(at.to_bits(), length, 128);
                self.v6.number(length, bits, next)
            }
        }
    }

    /// The networks that contain an address.
    pub fn of(&self, address: IpAddr) -> Found {
        match address {
            IpAddr::V4(at) => self.v4.of(at.to_bits().into(), 32),
            IpAddr::V6(at) => self.v6.of(at.to_bits(), 128),
        }
    }
}

/// Ranges of ports.
#[derive(Debug, Default)]
pub struct Ports(Beginnings);

impl Ports {
    const BITS: u8 = 16;

    /// The numbers of the blocks of a range.
    pub fn numbers(&mut self, range: &RangeInclusive<u16>, next: Next<'_>) -> Vec<u32> {
        let (mut from, end) = (u32::from(*range.start()), u32::from(*range.end()) + 1);
        let mut numbers = Vec::new();
        while from < end {
            // The largest block that begins here and ends within the range.
            let mut size = from.trailing_zeros().min(Self::BITS.into());
            while from + (1 << size) > end {
                size -= 1;
            }
            let length = Self::BITS - size as u8;
            numbers.push(self.0.number(length, (from >> size).into(), next));
            from += 1 << size;
        }
        numbers
    }

    /// The blocks that contain a port.
    pub fn of(&self, port: u16) -> Found {
        self.0.of(port.into(), Self::BITS)
    }
}
