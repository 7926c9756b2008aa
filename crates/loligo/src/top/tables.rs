//! The tables: their columns, what they may be sorted by, and their rows as text.
//!
//! Not known here: screens and keys.

use std::cmp::Ordering;

use proxy::live::{ClassRow, Latency, Minute, Now, OriginRow, ProtocolRow, Ranked, Rankings};

use crate::top::live::{Cluster, Live, Member, Server};
use crate::top::words::{NONE, about, bytes, count, harmless, percent, rate, short, time};

/// For how many servers the table's note says why they are not up.
const WHY_MAX: usize = 3;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Requested hosts.
    Hosts,
    /// Requested URLs, as in the keys of the cache.
    Keys,
    /// Origin servers.
    Origins,
    /// Requests by class.
    Classes,
    /// Times by stage.
    Stages,
    /// Servers behind names (`[[upstream]]`); only if there are some.
    Upstreams,
    /// The other members of the cluster; only if there is one.
    Cluster,
}

impl Kind {
    /// All, in the order of the tabs.
    pub const ALL: [Kind; 7] = [
        Kind::Hosts,
        Kind::Keys,
        Kind::Origins,
        Kind::Classes,
        Kind::Stages,
        Kind::Upstreams,
        Kind::Cluster,
    ];

    /// The tables for which this proxy has data, in their order.
    pub fn shown(live: Option<&Live>) -> Vec<Kind> {
        let has = |kind: &Kind| match kind {
            Kind::Upstreams => live.is_some_and(|live| !live.upstreams.is_empty()),
            Kind::Cluster => live.is_some_and(|live| live.cluster.is_some()),
            _ => true,
        };
        Kind::ALL.into_iter().filter(has).collect()
    }

    /// The text on its tab.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Hosts => "hosts",
            Kind::Keys => "keys",
            Kind::Origins => "origins",
            Kind::Classes => "classes",
            Kind::Stages => "stages",
            Kind::Upstreams => "upstreams",
            Kind::Cluster => "cluster",
        }
    }

    /// The columns by which it may be sorted.
    pub fn sorts(self) -> &'static [usize] {
        match self {
            Kind::Hosts | Kind::Keys => &[1, 2, 3],
            Kind::Origins => &[4, 3, 2, 1],
            // The first sort is the fixed order of classes, or of the stages of a request.
            Kind::Classes => &[0, 1, 4, 5],
            Kind::Stages => &[0, 1, 2, 3],
            // The first sort is the configured order.
            Kind::Upstreams => &[0, 2, 3, 4],
            Kind::Cluster => &[0, 2, 3, 4, 9],
        }
    }
}

/// A table as text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Heads; the first column is a name, the others are numbers.
    pub columns: Vec<&'static str>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// The column it is sorted by.
    pub sorted_by: usize,
    /// A note needed to read the table, or why it is empty.
    pub note: String,
    /// The table has many columns, which are as narrow as possible.
    pub is_narrow: bool,
}

/// Makes a table; `sort`: an index into [`Kind::sorts`].
pub fn table(kind: Kind, live: &Live, sort: usize) -> Table {
    let sorts = kind.sorts();
    let by = sorts[sort % sorts.len()];
    match kind {
        Kind::Hosts => ranking("host", live.top.as_ref().map(|top| &top.hosts), by),
        Kind::Keys => ranking("URL", live.top.as_ref().map(|top| &top.urls), by),
        Kind::Origins => origins(live, by),
        Kind::Classes => classes(live, by),
        Kind::Stages => stages(live, by),
        Kind::Upstreams => upstreams(live, by),
        Kind::Cluster => live
            .cluster
            .as_ref()
            .map_or_else(Table::default, |it| cluster(it, by)),
    }
}

fn ranking(what: &'static str, rankings: Option<&Rankings>, by: usize) -> Table {
    let columns = vec![what, "requests", "misses", "bytes", "share"];
    let Some(rankings) = rankings else {
        return Table {
            columns,
            sorted_by: by,
            note: "Not counted: set top = true under [admin] in the proxy's configuration. Whoever may use the admin \
                   interface then sees what people ask for."
                .to_owned(),
            ..Table::default()
        };
    };
    let (ranked, measure) = match by {
        1 => (&rankings.by_requests, "requests"),
        2 => (
            &rankings.by_misses,
            "misses: requests that the cache did not answer",
        ),
        _ => (&rankings.by_bytes, "bytes sent"),
    };
    let row = |ranked: &Ranked| {
        let mut cells = vec![
            harmless(&ranked.name),
            count(ranked.requests),
            count(ranked.misses),
            bytes(ranked.bytes as f64),
            percent(Some(ranked.share)),
        ];
        if ranked.over > 0 {
            // The weight behind the share may be too high, and the counts beside it too low.
            cells[4].insert_str(0, "<= ");
        }
        cells
    };
    Table {
        columns,
        rows: ranked.iter().map(row).collect(),
        sorted_by: by,
        note: format!("By {measure}. Counts fade by half in ten minutes; share of all."),
        is_narrow: false,
    }
}

/// Descending; `None` comes first, where it means "never answered".
fn falling(a: Option<f64>, b: Option<f64>) -> Ordering {
    let value = |x: Option<f64>| x.unwrap_or(f64::INFINITY);
    value(b).total_cmp(&value(a))
}

fn origins(live: &Live, by: usize) -> Table {
    let mut all: Vec<&OriginRow> = live.origins.rows.iter().collect();
    all.sort_by(|a, b| {
        let first = match by {
            4 => falling(a.p99_us, b.p99_us),
            3 => falling(a.p50_us, b.p50_us),
            2 => b.failures.cmp(&a.failures),
            _ => b.requests.cmp(&a.requests),
        };
        first.then_with(|| a.name.cmp(&b.name))
    });
    let rest = live.origins.rest.iter();
    let row = |origin: &OriginRow| {
        vec![
            harmless(&origin.name),
            count(origin.requests),
            count(origin.failures),
            time(origin.p50_us),
            time(origin.p99_us),
        ]
    };
    let mut note =
        "The last five to ten minutes; time from asking to the head of the answer.".to_owned();
    if !live.origins.are_named && live.origins.rest.is_some() {
        note += " Origins without a route are told by name only with top = true under [admin].";
    }
    Table {
        columns: vec!["origin", "requests", "failures", "p50", "p99"],
        rows: all.into_iter().chain(rest).map(row).collect(),
        sorted_by: by,
        note,
        is_narrow: false,
    }
}

fn classes(live: &Live, by: usize) -> Table {
    let minute = live.minute.clone().unwrap_or_default();
    let mut all = minute.classes;
    let p50 = |class: &ClassRow| class.latency_us.as_ref().map_or(0.0, |l| l.p50);
    let p99 = |class: &ClassRow| class.latency_us.as_ref().map_or(0.0, |l| l.p99);
    match by {
        0 => {}
        1 => all.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s)),
        4 => all.sort_by(|a, b| p50(b).total_cmp(&p50(a))),
        _ => all.sort_by(|a, b| p99(b).total_cmp(&p99(a))),
    }
    let rows = all.iter().map(|class| {
        let latency = class.latency_us.as_ref();
        vec![
            harmless(&class.name),
            rate(class.requests_per_s),
            percent(Some(class.share)),
            bytes(class.response_bytes_per_s) + "/s",
            time(latency.map(|latency| latency.p50)),
            time(latency.map(|latency| latency.p99)),
        ]
    });
    Table {
        columns: vec!["class", "requests/s", "share", "sent", "p50", "p99"],
        rows: rows.collect(),
        sorted_by: by,
        note: "The last minute; time from the first byte of the request to the last of the answer."
            .to_owned(),
        is_narrow: false,
    }
}

fn stages(live: &Live, by: usize) -> Table {
    let minute = live.minute.clone().unwrap_or_default();
    let mut all = minute.stages;
    match by {
        0 => {}
        1 => all.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s)),
        2 => all.sort_by(|a, b| falling(a.p50_us, b.p50_us)),
        _ => all.sort_by(|a, b| falling(a.p99_us, b.p99_us)),
    }
    let rows = all.iter().map(|stage| {
        vec![
            harmless(&stage.name),
            rate(stage.requests_per_s),
            time(stage.p50_us),
            time(stage.p99_us),
        ]
    });
    Table {
        columns: vec!["stage", "requests/s", "p50", "p99"],
        rows: rows.collect(),
        sorted_by: by,
        note: "The last minute; of all requests but memory hits.".to_owned(),
        is_narrow: false,
    }
}

fn upstreams(live: &Live, by: usize) -> Table {
    let mut all: Vec<(&str, &Server)> = (live.upstreams.iter())
        .flat_map(|upstream| upstream.servers.iter().map(|it| (&*upstream.name, it)))
        .collect();
    match by {
        2 => all.sort_by_key(|(_, it)| std::cmp::Reverse(it.in_flight)),
        3 => all.sort_by_key(|(_, it)| std::cmp::Reverse(it.requests)),
        4 => all.sort_by_key(|(_, it)| std::cmp::Reverse(it.failures)),
        _ => {}
    }
    let row = |(name, server): &(&str, &Server)| {
        vec![
            format!("{} {}", harmless(name), harmless(&server.server)),
            match server.backup {
                true => format!("{} (backup)", harmless(&server.state)),
                false => harmless(&server.state),
            },
            count(server.in_flight),
            short(server.requests),
            short(server.failures),
            short(server.ejections),
        ]
    };
    let why = (all.iter()).filter_map(|(_, it)| {
        let why = it.why.as_ref()?;
        Some(format!("{}: {}.", harmless(&it.server), harmless(why)))
    });
    let why: Vec<_> = why.take(WHY_MAX).collect();
    Table {
        columns: vec!["server", "state", "now", "requests", "failures", "put out"],
        rows: all.iter().map(row).collect(),
        sorted_by: by,
        note: format!(
            "Counts since the start; now: requests on their way. {}",
            why.join(" ")
        )
        .trim_end()
        .to_owned(),
        is_narrow: true,
    }
}

fn cluster(cluster: &Cluster, by: usize) -> Table {
    let mut all: Vec<&Member> = cluster.members.iter().collect();
    match by {
        // Unknown counts as the oldest.
        2 => all.sort_by_key(|one| std::cmp::Reverse(one.lag_ms.unwrap_or(u64::MAX))),
        3 => all.sort_by_key(|one| std::cmp::Reverse(one.hits.r#true)),
        4 => all.sort_by_key(|one| std::cmp::Reverse(one.hits.r#false)),
        9 => all.sort_by_key(|one| std::cmp::Reverse(one.requests_per_s)),
        _ => {}
    }
    let row = |member: &&Member| {
        let [stored, refused, lost] = member.pushes();
        vec![
            harmless(&member.name),
            format!("{} {}", harmless(&member.state), about(member.since_s)),
            time(member.lag_ms.map(|lag_ms| lag_ms as f64 * 1000.0)),
            short(member.hits.r#true),
            short(member.hits.r#false),
            short(member.hits.stale),
            short(stored),
            short(refused),
            short(lost),
            match member.trusted {
                true => short(member.requests_per_s),
                // Its last report is out of date.
                false => NONE.to_owned(),
            },
        ]
    };
    let what = match (cluster.front, cluster.pushes) {
        (false, _) => "a node that asks no other member",
        (true, true) => "a front that pushes what it fetches",
        (true, false) => "a front with a store of its own",
    };
    let purges = &cluster.purges;
    Table {
        columns: vec![
            "member", "state", "lag", "hits", "false", "stale", "pushed", "refused", "lost",
            "req/s",
        ],
        rows: all.iter().map(row).collect(),
        sorted_by: by,
        note: format!(
            "This is {}, {what}. Purges: {} told, {} wait, {} while a member was away. Counts since the start. Lag: how old is \
             what is known of what it holds.",
            harmless(&cluster.name),
            count(purges.told),
            count(purges.waiting),
            count(purges.away),
        ),
        is_narrow: true,
    }
}

/// The lines above the tables: the figures of the whole proxy.
pub fn summary(live: &Live) -> [Vec<(&'static str, String)>; 4] {
    let now = live.now.clone().unwrap_or_default();
    let minute = live.minute.clone().unwrap_or_default();
    let latency = |get: fn(&Latency) -> f64| time(minute.latency_us.as_ref().map(get));
    let cores = live
        .cpu_cores
        .map_or_else(|| NONE.to_owned(), |n| format!("{n:.2}"));
    let resident = live
        .resident_bytes
        .map_or_else(|| NONE.to_owned(), |n| bytes(n as f64));
    let disk = &live.disk;
    let mut of_disk = match disk.stores.is_empty() {
        true => vec![("disk", "none".to_owned())],
        false => vec![
            (
                "disk reads",
                format!("{} + {} waiting", disk.reads_under_way, disk.reads_waiting),
            ),
            ("writes", count(disk.writes_under_way)),
            ("reads/s", rate(now.disk_reads_per_s)),
            ("write/s", bytes(now.disk_write_bytes_per_s)),
        ],
    };
    let halted = disk
        .stores
        .iter()
        .filter(|store| store.is_paused || store.is_aside)
        .count();
    if halted > 0 {
        of_disk.insert(
            0,
            ("NOT STORING", format!("{halted} of {}", disk.stores.len())),
        );
    }
    [
        vec![
            ("req/s", rate(now.requests_per_s)),
            ("hits", percent(minute.hit_ratio.documents)),
            ("of bytes", percent(minute.hit_ratio.bytes)),
            ("p50", latency(|l| l.p50)),
            ("p99", latency(|l| l.p99)),
        ],
        vec![
            ("sent/s", bytes(now.response_bytes_per_s)),
            ("errors/s", rate(now.errors_per_s)),
            ("clients", count(live.connections_open)),
            ("CPUs", cores),
            ("RSS", resident),
        ],
        of_protocols(&minute, &now),
        of_disk,
    ]
}

/// The shares of protocols among clients.
fn of_protocols(minute: &Minute, now: &Now) -> Vec<(&'static str, String)> {
    let share = |is_meant: fn(&ProtocolRow) -> bool| {
        let rows = minute.protocols.iter().filter(|row| is_meant(row));
        let share = rows.map(|row| row.share).sum();
        (!minute.protocols.is_empty()).then_some(share)
    };
    let rows = minute.protocols.iter();
    let open_h2 = rows.filter(|row| row.protocol == "HTTP/2");
    let handshakes = &now.handshakes;
    vec![
        ("HTTP/2", percent(share(|row| row.protocol == "HTTP/2"))),
        ("TLS", percent(share(|row| row.tls.starts_with("TLS")))),
        (
            "h2 clients",
            count(open_h2.map(|row| row.connections_open).sum()),
        ),
        ("full/s", rate(handshakes.full_per_s)),
        ("resumed/s", rate(handshakes.resumed_per_s)),
    ]
}
