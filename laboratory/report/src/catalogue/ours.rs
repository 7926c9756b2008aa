//! Figures that paper 001 does not have; its section 7 regrets that most of them are missing.

use super::How::{Level, Mean, Megabytes, Percent, Rise, Time};
use super::{CurveSpec, FigureSpec, curve, figure};
use crate::kinds::{ALL, Count, Timed};
use crate::model::{AxisKind, Form, Role};
use profile::Gauge;

const fn lines(
    id: &'static str,
    title: &'static str,
    label: &'static str,
    notes: &'static [&'static str],
    curves: &'static [CurveSpec],
) -> FigureSpec {
    figure(
        id,
        title,
        Form::Lines,
        (label, AxisKind::Linear),
        "",
        notes,
        curves,
    )
}

//= paper 001 section 7   not measured there: the system's own counters, ICP, DNS, the delay of the select loop
/// Figures after those of the paper.
pub(super) const OURS: &[FigureSpec] = &[
    lines(
        "shares",
        "Shares of requests",
        "% of all requests",
        &["Aborted requests are in their classes, too."],
        &[
            curve(
                "uncachable",
                "uncachable",
                Role::Uncachable,
                Percent(&[Count::Uncachable], &[Count::Requests]),
            ),
            curve(
                "collapsed",
                "collapsed",
                Role::Collapsed,
                Percent(&[Count::Collapsed], &[Count::Requests]),
            ),
            curve(
                "error",
                "errors",
                Role::Error,
                Percent(&[Count::Errors], &[Count::Requests]),
            ),
            curve(
                "tunnel",
                "tunnels",
                Role::Tunnel,
                Percent(&[Count::Tunnels], &[Count::Requests]),
            ),
            curve(
                "aborted",
                "aborted",
                Role::Aborted,
                Percent(&[Count::Aborted], &[Count::Requests]),
            )
            .dashed(),
        ],
    ),
    lines(
        "bandwidth",
        "Bytes",
        "MB/s",
        &["A megabyte is 1,000,000 bytes. Tunnels are left out."],
        &[
            curve(
                "out",
                "sent to clients",
                Role::All,
                Megabytes(&[Count::Bytes]),
            ),
            curve(
                "hits",
                "of these for hits",
                Role::Hit,
                Megabytes(&[Count::HitBytes]),
            ),
            curve(
                "in",
                "received from servers",
                Role::Miss,
                Megabytes(&[Count::ServerBytes]),
            ),
        ],
    ),
    lines(
        "dns",
        "Resolving names",
        "look-up, ms",
        &["A name that was remembered takes 0 ms."],
        &[curve(
            "dns",
            "look-ups",
            Role::Dns,
            Time(&[Timed::Dns], ALL),
        )],
    ),
    lines(
        "dns-shares",
        "Look-ups that took time or failed",
        "%",
        &["Failed: no connection followed."],
        &[
            curve(
                "waited",
                "misses that waited",
                Role::Miss,
                Percent(&[Count::MissLookupsWaited], &[Count::OwnMisses]),
            )
            .needs_also(crate::Known::stage(profile::StageName::Dns)),
            curve(
                "failed",
                "failed, of all look-ups",
                Role::Error,
                Percent(&[Count::LookupsFailed], &[Count::Lookups]),
            ),
        ],
    ),
    lines(
        "collapsed",
        "Waiting for another's fetch",
        "wait, ms",
        &[],
        &[curve(
            "wait",
            "collapsed requests",
            Role::Collapsed,
            Time(&[Timed::Wait], ALL),
        )],
    ),
    lines(
        "peer",
        "Asking siblings",
        "time, ms",
        &[],
        &[curve(
            "peer",
            "requests that asked",
            Role::Peer,
            Time(&[Timed::Peer], ALL),
        )],
    ),
    lines(
        "loop-lag",
        "Lateness of the event loops",
        "ms late",
        &[
            "How late a timer of each worker fires. Each value is a worker's in a second; a curve is the median of these.",
        ],
        &[
            curve("p50", "medians", Role::All, Time(&[Timed::LagP50], ALL)),
            curve("p99", "99 %", Role::Miss, Time(&[Timed::LagP99], ALL)),
            curve("max", "maxima", Role::Error, Time(&[Timed::LagMax], ALL)).dashed(),
        ],
    ),
    lines(
        "cpu",
        "Processor time",
        "% of one core",
        &[],
        &[
            curve(
                "user",
                "in the program",
                Role::All,
                Rise(&[Gauge::UserUs], 1e-4),
            ),
            curve(
                "system",
                "in the kernel",
                Role::Device,
                Rise(&[Gauge::SystemUs], 1e-4),
            ),
        ],
    ),
    lines(
        "switches",
        "Context switches and page faults",
        "1/s",
        &[],
        &[
            curve(
                "voluntary",
                "switches of its own accord",
                Role::All,
                Rise(&[Gauge::VoluntarySwitches], 1.0),
            ),
            curve(
                "involuntary",
                "switches forced",
                Role::Error,
                Rise(&[Gauge::InvoluntarySwitches], 1.0),
            ),
            curve(
                "minor",
                "faults without I/O",
                Role::Memory,
                Rise(&[Gauge::MinorFaults], 1.0),
            )
            .dashed(),
            curve(
                "major",
                "faults with I/O",
                Role::Disk,
                Rise(&[Gauge::MajorFaults], 1.0),
            )
            .dashed(),
        ],
    ),
    lines(
        "memory",
        "Memory",
        "MB",
        &[],
        &[
            curve(
                "resident",
                "resident",
                Role::Memory,
                Level(&[Gauge::ResidentBytes], 1e-6),
            ),
            curve(
                "transfers",
                "held for transfers",
                Role::All,
                Level(&[Gauge::TransferBytes], 1e-6),
            ),
        ],
    ),
    lines(
        "connections",
        "Connections",
        "open",
        &["All workers together."],
        &[
            curve(
                "client",
                "to clients",
                Role::All,
                Level(&[Gauge::ClientConnections], 1.0),
            ),
            curve(
                "server",
                "to servers, in use",
                Role::Miss,
                Level(&[Gauge::ServerConnectionsUsed], 1.0),
            ),
            curve(
                "idle",
                "to servers, idle",
                Role::Reused,
                Level(&[Gauge::ServerConnectionsIdle], 1.0),
            )
            .dashed(),
        ],
    ),
    lines(
        "device-time",
        "Reads and writes of the device",
        "time, ms",
        &[],
        &[
            curve(
                "read",
                "reads",
                Role::SwapIn,
                Time(&[Timed::DeviceRead], ALL),
            ),
            curve(
                "read-wait",
                "of this in the elevator",
                Role::SwapIn,
                Time(&[Timed::DeviceReadWait], ALL),
            )
            .dashed(),
            curve(
                "write",
                "writes",
                Role::SwapOut,
                Time(&[Timed::DeviceWrite], ALL),
            ),
        ],
    ),
    lines(
        "device-bytes",
        "Bytes of the device",
        "MB/s",
        &["Dashed: as the kernel counts, with what others read and write."],
        &[
            curve(
                "read",
                "read",
                Role::SwapIn,
                Megabytes(&[Count::DeviceReadBytes]),
            ),
            curve(
                "write",
                "written",
                Role::SwapOut,
                Megabytes(&[Count::DeviceWriteBytes]),
            ),
            curve(
                "kernel-read",
                "read, by the kernel",
                Role::SwapIn,
                Rise(&[Gauge::DeviceReadBytes], 1e-6),
            )
            .dashed(),
            curve(
                "kernel-write",
                "written, by the kernel",
                Role::SwapOut,
                Rise(&[Gauge::DeviceWriteBytes], 1e-6),
            )
            .dashed(),
        ],
    ),
    lines(
        "cluster",
        "Objects in a write",
        "objects",
        &[],
        &[curve(
            "records",
            "mean",
            Role::SwapOut,
            Mean(&[Count::DeviceWriteRecords], Count::DeviceWrites),
        )],
    ),
    lines(
        "network",
        "The kernel's network",
        "1/s",
        &["Of the whole machine."],
        &[
            curve(
                "retransmits",
                "segments sent again",
                Role::Miss,
                Rise(&[Gauge::Retransmits], 1.0),
            ),
            curve(
                "overflows",
                "connections dropped, queue full",
                Role::Error,
                Rise(&[Gauge::ListenOverflows], 1.0),
            ),
        ],
    ),
    lines(
        "icp",
        "ICP, digests and hints",
        "messages/s",
        &[],
        &[
            curve("sent", "ICP sent", Role::All, Rise(&[Gauge::IcpSent], 1.0)),
            curve(
                "received",
                "ICP received",
                Role::Peer,
                Rise(&[Gauge::IcpReceived], 1.0),
            ),
            curve(
                "digests",
                "digests fetched",
                Role::Disk,
                Rise(&[Gauge::DigestsFetched], 1.0),
            ),
            curve(
                "hints",
                "hint updates",
                Role::Other,
                Rise(&[Gauge::HintUpdates], 1.0),
            ),
        ],
    ),
    lines(
        "icp-bytes",
        "Bytes of ICP, digests and hints",
        "KB/s",
        &[],
        &[
            curve(
                "sent",
                "ICP sent",
                Role::All,
                Rise(&[Gauge::IcpSentBytes], 1e-3),
            ),
            curve(
                "received",
                "ICP received",
                Role::Peer,
                Rise(&[Gauge::IcpReceivedBytes], 1e-3),
            ),
            curve(
                "digests",
                "digests fetched",
                Role::Disk,
                Rise(&[Gauge::DigestFetchedBytes], 1e-3),
            ),
            curve(
                "hints",
                "hint updates",
                Role::Other,
                Rise(&[Gauge::HintBytes], 1e-3),
            ),
        ],
    ),
    lines(
        "lost",
        "Records lost",
        "1/s",
        &[
            "Of profile and logs, because a disk or a reader was too slow: what this report does not know.",
        ],
        &[curve(
            "lost",
            "lost",
            Role::Error,
            Rise(&[Gauge::RecordsLost], 1.0),
        )],
    ),
];
