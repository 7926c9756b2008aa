//! Memory that a device can read directly: aligned, and reused.
//!
//! Direct I/O needs memory aligned to the device's blocks. We allocate a page more and start at the next boundary,
//! which needs no unsafe code. A buffer returns to the pool after its last reader, so that a stream of clusters
//! reuses the same pages: a page fault costs more than copying the page.
//!
//! Limits: [`SPARE_MAX`] idle buffers.

use crate::lock::lock;
use bytes::{Buf, Bytes, BytesMut};
use std::sync::Mutex;

/// The alignment of every buffer that is written: a page, and the largest block of any device.
pub(crate) const ALIGN_BYTES: usize = 4096;

/// The most idle cluster buffers; further ones are freed.
const SPARE_MAX: usize = 8;

/// `len` zero bytes at an aligned address.
pub(crate) fn aligned(len: usize) -> BytesMut {
    let mut buffer = BytesMut::zeroed(len + ALIGN_BYTES);
    let address = buffer.as_ptr().addr();
    buffer.advance(address.next_multiple_of(ALIGN_BYTES) - address);
    buffer.truncate(len);
    debug_assert!(is_aligned(&buffer));
    buffer
}

fn is_aligned(buffer: &[u8]) -> bool {
    buffer.as_ptr().addr().is_multiple_of(ALIGN_BYTES)
}

/// Cluster buffers of one size. A reused buffer holds stale bytes, not zeros.
#[derive(Debug)]
pub(crate) struct Pool {
    len: usize,
    spare: Mutex<Vec<BytesMut>>,
}

impl Pool {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            len,
            spare: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn take(&self) -> BytesMut {
        let spare = lock(&self.spare).pop();
        spare.unwrap_or_else(|| aligned(self.len))
    }

    /// Takes a buffer back if it has no other holder and the right size.
    pub(crate) fn give_back(&self, data: Bytes) {
        if let Ok(buffer) = data.try_into_mut() {
            self.give_back_mut(buffer);
        }
    }

    pub(crate) fn give_back_mut(&self, mut buffer: BytesMut) {
        if buffer.capacity() < self.len || !is_aligned(&buffer) {
            return;
        }
        buffer.resize(self.len, 0);
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX && buffer.len() == self.len && is_aligned(&buffer) {
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_also_once_frozen() {
        for len in [512, 4096, 100_000] {
            let buffer = aligned(len);
            assert_eq!(buffer.len(), len);
            assert!(is_aligned(&buffer));
            assert!(is_aligned(&buffer.freeze()));
        }
    }

    #[test]
    fn a_buffer_comes_back_when_its_last_reader_has_gone() {
        let pool = Pool::new(8192);
        let data = pool.take().freeze();
        let address = data.as_ptr();
        let reader = data.slice(0..512);
        pool.give_back(data);
        assert_ne!(pool.take().as_ptr(), address, "still being read");
        drop(reader);

        let mut data = pool.take().freeze();
        let address = data.as_ptr();
        data.truncate(512);
        pool.give_back(data);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (address, 8192));
    }
}
