//! What other members tell by summaries.
//!
//! The changes of a summary are kept beside the segments, as a *draft* for each member that tells one, until the member says how far its summary
//! goes. Then all segments become one summary, with the draft.
//!
//! Limits: a draft is as long as a journal may be, and one change more; one for each member.

use std::io;

use super::{
    super::{medium::Draft, stamp::Vector},
    Journal,
    segment::framed,
};

impl Journal {
    /// A member tells this change by a summary. It is not heard before [`Self::upto`]. With `is_first`, a summary begins: an earlier one of this
    /// member that did not come to its end is dropped.
    ///
    /// # Errors
    /// It cannot be written, or is longer than a journal; the member's draft is not whole any more.
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
        let done = self.condense_with(draft, heard, now_s);
        self.heard.hear_all(heard);
        if done.is_err() {
            let _ = self.give_up();
        }
        done
    }

    /// That of no segment.
    pub(super) fn seed_of_drafts(&self) -> u64 {
        self.own.0
    }
}
