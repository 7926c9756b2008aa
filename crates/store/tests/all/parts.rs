//! Parts of fragments: what must be read for them, and that exactly this is verified.

use crate::common::{Shell, body};
use bytes::Bytes;
use std::ops::Range;
use store::{Corrupt, Fragment, Front, KeyHash, Lookup, NewRecord, Outcome, PartPlace, Read};

const KEY: &[u8] = b"http://large.example/ 1";
const LEN: usize = 50_000;

fn stored() -> (Shell, KeyHash, Vec<u8>) {
    let mut shell = Shell::small();
    let (hash, body) = (shell.hash(KEY), body(1, 0, LEN));
    let record = NewRecord {
        hash,
        primary: shell.hash(b"http://large.example/"),
        key: KEY,
        meta: b"",
        body: &[&body],
        fragment: Some(Fragment {
            fetch_id: 1,
            number: 7,
        }),
        total: None,
        began: shell.store.sequence(),
        server: 0,
    };
    assert_eq!(shell.put_record(&record), Outcome::Stored);
    shell.settle();
    (shell, hash, body)
}

fn read_of(shell: &Shell, hash: KeyHash) -> Read {
    match shell.store.look_up_needed(hash) {
        Lookup::OnDisk(read) => read,
        other => panic!("not on disk: {other:?}"),
    }
}

fn some_of(shell: &Shell, read: &Read, range: Range<u64>) -> Bytes {
    let at = read.offset as usize;
    Bytes::copy_from_slice(&shell.disk[at + range.start as usize..at + range.end as usize])
}

/// By two reads, of the front and of the blocks.
fn part(shell: &Shell, hash: KeyHash, part: Range<u64>) -> Result<(Front, Bytes), Corrupt> {
    let read = read_of(shell, hash);
    let place = shell
        .store
        .part_of(&read, KEY.len(), LEN as u64, part.clone());
    let PartPlace { front_end, blocks } = place.expect("it is as long as that");
    let needed = front_end + blocks.end - blocks.start;
    assert!(needed <= part.end - part.start + 3 * PartPlace::BLOCK_BYTES);
    assert!(blocks.start.is_multiple_of(PartPlace::BLOCK_BYTES) && blocks.end.is_multiple_of(512));
    let front = some_of(shell, &read, 0..front_end);
    let front = shell.store.decode_front(&front, &read);
    let bytes = some_of(shell, &read, blocks.clone());
    let _ = shell.store.read_done(read);
    let front = front?;
    let place = shell
        .store
        .decode_part(&front, blocks.start, &bytes, part)?;
    Ok((front, bytes.slice(place)))
}

const PARTS: [Range<u64>; 6] = [
    0..1,
    0..50_000,
    3000..5000,
    20_000..30_000,
    40_959..40_960,
    49_999..50_000,
];

#[test]
fn a_part_takes_the_front_and_its_blocks() {
    let (shell, hash, body) = stored();
    for range in PARTS {
        let (front, found) = part(&shell, hash, range.clone()).unwrap();
        assert_eq!((&front.key[..], front.body_len), (KEY, LEN as u64));
        assert_eq!(found, body[range.start as usize..range.end as usize]);
    }
}

#[test]
fn what_has_other_lengths_is_read_whole() {
    let (shell, hash, _) = stored();
    let read = read_of(&shell, hash);
    let part_of = |key: usize, body: u64, part| shell.store.part_of(&read, key, body, part);
    assert!(part_of(KEY.len(), LEN as u64, 5..9).is_some());
    assert_eq!(part_of(KEY.len(), 60_000, 5..9), None);
    assert_eq!(part_of(KEY.len() + 9000, LEN as u64, 5..9), None);
    assert_eq!(part_of(KEY.len(), LEN as u64, 5..50_001), None);
    assert_eq!(part_of(KEY.len(), LEN as u64, 5..5), None);
    assert_eq!(part_of(KEY.len(), u64::MAX, 5..9), None);
    let _ = shell.store.read_done(read);
}

#[test]
fn damage_is_noticed_where_it_is() {
    let (mut shell, hash, body) = stored();
    let read = read_of(&shell, hash);
    let record = read.offset as usize;
    let body_at = record + memchr_of(&shell.disk[record..], &body[..64]);
    let _ = shell.store.read_done(read);
    for at in [0_usize, 100, 25_000, LEN - 1] {
        shell.disk[body_at + at] ^= 1;
        // The block that has it.
        let block = |at: usize| (body_at - record + at) / 4096;
        for range in PARTS {
            let is_hurt =
                (block(range.start as usize)..=block(range.end as usize - 1)).contains(&block(at));
            let found = part(&shell, hash, range.clone()).map(|(_, found)| found);
            let expected = match is_hurt {
                true => Err(Corrupt::Checksum),
                false => Ok(Bytes::copy_from_slice(
                    &body[range.start as usize..range.end as usize],
                )),
            };
            assert!(found == expected, "{at} {range:?}");
        }
        shell.disk[body_at + at] ^= 1;
    }
    // The key, and an entry of the table.
    for at in [record + 128, body_at - 8] {
        shell.disk[at] ^= 1;
        let found = part(&shell, hash, 0..1).map(|(_, found)| found);
        assert_eq!(found, Err(Corrupt::Checksum));
        shell.disk[at] ^= 1;
    }
    assert!(part(&shell, hash, 0..1).is_ok());
}

fn memchr_of(bytes: &[u8], needle: &[u8]) -> usize {
    let found = bytes.windows(needle.len()).position(|it| it == needle);
    found.expect("the body is there")
}

/// What is known of a fragment's front stays true when it is written again somewhere else.
#[test]
fn a_front_outlives_its_place() {
    let (mut shell, hash, body) = stored();
    let (front, _) = part(&shell, hash, 0..1).unwrap();
    let (front, bytes) = front.compact();
    assert!(bytes < 300);
    let read = read_of(&shell, hash);
    let before = read.offset;
    let parts = shell.store.decode_read(&shell.bytes_of(&read), &read);
    assert!(shell.store.read_done(read));
    let record = NewRecord {
        hash,
        primary: shell.hash(b"http://large.example/"),
        key: KEY,
        meta: b"",
        body: &[&parts.unwrap().body],
        fragment: Some(Fragment {
            fetch_id: 1,
            number: 7,
        }),
        total: None,
        began: shell.store.sequence(),
        server: 0,
    };
    assert_eq!(shell.put_record(&record), Outcome::Stored);
    shell.settle();
    let read = read_of(&shell, hash);
    assert_ne!(read.offset, before);
    let blocks = front.around(30_000..31_000);
    let bytes = some_of(&shell, &read, blocks.clone());
    let place = shell
        .store
        .decode_part(&front, blocks.start, &bytes, 30_000..31_000);
    assert_eq!(bytes[place.unwrap()], body[30_000..31_000]);
    let _ = shell.store.read_done(read);
}
