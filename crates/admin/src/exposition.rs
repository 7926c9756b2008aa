//! `GET /metrics`: the facts in the text format of OpenMetrics 1.0, which Prometheus reads.
//!
//! Names begin with `loligo_`. Counters, gauges and their help texts come from the tables that define them (`table`, `metrics::Counters`,
//! `store::Figures`), so a new one appears here without further work.
//!
//! Latencies: the four fine buckets of each power of two are merged to one, from 8 us to 17 s. All edges are edges of fine buckets too, so the counts
//! are exact.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::{
        MetricType::{self, Counter, Gauge},
        counter::ConstCounter,
        gauge::ConstGauge,
        info::Info,
    },
    registry::Registry,
};

use store::Figures;

use crate::{
    facts::Facts,
    histogram::Histogram,
    process::Process,
    table::{self, Column, MEMBERS_BY_WORD, MemoryFacts, TransferFacts, Value},
};
use record::{labels::Label, metrics::STATUS_CLASSES};

/// The media type of the text that [`render`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper edges of the latency buckets as powers of two of a microsecond.
const EDGE_POWERS: std::ops::RangeInclusive<usize> = 3..=24;

/// The whole exposition.
pub fn render(facts: Facts) -> String {
    let mut all = Registry::default();
    // These have the standard names, without our prefix.
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
    registry.register_collector(Box::new(Exposition(facts)));
    let mut out = String::with_capacity(32 << 10);
    text::encode(&mut out, &all).expect("writing to a string does not fail");
    out
}

#[derive(Debug)]
struct Kernel(Process);

impl Collector for Kernel {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        Encoder(encoder).all_of(table::PROCESS, &self.0)
    }
}

#[derive(Debug)]
struct Exposition(Facts);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let (mut e, facts) = (Encoder(encoder), &self.0);
        e.all_of(table::PROXY, facts)?;
        self.certificates(&mut e)?;
        e.all_of(table::CLIENTS, facts)?;
        self.requests(&mut e)?;
        let protocols = facts.counted.protocols();
        e.each(table::PROTOCOLS, protocols.map(|row| (row.labels(), row)))?;
        self.answers(&mut e)?;
        self.upstreams(&mut e)?;
        self.rules(&mut e)?;
        for simple in facts.counted.simple() {
            let kind = match simple.is_gauge() {
                true => Gauge,
                false => Counter,
            };
            e.one(simple.name, simple.help, kind, simple.value.into())?;
        }
        if !facts.limits.is_empty() {
            let limits = facts.limits.iter();
            e.each(
                table::LIMITS,
                limits.map(|it| ([("limit", &it.name[..])], it)),
            )?;
        }
        e.all_of(MemoryFacts::COLUMNS, &facts.memory)?;
        e.all_of(TransferFacts::COLUMNS, &facts.transfers)?;
        self.stores(&mut e)?;
        self.members(&mut e)
    }
}

impl Exposition {
    fn certificates(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let certificates = &self.0.configuration.certificates;
        if certificates.is_empty() {
            return Ok(());
        }
        let ends = certificates.iter().map(|(listener, name, end)| {
            let labels = [("listener", &listener[..]), ("name", name)];
            (labels, Value::Signed(*end))
        });
        let words = "When a listener's certificate ends, in seconds since 1970";
        e.family("tls_certificate_expires_seconds", words, Gauge, ends)
    }

    fn requests(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let counted = &self.0.counted;
        let classes = counted.classes();
        e.each(
            table::CLASSES,
            classes.map(|(class, row)| ([("class", class.as_str())], row)),
        )?;
        e.all_of(table::HIT_RATIOS, counted)?;
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

    /// Responses by listener, origin and class of status; failures of origins by cause; protocol faults of HTTP/2 clients.
    fn answers(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let Facts {
            counted, labels, ..
        } = &self.0;
        let rows = labels.iter().zip(counted.rows());
        let rows = rows.filter(|(label, _)| !label.listener.is_empty());
        let answers = rows.clone().flat_map(|(label, row)| {
            let [listener, origin] = place_of(label);
            let by_class = STATUS_CLASSES.into_iter().zip(row.answers);
            let occurring = by_class.filter(|(_, answers)| *answers > 0);
            occurring.map(move |(class, n)| ([listener, origin, ("status", class)], n.into()))
        });
        let words = "Requests finished, by the listener's address, the origin its route names (`other` on forward listeners), and the class of the status sent (`none`: the client had gone)";
        e.family("answers", words, Counter, answers)?;
        let bytes = rows.map(|(label, row)| (place_of(label), row.bytes.into()));
        let words = "Bytes sent to clients, heads included, by the listener's address and the origin its route names";
        e.family("answer_bytes", words, Counter, bytes)?;
        let causes = counted
            .causes()
            .map(|(cause, n)| ([("cause", cause)], n.into()));
        let words =
            "Answers of origins that failed, by cause (RFC 9209 section 2.3, as in Cache-Status)";
        e.family("origin_failures", words, Counter, causes)?;
        let faults = counted.h2_faults();
        let faults = faults.map(|(fault, n)| ([("fault", name_of(fault))], n.into()));
        let words = "What clients did against the rules of HTTP/2, or more often than they may";
        e.family("h2_faults", words, Counter, faults)
    }

    /// A family for each figure, with a line for each upstream or server.
    fn upstreams(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let all = self.0.upstreams.iter();
        if all.len() == 0 {
            return Ok(());
        }
        e.each(
            table::UPSTREAMS,
            all.clone().map(|it| ([("upstream", &it.name[..])], it)),
        )?;
        let servers = all.flat_map(|upstream| {
            let servers = upstream.servers.iter();
            servers.map(|it| {
                (
                    [("upstream", &upstream.name[..]), ("server", &it.server)],
                    it,
                )
            })
        });
        e.each(table::SERVERS, servers)
    }

    /// Decisions of rules, and requests with each tag.
    fn rules(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let (tags, rules): (Vec<_>, Vec<_>) = self.0.rules.iter().partition(|it| it.is_of_a_tag());
        let rules = rules.iter().map(|it| {
            let labels = [("rule", &it.name[..]), ("decision", it.decision)];
            (labels, it.requests.into())
        });
        let words = "Requests that a rule has denied, answered or redirected, by the rule's name, or its number";
        e.family("rules_decided", words, Counter, rules)?;
        let tags = tags
            .iter()
            .map(|it| ([("tag", &it.name[..])], it.requests.into()));
        let words = "Requests finished that a rule has given this tag";
        e.family("tagged_requests", words, Counter, tags)
    }

    /// A family for each figure, with a line for each store.
    fn stores(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let stores = self
            .0
            .stores
            .iter()
            .map(|it| ([("store", &it.path[..])], it));
        let Some((_, first)) = stores.clone().next() else {
            return Ok(());
        };
        e.each(table::STORES, stores.clone())?;
        for (at, (name, _)) in first.figures.gauges().enumerate() {
            let values = stores
                .clone()
                .filter_map(|(labels, it)| Some((labels, it.figures.gauges().nth(at)?.1.into())));
            e.family(
                &format!("store_{name}"),
                Figures::GAUGE_HELP[at],
                Gauge,
                values,
            )?;
        }
        for (at, (name, _)) in first.figures.counters().enumerate() {
            let values = stores
                .clone()
                .filter_map(|(labels, it)| Some((labels, it.figures.counters().nth(at)?.1.into())));
            let words = format!("{}, since the store was opened", Figures::COUNTER_HELP[at]);
            e.family(&format!("store_{name}"), &words, Counter, values)?;
        }
        Ok(())
    }

    /// The other members of the cluster: a family for each figure, with a line for each member, or for each word of a further label.
    fn members(&self, e: &mut Encoder<'_>) -> fmt::Result {
        let Some(cluster) = &self.0.cluster else {
            return Ok(());
        };
        let members = cluster.members.iter();
        e.each(
            table::MEMBERS,
            members.clone().map(|it| ([("member", &it.name[..])], it)),
        )?;
        for (name, label, words, kind, of) in MEMBERS_BY_WORD {
            let lines = members.clone().flat_map(|member| {
                let line =
                    |(word, n): (_, u64)| ([("member", &member.name[..]), (label, word)], n.into());
                of(member).into_iter().map(line)
            });
            e.family(name, words, kind, lines)?;
        }
        Ok(())
    }
}

/// The labels of a row of responses.
fn place_of(label: &Label) -> [(&str, &str); 2] {
    [("listener", &label.listener), ("origin", &label.origin)]
}

/// Upper edges in seconds, with the count in each bucket (not cumulative: the encoder adds them up).
fn merged(latency: &Histogram) -> Vec<(f64, u64)> {
    // The fine buckets below 2^p us are the first 4 * p.
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
        latency.count_in(begin..record::buckets::BUCKETS),
    ));
    buckets
}

struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    /// Writes a figure without labels.
    fn one(&mut self, name: &str, help: &str, kind: MetricType, value: Value) -> fmt::Result {
        let metric = self.0.encode_descriptor(name, help, None, kind)?;
        write(kind, value, metric)
    }

    /// Writes a figure with labels.
    fn family<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        lines: impl Iterator<Item = (L, Value)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in lines {
            write(kind, value, family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes the figures of one object.
    fn all_of<T>(&mut self, columns: &[Column<T>], it: &T) -> fmt::Result {
        for Column {
            name,
            help,
            kind,
            of,
        } in columns
        {
            match of(it) {
                Value::Unknown => {}
                value => self.one(name, help, *kind, value)?,
            }
        }
        Ok(())
    }

    /// Writes the figures of several objects.
    fn each<'r, T: 'r, L: EncodeLabelSet>(
        &mut self,
        columns: &[Column<T>],
        rows: impl Iterator<Item = (L, &'r T)> + Clone,
    ) -> fmt::Result {
        for Column {
            name,
            help,
            kind,
            of,
        } in columns
        {
            let lines = rows.clone().map(|(labels, row)| (labels, of(row)));
            let known = lines.filter(|(_, value)| *value != Value::Unknown);
            self.family(name, help, *kind, known)?;
        }
        Ok(())
    }
}

fn write(kind: MetricType, value: Value, to: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Counter, Value::Count(n)) => ConstCounter::new(n).encode(to),
        (Counter, Value::Real(x)) => ConstCounter::new(x).encode(to),
        (_, Value::Count(n)) => ConstGauge::new(n).encode(to),
        (_, Value::Signed(n)) => ConstGauge::new(n).encode(to),
        (_, Value::Real(x)) => ConstGauge::new(x).encode(to),
        (_, Value::Unknown) => Ok(()),
    }
}

/// The name of a fault as a label value: `reset_flood`.
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
    use record::buckets::bucket_edge_us;

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
