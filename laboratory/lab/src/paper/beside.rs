//! Several runs of `lab real` side by side: does the paper's order of managers hold on other disks?
//!
//! Disks differ by orders of magnitude, so each is measured relative to its own SQUID: a manager's disk requests a second over SQUID's on
//! the same disk. Where a line falls between two managers, that disk reverses the paper's order.
//!
//! Not known here: how the runs were made; they come from the reports that `lab real --json` wrote.
//! Limits: managers that all runs have.   Source: paper 002, Table 2.

use super::printed;
use super::real::UNIT;
use super::report::{Curve, Curves, Report, Rows, Scale, Section};
use crate::managers::Kind;

/// The manager to which all others are compared.
const BASE: Kind = Kind::Squid;

/// A disk: its name, and disk requests a second by manager.
struct Disk {
    name: String,
    requests_per_s: Vec<(String, f64)>,
}

impl Disk {
    fn of(&self, manager: &str) -> Option<f64> {
        let mut all = self.requests_per_s.iter();
        all.find(|(name, _)| name == manager).map(|&(_, rate)| rate)
    }
}

/// Joins runs, each with its name. Fails if one of them is no report of `lab real`, or lacks SQUID.
pub fn beside(runs: &[(String, Report)]) -> Result<Report, String> {
    let mut disks = vec![Disk {
        name: "paper".to_owned(),
        requests_per_s: printed::TABLE_2
            .iter()
            .filter_map(|(name, _)| Some((name.to_string(), printed::rate(name)?.requests_per_s)))
            .collect(),
    }];
    for (at, (name, report)) in runs.iter().enumerate() {
        let read = |curve: &str, name: &str| {
            let requests_per_s = curve_of(report, curve).ok_or_else(|| {
                format!("{name} is no report that lab real --json of this version wrote")
            })?;
            Ok::<Disk, String>(Disk {
                name: name.to_owned(),
                requests_per_s,
            })
        };
        if at == 0 {
            disks.push(read("modelled", "modelled, 1999")?);
        }
        disks.push(read("here", name)?);
    }
    if let Some(disk) = disks.iter().find(|disk| disk.of(BASE.name()).is_none()) {
        return Err(format!(
            "{} has no {}, by which all are measured; run lab real with it",
            disk.name,
            BASE.name()
        ));
    }
    // The paper may lack a manager of ours; all other disks must have it.
    let managers: Vec<&str> = Kind::ALL
        .iter()
        .map(|kind| kind.name())
        .filter(|name| disks[1..].iter().all(|disk| disk.of(name).is_some()))
        .collect();
    Ok(report(&disks, &managers))
}

/// Managers and disk requests a second of one of the two curves that `lab real` draws.
fn curve_of(report: &Report, name: &str) -> Option<Vec<(String, f64)>> {
    let section = report.sections.iter().find(|s| s.name == "real")?;
    let plot = section.plots.first().filter(|plot| plot.y.label == UNIT)?;
    let curve = plot.curves.iter().find(|curve| curve.name == name)?;
    let values = curve.points.iter().map(|point| point.1);
    Some(plot.names.iter().cloned().zip(values).collect())
}

fn report(disks: &[Disk], managers: &[&str]) -> Report {
    let mut columns = vec!["manager".to_owned()];
    columns.extend(
        disks
            .iter()
            .map(|disk| format!("{} (requests/s)", disk.name)),
    );
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut rows = Rows::new("Disk requests a second", &columns);
    for name in managers {
        let cells = disks.iter().map(|disk| {
            let rate = disk.of(name);
            rate.map_or("-".to_owned(), |rate| format!("{rate:.1}"))
        });
        rows.row(std::iter::once((*name).to_owned()).chain(cells));
    }
    let curves = disks.iter().map(|disk| {
        let base = disk.of(BASE.name()).unwrap_or(f64::NAN);
        let points = managers.iter().enumerate();
        let points = points.filter_map(|(at, name)| Some((at as f64, disk.of(name)? / base)));
        Curve {
            name: disk.name.clone(),
            printed: disk.name == "paper",
            points: points.collect(),
        }
    });
    Report {
        title: "File-space managers on several disks".to_owned(),
        sections: vec![Section {
            name: "beside".to_owned(),
            title: "The paper's order on other disks".to_owned(),
            text: vec![format!(
                "Each disk is measured by its own {}: where a line falls, that disk has turned the paper's order round.",
                BASE.name()
            )],
            tables: vec![rows],
            plots: vec![Curves {
                caption: format!(
                    "Disk requests a second, as multiples of {}'s on the same disk",
                    BASE.name()
                ),
                x: Scale::linear(""),
                y: Scale::log(&format!("times {}", BASE.name())),
                names: managers.iter().map(|&name| name.to_owned()).collect(),
                curves: curves.collect(),
                joined: true,
            }],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(managers: &[(&str, f64, f64)]) -> Report {
        let curve = |name: &str, value: fn(&(&str, f64, f64)) -> f64| Curve {
            name: name.to_owned(),
            printed: false,
            points: (0..)
                .map(f64::from)
                .zip(managers.iter().map(value))
                .collect(),
        };
        Report {
            title: String::new(),
            sections: vec![Section {
                name: "real".to_owned(),
                plots: vec![Curves {
                    names: managers.iter().map(|m| m.0.to_owned()).collect(),
                    y: Scale::log(UNIT),
                    curves: vec![curve("modelled", |m| m.1), curve("here", |m| m.2)],
                    ..Curves::default()
                }],
                ..Section::default()
            }],
        }
    }

    #[test]
    fn every_disk_is_measured_by_its_own_squid() {
        let ext4 = run(&[
            ("SIMPLE", 15.0, 300.0),
            ("SQUID", 20.0, 100.0),
            ("UNIFIED", 400.0, 900.0),
        ]);
        let slow = run(&[
            ("SQUID", 1.0, 4.0),
            ("SIMPLE", 1.0, 8.0),
            ("STREAM", 1.0, 9.0),
        ]);
        let report = beside(&[("ext4".to_owned(), ext4), ("slow".to_owned(), slow)]).unwrap();
        let plot = &report.sections[0].plots[0];
        assert_eq!(plot.names, ["SIMPLE", "SQUID"], "those that all runs have");
        let of = |name: &str| {
            let curve = plot.curves.iter().find(|curve| curve.name == name).unwrap();
            curve.points.clone()
        };
        assert_eq!(of("paper"), [(0.0, 0.7), (1.0, 1.0)]);
        assert_eq!(of("modelled, 1999"), [(0.0, 0.75), (1.0, 1.0)]);
        assert_eq!(of("ext4"), [(0.0, 3.0), (1.0, 1.0)]);
        assert_eq!(of("slow"), [(0.0, 2.0), (1.0, 1.0)]);
        assert!(report.html().contains("<polyline") && !report.html().contains("<rect x=\"7"));
    }

    #[test]
    fn what_has_no_base_or_is_no_such_report_is_refused() {
        let without = run(&[("STREAM", 1.0, 2.0)]);
        let said = |report: Report| beside(&[("x".to_owned(), report)]).unwrap_err();
        assert!(said(without).contains("run lab real with it"));
        assert!(
            said(Report::default())
                .contains("no report that lab real --json of this version wrote")
        );
    }
}
