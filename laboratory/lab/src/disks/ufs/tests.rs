//! The model against measurements of its time.

use super::super::drive::Drive;
use super::*;

fn ufs() -> Ufs {
    Ufs::new(Machine::ultra_1(), Box::new(Drive::of_1999()))
}

fn file(number: u32) -> FileId {
    FileId { dir: ROOT, number }
}

fn bytes(bytes: u32) -> Piece {
    Piece {
        object: 0,
        server: 0,
        size_bytes: bytes,
        from_byte: 0,
        bytes,
    }
}

/// HBENCH's latfs: makes 64 files, then removes them; milliseconds for each file.
fn latfs(size: u32) -> (f64, f64) {
    let mut disk = ufs();
    let mut times = (0.0, 0.0);
    let rounds = 4;
    for _ in 0..rounds {
        let begin = disk.now_us();
        for n in 0..64 {
            disk.create(file(n)).unwrap();
            if size > 0 {
                disk.write(file(n), 0, &[bytes(size)]).unwrap();
            }
            disk.close(file(n)).unwrap();
        }
        let made = disk.now_us();
        for n in 0..64 {
            disk.delete(file(n)).unwrap();
        }
        times.0 += (made - begin) as f64 / 1e3;
        times.1 += (disk.now_us() - made) as f64 / 1e3;
    }
    (
        times.0 / 64.0 / f64::from(rounds),
        times.1 / 64.0 / f64::from(rounds),
    )
}

#[test]
fn files_cost_what_figure_3_says() {
    for size in [0, 1024, 4096, 10240] {
        eprintln!("{size}: {:?}", latfs(size));
    }
    let (create, delete) = latfs(0);
    assert!(
        (15.0..25.0).contains(&create),
        "{create}; lmbench 18, paper above 20"
    );
    assert!(
        (7.0..14.0).contains(&delete),
        "{delete}; lmbench 8, paper about 10"
    );
    let (create, delete) = latfs(4096);
    assert!(
        (35.0..55.0).contains(&(create + delete)),
        "{create} + {delete}; paper about 50"
    );
    let (create, _) = latfs(10240);
    assert!((28.0..45.0).contains(&create), "{create}; paper about 40");
}

#[test]
fn a_long_file_is_written_at_the_measured_rate() {
    let mut disk = ufs();
    disk.create(file(1)).unwrap();
    disk.start().unwrap();
    let megabytes = 256;
    for n in 0..megabytes * 16 {
        disk.write(file(1), n * 65_536, &[bytes(65_536)]).unwrap();
    }
    disk.finish().unwrap();
    let rate = megabytes as f64 * 1.048_576 / (disk.now_us() as f64 / 1e6);
    assert!((4.2..5.1).contains(&rate), "{rate} MB/s; paper 4.7");
}

#[test]
fn part_of_a_page_is_read_before_it_is_written() {
    let reads = |at: u64, piece: u32| {
        let mut disk = ufs();
        disk.create(file(1)).unwrap();
        disk.reserve(file(1), 64 << 20).unwrap();
        disk.start().unwrap();
        disk.write(file(1), at, &[bytes(piece)]).unwrap();
        disk.finish().unwrap();
        disk.figures()[0].1 as u64
    };
    let indirect = 1;
    assert_eq!(reads(4 << 20, 8192), 0);
    assert_eq!(reads(4 << 20, 5000), 1);
    // The second of two pages is a sequential read: it comes with its cluster, and the next one is read ahead.
    assert_eq!(reads((4 << 20) + 100, 8192), 3);
    assert!(reads(40 << 20, 5000) <= 1 + indirect);
}

#[test]
fn what_is_in_memory_is_not_read_again_and_what_is_deleted_is_not_written() {
    let mut disk = ufs();
    disk.create(file(1)).unwrap();
    disk.write(file(1), 0, &[bytes(5000)]).unwrap();
    disk.start().unwrap();
    disk.read(file(1), 0, bytes(5000)).unwrap();
    assert_eq!(disk.figures()[0].1 as u64, 0);

    let written = |delete: bool| {
        let mut disk = ufs();
        for n in 0..50 {
            disk.create(file(n)).unwrap();
            disk.write(file(n), 0, &[bytes(5000)]).unwrap();
        }
        let before = disk.queue.counts.writes;
        if delete {
            (0..50).for_each(|n| disk.delete(file(n)).unwrap());
        }
        let waited = disk.queue.counts.writes - before;
        disk.finish().unwrap();
        disk.queue.counts.writes - before - waited
    };
    assert!(written(true) < 10, "{}", written(true));
    assert!(written(false) >= 50);
}

#[test]
fn long_directories_take_long() {
    let mut disk = ufs();
    let mut time_of = |first: u32| {
        let begin = disk.now_us();
        for n in first..first + 100 {
            disk.create(file(n)).unwrap();
        }
        let took = disk.now_us() - begin;
        for n in first + 100..first + 20_000 {
            disk.create(file(n)).unwrap();
        }
        took
    };
    let (short, long) = (time_of(0), time_of(20_000));
    assert!(long > short + 400_000, "{short} {long} us for 100 files");
}

#[test]
fn runs_repeat_to_the_microsecond() {
    let run = || {
        let mut disk = ufs();
        for n in 0..500u32 {
            disk.create(file(n)).unwrap();
            disk.write(file(n), 0, &[bytes(n * 37 % 20_000 + 1)])
                .unwrap();
            if n > 100 && n.is_multiple_of(3) {
                disk.delete(file(n - 100)).unwrap();
            }
        }
        disk.finish().unwrap();
        disk.now_us()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_full_disk_is_an_error() {
    let mut disk = ufs();
    disk.create(file(1)).unwrap();
    let result = disk.reserve(file(1), 5 << 30);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
}
