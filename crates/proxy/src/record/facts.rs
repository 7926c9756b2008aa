//! What is noted of one request for its profile record, beside its class, its status and its bytes.
//!
//! Whoever learns a fact sets its field; `Worker::finish` makes the record of all of them, in one place. Nothing here is on the heap,
//! so a request that is answered by the short way allocates nothing for its record.
//!
//! Not known here: how a fact is learnt, how a record is written.

use crate::clock::Instant;
use profile::{Flags, Hierarchy, Protocol, STAGES, Stage, StageName};

/// What is true of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// What is so or not so.
    pub flags: Flags,
    /// The protocol of the server's answer.
    pub http_server: Protocol,
    /// Whom it was forwarded to.
    pub hierarchy: Hierarchy,
    /// The number of the parent, sibling or node that was asked.
    pub peer: u8,
    /// Reads of a device for it; a record keeps at most `profile::DEVICE_READS_MAX`.
    pub device_reads: u8,
    /// The number of the store that has, or takes, the object.
    pub store: u8,
    /// The write that holds the last byte of what it stored; 0 when that is not known.
    pub cluster: u64,
    /// The primary hash of the resource; 0 when the request names none.
    pub key: u64,
    /// The hash of host and port of the server that was asked; 0 if none was.
    pub server: u32,
    /// Bytes received from the server, heads included.
    pub bytes_in: u64,
    /// Head and body of the response as it is stored, or would be; 0 when that is not known.
    pub object_bytes: u64,
}

impl Facts {
    /// Of a request that has just come; `is_first` on its connection?
    pub fn of_request(is_first: bool) -> Facts {
        Facts {
            flags: Flags::default().with(Flags::REUSED_CLIENT, !is_first),
            ..Facts::default()
        }
    }

    /// Of a request for the resource of this primary hash, which is answered by a stored response of so many bytes.
    pub fn of_hit(is_first: bool, key: u64, object_bytes: u64) -> Facts {
        Facts {
            key,
            object_bytes,
            ..Facts::of_request(is_first)
        }
    }

    /// Sets a flag.
    pub fn flag(&mut self, flag: Flags) {
        self.flags |= flag;
    }
}

/// The stages of one request as they are filled in (paper 001; `profile` names them).
#[derive(Clone, Copy, Default)]
pub struct Stages(pub [Option<Stage>; STAGES]);

impl Stages {
    /// Notes a stage: when it began, when its first byte was there, when it was over.
    pub fn set(
        &mut self,
        name: StageName,
        began: Instant,
        start: Instant,
        first: Instant,
        end: Instant,
    ) {
        // All from one moment, so that a stage that begins where another ends has the same microsecond.
        let start_us = us_between(began, start);
        let since_start = |at: Instant| us_between(began, at).saturating_sub(start_us);
        self.0[name as usize] = Some(Stage {
            start_us,
            first_us: since_start(first),
            total_us: since_start(end),
        });
    }
}

/// Microseconds from one moment to another, 0 when they are the other way round.
pub fn us_between(from: Instant, to: Instant) -> u32 {
    u32::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u32::MAX)
}
