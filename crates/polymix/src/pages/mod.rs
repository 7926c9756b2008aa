//! What reports look like: one run, several side by side, a search; and the tables and figures of paper 004.
//!
//! Everything shown is in the report, so a page can be made again from the file.
//!
//! Not known here: files.   Limits: those of the crate `page`.   Source: spec section 7; paper 004 section 6.

mod compare;
pub mod paper;
mod peaks;
mod run;
mod search;

pub use self::compare::{compare_page, compare_text};
pub use self::peaks::{peaks_page, peaks_text};
pub use self::run::run_page;
pub use self::search::{search_page, search_text};

use page::Table;

/// Names and values below each other.
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
