//! Tests of what the disk promises, and of its faults.

use super::*;

const BYTES: u64 = 1 << 20;

fn disk(faults: Faults) -> Disk<u32> {
    Disk::new(BYTES, Areas::none(), faults, Random::new(7))
}

fn sectors(n: usize, byte: u8) -> Bytes {
    Bytes::from(vec![byte; n * SECTOR_BYTES])
}

fn write(disk: &mut Disk<u32>, offset: u64, data: Bytes) {
    disk.submit(1, Op::Write { offset, data }, 0).unwrap();
}

fn flush(disk: &mut Disk<u32>) -> bool {
    disk.submit(2, Op::Flush, 0).unwrap();
    finish(disk).iter().all(|done| done.result.is_ok())
}

fn finish(disk: &mut Disk<u32>) -> Vec<Done<u32>> {
    std::iter::from_fn(|| disk.complete(1 << 40)).collect()
}

fn is(disk: &Disk<u32>, offset: u64, data: &Bytes) -> bool {
    disk.peek(offset..offset + data.len() as u64) == &data[..]
}

#[test]
fn what_was_flushed_survives_a_power_cut() {
    let mut disk = disk(Faults::none());
    write(&mut disk, 0, sectors(8, 1));
    finish(&mut disk);
    assert!(flush(&mut disk));
    disk.cut_power();
    assert!(is(&disk, 0, &sectors(8, 1)));
}

#[test]
fn a_flush_covers_what_had_completed_when_it_began() {
    let mut lost = 0;
    for seed in 0..50 {
        let mut disk: Disk<u32> =
            Disk::new(BYTES, Areas::none(), Faults::none(), Random::new(seed));
        // Both are under way at the same time, so the flush need not cover the write.
        write(&mut disk, 0, sectors(8, 1));
        assert!(flush(&mut disk));
        disk.cut_power();
        lost += usize::from(!is(&disk, 0, &sectors(8, 1)));
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn what_was_not_flushed_is_there_or_not_or_in_part() {
    let (mut whole, mut none, mut part, mut reordered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut disk: Disk<u32> =
            Disk::new(BYTES, Areas::none(), Faults::none(), Random::new(seed));
        write(&mut disk, 0, sectors(8, 1));
        finish(&mut disk);
        write(&mut disk, 8192, sectors(8, 2));
        finish(&mut disk);
        assert!(is(&disk, 0, &sectors(8, 1)), "reads see the cache");
        disk.cut_power();
        let first = is(&disk, 0, &sectors(8, 1));
        let second = is(&disk, 8192, &sectors(8, 2));
        whole += usize::from(first);
        none += usize::from(is(&disk, 0, &sectors(8, 0)));
        part += usize::from(!first && !is(&disk, 0, &sectors(8, 0)));
        reordered += usize::from(second && !first);
    }
    assert!(whole > 20 && none > 20 && part > 20 && reordered > 20);
}

#[test]
fn a_power_cut_brings_back_nothing_older_than_what_was_flushed() {
    for seed in 0..50 {
        let faults = Faults {
            flush_error: 2,
            ..Faults::none()
        };
        let mut disk: Disk<u32> = Disk::new(BYTES, Areas::none(), faults, Random::new(seed));
        write(&mut disk, 0, sectors(8, 1));
        finish(&mut disk);
        flush(&mut disk);
        write(&mut disk, 0, sectors(8, 2));
        finish(&mut disk);
        while !flush(&mut disk) {
            write(&mut disk, 0, sectors(8, 2));
            finish(&mut disk);
        }
        disk.cut_power();
        assert!(is(&disk, 0, &sectors(8, 2)), "seed {seed}");
    }
}

#[test]
fn a_failed_flush_may_leave_writes_behind_for_good() {
    let mut left = 0;
    for seed in 0..100 {
        let faults = Faults {
            flush_error: 1,
            ..Faults::none()
        };
        let mut disk: Disk<u32> = Disk::new(BYTES, Areas::none(), faults, Random::new(seed));
        write(&mut disk, 0, sectors(8, 1));
        finish(&mut disk);
        assert!(!flush(&mut disk));
        disk.set_calm(true);
        assert!(flush(&mut disk));
        disk.cut_power();
        left += usize::from(!is(&disk, 0, &sectors(8, 1)));
    }
    assert!((5..50).contains(&left), "{left}");
}

#[test]
fn a_kill_keeps_what_was_reported_done() {
    let mut part = 0;
    for seed in 0..100 {
        let mut disk: Disk<u32> =
            Disk::new(BYTES, Areas::none(), Faults::none(), Random::new(seed));
        write(&mut disk, 0, sectors(8, 1));
        finish(&mut disk);
        write(&mut disk, 8192, sectors(8, 2));
        disk.kill();
        assert_eq!(disk.pending(), 0);
        assert!(is(&disk, 0, &sectors(8, 1)));
        let torn = disk.peek(8192..8192 + 4096);
        part += usize::from(torn.contains(&0) && torn.contains(&2));
        // The remains of a killed write are still in the cache, not on the medium.
        let before = disk.peek(0..16384).to_vec();
        flush(&mut disk);
        disk.cut_power();
        assert_eq!(disk.peek(0..16384), &before[..]);
    }
    assert!(part > 20, "{part}");
}

#[test]
fn operations_complete_in_any_order() {
    let mut disk = disk(Faults::none());
    for n in 0..20 {
        let op = Op::Read {
            offset: 0,
            len: SECTOR_BYTES,
        };
        disk.submit(n, op, 0).unwrap();
    }
    let order: Vec<u32> = finish(&mut disk).iter().map(|done| done.tag).collect();
    assert_ne!(order, (0..20).collect::<Vec<_>>());
    assert_eq!(order.len(), 20);
}

#[test]
fn every_kind_of_fault_comes() {
    let faults = Faults {
        lost_write: 20,
        misdirected_write: 20,
        misdirected_read: 20,
        corrupt_read: 20,
        corrupt_medium: 20,
        short: 20,
        slow: 20,
        read_error: 20,
        write_error: 20,
        flush_error: 5,
        nth_error: 50,
        outage: 200,
    };
    let mut disk = disk(faults);
    for n in 0..2000_u64 {
        let offset = n % 100 * 4096;
        write(&mut disk, offset, sectors(8, n as u8));
        finish(&mut disk);
        let op = Op::Read { offset, len: 4096 };
        disk.submit(3, op, 0).unwrap();
        finish(&mut disk);
        flush(&mut disk);
    }
    write(&mut disk, 0, sectors(8, 1));
    (0..20).for_each(|_| {
        write(&mut disk, 8192, sectors(8, 1));
        disk.cut_power();
    });
    for (name, n) in disk.counts().iter() {
        assert!(n > 0, "no {name}");
    }
    assert!(disk.damages().len() > 200);
}

#[test]
fn a_lost_write_is_reported_done_and_leaves_a_damage() {
    let faults = Faults {
        lost_write: 1,
        ..Faults::none()
    };
    let mut disk = disk(faults);
    write(&mut disk, 4096, sectors(8, 1));
    let done = finish(&mut disk).remove(0);
    assert!(done.result.is_ok() && done.spoiled);
    assert!(is(&disk, 4096, &sectors(8, 0)));
    let range = 4096..8192;
    assert_eq!(disk.damages(), [Damage { range, number: 1 }]);
}

#[test]
fn a_wrong_submitter_is_told() {
    let mut disk = disk(Faults::none());
    let read = |offset, len| Op::Read { offset, len };
    assert!(disk.submit(1, read(1, 512), 0).is_err());
    assert!(disk.submit(1, read(0, 100), 0).is_err());
    assert!(disk.submit(1, read(BYTES, 512), 0).is_err());
    write(&mut disk, 0, sectors(8, 1));
    let over = Op::Write {
        offset: 2048,
        data: sectors(8, 2),
    };
    assert!(disk.submit(1, over, 0).is_err());
}
