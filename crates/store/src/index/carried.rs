//! A marker as the record of a variant carries it, between key and metadata.

use crate::index::lists::LIST_BYTES_MAX;
use crate::layout::record_marker;

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Carried<'a> {
    pub salt: u64,
    pub root: u64,
    pub list: &'a [u8],
}

impl<'a> Carried<'a> {
    /// Appends it to the bytes of a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; record_marker::BYTES];
        record_marker::SALT.put_u64(&mut bytes, self.salt);
        record_marker::ROOT.put_u64(&mut bytes, self.root);
        record_marker::LIST_LEN.put_u16(&mut bytes, self.list.len() as u16);
        bytes.extend_from_slice(self.list);
        bytes
    }

    /// Reads what [`Self::encode`] wrote, and how long it is; None for anything else.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (fixed, rest) = bytes.split_at_checked(record_marker::BYTES)?;
        let list = rest.get(..usize::from(record_marker::LIST_LEN.u16(fixed)))?;
        let carried = Self {
            salt: record_marker::SALT.u64(fixed),
            root: record_marker::ROOT.u64(fixed),
            list,
        };
        let len = record_marker::BYTES + list.len();
        (list.len() <= LIST_BYTES_MAX).then_some((carried, len))
    }
}
