//! The journal of a cluster's purges, kept for members that are away.
//!
//! Entries are appended to *segments*. A segment begins with the vector of all that the journal had heard before it (`stamp`). So the oldest
//! segments can be dropped for age: a member that needs one of their entries has *lost* it, and is told so. To save room, segments become
//! *summaries*, which contain each name once.
//!
//! | file | what it is about |
//! |---|---|
//! | `lines` | the contents of a journal: a purge, or a part of a summary |
//! | `segment` | the file format of segments |
//! | `starting` | recovery of the segments of an earlier start |
//! | `reading` | the lines that a member lacks |
//! | `condensing`, `summary` | which segments become a summary; the names in a summary |
//! | `drafts` | summaries received from other members |
//!
//! If a write fails, all segments are given up, and a member that needs any of them has lost it. So nothing goes missing silently.
//!
//! Not known here: members, the contents of a change, the clock.
//! Limits: `bytes_max` plus one entry; those of `drafts` and `condensing`; [`AGE_MAX_S`].

mod condensing;
mod drafts;
mod lines;
mod reading;
mod segment;
mod starting;
mod summary;

use std::{
    collections::{HashMap, VecDeque},
    io,
};

use super::{
    medium::{Draft, Medium},
    stamp::{Origin, Stamp, Vector},
};
pub use lines::{Entry, Line, Position};
use segment::{Header, Segment, framed};

/// Entries older than this are dropped, a segment at a time, seconds.
pub const AGE_MAX_S: u64 = 7 * 86_400;

/// How large and old a journal may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all segments.
    pub bytes_max: u64,
    /// Age of an entry, seconds.
    pub age_max_s: u64,
}

/// The state of the journal at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// There is no journal, so earlier purges are unknown.
    Fresh,
    /// There is a journal.
    Kept {
        /// Whole entries and changes in it.
        entries: u64,
        /// Bytes were cut off or dropped because they were damaged.
        is_damaged: bool,
    },
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
    /// Summaries being received, by member; `None`: a part is missing.
    drafts: HashMap<u64, Option<Draft>>,
}

impl Journal {
    /// To be called once all objects from before a fresh journal have been durably dropped. Until then the next start is a fresh one too.
    ///
    /// # Errors
    /// The mark cannot be removed.
    pub fn trust(&mut self) -> io::Result<()> {
        self.medium.set_doubtful(false)
    }

    /// The origin of purges that begin here.
    pub fn own(&self) -> Origin {
        self.own
    }

    /// The stamp before the first one of this start.
    pub fn first_stamp(&self) -> Stamp {
        Stamp::of_term(self.term)
    }

    /// The last purge heard of each origin.
    pub fn heard(&self) -> &Vector {
        &self.heard
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Appends an entry. It survives a crash of this process at once, and a crash of the machine after [`Self::sync`].
    ///
    /// # Errors
    /// The write failed; all segments were given up.
    pub fn append(&mut self, entry: &Entry, now_s: u64) -> io::Result<()> {
        let done = self.try_append(entry, now_s);
        self.heard.hear(entry.origin, entry.stamp, entry.unix_s);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// Marks all in `other` as heard without having its entries. All segments are given up: members that need them have lost them.
    ///
    /// # Errors
    /// The write failed.
    pub fn adopt(&mut self, other: &Vector, now_s: u64) -> io::Result<()> {
        self.heard.hear_all(other);
        let given_up = self.give_up();
        self.begin_segment(now_s).and(given_up)
    }

    /// Makes all appended entries durable.
    ///
    /// # Errors
    /// The disk failed; all segments were given up.
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

    fn try_append(&mut self, entry: &Entry, now_s: u64) -> io::Result<()> {
        let body = entry.encode();
        let is_full = |segment: &Segment| {
            let has_entries = segment.bytes > segment.entries_at;
            has_entries && segment.bytes + body.len() as u64 > self.segment_bytes_max()
        };
        if self.segments.back().is_none_or(is_full) {
            self.begin_segment(now_s)?;
        }
        let Some(segment) = self.segments.back_mut() else {
            return Err(io::Error::other("there is no segment"));
        };
        let frame = framed(segment.seed, &body);
        self.medium.append(segment.number, &frame)?;
        segment.bytes += frame.len() as u64;
        segment.newest_unix_s = segment.newest_unix_s.max(now_s);
        Ok(())
    }

    /// Begins a new segment, durably, and makes room.
    fn begin_segment(&mut self, now_s: u64) -> io::Result<()> {
        if let Some(last) = self.segments.back() {
            self.medium.sync(last.number)?;
        }
        let number = self.next_number();
        let header = self.header(number, self.heard.clone(), None);
        let encoded = header.encode();
        self.medium.create(number, &encoded)?;
        let bytes = encoded.len() as u64;
        let mut segment = Segment::new(self.next_id(), header, bytes, bytes);
        segment.newest_unix_s = now_s;
        self.segments.push_back(segment);
        self.make_room(now_s)
    }

    fn header(&self, number: u64, begins_with: Vector, upto: Option<Vector>) -> Header {
        Header {
            own: self.own,
            term: self.term,
            number,
            begins_with,
            upto,
        }
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Drops all segments. A member that needs any of them has lost it.
    fn give_up(&mut self) -> io::Result<()> {
        let mut done = Ok(());
        for segment in std::mem::take(&mut self.segments) {
            done = done.and(self.medium.remove(segment.number));
        }
        done
    }
}

#[cfg(test)]
mod tests;
