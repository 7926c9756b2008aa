//! The heads of all records, in the order of their places.
//!
//! A head is in the first bytes of its record. If the next record begins shortly after, one read takes both: for a disk,
//! reading a little too much is cheaper than a seek.

use std::ops::ControlFlow;

use bytes::Bytes;
use store::{Corrupt, Peek, Place, RecordHead};

use super::opened::ReadStore;
use super::output::Failure;

/// Bytes read of each record at first; few keys and metadata are longer.
const HEAD_BYTES: usize = 4096;
/// A gap up to this length is read through instead of beginning another read.
const GAP_BYTES: u64 = 64 << 10;
/// The most bytes of one read.
const WINDOW_BYTES: u64 = 1 << 20;

/// Why a head cannot be read.
#[derive(Debug)]
pub enum NoHead {
    /// The device refused.
    Device,
    /// There is no valid record.
    Corrupt(Corrupt),
}

impl ReadStore {
    /// Calls `take` with each record's head until it returns `Break`.
    pub fn heads(
        &self,
        mut take: impl FnMut(Place, Result<RecordHead, NoHead>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let places = self.inspection.places();
        let mut at = 0;
        while at < places.len() {
            let (start, end, count) = self.window(&places[at..]);
            let window = self.read(start, (end - start) as usize);
            for &place in &places[at..at + count] {
                let from = (self.inspection.offset(place) - start) as usize;
                let len = self.head_len(place);
                let head = match &window {
                    Ok(window) => self.head(place, window.slice(from..from + len)),
                    // Perhaps only one record of the window cannot be read.
                    Err(_) => self.head_at(place),
                };
                if take(place, head)?.is_break() {
                    return Ok(());
                }
            }
            at += count;
        }
        Ok(())
    }

    /// The head of one record.
    pub fn head_at(&self, place: Place) -> Result<RecordHead, NoHead> {
        let bytes = self
            .read(self.inspection.offset(place), self.head_len(place))
            .map_err(|_| NoHead::Device)?;
        self.head(place, bytes)
    }

    /// Beginning and end of the next read, and how many of the records it covers.
    fn window(&self, places: &[Place]) -> (u64, u64, usize) {
        let reach = |place: Place| {
            let from = self.inspection.offset(place);
            (from, from + self.head_len(place) as u64)
        };
        let (start, mut end) = reach(places[0]);
        let mut count = 1;
        for &place in &places[1..] {
            let (from, to) = reach(place);
            if from > end + GAP_BYTES || to - start > WINDOW_BYTES {
                break;
            }
            end = end.max(to);
            count += 1;
        }
        (start, end, count)
    }

    fn head_len(&self, place: Place) -> usize {
        self.inspection.len(place).min(HEAD_BYTES)
    }

    fn head(&self, place: Place, bytes: Bytes) -> Result<RecordHead, NoHead> {
        let peek = self.inspection.peek(place, &bytes);
        let needed = match peek.map_err(NoHead::Corrupt)? {
            Peek::Head(head) => return Ok(head),
            Peek::Needs(needed) => needed,
        };
        let bytes = self
            .read(self.inspection.offset(place), needed)
            .map_err(|_| NoHead::Device)?;
        match self.inspection.peek(place, &bytes) {
            Ok(Peek::Head(head)) => Ok(head),
            // The head needs more bytes again: they changed between the two reads.
            Ok(Peek::Needs(_)) => Err(NoHead::Corrupt(Corrupt::Length)),
            Err(corrupt) => Err(NoHead::Corrupt(corrupt)),
        }
    }
}
