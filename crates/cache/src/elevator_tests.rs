//! The order, the windows, and that every read is answered by a window with its bytes.

use super::*;
use proptest::prelude::*;

const KIB: usize = 1 << 10;

/// The waiter with this number has gone.
const GONE: u32 = u32::MAX;

fn queue(asks: &[(usize, usize, usize)]) -> Elevator<u32> {
    let mut queue = Elevator::default();
    for (waiter, &(offset, len, reach)) in asks.iter().enumerate() {
        queue.add(ask(offset, len, reach, waiter as u32));
    }
    queue
}

fn ask(offset: usize, len: usize, reach: usize, waiter: u32) -> Ask<u32> {
    Ask {
        offset: (offset * KIB) as u64,
        len: len * KIB,
        reach: reach * KIB,
        waiter,
    }
}

/// Windows as (offset, length, waiters), in KiB, until the queue is empty.
fn windows(queue: &mut Elevator<u32>) -> Vec<(usize, usize, Vec<u32>)> {
    let next = || queue.next(|&it| it != GONE);
    std::iter::from_fn(next)
        .map(|window| {
            let who = window.asks.iter().map(|it| it.waiter).collect();
            (window.offset as usize / KIB, window.len / KIB, who)
        })
        .collect()
}

#[test]
fn one_way_round_from_where_the_last_ended() {
    let mut queue = queue(&[(90, 4, 4), (20, 4, 4), (70, 4, 4)]);
    let ends = [(20, 4, vec![1]), (70, 4, vec![2]), (90, 4, vec![0])];
    assert_eq!(windows(&mut queue), ends);
    for (waiter, offset) in [(3, 30), (4, 200), (5, 94), (6, 10)] {
        queue.add(ask(offset, 4, 4, waiter));
    }
    let order: Vec<usize> = windows(&mut queue).iter().map(|it| it.0).collect();
    assert_eq!(order, [94, 200, 10, 30]);
}

#[test]
fn what_lies_within_the_reach_comes_along_and_reaches_on() {
    let mut queue = queue(&[(0, 8, 64), (200, 8, 64), (40, 8, 64), (100, 4, 4)]);
    let expected = [(0, 104, vec![0, 2, 3]), (200, 64, vec![1])];
    assert_eq!(windows(&mut queue), expected);
}

#[test]
fn the_same_place_is_read_once() {
    let mut queue = queue(&[(8, 4, 4), (8, 4, 4), (12, 4, 4), (17, 4, 4)]);
    let expected = [(8, 8, vec![0, 1, 2]), (17, 4, vec![3])];
    assert_eq!(windows(&mut queue), expected, "neighbours, too; no gaps");
}

#[test]
fn a_window_ends_somewhere_but_a_read_is_whole() {
    let most = WINDOW_BYTES_MAX / KIB;
    let close: Vec<_> = (0..40).map(|n| (n * 16, 8, 64)).collect();
    let all = windows(&mut queue(&close));
    assert!(all.iter().all(|it| it.1 <= most), "{all:?}");
    assert_eq!(all[0].1, most);
    // The last of a window has its own bytes in it, though not its whole reach.
    assert_eq!(all[0].2.len(), (most - 8) / 16 + 1);

    let long = windows(&mut queue(&[(0, 1024, 1024), (500, 8, 64), (1020, 8, 8)]));
    assert_eq!(
        long,
        [(0, 1024, vec![0, 1]), (1020, 8, vec![2])],
        "one that does not fit is next"
    );
}

#[test]
fn for_who_has_gone_away_nothing_is_read() {
    let mut queue: Elevator<u32> = Elevator::default();
    for (offset, waiter) in [(0, GONE), (50, 1), (60, GONE), (300, GONE)] {
        queue.add(ask(offset, 4, 16, waiter));
    }
    assert_eq!(windows(&mut queue), [(50, 16, vec![1])]);
}

#[test]
fn while_nothing_is_read_those_who_go_away_do_not_pile_up() {
    let mut queue: Elevator<u32> = Elevator::default();
    let is_here = |&it: &u32| it != GONE;
    for n in 0..100_000 {
        // One in a hundred stays.
        let waiter = if n % 100 == 0 { n as u32 } else { GONE };
        queue.add(ask(n, 4, 4, waiter));
        queue.clear(is_here);
        assert!(
            queue.asks.len() <= (2 * (n / 100 + 1)).max(CLEARED_MIN),
            "{n}"
        );
    }
    let answered: usize = windows(&mut queue)
        .iter()
        .map(|(_, _, who)| who.len())
        .sum();
    assert_eq!(answered, 1000);
}

proptest! {
    /// Every read is in exactly one window, which has its bytes; windows are bounded and go upwards.
    #[test]
    fn everybody_is_answered_once(asks in prop::collection::vec((0usize..4000, 1usize..600, 0usize..200), 0..80)) {
        let all: Vec<_> = asks.iter().map(|&(at, len, more)| (at, len, len + more)).collect();
        let mut queue = queue(&all);
        let mut answered = vec![0; all.len()];
        let mut before = 0;
        while let Some(window) = queue.next(|_| true) {
            let end = window.offset + window.len as u64;
            let longest = window.asks.iter().map(|it| it.reach).max().unwrap_or(0);
            prop_assert!(window.len <= longest.max(WINDOW_BYTES_MAX));
            prop_assert_eq!(window.asks[0].offset, window.offset);
            prop_assert!(window.offset >= before);
            before = window.offset;
            for ask in &window.asks {
                prop_assert!(ask.offset >= window.offset && ask.offset + ask.len as u64 <= end);
                answered[ask.waiter as usize] += 1;
            }
        }
        prop_assert!(answered.iter().all(|&times| times == 1), "{:?}", answered);
    }
}
