//! The figures of `loligo report` for a profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{During, Failure, Result, fail};
use crate::process::tail;
use crate::rivals::loligo_binary;

/// The report of one profile.
pub struct Figures {
    source: Value,
}

impl Figures {
    /// Runs `loligo report` with slots of this many seconds; its JSON is kept next to the profile.
    pub fn of(profile: &Path, slot_s: u64) -> Result<Self> {
        let json = profile.with_extension("report.json");
        loligo(
            &[
                "report".as_ref(),
                profile.as_os_str(),
                "--slot".as_ref(),
                format!("{slot_s}s").as_ref(),
                "--json".as_ref(),
                json.as_os_str(),
            ],
            profile,
        )?;
        let text = std::fs::read(&json).during(|| format!("reading {}", json.display()))?;
        let report: Value =
            serde_json::from_slice(&text).during(|| format!("reading {}", json.display()))?;
        let source = &report["sources"][0];
        if !source.is_object() {
            fail!("{}: no source in it", json.display());
        }
        Ok(Self {
            source: source.clone(),
        })
    }

    /// The length of a slot in microseconds.
    pub fn slot_us(&self) -> Result<u64> {
        self.source["slot_us"]
            .as_u64()
            .ok_or_else(|| Failure::new("the report does not say how long a slot is"))
    }

    /// A curve of a figure, by their ids.
    pub fn curve(&self, figure: &str, curve: &str) -> Result<&Value> {
        let with_id = |of: &'_ Value, id: &str| -> Option<usize> {
            of.as_array()?.iter().position(|it| it["id"] == id)
        };
        let figures = &self.source["figures"];
        let at = with_id(figures, figure)
            .ok_or_else(|| Failure::new(format!("the report has no Figure {figure}")))?;
        let found = &figures[at];
        if let Some(why) = found["not_recorded"].as_str() {
            fail!("the report leaves Figure {figure} out: {why}");
        }
        let at = with_id(&found["curves"], curve)
            .ok_or_else(|| Failure::new(format!("Figure {figure} has no curve {curve}")))?;
        Ok(&found["curves"][at])
    }

    /// The mean of a statistic over the slots that are entirely covered.
    pub fn whole_slots(&self, figure: &str, curve: &str, statistic: &str) -> Result<f64> {
        let curve = self.curve(figure, curve)?;
        whole_slots_mean(curve, &self.source["slots"], statistic)
            .ok_or_else(|| Failure::new(format!("Figure {figure}: no slot is whole")))
    }

    /// The sum of a curve over all slots, including idle slots and those outside of the day.
    pub fn count(&self, figure: &str, curve: &str) -> Result<u64> {
        let points = self.curve(figure, curve)?["points"].as_array();
        let count = |points: &Vec<Value>| points.iter().filter_map(|it| it["count"].as_u64()).sum();
        points
            .map(count)
            .ok_or_else(|| Failure::new(format!("Figure {figure}: no points")))
    }

    /// A value over all slots: a statistic of a curve (`p50`, `mean`), or its plain `value`.
    pub fn day(&self, figure: &str, curve: &str, statistic: &str) -> Result<f64> {
        let day = &self.curve(figure, curve)?["day"];
        let found = match statistic {
            "value" | "count" => &day[statistic],
            _ => &day["spread"][statistic],
        };
        found.as_f64().ok_or_else(|| {
            Failure::new(format!(
                "Figure {figure}, {curve}: no {statistic} of the day"
            ))
        })
    }
}

/// The mean of a curve's points in slots that are entirely covered.
pub fn whole_slots_mean(curve: &Value, slots: &Value, statistic: &str) -> Option<f64> {
    let whole: Vec<f64> = (slots.as_array()?.iter())
        .filter(|slot| slot["is_partial"] == false)
        .filter_map(|slot| Some(slot["start_unix_us"].as_f64()? / 1e6))
        .collect();
    let values: Vec<f64> = (curve["points"].as_array()?.iter())
        .filter(|point| point["x"].as_f64().is_some_and(|x| whole.contains(&x)))
        .filter_map(|point| point["spread"][statistic].as_f64())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Runs loligo to its end; its output goes to a file next to the profile, and into the error.
pub fn loligo(arguments: &[&std::ffi::OsStr], profile: &Path) -> Result<()> {
    run(&loligo_binary(), arguments, profile)
}

/// Runs any program in the same way.
pub fn run(program: &Path, arguments: &[&std::ffi::OsStr], profile: &Path) -> Result<()> {
    let log: PathBuf = profile.with_extension("tool.log");
    let out = std::fs::File::create(&log).during(|| format!("making {}", log.display()))?;
    let error = out.try_clone().during(|| "a second handle".into())?;
    let status = Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(out)
        .stderr(error)
        .status()
        .during(|| format!("running {}", program.display()))?;
    if !status.success() {
        let words = arguments.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        let program = program.display();
        fail!("{program} {}: {status}{}", words.join(" "), tail(&log));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slots_at_the_ends_are_left_out() {
        let slot = |at: u64, is_partial| json!({"start_unix_us": at * 1_000_000, "is_partial": is_partial});
        let point = |x: f64, mean: f64| json!({"x": x, "spread": {"mean": mean}});
        let slots = json!([slot(1, true), slot(2, false), slot(3, false), slot(4, true)]);
        let points = [
            point(1.0, 9.0),
            point(2.0, 3.0),
            point(3.0, 4.0),
            point(4.0, 9.0),
        ];
        let curve = json!({ "points": points });
        assert_eq!(whole_slots_mean(&curve, &slots, "mean"), Some(3.5));
        assert_eq!(
            whole_slots_mean(&curve, &json!([slot(1, true)]), "mean"),
            None
        );
    }
}
