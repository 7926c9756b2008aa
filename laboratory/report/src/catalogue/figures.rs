//! Figures 1 to 17 of paper 001: sizes, traffic, response times, hits, the network on both sides.
//!
//! The paper's findings are in our words.

use super::How::{Over as OverSize, Percent, Rate, Sizes, There, Time};
use super::{CONNECT, FigureSpec, curve, figure, time};
use crate::kinds::{
    ALL, Count, Group, HITS, HITS_WITH_PEERS, MISSES, OK_HITS, PEER_HITS, PEERS, Timed,
};
use crate::known::Known;
use crate::model::{AxisKind, Form, Role};
use crate::sizes::{Over, Size};

/// Curves of hits, misses, all.
macro_rules! three {
    ($timed:expr) => {
        &[
            curve("hit", "hits", Role::Hit, Time($timed, HITS)),
            curve("miss", "misses", Role::Miss, Time($timed, MISSES)),
            curve("all", "all", Role::All, Time($timed, ALL)),
        ]
    };
}

/// The same, and hits at peers.
macro_rules! four {
    ($timed:expr) => {
        &[
            curve("hit", "hits", Role::Hit, Time($timed, HITS)),
            curve("miss", "misses", Role::Miss, Time($timed, MISSES)),
            curve("all", "all", Role::All, Time($timed, ALL)),
            curve("peer", "hits at peers", Role::Peer, Time($timed, PEERS))
                .needs_also(Known::PEERS),
        ]
    };
}

/// Requests that no cache could answer.
const NOWHERE: &[Count] = &[Count::Misses, Count::Uncachable, Count::Errors];
const FIRST_ACCESS: &str = "Each document counts once for each curve, at its first access.";
/// In the order of the paper.
pub(super) const NETWORK: &[FigureSpec] = &[
    figure(
        "1",
        "Transfer sizes",
        Form::Cumulative,
        ("transfers up to that size, %", AxisKind::Percent),
        "More than half of the network transfers are below 1 KB, half of the disk transfers below 2 KB, 99 % below 64 KB; \
         what is read from disk is larger than hits, because many hits are 304.",
        &["Every access counts. Network: bytes sent; disk: the stored size."],
        &[
            curve("hit", "hits", Role::Hit, Sizes(&[Size::Hit])),
            curve("miss", "misses", Role::Miss, Sizes(&[Size::Miss])),
            curve(
                "all",
                "all",
                Role::All,
                Sizes(&[Size::Hit, Size::Miss, Size::Peer, Size::Rest]),
            ),
            curve(
                "swap-in",
                "swapped in",
                Role::SwapIn,
                Sizes(&[Size::SwapIn]),
            ),
            curve(
                "swap-out",
                "swapped out",
                Role::SwapOut,
                Sizes(&[Size::SwapOut]),
            ),
            curve(
                "swap-all",
                "swapped",
                Role::SwapAll,
                Sizes(&[Size::SwapIn, Size::SwapOut]),
            ),
        ],
    ),
    figure(
        "2",
        "File sizes",
        Form::Cumulative,
        ("files up to that size, %", AxisKind::Percent),
        "What is swapped out is larger than what is swapped in.",
        &[FIRST_ACCESS],
        &[
            curve("hit", "hits", Role::Hit, Sizes(&[Size::HitFile])),
            curve("miss", "misses", Role::Miss, Sizes(&[Size::MissFile])),
            curve(
                "swap-in",
                "swapped in",
                Role::SwapIn,
                Sizes(&[Size::SwapInFile]),
            ),
            curve(
                "swap-out",
                "swapped out",
                Role::SwapOut,
                Sizes(&[Size::SwapOutFile]),
            ),
        ],
    ),
    time(
        "3",
        "Traffic intensity",
        "requests/s",
        "The root proxy is loaded all day, the others have bell-shaped curves.",
        &["All has uncachable requests, tunnels and errors, too."],
        &[
            curve("all", "all", Role::All, Rate(&[Count::Requests])),
            curve("miss", "misses", Role::Miss, Rate(&[Count::Misses])),
            curve("hit", "hits", Role::Hit, Rate(&[Count::Hits])),
            curve("peer", "hits at peers", Role::Peer, Rate(PEER_HITS)),
        ],
    ),
    time(
        "4",
        "Concurrent requests",
        "requests in the proxy",
        "Up to seven misses for each hit; at the peak of the day twice as many on the root proxy.",
        &["The median of the number over the slot's time. Tunnels are left out."],
        &[
            curve("all", "all", Role::All, There(0, 50)),
            curve("miss", "misses", Role::Miss, There(1, 50)),
            curve("hit", "hits", Role::Hit, There(2, 50)),
            curve("peer", "hits at peers", Role::Peer, There(9, 50)),
        ],
    ),
    figure(
        "5",
        "Request response time",
        Form::Lines,
        ("response time, ms", AxisKind::Log),
        "A hit takes a fifth of the time of a miss; the cache saves 28 % (root) to 60 % (leaf).",
        &[
            "By powers of ten: a hit in memory takes a thousandth of a miss, and would lie on the floor of the paper's linear axis.",
        ],
        four!(&[Timed::Response]),
    ),
    figure(
        "6",
        "Request response time over transfer size",
        Form::OverSize,
        ("response time, ms", AxisKind::Log),
        "Hits save time up to the size of the TCP send buffer (16 or 32 KB), little beyond.",
        &[],
        &[
            curve("hit", "hits", Role::Hit, OverSize(Over::Hit)),
            curve("miss", "misses", Role::Miss, OverSize(Over::Miss)),
        ],
    ),
    figure(
        "7",
        "Hit ratios",
        Form::Lines,
        ("%", AxisKind::Percent),
        "The document hit ratio is 7 to 9 points above the byte hit ratio; neither follows the load.",
        &[
            "Of all requests but tunnels: uncachable ones and errors are below the line. With peers: hits of a parent, a sibling or a member \
             that was asked, and of proxies beyond it, count as hits.",
        ],
        &[
            curve(
                "document",
                "documents (DHR)",
                Role::Hit,
                Percent(&[Count::Hits], &[Count::Documents]),
            ),
            curve(
                "byte",
                "bytes (BHR)",
                Role::All,
                Percent(&[Count::HitBytes], &[Count::Bytes]),
            ),
            curve(
                "document-peers",
                "documents, with peers",
                Role::Hit,
                Percent(HITS_WITH_PEERS, &[Count::Documents]),
            )
            .dashed(),
            curve(
                "byte-peers",
                "bytes, with peers",
                Role::All,
                Percent(&[Count::HitBytes, Count::PeerHitBytes], &[Count::Bytes]),
            )
            .dashed(),
        ],
    ),
    figure(
        "8",
        "Hits classification",
        Form::Lines,
        ("% of all hits", AxisKind::Percent),
        "Disk and IMS hits are over 90 %; IMS hits are 14 % on leaves, 23 % on the top level, 28 % on the root.",
        &[
            "Of this proxy's own hits; the next figure has those of its peers. Other: revalidated and stale.",
        ],
        &[
            curve(
                "memory",
                "memory",
                Role::Memory,
                Percent(&[Count::MemoryHits], &[Count::Hits]),
            ),
            curve(
                "disk",
                "disk",
                Role::Disk,
                Percent(&[Count::DiskHits], &[Count::Hits]),
            ),
            curve(
                "ims",
                "IMS (304)",
                Role::Ims,
                Percent(&[Count::ImsHits], &[Count::Hits]),
            ),
            curve(
                "negative",
                "negative",
                Role::Negative,
                Percent(&[Count::NegativeHits], &[Count::Hits]),
            ),
            curve(
                "other",
                "other",
                Role::Other,
                Percent(&[Count::OtherHits], &[Count::Hits]),
            ),
        ],
    ),
    // Roles are used for different colours.
    figure(
        "8b",
        "Hits by level",
        Form::Stacked,
        ("% of documents", AxisKind::Percent),
        "",
        &[
            "Each document once, at the cache nearest to the client that had it: this one, the peer that it asked, a proxy beyond that \
             peer, or none. By the peer's Cache-Status, X-Cache or, in Squid's log, hierarchy code.",
        ],
        &[
            curve(
                "here",
                "this proxy",
                Role::Hit,
                Percent(&[Count::Hits], &[Count::Documents]),
            )
            .needs_also(Known::PEERS),
            curve(
                "member",
                "a member of the cluster",
                Role::Peer,
                Percent(&[Count::MemberHits], &[Count::Documents]),
            ),
            curve(
                "sibling",
                "a sibling",
                Role::Wait,
                Percent(&[Count::SiblingHits], &[Count::Documents]),
            ),
            curve(
                "parent",
                "a parent",
                Role::All,
                Percent(&[Count::ParentHits], &[Count::Documents]),
            ),
            curve(
                "beyond",
                "a proxy beyond the peer",
                Role::Reused,
                Percent(&[Count::FartherHits], &[Count::Documents]),
            ),
            curve(
                "nowhere",
                "no cache",
                Role::Miss,
                Percent(NOWHERE, &[Count::Documents]),
            )
            .needs_also(Known::PEERS),
        ],
    ),
    time(
        "9",
        "Concurrent outgoing connections",
        "connections",
        "For misses nearly as many as concurrent misses; for hits far fewer than concurrent hits.",
        &[
            "From the beginning of proxy-connect, or of server-reply without it, to the end of server-reply. Idle connections do not count.",
        ],
        &[
            curve("all", "all", Role::All, There(3, 50)),
            curve("miss", "misses", Role::Miss, There(4, 50)),
            curve("hit", "hits", Role::Hit, There(5, 50)),
            curve("peer", "hits at peers", Role::Peer, There(10, 50)),
        ],
    ),
    time(
        "10",
        "Proxy connect time",
        "proxy connect, ms",
        "It takes longer to ask whether a hit is still valid than to send a miss.",
        &["Of requests that made or took a connection. DNS is not in it."],
        &[
            curve("hit", "hits", Role::Hit, Time(CONNECT, HITS)),
            curve("miss", "misses", Role::Miss, Time(CONNECT, MISSES)),
            curve("all", "all", Role::All, Time(CONNECT, ALL)),
            curve(
                "new",
                "new connections",
                Role::ProxyConnect,
                Time(&[Timed::ConnectNew], ALL),
            )
            .needs_also(Known::REUSE)
            .dashed(),
            curve(
                "reused",
                "connections used before",
                Role::Reused,
                Time(&[Timed::ConnectReused], ALL),
            )
            .needs_also(Known::REUSE)
            .dashed(),
        ],
    ),
    time(
        "11",
        "Server reply time",
        "server reply, ms",
        "For hits 40 % (root), 60 % (top) and 70 % (leaf) shorter: the answer is a small 304.",
        &["Of hits at peers: the peer's reply."],
        four!(&[Timed::ServerReply]),
    ),
    figure(
        "12",
        "Server reply time over object size",
        Form::OverSize,
        ("server reply, ms", AxisKind::Log),
        "Flat for hits: a 304 is as small for a large object.",
        &[],
        &[
            curve("hit", "hits", Role::Hit, OverSize(Over::ReplyHit)),
            curve("miss", "misses", Role::Miss, OverSize(Over::ReplyMiss)),
        ],
    ),
    time(
        "13",
        "Server response time",
        "proxy connect + server reply, ms",
        "Though they connect slower, hits are done with the server sooner; least so on the root.",
        &["Added for each request, of those that got a reply."],
        three!(&[Timed::ServerResponse]),
    ),
    time(
        "14",
        "Client connect time",
        "client connect, ms",
        "Longer for hits on leaves, shorter on the root; it grows with the load.",
        &["From accept() to the parsed head, of the first request of each connection."],
        &[
            curve(
                "hit",
                "hits",
                Role::Hit,
                Time(&[Timed::ClientConnect], HITS),
            ),
            curve(
                "miss",
                "misses",
                Role::Miss,
                Time(&[Timed::ClientConnect], MISSES),
            ),
            curve("all", "all", Role::All, Time(&[Timed::ClientConnect], ALL)),
            curve(
                "head",
                "all, from the first byte",
                Role::Rest,
                Time(&[Timed::Head], ALL),
            )
            .dashed(),
        ],
    ),
    time(
        "15",
        "Proxy reply time",
        "proxy reply, ms",
        "Shorter for hits, many of which are 304.",
        &[],
        three!(&[Timed::ProxyReply]),
    ),
    time(
        "16",
        "Proxy reply time, in detail",
        "proxy reply, ms",
        "304s take longer only when the clients' line is congested.",
        &[],
        &[
            curve(
                "hit-304",
                "304 hits",
                Role::Ims,
                Time(&[Timed::ProxyReply], &[Group::NotModified]),
            ),
            curve(
                "hit-200",
                "200 hits",
                Role::Hit,
                Time(&[Timed::ProxyReply], OK_HITS),
            ),
            curve(
                "miss",
                "misses",
                Role::Miss,
                Time(&[Timed::ProxyReply], MISSES),
            ),
        ],
    ),
    figure(
        "17",
        "Proxy reply time over reply size",
        Form::OverSize,
        ("proxy reply, ms", AxisKind::Log),
        "Large replies take several network I/Os, of hits and misses alike.",
        &[],
        &[
            curve("hit-200", "200 hits", Role::Hit, OverSize(Over::SentHit)),
            curve("miss", "misses", Role::Miss, OverSize(Over::SentMiss)),
        ],
    ),
];
