//! One proxy, one rate: its disk is prepared, it is started, loaded, measured, stopped, and the disk removed.
//!
//! The limits of a slow disk are set after the start, so that no run waits for Squid's directories to be made, and
//! lifted before the stop. The report shows the phase at full load; errors count over the whole run.
//!
//! Not known here: which proxies there are, how often.   Limits: none of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use polymix::pages::paper::Tested;
use polymix::report::{Moment, Row, Summary};
use polymix::search::Conditions as Limits;
use serde::Serialize;

use super::calls::{self, Calls};
use super::disk::{Speed, limit};
use super::held_port::HeldPort;
use super::load::{self, Loaded, Target, Used};
use super::options::{Allowance, Conditions};
use super::page_limit::PageLimit;
use super::peak::{self, Seen, objection};
use crate::block::{self, Loop, Mounted};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::rivals::front::KeyKind;
use crate::rivals::{Place, Request, Rival, launch};
use crate::size::Bytes;
use crate::strace::Strace;

/// Room beside the cache on a device with a file system. With less, ext4 takes blocks of 1 KiB and a journal of 4 MiB, which is
/// full at once and then written back block by block. No cache is run like that.
const FILE_SYSTEM_BYTES: u64 = 2 << 30;
/// The load has sent its first request by then.
const LOAD_BEGINS_MAX: Duration = Duration::from_secs(2);
/// How long a proxy may go on working after the load, before its counters are read for the last time.
const SETTLE: Duration = Duration::from_millis(500);

/// System calls and the replies they were made for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Counted {
    pub calls: Calls,
    pub replies: u64,
    /// requests the disk got meanwhile, as the block layer counts
    pub used: Used,
}

/// The figures of a proxy in the phase at full load.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    pub phase: String,
    pub planned_rate: f64,
    pub reply_rate: f64,
    pub response: Summary,
    pub hit: Summary,
    pub miss: Summary,
    pub first_byte: Summary,
    pub offered_percent: f64,
    /// cachable and asked for before: what Polygraph calls offered
    pub repeated_percent: f64,
    /// of basic replies, what a cache may keep
    pub cachable_percent: f64,
    /// what an exact LRU of the cache's size would have had of documents, without the memory beside it
    pub lru_percent: f64,
    pub dhr_percent: f64,
    pub bhr_percent: f64,
    pub dhr_traffic_percent: Option<f64>,
    pub bhr_traffic_percent: Option<f64>,
    pub replies: u64,
    /// of the whole run
    pub errors: u64,
    /// of the whole run, by name
    pub faults: BTreeMap<String, u64>,
    pub fault_examples: Vec<String>,
    /// conditions answered with the whole object, of the whole run
    pub condition_ignored: u64,
    /// user and system time of all its processes, milliseconds a reply
    pub cpu_ms_per_reply: f64,
    pub used: Used,
    /// file pages in memory at the end, if they were limited
    pub file_pages_bytes: Option<u64>,
    /// of this phase and of the whole run
    pub calls: Option<[Counted; 2]>,
    /// waits in robots whose four connections were in use; not part of the response time
    pub queued: Summary,
    /// mean bytes of bodies that a cache may store and did not have
    pub to_store_bytes: f64,
    /// of the load generator
    pub lag: Summary,
    pub robots_cpu_percent: f64,
    pub origin_cpu_percent: Option<f64>,
    /// mean response of the fill phase, milliseconds
    pub fill_response_ms: Option<f64>,
    pub fill_s: Option<f64>,
    pub series: Vec<Moment>,
    /// all phases at full load together, as paper 004 has them; the file has the same figures above
    #[serde(skip)]
    pub tested: Tested,
    /// parts of the specification that the run left out
    pub left_out: Vec<String>,
    /// why this rate does not count as carried
    pub objection: Option<String>,
    /// signs that the load generator was at its limit, which may have affected times and hit ratio
    pub generator: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Box<Measured>),
    /// It fell over under this load.
    Failed(String),
    /// It got no request, since it or the load did not start. This says nothing about the rate.
    NotAsked(String),
}

/// A run of one proxy.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub server: String,
    pub rate: f64,
    /// by strace, so its times cannot be compared with others
    pub watched: bool,
    /// the machine's load average before and after
    pub load: [f64; 2],
    pub seconds: f64,
    pub outcome: Outcome,
}

impl Run {
    /// The figures, if the run has any.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) | Outcome::NotAsked(_) => None,
        }
    }

    /// Did the proxy get any request? Otherwise the run does not count.
    pub fn was_asked(&self) -> bool {
        !matches!(self.outcome, Outcome::NotAsked(_))
    }

    /// Was this rate carried?
    pub fn carried(&self) -> bool {
        self.measured().is_some_and(|m| m.objection.is_none())
    }
}

/// Makes a run. An error is an interruption; everything else is part of the result.
pub fn run(
    rival: Rival,
    rate: f64,
    conditions: &Conditions,
    watched: bool,
    dir: &Path,
) -> Result<Run> {
    let (load, begun) = (load_average(), Instant::now());
    let mut asked = false;
    let outcome = match measure(rival, rate, conditions, watched, dir, &mut asked) {
        Ok(measured) => Outcome::Measured(Box::new(measured)),
        Err(failure) => {
            interrupt::check()?;
            match asked {
                true => Outcome::Failed(failure.to_string()),
                false => Outcome::NotAsked(failure.to_string()),
            }
        }
    };
    Ok(Run {
        server: rival.name().to_owned(),
        rate,
        watched,
        load: [load, load_average()],
        seconds: begun.elapsed().as_secs_f64(),
        outcome,
    })
}

/// Things are dropped in the reverse order of their creation here, and this order matters.
fn measure(
    rival: Rival,
    rate: f64,
    conditions: &Conditions,
    watched: bool,
    dir: &Path,
    asked: &mut bool,
) -> Result<Measured> {
    let takes_device = rival.takes_device() && !conditions.loligo_in_file;
    let device = Loop::attach(
        &dir.join("disk.img"),
        device_bytes(takes_device, conditions.cache_size),
    )?;
    let mounted = (!takes_device)
        .then(|| file_system(conditions.disk, &device, &dir.join("mount")))
        .transpose()?;
    let place = match &mounted {
        Some(mounted) => Place::Dir(mounted.dir.clone()),
        None => Place::Device(device.device.clone()),
    };
    let mut pages = match conditions.page_cache {
        Allowance::Bytes(bytes) => Some(PageLimit::new("compare", bytes)?),
        Allowance::Unlimited => None,
    };
    let held = HeldPort::new()?;
    let origin = held.address;
    let mut running = launch(rival, &request(rival, conditions, watched, origin, place))?;
    if let Some(pages) = &mut pages {
        pages.adopt(&running.roots())?;
    }
    // The preparation's writes are on disk. Drop their pages, so that no proxy starts with them in memory.
    block::drop_page_cache();
    let limits = limit(&device.device, conditions.disk, conditions.dirty)?;
    let roots = running.roots();
    let watching = watched
        .then(|| Strace::attach(&roots, &calls::names(), dir))
        .transpose()?;

    let target = Target {
        proxy: running.address,
        origin,
        roots: &roots,
        device: &device.device,
    };
    drop(held);
    let begun = Instant::now();
    let loaded = load::run(target, conditions, rate, dir, || {
        let alive = running.check_alive();
        *asked = begun.elapsed() > LOAD_BEGINS_MAX;
        alive
    })?;
    let total = &loaded.report.total;
    *asked = total.replies > 0;
    if !*asked {
        fail!(
            "not one of {} requests was answered: {:?}",
            total.requests,
            total.faults
        );
    }
    let file_pages_bytes = pages.as_ref().and_then(|pages| pages.file_bytes().ok());
    let top = loaded.top()?;
    let calls = match watching {
        Some(watching) => Some(count(
            watching,
            &loaded,
            match takes_device {
                true => &device.device,
                false => &running.data,
            },
        )?),
        None => None,
    };
    interrupt::pause(SETTLE)?;
    drop(limits);
    if let Some(pages) = &mut pages {
        pages.lift();
    }
    running.stop()?;
    drop(pages);
    drop(mounted);
    drop(device);
    Ok(measured(&loaded, top, file_pages_bytes, calls, conditions))
}

/// The calls of the phase at full load, and of all phases.
fn count(watching: Strace, loaded: &Loaded, place: &Path) -> Result<[Counted; 2]> {
    let began = loaded.began.duration_since(UNIX_EPOCH);
    let began_s = began.during(|| "reading the clock".into())?.as_secs_f64();
    let rows = [loaded.top()?, &loaded.report.total];
    let spans = rows.map(|row| (began_s + row.from_s, began_s + row.to_s));
    let counts = calls::count(watching, place, &spans)?;
    let of = |n: usize| Counted {
        calls: counts.get(n).copied().unwrap_or_default(),
        replies: rows[n].replies,
        used: loaded.samples.between(rows[n].from_s, rows[n].to_s),
    };
    Ok([of(0), of(1)])
}

/// The throttle counts every block of a journal as a write, though a real disk takes a commit in one go. So there is no journal on a
/// slow disk, which favours proxies that keep files.
fn file_system(disk: Speed, device: &Loop, dir: &Path) -> Result<Mounted> {
    match disk {
        Speed::Slow => Mounted::without_journal(&device.device, dir),
        Speed::Fast => Mounted::fresh(&device.device, dir),
    }
}

fn device_bytes(takes_device: bool, cache: Bytes) -> Bytes {
    if takes_device {
        return cache;
    }
    Bytes(cache.0 + FILE_SYSTEM_BYTES)
}

fn request(
    rival: Rival,
    conditions: &Conditions,
    watched: bool,
    origin: SocketAddr,
    place: Place,
) -> Request {
    let mut extra = conditions.loligo.clone();
    if watched && !extra.iter().any(|arg| arg.starts_with("--io-engine")) {
        // strace does not see operations of a ring.
        extra.extend(["--io-engine".into(), "threads".into()]);
    }
    // A proxy without a disk cache gets the whole size in memory.
    let memory = if rival.has_disk() {
        conditions.memory
    } else {
        conditions.cache_size
    };
    Request {
        label: format!("compare-{}", rival.name()),
        port: 0,
        origin,
        cache: conditions.cache_size,
        memory,
        logs: false,
        profile: false,
        workers: conditions.workers,
        place,
        extra: if rival.is_ours() { extra } else { Vec::new() },
        front: None,
        key: KeyKind::default(),
        limits: String::new(),
        listener: None,
    }
}

fn measured(
    loaded: &Loaded,
    top: &Row,
    file_pages_bytes: Option<u64>,
    calls: Option<[Counted; 2]>,
    conditions: &Conditions,
) -> Measured {
    let report = &loaded.report;
    let used = loaded.samples.between(top.from_s, top.to_s);
    let fill = report.phases.iter().find(|row| row.name == "fill");
    let limits = Limits {
        response_ms_max: conditions.response_max,
        hit_points: peak::HIT_POINTS,
    };
    let seen = Seen {
        planned_rate: top.intended_rate,
        reply_rate: top.reply_rate,
        seconds: top.length_s,
        response_ms_mean: top.response.mean_ms,
        requests: report.total.requests,
        faults: &report.total.faults,
        offered_percent: top.offered_percent,
        hit_percent: top.dhr_percent,
    };
    Measured {
        phase: top.name.clone(),
        planned_rate: top.intended_rate,
        reply_rate: top.reply_rate,
        response: top.response,
        hit: top.hit,
        miss: top.miss,
        first_byte: top.first_byte,
        offered_percent: top.offered_percent,
        repeated_percent: top.repeated_percent,
        cachable_percent: top.cachable_percent,
        lru_percent: top.lru_percent,
        dhr_percent: top.dhr_percent,
        bhr_percent: top.bhr_percent,
        dhr_traffic_percent: top.dhr_traffic_percent,
        bhr_traffic_percent: top.bhr_traffic_percent,
        replies: top.replies,
        errors: report.total.errors,
        faults: report.total.faults.clone(),
        fault_examples: report.faults.iter().take(3).cloned().collect(),
        condition_ignored: report.total.condition_ignored,
        cpu_ms_per_reply: used.cpu_s * 1e3 / (top.replies.max(1) as f64),
        used,
        file_pages_bytes,
        calls,
        queued: top.queued,
        to_store_bytes: top.fills as f64 * top.fill_bytes_mean,
        lag: top.lag,
        robots_cpu_percent: top.robots_cpu_percent,
        origin_cpu_percent: top.origin_cpu_percent,
        fill_response_ms: fill.map(|row| row.response.mean_ms),
        fill_s: fill.map(|row| row.to_s - row.from_s),
        series: report.series.clone(),
        tested: Tested::of(String::new(), report),
        left_out: report.left_out(),
        objection: objection(&seen, &conditions.bounds()),
        generator: limits.generator(top),
    }
}

/// The machine's load, one minute's mean.
pub fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(f64::NAN)
}
