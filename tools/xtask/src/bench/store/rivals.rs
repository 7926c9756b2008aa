//! `cargo xtask bench store-rivals`: the memory and disk an object costs, and how many objects survive a restart,
//! for Loligo and its rivals.
//!
//! The servers run one after the other, alone, before the bench's own origin, each with its cache on a fresh ext4 on a loop device:
//!
//! 1. *small*: with a cache of next to no size and a full memory tier. This memory is subtracted in the later steps, so
//!    that tables which are allocated at the start for the size of the cache are counted.
//! 2. *fill*: with the real cache. Memory is measured just after the start, with a full memory tier, and with all objects; device
//!    writes by the loop device, including the file system's journal. Objects that a busy server has dropped are requested again.
//! 3. *read*: page cache dropped, objects once each, in scattered order, none of them recent enough for the memory tier.
//! 4. *clean*: some more objects, SIGTERM at once, and a new start (`comeback`).
//! 5. *crash*: the same with SIGKILL.
//!
//! nginx and Varnish with file storage have no memory tier but the page cache; Varnish's mapped pages are
//! reclaimed through a control group. Varnish's storage that survives a restart (`persistent`) is not built into 7.x, so it keeps
//! no objects; its restart is measured all the same.
//!
//! Limits: all files together below [`DISK_BYTES_MAX`]; a minute for a stop, half a minute a restart.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::comeback::{Asker, Comeback, Draw, come_back, questions_max};
use super::pss::Memory;
use super::sheet::{Column, Figure, Sheet};
use crate::block::{self, DeviceStat, Loop, Mounted};
use crate::failure::{During, Failure, Result, fail};
use crate::interrupt;
use crate::memory_group::MemoryGroup;
use crate::origin::{self, Origin};
use crate::rivals::{Halt, Place, Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;
use crate::workspace;

/// The disk has limited room.
const DISK_BYTES_MAX: u64 = 6 << 30;
/// The file system's own share of its device: its tables and journal, and the twentieth it keeps for root, which Varnish
/// respects.
const FILE_SYSTEM_BYTES: u64 = 256 << 20;
/// Rock stores in slots of 16 KiB, files take whole blocks: room for each byte of body, so that no server evicts.
const ROOM: f64 = 1.9;
const SMALL_CACHE: Bytes = Bytes(256 << 20);
/// A memory tier counts as full when this many times its size has passed through it.
const TIER_TIMES: u64 = 6;
/// Longer than any write waits for company.
const SETTLE: Duration = Duration::from_secs(3);
/// Some servers drop objects when they are busy (Squid's rock), so filling is repeated until few objects are missing.
const PASSES_MAX: u32 = 3;
const MISSING_PERCENT_MAX: f64 = 1.0;
const PASS_GAIN_PERCENT_MIN: f64 = 5.0;
/// How many objects are requested after a pass, to see whether another pass is needed.
const PASS_SAMPLE: u64 = 1000;
/// The size of a sample of random objects after a restart.
const SAMPLE: u64 = 1000;
/// Traffic Server 9.2 writes its directory once a minute, and not on SIGTERM (only on `traffic_ctl server stop`,
/// which needs its manager). Waiting somewhat longer than a minute gives it a complete directory.
const DIRECTORY_EVERY: Duration = Duration::from_secs(70);

const DEFAULT: [Rival; 6] = [
    Rival::Loligo,
    // The threads of aufs are what its manual recommends; ufs blocks the one process on every file.
    Rival::SquidAufs,
    Rival::SquidRock,
    Rival::TrafficServer,
    Rival::Nginx,
    Rival::VarnishFile,
];

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these, by name (`cargo xtask rivals list`)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Objects to be stored
    #[arg(long, default_value_t = 150_000)]
    objects: u64,
    /// Their smallest size; all between are as frequent
    #[arg(long, default_value = "4KiB")]
    size_min: Bytes,
    #[arg(long, default_value = "16KiB")]
    size_max: Bytes,
    /// Cache in memory, for servers that have one
    #[arg(long, default_value = "16MiB")]
    memory: Bytes,
    /// Cache on disk
    #[arg(long, default_value = "3GiB")]
    cache_size: Bytes,
    /// Objects read back with cold caches
    #[arg(long, default_value_t = 20_000)]
    reads: u64,
    /// Also write everything as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

impl Options {
    fn size_mean(&self) -> u64 {
        (self.size_min.0 + self.size_max.0) / 2
    }

    fn device_bytes(&self) -> u64 {
        self.cache_size.0 + self.cache_size.0 / 10 + FILE_SYSTEM_BYTES
    }

    /// Objects that fill the memory tier.
    fn tier_objects(&self) -> u64 {
        TIER_TIMES * self.memory.0 / self.size_mean()
    }

    fn check(&self) -> Result<()> {
        if self.size_min.0 == 0 || self.size_min > self.size_max {
            fail!("the smallest size must be above 0 and not above the largest");
        }
        if self.device_bytes() > DISK_BYTES_MAX {
            fail!("a cache of {} is too large for this bench", self.cache_size);
        }
        let room = self.objects as f64 * self.size_mean() as f64 * ROOM;
        if room > self.cache_size.0 as f64 {
            fail!("the objects need a cache of {:.0} MiB", room / 1048576.0);
        }
        let asked = self.reads + u64::from(PASSES_MAX) * PASS_SAMPLE + 2 * questions_max(SAMPLE);
        if self.objects < asked {
            fail!("{asked} objects are needed");
        }
        Ok(())
    }

    fn chosen(&self) -> Result<Vec<Rival>> {
        if self.only.is_empty() {
            return Ok(DEFAULT.to_vec());
        }
        let named = |name: &String| {
            Rival::of_name(name).ok_or_else(|| Failure::new(format!("no rival {name:?}")))
        };
        self.only.iter().map(named).collect()
    }

    /// The size of the object of this number, the same in every run.
    fn size_of(&self, n: u64) -> u64 {
        let mut mixed = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^= mixed >> 32;
        mixed = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^= mixed >> 32;
        self.size_min.0 + mixed % (self.size_max.0 - self.size_min.0 + 1)
    }

    /// Path and id of an object.
    fn name(&self, prefix: &str, n: u64) -> (String, String) {
        let id = format!("{prefix}{n}");
        (origin::path(self.size_of(n), &id), id)
    }
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    options.check()?;
    let chosen = options.chosen()?;
    if chosen.contains(&Rival::Loligo) {
        build_loligo()?;
    }
    let dir = workspace::run_dir().join("store-rivals");
    std::fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    let mut sheet = Sheet::new("store-rivals");
    sheet.note(format!(
        "{} objects of {} to {}, memory tier {}, cache {} on an ext4 of its own on a loop device.",
        options.objects, options.size_min, options.size_max, options.memory, options.cache_size
    ));
    let mut failed = false;
    for rival in chosen {
        let name = rival.name();
        eprintln!("== {name}");
        let (begun, load) = (Instant::now(), load_average());
        let outcome = match on_its_test_bed(rival, options, &dir) {
            Ok(seen) => {
                let passes = seen.passes;
                sheet.push(seen.column(name));
                format!("filled in {passes} passes")
            }
            Err(failure) => {
                interrupt::check()?;
                eprintln!("{failure}");
                failed = true;
                failure.to_string()
            }
        };
        sheet.note(format!(
            "{name} {} ({}): {:.0} s, load {load:.1} to {:.1}; {outcome}.",
            rival.version().as_deref().unwrap_or("of no known version"),
            rival.description(),
            begun.elapsed().as_secs_f64(),
            load_average()
        ));
        // A run that is broken off later has at least written these.
        if let Some(path) = &options.report {
            let json = format!("{:#}\n", sheet.json());
            std::fs::write(path, json).during(|| format!("writing {}", path.display()))?;
        }
    }
    sheet.finish(false)?;
    if failed {
        fail!("not everybody could be measured");
    }
    Ok(())
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(f64::NAN)
}

/// A fresh file system for one server, undone afterwards: unmount, detach, remove.
fn on_its_test_bed(rival: Rival, options: &Options, dir: &Path) -> Result<Seen> {
    let device = Loop::attach(&dir.join("device.img"), Bytes(options.device_bytes()))?;
    let mounted = Mounted::fresh(&device.device, &dir.join("mount"))?;
    let seen = measure(rival, options, &mounted.dir);
    drop(mounted);
    drop(device);
    seen
}

/// One server under test, with everything it needs while it runs.
struct Contest<'a> {
    options: &'a Options,
    origin: &'a Origin,
    running: Running,
    /// for servers whose pages stay mapped; `Err`: why there is no group
    group: Option<Result<MemoryGroup>>,
}

fn measure(rival: Rival, options: &Options, place: &Path) -> Result<Seen> {
    let origin = Origin::start(0, 1)?;
    let small = {
        let mut contest = Contest::start(rival, options, &origin, place, "small", SMALL_CACHE)?;
        contest.fill_memory()?;
        let memory = contest.settled_memory()?;
        let data = contest.running.data.clone();
        contest.running.halt(Halt::Clean)?;
        drop(contest);
        std::fs::remove_dir_all(&data).during(|| format!("removing {}", data.display()))?;
        memory
    };
    let mut contest = Contest::start(rival, options, &origin, place, "full", options.cache_size)?;
    let started = contest.settled_memory()?;
    contest.fill_memory()?;
    let before = contest.settled_memory()?;

    let name = |n: u64| options.name("o", n);
    let asker = Asker {
        origin: &origin,
        name: &name,
    };
    let mut draw = Draw::new(options.objects);
    let filled = contest.fill(asker, &mut draw)?;
    let after = contest.settled_memory()?;

    let emptied = contest.empty_caches();
    let ids = draw.take(options.reads)?;
    let device_before = contest.device()?;
    let read_hits = asker.hits(contest.running.address, "reading back", &ids)?;
    let reads = contest.device()?.since(&device_before);

    if rival == Rival::TrafficServer {
        eprintln!("waiting for the directory to be written");
        interrupt::pause(DIRECTORY_EVERY)?;
    }
    let mut come_back = |halt, prefix: &str| {
        let newest = |n: u64| options.name(prefix, n);
        let newest = Asker {
            origin: &origin,
            name: &newest,
        };
        come_back(&mut contest.running, halt, asker, newest, &mut draw, SAMPLE)
    };
    let clean = come_back(Halt::Clean, "c")?;
    let crash = come_back(Halt::Kill, "k")?;
    contest.running.stop()?;
    Ok(Seen {
        objects: options.objects,
        bytes: (0..options.objects).map(|n| options.size_of(n)).sum(),
        passes: filled.passes,
        at_once_percent: filled.at_once_percent,
        small,
        started,
        before,
        after,
        stored: filled.device,
        read: options.reads,
        read_hits,
        reads: emptied.then_some(reads),
        clean: Some(clean),
        crash: Some(crash),
    })
}

/// The counters read for one server.
struct Seen {
    /// Objects requested in order to be stored.
    objects: u64,
    /// Bytes of their bodies.
    bytes: u64,
    /// How often all of them were requested: more than once if some were not stored at first.
    passes: u32,
    /// The share that was stored by the first request.
    at_once_percent: f64,
    /// Memory with a cache of next to no size and a full memory tier.
    small: Memory,
    /// Memory just after the start.
    started: Memory,
    /// Memory with a full memory tier, before the objects.
    before: Memory,
    after: Memory,
    stored: DeviceStat,
    /// Objects requested again, with cold caches.
    read: u64,
    read_hits: u64,
    /// The device's reads for them; `None` if the caches could not be emptied.
    reads: Option<DeviceStat>,
    clean: Option<Comeback>,
    crash: Option<Comeback>,
}

impl Seen {
    /// The figures of the server. Objects that were not stored do not count.
    fn column(self, name: &str) -> Column {
        let share = self.read_hits as f64 / self.read.max(1) as f64;
        let stored = self.objects as f64 * share;
        let grown = |after: u64, before: u64| {
            Figure::each(after as f64 - before as f64, stored, "nothing was stored")
        };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (before, after) = (&self.before, &self.after);
        let mut column = Column::new(name);
        column.add("stored when first asked for, %", 1, self.at_once_percent);
        column.add("hits after all passes, %", 1, share * 100.0);
        column.add("memory just started, MiB", 1, mib(self.started.held()));
        column.add("memory with all objects, MiB", 1, mib(after.held()));
        let an_object = grown(after.held(), before.held());
        column.add("**memory an object**, grown by, B", 1, an_object);
        let shared = grown(after.shared, before.shared);
        column.add("- of that shared between processes, B", 1, shared);
        let beside_small = grown(after.held(), self.small.held());
        column.add("- beside a server with a small cache, B", 1, beside_small);
        let mapped = grown(after.mapped, before.mapped);
        column.add("pages of files mapped, an object, B", 1, mapped);
        let none = "nothing was stored";
        let writes = Figure::each(self.stored.writes as f64, stored, none);
        column.add("**device writes an object**", 3, writes);
        let bytes = self.bytes as f64 * share;
        let written = Figure::each(self.stored.write_bytes as f64, bytes, none);
        column.add("**bytes written per byte stored**", 3, written);
        let a_hit = |of: fn(&DeviceStat) -> f64| match &self.reads {
            Some(reads) => Figure::each(of(reads), self.read_hits as f64, "nothing was a hit"),
            None => Figure::missing("its pages cannot be made to leave memory"),
        };
        column.add("**device reads a hit**", 3, a_hit(|d| d.reads as f64));
        column.add("KiB read a hit", 1, a_hit(|d| d.read_bytes as f64 / 1024.0));
        for (how, comeback) in [("SIGTERM", self.clean), ("SIGKILL", self.crash)] {
            if let Some(comeback) = comeback {
                comeback.tell(how, &mut column);
            }
        }
        column
    }
}

/// The result of filling.
#[derive(Default)]
struct Filled {
    passes: u32,
    /// stored by the first pass
    at_once_percent: f64,
    /// writes of all passes
    device: DeviceStat,
}

impl<'a> Contest<'a> {
    fn start(
        rival: Rival,
        options: &'a Options,
        origin: &'a Origin,
        place: &Path,
        what: &str,
        cache: Bytes,
    ) -> Result<Self> {
        let label = format!("store-rivals-{}-{what}", rival.name());
        let running = launch(
            rival,
            &Request {
                cache,
                memory: options.memory,
                place: Place::Dir(place.to_path_buf()),
                ..Request::of(label, origin.address())
            },
        )?;
        let group = (rival == Rival::VarnishFile).then(|| {
            let group = MemoryGroup::new("store-rivals")?;
            group.adopt(&running.roots())?;
            Ok(group)
        });
        running.await_caching(origin)?;
        Ok(Self {
            options,
            origin,
            running,
            group,
        })
    }

    /// Fills the memory tier. Requests all objects twice, since some servers keep in memory only objects that were read again.
    fn fill_memory(&self) -> Result<()> {
        let name = |n: u64| self.options.name("w", n);
        let asker = Asker {
            origin: self.origin,
            name: &name,
        };
        let ids: Vec<u64> = (0..self.options.tier_objects()).collect();
        for _ in 0..2 {
            asker.hits(self.running.address, "filling the memory tier", &ids)?;
        }
        Ok(())
    }

    /// Requests all objects until nearly all are stored. Afterwards the memory tier has the same content as before.
    fn fill(&self, asker: Asker<'_>, draw: &mut Draw) -> Result<Filled> {
        let ids: Vec<u64> = (0..self.options.objects).collect();
        let mut filled = Filled::default();
        let mut missing_before = f64::INFINITY;
        loop {
            filled.passes += 1;
            let before = self.device()?;
            asker.hits(self.running.address, "storing", &ids)?;
            let added = self.device()?.since(&before);
            filled.device.writes += added.writes;
            filled.device.write_bytes += added.write_bytes;
            self.fill_memory()?;

            let sample = draw.take(PASS_SAMPLE)?;
            let hits = asker.hits(self.running.address, "sample", &sample)?;
            let missing = (PASS_SAMPLE - hits) as f64 * 100.0 / PASS_SAMPLE as f64;
            if filled.passes == 1 {
                filled.at_once_percent = 100.0 - missing;
            }
            // A further pass does not help a server without room for the objects.
            let hopeless = missing > missing_before - PASS_GAIN_PERCENT_MIN;
            if missing <= MISSING_PERCENT_MAX || hopeless || filled.passes == PASSES_MAX {
                return Ok(filled);
            }
            missing_before = missing;
        }
    }

    /// Its memory once it has come to rest.
    fn settled_memory(&self) -> Result<Memory> {
        interrupt::pause(SETTLE)?;
        Memory::of(&self.running.roots())
    }

    /// The counters of its device once everything has been written.
    fn device(&self) -> Result<DeviceStat> {
        interrupt::pause(SETTLE)?;
        block::sync_all();
        DeviceStat::of(&self.running.data)
            .ok_or_else(|| Failure::new("the store lies on no block device"))
    }

    /// Drops all pages of the cache from the kernel's memory. False if that cannot be done.
    fn empty_caches(&self) -> bool {
        let reclaimed = match &self.group {
            Some(Ok(group)) => {
                group.reclaim();
                true
            }
            Some(Err(failure)) => {
                eprintln!("{failure}");
                false
            }
            None => true,
        };
        block::drop_page_cache() && reclaimed
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        Line::parse_from(["x"].into_iter().chain(words.split_whitespace())).options
    }

    #[test]
    fn the_defaults_fit_the_disk_and_the_questions() {
        options("").check().unwrap();
        assert_eq!(options("").chosen().unwrap(), DEFAULT);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_anything_is_started() {
        for words in [
            "--cache-size 8GiB",
            "--objects 300000",
            "--objects 10000",
            "--size-min 20k",
        ] {
            assert!(options(words).check().is_err(), "{words}");
        }
        assert!(options("--only apache").chosen().is_err());
    }

    fn seen() -> Seen {
        let memory = |anonymous, shared, mapped| Memory {
            anonymous,
            shared,
            mapped,
        };
        Seen {
            objects: 1000,
            bytes: 1_000_000,
            passes: 1,
            at_once_percent: 49.0,
            small: memory(10_000, 0, 0),
            started: memory(1 << 20, 0, 0),
            before: memory(20_000, 1_000, 500),
            after: memory(30_000, 41_000, 500),
            stored: DeviceStat {
                writes: 500,
                write_bytes: 600_000,
                ..DeviceStat::default()
            },
            read: 100,
            read_hits: 50,
            reads: Some(DeviceStat {
                reads: 75,
                read_bytes: 50 * 16 * 1024,
                ..DeviceStat::default()
            }),
            clean: None,
            crash: None,
        }
    }

    #[test]
    fn everything_is_counted_by_what_is_stored() {
        let mut sheet = Sheet::new("test");
        sheet.push(seen().column("a"));
        for (title, number) in [
            ("hits after all passes, %", 50.0),
            ("memory just started, MiB", 1.0),
            ("**memory an object**, grown by, B", 100.0),
            ("- of that shared between processes, B", 80.0),
            ("- beside a server with a small cache, B", 122.0),
            ("pages of files mapped, an object, B", 0.0),
            ("**device writes an object**", 1.0),
            ("**bytes written per byte stored**", 1.2),
            ("**device reads a hit**", 1.5),
            ("KiB read a hit", 16.0),
        ] {
            assert_eq!(sheet.found("a", title), number, "{title}");
        }
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let missing = |seen: Seen, title| {
            let figure = seen.column("a").figure(title).cloned();
            matches!(figure, Some(Figure::Missing(_)))
        };
        let nothing = Seen {
            read_hits: 0,
            ..seen()
        };
        assert!(missing(nothing, "**memory an object**, grown by, B"));
        let warm = Seen {
            reads: None,
            ..seen()
        };
        assert!(missing(warm, "**device reads a hit**"));
    }

    #[test]
    fn sizes_are_spread_evenly() {
        let options = options("");
        let sizes: Vec<u64> = (0..20_000).map(|n| options.size_of(n)).collect();
        assert!(sizes.iter().all(|s| (4096..=16_384).contains(s)));
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean - 10_240.0).abs() < 100.0, "{mean}");
        let small = sizes.iter().filter(|s| **s < 7168).count();
        assert!((4_700..5_300).contains(&small), "{small}");
    }
}
