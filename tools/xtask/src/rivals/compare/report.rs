//! The results of a comparison: tables for a terminal, everything as JSON, a page with plots.
//!
//! Not known here: how runs are made; the papers' tables (`paper000`, `paper004`); where the report is written (`book`).   Limits: none.

use page::{Axis, Page, Plot, Series, Table};
use serde::Serialize;

use super::book::Extra;
use super::ceiling::Ceiling;
use super::contest::{Measured, Outcome, Run};
use super::disk::{Proof, Speed};
use super::options::Conditions;
use super::peak::Peak;

const MIB: f64 = (1 << 20) as f64;

/// The proxies compared.
#[derive(Debug, Clone, Serialize)]
pub struct Contestant {
    pub server: String,
    pub version: Option<String>,
    pub what: String,
}

/// The peak of a proxy.
#[derive(Debug, Clone, Serialize)]
pub struct PeakOf {
    pub server: String,
    #[serde(flatten)]
    pub peak: Peak,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub title: String,
    pub disk: Speed,
    pub command: String,
    pub machine: String,
    /// the options, name and value
    pub conditions: Vec<(String, String)>,
    pub advice: Vec<String>,
    pub proof: Option<Proof>,
    /// with the memory cache alone, and with memory and page cache
    pub ceilings: Vec<Ceiling>,
    pub contestants: Vec<Contestant>,
    pub runs: Vec<Run>,
    pub peaks: Vec<PeakOf>,
}

/// Names and values of the conditions.
pub fn told(conditions: &Conditions) -> Vec<(String, String)> {
    let c = conditions;
    let disk = match c.disk.iops() {
        Some(iops) => format!(
            "a loop device held to {iops} reads/s and {iops} writes/s (raw, or ext4 without a journal); {} of written data may wait in memory",
            c.dirty
        ),
        None => "a loop device over a file on the real disk, no limits (raw, or ext4)".to_owned(),
    };
    let mut all = vec![
        ("disk", disk),
        ("cache", c.cache_size.to_string()),
        (
            "memory",
            format!(
                "{} of memory cache each; file pages held to {}",
                c.memory, c.page_cache
            ),
        ),
        (
            "workload",
            format!(
                "PolyMix-{}, HTTP/{}, time scale {}, think time scale {} (1 is 2.5 s), {}, phases {}, {}, seed {}",
                c.polymix,
                c.http,
                c.time_scale,
                c.think_scale,
                c.servers.map_or_else(
                    || "servers as specified".to_owned(),
                    |servers| format!("{servers} servers")
                ),
                c.phases.join(" "),
                c.robots.map_or_else(
                    || "a robot for 0.4 requests a second".to_owned(),
                    |robots| format!("{robots} robots")
                ),
                c.seed
            ),
        ),
        (
            "workers",
            format!("{}, where the proxy can share its cache", c.workers),
        ),
    ];
    if !c.loligo.is_empty() {
        all.push(("loligo", c.loligo.join(" ")));
    }
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The machine in a line.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores of {model}, Linux {}", kernel.trim())
}

impl Comparison {
    /// For a terminal.
    pub fn text(&self, extra: &Extra) -> String {
        let mut out = format!("{}\n\n", self.preface().join("\n"));
        for table in self.tables().iter().chain(&extra.tables) {
            out.push_str(&table.text());
            out.push('\n');
        }
        for line in self.remarks() {
            out.push_str(&line);
            out.push('\n');
        }
        out
    }

    /// The lines before the tables.
    fn preface(&self) -> Vec<String> {
        let mut lines = vec![self.command.clone(), format!("machine: {}", self.machine)];
        let loads = self.runs.iter().flat_map(|run| run.load);
        let (least, most) = loads.fold((f64::INFINITY, 0.0_f64), |(a, b), l| (a.min(l), b.max(l)));
        if most > 0.0 {
            lines.push(format!(
                "load of the machine before and after the runs: {least:.1} to {most:.1}"
            ));
        }
        for (name, value) in &self.conditions {
            lines.push(format!("{name}: {value}"));
        }
        if let Some(proof) = &self.proof {
            lines.push(format!(
                "disk, measured before the runs: {}",
                proof.sentence()
            ));
        }
        for ceiling in &self.ceilings {
            lines.push(format!(
                "ceiling of one read a disk hit: {}",
                ceiling.sentence()
            ));
        }
        lines.extend(self.advice.iter().map(|a| format!("note: {a}")));
        // The same for all runs, except for the rate.
        if let Some((run, m)) = self.measured().next() {
            let all = m.left_out.iter();
            lines.extend(
                all.map(|what| format!("left out of the specification at {}/s: {what}", run.rate)),
            );
        }
        lines
    }

    /// Proxies that failed, and why.
    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for run in &self.runs {
            let name = format!("{} at {}/s", run.server, run.rate);
            match &run.outcome {
                Outcome::Failed(why) => lines.push(format!("{name} failed: {why}")),
                Outcome::NotAsked(why) => {
                    lines.push(format!(
                        "{name} was asked for nothing, so this is no figure: {why}"
                    ));
                }
                Outcome::Measured(m) => {
                    for (fault, count) in &m.faults {
                        lines.push(format!("{name}: {count} times {fault}"));
                    }
                    for limit in &m.generator {
                        lines.push(format!("{name}: {limit}"));
                    }
                    let examples = m.fault_examples.iter();
                    lines.extend(examples.map(|example| format!("{name}: such as {example}")));
                    if m.condition_ignored > 0 {
                        lines.push(format!(
                            "{name}: {} conditions answered with the whole object",
                            m.condition_ignored
                        ));
                    }
                }
            }
        }
        lines
    }

    /// The measured runs without strace, which would have slowed them.
    pub fn measured(&self) -> impl Iterator<Item = (&Run, &Measured)> {
        let runs = self.by_proxy_and_rate().into_iter();
        runs.filter_map(|run| run.measured().map(|m| (run, m)))
    }

    /// The measured runs in order, since a search for a peak jumps up and down.
    fn by_proxy_and_rate(&self) -> Vec<&Run> {
        let place = |run: &Run| {
            let mut all = self.contestants.iter();
            all.position(|c| c.server == run.server)
        };
        let mut runs: Vec<&Run> = self.runs.iter().filter(|run| !run.watched).collect();
        runs.sort_by(|a, b| place(a).cmp(&place(b)).then(a.rate.total_cmp(&b.rate)));
        runs
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.of_contestants(), self.seen_by_clients(), self.costs()];
        if self.runs.iter().any(|run| run.watched) {
            tables.push(self.calls());
        }
        if !self.peaks.is_empty() {
            tables.push(self.of_peaks());
        }
        tables
    }

    fn of_contestants(&self) -> Table {
        let mut table = Table::new("Who took part", &["proxy", "version", "store"]);
        for c in &self.contestants {
            let version = c.version.clone().unwrap_or_else(|| "?".into());
            table.row([c.server.clone(), version, c.what.clone()]);
        }
        table
    }

    fn seen_by_clients(&self) -> Table {
        let mut table = Table::new(
            "Seen by clients, phase at full load (times in ms; queued: in robots that wait, beside the response time; repeated: what Polygraph calls offered; errors of the whole run)",
            &[
                "proxy",
                "plan/s",
                "replies/s",
                "mean",
                "p50",
                "p99",
                "hit",
                "hit p50",
                "hit p99",
                "miss",
                "queued",
                "cachable %",
                "repeated %",
                "offered %",
                "LRU %",
                "DHR %",
                "BHR %",
                "errors",
                "carried",
            ],
        );
        for run in self.by_proxy_and_rate() {
            let Some(m) = run.measured() else {
                table.row([
                    run.server.clone(),
                    format!("{:.0}", run.rate),
                    "failed".into(),
                ]);
                continue;
            };
            let carried = match (&m.objection, m.generator.is_empty()) {
                (None, _) => "yes".into(),
                (Some(why), true) => why.clone(),
                (Some(why), false) => format!("unclear: {why}"),
            };
            table.row([
                run.server.clone(),
                format!("{:.0}", run.rate),
                format!("{:.1}", m.reply_rate),
                ms(m.response.mean_ms),
                ms(m.response.p50_ms),
                ms(m.response.p99_ms),
                ms(m.hit.mean_ms),
                ms(m.hit.p50_ms),
                ms(m.hit.p99_ms),
                ms(m.miss.mean_ms),
                ms(m.queued.mean_ms),
                format!("{:.1}", m.cachable_percent),
                format!("{:.1}", m.repeated_percent),
                format!("{:.1}", m.offered_percent),
                format!("{:.1}", m.lru_percent),
                format!("{:.1}", m.dhr_percent),
                format!("{:.1}", m.bhr_percent),
                m.errors.to_string(),
                carried,
            ]);
        }
        table
    }

    fn costs(&self) -> Table {
        let mut table = Table::new(
            "What it cost, phase at full load (CPU of all the proxy's processes; disk as the block layer counts)",
            &[
                "proxy",
                "rate",
                "CPU ms/reply",
                "CPU %",
                "RSS MiB",
                "file pages MiB",
                "reads/s",
                "writes/s",
                "reads/hit",
                "writes/reply",
                "KB read/reply",
                "KB to store/reply",
                "KB written/reply",
                "fill s",
                "lag ms",
                "load gen. CPU %",
            ],
        );
        for (run, m) in self.measured() {
            let used = &m.used;
            let seconds = used.seconds.max(1e-9);
            let replies = m.replies.max(1) as f64;
            let hits = m.hit.count.max(1) as f64;
            let generator = m.robots_cpu_percent + m.origin_cpu_percent.unwrap_or(0.0);
            table.row([
                run.server.clone(),
                format!("{:.0}", run.rate),
                format!("{:.3}", m.cpu_ms_per_reply),
                format!("{:.1}", used.cpu_s * 100.0 / seconds),
                format!("{:.0}", used.resident_bytes_max as f64 / MIB),
                m.file_pages_bytes
                    .map_or("-".into(), |b| format!("{:.1}", b as f64 / MIB)),
                format!("{:.1}", used.reads / seconds),
                format!("{:.1}", used.writes / seconds),
                format!("{:.2}", used.reads / hits),
                format!("{:.2}", used.writes / replies),
                format!("{:.1}", used.read_bytes / 1024.0 / replies),
                format!("{:.1}", m.to_store_bytes / 1024.0 / replies),
                format!("{:.1}", used.write_bytes / 1024.0 / replies),
                m.fill_s.map_or("-".into(), |s| format!("{s:.0}")),
                format!("{:.1}", m.lag.mean_ms),
                format!("{generator:.0}"),
            ]);
        }
        table
    }

    fn calls(&self) -> Table {
        let mut table = Table::new(
            "System calls about files of the cache, each 1000 replies of the phase at full load (runs of their own, watched by strace)",
            &[
                "proxy",
                "rate",
                "open",
                "close",
                "unlink",
                "rename",
                "read",
                "write",
                "disk reads",
                "disk writes",
            ],
        );
        for run in &self.runs {
            let Some([top, _]) = run.measured().and_then(|m| m.calls) else {
                continue;
            };
            let each = |n: f64| format!("{:.0}", n * 1e3 / top.replies.max(1) as f64);
            let calls = &top.calls;
            let counts = [
                calls.opens as f64,
                calls.closes as f64,
                calls.unlinks as f64,
                calls.renames as f64,
                calls.reads as f64,
                calls.writes as f64,
                top.used.reads,
                top.used.writes,
            ];
            let names = [run.server.clone(), format!("{:.0}", run.rate)];
            table.row(names.into_iter().chain(counts.map(each)));
        }
        table
    }

    fn of_peaks(&self) -> Table {
        let mut table = Table::new(
            "Peak: the highest rate that was carried, and the lowest that was not",
            &["proxy", "carried/s", "not carried/s"],
        );
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |r| format!("{r:.0}"));
        for p in &self.peaks {
            table.row([p.server.clone(), rate(p.peak.carried), rate(p.peak.refused)]);
        }
        table
    }

    /// For a browser.
    pub fn put_on(&self, page: &mut Page, extra: &Extra) {
        page.verbatim(&self.preface().join("\n"));
        for table in self.tables().iter().chain(&extra.tables) {
            page.table(table);
        }
        page.heading("Plots");
        for plot in extra.plots.iter().chain(&self.plots()) {
            page.plot(plot);
        }
        let remarks = self.remarks();
        if !remarks.is_empty() {
            page.heading("What was wrong").verbatim(&remarks.join("\n"));
        }
    }

    /// Curves if there are several rates, bars if there is one.
    fn plots(&self) -> Vec<Plot> {
        type Figure = (&'static str, &'static str, fn(&Measured) -> f64);
        let figures: [Figure; 9] = [
            ("Mean hit time", "ms", |m| m.hit.mean_ms),
            ("Mean miss time", "ms", |m| m.miss.mean_ms),
            ("Mean response time", "ms", |m| m.response.mean_ms),
            ("99th percentile of response time", "ms", |m| {
                m.response.p99_ms
            }),
            ("Document hit ratio less what was offered", "points", |m| {
                m.dhr_percent - m.offered_percent
            }),
            (
                "Document hit ratio less that of an exact LRU",
                "points",
                |m| m.dhr_percent - m.lru_percent,
            ),
            ("CPU time a reply", "ms", |m| m.cpu_ms_per_reply),
            ("Disk reads", "1/s", |m| {
                m.used.reads / m.used.seconds.max(1e-9)
            }),
            ("Disk writes", "1/s", |m| {
                m.used.writes / m.used.seconds.max(1e-9)
            }),
        ];
        let mut rates: Vec<f64> = self.runs.iter().map(|run| run.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        figures
            .into_iter()
            .map(|(caption, unit, of)| {
                if rates.len() > 1 {
                    self.curves(caption, unit, of)
                } else {
                    self.bars(caption, unit, of)
                }
            })
            .collect()
    }

    /// A curve for each proxy.
    pub fn curves(&self, caption: &str, unit: &str, of: fn(&Measured) -> f64) -> Plot {
        let mut plot = Plot::new(caption, Axis::linear("requests planned (1/s)"), axis(unit));
        for c in &self.contestants {
            let mut points: Vec<(f64, f64)> = self
                .measured()
                .filter(|(run, _)| run.server == c.server)
                .map(|(run, m)| (run.rate, of(m)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            plot = plot.with(Series::line(&c.server, points));
        }
        plot
    }

    fn bars(&self, caption: &str, unit: &str, of: fn(&Measured) -> f64) -> Plot {
        let names: Vec<&str> = self
            .measured()
            .map(|(run, _)| run.server.as_str())
            .collect();
        let points = self
            .measured()
            .enumerate()
            .map(|(n, (_, m))| (n as f64, of(m)))
            .collect();
        Plot::new(caption, Axis::linear(""), axis(unit))
            .named(&names)
            .with(Series::bars(unit, points))
    }
}

/// Logarithmic for times if need be, since one proxy may take a thousand times as long as another; linear for counts.
fn axis(unit: &str) -> Axis {
    if unit == "ms" {
        Axis::spread(unit)
    } else {
        Axis::linear(unit)
    }
}

/// Milliseconds, with more decimals if they are few.
fn ms(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
