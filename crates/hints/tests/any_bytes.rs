//! What the fuzz targets `frames` and `follow` do, on random bytes: so it is tried where there is no fuzzer, too.

use proptest::prelude::*;

mod from_bytes;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        from_bytes::read(&bytes);
    }

    #[test]
    fn any_frames_are_followed_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        from_bytes::follow(&bytes);
    }
}
