//! What came of asking an origin: when things happened, or why there is no answer.

use crate::clock::Instant;
use std::io;

use http1::Reject;

use crate::origin::ConnectError;

/// Interim responses before one answer; with more it counts as malformed.
pub const INTERIM_MAX: usize = 16;

/// Why there is no (complete) answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// Closed or reset before the answer was complete.
    #[error("the origin closed the connection: {0}")]
    Closed(io::Error),
    /// Nothing came for too long.
    #[error("the origin did not answer in time")]
    Timeout,
    /// The answer breaks RFC 9112.
    #[error("the origin's answer is malformed: {0}")]
    Malformed(#[from] Reject),
}

impl UpstreamError {
    /// The status owed to the client.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::Connect(error) => error.status(),
            UpstreamError::Timeout => 504,
            UpstreamError::Closed(_) | UpstreamError::Malformed(_) => 502,
        }
    }

    /// A token for Cache-Status `detail`, from the registry of RFC 9209 where it has one.
    pub fn token(&self) -> &'static str {
        match self {
            UpstreamError::Connect(error) => error.detail_token(),
            UpstreamError::Closed(_) => "connection_terminated",
            UpstreamError::Timeout => "connection_read_timeout",
            UpstreamError::Malformed(_) => "http_protocol_error",
        }
    }
}

/// Moments of a fetch, for the profile.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// DNS: begin and end, if a name was looked up.
    pub dns: Option<(Instant, Instant)>,
    /// Connect: begin and end, if a connection was made.
    pub connect: Option<(Instant, Instant)>,
    /// Request written.
    pub asked: Instant,
    /// First byte of the head.
    pub first: Instant,
}

impl Moments {
    /// Everything happens now.
    pub fn new(now: Instant) -> Moments {
        Moments {
            dns: None,
            connect: None,
            asked: now,
            first: now,
        }
    }
}
