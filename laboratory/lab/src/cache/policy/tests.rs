//! Each policy against a slow model, written from the definition: lists are searched, and sums are added up anew.

#[path = "../../../../../crates/replacement/tests/model/harness.rs"]
#[allow(dead_code, reason = "each user of the file needs a part of it")]
mod harness;

use std::collections::HashMap;

use harness::{List, Object, Twin, any_size, compare, find, take};

use super::PolicyKind;

fn total(lists: &[&List]) -> u64 {
    let objects = lists.iter().flat_map(|list| list.iter());
    objects.map(|object| object.size).sum()
}

/// `hand` is the number of objects that the hand has passed.
#[derive(Default)]
struct SieveTwin {
    list: List,
    hand: usize,
}

impl Twin for SieveTwin {
    fn insert(&mut self, object: Object) {
        self.list.push(object);
    }
    fn touch(&mut self, slot: u32) -> bool {
        let at = find(&self.list, slot);
        at.map(|at| self.list[at].uses = 1).is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = find(&self.list, slot) else {
            return false;
        };
        self.list.remove(at);
        // A hand behind the newest continues with the oldest, even if another object is inserted meanwhile.
        if at < self.hand {
            self.hand -= 1;
        } else if self.hand == self.list.len() {
            self.hand = 0;
        }
        true
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let at = self.hand;
            let object = self.list.get_mut(at)?;
            let (slot, used) = (object.slot, object.uses > 0);
            object.uses = 0;
            if used {
                self.hand = (at + 1) % self.list.len();
                continue;
            }
            self.list.remove(at);
            if self.hand == self.list.len() {
                self.hand = 0;
            }
            return Some(slot);
        }
    }
}

#[derive(Default)]
struct S3FifoTwin {
    small: List,
    main: List,
    /// Evictions from `small`, oldest first; `None`: the object came back.
    ghosts: Vec<Option<u64>>,
}

impl Twin for S3FifoTwin {
    fn insert(&mut self, object: Object) {
        if !self.ghosts.contains(&Some(object.id)) {
            return self.small.push(object);
        }
        for ghost in &mut self.ghosts {
            *ghost = ghost.filter(|&id| id != object.id);
        }
        self.main.push(object);
    }
    fn touch(&mut self, slot: u32) -> bool {
        let mut objects = self.small.iter_mut().chain(&mut self.main);
        let found = objects.find(|object| object.slot == slot);
        found.map(|o| o.uses = (o.uses + 1).min(3)).is_some()
    }
    fn remove(&mut self, slot: u32) -> bool {
        take(&mut self.small, slot)
            .or(take(&mut self.main, slot))
            .is_some()
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let objects = self.small.len() + self.main.len();
            let (small, all) = (total(&[&self.small]), total(&[&self.small, &self.main]));
            let from_small = !self.small.is_empty() && (small as f64) >= all as f64 / 10.0;
            if from_small || self.main.is_empty() {
                if objects == 0 {
                    return None;
                }
                let mut object = self.small.remove(0);
                if object.uses < 2 {
                    self.ghosts.push(Some(object.id));
                    let surplus = self.ghosts.len().saturating_sub(objects);
                    self.ghosts.drain(..surplus);
                    return Some(object.slot);
                }
                object.uses = 0;
                self.main.push(object);
            } else {
                let mut object = self.main.remove(0);
                if object.uses == 0 {
                    return Some(object.slot);
                }
                object.uses -= 1;
                self.main.push(object);
            }
        }
    }
}

/// Counts uses exactly. A hundred objects counted to 15 do not fill a sample, so no count ages here; `sketch` has a
/// test for that.
#[derive(Default)]
struct WTinyLfuTwin {
    window: List,
    candidates: List,
    probation: List,
    protected: List,
    counts: HashMap<u64, u64>,
    pressed: bool,
}

impl WTinyLfuTwin {
    fn count(&mut self, id: u64) {
        let count = self.counts.entry(id).or_default();
        *count = (*count + 1).min(15);
    }
    fn uses(&self, object: Object) -> u64 {
        self.counts.get(&object.id).copied().unwrap_or(0)
    }
    fn main(&self) -> u64 {
        total(&[&self.candidates, &self.probation, &self.protected])
    }
}

impl Twin for WTinyLfuTwin {
    fn insert(&mut self, object: Object) {
        if self.pressed {
            self.probation.append(&mut self.candidates);
        }
        self.pressed = false;
        self.window.push(object);
        self.count(object.id);
        while self.window.len() > 1
            && total(&[&self.window]) * 100 > self.main() + total(&[&self.window])
        {
            self.candidates.push(self.window.remove(0));
        }
    }
    fn touch(&mut self, slot: u32) -> bool {
        if let Some(object) = take(&mut self.window, slot) {
            self.window.push(object);
            self.count(object.id);
            return true;
        }
        let found = take(&mut self.candidates, slot)
            .or(take(&mut self.probation, slot))
            .or(take(&mut self.protected, slot));
        let Some(object) = found else {
            return false;
        };
        self.protected.push(object);
        self.count(object.id);
        while total(&[&self.protected]) * 5 > self.main() * 4 {
            self.probation.push(self.protected.remove(0));
        }
        true
    }
    fn remove(&mut self, slot: u32) -> bool {
        let lists = [
            &mut self.window,
            &mut self.candidates,
            &mut self.probation,
            &mut self.protected,
        ];
        lists.into_iter().any(|list| take(list, slot).is_some())
    }
    fn victim(&mut self) -> Option<u32> {
        self.pressed = true;
        let main = match self.probation.is_empty() {
            true => self.protected.first().copied(),
            false => self.probation.first().copied(),
        };
        let candidate = self.candidates.first().copied();
        let victim = match (candidate, main) {
            (Some(candidate), Some(main)) if self.uses(candidate) > self.uses(main) => {
                self.candidates.remove(0);
                self.probation.push(candidate);
                main
            }
            (Some(candidate), _) => candidate,
            (None, Some(main)) => main,
            (None, None) => *self.window.first()?,
        };
        self.remove(victim.slot).then_some(victim.slot)
    }
}

fn same<T: Twin + Default>(kind: PolicyKind, sizes: fn(u64) -> u64) {
    compare::<T>(&kind.to_string(), || kind.build(), sizes);
}

#[test]
fn sieve() {
    same::<SieveTwin>(PolicyKind::Sieve, any_size);
}

#[test]
fn s3_fifo() {
    same::<S3FifoTwin>(PolicyKind::S3Fifo, any_size);
    same::<S3FifoTwin>(PolicyKind::S3Fifo, |_| 1);
}

#[test]
fn w_tinylfu() {
    same::<WTinyLfuTwin>(PolicyKind::WTinyLfu, any_size);
    same::<WTinyLfuTwin>(PolicyKind::WTinyLfu, |_| 1);
}

#[test]
fn without_uses_there_is_one_order() {
    for kind in [PolicyKind::Sieve, PolicyKind::S3Fifo] {
        harness::is_a_fifo_without_uses(&kind.to_string(), kind.build());
    }
}

#[test]
fn memory_is_bounded() {
    for kind in [PolicyKind::Sieve, PolicyKind::S3Fifo, PolicyKind::WTinyLfu] {
        harness::memory_follows_the_number_of_slots(&kind.to_string(), kind.build());
    }
}
