//! Summaries received from other members.
//!
//! The changes of a received summary are kept in a *draft*, one for each member that sends one, until the member tells how far its summary goes.
//! Then the draft and all segments become one summary.
//!
//! Limits: one draft for each member, as long as a journal may be plus one change.

use std::io;

use super::{
    super::{medium::Draft, stamp::Vector},
    Journal,
    segment::framed,
};

impl Journal {
    /// Adds a change from a member's summary. It is not heard before [`Self::upto`]. `is_first`: a summary begins; an unfinished earlier one of
    /// this member is dropped.
    ///
    /// # Errors
    /// The write failed, or the draft is longer than a journal may be. The draft is then incomplete.
    pub fn also(&mut self, member: u64, change: &[u8], is_first: bool) -> io::Result<()> {
        if is_first {
            self.drafts.remove(&member);
        }
        let begun = match self.drafts.remove(&member) {
            Some(begun) => Ok(begun),
            None => self.medium.draft(member).map(Some),
        };
        let extended = begun.and_then(|draft| {
            let extended = draft.map(|draft| self.extended(draft, change));
            extended.transpose()
        });
        let (draft, done) = match extended {
            Ok(draft) => (draft, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.drafts.insert(member, draft);
        done
    }

    fn extended(&self, mut draft: Draft, change: &[u8]) -> io::Result<Draft> {
        if draft.bytes() > self.limits.bytes_max {
            return Err(io::Error::other("what a member tells is too long"));
        }
        draft.write(&framed(self.seed_of_drafts(), change))?;
        Ok(draft)
    }

    /// A member has sent its whole summary: marks all of `heard` as heard, and puts the changes into the journal.
    ///
    /// # Errors
    /// Reading or writing failed; all segments were given up.
    pub fn upto(&mut self, member: u64, heard: &Vector, now_s: u64) -> io::Result<()> {
        let draft = self.drafts.remove(&member);
        if self.heard.covers(heard) {
            return Ok(());
        }
        let draft = match draft {
            Some(None) => return self.adopt(heard, now_s),
            draft => draft.flatten(),
        };
        let done = self.condense_with(draft, heard, now_s);
        self.heard.hear_all(heard);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// The checksum seed of drafts, different from that of any segment.
    pub(super) fn seed_of_drafts(&self) -> u64 {
        self.own.0
    }
}
