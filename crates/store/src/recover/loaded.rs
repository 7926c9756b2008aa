//! The content of the checkpoint at a start.

use crate::index::Index;
use crate::index::key::KeyHash;
use crate::index::usage::UsageBits;
use crate::log::predicates::Predicates;
use crate::recover::checkpoint::read as checkpoint;
use crate::recover::open::Found;
use crate::recover::picture::kind;
use crate::recover::superblock::{State, Superblock};
use crate::sequence::Sequence;
use crate::settings::Limits;
use crate::write::frontier::Frontier;
use extent::Chunk;

/// The content of a checkpoint.
pub(super) struct Loaded {
    pub covers: Sequence,
    pub sequence: Sequence,
    pub indexes: Vec<Index>,
    pub soft: Vec<u8>,
    pub books: Vec<Vec<(u64, KeyHash, Chunk)>>,
    pub predicates: Vec<u8>,
    pub open_regions: Vec<u32>,
    pub frontier: Option<Frontier>,
    /// The names that had left the index; `None` if any may have.
    pub left: Option<Vec<u8>>,
}

impl Loaded {
    /// The content of the checkpoint, if the store can go on from it. The log has all entries above `horizon`.
    pub(super) fn to_go_on_from(
        superblock: &Superblock,
        found: &Found,
        limits: &Limits,
        horizon: Sequence,
    ) -> Result<Self, String> {
        let mut loaded = Self::of(superblock, found, limits)?;
        let clean = superblock.state == State::Clean;
        let by_hand = limits.policy().is_none();
        let was_by_hand = superblock.policy == 0;
        if loaded.covers < horizon {
            return Err("the log does not reach back to the checkpoint".into());
        }
        if !(clean || by_hand && was_by_hand) {
            return Err("with an ordered policy everything is scanned".into());
        }
        if clean && !by_hand && was_by_hand {
            return Err("the policy was changed".into());
        }
        // After a crash it is unknown how far the writer came, and which records left the index.
        loaded.frontier = loaded.frontier.filter(|_| clean && was_by_hand);
        loaded.left = loaded.left.filter(|_| clean);
        Ok(loaded)
    }

    /// Reads the checkpoint that the superblock names.
    fn of(superblock: &Superblock, found: &Found, limits: &Limits) -> Result<Self, String> {
        if superblock.index.is_none() {
            return Err("none was made yet".into());
        }
        let bytes = found.checkpoint.as_ref().ok_or("it cannot be read")?;
        let expected = checkpoint::Expected {
            generation: superblock.checkpoint_generation,
            epoch: superblock.epoch,
        };
        let read = checkpoint::read(bytes, expected, &superblock.secret)
            .map_err(|error| error.to_string())?;
        let mut loaded = Self {
            covers: read.about.covers,
            sequence: read.sequence,
            indexes: (0..limits.shards)
                .map(|_| Index::new(limits.segments, limits.usage_bits))
                .collect(),
            soft: Vec::new(),
            books: (0..limits.shards).map(|_| Vec::new()).collect(),
            predicates: Vec::new(),
            open_regions: Vec::new(),
            frontier: None,
            left: None,
        };
        let mut shape = Vec::new();
        // The usage bits of the segments that follow.
        let mut usage_bits = UsageBits::NONE;
        for part in read.parts() {
            let bytes = part.bytes();
            let number = part.number as usize;
            let taken = match part.kind {
                kind::SHAPE => {
                    shape = numbers(&bytes);
                    // A missing segment had no higher salts, and those it had must not be given again.
                    let era_max = shape.get(2).copied().unwrap_or(0);
                    let indexes = loaded.indexes.iter_mut();
                    indexes.for_each(|index| index.begin_after(era_max));
                    Some(())
                }
                kind::USAGE => {
                    let spare = numbers(&bytes).first().copied();
                    let bits = spare.and_then(UsageBits::of_foreign);
                    bits.map(|bits| usage_bits = bits)
                }
                kind::SEGMENT => loaded.take_segment(number, limits, &bytes, usage_bits),
                kind::SOFT => {
                    loaded.soft = bytes.to_vec();
                    Some(())
                }
                kind::BOOK => loaded.books.get_mut(number).map(|b| *b = book(&bytes)),
                kind::PREDICATES => {
                    loaded.predicates = bytes.to_vec();
                    Predicates::new(limits.manner, limits.words, 0).take_encoded(&bytes)
                }
                kind::OPEN_REGIONS => {
                    loaded.open_regions = numbers(&bytes);
                    Some(())
                }
                kind::LEFT => {
                    loaded.left = Some(bytes.to_vec());
                    Some(())
                }
                kind::FRONTIER => Frontier::of(&numbers(&bytes)).map(|f| loaded.frontier = Some(f)),
                _ => None,
            };
            taken.ok_or("it does not fit this store")?;
            if !shape.starts_with(&[limits.shards as u32, limits.segments as u32]) {
                return Err("the number of shards was changed".into());
            }
        }
        Ok(loaded)
    }

    fn take_segment(
        &mut self,
        number: usize,
        limits: &Limits,
        bytes: &[u8],
        usage_bits: UsageBits,
    ) -> Option<()> {
        let shard = self.indexes.get_mut(number / limits.segments)?;
        shard.take_segment(number % limits.segments, bytes, usage_bits)
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
}

/// Last uses, hashes and first chunks, longest unused first.
fn book(bytes: &[u8]) -> Vec<(u64, KeyHash, Chunk)> {
    let (lines, _) = bytes.as_chunks::<20>();
    let number = |line: &[u8; 20], at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&line[at..at + 8]);
        u64::from_le_bytes(eight)
    };
    lines
        .iter()
        .map(|line| {
            let first = u32::from_le_bytes([line[16], line[17], line[18], line[19]]);
            (number(line, 0), KeyHash(number(line, 8)), Chunk(first))
        })
        .collect()
}
