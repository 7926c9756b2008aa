//! The fields of everything that lies on the disk: name, place, width.
//!
//! Each structure is one table of [`Field`]s; encoders and decoders use the entries by name, and
//! `tests/format_doc.rs` compares the tables with `docs/format.md`. All numbers are little-endian.
//!
//! Invariant, checked at compile time: the fields of a table follow each other without a gap.
//! Not known here: what the fields mean.

/// One field of a structure on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in `docs/format.md`, in capitals.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub at: usize,
    /// Width in bytes.
    pub len: usize,
}

impl Field {
    pub(crate) const fn end(&self) -> usize {
        self.at + self.len
    }

    /// The bytes of the field. The caller has checked that the structure is all there.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..self.end()]
    }

    pub(crate) fn array<const N: usize>(&self, bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(self.of(bytes));
        array
    }

    pub(crate) fn u16(&self, bytes: &[u8]) -> u16 {
        u16::from_le_bytes(self.array(bytes))
    }

    pub(crate) fn u32(&self, bytes: &[u8]) -> u32 {
        u32::from_le_bytes(self.array(bytes))
    }

    pub(crate) fn u64(&self, bytes: &[u8]) -> u64 {
        u64::from_le_bytes(self.array(bytes))
    }

    pub(crate) fn put(&self, bytes: &mut [u8], value: &[u8]) {
        bytes[self.at..self.end()].copy_from_slice(value);
    }

    pub(crate) fn put_u16(&self, bytes: &mut [u8], value: u16) {
        self.put(bytes, &value.to_le_bytes());
    }

    pub(crate) fn put_u32(&self, bytes: &mut [u8], value: u32) {
        self.put(bytes, &value.to_le_bytes());
    }

    pub(crate) fn put_u64(&self, bytes: &mut [u8], value: u64) {
        self.put(bytes, &value.to_le_bytes());
    }
}

const fn without_gap(fields: &[Field], bytes: usize) -> bool {
    let mut at = 0;
    let mut number = 0;
    while number < fields.len() {
        if fields[number].at != at {
            return false;
        }
        at = fields[number].end();
        number += 1;
    }
    at == bytes
}

macro_rules! layout {
    ($(#[$doc:meta])* $module:ident, $bytes:literal bytes { $($name:ident at $at:literal is $len:literal)* }) => {
        $(#[$doc])*
        pub mod $module {
            use super::Field;
            /// Width of the whole structure in bytes.
            pub const BYTES: usize = $bytes;
            $(pub(crate) const $name: Field = Field { name: stringify!($name), at: $at, len: $len };)*
            /// All fields in order of place.
            pub const FIELDS: &[Field] = &[$($name),*];
            const _: () = assert!(super::without_gap(FIELDS, BYTES));
        }
    };
}

layout! {
    /// The superblock: what the store is, where its parts are, and whether it was left clean.
    superblock, 4096 bytes {
        MAGIC at 0 is 8
        VERSION at 8 is 4
        STATE at 12 is 4
        UUID at 16 is 16
        EPOCH at 32 is 8
        SECRET at 40 is 16
        HASH_SEED at 56 is 8
        GENERATION at 64 is 8
        TOTAL_BYTES at 72 is 8
        CHUNK_BYTES at 80 is 4
        DATA_CHUNKS at 84 is 4
        CHECKPOINT_AT at 88 is 8
        CHECKPOINT_BYTES at 96 is 8
        INVALIDATION_LOG_AT at 104 is 8
        INVALIDATION_LOG_BYTES at 112 is 8
        REGION_JOURNAL_AT at 120 is 8
        REGION_JOURNAL_BYTES at 128 is 8
        DATA_AT at 136 is 8
        INDEX_AT at 144 is 8
        INDEX_BYTES at 152 is 8
        RESERVED at 160 is 3928
        CHECKSUM at 4088 is 8
    }
}

layout! {
    /// The first bytes of an index image.
    image_header, 80 bytes {
        MAGIC at 0 is 8
        VERSION at 8 is 4
        MARKERS at 12 is 4
        GENERATION at 16 is 8
        EPOCH at 24 is 8
        SEQUENCE at 32 is 8
        ENTRIES at 40 is 8
        MARKER_BYTES at 48 is 8
        MARKER_CHECKSUM at 56 is 8
        ENTRY_CHECKSUM at 64 is 8
        CHECKSUM at 72 is 8
    }
}

layout! {
    /// The fixed part of a marker in the index image; the list follows.
    image_marker, 20 bytes {
        PRIMARY at 0 is 8
        SALT at 8 is 8
        LIST_LEN at 16 is 4
    }
}

layout! {
    /// One record in the index image.
    image_entry, 16 bytes {
        HASH at 0 is 8
        FIRST at 8 is 4
        CHUNKS_AND_FLAGS at 12 is 4
    }
}

layout! {
    /// The header of a record; key, metadata and body follow.
    record, 128 bytes {
        MAGIC at 0 is 4
        VERSION at 4 is 2
        FLAGS at 6 is 2
        EPOCH at 8 is 8
        HASH at 16 is 8
        PRIMARY at 24 is 8
        FIRST at 32 is 4
        CHUNKS at 36 is 4
        SEQUENCE at 40 is 8
        BEGAN at 48 is 8
        STORED_UNIX_MS at 56 is 8
        KEY_LEN at 64 is 4
        META_LEN at 68 is 4
        BODY_LEN at 72 is 8
        FETCH_ID at 80 is 8
        FRAGMENT at 88 is 4
        FRAGMENTS at 92 is 4
        TOTAL_BYTES at 96 is 8
        CHECKSUM at 104 is 8
        MAC at 112 is 16
    }
}
