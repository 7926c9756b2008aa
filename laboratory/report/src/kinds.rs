//! The small sets that everything is counted by: groups of requests, what is timed, what is counted, what comes and goes.

use profile::{Class, Flags, Hierarchy, Record};

use crate::model::SourceReport;

macro_rules! set {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $each:literal])+ $value:ident,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $($(#[doc = $each])+ $value,)+ }

        impl $name {
            /// All, in order.
            #[allow(dead_code)]
            pub(crate) const ALL: &'static [$name] = &[$($name::$value,)+];
            /// How many there are.
            pub(crate) const COUNT: usize = Self::ALL.len();
        }
    };
}

set! {
    /// Groups do not overlap: each request is in one, tunnels in none.
    Group {
        /// A hit with status 200, and no server was asked.
        OkAlone,
        /// A hit with status 200 for which a server was asked.
        OkAsked,
        /// An IMS hit.
        NotModified,
        /// Any other hit.
        OtherHit,
        /// A miss that asked a server itself.
        Miss,
        /// A miss that shared another's fetch.
        Collapsed,
        /// No hit here, but one of the peer that was asked, or of a proxy beyond it.
        PeerHit,
        /// What can not be cached, and errors: only in *all*.
        Rest,
    }
}

/// Hits.
pub(crate) const HITS: &[Group] = &[
    Group::OkAlone,
    Group::OkAsked,
    Group::NotModified,
    Group::OtherHit,
];
/// Hits with status 200.
//= paper 001 section 3   200 hit: a hit with a 200 reply code
pub(crate) const OK_HITS: &[Group] = &[Group::OkAlone, Group::OkAsked];
/// Misses.
pub(crate) const MISSES: &[Group] = &[Group::Miss, Group::Collapsed];
/// Misses that asked a server themselves.
pub(crate) const OWN_MISSES: &[Group] = &[Group::Miss];
/// Hits at peers and beyond.
pub(crate) const PEERS: &[Group] = &[Group::PeerHit];
/// Hits, here and at peers, and misses.
pub(crate) const CACHABLE: &[Group] = &[
    Group::OkAlone,
    Group::OkAsked,
    Group::NotModified,
    Group::OtherHit,
    Group::Miss,
    Group::Collapsed,
    Group::PeerHit,
];
/// All.
pub(crate) const ALL: &[Group] = Group::ALL;

impl Group {
    /// The group of a request; `None` for tunnels.
    pub(crate) fn of(record: &Record, asked_a_server: bool) -> Option<Group> {
        Some(match record.class {
            Class::Tunnel => return None,
            Class::ImsHit => Group::NotModified,
            class if class.is_hit() && record.status == 200 => {
                if asked_a_server {
                    Group::OkAsked
                } else {
                    Group::OkAlone
                }
            }
            class if class.is_hit() => Group::OtherHit,
            _ if Level::of(record).is_some() => Group::PeerHit,
            Class::Miss => Group::Miss,
            Class::Collapsed => Group::Collapsed,
            _ => Group::Rest,
        })
    }
}

/// Whose hit a request was that is none of our own.
//= report section 5   Cache-Status gets a member at each hop, so the leaf's report knows at which level a hit was
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// Of a member of the cluster.
    Member,
    /// Of a sibling.
    Sibling,
    /// Of a parent.
    Parent,
    /// Of a proxy beyond the one that was asked.
    Beyond,
}

impl Level {
    /// `None`: a hit of our own, or of nobody. A collapsed request asked nobody itself; an error or a tunnel is no document of a cache.
    pub(crate) fn of(record: &Record) -> Option<Level> {
        if !matches!(record.class, Class::Miss | Class::Uncachable) {
            return None;
        }
        let asked = match record.hierarchy {
            Hierarchy::Node => Level::Member,
            Hierarchy::Sibling => Level::Sibling,
            Hierarchy::Parent => Level::Parent,
            Hierarchy::None | Hierarchy::Direct => return None,
        };
        if record.flags.contains(Flags::PEER_HIT) {
            return Some(asked);
        }
        (record.flags.contains(Flags::FARTHER_HIT)).then_some(Level::Beyond)
    }
}

set! {
    /// What is timed, in microseconds.
    Timed {
        /// The request, from its beginning to the last byte of the answer.
        Response,
        /// `client-connect` of the first request of a connection.
        ClientConnect,
        /// From the first byte of a request to its parsed head.
        Head,
        /// `proxy-connect` over a new connection, or over one of which that is not known.
        ConnectNew,
        /// `proxy-connect` over a connection that was used before.
        ConnectReused,
        /// `server-reply`
        ServerReply,
        /// `proxy-connect` and `server-reply` of one request, added.
        ServerResponse,
        /// `proxy-reply`
        ProxyReply,
        /// `swap-in`
        SwapIn,
        /// `swap-out`: until the store had it.
        SwapOut,
        /// From the beginning of `swap-out` until the write with its last byte was on the device.
        SwapOutOnDisk,
        /// What came after the first read, of swap-ins with two.
        SecondIn,
        /// `swap-in` of those with one read.
        OneRead,
        /// `swap-in` of those with two reads.
        TwoReads,
        /// `dns`
        Dns,
        /// `wait`
        Wait,
        /// `peer`
        Peer,
        /// A read of the device.
        DeviceRead,
        /// What of it was spent in the elevator.
        DeviceReadWait,
        /// A write of the device.
        DeviceWrite,
        /// Medians of a worker's timer being late, a value each second.
        LagP50,
        /// 99th percentiles of it.
        LagP99,
        /// Maxima of it.
        LagMax,
    }
}

set! {
    /// What is counted.
    Count {
        /// All requests, tunnels too.
        Requests,
        /// Requests but tunnels.
        Documents,
        /// Hits.
        Hits,
        /// Misses, collapsed ones too.
        Misses,
        /// Collapsed requests.
        Collapsed,
        /// Could not be cached.
        Uncachable,
        /// Answered with an error of the proxy, or not at all.
        Errors,
        /// Tunnels.
        Tunnels,
        /// Broken off by client or server, tunnels not counted.
        Aborted,
        /// By the client.
        ClientAborted,
        /// By the server.
        OriginAborted,
        /// Hits in memory.
        MemoryHits,
        /// Hits on disk.
        DiskHits,
        /// 304 from the cache.
        ImsHits,
        /// Stored errors.
        NegativeHits,
        /// Revalidated or stale.
        OtherHits,
        /// Hits of a member of the cluster.
        MemberHits,
        /// Hits of a sibling.
        SiblingHits,
        /// Hits of a parent.
        ParentHits,
        /// Hits of a proxy beyond the peer that was asked.
        FartherHits,
        /// Bytes sent for these four.
        PeerHitBytes,
        /// Bytes sent for hits.
        HitBytes,
        /// Bytes sent, but in tunnels.
        Bytes,
        /// Bytes received from servers.
        ServerBytes,
        /// Requests with a swap-in.
        SwapIns,
        /// Requests with a swap-out.
        SwapOuts,
        /// Responses that the store refused.
        NotKept,
        /// Misses, not collapsed, that had a look-up.
        MissLookups,
        /// Misses, not collapsed, whose look-up took time.
        MissLookupsWaited,
        /// Misses, not collapsed.
        OwnMisses,
        /// Look-ups.
        Lookups,
        /// Look-ups that led to no connection.
        LookupsFailed,
        /// Reads of the device.
        DeviceReads,
        /// Writes of the device.
        DeviceWrites,
        /// Bytes read.
        DeviceReadBytes,
        /// Bytes written.
        DeviceWriteBytes,
        /// Objects in those writes.
        DeviceWriteRecords,
        /// Swap-outs that name a write.
        WritesNamed,
        /// Swap-outs whose write was found.
        WritesFound,
    }
}

set! {
    /// What comes and goes.
    Presence {
        /// Hits.
        Hit,
        /// Misses.
        Miss,
        /// Hits at peers.
        Peer,
        /// Other requests.
        Rest,
        /// Connections to servers for hits.
        OutHit,
        /// Connections to servers for misses.
        OutMiss,
        /// Connections to peers that had it.
        OutPeer,
        /// Connections to servers for others.
        OutRest,
        /// Swap-ins.
        SwapIn,
        /// Swap-outs.
        SwapOut,
    }
}

set! {
    /// Parts of a request's time, without overlap: where two stages overlap, the later in this order has it.
    Part {
        /// Until the head was parsed.
        ClientConnect,
        /// Asking siblings.
        Peer,
        /// Resolving the name.
        Dns,
        /// Connecting to the server.
        ProxyConnect,
        /// Waiting for another's fetch.
        Wait,
        /// The server's reply.
        ServerReply,
        /// Reading from the disk.
        SwapIn,
        /// The reply to the client.
        ProxyReply,
        /// No stage.
        Rest,
    }
}

/// Hits at peers and beyond.
pub(crate) const PEER_HITS: &[Count] = &[
    Count::MemberHits,
    Count::SiblingHits,
    Count::ParentHits,
    Count::FartherHits,
];

/// Hits of our own and of others.
pub(crate) const HITS_WITH_PEERS: &[Count] = &[
    Count::Hits,
    Count::MemberHits,
    Count::SiblingHits,
    Count::ParentHits,
    Count::FartherHits,
];

impl Count {
    /// The one class that a request counts in: their sum is [`Count::Requests`].
    pub(crate) fn class_of(record: &Record) -> Count {
        if let Some(level) = Level::of(record) {
            return match level {
                Level::Member => Count::MemberHits,
                Level::Sibling => Count::SiblingHits,
                Level::Parent => Count::ParentHits,
                Level::Beyond => Count::FartherHits,
            };
        }
        match record.class {
            Class::MemoryHit => Count::MemoryHits,
            Class::DiskHit => Count::DiskHits,
            Class::ImsHit => Count::ImsHits,
            Class::NegativeHit => Count::NegativeHits,
            Class::Revalidated | Class::Stale => Count::OtherHits,
            Class::Collapsed => Count::Collapsed,
            Class::Miss => Count::OwnMisses,
            Class::Uncachable => Count::Uncachable,
            Class::Tunnel => Count::Tunnels,
            Class::Error => Count::Errors,
        }
    }

    /// As JSON calls it: `memory_hits`.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }
}

impl SourceReport {
    /// A count of all slots.
    pub(crate) fn counted(&self, count: Count) -> u64 {
        self.counts.get(&count.name()).copied().unwrap_or(0)
    }

    /// Several, added.
    pub(crate) fn counted_all(&self, counts: &[Count]) -> u64 {
        (counts.iter()).fold(0, |sum, &count| sum.saturating_add(self.counted(count)))
    }
}
