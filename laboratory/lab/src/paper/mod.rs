//! Paper 002 repeated: its tables and figures, on modelled disks or a real one, compared with the printed values.
//!
//! ```text
//! source -> workload --\
//!                       +--> experiment (a run) --> bench (many, kept, watched) --> tables, figures, claims, plan --> report
//! managers, disks -----/
//! ```
//!
//! Not known here: terminals, files to write reports to.
//! Source: paper 002, section 3.

pub mod bench;
pub mod beside;
pub mod claims;
mod constants;
pub mod experiment;
pub mod figures;
pub mod keep;
pub mod plan;
pub mod printed;
pub mod real;
pub mod report;
pub mod source;
mod streams;
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
    /// The paper's claims, judged for each stream.
    Claims,
    /// The streams of requests.
    Streams,
    /// Lazy reads and locality buffers.
    Table1,
    /// Gets a second.
    Table2,
    /// Disk requests by kind.
    Figure2,
    /// The cost of a file.
    Figure3,
    /// A file for each object.
    Figure4,
    /// BUDDY's threshold.
    Figure5,
    /// STREAM and its variants.
    Figure6,
    /// Lazy reads.
    Figure7,
    /// Locality buffers.
    Figure8,
    /// The constants of the models.
    Constants,
}

impl Item {
    /// All of them; the claims first, since they sum up the rest.
    pub const ALL: [Item; 12] = [
        Item::Claims,
        Item::Streams,
        Item::Table1,
        Item::Table2,
        Item::Figure2,
        Item::Figure3,
        Item::Figure4,
        Item::Figure5,
        Item::Figure6,
        Item::Figure7,
        Item::Figure8,
        Item::Constants,
    ];

    /// Makes the section, for every bench's stream; there is at least one bench.
    pub fn make(self, benches: &[Bench]) -> io::Result<Section> {
        match self {
            Item::Claims => claims::claims(benches),
            Item::Streams => streams::streams(benches),
            Item::Table1 => tables::table1(benches),
            Item::Table2 => tables::table2(benches),
            Item::Figure2 => each(benches, figures::figure2),
            // Figure 3 does not depend on the stream.
            Item::Figure3 => figures::figure3(&benches[0]),
            Item::Figure4 => each(benches, figures::figure4),
            Item::Figure5 => each(benches, figures::figure5),
            Item::Figure6 => each(benches, figures::figure6),
            Item::Figure7 => each(benches, figures::figure7),
            Item::Figure8 => each(benches, figures::figure8),
            Item::Constants => Ok(constants::constants()),
        }
    }
}

/// Makes a section for every stream and joins them to one.
fn each(benches: &[Bench], make: impl Fn(&Bench) -> io::Result<Section>) -> io::Result<Section> {
    let mut joined: Option<Section> = None;
    for bench in benches {
        let mut section = make(bench)?;
        if benches.len() > 1 {
            let name = bench.source.name();
            let tables = section.tables.iter_mut().map(|rows| &mut rows.caption);
            let plots = section.plots.iter_mut().map(|plot| &mut plot.caption);
            tables
                .chain(plots)
                .for_each(|caption| *caption += &format!(" ({name})"));
        }
        match &mut joined {
            None => joined = Some(section),
            Some(joined) => {
                joined.tables.extend(section.tables);
                joined.plots.extend(section.plots);
                let new = section.text.into_iter();
                let new: Vec<_> = new.filter(|text| !joined.text.contains(text)).collect();
                joined.text.extend(new);
            }
        }
    }
    joined.ok_or_else(|| io::Error::other("no stream was named"))
}

/// Makes several items, one after the other.
pub fn make(items: &[Item], benches: &[Bench]) -> io::Result<Report> {
    let sections = items.iter().map(|item| item.make(benches));
    Ok(Report {
        title: "Secondary storage management for web proxies, again".to_owned(),
        sections: sections.collect::<io::Result<_>>()?,
    })
}
