//! Any bytes as a dictionary of structured fields, as a targeted field has it: no panic; it is read as the crate `sfv` reads
//! it; each key once; parts of it in several field lines are read like the whole; and what does not parse leaves a response as
//! if the field were not there.
#![no_main]

use std::collections::BTreeMap;

use fields::Fields;
use httpcache::{
    Request, Response, Rules, Standing, StructuredValue, TARGETED_FIELDS, UnixMillis,
    parse_dictionary,
};
use libfuzzer_sys::fuzz_target;

type Members = BTreeMap<Vec<u8>, StructuredValue>;

fuzz_target!(|bytes: &[u8]| {
    let ours = parse_dictionary(bytes);
    let count = ours.as_ref().map_or(0, Vec::len);
    let ours: Option<Members> = ours.map(|members| members.into_iter().collect());
    assert_eq!(ours.as_ref().map_or(0, BTreeMap::len), count, "a key twice");
    assert_eq!(ours, by_sfv(bytes));

    // In a head there are only these bytes, and no blanks around.
    let sound = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    if !bytes.iter().all(sound) || bytes.trim_ascii() != bytes {
        return;
    }
    let plain = standing(&[]);
    let whole = standing(&[bytes]);
    if ours.as_ref().is_none_or(BTreeMap::is_empty) {
        assert_eq!(whole, plain, "as if it were not there");
    }
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b',') {
        let (front, back) = (bytes[..at].trim_ascii(), bytes[at + 1..].trim_ascii());
        // Lines are joined with a comma and a blank; within a string that is another string, but no other kind of value.
        if !front.is_empty() && !back.is_empty() && !bytes.contains(&b'"') {
            assert_eq!(standing(&[front, back]), whole);
        }
    }
});

fn standing(lines: &[&[u8]]) -> Standing {
    let (asked, mut said) = (Fields::new(), Fields::new());
    said.push(b"Cache-Control", b"max-age=7");
    for line in lines {
        said.push(TARGETED_FIELDS[1].as_bytes(), line);
    }
    let request = Request {
        method: "GET",
        fields: &asked,
    };
    let response = Response {
        status: 200,
        fields: &said,
    };
    let now = UnixMillis(1_000_000);
    Standing::of(&request, &response, now, now, &Rules::default())
}

fn by_sfv(text: &[u8]) -> Option<Members> {
    let dictionary: sfv::Dictionary = sfv::Parser::new(text).parse().ok()?;
    let value = |entry: &sfv::ListEntry| match entry {
        sfv::ListEntry::Item(item) => match &item.bare_item {
            sfv::BareItem::Integer(number) => StructuredValue::Integer((*number).into()),
            sfv::BareItem::Boolean(yes) => StructuredValue::Boolean(*yes),
            sfv::BareItem::String(_) => StructuredValue::String,
            _ => StructuredValue::Other,
        },
        sfv::ListEntry::InnerList(_) => StructuredValue::Other,
    };
    let members = dictionary
        .iter()
        .map(|(key, entry)| (key.as_str().as_bytes().to_vec(), value(entry)));
    Some(members.collect())
}
