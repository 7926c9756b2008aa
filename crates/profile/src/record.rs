//! One request's record and its bytes.
//!
//! ```text
//! length        1 byte    of the rest
//! stages        2 bytes   little-endian; bit i: stage i is present; bit 15 is 0 (1: an `event`)
//! kind          1 byte    class in the high four bits, method in the low four
//! facts         varint    bit 0: names are present; 3 bits the client's protocol; 3 bits hierarchy; 12 bits flags;
//!                         3 bits the server's protocol; 4 bits device reads; since version 3: 3 bits encryption
//! began         varint    microseconds since 1970
//! total         varint    microseconds
//! status        varint    0: no answer was sent
//! bytes_out, object_bytes, worker         varints
//! key, client   8 and 4 bytes             if there are names
//! bytes_in, peer                          varints, if a server was asked
//! server        4 bytes                   if a server was asked and there are names
//! store         varint                    if there is a swap-in or a swap-out
//! cluster       varint                    if there is a swap-out
//! then, for each stage present, in order: start, first, total   varints, microseconds
//! ```
//!
//! Varints are those of `varint`. A memory hit takes about 43 bytes. Records do not refer to each other, because batches of
//! several workers are mixed in one file. Version 1 is read by [`Record::decode_version_1`]; version 2 differs only in lacking
//! the encryption.

use crate::event::EVENT_BIT;
use crate::varint;
use crate::{Class, Encryption, Flags, Hierarchy, Method, Protocol, StageName};

/// One stage of a request, in microseconds; a value that does not fit (over 71 minutes) is kept as `u32::MAX`.
//= paper 001   every stage has a start, a first delay and a total
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stage {
    /// From the request's start to the stage's.
    pub start_us: u32,
    /// From the stage's start to its first byte.
    pub first_us: u32,
    /// From the stage's start to its last byte.
    pub total_us: u32,
}

/// Resource, client and server of a request, as hashes under secrets of the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// Hash of the resource's name, the primary key of the store. Comparable between files with the same `keys_id` in their headers.
    pub key: u64,
    /// Hash of the client's address; 0 with `log.profile-clients = false`.
    pub client: u32,
    /// Hash of host and port of the server that was asked; 0 if none was.
    pub server: u32,
}

/// The record of one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// The version of the format that the record was read from. Version 1 lacks all fields marked *since 2*.
    pub version: u8,
    /// When the request began, microseconds since 1970: when its connection was accepted, or, for a later request on the connection, when
    /// the request's first byte was seen.
    pub began_unix_us: u64,
    /// From the beginning to the last byte of the answer.
    pub total_us: u32,
    /// How the request was answered.
    pub class: Class,
    /// The status sent to the client; 0 if none was.
    pub status: u16,
    /// The method.
    pub method: Method,
    /// Bytes sent to the client, head included.
    pub bytes_out: u64,
    /// Since 2: bytes received from the server, heads included.
    pub bytes_in: u64,
    /// Since 2: size of the response's head and body as stored, or as they would be stored; also for a 304. 0: unknown.
    pub object_bytes: u64,
    /// Since 2: facts of the request.
    pub flags: Flags,
    /// Since 2: the protocol of the request.
    pub http_client: Protocol,
    /// Since 3: how the client's connection is encrypted.
    pub encryption: Encryption,
    /// Since 2: the protocol of the server's answer.
    pub http_server: Protocol,
    /// Since 2: where the request was forwarded to.
    pub hierarchy: Hierarchy,
    /// Since 2: device reads for the request, at most [`DEVICE_READS_MAX`]. Adjacent reads may have been one [`crate::Read`].
    pub device_reads: u8,
    /// Since 2: hashes of names; `None` with `log.profile-keys = false`.
    pub names: Option<Names>,
    /// Since 2: the number of the worker that served it.
    pub worker: u8,
    /// Since 2: the number of the parent, sibling or node that was asked.
    pub peer: u8,
    /// Since 2: the number of the store that has, or takes, the object.
    pub store: u8,
    /// Since 2: the write with the last byte that the request stored ([`crate::Write::cluster`]); 0 if unknown.
    pub cluster: u64,
    /// By [`StageName`]; `None`: the request did not pass through the stage.
    pub stages: [Option<Stage>; STAGES],
}

/// The number of stages.
pub const STAGES: usize = StageName::ALL.len();
/// The most device reads that a record can count; this value means "this many or more".
pub const DEVICE_READS_MAX: u8 = 15;
/// The version that is written.
pub const RECORD_VERSION: u8 = 3;

/// The most bytes a record takes, its length byte included.
pub const RECORD_BYTES_MAX: usize = 4
    + FACTS_BYTES_MAX
    + 5 * varint::BYTES_MAX // began, bytes out and in, object, cluster
    + 2 * U32_BYTES_MAX // total, status
    + 3 * 2 // worker, peer, store
    + 8 + 4 + 4
    + STAGES * 3 * U32_BYTES_MAX;
const FACTS_BYTES_MAX: usize = 5;
const U32_BYTES_MAX: usize = 5;
const _: () = assert!(
    RECORD_BYTES_MAX - 1 <= u8::MAX as usize,
    "the length is one byte"
);

/// A duration in microseconds, at most `u32::MAX`.
pub fn clamp_us(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Record {
    /// A record of a request of which only the beginning is known: class `Error`, status 0, no stages.
    pub fn begun(began_unix_us: u64) -> Self {
        Record {
            version: RECORD_VERSION,
            began_unix_us,
            total_us: 0,
            class: Class::Error,
            status: 0,
            method: Method::Other,
            bytes_out: 0,
            bytes_in: 0,
            object_bytes: 0,
            flags: Flags::default(),
            http_client: Protocol::Unknown,
            encryption: Encryption::None,
            http_server: Protocol::Unknown,
            hierarchy: Hierarchy::None,
            device_reads: 0,
            names: None,
            worker: 0,
            peer: 0,
            store: 0,
            cluster: 0,
            stages: [None; STAGES],
        }
    }

    /// The stage with this name.
    pub fn stage(&self, name: StageName) -> Option<Stage> {
        self.stages[name as usize]
    }

    /// The hash of the resource's name; 0 if unknown.
    pub fn key(&self) -> u64 {
        self.names.map_or(0, |names| names.key)
    }

    /// The hash of the client's address; 0 if unknown.
    pub fn client(&self) -> u32 {
        self.names.map_or(0, |names| names.client)
    }

    /// The hash of the server's host and port; 0 if none was asked, or unknown.
    pub fn server(&self) -> u32 {
        self.names.map_or(0, |names| names.server)
    }

    /// Sets the stage with this name.
    pub fn set_stage(&mut self, name: StageName, stage: Stage) {
        self.stages[name as usize] = Some(stage);
    }

    /// Since 2: for the first request on a connection, how long the connection was open before the first byte of the head came; else 0.
    pub fn idle_us(&self) -> u32 {
        match self.version {
            1 => 0,
            _ => (self.stage(StageName::ClientConnect)).map_or(0, |stage| stage.first_us),
        }
    }

    /// From the first byte of the request's head to the last byte of the answer.
    pub fn response_us(&self) -> u32 {
        self.total_us.saturating_sub(self.idle_us())
    }

    /// When the answer ended, microseconds since 1970.
    pub fn ended_unix_us(&self) -> u64 {
        self.began_unix_us.saturating_add(self.total_us.into())
    }

    fn asked_a_server(&self) -> bool {
        self.hierarchy != Hierarchy::None
    }

    /// Appends the record's bytes, at most [`RECORD_BYTES_MAX`]. A record of an earlier version is written in the latest one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = Bytes {
            at: 4,
            ..Bytes::default()
        };
        bytes.varint(self.facts());
        bytes.varint(self.began_unix_us);
        bytes.varint(self.total_us.into());
        bytes.varint(self.status.into());
        bytes.varint(self.bytes_out);
        bytes.varint(self.object_bytes);
        bytes.varint(self.worker.into());
        if let Some(names) = &self.names {
            bytes.raw(&names.key.to_le_bytes());
            bytes.raw(&names.client.to_le_bytes());
        }
        if self.asked_a_server() {
            bytes.varint(self.bytes_in);
            bytes.varint(self.peer.into());
            if let Some(names) = &self.names {
                bytes.raw(&names.server.to_le_bytes());
            }
        }
        let (reads, writes) = (
            self.stage(StageName::SwapIn).is_some(),
            self.stage(StageName::SwapOut).is_some(),
        );
        if reads || writes {
            bytes.varint(self.store.into());
        }
        if writes {
            bytes.varint(self.cluster);
        }
        let mut present = 0u16;
        for (i, stage) in self.stages.iter().enumerate() {
            if let Some(stage) = stage {
                present |= 1 << i;
                bytes.varint(stage.start_us.into());
                bytes.varint(stage.first_us.into());
                bytes.varint(stage.total_us.into());
            }
        }
        let Bytes { mut all, at } = bytes;
        all[0] = (at - 1) as u8;
        all[1..3].copy_from_slice(&present.to_le_bytes());
        all[3] = (self.class as u8) << 4 | self.method as u8;
        out.extend_from_slice(&all[..at]);
    }

    fn facts(&self) -> u64 {
        u64::from(self.names.is_some())
            | (self.http_client as u64) << 1
            | (self.hierarchy as u64) << 4
            | u64::from(self.flags.bits()) << 7
            | (self.http_server as u64) << 19
            | u64::from(self.device_reads.min(DEVICE_READS_MAX)) << 22
            | (self.encryption as u64) << 26
    }

    /// The record at the front of `buf` and its length; `None` if there is no whole record.
    pub fn decode(buf: &[u8]) -> Option<(Record, usize)> {
        let len = usize::from(*buf.first()?);
        let mut body = buf.get(1..1 + len)?;
        let record = Record::decode_body(&mut body)?;
        Some((record, 1 + len))
    }

    /// Decodes the bytes after the length.
    pub(crate) fn decode_body(body: &mut &[u8]) -> Option<Record> {
        let present = u16::from_le_bytes([byte(body)?, byte(body)?]);
        let kind = byte(body)?;
        if present >> STAGES != 0 || present & EVENT_BIT != 0 {
            return None;
        }
        let facts = varint::take(body)?;
        let has_names = facts & 1 != 0;
        let mut record = Record {
            class: Class::from_byte(kind >> 4)?,
            method: Method::from_byte(kind & 0x0f)?,
            http_client: Protocol::from_byte((facts >> 1 & 7) as u8)?,
            hierarchy: Hierarchy::from_byte((facts >> 4 & 7) as u8)?,
            flags: Flags::from_bits(facts >> 7 & 0xfff)?,
            http_server: Protocol::from_byte((facts >> 19 & 7) as u8)?,
            device_reads: (facts >> 22 & 15) as u8,
            encryption: Encryption::from_byte(u8::try_from(facts >> 26).ok()?)?,
            ..Record::begun(varint::take(body)?)
        };
        record.total_us = narrow(body)?;
        record.status = u16::try_from(varint::take(body)?).ok()?;
        record.bytes_out = varint::take(body)?;
        record.object_bytes = varint::take(body)?;
        record.worker = tiny(body)?;
        if has_names {
            record.names = Some(Names {
                key: u64::from_le_bytes(raw(body)?),
                client: u32::from_le_bytes(raw(body)?),
                server: 0,
            });
        }
        if record.asked_a_server() {
            record.bytes_in = varint::take(body)?;
            record.peer = tiny(body)?;
            if let Some(names) = &mut record.names {
                names.server = u32::from_le_bytes(raw(body)?);
            }
        }
        let has = |name: StageName| present & 1 << name as u16 != 0;
        if has(StageName::SwapIn) || has(StageName::SwapOut) {
            record.store = tiny(body)?;
        }
        if has(StageName::SwapOut) {
            record.cluster = varint::take(body)?;
        }
        stages(present, &mut record.stages, body)?;
        body.is_empty().then_some(record)
    }

    /// The record of version 1 at the front of `buf`, and its length. That version had one byte for the stages, then kind, began, total,
    /// status, bytes out and the first seven stages.
    pub fn decode_version_1(buf: &[u8]) -> Option<(Record, usize)> {
        let len = usize::from(*buf.first()?);
        let mut body = buf.get(1..1 + len)?;
        let body = &mut body;
        let (present, kind) = (byte(body)?, byte(body)?);
        let mut record = Record {
            version: 1,
            class: Class::from_byte(kind >> 4)?,
            method: Method::from_byte(kind & 0x0f)?,
            ..Record::begun(varint::take(body)?)
        };
        record.total_us = narrow(body)?;
        record.status = u16::try_from(varint::take(body)?).ok()?;
        record.bytes_out = varint::take(body)?;
        if present & 0x80 != 0 {
            return None;
        }
        stages(present.into(), &mut record.stages, body)?;
        body.is_empty().then_some((record, 1 + len))
    }
}

fn stages(present: u16, into: &mut [Option<Stage>; STAGES], body: &mut &[u8]) -> Option<()> {
    for (i, stage) in into.iter_mut().enumerate() {
        if present & (1 << i) != 0 {
            *stage = Some(Stage {
                start_us: narrow(body)?,
                first_us: narrow(body)?,
                total_us: narrow(body)?,
            });
        }
    }
    Some(())
}

/// The bytes of a record while it is written.
struct Bytes {
    all: [u8; RECORD_BYTES_MAX],
    at: usize,
}

impl Default for Bytes {
    fn default() -> Self {
        let all = [0; RECORD_BYTES_MAX];
        Bytes { all, at: 0 }
    }
}

impl Bytes {
    fn varint(&mut self, number: u64) {
        self.at += varint::put(number, &mut self.all[self.at..]);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.all[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

fn byte(buf: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = buf.split_first()?;
    *buf = rest;
    Some(first)
}

fn raw<const N: usize>(buf: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = buf.split_first_chunk()?;
    *buf = rest;
    Some(*first)
}

fn narrow(buf: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(buf)?).ok()
}

fn tiny(buf: &mut &[u8]) -> Option<u8> {
    u8::try_from(varint::take(buf)?).ok()
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
        record.object_bytes = 10_460;
        record.flags = Flags::REUSED_CLIENT;
        record.http_client = Protocol::Http11;
        record.names = Some(Names {
            key: 0x0123_4567_89ab_cdef,
            client: 7,
            server: 0,
        });
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
        let numbers = (any::<[u64; 5]>(), any::<u32>(), any::<u16>());
        let sets = (
            0..11u8,
            0..11u8,
            0..1024u64,
            0..5u8,
            0..5u8,
            0..5u8,
            0..16u8,
            0..5u8,
        );
        let names = proptest::option::of(any::<(u64, u32, u32)>());
        let stages = proptest::array::uniform9(stage);
        (numbers, sets, names, any::<[u8; 3]>(), stages).prop_map(
            |(numbers, sets, names, [worker, peer, store], stages)| {
                let ([began, out, object, input, cluster], total_us, status) = numbers;
                let (class, method, flags, client, server, hierarchy, device_reads, encryption) =
                    sets;
                let mut record = Record {
                    total_us,
                    status,
                    class: Class::from_byte(class).unwrap(),
                    method: Method::from_byte(method).unwrap(),
                    bytes_out: out,
                    object_bytes: object,
                    flags: Flags::from_bits(flags).unwrap(),
                    http_client: Protocol::from_byte(client).unwrap(),
                    encryption: Encryption::from_byte(encryption).unwrap(),
                    http_server: Protocol::from_byte(server).unwrap(),
                    hierarchy: Hierarchy::from_byte(hierarchy).unwrap(),
                    device_reads,
                    names: names.map(|(key, client, server)| Names {
                        key,
                        client,
                        server,
                    }),
                    worker,
                    stages,
                    ..Record::begun(began)
                };
                if record.asked_a_server() {
                    (record.bytes_in, record.peer) = (input, peer);
                } else if let Some(names) = &mut record.names {
                    names.server = 0;
                }
                let swaps_out = record.stage(StageName::SwapOut).is_some();
                if swaps_out || record.stage(StageName::SwapIn).is_some() {
                    record.store = store;
                }
                if swaps_out {
                    record.cluster = cluster;
                }
                record
            },
        )
    }

    #[test]
    fn a_memory_hit_is_short() {
        let mut out = Vec::new();
        memory_hit().encode(&mut out);
        assert!(out.len() <= 44, "{} bytes", out.len());
    }

    #[test]
    fn the_longest_record_fits() {
        let mut record = Record {
            total_us: u32::MAX,
            status: u16::MAX,
            bytes_out: u64::MAX,
            bytes_in: u64::MAX,
            object_bytes: u64::MAX,
            flags: Flags::from_bits(1023).unwrap(),
            http_server: Protocol::Http3,
            encryption: Encryption::Tls13Resumed,
            hierarchy: Hierarchy::Node,
            device_reads: DEVICE_READS_MAX,
            worker: u8::MAX,
            peer: u8::MAX,
            store: u8::MAX,
            cluster: u64::MAX,
            ..memory_hit()
        };
        record.began_unix_us = u64::MAX;
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
        assert!(RECORD_BYTES_MAX - out.len() <= 2, "{} bytes", out.len());
        assert_eq!(Record::decode(&out), Some((record, out.len())));
    }

    #[test]
    fn long_durations_are_clamped() {
        assert_eq!(clamp_us(std::time::Duration::from_secs(86_400)), u32::MAX);
        assert_eq!(clamp_us(std::time::Duration::from_millis(2)), 2000);
    }

    #[test]
    fn version_1_is_read() {
        // A disk hit of the first version: 0.2 s, 404, one stage.
        let mut bytes = vec![0, 1 << 4, 1 << 4];
        for number in [1_700_000_000_123_456, 200_000, 404, 300, 10, 20, 30] {
            varint::push(number, &mut bytes);
        }
        bytes[0] = (bytes.len() - 1) as u8;
        let (record, len) = Record::decode_version_1(&bytes).unwrap();
        assert_eq!(len, bytes.len());
        let swap_in = Stage {
            start_us: 10,
            first_us: 20,
            total_us: 30,
        };
        assert_eq!((record.version, record.class), (1, Class::DiskHit));
        assert_eq!((record.status, record.bytes_out), (404, 300));
        assert_eq!(record.stage(StageName::SwapIn), Some(swap_in));
        assert_eq!(record.stages.iter().flatten().count(), 1);
        assert_eq!(Record::decode_version_1(&bytes[..len - 1]), None);
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
        fn foreign_bytes_decode_to_the_same_bytes_or_to_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..260)) {
            if let Some((record, len)) = Record::decode(&bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..len]);
            }
        }
    }
}
