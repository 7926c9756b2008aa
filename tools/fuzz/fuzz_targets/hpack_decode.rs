//! Field blocks of HPACK, several on one decoder, beside a slow twin that is written from RFC 7541 alone: a list of pairs for the table,
//! a bit at a time for the Huffman code. Both read the same fields, or both refuse the same block.
//!
//! The input: a byte for the table's size, then blocks, each behind a byte for its length.
#![no_main]

use http2::hpack::Decoder;
use libfuzzer_sys::fuzz_target;
use loligo_fuzz::hpack::Twin;

fuzz_target!(|input: &[u8]| {
    let Some((&size, mut rest)) = input.split_first() else {
        return;
    };
    let table_bytes_max = usize::from(size) * 32;
    let mut decoder = Decoder::new(table_bytes_max);
    let mut twin = Twin::new(table_bytes_max);
    while let Some((&len, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let mut read = Vec::new();
        let ended = decoder.decode(block, |field| {
            read.push((field.name.to_vec(), field.value.to_vec()));
        });
        match twin.decode(block) {
            Some(expected) => {
                assert_eq!(ended, Ok(()), "the twin reads it");
                assert_eq!(read, expected);
            }
            None => {
                assert!(ended.is_err(), "the twin refuses it");
                // The two tables mean nothing from here on, as the connection does.
                return;
            }
        }
    }
});
