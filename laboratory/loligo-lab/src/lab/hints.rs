//! `loligo lab hints`: the trace study of paper 003 from the command line.
//!
//! Not known here: how hints are kept.   Limits: those of `lab`.

use std::time::{Duration, Instant};

use ::lab::hints::{Item, Stream, Study};
use ::lab::paper::bench::Watch;
use clap::{Args, ValueEnum};

use super::args::share;
use super::{LabOutFlags, Shown, tell};
use crate::lab_traces::{Scaled, scaled_stream};

/// What is to be made.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintsItem {
    /// Entries of the largest update
    Figure8,
    /// Entries of all updates
    Figure9,
    /// Hit ratio when hints take their memory from the caches
    Figure10,
    /// Requests sent to the node, by update period
    Figure11,
    /// False hits by hint space and size of the node
    Figure12,
    /// False hits by hint space and number of functions
    Figure13,
    /// False hits by update period
    Figure14,
    /// Hits by the bound of replacement bursts
    Figure15,
    /// What each choice affects
    Table1,
    /// Directory and filter, both ways to register
    Table2,
    /// All figures and tables
    All,
}

#[derive(Args, Debug)]
pub struct HintsFlags {
    /// Which figure or table
    #[arg(value_name = "WHAT")]
    pub item: HintsItem,

    /// Streams: ucb, polymix, dec, or trace files
    #[arg(value_name = "STREAM", default_values = ["ucb", "polymix"])]
    pub streams: Vec<String>,

    /// Share of the requests; caches, hint spaces and periods follow
    #[arg(long, value_name = "S", default_value = "1", value_parser = share)]
    pub scale: f64,

    /// Seed of the streams that are made
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    #[command(flatten)]
    pub out: LabOutFlags,
}

pub const HINTS_HELP: &str = "\
Examples:
  loligo lab hints all --scale 0.05                            a first look
  loligo lab hints figure12 ucb                                one figure on one stream
  loligo lab hints all ucb bu-1994-95.tsv.zst polymix --html hints.html

A front and a node on a stream, with the accelerator's own code for hints. Sizes and periods are the paper's, in proportion to the \
stream. It says beforehand how long it will take. docs/lab-hints.md tells what was found.";

impl HintsItem {
    fn items(self) -> Vec<Item> {
        vec![match self {
            HintsItem::Figure8 => Item::Figure8,
            HintsItem::Figure9 => Item::Figure9,
            HintsItem::Figure10 => Item::Figure10,
            HintsItem::Figure11 => Item::Figure11,
            HintsItem::Figure12 => Item::Figure12,
            HintsItem::Figure13 => Item::Figure13,
            HintsItem::Figure14 => Item::Figure14,
            HintsItem::Figure15 => Item::Figure15,
            HintsItem::Table1 => Item::Table1,
            HintsItem::Table2 => Item::Table2,
            HintsItem::All => return Item::ALL.to_vec(),
        }]
    }
}

/// Runs the command.
pub fn run(flags: &HintsFlags) -> Result<(), String> {
    let scaled = Scaled {
        share: flags.scale,
        seed: flags.seed,
        quiet: flags.out.quiet,
    };
    let study = study(&flags.item.items(), &flags.streams, &scaled)?;
    tell(&study.report(), &flags.out)
}

/// Makes these figures and tables on each of these streams.
///
/// # Errors
/// A sentence: a stream cannot be read, or has no requests.
pub fn study(items: &[Item], streams: &[String], scaled: &Scaled) -> Result<Study, String> {
    let shown = Shown::new(scaled.quiet);
    let mut study = Study::new(items);
    for name in streams {
        let (name, accesses) = scaled_stream(name, scaled)?;
        if accesses.is_empty() {
            return Err(format!("{name}: no requests"));
        }
        let stream = Stream::new(&name, accesses);
        if !scaled.quiet {
            say_how_long(&study, &stream);
        }
        let requests = stream.measure.requests * study.runs() as u64;
        shown.begin(&stream.name, requests);
        study.add(&stream, |done| shown.more(done));
        shown.end();
    }
    Ok(study)
}

/// Requests of the trial run that estimates the time.
const TRIED: usize = 200_000;
/// Later requests take longer than those of the trial, because lists and filters outgrow the processor's caches. A rough guess, used only
/// for a message to the user.
const SLOWER: f64 = 1.5;
/// Shorter runs need no message.
const WORTH_SAYING: Duration = Duration::from_secs(10);

fn say_how_long(study: &Study, stream: &Stream) {
    let begun = Instant::now();
    study.try_out(stream, TRIED);
    let tried = TRIED.min(stream.accesses.len()) as f64;
    let all = stream.measure.requests as f64 * study.runs() as f64;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let longer = all / tried * SLOWER / threads.min(study.runs()) as f64;
    let time = begun.elapsed().mul_f64(longer);
    if time >= WORTH_SAYING {
        let (name, runs) = (&stream.name, study.runs());
        let requests = stream.measure.requests;
        let minutes = time.as_secs_f64() / 60.0;
        eprintln!("loligo: {name}: {runs} runs of {requests} requests, about {minutes:.1} minutes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: HintsFlags,
    }

    fn flags(words: &[&str]) -> HintsFlags {
        let line = Line::try_parse_from([&["hints"], words].concat());
        line.map_err(|e| e.to_string()).unwrap().flags
    }

    #[test]
    fn a_figure_of_two_streams_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (json, html, svg) = (path("out.json"), path("out.html"), path("svg"));
        let words = ["figure15", "ucb", "polymix", "--scale", "0.002", "--quiet"];
        let out = ["--json", &json, "--html", &html, "--svg", &svg];
        run(&flags(&[&words[..], &out].concat())).unwrap();
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["sections"][1]["name"], "figure15");
        // Two streams, each with two plots.
        assert_eq!(report["sections"][1]["plots"].as_array().unwrap().len(), 4);
        assert_eq!(std::fs::read_dir(&svg).unwrap().count(), 4);
        assert!(std::fs::read_to_string(&html).unwrap().contains("(a)"));
    }

    #[test]
    fn all_are_all_and_the_usual_streams_are_two() {
        assert_eq!(flags(&["all"]).item.items(), Item::ALL);
        assert_eq!(flags(&["table1"]).streams, ["ucb", "polymix"]);
    }

    #[test]
    fn what_can_not_be_read_is_said() {
        let missing = flags(&["figure8", "/nowhere", "--quiet"]);
        assert!(run(&missing).unwrap_err().contains("/nowhere"));
    }
}
