//! `cargo xtask rivals paper000 --ablation`: what each mechanism of papers 000, 002 and 004 is worth in the running program.
//!
//! Loligo runs once with everything on and once without each mechanism (or with everything off and each mechanism alone). The runs are
//! repeated in rounds, so that other activity on the machine affects all variants alike. A mechanism is switched off by settings that
//! only experiments need (`[experimental]`), or by the place of the store.
//!
//! Not known here: how a run is made (`contest`), what a mechanism does.   Limits: those of a comparison.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use page::{Page, Table};
use serde::Serialize;

use super::contest::{self, Measured, Outcome, Run, load_average};
use super::disk::{Proof, Speed};
use super::options::Conditions;
use super::{begun, command, in_words, line, report};
use crate::failure::{During, Result, fail};
use crate::progress::Progress;
use crate::rivals::Rival;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ablation {
    /// all on, and each off by itself
    Off,
    /// all off, and each on by itself
    Alone,
}

/// Of `rivals paper000`.
#[derive(Debug, Clone, Args)]
pub struct AblationOptions {
    /// Loligo by itself: everything on, and without each mechanism in turn (off), or everything off and each alone
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        default_missing_value = "off",
        conflicts_with_all = ["peak", "both_disks"]
    )]
    pub ablation: Option<Ablation>,
    /// How often each of them is run, all in turn
    #[arg(long, default_value_t = 2, requires = "ablation")]
    pub rounds: u32,
}

/// How a mechanism is switched off.
#[derive(Debug, Clone, Copy)]
enum Switch {
    /// The store is a file, not the device.
    InFile,
    /// A line of `[store]`.
    Store(&'static str),
    /// A line of `[experimental]`.
    Experimental(&'static str),
}

/// A mechanism that can be switched off.
#[derive(Debug, Clone, Copy)]
struct Mechanism {
    name: &'static str,
    /// What replaces it, in words.
    without: &'static str,
    off: Switch,
    /// It works only while reads are lazy, as they are on a slow disk.
    needs_lazy_reads: bool,
}

const LAZY_READS: &str = "lazy reads";

const MECHANISMS: [Mechanism; 7] = [
    //= paper 004 section 4.1   a raw device needs no file system
    Mechanism {
        name: "raw device",
        without: "a file on ext4",
        off: Switch::InFile,
        needs_lazy_reads: false,
    },
    //= paper 004 section 4.2   asynchronous disk operations
    Mechanism {
        name: "io_uring",
        without: "blocking calls in 16 threads",
        off: Switch::Store("io-engine = \"threads\""),
        needs_lazy_reads: false,
    },
    //= paper 000 section 4.2   an object is contiguous: one read, one write
    Mechanism {
        name: "single read and write",
        without: "objects in pieces of 16 KiB, a read and a write each",
        off: Switch::Experimental("fragment = \"16KiB\""),
        needs_lazy_reads: false,
    },
    //= paper 000 section 4.3   cluster write
    Mechanism {
        name: "cluster write",
        without: "each object is a write of its own",
        off: Switch::Experimental("cluster = \"none\""),
        needs_lazy_reads: false,
    },
    //= paper 002 section 3.5   reads sorted by their position
    Mechanism {
        name: LAZY_READS,
        without: "reads go out as they come; so no locality, no group reads",
        off: Switch::Store("lazy-reads = 0"),
        needs_lazy_reads: true,
    },
    //= paper 002 section 3.6   the buffer of a server
    Mechanism {
        name: "locality",
        without: "objects lie in the order in which they came",
        off: Switch::Experimental("locality-buffers = 0"),
        needs_lazy_reads: true,
    },
    Mechanism {
        name: "group reads",
        without: "a read ends with its object",
        off: Switch::Experimental("group-reads = 0"),
        needs_lazy_reads: true,
    },
];

/// Mechanisms of the papers that this program cannot switch off.
const NOT_SWITCHABLE: &str = "Not switchable: one file for all objects, free pieces by tables (the program has no other store), and \
                              asynchronous calls (no request waits in a call; without io_uring threads wait in it).";

/// A way of running Loligo, and its runs.
#[derive(Debug, Serialize)]
struct Variant {
    name: String,
    without: String,
    in_file: bool,
    /// The configuration beyond that of every run.
    settings: String,
    runs: Vec<Run>,
}

impl Variant {
    fn new(name: &str, without: &str, off: &[&Mechanism]) -> Self {
        let lines = |of: fn(Switch) -> Option<&'static str>| -> String {
            let lines = off.iter().filter_map(|mechanism| of(mechanism.off));
            lines.map(|line| format!("{line}\n")).collect()
        };
        let store = lines(|off| match off {
            Switch::Store(line) => Some(line),
            _ => None,
        });
        let experimental = lines(|off| match off {
            Switch::Experimental(line) => Some(line),
            _ => None,
        });
        Self {
            name: name.to_owned(),
            without: without.to_owned(),
            in_file: off.iter().any(|one| matches!(one.off, Switch::InFile)),
            settings: format!("[store]\n{store}[experimental]\n{experimental}"),
            runs: Vec::new(),
        }
    }
}

impl Variant {
    /// How many runs failed, and why the first of them did.
    fn failed(&self) -> Option<String> {
        let reasons = self.runs.iter().filter_map(|run| match &run.outcome {
            Outcome::Measured(m) if m.replies > 0 => None,
            Outcome::Measured(m) => Some(format!("no answer at full load, {:?}", m.faults)),
            Outcome::Failed(why) | Outcome::NotAsked(why) => Some(why.clone()),
        });
        let reasons: Vec<String> = reasons.collect();
        let first = reasons.first()?;
        let (name, all) = (&self.name, self.runs.len());
        Some(format!(
            "{name}: {} of {all} runs failed: {first}",
            reasons.len()
        ))
    }
}

/// The variants. The first is the one that the others are compared with.
fn variants(ablation: Ablation, disk: Speed) -> Vec<Variant> {
    // On a fast disk reads are never lazy.
    let works = |mechanism: &&Mechanism| disk == Speed::Slow || !mechanism.needs_lazy_reads;
    let all: Vec<&Mechanism> = MECHANISMS.iter().filter(works).collect();
    match ablation {
        Ablation::Off => {
            let without = |one: &&Mechanism| {
                Variant::new(&format!("without {}", one.name), one.without, &[one])
            };
            let mut variants = vec![Variant::new("everything", "", &[])];
            variants.extend(all.iter().map(without));
            variants
        }
        Ablation::Alone => {
            let mut variants = vec![Variant::new("nothing", "", &all)];
            variants.extend(all.iter().map(|one| alone(one, &all)));
            variants
        }
    }
}

/// All mechanisms off but this one, and lazy reads on if it needs them.
fn alone(one: &Mechanism, all: &[&Mechanism]) -> Variant {
    let comes_along = |other: &Mechanism| one.needs_lazy_reads && other.name == LAZY_READS;
    let stays = |other: &&&Mechanism| other.name != one.name && !comes_along(other);
    let off: Vec<&Mechanism> = all.iter().filter(stays).copied().collect();
    let name = match one.needs_lazy_reads && one.name != LAZY_READS {
        true => format!("{}, with {LAZY_READS}", one.name),
        false => one.name.to_owned(),
    };
    Variant::new(&name, "", &off)
}

/// Everything that is written.
#[derive(Debug, Serialize)]
struct Told {
    command: String,
    machine: String,
    disk: Speed,
    rate: f64,
    conditions: Vec<(String, String)>,
    proof: Option<Proof>,
    /// of the machine, at the beginning
    load: f64,
    variants: Vec<Variant>,
}

/// Runs and prints. An error if a variant could not be measured.
pub fn run(ablation: Ablation, rounds: u32, rates: &[f64], conditions: &Conditions) -> Result<()> {
    let [rate] = *rates else {
        fail!("--ablation takes one --rate, such as --rate 200");
    };
    conditions.check(rates)?;
    let variants = variants(ablation, conditions.disk);
    let count = variants.len() as u32 * rounds;
    let each_s = conditions.seconds_expected(rate);
    let all = in_words(each_s * f64::from(count));
    eprintln!("{count} runs of about {each_s:.0} s each, {all} in all");
    if let Some(advice) = conditions.advice(rate) {
        eprintln!("{advice}");
    }
    if conditions.dry_run {
        return Ok(());
    }
    let (_alone, dir) = begun()?;
    let mut told = Told {
        command: command(),
        machine: report::machine(),
        disk: conditions.disk,
        rate,
        conditions: report::told(conditions),
        proof: Some(Proof::measure(conditions.disk, conditions.dirty, &dir)?),
        load: load_average(),
        variants,
    };
    let mut progress = Progress::new("runs", u64::from(count));
    for round in 1..=rounds {
        for variant in &mut told.variants {
            progress.say(format!("{}, round {round}", variant.name));
            let conditions = told_to(variant, conditions, &dir)?;
            let mut run = contest::run(Rival::Loligo, rate, &conditions, false, &dir)?;
            run.server = variant.name.clone();
            eprintln!("{}", line(&run));
            variant.runs.push(run);
            progress.step();
        }
        told.write(conditions)?;
    }
    println!("{}\n{}", told.table().text(), told.foot().join("\n"));
    let runs = told.variants.iter().flat_map(|variant| &variant.runs);
    match runs.filter(|run| figures(run).is_none()).count() {
        0 => Ok(()),
        n => fail!("{n} runs failed; below the table stands why"),
    }
}

/// The conditions of a run of this variant.
fn told_to(variant: &Variant, conditions: &Conditions, dir: &Path) -> Result<Conditions> {
    let path: PathBuf = dir.join("ablation.toml");
    std::fs::write(&path, &variant.settings).during(|| format!("writing {}", path.display()))?;
    let mut conditions = conditions.clone();
    conditions.loligo_in_file = variant.in_file;
    let file = ["--config".to_owned(), path.display().to_string()];
    conditions.loligo.extend(file);
    Ok(conditions)
}

const COLUMNS: [&str; 9] = [
    "Loligo",
    "in its place",
    "hit (ms)",
    "replies/s",
    "carried",
    "hits (%)",
    "reads a request",
    "writes a request",
    "bytes a write",
];

impl Told {
    fn table(&self) -> Table {
        let disk = format!("{:?}", self.disk).to_lowercase();
        let caption = format!(
            "Each mechanism, {disk} disk, {} requests/s: means of the rounds, each with the least and the most",
            self.rate
        );
        let mut table = Table::new(&caption, &COLUMNS);
        for variant in &self.variants {
            table.row(row(variant));
        }
        table
    }

    fn foot(&self) -> Vec<String> {
        let mut foot: Vec<String> = self.variants.iter().filter_map(Variant::failed).collect();
        if self.disk == Speed::Fast {
            foot.push("Reads are quick here, so they are never lazy: no lazy reads, locality, group reads.".to_owned());
        }
        foot.push(NOT_SWITCHABLE.to_owned());
        foot.push(format!(
            "{}; load {:.1} at the beginning; {}",
            self.machine, self.load, self.command
        ));
        foot
    }

    fn write(&self, conditions: &Conditions) -> Result<()> {
        let put = |path: &Path, text: String| {
            std::fs::write(path, text).during(|| format!("writing {}", path.display()))
        };
        if let Some(path) = &conditions.json {
            let text = serde_json::to_string_pretty(self).during(|| "making JSON".into())?;
            put(path, text + "\n")?;
        }
        if let Some(path) = &conditions.html {
            let mut page = Page::new("What each mechanism is worth");
            page.table(&self.table()).list(&self.foot());
            put(path, page.html())?;
        }
        Ok(())
    }
}

/// The figures of a run, if the judged phase had any answer.
fn figures(run: &Run) -> Option<&Measured> {
    run.measured().filter(|m| m.replies > 0)
}

fn row(variant: &Variant) -> Vec<String> {
    let measured: Vec<&Measured> = variant.runs.iter().filter_map(figures).collect();
    let each = |of: fn(&Measured) -> f64, digits: usize| {
        let values: Vec<f64> = measured.iter().map(|m| of(m)).collect();
        spread(&values, digits)
    };
    let mut objections = measured.iter().filter_map(|m| m.objection.clone());
    let carried = match (measured.is_empty(), objections.next()) {
        (true, _) => "failed".to_owned(),
        (false, Some(why)) => format!("no: {why}"),
        (false, None) => "yes".to_owned(),
    };
    vec![
        variant.name.clone(),
        variant.without.clone(),
        each(|m| m.hit.mean_ms, 1),
        each(|m| m.reply_rate, 1),
        carried,
        each(|m| m.dhr_percent, 1),
        each(|m| m.used.reads / m.replies.max(1) as f64, 3),
        each(|m| m.used.writes / m.replies.max(1) as f64, 3),
        each(|m| m.used.write_bytes / m.used.writes.max(1.0), 0),
    ]
}

/// The mean, and if there are several values the least and the most.
fn spread(values: &[f64], digits: usize) -> String {
    if values.is_empty() {
        return "-".to_owned();
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        1 => format!("{mean:.digits$}"),
        _ => format!("{mean:.digits$} ({least:.digits$}, {most:.digits$})"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::measured;
    use super::*;

    fn run(outcome: Outcome) -> Run {
        Run {
            server: "loligo".into(),
            rate: 100.0,
            watched: false,
            load: [1.0, 1.0],
            seconds: 30.0,
            outcome,
        }
    }

    #[test]
    fn each_is_off_alone_or_on_alone() {
        let off = variants(Ablation::Off, Speed::Slow);
        assert_eq!(off.len(), MECHANISMS.len() + 1);
        assert_eq!(off[0].settings, "[store]\n[experimental]\n");
        let files: Vec<&str> = (off.iter().filter(|one| one.in_file))
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(files, ["without raw device"]);
        assert!(
            off[4]
                .settings
                .ends_with("[experimental]\ncluster = \"none\"\n")
        );

        let alone = variants(Ablation::Alone, Speed::Slow);
        let of = |name: &str| alone.iter().find(|one| one.name == name).unwrap();
        let count = |name: &str| of(name).settings.matches(" = ").count();
        assert_eq!((count("nothing"), count("raw device")), (6, 6));
        assert_eq!(count("cluster write"), 5);
        assert_eq!(count("group reads, with lazy reads"), 4);
        assert!(of("cluster write").in_file && !of("raw device").in_file);

        let fast = variants(Ablation::Off, Speed::Fast);
        assert!(
            fast.iter().all(|one| !one.name.contains("lazy")),
            "never on there"
        );
    }

    #[test]
    fn a_run_that_failed_is_told() {
        let mut variant = Variant::new("without locality", "nothing", &[]);
        variant.runs = vec![
            run(Outcome::Measured(Box::new(measured(2.0, None)))),
            run(Outcome::Measured(Box::new(measured(
                4.0,
                Some("hit ratio"),
            )))),
        ];
        let cells = row(&variant);
        assert_eq!(cells[2], "3.0 (2.0, 4.0)");
        assert_eq!(cells[4], "no: hit ratio");
        let mut silent = measured(0.0, None);
        silent.replies = 0;
        variant.runs[0] = run(Outcome::Measured(Box::new(silent)));
        assert_eq!(row(&variant)[2], "4.0", "no answer is no figure");
        assert!(variant.failed().unwrap().contains("no answer at full load"));
        variant.runs = vec![run(Outcome::Failed("it fell over".into()))];
        assert_eq!(row(&variant)[2..5], ["-", "-", "failed"]);
        let told = "without locality: 1 of 1 runs failed: it fell over";
        assert_eq!(variant.failed().as_deref(), Some(told));
    }
}
