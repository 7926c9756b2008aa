//! Live listeners of the profile: for `GET /profile` of the admin interface.
//!
//! ```text
//! workers ── batches ──> journal thread ──┬─> file
//!                                         ├─> queue of a listener ─> its connection
//!                                         └─> queue of a listener ─> its connection
//! ```
//!
//! A listener gets the same as a file: header, the marks of the start, then records. Its queue holds [`QUEUE_BATCHES`]. While the
//! queue is full, batches are lost to this listener alone, and counted; the journal never waits. Every second the listener is told
//! how many records it has lost ([`Gauge::RecordsLost`]).
//!
//! Not known here: sockets, the contents of records.
//!
//! Limits: [`LISTENERS_MAX`] listeners; one more is refused. [`QUEUE_BATCHES`] batches each, of about 64 KiB at most; all
//! listeners share the bytes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::Bytes;
use profile::{Event, Gauge, Second, Subject};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

/// The most listeners at a time.
pub const LISTENERS_MAX: usize = 8;
/// The most batches in the queue of a listener; further ones are lost to it.
const QUEUE_BATCHES: usize = 64;

/// Whether a profile is wanted, by a file or by a listener. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    has_file: Arc<AtomicBool>,
    listening: Arc<AtomicUsize>,
}

impl Wants {
    /// Without listeners.
    pub fn new(has_file: bool) -> Wants {
        Wants {
            has_file: Arc::new(AtomicBool::new(has_file)),
            ..Wants::default()
        }
    }

    /// From now on a file is written, or not.
    pub fn set_file(&self, has_file: bool) {
        self.has_file.store(has_file, Ordering::Relaxed);
    }

    /// Are records and events wanted now?
    #[inline]
    pub fn profile(&self) -> bool {
        self.has_file.load(Ordering::Relaxed) || self.listening.load(Ordering::Relaxed) > 0
    }

    /// Adds a listener; also returns the sending end of its queue, for the journal thread. `None`: there are too many listeners.
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

/// A listener's receiving end. Dropping it removes the listener.
#[derive(Debug)]
pub struct Listening {
    batches: Receiver<Bytes>,
    counted: Arc<AtomicUsize>,
}

impl Listening {
    /// The next bytes of the profile; `None` at the end.
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
    /// Adds a listener; `opening` is sent first.
    pub fn add(&mut self, queue: Sender<Bytes>, opening: Bytes) {
        // The queue is empty, so there is room.
        let _ = queue.try_send(opening);
        self.0.push(Listener { queue, lost: 0 });
    }

    /// Sends a batch of `records` records to all listeners.
    pub fn give(&mut self, batch: &Bytes, records: u64) {
        self.0.retain_mut(|listener| listener.take(batch, records));
    }

    /// Sends the events of a second to all listeners, each with the number of records it has lost, including those lost to everybody.
    pub fn give_second(&mut self, batch: &[u8], records: u64, lost: Lost) {
        self.0.retain_mut(|listener| {
            let mut bytes = batch.to_vec();
            lost.and(listener.lost).encode(&mut bytes);
            listener.take(&bytes.into(), records + 1)
        });
    }
}

impl Listener {
    /// False: the listener has gone.
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

/// Records lost up to the end of a second.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The end of the second, microseconds since 1970.
    pub at_unix_us: u64,
    /// How many records were lost.
    pub records: u64,
}

impl Lost {
    /// Adds the records that only one listener has lost.
    fn and(self, records: u64) -> Lost {
        Lost {
            records: self.records + records,
            ..self
        }
    }

    /// Appends an event with this count.
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
        // The header takes the place of one batch in the queue.
        assert_eq!(told(&mut slowly), Some(100 + 10 * 3));
        assert_eq!(told(&mut quickly), Some(100));
        drop(slowly);
        listeners.give(&batch, 3);
        assert_eq!(listeners.0.len(), 1);
    }
}
