//! Paper 002 again: its tables and figures, on modelled disks or a real one, with the printed values beside ours.
//!
//! ```text
//! source -> workload --\
//!                       +--> experiment (a run) --> bench (many, kept, watched) --> tables, figures, plan --> report
//! managers, disks -----/
//! ```
//!
//! Not known here: terminals, files to write reports to.
//! Source: paper 002, section 3.

pub mod bench;
pub mod beside;
pub mod experiment;
pub mod figures;
pub mod keep;
pub mod plan;
pub mod printed;
pub mod real;
pub mod report;
pub mod source;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod workload;

use std::io;

use bench::Bench;
use report::{Report, Section};

/// A table or figure of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Lazy reads and locality buffers.
    Table1,
    /// Gets a second.
    Table2,
    /// What the disk is asked.
    Figure2,
    /// What a file costs.
    Figure3,
    /// A file for each object.
    Figure4,
    /// BUDDY's threshold.
    Figure5,
    /// Streams.
    Figure6,
    /// Lazy reads.
    Figure7,
    /// Locality buffers.
    Figure8,
}

impl Item {
    /// All of them; the tables first, since they say most.
    pub const ALL: [Item; 9] = [
        Item::Table1,
        Item::Table2,
        Item::Figure2,
        Item::Figure3,
        Item::Figure4,
        Item::Figure5,
        Item::Figure6,
        Item::Figure7,
        Item::Figure8,
    ];

    /// Makes it.
    pub fn make(self, bench: &Bench) -> io::Result<Section> {
        match self {
            Item::Table1 => tables::table1(bench),
            Item::Table2 => tables::table2(bench),
            Item::Figure2 => figures::figure2(bench),
            Item::Figure3 => figures::figure3(bench),
            Item::Figure4 => figures::figure4(bench),
            Item::Figure5 => figures::figure5(bench),
            Item::Figure6 => figures::figure6(bench),
            Item::Figure7 => figures::figure7(bench),
            Item::Figure8 => figures::figure8(bench),
        }
    }
}

/// Makes several, one after the other.
pub fn make(items: &[Item], bench: &Bench) -> io::Result<Report> {
    let sections = items.iter().map(|item| item.make(bench));
    Ok(Report {
        title: "Secondary storage management for web proxies, again".to_owned(),
        sections: sections.collect::<io::Result<_>>()?,
    })
}
