//! A cluster: proxies that know each other's contents, and purge together.
//!
//! Not known here: sockets, files. The protocol between members: `cluster`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::setting::{bytes, count, millis, seconds, settings, switch};
use crate::peers::PeerAddress;

/// The most other members of a cluster: a look-up returns a mask of 64 bits.
pub const MEMBERS_MAX: usize = 63;

settings! {
/// This member of a cluster, and its tasks there.
pub struct Cluster {
    /// Route requests by what other members hold. `loligo accelerate` always does.
    front: bool = switch(false),
    /// Bits of the filter for each object that a member may hold. 10: one look-up of 120 names a member in vain; 16: one of 2,000. A
    /// front keeps a filter for each member, and a member keeps a counter of eight bits for each bit of its own.
    bits_per_object: u8 = count(4, 10, 32),
    /// How often members are told what came and left. Longer saves messages, and misses what other fronts have stored meanwhile.
    update_period: Duration = millis(100, 1000, 7_200_000),
    /// The longest body that a front without a store keeps in memory to push it to a member. The fetch of a longer one is left to a member.
    push_max_bytes: u64 = bytes(0, 1 << 20, 64 << 20),
    /// Requests a second for one object from which on it is hot. 0: nothing is.
    hot_rate: u32 = count(0, 100, 1_000_000),
    /// Members that hold an object that is hot.
    hot_copies: u8 = count(1, 2, 16),
    /// The longest journal of purges that members which are away have not heard. Each name needs room once; with more names than that, a
    /// member that was away purges whole directories, and if even these are too many it empties its store.
    journal_max_bytes: u64 = bytes(64 << 10, 64 << 20, 16 << 30),
    /// How long a member that has just started, or was stopped for a while, waits for others to tell it what was purged meanwhile.
    /// Nothing stored before is served until they have, or until this is over.
    rejoin_wait: Duration = seconds(0, 10, 3600),
    /// How often the name of `discover` is asked who the members are.
    discover_every: Duration = millis(100, 5000, 600_000),
    /// A member that was discovered is forgotten when it has neither been in the name nor had a link for so long. Until then a purge names it as away.
    forget_after: Duration = seconds(1, 600, 604_800),
}
besides {
    /// Its name, unlike those of all other members.
    name: String = String::new(),
    /// Where other members connect.
    address: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    /// The secret that members prove to each other.
    key: ClusterKey = ClusterKey::default(),
    /// The other members, at most [`MEMBERS_MAX`].
    members: Vec<ClusterMember> = Vec::new(),
    /// A name whose addresses are those of all members, and the port where members connect; `None`: `members` is the list.
    discover: Option<PeerAddress> = None,
    /// How members tell each other their contents.
    hints: HintKind = HintKind::default(),
    /// How a front chooses the member that it asks.
    route: ClusterRoute = ClusterRoute::default(),
    /// Which member fetches an object that none holds.
    miss: ClusterMiss = ClusterMiss::default(),
    /// What a member does when it is asked for an object that it does not hold.
    false_hit: FalseHit = FalseHit::default(),
    /// How a front without a store chooses the member to push an object to.
    spread: Spread = Spread::default(),
    /// The most objects that a new object may evict from a front's memory; `None`: any number.
    replacement_burst: Option<u32> = Some(10),
    /// The directory of the purge journal; `None`: it is kept in memory only, and a restart drops all stored objects.
    state: Option<PathBuf> = None,
}
}

impl Cluster {
    /// The largest `replacement_burst`; the smallest is 1.
    pub const REPLACEMENT_BURST_MAX: u32 = 1_000_000;
}

/// Another member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterMember {
    /// Its name, as in its own configuration.
    pub name: String,
    /// Where it accepts connections of members.
    pub at: PeerAddress,
}

/// The secret of a cluster.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ClusterKey([u8; ClusterKey::BYTES]);

impl ClusterKey {
    /// Its length.
    pub const BYTES: usize = 32;

    /// A key of these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads a key of 64 hexadecimal digits; surrounding blanks are ignored.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * Self::BYTES {
            return None;
        }
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let mut key = [0; Self::BYTES];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(key))
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for ClusterKey {
    /// Does not show the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// How members tell each other their contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintKind {
    /// By a Bloom filter: a few bits per object, sometimes wrong.
    #[default]
    Bloom,
    /// By a table of all objects: eight bytes or more per object, as exact as the index.
    Directory,
}

/// How a front chooses the member to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClusterRoute {
    /// The member that holds the object.
    #[default]
    Hints,
    /// The member that the URL hashes to; one with a quarter more requests than its share is skipped.
    Hash,
    /// In turn.
    RoundRobin,
    /// The member with the lowest load.
    Least,
}

/// Which member fetches an object that none holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClusterMiss {
    /// The front that got the request.
    #[default]
    Own,
    /// The member that the URL hashes to, so that each object is fetched once.
    Home,
}

/// What a member does when it is asked for an object that it does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FalseHit {
    /// It fetches the object.
    #[default]
    Fetch,
    /// It reports the miss, and the front fetches.
    Return,
}

/// How a front without a store chooses the member to push an object to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// The less loaded of two members.
    #[default]
    Load,
    /// The member that the URL's server hashes to.
    Hash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_never_shown() {
        let key = ClusterKey::new(std::array::from_fn(|n| n as u8 * 7));
        assert_eq!(
            ClusterKey::from_hex(&format!(" {}\n", key.to_hex())),
            Some(key.clone())
        );
        assert_eq!(format!("{key:?}"), "ClusterKey");
        for text in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            assert_eq!(ClusterKey::from_hex(text), None, "{text}");
        }
    }
}
