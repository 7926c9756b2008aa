//! `cargo xtask bench store-io`: the disk operations per object, counted by the kernel.
//!
//! Loligo's store is smaller than the bytes that pass through it. It is filled until every byte of the store was written once,
//! and then gets as many distinct objects again: opens, closes and unlinks are counted by strace, writes and bytes by
//! the block device. Afterwards objects that are still stored are requested once each, in scattered order, and the device's
//! reads are counted.
//!
//! On `loop` the store lies alone on an ext4 of its own on a loop device, so that only it and the file system's journal are
//! counted. On `file` it lies in a directory, and the counters are those of the whole device beneath.
//!
//! The device may have slightly more or fewer reads than one a hit: the file system reads its own map of the file, and the
//! kernel joins neighbours. [`READS_SLACK`] is the tolerance; Loligo's own counter, printed beside, must be exact.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::sheet::{Column, Figure, Sheet, Want};
use crate::block::{self, DeviceStat, Loop, Mounted};
use crate::failure::{During, Result, fail};
use crate::http::{self, Client};
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::procfs::Io;
use crate::rivals::{Place, Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;
use crate::strace::{CLOSES, OPENS, RENAMES, Strace, UNLINKS};
use crate::workspace;

/// The tolerance for device reads a hit, up and down.
const READS_SLACK: f64 = 0.02;
/// Longer than any write waits for company.
const SETTLE: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 16;
/// The file system's own share of its device.
const FILE_SYSTEM_BYTES: u64 = 128 << 20;
const READ_BACK_MAX: u64 = 20_000;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Distinct objects while counting
    #[arg(long, default_value_t = 100_000)]
    objects: u64,
    /// Their size
    #[arg(long, default_value = "10KiB")]
    size: Bytes,
    /// Must be smaller than all of them together
    #[arg(long, default_value = "512MiB")]
    store_size: Bytes,
    /// Where the store lies: alone on a loop device, or in a directory; loop if it can be
    #[arg(long, value_enum)]
    on: Option<On>,
    /// The same as --on loop
    #[arg(long = "loop", conflicts_with = "on")]
    on_loop: bool,
    /// The I/O engine to ask for
    #[arg(long, default_value = "auto")]
    io_engine: String,
    /// Load without strace (its stops slow the server), so without the count of file calls
    #[arg(long)]
    no_strace: bool,
}

/// Where the store lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Loop,
    File,
}

/// A file system of our own, undone in this order: unmount, detach, remove.
struct TestBed {
    mounted: Mounted,
    _device: Loop,
}

/// The counters at one moment.
struct Counters {
    device: DeviceStat,
    io: Io,
    store_reads: Option<f64>,
    origin: u64,
}

/// Measures and prints; fails if a target is missed.
pub fn run(options: &Options) -> Result<()> {
    if options.objects * options.size.0 <= options.store_size.0 {
        fail!("the objects fit into the store; more of them, or a smaller store");
    }
    build_loligo()?;
    let on = match options.on {
        Some(on) => on,
        None if options.on_loop || rustix::process::geteuid().is_root() => On::Loop,
        None => On::File,
    };
    let dir = workspace::run_dir().join("store-io");
    std::fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    let test_bed = match on {
        On::Loop => Some(make_test_bed(&dir, options.store_size)?),
        On::File => None,
    };
    let place = test_bed.as_ref().map(|g| g.mounted.dir.clone());
    let sheet = measure(options, place, &dir);
    drop(test_bed);
    sheet?.finish(false)
}

fn make_test_bed(dir: &std::path::Path, store: Bytes) -> Result<TestBed> {
    let image = dir.join("device.img");
    let size = Bytes(store.0 + store.0 / 20 + FILE_SYSTEM_BYTES);
    let device = Loop::attach(&image, size)?;
    let mounted = Mounted::fresh(&device.device, &dir.join("mount"))?;
    Ok(TestBed {
        mounted,
        _device: device,
    })
}

fn measure(options: &Options, place: Option<PathBuf>, dir: &std::path::Path) -> Result<Sheet> {
    let origin = Origin::start(0, 1)?;
    let on = if place.is_some() {
        "a loop device of its own"
    } else {
        "a directory: the counters are those of the whole device beneath, others included"
    };
    let running = launch(
        Rival::Loligo,
        &Request {
            cache: options.store_size,
            memory: Bytes(1 << 20),
            place: place.map_or(Place::RunDir, Place::Dir),
            extra: vec!["--io-engine".into(), options.io_engine.clone()],
            ..Request::of("bench-store-io", origin.address())
        },
    )?;
    running.await_caching(&origin)?;
    println!("store of {} on {on}", options.store_size);

    // Write every byte of the store once, so that later writes overwrite.
    let round = options.store_size.0 / options.size.0 + 1;
    let round = round + round / 10;
    load(&running, options, "overwriting the store", round, "f")?;

    let mut column = Column::new("");
    store_all(options, &running, &origin, dir, &mut column)?;
    read_back(options, &running, &origin, &mut column)?;
    running.stop()?;
    let mut sheet = Sheet::new("store-io");
    sheet.push(column);
    Ok(sheet)
}

/// Stores the objects, and counts what that takes.
fn store_all(
    options: &Options,
    running: &Running,
    origin: &Origin,
    dir: &std::path::Path,
    column: &mut Column,
) -> Result<()> {
    let strace = match options.no_strace {
        true => None,
        false => {
            let calls = [&OPENS[..], &CLOSES, &UNLINKS, &RENAMES].concat();
            Some(Strace::attach(&running.roots(), &calls, dir)?)
        }
    };
    let before = settled(running, origin)?;
    load(running, options, "storing", options.objects, "o")?;
    let after = settled(running, origin)?;
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    let mut other_closes = 0_u64;
    let watched = strace.is_some();
    if let Some(strace) = strace {
        strace.finish(|_, call, about| {
            // The metrics requests before and after make the server read these.
            if about.starts_with("/proc/") {
                return;
            }
            // Sockets, pipes and the like come and go with connections.
            match CLOSES.contains(&call) && !about.starts_with(['/', '?']) {
                true => other_closes += 1,
                false => *files.entry(format!("{call} {about}")).or_default() += 1,
            }
        })?;
    }

    let fetched = after.origin - before.origin;
    if fetched < options.objects {
        fail!("some objects did not come from the origin: they were stored before");
    }
    let objects = options.objects as f64;
    column.add("objects stored", 0, options.objects);
    column.add("- of bytes each", 0, options.size.0);
    if watched {
        for (call, times) in files.iter().take(20) {
            println!("  {times} x {call}");
        }
        column.add("closes of sockets and the like (strace)", 0, other_closes);
        let calls: u64 = files.values().sum();
        column.target(
            "open, close, unlink of files (strace)",
            0,
            calls,
            Want::AtMost(0.0),
        );
    }
    let device = after.device.since(&before.device);
    let io = after.io.since(&before.io);
    let write_kib = device.write_bytes as f64 / 1024.0 / device.writes.max(1) as f64;
    let writes = device.writes as f64 / objects;
    column.target("device writes an object", 3, writes, Want::AtMost(0.1));
    column.add("- KiB each", 0, write_kib);
    column.add(
        "- write calls an object (/proc/PID/io)",
        3,
        io.write_calls as f64 / objects,
    );
    let per_byte = |written: u64| written as f64 / (objects * options.size.0 as f64);
    let (written, by_process) = (per_byte(device.write_bytes), per_byte(io.write_bytes));
    let most = Want::AtMost(1.1);
    column.target("bytes written per byte stored (device)", 3, written, most);
    column.target(
        "bytes written per byte stored (/proc/PID/io)",
        3,
        by_process,
        most,
    );
    Ok(())
}

/// Requests the last objects once each, in scattered order.
fn read_back(
    options: &Options,
    running: &Running,
    origin: &Origin,
    column: &mut Column,
) -> Result<()> {
    // Only the newest half of the objects: the others may be under eviction.
    let held = options.store_size.0 / options.size.0 / 2;
    let count = READ_BACK_MAX.min(held).min(options.objects).max(1);
    let step = stride(count);
    let id = |n: u64| format!("o{}", options.objects - 1 - n * step % count);
    let before = settled(running, origin)?;
    http::load(
        running.address,
        "reading back",
        count,
        CONNECTIONS,
        |n| origin::path(options.size.0, &id(n)),
        |n, answer| answer.status == 200 && origin::is_body_of(&answer.body, &id(n)),
    )?;
    let after = settled(running, origin)?;
    let hits = count - (after.origin - before.origin).min(count);
    let device = after.device.since(&before.device);
    column.add("asked for again, while still stored", 0, count);
    column.target(
        "hits among objects still stored",
        0,
        hits,
        Want::Near(count as f64, 0.0),
    );
    let a_hit = |of: f64| Figure::each(of, hits as f64, "nothing was a hit");
    let one = Want::Near(1.0, READS_SLACK);
    column.target(
        "device reads a disk hit",
        4,
        a_hit(device.reads as f64),
        one,
    );
    column.add("- KiB", 1, a_hit(device.read_bytes as f64 / 1024.0));
    let of_store = match (before.store_reads, after.store_reads) {
        (Some(before), Some(after)) => a_hit(after - before),
        _ => Figure::missing("loligo does not say how often its store was read"),
    };
    column.target(
        "store reads a disk hit (loligo's own count)",
        4,
        of_store,
        Want::Near(1.0, 0.0),
    );
    Ok(())
}

fn load(running: &Running, options: &Options, title: &str, count: u64, prefix: &str) -> Result<()> {
    let bytes = options.size.0;
    http::load(
        running.address,
        title,
        count,
        CONNECTIONS,
        |n| origin::path(bytes, &format!("{prefix}{n}")),
        |_, answer| answer.status == 200 && answer.body.len() as u64 == bytes,
    )
}

/// The counters once everything that was waiting has been written.
fn settled(running: &Running, origin: &Origin) -> Result<Counters> {
    interrupt::pause(SETTLE)?;
    block::sync_all();
    Ok(Counters {
        device: DeviceStat::of(&running.data)
            .ok_or_else(|| crate::failure::Failure::new("the store lies on no block device"))?,
        io: Io::of(running.roots()[0])?,
        store_reads: metric(running, "loligo_disk_reads_total"),
        origin: origin.served(),
    })
}

/// The sum of a counter over its labels, from the admin interface.
pub(in crate::bench) fn metric(running: &Running, name: &str) -> Option<f64> {
    let answer = Client::new(running.admin).get("/metrics").ok()?;
    sum_of(&String::from_utf8_lossy(&answer.body), name)
}

fn sum_of(metrics: &str, name: &str) -> Option<f64> {
    let values: Vec<f64> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with([' ', '{']))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// A step that meets every number below `count` once, far from the last one.
pub(super) fn stride(count: u64) -> u64 {
    let mut step = (count as f64 * 0.618) as u64 | 1;
    while gcd(step, count) != 1 {
        step += 2;
    }
    step
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_meets_everyone_once() {
        for count in [1, 2, 10, 999, 20_000] {
            let step = stride(count);
            let mut met: Vec<u64> = (0..count).map(|n| n * step % count).collect();
            met.sort_unstable();
            assert!(met.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let text = "# HELP x\nx_total{worker=\"0\"} 3\nx_total{worker=\"1\"} 4\nx_total_other 9\n";
        assert_eq!(sum_of(text, "x_total"), Some(7.0));
        assert_eq!(sum_of("x_total 5\n", "x_total"), Some(5.0));
        assert_eq!(sum_of(text, "y_total"), None);
    }
}
