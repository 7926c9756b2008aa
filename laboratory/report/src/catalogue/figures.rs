//! The 25 figures of paper 001, and the second versions of the last two beside them.
//!
//! What the paper saw is told in our words.

use super::How::{
    Busy, Over as OverSize, Part as InPart, Percent, Rate, Rise, Share, Sizes, There, Time,
};
use super::{CurveSpec, FigureSpec, How, curve};
use crate::cells::{OF_HITS, OF_MISSES};
use crate::kinds::{ALL, Count, Group, HITS, MISSES, OK_HITS, Part, Timed};
use crate::known::Known;
use crate::model::{AxisKind, Form, Role};
use crate::sizes::{Over, Size};
use profile::Gauge;

const CONNECT: &[Timed] = &[Timed::ConnectNew, Timed::ConnectReused];

const fn time(
    id: &'static str,
    title: &'static str,
    label: &'static str,
    paper_saw: &'static str,
    notes: &'static [&'static str],
    curves: &'static [CurveSpec],
) -> FigureSpec {
    figure(
        id,
        title,
        Form::Lines,
        (label, AxisKind::Linear),
        paper_saw,
        notes,
        curves,
    )
}

const fn figure(
    id: &'static str,
    title: &'static str,
    form: Form,
    (label, kind): (&'static str, AxisKind),
    paper_saw: &'static str,
    notes: &'static [&'static str],
    curves: &'static [CurveSpec],
) -> FigureSpec {
    FigureSpec {
        id,
        title,
        form,
        label,
        kind,
        paper_saw,
        notes,
        curves,
    }
}

/// Hits, misses, all.
macro_rules! three {
    ($timed:expr) => {
        &[
            curve("hit", "hits", Role::Hit, Time($timed, HITS)),
            curve("miss", "misses", Role::Miss, Time($timed, MISSES)),
            curve("all", "all", Role::All, Time($timed, ALL)),
        ]
    };
}

const MISS_STAGES: &[&[Timed]] = &[
    &[Timed::ClientConnect],
    CONNECT,
    &[Timed::ServerReply],
    &[Timed::ProxyReply],
];
const HIT_STAGES: &[&[Timed]] = &[
    &[Timed::ClientConnect],
    &[Timed::SwapIn],
    &[Timed::ProxyReply],
];
const ALONE: &[Group] = &[Group::OkAlone];

const fn miss_share(at: usize) -> How {
    Share(MISS_STAGES[at], MISS_STAGES, MISSES)
}

const fn hit_share(at: usize) -> How {
    Share(HIT_STAGES[at], HIT_STAGES, ALONE)
}

const FIRST_ACCESS: &str = "Each document counts once for each curve, at its first access.";
const MEDIANS: &str = "The median of each stage in the sum of the medians. A stage that a request did not have counts 0; \
    stages overlap, so their sum is not the response time: the next figure has no overlap.";
const EXCLUSIVE: &str = "Means without overlap: where two stages overlap, the later has the time. The parts add up to the \
    response time. The paper could not show this.";

/// In the order of the paper.
pub(super) const PAPER: &[FigureSpec] = &[
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
                Sizes(&[Size::Hit, Size::Miss, Size::Rest]),
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
        ],
    ),
    time(
        "5",
        "Request response time",
        "response time, ms",
        "A hit takes a fifth of the time of a miss; the cache saves 28 % (root) to 60 % (leaf).",
        &[],
        three!(&[Timed::Response]),
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
        &["Of all requests but tunnels: uncachable ones and errors are below the line."],
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
        ],
    ),
    figure(
        "8",
        "Hits classification",
        Form::Lines,
        ("% of all hits", AxisKind::Percent),
        "Disk and IMS hits are over 90 %; IMS hits are 14 % on leaves, 23 % on the top level, 28 % on the root.",
        &["Other: revalidated and stale."],
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
        &[],
        three!(&[Timed::ServerReply]),
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
    time(
        "18",
        "Disk traffic intensity",
        "swap requests/s",
        "Which of the two is more changes over the day on every proxy.",
        &["Dashed: reads and writes of the device. One write holds many objects."],
        &[
            curve(
                "all",
                "all",
                Role::SwapAll,
                Rate(&[Count::SwapIns, Count::SwapOuts]),
            ),
            curve("swap-in", "swap-in", Role::SwapIn, Rate(&[Count::SwapIns])),
            curve(
                "swap-out",
                "swap-out",
                Role::SwapOut,
                Rate(&[Count::SwapOuts]),
            ),
            curve(
                "device-reads",
                "reads of the device",
                Role::SwapIn,
                Rate(&[Count::DeviceReads]),
            )
            .dashed(),
            curve(
                "device-writes",
                "writes of the device",
                Role::SwapOut,
                Rate(&[Count::DeviceWrites]),
            )
            .dashed(),
        ],
    ),
    time(
        "19",
        "Concurrent disk requests",
        "swap requests at a time",
        "A sharp rise at the peak, more than the rate of swap requests rises: queues.",
        &[
            "A swap-out counts while the disk writes its last byte, or, where that is not known, until the store has it.",
        ],
        &[
            curve("all", "all, median", Role::SwapAll, There(6, 50)),
            curve("all-p75", "all, 75 %", Role::SwapAll, There(6, 75)).dashed(),
            curve("swap-in", "swap-in, median", Role::SwapIn, There(7, 50)),
            curve("swap-in-p75", "swap-in, 75 %", Role::SwapIn, There(7, 75)).dashed(),
            curve("swap-out", "swap-out, median", Role::SwapOut, There(8, 50)),
            curve(
                "swap-out-p75",
                "swap-out, 75 %",
                Role::SwapOut,
                There(8, 75),
            )
            .dashed(),
            curve(
                "device",
                "queue of the device, mean",
                Role::Device,
                Rise(&[Gauge::DeviceQueueUs], 1e-6),
            )
            .dashed(),
        ],
    ),
    figure(
        "20",
        "Disk utilisation",
        Form::Lines,
        ("% of the time with a swap request", AxisKind::Percent),
        "Often 90 % on the root and top level, at most 40 % on leaves.",
        &[
            "Of all disks together. Swap-outs as in Figure 19. Dashed: as the kernel counts, summed over the disks.",
        ],
        &[
            curve("all", "all", Role::SwapAll, Busy(6)),
            curve("swap-in", "swap-in", Role::SwapIn, Busy(7)),
            curve("swap-out", "swap-out", Role::SwapOut, Busy(8)),
            curve(
                "device",
                "the device",
                Role::Device,
                Rise(&[Gauge::DeviceBusyUs], 1e-4),
            )
            .dashed(),
        ],
    ),
    time(
        "21",
        "Disk response time",
        "swap, ms",
        "Swap-outs are somewhat faster than swap-ins: the system delays writes.",
        &[
            "A swap-out is handed over when the store has it. It is on disk when the write with its last byte is done; most of that time it waits for the cluster to fill.",
        ],
        &[
            curve(
                "swap-in",
                "swap-in",
                Role::SwapIn,
                Time(&[Timed::SwapIn], ALL),
            ),
            curve(
                "swap-out",
                "swap-out, handed over",
                Role::SwapOut,
                Time(&[Timed::SwapOut], ALL),
            ),
            curve(
                "swap-out-disk",
                "swap-out, on disk",
                Role::SwapOut,
                Time(&[Timed::SwapOutOnDisk], ALL),
            )
            .dashed(),
        ],
    ),
    figure(
        "22",
        "Disk response time anatomy",
        Form::OverSize,
        ("time, ms", AxisKind::Log),
        "Steps of one page (8 KB) in the total, and a first delay that does not depend on the size.",
        &["Table 22 has the paper's model of one I/O and its overhead."],
        &[
            curve(
                "swap-in",
                "swap-in, total",
                Role::SwapIn,
                OverSize(Over::In),
            ),
            curve(
                "swap-in-first",
                "swap-in, first page",
                Role::SwapIn,
                OverSize(Over::InFirst),
            )
            .dashed(),
            curve(
                "swap-out",
                "swap-out, total",
                Role::SwapOut,
                OverSize(Over::Out),
            ),
            curve(
                "swap-out-first",
                "swap-out, first page",
                Role::SwapOut,
                OverSize(Over::OutFirst),
            )
            .dashed(),
        ],
    ),
    time(
        "23",
        "Second I/O duration",
        "total - first of swaps with two I/Os, ms",
        "The same peaks as the whole response time, so queues are the reason.",
        &["Swap-ins only: a swap-out is part of one write, whatever its size."],
        &[curve(
            "swap-in",
            "swap-in",
            Role::SwapIn,
            Time(&[Timed::SecondIn], ALL),
        )],
    ),
    figure(
        "24",
        "Proxy response time components (misses)",
        Form::Stacked,
        ("% of the sum of the stages", AxisKind::Percent),
        "The server's reply is 50 to 60 %, less at the peak; client connect is at most 10 % and doubles at the peak; proxy reply is constant.",
        &[MEDIANS],
        &[
            curve(
                "client-connect",
                "client connect",
                Role::ClientConnect,
                miss_share(0),
            ),
            curve(
                "proxy-connect",
                "proxy connect",
                Role::ProxyConnect,
                miss_share(1),
            ),
            curve(
                "server-reply",
                "server reply",
                Role::ServerReply,
                miss_share(2),
            ),
            curve(
                "proxy-reply",
                "proxy reply",
                Role::ProxyReply,
                miss_share(3),
            ),
        ],
    ),
    figure(
        "24b",
        "Response time of misses, without overlap",
        Form::Stacked,
        ("% of the response time", AxisKind::Percent),
        "",
        &[EXCLUSIVE],
        &[
            curve(
                "client-connect",
                "client connect",
                Role::ClientConnect,
                InPart(Part::ClientConnect, OF_MISSES),
            ),
            curve(
                "peer",
                "asking siblings",
                Role::Peer,
                InPart(Part::Peer, OF_MISSES),
            ),
            curve("dns", "DNS", Role::Dns, InPart(Part::Dns, OF_MISSES)),
            curve(
                "proxy-connect",
                "proxy connect",
                Role::ProxyConnect,
                InPart(Part::ProxyConnect, OF_MISSES),
            ),
            curve(
                "wait",
                "waiting for another's fetch",
                Role::Wait,
                InPart(Part::Wait, OF_MISSES),
            ),
            curve(
                "server-reply",
                "server reply",
                Role::ServerReply,
                InPart(Part::ServerReply, OF_MISSES),
            ),
            curve(
                "swap-in",
                "reading the disk",
                Role::SwapIn,
                InPart(Part::SwapIn, OF_MISSES),
            ),
            curve(
                "proxy-reply",
                "proxy reply",
                Role::ProxyReply,
                InPart(Part::ProxyReply, OF_MISSES),
            ),
            curve(
                "rest",
                "none of these",
                Role::Rest,
                InPart(Part::Rest, OF_MISSES),
            ),
        ],
    ),
    figure(
        "25",
        "Proxy response time components (hits)",
        Form::Stacked,
        ("% of the sum of the stages", AxisKind::Percent),
        "The disk is about 30 %; on the top level all three are equal.",
        &[
            MEDIANS,
            "Hits with status 200 for which no server was asked.",
        ],
        &[
            curve(
                "client-connect",
                "client connect",
                Role::ClientConnect,
                hit_share(0),
            ),
            curve("swap-in", "swap-in", Role::SwapIn, hit_share(1)),
            curve("proxy-reply", "proxy reply", Role::ProxyReply, hit_share(2)),
        ],
    ),
    figure(
        "25b",
        "Response time of hits, without overlap",
        Form::Stacked,
        ("% of the response time", AxisKind::Percent),
        "",
        &[
            EXCLUSIVE,
            "Hits with status 200 for which no server was asked.",
        ],
        &[
            curve(
                "client-connect",
                "client connect",
                Role::ClientConnect,
                InPart(Part::ClientConnect, OF_HITS),
            ),
            curve(
                "swap-in",
                "swap-in",
                Role::SwapIn,
                InPart(Part::SwapIn, OF_HITS),
            ),
            curve(
                "proxy-reply",
                "proxy reply",
                Role::ProxyReply,
                InPart(Part::ProxyReply, OF_HITS),
            ),
            curve(
                "rest",
                "none of these",
                Role::Rest,
                InPart(Part::Rest, OF_HITS),
            ),
        ],
    ),
];
