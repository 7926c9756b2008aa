//! The next output: frames in one buffer, and pieces of bodies by reference.
//!
//! The connection fills a turn. The caller writes it with vectored writes, advances it by the bytes written, and has it filled
//! again once it is empty. Small pieces are copied after their frame header, since a slice of its own costs more than the copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::stream_id::StreamId;

/// Pieces up to this length are copied.
pub const COPIED_BYTES_MAX: usize = 1536;

#[derive(Debug)]
enum Piece {
    /// So many further bytes of `own`.
    Own(usize),
    Body(Bytes),
}

/// Bytes to write, in order; read it as a [`Buf`].
#[derive(Default, Debug)]
pub struct Turn {
    pub(crate) own: Vec<u8>,
    /// Where the first [`Piece::Own`] begins in `own`.
    own_at: usize,
    /// Where the bytes of `own` begin that are in no piece yet.
    own_open: usize,
    pieces: VecDeque<Piece>,
    remaining: usize,
    pub(crate) ended: Vec<StreamId>,
}

impl Turn {
    /// An empty turn; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Is all of it written?
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The streams whose last frame is in this turn.
    pub fn ended(&self) -> &[StreamId] {
        &self.ended
    }

    /// Clears the turn for the next bytes. All earlier ones must have been written.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.is_empty(), "a turn is filled again once it is written");
        self.own.clear();
        self.own_at = 0;
        self.own_open = 0;
        self.pieces.clear();
        self.remaining = 0;
        self.ended.clear();
    }

    /// Adds a piece of a body.
    #[inline]
    pub(crate) fn push_body(&mut self, piece: Bytes) {
        if piece.len() <= COPIED_BYTES_MAX {
            self.own.extend_from_slice(&piece);
            return;
        }
        self.close_own();
        self.remaining += piece.len();
        self.pieces.push_back(Piece::Body(piece));
    }

    fn close_own(&mut self) {
        let len = self.own.len() - self.own_open;
        if len > 0 {
            self.own_open = self.own.len();
            self.remaining += len;
            self.pieces.push_back(Piece::Own(len));
        }
    }

    /// The turn is complete.
    pub(crate) fn finish(&mut self) {
        self.close_own();
    }

    /// Gives back the memory, if all of the turn is written.
    pub(crate) fn release_buffers(&mut self) {
        if self.is_empty() {
            *self = Turn::new();
        }
    }

    /// Heap memory in bytes, without the bytes of pieces.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.own.capacity()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.ended.capacity() * size_of::<StreamId>()
    }
}

impl Buf for Turn {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.pieces.front() {
            Some(Piece::Own(len)) => &self.own[self.own_at..self.own_at + len],
            Some(Piece::Body(piece)) => piece,
            None => &[],
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut own_at = self.own_at;
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = match piece {
                Piece::Own(len) => {
                    own_at += len;
                    IoSlice::new(&self.own[own_at - len..own_at])
                }
                Piece::Body(piece) => IoSlice::new(piece),
            };
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining, "no more is written than there is");
        self.remaining -= count;
        let mut left = count;
        while left > 0 {
            let first = self
                .pieces
                .front_mut()
                .expect("the pieces make up what remains");
            let len = match first {
                Piece::Own(len) => {
                    let taken = left.min(*len);
                    self.own_at += taken;
                    *len -= taken;
                    left -= taken;
                    *len
                }
                Piece::Body(piece) => {
                    let taken = left.min(piece.len());
                    piece.advance(taken);
                    left -= taken;
                    piece.len()
                }
            };
            if len == 0 {
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> (Turn, Vec<u8>) {
        let large = Bytes::from(vec![b'l'; COPIED_BYTES_MAX + 1]);
        let mut turn = Turn::new();
        turn.begin();
        turn.own.extend_from_slice(b"head");
        turn.push_body(Bytes::from_static(b"small"));
        turn.own.extend_from_slice(b"head");
        turn.push_body(large.clone());
        turn.push_body(large.clone());
        turn.own.extend_from_slice(b"end");
        turn.finish();
        let expected = [&b"headsmallhead"[..], &large, &large, b"end"].concat();
        (turn, expected)
    }

    #[test]
    fn a_turn_gives_its_memory_back_once_it_is_written() {
        let (mut turn, expected) = filled();
        turn.release_buffers();
        assert_eq!(turn.remaining(), expected.len());
        turn.advance(expected.len());
        assert!(turn.memory_bytes() > 0);
        turn.release_buffers();
        assert_eq!(turn.memory_bytes(), 0);
    }

    #[test]
    fn pieces_come_in_order_however_they_are_taken() {
        for step in [1, 2, 7, 1000, 10_000] {
            let (mut turn, expected) = filled();
            let mut seen = Vec::new();
            while turn.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 8];
                let count = turn.chunks_vectored(&mut slices);
                let all: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.iter().copied())
                    .collect();
                assert_eq!(all.len(), turn.remaining());
                assert_eq!(turn.chunk(), &all[..turn.chunk().len()]);
                let taken = step.min(all.len());
                seen.extend_from_slice(&all[..taken]);
                turn.advance(taken);
            }
            assert_eq!(seen, expected);
        }
    }
}
