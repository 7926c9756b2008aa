//! Blocks of the RFC, and malformed blocks.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The fields of a block as text, one a line; or that it is bad.
fn read(decoder: &mut Decoder, hex: &str) -> Result<String, BadBlock> {
    let mut lines = Vec::new();
    decoder.decode(&bytes(hex), |field| {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        lines.push(format!("{}: {}", text(field.name), text(field.value)));
    })?;
    Ok(lines.join("\n"))
}

#[test]
fn requests_of_the_rfc() {
    let first = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com";
    //= rfc7541 §C.3   and §C.4 in the Huffman code
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoder = Decoder::new(4096);
        assert_eq!(read(&mut decoder, blocks[0]).unwrap(), first);
        assert_eq!(
            read(&mut decoder, blocks[1]).unwrap(),
            format!("{first}\ncache-control: no-cache")
        );
        assert_eq!(
            read(&mut decoder, blocks[2]).unwrap(),
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value"
        );
    }
}

#[test]
fn responses_of_the_rfc_with_eviction() {
    //= rfc7541 §C.5   a table of 256 bytes
    let mut decoder = Decoder::new(256);
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e \
         1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d \
         4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    for block in &blocks[..2] {
        read(&mut decoder, block).unwrap();
    }
    assert_eq!(
        read(&mut decoder, blocks[2]).unwrap(),
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
         content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
    );
}

#[test]
fn bad_blocks() {
    for (hex, why) in [
        ("80", "index 0"),
        ("be", "an index behind the tables"),
        ("7f00 0161", "a name behind the tables"),
        ("3fe2 1f", "a table of 4,097 bytes"),
        ("8220", "a new size after a field"),
        ("40", "no name"),
        ("4003 6162", "a string behind the end"),
        ("4001 6181 ff", "padding of eight bits"),
        ("ffff ffff ffff ff0f", "an endless integer"),
    ] {
        assert_eq!(read(&mut Decoder::new(4096), hex), Err(BadBlock), "{why}");
    }
}

#[test]
fn an_entry_may_push_out_its_own_name() {
    // The table has room for one entry, whose name is used by the entry that replaces it.
    let mut decoder = Decoder::new(40);
    assert_eq!(read(&mut decoder, "4003 616263 0178").unwrap(), "abc: x");
    assert_eq!(read(&mut decoder, "7e04 79797979").unwrap(), "abc: yyyy");
    assert_eq!(read(&mut decoder, "be").unwrap(), "abc: yyyy");
    // An entry larger than the table empties it, which is no error.
    assert_eq!(
        read(&mut decoder, "4003 616263 0679797979797a be"),
        Err(BadBlock)
    );
}

#[test]
fn a_table_of_no_bytes_holds_nothing() {
    let mut decoder = Decoder::new(4096);
    assert_eq!(read(&mut decoder, "20 4001 61 0178").unwrap(), "a: x");
    assert_eq!(read(&mut decoder, "be"), Err(BadBlock));
    assert_eq!(read(&mut decoder, "3fe11f 4001 61 0178").unwrap(), "a: x");
    assert_eq!(read(&mut decoder, "be").unwrap(), "a: x");
}

#[test]
fn the_text_of_the_table_stays_bounded() {
    let mut decoder = Decoder::new(4096);
    for round in 0..10_000u32 {
        let value = format!("{:0width$}", round, width = 1 + (round as usize * 7) % 60);
        let mut block = vec![0x40, 1, b'a'];
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
        block.push(0xbe);
        let mut seen = 0;
        decoder
            .decode(&block, |field| {
                assert_eq!(field.value, value.as_bytes());
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 2);
        assert!(decoder.table_text_len() <= 2 * 4096 + 100);
    }
}

impl Decoder {
    fn table_text_len(&self) -> usize {
        self.table.text_len()
    }
}
