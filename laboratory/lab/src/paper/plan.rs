//! Plans: experiments of one's own, written down as ranges of variables.
//!
//! ```toml
//! title = "How many buffers?"
//! x = "locality-buffers"
//! y = "gets/s"
//! managers = ["LAZY-READS", "LAZY-READS-LOC"]
//! locality-buffers = [8, 16, 32, 64, 128]
//! utilisation = [0.71, { from = 0.8, to = 0.95, step = 0.05 }]
//! ```
//!
//! Every combination of values is a run. `x` is the horizontal axis, `y` the vertical one, and each combination of the other variables is
//! a curve. Variables that are not named have the paper's value, or the store's; on a trace they have the trace's caches, all its
//! requests, and no seed.
//!
//! Not known here: the meaning of the variables.   Limits: [`RUNS_MAX`] runs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, Model, Outcome};
use super::printed;
use super::report::{Curve, Curves, Report, Rows, Scale, Section};
use super::source::{Source, StreamKey};
use crate::managers::{Kind, Settings};

/// Most runs; more indicate a mistake in a range.
pub const RUNS_MAX: usize = 10_000;

/// The variables, with units in their names, and the paper's values.
const VARIABLES: [(&str, f64); 11] = [
    ("utilisation", 0.71),
    ("disk-gib", 2.0),
    ("memory-mib", 512.0),
    ("requests", 1e6),
    ("seed", 1.0),
    ("threshold-bytes", 131_072.0),
    ("batch", 10.0),
    ("deadline-ms", 1000.0),
    ("locality-buffers", 128.0),
    ("locality-bytes", 65_536.0),
    ("cluster-bytes", 262_144.0),
];

/// A plan as written in the file.
#[derive(Debug, Clone, Deserialize)]
pub struct Plan {
    /// Title of the report.
    pub title: String,
    /// The variable of the horizontal axis.
    pub x: String,
    /// `seconds`, `requests/s`, `gets/s`, or a figure of the run by its name.
    #[serde(default = "gets_per_s")]
    pub y: String,
    /// The managers, by name.
    pub managers: Vec<String>,
    /// The modelled disks.
    #[serde(default = "disk_1999")]
    pub disks: Vec<Model>,
    /// All other variables, with their values.
    #[serde(flatten)]
    variables: BTreeMap<String, Values>,
}

fn gets_per_s() -> String {
    "gets/s".to_owned()
}

fn disk_1999() -> Vec<Model> {
    vec![Model::Disk1999]
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Values {
    One(Value),
    More(Vec<Value>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Range { from: f64, to: f64, step: f64 },
}

/// The reason why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake(String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// A run of a plan: the values of its variables.
#[derive(Debug, Clone)]
struct Point {
    kind: Kind,
    model: Model,
    values: BTreeMap<&'static str, f64>,
}

/// The value of a variable that the plan does not name, for a stream.
fn usual(name: &str, paper: f64, source: &Source) -> f64 {
    match (source, name) {
        (Source::Trace(trace), "disk-gib") => trace.caches.disk_bytes as f64 / f64::from(1 << 30),
        (Source::Trace(trace), "memory-mib") => {
            trace.caches.memory_bytes as f64 / f64::from(1 << 20)
        }
        (Source::Trace(trace), "requests") => trace.disk_requests as f64,
        (Source::Fitted { seed }, "seed") => *seed as f64,
        _ => paper,
    }
}

impl Values {
    fn numbers(&self, name: &str) -> Result<Vec<f64>, Mistake> {
        let values = match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::More(values) => values,
        };
        let mut numbers = Vec::new();
        for value in values {
            match *value {
                Value::Number(number) => numbers.push(number),
                Value::Range { from, to, step } => {
                    let steps = ((to - from) / step + 1e-9).floor();
                    if !(0.0..RUNS_MAX as f64).contains(&steps) || !steps.is_finite() {
                        return Err(Mistake(format!(
                            "{name}: from {from} to {to} in steps of {step} never ends; step must lead from one to the other"
                        )));
                    }
                    numbers.extend((0..=steps as u32).map(|n| from + f64::from(n) * step));
                }
            }
        }
        if numbers.is_empty() {
            return Err(Mistake(format!("{name} has no values")));
        }
        Ok(numbers)
    }
}

impl Plan {
    /// Reads a plan and checks it.
    pub fn parse(text: &str) -> Result<Plan, Mistake> {
        let plan: Plan = toml::from_str(text).map_err(|e| Mistake(e.to_string()))?;
        plan.points(&Source::Fitted { seed: 1 })?;
        Ok(plan)
    }

    fn points(&self, source: &Source) -> Result<Vec<Point>, Mistake> {
        if matches!(source, Source::Trace(_)) && self.variables.contains_key("seed") {
            return Err(Mistake("a trace has no seed".to_owned()));
        }
        let known = || {
            let names: Vec<&str> = VARIABLES.iter().map(|v| v.0).collect();
            names.join(", ")
        };
        if let Some(name) = self
            .variables
            .keys()
            .find(|name| !VARIABLES.iter().any(|v| v.0 == *name))
        {
            return Err(Mistake(format!(
                "{name} is no variable; there are {}",
                known()
            )));
        }
        if !VARIABLES.iter().any(|v| v.0 == self.x) {
            return Err(Mistake(format!(
                "x = {:?} is no variable; there are {}",
                self.x,
                known()
            )));
        }
        let mut points = Vec::new();
        for name in &self.managers {
            let kind = Kind::parse(name).ok_or_else(|| {
                let names = Kind::ALL.map(Kind::name).join(", ");
                Mistake(format!("there is no manager {name:?}; there are {names}"))
            })?;
            for &model in &self.disks {
                let values = BTreeMap::new();
                points.push(Point {
                    kind,
                    model,
                    values,
                });
            }
        }
        for (name, paper) in VARIABLES {
            let numbers = match self.variables.get(name) {
                Some(values) => values.numbers(name)?,
                None => vec![usual(name, paper, source)],
            };
            if let Some(bad) = numbers.iter().find(|&&n| !allowed(name, n)) {
                return Err(Mistake(format!("{name} can not be {bad}")));
            }
            if points.len() * numbers.len() > RUNS_MAX {
                return Err(Mistake(format!(
                    "more than {RUNS_MAX} runs; take wider steps"
                )));
            }
            points = points
                .into_iter()
                .flat_map(|point| {
                    numbers.iter().map(move |&number| {
                        let mut point = point.clone();
                        point.values.insert(name, number);
                        point
                    })
                })
                .collect();
        }
        if points.is_empty() {
            return Err(Mistake("no managers or no disks".to_owned()));
        }
        Ok(points)
    }

    /// The number of runs on each stream.
    pub fn runs(&self) -> usize {
        self.points(&Source::Fitted { seed: 1 })
            .map_or(0, |points| points.len())
    }

    /// Runs the plan on every bench's stream.
    pub fn run(&self, benches: &[Bench]) -> std::io::Result<Report> {
        let mut runs = Vec::new();
        for bench in benches {
            let points = self.points(&bench.source).map_err(std::io::Error::other)?;
            let jobs: Vec<(Load, Job)> = points.iter().map(|point| point.job(bench)).collect();
            let outcomes = bench.run_all(&self.title, &jobs)?;
            let named = points.iter().map(|point| {
                let mut name = self.curve_name(point);
                if benches.len() > 1 {
                    name += &format!(", {}", bench.source.name());
                }
                (name, point.x(&self.x))
            });
            runs.extend(named.zip(outcomes));
        }
        let mut report = self.report(&runs);
        let streams = benches.iter().filter_map(|bench| match &bench.source {
            Source::Fitted { .. } => None,
            Source::Trace(trace) => Some(super::streams::odd(trace).unwrap_or_else(|| {
                format!(
                    "{}: {} gets, {} disk requests.",
                    trace.name, trace.gets, trace.disk_requests
                )
            })),
        });
        report.sections[0].text.extend(streams);
        Ok(report)
    }

    fn y_of(&self, outcome: &Outcome) -> Option<f64> {
        match self.y.as_str() {
            "seconds" => Some(outcome.seconds),
            "requests/s" => Some(outcome.requests_per_s),
            "gets/s" => Some(outcome.gets_per_s),
            name => outcome.figures.get(name).copied(),
        }
    }

    /// The name of a point's curve: the values in which it differs from other curves.
    fn curve_name(&self, point: &Point) -> String {
        let mut name = point.kind.name().to_owned();
        if self.disks.len() > 1 {
            name += &format!(", {:?}", point.model);
        }
        for (variable, values) in &self.variables {
            let several = values
                .numbers(variable)
                .is_ok_and(|numbers| numbers.len() > 1);
            if several && *variable != self.x {
                let value = point.values.get(variable.as_str()).copied().unwrap_or(0.0);
                name += &format!(", {variable} {}", short(value));
            }
        }
        name
    }

    fn report(&self, runs: &[((String, f64), Outcome)]) -> Report {
        let mut curves: Vec<Curve> = Vec::new();
        let mut columns = vec!["run", self.x.as_str(), "seconds", "requests/s", "gets/s"];
        let besides = !columns.contains(&self.y.as_str());
        if besides {
            columns.push(&self.y);
        }
        let mut rows = Rows::new(&self.title, &columns);
        for ((name, x), outcome) in runs {
            let (name, x) = (name.clone(), *x);
            let y = self.y_of(outcome);
            let mut cells = vec![
                name.clone(),
                short(x),
                format!("{:.1}", outcome.seconds),
                format!("{:.1}", outcome.requests_per_s),
                format!("{:.1}", outcome.gets_per_s),
            ];
            if besides {
                cells.push(y.map_or("-".to_owned(), short));
            }
            rows.row(cells);
            let Some(y) = y else { continue };
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push((x, y)),
                None => curves.push(Curve {
                    name,
                    printed: false,
                    points: vec![(x, y)],
                }),
            }
        }
        let mut text = Vec::new();
        if curves.is_empty() {
            let known = runs
                .first()
                .map(|(_, o)| o.figures.keys().cloned().collect::<Vec<_>>());
            text.push(format!(
                "No run has a figure {:?}. There are: seconds, requests/s, gets/s, {}.",
                self.y,
                known.unwrap_or_default().join(", ")
            ));
        }
        Report {
            title: self.title.clone(),
            sections: vec![Section {
                name: "plan".to_owned(),
                title: self.title.clone(),
                text,
                tables: vec![rows],
                plots: vec![Curves {
                    caption: self.title.clone(),
                    x: Scale::near(&self.x),
                    y: Scale::linear(&self.y),
                    joined: false,
                    names: Vec::new(),
                    curves,
                }],
            }],
        }
    }
}

/// Whether a variable may have this value.
fn allowed(name: &str, value: f64) -> bool {
    match name {
        "utilisation" => (0.01..=0.99).contains(&value),
        "threshold-bytes" => (512.0..=1e8).contains(&value),
        "locality-bytes" | "cluster-bytes" => (8192.0..=1e9).contains(&value),
        "batch" | "locality-buffers" => (1.0..=10_000.0).contains(&value),
        "requests" => (1.0..=1e8).contains(&value),
        _ => value > 0.0 && value <= 1e6,
    }
}

/// A number without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Point {
    /// The value of the variable of the horizontal axis.
    fn x(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    fn job(&self, bench: &Bench) -> (Load, Job) {
        let value = |name: &str| self.values.get(name).copied().unwrap_or(0.0);
        let load = Load {
            disk_bytes: (value("disk-gib") * f64::from(1 << 30)) as u64,
            memory_bytes: (value("memory-mib") * f64::from(1 << 20)) as u64,
            until: Until::Requests(value("requests") as usize),
            stream: match bench.source.key() {
                StreamKey::Fitted(_) => StreamKey::Fitted(value("seed") as u64),
                trace => trace,
            },
        };
        let job = Job {
            kind: self.kind,
            settings: Settings {
                threshold_bytes: value("threshold-bytes") as u32,
                batch: value("batch") as usize,
                deadline_us: (value("deadline-ms") * 1e3) as u64,
                locality_buffers: value("locality-buffers") as usize,
                locality_bytes: value("locality-bytes") as u32,
                cluster_bytes: value("cluster-bytes") as u32,
                ..Settings::default()
            },
            utilisation: value("utilisation"),
            model: self.model,
        };
        (load, job)
    }
}

/// `VARIABLES` has the paper's sizes in other units; this keeps the two in agreement.
const _: () = assert!(printed::DISK_BYTES == 2 << 30 && printed::MEMORY_BYTES == 512 << 20);

#[cfg(test)]
mod tests {
    use super::super::bench::Nobody;
    use super::super::keep::Keep;
    use super::*;

    #[test]
    fn every_combination_is_a_run_and_a_curve_each() {
        let plan = Plan::parse(
            "title = 't'\nx = 'locality-buffers'\nmanagers = ['LAZY-READS-LOC']\nrequests = 3000\n\
             disk-gib = 0.005\nmemory-mib = 1\nlocality-buffers = [8, 16]\n\
             utilisation = [0.7, { from = 0.8, to = 0.9, step = 0.1 }]",
        )
        .unwrap();
        assert_eq!(plan.runs(), 6);
        let bench = Bench::new(1.0, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
        let report = plan.run(&[bench]).unwrap();
        let curves = &report.sections[0].plots[0].curves;
        let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names[0], "LAZY-READS-LOC, utilisation 0.7");
        assert_eq!(names.len(), 3);
        assert!(curves.iter().all(|c| c.points.len() == 2));
    }

    #[test]
    fn what_is_not_named_has_the_managers_default() {
        let plan = Plan::parse("title = 't'\nx = 'batch'\nmanagers = ['UNIFIED']").unwrap();
        let bench = Bench::new(1.0, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
        let (_, job) = plan.points(&bench.source).unwrap()[0].job(&bench);
        assert_eq!(job.settings, Settings::default());
    }

    #[test]
    fn mistakes_are_named() {
        let mistake = |more: &str| {
            let text = format!("title = 't'\nx = 'batch'\nmanagers = ['STREAM']\n{more}");
            Plan::parse(&text).unwrap_err().to_string()
        };
        assert!(mistake("batsh = 3").starts_with("batsh is no variable; there are utilisation,"));
        assert!(mistake("utilisation = 1.5").contains("can not be 1.5"));
        assert!(mistake("batch = { from = 1, to = 5, step = -1 }").contains("never ends"));
        assert!(
            mistake("seed = { from = 1, to = 9999, step = 1 }\nbatch = [1, 2]").contains("runs")
        );
        let other = "title = 't'\nx = 'batch'\nmanagers = ['FAST']";
        assert!(
            Plan::parse(other)
                .unwrap_err()
                .to_string()
                .contains("SIMPLE, SQUID")
        );
    }
}
