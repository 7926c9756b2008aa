//! One page of the log, and where pages lie in the log's area.
//!
//! ```text
//! slot 0    1        2                                      n - 2    n - 1
//! +--------+--------+--------------------------------------+--------+--------+
//! | tail A | tail B | ring: page p in slot 2 + p mod (n-4) | tail A | tail B |
//! +--------+--------+--------------------------------------+--------+--------+
//! ```
//!
//! A page is whole or it does not exist: the MAC covers all of its 4096 bytes except itself. It is both a checksum
//! and a proof that this store wrote the page in this epoch. An origin's bytes in a misdirected write cannot pass for
//! a page, since no origin knows the secret.
//!
//! Each page has the position of its first entry in the order of all entries, and the highest sequence in all earlier
//! pages. So its successor shows that a page is missing, and up to which sequence entries may be unknown.
//!
//! Not known here: which pages count, the time of writing.

use super::entry::Entry;
use crate::layout::log_page as field;
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

pub(crate) const PAGE_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"LgInval\n";
const VERSION: u32 = 1;

/// Bytes of a page that entries can take.
pub(crate) const ROOM_BYTES: usize = PAGE_BYTES - field::BYTES;

/// Counters on the disk stay below this, so that going on from them cannot overflow.
const COUNTER_MAX: u64 = 1 << 62;

const _: () = assert!(field::MAC.end() == field::BYTES);
const _: () = assert!(super::entry::ENTRY_BYTES_MAX <= ROOM_BYTES);
const _: () = assert!(ROOM_BYTES <= u16::MAX as usize);

/// Where the slots of a log's area lie; all offsets in bytes from the start of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    slots: u64,
}

impl Area {
    const TAILS: u64 = 4;
    /// The smallest useful log.
    const SLOTS_MIN: u64 = 8;

    /// `None` if no log fits.
    pub(crate) fn of(bytes: u64) -> Option<Self> {
        let slots = bytes / PAGE_BYTES as u64;
        let whole = bytes.is_multiple_of(PAGE_BYTES as u64);
        (whole && slots >= Self::SLOTS_MIN).then_some(Self { slots })
    }

    #[cfg(test)]
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Pages in the ring.
    pub(crate) fn ring_pages(&self) -> u64 {
        self.slots - Self::TAILS
    }

    /// The slots of tail pair 0 or 1.
    pub(crate) fn tail(&self, pair: usize) -> [u64; 2] {
        assert!(pair < 2, "tail pair {pair}");
        [pair as u64, self.slots - 2 + pair as u64]
    }

    /// The ring slot of a page.
    pub(crate) fn ring(&self, number: u64) -> u64 {
        2 + number % self.ring_pages()
    }
}

/// The header of a page, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// One higher with each page.
    pub number: u64,
    /// The commit that wrote this copy; of two copies of one page the higher is the newer.
    pub commit: u64,
    /// How many entries were ever logged in earlier pages.
    pub position: u64,
    /// How many entries this page has.
    pub entries: u16,
    /// No entry of an earlier page has a higher sequence. In the first page: the horizon of the new log.
    pub before: Sequence,
    /// No entry of this or an earlier page has a higher sequence.
    pub highest: Sequence,
    /// The log's horizon when this copy was written.
    pub horizon: Sequence,
}

impl Head {
    /// The position of the first entry of the next page.
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.entries)
    }

    /// Does this page, in its final state, come right before `next`?
    pub(crate) fn leads_to(&self, next: &Self) -> bool {
        self.number + 1 == next.number && self.end() == next.position && self.highest == next.before
    }
}

/// A page in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    pub head: Head,
    /// The entries, one after the other.
    pub body: Vec<u8>,
}

impl Page {
    /// An empty page. All entries before it, known or not, have sequences up to `before`.
    pub(crate) fn new(number: u64, position: u64, before: Sequence) -> Self {
        let head = Head {
            number,
            commit: 0,
            position,
            entries: 0,
            before,
            highest: before,
            horizon: before,
        };
        Self {
            head,
            body: Vec::new(),
        }
    }

    /// The empty page that comes after this one.
    pub(crate) fn next(&self) -> Self {
        Self::new(self.head.number + 1, self.head.end(), self.head.highest)
    }

    pub(crate) fn has_room_for(&self, entry: &Entry) -> bool {
        self.body.len() + entry.width() <= ROOM_BYTES
    }

    pub(crate) fn push(&mut self, sequence: Sequence, entry: &Entry) {
        assert!(self.has_room_for(entry), "an entry too many in a page");
        entry.put(sequence, &mut self.body);
        self.head.entries += 1;
        self.head.highest = self.head.highest.max(sequence);
    }

    /// The page as it is written by the commit that its head names.
    pub(crate) fn encode(&self, epoch: u64, secret: &Secret) -> Bytes {
        let mut bytes = crate::memory::aligned(PAGE_BYTES);
        let b = &mut bytes[..];
        let head = &self.head;
        field::MAGIC.put(b, &MAGIC);
        field::VERSION.put_u32(b, VERSION);
        field::ENTRIES.put_u16(b, head.entries);
        field::USED.put_u16(b, self.body.len() as u16);
        field::EPOCH.put_u64(b, epoch);
        field::PAGE.put_u64(b, head.number);
        field::COMMIT.put_u64(b, head.commit);
        field::POSITION.put_u64(b, head.position);
        field::BEFORE.put_u64(b, head.before);
        field::HIGHEST.put_u64(b, head.highest);
        field::HORIZON.put_u64(b, head.horizon);
        b[field::BYTES..][..self.body.len()].copy_from_slice(&self.body);
        let mac = mac(secret, b);
        field::MAC.put(b, &mac);
        bytes.freeze()
    }
}

/// Reads a page of this store and epoch: its head and its entries. None for anything else, never a panic.
pub(crate) fn decode<'a>(bytes: &'a [u8], epoch: u64, secret: &Secret) -> Option<(Head, &'a [u8])> {
    let sound = bytes.len() == PAGE_BYTES
        && field::MAGIC.of(bytes) == MAGIC
        && field::VERSION.u32(bytes) == VERSION
        && field::MAC.of(bytes) == mac(secret, bytes)
        && field::EPOCH.u64(bytes) == epoch;
    if !sound {
        return None;
    }
    let head = Head {
        number: field::PAGE.u64(bytes),
        commit: field::COMMIT.u64(bytes),
        position: field::POSITION.u64(bytes),
        entries: field::ENTRIES.u16(bytes),
        before: field::BEFORE.u64(bytes),
        highest: field::HIGHEST.u64(bytes),
        horizon: field::HORIZON.u64(bytes),
    };
    let counters = [head.number, head.commit, head.position];
    let used = usize::from(field::USED.u16(bytes));
    let body = bytes[field::BYTES..].get(..used)?;
    let believed = counters.iter().all(|&counter| counter < COUNTER_MAX)
        && head.before <= head.highest
        && holds(body, &head);
    believed.then_some((head, body))
}

/// Are these exactly the entries of the head?
fn holds(body: &[u8], head: &Head) -> bool {
    let mut rest = body;
    for _ in 0..head.entries {
        match Entry::take(rest) {
            Some((sequence, _, more)) if sequence <= head.highest => rest = more,
            _ => return false,
        }
    }
    rest.is_empty()
}

fn mac(secret: &Secret, page: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(&secret.0);
    hasher.write(&page[..field::MAC.at]);
    hasher.write(&page[field::MAC.end()..]);
    let hash = hasher.finish128();
    let mut mac = [0; 16];
    mac[..8].copy_from_slice(&hash.h1.to_le_bytes());
    mac[8..].copy_from_slice(&hash.h2.to_le_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::key::KeyHash;

    const SECRET: Secret = Secret([3; 16]);

    fn example() -> Page {
        let mut page = Page::new(5, 100, 40);
        page.push(
            44,
            &Entry::Key {
                primary: KeyHash(1),
            },
        );
        page.push(43, &Entry::Replaced { hash: KeyHash(2) });
        page.head.commit = 9;
        page
    }

    #[test]
    fn what_was_written_is_read() {
        let page = example();
        let bytes = page.encode(2, &SECRET);
        assert_eq!(bytes.len(), PAGE_BYTES);
        let (head, body) = decode(&bytes, 2, &SECRET).unwrap();
        assert_eq!((head, body), (page.head, &page.body[..]));
        assert_eq!((head.highest, head.end()), (44, 102));
    }

    #[test]
    fn only_the_whole_page_before_leads_to_the_next() {
        let (page, next) = (example().head, example().next().head);
        assert!(page.leads_to(&next));
        assert!(!page.leads_to(&page));
        let mut older = page;
        older.entries -= 1;
        assert!(!older.leads_to(&next));
        let mut other = page;
        other.highest += 1;
        assert!(!other.leads_to(&next));
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let whole = example().encode(2, &SECRET);
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x20;
            assert!(decode(&bytes, 2, &SECRET).is_none(), "byte {at}");
        }
        assert!(decode(&whole[..4095], 2, &SECRET).is_none());
        assert!(decode(&[], 2, &SECRET).is_none());
    }

    #[test]
    fn another_epoch_or_store_is_not_believed() {
        let bytes = example().encode(2, &SECRET);
        assert!(decode(&bytes, 3, &SECRET).is_none());
        assert!(decode(&bytes, 2, &Secret([4; 16])).is_none());
    }

    /// Pages that only the owner of the secret, or a mistake of ours, could write.
    #[test]
    fn a_page_that_contradicts_itself_is_none() {
        let wrong: [fn(&mut Page); 6] = [
            |page| page.head.entries = 3,
            |page| page.head.entries = 1,
            |page| page.head.highest = 43,
            |page| page.head.before = 45,
            |page| page.head.number = u64::MAX,
            |page| page.body[0] = 77,
        ];
        for (n, wrong) in wrong.iter().enumerate() {
            let mut page = example();
            wrong(&mut page);
            assert!(
                decode(&page.encode(2, &SECRET), 2, &SECRET).is_none(),
                "{n}"
            );
        }
    }

    #[test]
    fn slots_do_not_meet() {
        assert_eq!(Area::of(4096 * 7), None);
        assert_eq!(Area::of(65536 + 512), None);
        let area = Area::of(65536).unwrap();
        assert_eq!((area.slots(), area.ring_pages()), (16, 12));
        let mut slots: Vec<u64> = (0..12).map(|page| area.ring(page)).collect();
        slots.extend(area.tail(0));
        slots.extend(area.tail(1));
        slots.sort_unstable();
        assert_eq!(slots, (0..16).collect::<Vec<_>>());
        assert_eq!(area.ring(12), area.ring(0));
    }
}
