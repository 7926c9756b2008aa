//! The streams of a connection, by identifier and by place (RFC 9113 §5.1).
//!
//! A stream has a slot from its HEADERS until both sides have ended it *and* the caller is done with it. A client that opens and resets
//! streams can therefore cause no more work at once than it may have streams. Slots are used again, with their memory.
//!
//! Identifiers only grow, so appending new streams keeps the list of open streams sorted.
//!
//! The last [`GONE_MAX`] closed streams are remembered: how a stream closed decides whether a late frame is ignored or an error.
//! Frames of streams closed earlier are answered as RFC 9113 §5.1 allows after "a period of time".
//!
//! Not known here: frames, windows of the connection, priorities among streams.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::Limits;
use crate::pace::Pace;
use crate::priority::Priority;
use crate::stream_id::StreamId;

/// How many closed streams are remembered.
const GONE_MAX: usize = 256;

/// The pieces for which a slot keeps room when it is used again.
const KEPT_PIECES: usize = 8;

#[derive(Default, Debug)]
pub(crate) struct Stream {
    /// 0: the slot is free.
    pub(crate) id: u32,
    pub(crate) priority: Priority,
    /// A CONNECT, whose sides end independently.
    pub(crate) is_tunnel: bool,
    /// Reset by either side: nothing more is sent. The slot is kept until the caller releases it.
    pub(crate) is_reset: bool,
    /// Reset by the peer, which may send no more frames on the stream.
    pub(crate) is_reset_by_peer: bool,
    /// The caller has ended its answer, or released the stream.
    pub(crate) is_released: bool,

    // From the peer.
    /// When the request head was received, or sent.
    pub(crate) began: Duration,
    pub(crate) recv_ended: bool,
    /// Bytes that the peer may still send.
    pub(crate) recv_window: i64,
    /// The whole window, when no bytes are under way or held.
    pub(crate) recv_window_max: u32,
    /// The part of `recv_window_max` that the caller has lent; see `connection/windows`.
    pub(crate) recv_lent: u32,
    /// `recv_lent` is to return as soon as it can.
    pub(crate) recv_shrinks: bool,
    /// The client has used up most of its window since the window last grew.
    pub(crate) recv_was_short: bool,
    /// Bytes consumed since the window last grew.
    pub(crate) recv_taken: u32,
    /// Bytes given to the caller and not yet consumed.
    pub(crate) recv_held: u32,
    /// How many bytes too small the frames of `recv_held` were; see `budget`.
    pub(crate) recv_small: u32,
    /// Bytes consumed and not yet announced to the peer.
    pub(crate) recv_credit: u32,
    /// Bytes of the body still to come, if Content-Length says.
    pub(crate) recv_expected: Option<u64>,
    /// The state of the answer, if this is a request of ours.
    pub(crate) answer: Answer,

    // To the client.
    /// The caller gave the final head.
    pub(crate) has_begun: bool,
    /// The caller ended the body; queued pieces may still wait.
    pub(crate) ends: bool,
    /// END_STREAM was written.
    pub(crate) send_ended: bool,
    pub(crate) send_window: i64,
    pub(crate) pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`.
    pub(crate) queued: usize,
    /// The block of trailers, to follow `pieces`.
    pub(crate) trailers: Option<Vec<u8>>,
    /// The stream is in `ready`.
    pub(crate) is_ready: bool,
    /// How fast its window lets bytes through.
    pub(crate) pace: Pace,
}

/// The answer to a request of ours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Answer {
    /// The final head is still to come.
    #[default]
    Awaited,
    /// Like `Awaited`, for HEAD: no body follows the final head, whatever its Content-Length.
    AwaitedAlone,
    /// The final head has come.
    Begun,
}

impl Stream {
    fn begin(&mut self, id: u32) {
        debug_assert!(self.pieces.is_empty());
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.shrink_to(KEPT_PIECES);
        *self = Stream {
            id,
            pieces,
            ..Stream::default()
        };
    }

    /// Makes the window larger by so many bytes.
    pub(crate) fn grow_by(&mut self, bytes: u32) {
        self.recv_window_max += bytes;
        self.recv_credit += bytes;
        (self.recv_taken, self.recv_was_short) = (0, false);
    }

    /// Takes back lent bytes that are of no more use, from the consumed bytes not yet announced: these are then never announced.
    pub(crate) fn returns(&mut self) -> u32 {
        if self.recv_ended && self.recv_held == 0 {
            return std::mem::take(&mut self.recv_lent);
        }
        let to_come = match self.recv_shrinks || self.is_released || self.recv_ended {
            true => 0,
            false => self.recv_expected.unwrap_or(u64::MAX),
        };
        let may_come = u64::try_from(self.recv_window).unwrap_or(0);
        let surplus = (may_come + u64::from(self.recv_credit)).saturating_sub(to_come);
        let surplus = u32::try_from(surplus).unwrap_or(u32::MAX);
        let returned = self.recv_lent.min(self.recv_credit).min(surplus);
        self.recv_lent -= returned;
        self.recv_credit -= returned;
        self.recv_window_max -= returned;
        returned
    }

    /// Drops what waits to be sent.
    pub(crate) fn drop_queue(&mut self) {
        self.pieces.clear();
        self.queued = 0;
        self.trailers = None;
    }

    /// Tells `pace` whether bytes wait behind a closed window.
    #[inline]
    pub(crate) fn note_pace(&mut self, now: Duration) {
        let is_closed = self.queued > 0 && self.send_window <= 0;
        self.pace.note(is_closed, now);
    }

    /// Does the client let too little through? A tunnel has no minimum rate, because its traffic is irregular.
    pub(crate) fn is_too_slow(&self, now: Duration, limits: &Limits) -> bool {
        let rate_min = if self.is_tunnel { 0 } else { limits.rate_min };
        let limits = Limits {
            rate_min,
            ..*limits
        };
        self.pace.is_too_slow(now, &limits)
    }

    /// May frames be sent on this stream?
    pub(crate) fn is_writable(&self) -> bool {
        !self.is_reset && !self.send_ended
    }
}

/// How a stream closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    /// Both sides ended it, or the client reset it.
    Closed,
    /// We reset it. DATA that the peer sent before it knew is ignored, up to the window that was left.
    ResetByUs { window: i64 },
}

#[derive(Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    free: Vec<u32>,
    /// Identifier and slot, sorted.
    open: Vec<(u32, u32)>,
    last_id: u32,
    gone: VecDeque<(u32, Gone)>,
}

impl Streams {
    /// The highest identifier that was used.
    pub(crate) fn last_id(&self) -> u32 {
        self.last_id
    }

    /// Records that a stream with this identifier was opened, even if it is refused.
    pub(crate) fn note_id(&mut self, id: u32) {
        debug_assert!(id > self.last_id);
        self.last_id = id;
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// A slot for a new stream, whose identifier is the highest.
    pub(crate) fn insert(&mut self, id: u32) -> StreamId {
        debug_assert!(self.open.last().is_none_or(|&(last, _)| last < id));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Stream::default());
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize].begin(id);
        self.open.push((id, slot));
        StreamId { id, slot }
    }

    /// The stream of that identifier, if it has a slot.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<StreamId> {
        // An identifier above the last open stream needs no search.
        if self.open.last().is_none_or(|&(last, _)| last < id) {
            return None;
        }
        let at = self.open.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        let (id, slot) = self.open[at];
        Some(StreamId { id, slot })
    }

    #[inline]
    pub(crate) fn get(&self, stream: StreamId) -> Option<&Stream> {
        let found = self.slots.get(stream.slot as usize)?;
        (found.id == stream.id).then_some(found)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, stream: StreamId) -> Option<&mut Stream> {
        let found = self.slots.get_mut(stream.slot as usize)?;
        (found.id == stream.id).then_some(found)
    }

    /// Frees the slot.
    pub(crate) fn remove(&mut self, stream: StreamId, how: Gone) {
        let found = self.get_mut(stream).expect("a stream is removed once");
        found.drop_queue();
        found.id = 0;
        self.free.push(stream.slot);
        let at = self.open.binary_search_by_key(&stream.id, |&(id, _)| id);
        self.open.remove(at.expect("a stream with a slot is open"));
        self.note_gone(stream.id, how);
    }

    /// Gives back the memory of the slots, if all are free.
    pub(crate) fn release_buffers(&mut self) {
        if self.open.is_empty() {
            self.free = Vec::new();
            self.slots = Vec::new();
            self.open = Vec::new();
            self.gone.shrink_to_fit();
        }
    }

    /// Heap memory in bytes, without queued bodies.
    pub(crate) fn memory_bytes(&self) -> usize {
        let trailers = |slot: &Stream| slot.trailers.as_ref().map_or(0, Vec::capacity);
        let of = |slot: &Stream| slot.pieces.capacity() * size_of::<Bytes>() + trailers(slot);
        self.slots.iter().map(of).sum::<usize>()
            + self.slots.capacity() * size_of::<Stream>()
            + self.free.capacity() * size_of::<u32>()
            + self.open.capacity() * size_of::<(u32, u32)>()
            + self.gone.capacity() * size_of::<(u32, Gone)>()
    }

    /// How a stream without a slot closed, if it is remembered.
    pub(crate) fn how_gone(&self, id: u32) -> Option<Gone> {
        let found = self.gone.iter().rev().find(|(gone, _)| *gone == id)?;
        Some(found.1)
    }

    /// Charges bytes received on a stream that we reset; false: they exceed its window. `None`: no such stream is remembered.
    pub(crate) fn charge_gone(&mut self, id: u32, bytes: i64) -> Option<bool> {
        let found = self.gone.iter_mut().rev().find(|(gone, _)| *gone == id)?;
        let Gone::ResetByUs { window } = &mut found.1 else {
            return None;
        };
        *window -= bytes;
        Some(*window >= 0)
    }

    pub(crate) fn note_gone(&mut self, id: u32, how: Gone) {
        if self.gone.len() == GONE_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back((id, how));
    }

    /// All streams with a slot, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> + '_ {
        let of = |&(id, slot): &(u32, u32)| (StreamId { id, slot }, &self.slots[slot as usize]);
        self.open.iter().map(of)
    }

    /// The stream at that place in the order of identifiers.
    pub(crate) fn at(&self, index: usize) -> Option<StreamId> {
        let &(id, slot) = self.open.get(index)?;
        Some(StreamId { id, slot })
    }
}
