//! Every manager under the same random requests: reads return the written bytes.

use std::collections::HashMap;

use super::*;
use crate::disks::checked::Checked;
use crate::{DiskOp, DiskRequest};

/// A small deterministic random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// Consistent writes, reads and deletes, with up to `live_max` bytes alive.
fn requests(count: usize, live_max: u64, seed: u64) -> Vec<DiskRequest> {
    let mut chance = Chance(seed);
    let mut live: Vec<DiskRequest> = Vec::new();
    let (mut bytes, mut next) = (0u64, 0);
    let mut out = Vec::new();
    while out.len() < count {
        let kind = chance.below(10);
        if kind < 6 || live.is_empty() {
            let size_bytes = match chance.below(20) {
                0 => 0,
                1 => chance.below(300_000),
                _ => chance.below(12_000),
            };
            let request = DiskRequest {
                op: DiskOp::Write,
                object: next,
                server: chance.below(20),
                size_bytes,
            };
            next += 1;
            while bytes + u64::from(size_bytes) + 1024 > live_max {
                let gone = live.swap_remove(chance.below(live.len() as u32) as usize);
                bytes -= u64::from(gone.size_bytes) + 1024;
                out.push(DiskRequest {
                    op: DiskOp::Delete,
                    ..gone
                });
            }
            bytes += u64::from(size_bytes) + 1024;
            live.push(request);
            out.push(request);
        } else {
            let at = chance.below(live.len() as u32) as usize;
            out.push(DiskRequest {
                op: DiskOp::Read,
                ..live[at]
            });
        }
    }
    out
}

fn settings(file_bytes: u64) -> Settings {
    Settings {
        file_bytes,
        ..Settings::default()
    }
}

fn run(
    kind: Kind,
    requests: &[DiskRequest],
    settings: &Settings,
) -> (Checked, Vec<(&'static str, f64)>) {
    let mut disk = Checked::default();
    disk.call_us = 100;
    let mut manager = make(kind, settings);
    manager.prepare(&mut disk).unwrap();
    disk.start().unwrap();
    disk.write_places.clear();
    for &request in requests {
        manager.handle(request, &mut disk).unwrap();
    }
    manager.finish(&mut disk).unwrap();
    let figures = manager.figures();
    (disk, figures)
}

fn one(op: DiskOp, object: u32, server: u32, size_bytes: u32) -> DiskRequest {
    DiskRequest {
        op,
        object,
        server,
        size_bytes,
    }
}

#[test]
fn what_is_read_is_what_was_written() {
    let requests = requests(20_000, 4 << 20, 1);
    for kind in Kind::ALL {
        for file_bytes in [6 << 20, 9 << 20] {
            // `Checked` compares every byte's origin.
            let (disk, _) = run(kind, &requests, &settings(file_bytes));
            assert!(disk.calls.reads > 1000, "{kind}");
        }
    }
}

#[test]
fn after_deleting_everything_the_file_is_free() {
    let mut requests = requests(5000, 1 << 20, 2);
    let mut live = HashMap::new();
    for request in &requests {
        match request.op {
            DiskOp::Write => drop(live.insert(request.object, *request)),
            DiskOp::Delete => drop(live.remove(&request.object)),
            DiskOp::Read => {}
        }
    }
    let mut gone: Vec<DiskRequest> = live.into_values().collect();
    gone.sort_unstable_by_key(|r| r.object);
    requests.extend(gone.iter().map(|&r| DiskRequest {
        op: DiskOp::Delete,
        ..r
    }));
    // An object as large as the file: it fits only if the whole file is free again.
    requests.push(one(DiskOp::Write, 1_000_000, 0, (6 << 20) - HEADER_BYTES));
    for kind in [Kind::Stream, Kind::LazyReadsLoc, Kind::Unified] {
        let (_, figures) = run(kind, &requests, &settings(6 << 20));
        let refused = figures.iter().find(|f| f.0 == "objects refused").unwrap();
        assert!(refused.1.abs() < 0.5, "{kind}");
    }
}

#[test]
fn files_are_where_the_paper_has_them() {
    let writes: Vec<DiskRequest> = (0..300)
        .map(|n| one(DiskOp::Write, n, n % 7, 1000))
        .collect();
    let dirs = |kind| run(kind, &writes, &settings(0)).0.calls.dirs;
    assert_eq!(dirs(Kind::Simple), 0);
    assert_eq!(dirs(Kind::Squid), 0, "SQUID's are made beforehand");
    assert_eq!(dirs(Kind::MultipleDirs), 7);
    assert_eq!(run(Kind::Simple, &writes, &settings(0)).0.files(), 300);
    assert_eq!(run(Kind::Buddy, &writes, &settings(0)).0.files(), 1);
}

#[test]
fn buddy_reuses_the_first_free_slot_and_leaves_large_objects_alone() {
    let size = 3 * SLOT_BYTES - HEADER_BYTES;
    let mut requests: Vec<DiskRequest> = (0..4).map(|n| one(DiskOp::Write, n, 0, size)).collect();
    requests.push(one(DiskOp::Delete, 2, 0, size));
    requests.push(one(DiskOp::Delete, 1, 0, size));
    requests.push(one(DiskOp::Write, 9, 0, size - 100));
    requests.push(one(DiskOp::Write, 10, 0, THRESHOLD_BYTES));
    let (disk, _) = run(Kind::Buddy, &requests, &settings(0));
    let places: Vec<u64> = disk
        .write_places
        .iter()
        .map(|&(at, _)| at / u64::from(3 * SLOT_BYTES))
        .collect();
    assert_eq!(places, [0, 1, 2, 3, 1, 0], "the last is in its own file");
    assert_eq!(disk.calls.creates, 2);
}

#[test]
fn the_packetizer_writes_whole_pages() {
    let writes: Vec<DiskRequest> = (0..100).map(|n| one(DiskOp::Write, n, 0, 3000)).collect();
    let (plain, _) = run(Kind::Stream, &writes, &settings(4 << 20));
    assert_eq!(plain.calls.writes, 100);
    let (packed, _) = run(Kind::StreamPacketizer, &writes, &settings(4 << 20));
    let (last, full) = packed.write_places.split_last().unwrap();
    assert!(
        full.iter()
            .all(|&(at, bytes)| at % 8192 == 0 && bytes == 8192)
    );
    assert!(last.1 < 8192);
    // A read of an object in the packetizer is answered from there.
    let mut requests = writes[..1].to_vec();
    requests.push(one(DiskOp::Read, 0, 0, 3000));
    assert_eq!(
        run(Kind::StreamPacketizer, &requests, &settings(4 << 20))
            .0
            .calls
            .reads,
        0
    );
}

#[test]
fn lazy_reads_go_ten_at_a_time_in_order_or_when_they_are_late() {
    let mut requests: Vec<DiskRequest> = (0..40).map(|n| one(DiskOp::Write, n, n, 8000)).collect();
    for n in 0..10 {
        requests.push(one(DiskOp::Read, n * 7 % 31, n * 7 % 31, 8000));
    }
    let (disk, _) = run(Kind::LazyReads, &requests, &settings(4 << 20));
    assert_eq!(disk.read_places.len(), 10);
    assert!(disk.read_places.is_sorted(), "{:?}", disk.read_places);

    // One read, then writes that take longer than the deadline: 100 us each.
    requests.truncate(41);
    requests.extend((100..200).map(|n| one(DiskOp::Write, n, n, 8128)));
    let late = Settings {
        deadline_us: 5000,
        ..settings(4 << 20)
    };
    let (_, figures) = run(Kind::LazyReads, &requests, &late);
    assert!(
        figures.contains(&("batches ended by the deadline", 1.0)),
        "{figures:?}"
    );
}

#[test]
fn an_object_deleted_while_its_read_waits_is_read_first() {
    let mut requests: Vec<DiskRequest> = (0..20).map(|n| one(DiskOp::Write, n, n, 8000)).collect();
    requests.push(one(DiskOp::Read, 3, 3, 8000));
    requests.push(one(DiskOp::Delete, 3, 3, 8000));
    requests.extend((100..1000).map(|n| one(DiskOp::Write, n, n, 8000)).take(2));
    let (disk, _) = run(Kind::LazyReads, &requests, &settings(19 * 8192 + 3 * 8192));
    assert_eq!(disk.calls.reads, 1);
}

#[test]
fn locality_buffers_put_a_servers_objects_side_by_side() {
    // Writes for two servers in turn; then reads of all objects of one of them.
    let mut requests: Vec<DiskRequest> = (0..16)
        .map(|n| one(DiskOp::Write, n, n % 2, 4000))
        .collect();
    requests.extend((100..400).map(|n| one(DiskOp::Write, n, n, 4000)));
    requests.extend((0..8).map(|n| one(DiskOp::Read, 2 * n, 0, 4000)));
    let gap = |kind| {
        let (disk, _) = run(kind, &requests, &settings(8 << 20));
        let mut places = disk.read_places;
        places.sort_unstable();
        places
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap()
    };
    assert!(gap(Kind::LazyReads) > 2 * 4096 - 1);
    assert!(gap(Kind::LazyReadsLoc) <= 4096 + 512);
}

#[test]
fn a_full_file_says_so_and_unified_refuses() {
    let writes: Vec<DiskRequest> = (0..10).map(|n| one(DiskOp::Write, n, n, 8000)).collect();
    let mut disk = Checked::default();
    let mut stream = make(Kind::Stream, &settings(3 * 8192));
    stream.prepare(&mut disk).unwrap();
    let result = writes.iter().try_for_each(|&w| stream.handle(w, &mut disk));
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let (_, figures) = run(Kind::Unified, &writes, &settings(3 * 8192));
    assert!(figures.contains(&("objects refused", 7.0)), "{figures:?}");
}

#[test]
fn names_are_found_again() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(&kind.name().to_lowercase()), Some(kind));
    }
    assert_eq!(Kind::parse("FAST"), None);
}
