//! `GET /history`: the last hour, one sample every [`STEP`].
//!
//! Columns of equal length, oldest first, ready to be drawn. Rates are for the time between two samples. A value
//! without data (the latency of no requests) is `null`.
//!
//! The control thread keeps it. Limits: [`SAMPLES_MAX`] samples, about 100 bytes each.

use std::{collections::VecDeque, time::Duration};

use serde::Serialize;

use crate::{
    admin::{facts::Snapshot, process::Process, rounded},
    record::metrics::STATUS_CLASSES,
};

/// Time between two samples.
pub const STEP: Duration = Duration::from_secs(10);
/// Samples kept: an hour.
pub const SAMPLES_MAX: usize = 360;

/// A sample.
#[derive(Clone, Copy)]
struct Sample {
    requests_per_s: f64,
    hits_per_s: f64,
    response_bytes_per_s: f64,
    status_per_s: [f64; STATUS_CLASSES.len()],
    origin_failures_per_s: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    connections_open: u64,
    cpu_cores: Option<f64>,
    resident_bytes: Option<u64>,
}

/// The samples, oldest first.
#[derive(Default)]
pub struct Hour {
    samples: VecDeque<Sample>,
    before: Option<(Snapshot, Process)>,
}

impl Hour {
    /// Takes a sample of what happened since the last one.
    pub fn note(&mut self, now: Snapshot, process: Process) {
        if let Some((before, process_before)) = &self.before {
            let (passed, seconds) = now.since(before);
            if seconds <= 0.0 {
                return;
            }
            if self.samples.len() >= SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples
                .push_back(Sample::of(&passed, seconds, &process, process_before));
        }
        self.before = Some((now, process));
    }

    /// All of it.
    pub fn columns(&self) -> Columns {
        let of = |get: &dyn Fn(&Sample) -> f64| self.samples.iter().map(get).collect::<Vec<_>>();
        let maybe = |get: &dyn Fn(&Sample) -> Option<f64>| self.samples.iter().map(get).collect();
        let status = |class: usize| of(&|s| s.status_per_s[class]);
        Columns {
            step_s: STEP.as_secs(),
            samples_max: SAMPLES_MAX,
            requests_per_s: of(&|s| s.requests_per_s),
            hits_per_s: of(&|s| s.hits_per_s),
            response_bytes_per_s: of(&|s| s.response_bytes_per_s),
            status_none_per_s: status(0),
            status_2xx_per_s: status(2),
            status_3xx_per_s: status(3),
            status_4xx_per_s: status(4),
            status_5xx_per_s: status(5),
            origin_failures_per_s: of(&|s| s.origin_failures_per_s),
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
        Sample {
            requests_per_s: per_s(passed.requests()),
            hits_per_s: per_s(hits.map(|(_, figures)| figures.requests).sum()),
            response_bytes_per_s: per_s(passed.bytes()),
            status_per_s: passed.status_classes().map(per_s),
            origin_failures_per_s: per_s(passed.value("origin_errors")),
            p50_us: latency.quantile_us(0.5).map(rounded),
            p99_us: latency.quantile_us(0.99).map(rounded),
            connections_open: passed.value("client_connections_open"),
            cpu_cores: cpu.map(|(now, then)| rounded((now - then) / seconds)),
            resident_bytes: process.resident_bytes,
        }
    }
}

/// The document.
#[derive(Serialize)]
pub struct Columns {
    step_s: u64,
    samples_max: usize,
    requests_per_s: Vec<f64>,
    hits_per_s: Vec<f64>,
    response_bytes_per_s: Vec<f64>,
    status_none_per_s: Vec<f64>,
    status_2xx_per_s: Vec<f64>,
    status_3xx_per_s: Vec<f64>,
    status_4xx_per_s: Vec<f64>,
    status_5xx_per_s: Vec<f64>,
    origin_failures_per_s: Vec<f64>,
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
    use crate::clock::Instant;
    use std::sync::Arc;

    use profile::Class;

    use super::*;
    use crate::record::metrics::Counters;

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let counters = [Arc::new(Counters::with_rows(1))];
        let start = Instant::now();
        let mut hour = Hour::default();
        for step in 0..SAMPLES_MAX as u32 + 100 {
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
            let process = Process {
                cpu_s: Some(f64::from(step) * 5.0),
                ..Process::default()
            };
            hour.note(Snapshot::of(&counters, start + STEP * step), process);
        }
        let columns = serde_json::to_value(hour.columns()).unwrap();
        for (name, column) in columns.as_object().unwrap() {
            let len = column.as_array().map_or(SAMPLES_MAX, Vec::len);
            assert_eq!(len, SAMPLES_MAX, "{name}");
        }
        let last = |name: &str| columns[name][SAMPLES_MAX - 1].clone();
        assert_eq!(last("requests_per_s"), 2.0);
        assert_eq!(last("hits_per_s"), 0.5);
        assert_eq!(last("status_2xx_per_s"), 1.0);
        assert_eq!(last("status_5xx_per_s"), 1.0);
        assert_eq!(last("cpu_cores"), 0.5);
        assert!(last("resident_bytes").is_null() && last("p99_us").is_f64());
        let text = serde_json::to_string(&columns).unwrap();
        assert!(text.len() < 64 << 10, "{} bytes", text.len());
    }
}
