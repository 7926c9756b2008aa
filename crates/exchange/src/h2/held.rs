//! What came of a request's body on a stream and was not taken.
//!
//! It lies in parts, each an allocation of its own, and nothing is added to a part that was taken. In one allocation for all, the last
//! bytes that an origin does not take would keep the whole, and count as what they are: a thousand uploads held 150 KiB each so.
//!
//! Not known here: windows, the ledger.   Limits: a part has [`PART_BYTES_MAX`], and at most twice the room of what is in it. How many
//! there are is bounded by the stream's window.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The longest part of a body: what is taken of a long window is announced while the rest waits.
pub const PART_BYTES_MAX: usize = 256 << 10;

/// See the head of the file.
#[derive(Default)]
pub struct Held {
    /// Oldest first, none of them empty.
    parts: VecDeque<BytesMut>,
    len: usize,
}

impl Held {
    /// Adds what came.
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

    /// The first part, so many bytes of it at most. Nothing if there is none.
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

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is nothing there?
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
