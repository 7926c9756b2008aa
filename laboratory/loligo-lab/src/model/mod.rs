//! `loligo model`: the capacity of a cluster of caches with fronts, by the costs of paper 003 and by Loligo's own.
//!
//! The arguments become costs (here); `queueing` computes; `figures` and `verdicts` make sections of a report from the results.
//!
//! Not known here: queues.   Limits: a file of costs of [`FILE_BYTES_MAX`].

mod args;
mod figures;
mod verdicts;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use lab::paper::report::{Report, Rows, Section};
use queueing::own::Own;
use queueing::paper::Unprinted;

use args::{CostsName, ModelFlags};
pub use args::{MODEL_HELP, ModelCommand};
use figures::Speeds;

/// The longest file of costs.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Runs the command.
pub fn run(command: &ModelCommand) -> ExitCode {
    let done = match command {
        ModelCommand::Figure4(flags) => tell(flags, |model| vec![model.figure(figures::figure4)]),
        ModelCommand::Figure5(flags) => tell(flags, |model| vec![model.figure(figures::figure5)]),
        ModelCommand::Figure6(flags) => tell(flags, |model| vec![model.figure(figures::figure6)]),
        ModelCommand::Figure7(flags) => tell(flags, |model| vec![model.figure(figures::figure7)]),
        ModelCommand::Claims(flags) => tell(flags, |model| verdicts::claims(&model.paper)),
        ModelCommand::Fronts(flags) => tell(flags, |model| verdicts::fronts(&model.own)),
        ModelCommand::All(flags) => tell(flags, Model::all),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("loligo: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The costs chosen on the command line.
struct Model {
    costs: CostsName,
    paper: Unprinted,
    own: Own,
}

impl Model {
    fn new(flags: &ModelFlags) -> Result<Model, String> {
        let mut paper = Unprinted::default();
        for (name, value) in &flags.paper {
            paper
                .set(name, *value)
                .map_err(|e| format!("--paper: {e}"))?;
        }
        let mut own = Own::default();
        if let Some(path) = &flags.own_file {
            set_from_file(&mut own, path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        for (name, value) in &flags.own {
            own.set(name, *value).map_err(|e| format!("--own: {e}"))?;
        }
        own.check()?;
        Ok(Model {
            costs: flags.costs,
            paper,
            own,
        })
    }

    fn figure(&self, make: impl Fn(&Speeds) -> Section) -> Section {
        make(&match self.costs {
            CostsName::Paper => Speeds::of_paper(&self.paper),
            CostsName::Loligo => Speeds::of_own(&self.own),
        })
    }

    fn all(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = FIGURES.iter().map(|make| self.figure(make)).collect();
        sections.extend(verdicts::claims(&self.paper));
        sections.extend(verdicts::fronts(&self.own));
        sections
    }
}

/// The results of paper 003's model, with its own costs and the defaults for costs that it does not print.
pub struct OfPaper {
    /// Figures 4 to 7.
    pub figures: Vec<Section>,
    /// The paper's claims about them.
    pub claims: Rows,
    /// How many claims are met, and how many there are.
    pub met: (usize, usize),
    /// The values of the unprinted costs that meet most claims.
    pub costs: Section,
}

/// Computes the results of the paper's model.
pub fn of_paper() -> OfPaper {
    let unprinted = Unprinted::default();
    let speeds = Speeds::of_paper(&unprinted);
    let (claims, costs, met) = verdicts::of_paper(&unprinted);
    OfPaper {
        figures: FIGURES.iter().map(|make| make(&speeds)).collect(),
        claims,
        met,
        costs,
    }
}

/// Figures 4 to 7.
const FIGURES: [fn(&Speeds) -> Section; 4] = [
    figures::figure4,
    figures::figure5,
    figures::figure6,
    figures::figure7,
];

fn set_from_file(own: &mut Own, path: &Path) -> Result<(), String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|e| e.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("too large for a file of costs".to_owned());
    }
    let values: BTreeMap<String, f64> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    values
        .iter()
        .try_for_each(|(name, value)| own.set(name, *value))
}

fn tell(flags: &ModelFlags, make: impl Fn(&Model) -> Vec<Section>) -> Result<(), String> {
    let report = Report {
        title: "What a cluster with fronts can carry".to_owned(),
        sections: make(&Model::new(flags)?),
    };
    flags
        .out
        .write(&report.text(), || report.json(), || report.page())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        flags: ModelFlags,
    }

    fn model(words: &[&str]) -> Result<Model, String> {
        let typed = std::iter::once("model").chain(words.iter().copied());
        Model::new(&Typed::parse_from(typed).flags)
    }

    #[test]
    fn a_file_comes_before_the_flags_and_both_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("costs.json");
        let file = path.to_str().unwrap();
        std::fs::write(&path, r#"{"push-us": 3, "forward-us": 4.5}"#).unwrap();
        let own = model(&["--own-file", file, "--own", "push-us=2"])
            .unwrap()
            .own;
        assert_eq!((own.push_us, own.forward_us), (2.0, 4.5));
        std::fs::write(&path, r#"{"push": 3}"#).unwrap();
        let said = model(&["--own-file", file]).err().unwrap();
        assert!(said.contains("there is no push"), "{said}");
        for wrong in [["--own", "hit=2"], ["--paper", "disk-us=0"]] {
            assert!(model(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn everything_is_in_the_report() {
        let sections = model(&[]).unwrap().all();
        let names: Vec<&str> = sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "figure4", "figure5", "figure6", "figure7", "claims", "fit", "fronts", "pays",
                "costs"
            ]
        );
        for section in sections {
            assert!(
                section.tables.iter().all(|t| !t.rows.is_empty()),
                "{}",
                section.name
            );
        }
    }
}
