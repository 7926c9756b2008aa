//! Objects of more than 100,000 fragments: what is asked of them costs what is sent, not what they have.

use std::time::{Duration, Instant};

use super::{
    harness::*,
    ranges::{TAG, ask_range, bounds},
};

const FRAGMENT: u32 = 64 << 10;
/// Some 120,000 fragments.
const HUGE: u64 = 7_800_000_000;
/// Two of them.
const SMALL: u64 = 100_000;
const HITS: u32 = 40;

/// The bytes from here on of any body.
fn bytes_at(first: u64, len: usize) -> Vec<u8> {
    let word =
        |at: u64| (at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[at as usize % 8];
    (first..first + len as u64).map(word).collect()
}

/// Serves any range of `/huge` and `/small`, and nothing else.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let total = length_of(exchange.path());
        let range = exchange.field("range").expect("only ranges are asked for");
        let (first, last) = bounds(range, total as usize);
        let range = format!("Content-Range: bytes {first}-{last}/{total}");
        let body = bytes_at(first as u64, last - first + 1);
        exchange.send(answer("206 Partial Content", &[FRESH, TAG, &range], body));
    })
}

fn length_of(path: &str) -> u64 {
    match path {
        "/huge" => HUGE,
        _ => SMALL,
    }
}

#[track_caller]
fn expect(client: &mut Client, path: &str, first: u64, len: usize) -> bool {
    let last = first + len as u64 - 1;
    let answer = ask_range(client, path, &format!("bytes={first}-{last}"));
    let range = format!("bytes {first}-{last}/{}", length_of(path));
    assert_eq!(answer.field("content-range"), Some(&range[..]));
    assert_same(&answer.body, &bytes_at(first, len));
    answer.is_hit()
}

/// The fastest of some hits, each of a short part at this place.
fn hit_takes(client: &mut Client, path: &str, first: u64) -> Duration {
    let hits = (0..HITS).map(|n| {
        let begun = Instant::now();
        assert!(expect(client, path, first + u64::from(n) * 100, 1000));
        begun.elapsed()
    });
    hits.min().unwrap()
}

#[test]
fn a_part_of_a_huge_object_costs_what_it_sends() {
    let origin = origin();
    let disk = Disk::of_mib(16 << 10);
    let mut plan = disk.under(plan_for(&origin));
    plan.storing.fragment_bytes = FRAGMENT;
    plan.limits.object_bytes_max = HUGE;
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let middle = HUGE / 2;
    for (path, first) in [("/small", 0), ("/huge", middle), ("/huge", HUGE - 90_000)] {
        assert!(!expect(&mut client, path, first, 90_000));
        assert!(expect(&mut client, path, first, 90_000));
    }
    let asked = origin.requests().len();
    let small = hit_takes(&mut client, "/small", 0);
    let huge = hit_takes(&mut client, "/huge", middle);
    println!("a hit of 1,000 bytes: {small:?}, of a huge object {huge:?}");
    assert!(huge < 5 * small, "{huge:?} and {small:?}");
    // Nothing but the head is needed for this.
    let begun = Instant::now();
    let known = ["If-None-Match: \"1\""];
    assert_eq!(client.ask("GET", "/huge", &known).read("GET").status, 304);
    println!("304: {:?}", begun.elapsed());
    assert_eq!(origin.requests().len(), asked);
    // What is missing of it is still fetched, and no more.
    assert!(!expect(&mut client, "/huge", 3 * middle / 2, 1000));
    assert_eq!(origin.requests().len(), asked + 1);
}
