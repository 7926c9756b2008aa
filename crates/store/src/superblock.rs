//! The superblock: what the store is and how it was left.
//!
//! Two equal copies, at 0 and at 32 KiB. Each change of state writes the same bytes to both, the first made
//! durable before the second is begun, so at every moment one of them is whole; the one of higher generation
//! counts. While a proxy uses the store the state is *open*; only a clean stop, after the index is durable,
//! says *clean*. A store found open starts empty under the next epoch, which makes every old record on the
//! disk unacceptable (each header carries the epoch under the MAC).
//!
//! The secret keys the MACs and is not for printing: `Debug` leaves it out.

use crate::geometry::Geometry;
use crate::layout::superblock as field;
use bytes::Bytes;
use std::fmt;
use twox_hash::XxHash3_64;

/// Not text, so that no text file is taken for a store; the line end shows a transfer in text mode.
const MAGIC: [u8; 8] = *b"\x89LOLIGO\n";

/// Raised with every change of the format that older programs would misread.
pub const FORMAT_VERSION: u32 = 1;

/// How the store was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// In use, or abandoned: the index on disk is not to be used.
    Open,
    /// Stopped in order: the index on disk is complete.
    Clean,
}

/// Where an index image lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPlace {
    /// Bytes from the start of the store.
    pub offset: u64,
    /// Its length in bytes, a multiple of 4096.
    pub bytes: u64,
}

/// The 16 bytes only this store knows; they key the header MACs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub(crate) [u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What the store is and how it was left.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// How it was left.
    pub state: State,
    /// Names the store for life.
    pub uuid: [u8; 16],
    /// Records of other epochs are not accepted.
    pub epoch: u64,
    /// Keys the header MACs.
    pub secret: Secret,
    /// Seeds the key hashes.
    pub hash_seed: u64,
    /// Raised with every change of the superblock.
    pub generation: u64,
    /// Where the parts lie.
    pub geometry: Geometry,
    /// The index image, when the state is clean.
    pub index: Option<IndexPlace>,
}

/// Why some bytes are no superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// Nothing was ever written there.
    #[error("no store here: all zero")]
    Blank,
    /// Something else lies there.
    #[error("no store here, but other data")]
    Foreign,
    /// Written by another version of the format.
    #[error("format version {found}, this program reads {FORMAT_VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// Ours, but not whole.
    #[error("the superblock is damaged")]
    Damaged,
}

impl Superblock {
    /// What to read at offset 0 before opening: both copies and all between.
    pub const BYTES: usize = 64 * 1024;
    /// One copy.
    pub const COPY_BYTES: usize = field::BYTES;
    /// Where the copies lie. Write the first, flush, write the second, flush.
    pub const OFFSETS: [u64; 2] = [0, 32 * 1024];

    /// One copy, [`Self::COPY_BYTES`] long.
    pub fn encode(&self) -> Bytes {
        let mut bytes = crate::buffer::aligned(Self::COPY_BYTES);
        let geometry = &self.geometry;
        field::MAGIC.put(&mut bytes, &MAGIC);
        field::VERSION.put_u32(&mut bytes, FORMAT_VERSION);
        field::STATE.put_u32(&mut bytes, if self.state == State::Open { 1 } else { 2 });
        field::UUID.put(&mut bytes, &self.uuid);
        field::EPOCH.put_u64(&mut bytes, self.epoch);
        field::SECRET.put(&mut bytes, &self.secret.0);
        field::HASH_SEED.put_u64(&mut bytes, self.hash_seed);
        field::GENERATION.put_u64(&mut bytes, self.generation);
        field::TOTAL_BYTES.put_u64(&mut bytes, geometry.total_bytes);
        field::CHUNK_BYTES.put_u32(&mut bytes, geometry.chunk_bytes);
        field::DATA_CHUNKS.put_u32(&mut bytes, geometry.data_chunks);
        field::CHECKPOINT_AT.put_u64(&mut bytes, geometry.checkpoint_at);
        field::CHECKPOINT_BYTES.put_u64(&mut bytes, geometry.checkpoint_bytes);
        field::INVALIDATION_LOG_AT.put_u64(&mut bytes, geometry.invalidation_log_at);
        field::INVALIDATION_LOG_BYTES.put_u64(&mut bytes, geometry.invalidation_log_bytes);
        field::REGION_JOURNAL_AT.put_u64(&mut bytes, geometry.region_journal_at);
        field::REGION_JOURNAL_BYTES.put_u64(&mut bytes, geometry.region_journal_bytes);
        field::DATA_AT.put_u64(&mut bytes, geometry.data_at);
        let index = self.index.unwrap_or(IndexPlace {
            offset: 0,
            bytes: 0,
        });
        field::INDEX_AT.put_u64(&mut bytes, index.offset);
        field::INDEX_BYTES.put_u64(&mut bytes, index.bytes);
        let checksum = XxHash3_64::oneshot(&bytes[..field::CHECKSUM.at]);
        field::CHECKSUM.put_u64(&mut bytes, checksum);
        bytes.freeze()
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// The bytes are no whole superblock of this format version. Never panics, whatever they are.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let Some(bytes) = bytes.get(..Self::COPY_BYTES) else {
            return Err(SuperblockError::Damaged);
        };
        if field::MAGIC.of(bytes) != MAGIC {
            let blank = bytes.iter().all(|&byte| byte == 0);
            return Err(if blank {
                SuperblockError::Blank
            } else {
                SuperblockError::Foreign
            });
        }
        // The version comes before the checksum: another version may keep its checksum elsewhere.
        let found = field::VERSION.u32(bytes);
        if found != FORMAT_VERSION {
            return Err(SuperblockError::Version { found });
        }
        if field::CHECKSUM.u64(bytes) != XxHash3_64::oneshot(&bytes[..field::CHECKSUM.at]) {
            return Err(SuperblockError::Damaged);
        }
        let geometry = Geometry {
            total_bytes: field::TOTAL_BYTES.u64(bytes),
            chunk_bytes: field::CHUNK_BYTES.u32(bytes),
            checkpoint_at: field::CHECKPOINT_AT.u64(bytes),
            checkpoint_bytes: field::CHECKPOINT_BYTES.u64(bytes),
            invalidation_log_at: field::INVALIDATION_LOG_AT.u64(bytes),
            invalidation_log_bytes: field::INVALIDATION_LOG_BYTES.u64(bytes),
            region_journal_at: field::REGION_JOURNAL_AT.u64(bytes),
            region_journal_bytes: field::REGION_JOURNAL_BYTES.u64(bytes),
            data_at: field::DATA_AT.u64(bytes),
            data_chunks: field::DATA_CHUNKS.u32(bytes),
        };
        let state = match field::STATE.u32(bytes) {
            1 => State::Open,
            2 => State::Clean,
            _ => return Err(SuperblockError::Damaged),
        };
        let place = IndexPlace {
            offset: field::INDEX_AT.u64(bytes),
            bytes: field::INDEX_BYTES.u64(bytes),
        };
        let superblock = Self {
            state,
            uuid: field::UUID.array(bytes),
            epoch: field::EPOCH.u64(bytes),
            secret: Secret(field::SECRET.array(bytes)),
            hash_seed: field::HASH_SEED.u64(bytes),
            generation: field::GENERATION.u64(bytes),
            index: (place.bytes > 0).then_some(place),
            geometry,
        };
        if superblock.geometry.is_sound() && superblock.index_is_sound() {
            Ok(superblock)
        } else {
            Err(SuperblockError::Damaged)
        }
    }

    /// The newer of the two copies that is whole.
    ///
    /// # Errors
    /// Neither is; of the two reasons, the one that asks for more care.
    pub fn decode_newest(first: &[u8], second: &[u8]) -> Result<Self, SuperblockError> {
        match (Self::decode(first), Self::decode(second)) {
            (Ok(a), Ok(b)) => Ok(if b.generation > a.generation { b } else { a }),
            // Both copies are written before anything else changes, so the whole one tells the truth.
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(error @ SuperblockError::Version { .. }), _)
            | (_, Err(error @ SuperblockError::Version { .. })) => Err(error),
            (Err(SuperblockError::Damaged), _) | (_, Err(SuperblockError::Damaged)) => {
                Err(SuperblockError::Damaged)
            }
            (Err(SuperblockError::Foreign), _) | (_, Err(SuperblockError::Foreign)) => {
                Err(SuperblockError::Foreign)
            }
            _ => Err(SuperblockError::Blank),
        }
    }

    fn index_is_sound(&self) -> bool {
        match (self.state, self.index) {
            (State::Open, index) => index.is_none(),
            (State::Clean, None) => false,
            (State::Clean, Some(place)) => {
                place.offset == self.geometry.index_at(self.generation)
                    && place.bytes <= self.geometry.checkpoint_bytes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(generation: u64, state: State) -> Superblock {
        let geometry = Geometry::plan(8 << 20, 512).unwrap();
        let index = (state == State::Clean).then(|| IndexPlace {
            offset: geometry.index_at(generation),
            bytes: 4096,
        });
        Superblock {
            state,
            uuid: [1; 16],
            epoch: 3,
            secret: Secret([9; 16]),
            hash_seed: 77,
            generation,
            geometry,
            index,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for state in [State::Open, State::Clean] {
            let superblock = example(4, state);
            assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }
    }

    #[test]
    fn the_newer_whole_copy_counts() {
        let (old, new) = (example(4, State::Clean), example(5, State::Open));
        let newest = |a: &[u8], b: &[u8]| Superblock::decode_newest(a, b).map(|s| s.generation);
        assert_eq!(newest(&old.encode(), &new.encode()), Ok(5));
        assert_eq!(newest(&new.encode(), &old.encode()), Ok(5));
        assert_eq!(newest(&new.encode()[..4095], &old.encode()), Ok(4));
        assert_eq!(newest(&[0; 4096], &[0; 4096]), Err(SuperblockError::Blank));
        assert_eq!(
            newest(&[0; 4096], &[7; 4096]),
            Err(SuperblockError::Foreign)
        );
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let whole = example(4, State::Clean).encode();
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x40;
            assert!(Superblock::decode(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = example(4, State::Clean).encode().to_vec();
        field::VERSION.put_u32(&mut bytes, 9);
        let error = Superblock::decode_newest(&bytes, &[0; 4096]);
        assert_eq!(error, Err(SuperblockError::Version { found: 9 }));
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert!(!format!("{:?}", example(1, State::Open)).contains("9, 9"));
    }
}
