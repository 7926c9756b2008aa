//! The servers of `bench hits`: started with the same settings for one kind of answer, and measured in turn.
//!
//! A server that cannot be started or does not cache is left out, with a message. A wrong answer during a measurement
//! ends the bench, since the comparison would be worthless.

use std::time::Duration;

use super::hits::{Case, Kind, Options, Row};
use crate::block::{self, DeviceStat};
use crate::failure::{During, Failure, Result};
use crate::h2_load;
use crate::http;
use crate::interrupt;
use crate::memory_group::MemoryGroup;
use crate::origin::{self, Origin};
use crate::progress::Progress;
use crate::rivals::front::{Front, Protocol};
use crate::rivals::{Place, Request, Rival, Running, launch};
use crate::size::Bytes;
use crate::workspace;
use crate::wrk::{self, Figures, Load, Objects};

/// Memory of a server whose hits shall come from disk. Some servers refuse less.
const TINY_MEMORY: Bytes = Bytes(1 << 20);
/// Disk of a server whose hits come from memory.
const SMALL_CACHE: Bytes = Bytes(512 << 20);
/// Number of objects of the last round of misses that are requested again.
const SAMPLE: u64 = 200;
/// Requests that make an object a memory hit on every server: some admit only objects that were requested before.
const WARM_UP: u64 = 200;
/// Servers for which there are configurations for TLS and HTTP/2.
const SPEAK_MORE: [Rival; 5] = [
    Rival::Loligo,
    Rival::LoligoBeside,
    Rival::Haproxy,
    Rival::Nginx,
    Rival::NginxSendfile,
];
const FILL_CONNECTIONS: usize = 16;
/// Some servers drop objects when too busy to store them (Squid's rock), so filling is repeated until almost nothing is missed.
const FILL_PASSES_MAX: u32 = 4;

/// A server in the ring, with what the disk hits need.
struct Contestant {
    running: Running,
    group: Option<MemoryGroup>,
    /// rounds of misses so far, so that none repeats an id
    rounds: u64,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub cpu_us: f64,
    pub figures: Figures,
    pub hit_percent: f64,
    pub reads: f64,
}

/// The variants that are useful for a kind.
fn candidates(kind: Kind) -> &'static [Rival] {
    use Rival::*;
    match kind {
        Kind::Memory => &[
            Loligo,
            LoligoBeside,
            Haproxy,
            Nginx,
            NginxSendfile,
            TrafficServer,
            Varnish,
            SquidRock,
        ],
        Kind::Disk => &[
            Loligo,
            LoligoBeside,
            Nginx,
            NginxSendfile,
            TrafficServer,
            VarnishFile,
            SquidRock,
        ],
        Kind::Miss => &[
            Loligo,
            LoligoBeside,
            Nginx,
            TrafficServer,
            VarnishFile,
            SquidRock,
        ],
    }
}

/// Whether this variant was requested. A product's name selects its usual variants here; another name selects that variant alone, even
/// if it is not usual.
pub(super) fn wants(options: &Options, rival: Rival, usual: &[Rival]) -> bool {
    if options.only.is_empty() {
        return usual.contains(&rival);
    }
    options.only.iter().any(|name| {
        if usual.iter().any(|r| r.product() == name) {
            name == rival.product() && usual.contains(&rival)
        } else {
            name == rival.name()
        }
    })
}

pub(super) fn measure_kind(
    kind: Kind,
    logs: bool,
    options: &Options,
    origin: &Origin,
    left_out: &mut Vec<String>,
) -> Result<Vec<Row>> {
    let mut ring = Vec::new();
    for rival in Rival::ALL {
        let has_disk = kind == Kind::Memory || rival != Rival::Haproxy;
        let can_speak = options.protocol == Protocol::H1 || SPEAK_MORE.contains(&rival);
        if !wants(options, rival, candidates(kind)) || !has_disk || !can_speak {
            continue;
        }
        if rival == Rival::LoligoBeside && !rival.is_installed() {
            continue;
        }
        if !rival.is_installed() {
            eprintln!("{} is not installed", rival.name());
            continue;
        }
        match enter(rival, kind, logs, options, origin) {
            Ok(contestant) => ring.push(contestant),
            Err(failure) => {
                interrupt::check()?;
                eprintln!("{} is left out: {failure}", rival.name());
                left_out.push(rival.name().to_owned());
            }
        }
    }
    let sizes = match kind {
        Kind::Memory => options.sizes.clone(),
        Kind::Disk | Kind::Miss => vec![options.disk_object_size],
    };
    let mut cases = Vec::new();
    for size in sizes {
        for &connections in &options.connections {
            let streams = match options.protocol.has_streams() {
                true => &options.streams[..],
                false => &[1],
            };
            cases.extend(streams.iter().map(|&streams| Case {
                kind,
                bytes: size.0,
                connections,
                logs,
                protocol: options.protocol,
                streams,
            }));
        }
    }
    let steps = cases.len() as u64 * u64::from(options.rounds) * ring.len() as u64;
    let mut progress = Progress::new("measuring", steps);
    let mut rows = Vec::new();
    for case in cases {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); ring.len()];
        for round in 0..options.rounds {
            for (contestant, samples) in ring.iter_mut().zip(&mut samples) {
                let name = contestant.running.rival.name();
                progress.say(format!("{name}, {case}"));
                let sample = measure(contestant, case, round, options, origin)
                    .during(|| format!("{name}, {case}"))?;
                samples.push(sample);
                progress.step();
            }
        }
        for (contestant, samples) in ring.iter().zip(&samples) {
            rows.push(Row::of(contestant.running.rival.name(), case, samples));
        }
    }
    drop(progress);
    for contestant in ring {
        contestant.running.stop()?;
    }
    Ok(rows)
}

/// Starts a server for a kind of answer and fills it.
fn enter(
    rival: Rival,
    kind: Kind,
    logs: bool,
    options: &Options,
    origin: &Origin,
) -> Result<Contestant> {
    let (cache, memory) = match kind {
        Kind::Memory => (SMALL_CACHE, options.memory),
        Kind::Disk => (options.cache_size, TINY_MEMORY),
        Kind::Miss => (options.cache_size, options.memory),
    };
    let running = launch(
        rival,
        &Request {
            cache,
            memory,
            logs,
            front: (options.protocol != Protocol::H1).then_some(options.protocol),
            place: match &options.dir {
                Some(dir) => Place::Dir(std::path::absolute(dir).unwrap_or_else(|_| dir.clone())),
                None => Place::RunDir,
            },
            ..Request::of(format!("bench-{}", rival.name()), origin.address())
        },
    )?;
    let mut group = None;
    if kind == Kind::Disk && rival == Rival::VarnishFile {
        match MemoryGroup::new("varnish") {
            Ok(made) => {
                made.adopt(&running.roots())?;
                group = Some(made);
            }
            Err(failure) => eprintln!("varnish-file hits come from mapped pages: {failure}"),
        }
    }
    running.await_caching(origin)?;
    let bytes = options.disk_object_size.0;
    match kind {
        Kind::Memory => {
            for size in &options.sizes {
                fill(&running, WARM_UP, size.0, 1, |_| "hot".into())?;
                if let Some(front) = &running.front {
                    // Requests on another port have another authority, and so are for another object.
                    let load = Load {
                        address: front.address,
                        is_encrypted: options.protocol.is_encrypted(),
                        connections: 1,
                        time: Duration::from_secs(1),
                        bytes: size.0,
                        objects: Objects::One { id: "hot".into() },
                    };
                    ask(front, &load, 1)?;
                }
            }
        }
        Kind::Disk => {
            for _ in 0..FILL_PASSES_MAX {
                let before = origin.served();
                fill(&running, options.objects, bytes, FILL_CONNECTIONS, |n| {
                    format!("d{n}")
                })?;
                if origin.served() - before <= options.objects / 500 {
                    break;
                }
            }
        }
        Kind::Miss => {}
    }
    Ok(Contestant {
        running,
        group,
        rounds: 0,
    })
}

fn fill(
    running: &Running,
    count: u64,
    bytes: u64,
    connections: usize,
    id: impl Fn(u64) -> String + Sync,
) -> Result<()> {
    http::load(
        running.address,
        &format!("filling {}", running.rival.name()),
        count,
        connections,
        |n| origin::path(bytes, &id(n)),
        |n, answer| {
            answer.status == 200
                && answer.body.len() as u64 == bytes
                && origin::is_body_of(&answer.body, &id(n))
        },
    )
}

fn measure(
    contestant: &mut Contestant,
    case: Case,
    round: u32,
    options: &Options,
    origin: &Origin,
) -> Result<Sample> {
    let running = &contestant.running;
    let objects = match case.kind {
        Kind::Memory => Objects::One { id: "hot".into() },
        Kind::Disk => Objects::Random {
            prefix: "d".into(),
            count: options.objects,
            // The same seed for every server, another one in each round.
            seed: u64::from(round) + 1,
        },
        Kind::Miss => {
            contestant.rounds += 1;
            Objects::Unique {
                prefix: format!("m{}-", contestant.rounds),
            }
        }
    };
    if case.kind == Kind::Disk {
        if let Some(group) = &contestant.group {
            group.reclaim();
        }
        if !block::drop_page_cache() && round == 0 {
            eprintln!("the page cache cannot be dropped: disk hits come from memory");
        }
    }
    let front = running.front.as_ref();
    let load = Load {
        address: front.map_or(running.address, |front| front.address),
        is_encrypted: case.protocol.is_encrypted(),
        connections: case.connections,
        time: Duration::from_secs(options.seconds),
        bytes: case.bytes,
        objects,
    };
    let served = origin.served();
    let device = DeviceStat::of(&running.data).unwrap_or_default();
    let cpu = running.cpu();
    let figures = match front {
        Some(front) => ask(front, &load, case.streams)?,
        None => wrk::run(&load, &workspace::run_dir().join("wrk"))?,
    };
    let cpu = running.cpu().saturating_sub(cpu);
    let device = DeviceStat::of(&running.data)
        .unwrap_or_default()
        .since(&device);
    let requests = figures.requests as f64;
    let fetched = origin.served() - served;
    let hit_percent = match case.kind {
        // Memory hits of ours must not reach the origin; for a rival the row shows the share.
        Kind::Memory if fetched > 0 && running.rival.is_ours() => {
            return Err(Failure::new(format!(
                "{fetched} of {} hits came from the origin",
                figures.requests
            )));
        }
        Kind::Memory | Kind::Disk => 100.0 * (1.0 - (fetched as f64 / requests).min(1.0)),
        Kind::Miss => stored_percent(contestant, case, figures.requests, origin)?,
    };
    Ok(Sample {
        cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        figures,
        hit_percent,
        reads: device.reads as f64 / requests,
    })
}

/// Runs a load against the listener for other clients.
fn ask(front: &Front, load: &Load, streams: u32) -> Result<Figures> {
    match front.protocol.has_streams() {
        true => h2_load::run(front, load, streams),
        false => wrk::run(load, &workspace::run_dir().join("wrk")),
    }
}

/// The percentage of a sample of the last objects that the server still has.
fn stored_percent(
    contestant: &Contestant,
    case: Case,
    requests: u64,
    origin: &Origin,
) -> Result<f64> {
    let sample = SAMPLE.min(requests);
    let round = contestant.rounds;
    // Spread over the second half: objects of the first half may have been evicted by now.
    let id = |n: u64| {
        let nth = requests / 2 + n * (requests / 2) / sample;
        format!("m{round}-{nth}")
    };
    let before = origin.served();
    fill(&contestant.running, sample, case.bytes, 1, id)?;
    let fetched = (origin.served() - before).min(sample);
    Ok(100.0 * (1.0 - fetched as f64 / sample as f64))
}
