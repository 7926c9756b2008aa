//! What must hold of any records, in any order.

use std::time::Duration;

use profile::{Class, Event, Flags, Hierarchy, Names, Read, Record, Stage, StageName, Write};
use proptest::prelude::*;
use report::model::{Grid, Report, SourceKind, SourceReport};
use report::{Builder, JoinError, Known, Options, Source, compare, join};

const BASE_US: u64 = 1_795_305_600_000_000;

fn source(kind: SourceKind, known: Known) -> Source {
    Source {
        name: "any".to_owned(),
        level: None,
        kind,
        known,
    }
}

fn report(
    known: Known,
    records: &[Record],
    events: &[Event],
    slot: Option<Duration>,
) -> SourceReport {
    let options = Options {
        slot,
        ..Options::default()
    };
    let mut builder = Builder::new(source(SourceKind::Profile, known), options);
    records
        .iter()
        .for_each(|record| builder.request(record).unwrap());
    events
        .iter()
        .for_each(|event| builder.event(event).unwrap());
    builder.finish().unwrap()
}

/// Mostly of one hour, a few at any time at all.
fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => (0..3_600_000_000u64).prop_map(|us| BASE_US + us),
        1 => (0..400_000_000_000u64).prop_map(|us| BASE_US + us),
        1 => any::<u64>(),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    let us = prop_oneof![4 => 0..3_000_000u32, 1 => any::<u32>()];
    let stage = proptest::option::of((us.clone(), us.clone(), us.clone()));
    let sizes = prop_oneof![3 => 0..100_000u64, 1 => any::<u64>()];
    let numbers = (instant(), us, sizes.clone(), sizes, 1..=2u8, 0..6u64);
    let sets = (
        0..Class::ALL.len(),
        prop_oneof![Just(200u16), any::<u16>()],
        0..4096u32,
        0..5usize,
        0..16u8,
    );
    let names = proptest::option::of(any::<(u64, u32, u32)>());
    (numbers, sets, names, proptest::array::uniform9(stage)).prop_map(
        |(numbers, sets, names, stages)| {
            let (began, total_us, bytes_out, object_bytes, version, cluster) = numbers;
            let (class, status, flags, hierarchy, device_reads) = sets;
            let mut record = Record::begun(began);
            record.version = version;
            (record.total_us, record.bytes_out, record.object_bytes) =
                (total_us, bytes_out, object_bytes);
            (record.class, record.status, record.device_reads) =
                (Class::ALL[class], status, device_reads);
            record.hierarchy = Hierarchy::ALL[hierarchy];
            for (bit, (flag, _)) in Flags::ALL.into_iter().enumerate() {
                record.flags = record.flags.with(flag, flags >> bit & 1 == 1);
            }
            record.names = names.map(|(key, client, server)| Names {
                key,
                client,
                server,
            });
            record.cluster = cluster;
            record.store = (cluster % 3) as u8;
            for (name, stage) in StageName::ALL.into_iter().zip(stages) {
                if let Some((start_us, first_us, total_us)) = stage {
                    record.set_stage(
                        name,
                        Stage {
                            start_us,
                            first_us,
                            total_us,
                        },
                    );
                }
            }
            record
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    (instant(), any::<(u32, u32, u64)>(), 0..6u64, any::<bool>()).prop_map(
        |(at, (a, b, bytes), cluster, is_write)| {
            if is_write {
                return Event::Write(Write {
                    start_unix_us: at,
                    total_us: a,
                    bytes,
                    records: b,
                    store: 0,
                    cluster,
                });
            }
            Event::Read(Read {
                start_unix_us: at,
                wait_us: a,
                total_us: b,
                bytes,
                objects: 1,
                store: 0,
            })
        },
    )
}

fn sound(report: &SourceReport, given: usize) -> Result<(), TestCaseError> {
    prop_assert!(report.requests as usize <= given);
    prop_assert_eq!(
        report.slots.iter().map(|slot| slot.requests).sum::<u64>(),
        report.requests
    );
    prop_assert_eq!(report.counts["requests"], report.requests);
    // Each request is in exactly one class.
    let classes = [
        "memory_hits",
        "disk_hits",
        "ims_hits",
        "negative_hits",
        "other_hits",
        "member_hits",
        "sibling_hits",
        "parent_hits",
        "farther_hits",
        "collapsed",
        "own_misses",
        "uncachable",
        "errors",
        "tunnels",
    ];
    prop_assert_eq!(
        classes
            .iter()
            .map(|class| report.counts[*class])
            .sum::<u64>(),
        report.requests
    );
    // What the disks did together is what was done.
    let swaps = |figure: &str| -> f64 {
        let curves = report.figure(figure).unwrap().curves.iter();
        let whole = curves.filter(|curve| curve.id == "all" || curve.id.starts_with("disk-"));
        whole
            .filter_map(|curve| Some(curve.day.as_ref()?.sum))
            .sum()
    };
    prop_assert_eq!(swaps("18b"), swaps("18"));
    for pair in report.slots.windows(2) {
        prop_assert_eq!(
            pair[0].start_unix_us + report.slot_us,
            pair[1].start_unix_us
        );
    }
    for figure in &report.figures {
        for curve in &figure.curves {
            for point in curve.points.iter().chain(&curve.day) {
                prop_assert!(
                    point.value.is_finite() && point.value >= 0.0,
                    "{} {}",
                    figure.id,
                    curve.id
                );
                let Some(spread) = point.spread else { continue };
                let rising = [
                    spread.p25, spread.p50, spread.p75, spread.p90, spread.p95, spread.p99,
                    spread.max,
                ];
                prop_assert!(
                    rising.is_sorted(),
                    "{} {}: {:?}",
                    figure.id,
                    curve.id,
                    spread
                );
            }
            prop_assert!(curve.points.is_sorted_by(|a, b| a.x < b.x));
        }
        let sums_to_100 = matches!(figure.id.as_str(), "8" | "8b" | "24" | "24b" | "25");
        if let Some(first) = figure.curves.first().filter(|_| sums_to_100) {
            for (at, point) in first.points.iter().enumerate() {
                let sum: f64 = figure
                    .curves
                    .iter()
                    .map(|curve| curve.points[at].value)
                    .sum();
                prop_assert!(
                    // 0: all medians are.
                    (sum - 100.0).abs() < 1e-6
                        || (figure.id == "24" || figure.id == "25") && sum == 0.0,
                    "figure {} at {}: {}",
                    figure.id,
                    point.x,
                    sum
                );
            }
        }
    }
    // Those whose clock was wrong are told, not lost.
    prop_assert!(report.troubles.count as usize + report.requests as usize <= given * 2 + 100);
    Ok(())
}

/// It is the same when it was read back.
fn through_json(report: &SourceReport) -> SourceReport {
    let text = serde_json::to_string(&Report::new(vec![report.clone()])).unwrap();
    serde_json::from_str::<Report>(&text)
        .unwrap()
        .sources
        .remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_make_a_report(
        records in proptest::collection::vec(any_record(), 0..60),
        events in proptest::collection::vec(any_event(), 0..20),
        slot in proptest::option::of(1..4000u64),
    ) {
        let slot = slot.map(Duration::from_secs);
        let made = report(Known::PROFILE, &records, &events, slot);
        sound(&made, records.len() + events.len())?;
        prop_assert_eq!(&through_json(&made), &made);
        // Backwards it is the same, but for the order of troubles.
        let mut backwards = records.clone();
        backwards.reverse();
        let mut again = report(Known::PROFILE, &backwards, &events, slot);
        again.troubles = made.troubles.clone();
        prop_assert_eq!(again, made);
    }

    #[test]
    fn two_halves_joined_are_the_whole(records in proptest::collection::vec(any_record(), 2..80), cut in 1..79usize) {
        let in_hour = |record: &Record| (BASE_US..BASE_US + 3_600_000_000).contains(&record.began_unix_us);
        let mut records: Vec<Record> = records.into_iter().filter(in_hour).collect();
        // Neither half may miss what the other knows, nor have a slot that is idle only there.
        for record in &mut records {
            record.version = 2;
            record.hierarchy = Hierarchy::Parent;
            record.names = None;
            record.bytes_out %= 1 << 40;
        }
        let cut = cut % records.len().max(1);
        let slot = Some(Duration::from_secs(3600));
        let make = |records: &[Record]| report(Known::PROFILE, records, &[], slot);
        let whole = make(&records);
        let halves = [make(&records[..cut]), make(&records[cut..])];
        let joined = join("both", &halves.map(|half| through_json(&half))).unwrap();
        prop_assert_eq!(joined.requests, whole.requests);
        prop_assert_eq!(&joined.counts, &whole.counts);
        for (a, b) in whole.measures.iter().zip(&joined.measures) {
            let is_apart = ["2.", "4.", "9.", "19.", "20.", "table-3.unique"].iter().any(|start| a.id.starts_with(start));
            // A rate of the day is of the time that the source covers, that of a joined one of its slots.
            let is_by_time = ["3.", "18."].iter().any(|start| a.id.starts_with(start));
            if is_apart {
                prop_assert_eq!(b.value, None, "{}", b.id);
            } else if !is_by_time {
                let (a_value, b_value) = (a.value.unwrap_or(-1.0), b.value.unwrap_or(-1.0));
                prop_assert!((a_value - b_value).abs() <= a_value.abs() * 0.013 + 0.0011, "{}: {:?} {:?}", a.id, a.value, b.value);
            }
        }
        // The points of the slots, where rates are of the same time.
        let (a, b) = (whole.figure("3").unwrap(), joined.figure("3").unwrap());
        for (a, b) in a.curves.iter().zip(&b.curves) {
            prop_assert_eq!(a.points.iter().map(|p| p.value).collect::<Vec<_>>(), b.points.iter().map(|p| p.value).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_source_that_does_not_know_says_so() {
    let mut record = Record::begun(BASE_US);
    (
        record.class,
        record.status,
        record.total_us,
        record.bytes_out,
    ) = (Class::Miss, 200, 1000, 500);
    record.hierarchy = Hierarchy::Direct;
    let mut builder = Builder::new(source(SourceKind::Squid, Known::SQUID), Options::default());
    (0..50).for_each(|_| builder.request(&record).unwrap());
    let made = builder.finish().unwrap();
    // Of a log there are the figures that the design names, and no others of the paper.
    let paper = made
        .figures
        .iter()
        .filter(|figure| figure.id.parse::<u32>().is_ok());
    let there: Vec<&str> = (paper.filter(|figure| figure.not_recorded.is_none()))
        .map(|figure| figure.id.as_str())
        .collect();
    assert_eq!(there, ["1", "3", "4", "5", "6", "7", "8", "9"]);
    for figure in made
        .figures
        .iter()
        .filter(|figure| figure.not_recorded.is_some())
    {
        assert!(figure.curves.is_empty());
        assert!(
            figure
                .not_recorded
                .as_ref()
                .unwrap()
                .starts_with("not recorded by this source: ")
        );
    }
    let swap = made.figure("1").unwrap().curve("swap-in").unwrap();
    assert!(swap.points.is_empty() && swap.not_recorded.is_some());
    let value = |id: &str| made.measure(id).unwrap().value;
    assert_eq!(
        (
            value("11.miss.p50"),
            value("18.all.value"),
            value("table-3.unique-documents")
        ),
        (None, None, None)
    );
    assert_eq!(value("5.miss.p50"), Some(1.0));
    assert!(
        made.notes
            .iter()
            .any(|note| note.contains("time of the server's reply"))
    );
    // With keys Figure 2 is there, too.
    record.names = Some(Names {
        key: 1,
        client: 2,
        server: 3,
    });
    let made = report(Known::SQUID, &[record], &[], None);
    assert_eq!(made.measure("2.miss.p50").unwrap().value, Some(500.0));
    assert_eq!(
        made.measure("table-3.unique-servers").unwrap().value,
        Some(1.0)
    );
}

#[test]
fn a_profile_of_version_1_says_what_it_lacks() {
    let mut record = Record::begun(BASE_US);
    record.version = 1;
    (record.class, record.status, record.total_us) = (Class::DiskHit, 200, 1000);
    record.set_stage(
        StageName::SwapIn,
        Stage {
            start_us: 0,
            first_us: 5,
            total_us: 9,
        },
    );
    let made = report(Known::PROFILE, &[record], &[], None);
    for id in ["2", "12", "22", "23"] {
        assert!(
            made.figure(id).unwrap().not_recorded.is_some(),
            "figure {id}"
        );
    }
    assert_eq!(made.measure("21.swap-in.p50").unwrap().value, Some(0.009));
    assert!(made.notes.iter().any(|note| note.contains("version 1")));
}

/// Requests come evenly and stay 40 ms on average: what is there is rate times stay.
#[test]
fn littles_law_holds() {
    let records: Vec<Record> = (0..30_000u64)
        .map(|i| {
            let mut record = Record::begun(BASE_US + i * 2_000);
            (record.class, record.status) = (Class::Miss, 200);
            // 10, 40 and 70 ms in turn.
            record.total_us = 10_000 + (i % 3 * 30_000) as u32;
            record
        })
        .collect();
    let made = report(Known::PROFILE, &records, &[], Some(Duration::from_secs(5)));
    let figure = |id: &str| made.figure(id).unwrap().curve("miss").unwrap();
    let slots = made.slots.iter().filter(|slot| !slot.is_partial).count();
    assert!(slots >= 11);
    for at in 1..slots {
        let rate = figure("3").points[at].value;
        let mean_ms = figure("5").points[at].spread.unwrap().mean;
        let there = figure("4").points[at].spread.unwrap().mean;
        assert!(
            (there - rate * mean_ms / 1000.0).abs() < 0.01 * there,
            "{there} {rate} {mean_ms}"
        );
    }
    assert!((figure("4").day.as_ref().unwrap().spread.unwrap().mean - 20.0).abs() < 0.1);
}

#[test]
fn what_is_short_is_seen_differently_by_the_paper_and_that_is_said() {
    let records: Vec<Record> = (0..600u64)
        .map(|i| {
            let mut record = Record::begun(BASE_US + i * 100_000);
            (record.class, record.status, record.total_us) = (Class::DiskHit, 200, 100);
            record.set_stage(
                StageName::SwapIn,
                Stage {
                    start_us: 0,
                    first_us: 60,
                    total_us: 60,
                },
            );
            record
        })
        .collect();
    let exact = report(Known::PROFILE, &records, &[], Some(Duration::from_secs(60)));
    let busy = exact.figure("20").unwrap();
    let day = busy.curve("swap-in").unwrap().day.as_ref().unwrap();
    // Of the 59.9 s until the last answer.
    assert!((day.value - 0.06).abs() < 2e-4 && (day.other_grid.unwrap() - 2.0).abs() < 1e-2);
    assert!(
        busy.notes
            .iter()
            .any(|note| note.contains("2 ms: all 2.0 instead of 0.060")),
        "{:?}",
        busy.notes
    );
    let options = Options {
        grid: Grid::TwoMs,
        ..Options::default()
    };
    let mut builder = Builder::new(source(SourceKind::Profile, Known::PROFILE), options);
    records
        .iter()
        .for_each(|record| builder.request(record).unwrap());
    builder.set_slot(Duration::from_secs(60));
    let by_grid = builder.finish().unwrap();
    assert!((by_grid.measure("20.swap-in.value").unwrap().value.unwrap() - 2.0).abs() < 1e-2);
}

#[test]
fn reports_that_do_not_fit_are_not_joined() {
    let record = Record::begun(BASE_US);
    let make = |slot: u64| {
        report(
            Known::PROFILE,
            &[record],
            &[],
            Some(Duration::from_secs(slot)),
        )
    };
    assert_eq!(join("none", &[]), Err(JoinError::Nothing));
    let error = join("two", &[make(5), make(6)]).unwrap_err().to_string();
    assert!(error.contains("--slot"), "{error}");
    let later = Record::begun(BASE_US + 3_000_000_000);
    let far = report(Known::PROFILE, &[later], &[], Some(Duration::from_secs(1)));
    assert!(matches!(
        join("far", &[make(1), far]),
        Err(JoinError::TooLong { .. })
    ));
}

#[test]
fn a_comparison_has_every_measure_once() {
    let mut record = Record::begun(BASE_US);
    (record.class, record.status, record.total_us) = (Class::Miss, 200, 1000);
    let a = report(Known::PROFILE, &[record], &[], None);
    record.total_us = 1500;
    let mut b = report(Known::PROFILE, &[record], &[], None);
    let lost = b.measures.remove(0);
    let compared = compare(&a, &b);
    assert_eq!(compared.len(), a.measures.len());
    let of = |id: &str| compared.iter().find(|compared| compared.id == id).unwrap();
    assert_eq!(of("5.miss.p50").difference_percent, Some(50.0));
    assert_eq!(of("5.miss.p50").quartiles_b, Some([1.5; 3]));
    assert_eq!(
        (
            of(&lost.id).a,
            of(&lost.id).b,
            of(&lost.id).difference_percent
        ),
        (None, None, None)
    );
    assert_eq!(compare(&b, &a).len(), a.measures.len());
}

#[test]
fn a_source_without_requests_has_figures_without_points() {
    let made = report(Known::PROFILE, &[], &[], None);
    assert!(made.slots.is_empty() && made.requests == 0);
    assert!(
        made.figures
            .iter()
            .flat_map(|figure| &figure.curves)
            .all(|curve| curve.points.is_empty())
    );
    assert_eq!(through_json(&made), made);
}
