//! How much a client may want. What is not here is a constant beside its mechanism.

use std::time::Duration;

/// The bounds of one connection. Each says what happens there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Streams at once; those count whose work has not ended, though the client reset them. Further ones: REFUSED_STREAM.
    pub streams_max: u32,
    /// A head: names and values with 4 bytes for each field, as HTTP/1 writes them; crumbs of Cookie are one field. More: 431. A compressed
    /// block longer than that by more than 64 KiB ends the connection, as do names and values of eight times as much that come out of one.
    pub head_bytes_max: usize,
    /// Fields in a head, or in trailers; crumbs of Cookie are one, and method, scheme and path none. More: 431.
    pub fields_max: usize,
    /// HPACK's dynamic table of what the client sends, in bytes.
    pub table_bytes_max: usize,
    /// What a client may send on a stream before the caller has taken it, in bytes. More: the stream is reset.
    pub stream_window: u32,
    /// What the window of a stream may grow to by what is lent to it, by which the next one grows along; see [`crate::Connection::lend`].
    pub stream_window_max: u32,
    /// The same of all streams together; at least 65,535. More: the connection ends.
    pub connection_window: u32,
    /// Is extended CONNECT (RFC 8441) offered?
    pub extended_connect: bool,
    /// From the start to the client's SETTINGS. Later: the connection ends.
    pub preface_time: Duration,
    /// From the first frame of a field block to its last. Later: the connection ends.
    pub block_time: Duration,
    /// From our SETTINGS to their acknowledgement, while anything is asked. Later: the connection ends.
    pub settings_time: Duration,
    /// The longest that a stream may have bytes to send and send none, since the client opens no window. Later: it is reset. The same
    /// of the connection's window: the connection ends.
    pub stall_time: Duration,
    /// Bytes a second that a client's window must let through on the average of a minute in which bytes wait for it. Less: as above.
    /// 0: no such rule.
    pub rate_min: u64,
    /// From the first GOAWAY of a drain to the last, if the client does not answer the PING between them.
    pub drain_time: Duration,
}

impl Limits {
    /// What is ordinary.
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
