//! Any bytes as messages of the handshake of a cluster's members, and as frames that are cut anywhere. What must hold is said in
//! `crates/hints/tests/from_bytes`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

#[path = "../../../crates/hints/tests/from_bytes/mod.rs"]
mod from_bytes;

fuzz_target!(|content: &[u8]| {
    from_bytes::shake(content);
    let mut framed = ((content.len() + 4) as u32).to_le_bytes().to_vec();
    framed.extend(content);
    framed.extend((XxHash3_64::oneshot(content) as u32).to_le_bytes());
    from_bytes::cut(&framed);
});
