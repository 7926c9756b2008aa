//! `cargo xtask bench large`: downloads, ranges and misses of large objects, compared with the rivals.
//!
//! Each server has one large object and some of 1 MiB, filled through it and compared with the origin's bytes, on the disk of this
//! machine. Then all servers are measured in turn, round after round, for each [`Case`]; the median counts.
//!
//! A server's memory is smaller than the large object and larger than the *hot* objects. nginx has no memory cache but the page cache, which
//! is dropped before each case named after the disk; the same download *again* then shows the effect of a page cache. Bytes
//! from the device are the kernel's counts for the whole device.
//!
//! Every answer must have the right length; its bytes are compared only when the server is filled.
//!
//! Limits: clients are threads of this process on the same cores; loopback copies every byte that a network card would fetch.

mod pull;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;

use super::stats::Spread;
use super::store::io::metric;
use super::store::sheet::{Column, Figure, Sheet, Want};
use crate::block::{self, DeviceStat};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::origin::Origin;
use crate::progress::Progress;
use crate::rivals::{Place, Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;
use crate::workspace;
use crate::wrk::{self, Load, Objects};

use pull::{Until, Wish, check, pull, pull_until};

const GB: f64 = 1e9;
const MIB: u64 = 1 << 20;
const RANGE_BYTES: u64 = 64 << 10;
const SMALL_BYTES: u64 = 10 << 10;
/// Clients for objects of 1 MiB, and for ranges.
const CLIENTS: u32 = 16;
/// Downloads in parallel with small hits, and misses of 100 MiB at a time.
const DOWNLOADS: u32 = 4;
/// Connections for small hits.
const SMALL_CLIENTS: u32 = 32;
/// After this time delayed writes are done.
const SETTLE: Duration = Duration::from_secs(3);
/// Longest delay of counters.
const COUNTED: Duration = Duration::from_millis(1200);
/// Misses of 1 MiB in a round.
const MISSES: u64 = 400;
/// Number and size of large misses.
const LARGE_MISSES: u64 = 8;
const LARGE_MISS_BYTES: u64 = 100 * MIB;

// Titles of figures that have targets.
const DOWNLOAD: &str = "download from disk, MB/s";
const HOT: &str = "1 MiB from memory, GB/s";
const HOT_CPU: &str = "- CPU s/GB from memory";
const RANGES: &str = "ranges of 64 KiB from disk, /s";
const RANGES_READ: &str = "- bytes read for each byte of a range";
const BESIDE: &str = "- times as long";
const WRITTEN: &str = "- bytes written for each byte missed";
const MISS_CPU: &str = "miss of 1 MiB, CPU s/GB";
const LARGE_MISS_CPU: &str = "miss of 100 MiB, CPU s/GB";

/// Targets relative to a rival: title, rival, wanted ratio.
const BESIDE_RIVALS: [(&str, &str, Want); 6] = [
    (DOWNLOAD, "trafficserver", Want::AtLeast(1.2)),
    (HOT, "nginx-sendfile", Want::AtLeast(1.0)),
    (HOT_CPU, "nginx-sendfile", Want::AtMost(1.0)),
    (RANGES, "trafficserver", Want::AtLeast(3.0)),
    (MISS_CPU, "trafficserver", Want::AtMost(0.8)),
    (LARGE_MISS_CPU, "trafficserver", Want::AtMost(0.8)),
];
/// Absolute targets.
const ALONE: [(&str, Want); 3] = [
    (RANGES_READ, Want::AtMost(1.3)),
    (BESIDE, Want::AtMost(1.5)),
    (WRITTEN, Want::AtMost(1.1)),
];
/// Wanted share of dd's rate.
const OF_PLAIN_READING: f64 = 0.8;

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these servers, by name (`cargo xtask rivals list`)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "loligo,loligo-beside,trafficserver,nginx-sendfile"
    )]
    only: Vec<String>,
    /// Only these cases: download, hot, disk, ranges, misses, beside
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "download,hot,disk,ranges,misses,beside"
    )]
    cases: Vec<Case>,
    /// Measurements of each server in each case; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of a case that has no end of its own
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// The large object; Loligo stores up to 1 GiB unless told otherwise
    #[arg(long, default_value = "1GiB")]
    size: Bytes,
    /// Objects of 1 MiB that are read from disk
    #[arg(long, default_value_t = 1500)]
    objects: u64,
    /// Objects of 1 MiB that fit into memory
    #[arg(long, default_value_t = 64)]
    hot: u64,
    /// Cache in memory
    #[arg(long, default_value = "256MiB")]
    memory: Bytes,
    /// Cache on disk
    #[arg(long, default_value = "8GiB")]
    cache_size: Bytes,
    /// So many threads that compute all the time, beside every measurement
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    busy: u32,
    /// Keep the caches in this directory
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// The large object, one client
    Download,
    /// 1 MiB from memory
    Hot,
    /// 1 MiB from disk
    Disk,
    /// 64 KiB anywhere in the large object
    Ranges,
    /// 1 MiB and 100 MiB that are not stored yet
    Misses,
    /// Small hits without and with downloads
    Beside,
}

struct Contestant {
    running: Running,
    /// Number of the next object that was not requested so far.
    fresh: u64,
    /// For each title, in the order of the table, a figure for each round.
    found: Vec<(&'static str, usize, Vec<f64>)>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    build_loligo()?;
    let origin = Origin::start(0, 1)?;
    let mut ring = Vec::new();
    let mut sheet = Sheet::new("large");
    for name in &options.only {
        let Some(rival) = Rival::of_name(name) else {
            fail!("no server {name:?}; `cargo xtask rivals list` shows them");
        };
        if !rival.is_installed() {
            if rival != Rival::LoligoBeside {
                sheet.note(format!("{name} is not installed"));
            }
            continue;
        }
        match enter(rival, options, &origin) {
            Ok(contestant) => ring.push(contestant),
            Err(failure) => {
                interrupt::check()?;
                sheet.note(format!("{name} is left out: {failure}"));
            }
        }
    }
    let steps = options.cases.len() * options.rounds as usize * ring.len();
    let mut progress = Progress::new("measuring", steps as u64);
    let busy = Busy::start(options.busy);
    for &case in &options.cases {
        for _ in 0..options.rounds {
            for contestant in &mut ring {
                interrupt::check()?;
                let name = contestant.running.rival.name();
                progress.say(format!("{name}, {case:?}"));
                contestant
                    .measure(case, options, &origin)
                    .during(|| format!("{name}, {case:?}"))?;
                progress.step();
            }
        }
    }
    drop(progress);
    drop(busy);
    let plain = plain_reading(options);
    match plain {
        Some(rate) => sheet.note(format!(
            "dd with O_DIRECT, 1 MiB at a time, reads a file beside the caches at {rate:.0} MB/s."
        )),
        None => sheet.note("dd could not read a file with O_DIRECT."),
    }
    let columns: Vec<Column> = ring.iter().map(Contestant::column).collect();
    for (contestant, column) in ring.iter().zip(&columns) {
        sheet.push(match contestant.running.rival {
            Rival::Loligo => with_ratios(column, &columns, plain),
            _ => column.clone(),
        });
    }
    if options.busy > 0 {
        sheet.note(format!("{} threads computed meanwhile.", options.busy));
    }
    sheet.note(format!(
        "Medians of {} rounds; large object {}, {} objects of 1 MiB, memory {}; 16 clients where none are named. CPU of all processes of \
         the server. nginx reads through the page cache, dropped where a line says disk.",
        options.rounds, options.size, options.objects, options.memory
    ));
    for contestant in ring {
        contestant.running.stop()?;
    }
    sheet.finish(options.json)
}

/// Our column with its ratios to the others.
fn with_ratios(ours: &Column, all: &[Column], plain: Option<f64>) -> Column {
    let mut column = ours.clone().with_targets(&ALONE);
    let found = |column: &Column, title| column.figure(title).and_then(Figure::found);
    for (title, rival, want) in BESIDE_RIVALS {
        let theirs = all.iter().find(|column| column.name() == rival);
        if let (Some(ours), Some(theirs)) =
            (found(ours, title), theirs.and_then(|it| found(it, title)))
        {
            column.target(format!("{title}: of {rival}'s"), 2, ours / theirs, want);
        }
    }
    if let (Some(ours), Some(plain)) = (found(ours, DOWNLOAD), plain) {
        let want = Want::AtLeast(OF_PLAIN_READING);
        column.target(format!("{DOWNLOAD}: of dd's"), 2, ours / plain, want);
    }
    column
}

/// Starts a server and fills it.
fn enter(rival: Rival, options: &Options, origin: &Origin) -> Result<Contestant> {
    let name = rival.name();
    eprintln!("filling {name}");
    let running = launch(
        rival,
        &Request {
            cache: options.cache_size,
            memory: options.memory,
            place: match &options.dir {
                Some(dir) => Place::Dir(std::path::absolute(dir).unwrap_or_else(|_| dir.clone())),
                None => Place::RunDir,
            },
            ..Request::of(format!("bench-large-{name}"), origin.address())
        },
    )?;
    running.await_caching(origin)?;
    check(running.address, options.size.0, "large")?;
    for n in 0..options.objects {
        check(running.address, MIB, &format!("disk{n}"))?;
        interrupt::check()?;
    }
    // Some servers admit to memory only objects that were requested before.
    for _ in 0..4 {
        for n in 0..options.hot {
            check(running.address, MIB, &format!("hot{n}"))?;
        }
        check(running.address, SMALL_BYTES, "small")?;
    }
    let before = origin.served();
    check(running.address, options.size.0, "large")?;
    if origin.served() > before {
        fail!("it does not store an object of {}", options.size);
    }
    Ok(Contestant {
        running,
        fresh: 0,
        found: Vec::new(),
    })
}

/// Threads that use CPU until this is dropped.
struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(threads: u32) -> Busy {
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = (0..threads).map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Busy {
            threads: threads.collect(),
            is_over,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The result of a load.
struct Measured {
    bytes: f64,
    answers: f64,
    seconds: f64,
    cpu_seconds: f64,
    device: DeviceStat,
    fetched: u64,
}

impl Contestant {
    fn note(&mut self, title: &'static str, decimals: usize, figure: f64) {
        match self.found.iter_mut().find(|(known, ..)| *known == title) {
            Some((.., figures)) => figures.push(figure),
            None => self.found.push((title, decimals, vec![figure])),
        }
    }

    fn column(&self) -> Column {
        let mut column = Column::new(self.running.rival.name());
        for (title, decimals, figures) in &self.found {
            let spread = Spread::of(figures.iter().copied());
            column.add(*title, *decimals, Figure::Found(spread.median));
        }
        column
    }

    fn pull(&self, wish: &Wish, clients: u32, until: Until, origin: &Origin) -> Result<Measured> {
        let running = &self.running;
        let device = || DeviceStat::of(&running.data).unwrap_or_default();
        let (cpu, before, served) = (running.cpu(), device(), origin.served());
        let pulled = pull(running.address, wish, clients, until)?;
        if pulled.bytes == 0 {
            fail!("nothing came");
        }
        Ok(Measured {
            bytes: pulled.bytes as f64,
            answers: pulled.answers as f64,
            seconds: pulled.seconds,
            cpu_seconds: running.cpu().saturating_sub(cpu).as_secs_f64(),
            device: device().since(&before),
            fetched: origin.served() - served,
        })
    }

    /// Our disk reads so far, and those that waited for others (`lazy-reads`). The counters lag a second behind.
    fn reads(&self) -> Option<(f64, f64)> {
        if self.running.rival.product() != Rival::Loligo.product() {
            return None;
        }
        std::thread::sleep(COUNTED);
        let all = metric(&self.running, "loligo_disk_reads_total")?;
        Some((all, metric(&self.running, "loligo_disk_lazy_reads_total")?))
    }

    fn note_lazy(&mut self, title: &'static str, before: Option<(f64, f64)>) {
        if let (Some(before), Some(after)) = (before, self.reads()) {
            let (all, lazy) = (after.0 - before.0, after.1 - before.1);
            self.note(title, 1, 100.0 * lazy / all.max(1.0));
        }
    }

    fn measure(&mut self, case: Case, options: &Options, origin: &Origin) -> Result<()> {
        let time = Until::Time(Duration::from_secs(options.seconds));
        let large = Wish::One {
            bytes: options.size.0,
            id: "large".into(),
        };
        match case {
            Case::Download => {
                drop_caches();
                let reads = self.reads();
                let cold = self.pull(&large, 1, Until::Answers(1), origin)?;
                self.note(DOWNLOAD, 0, cold.bytes / 1e6 / cold.seconds);
                self.note("- CPU s/GB", 3, cold.cpu_seconds * GB / cold.bytes);
                self.note_lazy("- reads that were lazy, %", reads);
                let again = self.pull(&large, 1, Until::Answers(1), origin)?;
                self.note("- again, MB/s", 0, again.bytes / 1e6 / again.seconds);
            }
            Case::Hot => {
                let wish = Wish::Any {
                    bytes: MIB,
                    prefix: "hot".into(),
                    count: options.hot,
                };
                // First load the hot objects that other cases have evicted.
                self.pull(&wish, CLIENTS, Until::Answers(8 * options.hot), origin)?;
                let hot = self.pull(&wish, CLIENTS, time, origin)?;
                self.note(HOT, 2, hot.bytes / GB / hot.seconds);
                self.note(HOT_CPU, 3, hot.cpu_seconds * GB / hot.bytes);
                let read = hot.device.read_bytes as f64 / hot.bytes;
                self.note("- bytes read for each sent", 2, read);
            }
            Case::Disk => {
                let wish = Wish::Any {
                    bytes: MIB,
                    prefix: "disk".into(),
                    count: options.objects,
                };
                drop_caches();
                let disk = self.pull(&wish, CLIENTS, time, origin)?;
                self.note("1 MiB from disk, GB/s", 2, disk.bytes / GB / disk.seconds);
                self.note(
                    "- CPU s/GB from disk",
                    3,
                    disk.cpu_seconds * GB / disk.bytes,
                );
                let hits = 100.0 * (1.0 - disk.fetched as f64 / disk.answers.max(1.0));
                self.note("- hits, %", 1, hits);
            }
            Case::Ranges => {
                let wish = Wish::Range {
                    of: options.size.0,
                    id: "large".into(),
                    bytes: RANGE_BYTES,
                };
                drop_caches();
                let ranges = self.pull(&wish, CLIENTS, time, origin)?;
                self.note(RANGES, 0, ranges.answers / ranges.seconds);
                let read = ranges.device.read_bytes as f64 / ranges.bytes;
                self.note(RANGES_READ, 2, read);
                self.note(
                    "- CPU us a range",
                    1,
                    ranges.cpu_seconds * 1e6 / ranges.answers,
                );
            }
            Case::Misses => {
                let titles = [MISS_CPU, LARGE_MISS_CPU];
                let rates = ["- of 1 MiB, MB/s", "- of 100 MiB, MB/s"];
                let device = DeviceStat::of(&self.running.data);
                let mut stored = 0.0;
                let loads = [
                    (MIB, MISSES, CLIENTS),
                    (LARGE_MISS_BYTES, LARGE_MISSES, DOWNLOADS),
                ];
                for (n, (bytes, count, clients)) in loads.into_iter().enumerate() {
                    self.fresh += 1;
                    let wish = Wish::New {
                        bytes,
                        prefix: format!("fresh{}-", self.fresh),
                    };
                    let miss = self.pull(&wish, clients, Until::Answers(count), origin)?;
                    self.note(titles[n], 3, miss.cpu_seconds * GB / miss.bytes);
                    self.note(rates[n], 0, miss.bytes / 1e6 / miss.seconds);
                    stored += miss.bytes;
                }
                std::thread::sleep(SETTLE);
                block::sync_all();
                if let (Some(device), Some(now)) = (device, DeviceStat::of(&self.running.data)) {
                    let written = now.since(&device).write_bytes as f64;
                    self.note(WRITTEN, 2, written / stored);
                }
            }
            Case::Beside => {
                let load = Load {
                    address: self.running.address,
                    is_encrypted: false,
                    connections: SMALL_CLIENTS,
                    time: Duration::from_secs(options.seconds),
                    bytes: SMALL_BYTES,
                    objects: Objects::One { id: "small".into() },
                };
                let scripts = workspace::run_dir().join("wrk");
                let alone = wrk::run(&load, &scripts)?;
                let reads = self.reads();
                let stop = AtomicBool::new(false);
                let address = self.running.address;
                let beside = std::thread::scope(|scope| {
                    let downloads = scope.spawn(|| {
                        let long = Until::Time(Duration::from_secs(600));
                        pull_until(address, &large, DOWNLOADS, long, &stop)
                    });
                    let beside = wrk::run(&load, &scripts);
                    stop.store(true, Ordering::Relaxed);
                    let pulled = downloads.join().expect("no panic")?;
                    Ok::<_, crate::failure::Failure>((beside?, pulled))
                })?;
                self.note("small hits, p99 ms", 2, alone.p99_us / 1e3);
                self.note("- beside four downloads, p99 ms", 2, beside.0.p99_us / 1e3);
                self.note(BESIDE, 2, beside.0.p99_us / alone.p99_us);
                let rate = beside.1.bytes as f64 / 1e6 / beside.1.seconds;
                self.note("- the downloads, MB/s", 0, rate);
                self.note_lazy("- reads that were lazy meanwhile, %", reads);
            }
        }
        Ok(())
    }
}

fn drop_caches() {
    if !block::drop_page_cache() {
        eprintln!("the page cache cannot be dropped: what is said of the disk is said of memory");
    }
}

/// The rate of dd for a file of random bytes in the caches' directory, in MB/s: the median of the rounds.
fn plain_reading(options: &Options) -> Option<f64> {
    let dir = options.dir.clone().unwrap_or_else(workspace::run_dir);
    std::fs::create_dir_all(&dir).ok()?;
    let path = dir.join("plain");
    let dd = |args: [String; 4]| {
        let output = Command::new("dd").args(args).output().ok()?;
        output.status.success().then_some(())
    };
    let count = format!("count={}", options.size.0 / MIB);
    let (from, to) = (
        "if=/dev/urandom".to_string(),
        format!("of={}", path.display()),
    );
    dd([from, to, "bs=1M".into(), count.clone()])?;
    block::sync_all();
    drop_caches();
    let mut rates = Vec::new();
    for _ in 0..options.rounds {
        let begun = Instant::now();
        let from = format!("if={}", path.display());
        let read = dd([
            from,
            "of=/dev/null".into(),
            "bs=1M".into(),
            "iflag=direct".into(),
        ]);
        if read.is_none() {
            break;
        }
        rates.push(options.size.0 as f64 / 1e6 / begun.elapsed().as_secs_f64());
    }
    let _ = std::fs::remove_file(&path);
    (!rates.is_empty()).then(|| Spread::of(rates).median)
}
