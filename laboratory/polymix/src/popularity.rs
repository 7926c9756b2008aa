//! Which object is requested next: a new one or an old one, and which old one.
//!
//! Every server has a numbered list for each kind that is requested directly; a new object takes the next number. An old one is drawn
//! uniformly from the working set: the last W numbers of its list. Until the freeze, W is the whole list. Then W is fixed, and each
//! new object pushes the oldest one out of the set.
//!
//! Some draws are from the *hot set* only: a hundredth of the working set at a random place. It moves when it falls out of the working
//! set. As in Polygraph, there is no hot set before the freeze. PolyMix-4 prefers small objects: it takes the smallest cachable one
//! of the drawn object and its neighbours, nine in all.
//!
//! Not known here: robots, time, phases.   Limits: three lists a server, 48 bytes each, however many objects.
//! Source: spec section 5; Polygraph's PopModel and HotSet where the specification is silent.

use crate::Mix;
use crate::content::{Kind, NUMBER_END, ObjectId};
use crate::random::Chance;

//= spec section 5   with probability 10 % from a window of 1 % of the working set
const HOT_PROBABILITY: f64 = 0.10;
const HOT_SHARE: f64 = 0.01;
//= spec section 5   PolyMix-4 only, BHR discrimination 90 %, names -4 to +4
const SMALL_PROBABILITY: f64 = 0.90;
const SMALL_SWING: u64 = 4;
/// Image numbers are page numbers times 256, and must stay below `NUMBER_END`.
const LIST_MAX: u64 = NUMBER_END / 256;

/// The objects that the robots of one process know.
#[derive(Debug)]
pub struct Popularity {
    mix: Mix,
    world: u32,
    servers: Vec<[List; 3]>,
    frozen: bool,
    /// Draws that wanted an old object.
    repeats_wanted: u64,
    /// Those among them that found no old object.
    nothing_to_repeat: u64,
}

/// The objects of one kind on one server. Numbers are 1 to `last`.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    last: u64,
    /// Size of the working set, once frozen.
    window: Option<u64>,
    /// Number at which the hot set ends.
    hot_end: u64,
}

/// The result of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// The object.
    pub id: ObjectId,
    /// It was requested before, and is in the working set.
    pub old: bool,
}

impl Popularity {
    /// No object has been requested yet.
    #[must_use]
    pub fn new(mix: Mix, world: u32, servers: u32) -> Self {
        assert!((1..=crate::name::SERVERS_MAX).contains(&servers));
        Self {
            mix,
            world,
            servers: vec![[List::default(); 3]; servers as usize],
            frozen: false,
            repeats_wanted: 0,
            nothing_to_repeat: 0,
        }
    }

    /// Probability that an old object is wanted. 55 % of all requests shall be hits; uncachable objects never are, and in PolyMix-3 reloads
    /// neither.
    #[must_use]
    pub fn recurrence(mix: Mix) -> f64 {
        //= spec section 2   recurrence
        match mix {
            Mix::Three => 0.55 / (0.80 * 0.95),
            Mix::Four => 0.55 / 0.80,
        }
    }

    /// The next object to ask for; an old one with probability `recurrence`.
    pub fn pick(&mut self, recurrence: f64, chance: &mut Chance) -> Picked {
        let server = chance.below(self.servers.len() as u64);
        let server = u16::try_from(server).expect("at most SERVERS_MAX");
        let (place, kind) = direct_kind(chance.unit());
        let want_old = chance.event(recurrence);
        let list = &mut self.servers[usize::from(server)][place];
        let old = want_old && list.last > 0;
        self.repeats_wanted += u64::from(want_old);
        self.nothing_to_repeat += u64::from(want_old && !old);
        let id = |number| ObjectId {
            world: self.world,
            server,
            kind,
            number,
        };
        let number = if old {
            let (number, last) = list.draw(chance);
            if self.mix == Mix::Four && chance.event(SMALL_PROBABILITY) {
                smallest(number, last, id)
            } else {
                number
            }
        } else {
            list.last += 1;
            assert!(list.last < LIST_MAX, "a list of {} objects", list.last);
            list.last
        };
        Picked {
            id: id(number),
            old,
        }
    }

    /// Fixes the size of the working set.
    pub fn freeze(&mut self) {
        self.frozen = true;
        for list in self.servers.iter_mut().flatten() {
            list.window = Some(list.last.max(1));
        }
    }

    /// Whether the size of the working set is fixed.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    /// Directly requested objects in the working set, without the images of pages.
    #[must_use]
    pub fn working_set(&self) -> u64 {
        let lists = self.servers.iter().flatten();
        lists
            .map(|list| list.window.unwrap_or(list.last).min(list.last))
            .sum()
    }

    /// Directly requested objects so far.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.servers.iter().flatten().map(|list| list.last).sum()
    }

    /// Whether an object of every server has been requested.
    #[must_use]
    pub fn all_servers_seen(&self) -> bool {
        let seen = |lists: &[List; 3]| lists.iter().any(|list| list.last > 0);
        self.servers.iter().all(seen)
    }

    /// Requests that were to repeat an old object.
    #[must_use]
    pub fn repeats_wanted(&self) -> u64 {
        self.repeats_wanted
    }

    /// Repeats that became new objects, because there was no old one.
    #[must_use]
    pub fn nothing_to_repeat(&self) -> u64 {
        self.nothing_to_repeat
    }
}

impl List {
    /// An old number, and the largest number that may be preferred to it.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // numbers below 2^40
    fn draw(&mut self, chance: &mut Chance) -> (u64, u64) {
        assert!(self.last > 0, "nothing to draw from");
        let mut last = self.last;
        let mut window = self.window.unwrap_or(last).min(last);
        if chance.event(HOT_PROBABILITY) && self.window.is_some() {
            if self.hot_end <= last - window {
                self.hot_end = last - chance.below(window);
            }
            let hot = ((window as f64 * HOT_SHARE).round() as u64).max(1);
            last = self.hot_end.clamp(last - window + hot, last);
            window = hot;
        }
        (last - window + 1 + chance.below(window), last)
    }
}

/// A kind, drawn by its share of direct requests, and its position among the direct kinds.
pub(crate) fn direct_kind(u: f64) -> (usize, Kind) {
    let total: f64 = Kind::DIRECT.iter().map(|(_, share)| share).sum();
    let mut left = u * total;
    for (place, (kind, share)) in Kind::DIRECT.into_iter().enumerate() {
        if left < share {
            return (place, kind);
        }
        left -= share;
    }
    let place = Kind::DIRECT.len() - 1;
    (place, Kind::DIRECT[place].0)
}

/// The smallest cachable neighbour; an uncachable object is returned as it is.
fn smallest(number: u64, last: u64, id: impl Fn(u64) -> ObjectId) -> u64 {
    if !id(number).cachable() {
        return number;
    }
    (number.saturating_sub(SMALL_SWING).max(1)..=(number + SMALL_SWING).min(last))
        .filter(|n| id(*n).cachable())
        .min_by_key(|n| id(*n).size())
        .expect("number itself is cachable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn filled(mix: Mix, servers: u32, picks: u32) -> (Popularity, Chance) {
        let mut popularity = Popularity::new(mix, 1, servers);
        let mut chance = Chance::new(2);
        for _ in 0..picks {
            popularity.pick(0.066, &mut chance);
        }
        (popularity, chance)
    }

    #[test]
    fn kinds_have_their_shares() {
        let (mut popularity, mut chance) = filled(Mix::Three, 10, 0);
        let mut counts = [0.0; 4];
        for _ in 0..100_000 {
            counts[popularity.pick(0.5, &mut chance).id.kind.index()] += 1.0 / 1000.0;
        }
        for (kind, share) in Kind::DIRECT {
            let found: f64 = counts[kind.index()];
            assert!((found - share / 0.35).abs() < 0.5, "{kind:?}: {found}");
        }
        assert!(counts[Kind::Image.index()] == 0.0);
    }

    #[test]
    fn old_ones_come_as_often_as_wanted_and_from_the_working_set_only() {
        let (mut popularity, mut chance) = filled(Mix::Three, 10, 20_000);
        popularity.freeze();
        let set = popularity.working_set();
        let wanted = Popularity::recurrence(Mix::Three);
        assert!((wanted - 0.7237).abs() < 0.0001);
        let before = popularity.nothing_to_repeat();
        let mut old = 0_u32;
        for _ in 0..100_000 {
            let picked = popularity.pick(wanted, &mut chance);
            old += u32::from(picked.old);
            let place = Kind::DIRECT
                .iter()
                .position(|d| d.0 == picked.id.kind)
                .unwrap();
            let list = popularity.servers[usize::from(picked.id.server)][place];
            assert!((1..=list.last).contains(&picked.id.number));
            assert!(picked.id.number + list.window.unwrap() > list.last);
        }
        assert!((f64::from(old) / 100_000.0 - wanted).abs() < 0.005, "{old}");
        assert_eq!(popularity.nothing_to_repeat(), before);
        assert_eq!(popularity.working_set(), set);
        assert!(popularity.created() > set);
    }

    #[test]
    fn a_tenth_goes_to_a_hundredth() {
        // One list, no new objects: the hottest hundredth gets its own hundredth and a tenth more.
        let mut list = List {
            last: 10_000,
            window: Some(10_000),
            hot_end: 0,
        };
        let mut chance = Chance::new(3);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for _ in 0..200_000 {
            *counts.entry(list.draw(&mut chance).0 / 100).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The hot set spans two of these hundredths.
        let hottest = f64::from(counts[0] + counts[1]) / 200_000.0;
        assert!((hottest - 0.1 - 0.018).abs() < 0.006, "{hottest}");
        let rest = f64::from(counts[50]) / 200_000.0;
        assert!((rest - 0.009).abs() < 0.001, "{rest}");
    }

    #[test]
    fn the_hot_set_moves_when_it_falls_out() {
        let mut list = List {
            last: 1_000,
            window: Some(1_000),
            hot_end: 0,
        };
        let mut chance = Chance::new(4);
        let mut ends = Vec::new();
        for _ in 0..100_000 {
            list.draw(&mut chance);
            list.last += 1;
            if ends.last() != Some(&list.hot_end) {
                ends.push(list.hot_end);
            }
            assert!(list.hot_end <= list.last);
        }
        assert!(ends.len() > 50, "{}", ends.len());
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn polymix_4_prefers_small_objects() {
        let mean_old = |mix| {
            let (mut popularity, mut chance) = filled(mix, 5, 20_000);
            popularity.freeze();
            let (mut bytes, mut count) = (0, 0);
            for _ in 0..50_000 {
                let picked = popularity.pick(1.0, &mut chance);
                if picked.id.kind == Kind::Html && picked.id.cachable() {
                    bytes += picked.id.size();
                    count += 1;
                }
            }
            bytes as f64 / f64::from(count)
        };
        let (plain, small) = (mean_old(Mix::Three), mean_old(Mix::Four));
        assert!(small < plain * 0.4, "{small} of {plain}");
    }
}
