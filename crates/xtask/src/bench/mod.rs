//! Measurements: Loligo beside its rivals, and what the kernel counts of it.
//!
//! All of them interleave: round after round, every contestant in turn, and the median over the rounds. A figure is only
//! worth something beside the others of its own run.

mod hits;
mod idle;
mod profile;
mod ring;
mod stats;
mod store_io;
mod strace;
mod table;
mod targets;

use clap::Subcommand;

use crate::failure::Result;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// CPU per request, rate and latency of hits and misses, beside every installed rival
    Hits(hits::Options),
    /// Opens, closes, reads, writes and bytes per object, counted by the kernel
    StoreIo(store_io::Options),
    /// Hit throughput and memory with thousands of idle connections
    Idle(idle::Options),
    /// Hit throughput with the profile on and off
    Profile(profile::Options),
}

/// Carries one of them out.
pub fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Hits(options) => hits::run(&options),
        BenchCommand::StoreIo(options) => store_io::run(&options),
        BenchCommand::Idle(options) => idle::run(&options),
        BenchCommand::Profile(options) => profile::run(&options),
    }
}
