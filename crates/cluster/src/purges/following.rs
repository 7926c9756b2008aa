//! Purges of other members: applied as they come, acknowledged in the same order.
//!
//! An entry takes effect at once: it is removed from memory, flights and index. Then it waits for our stores, then it is written to our journal,
//! then it is acknowledged. So whatever our journal has heard is durable in our stores, even after a crash. Many entries share a flush.
//!
//! A purge by pattern has to look at all of memory, so a thread of its own applies it (`sweeping`), and beats and other purges go on. It is
//! acknowledged when the thread is done.
//!
//! If a store refuses a purge (no room for a pattern, or its device fails), it is applied again each second, and everything behind it waits.
//! Nothing is acknowledged meanwhile, so the purging member is told that this one does not have it. A purge by an unsafe method is tried only
//! once, so that the client of that method does not wait for our device; our own are treated alike.
//!
//! In a process that was started without its stores nothing can become durable. Purges then affect memory only, and are neither acknowledged
//! nor entered as heard, so other members tell them again when the stores are back.
//!
//! Not known here: sockets, which members we tell of our purges.
//! Limits: [`QUEUE_MAX`] entries wait; beyond that, links are not read.

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
/// Entries acknowledged together at most.
const BATCH_MAX: usize = 256;

/// A message that waits for our stores, with the member that sent it.
#[derive(Debug)]
pub struct Waiting {
    /// The member to acknowledge it to.
    pub from: MemberId,
    /// The message.
    pub message: Message,
    /// The change that was applied; empty if the message is not an entry.
    pub change: Change,
    /// Pending result of the sweeping thread, if that applies it.
    pub applying: Option<Applying>,
    /// Handles that are done when it is durable.
    pub handles: Vec<DurabilityHandles>,
    /// A store has refused it.
    pub is_refused: bool,
    /// It cannot become durable in this process.
    pub is_hopeless: bool,
}

/// How far we have heard and applied the purges of other members.
#[derive(Debug, Default)]
pub struct Following {
    /// Purges that are durable in our stores and our journal.
    pub done: Vector,
    /// These, and those in the queue.
    begun: Vector,
    queue: VecDeque<Waiting>,
}

/// What to do with an entry that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// Acknowledge: it is durable here already.
    Again,
    /// Ask again: an earlier entry is missing.
    BehindAGap,
    /// Apply it.
    New,
}

impl Following {
    /// Continues from what the journal has heard.
    pub fn new(heard: Vector) -> Following {
        Following {
            begun: heard.clone(),
            done: heard,
            queue: VecDeque::new(),
        }
    }

    /// Is there room for another message?
    pub fn has_room(&self) -> bool {
        self.queue.len() < QUEUE_MAX
    }

    /// Classifies an entry that has arrived.
    pub fn came(&self, entry: &Entry) -> Came {
        if self.done.has(entry.origin, entry.stamp) {
            Came::Again
        } else if self.begun.has(entry.origin, entry.before) {
            Came::New
        } else {
            Came::BehindAGap
        }
    }

    /// Appends a message to the queue.
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

    /// Takes the next messages to be settled together. A message that is not an entry comes alone.
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

    /// Records a purge of ours as heard.
    pub fn own(&mut self, entry: &Entry) {
        self.begun.hear(entry.origin, entry.stamp, entry.unix_s);
        self.done.hear(entry.origin, entry.stamp, entry.unix_s);
    }

    /// Records that a message is durable in our stores and in the journal.
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
    /// A message without a change to apply here.
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

    /// Applies the change now, or starts it on the sweeping thread if it takes long.
    pub fn apply(mut self, change: Change, to: &LocalCache, sweeping: &Sweeping) -> Waiting {
        match change.takes_long() {
            true => self.applying = Some(sweeping.apply(&change)),
            false => self.applied(to.apply(&change)),
        }
        Waiting { change, ..self }
    }

    /// Enters the result of applying the change.
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

    /// Waits until the change is durable in our stores, and applies it again while it is not.
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
