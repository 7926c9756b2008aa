//! HTTP fields as an ordered list with case-insensitive look-up.
//!
//! All lines lie in one buffer, in the form in which they are sent (`Name: value\r\n`). A small span per line holds the place of
//! its name and value. Writing a head is therefore one copy, a look-up compares lengths before it compares names, and a whole
//! section needs two allocations.
//!
//! Invariants, checked by `audit` in tests:
//!   L1  the lines tile the buffer: the first starts at 0, each starts where the one before ends
//!   L2  a line is name, `": "`, value, CRLF
//!   L3  `kinds` has exactly the bits of the names that are present
//!
//! A cache looks up many names that most messages lack. `kinds` has one bit for the length and first letter of
//! each name that is present (64 kinds, so two names may share one). If the bit of a name is not set, the name is
//! absent and no line is read.
//!
//! Order: lines keep the order in which they arrived. The order of lines of *one* name carries meaning
//! (RFC 9110 §5.3), that of different names does not. Names keep their letter case.
//!
//! Not known here: which names and values are legal. The parser (`http1`) checks input; a caller
//! that adds a line must pass a token and a value without CR, LF and NUL.
//!
//! Limits: a section is under 4 GiB (spans are 32 bits). The parser limits heads to far less.
#![forbid(unsafe_code)]

mod list;

use std::fmt;
use std::ops::Range;

pub use list::{List, split_list, trim_blanks};

const SEPARATOR: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";

/// The place of a line. The value follows the name and the separator.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    name_len: u32,
    value_len: u32,
}

impl Span {
    fn start(self) -> usize {
        self.start as usize
    }

    fn value_start(self) -> usize {
        self.start() + self.name_len as usize + SEPARATOR.len()
    }

    fn value_end(self) -> usize {
        self.value_start() + self.value_len as usize
    }

    fn end(self) -> usize {
        self.value_end() + LINE_END.len()
    }

    fn name(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..self.start() + self.name_len as usize]
    }

    fn value(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.value_start()..self.value_end()]
    }

    #[inline]
    fn is(self, bytes: &[u8], name: &[u8]) -> bool {
        // Names of the same length nearly always differ in the first letter.
        let [first, ..] = name else {
            return self.name_len == 0;
        };
        self.name_len as usize == name.len()
            && bytes[self.start()] | 0x20 == first | 0x20
            && self.name(bytes).eq_ignore_ascii_case(name)
    }
}

/// The kind of a name: one bit, chosen by its length and first letter in any case.
#[inline]
const fn kind_of(name: &[u8]) -> u64 {
    let first = match name {
        [first, ..] => *first | 0x20,
        [] => 0,
    };
    1 << ((name.len() * 7 + first as usize) % 64)
}

/// Field lines in order of arrival, with the letter case of their names kept and case-insensitive look-up.
///
/// Two sections are equal if they hold the same lines, byte for byte, in the same order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    kinds: u64,
}

impl Fields {
    /// An empty section; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `fields` lines whose wire form, CRLF included, takes `bytes` bytes together.
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            spans: Vec::with_capacity(fields),
            kinds: 0,
        }
    }

    /// A copy with room for `fields` more lines, whose wire form takes `bytes` bytes together.
    pub fn clone_with_room(&self, fields: usize, bytes: usize) -> Self {
        let mut copy = Self::with_capacity(self.spans.len() + fields, self.bytes.len() + bytes);
        copy.bytes.extend_from_slice(&self.bytes);
        copy.spans.extend_from_slice(&self.spans);
        copy.kinds = self.kinds;
        copy
    }

    /// Reads back what [`Fields::write_to`] wrote, or any sequence of `name: value CRLF` lines.
    ///
    /// `None` if a line has no colon, an empty name, blanks around the name, no CRLF, or CR, LF or NUL within. White
    /// space around the value is dropped.
    pub fn from_wire(mut wire: &[u8]) -> Option<Self> {
        if u32::try_from(wire.len()).is_err() {
            return None;
        }
        let mut fields = Self::with_capacity(0, wire.len());
        while !wire.is_empty() {
            let end = wire.iter().position(|&b| b == b'\n')?;
            let line = wire[..end].strip_suffix(b"\r")?;
            if line.iter().any(|&b| b == b'\r' || b == 0) {
                return None;
            }
            let colon = line.iter().position(|&b| b == b':')?;
            let name = &line[..colon];
            if name.is_empty() || name.iter().any(|&b| b <= b' ' || b == 0x7f) {
                return None;
            }
            fields.push(name, trim_blanks(&line[colon + 1..]));
            wire = &wire[end + 1..];
        }
        Some(fields)
    }

    /// Appends a line; existing lines of the same name stay.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        let line_len = name.len() + SEPARATOR.len() + value.len() + LINE_END.len();
        assert!(
            u32::try_from(start + line_len).is_ok(),
            "a field section stays under 4 GiB"
        );
        self.bytes.reserve(line_len);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(SEPARATOR);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(LINE_END);
        self.kinds |= kind_of(name);
        // The assertion above makes the casts exact.
        self.spans.push(Span {
            start: start as u32,
            name_len: name.len() as u32,
            value_len: value.len() as u32,
        });
    }

    /// Bytes allocated on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Removes all lines and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.kinds = 0;
    }

    /// Replaces all lines of this name by one at the end.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.push(name, value);
    }

    /// Removes all lines of this name and returns how many there were.
    pub fn remove(&mut self, name: &[u8]) -> usize {
        // Most removals find nothing, so check before touching the buffer.
        if !self.may_have(name) {
            return 0;
        }
        let mut removed = 0;
        let mut at = 0;
        while let Some(found) = self.spans[at..]
            .iter()
            .position(|s| s.is(&self.bytes, name))
        {
            at += found;
            self.remove_at(at);
            removed += 1;
        }
        if removed > 0 {
            let kinds = self.spans.iter().map(|s| kind_of(s.name(&self.bytes)));
            self.kinds = kinds.fold(0, |all, kind| all | kind);
        }
        removed
    }

    /// Removes one line; the caller restores L3.
    fn remove_at(&mut self, index: usize) {
        let span = self.spans.remove(index);
        self.bytes.drain(span.start()..span.end());
        let len = (span.end() - span.start()) as u32;
        for later in &mut self.spans[index..] {
            later.start -= len;
        }
    }

    /// Keeps the lines for which `keep(name, value)` is true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut end = 0;
        let mut kinds = 0;
        let bytes = &mut self.bytes;
        self.spans.retain_mut(|span| {
            if !keep(span.name(bytes), span.value(bytes)) {
                return false;
            }
            kinds |= kind_of(span.name(bytes));
            let line = span.start()..span.end();
            let len = line.len();
            if line.start != end {
                bytes.copy_within(line, end);
                span.start = end as u32;
            }
            end += len;
            true
        });
        self.bytes.truncate(end);
        self.kinds = kinds;
    }

    /// False: there is no line of this name. True: there may be one.
    #[inline]
    fn may_have(&self, name: &[u8]) -> bool {
        self.kinds & kind_of(name) != 0
    }

    /// The lines of this name.
    #[inline]
    fn of_name<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Span> + 'a {
        let spans = match self.may_have(name) {
            true => &self.spans[..],
            false => &[],
        };
        spans.iter().filter(move |span| span.is(&self.bytes, name))
    }

    /// All lines as (name, value), in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        self.spans
            .iter()
            .map(|span| (span.name(&self.bytes), span.value(&self.bytes)))
    }

    /// The value of the first line of this name.
    #[inline]
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        if !self.may_have(name) {
            return None;
        }
        let span = self.spans.iter().find(|span| span.is(&self.bytes, name))?;
        Some(span.value(&self.bytes))
    }

    /// The values of all lines of this name, in order.
    #[inline]
    pub fn all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.of_name(name).map(|span| span.value(&self.bytes))
    }

    /// Is there a line of this name?
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.may_have(name) && self.spans.iter().any(|span| span.is(&self.bytes, name))
    }

    /// The number of lines of this name.
    pub fn count(&self, name: &[u8]) -> usize {
        self.of_name(name).count()
    }

    /// The members of a comma-separated list over all lines of this name, as split by [`split_list`].
    //= rfc9110 §5.3   the lines of a list field make one list, in order
    pub fn members<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.all(name).flat_map(split_list)
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Is there no line at all?
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The whole section as it is written: `Name: value CRLF` for each line, without the empty line that
    /// ends a head.
    pub fn as_wire(&self) -> &[u8] {
        &self.bytes
    }

    /// The place of the value of the last line of this name in [`Fields::as_wire`].
    pub fn place_of_last(&self, name: &[u8]) -> Option<Range<usize>> {
        let span = self.of_name(name).last()?;
        Some(span.value_start()..span.value_end())
    }

    /// Appends [`Fields::as_wire`] to `out`, without the lines of this name.
    pub fn write_without(&self, name: &[u8], out: &mut Vec<u8>) {
        let mut from = 0;
        for span in self.of_name(name) {
            out.extend_from_slice(&self.bytes[from..span.start()]);
            from = span.end();
        }
        out.extend_from_slice(&self.bytes[from..]);
    }

    /// Appends [`Fields::as_wire`] to `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }

    /// Checks L1 to L3.
    pub fn audit(&self) -> Result<(), String> {
        let mut end = 0;
        for (index, span) in self.spans.iter().enumerate() {
            if span.start() != end || span.end() > self.bytes.len() {
                return Err(format!(
                    "L1: line {index} at {}, expected at {end}",
                    span.start()
                ));
            }
            end = span.end();
            let name_end = span.start() + span.name_len as usize;
            if &self.bytes[name_end..span.value_start()] != SEPARATOR
                || &self.bytes[span.value_end()..end] != LINE_END
            {
                return Err(format!(
                    "L2: line {index} is not name, separator, value, CRLF"
                ));
            }
        }
        let kinds = self.iter().fold(0, |all, (name, _)| all | kind_of(name));
        if kinds != self.kinds {
            return Err(format!("L3: {:x}, expected {kinds:x}", self.kinds));
        }
        if end != self.bytes.len() {
            return Err(format!(
                "L1: lines end at {end} of {} bytes",
                self.bytes.len()
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        f.debug_list()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

impl<'a> FromIterator<(&'a [u8], &'a [u8])> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], &'a [u8])>>(lines: I) -> Self {
        let mut fields = Self::new();
        for (name, value) in lines {
            fields.push(name, value);
        }
        fields
    }
}

#[cfg(test)]
mod tests;
