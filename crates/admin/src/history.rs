//! `GET /history`: the last hour, one sample every [`STEP`]; `GET /history?step=1`: the last minutes, one every [`FINE_STEP`].
//!
//! The document has columns of equal length, oldest value first, ready to be drawn. Rates are for the time between two samples. A value without
//! data (such as the latency when there were no requests) is `null`.
//!
//! The control thread keeps both. Limits: [`SAMPLES_MAX`] and [`FINE_SAMPLES_MAX`] samples, about 300 bytes each.

use std::{array, collections::VecDeque, time::Duration};

use profile::Class;
use serde::Serialize;

use crate::{
    json::{InOrder, rounded},
    process::Process,
    snapshot::{Passed, Snapshot},
};

/// Time between two samples of the hour.
pub const STEP: Duration = Duration::from_secs(10);
/// Samples of the hour.
pub const SAMPLES_MAX: usize = 360;
/// Time between two samples of the last minutes.
pub const FINE_STEP: Duration = Duration::from_secs(1);
/// Samples of the last minutes: five minutes.
pub const FINE_SAMPLES_MAX: usize = 300;
/// Fine steps in a step of the hour.
const FINE_STEPS: u32 = (STEP.as_secs() / FINE_STEP.as_secs()) as u32;

/// A column: its name, and its value in a sample, from the changes since the sample before. `Process` has the processor time a second in that
/// interval, and the memory.
type Column = (&'static str, fn(&Passed, &Process) -> f64);

/// All columns except those of classes, which come after the first five.
const COLUMNS: [Column; 19] = [
    ("requests_per_s", |it, _| it.per_s(it.counted.requests())),
    ("hits_per_s", |it, _| it.per_s(it.counted.hits())),
    ("response_bytes_per_s", |it, _| it.per_s(it.counted.bytes())),
    // Tunnels and errors are left out.
    ("hit_ratio_documents", |it, _| {
        maybe(it.counted.hit_ratio_documents())
    }),
    ("hit_ratio_bytes", |it, _| {
        maybe(it.counted.hit_ratio_bytes())
    }),
    ("status_none_per_s", |it, _| answers_per_s(it, 0)),
    ("status_2xx_per_s", |it, _| answers_per_s(it, 2)),
    ("status_3xx_per_s", |it, _| answers_per_s(it, 3)),
    ("status_4xx_per_s", |it, _| answers_per_s(it, 4)),
    ("status_5xx_per_s", |it, _| answers_per_s(it, 5)),
    ("origin_failures_per_s", |it, _| it.rate("origin_errors")),
    ("disk_reads_per_s", |it, _| it.rate("disk_reads")),
    ("disk_writes_per_s", |it, _| it.rate("disk_writes")),
    // Mean bytes of a write of records.
    ("disk_write_bytes_mean", |it, _| {
        let sum = |counter| it.counted.value(counter) as f64;
        rounded(sum("disk_write_bytes") / sum("disk_writes"))
    }),
    // All requests except tunnels.
    ("p50_us", |it, _| {
        maybe(it.counted.latency().quantile_us(0.5))
    }),
    ("p99_us", |it, _| {
        maybe(it.counted.latency().quantile_us(0.99))
    }),
    ("connections_open", |it, _| {
        it.counted.value("client_connections_open") as f64
    }),
    // 1.5 means one and a half cores.
    ("cpu_cores", |_, process| maybe(process.cpu_s)),
    ("resident_bytes", |_, process| {
        maybe(process.resident_bytes.map(|n| n as f64))
    }),
];
const BEFORE_CLASSES: usize = 5;

fn answers_per_s(passed: &Passed, class: usize) -> f64 {
    passed.per_s(passed.counted.status_classes()[class])
}

/// A missing value becomes NaN, which JSON writes as `null`.
fn maybe(value: Option<f64>) -> f64 {
    value.map_or(f64::NAN, rounded)
}

/// The values of a sample: first the columns, then the classes.
type Sample = [f64; COLUMNS.len() + Class::ALL.len()];

fn sample(passed: &Passed, process: &Process) -> Sample {
    let columns = COLUMNS.map(|(_, of)| of(passed, process)).into_iter();
    let classes = passed.counted.classes();
    let mut all = columns.chain(classes.map(|(_, it)| passed.per_s(it.requests)));
    array::from_fn(|_| all.next().unwrap_or(f64::NAN))
}

/// Samples of one step, oldest first.
struct Ring {
    step: Duration,
    samples_max: usize,
    samples: VecDeque<Sample>,
    before: Option<(Snapshot, Process)>,
}

/// The last hour, and the last minutes in finer steps.
pub struct Hour {
    coarse: Ring,
    fine: Ring,
    /// The snapshot before the last one.
    earlier: Option<Snapshot>,
    notes: u32,
}

impl Default for Hour {
    fn default() -> Hour {
        Hour {
            coarse: Ring::new(STEP, SAMPLES_MAX),
            fine: Ring::new(FINE_STEP, FINE_SAMPLES_MAX),
            earlier: None,
            notes: 0,
        }
    }
}

impl Hour {
    /// Takes a sample of the changes since the last one; to be called every [`FINE_STEP`].
    pub fn note(&mut self, now: Snapshot, process: Process) {
        if self.notes.is_multiple_of(FINE_STEPS) {
            self.coarse.note(now.clone(), process);
        }
        self.notes = self.notes.wrapping_add(1);
        if let Some((before, _)) = &self.fine.before {
            self.earlier = Some(before.clone());
        }
        self.fine.note(now, process);
    }

    /// The hour.
    pub fn columns(&self) -> Columns {
        self.coarse.columns()
    }

    /// The last minutes.
    pub fn fine_columns(&self) -> Columns {
        self.fine.columns()
    }

    /// The changes since the last fine sample but one; `None` before the first.
    pub fn lately(&self, now: &Snapshot) -> Option<Passed> {
        let last = self.fine.before.as_ref().map(|(before, _)| before);
        now.since(self.earlier.as_ref().or(last)?)
    }

    /// Processor time a second in the last fine sample.
    pub fn cpu_cores(&self) -> Option<f64> {
        let cores = self.last("cpu_cores", 1).pop();
        cores.filter(|cores| !cores.is_nan())
    }

    /// The last values of a column of fine samples, at most so many; oldest first.
    pub fn last(&self, column: &str, samples: usize) -> Vec<f64> {
        let all = &self.fine.samples;
        let last = all.iter().skip(all.len().saturating_sub(samples));
        let at = COLUMNS.iter().position(|(name, _)| *name == column);
        at.map_or_else(Vec::new, |at| last.map(|it| it[at]).collect())
    }
}

impl Ring {
    fn new(step: Duration, samples_max: usize) -> Ring {
        Ring {
            step,
            samples_max,
            samples: VecDeque::new(),
            before: None,
        }
    }

    fn note(&mut self, now: Snapshot, process: Process) {
        if let Some((before, process_before)) = &self.before {
            let Some(passed) = now.since(before) else {
                return;
            };
            if self.samples.len() >= self.samples_max {
                self.samples.pop_front();
            }
            let cpu = process.cpu_s.zip(process_before.cpu_s);
            let cpu_s = cpu.map(|(now, then)| (now - then) / passed.seconds);
            self.samples
                .push_back(sample(&passed, &Process { cpu_s, ..process }));
        }
        self.before = Some((now, process));
    }

    fn columns(&self) -> Columns {
        let column = |at: usize| self.samples.iter().map(|it| it[at]).collect::<Vec<_>>();
        let names = COLUMNS.iter().enumerate();
        let mut columns: Vec<_> = names.map(|(at, (name, _))| (*name, column(at))).collect();
        let behind = columns.split_off(BEFORE_CLASSES);
        let class = |class: Class| {
            let column = column(COLUMNS.len() + class as usize);
            let occurs = column.iter().any(|n| *n > 0.0);
            occurs.then_some((class.as_str(), column))
        };
        Columns {
            step_s: self.step.as_secs(),
            samples_max: self.samples_max,
            before_classes: InOrder(columns),
            class_per_s: InOrder(Class::ALL.into_iter().filter_map(class).collect()),
            behind: InOrder(behind),
        }
    }
}

/// The JSON document.
#[derive(Serialize)]
pub struct Columns {
    step_s: u64,
    samples_max: usize,
    #[serde(flatten)]
    before_classes: InOrder<Vec<f64>>,
    /// The classes that occur.
    class_per_s: InOrder<Vec<f64>>,
    #[serde(flatten)]
    behind: InOrder<Vec<f64>>,
}

#[cfg(test)]
mod tests {
    use base::clock::Instant;
    use std::sync::Arc;

    use super::*;
    use record::metrics::{self, Counters};

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let counters = [Arc::new(Counters::with_rows(1))];
        let start = Instant::now();
        let mut hour = Hour::default();
        let steps = SAMPLES_MAX as u32 * FINE_STEPS;
        for step in 0..steps + 100 {
            // From the hundredth step on there are 20 requests a step: a quarter are hits, half are errors.
            for n in 0..20 {
                let class = if n % 4 == 0 {
                    Class::MemoryHit
                } else {
                    Class::Miss
                };
                if step >= 100 {
                    counters[0].finish(class, 1000, 100);
                    counters[0].answered(0, if n % 2 == 0 { 200 } else { 503 }, 1000);
                }
            }
            // There are two writes a second of 1,500 bytes on average, and none in the last second.
            if step + 1 < steps + 100 {
                metrics::add(&counters[0].disk_writes, 2);
                metrics::add(&counters[0].disk_write_bytes, 3000);
            }
            let process = Process {
                cpu_s: Some(f64::from(step) * 0.5),
                ..Process::default()
            };
            let now = start + FINE_STEP * step;
            hour.note(Snapshot::of(&counters, now), process);
        }
        for (columns, samples) in [
            (hour.columns(), SAMPLES_MAX),
            (hour.fine_columns(), FINE_SAMPLES_MAX),
        ] {
            let columns = serde_json::to_value(columns).unwrap();
            for (name, column) in columns.as_object().unwrap() {
                let len = column.as_array().map_or(samples, Vec::len);
                assert_eq!(len, samples, "{name}");
            }
            let last = |name: &str| columns[name][samples - 1].clone();
            assert_eq!(last("requests_per_s"), 20.0);
            assert_eq!(last("hits_per_s"), 5.0);
            assert_eq!(last("hit_ratio_documents"), 0.25);
            assert_eq!(last("status_2xx_per_s"), 10.0);
            assert_eq!(last("status_5xx_per_s"), 10.0);
            assert_eq!(last("cpu_cores"), 0.5);
            let mean = &columns["disk_write_bytes_mean"];
            assert_eq!(mean[samples - 2], 1500.0);
            assert!(
                samples == SAMPLES_MAX || mean[samples - 1].is_null(),
                "a mean of nothing"
            );
            assert!(last("resident_bytes").is_null() && last("p99_us").is_f64());
            let classes = columns["class_per_s"].as_object().unwrap();
            assert_eq!(classes.len(), 2);
            assert_eq!(classes["miss"][samples - 1], 15.0);
            let text = serde_json::to_string(&columns).unwrap();
            assert!(text.len() < 64 << 10, "{} bytes", text.len());
        }
        let requests = hour.last("requests_per_s", 60);
        assert_eq!((requests.len(), requests[59]), (60, 20.0));
        assert_eq!(hour.cpu_cores(), Some(0.5));
    }
}
