//! What other members hold, as their links tell us: into the view that workers look up in.
//!
//! Not known here: links, and how a request is routed.

use std::sync::atomic::Ordering;

use hints::{
    frames::{Beat, Frame, Hello, Load, Subscribe},
    view::{Broken, Naming, Reader},
};
use store::Tracing;

use super::{member::Member, state::Cluster};
use base::member::MemberId;
use plan::proof::Cover;

/// The name of a key in a group of columns.
pub fn trace_of(key: &[u8]) -> impl Fn(Naming) -> u64 {
    move |naming| tracing(naming).trace(key)
}

/// How names are made, as a store has it.
pub fn tracing(naming: Naming) -> Tracing {
    Tracing {
        seed: naming.seed,
        shards: naming.index.shards,
        segments: naming.index.segments,
    }
}

impl Cluster {
    /// A way for a worker to look up what members hold; `None`: this one is no front.
    pub fn reader(&self) -> Option<Reader> {
        self.plan.front.then(|| self.view().reader())
    }

    /// A frame about hints has come over our link to a member: what is to be sent back.
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

/// A hello whose seeds are those of the stores.
fn uncovered(mut hello: Hello, cover: &Cover) -> Hello {
    for (number, column) in hello.columns.iter_mut().enumerate() {
        column.seed = cover.apply(number as u64, column.seed);
    }
    hello
}

/// What a member says of itself.
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
