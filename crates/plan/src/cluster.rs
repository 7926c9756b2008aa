//! A cluster: proxies that know what the others hold, and purge together.
//!
//! Not known here: sockets, files. What members say to each other: `cluster`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::setting::{bytes, count, millis, seconds, settings, switch};
use crate::peers::PeerAddress;

/// The most other members of a cluster: a look-up tells its answer in one word of 64 bits.
pub const MEMBERS_MAX: usize = 63;

settings! {
/// This member of a cluster, and what it does there.
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
    /// Where members connect.
    address: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    /// What members prove to each other that they have.
    key: ClusterKey = ClusterKey::default(),
    /// The other members, at most [`MEMBERS_MAX`].
    members: Vec<ClusterMember> = Vec::new(),
    /// A name whose addresses are those of all members, and the port where members connect; `None`: `members` is the list.
    discover: Option<PeerAddress> = None,
    /// How it is told what a member holds.
    hints: HintKind = HintKind::default(),
    /// How a front chooses the member that it asks.
    route: ClusterRoute = ClusterRoute::default(),
    /// Who fetches what no member holds.
    miss: ClusterMiss = ClusterMiss::default(),
    /// What a member does that was asked for what it does not hold.
    false_hit: FalseHit = FalseHit::default(),
    /// How a front without a store chooses the member that it pushes to.
    spread: Spread = Spread::default(),
    /// The most objects that one that comes may drive out of a front's memory; `None`: any number.
    replacement_burst: Option<u32> = Some(10),
    /// The directory of its journal; `None`: it is in memory only, and a start drops what was stored before.
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
    /// Its name, as it says itself.
    pub name: String,
    /// Where it lets members connect.
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

    /// Reads it as it is written: 64 hexadecimal digits, blanks around them.
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

    /// As it is written.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for ClusterKey {
    /// Keeps the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// How it is told what a member holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintKind {
    /// By a Bloom filter: some bits an object, now and then wrong.
    #[default]
    Bloom,
    /// By a table of every object: eight bytes and more an object, as exact as the index.
    Directory,
}

/// How a front chooses the member that it asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClusterRoute {
    /// The one that holds the object.
    #[default]
    Hints,
    /// Each URL has its member; one with a quarter more requests than its share is passed over.
    Hash,
    /// In turn.
    RoundRobin,
    /// The one with the least to do.
    Least,
}

/// Who fetches what no member holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClusterMiss {
    /// The front that was asked.
    #[default]
    Own,
    /// The member that the URL belongs to, so that each object is fetched once.
    Home,
}

/// What a member does that was asked for what it does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FalseHit {
    /// It fetches it.
    #[default]
    Fetch,
    /// It says so, and the front fetches.
    Return,
}

/// How a front without a store chooses the member that it pushes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// The one with less to do of two.
    #[default]
    Load,
    /// The one that the server of the URL belongs to.
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
