//! Any bytes as a chunked body: no panic, everything is consumed, and the outcome does not depend on how the
//! bytes were cut. The first byte says into how long pieces.
#![no_main]

use fields::Fields;
use http1::{Chunk, ChunkedDecoder, Fault, Limits};
use libfuzzer_sys::fuzz_target;

type Outcome = Result<Option<(Vec<u8>, Fields, usize)>, Fault>;

fn decode(bytes: &[u8], step: usize) -> Outcome {
    let limits = Limits {
        fields_max: 16,
        ..Limits::default()
    };
    let mut decoder = ChunkedDecoder::new(&limits);
    let (mut body, mut used) = (Vec::new(), 0);
    while used < bytes.len() {
        let piece = &bytes[used..bytes.len().min(used.saturating_add(step))];
        match decoder.next(piece).map_err(|reject| reject.fault())? {
            Chunk::Data { start, end } => {
                assert!(start < end && end <= piece.len());
                body.extend_from_slice(&piece[start..end]);
                used += end;
            }
            Chunk::More { consumed } => {
                assert_eq!(consumed, piece.len());
                used += consumed;
            }
            Chunk::End { consumed, trailers } => {
                trailers.audit().expect("the list is sound");
                for name in [
                    "Content-Length",
                    "Transfer-Encoding",
                    "Host",
                    "Authorization",
                ] {
                    assert!(!trailers.contains(name.as_bytes()));
                }
                return Ok(Some((body, trailers, used + consumed)));
            }
        }
    }
    Ok(None)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else {
        return;
    };
    assert_eq!(
        decode(bytes, usize::from(step).max(1)),
        decode(bytes, usize::MAX)
    );
});
