//! Names purged in the last seconds: no copy of them is taken from another member.
//!
//! A purge can reach us before it reaches another member, and a request of ours can reach that member in between. The member then answers with
//! the object being purged, after our own store has dropped it. Passing the response on is right, because the purge is not acknowledged yet;
//! keeping it is not. A purge is acknowledged within its limit or never, so after [`WINDOW_MS`] all members that are asked have applied it.
//!
//! Not known here: the contents of a purge, clocks.
//! Limits: [`NAMES_MAX`] names; with more, no copies of anything are taken for a window.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use store::KeyHash;

/// How long a purge may take to reach all members, ms: the longest limit of a purge, plus time for a response that a member begins
/// meanwhile.
const WINDOW_MS: u64 = 30_000;
/// Names that are remembered.
const NAMES_MAX: usize = 64 << 10;

/// The purges of the last seconds.
#[derive(Debug, Default)]
pub struct Window(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The end of the window of each name, ms.
    names: HashMap<KeyHash, u64>,
    order: VecDeque<(u64, KeyHash)>,
    all_until_ms: u64,
}

impl Window {
    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that these names were purged, and possibly everything if there was a pattern.
    pub fn note(&self, names: impl Iterator<Item = KeyHash>, has_patterns: bool, now_ms: u64) {
        let mut recent = self.lock();
        let until_ms = now_ms + WINDOW_MS;
        while let Some(&(until, name)) = recent.order.front()
            && until <= now_ms
        {
            recent.order.pop_front();
            if recent.names.get(&name) == Some(&until) {
                recent.names.remove(&name);
            }
        }
        for name in names {
            if recent.order.len() >= NAMES_MAX {
                recent.all_until_ms = until_ms;
                break;
            }
            recent.names.insert(name, until_ms);
            recent.order.push_back((until_ms, name));
        }
        if has_patterns {
            recent.all_until_ms = until_ms;
        }
    }

    /// Was this name purged within the window, or may it have been?
    pub fn has(&self, name: KeyHash, now_ms: u64) -> bool {
        let recent = self.lock();
        let until = recent.names.get(&name).copied().unwrap_or(0);
        now_ms < until.max(recent.all_until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(window: &Window, names: impl IntoIterator<Item = u64>, now_ms: u64) {
        window.note(names.into_iter().map(KeyHash), false, now_ms);
    }

    #[test]
    fn a_name_is_in_the_window_for_a_while() {
        let window = Window::default();
        note(&window, [1], 5);
        note(&window, [1], 100);
        assert!(window.has(KeyHash(1), 99 + WINDOW_MS) && !window.has(KeyHash(2), 100));
        note(&window, [3], 50 + WINDOW_MS);
        assert!(
            window.has(KeyHash(1), 99 + WINDOW_MS),
            "it was purged again"
        );
        assert!(!window.has(KeyHash(1), 100 + WINDOW_MS));
        window.note(std::iter::empty(), true, 1_000_000);
        assert!(window.has(KeyHash(2), 1_000_001));
        assert!(!window.has(KeyHash(2), 1_000_000 + WINDOW_MS));
    }

    #[test]
    fn with_too_many_nothing_is_copied() {
        let window = Window::default();
        note(&window, 0..NAMES_MAX as u64, 0);
        assert!(!window.has(KeyHash(u64::MAX), 1));
        note(&window, [7, 8], 1);
        assert!(window.has(KeyHash(u64::MAX), 1));
        note(&window, [9], WINDOW_MS + 1);
        assert!(
            !window.has(KeyHash(u64::MAX), WINDOW_MS + 1),
            "there is room again"
        );
        assert_eq!(window.lock().names.len(), 1);
    }
}
