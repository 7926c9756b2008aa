//! Progress on stderr: a bar on a terminal, a line now and then in a log.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Least time between two lines when stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(20);

/// How far a task has come.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    last: Instant,
    title: String,
}

impl Progress {
    /// A task of `total` steps.
    pub fn new(title: &str, total: u64) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let bar = if plain {
            eprintln!("{title}: {total}");
            ProgressBar::hidden()
        } else {
            ProgressBar::new(total)
        };
        bar.set_length(total);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg} (left: {eta})")
        {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        Self {
            bar,
            plain,
            last: Instant::now(),
            title: title.to_owned(),
        }
    }

    /// Shows the current step.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Shows that `position` steps are done.
    pub fn at(&mut self, position: u64) {
        self.bar.set_position(position);
        if self.plain && self.last.elapsed() >= LINE_EVERY {
            self.last = Instant::now();
            let length = self.bar.length().unwrap_or(0);
            eprintln!(
                "{}: {position} of {length} {}",
                self.title,
                self.bar.message()
            );
        }
    }

    /// Shows that one more step is done.
    pub fn step(&mut self) {
        self.at(self.bar.position() + 1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
