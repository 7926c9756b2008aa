//! Our client of HTTP/2 against our server, over a link that splits: what is asked, sent and given up comes from the input. Neither finds a
//! fault with the other, what comes back is what was sent, and everything ends.
//!
//! It is the play of the crate's own tests (`pair`); there the numbers come from seeds.
#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/http2/tests/all/link.rs"]
mod link;
#[path = "../../../crates/http2/tests/all/pair.rs"]
mod pair;
#[path = "../../../crates/http2/tests/all/raw.rs"]
mod raw;

fuzz_target!(|input: &[u8]| {
    let steps = 20 + input.len() / 8;
    pair::play(link::Chance::of_script(input), steps.min(1000));
});
