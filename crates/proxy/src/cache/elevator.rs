//! Reads that wait for a disk with a head: in the order of their places, and those that lie close together as one.
//!
//! The head goes one way round: upwards from where the last read ended and then, after one jump back, upwards again from the
//! beginning. Nobody who waits is passed by, and no place is twice as far as another.
//!
//! ```text
//! waiting     A        C   B                D              (in the order of places: A C B D)
//!         ----[a]------[c]-[b]--------------[d]--------
//!             |--reach of A--|
//!                      |--reach of C--|
//!             |==== one window: A, C, B ===|               D is left for the next
//! ```
//!
//! What is next becomes a [`Window`]: its own bytes and what it would like to have behind them, its *reach*. Who waits for something in
//! there comes along, and the window grows by its reach, up to [`WINDOW_BYTES_MAX`]: a head that has arrived reads the rest of a group
//! nearly for nothing, and the longer the queue, the more of it each read answers.
//!
//! Not known here: the device, who waits, when it is time to go.
//!
//! Limits: twice as many as wait, or a thousand: who has gone away stays until it is their turn, or there are so many.
//!
//! Source: paper 002, the section on read requests (sorted by position); the windows are our own (decision 0026).

use std::collections::BTreeMap;

/// A window grows no further, but for one read that is longer by itself. About what a disk with a head reads in the third of a seek.
pub const WINDOW_BYTES_MAX: usize = 256 << 10;

/// So many may wait before it is looked who has gone meanwhile.
const CLEARED_MIN: usize = 1024;

/// A read that waits, and whom it is for.
#[derive(Debug)]
pub struct Ask<T> {
    /// Its place, in bytes.
    pub offset: u64,
    /// Bytes it must have.
    pub len: usize,
    /// Bytes it would like to have, from the same place on; no fewer than `len`.
    pub reach: usize,
    /// Whom it is for.
    pub waiter: T,
}

/// What is read at once.
#[derive(Debug)]
pub struct Window<T> {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub len: usize,
    /// Who is answered by it, in the order of their places. Not empty; `len` bytes of each are inside.
    pub asks: Vec<Ask<T>>,
}

/// Reads in the order of their places.
#[derive(Debug)]
pub struct Elevator<T> {
    /// By place, then in the order in which they came.
    asks: BTreeMap<(u64, u64), Ask<T>>,
    came: u64,
    /// Where the head is: behind the last window, or at the first one that did not fit into it.
    position: u64,
    /// With so many waiting it is looked through for who has gone.
    cleared_at: usize,
}

impl<T> Default for Elevator<T> {
    fn default() -> Self {
        Self {
            asks: BTreeMap::new(),
            came: 0,
            position: 0,
            cleared_at: CLEARED_MIN,
        }
    }
}

impl<T> Ask<T> {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }

    fn reach_end(&self) -> u64 {
        self.offset.saturating_add(self.reach.max(self.len) as u64)
    }
}

impl<T> Elevator<T> {
    /// One more waits.
    pub fn add(&mut self, ask: Ask<T>) {
        self.asks.insert((ask.offset, self.came), ask);
        self.came += 1;
    }

    /// Lets go who is not `wanted` any more, once those who wait have doubled: while the device answers nothing, nobody else does.
    pub fn clear(&mut self, wanted: impl Fn(&T) -> bool) {
        if self.asks.len() < self.cleared_at {
            return;
        }
        self.asks.retain(|_, ask| wanted(&ask.waiter));
        self.cleared_at = (self.asks.len() * 2).max(CLEARED_MIN);
    }

    /// Takes what is read next out of the queue. Who is not `wanted` any more is left out, and nothing is read for it.
    pub fn next(&mut self, wanted: impl Fn(&T) -> bool) -> Option<Window<T>> {
        let first = self.take_next(&wanted)?;
        let offset = first.offset;
        let limit = offset.saturating_add(WINDOW_BYTES_MAX as u64);
        let mut end = first.reach_end();
        let mut asks = vec![first];
        let mut position = None;
        while let Some(next) = self.asks.range((offset, 0)..).next().map(|(&key, _)| key) {
            let Some(ask) = self.asks.get(&next) else {
                break;
            };
            if ask.offset > end || ask.end() > end.max(limit) {
                position = (ask.offset < end).then_some(ask.offset);
                break;
            }
            let grown = ask.reach_end().min(limit).max(ask.end());
            let Some(ask) = self.asks.remove(&next) else {
                break;
            };
            if wanted(&ask.waiter) {
                end = end.max(grown);
                asks.push(ask);
            }
        }
        self.position = position.unwrap_or(end);
        Some(Window {
            offset,
            len: (end - offset) as usize,
            asks,
        })
    }

    /// The next one upwards; from the beginning where there is none.
    fn take_next(&mut self, wanted: &impl Fn(&T) -> bool) -> Option<Ask<T>> {
        loop {
            let upwards = self.asks.range((self.position, 0)..).next();
            let (&key, _) = upwards.or_else(|| self.asks.first_key_value())?;
            let ask = self.asks.remove(&key)?;
            if wanted(&ask.waiter) {
                return Some(ask);
            }
        }
    }
}

#[cfg(test)]
#[path = "elevator_tests.rs"]
mod tests;
