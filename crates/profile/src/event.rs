//! Records of a profile other than requests: disk writes and reads, gauges of every second, marks.
//!
//! ```text
//! length   1 byte   of the rest
//! kind     2 bytes  0x8000 and the kind, little-endian: bit 15 tells an event from a request
//! then varints:
//!   write 0    start, total, bytes, records, store, cluster
//!   read 1     start, wait, total, bytes, objects, store
//!   second 2   time, subject, its number, then pairs of gauge and value to the end
//!   mark 3     time, kind, then UTF-8 text to the end
//! ```
//!
//! Kinds, subjects and gauges are only ever added; a reader skips unknown ones.

use crate::varint;

/// A cluster written to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// When it was submitted to the device, microseconds since 1970.
    pub start_unix_us: u64,
    /// From submission to completion.
    pub total_us: u32,
    /// Bytes written.
    pub bytes: u64,
    /// Records in it.
    pub records: u32,
    /// The number of the store in the set.
    pub store: u8,
    /// Its number among the writes of this process. The record of a request whose object it contains refers to it: [`crate::Record::cluster`].
    pub cluster: u64,
}

/// A read of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// When the read was requested, microseconds since 1970.
    pub start_unix_us: u64,
    /// From the request to submission to the device: the time in the elevator.
    pub wait_us: u32,
    /// From the request to completion.
    pub total_us: u32,
    /// Bytes read.
    pub bytes: u64,
    /// The number of objects read.
    pub objects: u32,
    /// The number of the store in the set.
    pub store: u8,
}

/// The subject of the gauges of one second.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// A worker, by number.
    Worker = 0,
    /// The process.
    Process = 1,
    /// The device of a store, by number, with the kernel's counters (`/sys/block/*/stat`).
    Device = 2,
    /// The machine's network, with the kernel's counters.
    Network = 3,
}

impl Subject {
    const ALL: [Subject; 4] = [
        Subject::Worker,
        Subject::Process,
        Subject::Device,
        Subject::Network,
    ];

    /// The name in dumps.
    pub fn as_str(self) -> &'static str {
        match self {
            Subject::Worker => "worker",
            Subject::Process => "process",
            Subject::Device => "device",
            Subject::Network => "network",
        }
    }
}

macro_rules! gauges {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal $text:literal,)+) => {
        /// A number noted every second. A gauge called a total counts from the start of the process or the machine; the others
        /// are for that second.
        #[repr(u8)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Gauge { $($(#[doc = $doc])+ $name = $number,)+ }

        impl Gauge {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Gauge] = &[$(Gauge::$name,)+];

            /// The name in dumps and exports.
            pub fn as_str(self) -> &'static str {
                match self { $(Gauge::$name => $text,)+ }
            }
        }
    };
}

gauges! {
    /// Worker: median lateness of its timer, microseconds.
    LagP50Us = 0 "lag_p50_us",
    /// Worker: 99th percentile of the lateness, microseconds.
    LagP99Us = 1 "lag_p99_us",
    /// Worker: largest lateness, microseconds.
    LagMaxUs = 2 "lag_max_us",
    /// Worker: open client connections.
    ClientConnections = 3 "client_connections",
    /// Worker: server connections in use.
    ServerConnectionsUsed = 4 "server_connections_used",
    /// Worker: idle server connections.
    ServerConnectionsIdle = 5 "server_connections_idle",
    /// Process: bytes held for transfers.
    TransferBytes = 6 "transfer_bytes",
    /// Process: CPU time in user mode, total, microseconds.
    UserUs = 7 "user_us",
    /// Process: CPU time in the kernel, total, microseconds.
    SystemUs = 8 "system_us",
    /// Process: resident memory, bytes.
    ResidentBytes = 9 "resident_bytes",
    /// Process: page faults without I/O, total.
    MinorFaults = 10 "minor_faults",
    /// Process: page faults with I/O, total.
    MajorFaults = 11 "major_faults",
    /// Process: voluntary context switches, total.
    VoluntarySwitches = 12 "voluntary_switches",
    /// Process: involuntary context switches, total.
    InvoluntarySwitches = 13 "involuntary_switches",
    /// Device: reads completed, total.
    DeviceReads = 14 "device_reads",
    /// Device: bytes read, total.
    DeviceReadBytes = 15 "device_read_bytes",
    /// Device: writes completed, total.
    DeviceWrites = 16 "device_writes",
    /// Device: bytes written, total.
    DeviceWriteBytes = 17 "device_write_bytes",
    /// Device: requests in its queue now.
    DeviceQueue = 18 "device_queue",
    /// Device: time with at least one request, total, microseconds.
    DeviceBusyUs = 19 "device_busy_us",
    /// Device: sum of the times of all requests in it, total, microseconds.
    DeviceQueueUs = 20 "device_queue_us",
    /// Network: TCP segments retransmitted, total.
    Retransmits = 21 "retransmits",
    /// Network: connections dropped because a listen queue was full, total.
    ListenOverflows = 22 "listen_overflows",
    /// Process: ICP messages sent, total.
    IcpSent = 23 "icp_sent",
    /// Process: ICP messages received, total.
    IcpReceived = 24 "icp_received",
    /// Process: bytes of ICP sent, total.
    IcpSentBytes = 25 "icp_sent_bytes",
    /// Process: bytes of ICP received, total.
    IcpReceivedBytes = 26 "icp_received_bytes",
    /// Process: digests fetched from siblings, total.
    DigestsFetched = 27 "digests_fetched",
    /// Process: bytes of digests fetched, total.
    DigestFetchedBytes = 28 "digest_fetched_bytes",
    /// Process: hint updates sent or received, total.
    HintUpdates = 29 "hint_updates",
    /// Process: bytes of hint updates, total.
    HintBytes = 30 "hint_bytes",
    /// Process: profile and log records lost, total.
    RecordsLost = 31 "records_lost",
}

/// The gauges of a subject for one second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Second {
    /// The end of the second, microseconds since 1970.
    pub at_unix_us: u64,
    /// The subject.
    pub subject: Subject,
    /// The number of the worker or store; 0 for other subjects.
    pub number: u8,
    /// Gauges with their values; at most [`GAUGES_MAX`].
    pub gauges: Vec<(Gauge, u64)>,
}

/// The most gauges of one [`Second`].
pub const GAUGES_MAX: usize = 20;

impl Second {
    /// The value of a gauge.
    pub fn get(&self, gauge: Gauge) -> Option<u64> {
        let found = self.gauges.iter().find(|(name, _)| *name == gauge);
        found.map(|(_, value)| *value)
    }
}

/// The kind of a [`Mark`].
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MarkKind {
    /// The process began. The text is JSON: version, machine, kernel, disks.
    Start = 0,
    /// The process ended in order.
    Stop = 1,
    /// A configuration came into force. The text is JSON: a digest, and the facts for Table 2 of a report.
    Configuration = 2,
    /// Something was purged.
    Purge = 3,
    /// The scan of a store after its start ended.
    ScanEnd = 4,
}

impl MarkKind {
    const ALL: [MarkKind; 5] = [
        MarkKind::Start,
        MarkKind::Stop,
        MarkKind::Configuration,
        MarkKind::Purge,
        MarkKind::ScanEnd,
    ];

    /// The name in dumps.
    pub fn as_str(self) -> &'static str {
        match self {
            MarkKind::Start => "start",
            MarkKind::Stop => "stop",
            MarkKind::Configuration => "configuration",
            MarkKind::Purge => "purge",
            MarkKind::ScanEnd => "scan-end",
        }
    }
}

/// A moment to be marked in plots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When, microseconds since 1970.
    pub at_unix_us: u64,
    /// The kind of event.
    pub kind: MarkKind,
    /// Details; cut after [`MARK_TEXT_BYTES_MAX`]. A longer text is split over several marks of the same time and kind.
    pub text: String,
}

/// The most bytes of text in one [`Mark`].
pub const MARK_TEXT_BYTES_MAX: usize = 200;

/// An item other than a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A cluster was written.
    Write(Write),
    /// A device was read.
    Read(Read),
    /// The gauges of a second.
    Second(Second),
    /// A moment to be marked in plots.
    Mark(Mark),
    /// An event of a kind that this program does not know.
    Unknown,
}

/// The bit that tells an event from a request.
pub(crate) const EVENT_BIT: u16 = 1 << 15;

impl Event {
    /// Appends the event's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.push(0);
        let kind: u16 = match self {
            Event::Write(_) => 0,
            Event::Read(_) => 1,
            Event::Second(_) => 2,
            Event::Mark(_) => 3,
            Event::Unknown => !EVENT_BIT,
        };
        out.extend_from_slice(&(EVENT_BIT | kind).to_le_bytes());
        match self {
            Event::Write(it) => [
                it.start_unix_us,
                it.total_us.into(),
                it.bytes,
                it.records.into(),
                it.store.into(),
                it.cluster,
            ]
            .into_iter()
            .for_each(|number| varint::push(number, out)),
            Event::Read(it) => [
                it.start_unix_us,
                it.wait_us.into(),
                it.total_us.into(),
                it.bytes,
                it.objects.into(),
                it.store.into(),
            ]
            .into_iter()
            .for_each(|number| varint::push(number, out)),
            Event::Second(it) => {
                varint::push(it.at_unix_us, out);
                varint::push(it.subject as u64, out);
                varint::push(it.number.into(), out);
                for &(gauge, value) in it.gauges.iter().take(GAUGES_MAX) {
                    varint::push(gauge as u64, out);
                    varint::push(value, out);
                }
            }
            Event::Mark(it) => {
                varint::push(it.at_unix_us, out);
                varint::push(it.kind as u64, out);
                let most = it.text.len().min(MARK_TEXT_BYTES_MAX);
                let is_border = |at: &usize| it.text.is_char_boundary(*at);
                let end = (0..=most).rev().find(is_border).unwrap_or(0);
                out.extend_from_slice(&it.text.as_bytes()[..end]);
            }
            Event::Unknown => {}
        }
        out[begin] = u8::try_from(out.len() - begin - 1).expect("every event fits");
    }

    /// The event at the front of `buf` and its length; `None` if there is no whole event.
    pub fn decode(buf: &[u8]) -> Option<(Event, usize)> {
        let len = usize::from(*buf.first()?);
        let mut body = buf.get(1..1 + len)?;
        let kind = u16::from_le_bytes(*body.first_chunk()?);
        if kind & EVENT_BIT == 0 {
            return None;
        }
        body = &body[2..];
        Some((Event::decode_body(kind, &mut body)?, 1 + len))
    }

    /// Decodes the bytes after the kind.
    pub(crate) fn decode_body(kind: u16, body: &mut &[u8]) -> Option<Event> {
        let event = match kind & !EVENT_BIT {
            0 => Event::Write(Write {
                start_unix_us: varint::take(body)?,
                total_us: narrow(body)?,
                bytes: varint::take(body)?,
                records: narrow(body)?,
                store: tiny(body)?,
                cluster: varint::take(body)?,
            }),
            1 => Event::Read(Read {
                start_unix_us: varint::take(body)?,
                wait_us: narrow(body)?,
                total_us: narrow(body)?,
                bytes: varint::take(body)?,
                objects: narrow(body)?,
                store: tiny(body)?,
            }),
            2 => {
                let at_unix_us = varint::take(body)?;
                let subject = varint::take(body)?;
                let number = tiny(body)?;
                let mut gauges = Vec::new();
                while !body.is_empty() {
                    let (gauge, value) = (varint::take(body)?, varint::take(body)?);
                    let known = usize::try_from(gauge).ok();
                    if let Some(&gauge) = known.and_then(|at| Gauge::ALL.get(at)) {
                        gauges.push((gauge, value));
                    }
                }
                match Subject::ALL.get(usize::try_from(subject).ok()?) {
                    Some(&subject) => Event::Second(Second {
                        at_unix_us,
                        subject,
                        number,
                        gauges,
                    }),
                    None => Event::Unknown,
                }
            }
            3 => {
                let (at_unix_us, kind) = (varint::take(body)?, varint::take(body)?);
                let text = std::str::from_utf8(std::mem::take(body)).ok()?.to_owned();
                match MarkKind::ALL.get(usize::try_from(kind).ok()?) {
                    Some(&kind) => Event::Mark(Mark {
                        at_unix_us,
                        kind,
                        text,
                    }),
                    None => Event::Unknown,
                }
            }
            _ => {
                *body = &[];
                Event::Unknown
            }
        };
        body.is_empty().then_some(event)
    }
}

fn narrow(body: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(body)?).ok()
}

fn tiny(body: &mut &[u8]) -> Option<u8> {
    u8::try_from(varint::take(body)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_event() -> impl Strategy<Value = Event> {
        let numbers = any::<[u64; 3]>();
        let small = any::<[u32; 3]>();
        let gauges = proptest::collection::vec((0..Gauge::ALL.len(), any::<u64>()), 0..=GAUGES_MAX);
        let text = "\\PC{0,49}";
        (0..4, numbers, small, any::<u8>(), gauges, text).prop_map(
            |(kind, [at, bytes, cluster], [a, b, c], number, gauges, text)| match kind {
                0 => Event::Write(Write {
                    start_unix_us: at,
                    total_us: a,
                    bytes,
                    records: b,
                    store: number,
                    cluster,
                }),
                1 => Event::Read(Read {
                    start_unix_us: at,
                    wait_us: a,
                    total_us: b,
                    bytes,
                    objects: c,
                    store: number,
                }),
                2 => Event::Second(Second {
                    at_unix_us: at,
                    subject: Subject::ALL[usize::from(number) % 4],
                    number,
                    gauges: (gauges.iter())
                        .map(|(at, value)| (Gauge::ALL[*at], *value))
                        .collect(),
                }),
                _ => Event::Mark(Mark {
                    at_unix_us: at,
                    kind: MarkKind::ALL[usize::from(number) % 5],
                    text,
                }),
            },
        )
    }

    fn decode(bytes: &[u8]) -> Option<Event> {
        let (event, len) = Event::decode(bytes)?;
        assert_eq!(len, bytes.len());
        Some(event)
    }

    #[test]
    fn gauges_lie_at_their_numbers() {
        for (at, gauge) in Gauge::ALL.iter().enumerate() {
            assert_eq!(*gauge as usize, at);
        }
    }

    #[test]
    fn a_kind_of_the_future_is_passed_over() {
        let bytes = [4, 77, 0x80, 1, 2];
        assert_eq!(decode(&bytes), Some(Event::Unknown));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(event in any_event()) {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            prop_assert_eq!(usize::from(bytes[0]) + 1, bytes.len());
            prop_assert_eq!(decode(&bytes), Some(event));
        }

        #[test]
        fn foreign_bytes_are_no_panic(kind: u16, bytes: Vec<u8>) {
            let _ = Event::decode_body(kind | EVENT_BIT, &mut &bytes[..]);
            let _ = Event::decode(&bytes);
        }
    }
}
