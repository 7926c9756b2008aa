//! The purges of a cluster, kept for members that are away.
//!
//! Entries are appended to *segments*. The first bytes of a segment say how far the journal had heard of each origin before it
//! (`stamp`), so the oldest segments can be dropped for age: a member that needs what they held has *lost* it, and is told so.
//!
//! Where room is wanted, two segments that follow each other become a *summary* (`summary`): each name once. A summary says how far had been heard
//! before it, and how far behind it. Where that makes no room, because the names differ, the oldest are made coarse: directories
//! stand for names. Only what does not fit then is dropped.
//!
//! ```text
//! segment   "LOLIGOP1" | journal u64 | term u32 | number u64 | vector | checksum u64 | entries
//! summary   "LOLIGOS1" | journal u64 | term u32 | number u64 | vector before | vector behind | checksum u64 | changes
//! entry     length u32 (of all behind the checksum) | checksum u64 | origin u64 | stamp u64 | before u64 | unix_s u64 | change
//! change    length u32 | checksum u64 | change
//! ```
//!
//! Checksums are XXH3-64, those of entries and changes seeded with journal, kind and number of the segment, so that bytes of another one do
//! not count.
//!
//! A start reads all segments and begins a new one with the next term, durably: stamps are never given twice. The tail of the last segment may be
//! torn by a crash; it is cut at the first entry that is not whole. What it held was acknowledged only if it was synchronised, or
//! if all members had it. An earlier segment that is damaged is dropped with all before it; so is a summary, which is written beside what it
//! replaces and takes the place of the last of them.
//!
//! What is told by a summary is kept beside the segments as a *draft* of the member that tells it, until that member says how far it goes. Then
//! all there is becomes one summary with it.
//!
//! If a write fails, all segments are given up: who needs any of them has lost it. So nothing is missing without a word.
//!
//! Not known here: members, what a change says, the clock.
//! Limits: `bytes_max` and one entry more, and as much for drafts of each member and while a summary is made; [`SEGMENTS_MAX`]; [`AGE_MAX_S`].
//! In memory is what two segments say: a sixteenth of the room each, and [`SEGMENT_BYTES_MAX`] at most.

mod summary;

use std::{
    collections::{HashMap, VecDeque},
    io,
    ops::Range,
};

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::{
    change::CHANGE_BYTES_MAX,
    medium::{Draft, Medium},
    stamp::{Origin, Stamp, Vector},
};
use summary::{Coarse, Crowds, Items, Packing, Source};

/// Segments at most.
const SEGMENTS_MAX: usize = 256;
/// A segment is ended when it has this share of the room.
const SEGMENTS_OF_ROOM: u64 = 16;
/// So many full segments stay as they are where there is room: a member that was away for a moment is told what it has missed, and no more.
const NEWEST_EXACT: usize = 2;
/// Or so many bytes: what a segment says is in memory when it is summarised.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Summaries whose names differ are joined until they have this share of the room.
const STRETCHES_OF_ROOM: u64 = 4;
/// A summary of two that leaves more than so many of eight items shows that the names differ.
const EIGHTHS_MAX: u64 = 7;
/// Entries older than this are dropped, a segment at a time, seconds.
pub const AGE_MAX_S: u64 = 7 * 86_400;
/// Bytes that are read at once: more than the longest entry.
const CHUNK_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"LOLIGOP1";
const MAGIC_OF_SUMMARY: &[u8; 8] = b"LOLIGOS1";
/// The draft of a summary that is made here; others have the numbers of members.
const OWN_DRAFT: u64 = u64::MAX;
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

/// What a journal says to a member that lacks some of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A purge.
    Entry(Entry),
    /// A change out of a summary: nothing is heard of it before the end of the summary.
    Also(Bytes),
    /// The end of a summary: so far was told.
    Upto(Vector),
}

/// Where the reading of a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Of the segment; 0: of none.
    id: u64,
    offset: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Entries,
    Summary(Summary),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Summary {
    /// What has been heard behind it.
    upto: Vector,
    /// It had about as many names as what it is made of.
    names_differ: bool,
    /// Directories stand for names.
    is_coarse: bool,
}

#[derive(Debug)]
struct Segment {
    /// In this process; never given twice, other than a number.
    id: u64,
    number: u64,
    kind: Kind,
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
    last_id: u64,
    /// What members tell by summaries; `None`: it is not whole.
    drafts: HashMap<u64, Option<Draft>>,
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
            last_id: 0,
            drafts: HashMap::new(),
        };
        journal.medium.remove_drafts()?;
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
            let is_summary = found.kind != Kind::Entries;
            let (count, is_torn) = journal.take_up(found)?;
            entries += count;
            is_damaged |= is_torn;
            if is_torn && is_last && !is_summary {
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
        Some(segment.map_or(Position { id: 0, offset: 0 }, Segment::first))
    }

    /// Some lines from there, and where the next are; none at the end. `None`: they are not here any more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, from: Position) -> io::Result<Option<(Vec<Line>, Position)>> {
        let mut from = from;
        if self.segments.is_empty() {
            // Nothing was there when it was given, or all was given up since.
            return Ok((from.id == 0).then_some((Vec::new(), from)));
        }
        loop {
            let mut rest = self.segments.iter().skip_while(|s| s.id != from.id);
            let Some(segment) = rest.next() else {
                return Ok(None);
            };
            if from.offset < segment.bytes {
                let bytes = (self.medium).read(segment.number, from.offset, CHUNK_BYTES)?;
                let (lines, used) = self.parse(segment, &bytes);
                if used == 0 {
                    return Ok(None);
                }
                from.offset += used as u64;
                return Ok(Some((lines, from)));
            }
            let Some(next) = rest.next() else {
                return Ok(Some((Vec::new(), from)));
            };
            from = next.first();
            if let Kind::Summary(Summary { upto, .. }) = &segment.kind {
                return Ok(Some((vec![Line::Upto(upto.clone())], from)));
            }
        }
    }

    /// A member tells this by a summary. It is not heard before [`Self::upto`]. The first that it tells since it began to tell takes the place of
    /// what it has told without coming to the end.
    ///
    /// # Errors
    /// It cannot be written, or is longer than a journal; the member's draft is not whole any more.
    pub fn also(&mut self, member: u64, change: &[u8], is_first: bool) -> io::Result<()> {
        if is_first {
            self.drafts.remove(&member);
        }
        let mut draft = match self.drafts.remove(&member) {
            Some(draft) => draft,
            None => match self.medium.draft(member) {
                Ok(draft) => Some(draft),
                Err(error) => {
                    self.drafts.insert(member, None);
                    return Err(error);
                }
            },
        };
        // Its seed is that of no segment.
        let frame = framed(self.own.0, change);
        let done = match &mut draft {
            Some(draft) if draft.bytes() > self.limits.bytes_max => {
                Err(io::Error::other("what a member tells is too long"))
            }
            Some(draft) => draft.write(&frame),
            None => Ok(()),
        };
        self.drafts.insert(member, draft.filter(|_| done.is_ok()));
        done
    }

    /// A member has told all of a summary. Hears of all in `heard`; what was told is in the journal from now on.
    ///
    /// # Errors
    /// It cannot be read or written; all segments were given up.
    pub fn upto(&mut self, member: u64, heard: &Vector, now_s: u64) -> io::Result<()> {
        let draft = self.drafts.remove(&member);
        if self.heard.covers(heard) {
            return Ok(());
        }
        let draft = match draft {
            Some(None) => return self.adopt(heard, now_s),
            draft => draft.flatten(),
        };
        let done = self.try_upto(draft, heard, now_s);
        self.heard.hear_all(heard);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// All there is becomes one summary, with the draft: whoever lacks anything is told that, too.
    fn try_upto(&mut self, draft: Option<Draft>, heard: &Vector, now_s: u64) -> io::Result<()> {
        if !self.segments.is_empty() {
            self.begin_segment(now_s)?;
        }
        while self.segments.len() > 2 {
            let full = self.segments.len() - 1;
            let at = self.cheapest_pair(full, |_, _| true).unwrap_or(0);
            self.summarise(at..at + 2, None)?;
        }
        let mut upto = self.heard.clone();
        upto.hear_all(heard);
        self.summarise_with(0..self.segments.len(), draft, upto, now_s)?;
        self.heard.hear_all(heard);
        self.begin_segment(now_s)
    }

    fn try_append(&mut self, entry: &Entry, now_s: u64) -> io::Result<()> {
        let body = entry.encode();
        let is_full = |segment: &Segment| {
            let room = (self.limits.bytes_max / SEGMENTS_OF_ROOM).min(SEGMENT_BYTES_MAX);
            segment.bytes > segment.entries_at && segment.bytes + body.len() as u64 > room
        };
        if self.segments.back().is_none_or(is_full) {
            self.begin_segment(now_s)?;
        }
        let (seed, number) = match self.segments.back() {
            Some(segment) => (self.seed(segment), segment.number),
            None => return Err(io::Error::other("there is no segment")),
        };
        let frame = framed(seed, &body);
        self.medium.append(number, &frame)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes += frame.len() as u64;
            segment.newest_unix_s = segment.newest_unix_s.max(now_s);
        }
        Ok(())
    }

    /// Begins a segment, durably, and makes room.
    fn begin_segment(&mut self, now_s: u64) -> io::Result<()> {
        if let Some(last) = self.segments.back() {
            self.medium.sync(last.number)?;
        }
        let number = self.next_number;
        self.next_number += 1;
        let header = self.header(number, &self.heard, None);
        self.medium.create(number, &header)?;
        let bytes = header.len() as u64;
        let segment = Segment {
            id: self.next_id(),
            number,
            kind: Kind::Entries,
            bytes,
            entries_at: bytes,
            begins_with: self.heard.clone(),
            newest_unix_s: now_s,
        };
        self.segments.push_back(segment);
        self.make_room(now_s)
    }

    fn header(&self, number: u64, begins_with: &Vector, upto: Option<&Vector>) -> Vec<u8> {
        let mut header = Vec::from(match upto {
            None => MAGIC,
            Some(_) => MAGIC_OF_SUMMARY,
        });
        header.extend(self.own.0.to_le_bytes());
        header.extend(self.term.to_le_bytes());
        header.extend(number.to_le_bytes());
        begins_with.encode(&mut header);
        if let Some(upto) = upto {
            upto.encode(&mut header);
        }
        header.extend(XxHash3_64::oneshot(&header).to_le_bytes());
        header
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Drops what is too old, and summarises until the rest has room: first where names are the same, then the oldest coarsely. What cannot be
    /// summarised, or has no room then, is dropped.
    fn make_room(&mut self, now_s: u64) -> io::Result<()> {
        let too_old = now_s.saturating_sub(self.limits.age_max_s);
        while self.segments.len() > 1 && self.segments[0].newest_unix_s < too_old {
            self.drop_oldest()?;
        }
        while self.segments.len() > 1
            && (self.bytes() > self.limits.bytes_max || self.segments.len() > SEGMENTS_MAX)
        {
            let full = self.segments.len() - 1;
            let older = full.saturating_sub(NEWEST_EXACT);
            let found = self.to_summarise(older).or_else(|| self.to_summarise(full));
            let Some((range, is_coarse)) = found else {
                self.drop_oldest()?;
                continue;
            };
            let done = match is_coarse {
                true => self.make_coarse(range.start),
                false => self.summarise(range.clone(), None),
            };
            if let Err(error) = done {
                tracing::warn!(%error, "purges that were kept for members that are away cannot be summarised, and are dropped");
                for _ in 0..range.end {
                    self.drop_oldest()?;
                }
            }
        }
        Ok(())
    }

    fn drop_oldest(&mut self) -> io::Result<()> {
        if let Some(oldest) = self.segments.front() {
            self.medium.remove(oldest.number)?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// What is to be summarised of the first so many segments, and whether coarsely.
    fn to_summarise(&self, count: usize) -> Option<(Range<usize>, bool)> {
        let are_too_many = self.segments.len() > SEGMENTS_MAX;
        let can_be_less = |one: &Segment, next: &Segment| {
            // Names that are purged in turn are the same only in long stretches.
            let is_short = one.bytes + next.bytes <= self.limits.bytes_max / STRETCHES_OF_ROOM;
            are_too_many
                || is_short
                || !(one.names_differ() && next.names_differ())
                || (one.is_coarse() && next.is_coarse())
        };
        let pair = self.cheapest_pair(count, can_be_less);
        let pair = pair.map(|at| (at..at + 2, false));
        let fine = || (0..count).find(|at| !self.segments[*at].is_coarse());
        pair.or_else(|| fine().map(|at| (at..at + 1, true)))
    }

    /// The first of two of the first so many segments that are small together; of about the same size, the oldest.
    fn cheapest_pair(
        &self,
        count: usize,
        is_meant: impl Fn(&Segment, &Segment) -> bool,
    ) -> Option<usize> {
        let firsts = 0..count.saturating_sub(1);
        let pairs = firsts.filter(|&at| is_meant(&self.segments[at], &self.segments[at + 1]));
        pairs.min_by_key(|&at| (self.segments[at].bytes + self.segments[at + 1].bytes).ilog2())
    }

    /// Makes one summary of these segments, which the last one is not among.
    fn summarise(&mut self, range: Range<usize>, coarse: Option<Coarse>) -> io::Result<()> {
        let upto = self.segments[range.end].begins_with.clone();
        let number = self.segments[range.end - 1].number;
        let newest = range.clone().map(|at| self.segments[at].newest_unix_s);
        let newest_unix_s = newest.max().unwrap_or_default();
        let made = Made {
            begins_with: self.segments[range.start].begins_with.clone(),
            upto,
            number,
            newest_unix_s,
        };
        self.write_summary(range, None, coarse, made)
    }

    /// The same of all segments, and a draft.
    fn summarise_with(
        &mut self,
        range: Range<usize>,
        draft: Option<Draft>,
        upto: Vector,
        now_s: u64,
    ) -> io::Result<()> {
        let begins_with = match self.segments.front() {
            Some(first) => first.begins_with.clone(),
            None => self.heard.clone(),
        };
        let number = match self.segments.back() {
            Some(last) => last.number,
            None => {
                self.next_number += 1;
                self.next_number - 1
            }
        };
        let made = Made {
            begins_with,
            upto,
            number,
            newest_unix_s: now_s,
        };
        self.write_summary(range, draft, None, made)
    }

    /// Makes directories stand for names in one segment.
    fn make_coarse(&mut self, at: usize) -> io::Result<()> {
        let mut count = 0;
        summary::merge(self.sources(at..at + 1, None)?, &mut |_, _| {
            count += 1;
            Ok(())
        })?;
        let mut crowds = Crowds::among(count);
        summary::merge(self.sources(at..at + 1, None)?, &mut |key, _| {
            crowds.push(key);
            Ok(())
        })?;
        let coarse = crowds.found();
        if !coarse.is_empty() {
            tracing::warn!(
                directories = coarse.count(),
                "more purges wait for members that are away than the journal has room for: directories are purged there in place of single names (journal-max)"
            );
        }
        self.summarise(at..at + 1, Some(coarse))
    }

    fn write_summary(
        &mut self,
        range: Range<usize>,
        from: Option<Draft>,
        coarse: Option<Coarse>,
        made: Made,
    ) -> io::Result<()> {
        let header = self.header(made.number, &made.begins_with, Some(&made.upto));
        let mut summary = Summary {
            upto: made.upto,
            names_differ: false,
            is_coarse: coarse.is_some(),
        };
        let seed = self.seed_of(made.number, true);
        let mut draft = self.medium.draft(OWN_DRAFT)?;
        draft.write(&header)?;
        let mut packing = Packing::default();
        let mut after = 0;
        let mut sources = self.sources(range.clone(), from.as_ref())?;
        let is_left_out = |key: &Vec<u8>| coarse.as_ref().is_some_and(|coarse| coarse.has(key));
        sources.extend(
            coarse
                .as_ref()
                .map(|coarse| Source::of_items(coarse.items())),
        );
        let before = summary::merge(sources, &mut |key, manner| {
            if is_left_out(key) {
                return Ok(());
            }
            after += 1;
            match packing.push(key, manner) {
                Some(change) => draft.write(&framed(seed, &change)),
                None => Ok(()),
            }
        })?;
        if let Some(change) = packing.take() {
            draft.write(&framed(seed, &change))?;
        }
        summary.names_differ = after * 8 > before * EIGHTHS_MAX;
        let segment = Segment {
            id: self.next_id(),
            number: made.number,
            kind: Kind::Summary(summary),
            bytes: draft.bytes(),
            entries_at: header.len() as u64,
            begins_with: made.begins_with,
            newest_unix_s: made.newest_unix_s,
        };
        self.medium.install(draft, made.number)?;
        let replaced: Vec<Segment> = self.segments.drain(range.clone()).collect();
        self.segments.insert(range.start, segment);
        for replaced in replaced.iter().filter(|it| it.number != made.number) {
            self.medium.remove(replaced.number)?;
        }
        Ok(())
    }

    /// What these segments and this draft say.
    fn sources<'a>(
        &'a self,
        range: Range<usize>,
        draft: Option<&'a Draft>,
    ) -> io::Result<Vec<Source<'a>>> {
        let mut sources = Vec::new();
        for segment in self.segments.range(range) {
            let mut chunks = self.chunks(segment);
            if segment.kind != Kind::Entries {
                let mut ahead = VecDeque::new();
                sources.push(Source::of_changes(Box::new(move || {
                    while ahead.is_empty() {
                        let Some(lines) = chunks()? else {
                            return Ok(None);
                        };
                        ahead.extend(lines.into_iter().filter_map(|line| match line {
                            Line::Also(change) => Some(change),
                            _ => None,
                        }));
                    }
                    Ok(ahead.pop_front())
                })));
                continue;
            }
            let mut items = Items::new();
            while let Some(lines) = chunks()? {
                for line in lines {
                    if let Line::Entry(entry) = line {
                        summary::collect(&entry.change, &mut items);
                    }
                }
            }
            sources.push(Source::of_items(items));
        }
        if let Some(draft) = draft {
            let (seed, mut at) = (self.own.0, 0);
            let mut ahead: VecDeque<Bytes> = VecDeque::new();
            sources.push(Source::of_changes(Box::new(move || {
                if ahead.is_empty() {
                    let bytes = draft.read(at, CHUNK_BYTES)?;
                    let mut rest = &bytes[..];
                    while let Some((change, behind)) = first_body(seed, rest) {
                        ahead.push_back(Bytes::copy_from_slice(change));
                        rest = behind;
                    }
                    at += (bytes.len() - rest.len()) as u64;
                    if ahead.is_empty() && at < draft.bytes() {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                Ok(ahead.pop_front())
            })));
        }
        Ok(sources)
    }

    /// The lines of a segment, some at a time.
    fn chunks<'a>(
        &'a self,
        segment: &'a Segment,
    ) -> impl FnMut() -> io::Result<Option<Vec<Line>>> + 'a {
        let mut at = segment.entries_at;
        move || {
            if at >= segment.bytes {
                return Ok(None);
            }
            let bytes = self.medium.read(segment.number, at, CHUNK_BYTES)?;
            let (lines, used) = self.parse(segment, &bytes);
            at += used as u64;
            match used {
                0 => Err(io::ErrorKind::InvalidData.into()),
                _ => Ok(Some(lines)),
            }
        }
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
        let is_empty = |segment: &Segment| {
            segment.bytes == segment.entries_at && segment.kind == Kind::Entries
        };
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

    fn seed(&self, segment: &Segment) -> u64 {
        self.seed_of(segment.number, segment.kind != Kind::Entries)
    }

    fn seed_of(&self, number: u64, is_summary: bool) -> u64 {
        self.own.0 ^ number.rotate_left(32) ^ u64::from(is_summary)
    }

    /// Takes up a segment that was found: its entries, as far as they are whole. How many, and whether something is missing; a summary that is
    /// not whole is not taken up.
    fn take_up(&mut self, mut segment: Segment) -> io::Result<(u64, bool)> {
        self.heard.hear_all(&segment.begins_with);
        let (mut at, mut count) = (segment.entries_at, 0);
        while at < segment.bytes {
            let bytes = self.medium.read(segment.number, at, CHUNK_BYTES)?;
            let (lines, used) = self.parse(&segment, &bytes);
            if used == 0 {
                break;
            }
            at += used as u64;
            count += lines.len() as u64;
            for line in lines {
                if let Line::Entry(entry) = line {
                    segment.newest_unix_s = segment.newest_unix_s.max(entry.unix_s);
                    self.heard.hear(entry.origin, entry.stamp, entry.unix_s);
                }
            }
        }
        let is_torn = at < segment.bytes;
        segment.bytes = at;
        if let Kind::Summary(summary) = &segment.kind {
            if is_torn {
                self.medium.remove(segment.number)?;
                return Ok((count, true));
            }
            self.heard.hear_all(&summary.upto);
            segment.newest_unix_s = summary.upto.newest_unix_s();
            // A crash came before they were removed.
            while let Some(before) = self.segments.back()
                && before.begins_with.covers(&segment.begins_with)
            {
                self.medium.remove(before.number)?;
                self.segments.pop_back();
            }
        }
        self.segments.push_back(segment);
        Ok((count, is_torn))
    }

    /// The whole lines at the beginning of these bytes of a segment, and how many bytes they take.
    fn parse(&self, segment: &Segment, bytes: &[u8]) -> (Vec<Line>, usize) {
        let seed = self.seed(segment);
        let (mut lines, mut rest) = (Vec::new(), bytes);
        while let Some((body, behind)) = first_body(seed, rest) {
            let line = match &segment.kind {
                Kind::Entries => Entry::decode(body).map(Line::Entry),
                Kind::Summary(_) => Some(Line::Also(Bytes::copy_from_slice(body))),
            };
            let Some(line) = line else { break };
            lines.push(line);
            rest = behind;
        }
        (lines, bytes.len() - rest.len())
    }

    fn read_header(&mut self, number: u64) -> io::Result<Option<(Header, Segment)>> {
        let bytes = self.medium.read(number, 0, CHUNK_BYTES)?;
        let Some((header, entries_at)) = Header::decode(&bytes, number) else {
            return Ok(None);
        };
        let segment = Segment {
            id: self.next_id(),
            number,
            kind: match header.upto.clone() {
                None => Kind::Entries,
                Some(upto) => Kind::Summary(Summary {
                    upto,
                    names_differ: false,
                    is_coarse: false,
                }),
            },
            bytes: self.medium.bytes(number)?,
            entries_at: entries_at as u64,
            begins_with: header.begins_with.clone(),
            newest_unix_s: 0,
        };
        Ok(Some((header, segment)))
    }
}

impl Segment {
    /// Where its lines begin.
    fn first(&self) -> Position {
        Position {
            id: self.id,
            offset: self.entries_at,
        }
    }

    fn is_coarse(&self) -> bool {
        matches!(&self.kind, Kind::Summary(summary) if summary.is_coarse)
    }

    fn names_differ(&self) -> bool {
        let differ = |summary: &Summary| summary.names_differ || summary.is_coarse;
        matches!(&self.kind, Kind::Summary(summary) if differ(summary))
    }
}

/// What a summary that is made covers, and its number.
struct Made {
    begins_with: Vector,
    upto: Vector,
    number: u64,
    newest_unix_s: u64,
}

struct Header {
    own: Origin,
    term: u32,
    begins_with: Vector,
    /// Of a summary.
    upto: Option<Vector>,
}

impl Header {
    fn decode(bytes: &[u8], number: u64) -> Option<(Header, usize)> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let is_summary = magic == MAGIC_OF_SUMMARY;
        if !is_summary && magic != MAGIC {
            return None;
        }
        let (own, rest) = rest.split_first_chunk()?;
        let (term, rest) = rest.split_first_chunk()?;
        let (found, rest) = rest.split_first_chunk()?;
        let (begins_with, mut rest) = Vector::decode(rest)?;
        let mut upto = None;
        if is_summary {
            let (vector, behind) = Vector::decode(rest)?;
            (upto, rest) = (Some(vector), behind);
        }
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
            upto,
        };
        Some((header, entries_at))
    }
}

/// With length and checksum.
fn framed(seed: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES + body.len());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(XxHash3_64::oneshot_with_seed(seed, body).to_le_bytes());
    frame.extend(body);
    frame
}

/// The first one in a frame, if it is whole, and what is behind it.
fn first_body(seed: u64, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let is_whole = XxHash3_64::oneshot_with_seed(seed, body) == u64::from_le_bytes(*checksum);
    is_whole.then_some((body, rest))
}

#[cfg(test)]
mod tests;
