//! Whoever follows an index by its traces knows what is in it. Twin: the index itself, listed anew.

use crate::common::{Random, Shell, body};
use std::collections::BTreeMap;
use store::{NOTES_MAX, Traced};

/// How often each trace is in.
type Traces = BTreeMap<u64, i64>;

/// Follows an index, a segment listed now and then.
#[derive(Default)]
struct Follower {
    traces: Traces,
    /// Segments listed so far.
    listed: u32,
    begun_anew: u32,
}

impl Follower {
    fn list_one(&mut self, shell: &Shell) {
        let tracing = shell.store.tracing();
        if self.listed < tracing.shards * tracing.segments {
            let (shard, segment) = (
                self.listed / tracing.segments,
                self.listed % tracing.segments,
            );
            let mut entries = Vec::new();
            shell.store.trace_segment(shard, segment, &mut entries);
            for trace in entries {
                *self.traces.entry(trace).or_default() += 1;
            }
            self.listed += 1;
        }
    }

    fn collect(&mut self, shell: &Shell) {
        let mut changes = Vec::new();
        let mut are_whole = true;
        for shard in 0..shell.store.tracing().shards {
            are_whole &= shell.store.traced(shard, &mut changes);
        }
        if !are_whole {
            shell.store.untrace();
            *self = Follower {
                begun_anew: self.begun_anew + 1,
                ..Follower::default()
            };
            return;
        }
        for change in changes {
            let (trace, by) = match change {
                Traced::Came(trace) => (trace, 1),
                Traced::Left(trace) => (trace, -1),
            };
            let count = self.traces.entry(trace).or_default();
            *count += by;
            assert!(*count >= 0, "{trace:x} left without having come");
        }
        self.traces.retain(|_, count| *count > 0);
    }
}

fn listed_anew(shell: &Shell) -> Traces {
    let tracing = shell.store.tracing();
    let mut entries = Vec::new();
    for shard in 0..tracing.shards {
        for segment in 0..tracing.segments {
            shell.store.trace_segment(shard, segment, &mut entries);
        }
    }
    let mut traces = Traces::new();
    for trace in entries {
        *traces.entry(trace).or_default() += 1;
    }
    traces
}

fn key(number: u64) -> Vec<u8> {
    format!("GET http://x/{number}").into_bytes()
}

fn follow(policy: &str, seed: u64) {
    println!("policy {policy}, seed {seed}");
    let mut random = Random(seed);
    let mut shell = Shell::with_policy(4 << 20, policy);
    let mut follower = Follower::default();
    // Three times what fits, and more than the least table of a segment holds.
    const KEYS: u64 = 3000;
    for step in 0..12_000u64 {
        let number = random.below(KEYS);
        match random.below(40) {
            0 => {
                shell.purge(&key(number));
            }
            1 => {
                let (hash, began) = (shell.hash(&key(number)), shell.store.sequence());
                let _ = shell.store.set_marker(hash, b"accept", began);
            }
            2 => shell.store.forget(shell.hash(&key(number))),
            3 => shell.complete_all(),
            4 => follower.collect(&shell),
            5..8 => follower.list_one(&shell),
            _ => {
                let len = 100 + random.below(4000) as usize;
                shell.put(&key(number), &body(number, step, len));
            }
        }
        // So that the followed notes do not overflow in a long purge of bad luck.
        if step % 100 == 0 {
            follower.collect(&shell);
        }
    }
    shell.settle();
    while follower.listed < shell.store.tracing().shards * shell.store.tracing().segments {
        follower.list_one(&shell);
    }
    follower.collect(&shell);
    assert!(shell.store.figures().evictions > 0, "nothing was evicted");
    // No false negative: what a client gets has its trace in.
    let tracing = shell.store.tracing();
    let mut hits = 0;
    for number in 0..KEYS {
        if shell.get(&key(number)).is_some() {
            hits += 1;
            assert!(follower.traces.contains_key(&tracing.trace(&key(number))));
        }
    }
    assert!(hits > 100, "{hits} hits");
    assert_eq!(follower.traces, listed_anew(&shell));
}

#[test]
fn a_follower_knows_what_is_in_the_index() {
    for seed in 0..3 {
        for policy in ["second-chance", "lru"] {
            follow(policy, seed);
        }
    }
}

#[test]
fn a_follower_who_does_not_collect_is_told_to_begin_anew() {
    let mut shell = Shell::small();
    let tracing = shell.store.tracing();
    let _ = listed_anew(&shell);
    // Each of them comes and leaves: more than all segments can note.
    let most = NOTES_MAX as u64 * u64::from(tracing.shards * tracing.segments);
    for number in 0..most {
        shell.put(&key(number), b"x");
        shell.store.forget(shell.hash(&key(number)));
    }
    let mut follower = Follower::default();
    follower.collect(&shell);
    assert_eq!(follower.begun_anew, 1);
    let mut changes = Vec::new();
    assert!(shell.store.traced(0, &mut changes));
    assert_eq!(changes, [], "nothing is noted any more");
}

#[test]
fn the_index_may_answer_what_it_has_and_does_not_doubt() {
    let mut shell = Shell::small();
    let hash = shell.hash(b"a");
    assert!(!shell.store.may_answer(hash));
    shell.put(b"a", b"body");
    assert!(shell.store.may_answer(hash));
    let _ = shell.store.doubt(hash);
    assert!(!shell.store.may_answer(hash), "a soft purge made it stale");
    shell.put(b"a", b"body");
    assert!(shell.store.may_answer(hash));
    let began = shell.store.sequence();
    shell.store.set_marker(hash, b"accept", began).unwrap();
    assert!(!shell.store.may_answer(hash), "it has variants");
}
