//! A room: memory for a long body of known length, laid out like its record on disk.
//!
//! Bytes from the origin are read into the room, and readers, the store and the memory tier use them from there, without a
//! copy. The store says where the body lies in the record. If that place has changed when the body is complete, the store
//! makes a copy.
//!
//! Not known here: origins, readers.   Limits: [`ROOM_BYTES_MIN`]; all rooms together take at most a quarter of `limits.transfer-buffer`,
//! in which they count ([`Rooms`]).

use std::sync::Arc;

use bytes::Bytes;
use device::{Filling, FillingPool};
use store::{BodyLayout, InPlace};

/// Shorter bodies get no room: they are copied into a cluster, where one write serves many.
pub const ROOM_BYTES_MIN: u64 = 256 << 10;

/// The memory of all rooms: those being filled, those still read, and spare memory for the next.
pub struct Rooms(Arc<FillingPool>);

impl Rooms {
    /// Rooms for this `limits.transfer-buffer`.
    pub fn new(transfer_buffer_bytes: u64) -> Rooms {
        Rooms(FillingPool::new(share_of(transfer_buffer_bytes)))
    }

    /// Applies a new `limits.transfer-buffer`.
    pub fn follow(&self, transfer_buffer_bytes: u64) {
        self.0.resize(share_of(transfer_buffer_bytes));
    }

    /// Bytes of memory that the rooms have now.
    pub fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }

    /// A room for a body of this length. `None`: the body is short, or there is no memory left.
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
    /// The space for the next bytes of the body.
    pub fn space(&mut self) -> &mut [u8] {
        self.0.space()
    }

    /// Notes bytes written to [`Self::space`], and returns them.
    pub fn advance(&mut self, bytes: usize) -> Bytes {
        self.0.advance(bytes)
    }

    /// Copies as many of these bytes as there is room for, and returns the copy.
    pub fn put(&mut self, bytes: &[u8]) -> Bytes {
        let n = bytes.len().min(self.0.left());
        self.space()[..n].copy_from_slice(&bytes[..n]);
        self.advance(n)
    }

    /// How many more bytes fit.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Is a body of this length complete in this room?
    pub fn has_all(&self, body_len: u64) -> bool {
        self.0.left() == 0 && self.0.filled() as u64 == body_len
    }

    /// The whole body, for a caller that counts its bytes.
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
