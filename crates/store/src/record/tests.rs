//! Records as bytes, whole and in parts, and the effect of damage.

use super::*;
use extent::{Chunk, Chunks};

const SECRET: Secret = Secret([5; 16]);

fn example() -> (Bytes, Extent) {
    example_with(b"")
}

fn example_with(marker: &[u8]) -> (Bytes, Extent) {
    let record = NewRecord {
        hash: KeyHash(10),
        primary: KeyHash(11),
        key: b"GET http://example.org/",
        meta: b"200",
        body: &[b"hello, ", b"", b"world"],
        fragment: None,
        total: Some(ObjectTotal {
            fetch_id: 9,
            fragments: 2,
            bytes: 3000,
        }),
        began: 4,
        server: 0,
    };
    let sums = record.sums(marker);
    let extent = Extent {
        first: Chunk(7),
        len: Chunks(1),
    };
    let placed = Placed {
        epoch: 2,
        extent,
        sequence: 5,
        stored_unix_ms: 6,
        checksum: sums.checksum,
    };
    let mut bytes = vec![0xaa; 512];
    record.write_parts(marker, &sums.table, &mut bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&record.header(marker, placed).encode(&SECRET));
    (Bytes::from(bytes), extent)
}

fn read(bytes: &Bytes, change: impl Fn(&mut Expected<'_>)) -> Result<RecordParts, Corrupt> {
    let mut expected = Expected {
        secret: &SECRET,
        epoch: 2,
        hash: Some(KeyHash(10)),
        extent: Some(example().1),
        chunk_bytes: 512,
        mistakes: Mistakes::default(),
    };
    change(&mut expected);
    decode(bytes, expected)
}

#[test]
fn what_was_written_is_read() {
    let parts = read(&example().0, |_| ()).unwrap();
    assert_eq!(parts.key, "GET http://example.org/");
    assert_eq!(
        (&parts.meta[..], &parts.body[..]),
        (&b"200"[..], &b"hello, world"[..])
    );
    assert_eq!(parts.total.unwrap().fragments, 2);
    assert_eq!(
        (parts.primary, parts.sequence, parts.began),
        (KeyHash(11), 5, 4)
    );
}

#[test]
fn a_marker_is_carried_beside_the_metadata() {
    let carried = Carried {
        salt: 7,
        root: 8,
        list: b"accept",
    };
    let bytes = example_with(&carried.encode()).0;
    let header = Header::decode(&bytes, &SECRET, Mistakes::default()).unwrap();
    assert_eq!(header.head(&bytes).unwrap().marker, Some(carried));
    let parts = read(&bytes, |_| ()).unwrap();
    assert_eq!(
        (&parts.meta[..], &parts.body[..]),
        (&b"200"[..], &b"hello, world"[..])
    );
    assert_eq!(parts.key, "GET http://example.org/");
}

#[test]
fn a_record_of_anything_else_is_refused() {
    let bytes = example().0;
    let elsewhere = Extent {
        first: Chunk(8),
        len: Chunks(1),
    };
    assert_eq!(read(&bytes, |e| e.epoch = 3), Err(Corrupt::Epoch));
    assert_eq!(
        read(&bytes, |e| e.hash = Some(KeyHash(1))),
        Err(Corrupt::Hash)
    );
    assert_eq!(
        read(&bytes, |e| e.extent = Some(elsewhere)),
        Err(Corrupt::Place)
    );
    assert_eq!(
        read(&bytes, |e| e.secret = &Secret([6; 16])),
        Err(Corrupt::Mac)
    );
    assert_eq!(read(&bytes, |e| e.chunk_bytes = 1024), Err(Corrupt::Length));
    assert_eq!(read(&bytes.slice(..511), |_| ()), Err(Corrupt::Length));
    assert_eq!(read(&Bytes::new(), |_| ()), Err(Corrupt::Length));
    assert_eq!(
        read(&Bytes::from(vec![0; 512]), |_| ()),
        Err(Corrupt::Magic)
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let whole = example().0;
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&Bytes::from(bytes), |_| ()).is_err(), "bit {bit}");
    }
}

#[test]
fn the_stack_hasher_and_the_one_shot_agree_across_pieces() {
    for len in [0, 1, 16, 100, 239, 241, 1024, 5000] {
        let body: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let (front, rear) = body.split_at(len / 3);
        let record = NewRecord {
            hash: KeyHash(0),
            primary: KeyHash(0),
            key: b"k",
            meta: b"",
            body: &[front, rear],
            fragment: None,
            total: None,
            began: 0,
            server: 0,
        };
        let joined = [b"k", &body[..]].concat();
        assert_eq!(record.sums(b"").checksum, XxHash3_64::oneshot(&joined));
    }
}

/// A fragment of 30,000 bytes, whose key is as long as that.
fn fragment(key_len: usize) -> (Bytes, Vec<u8>, Extent) {
    let body: Vec<u8> = (0..30_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let key = vec![b'k'; key_len];
    let record = NewRecord {
        hash: KeyHash(10),
        primary: KeyHash(11),
        key: &key,
        meta: b"",
        body: &[&body[..11], &body[11..]],
        fragment: Some(Fragment {
            fetch_id: 9,
            number: 3,
        }),
        total: None,
        began: 4,
        server: 0,
    };
    let extent = Extent {
        first: Chunk(7),
        len: Chunks(chunks_for(record.record_bytes(b""), 512).unwrap()),
    };
    let sums = record.sums(b"");
    let placed = Placed {
        epoch: 2,
        extent,
        sequence: 5,
        stored_unix_ms: 6,
        checksum: sums.checksum,
    };
    let mut bytes = vec![0xaa; extent.len.0 as usize * 512];
    record.write_parts(b"", &sums.table, &mut bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&record.header(b"", placed).encode(&SECRET));
    (bytes.into(), body, extent)
}

#[test]
fn a_fragment_is_read_whole_or_by_its_front_and_parts() {
    for key_len in [40, 3_700, 5_000] {
        let (bytes, body, extent) = fragment(key_len);
        let whole = read(&bytes, |e| e.extent = Some(extent)).unwrap();
        assert_eq!((whole.key.len(), &whole.body[..]), (key_len, &body[..]));
        let expected = Expected {
            secret: &SECRET,
            epoch: 2,
            hash: Some(KeyHash(10)),
            extent: Some(extent),
            chunk_bytes: 512,
            mistakes: Mistakes::default(),
        };
        let blocks = Blocks::of((HEADER_BYTES + key_len) as u64, 30_000).unwrap();
        let front_end = blocks.body_at as usize;
        let front = decode_front(&bytes.slice(..front_end), expected).unwrap();
        assert_eq!((front.key.len(), front.body_len), (key_len, 30_000));
        assert_eq!(
            decode_front(&bytes.slice(..front_end - 1), expected).unwrap_err(),
            Corrupt::Length
        );
        let (front, _) = front.compact();
        for part in [0..1, 100..9_000, 12_288..16_384, 29_999..30_000, 0..30_000] {
            let around = blocks.around(part.clone());
            let wanted = bytes.slice(around.start as usize..around.end as usize);
            let got = front.decode(around.start, &wanted, part.clone(), Mistakes::default());
            assert_eq!(
                wanted[got.unwrap()],
                body[part.start as usize..part.end as usize]
            );
            // A part that is not in it, and blocks of another place.
            let beyond = part.start..30_001;
            let got = front.decode(around.start, &wanted, beyond, Mistakes::default());
            assert_eq!(got.unwrap_err(), Corrupt::Length);
            let got = front.decode(around.start + 4096, &wanted, part, Mistakes::default());
            assert!(got.is_err());
        }
    }
}

#[test]
fn every_flipped_bit_of_a_fragment_is_noticed() {
    let (whole, _, extent) = fragment(40);
    let blocks = Blocks::of(HEADER_BYTES as u64 + 40, 30_000).unwrap();
    let expected = Expected {
        secret: &SECRET,
        epoch: 2,
        hash: Some(KeyHash(10)),
        extent: Some(extent),
        chunk_bytes: 512,
        mistakes: Mistakes::default(),
    };
    for bit in (0..whole.len() * 8).step_by(37) {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let bytes = Bytes::from(bytes);
        let is_whole = read(&bytes, |e| e.extent = Some(extent)).is_ok();
        assert!(!is_whole, "bit {bit}");
        let byte = bit as u64 / 8;
        let front = decode_front(&bytes, expected);
        assert_eq!(front.is_ok(), byte >= blocks.body_at, "bit {bit}");
        let Ok(front) = front else { continue };
        let got = front.decode(0, &bytes, 0..30_000, Mistakes::default());
        // The padding belongs to no block.
        assert_eq!(got.is_ok(), byte >= blocks.body_end, "bit {bit}");
    }
}
