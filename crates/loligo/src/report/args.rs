//! The flags of `loligo report`, their help, and what a source is called.
//!
//! Not known here: files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use commands::out::OutFlags;
use commands::units::{TIME_FORM, parse_time};
use report::model::Grid;
use report::model::Level;

pub const REPORT_HELP: &str = "\
Sources:
  FILE            a profile (loligo serve --profile), Squid's access.log, or what --json wrote; which, is found out
  FILE@LEVEL      with its place in a hierarchy: leaf, intermediate, top, root
  NAME=FILE       with another name than the file's
  -               standard input

Examples:
  A page of a day, to look at with a browser:
    loligo report requests.profile --html day.html
  Three proxies side by side, one of them Squid:
    loligo report leaf.profile@leaf root.profile@root squid=/var/log/squid/access.log --html three.html
  Two days over each other:
    loligo report monday.profile tuesday.profile --days --html days.html
  A running proxy, for ten minutes:
    loligo report --live http://127.0.0.1:3129 --for 10m --html now.html
  Of a day that is in several files, or compressed:
    zcat access.log.2.gz access.log.1.gz | loligo report day=- --html day.html
  What has changed, measure by measure:
    loligo report compare before.json after.json

The figures are those of Rousskov and Soloviev's study of Squid, with what they saw beside them. docs/report.md says how each is computed, and
which line in squid.conf tells more. Much is kept in temporary files, in TMPDIR: about as much as a profile is large.

Exit status: 0 the report was made (what could not be used of a source is told), 1 a source cannot be read or nothing can be written, 2 the
command line is not understood.";

/// `loligo report`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportFlags {
    #[command(subcommand)]
    pub command: Option<ReportCommand>,

    #[command(flatten)]
    pub make: MakeFlags,
}

#[derive(Subcommand, Debug)]
pub enum ReportCommand {
    /// Two sources, measure by measure, with the difference in percent
    #[command(after_help = COMPARE_HELP)]
    Compare(CompareFlags),
    /// Several sources as one: parts of a day, or the workers of one service
    #[command(after_help = JOIN_HELP)]
    Join(JoinFlags),
}

const COMPARE_HELP: &str = "\
Examples:
  loligo report before.profile --json before.json; loligo report after.profile --json after.json
  loligo report compare before.json after.json
  loligo report compare both.json                 the two sources of one report

Behind each value are the quartiles over the slots: a difference within them may be chance.";

const JOIN_HELP: &str = "\
Example:
  loligo report join one.json two.json --name both --html both.html

Numbers are added, medians are those of both (within 1 %). What cannot be made from two reports, such as concurrency, is left out and
named; a report of all profiles at once has it.";

/// Making a report.
#[derive(Args, Debug)]
pub struct MakeFlags {
    /// Profiles, logs of Squid, reports in JSON; FILE@LEVEL, NAME=FILE, - for standard input
    #[arg(value_name = "SOURCE", required_unless_present_any = ["live", "list"])]
    pub sources: Vec<String>,

    #[command(flatten)]
    pub out: OutFlags,

    /// Length of a slot, or auto [default: auto, 20m for six hours or more]
    #[arg(long, value_name = "TIME", value_parser = slot, help_heading = "How it is computed")]
    pub slot: Option<Slot>,

    /// How concurrency and utilisation are counted: exact, or in steps of 2 ms as in the paper
    #[arg(long, value_name = "exact|2ms", value_parser = grid, help_heading = "How it is computed")]
    pub grid: Option<Grid>,

    /// Count the times of requests that were cut off, too
    #[arg(long, help_heading = "How it is computed")]
    pub with_aborted: bool,

    /// List so many hosts, content types and URLs with their hits, where the source has names (Squid's log has); they tell what people read
    #[arg(long, value_name = "ROWS", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=1000), help_heading = "How it is computed")]
    pub top: u16,

    /// A scale of its own for each source
    #[arg(long, help_heading = "How it is drawn")]
    pub own_scales: bool,

    /// Lay the sources over each other on an axis of 24 hours (UTC)
    #[arg(long, help_heading = "How it is drawn")]
    pub days: bool,

    /// Listen to the admin interface of a running proxy; may be repeated
    #[arg(long, value_name = "URL", help_heading = "A running proxy")]
    pub live: Vec<String>,

    /// How long to listen [default: 1m]
    #[arg(long = "for", value_name = "TIME", value_parser = time, requires = "live", help_heading = "A running proxy")]
    pub lasts: Option<Duration>,

    /// Print the name of every measure, and nothing else
    #[arg(long)]
    pub list: bool,

    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// `report compare`.
#[derive(Args, Debug)]
pub struct CompareFlags {
    /// Two sources, or one report of two
    #[arg(value_name = "SOURCE", required = true, num_args = 1..=2)]
    pub sources: Vec<String>,

    /// Write it as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `report join`.
#[derive(Args, Debug)]
pub struct JoinFlags {
    /// Two or more sources
    #[arg(value_name = "SOURCE", required = true)]
    pub sources: Vec<String>,

    /// What the joined source is called
    #[arg(long, value_name = "NAME", default_value = "joined")]
    pub name: String,

    #[command(flatten)]
    pub out: OutFlags,
}

/// The length of a slot: none is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub Option<Duration>);

/// Slots are whole seconds, so many of them.
const SLOT_SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;

fn time(text: &str) -> Result<Duration, String> {
    parse_time(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("must be {TIME_FORM}"))
}

fn slot(text: &str) -> Result<Slot, String> {
    if text == "auto" {
        return Ok(Slot(None));
    }
    let time = parse_time(text).ok_or_else(|| format!("must be auto or {TIME_FORM}"))?;
    if time.subsec_nanos() != 0 || !SLOT_SECONDS.contains(&time.as_secs()) {
        return Err("a slot lasts whole seconds, from 1s to 1h".to_owned());
    }
    Ok(Slot(Some(time)))
}

fn grid(text: &str) -> Result<Grid, String> {
    match text {
        "exact" => Ok(Grid::Exact),
        "2ms" => Ok(Grid::TwoMs),
        _ => Err("must be exact or 2ms".to_owned()),
    }
}

const LEVELS: [(&str, Level); 4] = [
    ("leaf", Level::Leaf),
    ("intermediate", Level::Intermediate),
    ("top", Level::Top),
    ("root", Level::Root),
];

/// As it is typed and shown.
pub fn level_name(level: Level) -> &'static str {
    let found = LEVELS.iter().find(|(_, other)| *other == level);
    found.map_or("", |(name, _)| name)
}

/// A source as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What the report calls it.
    pub name: String,
    /// Its place in a hierarchy.
    pub level: Option<Level>,
    /// The file; `-` is standard input.
    pub path: PathBuf,
}

/// Takes `NAME=FILE@LEVEL` apart. A file whose own name has these signs in it is taken as it is.
pub fn named(typed: &str) -> Result<Named, String> {
    let whole = |path: &str, name: Option<&str>, level| Named {
        name: name.map_or_else(|| stem(path), str::to_owned),
        level,
        path: PathBuf::from(path),
    };
    if Path::new(typed).exists() {
        return Ok(whole(typed, None, None));
    }
    let (name, rest) = match typed.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !name.contains('/') => (Some(name), rest),
        _ => (None, typed),
    };
    if Path::new(rest).exists() {
        return Ok(whole(rest, name, None));
    }
    let Some((path, level)) = rest.rsplit_once('@') else {
        return Ok(whole(rest, name, None));
    };
    match LEVELS.iter().find(|(known, _)| *known == level) {
        Some((_, level)) => Ok(whole(path, name, Some(*level))),
        None => Err(format!(
            "{typed}: there is no level \"{level}\"; levels are leaf, intermediate, top, root"
        )),
    }
}

fn stem(path: &str) -> String {
    if path == "-" {
        return "standard input".to_owned();
    }
    let stem = Path::new(path).file_stem();
    stem.map_or_else(
        || path.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_a_name_a_file_and_a_level() {
        for (typed, name, level, path) in [
            ("a/day.profile", "day", None, "a/day.profile"),
            (
                "a/day.profile@leaf",
                "day",
                Some(Level::Leaf),
                "a/day.profile",
            ),
            (
                "squid=/no/access.log@root",
                "squid",
                Some(Level::Root),
                "/no/access.log",
            ),
            ("-", "standard input", None, "-"),
            ("monday=-@top", "monday", Some(Level::Top), "-"),
            ("a/b=c.profile", "b=c", None, "a/b=c.profile"),
        ] {
            let want = Named {
                name: name.to_owned(),
                level,
                path: path.into(),
            };
            assert_eq!(named(typed), Ok(want), "{typed}");
        }
        let wrong = named("day.profile@leave").unwrap_err();
        assert!(
            wrong.contains("levels are leaf, intermediate, top, root"),
            "{wrong}"
        );
    }

    #[test]
    fn a_file_with_odd_signs_in_its_name_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a=b@c", "x@leaf"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            assert_eq!(named(path.to_str().unwrap()).unwrap().path, path);
        }
    }

    #[test]
    fn slots_and_grids_are_checked() {
        assert_eq!(slot("auto"), Ok(Slot(None)));
        assert_eq!(slot("20m"), Ok(Slot(Some(Duration::from_secs(1200)))));
        assert!(slot("500ms").is_err() && slot("2h").is_err() && slot("20").is_err());
        assert!(grid("2ms").is_ok() && grid("3ms").is_err());
        assert!(time("0s").is_err());
    }
}
