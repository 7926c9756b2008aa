//! Any sequence of frames into a front's view. What must hold is said in `crates/hints/tests/from_bytes`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/hints/tests/from_bytes/mod.rs"]
mod from_bytes;

fuzz_target!(|bytes: &[u8]| from_bytes::follow(bytes));
