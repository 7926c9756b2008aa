//! The experiments at small scale.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bench::{Bench, Nobody, Watch};
use super::experiment::Model;
use super::keep::Keep;
use super::*;
use crate::managers::Kind;

#[test]
fn every_item_is_made_and_is_the_same_again() {
    let make = || {
        let bench = Bench::new(0.003, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
        super::make(&Item::ALL, &[bench]).unwrap()
    };
    let report = make();
    assert_eq!(report.sections.len(), Item::ALL.len());
    for section in &report.sections {
        assert!(!section.tables[0].rows.is_empty(), "{}", section.name);
        for plot in &section.plots {
            assert!(
                plot.curves.iter().all(|c| !c.points.is_empty()),
                "{}",
                section.name
            );
        }
    }
    assert_eq!(report, make());
    assert!(report.html().matches("<svg").count() >= 9);
}

#[test]
fn flash_takes_all_managers() {
    let bench = Bench::new(0.002, 1, Model::Flash, Keep::in_memory(), &Nobody);
    let section = Item::Table2.make(&[bench]).unwrap();
    assert_eq!(section.tables[0].rows.len(), 9);
}

#[test]
fn the_papers_order_holds() {
    let bench = Bench::new(1.0, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
    let section = Item::Table2.make(&[bench]).unwrap();
    let rates: Vec<f64> = section.tables[0]
        .rows
        .iter()
        .map(|row| row[2].parse().unwrap())
        .collect();
    assert!(rates[..8].is_sorted(), "{rates:?}");
    assert!(rates[7] / rates[1] >= 20.0, "{rates:?}");
}

/// Stops after this many requests.
struct Impatient(AtomicU64);

impl Watch for Impatient {
    fn begin(&self, _: &str, _: u64) {}
    fn more(&self, requests: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0
            .store(left.saturating_sub(requests), Ordering::Relaxed);
        left > requests
    }
    fn end(&self) {}
}

#[test]
fn an_interrupted_experiment_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keep");
    let keep = || Keep::in_file(&path).unwrap();
    let impatient = Impatient(AtomicU64::new(9000));
    let bench = Bench::new(0.004, 1, Model::Disk1999, keep(), &impatient);
    let stopped = Item::Table1.make(&[bench]).unwrap_err();
    assert_eq!(stopped.kind(), std::io::ErrorKind::Interrupted);
    let done = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!((1..4).contains(&done), "{done}");
    // Only the missing runs are made, and the result is as without the interruption.
    let patient = Impatient(AtomicU64::new(u64::MAX));
    let bench = Bench::new(0.004, 1, Model::Disk1999, keep(), &patient);
    let section = Item::Table1.make(std::slice::from_ref(&bench)).unwrap();
    let requests = bench.load(tables::million()).unwrap().requests.len() as u64;
    let made = u64::MAX - patient.0.load(Ordering::Relaxed);
    assert_eq!(made, requests * (4 - done as u64));
    let fresh = Bench::new(0.004, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
    assert_eq!(section, Item::Table1.make(&[fresh]).unwrap());
}

/// A small trace: requests for servers in turn, a quarter for earlier objects, some of which have changed.
fn trace_text(servers: u32, requests: u32) -> String {
    let mut text = "at_ms,object,server,size_bytes\n".to_owned();
    let mut chance = 1u64;
    for at in 0..requests {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let again = chance >> 62 == 0;
        let object = if again {
            (chance >> 33) as u32 % (at + 1)
        } else {
            at
        };
        let size = 500 + object.wrapping_mul(2_654_435_761) % 9000 + at / (requests / 4);
        text += &format!("{at},{object},{},{size}\n", object % servers);
    }
    text
}

#[test]
fn a_trace_stands_beside_the_fitted_stream() {
    let dir = tempfile::tempdir().unwrap();
    let source = |name: &str, servers| {
        let path = dir.path().join(name);
        std::fs::write(&path, trace_text(servers, 8000)).unwrap();
        let file = source::TraceFile {
            path,
            format: None,
            columns: None,
            gets_max: u64::MAX,
        };
        let surveyed = source::survey(&file, &[]).unwrap().remove(0);
        source::Source::Trace(std::sync::Arc::new(surveyed))
    };
    let on = |source| Bench::on(source, 1.0, Model::Disk1999, Keep::in_memory(), &Nobody);
    let benches = [
        Bench::new(0.003, 1, Model::Disk1999, Keep::in_memory(), &Nobody),
        on(source("many.csv", 50)),
        on(source("one.csv", 1)),
    ];
    // The load ends with the trace.
    let load = benches[1].load(tables::million()).unwrap();
    assert_eq!(load.counts.gets, 8000);
    let report = super::make(&Item::ALL, &benches).unwrap();
    let section = |name: &str| report.sections.iter().find(|s| s.name == name).unwrap();
    let table2 = &section("table2").tables[0];
    assert!(table2.columns[3].starts_with("many ") && table2.columns[4].starts_with("one "));
    let rate = |row: usize, column: usize| table2.rows[row][column].parse::<f64>().unwrap();
    // The paper's million disk requests correspond to the whole trace.
    let stream = benches[1].run(
        "again",
        tables::million(),
        &[tables::job(&benches[1], Kind::Stream, 0.71)],
    );
    let stream = &stream.unwrap()[0];
    let requests = load.counts.disk_requests() as f64;
    assert!((rate(4, 3) - requests / stream.seconds).abs() < 0.06);
    // Each figure has a table and a plot for each stream, except Figure 3, which has no stream.
    assert_eq!(section("figure5").plots.len(), 3);
    assert_eq!(section("figure3").plots.len(), 1);
    let claims = &section("claims").tables[0];
    let verdicts = |column: usize| {
        claims
            .rows
            .iter()
            .filter(|row| row[column] == "cannot say")
            .count()
    };
    assert_eq!([3, 5, 7].map(verdicts), [0, 0, 4]);
    let text = section("streams").text.join(" ");
    assert!(text.contains("it names one server only"), "{text}");
}
