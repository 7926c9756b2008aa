//! `loligo lab accelerator`: everything in paper 003 that can be computed, on one page. Figures 4 to 7 come from its model, Figures 8 to 15 and
//! the tables from its trace study.
//!
//! Not known here: the model, the study.   Limits: those of `lab`.

use ::lab::hints::{Item, Study};
use ::lab::paper::report::{Report, Section};
use clap::Args;

use super::args::share;
use super::hints::study;
use super::{LabOutFlags, tell};
use crate::lab_traces::Scaled;
use crate::model::{OfPaper, of_paper};

#[derive(Args, Debug)]
pub struct AcceleratorFlags {
    /// Streams for Figures 8 to 15: ucb, polymix, dec, or trace files
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

pub const ACCELERATOR_HELP: &str = "\
Examples:
  loligo lab accelerator --html paper003.html                  everything, on the usual two streams
  loligo lab accelerator --scale 0.05 --html look.html         a first look: about a minute
  loligo lab accelerator ucb bu-1994-95.tsv.zst --html own.html

It says beforehand how long each stream will take. The parts by themselves: `loligo model` (Figures 4 to 7) and `loligo lab hints` \
(Figures 8 to 15). docs/lab-hints.md and docs/accelerator-model.md tell what was found.";

/// Runs the command.
pub fn run(flags: &AcceleratorFlags) -> Result<(), String> {
    let scaled = Scaled {
        share: flags.scale,
        seed: flags.seed,
        quiet: flags.out.quiet,
    };
    let study = study(&Item::ALL, &flags.streams, &scaled)?;
    tell(&report(of_paper(), &study), &flags.out)
}

/// First the claims and results, then the figures in order, then tables, streams and costs.
fn report(model: OfPaper, study: &Study) -> Report {
    let mut of_streams = study.report().sections.into_iter();
    let streams = of_streams.next();
    let (tables, figures): (Vec<_>, Vec<_>) =
        of_streams.partition(|section| section.name.starts_with("table"));
    let mut sections = vec![claims(&model, study)];
    sections.extend(model.figures);
    sections.extend(figures);
    sections.extend(tables);
    sections.extend(streams);
    sections.push(model.costs);
    Report {
        title: "Web proxy acceleration: Figures 4 to 15, Tables 1 and 2".to_owned(),
        sections,
    }
}

fn claims(model: &OfPaper, study: &Study) -> Section {
    let (of_streams, met_by) = study.claims();
    let (met, all) = model.met;
    let mut found = vec![format!("{met} of {all} by its model")];
    found.extend(
        met_by
            .iter()
            .map(|(name, met, all)| format!("{met} of {all} on {name}")),
    );
    Section {
        name: "claims".to_owned(),
        title: "What the paper says, and what was found".to_owned(),
        text: vec![
            format!("Met: {}.", found.join(", ")),
            "Our copy of the paper has lost its plots. What its text prints of them stands in these tables and, dashed, beside our curves. \
             About a printed number is within a tenth of it; every other limit is ours and stands beside the statement."
                .to_owned(),
        ],
        tables: vec![model.claims.clone(), of_streams],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AcceleratorFlags,
    }

    #[test]
    fn one_command_makes_every_figure_and_table_and_tells_what_is_met() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (json, html) = (path("out.json"), path("out.html"));
        let words = ["lab", "ucb", "polymix", "--scale", "0.002", "--quiet"];
        let out = ["--json", &json, "--html", &html];
        run(&Line::parse_from([&words[..], &out].concat()).flags).unwrap();
        let report: Report =
            serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let names: Vec<&str> = report.sections.iter().map(|it| it.name.as_str()).collect();
        let mut wanted = vec!["claims".to_owned()];
        wanted.extend((4..=15).map(|number| format!("figure{number}")));
        wanted.extend(["table1", "table2", "streams", "fit"].map(str::to_owned));
        assert_eq!(names, wanted);
        // Each figure has a plot, and printed numbers are drawn in it.
        let is_drawn = |section: &Section| !section.plots.is_empty();
        assert!(report.sections[1..=12].iter().all(is_drawn));
        for number in [4, 5, 14, 15] {
            let plots = &report.sections[number - 3].plots;
            let mut curves = plots.iter().flat_map(|plot| &plot.curves);
            assert!(curves.any(|curve| curve.printed), "figure {number}");
        }
        let claims = &report.sections[0];
        let [of_model, of_streams] = &claims.tables[..] else {
            panic!("{claims:?}");
        };
        assert_eq!(of_streams.columns[3..], ["ucb", "polymix"]);
        let met = |column: usize| {
            let cells = of_streams.rows.iter().map(|row| row[column].as_str());
            let met = cells.filter(|cell| cell.starts_with("met: "));
            format!("{} of {}", met.count(), of_streams.rows.len())
        };
        let of_model_met = of_model.rows.iter().filter(|row| row[5] == "met").count();
        let said = format!(
            "Met: {of_model_met} of {} by its model, {} on ucb, {} on polymix.",
            of_model.rows.len(),
            met(3),
            met(4)
        );
        assert_eq!(claims.text[0], said);
        let places: Vec<&str> = of_streams.rows.iter().map(|row| row[0].as_str()).collect();
        for place in ["Table 2", "Figure 8", "Figure 15"] {
            assert!(places.contains(&place), "{places:?}");
        }
        let html = std::fs::read_to_string(&html).unwrap();
        assert!(html.contains("not met") && html.contains("<svg"));
    }
}
