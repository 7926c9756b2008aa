//! What came of asking an origin: when things happened, or why there is no answer.

use crate::clock::Instant;
use std::{io, sync::Arc};

use http1::Reject;
use profile::{Flags, Hierarchy};

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
    /// A tunnel was refused, with this status.
    #[error("the origin refused a tunnel with status {0}")]
    Refused(u16),
    /// Another proxy was asked in place of the origin.
    #[error("{}", error.to_string().replace("the origin", &format!("the parent {name}")))]
    Peer {
        /// Which.
        hop: Hop,
        /// Its name.
        name: Arc<str>,
        /// What went wrong there.
        error: Box<UpstreamError>,
    },
}

impl UpstreamError {
    /// The status owed to the client.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::Connect(error) => error.status(),
            UpstreamError::Timeout => 504,
            UpstreamError::Closed(_) | UpstreamError::Malformed(_) => 502,
            UpstreamError::Refused(status @ (403 | 503 | 504)) => *status,
            UpstreamError::Refused(_) => 502,
            UpstreamError::Peer { error, .. } => error.status(),
        }
    }

    /// A token for Cache-Status `detail`, from the registry of RFC 9209 where it has one.
    pub fn token(&self) -> &'static str {
        match self {
            UpstreamError::Connect(error) => error.detail_token(),
            UpstreamError::Closed(_) => "connection_terminated",
            UpstreamError::Timeout => "connection_read_timeout",
            UpstreamError::Malformed(_) => "http_protocol_error",
            UpstreamError::Refused(_) => "http_request_denied",
            UpstreamError::Peer { error, .. } => error.token(),
        }
    }

    /// Whom the request went to.
    pub fn hop(&self) -> Hop {
        match self {
            UpstreamError::Peer { hop, .. } => *hop,
            _ => Hop::DIRECT,
        }
    }
}

/// Whom a request went to next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The origin, a parent or a sibling.
    pub hierarchy: Hierarchy,
    /// The number of the parent or sibling.
    pub number: u8,
    /// What it says of the levels above us: [`Flags::PEER_HIT`], [`Flags::FARTHER_HIT`].
    pub flags: Flags,
    /// When siblings were asked, if they were: begin, first word, decision.
    pub siblings: Option<(Instant, Instant, Instant)>,
}

impl Hop {
    /// To the origin.
    pub const DIRECT: Hop = Hop {
        hierarchy: Hierarchy::Direct,
        number: 0,
        flags: Flags::NONE,
        siblings: None,
    };

    /// To the parent or sibling of this number. (`plan::PEERS_MAX` fits.)
    pub fn to(hierarchy: Hierarchy, number: usize) -> Hop {
        Hop {
            hierarchy,
            number: u8::try_from(number).unwrap_or(u8::MAX),
            ..Hop::DIRECT
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
    /// Whom the request went to.
    pub hop: Hop,
}

impl Moments {
    /// Everything happens now.
    pub fn new(now: Instant) -> Moments {
        Moments {
            dns: None,
            connect: None,
            asked: now,
            first: now,
            hop: Hop::DIRECT,
        }
    }
}
