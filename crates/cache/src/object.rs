//! A stored response, as memory and disk keep it.
//!
//! A response is turned into bytes once, when it arrives: the head as it will be sent (hop-by-hop fields
//! gone, `Via` added, `Content-Length` known), the body, and the few numbers needed to judge it later. The
//! same bytes are the memory tier's object, the metadata of the store's record and what a hit writes to
//! the socket, so a hit formats two short fields (`Age`, `Cache-Status`) and nothing else.
//!
//! Not known here: sockets, the store's layout, when an object may be served.

use bytes::Bytes;
use fields::Fields;
use httpcache::Standing;
use store::KeyHash;

use http1::head_lines;

/// Version of the metadata layout below; another one is a miss.
const META_VERSION: u8 = 2;
/// Fixed part of the metadata before the head.
pub const META_FIXED_BYTES: usize = 16 + Standing::BYTES;

/// A complete stored response. Cloning it shares the bytes.
#[derive(Clone, Debug)]
pub struct Object {
    /// The full key: method, URI, tag, and for a variant the selecting values.
    pub key: Bytes,
    /// The hash it is found under: the primary hash, or for a variant the hash of `key`.
    pub hash: KeyHash,
    /// Hash of the name in the key (`request::key`); purges use it.
    pub primary: KeyHash,
    /// Status code of the stored response.
    pub status: u16,
    /// Age, lifetime and rules.
    pub standing: Standing,
    /// Where the value of Content-Type lies in `head` (start, length).
    pub content_type: (u16, u16),
    /// Status line and field lines, each with its CRLF, without the empty line.
    pub head: Bytes,
    /// The whole body; empty when `large` is set.
    pub body: Bytes,
    /// Set for an object whose body is kept in fragments.
    pub large: Option<Large>,
}

/// The body of an object that is kept in fragments (docs/decisions/0009).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// The fetch that wrote the fragments, so that fragments of two versions never mix.
    pub fetch_id: u64,
    /// How many fragments.
    pub fragments: u32,
    /// Length of the body in bytes.
    pub bytes: u64,
}

/// The cost of an object with this head and key in the memory tier without its body, in bytes, with a rough share of
/// the tables.
pub fn memory_bytes(head: &[u8], key: &[u8]) -> u64 {
    const OVERHEAD_BYTES: u64 = 256;
    head.len() as u64 + key.len() as u64 + OVERHEAD_BYTES
}

impl Object {
    /// A copy with further field lines, for one client.
    pub fn with_lines(&self, lines: &[u8]) -> Object {
        Object {
            head: [&self.head[..], lines].concat().into(),
            ..self.clone()
        }
    }

    /// Length of the body in bytes, in memory or in fragments.
    pub fn body_bytes(&self) -> u64 {
        self.large.map_or(self.body.len() as u64, |l| l.bytes)
    }

    /// Length of head and body in bytes, as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.head.len() as u64 + self.body_bytes()
    }

    /// The cost of the object in the memory tier, in bytes, with a rough share of the tables.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.head, &self.key) + self.body.len() as u64
    }

    /// Copies key, head and body into memory of exactly their size.
    pub fn compact(&mut self) {
        let mut all = Vec::with_capacity(self.key.len() + self.head.len() + self.body.len());
        all.extend_from_slice(&self.key);
        all.extend_from_slice(&self.head);
        all.extend_from_slice(&self.body);
        let mut all = Bytes::from(all);
        self.key = all.split_to(self.key.len());
        self.head = all.split_to(self.head.len());
        self.body = all;
    }

    /// The value of Content-Type, for the log.
    pub fn content_type(&self) -> &[u8] {
        let (start, len) = self.content_type;
        self.head
            .get(usize::from(start)..usize::from(start) + usize::from(len))
            .unwrap_or_default()
    }

    /// The stored fields, parsed again: for conditions and revalidation, not for plain hits.
    pub fn fields(&self) -> Fields {
        head_lines::fields_of_head(&self.head)
    }

    /// The metadata of the record: fixed part, then the head.
    pub fn encode_meta(&self) -> Vec<u8> {
        let mut meta = Vec::with_capacity(META_FIXED_BYTES + self.head.len());
        meta.push(META_VERSION);
        meta.push(0);
        meta.extend_from_slice(&self.status.to_le_bytes());
        meta.extend_from_slice(&self.content_type.0.to_le_bytes());
        meta.extend_from_slice(&self.content_type.1.to_le_bytes());
        meta.extend_from_slice(&self.primary.0.to_le_bytes());
        meta.extend_from_slice(&self.standing.encode());
        meta.extend_from_slice(&self.head);
        meta
    }

    /// Reads a record back; `None` when the metadata is not of this version.
    pub fn decode(
        hash: KeyHash,
        key: Bytes,
        meta: &Bytes,
        body: Bytes,
        large: Option<Large>,
    ) -> Option<Object> {
        let fixed = meta.get(..META_FIXED_BYTES)?;
        if fixed[0] != META_VERSION {
            return None;
        }
        let u16_at = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let primary = u64::from_le_bytes(fixed[8..16].try_into().ok()?);
        let standing = Standing::decode(fixed[16..].try_into().ok()?);
        Some(Object {
            key,
            hash,
            primary: KeyHash(primary),
            status: u16_at(2),
            standing,
            content_type: (u16_at(4), u16_at(6)),
            head: meta.slice(META_FIXED_BYTES..),
            body,
            large,
        })
    }
}

/// The head in a record's metadata; empty if it is of another version.
pub fn head_of_meta(meta: &[u8]) -> &[u8] {
    let is_ours = meta.first() == Some(&META_VERSION);
    meta.get(META_FIXED_BYTES..)
        .filter(|_| is_ours)
        .unwrap_or_default()
}
