//! The format of a digest that one Loligo serves to another.
//!
//! A store's index has only a part of each key's hash, not the key. That part is a number, the *trace* (`store::Tracing`), which can be computed
//! from a key with the seed of the hash and the shape of the index. So a digest has a Bloom filter of traces for each store, with seed and
//! shapes. It follows the index entry by entry: nothing is read from disk, and nothing is kept besides the filter.
//!
//! ```text
//! 0  8 bytes  "LOLIGODG"        10  u16  filters, 1 to 64        24  u64  made at, ms since 1970
//! 8  u16      version, 1        16  u64  seed of the key hash
//! each filter
//! 0  u32  shards                 8  u32  bits, a multiple of 64   13  3 bytes of 0            24  the bits
//! 4  u32  segments of a shard   12  u8   functions               16  u64  traces in it
//! at the end
//! 0  u64  XXH3-64 of everything before
//! ```
//!
//! Little-endian. The seed must stay secret from clients: with it one can choose URLs that share a trace. So a digest is served to siblings
//! only.
//!
//! Not known here: how a trace is made, which siblings ask.   Limits: [`FILTERS_MAX`], [`BYTES_MAX`].

use std::fmt;

use twox_hash::XxHash3_64;

use crate::bloom::{Bits, Shape};

/// The path under which a Loligo serves its digest.
pub const PATH: &str = "/.well-known/loligo/digest";
/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.loligo.digest";
/// Filters at most: as many as a set can have stores.
pub const FILTERS_MAX: usize = 64;
/// Bits of all filters of a digest together at most: 16 MiB, enough for 13 million numbers at ten bits each.
pub const BITS_MAX: u64 = 1 << 27;
/// Bytes of a digest at most, with all filters together at [`BITS_MAX`].
pub const BYTES_MAX: usize =
    (BITS_MAX / 8) as usize + HEADER_BYTES + FILTERS_MAX * FILTER_BYTES + 8;

const MAGIC: &[u8; 8] = b"LOLIGODG";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 32;
const FILTER_BYTES: usize = 24;
/// Percent of set bits at which a filter is useless.
const FULL_PERCENT: u64 = 97;

/// Why bytes are not a usable digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It does not begin like a digest.
    Foreign,
    /// Another version.
    Version(u16),
    /// Its length is not the one that its headers imply.
    Length,
    /// Bytes were changed in transit.
    Checksum,
    /// The filter of this number has an impossible shape.
    Shape(usize),
    /// Almost all bits of the filter of this number are set, so it says yes to everything.
    Full(usize),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Foreign => write!(f, "it is no digest of a Loligo"),
            Unusable::Version(version) => write!(f, "its version is {version}, not {VERSION}"),
            Unusable::Length => write!(f, "it has not the length that it announces"),
            Unusable::Checksum => write!(f, "its checksum is wrong"),
            Unusable::Shape(n) => write!(f, "its filter {n} has a shape that none can have"),
            Unusable::Full(n) => write!(f, "almost all bits of its filter {n} are set"),
        }
    }
}

impl std::error::Error for Unusable {}

/// The shape of a store's index, from which its traces are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexShape {
    /// Shards, a power of two.
    pub shards: u32,
    /// Segments of a shard.
    pub segments: u32,
}

/// The filter of one store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The shape of the index that its traces are for.
    pub index: IndexShape,
    /// Traces in it.
    pub traces: u64,
    /// The filter.
    pub bits: Bits,
}

/// A digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    /// The seed of the key hash.
    pub seed: u64,
    /// When it was made, ms since 1970.
    pub made_ms: u64,
    /// One for each store; 1 to [`FILTERS_MAX`].
    pub filters: Vec<Filter>,
}

impl Digest {
    /// Encodes the digest.
    pub fn encode(&self) -> Vec<u8> {
        let bits: usize = self.filters.iter().map(|f| f.bits.bytes().len()).sum();
        let mut out =
            Vec::with_capacity(HEADER_BYTES + self.filters.len() * FILTER_BYTES + bits + 8);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.filters.len() as u16).to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.seed.to_le_bytes());
        out.extend(self.made_ms.to_le_bytes());
        for filter in &self.filters {
            let shape = filter.bits.shape();
            out.extend(filter.index.shards.to_le_bytes());
            out.extend(filter.index.segments.to_le_bytes());
            out.extend(shape.bits().to_le_bytes());
            out.extend([shape.functions(), 0, 0, 0]);
            out.extend(filter.traces.to_le_bytes());
            out.extend(filter.bits.bytes());
        }
        let checksum = XxHash3_64::oneshot(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Decodes a digest.
    ///
    /// # Errors
    /// The reason why it cannot be used. Never panics, whatever the bytes are, and takes no more memory than their length.
    pub fn decode(bytes: &[u8]) -> Result<Digest, Unusable> {
        if !bytes.starts_with(MAGIC) {
            return Err(Unusable::Foreign);
        }
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(Unusable::Length)?;
        let mut rest = content;
        let header = take::<HEADER_BYTES>(&mut rest)?;
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != VERSION {
            return Err(Unusable::Version(version));
        }
        if XxHash3_64::oneshot(content) != u64::from_le_bytes(*checksum) {
            return Err(Unusable::Checksum);
        }
        let count = usize::from(u16::from_le_bytes([header[10], header[11]]));
        if !(1..=FILTERS_MAX).contains(&count) {
            return Err(Unusable::Length);
        }
        let mut filters = Vec::with_capacity(count);
        for number in 0..count {
            filters.push(filter(&mut rest, number)?);
        }
        if !rest.is_empty() {
            return Err(Unusable::Length);
        }
        Ok(Digest {
            seed: u64_at(header, 16),
            made_ms: u64_at(header, 24),
            filters,
        })
    }

    /// May the digest have this key? `trace_in` returns the key's trace in a store.
    pub fn may_have(&self, trace_in: impl Fn(IndexShape) -> u64) -> bool {
        let mut filters = self.filters.iter();
        filters.any(|filter| filter.bits.may_have(trace_in(filter.index)))
    }

    /// Traces in all filters.
    pub fn traces(&self) -> u64 {
        let traces = self.filters.iter().map(|filter| filter.traces);
        traces.fold(0, u64::saturating_add)
    }
}

fn filter(rest: &mut &[u8], number: usize) -> Result<Filter, Unusable> {
    let head = take::<FILTER_BYTES>(rest)?;
    let u32_at =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let index = IndexShape {
        shards: u32_at(0),
        segments: u32_at(4),
    };
    let bits = u32_at(8);
    let shape = Shape::new(u64::from(bits), head[12])
        .filter(|shape| shape.bits() == bits && u64::from(bits) <= BITS_MAX);
    let is_sound = index.shards.is_power_of_two() && index.segments > 0;
    let shape = shape.filter(|_| is_sound).ok_or(Unusable::Shape(number))?;
    let (bytes, after) = rest
        .split_at_checked(shape.bytes())
        .ok_or(Unusable::Length)?;
    *rest = after;
    let bits = Bits::from_bytes(shape, bytes).ok_or(Unusable::Length)?;
    if bits.ones() * 100 >= u64::from(shape.bits()) * FULL_PERCENT {
        return Err(Unusable::Full(number));
    }
    Ok(Filter {
        index,
        traces: u64_at(head, 16),
        bits,
    })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Unusable> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(Unusable::Length)?;
    *rest = after;
    Ok(taken)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Digest {
        let filter = |bits, number| {
            let mut bits = Bits::new(Shape::new(bits, 7).unwrap());
            bits.insert(number);
            Filter {
                index: IndexShape {
                    shards: 4,
                    segments: 3,
                },
                traces: 1,
                bits,
            }
        };
        Digest {
            seed: 42,
            made_ms: 1000,
            filters: vec![filter(640, 5), filter(1280, 6)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let digest = digest();
        let read = Digest::decode(&digest.encode()).unwrap();
        assert_eq!(read, digest);
        assert_eq!(read.traces(), 2);
        assert!(read.may_have(|_| 5));
        assert!(read.may_have(|_| 6));
        assert!(!read.may_have(|_| 7));
    }

    /// Changed bytes with a correct checksum.
    fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Result<Digest, Unusable> {
        let mut bytes = digest().encode();
        bytes.truncate(bytes.len() - 8);
        change(&mut bytes);
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend(checksum.to_le_bytes());
        Digest::decode(&bytes)
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = digest().encode();
        for len in 0..good.len() {
            assert!(Digest::decode(&good[..len]).is_err(), "{len} bytes");
        }
        let mut flipped = good.clone();
        flipped[70] ^= 1;
        assert_eq!(Digest::decode(&flipped), Err(Unusable::Checksum));
        assert_eq!(Digest::decode(b"hello"), Err(Unusable::Foreign));
        assert_eq!(changed(|b| b[8] = 2), Err(Unusable::Version(2)));
        assert_eq!(changed(|b| b[10] = 0), Err(Unusable::Length));
        assert_eq!(changed(|b| b[10] = 3), Err(Unusable::Length));
        assert_eq!(changed(|b| b.push(0)), Err(Unusable::Length));
        assert_eq!(changed(|b| b[32] = 3), Err(Unusable::Shape(0)));
        assert_eq!(changed(|b| b[40] = 1), Err(Unusable::Shape(0)));
        assert_eq!(changed(|b| b[44] = 200), Err(Unusable::Shape(0)));
        assert_eq!(changed(|b| b[43] = 255), Err(Unusable::Shape(0)));
        let full = changed(|b| b[56..56 + 80].fill(255));
        assert_eq!(full, Err(Unusable::Full(0)));
    }
}
