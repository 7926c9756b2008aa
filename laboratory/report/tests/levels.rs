//! At which level hits are, and on which disk: what was put into a made-up profile comes out of the report.
//!
//! One slot. Of a hundred requests, all of 1000 bytes, 47 are hits of the proxy's own, 14 of a peer that it asked, 3 of a proxy beyond.

use profile::{
    Class, Event, Flags, Gauge, Hierarchy, Read, Record, Second, Stage, StageName, Subject, Write,
};
use report::model::{AxisKind, SourceKind, SourceReport};
use report::{Builder, Known, Options, Source};

const BASE_US: u64 = 1_795_305_600_000_000;

/// How many, of which class, whom they asked, what it said, how long they took (ms).
const PUT: [(u64, Class, Hierarchy, Flags, u32); 14] = [
    (30, Class::MemoryHit, Hierarchy::None, Flags::NONE, 1),
    (10, Class::DiskHit, Hierarchy::None, Flags::NONE, 2),
    (5, Class::DiskHit, Hierarchy::None, Flags::NONE, 2),
    (8, Class::Miss, Hierarchy::Node, Flags::PEER_HIT, 10),
    (4, Class::Miss, Hierarchy::Sibling, Flags::PEER_HIT, 10),
    // The peer had it, though it may not be kept here.
    (2, Class::Uncachable, Hierarchy::Parent, Flags::PEER_HIT, 10),
    (3, Class::Miss, Hierarchy::Parent, Flags::FARTHER_HIT, 10),
    (18, Class::Miss, Hierarchy::Direct, Flags::NONE, 100),
    (2, Class::Miss, Hierarchy::Parent, Flags::NONE, 100),
    (6, Class::Collapsed, Hierarchy::None, Flags::NONE, 90),
    (5, Class::Uncachable, Hierarchy::Direct, Flags::NONE, 100),
    // A hit of our own, though a parent has confirmed it from its cache.
    (
        2,
        Class::Revalidated,
        Hierarchy::Parent,
        Flags::PEER_HIT,
        20,
    ),
    (3, Class::Error, Hierarchy::None, Flags::NONE, 1),
    (2, Class::Tunnel, Hierarchy::Direct, Flags::NONE, 500),
];

fn stage(total_us: u32) -> Stage {
    Stage {
        start_us: 0,
        first_us: total_us,
        total_us,
    }
}

fn requests() -> Vec<Record> {
    let mut records = Vec::new();
    for (row, (number, class, hierarchy, flags, ms)) in PUT.into_iter().enumerate() {
        for _ in 0..number {
            let began = BASE_US + records.len() as u64 * 500_000;
            let mut record = Record::begun(began);
            (record.class, record.hierarchy, record.flags) = (class, hierarchy, flags);
            (record.status, record.bytes_out, record.total_us) = (200, 1000, ms * 1000);
            if class == Class::DiskHit {
                // The second disk is three times as slow.
                record.store = u8::from(row == 2);
                record.device_reads = 1;
                record.set_stage(StageName::SwapIn, stage([200, 600][row - 1]));
            }
            if class == Class::Miss {
                record.set_stage(StageName::ServerReply, stage(ms * 900));
                record.set_stage(StageName::ProxyReply, stage(ms * 100));
            }
            records.push(record);
        }
    }
    records
}

fn events() -> Vec<Event> {
    let read = |store: u8, total_us: u32| {
        Event::Read(Read {
            start_unix_us: BASE_US + 10_000_000,
            total_us,
            bytes: 4096,
            objects: 1,
            store,
            ..Read::default()
        })
    };
    let write = |store: u8, total_us: u32| {
        Event::Write(Write {
            start_unix_us: BASE_US + 20_000_000,
            total_us,
            bytes: 1 << 20,
            records: 10,
            store,
            cluster: store.into(),
        })
    };
    // Of 40 seconds the first disk was busy for 4, the second for 20.
    let second = |seconds: u64, number: u8, busy_us: u64| {
        Event::Second(Second {
            at_unix_us: BASE_US + seconds * 1_000_000,
            subject: Subject::Device,
            number,
            gauges: vec![(Gauge::DeviceBusyUs, busy_us)],
        })
    };
    let mut events = vec![write(0, 1500), write(1, 4500), write(1, 4500)];
    events.extend((0..10).map(|_| read(0, 190)));
    events.extend((0..5).map(|_| read(1, 590)));
    events.extend([
        second(1, 0, 0),
        second(1, 1, 0),
        second(41, 0, 4_000_000),
        second(41, 1, 20_000_000),
    ]);
    events
}

fn report_of(records: &[Record], events: &[Event], known: Known) -> SourceReport {
    let source = Source {
        name: "front".to_owned(),
        level: None,
        kind: SourceKind::Profile,
        known,
    };
    let mut builder = Builder::new(source, Options::default());
    (records.iter()).for_each(|record| builder.request(record).unwrap());
    (events.iter()).for_each(|event| builder.event(event).unwrap());
    builder.set_slot(std::time::Duration::from_secs(60));
    builder.finish().unwrap()
}

fn made() -> SourceReport {
    report_of(&requests(), &events(), Known::PROFILE)
}

fn facts(report: &SourceReport, table: &str) -> Vec<(String, String)> {
    let table = report.tables.iter().find(|found| found.id == table);
    let facts = table.expect("it has the table").facts.iter();
    facts
        .map(|fact| (fact.name.clone(), fact.value.clone()))
        .collect()
}

fn fact(report: &SourceReport, table: &str, name: &str) -> String {
    let found = facts(report, table).into_iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

/// The value of the day.
fn day(report: &SourceReport, figure: &str, curve: &str) -> f64 {
    let figure = report.figure(figure).expect("it has the figure");
    let curve = figure.curve(curve).expect("it has the curve");
    curve.day.as_ref().expect("it has a day").value
}

#[test]
fn hits_at_peers_are_a_class_and_classes_add_up() {
    let report = made();
    let rows = [
        ("memory hits", 30),
        ("disk hits", 15),
        ("IMS hits (304)", 0),
        ("negative hits", 0),
        ("other hits (revalidated, stale)", 2),
        ("hits at a member of the cluster", 8),
        ("hits at a sibling", 4),
        ("hits at a parent", 2),
        ("hits beyond the peer", 3),
        ("collapsed", 6),
        ("misses", 20),
        ("uncachable", 5),
        ("errors", 3),
        ("tunnels", 2),
    ];
    for (name, number) in rows {
        let want = format!("{number} ({number}.0 %)");
        assert_eq!(fact(&report, "classes", name), want, "{name}");
    }
    assert_eq!(rows.iter().map(|(_, number)| number).sum::<u64>(), 100);
    assert_eq!(report.requests, 100);
}

#[test]
fn a_hit_ratio_says_whether_peers_are_in_it() {
    let report = made();
    // Of 98 documents.
    let ratios = [
        ("document hit ratio", "48.0 %"),
        ("document hit ratio with peers", "65.3 %"),
        ("byte hit ratio", "48.0 %"),
        ("byte hit ratio with peers", "65.3 %"),
    ];
    for (name, want) in ratios {
        assert_eq!(fact(&report, "classes", name), want, "{name}");
    }
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(day(&report, "7", "document"), 4700.0 / 98.0));
    assert!(close(day(&report, "7", "document-peers"), 6400.0 / 98.0));
    assert!(close(day(&report, "7", "byte-peers"), 6400.0 / 98.0));
    let ours = &report.figure("7").unwrap().ours;
    assert!(ours.contains("with hits at peers 65.3 %"), "{ours}");
}

#[test]
fn levels_are_told_and_add_up() {
    let report = made();
    let levels = [
        ("here", 47.0),
        ("member", 8.0),
        ("sibling", 4.0),
        ("parent", 2.0),
        ("beyond", 3.0),
        ("nowhere", 34.0),
    ];
    let mut sum = 0.0;
    for (curve, number) in levels {
        let value = day(&report, "8b", curve);
        assert!((value - number / 0.98).abs() < 1e-9, "{curve}: {value}");
        sum += value;
    }
    assert!((sum - 100.0).abs() < 1e-9);
}

#[test]
fn times_of_hits_at_peers_are_neither_of_hits_nor_of_misses() {
    let report = made();
    assert_eq!(day(&report, "5", "peer"), 10.0);
    assert_eq!(day(&report, "5", "miss"), 100.0);
    assert_eq!(day(&report, "11", "peer"), 9.0);
    assert_eq!(day(&report, "11", "miss"), 90.0);
    let count = |figure: &str, curve: &str| {
        let figure = report.figure(figure).unwrap();
        figure.curve(curve).unwrap().day.as_ref().unwrap().count
    };
    let sum: u64 = ["hit", "miss", "peer"]
        .map(|curve| count("5", curve))
        .iter()
        .sum();
    // And what can not be cached, and errors.
    assert_eq!((sum + 5 + 3, count("5", "all")), (98, 98));
    assert_eq!(count("3", "peer"), 17);
    assert_eq!(count("1", "all"), 98);
}

#[test]
fn collapsed_requests_have_no_part_in_what_misses_are_made_of() {
    let mut records = requests();
    // More collapsed than misses: with them each median would be 0.
    let collapsed = records
        .iter()
        .find(|record| record.class == Class::Collapsed);
    let collapsed = *collapsed.unwrap();
    records.extend((0..200).map(|_| collapsed));
    let report = report_of(&records, &[], Known::PROFILE);
    assert!((day(&report, "24", "server-reply") - 90.0).abs() < 1e-9);
    assert!((day(&report, "24", "proxy-reply") - 10.0).abs() < 1e-9);
    assert!((day(&report, "24b", "server-reply") - 80.0).abs() < 1e-9);
    let of = |id: &str| report.figure(id).unwrap().curve("server-reply").cloned();
    assert_eq!(of("24").unwrap().day.unwrap().count, 20);
    assert_eq!(of("24b").unwrap().day.unwrap().count, 20);
}

#[test]
fn disks_are_told_apart() {
    let report = made();
    for (name, want) in [
        ("disk 1: swap-ins", "10"),
        ("disk 1: swap-in, median", "0.200 ms"),
        ("disk 1: reads", "10"),
        ("disk 1: read, median", "0.190 ms"),
        ("disk 1: writes", "1"),
        ("disk 1: write, median", "1.500 ms"),
        ("disk 1: bytes written", "1048576"),
        ("disk 1: busy", "10.0 %"),
        ("disk 2: swap-ins", "5"),
        ("disk 2: swap-in, median", "0.600 ms"),
        ("disk 2: reads", "5"),
        ("disk 2: read, median", "0.590 ms"),
        ("disk 2: writes", "2"),
        ("disk 2: write, median", "4.500 ms"),
        ("disk 2: bytes written", "2097152"),
        ("disk 2: busy", "50.0 %"),
    ] {
        assert_eq!(fact(&report, "disks", name), want, "{name}");
    }
    assert_eq!(day(&report, "20b", "disk-1"), 10.0);
    assert_eq!(day(&report, "20b", "disk-2"), 50.0);
    assert_eq!(day(&report, "21b", "disk-1"), 0.2);
    assert_eq!(day(&report, "21b", "disk-2"), 0.6);
    // No curve for a disk that there is not; the disks together are the whole.
    let by_disk = report.figure("18b").unwrap();
    assert_eq!(by_disk.curves.len(), 2);
    let sum: f64 = by_disk
        .curves
        .iter()
        .map(|curve| curve.day.as_ref().unwrap().sum)
        .sum();
    assert_eq!(
        sum,
        report
            .figure("18")
            .unwrap()
            .curve("all")
            .unwrap()
            .day
            .as_ref()
            .unwrap()
            .sum
    );
}

#[test]
fn what_is_empty_says_why_and_how_it_is_filled() {
    let report = made();
    let figure = report.figure("23").unwrap();
    assert!(figure.curves.iter().all(|curve| curve.points.is_empty()));
    let why = figure.empty.as_deref().unwrap();
    assert!(why.contains("two reads") && why.contains("range"), "{why}");
    assert_eq!(report.figure("5").unwrap().empty, None);
    let table = report.tables.iter().find(|table| table.id == "22").unwrap();
    let why = table.not_recorded.as_deref().unwrap();
    assert!(why.contains("two reads") && why.contains("range"), "{why}");
    // Of nothing at all, every figure says what would fill it.
    let nothing = report_of(&[], &[], Known::PROFILE);
    for figure in &nothing.figures {
        let why = figure.empty.as_ref().or(figure.not_recorded.as_ref());
        assert!(
            why.is_some_and(|why| why.len() > 40),
            "{}: {why:?}",
            figure.id
        );
    }
}

#[test]
fn times_that_lie_far_apart_have_an_axis_for_it() {
    let report = made();
    for id in ["5", "21"] {
        assert_eq!(report.figure(id).unwrap().y.kind, AxisKind::Log, "{id}");
    }
    // 0 has no place on such an axis, and is not lost without a word.
    let mut record = Record::begun(BASE_US);
    (record.class, record.status) = (Class::MemoryHit, 200);
    let report = report_of(&[record; 40], &[], Known::PROFILE);
    let notes = report.figure("5").unwrap().notes.join(" ");
    assert!(
        notes.contains("hits in 1 slots") && notes.contains("is 0"),
        "{notes}"
    );
}

#[test]
fn a_source_that_does_not_know_levels_says_so() {
    let mut records = requests();
    records.iter_mut().for_each(|record| record.version = 1);
    let report = report_of(&records, &[], Known::PROFILE);
    assert!(report.figure("8b").unwrap().not_recorded.is_some());
    let rows = facts(&report, "classes");
    assert!(
        !rows.iter().any(|(name, _)| name.contains("peer")),
        "{rows:?}"
    );
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("hits at peers"))
    );
    assert_eq!(
        report.measure("7.document-peers.value").unwrap().value,
        None
    );
}

#[test]
fn levels_and_disks_stay_when_reports_are_joined() {
    let report = made();
    let joined = report::join("twice", &[report.clone(), report]).unwrap();
    assert_eq!(fact(&joined, "classes", "hits at a sibling"), "8 (4.0 %)");
    let value = day(&joined, "8b", "member");
    assert!((value - 8.0 / 0.98).abs() < 1e-9, "{value}");
    assert!((day(&joined, "21b", "disk-2") - 0.6).abs() <= 0.006);
}
