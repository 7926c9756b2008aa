//! The latest reloads, which show whether a cache goes on serving its older copy afterwards.
//!
//! Not known here: how answers are judged.   Limits: `KEPT_MAX` objects, the latest.

use std::collections::{HashMap, VecDeque};

use crate::content::ObjectId;

/// At 5 % reloads, those of about the last million requests.
const KEPT_MAX: usize = 1 << 16;

/// Objects, and when the server answered their latest reload.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    made_ms: HashMap<ObjectId, u64>,
    order: VecDeque<ObjectId>,
}

impl Reloads {
    /// Records the answer to a reload, which the server made at `made_ms`.
    pub(super) fn answered(&mut self, id: ObjectId, made_ms: u64) {
        let known = self.made_ms.entry(id).or_insert(0);
        if *known == 0 {
            self.order.push_back(id);
        }
        *known = made_ms.max(*known);
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.made_ms.remove(&oldest);
        }
    }

    /// When the server answered the latest reload, Unix milliseconds.
    pub(super) fn latest_ms(&self, id: ObjectId) -> Option<u64> {
        self.made_ms.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Kind;

    fn id(number: u64) -> ObjectId {
        ObjectId {
            world: 1,
            server: 0,
            kind: Kind::Other,
            number,
        }
    }

    #[test]
    fn the_latest_counts_and_the_oldest_is_forgotten() {
        let mut reloads = Reloads::default();
        assert_eq!(reloads.latest_ms(id(1)), None);
        reloads.answered(id(1), 70);
        reloads.answered(id(1), 60);
        assert_eq!(reloads.latest_ms(id(1)), Some(70));
        for number in 2..KEPT_MAX as u64 + 2 {
            reloads.answered(id(number), 80);
        }
        assert_eq!(reloads.latest_ms(id(1)), None);
        assert_eq!(reloads.made_ms.len(), KEPT_MAX);
    }
}
