//! The purges of a cluster, kept for members that are away.
//!
//! Entries are appended to *segments*. The first bytes of a segment say how far the journal had heard of each origin before it
//! (`stamp`), so the oldest segments can be dropped for room or age: a member that needs what they held has *lost* it, and is told so.
//!
//! ```text
//! segment   "LOLIGOP1" | journal u64 | term u32 | number u64 | vector | checksum u64 | entries
//! entry     length u32 (of all behind the checksum) | checksum u64 | origin u64 | stamp u64 | before u64 | unix_s u64 | change
//! ```
//!
//! Checksums are XXH3-64, those of entries seeded with journal and number of the segment, so that bytes of another one do not count.
//!
//! A start reads all segments and begins a new one with the next term, durably: stamps are never given twice. The tail of the last segment may be
//! torn by a crash; it is cut at the first entry that is not whole. What it held was acknowledged only if it was synchronised, or
//! if all members had it. An earlier segment that is damaged is dropped with all before it.
//!
//! If a write fails, all segments are given up: who needs any of them has lost it. So nothing is missing without a word.
//!
//! Not known here: members, what a change says, the clock.
//! Limits: `bytes_max` and one entry more; [`SEGMENTS_MAX`]; [`AGE_MAX_S`].

use std::{collections::VecDeque, io};

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::{
    change::CHANGE_BYTES_MAX,
    medium::Medium,
    stamp::{Origin, Stamp, Vector},
};

/// Segments at most.
const SEGMENTS_MAX: usize = 256;
/// A segment is ended when it has this share of the room.
const SEGMENTS_OF_ROOM: u64 = 16;
/// Entries older than this are dropped, a segment at a time, seconds.
pub const AGE_MAX_S: u64 = 7 * 86_400;
/// Bytes that are read at once: more than the longest entry.
const CHUNK_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"LOLIGOP1";
/// Length and checksum.
const FRAME_BYTES: usize = 12;
/// Origin, stamp, stamp before, time.
const FIXED_BYTES: usize = 32;

const _: () = assert!(CHANGE_BYTES_MAX + FRAME_BYTES + FIXED_BYTES < CHUNK_BYTES);

/// One purge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it comes from.
    pub origin: Origin,
    /// Its number there.
    pub stamp: Stamp,
    /// The number of the one before it.
    pub before: Stamp,
    /// When, seconds since 1970 by the clock of the origin.
    pub unix_s: u64,
    /// What (`change`).
    pub change: Bytes,
}

impl Entry {
    /// Everything but length and checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + self.change.len());
        for number in [self.origin.0, self.stamp.0, self.before.0, self.unix_s] {
            out.extend(number.to_le_bytes());
        }
        out.extend(&self.change);
        out
    }

    /// What was encoded.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let (fixed, change) = bytes.split_at_checked(FIXED_BYTES)?;
        let number = |at: usize| fixed[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
        (change.len() <= CHANGE_BYTES_MAX).then_some(())?;
        Some(Entry {
            origin: Origin(number(0)?),
            stamp: Stamp(number(8)?),
            before: Stamp(number(16)?),
            unix_s: number(24)?,
            change: Bytes::copy_from_slice(change),
        })
    }
}

/// How large and old a journal may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all segments.
    pub bytes_max: u64,
    /// Age of an entry, seconds.
    pub age_max_s: u64,
}

/// What a start found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// No journal: nothing is known of purges before now.
    Fresh,
    /// A journal of so many entries.
    Kept {
        /// Entries that can be told.
        entries: u64,
        /// Bytes were cut or dropped.
        is_damaged: bool,
    },
}

/// Where the reading of a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    segment: u64,
    offset: u64,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    /// Where its entries begin.
    entries_at: u64,
    /// What had been heard before it.
    begins_with: Vector,
    newest_unix_s: u64,
}

/// The journal of this member.
#[derive(Debug)]
pub struct Journal {
    medium: Medium,
    limits: Limits,
    own: Origin,
    term: u32,
    heard: Vector,
    segments: VecDeque<Segment>,
    next_number: u64,
}

impl Journal {
    /// Opens what is there, or begins a new one with the name `fresh`. `now_s`: seconds since 1970.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn open(
        medium: Medium,
        limits: Limits,
        fresh: Origin,
        now_s: u64,
    ) -> io::Result<(Journal, Opening)> {
        let mut journal = Journal {
            medium,
            limits,
            own: fresh,
            term: 0,
            heard: Vector::default(),
            segments: VecDeque::new(),
            next_number: 1,
        };
        let mut entries = 0;
        let mut is_damaged = false;
        let mut is_fresh = true;
        if journal.medium.is_doubtful()? {
            for number in journal.medium.list()? {
                journal.next_number = number + 1;
                journal.medium.remove(number)?;
            }
        }
        let numbers = journal.medium.list()?;
        for &number in &numbers {
            let is_last = Some(&number) == numbers.last();
            journal.next_number = journal.next_number.max(number + 1);
            let Some((header, found)) = journal.read_header(number)? else {
                is_damaged = true;
                if !is_last {
                    journal.give_up()?;
                    entries = 0;
                }
                journal.medium.remove(number)?;
                continue;
            };
            if !is_fresh && header.own != journal.own {
                // Of another journal: an operator has mixed two.
                journal.give_up()?;
                entries = 0;
                is_damaged = true;
            }
            (journal.own, is_fresh) = (header.own, false);
            journal.term = journal.term.max(header.term);
            let (count, is_torn) = journal.take_up(found)?;
            entries += count;
            is_damaged |= is_torn;
            if is_torn && is_last {
                journal.cut_torn_tail()?;
            } else if is_torn {
                journal.give_up()?;
                entries = 0;
            }
        }
        if is_fresh {
            journal.medium.set_doubtful(true)?;
        }
        journal.term += 1;
        let empty = journal.take_empty_tail();
        journal.begin_segment(now_s)?;
        // Not earlier: they say how many starts there were.
        for number in empty {
            journal.medium.remove(number)?;
        }
        let opening = match is_fresh {
            true => Opening::Fresh,
            false => Opening::Kept {
                entries,
                is_damaged,
            },
        };
        Ok((journal, opening))
    }

    /// What was stored before a fresh journal has been dropped, durably. Until this is called, the next start is a fresh one, too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn trust(&mut self) -> io::Result<()> {
        self.medium.set_doubtful(false)
    }

    /// Its name.
    pub fn own(&self) -> Origin {
        self.own
    }

    /// Before the first stamp of this start.
    pub fn first_stamp(&self) -> Stamp {
        Stamp::of_term(self.term)
    }

    /// All that it has heard of.
    pub fn heard(&self) -> &Vector {
        &self.heard
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Appends an entry. It survives the end of this process; the end of the machine after [`Self::sync`].
    ///
    /// # Errors
    /// It cannot be written; all segments were given up.
    pub fn append(&mut self, entry: &Entry, now_s: u64) -> io::Result<()> {
        let done = self.try_append(entry, now_s);
        self.heard.hear(entry.origin, entry.stamp, entry.unix_s);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// Hears of all in `other` without having its entries: what came before is lost for those who need it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn adopt(&mut self, other: &Vector, now_s: u64) -> io::Result<()> {
        self.heard.hear_all(other);
        let given_up = self.give_up();
        self.begin_segment(now_s).and(given_up)
    }

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// It cannot; all segments were given up.
    pub fn sync(&mut self) -> io::Result<()> {
        let Some(segment) = self.segments.back() else {
            return Err(io::Error::other("its last write failed"));
        };
        let done = self.medium.sync(segment.number);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// Where to begin reading for a member that has heard so much; `None`: some of what it lacks is not here any more.
    pub fn position_for(&self, heard: &Vector) -> Option<Position> {
        let fits = |segment: &&Segment| heard.covers(&segment.begins_with);
        let segment = self.segments.iter().rfind(fits);
        if segment.is_none() && !heard.covers(&self.heard) {
            return None;
        }
        let segment = segment.or(self.segments.back());
        Some(segment.map_or(
            Position {
                segment: 0,
                offset: 0,
            },
            |segment| Position {
                segment: segment.number,
                offset: segment.entries_at,
            },
        ))
    }

    /// Some entries from there, and where the next are; none at the end. `None`: they are not here any more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, from: Position) -> io::Result<Option<(Vec<Entry>, Position)>> {
        let mut from = from;
        if self.segments.is_empty() {
            // Nothing was there when it was given, or all was given up since.
            return Ok((from.segment == 0).then_some((Vec::new(), from)));
        }
        loop {
            let mut rest = self.segments.iter().skip_while(|s| s.number < from.segment);
            let Some(segment) = rest.next().filter(|s| s.number == from.segment) else {
                return Ok(None);
            };
            if from.offset < segment.bytes {
                let bytes = self.medium.read(segment.number, from.offset, CHUNK_BYTES)?;
                let (entries, used) = self.parse(segment.number, &bytes);
                if used == 0 {
                    return Ok(None);
                }
                from.offset += used as u64;
                return Ok(Some((entries, from)));
            }
            let Some(next) = rest.next() else {
                return Ok(Some((Vec::new(), from)));
            };
            from = Position {
                segment: next.number,
                offset: next.entries_at,
            };
        }
    }

    fn try_append(&mut self, entry: &Entry, now_s: u64) -> io::Result<()> {
        let body = entry.encode();
        let is_full = |segment: &Segment| {
            segment.bytes > segment.entries_at
                && segment.bytes + body.len() as u64 > self.limits.bytes_max / SEGMENTS_OF_ROOM
        };
        if self.segments.back().is_none_or(is_full) {
            self.begin_segment(now_s)?;
        }
        let (seed, number) = match self.segments.back() {
            Some(segment) => (self.seed(segment.number), segment.number),
            None => return Err(io::Error::other("there is no segment")),
        };
        let mut frame = Vec::with_capacity(FRAME_BYTES + body.len());
        frame.extend((body.len() as u32).to_le_bytes());
        frame.extend(XxHash3_64::oneshot_with_seed(seed, &body).to_le_bytes());
        frame.extend(body);
        self.medium.append(number, &frame)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes += frame.len() as u64;
            segment.newest_unix_s = segment.newest_unix_s.max(now_s);
        }
        Ok(())
    }

    /// Begins a segment, durably, and drops the oldest ones that have no room or are too old.
    fn begin_segment(&mut self, now_s: u64) -> io::Result<()> {
        if let Some(last) = self.segments.back() {
            self.medium.sync(last.number)?;
        }
        let number = self.next_number;
        self.next_number += 1;
        let mut header = Vec::from(MAGIC);
        header.extend(self.own.0.to_le_bytes());
        header.extend(self.term.to_le_bytes());
        header.extend(number.to_le_bytes());
        self.heard.encode(&mut header);
        header.extend(XxHash3_64::oneshot(&header).to_le_bytes());
        self.medium.create(number, &header)?;
        let bytes = header.len() as u64;
        self.segments.push_back(Segment {
            number,
            bytes,
            entries_at: bytes,
            begins_with: self.heard.clone(),
            newest_unix_s: now_s,
        });
        let too_old = now_s.saturating_sub(self.limits.age_max_s);
        while self.segments.len() > 1
            && (self.bytes() > self.limits.bytes_max
                || self.segments.len() > SEGMENTS_MAX
                || self.segments[0].newest_unix_s < too_old)
        {
            self.medium.remove(self.segments[0].number)?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Drops all segments: who needs any of them has lost it.
    fn give_up(&mut self) -> io::Result<()> {
        let mut done = Ok(());
        for segment in std::mem::take(&mut self.segments) {
            done = done.and(self.medium.remove(segment.number));
        }
        done
    }

    /// Takes off the last segments with nothing in them, so that starts that follow each other leave no files.
    fn take_empty_tail(&mut self) -> Vec<u64> {
        let is_empty = |segment: &Segment| segment.bytes == segment.entries_at;
        let mut numbers = Vec::new();
        while self.segments.back().is_some_and(is_empty) {
            numbers.extend(self.segments.pop_back().map(|segment| segment.number));
        }
        numbers
    }

    /// Cuts off what is not whole: the segment will not be the last, and then this would be damage.
    fn cut_torn_tail(&mut self) -> io::Result<()> {
        match self.segments.back() {
            Some(last) => self.medium.cut(last.number, last.bytes),
            None => Ok(()),
        }
    }

    fn seed(&self, number: u64) -> u64 {
        self.own.0 ^ number.rotate_left(32)
    }

    /// Takes up a segment that was found: its entries, as far as they are whole.
    fn take_up(&mut self, mut segment: Segment) -> io::Result<(u64, bool)> {
        self.heard.hear_all(&segment.begins_with);
        let (mut at, mut count) = (segment.entries_at, 0);
        while at < segment.bytes {
            let bytes = self.medium.read(segment.number, at, CHUNK_BYTES)?;
            let (entries, used) = self.parse(segment.number, &bytes);
            if used == 0 {
                break;
            }
            at += used as u64;
            count += entries.len() as u64;
            for entry in entries {
                segment.newest_unix_s = segment.newest_unix_s.max(entry.unix_s);
                self.heard.hear(entry.origin, entry.stamp, entry.unix_s);
            }
        }
        let is_torn = at < segment.bytes;
        segment.bytes = at;
        self.segments.push_back(segment);
        Ok((count, is_torn))
    }

    /// The whole entries at the beginning of these bytes, and how many bytes they take.
    fn parse(&self, number: u64, bytes: &[u8]) -> (Vec<Entry>, usize) {
        let seed = self.seed(number);
        let (mut entries, mut rest) = (Vec::new(), bytes);
        while let Some((entry, behind)) = first_entry(seed, rest) {
            entries.push(entry);
            rest = behind;
        }
        (entries, bytes.len() - rest.len())
    }

    fn read_header(&self, number: u64) -> io::Result<Option<(Header, Segment)>> {
        let bytes = self.medium.read(number, 0, CHUNK_BYTES)?;
        let Some((header, entries_at)) = Header::decode(&bytes, number) else {
            return Ok(None);
        };
        let segment = Segment {
            number,
            bytes: self.medium.bytes(number)?,
            entries_at: entries_at as u64,
            begins_with: header.begins_with.clone(),
            newest_unix_s: 0,
        };
        Ok(Some((header, segment)))
    }
}

struct Header {
    own: Origin,
    term: u32,
    begins_with: Vector,
}

impl Header {
    fn decode(bytes: &[u8], number: u64) -> Option<(Header, usize)> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (own, rest) = rest.split_first_chunk()?;
        let (term, rest) = rest.split_first_chunk()?;
        let (found, rest) = rest.split_first_chunk()?;
        let (begins_with, rest) = Vector::decode(rest)?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let entries_at = bytes.len() - rest.len();
        let expected = XxHash3_64::oneshot(&bytes[..entries_at - 8]);
        if u64::from_le_bytes(*checksum) != expected || u64::from_le_bytes(*found) != number {
            return None;
        }
        let header = Header {
            own: Origin(u64::from_le_bytes(*own)),
            term: u32::from_le_bytes(*term),
            begins_with,
        };
        Some((header, entries_at))
    }
}

fn first_entry(seed: u64, bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let is_whole = XxHash3_64::oneshot_with_seed(seed, body) == u64::from_le_bytes(*checksum);
    Some((Entry::decode(body).filter(|_| is_whole)?, rest))
}

#[cfg(test)]
mod tests;
