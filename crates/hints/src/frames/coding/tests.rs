//! Encoding and decoding of frames, also of arbitrary bytes.

use super::*;
use proptest::prelude::*;

fn column() -> Column {
    Column {
        seed: 1,
        index: IndexShape {
            shards: 64,
            segments: 3,
        },
        kind: Kind::Bloom(Shape::new(1 << 20, 7).unwrap()),
        epoch: 2,
        incarnation: 3,
        store: 4,
        weight: 5,
    }
}

/// One frame of each type, with every field set.
fn frames() -> Vec<Frame> {
    let entry = |mark, set| Entry { mark, set };
    vec![
        Frame::Hello(Hello {
            incarnation: 9,
            name: "näme".into(),
            columns: vec![
                column(),
                Column {
                    kind: Kind::Directory,
                    ..column()
                },
            ],
        }),
        Frame::Subscribe(Subscribe {
            column: 1,
            incarnation: 2,
            from: Some(0),
        }),
        Frame::Subscribe(Subscribe {
            column: 1,
            incarnation: 2,
            from: None,
        }),
        Frame::Full(Full {
            column: 2,
            label: 3,
            page: 4,
            pages: 5,
            sent_before: 3,
            content: Page::Bitmap(vec![6; PAGE_BYTES]),
        }),
        Frame::Full(Full {
            column: 2,
            label: 3,
            page: 0,
            pages: 1,
            sent_before: 0,
            content: Page::Numbers(vec![1, u64::MAX]),
        }),
        Frame::Update(Update {
            column: 1,
            label: 2,
            is_directory: false,
            entries: vec![entry(u32::MAX.into(), true), entry(5, false)],
        }),
        Frame::Update(Update {
            column: 1,
            label: 2,
            is_directory: true,
            entries: vec![entry(u64::MAX, true)],
        }),
        Frame::Beat(Beat {
            is_leaving: true,
            load: Load {
                requests_per_s: 1,
                disk_reads_per_s: 2,
                queue_ms: 3,
                free_mib: 4,
            },
            push_max_bytes: u64::MAX,
            columns: vec![ColumnBeat {
                label: 5,
                sequence: 6,
                entries: 7,
            }],
        }),
        Frame::Withdrawn(Withdrawn {
            column: 1,
            number: 2,
        }),
        Frame::Purging(b"purge".to_vec()),
    ]
}

#[test]
fn what_is_written_is_read() {
    let mut stream = Vec::new();
    for frame in frames() {
        frame.encode(&mut stream);
    }
    let mut rest = &stream[..];
    for frame in frames() {
        let (read, bytes) = Frame::decode(rest).unwrap().unwrap();
        assert_eq!(read, frame);
        rest = &rest[bytes..];
    }
    assert_eq!(Frame::decode(rest), Ok(None));
}

#[test]
fn the_beginning_of_a_frame_waits_for_the_rest() {
    for frame in frames() {
        let bytes = frame.to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..len]), Ok(None), "{len} bytes");
        }
    }
}

#[test]
fn a_byte_that_was_changed_is_noticed() {
    for frame in frames() {
        let bytes = frame.to_bytes();
        for at in LENGTH_BYTES..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert_eq!(Frame::decode(&changed), Err(Unreadable::Check), "byte {at}");
        }
    }
}

/// A frame with this content and a correct checksum.
fn framed(content: &[u8]) -> Vec<u8> {
    let mut out = ((content.len() + CHECK_BYTES) as u32)
        .to_le_bytes()
        .to_vec();
    out.extend(content);
    out.extend(check(content).to_le_bytes());
    out
}

#[test]
fn what_has_no_sense_is_refused() {
    let of = |content: &[u8]| Frame::decode(&framed(content)).unwrap_err();
    assert_eq!(of(&[77]), Unreadable::Type(77));
    assert_eq!(of(&[HELLO, 9, 0]), Unreadable::Version(9));
    assert_eq!(of(&[HELLO, 9]), Unreadable::Body(HELLO));
    assert_eq!(of(&[HELLO, 1, 0]), Unreadable::Version(1));
    // A beat of version 1, which had no `push-max`.
    let beat_1 = [vec![BEAT, 0], vec![0; 4 * 4], vec![0]].concat();
    assert_eq!(of(&beat_1), Unreadable::Body(BEAT));
    assert_eq!(of(&[SUBSCRIBE]), Unreadable::Body(SUBSCRIBE));
    let purging = vec![PURGING; PURGING_BYTES_MAX + 2];
    assert_eq!(of(&purging), Unreadable::Body(PURGING));
    // An update that announces more entries than it has.
    let mut update = vec![UPDATE, 0, DIRECTORY];
    update.extend(1u64.to_le_bytes());
    update.extend(u32::MAX.to_le_bytes());
    assert_eq!(of(&update), Unreadable::Body(UPDATE));
    let too_long = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes();
    assert!(matches!(
        Frame::decode(&too_long),
        Err(Unreadable::Length(_))
    ));
    assert_eq!(Frame::decode(&[4, 0, 0, 0]), Err(Unreadable::Length(4)));
    // Each frame with extra bytes at its end.
    let is_opaque = |frame: &Frame| matches!(frame, Frame::Purging(_));
    for frame in frames().into_iter().filter(|frame| !is_opaque(frame)) {
        let bytes = frame.to_bytes();
        let mut content = bytes[LENGTH_BYTES..bytes.len() - CHECK_BYTES].to_vec();
        content.push(0);
        assert!(Frame::decode(&framed(&content)).is_err(), "{frame:?}");
    }
}

proptest! {
    /// The same as the fuzz target `frames`, on random bytes.
    #[test]
    fn any_bytes_are_a_frame_or_none(
        which in 0..frames().len(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let bytes = frames()[which].to_bytes();
        let mut content = bytes[LENGTH_BYTES..bytes.len() - CHECK_BYTES].to_vec();
        for (at, byte) in cuts {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let bytes = framed(&content);
        if let Ok(read) = Frame::decode(&bytes) {
            let (frame, len) = read.expect("it is all there");
            prop_assert_eq!(len, bytes.len());
            prop_assert_eq!(frame.to_bytes(), bytes);
        }
    }
}
