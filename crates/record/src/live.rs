//! Listening to the profile while it is written: for `GET /profile` of the admin interface.
//!
//! ```text
//! workers ── batches ──> journal thread ──┬─> file
//!                                         ├─> queue of a listener ─> its connection
//!                                         └─> queue of a listener ─> its connection
//! ```
//!
//! A listener gets what a file gets: header, the marks of the start, then records. Its queue holds [`QUEUE_BATCHES`]; while it is
//! full, batches are lost to this listener alone, and counted. Nobody waits for it. Every second it is told how many records it has
//! lost ([`Gauge::RecordsLost`]).
//!
//! Not known here: sockets, and what a record is.
//!
//! Limits: [`LISTENERS_MAX`] listeners; one more is refused. [`QUEUE_BATCHES`] batches each, shared among all listeners, of about
//! 64 KiB at most.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::Bytes;
use profile::{Event, Gauge, Second, Subject};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

/// The most that listen at once.
pub const LISTENERS_MAX: usize = 8;
/// The most batches that wait for one of them; further ones are lost to it.
const QUEUE_BATCHES: usize = 64;

/// Whether anybody wants a profile: a file, or somebody who listens. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    has_file: Arc<AtomicBool>,
    listening: Arc<AtomicUsize>,
}

impl Wants {
    /// Nobody listens yet.
    pub fn new(has_file: bool) -> Wants {
        Wants {
            has_file: Arc::new(AtomicBool::new(has_file)),
            ..Wants::default()
        }
    }

    /// From now on there is a file, or none.
    pub fn set_file(&self, has_file: bool) {
        self.has_file.store(has_file, Ordering::Relaxed);
    }

    /// Is a record, or an event, wanted now?
    #[inline]
    pub fn profile(&self) -> bool {
        self.has_file.load(Ordering::Relaxed) || self.listening.load(Ordering::Relaxed) > 0
    }

    /// One more listener, and the end of its queue for the journal thread. `None`: there are enough.
    pub fn listen(&self) -> Option<(Sender<Bytes>, Listening)> {
        let one_more = |listening| (listening < LISTENERS_MAX).then_some(listening + 1);
        let order = Ordering::Relaxed;
        (self.listening.fetch_update(order, order, one_more)).ok()?;
        let (sender, batches) = channel(QUEUE_BATCHES);
        let listening = Listening {
            batches,
            counted: Arc::clone(&self.listening),
        };
        Some((sender, listening))
    }
}

/// A listener's end. Dropping it ends the listening.
#[derive(Debug)]
pub struct Listening {
    batches: Receiver<Bytes>,
    counted: Arc<AtomicUsize>,
}

impl Listening {
    /// The next bytes of the profile; `None` when there will be none.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.batches.recv().await
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.counted.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The listeners, on the journal thread.
#[derive(Debug, Default)]
pub struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    queue: Sender<Bytes>,
    /// Records that it has lost.
    lost: u64,
}

impl Listeners {
    /// Takes a new one in; `opening` comes before all else.
    pub fn add(&mut self, queue: Sender<Bytes>, opening: Bytes) {
        // It is empty, so there is room.
        let _ = queue.try_send(opening);
        self.0.push(Listener { queue, lost: 0 });
    }

    /// Gives all of them a batch of so many records.
    pub fn give(&mut self, batch: &Bytes, records: u64) {
        self.0.retain_mut(|listener| listener.take(batch, records));
    }

    /// The same with the events of a second, and tells each what it has lost, besides what was lost to everybody.
    pub fn give_second(&mut self, batch: &[u8], records: u64, lost: Lost) {
        self.0.retain_mut(|listener| {
            let mut bytes = batch.to_vec();
            lost.and(listener.lost).encode(&mut bytes);
            listener.take(&bytes.into(), records + 1)
        });
    }
}

impl Listener {
    /// False: it has gone.
    fn take(&mut self, batch: &Bytes, records: u64) -> bool {
        match self.queue.try_send(batch.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += records;
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

/// Records lost so far, as of some second.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The end of that second, microseconds since 1970.
    pub at_unix_us: u64,
    /// How many.
    pub records: u64,
}

impl Lost {
    /// With those that only one has lost.
    fn and(self, records: u64) -> Lost {
        Lost {
            records: self.records + records,
            ..self
        }
    }

    /// Appends the event that tells it.
    pub fn encode(self, out: &mut Vec<u8>) {
        let second = Second {
            at_unix_us: self.at_unix_us,
            subject: Subject::Process,
            number: 0,
            gauges: vec![(Gauge::RecordsLost, self.records)],
        };
        Event::Second(second).encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_at_most_and_each_that_goes_makes_room() {
        let wants = Wants::default();
        assert!(!wants.profile());
        let mut all: Vec<_> = (0..LISTENERS_MAX)
            .map(|_| wants.listen().unwrap())
            .collect();
        assert!(wants.listen().is_none() && wants.profile());
        all.pop();
        drop(wants.listen().unwrap());
        drop(all);
        assert!(!wants.profile() && Wants::new(true).profile());
    }

    #[test]
    fn a_slow_one_loses_records_that_others_get() {
        let wants = Wants::default();
        let (slow, mut slowly) = wants.listen().unwrap();
        let (quick, mut quickly) = wants.listen().unwrap();
        let mut listeners = Listeners::default();
        listeners.add(slow, Bytes::from_static(b"header"));
        listeners.add(quick, Bytes::from_static(b"header"));
        let batch = Bytes::from_static(b"three");
        let mut got = 0;
        for _ in 0..QUEUE_BATCHES + 9 {
            listeners.give(&batch, 3);
            while quickly.batches.try_recv().is_ok() {
                got += 1;
            }
        }
        assert_eq!(got, 1 + QUEUE_BATCHES + 9, "the header too");
        for _ in 0..QUEUE_BATCHES {
            slowly.batches.try_recv().unwrap();
        }
        let lost = Lost {
            at_unix_us: 5,
            records: 100,
        };
        listeners.give_second(b"", 0, lost);
        let told = |listening: &mut Listening| {
            let bytes = listening.batches.try_recv().unwrap();
            let mut file = Vec::new();
            profile::write_file_header(0, &mut file);
            file.extend_from_slice(&bytes);
            let item = profile::Reader::new(&file[..]).unwrap().next();
            match item.unwrap().unwrap() {
                profile::Item::Event(Event::Second(second)) => second.get(Gauge::RecordsLost),
                other => panic!("{other:?}"),
            }
        };
        // The header took the place of a batch.
        assert_eq!(told(&mut slowly), Some(100 + 10 * 3));
        assert_eq!(told(&mut quickly), Some(100));
        drop(slowly);
        listeners.give(&batch, 3);
        assert_eq!(listeners.0.len(), 1);
    }
}
