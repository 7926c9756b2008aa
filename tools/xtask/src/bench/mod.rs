//! Benchmarks: Loligo compared with its rivals, and its figures from the kernel.
//!
//! All of them interleave: all contestants in turn, round after round, with the median over the rounds. A figure is comparable only
//! with the others of its own run.

mod attacks;
mod cluster;
mod handshakes;
mod hits;
mod idle;
mod large;
mod posts;
mod profile;
mod ring;
mod stats;
mod store;
pub mod table;
mod targets;

use clap::Subcommand;

use crate::failure::Result;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// CPU per request, rate and latency of hits and misses, beside every installed rival
    Hits(hits::Options),
    /// Opens, closes, reads, writes and bytes per object, counted by the kernel
    StoreIo(store::io::Options),
    /// Memory an object, utilisation and time an insert of the store by itself, after years of use
    StoreMemory(store::memory::Options),
    /// Time from the start to the first hit, after a clean stop, a crash, and without a checkpoint
    StoreStart(store::start::Options),
    /// (used by `bench store-start`)
    #[command(hide = true)]
    StoreStartChild(store::child::ChildOptions),
    /// Writes and rate of a store written over many times, beside a fresh one
    StoreAge(store::age::Options),
    /// Memory, device writes and reads, and restarts of Loligo's store beside those of its rivals
    StoreRivals(store::rivals::Options),
    /// What a cluster costs a node, and the CPU time of each event of one
    Cluster(cluster::Options),
    /// What attacks over HTTP/2 and TLS cost, and what another client sees of them
    Attacks(attacks::Options),
    /// CPU of full and resumed handshakes of TLS, beside the rivals
    Handshakes(handshakes::Options),
    /// Downloads, ranges and misses of large objects, beside the rivals
    Large(large::Options),
    /// POSTs that fail, connections and time with origins that treat connections in their own ways, beside nginx and HAProxy
    Posts(posts::Options),
    /// Hit throughput and memory with thousands of idle connections
    Idle(idle::Options),
    /// Hit throughput with the profile on and off
    Profile(profile::Options),
}

/// Runs a benchmark.
pub fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Hits(options) => hits::run(&options),
        BenchCommand::StoreIo(options) => store::io::run(&options),
        BenchCommand::StoreMemory(options) => store::memory::run(&options),
        BenchCommand::StoreStart(options) => store::start::run(&options),
        BenchCommand::StoreStartChild(options) => store::child::child(&options),
        BenchCommand::StoreAge(options) => store::age::run(&options),
        BenchCommand::StoreRivals(options) => store::rivals::run(&options),
        BenchCommand::Cluster(options) => cluster::run(&options),
        BenchCommand::Attacks(options) => attacks::run(&options),
        BenchCommand::Handshakes(options) => handshakes::run(&options),
        BenchCommand::Large(options) => large::run(&options),
        BenchCommand::Posts(options) => posts::run(&options),
        BenchCommand::Idle(options) => idle::run(&options),
        BenchCommand::Profile(options) => profile::run(&options),
    }
}
