//! Hints from other members, entered into the view that workers read.
//!
//! Not known here: links, routing.

use std::sync::atomic::Ordering;

use hints::{
    frames::{Beat, Frame, Hello, Load, Subscribe},
    view::{Broken, Naming, Reader},
};
use store::Tracing;

use super::{member::Member, state::Cluster};
use base::member::MemberId;
use plan::proof::Cover;

/// The name (trace) of a key in a group of columns.
pub fn trace_of(key: &[u8]) -> impl Fn(Naming) -> u64 {
    move |naming| tracing(naming).trace(key)
}

/// The parameters by which a store names its keys.
pub fn tracing(naming: Naming) -> Tracing {
    Tracing {
        seed: naming.seed,
        shards: naming.index.shards,
        segments: naming.index.segments,
    }
}

impl Cluster {
    /// A reader of the view, for a worker; `None`: this proxy is not a front.
    pub fn reader(&self) -> Option<Reader> {
        self.plan.front.then(|| self.view().reader())
    }

    /// Handles a frame about hints that came over our link to a member. Returns the subscriptions to send back.
    ///
    /// # Errors
    /// The link has to be closed.
    pub(super) fn follow(
        &self,
        id: MemberId,
        frame: Frame,
        cover: &Cover,
    ) -> Result<Vec<Subscribe>, Broken> {
        let frame = match frame {
            Frame::Hello(hello) => Frame::Hello(uncovered(hello, cover)),
            frame => frame,
        };
        if let (Frame::Beat(beat), Some(member)) = (&frame, self.member(id)) {
            note(member, beat);
        }
        match self.plan.front {
            true => self.view().handle(id.0, &frame, self.now_ms()),
            false => Ok(Vec::new()),
        }
    }
}

/// Decrypts the seeds in a hello.
fn uncovered(mut hello: Hello, cover: &Cover) -> Hello {
    for (number, column) in hello.columns.iter_mut().enumerate() {
        column.seed = cover.apply(number as u64, column.seed);
    }
    hello
}

/// Records the state and load that a member reports.
fn note(member: &Member, beat: &Beat) {
    let load = &member.load;
    let relaxed = Ordering::Relaxed;
    load.requests
        .store(beat.load.requests_per_s.into(), relaxed);
    load.reads.store(beat.load.disk_reads_per_s.into(), relaxed);
    let hangs = beat.load.queue_ms == Load::HANGS;
    load.hangs.store(hangs, relaxed);
    let queue_ms = if hangs { 0 } else { beat.load.queue_ms };
    load.queue_ms.store(queue_ms.into(), relaxed);
    load.free_mib.store(beat.load.free_mib.into(), relaxed);
    load.push_max_bytes.store(beat.push_max_bytes, relaxed);
    load.has_store.store(!beat.columns.is_empty(), relaxed);
    member.set_draining(beat.is_leaving);
}
