//! What a member has heard: for each origin of purges, the last one.
//!
//! A member numbers its purges. Others hear them in this order, or from a third member that has heard all up to some number. So one number for
//! each *origin* is enough, and a [`Vector`] holds these. An origin is a journal, not a member: a member that has lost its journal begins a new
//! one with a new name.
//!
//! Limits: [`ORIGINS_MAX`] origins. With more, the one with the oldest last purge is forgotten. If its purges are told again they are applied
//! again; if they cannot be told any more, everything is dropped.

use std::collections::BTreeMap;

/// Origins in a vector at most.
pub const ORIGINS_MAX: usize = 1024;

/// The origin of purges: the name of a journal, drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin(pub u64);

/// The number of a purge at its origin: the number of the start in the upper half, purges since then in the lower. Each start skips numbers, so
/// that the number of a purge that was told but not written before a crash is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The number before the first purge of a start.
    pub fn of_term(term: u32) -> Stamp {
        Stamp(u64::from(term) << 32)
    }

    /// The next number.
    #[must_use]
    pub fn next(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

/// The last purge that was heard of each origin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector(BTreeMap<Origin, Heard>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Heard {
    last: Stamp,
    /// Seconds since 1970, by the clock of the origin.
    unix_s: u64,
}

/// Bytes of one origin in an encoded vector.
const HEARD_BYTES: usize = 24;

impl Vector {
    /// The last purge heard of this origin; 0: none.
    pub fn last(&self, origin: Origin) -> Stamp {
        self.0.get(&origin).map_or(Stamp(0), |heard| heard.last)
    }

    /// Has this purge been heard?
    pub fn has(&self, origin: Origin, stamp: Stamp) -> bool {
        stamp <= self.last(origin)
    }

    /// Has everything in the other been heard?
    pub fn covers(&self, other: &Vector) -> bool {
        let mut all = other.0.iter();
        all.all(|(origin, heard)| self.has(*origin, heard.last))
    }

    /// Was nothing ever heard?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks a purge as heard. Older ones change nothing.
    pub fn hear(&mut self, origin: Origin, stamp: Stamp, unix_s: u64) {
        let heard = self.0.entry(origin).or_insert(Heard {
            last: stamp,
            unix_s,
        });
        heard.last = heard.last.max(stamp);
        heard.unix_s = heard.unix_s.max(unix_s);
        if self.0.len() > ORIGINS_MAX {
            let oldest = self.0.iter().filter(|(other, _)| **other != origin);
            let oldest = oldest.min_by_key(|(_, heard)| heard.unix_s);
            if let Some(oldest) = oldest.map(|(origin, _)| *origin) {
                self.0.remove(&oldest);
            }
        }
    }

    /// Marks everything in the other as heard.
    pub fn hear_all(&mut self, other: &Vector) {
        for (origin, heard) in &other.0 {
            self.hear(*origin, heard.last, heard.unix_s);
        }
    }

    /// Time of the newest purge, seconds since 1970.
    pub fn newest_unix_s(&self) -> u64 {
        let all = self.0.values().map(|heard| heard.unix_s);
        all.max().unwrap_or(0)
    }

    /// The encoding: number of origins (4 bytes), then for each its name, last number and time (8 bytes each).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.0.len() as u32).to_le_bytes());
        for (origin, heard) in &self.0 {
            for number in [origin.0, heard.last.0, heard.unix_s] {
                out.extend(number.to_le_bytes());
            }
        }
    }

    /// Decodes a vector, and returns the bytes after it; `None` if it is incomplete or too long.
    pub fn decode(bytes: &[u8]) -> Option<(Vector, &[u8])> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        if count > ORIGINS_MAX {
            return None;
        }
        let (all, rest) = rest.split_at_checked(count * HEARD_BYTES)?;
        let mut vector = Vector::default();
        for one in all.chunks_exact(HEARD_BYTES) {
            let number = |at: usize| one[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
            let heard = Heard {
                last: Stamp(number(8)?),
                unix_s: number(16)?,
            };
            vector.0.insert(Origin(number(0)?), heard);
        }
        (vector.0.len() == count).then_some((vector, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_covers_what_it_has_heard() {
        let (a, b) = (Origin(1), Origin(2));
        let (mut one, mut other) = (Vector::default(), Vector::default());
        one.hear(a, Stamp(5), 0);
        one.hear(a, Stamp(3), 0);
        assert!(one.has(a, Stamp(5)) && !one.has(a, Stamp(6)) && !one.has(b, Stamp(1)));
        other.hear(a, Stamp(4), 0);
        assert!(one.covers(&other) && !other.covers(&one));
        other.hear(b, Stamp(1), 0);
        assert!(!one.covers(&other));
        one.hear_all(&other);
        assert!(one.covers(&other) && one.has(a, Stamp(5)));
    }

    #[test]
    fn a_vector_is_understood_whole_or_not_at_all() {
        let mut vector = Vector::default();
        vector.hear(Origin(7), Stamp::of_term(2).next(), 9);
        vector.hear(Origin(8), Stamp(1), 10);
        let mut bytes = Vec::new();
        vector.encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(Vector::decode(&bytes[..cut]), None);
        }
        bytes.push(1);
        assert_eq!(Vector::decode(&bytes), Some((vector, &[1][..])));
        assert_eq!(Vector::decode(&[255; 64]), None);
    }

    #[test]
    fn the_origin_that_was_silent_longest_makes_room() {
        let mut vector = Vector::default();
        for n in 0..=ORIGINS_MAX as u64 {
            vector.hear(Origin(n), Stamp(1), 1000 - n.min(999));
        }
        assert_eq!(vector.0.len(), ORIGINS_MAX);
        assert!(vector.has(Origin(ORIGINS_MAX as u64), Stamp(1)));
        assert!(vector.has(Origin(0), Stamp(1)));
        assert!(!vector.has(Origin(999), Stamp(1)));
    }
}
