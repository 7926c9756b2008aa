//! One request's record and its bytes.
//!
//! ```text
//! length     1 byte   of what follows
//! stages     1 byte   bit i: stage i is present; bit 7 is 0
//! kind       1 byte   class in the high four bits, method in the low four
//! began      varint   microseconds since 1970
//! total      varint   microseconds
//! status     varint   0: no answer was sent
//! bytes_out  varint
//! then, for each stage present, in order: start, first, total   varints, microseconds
//! ```
//!
//! Varints are those of `varint`. A memory hit with two stages takes about 25 bytes, the longest record 137. A record
//! does not depend on the one before, because the batches of several workers mix in one file.

use crate::varint;
use crate::{Class, Method, StageName};

/// One stage of a request, in microseconds; a value that does not fit (over 71 minutes) is kept as `u32::MAX`.
//= paper 001   every stage has a start, a first delay and a total
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stage {
    /// From the request's beginning to the stage's.
    pub start_us: u32,
    /// From the stage's start to its first byte.
    pub first_us: u32,
    /// From the stage's start to its last byte.
    pub total_us: u32,
}

/// The record of one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// When the request began (accepted, or its first byte seen), microseconds since 1970.
    pub began_unix_us: u64,
    /// From then to the last byte of the answer.
    pub total_us: u32,
    /// How it was answered.
    pub class: Class,
    /// The status sent to the client; 0 when none was.
    pub status: u16,
    /// The method.
    pub method: Method,
    /// Bytes sent to the client, head included.
    pub bytes_out: u64,
    /// By [`StageName`]; `None`: the request did not pass through it.
    pub stages: [Option<Stage>; 7],
}

/// The most bytes a record takes, its length byte included.
pub const RECORD_BYTES_MAX: usize =
    3 + varint::BYTES_MAX + U32_BYTES_MAX + 3 + varint::BYTES_MAX + 7 * 3 * U32_BYTES_MAX;
const U32_BYTES_MAX: usize = 5;
const _: () = assert!(
    RECORD_BYTES_MAX - 1 <= u8::MAX as usize,
    "the length is one byte"
);

/// Microseconds as a record keeps them.
pub fn clamp_us(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Record {
    /// A record with nothing known but its beginning: class `Error`, status 0, no stages.
    pub fn begun(began_unix_us: u64) -> Self {
        Record {
            began_unix_us,
            total_us: 0,
            class: Class::Error,
            status: 0,
            method: Method::Other,
            bytes_out: 0,
            stages: [None; 7],
        }
    }

    /// The stage of that name.
    pub fn stage(&self, name: StageName) -> Option<Stage> {
        self.stages[name as usize]
    }

    /// Sets the stage of that name.
    pub fn set_stage(&mut self, name: StageName, stage: Stage) {
        self.stages[name as usize] = Some(stage);
    }

    /// Appends the record's bytes, at most [`RECORD_BYTES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = [0u8; RECORD_BYTES_MAX];
        let mut at = 3;
        at += varint::put(self.began_unix_us, &mut bytes[at..]);
        at += varint::put(self.total_us.into(), &mut bytes[at..]);
        at += varint::put(self.status.into(), &mut bytes[at..]);
        at += varint::put(self.bytes_out, &mut bytes[at..]);
        let mut present = 0u8;
        for (i, stage) in self.stages.iter().enumerate() {
            if let Some(stage) = stage {
                present |= 1 << i;
                at += varint::put(stage.start_us.into(), &mut bytes[at..]);
                at += varint::put(stage.first_us.into(), &mut bytes[at..]);
                at += varint::put(stage.total_us.into(), &mut bytes[at..]);
            }
        }
        bytes[0] = (at - 1) as u8;
        bytes[1] = present;
        bytes[2] = (self.class as u8) << 4 | self.method as u8;
        out.extend_from_slice(&bytes[..at]);
    }

    /// The record at the front of `buf` and the bytes it takes; `None` when they are not a whole record.
    pub fn decode(buf: &[u8]) -> Option<(Record, usize)> {
        let len = usize::from(*buf.first()?);
        let mut body = buf.get(1..1 + len)?;
        let body = &mut body;
        let present = byte(body)?;
        let kind = byte(body)?;
        let mut record = Record {
            began_unix_us: varint::take(body)?,
            total_us: narrow(body)?,
            class: Class::from_byte(kind >> 4)?,
            status: u16::try_from(varint::take(body)?).ok()?,
            method: Method::from_byte(kind & 0x0f)?,
            bytes_out: varint::take(body)?,
            stages: [None; 7],
        };
        if present & 0x80 != 0 {
            return None;
        }
        for (i, stage) in record.stages.iter_mut().enumerate() {
            if present & (1 << i) != 0 {
                *stage = Some(Stage {
                    start_us: narrow(body)?,
                    first_us: narrow(body)?,
                    total_us: narrow(body)?,
                });
            }
        }
        body.is_empty().then_some((record, 1 + len))
    }
}

fn byte(buf: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = buf.split_first()?;
    *buf = rest;
    Some(first)
}

fn narrow(buf: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(buf)?).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn memory_hit() -> Record {
        let mut record = Record::begun(1_700_000_000_123_456);
        record.total_us = 84;
        record.class = Class::MemoryHit;
        record.status = 200;
        record.method = Method::Get;
        record.bytes_out = 10_480;
        record.set_stage(
            StageName::ClientConnect,
            Stage {
                start_us: 0,
                first_us: 0,
                total_us: 31,
            },
        );
        record.set_stage(
            StageName::ProxyReply,
            Stage {
                start_us: 40,
                first_us: 2,
                total_us: 44,
            },
        );
        record
    }

    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let stage = proptest::option::of(any::<[u32; 3]>().prop_map(
            |[start_us, first_us, total_us]| Stage {
                start_us,
                first_us,
                total_us,
            },
        ));
        let head = (
            any::<u64>(),
            any::<u32>(),
            0..11u8,
            any::<u16>(),
            0..11u8,
            any::<u64>(),
        );
        (head, proptest::array::uniform7(stage)).prop_map(
            |((began_unix_us, total_us, class, status, method, bytes_out), stages)| Record {
                began_unix_us,
                total_us,
                class: Class::from_byte(class).unwrap(),
                status,
                method: Method::from_byte(method).unwrap(),
                bytes_out,
                stages,
            },
        )
    }

    #[test]
    fn a_memory_hit_is_short() {
        let mut out = Vec::new();
        memory_hit().encode(&mut out);
        assert!(out.len() <= 25, "{} bytes", out.len());
    }

    #[test]
    fn the_longest_record_fits() {
        let mut record = memory_hit();
        (
            record.began_unix_us,
            record.total_us,
            record.status,
            record.bytes_out,
        ) = (u64::MAX, u32::MAX, u16::MAX, u64::MAX);
        for name in StageName::ALL {
            record.set_stage(
                name,
                Stage {
                    start_us: u32::MAX,
                    first_us: u32::MAX,
                    total_us: u32::MAX,
                },
            );
        }
        let mut out = Vec::new();
        record.encode(&mut out);
        assert_eq!(out.len(), RECORD_BYTES_MAX);
        assert_eq!(Record::decode(&out), Some((record, out.len())));
    }

    #[test]
    fn long_durations_are_clamped() {
        assert_eq!(clamp_us(std::time::Duration::from_secs(86_400)), u32::MAX);
        assert_eq!(clamp_us(std::time::Duration::from_millis(2)), 2000);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(record in any_record(), tail: [u8; 4]) {
            let mut out = Vec::new();
            record.encode(&mut out);
            let len = out.len();
            prop_assert!(len <= RECORD_BYTES_MAX);
            for cut in 0..len {
                prop_assert_eq!(Record::decode(&out[..cut]), None);
            }
            out.extend_from_slice(&tail);
            prop_assert_eq!(Record::decode(&out), Some((record, len)));
        }

        #[test]
        fn foreign_bytes_decode_to_the_same_bytes_or_to_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((record, len)) = Record::decode(&bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..len]);
            }
        }
    }
}
