//! The bytes of a request body that have arrived on a stream and were not taken yet.
//!
//! They lie in parts, each an allocation of its own, and nothing is added to a part that was taken. In a single allocation, a few bytes
//! that the origin has not taken would keep the whole allocation alive but count as a few bytes: a thousand uploads held 150 KiB each.
//!
//! Not known here: windows, the ledger.   Limits: a part has at most [`PART_BYTES_MAX`] bytes, and at most twice their number as capacity.
//! The stream's window bounds the number of parts.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The longest part. A long window is taken in parts, so that the first bytes taken are announced while the rest waits.
pub const PART_BYTES_MAX: usize = 256 << 10;

/// See the head of the file.
#[derive(Default)]
pub struct Held {
    /// Oldest first, none of them empty.
    parts: VecDeque<BytesMut>,
    len: usize,
}

impl Held {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.parts.back_mut() {
            _ if bytes.is_empty() => {}
            Some(last) if last.len() + bytes.len() <= PART_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            _ => self.parts.push_back(bytes.into()),
        }
    }

    /// Takes at most `bytes_max` bytes of the first part. Empty if there is none.
    pub fn take(&mut self, bytes_max: usize) -> Bytes {
        let Some(mut part) = self.parts.pop_front() else {
            return Bytes::new();
        };
        let taken = part.split_to(part.len().min(bytes_max));
        if !part.is_empty() {
            self.parts.push_front(part);
        }
        self.len -= taken.len();
        taken.freeze()
    }

    /// How many bytes are held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are no bytes held?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 16 << 10] = [7; 16 << 10];

    #[test]
    fn what_is_taken_keeps_nothing_of_what_comes_later() {
        let mut held = Held::default();
        (0..4).for_each(|_| held.push(&FRAME));
        let taken = held.take(PART_BYTES_MAX);
        assert_eq!((taken.len(), held.len()), (4 * FRAME.len(), 0));
        held.push(b"more");
        assert!(held.parts[0].capacity() < 1024, "it has room of its own");
    }

    #[test]
    fn a_long_window_comes_in_parts_and_in_order() {
        let (mut held, mut sent, mut got) = (Held::default(), Vec::new(), Vec::new());
        for number in 0..200_u8 {
            let frame = vec![number; 1 + usize::from(number) * 80];
            sent.extend_from_slice(&frame);
            held.push(&frame);
            held.push(b"");
        }
        for part in &held.parts {
            assert!(!part.is_empty() && part.capacity() <= 2 * PART_BYTES_MAX);
        }
        got.extend_from_slice(&held.take(10));
        assert_eq!(got.len(), 10);
        while !held.is_empty() {
            let part = held.take(PART_BYTES_MAX);
            assert!((1..=PART_BYTES_MAX).contains(&part.len()));
            got.extend_from_slice(&part);
            assert_eq!(held.len() + got.len(), sent.len());
        }
        assert!(got == sent && held.take(1).is_empty());
    }
}
