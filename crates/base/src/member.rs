//! Members of a cluster as everybody else names them: by number.
//!
//! Not known here: who they are, and how a connection to one begins.

use std::io;

use hints::handshake::{NoMessage, VERSION};

/// The number of another member, that of its place: bit `1 << id` of a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MemberId(pub u8);

impl MemberId {
    /// Its bit in a mask of members.
    pub fn bit(self) -> u64 {
        1 << self.0
    }
}

/// A member's listener, as a place to send requests to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OfMember {
    /// The member.
    pub id: MemberId,
    /// The number of our listener; the member's is that of the same name.
    pub listener: usize,
}

/// Why a connection is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It broke, or took too long.
    #[error("the connection ended during the handshake: {0}")]
    Broken(io::ErrorKind),
    /// The other side does not speak as a member does.
    #[error("the other side is no member of a cluster")]
    Foreign,
    /// It speaks another version.
    #[error("the other side speaks version {0} of the handshake, and this one {VERSION}")]
    Version(u16),
    /// It has not proved that it has the key.
    #[error("the other side has not proved that it has this cluster's key")]
    NoProof,
    /// It has another name than it was called by.
    #[error("the member at this address has another name")]
    OtherName,
    /// It calls itself by a name that is none of our members'.
    #[error("no member of this name is known")]
    Unknown,
    /// It is this process.
    #[error("the other side is this proxy itself")]
    Own,
    /// Another process has our name.
    #[error("another member has this one's name")]
    OwnName,
    /// Its name cannot be one.
    #[error("the other side's name is no word of printable characters")]
    NoName,
    /// It is another one than was called, and has a place of its own.
    #[error("another member has this address now")]
    NotHere,
    /// There is no listener of that name.
    #[error("there is no listener of that name")]
    NoListener,
    /// It ends, or has too much to do.
    #[error("the member takes no connections now")]
    Busy,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Broken(error.kind())
    }
}

impl From<NoMessage> for Refusal {
    fn from(none: NoMessage) -> Self {
        match none {
            NoMessage::Foreign | NoMessage::Malformed => Refusal::Foreign,
            NoMessage::Version(version) => Refusal::Version(version),
        }
    }
}

impl Refusal {
    /// Does it speak of a mistake, or of an attempt to get in, rather than of a connection that broke?
    pub fn is_told(self) -> bool {
        !matches!(self, Refusal::Broken(_) | Refusal::Busy | Refusal::Own)
    }
}
