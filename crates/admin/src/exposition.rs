//! `GET /metrics`: the facts in the text format of OpenMetrics 1.0, which Prometheus reads.
//!
//! Names begin with `loligo_`. Counters, gauges and their meanings come from the tables that define them
//! (`metrics::Counters`, `store::Figures`), so a new one appears here by itself.
//!
//! Latencies: our four buckets to a power of two are merged to one, from 8 us to 17 s; the edges are edges of
//! the fine buckets too, so no count is guessed.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, NoLabelSet, text,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Registry,
};

use store::Figures;

use crate::limits;
use crate::{
    facts::{Facts, StoreFacts},
    histogram::Histogram,
    members::{self, Family, Figure},
    process::Process,
    upstreams::{self, Kind},
};
use ::upstreams::UpstreamStanding;
use cluster::MemberStatus;
use record::{
    labels::Label,
    metrics::{DIAGNOSTICS_LOST, SESSIONS_FORGOTTEN, STATUS_CLASSES},
    protocols::ProtocolFigures,
};

/// The media type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper edges of the latency buckets as powers of two of a microsecond.
const EDGE_POWERS: std::ops::RangeInclusive<usize> = 3..=24;

/// The whole exposition.
pub fn render(facts: Facts) -> String {
    let mut all = Registry::default();
    // Under the standard names.
    all.register_collector(Box::new(Kernel(facts.process)));
    let registry = all.sub_registry_with_prefix("loligo");
    let version = Info::new([("version", facts.version)]);
    registry.register("build", "The version of the program", version);
    let engine = Info::new([("engine", facts.io_engine)]);
    registry.register(
        "io_engine",
        "How the disk is read and written: io_uring, threads, or none without a store",
        engine,
    );
    registry.register_collector(Box::new(Arc::new(Exposition(facts))));
    let mut out = String::with_capacity(32 << 10);
    text::encode(&mut out, &all).expect("writing to a string does not fail");
    out
}

#[derive(Debug)]
struct Kernel(Process);

impl Collector for Kernel {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut e = Encoder(encoder);
        let process = &self.0;
        if let Some(seconds) = process.cpu_s {
            let words = "Processor time of all threads, user and system, in seconds";
            e.counter("process_cpu_seconds", words, seconds)?;
        }
        let started = "When the process started, in seconds since 1970";
        if let Some(seconds) = process.started_unix_s {
            e.gauge("process_start_time_seconds", started, seconds)?;
        }
        for (name, words, value) in [
            (
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM, in bytes",
                process.resident_bytes,
            ),
            (
                "process_open_fds",
                "Open files of the process, sockets among them",
                process.open_fds,
            ),
            (
                "process_max_fds",
                "How many files the process may have open (ulimit -n)",
                process.max_fds,
            ),
        ] {
            if let Some(value) = value {
                e.gauge(name, words, value)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Exposition(Facts);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut e = Encoder(encoder);
        self.process(&mut e)?;
        self.requests(&mut e)?;
        self.protocols(&mut e)?;
        self.answers(&mut e)?;
        self.upstreams(&mut e)?;
        self.rules(&mut e)?;
        for simple in self.0.counted.simple() {
            if simple.is_gauge() {
                e.gauge(simple.name, simple.help, simple.value)?;
            } else {
                e.counter(simple.name, simple.help, simple.value)?;
            }
        }
        limits::encode(&self.0.limits, &mut e.0)?;
        self.memory(&mut e)?;
        self.stores(&mut e)?;
        self.members(&mut e)
    }
}

/// Name, meaning, kind and value.
type ProtocolFamily = (
    &'static str,
    &'static str,
    MetricType,
    fn(&ProtocolFigures) -> u64,
);

const PROTOCOL_FAMILIES: [ProtocolFamily; 3] = [
    (
        "protocol_requests",
        "Requests finished, by the client's protocol and the encryption of its connection",
        MetricType::Counter,
        |row| row.requests,
    ),
    (
        "protocol_connections",
        "Client connections, by what is spoken on them: counted once that is known",
        MetricType::Counter,
        |row| row.connections,
    ),
    (
        "protocol_connections_open",
        "Client connections open now, by what is spoken on them",
        MetricType::Gauge,
        |row| row.open,
    ),
];

impl Exposition {
    fn process(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let facts = &self.0;
        e.gauge(
            "uptime_seconds",
            "Time since the process came up, in seconds",
            facts.uptime.as_secs_f64(),
        )?;
        let running = u64::from(facts.phase == base::phase::Phase::Running);
        e.gauge("running", "1 while serving, 0 while draining", running)?;
        let words = "Messages on standard error dropped because nobody read them";
        let lost = DIAGNOSTICS_LOST.load(Ordering::Relaxed);
        e.counter("diagnostics_lost", words, lost)?;
        let words = "Stores that could not be opened and are left out";
        e.gauge("stores_absent", words, facts.stores_absent)?;
        let configuration = &facts.configuration;
        let words = "The edition of the configuration that is in force: 1 at the start, one more with each reload";
        e.gauge("config_edition", words, u64::from(configuration.edition))?;
        let words = "When it was loaded, in seconds since 1970";
        e.gauge(
            "config_loaded_seconds",
            words,
            configuration.loaded.as_secs_f64(),
        )?;
        let words = "Reloads that were refused, so that the configuration stayed as it was";
        e.counter("config_reload_failures", words, configuration.failures)?;
        if !configuration.certificates.is_empty() {
            let words = "When a listener's certificate ends, in seconds since 1970";
            let mut family = e.0.encode_descriptor(
                "tls_certificate_expires_seconds",
                words,
                None,
                MetricType::Gauge,
            )?;
            for (listener, name, end) in &configuration.certificates {
                let labels = [("listener", listener.as_str()), ("name", name.as_str())];
                ConstGauge::new(*end).encode(family.encode_family(&labels)?)?;
            }
        }
        let words = "TLS sessions, kept for early-data, that made room for newer ones (limits.tls-sessions)";
        let forgotten = SESSIONS_FORGOTTEN.load(Ordering::Relaxed);
        e.counter("tls_sessions_forgotten", words, forgotten)?;
        if let Some((issued, failures)) = configuration.acme {
            let words = "Certificates that were issued by acme.directory";
            e.counter("acme_issued", words, issued)?;
            let words = "Orders for a certificate that have failed";
            e.counter("acme_failures", words, failures)?;
        }
        e.gauge(
            "client_connections_max",
            "The bound on open client connections",
            facts.connections_max,
        )
    }

    fn protocols(&self, e: &mut Encoder<'_>) -> fmt::Result {
        for (name, words, kind, of) in PROTOCOL_FAMILIES {
            let mut family = e.0.encode_descriptor(name, words, None, kind)?;
            for row in self.0.counted.protocols() {
                let labels = row.labels();
                let metric = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(of(row)).encode(metric)?,
                    _ => ConstGauge::new(of(row)).encode(metric)?,
                }
            }
        }
        Ok(())
    }

    fn requests(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let counted = &self.0.counted;
        let by_class = |measure: fn(&crate::snapshot::ClassFigures) -> u64| {
            counted
                .classes()
                .map(move |(class, f)| (class.as_str(), measure(f)))
        };
        e.by_class(
            "requests",
            "Requests finished, by what became of them: the classes of the access log",
            by_class(|f| f.requests),
        )?;
        e.by_class(
            "response_bytes",
            "Bytes sent to clients, heads included, by what became of the request",
            by_class(|f| f.bytes),
        )?;
        e.gauge(
            "hit_ratio_documents",
            "Part (0 to 1) of the requests since the start that were answered from the cache, without tunnels and errors",
            counted.hit_ratio_documents().unwrap_or(f64::NAN),
        )?;
        e.gauge(
            "hit_ratio_bytes",
            "Part (0 to 1) of the bytes sent since the start that came from the cache, without tunnels and errors",
            counted.hit_ratio_bytes().unwrap_or(f64::NAN),
        )?;
        let mut family = e.0.encode_descriptor(
            "request_duration_seconds",
            "Time from the first byte of a request to the last of its answer, in seconds",
            None,
            MetricType::Histogram,
        )?;
        for (class, figures) in counted.classes() {
            let labels = [("class", class.as_str())];
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(
                    figures.latency.sum_us as f64 / 1e6,
                    figures.latency.count(),
                    &merged(&figures.latency),
                    None,
                )?;
        }
        Ok(())
    }

    /// Answers by listener, origin and class of status; failures of origins by cause.
    fn answers(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let Facts {
            counted, labels, ..
        } = &self.0;
        let is_used = |(label, _): &(&Label, _)| !label.listener.is_empty();
        let rows = || labels.iter().zip(counted.rows()).filter(is_used);
        let words = "Requests finished, by the listener's address, the origin its route names (`other` on forward listeners), and the class of the status sent (`none`: the client had gone)";
        let mut family =
            e.0.encode_descriptor("answers", words, None, MetricType::Counter)?;
        for (label, row) in rows() {
            for (class, answers) in STATUS_CLASSES.into_iter().zip(row.answers) {
                if answers > 0 {
                    let labels = [
                        ("listener", &label.listener[..]),
                        ("origin", &label.origin),
                        ("status", class),
                    ];
                    ConstCounter::new(answers).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let words = "Bytes sent to clients, heads included, by the listener's address and the origin its route names";
        let mut family =
            e.0.encode_descriptor("answer_bytes", words, None, MetricType::Counter)?;
        for (label, row) in rows() {
            let labels = [("listener", &label.listener[..]), ("origin", &label.origin)];
            ConstCounter::new(row.bytes).encode(family.encode_family(&labels)?)?;
        }
        let words =
            "Answers of origins that failed, by cause (RFC 9209 section 2.3, as in Cache-Status)";
        let mut family =
            e.0.encode_descriptor("origin_failures", words, None, MetricType::Counter)?;
        for (cause, failures) in counted.causes() {
            let labels = [("cause", cause)];
            ConstCounter::new(failures).encode(family.encode_family(&labels)?)?;
        }
        self.h2_faults(e)
    }

    /// What clients of HTTP/2 did against its rules, or too often.
    fn h2_faults(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let words = "What clients did against the rules of HTTP/2, or more often than they may";
        let mut family =
            e.0.encode_descriptor("h2_faults", words, None, MetricType::Counter)?;
        for (fault, count) in self.0.counted.h2_faults() {
            let labels = [("fault", name_of(fault))];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// One family a figure, one line an upstream or a server.
    fn upstreams(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let all = &self.0.upstreams;
        if all.is_empty() {
            return Ok(());
        }
        for (name, words, of) in upstreams::OF_UPSTREAMS {
            let mut family = (e.0).encode_descriptor(name, words, None, MetricType::Counter)?;
            for upstream in all {
                let labels = [("upstream", &upstream.name[..])];
                ConstCounter::new(of(upstream)).encode(family.encode_family(&labels)?)?;
            }
        }
        let servers = || {
            let of =
                |upstream: &'_ UpstreamStanding| (upstream.name.clone(), upstream.servers.clone());
            let all = all.iter().map(of);
            all.flat_map(|(name, servers)| servers.into_iter().map(move |it| (name.clone(), it)))
        };
        for (name, words, kind, of) in upstreams::OF_SERVERS {
            let type_of = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut family = (e.0).encode_descriptor(name, words, None, type_of)?;
            for (upstream, server) in servers() {
                let labels = [("upstream", &upstream[..]), ("server", &server.server)];
                let encoder = family.encode_family(&labels)?;
                match kind {
                    Kind::Counter => ConstCounter::new(of(&server)).encode(encoder)?,
                    Kind::Gauge => ConstGauge::new(of(&server)).encode(encoder)?,
                }
            }
        }
        Ok(())
    }

    /// What rules have decided, and how many requests had each tag.
    fn rules(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let rules = &self.0.rules;
        let words = "Requests that a rule has denied, answered or redirected, by the rule's name, or its number";
        let mut family =
            e.0.encode_descriptor("rules_decided", words, None, MetricType::Counter)?;
        for rule in rules {
            if let Some(decision) = rule.decision {
                let labels = [("rule", &rule.name[..]), ("decision", decision)];
                ConstCounter::new(rule.count).encode(family.encode_family(&labels)?)?;
            }
        }
        let words = "Requests finished that a rule has given this tag";
        let mut family =
            e.0.encode_descriptor("tagged_requests", words, None, MetricType::Counter)?;
        for tag in rules.iter().filter(|rule| rule.decision.is_none()) {
            let labels = [("tag", &tag.name[..])];
            ConstCounter::new(tag.count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn memory(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let Facts { memory, .. } = &self.0;
        let words = "Bytes of the objects in the memory tier, fragments of large ones among them";
        e.gauge("memory_bytes", words, memory.bytes)?;
        e.gauge(
            "memory_bytes_max",
            "The bound on bytes in the memory tier",
            memory.bytes_max,
        )?;
        e.gauge(
            "memory_objects",
            "Objects in the memory tier",
            memory.objects,
        )?;
        e.counter(
            "memory_evicted",
            "Objects pushed out of the memory tier for want of room",
            memory.evicted,
        )?;
        e.counter(
            "memory_burst_refused",
            "Objects not kept in memory because they would have driven out too many (cluster.replacement-burst)",
            memory.burst_refused,
        )?;
        e.gauge(
            "memory_fragments",
            "Fragments of large objects in memory",
            memory.fragments,
        )?;
        let words = "Bytes of these fragments";
        e.gauge("memory_fragment_bytes", words, memory.fragment_bytes)?;
        e.counter(
            "memory_fragments_evicted",
            "Fragments pushed out of memory for want of room",
            memory.fragments_evicted,
        )?;
        e.counter(
            "memory_fragment_served_bytes",
            "Bytes of fragments that were sent from memory",
            memory.fragment_served_bytes,
        )?;
        e.gauge(
            "head_bytes",
            "Bytes kept of heads that are not complete, and behind requests",
            self.0.head_bytes,
        )?;
        e.gauge(
            "transfer_bytes",
            "Bytes of bodies on their way from origins to clients and store",
            self.0.transfer_bytes,
        )?;
        e.gauge(
            "transfer_bytes_max",
            "The bound on bytes of bodies on their way",
            self.0.transfer_bytes_max,
        )?;
        e.gauge(
            "room_bytes",
            "Memory in which long bodies are received where they are stored, and what is kept for the next ones; at most a quarter of limits.transfer-buffer",
            self.0.room_bytes,
        )
    }

    /// One family a figure, one line a store.
    fn stores(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let stores = &self.0.stores;
        let Some(first) = stores.first() else {
            return Ok(());
        };
        let each = |of: &dyn Fn(&StoreFacts) -> u64| -> Vec<(String, u64)> {
            stores.iter().map(|s| (s.path.clone(), of(s))).collect()
        };
        let gauge = MetricType::Gauge;
        let bytes = each(&|s| s.bytes);
        e.by_store(
            "store_bytes",
            "Size of the store's file or device in bytes",
            gauge,
            bytes,
        )?;
        let words = "1 while nothing is stored because a write failed";
        let paused = each(&|s| u64::from(s.paused));
        e.by_store("store_paused", words, gauge, paused)?;
        let words = "1 while nobody asks the store's device, because it does not answer";
        let aside = each(&|s| u64::from(s.aside));
        e.by_store("store_aside", words, gauge, aside)?;
        let words = "Bytes of reads that nobody waits for any more and the device has not ended";
        let abandoned = each(&|s| s.abandoned_bytes);
        e.by_store("store_abandoned_read_bytes", words, gauge, abandoned)?;
        let words = "Bytes still to be looked through after an unclean stop";
        let left = |s: &StoreFacts| s.recovery.map_or(0, |p| p.total_bytes - p.done_bytes);
        e.by_store("store_recovery_left_bytes", words, gauge, each(&left))?;
        for (at, (name, _)) in first.figures.gauges().enumerate() {
            let words = Figures::GAUGE_HELP[at];
            let value = |s: &StoreFacts| s.figures.gauges().nth(at).map_or(0, |(_, value)| value);
            e.by_store(&format!("store_{name}"), words, gauge, each(&value))?;
        }
        for (at, (name, _)) in first.figures.counters().enumerate() {
            let words = format!("{}, since the store was opened", Figures::COUNTER_HELP[at]);
            let value = |s: &StoreFacts| s.figures.counters().nth(at).map_or(0, |(_, value)| value);
            let counter = MetricType::Counter;
            e.by_store(&format!("store_{name}"), &words, counter, each(&value))?;
        }
        Ok(())
    }

    /// The other members of the cluster.
    fn members(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let Some(cluster) = &self.0.cluster else {
            return Ok(());
        };
        let members = &cluster.members;
        for Figure { name, help, of } in members::GAUGES {
            let mut family = (e.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (member, value) in members.iter().filter_map(|m| Some((m, of(m)?))) {
                let labels = [("member", &member.name[..])];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        for Figure { name, help, of } in members::COUNTERS {
            let mut family = (e.0).encode_descriptor(name, help, None, MetricType::Counter)?;
            for (member, value) in members.iter().filter_map(|m| Some((m, of(m)?))) {
                let labels = [("member", &member.name[..])];
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        for family in members::FAMILIES {
            e.by_member(&family, members)?;
        }
        Ok(())
    }
}

/// Upper edges in seconds with the number in each (not cumulative: the encoder adds up).
fn merged(latency: &Histogram) -> Vec<(f64, u64)> {
    // The fine buckets below 2^p us are the first 4 p.
    let mut begin = 0;
    let mut buckets: Vec<_> = EDGE_POWERS
        .map(|power| {
            let end = power * 4;
            let count = latency.count_in(begin..end);
            begin = end;
            ((1u64 << power) as f64 / 1e6, count)
        })
        .collect();
    buckets.push((
        f64::INFINITY,
        latency.count_in(begin..record::metrics::BUCKETS),
    ));
    buckets
}

struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    fn by_store(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: Vec<(String, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (path, value) in values {
            let labels = [("store", path)];
            let metric = family.encode_family(&labels)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                _ => ConstGauge::new(value).encode(metric)?,
            }
        }
        Ok(())
    }

    fn by_member(&mut self, it: &Family, members: &[MemberStatus]) -> fmt::Result {
        let kind = match it.is_counter {
            true => MetricType::Counter,
            false => MetricType::Gauge,
        };
        let mut family = self.0.encode_descriptor(it.name, it.help, None, kind)?;
        for member in members {
            for (word, value) in (it.of)(member) {
                let labels = [("member", &member.name[..]), (it.label, word)];
                let metric = family.encode_family(&labels)?;
                match it.is_counter {
                    true => ConstCounter::new(value).encode(metric)?,
                    false => ConstGauge::new(value).encode(metric)?,
                }
            }
        }
        Ok(())
    }

    fn by_class(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (&'static str, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (class, value) in values {
            let labels = [("class", class)];
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// The name of a fault as a label: `reset_flood`.
fn name_of(fault: http2::Fault) -> String {
    let mut name = String::new();
    for (at, letter) in format!("{fault:?}").char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use profile::Class;

    use super::*;
    use exchange::testing;
    use record::metrics::bucket_edge_us;

    #[test]
    fn merged_edges_are_fine_edges() {
        for power in EDGE_POWERS {
            assert_eq!(bucket_edge_us(power * 4 - 1), (1u64 << power) as f64);
        }
    }

    #[test]
    fn counts_are_cumulative_and_complete() {
        let shared = testing::shared();
        let long = 100_000_000;
        for us in [1, 7, 8, 9, 1000, 5_000_000, long] {
            shared.counters[0].finish(Class::DiskHit, 10, us);
        }
        let text = render(Facts::gather(&shared, 0));
        let bucket = |le: &str| {
            let line = format!(
                "loligo_request_duration_seconds_bucket{{le=\"{le}\",class=\"disk-hit\"}} "
            );
            let rest = text
                .split_once(&line)
                .unwrap_or_else(|| panic!("{le} in\n{text}"))
                .1;
            rest.split_once('\n').unwrap().0.parse::<u64>().unwrap()
        };
        assert_eq!(bucket("0.000008"), 2);
        assert_eq!(bucket("0.000016"), 4);
        assert_eq!(bucket("0.001024"), 5);
        assert_eq!(bucket("16.777216"), 6);
        assert_eq!(bucket("+Inf"), 7);
        assert!(text.contains("loligo_request_duration_seconds_count{class=\"disk-hit\"} 7\n"));
        assert!(
            text.contains("loligo_request_duration_seconds_sum{class=\"disk-hit\"} 105.001025\n")
        );
        assert!(text.contains("loligo_requests_total{class=\"disk-hit\"} 7\n"));
        assert!(text.contains("loligo_response_bytes_total{class=\"disk-hit\"} 70\n"));
        assert!(text.contains("loligo_hit_ratio_documents 1.0\n"));
    }

    #[test]
    fn every_family_is_named_once_and_the_end_is_marked() {
        let text = render(Facts::gather(&testing::shared(), 3));
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(text.contains("# TYPE loligo_client_connections_open gauge\n"));
        assert!(text.contains("\nloligo_client_connections_total 0\n"));
        assert!(text.contains("\nloligo_purges_total 3\n"));
        assert!(text.contains("\nloligo_build_info{version=\""));
        assert!(text.contains("\nloligo_io_engine_info{engine=\"none\"} 1\n"));
        assert!(!text.contains("loligo_store_"), "there is no store");
        assert!(text.ends_with("\n# EOF\n"));
    }
}
