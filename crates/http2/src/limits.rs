//! The configurable bounds of a connection. All others are constants beside their mechanism.

use std::time::Duration;

/// The bounds of one connection, each with the consequence of exceeding it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Concurrent streams. A stream that the client reset counts until the caller has released it. Further ones: REFUSED_STREAM.
    pub streams_max: u32,
    /// Bytes of a head: names, values and 4 bytes for each field, as in HTTP/1; crumbs of Cookie are one field. More: 431. A compressed block
    /// that is more than 64 KiB longer ends the connection, as does one whose decoded names and values are eight times longer than that.
    pub head_bytes_max: usize,
    /// Fields in a head, or in trailers; crumbs of Cookie count as one, and method, scheme and path as none. More: 431.
    pub fields_max: usize,
    /// Bytes of HPACK's dynamic table for the blocks that the client sends.
    pub table_bytes_max: usize,
    /// Bytes that a client may send on a stream before the caller has consumed them. More: the stream is reset.
    pub stream_window: u32,
    /// The most to which lending may raise a stream's window; the connection's window grows by the same bytes. See [`crate::Connection::lend`].
    pub stream_window_max: u32,
    /// Bytes that a client may send on all streams together before the caller has consumed them; at least 65,535. More: the connection ends.
    pub connection_window: u32,
    /// Is extended CONNECT (RFC 8441) offered?
    pub extended_connect: bool,
    /// From the start to the client's SETTINGS. Later: the connection ends.
    pub preface_time: Duration,
    /// From the first frame of a field block to its last. Later: the connection ends.
    pub block_time: Duration,
    /// From the start to the acknowledgement of our SETTINGS. Later: the connection ends.
    pub settings_time: Duration,
    /// How long bytes of a stream may wait and none be sent, because the client opens no window. Longer: the stream is reset; if it is
    /// the connection's window, the connection ends.
    pub stall_time: Duration,
    /// Bytes a second that a client's window must let through, on the average of a minute in which bytes wait for it. Less: as for `stall_time`.
    /// 0: no such rule.
    pub rate_min: u64,
    /// From the first GOAWAY of a drain to the last, if the client does not answer the PING between them.
    pub drain_time: Duration,
}

impl Limits {
    /// The default bounds.
    pub const DEFAULT: Self = Self {
        streams_max: 100,
        head_bytes_max: 64 * 1024,
        fields_max: 1024,
        table_bytes_max: 4096,
        stream_window: 64 * 1024,
        stream_window_max: 4096 * 1024,
        connection_window: 1024 * 1024,
        extended_connect: true,
        preface_time: Duration::from_secs(10),
        block_time: Duration::from_secs(30),
        settings_time: Duration::from_secs(30),
        stall_time: Duration::from_secs(60),
        rate_min: 100,
        drain_time: Duration::from_secs(1),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
