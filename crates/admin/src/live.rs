//! `GET /live`: present activity as JSON, for `loligo top` and the dashboard.
//!
//! There are three periods, and each figure's part tells its length: *now* is the last second or two, *minute* the last minute, *origins* the last
//! five to ten minutes. The rankings of hosts and URLs (`top`) fade by half in ten minutes. They are only there if `admin.top` is on, because they
//! reveal what clients request. For the same reason an origin that is not one of a route is named only then.
//!
//! `loligo top` reads the parts into the same structs. Missing members get default values, so that documents of other versions can be shown too.
//!
//! Names carry their units; a value without data is `null`. Limits: [`RANKED_MAX`] names a ranking, 256 origins.

use std::borrow::Cow;

use profile::Class;
use serde::{Deserialize, Serialize};

pub use crate::json::{HitRatio, Latency};
use crate::{
    facts::{Facts, StoreFacts},
    histogram::Histogram,
    history::Hour,
    json::{rounded, word_of},
    snapshot::{History, Passed},
};
use cluster::ClusterStatus;
pub use record::top::{Ranked, Rankings};
use record::{
    origins::{OriginBook, OriginTable, OriginTimes},
    protocols::ProtocolFigures,
};
use upstreams::UpstreamStanding;

/// Names reported of a ranking, at most.
pub const RANKED_MAX: usize = 40;
/// Seconds of the trend.
const TREND_SAMPLES: usize = 120;

/// The whole document.
#[derive(Serialize)]
pub struct Live {
    version: &'static str,
    phase: &'static str,
    uptime_s: f64,
    workers: usize,
    connections_open: u64,
    connections_max: u64,
    /// `None` in the first second.
    now: Option<Now>,
    /// `None` in the first seconds.
    minute: Option<Minute>,
    origins: OriginsTold,
    disk: Disk,
    memory_bytes: u64,
    memory_bytes_max: u64,
    cpu_cores: Option<f64>,
    resident_bytes: Option<u64>,
    top: Option<TopTold>,
    /// `null`: this proxy is not a member of a cluster.
    cluster: Option<ClusterStatus>,
    /// The upstreams and their servers.
    upstreams: Vec<UpstreamStanding>,
    trend: Trend,
}

/// A name: a constant of this program, or read from a document.
type Name = Cow<'static, str>;

/// The last second or two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Now {
    /// The actual length of the period.
    pub seconds: f64,
    /// All requests.
    pub requests_per_s: f64,
    /// Bytes sent to clients.
    pub response_bytes_per_s: f64,
    /// Requests of class error.
    pub errors_per_s: f64,
    /// Reads of records.
    pub disk_reads_per_s: f64,
    /// Writes of clusters.
    pub disk_writes_per_s: f64,
    /// Bytes of these writes.
    pub disk_write_bytes_per_s: f64,
    /// Handshakes of TLS clients.
    pub handshakes: Handshakes,
}

/// Handshakes of TLS clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Handshakes {
    /// Handshakes of new sessions.
    pub full_per_s: f64,
    /// Handshakes of resumed sessions.
    pub resumed_per_s: f64,
    /// Failed for any reason; `tls_handshakes_...` in `/metrics` tell the reasons apart.
    pub failed_per_s: f64,
}

/// The last minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Minute {
    /// The actual length of the period.
    pub seconds: f64,
    /// All requests.
    pub requests_per_s: f64,
    /// Bytes sent to clients.
    pub response_bytes_per_s: f64,
    /// Without tunnels and errors.
    pub hit_ratio: HitRatio,
    /// All requests except tunnels.
    pub latency_us: Option<Latency>,
    /// The classes that occurred.
    pub classes: Vec<ClassRow>,
    /// The stages that occurred, without those of memory hits.
    pub stages: Vec<StageRow>,
    /// The protocols that occurred.
    pub protocols: Vec<ProtocolRow>,
}

/// A protocol of clients with an encryption.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProtocolRow {
    /// `HTTP/1.1`; `none`: no request was understood.
    pub protocol: Name,
    /// `none`, `TLSv1.3`.
    pub tls: Name,
    /// `none`, `full`, `resumed`.
    pub session: Name,
    /// Requests.
    pub requests_per_s: f64,
    /// Part of all requests, 0 to 1.
    pub share: f64,
    /// New connections.
    pub connections_per_s: f64,
    /// Client connections open now.
    pub connections_open: u64,
}

/// Requests of a class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassRow {
    /// Its name.
    pub name: Name,
    /// Did the cache answer?
    pub is_hit: bool,
    /// Requests.
    pub requests_per_s: f64,
    /// Part of all requests, 0 to 1.
    pub share: f64,
    /// Bytes sent to clients.
    pub response_bytes_per_s: f64,
    /// `None` for a class that is not timed.
    pub latency_us: Option<Latency>,
}

/// A stage of requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StageRow {
    /// Its name.
    pub name: Name,
    /// Requests that had it.
    pub requests_per_s: f64,
    /// Microseconds.
    pub p50_us: Option<f64>,
    /// Microseconds.
    pub p99_us: Option<f64>,
}

/// The origins of the last minutes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OriginsTold {
    /// Are all origins named?
    pub are_named: bool,
    /// Sorted by p99, the slowest first.
    pub rows: Vec<OriginRow>,
    /// The sum of all origins without a row.
    pub rest: Option<OriginRow>,
}

/// Requests to an origin, and times until the head of its response.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OriginRow {
    /// URL or host.
    pub name: String,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests without a usable response.
    pub failures: u64,
    /// Microseconds.
    pub p50_us: Option<f64>,
    /// Microseconds.
    pub p99_us: Option<f64>,
}

/// Queues of the stores' devices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Reads from devices in progress.
    pub reads_under_way: u64,
    /// Due reads that wait for a slow device.
    pub reads_waiting: u64,
    /// Writes handed to devices and not completed.
    pub writes_under_way: u64,
    /// Empty if there is no disk.
    pub stores: Vec<StoreRow>,
}

/// A store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreRow {
    /// File or device.
    pub path: String,
    live_bytes: u64,
    dead_bytes: u64,
    never_written_bytes: u64,
    reads_under_way: u64,
    writes_under_way: u64,
    /// Is storing paused after a failed write?
    pub is_paused: bool,
    /// Is its device set aside because it does not answer?
    pub is_aside: bool,
}

/// The rankings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopTold {
    /// Hosts.
    pub hosts: Rankings,
    /// URLs.
    pub urls: Rankings,
}

/// The last two minutes, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trend {
    step_s: u64,
    /// All requests.
    pub requests_per_s: Vec<f64>,
    hits_per_s: Vec<f64>,
}

impl Live {
    /// Puts the document together. `top`: the rankings of hosts and URLs, if they are counted.
    pub fn of(
        facts: Facts,
        history: &History,
        hour: &Hour,
        origins: &OriginBook,
        top: Option<[Rankings; 2]>,
    ) -> Live {
        let counted = &facts.counted;
        Live {
            version: facts.version,
            phase: word_of(facts.phase),
            uptime_s: rounded(facts.uptime.as_secs_f64()),
            workers: facts.workers.len(),
            connections_open: counted.value("client_connections_open"),
            connections_max: facts.connections_max,
            now: hour.lately(counted).as_ref().map(Now::of),
            minute: history.recent(counted).as_ref().map(Minute::of),
            origins: OriginsTold::of(&origins.all(), top.is_some()),
            disk: Disk::of(&facts.stores, facts.reads_waiting),
            memory_bytes: facts.memory.bytes,
            memory_bytes_max: facts.memory.bytes_max,
            cpu_cores: hour.cpu_cores(),
            resident_bytes: facts.process.resident_bytes,
            top: top.map(|[hosts, urls]| TopTold { hosts, urls }),
            cluster: facts.cluster,
            upstreams: facts.upstreams,
            trend: Trend {
                step_s: crate::history::FINE_STEP.as_secs(),
                requests_per_s: hour.last("requests_per_s", TREND_SAMPLES),
                hits_per_s: hour.last("hits_per_s", TREND_SAMPLES),
            },
        }
    }
}

impl Now {
    fn of(passed: &Passed) -> Now {
        let counted = &passed.counted;
        let errors = counted
            .classes()
            .filter(|(class, _)| *class == Class::Error);
        // All other counters with this prefix.
        let is_failure = |how: &str| !matches!(how, "open" | "full" | "resumed");
        let failed = counted.simple().iter().filter(|it| {
            let how = it.name.strip_prefix("tls_handshakes_");
            how.is_some_and(is_failure)
        });
        Now {
            seconds: rounded(passed.seconds),
            requests_per_s: passed.per_s(counted.requests()),
            response_bytes_per_s: passed.per_s(counted.bytes()),
            errors_per_s: passed.per_s(errors.map(|(_, it)| it.requests).sum()),
            disk_reads_per_s: passed.rate("disk_reads"),
            disk_writes_per_s: passed.rate("disk_writes"),
            disk_write_bytes_per_s: passed.rate("disk_write_bytes"),
            handshakes: Handshakes {
                full_per_s: passed.rate("tls_handshakes_full"),
                resumed_per_s: passed.rate("tls_handshakes_resumed"),
                failed_per_s: passed.per_s(failed.map(|it| it.value).sum()),
            },
        }
    }
}

impl ProtocolRow {
    fn of(row: &ProtocolFigures, all: f64, passed: &Passed) -> ProtocolRow {
        let [(_, protocol), (_, tls), (_, session)] = row.labels();
        ProtocolRow {
            protocol: protocol.into(),
            tls: tls.into(),
            session: session.into(),
            requests_per_s: passed.per_s(row.requests),
            share: rounded(row.requests as f64 / all),
            connections_per_s: passed.per_s(row.connections),
            connections_open: row.open,
        }
    }
}

impl Minute {
    fn of(passed: &Passed) -> Minute {
        let counted = &passed.counted;
        let all = counted.requests().max(1) as f64;
        let classes = counted.classes().filter(|(_, it)| it.requests > 0);
        let stages = counted.stages().filter(|(_, times)| times.count() > 0);
        Minute {
            seconds: rounded(passed.seconds),
            requests_per_s: passed.per_s(counted.requests()),
            response_bytes_per_s: passed.per_s(counted.bytes()),
            hit_ratio: HitRatio::of(counted),
            latency_us: Latency::of(&counted.latency()),
            classes: classes
                .map(|(class, figures)| ClassRow {
                    name: class.as_str().into(),
                    is_hit: class.is_hit(),
                    requests_per_s: passed.per_s(figures.requests),
                    share: rounded(figures.requests as f64 / all),
                    response_bytes_per_s: passed.per_s(figures.bytes),
                    latency_us: Latency::of(&figures.latency),
                })
                .collect(),
            protocols: (counted.protocols())
                .map(|row| ProtocolRow::of(row, all, passed))
                .collect(),
            stages: stages
                .map(|(stage, times)| StageRow {
                    name: stage.as_str().into(),
                    requests_per_s: passed.per_s(times.count()),
                    p50_us: times.quantile_us(0.5).map(rounded),
                    p99_us: times.quantile_us(0.99).map(rounded),
                })
                .collect(),
        }
    }
}

impl OriginsTold {
    fn of(table: &OriginTable, are_named: bool) -> OriginsTold {
        let rows = table.by_name.iter();
        let mut rows: Vec<_> = rows
            .map(|(name, times)| OriginRow::of(name, times))
            .collect();
        // Origins that never answered come first.
        let slowness = |row: &OriginRow| row.p99_us.unwrap_or(f64::INFINITY);
        rows.sort_by(|a, b| {
            let slower = slowness(b).total_cmp(&slowness(a));
            slower.then_with(|| a.name.cmp(&b.name))
        });
        let has_rest = table.rest.requests > 0;
        OriginsTold {
            are_named,
            rows,
            rest: has_rest.then(|| OriginRow::of("other", &table.rest)),
        }
    }
}

impl OriginRow {
    fn of(name: &str, times: &OriginTimes) -> OriginRow {
        let told = Histogram::of(times.counts);
        OriginRow {
            name: name.to_owned(),
            requests: times.requests,
            failures: times.failures,
            p50_us: told.quantile_us(0.5).map(rounded),
            p99_us: told.quantile_us(0.99).map(rounded),
        }
    }
}

impl Disk {
    fn of(stores: &[StoreFacts], reads_waiting: u64) -> Disk {
        let rows = stores.iter().map(|store| StoreRow {
            path: store.path.clone(),
            live_bytes: store.figures.live_bytes,
            dead_bytes: store.figures.dead_bytes,
            never_written_bytes: store.figures.never_written_bytes,
            reads_under_way: store.figures.reads_pinned,
            writes_under_way: store.figures.clusters_in_flight,
            is_paused: store.paused,
            is_aside: store.aside,
        });
        let stores: Vec<_> = rows.collect();
        Disk {
            reads_under_way: stores.iter().map(|store| store.reads_under_way).sum(),
            reads_waiting,
            writes_under_way: stores.iter().map(|store| store.writes_under_way).sum(),
            stores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use exchange::testing;
    use profile::{Encryption, Protocol, StageName};

    fn json(live: &Live) -> serde_json::Value {
        serde_json::from_str(&serde_json::to_string(live).unwrap()).unwrap()
    }

    #[test]
    fn the_document_is_complete_when_there_is_nothing_to_tell() {
        let shared = testing::shared();
        let facts = Facts::gather(&shared, 0);
        let (history, hour) = (History::default(), Hour::default());
        let live = Live::of(facts, &history, &hour, &OriginBook::default(), None);
        let live = json(&live);
        assert!(live["now"].is_null() && live["minute"].is_null() && live["top"].is_null());
        assert_eq!(live["phase"], "running");
        assert_eq!(live["disk"]["reads_waiting"], 0);
        assert!(live["origins"]["rest"].is_null());
    }

    #[test]
    fn classes_stages_and_origins_are_told() {
        let shared = testing::shared();
        let (mut history, mut hour) = (History::default(), Hour::default());
        let begin = Snapshot::of(&shared.counters, shared.began);
        history.note(begin.clone());
        hour.note(begin, crate::process::Process::default());
        let worker = &shared.counters[0];
        let mut stages = [None; profile::STAGES];
        stages[StageName::ServerReply as usize] = Some(profile::Stage {
            start_us: 0,
            first_us: 900,
            total_us: 1000,
        });
        for _ in 0..3 {
            worker.finish(Class::Miss, 1000, 2000);
            worker.staged(Class::Miss, &stages);
        }
        worker.finish(Class::MemoryHit, 3000, 20);
        for _ in 0..3 {
            worker.protocols.request(Protocol::Http2, Encryption::Tls13);
        }
        worker.protocols.opened(Protocol::Http11, Encryption::None);
        worker.protocols.request(Protocol::Http11, Encryption::None);
        worker.origins.note(Some("http://slow:80"), Some(9000));
        worker.origins.note(Some("http://fast:80"), Some(90));
        worker.origins.note(Some("http://fast:80"), None);
        worker.origins.note(Some("http://dead:80"), None);
        worker.origins.note(None, Some(100));
        let mut book = OriginBook::default();
        book.add(&worker.origins.take());
        let facts = Facts::gather(&shared, 0);
        let live = json(&Live::of(facts, &history, &hour, &book, None));
        let minute = &live["minute"];
        assert_eq!(minute["hit_ratio"]["documents"], 0.25);
        assert_eq!(minute["hit_ratio"]["bytes"], 0.5);
        let classes = minute["classes"].as_array().unwrap();
        assert_eq!(classes.len(), 2);
        assert_eq!(
            (&classes[1]["name"], &classes[1]["share"]),
            (&"miss".into(), &0.75.into())
        );
        let protocols = minute["protocols"].as_array().unwrap();
        assert_eq!(protocols.len(), 2);
        assert_eq!(
            (&protocols[0]["tls"], &protocols[0]["connections_open"]),
            (&"none".into(), &1.into())
        );
        assert_eq!(
            (&protocols[1]["protocol"], &protocols[1]["session"]),
            (&"HTTP/2".into(), &"full".into())
        );
        assert_eq!(protocols[1]["share"], 0.75);
        assert_eq!(live["now"]["handshakes"]["failed_per_s"], 0.0);
        let stages = minute["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 1);
        assert_eq!(stages[0]["name"], "server-reply");
        let p50 = stages[0]["p50_us"].as_f64().unwrap();
        assert!((750.0..1250.0).contains(&p50), "{p50}");
        let rows = live["origins"]["rows"].as_array().unwrap();
        let names: Vec<_> = rows
            .iter()
            .map(|row| row["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["http://dead:80", "http://slow:80", "http://fast:80"]
        );
        assert_eq!(
            (&rows[2]["requests"], &rows[2]["failures"]),
            (&2.into(), &1.into())
        );
        assert!(rows[0]["p50_us"].is_null());
        assert_eq!(live["origins"]["rest"]["requests"], 1);
        assert_eq!(live["origins"]["are_named"], false);
        assert!(live["now"]["requests_per_s"].as_f64().unwrap() > 0.0);
    }
}
