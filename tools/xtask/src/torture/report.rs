//! The results of a torture, counted while it runs and reported at its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::steps;
use super::streams::Came;
use super::test_bed::On;
use super::upgrade::Upgrades;

/// Large answers that may be cut off without a fault: this many, or 1/`CUTS_SHARE` of large hits.
const CUTS_ALLOWED: u64 = 3;
const CUTS_SHARE: u64 = 100;

/// Counters of the clients.
#[derive(Debug, Default)]
pub struct Figures {
    pub requests: AtomicU64,
    pub compared: AtomicU64,
    pub compared_bytes: AtomicU64,
    pub hits: AtomicU64,
    pub large_hits: AtomicU64,
    pub misses: AtomicU64,
    pub parts: AtomicU64,
    pub posts: AtomicU64,
    pub purges: AtomicU64,
    pub purges_refused: AtomicU64,
    pub replacements: AtomicU64,
    pub went_back: AtomicU64,
    pub hung_up: AtomicU64,
    /// Slow downloads whose object was purged meanwhile, and which ended whole.
    pub downloads: AtomicU64,
    /// Such downloads that did not end whole.
    pub downloads_cut: AtomicU64,
    /// Requests that waited too long while the device hung.
    pub waited: AtomicU64,
    longest_wait_us: AtomicU64,
    pub broken_by_kills: AtomicU64,
    pub cut_by_faults: AtomicU64,
    /// Large answers cut off without a fault.
    pub cut_in_mid_body: AtomicU64,
    pub failed: AtomicU64,
    pub wrong: AtomicU64,
    slowest_us: AtomicU64,
}

impl Figures {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Notes a wait without a byte while the device hung.
    pub fn waited(&self, wait: Duration) {
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.longest_wait_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Notes the time of an answer.
    pub fn answered(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.slowest_us.fetch_max(us, Ordering::Relaxed);
    }
}

/// Counters of a trial: actions on the proxy.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Deeds {
    pub kills: u64,
    pub kills_during_recovery: u64,
    pub clean_stops: u64,
    pub flips: u64,
    pub detaches: u64,
    pub throttles: u64,
    pub hangs: u64,
    /// Durable objects requested after a kill and a restart, and the hits among them.
    pub durable_asked: u64,
    pub durable_hits: u64,
    /// The same after regular stops.
    pub stopped_asked: u64,
    pub stopped_hits: u64,
    pub first_answer_s_max: f64,
    /// Longest time from the start until there was nothing left to rebuild.
    pub recovery_s_max: f64,
}

/// One trial, on a file or on a device.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub on: On,
    pub seed: u64,
    pub store_bytes: u64,
    pub seconds: f64,
    pub kills_asked: u64,
    #[serde(flatten)]
    pub deeds: Deeds,
    /// With `--upgrade`.
    pub upgrades: Upgrades,
    /// With `--upgrade`, over HTTP/2.
    pub streams: Option<Came>,
    pub requests: u64,
    pub objects_compared: u64,
    pub bytes_compared: u64,
    pub hits: u64,
    pub large_hits: u64,
    pub misses: u64,
    pub parts: u64,
    pub posts: u64,
    pub purges: u64,
    pub purges_refused_by_a_failing_device: u64,
    pub replacements: u64,
    /// Answers older than a version that had replaced them: the new version was not stored, or not kept.
    pub went_back: u64,
    pub hung_up: u64,
    pub broken_by_kills: u64,
    pub cut_by_faults: u64,
    /// Large answers cut off without a fault: their next fragment was purged or evicted before it was read.
    pub cut_in_mid_body: u64,
    /// Downloads whose object was purged while they were in flight: whole ones, and those cut off.
    pub downloads_purged: u64,
    pub downloads_purged_and_cut: u64,
    /// While the device hung: the longest time without a byte, and the number of requests that waited too long.
    pub longest_wait_s: f64,
    pub waited_too_long: u64,
    pub slowest_answer_s: f64,
    /// These two must be 0.
    pub wrong_answers: u64,
    pub failed_requests: u64,
    pub durable_hit_percent: Option<f64>,
    /// The first wrong answers, in words.
    pub wrongs: Vec<String>,
    /// Actions on the proxy and its device, life by life.
    pub lives: Vec<String>,
    /// The reason for an early end.
    pub trouble: Option<String>,
    /// Requested faults that are impossible here.
    pub left_out: Vec<String>,
}

impl Report {
    /// A report without counts.
    pub fn new(on: On, seed: u64, store_bytes: u64, kills_asked: u64) -> Self {
        Self {
            on,
            seed,
            store_bytes,
            kills_asked,
            ..Self::nothing()
        }
    }

    fn nothing() -> Self {
        Self {
            on: On::File,
            seed: 0,
            store_bytes: 0,
            seconds: 0.0,
            kills_asked: 0,
            deeds: Deeds::default(),
            upgrades: Upgrades::default(),
            streams: None,
            requests: 0,
            objects_compared: 0,
            bytes_compared: 0,
            hits: 0,
            large_hits: 0,
            misses: 0,
            parts: 0,
            posts: 0,
            purges: 0,
            purges_refused_by_a_failing_device: 0,
            replacements: 0,
            went_back: 0,
            hung_up: 0,
            broken_by_kills: 0,
            cut_by_faults: 0,
            cut_in_mid_body: 0,
            downloads_purged: 0,
            downloads_purged_and_cut: 0,
            longest_wait_s: 0.0,
            waited_too_long: 0,
            slowest_answer_s: 0.0,
            wrong_answers: 0,
            failed_requests: 0,
            durable_hit_percent: None,
            wrongs: Vec::new(),
            lives: Vec::new(),
            trouble: None,
            left_out: Vec::new(),
        }
    }

    /// Copies the clients' counts.
    pub fn count(&mut self, figures: &Figures) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.requests = of(&figures.requests);
        self.objects_compared = of(&figures.compared);
        self.bytes_compared = of(&figures.compared_bytes);
        self.hits = of(&figures.hits);
        self.large_hits = of(&figures.large_hits);
        self.misses = of(&figures.misses);
        self.parts = of(&figures.parts);
        self.posts = of(&figures.posts);
        self.purges = of(&figures.purges);
        self.purges_refused_by_a_failing_device = of(&figures.purges_refused);
        self.replacements = of(&figures.replacements);
        self.went_back = of(&figures.went_back);
        self.hung_up = of(&figures.hung_up);
        self.broken_by_kills = of(&figures.broken_by_kills);
        self.cut_by_faults = of(&figures.cut_by_faults);
        self.cut_in_mid_body = of(&figures.cut_in_mid_body);
        self.downloads_purged = of(&figures.downloads);
        self.downloads_purged_and_cut = of(&figures.downloads_cut);
        self.longest_wait_s = of(&figures.longest_wait_us) as f64 / 1e6;
        self.waited_too_long = of(&figures.waited);
        self.slowest_answer_s = of(&figures.slowest_us) as f64 / 1e6;
        self.wrong_answers = of(&figures.wrong);
        self.failed_requests = of(&figures.failed);
        let deeds = &self.deeds;
        self.durable_hit_percent = (deeds.durable_asked > 0)
            .then(|| 100.0 * deeds.durable_hits as f64 / deeds.durable_asked as f64);
    }

    /// The reason why the trial failed, if it did.
    pub fn complaint(&self, expect_hits: f64) -> Option<String> {
        if let Some(trouble) = &self.trouble {
            return Some(trouble.clone());
        }
        if let Some(complaint) = self.streams.as_ref().and_then(Came::complaint) {
            return Some(complaint);
        }
        if self.wrong_answers > 0 || self.failed_requests > 0 || !self.wrongs.is_empty() {
            return Some(format!(
                "{} wrong answers, {} failed requests",
                self.wrong_answers, self.failed_requests
            ));
        }
        if self.cut_in_mid_body > CUTS_ALLOWED + self.large_hits / CUTS_SHARE {
            return Some(format!(
                "{} large answers were cut off without a fault, of {} hits",
                self.cut_in_mid_body, self.large_hits
            ));
        }
        match self.durable_hit_percent {
            Some(percent) if percent < expect_hits => Some(format!(
                "{percent:.2} % of what was durable hit again, {expect_hits} % expected"
            )),
            None if expect_hits > 0.0 => {
                Some("nothing durable was asked for again: longer lives are needed".into())
            }
            _ => None,
        }
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let deeds = &self.deeds;
        let on = match self.on {
            On::File => "a file",
            On::Loop => "a loop device",
        };
        let mut lines = vec![
            format!(
                "on {on}: {} of {} kills survived ({} during recovery), {} clean stops, {:.0} s, seed {}",
                deeds.kills,
                self.kills_asked,
                deeds.kills_during_recovery,
                deeds.clean_stops,
                self.seconds,
                self.seed
            ),
            format!("  {}", self.upgrades.text()),
            format!("  {}", steps::text(&self.upgrades.steps)),
            format!(
                "  faults: {} times bits turned over, {} times a failing device ({} answers cut off, {} more without a fault, {} purges refused), {} times a crawling one, {} times a hanging one",
                deeds.flips,
                deeds.detaches,
                self.cut_by_faults,
                self.cut_in_mid_body,
                self.purges_refused_by_a_failing_device,
                deeds.throttles,
                deeds.hangs
            ),
            format!(
                "  purged while they were being downloaded: {} ended whole, {} were cut off; while the device hung the longest wait was {:.3} s, and {} requests waited too long",
                self.downloads_purged,
                self.downloads_purged_and_cut,
                self.longest_wait_s,
                self.waited_too_long
            ),
            format!(
                "  compared: {} objects, {:.1} MiB; {} hits ({} large), {} misses, {} for a part",
                self.objects_compared,
                self.bytes_compared as f64 / f64::from(1 << 20),
                self.hits,
                self.large_hits,
                self.misses,
                self.parts
            ),
            format!(
                "  invalidated: {} by POST, {} by PURGE, {} replaced ({} answers went back behind that); {} hung up on, {} broken by kills",
                self.posts,
                self.purges,
                self.replacements,
                self.went_back,
                self.hung_up,
                self.broken_by_kills
            ),
            format!(
                "  wrong or stale answers: {}; failed requests: {}; slowest answer {:.2} s",
                self.wrong_answers, self.failed_requests, self.slowest_answer_s
            ),
            format!(
                "  durable objects that hit again: {} of {}{}; after clean stops: {} of {}",
                deeds.durable_hits,
                deeds.durable_asked,
                self.durable_hit_percent
                    .map_or(String::new(), |p| format!(" ({p:.2} %)")),
                deeds.stopped_hits,
                deeds.stopped_asked
            ),
            format!(
                "  longest from start to first answer {:.3} s, longest recovery {:.3} s",
                deeds.first_answer_s_max, deeds.recovery_s_max
            ),
        ];
        lines.extend(self.streams.iter().map(|it| format!("  {}", it.text())));
        lines.extend(self.left_out.iter().map(|l| format!("  left out: {l}")));
        lines.extend(self.wrongs.iter().map(|w| format!("  WRONG: {w}")));
        lines.extend(self.trouble.iter().map(|t| format!("  ENDED EARLY: {t}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_is_nothing_wrong_and_enough_hits() {
        let mut report = Report::new(On::File, 1, 1 << 20, 2);
        assert_eq!(report.complaint(0.0), None);
        assert!(report.complaint(99.0).is_some(), "nothing was asked for");
        report.deeds.durable_asked = 100;
        report.deeds.durable_hits = 98;
        report.count(&Figures::default());
        assert!(report.complaint(99.0).is_some());
        assert_eq!(report.complaint(98.0), None);
        let figures = Figures::default();
        Figures::add(&figures.wrong, 1);
        report.count(&figures);
        assert!(report.complaint(0.0).is_some());
    }
}
