//! What the fuzz targets `frames`, `handshake` and `follow` do, on random bytes: so it is tried where there is no fuzzer, too.

use proptest::prelude::*;

mod from_bytes;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        from_bytes::read(&bytes);
    }

    #[test]
    fn any_bytes_are_a_message_of_the_handshake_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        from_bytes::shake(&bytes);
    }

    #[test]
    fn a_nonce_and_any_name_are_an_answer_and_any_frame_may_be_cut(
        name in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let nonce = [7; hints::handshake::PROOF_BYTES];
        let (incarnation, length) = ([5; 8], [name.len() as u8]);
        from_bytes::shake(&[&nonce[..], &incarnation, &length, &name].concat());
        from_bytes::cut(&hints::Frame::Purging(name).to_bytes());
    }

    #[test]
    fn any_frames_are_followed_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        from_bytes::follow(&bytes);
    }
}
