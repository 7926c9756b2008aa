//! The figures of a proxy's day: what paper 001 measured of seven Squids, of any source of [`profile::Record`]s.
//!
//! [`model`] is what comes out: data for a page, for JSON, for a comparison.
//!
//! Not known here: files of profiles and logs, drawings, the command line.
#![forbid(unsafe_code)]

mod cells;
mod gauges;
mod intervals;
mod kinds;
mod known;
pub mod model;
mod spill;
mod uniques;
mod values;

pub use known::{Known, Options, Source};
pub use spill::SpillError;
