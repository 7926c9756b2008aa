//! The progress of a long run and the results of its phases, in a file: `tail -f` follows it, and a run that was
//! interrupted keeps its results.
//!
//! Not known here: what is run.   Limits: a line a minute and one for each phase.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use polymix::report::Row;
use polymix::run::Watched;

use super::live::line;

const EVERY: Duration = Duration::from_secs(60);

/// The log file.
pub struct Log {
    file: File,
    /// When the next line is due, since the run began.
    next: Duration,
    replies: u64,
}

impl Log {
    /// Creates the file, empty.
    pub fn begin(path: &Path) -> Result<Log, String> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Log {
            file,
            next: EVERY,
            replies: 0,
        })
    }

    /// Writes a line if one is due. A full disk costs lines, not the run.
    pub fn note(&mut self, watched: Watched<'_>) {
        match watched {
            Watched::Standing(progress) if progress.time >= self.next => {
                let replies = progress.replies.saturating_sub(self.replies);
                let past = (progress.time + EVERY).saturating_sub(self.next);
                let rate = replies as f64 / past.as_secs_f64().max(1.0);
                self.replies = progress.replies;
                self.next = progress.time + EVERY;
                self.say(&line(progress, rate.round() as u64));
            }
            Watched::Standing(_) => {}
            Watched::PhaseOver(report) => {
                if let Some(row) = report.phases.last() {
                    self.say(&phase(row));
                }
            }
        }
    }

    fn say(&mut self, what: &str) {
        let _ = writeln!(self.file, "{what}");
    }
}

/// The results of a phase in one line.
fn phase(row: &Row) -> String {
    format!(
        "{} over after {:.0} s: {:.1} of {:.1} requests/s answered, response {:.1} ms, hit {:.2}, miss {:.1}; {:.2} of {:.2} % hits (an exact LRU {:.2}), {} wrong",
        row.name,
        row.length_s,
        row.reply_rate,
        row.intended_rate,
        row.response.mean_ms,
        row.hit.mean_ms,
        row.miss.mean_ms,
        row.dhr_percent,
        row.offered_percent,
        row.lru_percent,
        row.errors
    )
}
