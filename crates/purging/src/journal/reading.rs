//! Reads the lines that a member lacks.

use std::io;

use super::{
    super::stamp::Vector,
    Journal,
    lines::{Line, Position},
    segment::{Kind, Segment, Summary},
};

impl Journal {
    /// Where reading begins for a member that has heard this; `None`: some of what it lacks is gone.
    pub fn position_for(&self, heard: &Vector) -> Option<Position> {
        let fits = |segment: &&Segment| heard.covers(&segment.begins_with);
        let segment = self.segments.iter().rfind(fits);
        if segment.is_none() && !heard.covers(&self.heard) {
            return None;
        }
        let segment = segment.or(self.segments.back());
        Some(segment.map_or(Position { id: 0, offset: 0 }, Segment::first))
    }

    /// Some lines from this position, and the position of the next; no lines at the end. `None`: the position is gone.
    ///
    /// # Errors
    /// The read failed.
    pub fn read(&self, from: Position) -> io::Result<Option<(Vec<Line>, Position)>> {
        let mut from = from;
        if self.segments.is_empty() {
            // Either there was no segment when the position was given, or all were given up since.
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
