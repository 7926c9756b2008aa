//! The progress of reading, on one line of the terminal, and before large inputs an estimate of the time.
//!
//! Not known here: what is read.   Limits: no progress unless standard error is a terminal; the estimate is printed unless `quiet`.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The estimate is printed for inputs of this size or more.
const WORTH_A_WORD_BYTES: u64 = 256 << 20;
/// Bytes of profiles and logs that a core reads in a second, roughly.
const READ_BYTES_PER_SECOND: u64 = 20 << 20;

/// A bar over all sources.
pub struct Progress {
    bar: ProgressBar,
    /// Bytes of the sources before this one.
    before: u64,
}

impl Progress {
    /// Begins, for so many bytes. 0: unknown, as for standard input.
    pub fn new(total_bytes: u64, quiet: bool) -> Progress {
        if !quiet && total_bytes >= WORTH_A_WORD_BYTES {
            let minutes = total_bytes.div_ceil(READ_BYTES_PER_SECOND).div_ceil(60);
            eprintln!(
                "loligo: {} MiB to read; this takes about {minutes} min",
                total_bytes >> 20
            );
        }
        let target = if !quiet && std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let (bar, style) = if total_bytes > 0 {
            let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
            let style = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}, {eta} left";
            (bar, style)
        } else {
            let bar = ProgressBar::with_draw_target(None, target);
            (
                bar,
                "{spinner} {msg} {binary_bytes}  {binary_bytes_per_sec}",
            )
        };
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Progress { bar, before: 0 }
    }

    /// Begins the next source, after so many bytes of earlier sources.
    pub fn begin(&mut self, name: &str, before: u64) {
        self.before = before;
        self.bar.set_message(name.to_owned());
        self.bar.set_position(before);
    }

    /// So many bytes of this source are read.
    pub fn at(&self, bytes: u64) {
        self.bar.set_position(self.before + bytes);
    }

    /// Shows a step that has no measure of progress.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
