//! Real block devices: loop devices over temporary files.
//!
//! They need root and `losetup`; without, each test says so and passes. What a test attaches and mounts is taken apart
//! also when it fails.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::*;
use bytes::Bytes;
use device::{Access, AlignedBuf, Device, EngineKind, IoFault, OpenError, OpenOptions, Opened};

const MIB: u64 = 1 << 20;

const DIRECT: OpenOptions = OpenOptions {
    size_bytes: None,
    create: false,
    direct: true,
    force: false,
    access: Access::Exclusive,
};
const FORCED: OpenOptions = OpenOptions {
    force: true,
    ..DIRECT
};
const READ_ONLY: OpenOptions = OpenOptions {
    access: Access::ReadOnly,
    ..DIRECT
};

/// A loop device, its file, and perhaps a mount.
struct Loop {
    path: PathBuf,
    backing: PathBuf,
    attached: bool,
    mounted: bool,
    directory: tempfile::TempDir,
}

impl Loop {
    /// `None`, with a word to the reader, where there can be none.
    fn attach(size: u64, options: &[&str]) -> Option<Self> {
        let directory = directory();
        let backing = directory.path().join("backing");
        std::fs::File::create(&backing)
            .unwrap()
            .set_len(size)
            .unwrap();
        let mut output = None;
        // Two that ask for a free one at the same time may get the same: the later fails.
        for _ in 0..5 {
            let mut command = Command::new("losetup");
            command
                .args(options)
                .args(["--find", "--show"])
                .arg(&backing);
            output = command.output().ok();
            if output
                .as_ref()
                .is_some_and(|output| output.status.success())
            {
                break;
            }
        }
        let path = match output {
            Some(output) if output.status.success() => {
                String::from_utf8(output.stdout).unwrap().trim().into()
            }
            output => {
                eprintln!("skipped, no loop device: {output:?}");
                return None;
            }
        };
        Some(Self {
            path,
            backing,
            attached: true,
            mounted: false,
            directory,
        })
    }

    fn mount(&mut self, what: &Path) -> Result<PathBuf, String> {
        // A space in the name, which the mount table writes in its own way.
        let at = self.directory.path().join("mount point");
        std::fs::create_dir(&at).unwrap();
        run("mount", &[what.to_str().unwrap(), at.to_str().unwrap()])?;
        self.mounted = true;
        Ok(std::fs::canonicalize(at).unwrap())
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            let _ = Command::new("umount")
                .arg(self.directory.path().join("mount point"))
                .output();
        }
    }

    /// Once: later the device may be somebody else's.
    fn detach(&mut self) {
        if std::mem::take(&mut self.attached) {
            let _ = Command::new("losetup")
                .arg("--detach")
                .arg(&self.path)
                .output();
        }
    }

    fn open(&self, options: OpenOptions) -> Result<Opened, OpenError> {
        Device::open(&self.path, options)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let file = std::fs::File::options()
            .write(true)
            .open(&self.path)
            .unwrap();
        file.write_all_at(bytes, at).unwrap();
        file.sync_all().unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        self.detach();
    }
}

/// Runs a tool; what went wrong, in words.
fn run(tool: &str, arguments: &[&str]) -> Result<Output, String> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => Err(format!(
            "{tool}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!("{tool}: {error}")),
    }
}

/// Runs a test on its own thread: a hang becomes a failure.
fn within_seconds(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, waiter) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match waiter.recv_timeout(Duration::from_secs(seconds)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn a_disk_is_written_and_read_with_every_engine_and_no_other_may_open_it() {
    let Some(disk) = Loop::attach(8 * MIB, &[]) else {
        return;
    };
    for kind in kinds() {
        let opened = disk.open(DIRECT).unwrap();
        assert!(!opened.created);
        assert_eq!(opened.device.size(), 8 * MIB);
        let device = opened.device;
        on_worker(kind, device, async |engine| {
            let data = pattern(4096, 65_536);
            engine
                .write(4096, AlignedBuf::copy_of(&data).into_bytes())
                .await
                .unwrap();
            engine.flush().await.unwrap();
            assert!(engine.read(4096, 65_536).await.unwrap() == data);
            assert_eq!(engine.latency().reads, 1);
            // Each takes the second that a dying process is given.
            let refused = match kind {
                EngineKind::Uring => [FORCED].as_slice(),
                _ => &[READ_ONLY],
            };
            for options in refused {
                let refused = disk.open(*options).unwrap_err();
                assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
                let me = format!("(pid {}", std::process::id());
                assert!(refused.to_string().contains(&me), "{refused}");
            }
        });
    }
    // Bytes of nobody's are nobody's business.
    disk.open(DIRECT).unwrap();
}

#[test]
fn readers_share_a_disk_and_cannot_write() {
    let Some(disk) = Loop::attach(8 * MIB, &[]) else {
        return;
    };
    let (one, two) = (disk.open(READ_ONLY).unwrap(), disk.open(READ_ONLY).unwrap());
    assert!(matches!(disk.open(DIRECT), Err(OpenError::InUse { .. })));
    assert!(one.device.write_all_sync(0, &[1; 4096]).is_err());
    assert!(two.device.wipe_signatures().is_err());
    two.device.read_exact_sync(0, &mut [0; 4096]).unwrap();
    drop((one, two));
    disk.open(DIRECT).unwrap();
}

#[test]
fn a_file_system_is_refused_and_taken_by_force_and_never_while_it_is_mounted() {
    let Some(mut disk) = Loop::attach(16 * MIB, &[]) else {
        return;
    };
    if let Err(why) = run("mkfs.ext4", &["-q", "-F", disk.path.to_str().unwrap()]) {
        return eprintln!("skipped: {why}");
    }
    let refused = disk.open(DIRECT).unwrap_err();
    let path = disk.path.display();
    assert_eq!(
        refused.to_string(),
        format!(
            "{path} carries an ext4 file system at byte 1080; nothing was written. If it is not needed: \
             loligo store init --force {path}"
        )
    );
    match disk.mount(&disk.path.clone()) {
        Ok(at) => {
            for options in [DIRECT, FORCED] {
                let asked = Instant::now();
                let refused = disk.open(options).unwrap_err();
                assert!(
                    matches!(&refused, OpenError::Mounted { mounted_on, .. } if *mounted_on == at),
                    "{refused}"
                );
                assert!(
                    asked.elapsed() < Duration::from_millis(500),
                    "nothing to wait for"
                );
            }
            disk.unmount();
        }
        Err(why) => eprintln!("not mounted: {why}"),
    }
    assert!(matches!(
        disk.open(DIRECT),
        Err(OpenError::Signature { .. })
    ));
    let forced = disk.open(FORCED).unwrap();
    forced.device.wipe_signatures().unwrap();
    let mut end = vec![1; 4096];
    forced
        .device
        .read_exact_sync(16 * MIB - 4096, &mut end)
        .unwrap();
    assert_eq!(end, [0; 4096]);
    drop(forced);
    disk.open(DIRECT).unwrap();
}

#[test]
fn a_disk_with_partitions_is_refused_until_they_are_wiped() {
    let Some(mut disk) = Loop::attach(16 * MIB, &["--partscan"]) else {
        return;
    };
    // One partition of 8 MiB from 1 MiB on, of type Linux.
    let mut table = [0; 512];
    table[446..462].copy_from_slice(b"\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x40\0\0");
    table[510..].copy_from_slice(b"\x55\xaa");
    disk.put(0, &table);
    let refused = disk.open(DIRECT).unwrap_err();
    assert!(
        matches!(refused, OpenError::Signature { at: 510, .. }),
        "{refused}"
    );
    let partition = PathBuf::from(format!("{}p1", disk.path.display()));
    // Not every kernel reads the table by itself; told so, all believe in the partition.
    if let Err(why) = run(
        "addpart",
        &[disk.path.to_str().unwrap(), "1", "2048", "16384"],
    ) {
        return eprintln!("skipped: {why}");
    }
    // The table is gone, but the kernel still has the partition.
    disk.put(0, &[0; 512]);
    let refused = disk.open(DIRECT).unwrap_err();
    assert!(refused.to_string().contains("p1)"), "{refused}");
    assert!(
        matches!(refused, OpenError::Partitioned { .. }),
        "{refused}"
    );
    let part = Device::open(&partition, DIRECT).unwrap();
    assert_eq!(part.device.size(), 8 * MIB);
    assert!(
        matches!(disk.open(FORCED), Err(OpenError::InUse { .. })),
        "a part is in use"
    );
    drop(part);
    if run("mkfs.ext4", &["-q", "-F", partition.to_str().unwrap()]).is_ok()
        && let Ok(at) = disk.mount(&partition)
    {
        let refused = disk.open(FORCED).unwrap_err();
        assert!(
            matches!(&refused, OpenError::Mounted { mounted_on, .. } if *mounted_on == at),
            "{refused}"
        );
        disk.unmount();
    }
    disk.open(FORCED).unwrap().device.wipe_signatures().unwrap();
    disk.open(DIRECT).expect("the partition is forgotten");
}

#[test]
fn swap_made_by_the_tool_is_seen() {
    let Some(disk) = Loop::attach(8 * MIB, &[]) else {
        return;
    };
    if let Err(why) = run("mkswap", &[disk.path.to_str().unwrap()]) {
        return eprintln!("skipped: {why}");
    }
    let refused = disk.open(DIRECT).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("carries swap space at byte 4086"),
        "{refused}"
    );
}

/// The file under the disk is cut, as if half of the disk had died; then the disk notices how small it is.
#[test]
fn a_dying_disk_gives_errors_and_never_a_hang() {
    let Some(disk) = Loop::attach(8 * MIB, &[]) else {
        return;
    };
    within_seconds(20, move || {
        let cut = |size| {
            let file = std::fs::File::options().write(true).open(&disk.backing);
            file.unwrap().set_len(size).unwrap();
        };
        for kind in kinds() {
            cut(8 * MIB);
            run("losetup", &["--set-capacity", disk.path.to_str().unwrap()]).unwrap();
            let device = disk.open(DIRECT).unwrap().device;
            on_worker(kind, device, async |engine| {
                let page = || Bytes::from(vec![7; 4096]);
                engine.write(6 * MIB, page()).await.unwrap();
                engine.flush().await.unwrap();
                cut(4 * MIB);
                let dead = engine.read(6 * MIB, 4096).await;
                let eio = |fault: &IoFault| {
                    matches!(fault, IoFault::Device { at, source, .. }
                        if *at == 6 * MIB && source.raw_os_error() == Some(5))
                };
                assert!(dead.as_ref().is_err_and(eio), "{dead:?}");
                engine.read(MIB, 4096).await.expect("the other half lives");
                run("losetup", &["--set-capacity", disk.path.to_str().unwrap()]).unwrap();
                let gone = engine.read(6 * MIB, 4096).await;
                assert!(
                    matches!(gone, Err(IoFault::Short { got: 0, .. })),
                    "{gone:?}"
                );
                let lost = engine.write(6 * MIB, page()).await;
                assert!(matches!(lost, Err(IoFault::Device { .. })), "{lost:?}");
                let across = engine.read(4 * MIB - 4096, 8192).await;
                assert!(
                    matches!(across, Err(IoFault::Short { got: 4096, .. })),
                    "{across:?}"
                );
                engine.flush().await.unwrap();
                assert_eq!(engine.in_flight(), 0);
            });
        }
    });
}

/// Detached while it is open: the kernel keeps it until it is closed.
#[test]
fn a_disk_that_is_taken_away_works_until_it_is_closed() {
    let Some(mut disk) = Loop::attach(8 * MIB, &[]) else {
        return;
    };
    within_seconds(20, move || {
        let device = disk.open(DIRECT).unwrap().device;
        disk.detach();
        on_worker(kinds()[0], device, async |engine| {
            engine.write(0, Bytes::from(vec![7; 4096])).await.unwrap();
            engine.flush().await.unwrap();
            assert_eq!(engine.read(0, 4096).await.unwrap(), vec![7; 4096]);
        });
    });
}
