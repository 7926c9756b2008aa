//! What other members tell us: applied as it comes, and acknowledged in the order in which it came.
//!
//! An entry holds at once: memory, flights and index have dropped it. Then it waits for our stores, then it goes into our
//! journal, then it is acknowledged. So what our journal has heard is durable in our stores, also after a crash. Many entries share
//! a flush.
//!
//! What has to look at all of memory (a pattern) is applied by a thread of its own (`sweeping`), so that beats and other purges go on. It
//! is acknowledged when it is through.
//!
//! What a store does not take (no room for a pattern, its device fails) is applied again each second, with everything behind it waiting. Nothing
//! is acknowledged meanwhile, so whoever purges is told that this member has not got it. What an unsafe method changed is tried once, and its
//! client is not made to wait by our device, as with our own.
//!
//! In a process that was started without its stores nothing can be durable. What comes holds for memory; it is neither acknowledged nor
//! heard, so the others tell it anew when the stores are back.
//!
//! Not known here: sockets, who is told what by us.
//! Limits: [`QUEUE_MAX`] entries wait; then links are not read any more.

use std::collections::VecDeque;

use store::set::DurabilityHandles;

use super::{
    SETTLED_WITHIN,
    applying::{Applied, LocalCache},
    sweeping::{Applying, Sweeping},
};
use base::member::MemberId;
use cache::Cache;
use purging::{change::Change, journal::Entry, message::Message, stamp::Vector};

/// Entries that wait for our stores.
pub const QUEUE_MAX: usize = 4096;
/// Entries that are acknowledged together at most.
const BATCH_MAX: usize = 256;

/// What waits for our stores, with the member that it came from.
#[derive(Debug)]
pub struct Waiting {
    /// Who is told when it is done.
    pub from: MemberId,
    /// What was said.
    pub message: Message,
    /// What was applied; nothing, of a message that is no entry.
    pub change: Change,
    /// It is being applied elsewhere.
    pub applying: Option<Applying>,
    /// When it is durable.
    pub handles: Vec<DurabilityHandles>,
    /// It was not taken.
    pub is_refused: bool,
    /// It cannot be durable in this process.
    pub is_hopeless: bool,
}

/// What another member's purges have come to.
#[derive(Debug, Default)]
pub struct Following {
    /// What is durable in our stores and our journal.
    pub done: Vector,
    /// That, and what waits.
    begun: Vector,
    queue: VecDeque<Waiting>,
}

/// What to do with an entry that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// It is durable here already.
    Again,
    /// One before it is missing.
    BehindAGap,
    /// To be applied.
    New,
}

impl Following {
    /// Goes on from what the journal has heard.
    pub fn new(heard: Vector) -> Following {
        Following {
            begun: heard.clone(),
            done: heard,
            queue: VecDeque::new(),
        }
    }

    /// May more come in?
    pub fn has_room(&self) -> bool {
        self.queue.len() < QUEUE_MAX
    }

    /// What to do with an entry.
    pub fn came(&self, entry: &Entry) -> Came {
        if self.done.has(entry.origin, entry.stamp) {
            Came::Again
        } else if self.begun.has(entry.origin, entry.before) {
            Came::New
        } else {
            Came::BehindAGap
        }
    }

    /// It waits behind all others.
    pub fn push(&mut self, waiting: Waiting) {
        match &waiting.message {
            Message::Entry { entry, .. } => {
                (self.begun).hear(entry.origin, entry.stamp, entry.unix_s);
            }
            Message::Lost { heard } | Message::Upto { heard, .. } => self.begun.hear_all(heard),
            _ => {}
        }
        self.queue.push_back(waiting);
    }

    /// The next that wait, to be settled together; what is not an entry comes alone.
    pub fn batch(&mut self) -> Vec<Waiting> {
        let is_entry =
            |w: &Waiting| matches!(w.message, Message::Entry { .. } | Message::Also { .. });
        let entries = self
            .queue
            .iter()
            .take(BATCH_MAX)
            .take_while(|w| is_entry(w));
        let count = entries.count().max(1).min(self.queue.len());
        self.queue.drain(..count).collect()
    }

    /// Hears of a purge of ours.
    pub fn own(&mut self, entry: &Entry) {
        self.begun.hear(entry.origin, entry.stamp, entry.unix_s);
        self.done.hear(entry.origin, entry.stamp, entry.unix_s);
    }

    /// It is durable in our stores and in the journal.
    pub fn settled(&mut self, message: &Message) {
        match message {
            Message::Entry { entry, .. } => {
                (self.done).hear(entry.origin, entry.stamp, entry.unix_s);
            }
            Message::Lost { heard } | Message::Upto { heard, .. } => self.done.hear_all(heard),
            _ => {}
        }
    }
}

impl Waiting {
    /// Something that was said and changes nothing here.
    pub fn of(from: MemberId, message: Message) -> Waiting {
        Waiting {
            from,
            message,
            change: Change::default(),
            applying: None,
            handles: Vec::new(),
            is_refused: false,
            is_hopeless: false,
        }
    }

    /// With a change that is applied now, or by the thread for what takes long.
    pub fn apply(mut self, change: Change, to: &LocalCache, sweeping: &Sweeping) -> Waiting {
        match change.takes_long() {
            true => self.applying = Some(sweeping.apply(&change)),
            false => self.applied(to.apply(&change)),
        }
        Waiting { change, ..self }
    }

    /// This came of its change.
    pub fn applied(&mut self, applied: Applied) {
        (self.handles, self.is_refused) = (applied.handles, applied.refused.is_some());
    }

    async fn await_applied(&mut self) {
        if let Some(applying) = self.applying.take()
            && let Ok(applied) = applying.await
        {
            self.applied(applied);
        }
    }

    /// Waits until it is durable in our stores, and applies it again if that does not come.
    pub async fn settle(&mut self, cache: &Cache, sweeping: &Sweeping) {
        self.await_applied().await;
        self.is_hopeless = cache.is_without_its_stores();
        if self.is_hopeless {
            return;
        }
        if self.change.is_of_unsafe_method {
            let _ = cache
                .settle_if_answering(&self.handles, SETTLED_WITHIN)
                .await;
            return;
        }
        while !cache.settle(&self.handles, SETTLED_WITHIN).await || self.is_refused {
            tokio::time::sleep(SETTLED_WITHIN).await;
            self.applying = Some(sweeping.apply(&self.change));
            self.await_applied().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use purging::stamp::{Origin, Stamp};

    fn entry(stamp: u64, before: u64) -> Entry {
        Entry {
            origin: Origin(1),
            stamp: Stamp(stamp),
            before: Stamp(before),
            unix_s: 0,
            change: bytes::Bytes::new(),
        }
    }

    fn waiting(entry: Entry) -> Waiting {
        let message = Message::Entry {
            keep: false,
            untold: Vec::new(),
            entry,
        };
        Waiting::of(MemberId(0), message)
    }

    #[test]
    fn an_entry_counts_as_heard_only_when_it_is_durable() {
        let mut following = Following::new(Vector::default());
        assert_eq!(following.came(&entry(1, 0)), Came::New);
        following.push(waiting(entry(1, 0)));
        assert_eq!(
            following.came(&entry(1, 0)),
            Came::New,
            "a crash would forget it"
        );
        assert_eq!(following.came(&entry(2, 1)), Came::New);
        assert_eq!(following.came(&entry(3, 2)), Came::BehindAGap);
        let batch = following.batch();
        following.settled(&batch[0].message);
        assert_eq!(following.came(&entry(1, 0)), Came::Again);
        assert_eq!(
            following.came(&entry(9, 1)),
            Came::New,
            "a start skips numbers"
        );
    }

    #[test]
    fn what_is_no_entry_waits_for_all_before_it_and_comes_alone() {
        let mut following = Following::new(Vector::default());
        following.push(waiting(entry(1, 0)));
        following.push(waiting(entry(2, 1)));
        let told = Message::Told {
            round: 1,
            token: 1,
            is_sure: true,
        };
        following.push(Waiting::of(MemberId(0), told.clone()));
        following.push(waiting(entry(3, 2)));
        assert_eq!(following.batch().len(), 2);
        let alone = following.batch();
        assert_eq!((alone.len(), &alone[0].message), (1, &told));
        assert_eq!(following.batch().len(), 1);
        assert_eq!(following.batch().len(), 0);
    }

    #[test]
    fn who_has_lost_something_goes_on_behind_it() {
        let mut following = Following::new(Vector::default());
        let mut heard = Vector::default();
        heard.hear(Origin(1), Stamp(5), 0);
        following.push(Waiting::of(MemberId(0), Message::Lost { heard }));
        assert_eq!(following.came(&entry(6, 5)), Came::New);
        assert!(following.done.is_empty());
        let lost = following.batch();
        following.settled(&lost[0].message);
        assert_eq!(following.came(&entry(5, 4)), Came::Again);
    }
}
