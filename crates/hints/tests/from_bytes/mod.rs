//! Any bytes as frames, as messages of the handshake, and as a sequence of frames into a view: what must hold. The fuzz targets `frames`,
//! `handshake` and `follow` run this, and so do tests, on random bytes.

use hints::bloom::Shape;
use hints::digest::IndexShape;
use hints::frames::{
    Beat, Column, ColumnBeat, Entry, Frame, Full, Hello, PAGE_BYTES, Page, Update,
};
use hints::handshake::{self, Answer, NoMessage};
use hints::{Kind, View};

/// Bytes are a frame that is written as it was read, the beginning of one, or an error.
#[allow(dead_code)]
pub fn read(bytes: &[u8]) {
    let Ok(Some((frame, len))) = Frame::decode(bytes) else {
        return;
    };
    assert!(len <= bytes.len());
    assert_eq!(frame.to_bytes(), bytes[..len]);
}

/// Bytes are a message of the handshake that is written as it was read, or none; so are they behind a beginning that is right.
#[allow(dead_code)]
pub fn shake(bytes: &[u8]) {
    let begun = [b"loligo-c", &handshake::VERSION.to_le_bytes()[..], bytes].concat();
    for bytes in [bytes, &begun] {
        if let Ok(hello) = handshake::Hello::decode(bytes) {
            assert_eq!(hello.encode(), bytes);
            assert!(bytes.len() + handshake::PROOF_BYTES <= handshake::MESSAGE_BYTES_MAX);
        }
        if let Ok(answer) = Answer::decode(bytes) {
            assert_eq!(answer.encode(), bytes);
            let cut = Answer::decode(&bytes[..bytes.len() - 1]);
            assert_eq!(cut, Err(NoMessage::Malformed));
        }
    }
}

/// A frame is the same however the bytes before it were cut, and whatever follows it.
#[allow(dead_code)]
pub fn cut(bytes: &[u8]) {
    let Ok(Some((frame, len))) = Frame::decode(bytes) else {
        return;
    };
    assert_eq!(Frame::decode(&bytes[..len]), Ok(Some((frame, len))));
    for end in 0..len {
        assert_eq!(Frame::decode(&bytes[..end]), Ok(None), "{end} of {len}");
    }
}

/// Bytes of a column's matrices at most, here.
const MEMORY_MAX: u64 = 1 << 20;

/// Frames made of the bytes go into a view. It takes no more memory than it may, finds nothing in nodes that never told of a column, and
/// after an error goes on as after a lost link.
#[allow(dead_code)]
pub fn follow(bytes: &[u8]) {
    let mut view = View::new(3);
    view.limit_memory(MEMORY_MAX);
    let mut reader = view.reader();
    let mut rest = Bytes(bytes);
    let (mut now_ms, mut greeted) = (0, 0u64);
    while !rest.0.is_empty() {
        let node = rest.below(5) * 16;
        match rest.below(8) {
            0 => view.lost(node),
            1 => view.remove(node),
            2 => {
                now_ms += u64::from(rest.byte()) * 20;
                view.tick(now_ms);
            }
            _ => {
                let frame = rest.frame();
                if matches!(frame, Frame::Hello(_)) && node < 64 {
                    greeted |= 1 << node;
                }
                match view.handle(node, &frame, now_ms) {
                    Ok(subscribes) => assert!(subscribes.len() <= 64),
                    Err(_) => view.lost(node),
                }
            }
        }
        let groups = reader.groups();
        let name = u64::from(rest.byte());
        assert_eq!(groups.nodes(|_| name) & !greeted, 0);
        groups.register(node, rest.below(3), |_| name);
        assert!(view.memory_bytes() as u64 <= 2 * MEMORY_MAX);
        let _ = view.status(node);
    }
}

/// What of the input is not used yet; zeros after its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    /// Small mostly, and sometimes the largest there is.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            small => small.into(),
        }
    }

    fn frame(&mut self) -> Frame {
        let column = self.below(3);
        match self.below(6) {
            0 => Frame::Hello(Hello {
                incarnation: self.number(),
                name: "n".into(),
                columns: (0..self.below(4)).map(|_| self.column()).collect(),
            }),
            1 | 2 => Frame::Full(Full {
                column,
                label: self.number(),
                page: self.below(3).into(),
                pages: 1 + u32::from(self.below(3)),
                sent_before: self.below(2).into(),
                content: self.page(),
            }),
            3 | 4 => Frame::Update(Update {
                column,
                label: self.number(),
                is_directory: self.below(2) == 0,
                entries: (0..self.below(6)).map(|_| self.entry()).collect(),
            }),
            _ => Frame::Beat(Beat {
                columns: (0..self.below(4))
                    .map(|_| ColumnBeat {
                        sequence: self.number(),
                        ..ColumnBeat::default()
                    })
                    .collect(),
                ..Beat::default()
            }),
        }
    }

    fn column(&mut self) -> Column {
        let bits = [64, 4096, PAGE_BYTES as u64 * 8 + 64, 1 << 31];
        let shape = Shape::new(bits[usize::from(self.below(4))], 1 + self.below(16));
        Column {
            seed: u64::from(self.below(2)),
            index: IndexShape {
                shards: 1,
                segments: 1,
            },
            kind: match self.below(4) {
                0 => Kind::Directory,
                _ => Kind::Bloom(shape.expect("all of these are sound")),
            },
            epoch: 1,
            incarnation: 1 + u64::from(self.below(3)),
            store: 0,
            weight: 1,
        }
    }

    fn page(&mut self) -> Page {
        let bytes = [8, 512, PAGE_BYTES, 0, 7];
        match self.below(6) {
            5 => Page::Numbers((0..self.below(5)).map(|_| self.number()).collect()),
            which => Page::Bitmap(vec![self.byte(); bytes[usize::from(which)]]),
        }
    }

    fn entry(&mut self) -> Entry {
        Entry {
            mark: self.number(),
            set: self.below(2) == 1,
        }
    }
}
