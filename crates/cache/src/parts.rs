//! Parts of fragments: a range request reads the blocks that hold its bytes, not the whole fragment.
//!
//! ```text
//! fragment   | front | ...        | b | b | b | b | b |              ... |
//!              ^ one read           ^ the other: the blocks around the part
//! ```
//!
//! The front has the checksums of the blocks (`store::Front`). Both reads are under way at once; they are one if little lies
//! between. The front and the last block of the part are remembered, because a range that follows this one begins in that
//! block. So a player that asks for 64 KiB after 64 KiB reads each block once.
//!
//! The whole fragment is read if most of it is wanted, if it is still in a buffer, or if it is to be written again.
//!
//! A damaged block is noticed only by ranges that include it. The whole fragment is then forgotten.
//!
//! Not known here: range requests, and the handling of a missing part.
//! Limits: [`RECENT_MAX`] fragments are remembered, each with a front of at most [`FRONT_BYTES_MAX`] and a block.

use std::{cell::RefCell, collections::VecDeque, ops::Range};

use bytes::Bytes;
use device::IoFault;
use store::{Front, KeyHash, Lookup, PartPlace, ReadGuard};

use crate::disk::{DiskIo, LoadedFragment, Member, Unread, Waits};
use base::clock::Instant;
use record::{facts::SwapIn, metrics};
use rules::key::fragment_key;

/// If more than this percentage of a fragment is wanted, it is read whole, which takes one read instead of two.
const PART_PERCENT_MAX: u64 = 75;
/// Longer parts need one of the permits for whole fragments, because of the memory they take while they are read.
const SHORT_PART_BYTES: u64 = 128 << 10;
/// Front and blocks are one read if at most this share of the blocks lies between them.
const GAP_SHARE: u64 = 8;
/// How many fragments a worker remembers, and so how many clients may read ranges in turn.
const RECENT_MAX: usize = 32;
/// A longer front (one with a very long key) is not remembered but read each time.
const FRONT_BYTES_MAX: usize = 8 << 10;

/// A part of the body of a fragment.
#[derive(Clone, Debug)]
pub struct Part {
    /// The fragment's number.
    pub number: u32,
    /// The length of the fragment's body.
    pub of: u64,
    /// The bytes of the body that the part has.
    pub range: Range<u64>,
}

impl Part {
    /// The same part, cut to its first `bytes` bytes at most.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Part {
        self.range.end = self.range.end.min(self.range.start.saturating_add(bytes));
        self
    }
}

/// The fragments of which a worker has read parts most recently, the latest first.
#[derive(Default)]
pub(super) struct RecentParts(RefCell<VecDeque<Recent>>);

struct Recent {
    hash: KeyHash,
    front: Front,
    last: Block,
}

/// A block that was read.
#[derive(Clone)]
struct Block {
    /// Its place in the record.
    at: u64,
    bytes: Bytes,
}

impl RecentParts {
    fn find(&self, hash: KeyHash, key: &[u8]) -> Option<(Front, Block)> {
        let recent = self.0.borrow();
        let found = recent.iter().find(|it| it.hash == hash);
        let found = found.filter(|it| it.front.key == key)?;
        Some((found.front.clone(), found.last.clone()))
    }

    fn note(&self, hash: KeyHash, front: &Front, last: Block) {
        let (front, bytes) = front.compact();
        let mut recent = self.0.borrow_mut();
        recent.retain(|it| it.hash != hash);
        if bytes <= FRONT_BYTES_MAX {
            recent.truncate(RECENT_MAX - 1);
            recent.push_front(Recent { hash, front, last });
        }
    }

    fn forget(&self, hash: KeyHash) {
        self.0.borrow_mut().retain(|it| it.hash != hash);
    }
}

/// The blocks that were read of a fragment.
struct Blocks {
    bytes: Bytes,
    /// Where the part lies in `bytes`.
    part: Range<usize>,
    /// How many reads it took.
    reads: u8,
}

impl DiskIo {
    /// A part of the body of a fragment, and where in the bytes it lies. As [`DiskIo::load_fragment`], with no more bytes than needed.
    pub async fn load_part(
        &self,
        primary: KeyHash,
        key: &[u8],
        fetch_id: u64,
        part: Part,
        waits: Waits,
    ) -> Option<(LoadedFragment, Range<usize>)> {
        let wanted = part.range.end - part.range.start;
        if wanted * 100 <= part.of * PART_PERCENT_MAX {
            let fragment = fragment_key(key, fetch_id, part.number);
            let turn = match wanted > SHORT_PART_BYTES {
                true => self.turn(primary, waits).await.ok()?,
                false => None,
            };
            let found = self.try_part(primary, &fragment, &part, waits).await;
            drop(turn);
            match found {
                Some(Ok(found)) => return Some(found),
                Some(Err(_)) => return None,
                None => {}
            }
        }
        let whole = self.load_fragment(primary, key, fetch_id, part.number, waits);
        let whole = whole.await.filter(|it| it.body.len() as u64 == part.of)?;
        Some((whole, part.range.start as usize..part.range.end as usize))
    }

    /// `None`: the fragment must be read whole.
    async fn try_part(
        &self,
        primary: KeyHash,
        fragment: &[u8],
        part: &Part,
        waits: Waits,
    ) -> Option<Result<(LoadedFragment, Range<usize>), Unread>> {
        let start = Instant::now();
        let member = self.member(primary);
        let store = &member.store;
        let Lookup::OnDisk(read) = store.look_up_needed(store.hasher().hash(fragment)) else {
            return None;
        };
        // The guard unpins even if this future is dropped.
        let guard = store.guard(read);
        if store.renews_part(guard.read()) {
            return None;
        }
        let place = store.part_of(guard.read(), fragment.len(), part.of, part.range.clone())?;
        let found = self.read_part(member, guard, (fragment, part), place, waits);
        let found = match found.await {
            Ok(found) => found,
            Err(unread) => return Some(Err(unread)),
        };
        let end = Instant::now();
        let loaded = LoadedFragment {
            body: found.bytes,
            swap_in: (found.reads > 0).then(|| SwapIn {
                start,
                first: end,
                end,
                reads: found.reads,
                store: self.number_of_store(primary),
            }),
        };
        Some(Ok((loaded, found.part)))
    }

    /// Reads a part of a pinned fragment, and verifies it.
    async fn read_part(
        &self,
        member: &Member,
        guard: ReadGuard,
        (fragment, part): (&[u8], &Part),
        PartPlace { front_end, blocks }: PartPlace,
        waits: Waits,
    ) -> Result<Blocks, Unread> {
        let hash = guard.read().hash();
        let (known, last) = self.recent.find(hash, fragment).unzip();
        let begun = last.filter(|last| last.at == blocks.start);
        let begun = begun.map_or_else(Bytes::new, |last| last.bytes);
        let from = (blocks.start + begun.len() as u64).min(blocks.end);
        let gap = from.saturating_sub(front_end);
        let (front_read, blocks_read) = match known {
            Some(_) => (0..0, from..blocks.end),
            None if gap <= (blocks.end - from) / GAP_SHARE => (0..0, 0..blocks.end.max(front_end)),
            None => (0..front_end, from..blocks.end),
        };
        let reads = u8::from(!front_read.is_empty()) + u8::from(!blocks_read.is_empty());
        if reads > 0 && member.is_shut() {
            metrics::add(&self.counters.disk_reads_untried, 1);
            return Err(Unread::GivenUp);
        }
        metrics::add(&self.counters.disk_reads, u64::from(reads > 0));
        let is_apart = !front_read.is_empty();
        let at = blocks_read.start;
        let both = async {
            tokio::try_join!(
                self.read_range(member, &guard, front_read),
                self.read_range(member, &guard, blocks_read),
            )
        };
        let answer = self.in_time(member, waits, both).await;
        let (front_bytes, bytes) = match answer.ok_or(Unread::GivenUp)? {
            Ok(both) => both,
            Err(error) => return Err(self.read_failed(guard, &error)),
        };
        let read_bytes = (front_bytes.len() + bytes.len()) as u64;
        metrics::add(&self.counters.disk_read_bytes, read_bytes);
        let front = match known {
            Some(front) => Ok(front),
            None if is_apart => member.store.decode_front(&front_bytes, guard.read()),
            None => member.store.decode_front(&bytes, guard.read()),
        };
        // An answer may use a record that it needs even if the record was killed meanwhile.
        let _ = guard.done();
        let front = self.verified(&member.store, front, hash);
        let front = front.ok_or(Unread::Absent)?;
        if front.key != fragment || front.body_len != part.of {
            return Err(Unread::Absent);
        }
        let bytes = match begun.is_empty() {
            true => bytes.slice((blocks.start - at) as usize..(blocks.end - at) as usize),
            false => Bytes::from([&begun[..], &bytes].concat()),
        };
        let decoded = (member.store).decode_part(&front, blocks.start, &bytes, part.range.clone());
        let Some(place) = self.verified(&member.store, decoded, hash) else {
            self.recent.forget(hash);
            return Err(Unread::Absent);
        };
        let last_at = (blocks.end - 1) / PartPlace::BLOCK_BYTES * PartPlace::BLOCK_BYTES;
        let last = &bytes[(last_at - blocks.start) as usize..];
        let last = Block {
            at: last_at,
            bytes: Bytes::copy_from_slice(last),
        };
        self.recent.note(hash, &front, last);
        Ok(Blocks {
            bytes,
            part: place,
            reads,
        })
    }

    /// Some bytes of a pinned record.
    async fn read_range(
        &self,
        member: &Member,
        guard: &ReadGuard,
        range: Range<u64>,
    ) -> Result<Bytes, IoFault> {
        let len = (range.end - range.start) as usize;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let offset = guard.read().offset + range.start;
        let brought = member.reads.read(offset, len, len).await?;
        Ok(match brought.is_part {
            // Copy: a slow client may keep these bytes for long, and the buffer also holds the bytes of other reads.
            true => Bytes::copy_from_slice(&brought.bytes[..len]),
            false => brought.bytes,
        })
    }
}
