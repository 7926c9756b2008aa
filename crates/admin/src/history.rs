//! `GET /history`: the last hour, one sample every [`STEP`]; `GET /history?step=1`: the last minutes, one every [`FINE_STEP`].
//!
//! Columns of equal length, oldest first, ready to be drawn. Rates are for the time between two samples. A value
//! without data (the latency of no requests) is `null`.
//!
//! The control thread keeps both. Limits: [`SAMPLES_MAX`] and [`FINE_SAMPLES_MAX`] samples, about 300 bytes each.

use std::{collections::VecDeque, time::Duration};

use profile::Class;
use serde::Serialize;

use crate::{
    json::{InOrder, rounded},
    process::Process,
    snapshot::Snapshot,
};
use record::metrics::STATUS_CLASSES;

/// Time between two samples of the hour.
pub const STEP: Duration = Duration::from_secs(10);
/// Samples of the hour.
pub const SAMPLES_MAX: usize = 360;
/// Time between two samples of the last minutes.
pub const FINE_STEP: Duration = Duration::from_secs(1);
/// Samples of the last minutes: five.
pub const FINE_SAMPLES_MAX: usize = 300;
/// Fine steps to one of the hour.
const FINE_STEPS: u32 = (STEP.as_secs() / FINE_STEP.as_secs()) as u32;

/// A sample.
#[derive(Clone, Copy)]
struct Sample {
    requests_per_s: f64,
    hits_per_s: f64,
    response_bytes_per_s: f64,
    hit_ratio_documents: Option<f64>,
    hit_ratio_bytes: Option<f64>,
    class_per_s: [f64; Class::ALL.len()],
    status_per_s: [f64; STATUS_CLASSES.len()],
    origin_failures_per_s: f64,
    disk_reads_per_s: f64,
    disk_writes_per_s: f64,
    disk_write_bytes_mean: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    connections_open: u64,
    cpu_cores: Option<f64>,
    resident_bytes: Option<u64>,
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
    /// Takes a sample of what happened since the last one; to be called every [`FINE_STEP`].
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

    /// What happened since the last fine sample but one, and in how many seconds; `None` before the first.
    pub fn lately(&self, now: &Snapshot) -> Option<(Snapshot, f64)> {
        let last = self.fine.before.as_ref().map(|(before, _)| before);
        let (passed, seconds) = now.since(self.earlier.as_ref().or(last)?);
        (seconds > 0.0).then_some((passed, seconds))
    }

    /// Processor time a second of the last fine sample.
    pub fn cpu_cores(&self) -> Option<f64> {
        self.fine.samples.back()?.cpu_cores
    }

    /// All requests and those answered from the cache, a second, of the last samples at most; oldest first.
    pub fn trend(&self, samples: usize) -> (Vec<f64>, Vec<f64>) {
        let all = &self.fine.samples;
        let last = all.iter().skip(all.len().saturating_sub(samples));
        last.map(|sample| (sample.requests_per_s, sample.hits_per_s))
            .unzip()
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
            let (passed, seconds) = now.since(before);
            if seconds <= 0.0 {
                return;
            }
            if self.samples.len() >= self.samples_max {
                self.samples.pop_front();
            }
            self.samples
                .push_back(Sample::of(&passed, seconds, &process, process_before));
        }
        self.before = Some((now, process));
    }

    fn columns(&self) -> Columns {
        let of = |get: &dyn Fn(&Sample) -> f64| self.samples.iter().map(get).collect::<Vec<_>>();
        let maybe = |get: &dyn Fn(&Sample) -> Option<f64>| self.samples.iter().map(get).collect();
        let status = |class: usize| of(&|s| s.status_per_s[class]);
        let class = |class: Class| {
            let column = of(&|s| s.class_per_s[class as usize]);
            let occurs = column.iter().any(|n| *n > 0.0);
            occurs.then_some((class.as_str(), column))
        };
        Columns {
            step_s: self.step.as_secs(),
            samples_max: self.samples_max,
            requests_per_s: of(&|s| s.requests_per_s),
            hits_per_s: of(&|s| s.hits_per_s),
            response_bytes_per_s: of(&|s| s.response_bytes_per_s),
            hit_ratio_documents: maybe(&|s| s.hit_ratio_documents),
            hit_ratio_bytes: maybe(&|s| s.hit_ratio_bytes),
            class_per_s: InOrder(Class::ALL.into_iter().filter_map(class).collect()),
            status_none_per_s: status(0),
            status_2xx_per_s: status(2),
            status_3xx_per_s: status(3),
            status_4xx_per_s: status(4),
            status_5xx_per_s: status(5),
            origin_failures_per_s: of(&|s| s.origin_failures_per_s),
            disk_reads_per_s: of(&|s| s.disk_reads_per_s),
            disk_writes_per_s: of(&|s| s.disk_writes_per_s),
            disk_write_bytes_mean: maybe(&|s| s.disk_write_bytes_mean),
            p50_us: maybe(&|s| s.p50_us),
            p99_us: maybe(&|s| s.p99_us),
            connections_open: of(&|s| s.connections_open as f64),
            cpu_cores: maybe(&|s| s.cpu_cores),
            resident_bytes: maybe(&|s| s.resident_bytes.map(|bytes| bytes as f64)),
        }
    }
}

impl Sample {
    fn of(passed: &Snapshot, seconds: f64, process: &Process, before: &Process) -> Sample {
        let per_s = |n: u64| rounded(n as f64 / seconds);
        let latency = passed.latency();
        let hits = passed.classes().filter(|(class, _)| class.is_hit());
        let cpu = process.cpu_s.zip(before.cpu_s);
        let mut class_per_s = [0.0; Class::ALL.len()];
        for (class, figures) in passed.classes() {
            class_per_s[class as usize] = per_s(figures.requests);
        }
        Sample {
            requests_per_s: per_s(passed.requests()),
            hits_per_s: per_s(hits.map(|(_, figures)| figures.requests).sum()),
            response_bytes_per_s: per_s(passed.bytes()),
            hit_ratio_documents: passed.hit_ratio_documents().map(rounded),
            hit_ratio_bytes: passed.hit_ratio_bytes().map(rounded),
            class_per_s,
            status_per_s: passed.status_classes().map(per_s),
            origin_failures_per_s: per_s(passed.value("origin_errors")),
            disk_reads_per_s: per_s(passed.value("disk_reads")),
            disk_writes_per_s: per_s(passed.value("disk_writes")),
            disk_write_bytes_mean: mean(
                passed.value("disk_write_bytes"),
                passed.value("disk_writes"),
            ),
            p50_us: latency.quantile_us(0.5).map(rounded),
            p99_us: latency.quantile_us(0.99).map(rounded),
            connections_open: passed.value("client_connections_open"),
            cpu_cores: cpu.map(|(now, then)| rounded((now - then) / seconds)),
            resident_bytes: process.resident_bytes,
        }
    }
}

/// `None` of nothing.
fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| rounded(sum as f64 / count as f64))
}

/// The document.
#[derive(Serialize)]
pub struct Columns {
    step_s: u64,
    samples_max: usize,
    requests_per_s: Vec<f64>,
    hits_per_s: Vec<f64>,
    response_bytes_per_s: Vec<f64>,
    /// Tunnels and errors are left out.
    hit_ratio_documents: Vec<Option<f64>>,
    hit_ratio_bytes: Vec<Option<f64>>,
    /// The classes that occur.
    class_per_s: InOrder<Vec<f64>>,
    status_none_per_s: Vec<f64>,
    status_2xx_per_s: Vec<f64>,
    status_3xx_per_s: Vec<f64>,
    status_4xx_per_s: Vec<f64>,
    status_5xx_per_s: Vec<f64>,
    origin_failures_per_s: Vec<f64>,
    disk_reads_per_s: Vec<f64>,
    disk_writes_per_s: Vec<f64>,
    /// Bytes of a write of records.
    disk_write_bytes_mean: Vec<Option<f64>>,
    /// All requests except tunnels.
    p50_us: Vec<Option<f64>>,
    p99_us: Vec<Option<f64>>,
    connections_open: Vec<f64>,
    /// Processor time a second: 1.5 means one and a half cores.
    cpu_cores: Vec<Option<f64>>,
    resident_bytes: Vec<Option<f64>>,
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
            // From the hundredth step on, 20 requests a step, a quarter of them hits, half of them with an error.
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
            // Two writes a second of 1,500 bytes on average, until the last second, when nothing is written.
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
        let (requests, hits) = hour.trend(60);
        assert_eq!((requests.len(), hits.len()), (60, 60));
        assert_eq!(hour.cpu_cores(), Some(0.5));
    }
}
