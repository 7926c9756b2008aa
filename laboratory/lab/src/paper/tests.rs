//! The experiments, small.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bench::{Bench, Nobody, Watch};
use super::experiment::Model;
use super::keep::Keep;
use super::*;

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

/// Stops after so many requests.
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
    // Only what is missing is run, and the whole is as if it had not been interrupted.
    let patient = Impatient(AtomicU64::new(u64::MAX));
    let bench = Bench::new(0.004, 1, Model::Disk1999, keep(), &patient);
    let section = Item::Table1.make(std::slice::from_ref(&bench)).unwrap();
    let requests = bench.load(tables::million()).unwrap().requests.len() as u64;
    let made = u64::MAX - patient.0.load(Ordering::Relaxed);
    assert_eq!(made, requests * (4 - done as u64));
    let fresh = Bench::new(0.004, 1, Model::Disk1999, Keep::in_memory(), &Nobody);
    assert_eq!(section, Item::Table1.make(&[fresh]).unwrap());
}
