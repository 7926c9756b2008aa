//! The method against a slow model, and its rules one by one.

use super::*;
use proptest::prelude::*;

fn access(object: u32, size_bytes: u32) -> Access {
    Access {
        at_ms: 0,
        object,
        server: object / 4,
        size_bytes,
    }
}

fn small(memory_bytes: u64, disk_bytes: u64) -> Settings {
    Settings {
        memory: LevelSettings::lru(memory_bytes),
        disk: LevelSettings::lru(disk_bytes),
    }
}

fn words(settings: &Settings, accesses: &[Access]) -> (String, Counts) {
    let mut requests = Requests::new(settings, accesses.iter().copied());
    let words: Vec<String> = requests
        .by_ref()
        .map(|r| format!("{:?} {}:{}", r.op, r.object, r.size_bytes).to_lowercase())
        .collect();
    (words.join(", "), *requests.counts())
}

#[test]
fn a_disk_hit_is_a_read_and_goes_to_memory() {
    let row = [access(1, 5), access(2, 5), access(1, 5), access(1, 5)];
    let (found, counts) = words(&small(5, 100), &row);
    assert_eq!(found, "write 1:5, write 2:5, read 1:5");
    assert_eq!(
        (counts.memory_hits, counts.disk_hits, counts.misses),
        (1, 1, 2)
    );
    assert_eq!(
        (counts.get_bytes, counts.read_bytes, counts.write_bytes),
        (20, 5, 10)
    );
}

#[test]
fn deletes_come_before_the_write_they_make_room_for() {
    let row = [access(1, 4), access(2, 4), access(3, 8)];
    let (found, counts) = words(&small(1, 10), &row);
    assert_eq!(
        found,
        "write 1:4, write 2:4, delete 1:4, delete 2:4, write 3:8"
    );
    assert_eq!(
        (counts.deletes, counts.replaced, counts.disk_requests()),
        (2, 0, 5)
    );
}

#[test]
fn a_new_version_deletes_the_old_one_also_behind_memory() {
    let (found, counts) = words(
        &small(100, 100),
        &[access(1, 4), access(1, 5), access(1, 5)],
    );
    assert_eq!(found, "write 1:4, delete 1:4, write 1:5");
    assert_eq!((counts.replaced, counts.memory_hits), (1, 1));
}

#[test]
fn what_is_not_kept_is_not_written() {
    let (found, counts) = words(&small(5, 10), &[access(1, 11)]);
    assert_eq!(
        (found.as_str(), counts.too_large, counts.writes),
        ("", 1, 0)
    );
    let mut settings = small(1, 10);
    settings.disk.admission = replacement::AdmissionKind::SecondHit;
    let (found, counts) = words(&settings, &[access(1, 2), access(1, 2)]);
    assert_eq!((found.as_str(), counts.refused), ("write 1:2", 1));
}

#[test]
fn the_papers_counts_add_up() {
    let paper = Counts::PAPER;
    assert_eq!(
        paper.memory_hits + paper.disk_hits + paper.misses,
        paper.gets
    );
    assert_eq!(paper.disk_requests(), 1_000_000);
}

/// An LRU cache in its simplest form: (object, size), the most recent one last.
struct Slow {
    bytes: u64,
    row: Vec<(u32, u32)>,
}

impl Slow {
    fn take(&mut self, object: u32) -> Option<u32> {
        let at = self.row.iter().position(|entry| entry.0 == object)?;
        Some(self.row.remove(at).1)
    }

    fn put(&mut self, object: u32, size: u32) -> Vec<(u32, u32)> {
        let mut gone = Vec::new();
        let sum = |row: &[(u32, u32)]| row.iter().map(|entry| u64::from(entry.1)).sum::<u64>();
        while sum(&self.row) + u64::from(size) > self.bytes {
            gone.push(self.row.remove(0));
        }
        self.row.push((object, size));
        gone
    }
}

fn slowly(memory_bytes: u64, disk_bytes: u64, accesses: &[Access]) -> (Vec<DiskRequest>, u64) {
    let mut memory = Slow {
        bytes: memory_bytes,
        row: Vec::new(),
    };
    let mut disk = Slow {
        bytes: disk_bytes,
        row: Vec::new(),
    };
    let (mut out, mut hits) = (Vec::new(), 0);
    for &Access {
        object, size_bytes, ..
    } in accesses
    {
        let mut say = |op, (object, size_bytes)| {
            out.push(DiskRequest {
                op,
                object,
                server: object / 4,
                size_bytes,
            });
        };
        if memory.take(object) == Some(size_bytes) {
            hits += 1;
        } else {
            let on_disk = disk.take(object);
            if on_disk == Some(size_bytes) {
                say(DiskOp::Read, (object, size_bytes));
                disk.put(object, size_bytes);
            } else {
                if let Some(old) = on_disk {
                    say(DiskOp::Delete, (object, old));
                }
                if u64::from(size_bytes) <= disk_bytes {
                    for gone in disk.put(object, size_bytes) {
                        say(DiskOp::Delete, gone);
                    }
                    say(DiskOp::Write, (object, size_bytes));
                }
            }
        }
        if u64::from(size_bytes) <= memory_bytes {
            memory.put(object, size_bytes);
        }
    }
    (out, hits)
}

proptest! {
    #[test]
    fn hits_are_those_of_a_slow_lru(
        row in prop::collection::vec((0u32..40, 0u32..30, 0u32..8), 0..600),
        memory_bytes in 1u64..200,
        disk_bytes in 1u64..600,
    ) {
        // An object mostly keeps its size; one request in eight is for a new version.
        let mut sizes = [7u32; 40];
        let accesses: Vec<Access> = row
            .into_iter()
            .map(|(object, size, changes)| {
                if changes == 0 {
                    sizes[object as usize] = size;
                }
                access(object, sizes[object as usize])
            })
            .collect();
        let mut requests = Requests::new(&small(memory_bytes, disk_bytes), accesses.iter().copied());
        let found: Vec<DiskRequest> = requests.by_ref().collect();
        let (want, memory_hits) = slowly(memory_bytes, disk_bytes, &accesses);
        prop_assert_eq!(found, want);
        prop_assert_eq!(requests.counts().memory_hits, memory_hits);
    }
}
