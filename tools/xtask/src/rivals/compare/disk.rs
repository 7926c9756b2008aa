//! The disk under a proxy: a loop device of its own, slow if wanted, and a measurement that proves its limit.
//!
//! A *slow* disk is a loop device whose reads and writes a second are limited by the kernel's block throttle, whatever
//! their size, like those of a disk with one head. The limit is set in the root group (cgroup v1), where write-back of
//! buffered data is counted, too. A second limit bounds the written data that may wait in memory
//! ([`DirtyLimit`]); without it the page cache of a large machine would absorb all writes of a short run.
//! A *fast* disk is the same device without limits: a file on the real disk, on which nothing else is counted.
//!
//! Dropping undoes everything, in this order: limits, file system, device, file.
//!
//! Not known here: proxies.   Limits: needs root, `losetup`, and for a slow disk the block controller of cgroup v1.
//! Source: issue 6; Documentation/admin-guide/cgroup-v1/blkio-controller, Documentation/ABI/testing/sysfs-class-bdi.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;

use crate::block::{Loop, Mounted};
use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::size::Bytes;

const BLKIO: &str = "/sys/fs/cgroup/blkio";
const READS: &str = "blkio.throttle.read_iops_device";
const WRITES: &str = "blkio.throttle.write_iops_device";

/// How many files are written to prove the limit, as in the issue that asked for it.
const PROOF_FILES: u32 = 300;
const PROOF_FILE_BYTES: usize = 10_000;
const PROOF_DEVICE: Bytes = Bytes(192 << 20);
const PROOF_TIME: Duration = Duration::from_secs(2);
/// Random transfers of the proof, and their alignment for O_DIRECT.
const PROOF_BLOCK_BYTES: usize = 4096;
/// The throttle grants operations in slices of time, so a short measurement may be a little off.
const PROOF_SLACK: f64 = 1.25;

/// Which disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Speed {
    /// 100 reads and 100 writes a second
    Slow,
    /// the real disk
    Fast,
}

/// Requests a second that a slow disk takes, of each sort.
pub const SLOW_IOPS: u32 = 100;

impl Speed {
    /// Its limit, if it has one.
    pub fn iops(self) -> Option<u32> {
        match self {
            Self::Slow => Some(SLOW_IOPS),
            Self::Fast => None,
        }
    }
}

/// The kernel's name of a device: "7:3".
fn number(device: &Path) -> Result<String> {
    let meta = fs::metadata(device).during(|| format!("looking at {}", device.display()))?;
    let (major, minor) = (
        rustix::fs::major(meta.rdev()),
        rustix::fs::minor(meta.rdev()),
    );
    Ok(format!("{major}:{minor}"))
}

/// A limit on the reads and writes a second of a device; dropping it lifts the limit.
#[derive(Debug)]
pub struct Throttle {
    number: String,
    groups: Vec<PathBuf>,
}

impl Throttle {
    /// Limits the device from now on.
    pub fn set(device: &Path, iops: u32) -> Result<Self> {
        let root = PathBuf::from(BLKIO);
        if !root.join(READS).exists() {
            fail!(
                "{BLKIO} has no {READS}: mount the blkio controller of cgroup v1 there, or use --disk fast"
            );
        }
        // Direct transfers count where the process is, write-back counts in the root.
        let mut groups = vec![root.clone()];
        groups.extend(own_group().map(|own| root.join(own)));
        let throttle = Self {
            number: number(device)?,
            groups,
        };
        throttle.write(iops)?;
        Ok(throttle)
    }

    fn write(&self, iops: u32) -> Result<()> {
        let line = format!("{} {iops}", self.number);
        for file in self
            .groups
            .iter()
            .flat_map(|g| [g.join(READS), g.join(WRITES)])
        {
            fs::write(&file, &line).during(|| format!("writing {line:?} to {}", file.display()))?;
        }
        Ok(())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // 0 takes the rule away.
        if let Err(failure) = self.write(0) {
            eprintln!("{failure}");
        }
    }
}

/// Our own group of the block controller below its root, if we are not in the root.
fn own_group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    group_in(&text, "blkio")
}

fn group_in(text: &str, controller: &str) -> Option<PathBuf> {
    let line = text.lines().find(|line| {
        let mut parts = line.splitn(3, ':');
        parts
            .nth(1)
            .is_some_and(|names| names.split(',').any(|name| name == controller))
    })?;
    let path = line
        .splitn(3, ':')
        .nth(2)?
        .trim_start_matches('/')
        .to_owned();
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// How much written data of a device may wait in memory; dropping it lifts the limit.
#[derive(Debug)]
pub struct DirtyLimit(PathBuf);

impl DirtyLimit {
    /// Limits the device from now on.
    pub fn set(device: &Path, bytes: Bytes) -> Result<Self> {
        let dir = PathBuf::from("/sys/class/bdi").join(number(device)?);
        let limit = Self(dir);
        // Set the strict limit first: without it, a share of the machine's memory does not bind a device that is alone in writing.
        limit.write("strict_limit", "1")?;
        limit.write("max_bytes", &bytes.0.to_string())?;
        Ok(limit)
    }

    fn write(&self, name: &str, value: &str) -> Result<()> {
        let file = self.0.join(name);
        fs::write(&file, value).during(|| {
            format!(
                "writing {value} to {} (the kernel needs 6.2 or later)",
                file.display()
            )
        })
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        for (name, value) in [("max_ratio", "100"), ("strict_limit", "0")] {
            if let Err(failure) = self.write(name, value) {
                eprintln!("{failure}");
            }
        }
    }
}

/// The measured speed of a disk before the runs.
#[derive(Debug, Clone, Serialize)]
pub struct Proof {
    pub files: u32,
    pub file_bytes: usize,
    /// seconds to write and sync the files
    pub files_s: f64,
    /// random direct reads of 4 KiB, one at a time
    pub reads_per_s: f64,
    /// random direct writes of 4 KiB, one at a time
    pub writes_per_s: f64,
}

impl Proof {
    /// Measures a device made for it in `dir`, limited like the later ones.
    pub fn measure(speed: Speed, dirty: Bytes, dir: &Path) -> Result<Self> {
        let device = Loop::attach(&dir.join("proof.img"), PROOF_DEVICE)?;
        let mounted = Mounted::fresh(&device.device, &dir.join("proof"))?;
        let limits = limit(&device.device, speed, dirty)?;
        let begun = Instant::now();
        let content = vec![0x5A; PROOF_FILE_BYTES];
        for n in 0..PROOF_FILES {
            let path = mounted.dir.join(format!("{n}"));
            fs::write(&path, &content).during(|| format!("writing {}", path.display()))?;
            interrupt::check()?;
        }
        let root = File::open(&mounted.dir).during(|| "opening the mount".into())?;
        rustix::fs::syncfs(&root).during(|| "syncing the mount".into())?;
        let files_s = begun.elapsed().as_secs_f64();
        drop(root);
        drop(mounted);
        let reads_per_s = direct(&device.device, false)?;
        let writes_per_s = direct(&device.device, true)?;
        drop(limits);
        let proof = Self {
            files: PROOF_FILES,
            file_bytes: PROOF_FILE_BYTES,
            files_s,
            reads_per_s,
            writes_per_s,
        };
        proof.check(speed)?;
        Ok(proof)
    }

    /// An error if a slow disk is not slow.
    fn check(&self, speed: Speed) -> Result<()> {
        let Some(iops) = speed.iops() else {
            return Ok(());
        };
        let most = f64::from(iops) * PROOF_SLACK;
        let least_s = f64::from(self.files) / most;
        if self.reads_per_s > most || self.writes_per_s > most || self.files_s < least_s {
            fail!(
                "the disk is not held to {iops} a second: {}",
                self.sentence()
            );
        }
        Ok(())
    }

    /// For the report.
    pub fn sentence(&self) -> String {
        format!(
            "{} files of {} bytes and a sync took {:.2} s; random direct transfers of 4 KiB, one at a time: {:.0} reads/s, {:.0} writes/s",
            self.files, self.file_bytes, self.files_s, self.reads_per_s, self.writes_per_s
        )
    }
}

/// The limits of a disk of this speed; on a fast one none.
pub fn limit(device: &Path, speed: Speed, dirty: Bytes) -> Result<Option<(DirtyLimit, Throttle)>> {
    let Some(iops) = speed.iops() else {
        return Ok(None);
    };
    let dirty = DirtyLimit::set(device, dirty)?;
    Ok(Some((dirty, Throttle::set(device, iops)?)))
}

/// Direct transfers a second at random places.
fn direct(device: &Path, write: bool) -> Result<f64> {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag of open fits");
    let file = File::options()
        .read(!write)
        .write(write)
        .custom_flags(direct)
        .open(device)
        .during(|| format!("opening {}", device.display()))?;
    let mut memory = vec![0_u8; 2 * PROOF_BLOCK_BYTES];
    let skip = PROOF_BLOCK_BYTES - memory.as_ptr() as usize % PROOF_BLOCK_BYTES;
    let block = memory
        .get_mut(skip..skip + PROOF_BLOCK_BYTES)
        .ok_or_else(|| Failure::new("no aligned memory"))?;
    let blocks = PROOF_DEVICE.0 / PROOF_BLOCK_BYTES as u64;
    let (begun, mut done, mut place) = (Instant::now(), 0_u32, 1_u64);
    while begun.elapsed() < PROOF_TIME {
        interrupt::check()?;
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (place >> 33) % blocks * PROOF_BLOCK_BYTES as u64;
        if write {
            file.write_all_at(block, at)
        } else {
            file.read_exact_at(block, at)
        }
        .during(|| format!("direct transfer on {}", device.display()))?;
        done += 1;
    }
    (&file).flush().during(|| "flushing".into())?;
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_not_slow_is_found_out() {
        let slow = Proof {
            files: 300,
            file_bytes: 10_000,
            files_s: 4.2,
            reads_per_s: 101.0,
            writes_per_s: 100.0,
        };
        slow.check(Speed::Slow).unwrap();
        for proof in [
            Proof {
                files_s: 0.2,
                ..slow.clone()
            },
            Proof {
                reads_per_s: 9000.0,
                ..slow.clone()
            },
            Proof {
                writes_per_s: 150.0,
                ..slow
            },
        ] {
            assert!(proof.check(Speed::Slow).is_err());
            proof.check(Speed::Fast).unwrap();
        }
    }

    #[test]
    fn the_root_group_is_no_group_of_ones_own() {
        let text = "8:pids:/\n7:blkio:/\n6:cpu,cpuacct:/a/b\n0::/\n";
        assert_eq!(group_in(text, "blkio"), None);
        assert_eq!(group_in(text, "cpuacct"), Some(PathBuf::from("a/b")));
        assert_eq!(group_in(text, "memory"), None);
    }
}
