//! All managers on a real disk, compared with the modelled one: does the paper's order hold today?
//!
//! Not known here: how the disk was slowed down.   Limits: one manager at a time, in real time.

use std::io;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, Model, Outcome, run};
use super::printed;
use super::report::{Curve, Curves, Rows, Scale, Section};
use crate::disks::real::{Location, Real, Through};
use crate::managers::{Kind, Settings, make};

/// The runs to make.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The managers; on a single file or device, managers that need many files are left out.
    pub managers: Vec<Kind>,
    /// Where the disk is.
    pub location: Location,
    /// Whether calls go through the page cache.
    pub through: Through,
    /// The largest share of the file in use at any time.
    pub utilisation: f64,
    /// Name of the disk, for the title.
    pub name: String,
}

/// Unit of the plot; `beside` reads it.
pub(super) const UNIT: &str = "requests/s";

/// The requests: the paper's million at the bench's scale.
fn load() -> Load {
    Load::paper(printed::DISK_BYTES, Until::Requests(printed::REQUESTS))
}

/// Bytes of the long file, at this bench's scale.
pub fn file_bytes(bench: &Bench, utilisation: f64) -> io::Result<u64> {
    Ok(bench.load(load())?.file_bytes(utilisation))
}

/// Runs the managers, one after the other.
pub fn real(bench: &Bench, wanted: &Wanted) -> io::Result<Section> {
    let requests = bench.load(load())?;
    let one = matches!(wanted.location, Location::One(_));
    let managers: Vec<Kind> = wanted
        .managers
        .iter()
        .copied()
        .filter(|kind| kind.is_one_file() || !one)
        .collect();
    if managers.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "none of these managers works with one file; give a directory, or take STREAM, UNIFIED or their like",
        ));
    }
    let settings = Settings {
        file_bytes: requests.file_bytes(wanted.utilisation),
        ..Settings::default()
    };
    let total = (requests.requests.len() * managers.len()) as u64;
    bench.watch.begin(&wanted.name, total);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for &kind in &managers {
        let mut disk = Real::new(wanted.location.clone(), wanted.through)?;
        let mut manager = make(kind, &settings);
        let gets = requests.counts.gets;
        let watch = |n| bench.watch.more(n as u64);
        outcomes.push(run(
            manager.as_mut(),
            &mut disk,
            &requests.requests,
            gets,
            watch,
        )?);
    }
    bench.watch.end();
    let jobs: Vec<Job> = managers
        .iter()
        .map(|&kind| Job {
            kind,
            settings: Settings::default(),
            utilisation: wanted.utilisation,
            model: bench.model,
        })
        .collect();
    let modelled = bench.run("the same, modelled", load(), &jobs)?;
    let requests = requests.requests.len();
    Ok(section(
        bench, wanted, &managers, requests, &outcomes, &modelled,
    ))
}

fn section(
    bench: &Bench,
    wanted: &Wanted,
    managers: &[Kind],
    requests: usize,
    outcomes: &[Outcome],
    modelled: &[Outcome],
) -> Section {
    let mut rows = Rows::new(
        &wanted.name,
        &[
            "manager",
            "paper (requests/s)",
            "modelled (requests/s)",
            "here (requests/s)",
            "here (gets/s)",
            "here (s)",
            "calls",
            "device reads",
            "device writes",
            "longest call (ms)",
        ],
    );
    let figure = |outcome: &Outcome, name: &str| {
        let value = outcome.figures.get(name);
        value.map_or("-".to_owned(), |value| format!("{value:.0}"))
    };
    for ((kind, here), model) in managers.iter().zip(outcomes).zip(modelled) {
        let paper = printed::rate(kind.name());
        let calls = here.calls;
        let calls = calls.creates + calls.opens + calls.reads + calls.writes + calls.deletes;
        rows.row([
            kind.name().to_owned(),
            paper.map_or("-".to_owned(), |rate| format!("{:.1}", rate.requests_per_s)),
            format!("{:.1}", model.requests_per_s),
            format!("{:.1}", here.requests_per_s),
            format!("{:.1}", here.gets_per_s),
            format!("{:.2}", here.seconds),
            calls.to_string(),
            figure(here, "device reads"),
            figure(here, "device writes"),
            figure(here, "longest call (ms)"),
        ]);
    }
    let bars = |name: &str, outcomes: &[Outcome]| Curve {
        name: name.to_owned(),
        printed: false,
        points: (0..)
            .map(f64::from)
            .zip(outcomes.iter().map(|o| o.requests_per_s))
            .collect(),
    };
    Section {
        name: "real".to_owned(),
        title: wanted.name.clone(),
        text: vec![format!(
            "{requests} disk requests of the stream {}, behind caches of {}; a run ends when all is on the device. The modelled disk \
             ({}) ran the same requests. The paper's rates are of its own stream.",
            bench.source.name(),
            bench.caches(),
            match bench.model {
                Model::Disk1999 => "of 1999",
                Model::Flash => "flash",
            }
        )],
        tables: vec![rows],
        plots: vec![Curves {
            caption: format!("Disk requests a second: {}", wanted.name),
            x: Scale::linear(""),
            y: Scale::log(UNIT),
            joined: false,
            names: managers.iter().map(|kind| kind.name().to_owned()).collect(),
            curves: vec![bars("modelled", modelled), bars("here", outcomes)],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Nobody;
    use super::super::keep::Keep;
    use super::*;

    #[test]
    fn one_file_takes_the_managers_of_one_file() {
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let path = dir.path().join("file");
        std::fs::File::create(&path).unwrap();
        let bench = Bench::new(0.002, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
        let wanted = Wanted {
            managers: Kind::ALL.to_vec(),
            location: Location::One(path),
            through: Through::PageCache,
            utilisation: 0.71,
            name: "a file".to_owned(),
        };
        let section = real(&bench, &wanted).unwrap();
        assert_eq!(section.tables[0].rows.len(), 6);
        let only = Wanted {
            managers: vec![Kind::Squid],
            ..wanted
        };
        assert!(
            real(&bench, &only)
                .unwrap_err()
                .to_string()
                .contains("give a directory")
        );
    }
}
