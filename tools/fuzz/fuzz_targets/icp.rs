//! Any bytes as a datagram: no panic; what is read is written back as the same bytes, but for the fields that nobody reads; an answer is
//! shorter than its query.
#![no_main]

use hints::icp::{HEADER_BYTES, MESSAGE_BYTES_MAX, Message, Opcode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    assert!(bytes.len() <= MESSAGE_BYTES_MAX);
    let mut written = Vec::new();
    assert!(message.encode(&mut written), "what was read can be written");
    assert_eq!(written[..8], bytes[..8]);
    let payload = match message.opcode {
        Opcode::Query => HEADER_BYTES + 4,
        _ => HEADER_BYTES,
    };
    assert_eq!(written[payload..], bytes[payload..]);
    assert_eq!(Message::decode(&written), Ok(message));
    for opcode in Opcode::ALL {
        let mut answer = Vec::new();
        if message.opcode == Opcode::Query && opcode != Opcode::Query {
            assert!(message.answer(opcode).encode(&mut answer));
            assert!(answer.len() < bytes.len());
        }
    }
});
