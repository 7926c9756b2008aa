//! What a journal says to a member that lacks some of it.

use std::io;

use super::{
    super::stamp::Vector,
    Journal,
    lines::{Line, Position},
    segment::{Kind, Segment, Summary},
};

impl Journal {
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
                let (lines, used) = segment.lines(&self.medium, from.offset)?;
                from.offset += used;
                return Ok((used != 0).then_some((lines, from)));
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
}
