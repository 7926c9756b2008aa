//! A room: memory for a long body of a known length, as it will lie in its record on disk.
//!
//! An origin's bytes are received into it, readers have them from there, and so have the store and the memory tier: the body is
//! copied nowhere. The store says where in the record the body lies; should that have changed when the body is complete, the store
//! makes a copy.
//!
//! Not known here: origins, who reads.   Limits: [`ROOM_BYTES_MIN`]; all rooms together a quarter of `limits.transfer-buffer`, in which
//! they count ([`Rooms`]).

use std::sync::Arc;

use bytes::Bytes;
use device::{Filling, FillingPool};
use store::{BodyLayout, InPlace};

/// A shorter body is copied into a cluster with others: one write for many.
pub const ROOM_BYTES_MIN: u64 = 256 << 10;

/// The memory of all rooms: of those that are being filled, of what somebody still reads, and what is kept for the next.
pub struct Rooms(Arc<FillingPool>);

impl Rooms {
    /// With this `limits.transfer-buffer`.
    pub fn new(transfer_buffer_bytes: u64) -> Rooms {
        Rooms(FillingPool::new(share_of(transfer_buffer_bytes)))
    }

    /// With another one.
    pub fn follow(&self, transfer_buffer_bytes: u64) {
        self.0.resize(share_of(transfer_buffer_bytes));
    }

    /// How much there is now.
    pub fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }

    /// For a body of that length. `None`: it is short, or there is no memory left.
    pub fn room(&self, layout: BodyLayout, body_len: u64) -> Option<Room> {
        let bytes = usize::try_from(body_len).ok()?;
        let body = layout.before..layout.before + bytes;
        (body_len >= ROOM_BYTES_MIN)
            .then(|| self.0.lend(layout.record, body))?
            .map(Room)
    }
}

fn share_of(transfer_buffer_bytes: u64) -> usize {
    usize::try_from(transfer_buffer_bytes / 4).unwrap_or(usize::MAX)
}

/// See the head of the file.
pub struct Room(Filling);

impl Room {
    /// The next bytes of the body go here.
    pub fn space(&mut self) -> &mut [u8] {
        self.0.space()
    }

    /// So many bytes of the body have come.
    pub fn advance(&mut self, bytes: usize) -> Bytes {
        self.0.advance(bytes)
    }

    /// A copy of these bytes, as many as there is room for.
    pub fn put(&mut self, bytes: &[u8]) -> Bytes {
        let n = bytes.len().min(self.0.left());
        self.space()[..n].copy_from_slice(&bytes[..n]);
        self.advance(n)
    }

    /// How many bytes may still come.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Did all of a body of that length come here?
    pub fn has_all(&self, body_len: u64) -> bool {
        self.0.left() == 0 && self.0.filled() as u64 == body_len
    }

    /// The whole body, for one who counts its bytes.
    pub fn into_body(self) -> Bytes {
        self.0.counted_elsewhere();
        self.0.body()
    }
}

impl InPlace for Room {
    fn around(&mut self) -> (&mut [u8], &mut [u8]) {
        self.0.around()
    }

    fn share(&mut self) -> Bytes {
        self.0.share()
    }
}
