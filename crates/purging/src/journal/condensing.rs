//! Makes room in the journal: old segments are dropped for age, or condensed into summaries.
//!
//! Where room is needed, two neighbouring segments become one *summary* (`summary`), which contains each name once. Its header has what was
//! heard before it and after it. If names differ so much that this frees no room, the oldest segments become coarse: directories replace
//! names. Only if that is not enough are segments dropped.
//!
//! A summary is written to a separate file, which then replaces the last of its segments; after that the other segments are removed.
//!
//! Limits: [`SEGMENTS_MAX`]. While a summary is made, it takes as much room again as the segments it replaces. Memory holds the contents of two
//! segments: each at most a sixteenth of the room and at most [`SEGMENT_BYTES_MAX`].

use std::{io, ops::Range};

use super::{
    super::{medium::Draft, stamp::Vector},
    Journal,
    lines::Entry,
    segment::{self, Header, Kind, Segment, framed},
    summary::{self, Coarse, Crowds, Items, Packing, Source},
};

/// Most segments of a journal.
const SEGMENTS_MAX: usize = 256;
/// A segment ends when it has this share of the room,
const SEGMENTS_OF_ROOM: u64 = 16;
/// or this many bytes, because its contents are in memory while it is summarised.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// This many full segments stay unsummarised while there is room, so that a member that was away briefly is told exactly what it missed.
const NEWEST_EXACT: usize = 2;
/// Summaries whose names differ are joined only up to this share of the room.
const STRETCHES_OF_ROOM: u64 = 4;
/// If a summary of two keeps more than this many eighths of their items, the names count as different.
const EIGHTHS_MAX: u64 = 7;
/// The draft number of our own summaries; drafts of others have the number of their member.
const OWN_DRAFT: u64 = u64::MAX;

/// A summary to be made.
struct Stretch {
    /// The segments that it replaces.
    range: Range<usize>,
    /// A summary received from another member, to be merged in.
    draft: Option<Draft>,
    /// The directories that replace names.
    coarse: Option<Coarse>,
    header: Header,
    newest_unix_s: u64,
}

impl Journal {
    /// The length at which a segment ends, bytes. A single entry may be longer.
    pub(super) fn segment_bytes_max(&self) -> u64 {
        (self.limits.bytes_max / SEGMENTS_OF_ROOM).min(SEGMENT_BYTES_MAX)
    }

    /// Drops segments that are too old, then summarises until the rest fits: first where names repeat, then the oldest ones coarsely. Segments that
    /// cannot be summarised, or still do not fit, are dropped.
    pub(super) fn make_room(&mut self, now_s: u64) -> io::Result<()> {
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

    /// The next of the first `count` segments to summarise, and whether coarsely.
    fn to_summarise(&self, count: usize) -> Option<(Range<usize>, bool)> {
        let are_too_many = self.segments.len() > SEGMENTS_MAX;
        let can_be_less = |one: &Segment, next: &Segment| {
            // Names that are purged in rotation repeat only over long stretches.
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

    /// Of the first `count` segments, the first of the neighbouring pair that is smallest together; of about equal ones the oldest.
    fn cheapest_pair(
        &self,
        count: usize,
        is_meant: impl Fn(&Segment, &Segment) -> bool,
    ) -> Option<usize> {
        let firsts = 0..count.saturating_sub(1);
        let pairs = firsts.filter(|&at| is_meant(&self.segments[at], &self.segments[at + 1]));
        pairs.min_by_key(|&at| (self.segments[at].bytes + self.segments[at + 1].bytes).ilog2())
    }

    /// Replaces these segments by one summary. The last segment is never among them.
    fn summarise(&mut self, range: Range<usize>, coarse: Option<Coarse>) -> io::Result<()> {
        let (first, last) = (&self.segments[range.start], &self.segments[range.end - 1]);
        let upto = self.segments[range.end].begins_with.clone();
        let header = self.header(last.number, first.begins_with.clone(), Some(upto));
        let newest = self
            .segments
            .range(range.clone())
            .map(|it| it.newest_unix_s);
        let newest_unix_s = newest.max().unwrap_or_default();
        self.replace(Stretch {
            range,
            draft: None,
            coarse,
            header,
            newest_unix_s,
        })
    }

    /// Replaces names by directories in one segment.
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

    /// Makes one summary of all segments and the draft, which is complete up to `heard`. Members that lack any part will be told all of it.
    pub(super) fn condense_with(
        &mut self,
        draft: Option<Draft>,
        heard: &Vector,
        now_s: u64,
    ) -> io::Result<()> {
        if !self.segments.is_empty() {
            self.begin_segment(now_s)?;
        }
        while self.segments.len() > 2 {
            let full = self.segments.len() - 1;
            let at = self.cheapest_pair(full, |_, _| true).unwrap_or(0);
            self.summarise(at..at + 2, None)?;
        }
        let begins_with = self.segments.front().map(|first| &first.begins_with);
        let begins_with = begins_with.unwrap_or(&self.heard).clone();
        let last = self.segments.back().map(|last| last.number);
        let number = last.unwrap_or_else(|| self.next_number());
        let mut upto = self.heard.clone();
        upto.hear_all(heard);
        let header = self.header(number, begins_with, Some(upto));
        self.replace(Stretch {
            range: 0..self.segments.len(),
            draft,
            coarse: None,
            header,
            newest_unix_s: now_s,
        })?;
        self.heard.hear_all(heard);
        self.begin_segment(now_s)
    }

    /// Writes a summary, and replaces its segments by it.
    fn replace(&mut self, stretch: Stretch) -> io::Result<()> {
        let mut written = self.medium.draft(OWN_DRAFT)?;
        let header = stretch.header.encode();
        written.write(&header)?;
        let names_differ = self.write_changes(&stretch, &mut written)?;
        let (range, number) = (stretch.range, stretch.header.number);
        let mut segment = Segment::new(
            self.next_id(),
            stretch.header,
            header.len() as u64,
            written.bytes(),
        );
        segment.newest_unix_s = stretch.newest_unix_s;
        if let Kind::Summary(summary) = &mut segment.kind {
            summary.names_differ = names_differ;
            summary.is_coarse = stretch.coarse.is_some();
        }
        self.medium.install(written, number)?;
        let replaced: Vec<Segment> = self.segments.drain(range.clone()).collect();
        self.segments.insert(range.start, segment);
        for replaced in replaced.iter().filter(|it| it.number != number) {
            self.medium.remove(replaced.number)?;
        }
        Ok(())
    }

    /// Writes each item of a stretch once. True: there are about as many as before.
    fn write_changes(&self, stretch: &Stretch, out: &mut Draft) -> io::Result<bool> {
        let seed = stretch.header.seed();
        let coarse = stretch.coarse.as_ref();
        let mut sources = self.sources(stretch.range.clone(), stretch.draft.as_ref())?;
        sources.extend(coarse.map(|coarse| Source::of_items(coarse.items())));
        let mut packing = Packing::default();
        let mut after = 0;
        let before = summary::merge(sources, &mut |key, manner| {
            if coarse.is_some_and(|coarse| coarse.has(key)) {
                return Ok(());
            }
            after += 1;
            match packing.push(key, manner) {
                Some(change) => out.write(&framed(seed, &change)),
                None => Ok(()),
            }
        })?;
        if let Some(change) = packing.take() {
            out.write(&framed(seed, &change))?;
        }
        Ok(after * 8 > before * EIGHTHS_MAX)
    }

    /// The contents of these segments and this draft.
    fn sources<'a>(
        &'a self,
        range: Range<usize>,
        draft: Option<&'a Draft>,
    ) -> io::Result<Vec<Source<'a>>> {
        let mut sources = Vec::new();
        for segment in self.segments.range(range) {
            let mut bodies = segment.bodies(&self.medium);
            if segment.is_summary() {
                sources.push(Source::of_changes(bodies));
                continue;
            }
            let mut items = Items::new();
            while let Some(body) = bodies()? {
                let entry = Entry::decode(&body).ok_or(io::ErrorKind::InvalidData)?;
                summary::collect(&entry.change, &mut items);
            }
            sources.push(Source::of_items(items));
        }
        let seed = self.seed_of_drafts();
        sources
            .extend(draft.map(|draft| Source::of_changes(segment::bodies_of_draft(seed, draft))));
        Ok(sources)
    }
}
