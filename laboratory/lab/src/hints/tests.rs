//! A tiny study, and runs with known counts.

use super::hinting::{Family, Kind, Names};
use super::site::{Counts, Settings, run};
use super::*;
use crate::Access;
use crate::generate::UcbLike;

const SETTINGS: Settings = Settings {
    node_bytes: 1000,
    front_bytes: 0,
    burst_max: None,
    kind: Kind::Directory,
    is_eager: true,
    period_ms: 1000,
    copied: 0.0,
};

/// The counts of requests for objects of ten bytes, each given as time and object.
fn counts(settings: &Settings, asked: &[(u64, u32)]) -> Counts {
    let access = |&(at_ms, object)| Access {
        at_ms,
        object,
        server: 0,
        size_bytes: 10,
    };
    let stream = Stream::new("t", asked.iter().map(access).collect());
    let names = Names::of(&stream, &[Family::Ours, Family::Paper]);
    run(settings, &stream, &names, |_| true)
}

#[test]
fn a_push_is_found_again_at_once_only_if_it_was_registered_eagerly() {
    let asked = [(0, 0), (1, 0), (2000, 0)];
    let eager = counts(&SETTINGS, &asked);
    assert_eq!((eager.own_fetches, eager.true_hits), (1, 2));
    let settings = Settings {
        is_eager: false,
        ..SETTINGS
    };
    let node_only = counts(&settings, &asked);
    assert_eq!((node_only.own_fetches, node_only.true_hits), (2, 1));
    assert_eq!((node_only.false_misses, eager.false_misses), (1, 0));
    assert_eq!((node_only.entries, eager.entries), (1, 0));
}

#[test]
fn what_left_the_node_is_asked_for_there_until_the_update() {
    let settings = Settings {
        node_bytes: 20,
        ..SETTINGS
    };
    // Object 2 evicts object 0 from the node.
    let asked = [(0, 0), (1, 1), (2, 2), (3, 0), (2000, 1)];
    let found = counts(&settings, &asked);
    assert_eq!((found.false_hits, found.own_fetches), (1, 4));
    assert_eq!(found.requests, 5);
    // Entries: 0 left; 1 left for the fetched 0; 2 left for the pushed 1; the fetched 0 came, which left in the same period.
    assert_eq!(
        (found.node_victims, found.entries, found.messages),
        (3, 4, 2)
    );
}

#[test]
fn what_leaves_the_front_is_pushed_and_not_lost() {
    let settings = Settings {
        front_bytes: 20,
        burst_max: Some(1),
        ..SETTINGS
    };
    let found = counts(&settings, &[(0, 0), (1, 1), (2, 2), (3, 0), (4, 2)]);
    assert_eq!((found.front_hits, found.true_hits), (1, 1));
    assert_eq!((found.pushes, found.own_fetches), (1, 3));
    assert_eq!(found.false_hits + found.false_misses, 0);
}

#[test]
fn a_newer_version_takes_the_place_of_the_older_one_without_an_update() {
    let access = |at_ms, size_bytes| Access {
        at_ms,
        object: 0,
        server: 0,
        size_bytes,
    };
    let stream = Stream::new("t", vec![access(0, 10), access(1, 11), access(2, 11)]);
    let names = Names::of(&stream, &[Family::Ours]);
    let found = run(&SETTINGS, &stream, &names, |_| true);
    assert_eq!((found.stale, found.true_hits, found.entries), (1, 1, 0));
}

#[test]
fn a_filter_of_the_paper_makes_false_hits_when_it_is_full() {
    let bloom = |bytes| Settings {
        node_bytes: 100_000,
        kind: Kind::Bloom {
            bytes,
            functions: 4,
            family: Family::Paper,
        },
        ..SETTINGS
    };
    let asked: Vec<(u64, u32)> = (0..5000).map(|n| (u64::from(n), n)).collect();
    let (tight, ample) = (
        counts(&bloom(1 << 10), &asked),
        counts(&bloom(1 << 17), &asked),
    );
    assert!(tight.false_hits > 500, "{}", tight.false_hits);
    assert_eq!(ample.false_hits, 0);
}

/// A five-hundredth of the population is enough to make and report the whole study.
#[test]
fn a_tiny_study_makes_every_figure_and_table() {
    let accesses = UcbLike::default().scaled(0.002).stream().collect();
    let stream = Stream::new("ucb", accesses);
    let mut study = Study::new(&Item::ALL);
    assert!(study.add(&stream, |_| true));
    assert!(!study.add(&stream, |_| false), "stopped, and left out");
    let report = study.report();
    assert_eq!(report.sections.len(), 1 + Item::ALL.len());
    assert!(report.sections[3].title.starts_with("Figure 8"));
    for section in &report.sections {
        assert!(!section.tables.is_empty(), "{}", section.name);
    }
    let page = report.html();
    assert!(page.contains("Figure 15") && page.contains("<svg"));
    // The sizes are not the paper's, but some of its statements hold at any size.
    let met = |section: usize, row: usize| report.sections[section].tables[0].rows[row][1].clone();
    assert!(
        met(4, 1).starts_with("met"),
        "bytes of the filter: {}",
        met(4, 1)
    );
    assert!(
        met(2, 1).starts_with("met"),
        "eager false misses: {}",
        met(2, 1)
    );
}
