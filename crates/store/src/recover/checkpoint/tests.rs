//! Examples, damaged bytes everywhere, forged and mixed checkpoints, and how fast one is verified.

use super::read::{CheckpointError, Expected, read};
use super::write::{CheckpointWriter, Finished};
use super::*;
use crate::secret::Secret;
use std::borrow::Cow;
use twox_hash::XxHash3_64;

const SECRET: Secret = Secret([4; 16]);
const ABOUT: About = About {
    generation: 9,
    epoch: 2,
    covers: 70,
};
const EXPECTED: Expected = Expected {
    generation: 9,
    epoch: 2,
};

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251 + salt) as u8).collect()
}

/// Writes the parts, numbered from 0, and lays the writes out as on disk.
fn written(area_bytes: u64, about: About, parts: &[(u8, Vec<u8>)]) -> (Vec<u8>, Finished) {
    let mut writer = CheckpointWriter::new(area_bytes, about, SECRET);
    let mut area = vec![0xdd; area_bytes as usize];
    let mut put = |(at, bytes): (u64, bytes::Bytes)| {
        assert_eq!((at % 4096, bytes.len() % 4096), (0, 0));
        assert_eq!(bytes.as_ptr().addr() % 4096, 0);
        assert!(bytes.len() <= BLOCK_BYTES);
        area[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    };
    for (number, (kind, bytes)) in parts.iter().enumerate() {
        writer.push(*kind, number as u32, bytes);
        while let Some(block) = writer.take_block() {
            put(block);
        }
    }
    let finished = writer.finish(80);
    finished.writes.iter().cloned().for_each(&mut put);
    area.truncate(finished.bytes as usize);
    (area, finished)
}

fn check(area: &[u8], parts: &[(u8, Vec<u8>)]) {
    let checkpoint = read(area, EXPECTED, &SECRET).unwrap();
    assert_eq!((checkpoint.about, checkpoint.sequence), (ABOUT, 80));
    assert_eq!(checkpoint.part_count() as usize, parts.len());
    assert_eq!(checkpoint.parts().count(), parts.len());
    for (number, (found, (kind, bytes))) in checkpoint.parts().zip(parts).enumerate() {
        assert_eq!((found.kind, found.number), (*kind, number as u32));
        assert_eq!(found.bytes(), *bytes);
        assert_eq!(found.pieces().collect::<Vec<_>>().concat(), *bytes);
    }
}

#[test]
fn what_was_pushed_is_read() {
    let parts = [
        (1, pattern(100, 0)),
        (1, vec![]),
        (2, pattern(5000, 1)),
        (7, pattern(16, 2)),
    ];
    let (area, finished) = written(1 << 20, ABOUT, &parts);
    assert_eq!(
        (finished.bytes, finished.parts, finished.left_out),
        (12288, 4, 0)
    );
    check(&area, &parts);
}

#[test]
fn an_empty_checkpoint_is_a_header_page() {
    let (area, finished) = written(32 * 1024, ABOUT, &[]);
    assert_eq!((area.len(), finished.writes.len()), (4096, 1));
    check(&area, &[]);
}

#[test]
fn parts_span_blocks_and_only_those_are_copied() {
    let parts: Vec<_> = [900_000, 400_000, 3_000_001, 0, 7, PAYLOAD_BYTES * 2]
        .iter()
        .enumerate()
        .map(|(n, &len)| (n as u8, pattern(len, n)))
        .collect();
    let (area, _) = written(16 << 20, ABOUT, &parts);
    check(&area, &parts);
    let checkpoint = read(&area, EXPECTED, &SECRET).unwrap();
    let borrowed: Vec<bool> = checkpoint
        .parts()
        .map(|part| matches!(part.bytes(), Cow::Borrowed(_)))
        .collect();
    assert_eq!(borrowed, [true, false, false, true, true, false]);
    for part in checkpoint.parts() {
        let pieces: Vec<_> = part.pieces().map(<[u8]>::len).collect();
        for piece in pieces.split_last().map_or(&[][..], |(_, before)| before) {
            assert_eq!(piece % 16, 0);
        }
    }
}

#[test]
fn every_length_near_the_end_of_a_block_is_read() {
    for short in 0..70 {
        let parts = [
            (1, pattern(PAYLOAD_BYTES - short, 3)),
            (2, pattern(short, 4)),
        ];
        let (area, _) = written(4 << 20, ABOUT, &parts);
        check(&area, &parts);
    }
}

#[test]
fn what_finds_no_room_is_left_out_and_counted() {
    for area_bytes in [
        32 * 1024,
        1 << 20,
        (1 << 20) + 4096,
        (1 << 20) + 8192,
        3 << 20,
    ] {
        let room = payload_max(area_bytes) as usize;
        let fits = room / 16 * 16 - 16;
        for (len, left_out) in [(fits, 0), (fits + 1, 1)] {
            let part = (1, pattern(len, 0));
            let (area, finished) = written(area_bytes, ABOUT, std::slice::from_ref(&part));
            assert!(finished.bytes <= area_bytes);
            assert_eq!(finished.left_out, left_out, "{len} bytes into {area_bytes}");
            assert_eq!(read(&area, EXPECTED, &SECRET).unwrap().left_out, left_out);
            let there = [part];
            check(&area, &there[..1 - left_out as usize]);
        }
    }
    let small_after_large = [(1, pattern(50_000, 0)), (1, pattern(50, 0))];
    let (area, finished) = written(32 * 1024, ABOUT, &small_after_large);
    assert_eq!((finished.parts, finished.left_out), (1, 1));
    let checkpoint = read(&area, EXPECTED, &SECRET).unwrap();
    assert_eq!(checkpoint.parts().next().unwrap().number, 1);
    let (_, none) = written(4096, ABOUT, &small_after_large);
    assert_eq!((none.bytes, none.left_out), (4096, 2));
}

#[test]
fn blocks_come_out_as_they_fill() {
    let mut writer = CheckpointWriter::new(64 << 20, ABOUT, SECRET);
    let part = pattern(300_000, 0);
    let mut taken = 0;
    for number in 0..40 {
        assert!(writer.push(1, number, &part));
        taken += std::iter::from_fn(|| writer.take_block()).count();
        let whole = (number as usize + 1) * (300_000 + 16) / PAYLOAD_BYTES;
        assert_eq!(taken, whole);
    }
    assert_eq!(
        writer.finish(0).writes.len(),
        2,
        "the last block and the header"
    );
}

#[test]
fn another_generation_epoch_or_store_is_refused() {
    let (area, _) = written(1 << 20, ABOUT, &[(1, pattern(100, 0))]);
    let mismatch = Some(CheckpointError::Mismatch);
    let older = Expected {
        generation: 8,
        ..EXPECTED
    };
    assert_eq!(read(&area, older, &SECRET).err(), mismatch);
    let newer = Expected {
        epoch: 3,
        ..EXPECTED
    };
    assert_eq!(read(&area, newer, &SECRET).err(), mismatch);
    let stranger = read(&area, EXPECTED, &Secret([5; 16]));
    assert_eq!(stranger.err(), Some(CheckpointError::Mac));
    assert_eq!(
        read(&[0; 8192], EXPECTED, &SECRET).err(),
        Some(CheckpointError::Magic)
    );
    assert_eq!(
        read(&[], EXPECTED, &SECRET).err(),
        Some(CheckpointError::Short)
    );
}

#[test]
fn every_damaged_byte_and_every_cut_is_noticed() {
    let (area, _) = written(
        1 << 20,
        ABOUT,
        &[(1, pattern(100, 0)), (2, pattern(5000, 1))],
    );
    let mut bytes = area.clone();
    for at in 0..area.len() {
        bytes[at] ^= 0x21;
        assert!(read(&bytes, EXPECTED, &SECRET).is_err(), "byte {at}");
        bytes[at] = area[at];
        assert!(read(&area[..at], EXPECTED, &SECRET).is_err(), "cut at {at}");
    }
    bytes.extend([9; 5000]);
    assert!(
        read(&bytes, EXPECTED, &SECRET).is_ok(),
        "what lies behind it does not count"
    );
}

#[test]
fn damage_in_a_large_one_is_noticed_everywhere() {
    let (area, _) = written(
        8 << 20,
        ABOUT,
        &[(1, pattern(3_000_000, 0)), (2, pattern(50, 1))],
    );
    let mut bytes = area.clone();
    for at in (0..area.len())
        .step_by(99_991)
        .chain(HEADER_PAGE + BLOCK_BYTES..HEADER_PAGE + BLOCK_BYTES + 70)
    {
        bytes[at] ^= 0x80;
        assert!(read(&bytes, EXPECTED, &SECRET).is_err(), "byte {at}");
        bytes[at] = area[at];
    }
}

#[test]
fn blocks_of_another_checkpoint_or_place_are_noticed() {
    let parts = |salt| [(1, pattern(3_000_000, salt))];
    let (area, _) = written(8 << 20, ABOUT, &parts(0));
    let older = About {
        generation: 7,
        ..ABOUT
    };
    let before = written(8 << 20, older, &parts(0)).0;
    // The same generation, written once more after a failure: whole in itself, yet not the one the header is of.
    let twin = written(8 << 20, ABOUT, &parts(1)).0;
    let block = HEADER_PAGE + BLOCK_BYTES..HEADER_PAGE + 2 * BLOCK_BYTES;
    for source in [&before, &twin] {
        let mut mixed = area.clone();
        mixed[block.clone()].copy_from_slice(&source[block.clone()]);
        assert!(read(&mixed, EXPECTED, &SECRET).is_err());
    }
    let mut swapped = area.clone();
    swapped.copy_within(block.clone(), HEADER_PAGE);
    assert!(read(&swapped, EXPECTED, &SECRET).is_err());
}

/// A checkpoint that lies, sealed with the right secret: even then no panic and no large allocation.
#[test]
fn lying_lengths_are_refused() {
    let honest = written(1 << 20, ABOUT, &[(1, pattern(100, 0)), (2, pattern(30, 1))]).0;
    let lies: [u64; 9] = [0, 1, 15, 101, 113, 200, 1 << 32, u64::MAX - 15, u64::MAX];
    let seal = |bytes: &mut [u8]| {
        let (page, block) = bytes.split_at_mut(HEADER_PAGE);
        let payload = XxHash3_64::oneshot(&block[checkpoint_block::BYTES..]);
        checkpoint_block::CHECKSUM.put_u64(block, payload);
        let heads = XxHash3_64::oneshot(&block[..checkpoint_block::BYTES]);
        checkpoint_header::BLOCKS_CHECKSUM.put_u64(page, heads);
        let checksum = XxHash3_64::oneshot(&page[..checkpoint_header::CHECKSUM.at]);
        checkpoint_header::CHECKSUM.put_u64(page, checksum);
        let mac = SECRET.mac(&page[..checkpoint_header::MAC.at]);
        checkpoint_header::MAC.put(page, &mac);
    };
    let mut same = honest.clone();
    seal(&mut same);
    assert_eq!(same, honest, "the seal is the writer's");
    for lie in lies {
        for target in 0..5 {
            let mut bytes = honest.clone();
            let (page, block) = bytes.split_at_mut(HEADER_PAGE);
            match target {
                0 => checkpoint_part::LENGTH.put_u64(&mut block[checkpoint_block::BYTES..], lie),
                1 => checkpoint_header::LENGTH.put_u64(page, lie),
                2 => checkpoint_header::PAYLOAD_BYTES.put_u64(page, lie),
                3 => checkpoint_header::PARTS.put_u32(page, lie as u32),
                _ => checkpoint_block::PAYLOAD_BYTES.put_u32(block, lie as u32),
            }
            seal(&mut bytes);
            let refused = read(&bytes, EXPECTED, &SECRET).is_err();
            // A part may say 101, as long as what follows stays where it is.
            assert!(refused || (target == 0 && lie == 101), "{target} {lie}");
        }
    }
}
