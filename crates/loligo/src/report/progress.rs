//! How far the reading is, on one line of the terminal, and a word beforehand.
//!
//! Not known here: what is read.   Limits: nothing unless standard error is a terminal, but for the word beforehand.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Less than this is read before anybody wonders.
const WORTH_A_WORD_BYTES: u64 = 256 << 20;
/// What a core reads of profiles and logs in a second, roughly.
const READ_BYTES_PER_SECOND: u64 = 20 << 20;

/// A bar over all sources.
pub struct Progress {
    bar: ProgressBar,
    /// Bytes of the sources before this one.
    before: u64,
}

impl Progress {
    /// For so many bytes. 0: not known, as of standard input.
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

    /// The next source begins, behind so many bytes.
    pub fn begin(&mut self, name: &str, before: u64) {
        self.before = before;
        self.bar.set_message(name.to_owned());
        self.bar.set_position(before);
    }

    /// So many bytes of this source are read.
    pub fn at(&self, bytes: u64) {
        self.bar.set_position(self.before + bytes);
    }

    /// Something without a measure begins.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
