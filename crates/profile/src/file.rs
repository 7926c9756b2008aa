//! The profile file: a header, then requests ([`Record`]) and events ([`Event`]) back to back.
//!
//! A process that opens a file, new or not, first appends a header, so a file may contain several. If a killed process
//! left a partial record, a header follows that record. When a reader finds bytes that are no whole record, it reports the
//! position and resumes after the next header. A header inside a record proves that the record is torn.
//!
//! ```text
//! header   8 bytes   "\x00LoliPro"   no record begins with 0, since none is empty
//!          2 bytes   version of the records that follow, little-endian: 1 to 3
//!          4 bytes   identifies the secret that keys are hashed with (`keys_id`), little-endian; 0 in version 1
//!          2 bytes   zero
//! ```
//!
//! Each header gives the version of the records after it, so a newer program may append to an older file.
//!
//! Limits: the reader holds at most `BUFFER_BYTES`, besides the buffer of its source.

use std::io::{self, BufRead};

use crate::event::{EVENT_BIT, Event};
use crate::record::{RECORD_BYTES_MAX, RECORD_VERSION, Record};

const MAGIC: [u8; 8] = *b"\x00LoliPro";
const HEADER_BYTES: usize = 16;
/// The size of the reader's own buffer: many records, so that moving the rest to the front costs little.
const BUFFER_BYTES: usize = 64 << 10;
const _: () = assert!(BUFFER_BYTES > 4 * (RECORD_BYTES_MAX + HEADER_BYTES));

/// Appends a header. Each process that opens the file does this once, before its first record. Keys of two files can be compared if
/// their `keys_id` is the same.
pub fn write_file_header(keys_id: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&u16::from(RECORD_VERSION).to_le_bytes());
    out.extend_from_slice(&keys_id.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
}

/// An item of a profile.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A finished request.
    Request(Record),
    /// An event.
    Event(Event),
}

impl Item {
    /// The request, if it is one.
    pub fn request(self) -> Option<Record> {
        match self {
            Item::Request(record) => Some(record),
            Item::Event(_) => None,
        }
    }

    /// The item at the front of `buf` and its length; `None` if there is no whole item.
    fn decode(version: u16, buf: &[u8]) -> Option<(Item, usize)> {
        if version == 1 {
            let (record, len) = Record::decode_version_1(buf)?;
            return Some((Item::Request(record), len));
        }
        let len = usize::from(*buf.first()?);
        let mut body = buf.get(1..1 + len)?;
        let kind = u16::from_le_bytes(*body.first_chunk()?);
        let item = if kind & EVENT_BIT == 0 {
            let record = Record::decode_body(&mut body)?;
            // A still running older process may append to the file of a newer one, so the version is that of the last header.
            let version = version as u8;
            Item::Request(Record { version, ..record })
        } else {
            body = &body[2..];
            Item::Event(Event::decode_body(kind, &mut body)?)
        };
        Some((item, 1 + len))
    }
}

/// Why a profile file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file does not begin with a header, so it is no profile. Nothing can be read.
    #[error("this is not a profile file (it does not begin with the header)")]
    NotAProfile,
    /// The file was written by a newer program. Nothing can be read.
    #[error(
        "profile format version {found} is not known here (this program reads versions up to {RECORD_VERSION})"
    )]
    Version {
        /// The version found.
        found: u16,
    },
    /// Bytes that are no whole record, as left by a killed process. The reader goes on after them.
    #[error("{skipped} bytes at offset {at} are not a whole record, skipped")]
    Torn {
        /// Their offset in the file.
        at: u64,
        /// How many bytes were skipped.
        skipped: u64,
    },
    /// The source failed. The reader ends.
    #[error("reading the profile: {0}")]
    Io(#[from] io::Error),
}

/// Reads a profile file.
pub struct Reader<R: BufRead> {
    version: u16,
    keys_id: u32,
    source: R,
    buffer: Vec<u8>,
    /// `buffer[at..]` is not decoded yet; its first byte is at `offset` in the file.
    at: usize,
    offset: u64,
    ended: bool,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// `NotAProfile`, `Version`, `Io`.
    pub fn new(source: R) -> Result<Self, ProfileError> {
        let mut reader = Reader {
            version: 0,
            keys_id: 0,
            source,
            buffer: Vec::new(),
            at: 0,
            offset: 0,
            ended: false,
            failed: false,
        };
        reader.fill(HEADER_BYTES)?;
        if !reader.rest().starts_with(&MAGIC) || reader.rest().len() < HEADER_BYTES {
            return Err(ProfileError::NotAProfile);
        }
        reader.take_header()?;
        Ok(reader)
    }

    /// Identifies the secret that keys of the last item are hashed with; 0: there are no keys.
    pub fn keys_id(&self) -> u32 {
        self.keys_id
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    /// Reads until at least `want` bytes are buffered, or the source ends.
    fn fill(&mut self, want: usize) -> io::Result<()> {
        if self.rest().len() >= want || self.ended {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        while self.buffer.len() < want {
            let more = match self.source.fill_buf() {
                Ok(more) => more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if more.is_empty() {
                self.ended = true;
                break;
            }
            let len = more.len().min(BUFFER_BYTES);
            self.buffer.extend_from_slice(&more[..len]);
            self.source.consume(len);
        }
        Ok(())
    }

    /// Checks and skips the header at the front.
    fn take_header(&mut self) -> Result<(), ProfileError> {
        let rest = self.rest();
        let found = u16::from_le_bytes([rest[8], rest[9]]);
        if !(1..=u16::from(RECORD_VERSION)).contains(&found) {
            return Err(ProfileError::Version { found });
        }
        self.keys_id = u32::from_le_bytes([rest[10], rest[11], rest[12], rest[13]]);
        self.version = found;
        self.skip(HEADER_BYTES);
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Item>, ProfileError> {
        loop {
            self.fill(RECORD_BYTES_MAX + HEADER_BYTES)?;
            let rest = self.rest();
            if rest.is_empty() {
                return Ok(None);
            }
            if rest.starts_with(&MAGIC) && rest.len() >= HEADER_BYTES {
                self.take_header()?;
                continue;
            }
            match Item::decode(self.version, rest) {
                // A header begins inside the record: the record was torn, and the header was written after it.
                Some((_, len))
                    if find_magic(&rest[..(len + MAGIC.len() - 1).min(rest.len())]).is_some() => {}
                Some((item, len)) => {
                    self.skip(len);
                    return Ok(Some(item));
                }
                None => {}
            }
            return Err(self.skip_torn()?);
        }
    }

    /// Skips to the next header, or to the end.
    fn skip_torn(&mut self) -> io::Result<ProfileError> {
        let at = self.offset;
        self.skip(1);
        loop {
            self.fill(BUFFER_BYTES / 2)?;
            if let Some(found) = find_magic(self.rest()) {
                self.skip(found);
                break;
            }
            // The last bytes may be the beginning of a header that continues in the next read.
            let keep = if self.ended { 0 } else { MAGIC.len() - 1 };
            self.skip(self.rest().len() - keep);
            if self.ended {
                break;
            }
        }
        Ok(ProfileError::Torn {
            at,
            skipped: self.offset - at,
        })
    }
}

fn find_magic(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Item, ProfileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read().transpose();
        self.failed = matches!(
            read,
            Some(Err(ProfileError::Io(_) | ProfileError::Version { .. }))
        );
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{any_record, memory_hit};
    use crate::{Encryption, Flags};
    use proptest::prelude::*;

    fn file(records: &[Record]) -> Vec<u8> {
        let mut out = Vec::new();
        write_file_header(7, &mut out);
        records.iter().for_each(|r| r.encode(&mut out));
        out
    }

    /// Returns `r` for each record, `t` for each torn place.
    fn read(bytes: &[u8]) -> String {
        // A small source buffer, so that records span several reads.
        let source = io::BufReader::with_capacity(7, bytes);
        let item = |item: Result<Item, ProfileError>| match item {
            Ok(_) => 'r',
            Err(ProfileError::Torn { skipped, .. }) => {
                assert!(skipped > 0);
                't'
            }
            Err(e) => panic!("{e}"),
        };
        Reader::new(source).unwrap().map(item).collect()
    }

    #[test]
    fn a_torn_tail_is_reported_and_the_rest_is_kept() {
        let whole = file(&[memory_hit(); 3]);
        assert_eq!(read(&whole), "rrr");
        assert_eq!(read(&whole[..whole.len() - 1]), "rrt");
        assert_eq!(read(&file(&[])), "");
    }

    #[test]
    fn a_later_process_writes_behind_a_torn_record() {
        let first = file(&[memory_hit(); 2]);
        for cut in 1..20 {
            let mut bytes = first[..first.len() - cut].to_vec();
            bytes.extend(file(&[memory_hit(); 2]));
            assert_eq!(read(&bytes), "rtrr", "cut {cut}");
        }
        let clean = [file(&[memory_hit()]), file(&[memory_hit()])].concat();
        assert_eq!(read(&clean), "rr");
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(matches!(
            Reader::new(&b"hello, world, hello"[..]),
            Err(ProfileError::NotAProfile)
        ));
        assert!(matches!(
            Reader::new(&b""[..]),
            Err(ProfileError::NotAProfile)
        ));
        assert!(matches!(
            Reader::new(&file(&[])[..9]),
            Err(ProfileError::NotAProfile)
        ));
        let mut later = file(&[]);
        later[8] = 9;
        assert!(matches!(
            Reader::new(&later[..]),
            Err(ProfileError::Version { found: 9 })
        ));
    }

    /// A memory hit over TLS in the format of version 2.
    const OF_VERSION_2: [u8; 41] = [
        0x28, 0x41, 0x00, 0x00, 0x85, 0x81, 0x01, 0xc0, 0xc4, 0x80, 0xc1, 0xc1, 0xc4, 0x82, 0x03,
        0x54, 0xc8, 0x01, 0xf0, 0x51, 0xdc, 0x51, 0x00, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23,
        0x01, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f, 0x28, 0x02, 0x2c,
    ];

    #[test]
    fn version_2_is_read_and_says_of_tls_only_that_it_was() {
        let mut bytes = file(&[]);
        bytes[8] = 2;
        bytes.extend(OF_VERSION_2);
        let hit = Record {
            flags: Flags::REUSED_CLIENT | Flags::TLS_CLIENT,
            ..memory_hit()
        };
        let resumed = Record {
            encryption: Encryption::Tls13Resumed,
            ..hit
        };
        // The process is upgraded and appends to the same file.
        bytes.extend(file(&[resumed]));
        let items: Vec<_> = Reader::new(&bytes[..])
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let old = Record { version: 2, ..hit };
        assert_eq!(items, [Item::Request(old), Item::Request(resumed)]);
    }

    proptest! {
        #[test]
        fn a_file_reads_back(records in proptest::collection::vec(any_record(), 0..50)) {
            let bytes = file(&records);
            let back: Result<Vec<_>, _> = Reader::new(io::BufReader::with_capacity(13, &bytes[..])).unwrap().collect();
            let back: Vec<_> = back.unwrap().into_iter().filter_map(Item::request).collect();
            prop_assert_eq!(back, records);
        }

        #[test]
        fn foreign_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut whole = file(&[]);
            whole.extend(&bytes);
            prop_assert!(Reader::new(&whole[..]).unwrap().count() <= bytes.len());
        }
    }
}
