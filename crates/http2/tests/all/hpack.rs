//! Our HPACK encoder against our decoder, any bytes, and blocks that are cut short. `oracle` tests HPACK against the `h2` crate, whose
//! encoder uses the dynamic table and every representation, over many requests of one connection.

use http2::hpack::Decoder;
use http2::write_field;
use proptest::prelude::*;

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,20}",
        Just("cookie".to_owned()),
        Just("accept-encoding".to_owned()),
        Just("set-cookie".to_owned()),
    ]
}

fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    proptest::collection::vec(
        (names(), proptest::collection::vec(any::<u8>(), 0..200)),
        0..20,
    )
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = Vec::new();
    let read = decoder.decode(block, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()))
    });
    read.is_ok().then_some(fields)
}

proptest! {
    #[test]
    fn what_is_written_is_read(fields in fields()) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            write_field(name.as_bytes(), value, &mut block);
        }
        let kin = ["connection", "upgrade", "keep-alive", "proxy-connection", "transfer-encoding"];
        let expected: Vec<(Vec<u8>, Vec<u8>)> = fields
            .into_iter()
            .filter(|(name, _)| !kin.contains(&name.as_str()))
            .map(|(name, value)| (name.into_bytes(), value))
            .collect();
        prop_assert_eq!(read(&mut Decoder::new(4096), &block), Some(expected));
    }

    #[test]
    fn any_bytes_are_read_or_refused(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..8)) {
        let mut decoder = Decoder::new(300);
        for block in &blocks {
            // No field is larger than what a block of this size, or an entry of the table, can hold.
            let bound = block.len() * 8 / 5 + 1 + 300;
            let read = decoder.decode(block, |field| assert!(field.name.len().max(field.value.len()) <= bound));
            if read.is_err() {
                break;
            }
        }
    }

    #[test]
    fn a_block_that_is_cut_off_never_gives_other_fields(fields in fields(), at in any::<prop::sample::Index>()) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            write_field(name.as_bytes(), value, &mut block);
        }
        let whole = read(&mut Decoder::new(4096), &block).unwrap();
        let cut = at.index(block.len() + 1);
        let mut part = Vec::new();
        let _ = Decoder::new(4096).decode(&block[..cut], |field| part.push((field.name.to_vec(), field.value.to_vec())));
        prop_assert!(whole.starts_with(&part));
    }
}
