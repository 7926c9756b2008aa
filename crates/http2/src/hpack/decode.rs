//! A field block to fields (RFC 7541 §3 and §6).
//!
//! The table belongs to the connection: even a refused block must be decoded to its end, or the next one would be misread. So the
//! decoder keeps nothing but the table and passes on each field as it is read; the receiver stops *keeping* fields at its limit.
//!
//! Limits: the table's size, which is what our SETTINGS say; a string is in a block, and so bounded by the block.

use super::constant::STATIC;
use super::note::{self, Field, Note};
use super::{integer, table::Table};
use crate::huffman;

/// A block that cannot be read: COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock;

/// The initial size of the table.
//= rfc9113 §6.5.2   the initial value is 4,096 octets
const TABLE_BYTES_DEFAULT: usize = 4096;

/// Reads the blocks of one connection, in order.
pub struct Decoder {
    table: Table,
    /// How large the client may make the table.
    table_bytes_max: usize,
    /// The size in our SETTINGS, which becomes `table_bytes_max` once the client has acknowledged them.
    settings_bytes_max: usize,
    /// The next block must begin with a size update.
    is_owed_update: bool,
    /// Buffers for the strings of a literal.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// `table_bytes_max` is the value of our SETTINGS_HEADER_TABLE_SIZE.
    pub const fn new(table_bytes_max: usize) -> Self {
        Self {
            table: Table::new(table_bytes_max),
            table_bytes_max,
            settings_bytes_max: table_bytes_max,
            is_owed_update: false,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// A decoder for a client that has not acknowledged our SETTINGS: until then its table may have the initial size.
    pub(crate) fn before_settings(table_bytes_max: usize) -> Self {
        Self {
            table_bytes_max: table_bytes_max.max(TABLE_BYTES_DEFAULT),
            settings_bytes_max: table_bytes_max,
            ..Self::new(TABLE_BYTES_DEFAULT)
        }
    }

    /// Applies our SETTINGS once the client has acknowledged them.
    //= rfc9113 §4.3.1   a block behind the acknowledgement of a smaller table MUST begin with an update, or is an error
    pub(crate) fn after_settings(&mut self) {
        self.table_bytes_max = self.settings_bytes_max;
        self.is_owed_update = self.table.bytes_max() > self.table_bytes_max;
    }

    /// Gives each field of the block to `each`.
    ///
    /// # Errors
    /// The block is broken; the connection must end, because the two tables differ from here on.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Field<'_>),
    ) -> Result<(), BadBlock> {
        let all = self.decode_while(block, |field| {
            each(field);
            true
        });
        all.map(drop)
    }

    /// Like `decode`, until `each` returns false. Then the result is false, and the connection must end: its table is out of step.
    pub(crate) fn decode_while(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Field<'_>) -> bool,
    ) -> Result<bool, BadBlock> {
        let mut rest = block;
        let mut may_resize = true;
        let is_update = rest.first().is_some_and(|first| first & 0xe0 == 0x20);
        if std::mem::take(&mut self.is_owed_update) && !is_update {
            return Err(BadBlock);
        }
        while let Some(&first) = rest.first() {
            let goes_on = if first & 0x80 != 0 {
                each(self.indexed(integer::read(7, &mut rest)?)?)
            } else if first & 0x40 != 0 {
                self.literal(6, true, &mut rest, &mut each)?
            } else if first & 0x20 == 0 {
                self.literal(4, false, &mut rest, &mut each)?
            } else {
                //= rfc7541 §4.2   a change of size MUST occur at the beginning of a block
                //= rfc7541 §6.3   a new maximum above the limit of the protocol MUST be treated as a decoding error
                let bytes_max = integer::read(5, &mut rest)?;
                if !may_resize || bytes_max > self.table_bytes_max {
                    return Err(BadBlock);
                }
                self.table.set_bytes_max(bytes_max);
                continue;
            };
            if !goes_on {
                return Ok(false);
            }
            may_resize = false;
        }
        Ok(true)
    }

    /// Gives back the memory of strings; the table stays.
    pub(crate) fn release_buffers(&mut self) {
        self.name = Vec::new();
        self.value = Vec::new();
        self.table.release_buffers();
    }

    /// Heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.name.capacity() + self.value.capacity()
    }

    #[inline]
    fn indexed(&self, index: usize) -> Result<Field<'_>, BadBlock> {
        let (name, value, note) = match index {
            //= rfc7541 §6.1   index 0 MUST be treated as a decoding error
            0 => return Err(BadBlock),
            1..=61 => {
                let (name, value) = STATIC[index - 1];
                (name.as_bytes(), value.as_bytes(), note::of_static(index))
            }
            _ => self.table.get(index - STATIC.len() - 1).ok_or(BadBlock)?,
        };
        Ok(note.field(name, value))
    }

    fn literal(
        &mut self,
        prefix: u32,
        is_kept: bool,
        rest: &mut &[u8],
        each: &mut impl FnMut(Field<'_>) -> bool,
    ) -> Result<bool, BadBlock> {
        let index = integer::read(prefix, rest)?;
        let mut own_name = std::mem::take(&mut self.name);
        let mut own_value = std::mem::take(&mut self.value);
        let read = (|| {
            let (name, of_name) = match index {
                0 => {
                    let name = string(rest, &mut own_name)?;
                    (name, Note::of_name(name))
                }
                1..=61 => (STATIC[index - 1].0.as_bytes(), note::of_static(index)),
                _ => {
                    let entry = self.table.get(index - STATIC.len() - 1);
                    let (name, _, of_name) = entry.ok_or(BadBlock)?;
                    // Copied, because adding the new entry may evict this one.
                    own_name.clear();
                    own_name.extend_from_slice(name);
                    // The name is not checked again: a reference of two bytes must not cost a scan of a name of 4,000.
                    (&own_name[..], of_name)
                }
            };
            let value = string(rest, &mut own_value)?;
            let note = of_name.with_value(value);
            if is_kept {
                self.table.push(name, value, note);
            }
            Ok(each(note.field(name, value)))
        })();
        (self.name, self.value) = (own_name, own_value);
        read
    }
}

/// Reads a string: borrowed from the block or, if Huffman-coded, decoded into `own`.
fn string<'b: 's, 's>(rest: &mut &'b [u8], own: &'s mut Vec<u8>) -> Result<&'s [u8], BadBlock> {
    let is_coded = rest.first().ok_or(BadBlock)? & 0x80 != 0;
    let len = integer::read(7, rest)?;
    let (text, left) = rest.split_at_checked(len).ok_or(BadBlock)?;
    *rest = left;
    if !is_coded {
        return Ok(text);
    }
    own.clear();
    huffman::decode(text, own).map_err(|_| BadBlock)?;
    Ok(own)
}

const _: () = assert!(STATIC.len() == 61);

#[cfg(test)]
mod tests;
