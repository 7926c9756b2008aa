//! The file format of segments and summaries.
//!
//! ```text
//! segment   "LOLIGOP1" | journal u64 | term u32 | number u64 | vector | checksum u64 | entries
//! summary   "LOLIGOS1" | journal u64 | term u32 | number u64 | vector before | vector behind | checksum u64 | changes
//! entry     length u32 (of all behind the checksum) | checksum u64 | origin u64 | stamp u64 | before u64 | unix_s u64 | change
//! change    length u32 | checksum u64 | change
//! ```
//!
//! Checksums are XXH3-64. Those of entries and changes are seeded with journal, kind and number of the segment, so bytes left over from another
//! segment never match.
//!
//! Not known here: other segments.
//! Limits: [`CHUNK_BYTES`] a read.

use std::{collections::VecDeque, io};

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::{
    super::{
        change::CHANGE_BYTES_MAX,
        medium::{Draft, Medium},
        stamp::{Origin, Vector},
    },
    lines::{Entry, FIXED_BYTES, Line, Position},
};

/// Bytes of one read: more than the longest entry.
pub const CHUNK_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"LOLIGOP1";
const MAGIC_OF_SUMMARY: &[u8; 8] = b"LOLIGOS1";
/// Length and checksum.
pub const FRAME_BYTES: usize = 12;

const _: () = assert!(CHANGE_BYTES_MAX + FRAME_BYTES + FIXED_BYTES < CHUNK_BYTES);

/// The header of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The journal that it belongs to.
    pub own: Origin,
    /// Starts of that journal when it was written.
    pub term: u32,
    /// The segment's number, which is also in its file name.
    pub number: u64,
    /// What the journal had heard before it.
    pub begins_with: Vector,
    /// Of a summary: what is heard at its end.
    pub upto: Option<Vector>,
}

impl Header {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(match &self.upto {
            None => MAGIC,
            Some(_) => MAGIC_OF_SUMMARY,
        });
        out.extend(self.own.0.to_le_bytes());
        out.extend(self.term.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        self.begins_with.encode(&mut out);
        if let Some(upto) = &self.upto {
            upto.encode(&mut out);
        }
        out.extend(XxHash3_64::oneshot(&out).to_le_bytes());
        out
    }

    /// The header at the beginning of these bytes, and its length.
    pub fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let is_summary = magic == MAGIC_OF_SUMMARY;
        if !is_summary && magic != MAGIC {
            return None;
        }
        let (own, rest) = rest.split_first_chunk()?;
        let (term, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (begins_with, mut rest) = Vector::decode(rest)?;
        let mut upto = None;
        if is_summary {
            let (vector, behind) = Vector::decode(rest)?;
            (upto, rest) = (Some(vector), behind);
        }
        let (checksum, rest) = rest.split_first_chunk()?;
        let length = bytes.len() - rest.len();
        if u64::from_le_bytes(*checksum) != XxHash3_64::oneshot(&bytes[..length - 8]) {
            return None;
        }
        let header = Header {
            own: Origin(u64::from_le_bytes(*own)),
            term: u32::from_le_bytes(*term),
            number: u64::from_le_bytes(*number),
            begins_with,
            upto,
        };
        Some((header, length))
    }

    /// The seed of the checksums after the header.
    pub fn seed(&self) -> u64 {
        self.own.0 ^ self.number.rotate_left(32) ^ u64::from(self.upto.is_some())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Entries,
    Summary(Summary),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// What is heard at its end.
    pub upto: Vector,
    /// It kept about as many names as its segments had.
    pub names_differ: bool,
    /// Directories replace names in it.
    pub is_coarse: bool,
}

/// The state of a segment in memory.
#[derive(Debug)]
pub struct Segment {
    /// Unique in this process. A number is not: a summary takes over the number of a segment that it replaces.
    pub id: u64,
    pub number: u64,
    pub kind: Kind,
    pub bytes: u64,
    /// Offset of its first entry.
    pub entries_at: u64,
    /// What the journal had heard before it.
    pub begins_with: Vector,
    pub newest_unix_s: u64,
    /// Seed of the checksums of its entries.
    pub seed: u64,
}

impl Segment {
    /// A segment with this header. `entries_at`: length of the header; `bytes`: of the whole segment.
    pub fn new(id: u64, header: Header, entries_at: u64, bytes: u64) -> Segment {
        Segment {
            id,
            number: header.number,
            seed: header.seed(),
            kind: header.upto.map_or(Kind::Entries, |upto| {
                Kind::Summary(Summary {
                    upto,
                    names_differ: false,
                    is_coarse: false,
                })
            }),
            bytes,
            entries_at,
            begins_with: header.begins_with,
            newest_unix_s: 0,
        }
    }

    /// The position of its first line.
    pub fn first(&self) -> Position {
        Position {
            id: self.id,
            offset: self.entries_at,
        }
    }

    pub fn is_summary(&self) -> bool {
        self.kind != Kind::Entries
    }

    pub fn is_coarse(&self) -> bool {
        matches!(&self.kind, Kind::Summary(summary) if summary.is_coarse)
    }

    pub fn names_differ(&self) -> bool {
        let differ = |summary: &Summary| summary.names_differ || summary.is_coarse;
        matches!(&self.kind, Kind::Summary(summary) if differ(summary))
    }

    /// The whole lines from `offset` on, as many as one read brings, and their bytes.
    pub fn lines(&self, medium: &Medium, offset: u64) -> io::Result<(Vec<Line>, u64)> {
        let bytes = medium.read(self.number, offset, CHUNK_BYTES)?;
        let (mut lines, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((body, behind)) = first_body(self.seed, rest) {
            let line = match &self.kind {
                Kind::Entries => Entry::decode(body).map(Line::Entry),
                Kind::Summary(_) => Some(Line::Also(Bytes::copy_from_slice(body))),
            };
            let Some(line) = line else { break };
            lines.push(line);
            rest = behind;
        }
        Ok((lines, (bytes.len() - rest.len()) as u64))
    }

    /// The bodies of its entries or changes, in order.
    pub fn bodies<'a>(&self, medium: &'a Medium) -> Bodies<'a> {
        let number = self.number;
        let read = move |at| medium.read(number, at, CHUNK_BYTES);
        bodies(self.seed, self.entries_at..self.bytes, read)
    }
}

/// Returns the bodies of frames one after the other; an error at a damaged frame.
pub type Bodies<'a> = Box<dyn FnMut() -> io::Result<Option<Bytes>> + 'a>;

/// The changes of a draft, in order.
pub fn bodies_of_draft(seed: u64, draft: &Draft) -> Bodies<'_> {
    let read = |at| draft.read(at, CHUNK_BYTES);
    bodies(seed, 0..draft.bytes(), read)
}

/// The bodies of the frames in `left`; `read` returns some bytes from an offset.
fn bodies<'a>(
    seed: u64,
    mut left: std::ops::Range<u64>,
    read: impl Fn(u64) -> io::Result<Vec<u8>> + 'a,
) -> Bodies<'a> {
    let mut ahead = VecDeque::new();
    Box::new(move || {
        if ahead.is_empty() && !left.is_empty() {
            let bytes = read(left.start)?;
            let mut rest = &bytes[..];
            while let Some((body, behind)) = first_body(seed, rest) {
                ahead.push_back(Bytes::copy_from_slice(body));
                rest = behind;
            }
            if ahead.is_empty() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            left.start += (bytes.len() - rest.len()) as u64;
        }
        Ok(ahead.pop_front())
    })
}

/// Puts length and checksum before a body.
pub fn framed(seed: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES + body.len());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(XxHash3_64::oneshot_with_seed(seed, body).to_le_bytes());
    frame.extend(body);
    frame
}

/// The body of the first frame, if that is whole, and the bytes after it.
fn first_body(seed: u64, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let is_whole = XxHash3_64::oneshot_with_seed(seed, body) == u64::from_le_bytes(*checksum);
    is_whole.then_some((body, rest))
}
