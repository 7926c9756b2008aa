//! The progress of a run, on one line of the terminal.
//!
//! Not known here: what is run.   Limits: once a second; nothing unless standard error is a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use polymix::robots::Progress;

/// A line that is rewritten.
pub struct Live {
    bar: ProgressBar,
    replies_before: u64,
}

impl Live {
    /// An empty line; hidden if `quiet`.
    pub fn new(quiet: bool) -> Live {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(if !quiet && std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        Live {
            bar,
            replies_before: 0,
        }
    }

    /// Shows the progress, after the text `before`.
    pub fn show(&mut self, before: &str, progress: &Progress) {
        let replies = progress.replies.saturating_sub(self.replies_before);
        self.replies_before = progress.replies;
        self.bar
            .set_message(format!("{before}{}", line(progress, replies)));
        self.bar.tick();
    }

    /// Prints a line that stays.
    pub fn say(&mut self, what: &str) {
        self.replies_before = 0;
        self.bar.println(what);
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress in one line; `replies` are those of the last second.
pub(super) fn line(progress: &Progress, replies: u64) -> String {
    let frozen = if progress.frozen { ", frozen" } else { "" };
    format!(
        "{:>6} s  {:6} {:>5} s  {replies:>6} replies/s  {:>6} on their way  {:>5} wrong  {} fills, {} MB{frozen}",
        seconds(progress.time),
        progress.phase,
        seconds(progress.phase_time),
        progress.in_flight,
        progress.errors,
        progress.fills.count,
        progress.fills.bytes / 1_000_000,
    )
}

fn seconds(time: Duration) -> u64 {
    time.as_secs()
}
