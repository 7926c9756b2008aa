//! Measurements: Loligo beside its rivals, and what the kernel counts of it.
//!
//! All of them interleave: round after round, every contestant in turn, and the median over the rounds. A figure is only
//! worth something beside the others of its own run.

mod hits;
mod idle;
mod profile;
mod pss;
mod ring;
mod stats;
mod store_age;
mod store_disk;
mod store_io;
mod store_load;
mod store_memory;
mod store_rivals;
mod store_rivals_comeback;
mod store_rivals_figures;
mod store_start;
mod store_start_child;
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
    /// Memory an object, utilisation and time an insert of the store by itself, after years of use
    StoreMemory(store_memory::Options),
    /// Time from the start to the first hit, after a clean stop, a crash, and without a checkpoint
    StoreStart(store_start::Options),
    /// (used by `bench store-start`)
    #[command(hide = true)]
    StoreStartChild(store_start_child::ChildOptions),
    /// Writes and rate of a store written over many times, beside a fresh one
    StoreAge(store_age::Options),
    /// Memory, device writes and reads, and restarts of Loligo's store beside those of its rivals
    StoreRivals(store_rivals::Options),
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
        BenchCommand::StoreMemory(options) => store_memory::run(&options),
        BenchCommand::StoreStart(options) => store_start::run(&options),
        BenchCommand::StoreStartChild(options) => store_start_child::child(&options),
        BenchCommand::StoreAge(options) => store_age::run(&options),
        BenchCommand::StoreRivals(options) => store_rivals::run(&options),
        BenchCommand::Idle(options) => idle::run(&options),
        BenchCommand::Profile(options) => profile::run(&options),
    }
}
