//! Opening: what is created, kept, refused, and what the messages say.

use crate::common::*;
use device::{Access, Device, OpenError, OpenOptions};

const MIB: u64 = 1 << 20;

const EXISTING: OpenOptions = OpenOptions {
    size_bytes: None,
    create: false,
    direct: false,
    force: false,
    access: Access::Exclusive,
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
fn readers_share_a_file_and_change_nothing() {
    let (_directory, path, device) = file(MIB, true);
    device.write_all_sync(5000, b"squid").unwrap();
    let reader = OpenOptions {
        access: Access::ReadOnly,
        direct: true,
        ..EXISTING
    };
    let refused = Device::open(&path, reader).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    let me = format!("(pid {}", std::process::id());
    assert!(refused.to_string().contains(&me), "{refused}");
    drop(device);
    let (one, two) = (
        Device::open(&path, reader).unwrap(),
        Device::open(&path, reader).unwrap(),
    );
    let mut out = [0; 5];
    two.device.read_exact_sync(5000, &mut out).unwrap();
    assert_eq!(&out, b"squid");
    assert!(one.device.write_all_sync(0, &[1; 4096]).is_err());
    assert!(one.device.wipe_signatures().is_err());
    let create = OpenOptions {
        create: true,
        size_bytes: Some(MIB),
        ..reader
    };
    let missing = Device::open(&path.with_extension("new"), create).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    std::fs::write(path.with_extension("empty"), b"").unwrap();
    let empty = Device::open(&path.with_extension("empty"), create).unwrap_err();
    assert!(matches!(empty, OpenError::SizeNeeded { .. }), "{empty}");
}

#[test]
fn a_reader_takes_no_space_for_a_sparse_file() {
    use std::os::unix::fs::MetadataExt;
    let directory = directory();
    let path = directory.path().join("store");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(4 * MIB)
        .unwrap();
    let reader = OpenOptions {
        access: Access::ReadOnly,
        ..EXISTING
    };
    Device::open(&path, reader).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().blocks(), 0);
    Device::open(&path, EXISTING).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 4 * MIB);
}

#[test]
fn a_disk_image_is_refused_untouched_and_taken_by_force() {
    use std::os::unix::fs::MetadataExt;
    let directory = directory();
    let path = directory.path().join("image");
    // Sparse, and of an odd size: the mark of a GPT lies in a last sector that a store would not use.
    let size = 4 * MIB + 512;
    let image = std::fs::File::create(&path).unwrap();
    image.set_len(size).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, b"EFI PART", size - 512).unwrap();
    let blocks = image.metadata().unwrap().blocks();
    for access in [Access::Exclusive, Access::ReadOnly] {
        let refused = Device::open(&path, OpenOptions { access, ..EXISTING }).unwrap_err();
        assert!(
            matches!(refused, OpenError::Signature { name: "a GPT partition table", at, .. } if at == size - 512),
            "{refused}"
        );
    }
    assert_eq!(
        image.metadata().unwrap().blocks(),
        blocks,
        "nothing was claimed"
    );
    let forced = OpenOptions {
        force: true,
        direct: true,
        ..EXISTING
    };
    let opened = Device::open(&path, forced).unwrap();
    opened.device.wipe_signatures().unwrap();
    drop(opened);
    assert_eq!(image.metadata().unwrap().len(), size);
    Device::open(&path, EXISTING).unwrap();
}

#[test]
fn no_file_is_created_among_the_devices() {
    let path = "/dev/no-such-disk-of-squid";
    let refused = create(path.as_ref(), MIB, false).unwrap_err();
    assert!(matches!(refused, OpenError::NoDevice { .. }), "{refused}");
    assert!(!std::path::Path::new(path).exists());
}

#[test]
fn file_systems_made_by_the_tools_are_seen_in_files() {
    use std::process::Command;
    const TOOLS: &[(&str, &[&str], &str)] = &[
        ("mkfs.ext2", &["-q", "-F"], "an ext2 file system"),
        ("mkfs.ext3", &["-q", "-F"], "an ext3 file system"),
        ("mkfs.ext4", &["-q", "-F"], "an ext4 file system"),
        ("mkfs.xfs", &["-q", "-f"], "an XFS file system"),
        ("mkfs.btrfs", &["-q", "-f"], "a btrfs file system"),
        ("mkfs.f2fs", &["-q", "-f"], "an F2FS file system"),
        ("mkfs.vfat", &[], "a FAT file system"),
        ("mkfs.exfat", &[], "an exFAT file system"),
        ("mkfs.ntfs", &["-q", "-Q", "-F"], "an NTFS file system"),
        ("mkfs.jfs", &["-q"], "a JFS file system"),
        ("mkfs.nilfs2", &["-q", "-f"], "a NILFS2 file system"),
        ("mkfs.erofs", &[], "an EROFS file system"),
        ("mkswap", &[], "swap space"),
        (
            "cryptsetup",
            &[
                "luksFormat",
                "--batch-mode",
                "--pbkdf=pbkdf2",
                "--pbkdf-force-iterations=1000",
                "--key-file=/dev/urandom",
                "--keyfile-size=32",
            ],
            "a LUKS encrypted volume",
        ),
    ];
    let directory = directory();
    for (tool, arguments, name) in TOOLS {
        let path = directory.path().join(tool);
        std::fs::File::create(&path)
            .unwrap()
            .set_len(512 * MIB)
            .unwrap();
        // EROFS takes a folder to put in, too.
        let source =
            (*tool == "mkfs.erofs").then(|| env!("CARGO_MANIFEST_DIR").to_owned() + "/benches");
        match Command::new(tool)
            .args(*arguments)
            .arg(&path)
            .args(source)
            .output()
        {
            Ok(output) if output.status.success() => {
                let refused = Device::open(&path, EXISTING).unwrap_err();
                assert!(
                    refused.to_string().contains(&format!("carries {name} at")),
                    "{tool}: {refused}"
                );
            }
            output => eprintln!("skipped {tool}: {output:?}"),
        }
        std::fs::remove_file(&path).unwrap();
    }
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

#[test]
fn an_empty_file_taken_for_a_store_is_its_owners_alone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = directory();
    let path = directory.path().join("store");
    let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
    let open_to_all = || {
        let rights = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, rights).unwrap();
    };
    std::fs::write(&path, b"").unwrap();
    open_to_all();
    create(&path, MIB, false).unwrap();
    assert_eq!(mode(), 0o600);
    // Afterwards they are what its owner makes them.
    open_to_all();
    Device::open(&path, EXISTING).unwrap();
    assert_eq!(mode(), 0o644);
}

#[test]
fn a_short_file_of_somebody_elses_is_not_called_new() {
    let directory = directory();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, b"remember the milk").unwrap();
    let refused = Device::open(&path, EXISTING).unwrap_err();
    assert!(
        matches!(refused, OpenError::TooShort { found: 17, .. }),
        "{refused}"
    );
    assert!(!refused.to_string().contains("new:"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"remember the milk");
}
