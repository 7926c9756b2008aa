//! The appearance of reports: one run, several side by side, a search; and the tables and figures of paper 004.
//!
//! Everything shown is in the report, so a page can be made again from its file.
//!
//! Not known here: files.   Limits: those of the crate `page`.   Source: spec section 7; paper 004 section 6.

mod compare;
pub mod paper;
mod peaks;
mod run;
mod search;

pub use self::compare::{compare_page, compare_text};
pub use self::peaks::{peaks_page, peaks_text};
pub use self::run::{run_page, run_text};
pub use self::search::{search_page, search_text};

use page::Table;

use crate::report::Plan;
use crate::run::{scale_text, size_text};

/// A setting's name, and its value as text.
type Setting = (&'static str, fn(&Plan) -> String);

/// Settings in which runs must agree to be compared, besides the rate.
const COMMON: [Setting; 7] = [
    ("workload", |plan| plan.mix.to_string()),
    ("cache size", |plan| size_text(plan.cache_bytes)),
    ("time scale", |plan| scale_text(plan.time_scale)),
    ("think scale", |plan| plan.think_scale.to_string()),
    ("delay to servers (ms)", |plan| plan.delay_ms.to_string()),
    ("packets lost", |plan| plan.loss.to_string()),
    ("share of ranges", |plan| plan.range_share.to_string()),
];

/// A sentence that lists the values if they differ.
fn differing(whose: &str, what: &str, values: &[String]) -> Option<String> {
    let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
    differ.then(|| format!("The {whose} differ in the {what}: {}.", values.join(", ")))
}

/// A table of names and values.
fn facts_table<'a>(
    caption: &str,
    facts: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Table {
    let mut table = Table::new(caption, &["", ""]);
    for (name, value) in facts {
        table.row([name.clone(), value.clone()]);
    }
    table
}
