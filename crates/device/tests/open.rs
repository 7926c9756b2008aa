//! Opening: what is created, kept, refused, and what the messages say.

mod common;

use common::*;
use device::{Device, OpenError, OpenOptions};

const MIB: u64 = 1 << 20;

const EXISTING: OpenOptions = OpenOptions {
    size_bytes: None,
    create: false,
    direct: false,
};

#[test]
fn a_new_file_is_zero_and_all_its_space_is_taken() {
    use std::os::unix::fs::MetadataExt;
    let (_directory, path, device) = file(4 * MIB, true);
    assert_eq!((device.size(), device.path()), (4 * MIB, path.as_path()));
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 4 * MIB);
    assert!(metadata.blocks() * 512 >= 4 * MIB, "preallocated");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let mut content = vec![1; 4 << 20];
    device.read_exact_sync(0, &mut content).unwrap();
    assert!(content.iter().all(|b| *b == 0));
    let block = device.logical_block_bytes();
    assert!(block.is_power_of_two() && (512..=4096).contains(&block));
}

#[test]
fn an_existing_file_keeps_size_and_content() {
    let (_directory, path, device) = file(MIB, true);
    device.write_all_sync(5000, b"squid").unwrap();
    device.flush_sync().unwrap();
    drop(device);
    let opened = Device::open(&path, EXISTING).unwrap();
    assert!(!opened.created && opened.buffered_because.is_none() && !opened.device.is_direct());
    assert_eq!(opened.device.size(), MIB);
    let mut out = [0; 5];
    opened.device.read_exact_sync(5000, &mut out).unwrap();
    assert_eq!(&out, b"squid");
    drop(opened);
    assert!(
        !create(&path, MIB, false).unwrap().created,
        "the size it has may be said"
    );
}

#[test]
fn a_second_opening_is_refused() {
    let (_directory, path, device) = file(MIB, false);
    let refused = Device::open(&path, EXISTING).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }));
    assert!(
        refused.to_string().contains("in use by another process"),
        "{refused}"
    );
    drop(device);
    Device::open(&path, EXISTING).unwrap();
}

#[test]
fn resizing_is_refused_and_the_file_left_alone() {
    let (_directory, path, device) = file(MIB, false);
    drop(device);
    for asked in [MIB / 2, 2 * MIB] {
        let refused = create(&path, asked, false).unwrap_err();
        assert!(
            matches!(refused, OpenError::SizeDiffers { found: MIB, .. }),
            "{refused}"
        );
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
}

#[test]
fn too_little_space_says_how_much_there_is_and_leaves_no_file() {
    let directory = directory();
    let path = directory.path().join("store");
    let refused = create(&path, 1 << 50, false).unwrap_err();
    assert!(
        matches!(refused, OpenError::NoSpace { free: 1.., .. }),
        "{refused}"
    );
    assert!(!path.exists());
}

#[test]
fn what_is_missing_is_asked_for() {
    let directory = directory();
    let path = directory.path().join("store");
    let missing = Device::open(&path, EXISTING).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    let unsized_new = Device::open(
        &path,
        OpenOptions {
            create: true,
            ..EXISTING
        },
    )
    .unwrap_err();
    assert!(
        matches!(unsized_new, OpenError::SizeNeeded { .. }),
        "{unsized_new}"
    );
    assert!(!path.exists());
    let tiny = create(&path, 100, false).unwrap_err();
    assert!(matches!(tiny, OpenError::SizeNeeded { .. }), "{tiny}");
    let no_directory = create(&path.join("deeper"), MIB, false).unwrap_err();
    assert!(
        matches!(no_directory, OpenError::Open { .. }),
        "{no_directory}"
    );
}

#[test]
fn an_empty_file_counts_as_new() {
    let directory = directory();
    let path = directory.path().join("store");
    std::fs::write(&path, b"").unwrap();
    let opened = create(&path, MIB, true).unwrap();
    assert!(opened.created);
    assert_eq!(opened.device.size(), MIB);
}

#[test]
fn things_that_are_no_store_are_refused() {
    let null = Device::open("/dev/null".as_ref(), EXISTING).unwrap_err();
    assert!(matches!(null, OpenError::WrongKind { .. }), "{null}");
    let directory = directory();
    let folder = Device::open(directory.path(), EXISTING).unwrap_err();
    assert!(matches!(folder, OpenError::Open { .. }), "{folder}");
}

#[test]
fn a_tail_of_less_than_a_page_is_not_used() {
    let (_directory, path, device) = file(100_000, true);
    assert_eq!(device.size(), 98_304);
    drop(device);
    assert_eq!(create(&path, 100_000, false).unwrap().device.size(), 98_304);
}
