//! Loligo's targets relative to its rivals, judged on the medians of one run.
//!
//! The numbers are from the first issue about `bench hits`; a case that was not measured is not judged.

use super::hits::{Kind, Row};
use crate::rivals::front::Protocol;

/// A target and its verdict.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct Verdict {
    pub what: String,
    pub wanted: String,
    pub found: String,
    pub kept: bool,
}

/// Memory hits up to this size are compared with all rivals, larger ones only with rivals that copy.
const SMALL_BYTES: u64 = 10 << 10;

/// Judges all measured cases.
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for ours in rows.iter().filter(|r| r.server == "loligo") {
        let peers: Vec<&Row> = rows
            .iter()
            .filter(|r| r.case == ours.case && r.server.split('-').next() != Some("loligo"))
            .collect();
        match ours.case.kind {
            Kind::Memory => verdicts.extend(memory_hit(ours, &peers)),
            Kind::Disk | Kind::Miss => {
                if let Some(ats) = peers.iter().find(|r| r.server == "trafficserver") {
                    verdicts.extend(beside_traffic_server(ours, ats));
                }
            }
        }
    }
    verdicts
}

fn memory_hit(ours: &Row, peers: &[&Row]) -> Option<Verdict> {
    let small = ours.case.bytes <= SMALL_BYTES;
    let best = peers
        .iter()
        .filter(|r| small || !sends_without_copying(&r.server))
        .min_by(|a, b| a.cpu_us.median.total_cmp(&b.cpu_us.median))?;
    let most = match (ours.case.protocol, small, ours.case.logs) {
        (Protocol::H1, true, false) => 0.8,
        (Protocol::H1, _, _) => 1.0,
        (Protocol::Tls, true, _) => 0.7,
        (Protocol::H2 | Protocol::H2c, true, _) if ours.case.streams == 1 => 0.75,
        (Protocol::H2 | Protocol::H2c, _, _)
            if ours.case.bytes <= 1024 && ours.case.streams > 1 =>
        {
            0.4
        }
        (Protocol::Tls | Protocol::H2 | Protocol::H2c, _, _) => 0.5,
    };
    Some(at_most(
        format!("{}: CPU per request beside {}", ours.case, best.server),
        ours.cpu_us.median / best.cpu_us.median,
        most,
    ))
}

/// Servers that send from the page cache without copying: at 100 KB these beat every copy; competing with them is a later aim.
fn sends_without_copying(server: &str) -> bool {
    matches!(server, "nginx-sendfile" | "nginx-aio")
}

fn beside_traffic_server(ours: &Row, ats: &Row) -> Vec<Verdict> {
    let cpu = |most| {
        at_most(
            format!("{}: CPU per request beside trafficserver", ours.case),
            ours.cpu_us.median / ats.cpu_us.median,
            most,
        )
    };
    if ours.case.kind == Kind::Miss {
        return vec![cpu(0.5)];
    }
    let least = match ours.case.connections {
        ..=64 => 1.7,
        _ => 1.3,
    };
    let ratio = ours.rate.median / ats.rate.median;
    let rate = Verdict {
        what: format!("{}: rate beside trafficserver", ours.case),
        wanted: format!("at least {least}"),
        found: format!("{ratio:.2}"),
        kept: ratio >= least,
    };
    vec![cpu(0.4), rate]
}

/// The verdict on a ratio that must not exceed a bound.
pub fn at_most(what: String, ratio: f64, most: f64) -> Verdict {
    Verdict {
        what,
        wanted: format!("at most {most}"),
        found: format!("{ratio:.3}"),
        kept: ratio <= most,
    }
}

/// The verdict on a figure that must reach a bound.
pub fn at_least(what: String, found: f64, least: f64) -> Verdict {
    Verdict {
        what,
        wanted: format!("at least {least}"),
        found: format!("{found:.3}"),
        kept: found >= least,
    }
}

#[cfg(test)]
mod tests {
    use super::super::hits::Case;
    use super::super::stats::Spread;
    use super::*;

    fn row(server: &str, kind: Kind, bytes: u64, cpu_us: f64, rate: f64) -> Row {
        let case = Case {
            kind,
            bytes,
            connections: 64,
            logs: false,
            protocol: Protocol::H1,
            streams: 1,
        };
        Row {
            cpu_us: Spread::of([cpu_us]),
            rate: Spread::of([rate]),
            ..Row::empty(server, case)
        }
    }

    #[test]
    fn small_memory_hits_are_held_against_the_best_of_all() {
        let rows = [
            row("loligo", Kind::Memory, 1024, 6.0, 1.0),
            row("haproxy", Kind::Memory, 1024, 8.0, 1.0),
            row("nginx-sendfile", Kind::Memory, 1024, 7.0, 1.0),
            // Another build of ours is not a rival.
            row("loligo-beside", Kind::Memory, 1024, 5.0, 1.0),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].found, "0.857");
        assert!(!verdicts[0].kept);
    }

    #[test]
    fn large_ones_only_against_those_who_copy() {
        let rows = [
            row("loligo", Kind::Memory, 100 << 10, 20.0, 1.0),
            row("nginx", Kind::Memory, 100 << 10, 21.0, 1.0),
            row("nginx-sendfile", Kind::Memory, 100 << 10, 14.0, 1.0),
        ];
        assert!(judge(&rows)[0].kept);
    }

    #[test]
    fn disk_hits_need_traffic_server() {
        let mut rows = vec![row("loligo", Kind::Disk, 10 << 10, 10.0, 60.0)];
        assert_eq!(judge(&rows), []);
        rows.push(row("trafficserver", Kind::Disk, 10 << 10, 30.0, 30.0));
        let verdicts = judge(&rows);
        assert_eq!(
            verdicts.iter().map(|v| v.kept).collect::<Vec<_>>(),
            [true, true]
        );
    }
}
