//! How a long run stands and what came of its phases, in a file: a run of a day is followed with `tail -f`, and a run that was
//! cut short has left its figures.
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

/// The file.
pub struct Log {
    file: File,
    /// Since the run began.
    next: Duration,
    replies: u64,
}

impl Log {
    /// An empty file.
    pub fn begin(path: &Path) -> Result<Log, String> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Log {
            file,
            next: EVERY,
            replies: 0,
        })
    }

    /// Takes note. A full disk costs lines and not the run.
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

/// A phase in a line.
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
