//! Any bytes as a digest of either kind: no panic, and no more memory than they have. The checksum of Loligo's is made right, so that what
//! lies behind it is reached; what is read is written back as it came, but for the bytes that nobody reads.
#![no_main]

use hints::digest::{Digest, Unusable};
use hints::squid::{HEADER_BYTES, SquidDigest};
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(digest) = SquidDigest::decode(bytes) {
        assert_eq!(digest.bytes() + HEADER_BYTES, bytes.len());
        assert!(digest.percent_set() < 97);
        let _ = digest.may_have(b"http://a/");
    }
    let mut bytes = bytes.to_vec();
    if let Some((content, end)) = bytes.split_last_chunk_mut::<8>() {
        *end = XxHash3_64::oneshot(content).to_le_bytes();
    }
    match Digest::decode(&bytes) {
        Err(error) => assert_ne!(error, Unusable::Checksum),
        Ok(digest) => {
            let _ = digest.may_have(|shape| u64::from(shape.shards) * u64::from(shape.segments));
            let again = digest.encode();
            assert_eq!(again.len(), bytes.len());
            assert_eq!(Digest::decode(&again), Ok(digest));
        }
    }
});
