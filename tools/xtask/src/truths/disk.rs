//! A device limited to ten reads a second: a swap-in takes 100 ms.
//!
//! Objects are stored on a loop device at full speed, the proxy is stopped and started, so that its memory is empty, and the kernel's
//! throttle limits the device. One client then requests one object after the other; each is one read, and each read waits for its turn.
//!
//! The throttle grants its allowance at ticks of the kernel's clock, so a read takes some milliseconds more than 100. The duration is
//! measured by direct reads of our own on the throttled device, one between two requests; Figure 21 must show it.
//!
//! Limits: needs root, `losetup` and the block controller of cgroup v1.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Told;
use super::figures::Figures;
use super::verdict::Verdict;
use crate::block::Loop;
use crate::failure::{During, Failure, Result, fail};
use crate::http::{self, Client};
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::rivals::compare::disk::Throttle;
use crate::rivals::{Halt, Place, Request, Rival, launch};
use crate::size::Bytes;
use crate::workspace;

const READS_PER_SECOND: u32 = 10;
const OBJECTS: u64 = 100;
const OBJECT_BYTES: u64 = 32 << 10;
const DEVICE: Bytes = Bytes(256 << 20);
/// So little that almost nothing is answered from memory.
const MEMORY: Bytes = Bytes(1 << 20);
/// Each object is one read, at once: without the queue for slow disks, which would read neighbours together.
const CONFIGURATION: &str = "store.lazy-reads = 0\n";
/// Alignment and length of a direct read.
const BLOCK_BYTES: usize = 4096;
const START_MAX: Duration = Duration::from_secs(30);

/// Makes load, runs the report and compares.
pub fn tell() -> Result<Told> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Told::Untold("a loop device needs root".into()));
    }
    if workspace::program("losetup").is_none() || !Path::new("/sys/fs/cgroup/blkio").exists() {
        return Ok(Told::Untold(
            "needs losetup and the block controller of cgroup v1".into(),
        ));
    }
    let dir = workspace::run_dir();
    fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    let config = dir.join("truths-disk.toml");
    fs::write(&config, CONFIGURATION).during(|| format!("writing {}", config.display()))?;
    let image = dir.join("truths-disk.img");
    // The file may remain from a run that was killed.
    if let Err(e) = fs::remove_file(&image)
        && e.kind() != std::io::ErrorKind::NotFound
    {
        fail!("removing {}: {e}", image.display());
    }
    let device = Loop::attach(&image, DEVICE)?;
    let origin = Origin::start(0, 1)?;
    let mut running = launch(
        Rival::Loligo,
        &Request {
            profile: true,
            memory: MEMORY,
            cache: DEVICE,
            place: Place::Device(device.device.clone()),
            extra: vec!["-c".into(), config.display().to_string()],
            ..Request::of("truths-disk", origin.address())
        },
    )?;
    let path = |n: u64| origin::path(OBJECT_BYTES, &n.to_string());
    let is_right = |_, answer: &http::Answer| answer.status == 200;
    http::load(running.address, "storing", OBJECTS, 4, path, is_right)?;
    running.halt(Halt::Clean)?;
    let profile = running.run.join("requests.profile");
    let filled = running.run.join("fill.profile");
    fs::rename(&profile, &filled).during(|| "putting the first profile aside".into())?;
    running.start_again()?;
    let mut client = Client::new(running.address);
    if !interrupt::wait_until(START_MAX, || client.get("/nothing").is_ok())? {
        fail!("the proxy does not start again");
    }
    let throttle = Throttle::set(&device.device, READS_PER_SECOND)?;
    let mut reads = DirectReads::open(&device.device)?;
    let mut own = Vec::new();
    let before = origin.served();
    let mut waited = Vec::new();
    for n in 0..OBJECTS {
        interrupt::check()?;
        let asked = Instant::now();
        let answer = client.get(&path(n))?;
        waited.push(asked.elapsed());
        own.push(reads.read()?);
        if answer.status != 200 || answer.body.len() as u64 != OBJECT_BYTES {
            fail!("status {}, {} bytes", answer.status, answer.body.len());
        }
    }
    drop(throttle);
    let from_origin = origin.served() - before;
    running.stop()?;
    waited.sort();
    own.sort();
    let own_ms = own[own.len() / 2].as_secs_f64() * 1e3;
    let set_ms = 1e3 / f64::from(READS_PER_SECOND);
    let figures = Figures::of(&profile, 3600)?;
    let found = figures.day("21", "swap-in", "p50")?;
    Ok(Told::Verdicts(vec![
        Verdict::near(
            format!(
                "Figure 21, swap-in, ms: a direct read of the throttled device (set to {set_ms:.0})"
            ),
            own_ms,
            found,
            0.10,
        ),
        Verdict::near(
            "Figure 21, swap-in, ms: what the client waited for",
            waited[waited.len() / 2].as_secs_f64() * 1e3,
            found,
            0.10,
        ),
        Verdict::same(
            "objects read from the device and not fetched",
            0,
            from_origin,
        ),
    ]))
}

/// Reads of a device past the page cache, one block after the other.
struct DirectReads {
    file: File,
    memory: Vec<u8>,
    next: u64,
}

impl DirectReads {
    fn open(device: &Path) -> Result<Self> {
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag of open fits");
        let file = File::options()
            .read(true)
            .custom_flags(direct)
            .open(device)
            .during(|| format!("opening {}", device.display()))?;
        Ok(Self {
            file,
            memory: vec![0; 2 * BLOCK_BYTES],
            next: 0,
        })
    }

    /// Reads the next block; returns how long that took.
    fn read(&mut self) -> Result<Duration> {
        let skip = BLOCK_BYTES - self.memory.as_ptr() as usize % BLOCK_BYTES;
        let block = (self.memory.get_mut(skip..skip + BLOCK_BYTES))
            .ok_or_else(|| Failure::new("no aligned memory"))?;
        let begun = Instant::now();
        self.file
            .read_exact_at(block, self.next)
            .during(|| "a direct read".into())?;
        // The kernel would merge reads of adjacent blocks.
        self.next += 16 * BLOCK_BYTES as u64;
        Ok(begun.elapsed())
    }
}
