//! One record: header, key, metadata, for a fragment a table of its `blocks`, body, zeros up to the next chunk.
//!
//! The header describes the parts and where the record belongs (store, epoch, chunks, key hash). Its last field is a SipHash-2-4-128 over
//! the rest, keyed by the store's secret. The checksum of key, metadata and body is under that MAC; for a fragment it is that of key, metadata
//! and table, which covers the body. The record of a variant carries its primary's marker between key and metadata. So bytes that an origin
//! puts into a body cannot pass for a record on any chunk, and a record cannot pass for one of another place, epoch or store.
//!
//! [`decode`] is given foreign bytes: it answers with [`Corrupt`], never with a panic.
//! Not known here: which records are alive.

use crate::blocks::Blocks;
use crate::index::carried::Carried;
use crate::index::entry::encodable_chunks;
use crate::index::key::KeyHash;
use crate::layout::record as field;
use crate::mistakes::{Mistake, Mistakes};
use crate::record::corrupt::Corrupt;
use crate::secret::Secret;
use crate::sequence::Sequence;
use bytes::Bytes;
use extent::Extent;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash3_64;
use twox_hash::xxhash3_64::{RawHasher, SecretBuffer};

pub mod corrupt;

const MAGIC: [u8; 4] = *b"LgRc";
const VERSION: u16 = 3;

const HAS_FRAGMENT: u16 = 1;
const HAS_TOTAL: u16 = 2;
const HAS_MARKER: u16 = 4;

/// Bytes of the header.
pub const HEADER_BYTES: usize = field::BYTES;

/// The longest key a record may have.
pub const KEY_BYTES_MAX: usize = 1 << 20;

/// The longest metadata a record may have.
pub const META_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(HEADER_BYTES == 128 && field::MAC.end() == HEADER_BYTES);

/// One piece of a large object, stored as a record of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The fetch that brought it; pieces of different fetches are never mixed.
    pub fetch_id: u64,
    /// Its number, from 0.
    pub number: u32,
}

/// The facts about its fragments in the head record of a large object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectTotal {
    /// The fetch whose fragments count.
    pub fetch_id: u64,
    /// How many there are.
    pub fragments: u32,
    /// Bytes of all their bodies.
    pub bytes: u64,
}

/// A record to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The hash of `key`.
    pub hash: KeyHash,
    /// The hash that purges name; equal to `hash` unless the record is a variant or a fragment.
    pub primary: KeyHash,
    /// The full key; at most [`KEY_BYTES_MAX`].
    pub key: &'a [u8],
    /// The caller's metadata, opaque here; at most [`META_BYTES_MAX`].
    pub meta: &'a [u8],
    /// The body in pieces.
    pub body: &'a [&'a [u8]],
    /// Set if the record is a fragment.
    pub fragment: Option<Fragment>,
    /// Set if the record is the head of a fragmented object. If both are set their `fetch_id` must be equal.
    pub total: Option<ObjectTotal>,
    /// [`crate::Store::sequence`] when the fill began: refused if its primary was invalidated since.
    pub began: Sequence,
    /// Names the origin server, for the locality buffers; 0 where it does not matter.
    pub server: u64,
}

impl NewRecord<'_> {
    pub(crate) fn body_len(&self) -> u64 {
        self.body.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Is it found through its primary's marker? So are all records under another key than the primary, except the fragments of an object.
    pub(crate) fn is_variant(&self) -> bool {
        self.hash != self.primary && (self.fragment.is_none() || self.total.is_some())
    }

    /// Bytes without the padding; `marker` is the marker that the record carries.
    pub(crate) fn record_bytes(&self, marker: &[u8]) -> u64 {
        match self.blocks(marker) {
            Some(blocks) => blocks.body_end,
            None => self.before(marker) + self.body_len(),
        }
    }

    /// Bytes of header, key, marker and metadata.
    fn before(&self, marker: &[u8]) -> u64 {
        (HEADER_BYTES + self.key.len() + marker.len() + self.meta.len()) as u64
    }

    /// The blocks of a fragment; `None` for other records.
    fn blocks(&self, marker: &[u8]) -> Option<Blocks> {
        let blocks = || Blocks::of(self.before(marker), self.body_len());
        (self.fragment).map(|_| blocks().expect("a body in memory is shorter than that"))
    }

    pub(crate) fn sums(&self, marker: &[u8]) -> Sums {
        let blocks = self.blocks(marker);
        let table = blocks.map_or_else(Vec::new, |blocks| blocks.table(self.body));
        let body = match blocks {
            Some(_) => &[],
            None => self.body,
        };
        // The hasher's usual constructor allocates; this one lives on the stack.
        let mut hasher = RawHasher::new(SecretBuffer::default());
        let front = [self.key, marker, self.meta, &table[..]];
        front.iter().chain(body).for_each(|part| hasher.write(part));
        Sums {
            checksum: hasher.finish(),
            table,
        }
    }

    /// Where a body of `body_len` bytes begins, and where the record ends.
    pub(crate) fn layout(&self, marker: &[u8], body_len: u64) -> (u64, u64) {
        let before = self.before(marker);
        let begin = match self.fragment {
            Some(_) => Blocks::of(before, body_len).map_or(before, |blocks| blocks.body_at),
            None => before,
        };
        (begin, begin + body_len)
    }

    /// Copies key, marker, metadata, table and body behind the header's place and fills the rest with zeros.
    pub(crate) fn write_parts(&self, marker: &[u8], table: &[u8], place: &mut [u8]) {
        let mut at = self.write_front(marker, table, place);
        for part in self.body {
            place[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        place[at..].fill(0);
    }

    /// Copies key, marker, metadata and table behind the header's place. Returns where they end.
    pub(crate) fn write_front(&self, marker: &[u8], table: &[u8], place: &mut [u8]) -> usize {
        let mut at = HEADER_BYTES;
        for part in [self.key, marker, self.meta, table] {
            place[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        at
    }

    pub(crate) fn header(&self, marker: &[u8], placed: Placed) -> Header {
        let fetch_ids = (
            self.fragment.map(|f| f.fetch_id),
            self.total.map(|t| t.fetch_id),
        );
        if let (Some(fragment), Some(total)) = fetch_ids {
            assert_eq!(fragment, total, "a record of two fetches");
        }
        Header {
            epoch: placed.epoch,
            hash: self.hash,
            primary: self.primary,
            extent: placed.extent,
            sequence: placed.sequence,
            began: self.began,
            stored_unix_ms: placed.stored_unix_ms,
            key_len: self.key.len() as u32,
            meta_len: (marker.len() + self.meta.len()) as u32,
            body_len: self.body_len(),
            has_marker: !marker.is_empty(),
            fragment: self.fragment,
            total: self.total,
            checksum: placed.checksum,
        }
    }
}

/// The checksums of a record.
#[derive(Debug)]
pub(crate) struct Sums {
    /// For the header.
    pub checksum: u64,
    /// For a fragment, one checksum for each block; otherwise empty.
    pub table: Vec<u8>,
}

/// The fields that the store adds to a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub epoch: u64,
    pub extent: Extent,
    pub sequence: Sequence,
    pub stored_unix_ms: u64,
    pub checksum: u64,
}

/// A record's header, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub epoch: u64,
    pub hash: KeyHash,
    pub primary: KeyHash,
    pub extent: Extent,
    pub sequence: Sequence,
    pub began: Sequence,
    pub stored_unix_ms: u64,
    pub key_len: u32,
    /// Length of the marker, if it has one, and the metadata.
    pub meta_len: u32,
    pub body_len: u64,
    pub has_marker: bool,
    pub fragment: Option<Fragment>,
    pub total: Option<ObjectTotal>,
    pub checksum: u64,
}

impl Header {
    pub(crate) fn encode(&self, secret: &Secret) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let b = &mut bytes;
        let fragment = self.fragment.map_or(0, |_| HAS_FRAGMENT);
        let total = self.total.map_or(0, |_| HAS_TOTAL);
        let marker = if self.has_marker { HAS_MARKER } else { 0 };
        let fetch_id = self
            .fragment
            .map(|f| f.fetch_id)
            .or(self.total.map(|t| t.fetch_id));
        field::MAGIC.put(b, &MAGIC);
        field::VERSION.put_u16(b, VERSION);
        field::FLAGS.put_u16(b, fragment | total | marker);
        field::EPOCH.put_u64(b, self.epoch);
        field::HASH.put_u64(b, self.hash.0);
        field::PRIMARY.put_u64(b, self.primary.0);
        field::FIRST.put_u32(b, self.extent.first.0);
        field::CHUNKS.put_u32(b, self.extent.len.0);
        field::SEQUENCE.put_u64(b, self.sequence);
        field::BEGAN.put_u64(b, self.began);
        field::STORED_UNIX_MS.put_u64(b, self.stored_unix_ms);
        field::KEY_LEN.put_u32(b, self.key_len);
        field::META_LEN.put_u32(b, self.meta_len);
        field::BODY_LEN.put_u64(b, self.body_len);
        field::FETCH_ID.put_u64(b, fetch_id.unwrap_or(0));
        field::FRAGMENT.put_u32(b, self.fragment.map_or(0, |f| f.number));
        field::FRAGMENTS.put_u32(b, self.total.map_or(0, |t| t.fragments));
        field::TOTAL_BYTES.put_u64(b, self.total.map_or(0, |t| t.bytes));
        field::CHECKSUM.put_u64(b, self.checksum);
        let mac = mac(secret, b);
        field::MAC.put(b, &mac);
        bytes
    }

    /// Reads a header of this store; the MAC comes first, so nothing else is believed before it.
    pub(crate) fn decode(
        bytes: &[u8],
        secret: &Secret,
        mistakes: Mistakes,
    ) -> Result<Self, Corrupt> {
        if bytes.len() < HEADER_BYTES {
            return Err(Corrupt::Length);
        }
        if field::MAGIC.of(bytes) != MAGIC {
            return Err(Corrupt::Magic);
        }
        if field::VERSION.u16(bytes) != VERSION {
            return Err(Corrupt::Version);
        }
        if field::MAC.of(bytes) != mac(secret, bytes) && !mistakes.make(Mistake::NoMac) {
            return Err(Corrupt::Mac);
        }
        let flags = field::FLAGS.u16(bytes);
        let fetch_id = field::FETCH_ID.u64(bytes);
        let fragment = Fragment {
            fetch_id,
            number: field::FRAGMENT.u32(bytes),
        };
        let total = ObjectTotal {
            fetch_id,
            fragments: field::FRAGMENTS.u32(bytes),
            bytes: field::TOTAL_BYTES.u64(bytes),
        };
        Ok(Self {
            epoch: field::EPOCH.u64(bytes),
            hash: KeyHash(field::HASH.u64(bytes)),
            primary: KeyHash(field::PRIMARY.u64(bytes)),
            extent: Extent {
                first: extent::Chunk(field::FIRST.u32(bytes)),
                len: extent::Chunks(field::CHUNKS.u32(bytes)),
            },
            sequence: field::SEQUENCE.u64(bytes),
            began: field::BEGAN.u64(bytes),
            stored_unix_ms: field::STORED_UNIX_MS.u64(bytes),
            key_len: field::KEY_LEN.u32(bytes),
            meta_len: field::META_LEN.u32(bytes),
            body_len: field::BODY_LEN.u64(bytes),
            has_marker: flags & HAS_MARKER != 0,
            fragment: (flags & HAS_FRAGMENT != 0).then_some(fragment),
            total: (flags & HAS_TOTAL != 0).then_some(total),
            checksum: field::CHECKSUM.u64(bytes),
        })
    }

    /// Where key, marker and metadata end.
    pub(crate) fn meta_end(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.key_len) + u64::from(self.meta_len)
    }

    /// Where the body lies. `None` if the lengths are impossible.
    fn body(&self) -> Option<Range<u64>> {
        let start = match self.blocks()? {
            Some(blocks) => blocks.body_at,
            None => self.meta_end(),
        };
        Some(start..start.checked_add(self.body_len)?)
    }

    /// For a fragment, where table and body lie. `None` if the lengths are impossible.
    fn blocks(&self) -> Option<Option<Blocks>> {
        match self.fragment {
            Some(_) => Blocks::of(self.meta_end(), self.body_len).map(Some),
            None => Some(None),
        }
    }

    /// Key, marker and metadata of a record with this header, whose first bytes these are.
    pub(crate) fn head<'a>(&self, bytes: &'a [u8]) -> Result<Head<'a>, Corrupt> {
        let key_end = HEADER_BYTES + self.key_len as usize;
        let meta_end = key_end + self.meta_len as usize;
        let key = bytes.get(HEADER_BYTES..key_end).ok_or(Corrupt::Length)?;
        let mut meta = bytes.get(key_end..meta_end).ok_or(Corrupt::Length)?;
        let mut marker = None;
        if self.has_marker {
            let (carried, len) = Carried::decode(meta).ok_or(Corrupt::Length)?;
            marker = Some(carried);
            meta = &meta[len..];
        }
        Ok(Head { key, marker, meta })
    }
}

/// The parts before the body of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head<'a> {
    pub key: &'a [u8],
    /// For a variant, the marker of its primary when it was stored.
    pub marker: Option<Carried<'a>>,
    pub meta: &'a [u8],
}

fn mac(secret: &Secret, header: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(&secret.0);
    hasher.write(&header[..field::MAC.at]);
    let hash = hasher.finish128();
    let mut mac = [0; 16];
    mac[..8].copy_from_slice(&hash.h1.to_le_bytes());
    mac[8..].copy_from_slice(&hash.h2.to_le_bytes());
    mac
}

/// A record that was verified; key, metadata and body share the memory it was read into.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordParts {
    /// The full key. A hash is no proof: compare it with the key that was asked for.
    pub key: Bytes,
    /// As given to [`crate::Store::insert`].
    pub meta: Bytes,
    /// As given to [`crate::Store::insert`], in one piece.
    pub body: Bytes,
    /// The hash that purges name.
    pub primary: KeyHash,
    /// Set if the record is a fragment.
    pub fragment: Option<Fragment>,
    /// Set if the record is the head of a fragmented object.
    pub total: Option<ObjectTotal>,
    /// Its place in the order of all records and invalidations.
    pub sequence: Sequence,
    /// The sequence at which its fill began.
    pub began: Sequence,
    /// When it was stored, in milliseconds since 1970.
    pub stored_unix_ms: u64,
    /// A soft purge, by key or by predicate, has put it in doubt since, see [`crate::Manner`].
    pub doubted: bool,
}

/// The properties that the bytes must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub secret: &'a Secret,
    pub epoch: u64,
    /// `None` accepts the hash in the header, as in a scan.
    pub hash: Option<KeyHash>,
    pub extent: Option<Extent>,
    pub chunk_bytes: u32,
    pub mistakes: Mistakes,
}

/// Do these bytes begin like a record? A quick look, for scans.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Verifies a record and takes it apart.
pub(crate) fn decode(bytes: &Bytes, expected: Expected<'_>) -> Result<RecordParts, Corrupt> {
    let header = Header::decode(bytes, expected.secret, expected.mistakes)?;
    let Head { key, meta, .. } = verify(&header, bytes, expected)?;
    let body = header.body().ok_or(Corrupt::Length)?;
    Ok(RecordParts {
        key: bytes.slice_ref(key),
        meta: bytes.slice_ref(meta),
        body: bytes.slice(body.start as usize..body.end as usize),
        primary: header.primary,
        fragment: header.fragment,
        total: header.total,
        sequence: header.sequence,
        began: header.began,
        stored_unix_ms: header.stored_unix_ms,
        doubted: false,
    })
}

/// Verifies everything but the MAC, which [`Header::decode`] did. Returns the parts before the body.
pub(crate) fn verify<'a>(
    header: &Header,
    bytes: &'a [u8],
    expected: Expected<'_>,
) -> Result<Head<'a>, Corrupt> {
    let body = verify_place(header, expected)?;
    let record_bytes = u64::from(header.extent.len.0) * u64::from(expected.chunk_bytes);
    if record_bytes != bytes.len() as u64 {
        return Err(Corrupt::Length);
    }
    // At most bytes.len(), so it fits a usize.
    let body_end = body.end as usize;
    if !expected.mistakes.make(Mistake::NoChecksum) {
        match header.blocks().ok_or(Corrupt::Length)? {
            Some(blocks) => {
                let table = verify_front(header, &blocks, bytes)?;
                blocks.verify(table, 0, bytes)?;
            }
            None => verify_checksum(header, &bytes[HEADER_BYTES..body_end])?,
        }
        // Look at all of them, many at a time as the processor can: most are zeros.
        if bytes[body_end..].iter().fold(0, |all, &byte| all | byte) != 0 {
            return Err(Corrupt::Padding);
        }
    }
    header.head(bytes)
}

/// Is it the header of a record of this epoch, place and key, whose lengths are true? Returns where its body lies.
fn verify_place(header: &Header, expected: Expected<'_>) -> Result<Range<u64>, Corrupt> {
    if header.epoch != expected.epoch {
        return Err(Corrupt::Epoch);
    }
    let elsewhere = |extent| extent != header.extent;
    if expected.extent.is_some_and(elsewhere) && !expected.mistakes.make(Mistake::NoPlaceCheck) {
        return Err(Corrupt::Place);
    }
    // The record is in its place, but of another key: that is no damage.
    if expected.hash.is_some_and(|hash| header.hash != hash) {
        return Err(Corrupt::Hash);
    }
    let body = header.body().ok_or(Corrupt::Length)?;
    match chunks_for(body.end, expected.chunk_bytes) == Some(header.extent.len.0) {
        true => Ok(body),
        false => Err(Corrupt::Length),
    }
}

/// The table of a fragment, if it and all before it are as they were written.
fn verify_front<'a>(
    header: &Header,
    blocks: &Blocks,
    bytes: &'a [u8],
) -> Result<&'a [u8], Corrupt> {
    let front = bytes.get(HEADER_BYTES..blocks.body_at as usize);
    let front = front.ok_or(Corrupt::Length)?;
    verify_checksum(header, front)?;
    Ok(&front[blocks.table_at as usize - HEADER_BYTES..])
}

fn verify_checksum(header: &Header, covered: &[u8]) -> Result<(), Corrupt> {
    match XxHash3_64::oneshot(covered) == header.checksum {
        true => Ok(()),
        false => Err(Corrupt::Checksum),
    }
}

/// The verified front of a fragment's record, by which parts of its body are verified.
#[derive(Clone, Debug)]
pub struct Front {
    /// The full key. A hash is no proof: compare it with the key that was asked for.
    pub key: Bytes,
    /// As given to [`crate::Store::insert`].
    pub meta: Bytes,
    /// The length of the whole body.
    pub body_len: u64,
    /// Its place in the order of all records and invalidations.
    pub(crate) sequence: Sequence,
    pub(crate) blocks: Blocks,
    table: Bytes,
}

impl Front {
    /// A copy in memory of its own, and how many bytes that takes.
    #[must_use]
    pub fn compact(&self) -> (Front, usize) {
        let mut all = Bytes::from([&self.key[..], &self.meta, &self.table].concat());
        let bytes = all.len();
        let key = all.split_to(self.key.len());
        let meta = all.split_to(self.meta.len());
        let front = Front {
            key,
            meta,
            table: all,
            ..self.clone()
        };
        (front, bytes)
    }

    /// The blocks that have these bytes of the body; as bytes of the record, and not beyond the body.
    pub fn around(&self, part: Range<u64>) -> Range<u64> {
        self.blocks.around(part)
    }

    /// Verifies blocks of the record, which lie at `at` in it. Returns where in them this part of the body lies.
    pub(crate) fn decode(
        &self,
        at: u64,
        bytes: &[u8],
        part: Range<u64>,
        mistakes: Mistakes,
    ) -> Result<Range<usize>, Corrupt> {
        let place = |place: u64| {
            let place = self.blocks.body_at.checked_add(place)?.checked_sub(at)?;
            usize::try_from(place).ok()
        };
        let (Some(start), Some(end)) = (place(part.start), place(part.end)) else {
            return Err(Corrupt::Length);
        };
        if start > end || end > bytes.len() || part.end > self.body_len {
            return Err(Corrupt::Length);
        }
        if !mistakes.make(Mistake::NoBlockCheck) {
            self.blocks.verify(&self.table, at, bytes)?;
        }
        Ok(start..end)
    }
}

/// Verifies the first bytes of a fragment's record, as far as its body and perhaps beyond.
pub(crate) fn decode_front(bytes: &Bytes, expected: Expected<'_>) -> Result<Front, Corrupt> {
    let header = Header::decode(bytes, expected.secret, expected.mistakes)?;
    verify_place(&header, expected)?;
    // Perhaps the record of another key with the same hash.
    let Some(blocks) = header.blocks().ok_or(Corrupt::Length)? else {
        return Err(Corrupt::Hash);
    };
    let table = verify_front(&header, &blocks, bytes)?;
    let Head { key, meta, .. } = header.head(bytes)?;
    Ok(Front {
        key: bytes.slice_ref(key),
        meta: bytes.slice_ref(meta),
        body_len: header.body_len,
        sequence: header.sequence,
        blocks,
        table: bytes.slice_ref(table),
    })
}

/// Chunks that a record of `record_bytes` takes: a length that the index can express.
pub(crate) fn chunks_for(record_bytes: u64, chunk_bytes: u32) -> Option<u32> {
    let chunks = u32::try_from(record_bytes.div_ceil(u64::from(chunk_bytes))).ok()?;
    encodable_chunks(chunks)
}

#[cfg(test)]
mod tests;
