//! A report as text for a terminal.
//!
//! Not known here: files, HTML (`crate::pages`).   Limits: none.

use page::Table;

use super::{Report, Row, percent};

impl Report {
    /// The report as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.label.is_empty() {
            out.push_str(&format!("{}\n\n", self.label));
        }
        for (name, value) in &self.setup {
            out.push_str(&format!("{name:16} {value}\n"));
        }
        for what in self.left_out() {
            out.push_str(&format!("{:16} {what}\n", "left out"));
        }
        out.push('\n');
        out.push_str(&self.load_table().text());
        out.push('\n');
        out.push_str(&self.percentiles_table().text());
        out.push('\n');
        out.push_str(&self.hits_table().text());
        out.push('\n');
        for (name, value) in self.facts() {
            out.push_str(&format!("{name:16} {value}\n"));
        }
        out
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.phases.iter().chain([&self.total])
    }

    /// Load and response times, phase by phase.
    #[must_use]
    pub fn load_table(&self) -> Table {
        let columns = [
            "phase",
            "length (s)",
            "plan (req/s)",
            "made (req/s)",
            "replies/s",
            "response (ms)",
            "hit (ms)",
            "miss (ms)",
            "max (ms)",
            "errors",
        ];
        let mut table = Table::new("Load and mean response time", &columns);
        for row in self.rows() {
            table.row([
                row.name.clone(),
                format!("{:.0}", row.length_s),
                format!("{:.1}", row.intended_rate),
                format!("{:.1}", row.request_rate),
                format!("{:.1}", row.reply_rate),
                format!("{:.1}", row.response.mean_ms),
                format!("{:.2}", row.hit.mean_ms),
                format!("{:.1}", row.miss.mean_ms),
                format!("{:.0}", row.response.max_ms),
                row.errors.to_string(),
            ]);
        }
        table
    }

    /// Percentiles of response times, phase by phase: of all replies, of basic hits and of basic misses.
    #[must_use]
    pub fn percentiles_table(&self) -> Table {
        let columns = [
            "phase",
            "response p50 (ms)",
            "p90 (ms)",
            "p99 (ms)",
            "hit p50 (ms)",
            "p90 (ms)",
            "p99 (ms)",
            "miss p50 (ms)",
            "p90 (ms)",
            "p99 (ms)",
        ];
        let mut table = Table::new("Percentiles of the response time", &columns);
        for row in self.rows() {
            let times = [&row.response, &row.hit, &row.miss];
            let cells = times
                .into_iter()
                .flat_map(|t| [t.p50_ms, t.p90_ms, t.p99_ms]);
            let cells = cells.map(|ms| format!("{ms:.1}"));
            table.row(std::iter::once(row.name.clone()).chain(cells));
        }
        table
    }

    /// A sentence about a fill that did not reach its goal.
    #[must_use]
    pub fn fill_given_up(&self) -> Option<String> {
        self.phases.iter().find_map(|row| {
            let given_up = row.given_up?;
            let planned_s = given_up.planned_s;
            Some(format!(
                "ended after {:.1} times its planned length ({planned_s:.0} s), with {:.0} % of what was to be filled",
                row.length_s / planned_s,
                given_up.filled_percent
            ))
        })
    }

    /// Hit ratios, connections, and resources used by the load generator, phase by phase.
    #[must_use]
    pub fn hits_table(&self) -> Table {
        let columns = [
            "phase",
            "repeated (%)",
            "offered (%)",
            "LRU (%)",
            "DHR (%)",
            "BHR (%)",
            "DHR traffic (%)",
            "BHR traffic (%)",
            "connections",
            "replies each",
            "lag (ms)",
            "p99 (ms)",
            "robots CPU (%)",
            "core wait (%)",
            "servers CPU (%)",
        ];
        let mut table = Table::new(
            "Hit ratios (client's view; traffic: what the servers were spared; repeated: what Polygraph calls offered; LRU: what an exact one of the cache's size would have had), and the load generator",
            &columns,
        );
        for row in self.rows() {
            table.row([
                row.name.clone(),
                format!("{:.2}", row.repeated_percent),
                format!("{:.2}", row.offered_percent),
                format!("{:.2}", row.lru_percent),
                format!("{:.2}", row.dhr_percent),
                format!("{:.2}", row.bhr_percent),
                optional(row.dhr_traffic_percent),
                optional(row.bhr_traffic_percent),
                row.connections.to_string(),
                format!("{:.1}", row.replies_a_connection),
                format!("{:.2}", row.lag.mean_ms),
                format!("{:.1}", row.lag.p99_ms),
                format!("{:.0}", row.robots_cpu_percent),
                format!("{:.0}", row.core_wait_percent),
                optional(row.origin_cpu_percent),
            ]);
        }
        table
    }

    /// Facts about the whole run: names and values.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let all = &self.total;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        fact(
            "requests",
            format!(
                "{} made, {} right, {} wrong, {} aborted, {} unfinished",
                all.requests, all.replies, all.errors, all.aborted, self.unfinished
            ),
        );
        for (name, count) in &all.faults {
            fact("  wrong", format!("{count:8}  {name}"));
        }
        for fault in &self.faults {
            fact("  example", fault.clone());
        }
        let kinds: Vec<_> = all
            .kinds_percent
            .iter()
            .map(|(kind, share)| format!("{kind} {share:.1} %"))
            .collect();
        fact("kinds", kinds.join(", "));
        fact(
            "bytes",
            format!(
                "{:.0} a reply, {:.0} a fill, {} fills",
                all.reply_bytes_mean, all.fill_bytes_mean, all.fills
            ),
        );
        fact(
            "cachability",
            format!(
                "{:.2} % of basic replies; {} right Content-MD5, {} missing",
                all.cachable_percent, all.checksums, all.checksums_missing
            ),
        );
        fact(
            "304",
            format!(
                "{}, and {} answered 200 instead",
                all.not_modified, all.condition_ignored
            ),
        );
        fact(
            "connections",
            format!(
                "{} of robots ({} at once, {} requests repeated), {} to servers",
                all.connections,
                self.connections_max,
                all.retried,
                all.origin_connections
                    .map_or("?".to_owned(), |n| n.to_string()),
            ),
        );
        if let Some(said) = self.fill_given_up() {
            fact("fill", said);
        }
        fact(
            "working set",
            format!(
                "{} objects and their images, {}; {} repeats of nothing ({:.1} %)",
                self.working_set,
                if self.frozen { "frozen" } else { "not frozen" },
                self.nothing_to_repeat,
                percent(self.nothing_to_repeat, self.repeats_wanted)
            ),
        );
        fact(
            "load generator",
            format!(
                "lag {:.2} ms mean, {:.1} p99, {:.0} max; CPU {:.0} % robots, {} % servers; robots' queues {:.1} ms mean",
                all.lag.mean_ms,
                all.lag.p99_ms,
                all.lag.max_ms,
                all.robots_cpu_percent,
                optional(all.origin_cpu_percent),
                all.queued.mean_ms,
            ),
        );
        let missing = self.missing_parts();
        if !missing.is_empty() {
            let said = format!(
                "{missing:?} of {}: the rates are not those of the run",
                self.parts.of
            );
            fact("missing parts", said);
        }
        if self.parts.here.len() > 1 {
            let said = format!("at most {:.1} s in a phase", self.apart_s);
            fact("parts apart", said);
        }
        facts
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, HIT_MS, MISS_MS};

    #[test]
    fn the_text_has_every_phase_and_what_limits_the_rate() {
        let text = testing::report("loligo", 100.0).text();
        for part in [
            "loligo\n",
            "inc1 ",
            "top2 ",
            "all ",
            "load generator",
            "lag",
            "offered (%)",
            "LRU (%)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("missing parts") && !text.contains("planned length"));
    }

    #[test]
    fn hits_and_misses_have_percentiles_of_their_own() {
        let text = testing::report("loligo", 100.0).text();
        let (_, rest) = text
            .split_once("Percentiles of the response time\n")
            .unwrap();
        let top = rest.lines().find(|line| line.starts_with("top1")).unwrap();
        let cells: Vec<f64> = top
            .split_whitespace()
            .skip(1)
            .map(|w| w.parse().unwrap())
            .collect();
        // Six in ten replies are hits, so the median of all is a hit.
        let (hit, miss) = (f64::from(HIT_MS as u32), f64::from(MISS_MS as u32));
        let expected = [hit, miss, miss, hit, hit, hit, miss, miss, miss];
        for (cell, expected) in cells.iter().zip(expected) {
            assert!((cell / expected - 1.0).abs() < 0.05, "{top}");
        }
        assert_eq!(cells.len(), expected.len());
    }

    #[test]
    fn a_fill_that_was_given_up_is_said() {
        let text = testing::fill_given_up(100.0).text();
        let line = text.lines().find(|line| line.contains("planned length"));
        let line = line.unwrap();
        assert!(line.starts_with("fill  "), "{line}");
        assert!(
            line.ends_with(
                "ended after 5.0 times its planned length (2 s), with 37 % of what was to be filled"
            ),
            "{line}"
        );
    }
}
