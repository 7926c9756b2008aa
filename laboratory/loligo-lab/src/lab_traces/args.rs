//! The arguments of the `loligo lab` commands about traces and streams.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use commands::units::parse_size;
use lab::cache::PolicyKind;
use lab::layouts::Layout;
use lab::policies::{Contender, Objects};
use lab::trace::{Columns, Format};
use lab::versions::Versions;
use polymix::Mix;
use replacement::AdmissionKind;

/// The commands about traces, replacement and layouts.
#[derive(Subcommand, Debug)]
pub enum TracesCommand {
    /// What is in a trace: requests, objects, bytes, servers, bad lines, sizes, popularity
    #[command(after_help = TRACE_HELP)]
    Trace(TraceFlags),
    /// Make a stream of requests: like Digital's proxy (dec), Berkeley's modem users (ucb), or PolyMix (polymix)
    #[command(after_help = GENERATE_HELP)]
    Generate(GenerateFlags),
    /// What a stream asks of the disk behind a memory cache and a disk cache, beside what paper 002 prints
    #[command(after_help = METHOD_HELP)]
    Method(MethodFlags),
    /// Hit ratios and bytes written of every replacement policy and rule of admission against the size of the disk
    #[command(after_help = POLICIES_HELP)]
    Policies(PoliciesFlags),
    /// The production store in other layouts: how full, locality buffers, clusters, chunks, lazy reads
    #[command(after_help = LAYOUTS_HELP)]
    Layouts(LayoutsFlags),
}

const TRACE_HELP: &str = "\
Examples:
  loligo lab trace access.log
  loligo lab trace bu-1994-95.tsv.zst --html what-is-in-it.html
  zcat proxy.log.gz | loligo lab trace - --format squid --json -
  loligo lab trace requests.csv --columns time=2,object=5,size=4

Traces may be packed (.zst, .gz, .xz; told by their first bytes). Their format is found out, or named:
  bu              Boston University: time, user, machine, URL, bytes, seconds; tabs between
  squid           Squid's native access.log
  clf             common or combined log format
  dec, dec-text   Digital's proxy traces: binary, or as their tools print them
  ucb, ucb-text   UC Berkeley Home IP traces: binary, or as showtrace prints them
  csv             columns: named by the first line, or time,object,size, or as --columns says
  oracle-general  libCacheSim's binary format
Bad lines are counted and shown; they end nothing.";

const GENERATE_HELP: &str = "\
Examples:
  loligo lab generate dec --out dec.csv.zst
  loligo lab generate polymix --requests 100000 --rate 20 --seed 7 | head

What comes out is CSV: at_ms,object,server,size_bytes; packed if the file's name ends in .zst. Equal settings and seeds
give equal streams. docs/lab-traces.md says what the streams are like, and where their parameters come from.";

const METHOD_HELP: &str = "\
Examples:
  loligo lab method dec                                   the method of paper 002, and its counts beside ours
  loligo lab method bu-1994-95.tsv.zst --memory 64MiB --disk 256MiB
  loligo lab method polymix --disk-policy s3-fifo --admission second-hit

Requests go to a memory cache, its misses to a disk cache; what the disk cache reads, writes and deletes is counted.";

const POLICIES_HELP: &str = "\
Examples:
  loligo lab policies                                     the DEC-like and the PolyMix stream
  loligo lab policies bu-1994-95.tsv.zst dec polymix --html policies.html
  loligo lab policies access.log --sizes 1GiB,10GiB,100GiB --policies second-chance,gdsf,lru+second-hit
  loligo lab policies access.log --memory 4GiB --policies second-chance,second-chance@gdsf,second-chance+by-size@s3-fifo
  loligo lab policies bu-1994-95.tsv.zst --versions over=16 --sizes 10%

A policy is DISK+RULE@MEMORY: what leaves the disk, what comes to it, what leaves the memory in front of it.
  DISK    store (the default with its headers, padding and empty room), by bytes alone: second-chance (the default),
          second-chance=PERCENT, sweep and sweep=PERCENT (a ring that writes the best of what it sweeps again), fifo, lru,
          lru-threshold, lru-threshold=BYTES, s3-fifo, sieve, w-tinylfu, lhd, gdsf, belady (which knows the future)
  RULE    all, unless it is named; second-hit; tinylfu; by-size: what is longer than half the mean missed length needs a
          second miss; with /hit behind it a hit in memory admits, too
  MEMORY  lru, unless it is named; gdsf, s3-fifo, sieve, w-tinylfu, lhd
The first third of a stream fills the caches and is not counted. Sizes are bytes, or percent of the bytes of the stream's
different objects. A cell is documents/bytes hit in percent, the bytes written for each byte asked for, and behind a + those
that a sweep reads.";

const LAYOUTS_HELP: &str = "\
Examples:
  loligo lab layouts polymix --html layouts.html
  loligo lab layouts bu-1994-95.tsv.zst --store 256MiB --memory 32MiB
  loligo lab layouts dec --only default --only buffers
  loligo lab layouts dec --store 10% --memory 1% --layouts second-chance,gdsf,second-chance+by-size@gdsf

A layout is written REPLACEMENT+RULE@MEMORY: a value of store.replacement, and the rest as in `loligo lab policies`.
It is the store of `loligo serve`, over a device in memory; what a seeking disk and flash would have needed is computed.
A stream should be ten times as large as the store, or the figures are those of filling it. Takes a minute or two a stream,
and as much memory as the store is large.";

/// Which stream, and how it is read or made.
#[derive(Args, Debug, Clone)]
pub struct StreamFlags {
    /// Format of the traces [default: found out]
    #[arg(long, value_name = "FORMAT", help_heading = "Traces")]
    pub format: Option<Format>,

    /// Columns of CSV, counted from 1: time=1,object=2,size=3,server=4
    #[arg(long, value_name = "COLUMNS", help_heading = "Traces")]
    pub columns: Option<Columns>,

    /// Which other size of a repeated request is a new version: any; over=N, if it differs by more than N bytes; none
    #[arg(long, value_name = "WHICH", default_value_t, help_heading = "Traces")]
    pub versions: Versions,

    #[command(flatten)]
    pub made: MadeFlags,

    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// How a stream is made.
#[derive(Args, Debug, Clone)]
pub struct MadeFlags {
    /// Repeats the random choices of another stream
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        help_heading = "Streams that are made"
    )]
    pub seed: u64,

    /// How many requests [default: dec 1058206, polymix 2000000, ucb 5570000]
    #[arg(long, value_name = "N", help_heading = "Streams that are made")]
    pub requests: Option<u64>,

    /// Which PolyMix: 3 or 4
    #[arg(
        long,
        value_name = "N",
        default_value = "3",
        help_heading = "Streams that are made"
    )]
    pub polymix: PolymixNumber,

    /// PolyMix's requests a second; its working set grows with it
    #[arg(long, value_name = "R", default_value = "100", value_parser = positive, help_heading = "Streams that are made")]
    pub rate: f64,

    /// Shortens PolyMix, and with it the working set; 1 is as specified
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = positive, help_heading = "Streams that are made")]
    pub time_scale: f64,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum PolymixNumber {
    #[value(name = "3")]
    Three,
    #[value(name = "4")]
    Four,
}

impl PolymixNumber {
    pub fn mix(self) -> Mix {
        match self {
            PolymixNumber::Three => Mix::Three,
            PolymixNumber::Four => Mix::Four,
        }
    }
}

/// Where reports go beside standard output.
#[derive(Args, Debug, Clone)]
pub struct ReportFlags {
    /// Write the report as JSON; - is standard output, which then has nothing else
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub json: Option<PathBuf>,

    /// Write the report as one HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub html: Option<PathBuf>,

    /// Write each plot as an SVG file of its own to this directory
    #[arg(long, value_name = "DIR", help_heading = "Reports")]
    pub svg: Option<PathBuf>,
}

/// `lab trace`.
#[derive(Args, Debug)]
pub struct TraceFlags {
    /// A trace file (- is standard input), or dec, polymix or ucb
    #[arg(value_name = "STREAM")]
    pub stream: String,
    #[command(flatten)]
    pub from: StreamFlags,
    #[command(flatten)]
    pub report: ReportFlags,
}

/// `lab generate`.
#[derive(Args, Debug)]
pub struct GenerateFlags {
    /// dec, polymix or ucb
    #[arg(value_name = "STREAM")]
    pub stream: Made,
    #[command(flatten)]
    pub made: MadeFlags,
    /// Write to this file, packed if its name ends in .zst [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Like Digital's proxy of 1996, as paper 002 tells of it
    Dec,
    /// The benchmark's requests, without the network
    Polymix,
    /// Like Berkeley's modem users of 1996, as paper 003 tells of them
    Ucb,
}

/// `lab method`.
#[derive(Args, Debug)]
pub struct MethodFlags {
    /// A trace file (- is standard input), or dec, polymix or ucb
    #[arg(value_name = "STREAM")]
    pub stream: String,
    #[command(flatten)]
    pub from: StreamFlags,

    /// Size of the memory cache
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size, help_heading = "Caches")]
    pub memory: u64,
    /// Size of the disk cache
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size, help_heading = "Caches")]
    pub disk: u64,
    /// What leaves memory
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "lru",
        help_heading = "Caches"
    )]
    pub memory_policy: PolicyKind,
    /// What leaves the disk
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "lru",
        help_heading = "Caches"
    )]
    pub disk_policy: PolicyKind,
    /// What comes to the disk: all, second-hit, tinylfu, by-size
    #[arg(
        long,
        value_name = "RULE",
        default_value = "all",
        help_heading = "Caches"
    )]
    pub admission: AdmissionKind,

    /// Write the counts as JSON; - is standard output, which then has nothing else
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub json: Option<PathBuf>,
}

/// `lab policies`.
#[derive(Args, Debug)]
pub struct PoliciesFlags {
    /// Trace files, dec, polymix, ucb
    #[arg(value_name = "STREAM", default_values = ["dec", "polymix"])]
    pub streams: Vec<String>,
    #[command(flatten)]
    pub from: StreamFlags,

    /// Sizes of the disk [default: 1, 5, 10 and 25 % of the bytes of the stream's objects]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub sizes: Vec<Share>,
    /// Size of the memory in front of it; 0: none [default: 1 %, likewise]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Share>,
    /// Policies to compare: second-chance, gdsf, lru+second-hit, second-chance@gdsf, … [default: all]
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    pub policies: Vec<Contender>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    #[command(flatten)]
    pub report: ReportFlags,
}

/// `lab layouts`.
#[derive(Args, Debug)]
pub struct LayoutsFlags {
    /// Trace files, dec, polymix, ucb
    #[arg(value_name = "STREAM", default_values = ["dec", "polymix"])]
    pub streams: Vec<String>,
    #[command(flatten)]
    pub from: StreamFlags,

    /// Size of the store, which is in memory; 10%: of the bytes of the stream's objects
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub store: Share,
    /// Size of the memory cache in front, likewise
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub memory: Share,
    /// Requests a second: how time goes by for the store
    #[arg(long, value_name = "R", default_value = "1000", value_parser = positive)]
    pub pace: f64,
    /// Only layouts whose name contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// These instead of the usual ones: second-chance, gdsf, second-chance+by-size@gdsf, …
    #[arg(
        long,
        value_name = "LAYOUTS",
        value_delimiter = ',',
        conflicts_with = "only"
    )]
    pub layouts: Vec<Layout>,

    #[command(flatten)]
    pub report: ReportFlags,
}

/// A size in bytes, or in percent of the bytes of a stream's objects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    Bytes(u64),
    Percent(f64),
}

impl Share {
    pub fn of(self, objects: &Objects) -> u64 {
        match self {
            Share::Bytes(bytes) => bytes,
            Share::Percent(percent) => objects.share(percent),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        match text.strip_suffix('%') {
            Some(percent) => positive(percent.trim()).map(Share::Percent),
            None => parse_size(text)
                .map(Share::Bytes)
                .ok_or_else(|| "not a size, such as 64MiB, or a share, such as 10%".to_owned()),
        }
    }
}

pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "not a size, such as 64MiB or 10GiB".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| "not a number above 0, such as 0.5".to_owned())
}
