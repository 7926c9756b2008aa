//! DuckDB on the export of a profile gives the figures of `loligo report`, slot by slot and digit by digit.
//!
//! The SQL is in `sql/`; `docs/profile-export.md` quotes it, and a test keeps the two equal.
//!
//! Limits: needs Python 3 with the package `duckdb`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Told;
use super::figures::{Figures, loligo};
use super::polymix::Run;
use super::verdict::Verdict;
use crate::failure::{During, Failure, Result, fail};
use crate::workspace;

const PROGRAM: &str = include_str!("figures.py");
const SLOT_S: u64 = 2;
/// Two orders of adding and dividing the same integers may differ in the last bit.
const APART_MAX: f64 = 1e-12;

/// The report's name of a curve, from its name in SQL.
fn curve_id(in_sql: &str) -> String {
    in_sql.replace('_', "-")
}

/// Exports the profile, runs the SQL, compares.
pub fn tell(run: &Run) -> Result<Told> {
    let has_duckdb = Command::new("python3")
        .args(["-c", "import duckdb"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_duckdb {
        return Ok(Told::Untold(
            "needs Python 3 with duckdb (pip install duckdb)".into(),
        ));
    }
    let figures = Figures::of(&run.profile, SLOT_S)?;
    let rows = asked(&run.profile, figures.slot_us()?)?;
    let rows = rows
        .as_object()
        .ok_or_else(|| Failure::new("no figures from DuckDB"))?;
    let mut verdicts = Vec::new();
    for (figure, rows) in rows {
        let found = compare(figure, rows, &figures);
        verdicts.push(match found {
            Ok(Compared {
                points,
                differences,
            }) => Verdict {
                what: format!("Figure {figure} by DuckDB from the export"),
                how: match differences.first() {
                    None => format!("{points} points, all the same"),
                    Some(first) => {
                        format!("{} of {points} differ, first: {first}", differences.len())
                    }
                },
                is_met: differences.is_empty() && points > 0,
            },
            Err(failure) => Verdict::broken(
                &format!("Figure {figure} by DuckDB from the export"),
                &failure.to_string(),
            ),
        });
    }
    Ok(Told::Verdicts(verdicts))
}

/// The results of the SQL, by figure.
fn asked(profile: &Path, slot_us: u64) -> Result<Value> {
    let requests = profile.with_extension("parquet");
    let events = profile.with_extension("events.parquet");
    for (file, wants_events) in [(&requests, false), (&events, true)] {
        let mut arguments: Vec<&std::ffi::OsStr> = vec![
            "profile".as_ref(),
            "export".as_ref(),
            profile.as_os_str(),
            "--parquet".as_ref(),
            file.as_os_str(),
        ];
        if wants_events {
            arguments.push("--events".as_ref());
        }
        loligo(&arguments, profile)?;
    }
    let output = Command::new("python3")
        .args(["-c", PROGRAM])
        .args([&requests, &events])
        .arg(slot_us.to_string())
        .arg(sql_folder())
        .output()
        .during(|| "running python3".into())?;
    if !output.status.success() {
        fail!("DuckDB: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).during(|| "reading what DuckDB found".into())
}

fn sql_folder() -> PathBuf {
    workspace::root().join("tools/xtask/src/truths/sql")
}

/// Counts of equal points, and the differences.
struct Compared {
    points: usize,
    differences: Vec<String>,
}

fn compare(figure: &str, rows: &Value, figures: &Figures) -> Result<Compared> {
    let mut by_sql = Vec::new();
    for row in rows.as_array().into_iter().flatten() {
        let slot = row["slot"].as_f64().unwrap_or(f64::NAN);
        match row["curve"].as_str() {
            Some(curve) => by_sql.push((curve_id(curve), slot, row["value"].as_f64())),
            // Figure 7 has a column for each of its curves.
            None => {
                by_sql.push(("document".to_owned(), slot, row["documents"].as_f64()));
                by_sql.push(("byte".to_owned(), slot, row["bytes"].as_f64()));
            }
        }
    }
    let mut curves: Vec<String> = by_sql.iter().map(|(curve, ..)| curve.clone()).collect();
    curves.sort();
    curves.dedup();
    let mut compared = Compared {
        points: 0,
        differences: Vec::new(),
    };
    for curve in &curves {
        let points = figures.curve(figure, curve)?["points"].clone();
        let in_report: Vec<(f64, f64)> = (points.as_array().into_iter().flatten())
            .filter_map(|point| Some((point["x"].as_f64()?, point["value"].as_f64()?)))
            .collect();
        let here: Vec<(f64, f64)> = (by_sql.iter())
            .filter(|(of, ..)| of == curve)
            // Without a value there is no point.
            .filter_map(|(_, slot, value)| Some((*slot, (*value)?)))
            .collect();
        compared.points += in_report.len();
        compared
            .differences
            .extend(differences(curve, &in_report, &here));
    }
    Ok(compared)
}

/// The differences between two curves, in words. A point of the report with the value 0 may be missing in SQL, which has no
/// row where it counted nothing.
fn differences(curve: &str, in_report: &[(f64, f64)], by_sql: &[(f64, f64)]) -> Vec<String> {
    let find = |all: &[(f64, f64)], slot: f64| {
        all.iter()
            .find(|(x, _)| *x == slot)
            .map(|(_, value)| *value)
    };
    let mut out = Vec::new();
    for &(slot, value) in in_report {
        match find(by_sql, slot) {
            Some(other) if (value - other).abs() <= APART_MAX * value.abs().max(other.abs()) => {}
            None if value == 0.0 => {}
            other => out.push(format!(
                "{curve} in the slot of {slot}: report {value}, SQL {other:?}"
            )),
        }
    }
    for &(slot, value) in by_sql {
        if find(in_report, slot).is_none() && value != 0.0 {
            out.push(format!(
                "{curve} in the slot of {slot}: not in the report, SQL {value}"
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_quotes_the_sql() {
        let docs = workspace::root().join("docs/profile-export.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        for name in [
            "prelude",
            "figure-5",
            "figure-7",
            "figure-8",
            "figure-10",
            "figure-24",
        ] {
            let sql = std::fs::read_to_string(sql_folder().join(format!("{name}.sql"))).unwrap();
            let quoted = format!("<!-- sql: {name} -->\n```sql\n{sql}```\n");
            assert!(
                docs.contains(&quoted),
                "{name}.sql is not in the documentation as it is"
            );
        }
    }

    #[test]
    fn a_difference_is_told_from_either_side() {
        let report = [(0.0, 1.5), (2.0, 0.0), (4.0, 3.0)];
        assert!(differences("hit", &report, &[(0.0, 1.5), (4.0, 3.0)]).is_empty());
        assert_eq!(
            differences("hit", &report, &[(0.0, 1.6), (6.0, 1.0)]),
            [
                "hit in the slot of 0: report 1.5, SQL Some(1.6)",
                "hit in the slot of 4: report 3, SQL None",
                "hit in the slot of 6: not in the report, SQL 1",
            ]
        );
    }
}
