//! Facts of a request, as bits.

use std::ops::{BitOr, BitOrAssign};

/// A set of facts about a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// The client's connection has carried an earlier request.
    pub const REUSED_CLIENT: Self = Self(1);
    /// The connection to the server has carried an earlier request.
    pub const REUSED_SERVER: Self = Self(1 << 1);
    /// The client left before the end of the answer, or was disconnected because it did not read.
    pub const CLIENT_ABORTED: Self = Self(1 << 2);
    /// The server's answer ended early, or did not come although there was a connection. (Without a connection, a stage shows the failure.)
    /// Not set if a complete stale answer was sent in its place.
    pub const ORIGIN_ABORTED: Self = Self(1 << 3);
    /// The server was asked whether the stored response is still valid.
    pub const VALIDATED: Self = Self(1 << 4);
    /// The answer was stale.
    pub const STALE: Self = Self(1 << 5);
    /// The client asked for a range.
    pub const RANGE: Self = Self(1 << 6);
    /// The client's connection is encrypted.
    pub const TLS_CLIENT: Self = Self(1 << 7);
    /// The connection to the server is encrypted.
    pub const TLS_SERVER: Self = Self(1 << 8);
    /// The response could have been stored, but the store refused it: no room, not admitted, or a disk that fails.
    pub const NOT_KEPT: Self = Self(1 << 9);

    /// The parent or sibling that was asked had the answer in its cache, according to its Cache-Status (RFC 9211).
    pub const PEER_HIT: Self = Self(1 << 10);
    /// A proxy beyond the parent had the answer in its cache.
    pub const FARTHER_HIT: Self = Self(1 << 11);

    /// No flag.
    pub const NONE: Self = Self(0);

    /// Every flag with its name in dumps and exports.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::REUSED_CLIENT, "reused_client"),
        (Self::REUSED_SERVER, "reused_server"),
        (Self::CLIENT_ABORTED, "client_aborted"),
        (Self::ORIGIN_ABORTED, "origin_aborted"),
        (Self::VALIDATED, "validated"),
        (Self::STALE, "stale"),
        (Self::RANGE, "range"),
        (Self::TLS_CLIENT, "tls_client"),
        (Self::TLS_SERVER, "tls_server"),
        (Self::NOT_KEPT, "not_kept"),
        (Self::PEER_HIT, "peer_hit"),
        (Self::FARTHER_HIT, "farther_hit"),
    ];

    /// Are all of `other` set?
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is one of `other` set?
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags and `other`, if `is_so`.
    #[must_use]
    pub const fn with(self, other: Self, is_so: bool) -> Self {
        match is_so {
            true => Self(self.0 | other.0),
            false => self,
        }
    }

    /// These flags without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits, as kept in a record.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The set with these bits; `None` if one of them is unknown.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let known = (1 << Self::ALL.len()) - 1;
        (bits & !known == 0).then_some(Self(bits as u16))
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
