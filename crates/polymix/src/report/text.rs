//! A report for a terminal.
//!
//! Not known here: files, HTML (`crate::pages`).   Limits: none.

use page::Table;

use super::{Report, Row};

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.label.is_empty() {
            out.push_str(&format!("{}\n\n", self.label));
        }
        for (name, value) in &self.setup {
            out.push_str(&format!("{name:16} {value}\n"));
        }
        out.push('\n');
        out.push_str(&self.load_table().text());
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
            "p50 (ms)",
            "p90 (ms)",
            "p99 (ms)",
            "max (ms)",
            "errors",
        ];
        let mut table = Table::new("Load and response time", &columns);
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
                format!("{:.1}", row.response.p50_ms),
                format!("{:.0}", row.response.p90_ms),
                format!("{:.0}", row.response.p99_ms),
                format!("{:.0}", row.response.max_ms),
                row.errors.to_string(),
            ]);
        }
        table
    }

    /// Hit ratios, connections and what the load generator took, phase by phase.
    #[must_use]
    pub fn hits_table(&self) -> Table {
        let columns = [
            "phase",
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
            "Hit ratios (client's view; traffic: what the servers were spared; LRU: what an exact one of the cache's size would have had), and the load generator",
            &columns,
        );
        for row in self.rows() {
            table.row([
                row.name.clone(),
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

    /// What is said once of a run: name and value.
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
        fact(
            "working set",
            format!(
                "{} objects and their images, {}; {} repeats of nothing",
                self.working_set,
                if self.frozen { "frozen" } else { "not frozen" },
                self.nothing_to_repeat
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
    use crate::testing;

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
        assert!(!text.contains("missing parts"));
    }
}
