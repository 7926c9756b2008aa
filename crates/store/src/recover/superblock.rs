//! The superblock: what the store is and how it was left.
//!
//! Two equal copies, at 0 and at 32 KiB. Each change of state writes the same bytes to both, the first made
//! durable before the second is begun, so at every moment one of them is whole; the one of higher generation
//! counts. The used part of a copy lies in one sector, which is written whole or not at all, because a start cannot know which of two
//! whole copies is durable: an earlier flush may have failed. While a proxy uses the store the state is *open*; only a clean stop, after its
//! checkpoint is durable, says *clean*. In both states the superblock names the last checkpoint that is whole; writing the superblock is
//! what publishes one. A store that starts empty does so under the next epoch, which makes every old record on
//! the disk unacceptable (each header carries the epoch under the MAC).
//!
//! Invariant: nothing at a place where other systems look for their signatures can be one of those, see the tests.
//!
//! The secret keys the MACs and is not for printing: `Debug` leaves it out.

use crate::fragments;
use crate::geometry::Geometry;
use crate::layout::superblock as field;
use crate::layout::{PAGE_BYTES, SUPERBLOCK_BYTES};
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::Bytes;
use twox_hash::XxHash3_64;

/// Not text, so that no text file is taken for a store; the line end shows a transfer in text mode.
const MAGIC: [u8; 8] = *b"\x89LOLIGO\n";

/// Raised with every change of the format that older programs would misread.
pub const FORMAT_VERSION: u32 = 6;

/// The oldest version that is read. A start writes the superblock in the present one, and leaves all else as it is.
pub const FORMAT_VERSION_OLDEST: u32 = 5;

/// The first version whose superblock says how long fragments are.
const FORMAT_VERSION_OF_FRAGMENTS: u32 = 6;

/// How the store was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// In use, or abandoned: what was stored since the checkpoint has to be found by a scan.
    Open,
    /// Stopped in order: the checkpoint is complete.
    Clean,
}

/// Where a checkpoint lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPlace {
    /// Bytes from the start of the store.
    pub offset: u64,
    /// Its length in bytes, a multiple of 4096.
    pub bytes: u64,
}

/// What the store is and how it was left.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// The format version it was read in. It is always written in the present one.
    pub version: u32,
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
    /// The last whole checkpoint; there always is one when the state is clean.
    pub index: Option<IndexPlace>,
    /// The generation of that checkpoint, 0 if there is none.
    pub checkpoint_generation: u64,
    /// No record of a lower sequence counts.
    pub accept_from: Sequence,
    /// The set of stores this one belongs to; zeros: to none.
    pub set_uuid: [u8; 16],
    /// Raised with every change of the set.
    pub set_generation: u64,
    /// Hash of the set's members and their weights.
    pub placement: u64,
    /// The sequence at which keys last may have left this store for another.
    pub keys_left_at: Sequence,
    /// The weight of this store among the members.
    pub weight: u32,
    /// How room was made for the records. 0: by the hand (second-chance, reinsertion). 1: by an ordered policy, with which the regions are
    /// not noted in the journal, so all of them have to be scanned.
    pub policy: u32,
    /// Bodies are cut into fragments of this length, in bytes.
    pub fragment_bytes: u32,
    /// The second copy was older than this one, or not whole: it is to be written before the first is.
    pub(crate) second_first: bool,
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
    #[error(
        "format version {found}, this program reads {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// A superblock of ours, but not whole.
    #[error("the superblock is damaged")]
    Damaged,
}

impl Superblock {
    /// The bytes to read at offset 0 before opening: both copies and all between.
    pub const BYTES: usize = SUPERBLOCK_BYTES;
    /// The length of one copy.
    pub const COPY_BYTES: usize = field::BYTES;
    /// Where the copies lie. Write the first, flush, write the second, flush.
    pub const OFFSETS: [u64; 2] = [0, 32 * 1024];

    /// The copy that may be torn is written first, while the other is whole.
    pub(crate) fn copies_in_order(suspect: u64) -> [u64; 2] {
        let [first, second] = Self::OFFSETS;
        if suspect == second {
            [second, first]
        } else {
            [first, second]
        }
    }

    /// One copy, [`Self::COPY_BYTES`] long.
    pub fn encode(&self) -> Bytes {
        let mut bytes = crate::memory::aligned(Self::COPY_BYTES);
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
        field::CHECKPOINT_GENERATION.put_u64(&mut bytes, self.checkpoint_generation);
        field::ACCEPT_FROM.put_u64(&mut bytes, self.accept_from);
        field::SET_UUID.put(&mut bytes, &self.set_uuid);
        field::SET_GENERATION.put_u64(&mut bytes, self.set_generation);
        field::PLACEMENT.put_u64(&mut bytes, self.placement);
        field::KEYS_LEFT_AT.put_u64(&mut bytes, self.keys_left_at);
        field::WEIGHT.put_u32(&mut bytes, self.weight);
        field::REGION_CHUNKS.put_u32(&mut bytes, geometry.region_chunks);
        field::POLICY.put_u32(&mut bytes, self.policy);
        field::FRAGMENT_BYTES.put_u32(&mut bytes, self.fragment_bytes);
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
        if !(FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&found) {
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
            region_chunks: field::REGION_CHUNKS.u32(bytes),
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
            version: found,
            state,
            uuid: field::UUID.array(bytes),
            epoch: field::EPOCH.u64(bytes),
            secret: Secret(field::SECRET.array(bytes)),
            hash_seed: field::HASH_SEED.u64(bytes),
            generation: field::GENERATION.u64(bytes),
            index: (place.bytes > 0).then_some(place),
            checkpoint_generation: field::CHECKPOINT_GENERATION.u64(bytes),
            accept_from: field::ACCEPT_FROM.u64(bytes),
            set_uuid: field::SET_UUID.array(bytes),
            set_generation: field::SET_GENERATION.u64(bytes),
            placement: field::PLACEMENT.u64(bytes),
            keys_left_at: field::KEYS_LEFT_AT.u64(bytes),
            weight: field::WEIGHT.u32(bytes),
            policy: field::POLICY.u32(bytes),
            fragment_bytes: field::FRAGMENT_BYTES.u32(bytes),
            second_first: false,
            geometry,
        };
        if !superblock.geometry.is_sound() || !superblock.index_is_sound() {
            return Err(SuperblockError::Damaged);
        }
        superblock.with_fragments()
    }

    /// Sets the fragment length if the format version has none, and checks it.
    fn with_fragments(mut self) -> Result<Self, SuperblockError> {
        if self.version < FORMAT_VERSION_OF_FRAGMENTS {
            self.fragment_bytes = fragments::fragment_bytes_before_6(&self.geometry);
        }
        match fragments::is_sound(self.fragment_bytes, &self.geometry) {
            true => Ok(self),
            false => Err(SuperblockError::Damaged),
        }
    }

    /// The newer of the two copies that is whole.
    ///
    /// # Errors
    /// Neither is whole; of the two reasons, the one that asks for more care.
    pub fn decode_newest(first: &[u8], second: &[u8]) -> Result<Self, SuperblockError> {
        match (Self::decode(first), Self::decode(second)) {
            (Ok(a), Ok(b)) if b.generation >= a.generation => Ok(b),
            // Both copies are written before anything else changes, so the whole one tells the truth.
            (Ok(a), _) => Ok(Self {
                second_first: true,
                ..a
            }),
            (Err(_), Ok(b)) => Ok(b),
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
        let Some(place) = self.index else {
            return self.state == State::Open;
        };
        // The store chooses one of the two areas; the checkpoint's own generation tells whether it is the right one.
        let [first, second] = self.geometry.checkpoint_areas();
        (place.offset == first || place.offset == second)
            && place.bytes <= self.geometry.checkpoint_bytes
            && place.bytes.is_multiple_of(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(generation: u64, state: State) -> Superblock {
        let geometry = Geometry::plan(8 << 20, 512).unwrap();
        let index = (state == State::Clean).then(|| IndexPlace {
            offset: geometry.checkpoint_areas()[generation as usize / 2 % 2],
            bytes: 4096,
        });
        Superblock {
            version: FORMAT_VERSION,
            state,
            uuid: [1; 16],
            epoch: 3,
            secret: Secret([9; 16]),
            hash_seed: 77,
            generation,
            geometry,
            index,
            checkpoint_generation: 41,
            accept_from: 42,
            set_uuid: [43; 16],
            set_generation: 44,
            placement: 45,
            keys_left_at: 44,
            weight: 46,
            policy: 46,
            fragment_bytes: 47,
            second_first: false,
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
    fn a_store_in_use_may_name_a_checkpoint_and_a_clean_one_must() {
        let decode = |superblock: &Superblock| Superblock::decode(&superblock.encode());
        for area in example(4, State::Open).geometry.checkpoint_areas() {
            let mut open = example(4, State::Open);
            open.index = Some(IndexPlace {
                offset: area,
                bytes: 8192,
            });
            assert_eq!(decode(&open), Ok(open));
        }
        let place = |offset, bytes| Some(IndexPlace { offset, bytes });
        let checkpoint_at = example(4, State::Open).geometry.checkpoint_at;
        for index in [
            None,
            place(0, 4096),
            place(checkpoint_at + 4096, 4096),
            place(checkpoint_at, 4095),
            place(checkpoint_at, 1 << 40),
        ] {
            let mut clean = example(4, State::Clean);
            clean.index = index;
            assert_eq!(decode(&clean), Err(SuperblockError::Damaged), "{index:?}");
        }
    }

    /// The signatures that other systems look for, and where, in bytes from the start of the device.
    const FOREIGN: [(usize, &[u8]); 17] = [
        (510, b"\x55\xaa"),
        (1080, b"\x53\xef"),
        (0, b"LABELONE"),
        (512, b"LABELONE"),
        (1024, b"LABELONE"),
        (1536, b"LABELONE"),
        (65600, b"_BHRfS_M"),
        (4086, b"SWAPSPACE2"),
        (4086, b"SWAP-SPACE"),
        (0, b"XFSB"),
        (0, b"\xfc\x4e\x2b\xa9"),
        (4096, b"\xfc\x4e\x2b\xa9"),
        (512, b"EFI PART"),
        (4096, b"EFI PART"),
        (32769, b"CD001"),
        (65588, b"ReIsEr"),
        (65536, b"\x01\x16\x19\x70"),
    ];

    #[test]
    fn no_other_system_takes_a_store_for_its_own() {
        // Whatever the numbers are, those two copies and a checkpoint at 64 KiB don't carry the signatures.
        for value in [0, 1, u64::MAX, 0x5555_5555_aaaa_aaaa, 0x1234_5678_9abc_def0] {
            let mut superblock = example(value, State::Clean);
            superblock.epoch = value;
            superblock.hash_seed = value;
            superblock.uuid = [value as u8; 16];
            superblock.set_uuid = [value as u8; 16];
            superblock.placement = value;
            superblock.accept_from = value;
            let copy = superblock.encode();
            let about = crate::recover::checkpoint::About {
                generation: value,
                epoch: value,
                covers: value,
            };
            let area = superblock.geometry.checkpoint_bytes;
            let writer = crate::recover::checkpoint::write::CheckpointWriter::new(
                area,
                about,
                superblock.secret,
            );
            let header = writer.finish(value).writes.pop().unwrap().1;
            let mut start = vec![0; Superblock::BYTES + header.len()];
            let checkpoint_at = superblock.geometry.checkpoint_at as usize;
            for (at, bytes) in [(0, &copy), (32 * 1024, &copy), (checkpoint_at, &header)] {
                start[at..at + bytes.len()].copy_from_slice(bytes);
            }
            for (at, signature) in FOREIGN {
                let found = &start[at..at + signature.len()];
                assert_ne!(found, signature, "at {at}");
            }
            for at in [510, 512, 1024, 1080, 1536] {
                assert_eq!(start[at..at + 8], [0; 8], "reserved, whatever the numbers");
            }
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
        for at in 0..field::UNUSED.at {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x40;
            assert!(Superblock::decode(&bytes).is_err(), "byte {at}");
        }
    }

    /// Found by the simulation: after a failed flush a power cut tore both copies.
    #[test]
    fn a_torn_copy_is_the_old_one_or_the_new_one() {
        const SECTOR: usize = 512;
        let [old, new] = [4, 5].map(|generation| example(generation, State::Clean).encode());
        for sectors in 0_u32..256 {
            let mut torn = old.to_vec();
            for n in (0..8).filter(|n| sectors >> n & 1 == 1) {
                torn[n * SECTOR..][..SECTOR].copy_from_slice(&new[n * SECTOR..][..SECTOR]);
            }
            let generation = Superblock::decode(&torn).map(|found| found.generation);
            assert_eq!(generation, Ok(4 + u64::from(sectors & 1)));
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = example(4, State::Clean).encode().to_vec();
        for found in [1, 9] {
            field::VERSION.put_u32(&mut bytes, found);
            let error = Superblock::decode_newest(&bytes, &[0; 4096]);
            assert_eq!(error, Err(SuperblockError::Version { found }));
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert!(!format!("{:?}", example(1, State::Open)).contains("9, 9"));
    }
}
