//! Encodes and decodes frames. The format is described in `frames`.
//!
//! Not known here: the meaning of frames.
//! Limits: those of `frames`. Any bytes decode to a frame, the beginning of one, or an error.

use twox_hash::XxHash3_64;

use super::*;

const HELLO: u8 = 1;
const SUBSCRIBE: u8 = 2;
const FULL: u8 = 3;
const UPDATE: u8 = 4;
const BEAT: u8 = 5;
const WITHDRAWN: u8 = 6;
/// The type of [`Frame::Purging`].
pub const PURGING: u8 = 7;

const DIRECTORY: u8 = 0;
const BLOOM: u8 = 1;

/// Bytes of the length with which a frame begins.
pub const LENGTH_BYTES: usize = 4;
const CHECK_BYTES: usize = 4;

impl Frame {
    /// Appends the encoded frame to `out`.
    ///
    /// # Panics
    /// If it exceeds the limits of `frames`, which the code that makes a frame has to keep.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend([0; LENGTH_BYTES]);
        match self {
            Frame::Hello(hello) => hello.write(out),
            Frame::Subscribe(subscribe) => subscribe.write(out),
            Frame::Full(full) => full.write(out),
            Frame::Update(update) => update.write(out),
            Frame::Beat(beat) => beat.write(out),
            Frame::Withdrawn(withdrawn) => {
                out.extend([WITHDRAWN, withdrawn.column]);
                out.extend(withdrawn.number.to_le_bytes());
            }
            Frame::Purging(message) => {
                assert!(message.len() <= PURGING_BYTES_MAX, "it has a limit");
                out.push(PURGING);
                out.extend(message);
            }
        }
        let check = check(&out[begin + LENGTH_BYTES..]);
        out.extend(check.to_le_bytes());
        let length = out.len() - begin - LENGTH_BYTES;
        assert!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        out[begin..begin + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// The encoded frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes the frame at the beginning of `bytes`, and returns its length; `None` if it is not complete yet.
    ///
    /// # Errors
    /// Why it is not a frame. Never panics, whatever the bytes are, and takes little more memory than their length.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Unreadable> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length);
        if (length as usize) < 1 + CHECK_BYTES || length as usize > FRAME_BYTES_MAX {
            return Err(Unreadable::Length(length));
        }
        let Some(frame) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let (content, found) = frame.split_at(frame.len() - CHECK_BYTES);
        if found != check(content).to_le_bytes() {
            return Err(Unreadable::Check);
        }
        let frame = content_of(content)?;
        Ok(Some((frame, LENGTH_BYTES + length as usize)))
    }
}

/// The checksum of type and body.
fn check(content: &[u8]) -> u32 {
    XxHash3_64::oneshot(content) as u32
}

fn content_of(content: &[u8]) -> Result<Frame, Unreadable> {
    let mut rest = Rest(content);
    let number = rest.u8().unwrap_or(0);
    let frame = match number {
        HELLO => {
            let version = rest.u16().ok_or(Unreadable::Body(number))?;
            if version != VERSION {
                return Err(Unreadable::Version(version));
            }
            Hello::read(&mut rest).map(Frame::Hello)
        }
        SUBSCRIBE => Subscribe::read(&mut rest).map(Frame::Subscribe),
        FULL => Full::read(&mut rest).map(Frame::Full),
        UPDATE => Update::read(&mut rest).map(Frame::Update),
        BEAT => Beat::read(&mut rest).map(Frame::Beat),
        WITHDRAWN => rest.withdrawn().map(Frame::Withdrawn),
        PURGING => rest.purging().map(Frame::Purging),
        unknown => return Err(Unreadable::Type(unknown)),
    };
    let frame = frame.filter(|_| rest.0.is_empty());
    frame.ok_or(Unreadable::Body(number))
}

impl Hello {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(
            self.name.len() <= NAME_BYTES_MAX && self.columns.len() <= COLUMNS_MAX,
            "name and columns have limits"
        );
        out.push(HELLO);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.incarnation.to_le_bytes());
        out.push(self.name.len() as u8);
        out.extend(self.name.as_bytes());
        out.push(self.columns.len() as u8);
        for column in &self.columns {
            out.extend(column.seed.to_le_bytes());
            out.extend(column.index.shards.to_le_bytes());
            out.extend(column.index.segments.to_le_bytes());
            let (kind, bits, functions) = match column.kind {
                Kind::Directory => (DIRECTORY, 0, 0),
                Kind::Bloom(shape) => (BLOOM, shape.bits(), shape.functions()),
            };
            out.push(kind);
            out.extend(bits.to_le_bytes());
            out.push(functions);
            out.extend(column.epoch.to_le_bytes());
            out.extend(column.incarnation.to_le_bytes());
            out.extend(column.store.to_le_bytes());
            out.extend(column.weight.to_le_bytes());
        }
    }

    fn read(rest: &mut Rest) -> Option<Hello> {
        let incarnation = rest.u64()?;
        let len = rest.u8()?.into();
        let name = std::str::from_utf8(rest.bytes(len)?).ok()?.to_owned();
        let columns = usize::from(rest.u8()?);
        if columns > COLUMNS_MAX {
            return None;
        }
        let columns = (0..columns).map(|_| Column::read(rest));
        Some(Hello {
            incarnation,
            name,
            columns: columns.collect::<Option<_>>()?,
        })
    }
}

impl Column {
    fn read(rest: &mut Rest) -> Option<Column> {
        let seed = rest.u64()?;
        let index = IndexShape {
            shards: rest.u32()?,
            segments: rest.u32()?,
        };
        let (kind, bits, functions) = (rest.u8()?, rest.u32()?, rest.u8()?);
        let kind = match kind {
            DIRECTORY if (bits, functions) == (0, 0) => Kind::Directory,
            BLOOM => {
                let shape = Shape::new(bits.into(), functions)?;
                Kind::Bloom((shape.bits() == bits).then_some(shape)?)
            }
            _ => return None,
        };
        let is_sound = index.shards.is_power_of_two() && index.segments > 0;
        is_sound.then_some(Column {
            seed,
            index,
            kind,
            epoch: rest.u64()?,
            incarnation: rest.u64()?,
            store: rest.u64()?,
            weight: rest.u32()?,
        })
    }
}

impl Subscribe {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend([SUBSCRIBE, self.column]);
        out.extend(self.incarnation.to_le_bytes());
        out.push(self.from.is_some().into());
        out.extend(self.from.unwrap_or(0).to_le_bytes());
    }

    fn read(rest: &mut Rest) -> Option<Subscribe> {
        let (column, incarnation) = (rest.u8()?, rest.u64()?);
        let (is_given, label) = (rest.flag()?, rest.u64()?);
        (is_given || label == 0).then_some(Subscribe {
            column,
            incarnation,
            from: is_given.then_some(label),
        })
    }
}

impl Full {
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, n) = match &self.content {
            Page::Bitmap(bytes) => (BLOOM, bytes.len()),
            Page::Numbers(numbers) => (DIRECTORY, numbers.len()),
        };
        out.extend([FULL, self.column, kind]);
        out.extend(self.label.to_le_bytes());
        out.extend(self.page.to_le_bytes());
        out.extend(self.pages.to_le_bytes());
        out.extend(self.sent_before.to_le_bytes());
        out.extend((n as u32).to_le_bytes());
        match &self.content {
            Page::Bitmap(bytes) => {
                assert!(bytes.len() <= PAGE_BYTES, "{} bytes", bytes.len());
                out.extend(bytes);
            }
            Page::Numbers(numbers) => {
                assert!(numbers.len() <= PAGE_NUMBERS, "{} numbers", numbers.len());
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
    }

    fn read(rest: &mut Rest) -> Option<Full> {
        let (column, kind, label) = (rest.u8()?, rest.u8()?, rest.u64()?);
        let (page, pages, sent_before) = (rest.u32()?, rest.u32()?, rest.u32()?);
        let n = rest.u32()? as usize;
        let content = match kind {
            BLOOM if n <= PAGE_BYTES => Page::Bitmap(rest.bytes(n)?.to_vec()),
            DIRECTORY if n <= PAGE_NUMBERS => {
                let numbers = rest.bytes(n * 8)?.as_chunks::<8>().0;
                Page::Numbers(numbers.iter().map(|n| u64::from_le_bytes(*n)).collect())
            }
            _ => return None,
        };
        (page < pages).then_some(Full {
            column,
            label,
            page,
            pages,
            sent_before,
            content,
        })
    }
}

impl Update {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(self.entries.len() <= ENTRIES_MAX, "an update has a limit");
        let kind = match self.is_directory {
            true => DIRECTORY,
            false => BLOOM,
        };
        out.extend([UPDATE, self.column, kind]);
        out.extend(self.label.to_le_bytes());
        out.extend((self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            match self.is_directory {
                true => out.extend(entry.mark.to_le_bytes()),
                false => out.extend((entry.mark as u32).to_le_bytes()),
            }
            out.push(entry.set.into());
        }
    }

    fn read(rest: &mut Rest) -> Option<Update> {
        let (column, kind, label) = (rest.u8()?, rest.u8()?, rest.u64()?);
        let n = rest.u32()? as usize;
        let (is_directory, entry_bytes) = match kind {
            DIRECTORY => (true, DIRECTORY_ENTRY_BYTES),
            BLOOM => (false, BLOOM_ENTRY_BYTES),
            _ => return None,
        };
        // Check this before allocating room for the entries.
        if n > ENTRIES_MAX || rest.0.len() != n * entry_bytes {
            return None;
        }
        let entry = |_| {
            let mark = match is_directory {
                true => rest.u64()?,
                false => rest.u32()?.into(),
            };
            let set = rest.flag()?;
            Some(Entry { mark, set })
        };
        Some(Update {
            column,
            label,
            is_directory,
            entries: (0..n).map(entry).collect::<Option<_>>()?,
        })
    }
}

impl Beat {
    fn write(&self, out: &mut Vec<u8>) {
        assert!(self.columns.len() <= COLUMNS_MAX, "columns have a limit");
        out.extend([BEAT, self.is_leaving.into()]);
        let load = self.load;
        let numbers = [
            load.requests_per_s,
            load.disk_reads_per_s,
            load.queue_ms,
            load.free_mib,
        ];
        out.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
        out.extend(self.push_max_bytes.to_le_bytes());
        out.push(self.columns.len() as u8);
        for column in &self.columns {
            let numbers = [column.label, column.sequence, column.entries];
            out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        }
    }

    fn read(rest: &mut Rest) -> Option<Beat> {
        let is_leaving = rest.flag()?;
        let load = Load {
            requests_per_s: rest.u32()?,
            disk_reads_per_s: rest.u32()?,
            queue_ms: rest.u32()?,
            free_mib: rest.u32()?,
        };
        let push_max_bytes = rest.u64()?;
        let columns = usize::from(rest.u8()?);
        if columns > COLUMNS_MAX {
            return None;
        }
        let column = |_| {
            Some(ColumnBeat {
                label: rest.u64()?,
                sequence: rest.u64()?,
                entries: rest.u64()?,
            })
        };
        Some(Beat {
            is_leaving,
            load,
            push_max_bytes,
            columns: (0..columns).map(column).collect::<Option<_>>()?,
        })
    }
}

/// The part of a frame that has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn withdrawn(&mut self) -> Option<Withdrawn> {
        Some(Withdrawn {
            column: self.u8()?,
            number: self.u64()?,
        })
    }

    fn purging(&mut self) -> Option<Vec<u8>> {
        let message = std::mem::take(&mut self.0);
        (message.len() <= PURGING_BYTES_MAX).then(|| message.to_vec())
    }
}

#[cfg(test)]
mod tests;
