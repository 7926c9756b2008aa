//! The enumerations by which everything is counted: groups of requests, times, counts, presences and parts.

use profile::{Class, Flags, Hierarchy, Record};

use crate::model::SourceReport;

macro_rules! set {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $each:literal])+ $value:ident,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $($(#[doc = $each])+ $value,)+ }

        impl $name {
            /// All values, in order.
            #[allow(dead_code)]
            pub(crate) const ALL: &'static [$name] = &[$($name::$value,)+];
            /// Number of values.
            pub(crate) const COUNT: usize = Self::ALL.len();
        }
    };
}

set! {
    /// Groups of requests. They do not overlap: each request is in one, tunnels in none.
    Group {
        /// A hit with status 200 for which no server was asked.
        OkAlone,
        /// A hit with status 200 for which a server was asked.
        OkAsked,
        /// An IMS hit.
        NotModified,
        /// Any other hit.
        OtherHit,
        /// A miss that asked a server itself.
        Miss,
        /// A miss that shared another request's fetch.
        Collapsed,
        /// A miss here, but a hit at the peer that was asked, or at a proxy beyond it.
        PeerHit,
        /// Requests that cannot be cached, and errors: only in *all*.
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
/// Hits at peers and at proxies beyond them.
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
/// All groups.
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

/// The cache that a hit elsewhere came from.
//= report section 5   Cache-Status gets a member at each hop, so the leaf's report knows at which level a hit was
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// A member of the cluster.
    Member,
    /// A sibling.
    Sibling,
    /// A parent.
    Parent,
    /// A proxy beyond the peer that was asked.
    Beyond,
}

impl Level {
    /// `None` for a hit of our own or no hit. A collapsed request did not ask anyone itself; an error or a tunnel is no document of a cache.
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
    /// Times, in microseconds.
    Timed {
        /// The request, from its beginning to the last byte of the answer.
        Response,
        /// `client-connect` of the first request of a connection.
        ClientConnect,
        /// From the first byte of a request to its parsed head.
        Head,
        /// `proxy-connect` over a new connection, or one of unknown age.
        ConnectNew,
        /// `proxy-connect` over a reused connection.
        ConnectReused,
        /// `server-reply`
        ServerReply,
        /// Sum of `proxy-connect` and `server-reply` of a request.
        ServerResponse,
        /// `proxy-reply`
        ProxyReply,
        /// `swap-in`
        SwapIn,
        /// `swap-out`: until the store has the whole response.
        SwapOut,
        /// From the beginning of `swap-out` until the write with its last byte was on the device.
        SwapOutOnDisk,
        /// The time after the first read, for swap-ins with two reads.
        SecondIn,
        /// `swap-in` with one read.
        OneRead,
        /// `swap-in` with two reads.
        TwoReads,
        /// `dns`
        Dns,
        /// `wait`
        Wait,
        /// `peer`
        Peer,
        /// A read of the device.
        DeviceRead,
        /// The part of a device read spent in the elevator.
        DeviceReadWait,
        /// A write of the device.
        DeviceWrite,
        /// Median lateness of a worker's timer, a value each second.
        LagP50,
        /// 99th percentile of that lateness.
        LagP99,
        /// Maximum of that lateness.
        LagMax,
    }
}

set! {
    /// Counts.
    Count {
        /// All requests, tunnels too.
        Requests,
        /// Requests without tunnels.
        Documents,
        /// Hits.
        Hits,
        /// Misses, including collapsed ones.
        Misses,
        /// Collapsed requests.
        Collapsed,
        /// Requests that could not be cached.
        Uncachable,
        /// Requests answered with an error of the proxy, or not at all.
        Errors,
        /// Tunnels.
        Tunnels,
        /// Requests aborted by client or server, without tunnels.
        Aborted,
        /// Requests aborted by the client.
        ClientAborted,
        /// Requests aborted by the server.
        OriginAborted,
        /// Hits in memory.
        MemoryHits,
        /// Hits on disk.
        DiskHits,
        /// Answers 304 from the cache.
        ImsHits,
        /// Hits on stored errors.
        NegativeHits,
        /// Hits that were revalidated or stale.
        OtherHits,
        /// Hits of a member of the cluster.
        MemberHits,
        /// Hits of a sibling.
        SiblingHits,
        /// Hits of a parent.
        ParentHits,
        /// Hits of a proxy beyond the peer that was asked.
        FartherHits,
        /// Bytes sent for these four counts.
        PeerHitBytes,
        /// Bytes sent for hits.
        HitBytes,
        /// Bytes sent, without tunnels.
        Bytes,
        /// Bytes received from servers.
        ServerBytes,
        /// Requests with a swap-in.
        SwapIns,
        /// Requests with a swap-out.
        SwapOuts,
        /// Responses that the store refused.
        NotKept,
        /// Misses with a DNS look-up, without collapsed ones.
        MissLookups,
        /// Misses whose DNS look-up took time, without collapsed ones.
        MissLookupsWaited,
        /// Misses without collapsed ones.
        OwnMisses,
        /// DNS look-ups.
        Lookups,
        /// DNS look-ups that led to no connection.
        LookupsFailed,
        /// Reads of the device.
        DeviceReads,
        /// Writes of the device.
        DeviceWrites,
        /// Bytes read from devices.
        DeviceReadBytes,
        /// Bytes written to devices.
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
    /// What can be present at a time, for concurrency.
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
        /// Connections to peers that had the object.
        OutPeer,
        /// Connections to servers for other requests.
        OutRest,
        /// Swap-ins.
        SwapIn,
        /// Swap-outs.
        SwapOut,
    }
}

set! {
    /// Parts of a request's time, without overlap: where two stages overlap, the time belongs to the later one in this order.
    Part {
        /// Until the head was parsed.
        ClientConnect,
        /// Asking siblings.
        Peer,
        /// Resolving the name.
        Dns,
        /// Connecting to the server.
        ProxyConnect,
        /// Waiting for another request's fetch.
        Wait,
        /// The server's reply.
        ServerReply,
        /// Reading from the disk.
        SwapIn,
        /// The reply to the client.
        ProxyReply,
        /// Time in no stage.
        Rest,
    }
}

/// Hits at peers and at proxies beyond them.
pub(crate) const PEER_HITS: &[Count] = &[
    Count::MemberHits,
    Count::SiblingHits,
    Count::ParentHits,
    Count::FartherHits,
];

/// Hits here and at peers.
pub(crate) const HITS_WITH_PEERS: &[Count] = &[
    Count::Hits,
    Count::MemberHits,
    Count::SiblingHits,
    Count::ParentHits,
    Count::FartherHits,
];

impl Count {
    /// The one class in which a request counts: the sum of all classes is [`Count::Requests`].
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

    /// The name in JSON: `memory_hits`.
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
    /// The value of a count over all slots.
    pub(crate) fn counted(&self, count: Count) -> u64 {
        self.counts.get(&count.name()).copied().unwrap_or(0)
    }

    /// The sum of several counts.
    pub(crate) fn counted_all(&self, counts: &[Count]) -> u64 {
        (counts.iter()).fold(0, |sum, &count| sum.saturating_add(self.counted(count)))
    }
}
