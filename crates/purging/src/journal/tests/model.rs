//! Members purge, tell each other, stop in the middle of it, and start again. Whatever a member says it has heard it has purged.

use super::*;
use std::collections::HashMap;

const TIGHT: Limits = Limits {
    bytes_max: 6 << 10,
    age_max_s: 1000,
};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

struct Member {
    journal: Journal,
    next: Stamp,
    /// When each name was last purged here.
    purged: HashMap<Vec<u8>, u64>,
    prefixes: Vec<(Vec<u8>, u64)>,
}

#[derive(Default)]
struct Seen {
    lost: u64,
    upto: u64,
    prefixes: u64,
}

impl Member {
    fn new(number: u64) -> Member {
        let medium = Medium::Memory(Segments::new());
        let (journal, _) = Journal::open(medium, TIGHT, Origin(number), 0).unwrap();
        let next = journal.first_stamp().next();
        let (purged, prefixes) = (HashMap::new(), Vec::new());
        Member {
            journal,
            next,
            purged,
            prefixes,
        }
    }

    fn purge(&mut self, change: &[u8], now: u64, seen: &mut Seen) {
        let change = Change::decode(change).unwrap();
        for name in change.names {
            self.purged.insert(name, now);
        }
        for pattern in change.patterns {
            let Pattern::Prefix(prefix) = pattern else {
                continue;
            };
            seen.prefixes += 1;
            self.prefixes.push((prefix, now));
        }
    }

    fn has_purged(&self, name: &[u8], since: u64) -> bool {
        let by_name = self.purged.get(name).is_some_and(|at| *at >= since);
        let is_met = |(prefix, at): &(Vec<u8>, u64)| *at >= since && name.starts_with(prefix);
        by_name || self.prefixes.iter().any(is_met)
    }
}

/// Tells at most so many lines; true: all were told.
fn tell(all: &mut [Member], from: usize, to: usize, most: u64, now: u64, seen: &mut Seen) -> bool {
    let Some(mut at) = all[from].journal.position_for(all[to].journal.heard()) else {
        let heard = all[from].journal.heard().clone();
        all[to].purge(&Change::everything().encode().unwrap(), now, seen);
        all[to].journal.adopt(&heard, now).unwrap();
        seen.lost += 1;
        return true;
    };
    let (mut count, mut is_first) = (0, true);
    loop {
        let (lines, next) = all[from].journal.read(at).unwrap().unwrap();
        if lines.is_empty() {
            return true;
        }
        for line in lines {
            count += 1;
            if count > most {
                return false;
            }
            let follower = &mut all[to];
            match line {
                Line::Entry(entry) => {
                    if follower.journal.heard().has(entry.origin, entry.stamp) {
                        continue;
                    }
                    let heard = follower.journal.heard();
                    assert!(heard.has(entry.origin, entry.before), "a gap: {entry:?}");
                    follower.purge(&entry.change, now, seen);
                    follower.journal.append(&entry, now).unwrap();
                }
                Line::Also(change) => {
                    follower.purge(&change, now, seen);
                    let is_first = std::mem::take(&mut is_first);
                    let also = follower.journal.also(from as u64, &change, is_first);
                    // An error means that the draft is longer than the journal may be; then the summary counts as lost.
                    drop(also);
                }
                Line::Upto(heard) => {
                    seen.upto += 1;
                    follower.journal.upto(from as u64, &heard, now).unwrap();
                }
            }
        }
        at = next;
    }
}

fn play(seed: u64, seen: &mut Seen) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut all: Vec<Member> = (1..=3).map(Member::new).collect();
    let mut truth: Vec<(Entry, Vec<u8>, u64)> = Vec::new();
    for now in 1..600 {
        let who = random.below(3) as usize;
        let other = (who + 1 + random.below(2) as usize) % 3;
        match random.below(20) {
            0..=15 => {
                let server = random.below(random.0 % 40 + 1);
                let name = format!(
                    "GET http://s{server}/{}/{}",
                    random.below(3),
                    random.below(50)
                );
                let member = &mut all[who];
                let entry = Entry {
                    origin: member.journal.own(),
                    stamp: member.next,
                    before: member.journal.heard().last(member.journal.own()),
                    unix_s: now,
                    change: change(&name),
                };
                member.next = member.next.next();
                member.purge(&entry.change, now, seen);
                member.journal.append(&entry, now).unwrap();
                truth.push((entry.clone(), name.into_bytes(), now));
                // Some members hear it at once.
                let is_next = all[other].journal.heard().has(entry.origin, entry.before);
                if is_next && random.below(2) == 0 {
                    all[other].purge(&entry.change, now, seen);
                    all[other].journal.append(&entry, now).unwrap();
                }
            }
            16 => {
                let most = random.below(30);
                tell(&mut all, who, other, most, now, seen);
            }
            17 => {
                while !tell(&mut all, who, other, u64::MAX, now, seen) {}
                let heard = all[who].journal.heard().clone();
                assert!(all[other].journal.heard().covers(&heard), "seed {seed}");
            }
            _ => {
                let held = segments(&all[who].journal);
                let medium = Medium::Memory(held);
                let fresh = Origin(99);
                let heard = all[who].journal.heard().clone();
                let (journal, _) = Journal::open(medium, TIGHT, fresh, now).unwrap();
                assert_eq!(*journal.heard(), heard, "seed {seed}");
                all[who].next = journal.first_stamp().next();
                all[who].journal = journal;
            }
        }
        assert!(
            all[who].journal.bytes() <= TIGHT.bytes_max + 2048,
            "seed {seed}"
        );
        if now % 20 != 0 {
            continue;
        }
        for (number, member) in all.iter().enumerate() {
            let heard = member.journal.heard();
            for (entry, name, since) in &truth {
                assert!(
                    !heard.has(entry.origin, entry.stamp) || member.has_purged(name, *since),
                    "seed {seed}, {now}: {number} has not purged {}",
                    String::from_utf8_lossy(name)
                );
            }
        }
    }
}

#[test]
fn what_a_member_has_heard_it_has_purged() {
    let mut seen = Seen::default();
    for seed in 1..=60 {
        play(seed, &mut seen);
    }
    let Seen {
        lost,
        upto,
        prefixes,
    } = seen;
    assert!(
        upto > 100 && prefixes > 100 && lost > 0,
        "{upto} {prefixes} {lost}"
    );
}
