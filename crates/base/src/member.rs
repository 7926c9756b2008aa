//! Members of a cluster, named by number.
//!
//! Not known here: names and addresses of members, and the handshake of a connection.

use std::io;

use hints::handshake::{NoMessage, VERSION};

/// The number of another member, which is that of its place. The member has bit `1 << id` of a mask.
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
    /// The number of our listener; at the member it is the listener of the same name.
    pub listener: usize,
}

/// Why a connection to or from a member is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The connection broke, or the handshake took too long.
    #[error("the connection ended during the handshake: {0}")]
    Broken(io::ErrorKind),
    /// The other side does not speak the protocol of members.
    #[error("the other side is no member of a cluster")]
    Foreign,
    /// The other side speaks another version.
    #[error("the other side speaks version {0} of the handshake, and this one {VERSION}")]
    Version(u16),
    /// The other side has not proved that it has the key.
    #[error("the other side has not proved that it has this cluster's key")]
    NoProof,
    /// The member has another name than the one we called.
    #[error("the member at this address has another name")]
    OtherName,
    /// The other side's name is none of our members'.
    #[error("no member of this name is known")]
    Unknown,
    /// The other side is this process.
    #[error("the other side is this proxy itself")]
    Own,
    /// Another process has our name.
    #[error("another member has this one's name")]
    OwnName,
    /// The other side's name is not a valid name.
    #[error("the other side's name is no word of printable characters")]
    NoName,
    /// Another member than the one we called answers, and it has a place of its own.
    #[error("another member has this address now")]
    NotHere,
    /// No listener has that name.
    #[error("there is no listener of that name")]
    NoListener,
    /// The member is ending, or is overloaded.
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
    /// Is it a mistake, or an attempt to get in, rather than a connection that broke?
    pub fn is_told(self) -> bool {
        !matches!(self, Refusal::Broken(_) | Refusal::Busy | Refusal::Own)
    }
}
