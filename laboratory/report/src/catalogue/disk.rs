//! Figures 18 to 25 of paper 001: the disk, and the parts of response times; with the second versions of the last two.

use super::How::{
    Busy, DiskBusy, DiskRate, DiskTime, Over as OverSize, Part as InPart, Rate, Rise, Share, There,
    Time,
};
use super::{CONNECT, FigureSpec, How, by_disk, curve, figure, time};
use crate::cells::{OF_HITS, OF_MISSES};
use crate::kinds::{ALL, Count, Group, OWN_MISSES, Part, Timed};
use crate::model::{AxisKind, Form, Role};
use crate::sizes::Over;
use profile::Gauge;

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
    Share(MISS_STAGES[at], MISS_STAGES, OWN_MISSES)
}

const fn hit_share(at: usize) -> How {
    Share(HIT_STAGES[at], HIT_STAGES, ALONE)
}

const MEDIANS: &str = "The median of each stage in the sum of the medians. A stage that a request did not have counts 0; \
    stages overlap, so their sum is not the response time: the next figure has no overlap.";
const OF_OWN_MISSES: &str = "Of misses that asked a server themselves: collapsed requests wait for another's fetch, which has a figure of its own, \
    and hits at peers are no misses.";
const WHICH_DISK: &str = "Disk 1 is the first store of the configuration; Table 1 has its path. More than eight disks are only in the table of disks.";
const EXCLUSIVE: &str = "Means without overlap: where two stages overlap, the later has the time. The parts add up to the \
    response time. The paper could not show this.";

/// In the order of the paper.
pub(super) const DISK: &[FigureSpec] = &[
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
        "18b",
        "Disk traffic intensity by disk",
        "swap requests/s",
        "",
        &[WHICH_DISK],
        by_disk!(DiskRate),
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
            "Of all disks together. Swap-outs as in Figure 19. Dashed: as the kernel counts, summed over the stores; the next figure has each alone.",
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
    figure(
        "20b",
        "Disk utilisation by disk",
        Form::Lines,
        ("% of the time, as the kernel counts", AxisKind::Percent),
        "",
        &[
            WHICH_DISK,
            "With what other programs read and write. Stores on one device have one curve each, all alike.",
        ],
        by_disk!(DiskBusy),
    ),
    figure(
        "21",
        "Disk response time",
        Form::Lines,
        ("swap, ms", AxisKind::Log),
        "Swap-outs are somewhat faster than swap-ins: the system delays writes.",
        &[
            "By powers of ten, since handing over takes microseconds and a write waits for seconds. A swap-out is handed over when the store has it. It is on disk when the write with its last byte is done; most of that time it waits for the cluster to fill.",
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
                Role::Disk,
                Time(&[Timed::SwapOutOnDisk], ALL),
            )
            .dashed(),
        ],
    ),
    time(
        "21b",
        "Disk response time by disk",
        "swap-in, ms",
        "",
        &[
            WHICH_DISK,
            "Swap-ins. Reads and writes of each device are in the table of disks.",
        ],
        by_disk!(DiskTime),
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
        &[MEDIANS, OF_OWN_MISSES],
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
        &[EXCLUSIVE, OF_OWN_MISSES],
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
