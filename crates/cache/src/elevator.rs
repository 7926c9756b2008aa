//! Reads that wait for a disk with a head: in the order of their places, and those that lie close together as one.
//!
//! The head goes one way round: upwards from where the last read ended, then one jump back to the beginning. So every
//! waiting read gets its turn, and no place is favoured.
//!
//! ```text
//! waiting     A        C   B                D              (in the order of places: A C B D)
//!         ----[a]------[c]-[b]--------------[d]--------
//!             |--reach of A--|
//!                      |--reach of C--|
//!             |==== one window: A, C, B ===|               D is left for the next
//! ```
//!
//! The next read becomes a [`Window`]: its own bytes and its *reach*, the bytes it would like to have after them. A
//! waiting read that begins in the window joins it, and the window grows by its reach, up to [`WINDOW_BYTES_MAX`].
//! Once the head is there, the rest of a group costs almost nothing, and the longer the queue, the more of it each
//! window answers.
//!
//! Not known here: the device, the waiters, the time.
//!
//! Limits: twice the number of live waiters, or a thousand: a cancelled read stays until its turn or until the queue
//! is that long.
//!
//! Source: paper 002, the section on read requests (sorted by position); the windows are our own (decision 0026).

use std::collections::BTreeMap;

/// The longest window, except for one read that is longer by itself. A disk with a head reads this much in about a
/// third of a seek.
pub const WINDOW_BYTES_MAX: usize = 256 << 10;

/// The length of the queue at which cancelled reads are first removed.
const CLEARED_MIN: usize = 1024;

/// A waiting read and its waiter.
#[derive(Debug)]
pub struct Ask<T> {
    /// The first byte.
    pub offset: u64,
    /// How many bytes are needed.
    pub len: usize,
    /// How many bytes are welcome, from the same place on; at least `len`.
    pub reach: usize,
    /// The waiter.
    pub waiter: T,
}

/// One read of the device.
#[derive(Debug)]
pub struct Window<T> {
    /// The first byte.
    pub offset: u64,
    /// Its bytes.
    pub len: usize,
    /// The reads that it answers, by place. Never empty; each one's `len` bytes are inside.
    pub asks: Vec<Ask<T>>,
}

/// Reads in the order of their places.
#[derive(Debug)]
pub struct Elevator<T> {
    /// By place, then in the order in which they came.
    asks: BTreeMap<(u64, u64), Ask<T>>,
    came: u64,
    /// The position of the head: after the last window, or at the first read that did not fit into it.
    position: u64,
    /// At this length cancelled reads are removed.
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
    /// How many reads wait.
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// Adds a read.
    pub fn add(&mut self, ask: Ask<T>) {
        self.asks.insert((ask.offset, self.came), ask);
        self.came += 1;
    }

    /// When the queue has doubled since the last check, removes reads that are not `wanted` any more; otherwise a
    /// hung device lets the queue grow without bound.
    pub fn clear(&mut self, wanted: impl Fn(&T) -> bool) {
        if self.asks.len() < self.cleared_at {
            return;
        }
        self.asks.retain(|_, ask| wanted(&ask.waiter));
        self.cleared_at = (self.asks.len() * 2).max(CLEARED_MIN);
    }

    /// Takes the next window out of the queue. Reads that are not `wanted` any more are left out.
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

    /// The next read upwards, or the first one after a jump back.
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
