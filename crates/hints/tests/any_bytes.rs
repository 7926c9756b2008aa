//! Decoders take any bytes, and true messages with some of them changed. `tools/fuzz` asks the same of more inputs.

use hints::digest::{Digest, Filter, IndexShape};
use hints::icp::{Message, Opcode};
use hints::squid::{HEADER_BYTES, Size, SquidDigest, positions};
use hints::{Ages, Bits, Shape};
use proptest::prelude::*;

/// Places and what is put there.
fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((0usize..160, any::<u8>()), 0..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[(usize, u8)], cut: usize) -> Vec<u8> {
    for (at, byte) in changes {
        if let Some(there) = bytes.get_mut(*at) {
            *there = *byte;
        }
    }
    bytes.truncate(bytes.len().saturating_sub(cut));
    bytes
}

fn message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        let mut again = Vec::new();
        assert!(message.encode(&mut again));
        assert_eq!(again.len(), bytes.len());
        assert_eq!(Message::decode(&again), Ok(message));
    }
}

fn digests(bytes: &[u8]) {
    if let Ok(digest) = SquidDigest::decode(bytes) {
        assert_eq!(digest.bytes() + HEADER_BYTES, bytes.len());
        let _ = digest.may_have(b"http://a/");
    }
    if let Ok(digest) = Digest::decode(bytes) {
        assert_eq!(digest.encode().len(), bytes.len());
        let _ = digest.may_have(|shape| u64::from(shape.shards));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        message(&bytes);
        digests(&bytes);
    }

    #[test]
    fn a_changed_message_is_read_or_refused(
        number in 0usize..6,
        request in any::<u32>(),
        url in prop::collection::vec(1u8..=255, 1..100),
        changes in changes(),
        cut in 0usize..3,
    ) {
        let opcode = Opcode::ALL[number];
        let mut bytes = Vec::new();
        let is_written = Message { opcode, request, url: &url }.encode(&mut bytes);
        prop_assert!(is_written);
        let read = Message::decode(&bytes).unwrap();
        prop_assert_eq!((read.opcode, read.request, read.url), (opcode, request, &url[..]));
        message(&changed(bytes, &changes, cut));
    }

    #[test]
    fn a_changed_digest_is_read_or_refused(
        objects in 1u64..200,
        bits_per_object in 1u8..20,
        changes in changes(),
        cut in 0usize..3,
    ) {
        let size = Size::new(objects, bits_per_object).unwrap();
        let ages = Ages::new(size.array_bytes(), 1).unwrap();
        ages.enter(positions(b"http://a/", u64::from(ages.bits())));
        let squids = [&size.header(1)[..], &ages.to_bytes()].concat();
        if let Ok(digest) = SquidDigest::decode(&squids) {
            prop_assert!(digest.may_have(b"http://a/"));
        }
        digests(&changed(squids, &changes, cut));
        let mut bits = Bits::new(Shape::new(objects * 8, 1 + bits_per_object % 8).unwrap());
        bits.insert(objects);
        let index = IndexShape { shards: 1, segments: 1 };
        let filters = vec![Filter { index, traces: 1, bits }];
        let ours = Digest { seed: objects, made_ms: 1, filters }.encode();
        prop_assert!(Digest::decode(&ours).unwrap().may_have(|_| objects));
        digests(&changed(ours, &changes, cut));
    }
}
