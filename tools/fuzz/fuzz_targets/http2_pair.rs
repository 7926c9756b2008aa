//! A server and a client of HTTP/2 over a link that splits, in virtual time: what the client asks, sends, resets and opens comes from the
//! input. Every answer and every upload arrives byte for byte, windows are kept, memory is bounded, and everything ends.
//!
//! It is the play of the crate's own tests; there the numbers come from seeds.
#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/http2/tests/all/link.rs"]
mod link;
#[path = "../../../crates/http2/tests/all/raw.rs"]
mod raw;

use link::{Chance, World};

fuzz_target!(|input: &[u8]| {
    // About six numbers a step.
    let steps = 20 + input.len() / 8;
    World::new(Chance::of_script(input)).play(steps.min(2000));
});
