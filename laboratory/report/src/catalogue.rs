//! The table of all figures and curves: form, origin of the numbers, and what a source must know.
//!
//! Not known here: the numbers themselves.

mod disk;
mod figures;
mod filled;
mod ours;

use profile::{Gauge, StageName};

use crate::disks::DISKS_DRAWN_MAX;
use crate::kinds::{Count, Group, Part, Timed};
use crate::known::Known;
use crate::model::{AxisKind, Combine, Form, Role};
use crate::sizes::{Over, Size};

/// A figure.
pub(crate) struct FigureSpec {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) form: Form,
    /// Label of the vertical axis.
    pub(crate) label: &'static str,
    pub(crate) kind: AxisKind,
    pub(crate) paper_saw: &'static str,
    pub(crate) notes: &'static [&'static str],
    pub(crate) curves: &'static [CurveSpec],
}

impl FigureSpec {
    /// Whether each of its curves is of one disk. Curves of disks that do not exist are left out.
    pub(crate) fn is_by_disk(&self) -> bool {
        self.curves.iter().all(CurveSpec::is_of_a_disk)
    }
}

/// A curve.
pub(crate) struct CurveSpec {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) is_dashed: bool,
    pub(crate) how: How,
    /// Needed in addition to what `how` needs.
    also: Known,
}

/// How a curve is computed.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// The distribution of times of these groups, milliseconds.
    Time(&'static [Timed], &'static [Group]),
    /// Counts a second.
    Rate(&'static [Count]),
    /// Bytes a second, in millions.
    Megabytes(&'static [Count]),
    /// The first count in percent of the second.
    Percent(&'static [Count], &'static [Count]),
    /// The first count divided by the second.
    Mean(&'static [Count], Count),
    /// Concurrency: a percentile of one of [`crate::cells::SETS`].
    There(usize, u64),
    /// The share of time with at least one.
    Busy(usize),
    /// The median of a stage, as a share of the sum of the medians of all.
    Share(
        &'static [Timed],
        &'static [&'static [Timed]],
        &'static [Group],
    ),
    /// The share of a part in all parts.
    Part(Part, usize),
    /// The increase of gauges a second, times this factor.
    Rise(&'static [Gauge], f64),
    /// The mean of gauges, times this factor.
    Level(&'static [Gauge], f64),
    /// The cumulative distribution of sizes.
    Sizes(&'static [Size]),
    /// Times over sizes.
    Over(Over),
    /// Swap requests a second of the disk with this number.
    DiskRate(u8),
    /// The share of time in which the disk was busy, as counted by the kernel.
    DiskBusy(u8),
    /// Swap-in times of the disk, milliseconds.
    DiskTime(u8),
}

/// All figures, those of the paper first.
pub(crate) fn figures() -> impl Iterator<Item = &'static FigureSpec> {
    (figures::NETWORK.iter())
        .chain(disk::DISK)
        .chain(ours::OURS)
}

/// Whether the figure is one of the paper's 25.
pub(crate) fn is_of_the_paper(figure: &FigureSpec) -> bool {
    figure.id.parse::<u32>().is_ok()
}

/// Which requests or events fill a figure, and which run or setting brings them: shown with an empty figure.
pub(crate) use self::filled::{TWO_READS, filled_by};

/// Connections to a server, new or reused.
const CONNECT: &[Timed] = &[Timed::ConnectNew, Timed::ConnectReused];

/// A figure of lines over time.
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

/// Any figure.
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

/// A curve in the colour of its role.
const fn curve(id: &'static str, name: &'static str, role: Role, how: How) -> CurveSpec {
    CurveSpec {
        id,
        name,
        role,
        is_dashed: false,
        how,
        also: Known::NOTHING,
    }
}

impl CurveSpec {
    const fn dashed(self) -> Self {
        CurveSpec {
            is_dashed: true,
            ..self
        }
    }

    const fn needs_also(self, also: Known) -> Self {
        CurveSpec { also, ..self }
    }

    /// What a source must know for this curve.
    pub(crate) fn needs(&self) -> Known {
        self.also.and(self.how.needs())
    }

    fn is_of_a_disk(&self) -> bool {
        matches!(
            self.how,
            How::DiskRate(_) | How::DiskBusy(_) | How::DiskTime(_)
        )
    }

    /// How two curves of this type are joined.
    pub(crate) fn combine(&self) -> Combine {
        match self.how {
            How::Time(..) | How::Over(_) | How::DiskTime(_) => Combine::Sketch,
            How::Rate(_) | How::DiskRate(_) => Combine::Rate,
            How::Megabytes(_) => Combine::Megabytes,
            How::Percent(..) | How::Mean(..) => Combine::Ratio,
            // Reports do not say which documents two sources have in common.
            How::Sizes(which) if which.iter().any(|size| size.is_of_first_accesses()) => {
                Combine::Apart
            }
            How::Sizes(_) => Combine::Ratio,
            How::Share(..) => Combine::MedianShare,
            How::Part(..) => Combine::Share,
            How::There(..) | How::Busy(_) | How::Level(..) | How::Rise(..) | How::DiskBusy(_) => {
                Combine::Apart
            }
        }
    }
}

/// A curve for each disk that is drawn; roles are used only for different colours.
macro_rules! by_disk {
    ($how:path) => {
        &[
            curve("disk-1", "disk 1", Role::All, $how(0)),
            curve("disk-2", "disk 2", Role::Miss, $how(1)),
            curve("disk-3", "disk 3", Role::Hit, $how(2)),
            curve("disk-4", "disk 4", Role::Collapsed, $how(3)),
            curve("disk-5", "disk 5", Role::Uncachable, $how(4)),
            curve("disk-6", "disk 6", Role::Reused, $how(5)),
            curve("disk-7", "disk 7", Role::Dns, $how(6)),
            curve("disk-8", "disk 8", Role::Other, $how(7)),
        ]
    };
}
const _: () = assert!(DISKS_DRAWN_MAX == 8, "a curve each");
use by_disk;

fn all(needs: impl IntoIterator<Item = Known>) -> Known {
    needs.into_iter().fold(Known::NOTHING, Known::and)
}

impl How {
    fn needs(&self) -> Known {
        match self {
            How::Time(timed, _) => all(timed.iter().map(|timed| timed.needs())),
            How::Rate(counts) | How::Megabytes(counts) | How::Mean(counts, _) => {
                all(counts.iter().map(|count| count.needs()))
            }
            How::Percent(some, of) => all(some.iter().chain(*of).map(|count| count.needs())),
            How::There(set, _) | How::Busy(set) => {
                const OUT: Known = Known::OUTGOING;
                const IN: Known = Known::stage(StageName::SwapIn);
                const WRITE: Known = Known::stage(StageName::SwapOut);
                match set {
                    0..=2 => Known::NOTHING,
                    3..=5 => OUT,
                    6 => IN.and(WRITE),
                    7 => IN,
                    8 => WRITE,
                    9 => Known::PEERS,
                    _ => OUT.and(Known::PEERS),
                }
            }
            How::Share(_, stages, _) => {
                all(stages.iter().copied().flatten().map(|timed| timed.needs()))
            }
            How::Part(..) => all([
                StageName::ClientConnect,
                StageName::ServerReply,
                StageName::ProxyReply,
            ]
            .map(Known::stage)),
            How::Rise(..) | How::Level(..) | How::DiskBusy(_) => Known::SECONDS,
            How::DiskRate(_) => all([StageName::SwapIn, StageName::SwapOut].map(Known::stage)),
            How::DiskTime(_) => Known::stage(StageName::SwapIn),
            How::Sizes(sizes) => all(sizes.iter().map(|size| match size {
                Size::Hit | Size::Miss | Size::Peer | Size::Rest => Known::NOTHING,
                Size::SwapIn => Known::OBJECT_BYTES.and(Known::stage(StageName::SwapIn)),
                Size::SwapOut => Known::OBJECT_BYTES.and(Known::stage(StageName::SwapOut)),
                Size::HitFile | Size::MissFile => Known::KEYS,
                Size::SwapInFile => Known::KEYS.and(Known::stage(StageName::SwapIn)),
                Size::SwapOutFile => Known::KEYS.and(Known::stage(StageName::SwapOut)),
            })),
            How::Over(over) => match over {
                Over::Hit | Over::Miss => Known::NOTHING,
                Over::ReplyHit | Over::ReplyMiss => {
                    Known::stage(StageName::ServerReply).and(Known::OBJECT_BYTES)
                }
                Over::SentHit | Over::SentMiss => Known::stage(StageName::ProxyReply),
                Over::In | Over::InFirst => {
                    Known::stage(StageName::SwapIn).and(Known::OBJECT_BYTES)
                }
                Over::Out | Over::OutFirst => {
                    Known::stage(StageName::SwapOut).and(Known::OBJECT_BYTES)
                }
            },
        }
    }
}

impl Timed {
    fn needs(self) -> Known {
        let stage = Known::stage;
        match self {
            Timed::Response => Known::NOTHING,
            Timed::ClientConnect | Timed::Head => stage(StageName::ClientConnect),
            Timed::ConnectNew | Timed::ConnectReused => stage(StageName::ProxyConnect),
            Timed::ServerReply => stage(StageName::ServerReply),
            Timed::ServerResponse => Known::SERVER_RESPONSE,
            Timed::ProxyReply => stage(StageName::ProxyReply),
            Timed::SwapIn => stage(StageName::SwapIn),
            Timed::SwapOut => stage(StageName::SwapOut),
            Timed::SwapOutOnDisk => stage(StageName::SwapOut).and(Known::WRITES),
            Timed::SecondIn | Timed::OneRead | Timed::TwoReads => {
                stage(StageName::SwapIn).and(Known::DEVICE_READS)
            }
            Timed::Dns => stage(StageName::Dns),
            Timed::Wait => stage(StageName::Wait),
            Timed::Peer => stage(StageName::Peer),
            Timed::DeviceRead | Timed::DeviceReadWait => Known::READS,
            Timed::DeviceWrite => Known::WRITES,
            Timed::LagP50 | Timed::LagP99 | Timed::LagMax => Known::SECONDS,
        }
    }
}

impl Count {
    fn needs(self) -> Known {
        match self {
            Count::Aborted | Count::ClientAborted | Count::OriginAborted => Known::ABORTS,
            Count::NotKept => Known::WRITES,
            Count::Uncachable => Known::UNCACHABLE,
            Count::MemberHits
            | Count::SiblingHits
            | Count::ParentHits
            | Count::FartherHits
            | Count::PeerHitBytes => Known::PEERS,
            Count::ServerBytes => Known::OBJECT_BYTES,
            Count::SwapIns => Known::stage(StageName::SwapIn),
            Count::SwapOuts => Known::stage(StageName::SwapOut),
            Count::MissLookups
            | Count::MissLookupsWaited
            | Count::Lookups
            | Count::LookupsFailed => Known::stage(StageName::Dns),
            Count::DeviceReads | Count::DeviceReadBytes => Known::READS,
            Count::DeviceWrites
            | Count::DeviceWriteBytes
            | Count::DeviceWriteRecords
            | Count::WritesNamed
            | Count::WritesFound => Known::WRITES,
            _ => Known::NOTHING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_25_figures_are_there_and_names_are_distinct() {
        let ids: Vec<&str> = figures().map(|figure| figure.id).collect();
        let numbers: Vec<u32> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        assert_eq!(numbers, (1..=25).collect::<Vec<u32>>());
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        for figure in figures() {
            let curves: HashSet<&str> = figure.curves.iter().map(|curve| curve.id).collect();
            assert_eq!(curves.len(), figure.curves.len(), "figure {}", figure.id);
            assert!(!figure.curves.is_empty() && !figure.label.is_empty());
            assert_eq!(
                is_of_the_paper(figure),
                !figure.paper_saw.is_empty(),
                "{}",
                figure.id
            );
            assert!(filled_by(figure.id).len() > 20, "{}", figure.id);
            let is_over_time = matches!(figure.form, Form::Lines | Form::Stacked);
            assert!(
                figure
                    .curves
                    .iter()
                    .all(|curve| matches!(curve.how, How::Sizes(_) | How::Over(_)) != is_over_time)
            );
        }
    }
}
