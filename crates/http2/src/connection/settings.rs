//! SETTINGS, both ways (RFC 9113 §6.5).

use super::stage::Role;
use crate::error::Fault;
use crate::frame::{self, PAYLOAD_BYTES_MAX, flag, kind};
use crate::limits::Limits;

/// The window that streams and connection begin with (RFC 9113 §6.9.2).
pub(super) const WINDOW_DEFAULT: u32 = 65_535;

/// The largest window (RFC 9113 §6.9.1).
pub(super) const WINDOW_MAX: i64 = 0x7fff_ffff;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
//= rfc8441 §3
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
//= rfc9218 §2.1
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// The table size that both sides begin with (RFC 9113 §6.5.2).
const TABLE_BYTES_DEFAULT: u32 = 4096;

/// Our preface: SETTINGS, and the connection's window.
pub(super) fn write_ours(role: Role, limits: &Limits, out: &mut Vec<u8>) {
    let of = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    // Peers do not send larger heads, and count 32 bytes for each field, where `head_bytes_max` counts 4.
    let list_bytes = limits.head_bytes_max + 32 * limits.fields_max;
    let of_both = [
        (HEADER_TABLE_SIZE, of(limits.table_bytes_max)),
        (INITIAL_WINDOW_SIZE, limits.stream_window),
        (MAX_HEADER_LIST_SIZE, of(list_bytes)),
        (NO_RFC7540_PRIORITIES, 1),
    ];
    let of_server = [
        (MAX_CONCURRENT_STREAMS, limits.streams_max),
        (ENABLE_CONNECT_PROTOCOL, u32::from(limits.extended_connect)),
    ];
    //= rfc9113 §8.4   a client that wants no pushes says so
    let of_client = [(ENABLE_PUSH, 0)];
    let of_role = match role {
        Role::Server => &of_server[..],
        Role::Client => &of_client[..],
    };
    let settings = [&of_both[..], of_role].concat();
    let header = frame::Header {
        len: settings.len() * 6,
        kind: kind::SETTINGS,
        flags: 0,
        stream: 0,
    };
    header.write(out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    let more = limits.connection_window.saturating_sub(WINDOW_DEFAULT);
    if more > 0 {
        frame::write_word(kind::WINDOW_UPDATE, 0, more, out);
    }
}

pub(super) fn write_ack(out: &mut Vec<u8>) {
    let header = frame::Header {
        len: 0,
        kind: kind::SETTINGS,
        flags: flag::ACK,
        stream: 0,
    };
    header.write(out);
}

/// The peer's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) initial_window: u32,
    /// Requests of ours that may be open at once.
    pub(super) streams_max: u32,
    frame_bytes_max: usize,
    /// The peer made its HPACK table smaller; the next block must acknowledge that with a size update.
    owes_table_update: bool,
    has_told_table: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            initial_window: WINDOW_DEFAULT,
            //= rfc9113 §6.5.2   initially there is no limit
            streams_max: u32::MAX,
            frame_bytes_max: PAYLOAD_BYTES_MAX,
            owes_table_update: false,
            has_told_table: false,
        }
    }
}

impl PeerSettings {
    /// The longest payload that we send: longer frames gain nothing, and delay other streams.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max.min(PAYLOAD_BYTES_MAX)
    }

    /// The size update with which the next field block begins, or nothing.
    //= rfc7541 §4.2   a table that was made smaller must be acknowledged at the beginning of the next block
    pub(super) fn take_table_update(&mut self) -> &'static [u8] {
        if !self.owes_table_update {
            return b"";
        }
        self.owes_table_update = false;
        self.has_told_table = true;
        // A table of 0 bytes: our encoder uses none, and no later change can be smaller.
        &[0x20]
    }

    /// Applies the payload of a SETTINGS frame, a multiple of 6 bytes. `role` is our side.
    pub(super) fn apply(&mut self, role: Role, payload: &[u8]) -> Result<(), Fault> {
        for setting in payload.chunks_exact(6) {
            let [a, b, c, d, e, f] = *setting else {
                continue;
            };
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                HEADER_TABLE_SIZE => {
                    self.owes_table_update |= value < TABLE_BYTES_DEFAULT && !self.has_told_table;
                }
                ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                    return Err(Fault::SettingValue);
                }
                //= rfc9113 §6.5.2   a client treats a value of 1 as an error: servers do not set it
                ENABLE_PUSH if value == 1 && role == Role::Client => {
                    return Err(Fault::SettingValue);
                }
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE => {
                    if i64::from(value) > WINDOW_MAX {
                        return Err(Fault::SettingWindow);
                    }
                    self.initial_window = value;
                }
                MAX_FRAME_SIZE => {
                    let bytes = value as usize;
                    if !(PAYLOAD_BYTES_MAX..1 << 24).contains(&bytes) {
                        return Err(Fault::SettingValue);
                    }
                    self.frame_bytes_max = bytes;
                }
                //= rfc9113 §6.5.2   an unknown setting is ignored; we push nothing, and send heads whatever their size
                _ => {}
            }
        }
        Ok(())
    }
}
