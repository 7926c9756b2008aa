//! The figures of a proxy's day: the measurements of paper 001 on seven Squids, for any source of [`profile::Record`]s.
//!
//! A [`Builder`] takes the requests and events of one source in any order and makes a [`model::SourceReport`]: slots of 20 minutes, 25
//! figures with medians and percentiles, tables, about 200 measures ([`measures()`]). [`Known`] says what a source can tell; a figure
//! that needs more says so instead of showing zero. Reports are compared ([`compare()`]) and joined ([`join()`]).
//!
//! ```
//! use report::{Builder, Known, Options, Source, model::SourceKind};
//!
//! let source = Source { name: "leaf".into(), level: None, kind: SourceKind::Profile, known: Known::PROFILE };
//! let mut builder = Builder::new(source, Options::default());
//! let mut record = profile::Record::begun(1_700_000_000_000_000);
//! (record.class, record.status, record.total_us) = (profile::Class::MemoryHit, 200, 4_000);
//! builder.request(&record)?;
//! let report = builder.finish()?;
//! assert_eq!(report.measure("5.hit.p50").unwrap().value, Some(4.0));
//! # Ok::<(), report::SpillError>(())
//! ```
//!
//! Inside: `kinds` names what is counted, `catalogue` is the table of figures, `cells` is what is kept of a slot, `points` makes points of it;
//! `values` has percentiles, `intervals` concurrency, `sizes` what goes over size, `uniques` first accesses, `disks` each disk, `asked` and `heavy` names, `spill` temporary files.
//!
//! Not known here: files of profiles and logs, drawings, the command line.
#![forbid(unsafe_code)]

mod asked;
mod builder;
mod catalogue;
mod cells;
mod compare;
mod disks;
mod findings;
mod finish;
mod gauges;
mod heavy;
mod intervals;
mod join;
mod kinds;
mod known;
mod measures;
pub mod model;
mod points;
mod protocols;
mod sizes;
mod slots;
mod spill;
pub mod squid;
mod tables;
mod uniques;
mod values;

pub use asked::Asked;
pub use builder::Builder;
pub use compare::{Compared, compare};
pub use join::{JoinError, join};
pub use known::{Known, Options, Source};
pub use measures::{Measure, measures};
pub use slots::auto_slot;
pub use spill::SpillError;
