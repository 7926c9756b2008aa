//! The facts of one request for its profile record, besides its class, status and bytes.
//!
//! The code that learns a fact sets its field; `Worker::finish` makes the record of all facts, in one place. Nothing here is on the
//! heap, so a request answered by the short way allocates nothing for its record.
//!
//! Not known here: where facts come from, how a record is written.

use std::sync::Arc;

use base::clock::Instant;
use profile::{Flags, Hierarchy, Protocol, STAGES, Stage, StageName};

/// The facts of one request.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The facts that are true or false.
    pub flags: Flags,
    /// The protocol of the server's answer.
    pub http_server: Protocol,
    /// Where the request was forwarded to.
    pub hierarchy: Hierarchy,
    /// The number of the parent, sibling or node that was asked.
    pub peer: u8,
    /// Device reads for the request; a record keeps at most `profile::DEVICE_READS_MAX`.
    pub device_reads: u8,
    /// The number of the store that has, or takes, the object.
    pub store: u8,
    /// The cluster write with the last byte that the request stored; 0 if unknown.
    pub cluster: u64,
    /// The primary hash of the resource; 0 if the request names none.
    pub key: u64,
    /// Host and port of the server that was asked.
    pub server: Option<(Arc<str>, u16)>,
    /// Bytes received from the server, heads included.
    pub bytes_in: u64,
    /// Size of the response's head and body as stored, or as they would be stored; 0 if unknown.
    pub object_bytes: u64,
    /// The server failed or its answer ended early, and a stored response was sent instead.
    pub was_saved: bool,
}

impl Facts {
    /// Of a request that has just arrived. `is_first`: it is the first on its connection.
    pub fn of_request(is_first: bool) -> Facts {
        Facts {
            flags: Flags::default().with(Flags::REUSED_CLIENT, !is_first),
            ..Facts::default()
        }
    }

    /// Of a request for the resource with this primary hash, answered by a stored response of `object_bytes` bytes.
    pub fn of_hit(is_first: bool, key: u64, object_bytes: u64) -> Facts {
        Facts {
            key,
            object_bytes,
            ..Facts::of_request(is_first)
        }
    }

    /// Notes device reads. All reads of one request form one stage, from the first to the last.
    pub fn swapped_in(&mut self, stages: &mut Stages, began: Instant, read: SwapIn) {
        self.device_reads = self.device_reads.saturating_add(read.reads);
        self.store = read.store;
        let is_new = stages.0[StageName::SwapIn as usize].is_none();
        match is_new {
            true => stages.set(StageName::SwapIn, began, read.start, read.first, read.end),
            false => stages.extend(StageName::SwapIn, began, read.end),
        }
    }

    /// Notes the outcome of storing. A later call replaces an earlier one, because it knows more.
    pub fn swapped_out(&mut self, stages: &mut Stages, began: Instant, out: SwapOut) {
        if !out.is_kept {
            self.flag(Flags::NOT_KEPT);
            stages.0[StageName::SwapOut as usize] = None;
            return;
        }
        (self.store, self.cluster) = (out.store, out.cluster);
        stages.set(StageName::SwapOut, began, out.start, out.first, out.end);
    }

    /// Sets a flag.
    pub fn flag(&mut self, flag: Flags) {
        self.flags |= flag;
    }
}

/// Device reads for a request.
#[derive(Clone, Copy, Debug)]
pub struct SwapIn {
    /// When the first read was requested, or began to wait for its turn.
    pub start: Instant,
    /// When the first read was complete.
    pub first: Instant,
    /// When the last read was complete.
    pub end: Instant,
    /// The number of device reads.
    pub reads: u8,
    /// The number of the store in the set.
    pub store: u8,
}

/// An object, or parts of it, handed to the store: into memory, to be written a little later. See [`profile::Record::cluster`].
#[derive(Clone, Copy, Debug)]
pub struct SwapOut {
    /// When its first bytes were handed over.
    pub start: Instant,
    /// When the store had its first record.
    pub first: Instant,
    /// When the store had its last record.
    pub end: Instant,
    /// The cluster write with its last record; 0 if unknown.
    pub cluster: u64,
    /// The number of the store in the set.
    pub store: u8,
    /// False: the store refused it.
    pub is_kept: bool,
}

impl SwapOut {
    /// The state after one more record, which was handed over at `start`.
    #[must_use]
    pub fn after(earlier: Option<SwapOut>, start: Instant, store: u8, handed: Handed) -> SwapOut {
        let end = Instant::now();
        let first = SwapOut {
            start,
            first: end,
            end,
            cluster: 0,
            store,
            is_kept: true,
        };
        let all = earlier.unwrap_or(first);
        match handed {
            Handed::Stored(cluster) => SwapOut {
                end,
                cluster,
                ..all
            },
            Handed::Refused => SwapOut {
                end,
                is_kept: false,
                ..all
            },
        }
    }
}

/// The outcome of handing a record to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handed {
    /// It is stored, with the number of the cluster write that holds it; 0 while it has no place yet.
    Stored(u64),
    /// The store refused it.
    Refused,
}

impl Handed {
    /// Is it stored?
    pub fn is_stored(self) -> bool {
        self != Handed::Refused
    }
}

/// The stages of one request, filled in one by one (paper 001; `profile` names them).
#[derive(Clone, Copy, Default)]
pub struct Stages(pub [Option<Stage>; STAGES]);

impl Stages {
    /// Notes a stage: its start, its first byte, its end.
    pub fn set(
        &mut self,
        name: StageName,
        began: Instant,
        start: Instant,
        first: Instant,
        end: Instant,
    ) {
        // All times are relative to one moment, so that a stage that begins where another ends shows the same microsecond.
        let start_us = us_between(began, start);
        let since_start = |at: Instant| us_between(began, at).saturating_sub(start_us);
        self.0[name as usize] = Some(Stage {
            start_us,
            first_us: since_start(first),
            total_us: since_start(end),
        });
    }

    /// Extends a stage that was noted before to `end`.
    pub fn extend(&mut self, name: StageName, began: Instant, end: Instant) {
        if let Some(stage) = &mut self.0[name as usize] {
            let total_us = us_between(began, end).saturating_sub(stage.start_us);
            stage.total_us = stage.total_us.max(total_us);
        }
    }
}

impl Stages {
    /// From asking an origin to the head of its answer: name look-up, connecting, waiting. `None` if there was no answer. If the request has
    /// a body, connecting counts only until TCP is established: the rest lasts as long as the client takes to send the body.
    pub fn asked_us(&self, has_body: bool) -> Option<u32> {
        let stage = |name: StageName| self.0[name as usize];
        let waited = stage(StageName::ServerReply)?.first_us;
        let looked_up = stage(StageName::Dns).map_or(0, |stage| stage.total_us);
        let connected = stage(StageName::ProxyConnect).map_or(0, |stage| match has_body {
            true => stage.first_us,
            false => stage.total_us,
        });
        Some(looked_up.saturating_add(connected).saturating_add(waited))
    }
}

/// Microseconds from one moment to another, 0 if `to` is earlier.
pub fn us_between(from: Instant, to: Instant) -> u32 {
    u32::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_of_one_request_are_one_stage() {
        let began = Instant::now();
        let at = |us| began + Duration::from_micros(us);
        let read = |start, end| SwapIn {
            start: at(start),
            first: at(end),
            end: at(end),
            reads: 1,
            store: 3,
        };
        let (mut facts, mut stages) = (Facts::default(), Stages::default());
        facts.swapped_in(&mut stages, began, read(10, 25));
        facts.swapped_in(&mut stages, began, read(40, 90));
        let stage = Stage {
            start_us: 10,
            first_us: 15,
            total_us: 80,
        };
        assert_eq!(stages.0[StageName::SwapIn as usize], Some(stage));
        assert_eq!((facts.device_reads, facts.store), (2, 3));
        for _ in 0..300 {
            facts.swapped_in(&mut stages, began, read(40, 90));
        }
        assert_eq!(facts.device_reads, u8::MAX);
    }

    #[test]
    fn sending_a_body_is_not_the_origins_time() {
        let began = Instant::now();
        let at = |us| began + Duration::from_micros(us);
        let mut stages = Stages::default();
        assert_eq!(stages.asked_us(false), None);
        stages.set(StageName::Dns, began, at(0), at(3), at(3));
        stages.set(StageName::ProxyConnect, began, at(3), at(10), at(1000));
        stages.set(StageName::ServerReply, began, at(1000), at(1020), at(1100));
        assert_eq!(stages.asked_us(false), Some(1020));
        assert_eq!(stages.asked_us(true), Some(30));
    }

    #[test]
    fn what_the_store_refuses_in_the_end_was_not_given_to_it() {
        let began = Instant::now();
        let (mut facts, mut stages) = (Facts::default(), Stages::default());
        let first = SwapOut::after(None, began, 1, Handed::Stored(7));
        let second = SwapOut::after(Some(first), Instant::now(), 1, Handed::Stored(8));
        assert_eq!((second.start, second.first), (first.start, first.first));
        facts.swapped_out(&mut stages, began, second);
        assert_eq!((facts.cluster, facts.store), (8, 1));
        assert!(stages.0[StageName::SwapOut as usize].is_some());
        let refused = SwapOut::after(Some(second), Instant::now(), 1, Handed::Refused);
        facts.swapped_out(&mut stages, began, refused);
        assert!(stages.0[StageName::SwapOut as usize].is_none());
        assert!(facts.flags.contains(Flags::NOT_KEPT));
    }
}
