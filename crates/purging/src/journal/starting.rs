//! Recovery of the segments of an earlier start.
//!
//! A start reads all segments and durably begins a new one with the next term, so that stamps are never reused.
//!
//! A crash may tear the end of the last segment, which is cut after its last whole entry. An entry that is cut off was acknowledged only if all
//! members had it, because otherwise it was flushed. A damaged earlier segment is dropped with all before it. So is a damaged summary: it was
//! flushed before it replaced a segment, so a crash cannot tear it.

use std::{
    collections::{HashMap, VecDeque},
    io,
};

use super::{
    super::{
        medium::Medium,
        stamp::{Origin, Vector},
    },
    Journal, Limits, Opening,
    lines::Line,
    segment::{CHUNK_BYTES, Header, Kind, Segment},
};

impl Journal {
    /// Opens the journal on this medium, or begins a new one with the name `fresh`. `now_s`: seconds since 1970.
    ///
    /// # Errors
    /// Reading or writing failed.
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
        if journal.medium.is_doubtful()? {
            for number in journal.medium.list()? {
                journal.next_number = number + 1;
                journal.medium.remove(number)?;
            }
        }
        let opening = journal.replay()?;
        if opening == Opening::Fresh {
            journal.medium.set_doubtful(true)?;
        }
        journal.term += 1;
        let empty = journal.take_empty_tail();
        journal.begin_segment(now_s)?;
        // Remove these only now: until then their headers record the number of starts.
        for number in empty {
            journal.medium.remove(number)?;
        }
        Ok((journal, opening))
    }

    /// Reads all segments, oldest first.
    fn replay(&mut self) -> io::Result<Opening> {
        let (mut entries, mut is_damaged, mut is_fresh) = (0, false, true);
        let numbers = self.medium.list()?;
        for &number in &numbers {
            let is_last = Some(&number) == numbers.last();
            self.next_number = self.next_number.max(number + 1);
            let Some((header, entries_at)) = self.read_header(number)? else {
                is_damaged = true;
                if !is_last {
                    self.give_up()?;
                    entries = 0;
                }
                self.medium.remove(number)?;
                continue;
            };
            if !is_fresh && header.own != self.own {
                // A segment of another journal: an operator has mixed two.
                self.give_up()?;
                entries = 0;
                is_damaged = true;
            }
            (self.own, is_fresh) = (header.own, false);
            self.term = self.term.max(header.term);
            let bytes = self.medium.bytes(number)?;
            let found = Segment::new(self.next_id(), header, entries_at, bytes);
            let can_be_torn = is_last && !found.is_summary();
            let (count, is_torn) = self.take_up(found)?;
            entries += count;
            is_damaged |= is_torn;
            if is_torn && can_be_torn {
                self.cut_torn_tail()?;
            } else if is_torn {
                self.give_up()?;
                entries = 0;
            }
        }
        Ok(match is_fresh {
            true => Opening::Fresh,
            false => Opening::Kept {
                entries,
                is_damaged,
            },
        })
    }

    /// The header of a segment, and its length; `None`: it is damaged.
    fn read_header(&self, number: u64) -> io::Result<Option<(Header, u64)>> {
        let bytes = self.medium.read(number, 0, CHUNK_BYTES)?;
        let found = Header::decode(&bytes).filter(|(header, _)| header.number == number);
        Ok(found.map(|(header, length)| (header, length as u64)))
    }

    /// Takes up the whole part of a segment; of a summary all or nothing. Returns the number of whole lines, and whether any is damaged.
    fn take_up(&mut self, mut segment: Segment) -> io::Result<(u64, bool)> {
        self.heard.hear_all(&segment.begins_with);
        let (mut at, mut count) = (segment.entries_at, 0);
        while at < segment.bytes {
            let (lines, used) = segment.lines(&self.medium, at)?;
            if used == 0 {
                break;
            }
            at += used;
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
            // A crash left the segments that this summary replaces; remove them.
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

    /// Cuts a torn tail off. The segment will not be the last any more, and a later start would take the tail for damage.
    fn cut_torn_tail(&mut self) -> io::Result<()> {
        match self.segments.back() {
            Some(last) => self.medium.cut(last.number, last.bytes),
            None => Ok(()),
        }
    }

    /// Forgets segments at the end that have no entries, so that repeated starts do not pile up files. Returns their numbers.
    fn take_empty_tail(&mut self) -> Vec<u64> {
        let is_empty =
            |segment: &Segment| segment.bytes == segment.entries_at && !segment.is_summary();
        let mut numbers = Vec::new();
        while self.segments.back().is_some_and(is_empty) {
            numbers.extend(self.segments.pop_back().map(|segment| segment.number));
        }
        numbers
    }
}
