//! The fields of everything that lies on the disk: name, place, width.
//!
//! Each structure is one table of [`Field`]s; encoders and decoders use the entries by name, and
//! `tests/all/format_doc.rs` compares the tables with `docs/format.md`. All numbers are little-endian.
//!
//! Invariant, checked at compile time: the fields of a table follow each other without a gap.
//! Not known here: what the fields mean.

/// Areas begin and end at multiples of this, the largest block size a device may have.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The first area: both copies of the superblock and all between.
pub(crate) const SUPERBLOCK_BYTES: usize = 64 * 1024;

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
            use crate::layout::Field;
            /// Width of the whole structure in bytes.
            pub const BYTES: usize = $bytes;
            $(pub(crate) const $name: Field = Field { name: stringify!($name), at: $at, len: $len };)*
            /// All fields in order of place.
            pub const FIELDS: &[Field] = &[$($name),*];
            const _: () = assert!(crate::layout::without_gap(FIELDS, BYTES));
        }
    };
}

layout! {
    /// The superblock: what the store is, where its parts are, and whether it was left clean. All that counts lies in the first
    /// 512 bytes, which no device writes in part.
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
        CHECKPOINT_GENERATION at 160 is 8
        ACCEPT_FROM at 168 is 8
        SET_UUID at 176 is 16
        SET_GENERATION at 192 is 8
        PLACEMENT at 200 is 8
        REGION_CHUNKS at 208 is 4
        POLICY at 212 is 4
        KEYS_LEFT_AT at 216 is 8
        WEIGHT at 224 is 4
        FRAGMENT_BYTES at 228 is 4
        RESERVED at 232 is 200
        CHECKSUM at 432 is 8
        UNUSED at 440 is 3656
    }
}

layout! {
    /// The fixed part of a list in a segment of a checkpoint; the list follows.
    checkpoint_list, 12 bytes {
        NUMBER at 0 is 2
        LIST_LEN at 2 is 2
        ROOT at 4 is 8
    }
}

layout! {
    /// A soft purge of a resource with variants, in a checkpoint.
    checkpoint_soft, 16 bytes {
        PRIMARY at 0 is 8
        SEQUENCE at 8 is 8
    }
}

layout! {
    /// The fixed part of the marker that the record of a variant carries, between key and metadata; the list follows.
    record_marker, 18 bytes {
        SALT at 0 is 8
        ROOT at 8 is 8
        LIST_LEN at 16 is 2
    }
}

layout! {
    /// The head of a page of the region journal; the regions' numbers follow, 8 bytes each, up to 4096.
    region_journal_page, 64 bytes {
        MAGIC at 0 is 4
        VERSION at 4 is 4
        EPOCH at 8 is 8
        WRITE at 16 is 8
        PAGE at 24 is 4
        REGIONS at 28 is 4
        GENERATION at 32 is 8
        CHECKSUM at 40 is 8
        MAC at 48 is 16
    }
}

layout! {
    /// The first page of a checkpoint.
    checkpoint_header, 4096 bytes {
        MAGIC at 0 is 8
        VERSION at 8 is 4
        BLOCKS at 12 is 4
        GENERATION at 16 is 8
        EPOCH at 24 is 8
        COVERS at 32 is 8
        SEQUENCE at 40 is 8
        PARTS at 48 is 4
        LEFT_OUT at 52 is 4
        LENGTH at 56 is 8
        PAYLOAD_BYTES at 64 is 8
        BLOCKS_CHECKSUM at 72 is 8
        RESERVED at 80 is 3992
        CHECKSUM at 4072 is 8
        MAC at 4080 is 16
    }
}

layout! {
    /// The head of a block of a checkpoint; payload follows.
    checkpoint_block, 64 bytes {
        MAGIC at 0 is 4
        NUMBER at 4 is 4
        GENERATION at 8 is 8
        EPOCH at 16 is 8
        PAYLOAD_BYTES at 24 is 4
        RESERVED at 28 is 28
        CHECKSUM at 56 is 8
    }
}

layout! {
    /// The head of a part of a checkpoint; its bytes follow, then zeros up to a multiple of 16.
    checkpoint_part, 16 bytes {
        KIND at 0 is 1
        RESERVED at 1 is 3
        NUMBER at 4 is 4
        LENGTH at 8 is 8
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

layout! {
    /// The header of a page of the invalidation log; entries and zeros follow, 4096 bytes in all.
    log_page, 88 bytes {
        MAGIC at 0 is 8
        VERSION at 8 is 4
        ENTRIES at 12 is 2
        USED at 14 is 2
        EPOCH at 16 is 8
        PAGE at 24 is 8
        COMMIT at 32 is 8
        POSITION at 40 is 8
        BEFORE at 48 is 8
        HIGHEST at 56 is 8
        HORIZON at 64 is 8
        MAC at 72 is 16
    }
}

layout! {
    /// An entry of the invalidation log: a key was invalidated, or a record replaced.
    log_key, 17 bytes {
        TAG at 0 is 1
        SEQUENCE at 1 is 8
        HASH at 9 is 8
    }
}

layout! {
    /// An entry of the invalidation log: all that matches was invalidated; the pattern follows.
    log_matching, 12 bytes {
        TAG at 0 is 1
        SEQUENCE at 1 is 8
        KIND at 9 is 1
        PATTERN_LEN at 10 is 2
    }
}

layout! {
    /// The fixed part of the predicates in a checkpoint.
    predicates, 4 bytes {
        COUNT at 0 is 4
    }
}

layout! {
    /// One predicate in a checkpoint; the pattern follows.
    predicate, 11 bytes {
        SEQUENCE at 0 is 8
        KIND at 8 is 1
        PATTERN_LEN at 9 is 2
    }
}
