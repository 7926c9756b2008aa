//! A body larger than the memory it should take.
//!
//! 1 GiB, and a store of twice that and a bit (an object may take half of its store); `LOLIGO_E2E_LARGE_MIB` for less.

use std::{env, time::Instant};

use crate::harness::*;

const PIECE: usize = 1 << 20;

/// The n-th MiB of the body: the same noise, with its number in front of each 4 KiB.
fn piece(n: u64, out: &mut [u8]) {
    for (at, page) in out.chunks_mut(4096).enumerate() {
        page[..8].copy_from_slice(&n.to_le_bytes());
        page[8..16].copy_from_slice(&(at as u64).to_le_bytes());
    }
}

#[test]
fn a_large_body_is_streamed_stored_and_read_back_in_bounded_memory() {
    let mib: u64 = env::var("LOLIGO_E2E_LARGE_MIB").map_or(1024, |v| v.parse().unwrap());
    let length = mib * PIECE as u64;
    let origin = Origin::start(move |exchange| {
        let field = format!("Content-Length: {length}");
        exchange.send(head("200 OK", &[FRESH, &field]));
        let mut bytes = pattern(PIECE);
        for n in 0..mib {
            piece(n, &mut bytes);
            exchange.send(&bytes);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let child = Child::start(&origin, &dir.path().join("store"), 2 * mib + mib / 4 + 16);
    let before = child.memory_bytes_peak();

    let mut client = child.client();
    for hit in [false, true] {
        let began = Instant::now();
        let answer = client.ask("GET", "/large", &[]).read_head();
        assert_eq!((answer.status, answer.is_hit()), (200, hit));
        assert_eq!(
            answer.field("content-length"),
            Some(length.to_string().as_str())
        );
        let mut expected = pattern(PIECE);
        for n in 0..mib {
            piece(n, &mut expected);
            assert_same(&client.bytes(PIECE), &expected);
        }
        println!("hit: {hit}, {mib} MiB in {:?}", began.elapsed());
    }
    assert_eq!(origin.count("/large"), 1);
    let grown = child.memory_bytes_peak() - before;
    println!("{} MiB of memory more at the peak", grown >> 20);
    assert!(grown < 64 << 20, "{} MiB for one transfer", grown >> 20);
}
