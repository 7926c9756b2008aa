//! One run: `loligo bench polymix` against a proxy, and the kernel's counters of the proxy meanwhile.
//!
//! The load is a process of its own, the same for every proxy; its report comes back as JSON. Meanwhile a thread of this
//! process samples the proxy's CPU time, memory and disk a few times a second ([`Samples`]). The share of a phase is computed
//! afterwards from the phase's times, with interpolation between samples.
//!
//! Not known here: which proxy it is.   Limits: CPU time counts in ticks of 10 ms; a phase's edges are as certain as the
//! time the load takes to start, some 10 ms.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use polymix::report::{Report, Row};
use serde::Serialize;

use super::options::Conditions;
use crate::block::DeviceStat;
use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::process::{CommandLine, Server, tail};
use crate::procfs;
use crate::rivals::lab_binary;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A run that takes this many times its longest regular time, and [`OVERTIME_SLACK`] more, is broken off.
const OVERTIME: f64 = 1.5;
/// Progress is shown for runs longer than this.
const LONG_S: f64 = 600.0;
const OVERTIME_SLACK: Duration = Duration::from_secs(60);

/// The kernel's counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_s: f64,
    cpu_s: f64,
    resident_bytes: u64,
    device: DeviceStat,
}

/// Samples of a proxy's counters while it is under load.
#[derive(Debug, Default)]
pub struct Samples(Vec<Sample>);

/// What a proxy used between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Used {
    pub seconds: f64,
    pub cpu_s: f64,
    pub resident_bytes_max: u64,
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub write_bytes: f64,
}

impl Samples {
    /// Between two times since the beginning, in seconds.
    pub fn between(&self, from_s: f64, to_s: f64) -> Used {
        let of = |at_s: f64, what: fn(&Sample) -> f64| self.at(at_s, what);
        let spent = |what: fn(&Sample) -> f64| (of(to_s, what) - of(from_s, what)).max(0.0);
        let within = |s: &&Sample| s.at_s >= from_s && s.at_s <= to_s;
        Used {
            seconds: to_s - from_s,
            cpu_s: spent(|s| s.cpu_s),
            resident_bytes_max: self
                .0
                .iter()
                .filter(within)
                .map(|s| s.resident_bytes)
                .max()
                .unwrap_or(0),
            reads: spent(|s| s.device.reads as f64),
            read_bytes: spent(|s| s.device.read_bytes as f64),
            writes: spent(|s| s.device.writes as f64),
            write_bytes: spent(|s| s.device.write_bytes as f64),
        }
    }

    /// A counter at a time, interpolated between two samples, and constant before the first and after the last one.
    fn at(&self, at_s: f64, what: fn(&Sample) -> f64) -> f64 {
        let after = self.0.partition_point(|s| s.at_s < at_s);
        let right = self.0.get(after).or(self.0.last());
        let left = after.checked_sub(1).and_then(|n| self.0.get(n)).or(right);
        let (Some(left), Some(right)) = (left, right) else {
            return 0.0;
        };
        let width = right.at_s - left.at_s;
        if width <= 0.0 {
            return what(right);
        }
        what(left) + (what(right) - what(left)) * (at_s - left.at_s) / width
    }
}

/// The proxy to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub proxy: SocketAddr,
    pub origin: SocketAddr,
    /// the proxy's processes, without their descendants
    pub roots: &'a [u32],
    pub device: &'a Path,
}

/// A run's outcome.
#[derive(Debug)]
pub struct Loaded {
    pub report: Report,
    pub samples: Samples,
    /// when the load was started
    pub began: SystemTime,
}

impl Loaded {
    /// The phase that is judged: the last at full load.
    pub fn top(&self) -> Result<&Row> {
        let mut backwards = self.report.phases.iter().rev();
        backwards
            .find(|row| row.name.starts_with("top"))
            .ok_or_else(|| Failure::new("the load had no phase at full rate"))
    }
}

/// A process that is stopped when dropped.
struct Load(Server);

impl Drop for Load {
    fn drop(&mut self) {
        if let Err(failure) = self.0.stop() {
            eprintln!("stopping the load: {failure}");
        }
    }
}

/// Loads a proxy until the phases are over. An error of `check` breaks it off, for example if the proxy has died.
pub fn run(
    target: Target<'_>,
    conditions: &Conditions,
    rate: f64,
    dir: &Path,
    mut check: impl FnMut() -> Result<()>,
) -> Result<Loaded> {
    let json = dir.join("load.json");
    let log = dir.join("load.log");
    let lines = dir.join("load.lines");
    // An earlier run's report must not be taken for this one's.
    let _ = std::fs::remove_file(&json);
    let _ = std::fs::remove_file(&log);
    let mut args: Vec<String> = conditions.load_args(rate);
    args.extend([
        "--proxy".into(),
        target.proxy.to_string(),
        "--origin".into(),
        target.origin.to_string(),
        "--json".into(),
        json.display().to_string(),
        "--log".into(),
        lines.display().to_string(),
    ]);
    if conditions.seconds_expected(rate) > LONG_S {
        eprintln!("how the run stands: {}", lines.display());
    }
    let began = SystemTime::now();
    let begun = Instant::now();
    let program = lab_binary().display().to_string();
    let mut load = Load(CommandLine::new(&program, args).spawn(&log)?);
    let limit = Duration::from_secs_f64(conditions.seconds_max(rate) * OVERTIME) + OVERTIME_SLACK;
    let mut samples = Samples::default();
    while !load.0.has_ended() {
        samples.0.push(Sample {
            at_s: begun.elapsed().as_secs_f64(),
            cpu_s: procfs::cpu(target.roots).as_secs_f64(),
            resident_bytes: procfs::resident_bytes(target.roots),
            device: DeviceStat::of(target.device).unwrap_or_default(),
        });
        check()?;
        if begun.elapsed() > limit {
            fail!(
                "the run took longer than {:.0} s{}",
                limit.as_secs_f64(),
                tail(&log)
            );
        }
        interrupt::pause(LOOK_EVERY)?;
    }
    drop(load);
    let text = std::fs::read_to_string(&json).map_err(|e| {
        Failure::new(format!(
            "the load wrote no report ({}): {e}{}",
            json.display(),
            tail(&log)
        ))
    })?;
    let report = serde_json::from_str(&text).during(|| format!("reading {}", json.display()))?;
    Ok(Loaded {
        report,
        samples,
        began,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, cpu_s: f64, reads: u64) -> Sample {
        Sample {
            at_s,
            cpu_s,
            resident_bytes: reads * 10,
            device: DeviceStat {
                reads,
                ..DeviceStat::default()
            },
        }
    }

    #[test]
    fn a_phase_is_cut_out_between_two_looks() {
        let samples = Samples(vec![
            sample(0.0, 1.0, 0),
            sample(1.0, 2.0, 100),
            sample(2.0, 2.0, 300),
        ]);
        let used = samples.between(0.5, 1.5);
        assert!((used.cpu_s - 0.5).abs() < 1e-9);
        assert!((used.reads - 150.0).abs() < 1e-9);
        assert_eq!(used.resident_bytes_max, 1000);
    }

    #[test]
    fn beyond_the_looks_counters_stand_still() {
        let samples = Samples(vec![sample(1.0, 1.0, 10), sample(2.0, 3.0, 30)]);
        assert!((samples.between(0.0, 9.0).reads - 20.0).abs() < 1e-9);
        assert!((Samples::default().between(0.0, 1.0).reads - 0.0).abs() < 1e-9);
    }
}
