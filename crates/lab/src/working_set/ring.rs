//! A ring as the store has one, without regions, headers or anything else that costs room: what its *rule* is worth.
//!
//! Objects are written one behind the other; what the writer reaches leaves, unless the rule spares it, and then it is written again.
//! Whoever is read within a window before the writer is written again at once, which needs no read.
//! A window is set for an object of middling length; with `by_size` it is two and a half times as wide for short ones and half as
//! wide for long ones, as the store has it (`store::window`).
//!
//! Not known here: the store.

use std::collections::VecDeque;

use super::{HEAD_BYTES, Stream};
use crate::Access;
use crate::policies::Hits;

/// Who is written again.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Percent of the ring before the writer.
    pub window_percent: f64,
    /// Wider for short objects, narrower for long ones.
    pub by_size: bool,
    /// When the writer comes: those who were used since they were written, if they have at most so many times the mean length.
    pub spare_below: f64,
}

#[derive(Clone, Copy, Default)]
struct Held {
    at: u64,
    size: u64,
    used: bool,
}

struct Ring {
    rule: Rule,
    bytes: u64,
    held: Vec<Option<Held>>,
    order: VecDeque<(u64, u32)>,
    written: u64,
    /// Sizes of those stored, added up, and how many.
    stored: (u64, u64),
}

/// What comes of it, and bytes written for each byte stored.
pub fn hits(stream: &Stream, cache_bytes: u64, rule: Rule) -> (Hits, f64) {
    let mut ring = Ring {
        rule,
        bytes: cache_bytes,
        held: Vec::new(),
        order: VecDeque::new(),
        written: 0,
        stored: (0, 0),
    };
    let mut hits = Hits::default();
    let mut before = (0, 0);
    for (at, access) in stream.accesses.iter().enumerate() {
        if at == stream.warm {
            before = (ring.written, ring.stored.0);
        }
        let hit = ring.get(access);
        if at >= stream.warm {
            hits.count(access, hit, !hit);
        }
    }
    let stored = (ring.stored.0 - before.1).max(1);
    (hits, (ring.written - before.0) as f64 / stored as f64)
}

impl Ring {
    fn get(&mut self, access: &Access) -> bool {
        let object = access.object as usize;
        if self.held.len() <= object {
            self.held.resize(object + 1, None);
        }
        let size = u64::from(access.size_bytes + HEAD_BYTES);
        let hit = match &mut self.held[object] {
            Some(held) if held.size == size => {
                held.used = true;
                let left = held.at + self.bytes - self.written.min(held.at + self.bytes);
                if (left as f64) < self.window(size) {
                    self.write(access.object, size);
                }
                true
            }
            _ => {
                self.stored.0 += size;
                self.stored.1 += 1;
                self.write(access.object, size);
                false
            }
        };
        self.clear();
        hit
    }

    fn mean(&self) -> f64 {
        self.stored.0 as f64 / self.stored.1.max(1) as f64
    }

    fn window(&self, size: u64) -> f64 {
        let factor = if self.rule.by_size {
            (self.mean() / size as f64).clamp(0.5, 2.5)
        } else {
            1.0
        };
        self.bytes as f64 * self.rule.window_percent / 100.0 * factor
    }

    fn write(&mut self, object: u32, size: u64) {
        self.held[object as usize] = Some(Held {
            at: self.written,
            size,
            used: false,
        });
        self.order.push_back((self.written, object));
        self.written += size;
    }

    /// What the writer has reached leaves, or is spared.
    fn clear(&mut self) {
        while let Some(&(at, object)) = self.order.front() {
            if at + self.bytes >= self.written {
                break;
            }
            self.order.pop_front();
            let Some(held) = self.held[object as usize].filter(|held| held.at == at) else {
                continue;
            };
            if held.used && (held.size as f64) < self.mean() * self.rule.spare_below {
                self.write(object, held.size);
            } else {
                self.held[object as usize] = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Rule = Rule {
        window_percent: 0.0,
        by_size: false,
        spare_below: 0.0,
    };

    /// Letters are objects, small ones of 100 bytes and capital ones of 1000; the ring has room for two capital ones.
    fn asked(text: &str, rule: Rule) -> (u64, f64) {
        let access = |letter: u8| Access {
            at_ms: 0,
            object: u32::from(letter),
            server: 0,
            size_bytes: if letter.is_ascii_uppercase() {
                1000
            } else {
                100
            } - HEAD_BYTES.min(99),
        };
        let stream = Stream {
            accesses: text.bytes().map(access).collect(),
            warm: 0,
            working_set_bytes: 0,
        };
        let room = 2 * u64::from(1000 - HEAD_BYTES.min(99) + HEAD_BYTES);
        let (hits, written) = hits(&stream, room, rule);
        (hits.hits, written)
    }

    #[test]
    fn who_is_read_in_the_window_stays() {
        assert_eq!(asked("aaBCDEa", NONE), (1, 1.0));
        let wide = Rule {
            window_percent: 75.0,
            ..NONE
        };
        let (hits, written) = asked("aBaCaDaEa", wide);
        assert!(hits == 4 && written > 1.0, "{hits} {written}");
    }

    #[test]
    fn who_is_short_and_was_used_is_spared_once() {
        let spare = Rule {
            spare_below: 0.9,
            ..NONE
        };
        assert_eq!(asked("aaBCDa", spare).0, 2);
        assert_eq!(asked("aaBCDEFGHa", spare).0, 1, "not used since");
        assert_eq!(asked("aBCDEa", spare).0, 0, "never used");
    }
}
