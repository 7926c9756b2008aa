//! The region journal: when each region was last opened for writing.
//!
//! Before the first record goes to an emptied region, the region is *noted*: its `opened_at` durably becomes the
//! present sequence. A record counts only if its sequence is above its region's `opened_at`, so records of an earlier
//! round are dead without being overwritten.
//!
//! All numbers are in memory; on disk they lie in pages of [`REGIONS_PER_PAGE`], each sealed by checksum and MAC. The
//! area has two halves with a copy of everything each, and each half has two slots for a page, used in turn:
//!
//! ```text
//! half 0: slots for even write numbers | odd ones || half 1: even | odd
//! ```
//!
//! A note writes its page, with the next write number, to the slots of its parity in both halves, and flushes; then it is
//! done. The two slots of the previous note stay untouched meanwhile. The first note of a page after a start flushes between the
//! two writes. So:
//!   J1  while a note is under way, both copies of the last one that was done are untouched: a torn write costs nothing
//!   J2  a note that was done lies in two places: one write that the device dropped without a word costs nothing
//!   J3  the first note after a start leaves the other parity whole in half 1 until what the start has read is durable
//!   J4  of a page's slots that are whole, the one of the highest (generation, write number) holds everything noted
//!
//! J3 is needed because a kill may leave a note that was never flushed: the start reads it, and a power cut removes it. Then only the note
//! before it is durable, in the very slots that the next note goes to. A note that was flushed since the start needs no such care, which
//! saves two operations in turn, seconds on a slow device.
//!
//! With only one slot in each half, J1 and J2 could fail together: one copy is torn while the other had lost its last
//! write. A failed note may have spoilt both slots of its parity, so the next note goes to the same slots with a
//! number two higher. A write number may be reused after a crash, because its page is not whole. But if only one
//! sector was spoilt, a later torn write could make that page whole again. So pages carry a generation: those of the later
//! start count.
//!
//! An unfinished note may take effect at a later start. Its region was empty by then, so that costs at most evicted
//! objects.
//!
//! Limits: one note at a time; [`regions_max`]; 8 bytes of memory a region.
//! Not known here: regions' content, records, when to note. Bytes from disk never cause a panic.

use crate::layout::PAGE_BYTES;
use crate::layout::region_journal_page as field;
use crate::memory::aligned;
use crate::script::{Script, Stage, Step};
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::Bytes;
use std::ops::Range;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 4] = *b"LgRj";
const VERSION: u32 = 1;

const PAGE: usize = PAGE_BYTES as usize;
const ENTRY_BYTES: usize = size_of::<Sequence>();

/// Regions that one page holds.
pub(crate) const REGIONS_PER_PAGE: usize = (PAGE - field::BYTES) / ENTRY_BYTES;

/// Slots of a page: two in each half.
const SLOTS: u64 = 4;

/// The first writes of a new journal are this long at most.
const INITIAL_WRITE_BYTES: usize = 1 << 20;

/// As `opened_at`: the content of the region is unknown, and no record in it counts.
pub(crate) const UNKNOWN: Sequence = Sequence::MAX;

const _: () = assert!(REGIONS_PER_PAGE == 504);

/// How many regions an area of `bytes` has room for.
pub(crate) const fn regions_max(bytes: u64) -> u64 {
    bytes / SLOTS / PAGE_BYTES * REGIONS_PER_PAGE as u64
}

/// Do the two regions lie in one page, so that one note can cover both?
pub(crate) const fn same_page(one: u32, other: u32) -> bool {
    one as usize / REGIONS_PER_PAGE == other as usize / REGIONS_PER_PAGE
}

/// How a note ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    /// The first of the noted regions.
    pub region: u32,
    pub sequence: Sequence,
    /// False if the device failed: the region's `opened_at` is unchanged, but after a crash it may be either.
    pub durable: bool,
}

/// A note under way.
#[derive(Debug)]
struct Note {
    regions: Range<u32>,
    sequence: Sequence,
    write: u64,
    script: Script,
}

/// The start of the store that reads and writes the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Pages of another epoch don't count.
    pub epoch: u64,
    /// The generation of the superblock that this start writes before anything else: higher than at any start before.
    pub generation: u64,
    /// Keys the MACs.
    pub secret: Secret,
}

/// The journal in memory: when each region was last opened.
#[derive(Debug)]
pub(crate) struct Journal {
    start: Start,
    slot_area_bytes: u64,
    opened_at: Vec<Sequence>,
    /// For each page, the number of its next write. The state in memory has the number before that; after a failed note
    /// no state has it.
    next_write: Vec<u64>,
    /// For each page, whether its last note was flushed since the start.
    flushed: Vec<bool>,
    damaged_pages: u32,
    note: Option<Note>,
}

impl Journal {
    /// The journal of a new store in an area of `bytes`: no region was ever opened. See [`Self::initial_writes`].
    pub(crate) fn new(regions: u32, bytes: u64, start: Start) -> Self {
        let room = regions_max(bytes);
        assert!(
            u64::from(regions) <= room,
            "{regions} regions in a journal for {room}"
        );
        let pages = (regions as usize).div_ceil(REGIONS_PER_PAGE);
        Self {
            start,
            slot_area_bytes: bytes / SLOTS / PAGE_BYTES * PAGE_BYTES,
            opened_at: vec![0; regions as usize],
            next_write: vec![1; pages],
            // The initial writes are flushed before anything is noted.
            flushed: vec![true; pages],
            damaged_pages: 0,
            note: None,
        }
    }

    /// Reads the journal from its area, `bytes` long. A page that was not read, or is not whole in any slot, makes its regions
    /// [`UNKNOWN`].
    pub(crate) fn read(area: &[u8], regions: u32, bytes: u64, start: Start) -> Self {
        let mut journal = Self::new(regions, bytes, start);
        journal.flushed.fill(false);
        let mut generation_found = 0;
        for page in 0..journal.next_write.len() {
            let slots = (0..SLOTS).filter_map(|slot| journal.whole_slot(area, slot, page));
            let newest = slots.max_by_key(|&(age, _)| age);
            let range = journal.regions_of(page);
            let opened_at = &mut journal.opened_at[range];
            if let Some(((generation, write), entries)) = newest {
                generation_found = generation.max(generation_found);
                for (opened_at, entry) in
                    opened_at.iter_mut().zip(entries.chunks_exact(ENTRY_BYTES))
                {
                    let mut number = [0; ENTRY_BYTES];
                    number.copy_from_slice(entry);
                    *opened_at = Sequence::from_le_bytes(number);
                }
                journal.next_write[page] = write.saturating_add(1);
            } else {
                opened_at.fill(UNKNOWN);
                journal.damaged_pages += 1;
            }
        }
        // This should not happen; but if the superblock was set back, later notes must still count.
        journal.start.generation = start.generation.max(generation_found.saturating_add(1));
        journal
    }

    /// The page in one slot, if it is whole: (generation, write number) and entries.
    fn whole_slot<'a>(
        &self,
        area: &'a [u8],
        slot: u64,
        page: usize,
    ) -> Option<((u64, u64), &'a [u8])> {
        let at = usize::try_from(self.slot_at(slot, page)).ok()?;
        let bytes = area.get(at..at.checked_add(PAGE)?)?;
        let (head, entries) = bytes.split_at(field::BYTES);
        let ours = field::MAGIC.of(head) == MAGIC
            && field::VERSION.u32(head) == VERSION
            && field::EPOCH.u64(head) == self.start.epoch
            && field::PAGE.u32(head) as usize == page
            && field::REGIONS.u32(head) as usize == self.regions_of(page).len()
            && field::CHECKSUM.u64(head) == XxHash3_64::oneshot(entries)
            && field::MAC.of(head) == self.start.secret.mac(&head[..field::MAC.at]);
        ours.then(|| {
            let age = (field::GENERATION.u64(head), field::WRITE.u64(head));
            (age, entries)
        })
    }

    /// The writes of a new store, before a flush.
    pub(crate) fn initial_writes(&self) -> Vec<(u64, Bytes)> {
        let pages: Vec<usize> = (0..self.next_write.len()).collect();
        let mut writes = Vec::new();
        for run in pages.chunks(INITIAL_WRITE_BYTES / PAGE) {
            let mut bytes = aligned(run.len() * PAGE);
            for (&page, place) in run.iter().zip(bytes.chunks_exact_mut(PAGE)) {
                self.encode_page(page, 0, place);
            }
            let bytes = bytes.freeze();
            for half in 0..2 {
                writes.push((self.place(half, 0, run[0]), bytes.clone()));
            }
        }
        writes
    }

    /// Records of the region count only if their sequence is higher. 0: never opened.
    pub(crate) fn opened_at(&self, region: u32) -> Sequence {
        self.opened_at[region as usize]
    }

    #[cfg(test)]
    /// Pages found unreadable; their regions were unknown at the time.
    pub(crate) fn damaged_pages(&self) -> u32 {
        self.damaged_pages
    }

    /// No note is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.note.is_none()
    }

    /// Begins to note that these regions, all of one page, were opened at `sequence`. No other note may be under way.
    pub(crate) fn begin_note(&mut self, regions: Range<u32>, sequence: Sequence) {
        assert!(self.note.is_none(), "one note at a time");
        assert!(sequence < UNKNOWN, "a sequence that stands for none");
        assert!(regions.start < regions.end, "a note of no region");
        assert!(
            same_page(regions.start, regions.end - 1),
            "a note in two pages"
        );
        let page = regions.start as usize / REGIONS_PER_PAGE;
        let write = self.next_write[page];
        let mut bytes = aligned(PAGE);
        let noted = &mut self.opened_at[regions.start as usize..regions.end as usize];
        let before = noted.to_vec();
        noted.fill(sequence);
        self.encode_page(page, write, &mut bytes);
        // Takes effect only when it is durable.
        self.opened_at[regions.start as usize..regions.end as usize].copy_from_slice(&before);
        let bytes = bytes.freeze();
        let [first, second] = [0, 1].map(|half| (self.place(half, write, page), bytes.clone()));
        let script = if self.flushed[page] {
            Script::write_and_flush([first, second])
        } else {
            let each = [first, second].map(|write| [Stage::Writes([write].into()), Stage::Flush]);
            Script::new(each.into_iter().flatten())
        };
        self.note = Some(Note {
            regions,
            sequence,
            write,
            script,
        });
    }

    /// The next step of the note, to be reported by [`Self::step_done`]; `None` while it waits for others. Offsets count from the start
    /// of the area.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.note.as_mut()?.script.next()
    }

    /// A step was carried out, or failed. Tells how the note ended, if it did.
    pub(crate) fn step_done(&mut self, ok: bool) -> Option<Noted> {
        let ok = self.note.as_mut()?.script.done(ok)?;
        let note = self.note.take()?;
        let page = note.regions.start as usize / REGIONS_PER_PAGE;
        if ok {
            self.opened_at[note.regions.start as usize..note.regions.end as usize]
                .fill(note.sequence);
            self.next_write[page] = note.write + 1;
            self.flushed[page] = true;
        } else {
            // The slots of the other parity hold everything noted: do not touch them.
            self.next_write[page] = note.write + 2;
        }
        Some(Noted {
            region: note.regions.start,
            sequence: note.sequence,
            durable: ok,
        })
    }

    fn regions_of(&self, page: usize) -> std::ops::Range<usize> {
        let first = page * REGIONS_PER_PAGE;
        first..self.opened_at.len().min(first + REGIONS_PER_PAGE)
    }

    fn place(&self, half: u64, write: u64, page: usize) -> u64 {
        self.slot_at(half * 2 + write % 2, page)
    }

    fn slot_at(&self, slot: u64, page: usize) -> u64 {
        slot * self.slot_area_bytes + page as u64 * PAGE_BYTES
    }

    fn encode_page(&self, page: usize, write: u64, bytes: &mut [u8]) {
        let range = self.regions_of(page);
        let (head, entries) = bytes.split_at_mut(field::BYTES);
        field::MAGIC.put(head, &MAGIC);
        field::VERSION.put_u32(head, VERSION);
        field::EPOCH.put_u64(head, self.start.epoch);
        field::GENERATION.put_u64(head, self.start.generation);
        field::WRITE.put_u64(head, write);
        field::PAGE.put_u32(head, page as u32);
        field::REGIONS.put_u32(head, range.len() as u32);
        for (place, opened_at) in entries
            .chunks_exact_mut(ENTRY_BYTES)
            .zip(&self.opened_at[range])
        {
            place.copy_from_slice(&opened_at.to_le_bytes());
        }
        field::CHECKSUM.put_u64(head, XxHash3_64::oneshot(entries));
        let mac = self.start.secret.mac(&head[..field::MAC.at]);
        field::MAC.put(head, &mac);
    }
}

#[cfg(test)]
mod tests;
