//! Runs one contestant at one size: starts it with an empty store, replays the trace through it, stops it.
//!
//! The origin's port is held while the proxy starts, because some proxies connect to their origin then. During the replay the files in
//! the proxy's folder are added up once a second: a proxy that keeps files removes old ones with a delay, and may exceed its
//! size for a while.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use replay::Report;
use serde::Serialize;

use super::Options;
use super::contestants::Contestant;
use crate::failure::{During, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::process::{CommandLine, Server, tail};
use crate::rivals::compare::held_port::HeldPort;
use crate::rivals::{Request, Running, lab_binary, launch};
use crate::size::Bytes;
use crate::workspace;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Names are the same for all contestants, so that their hashes are, too.
const WORLD: &str = "replay";

/// The sizes given to a contestant.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub disk: Bytes,
    pub memory: Bytes,
}

/// How a run ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Played(Box<Played>),
    Failed(String),
}

/// The results of a run.
#[derive(Debug, Serialize)]
pub struct Played {
    pub report: Report,
    /// the most bytes in the proxy's folder, as the file system counts
    pub disk_used_max: Option<u64>,
    /// resident memory of all its processes at the end; pages they share are counted for each
    pub resident_bytes: u64,
    /// user and system time of all its processes
    pub cpu_s: f64,
}

/// The replay; stopped when dropped.
struct Player(Server);

impl Drop for Player {
    fn drop(&mut self) {
        if let Err(failure) = self.0.stop() {
            eprintln!("stopping the replay: {failure}");
        }
    }
}

/// Runs a contestant. An error means an interrupt by the developer; failures of the contestant are an outcome.
pub fn run(
    contestant: &Contestant,
    sizes: Sizes,
    options: &Options,
    told: &mut dyn FnMut(String),
) -> Result<Outcome> {
    let outcome = attempt(contestant, sizes, options, told);
    interrupt::check()?;
    Ok(match outcome {
        Ok(played) => Outcome::Played(Box::new(played)),
        Err(failure) => Outcome::Failed(failure.to_string()),
    })
}

fn attempt(
    contestant: &Contestant,
    sizes: Sizes,
    options: &Options,
    told: &mut dyn FnMut(String),
) -> Result<Played> {
    let held = HeldPort::new()?;
    let origin = held.address;
    let request = Request {
        cache: sizes.disk,
        memory: sizes.memory,
        workers: options.workers,
        extra: extra(contestant)?,
        ..Request::of(format!("replay-{}", contestant.name), origin)
    };
    let mut running = launch(contestant.rival, &request)?;
    let json = running.run.join("replay.json");
    let log = running.run.join("replay.log");
    let mut args: Vec<String> = ["lab", "replay"].map(String::from).into();
    args.push(absolute(&options.trace)?.display().to_string());
    args.extend(options.reading());
    let roots: Vec<String> = running.roots().iter().map(u32::to_string).collect();
    for (flag, value) in [
        ("--proxy", format!("http://{}", running.address)),
        ("--origin", origin.to_string()),
        ("--pid", roots.join(",")),
        ("--connections", options.connections.to_string()),
        ("--world", WORLD.to_owned()),
        ("--json", json.display().to_string()),
    ] {
        args.extend([flag.to_owned(), value]);
    }
    args.push("--reverse".to_owned());
    if let Some(pace) = options.pace {
        args.extend(["--pace".to_owned(), pace.to_string()]);
    }
    if let Some(limit) = options.limit {
        args.extend(["--limit".to_owned(), limit.to_string()]);
    }
    drop(held);
    let program = lab_binary().display().to_string();
    let player = Player(CommandLine::new(&program, args).spawn(&log)?);
    let disk_used_max = watch(player, &mut running, options.time_max(), &log, told)?;
    let Ok(text) = std::fs::read_to_string(&json) else {
        fail!("no report{}", tail(&log));
    };
    let report = serde_json::from_str(&text).during(|| format!("reading {}", json.display()))?;
    if contestant.rival.is_ours() {
        keep_metrics(&running);
    }
    let played = Played {
        report,
        disk_used_max: contestant.rival.has_disk().then_some(disk_used_max),
        resident_bytes: running.resident_bytes(),
        cpu_s: running.cpu().as_secs_f64(),
    };
    // Keep the results even if an overloaded machine ends the processes late; the next start checks for them again.
    if let Err(failure) = running.stop() {
        eprintln!("stopping {}: {failure}", contestant.name);
    }
    Ok(played)
}

/// Waits until the replay has ended. Returns the most bytes that lay in the proxy's folder.
fn watch(
    mut player: Player,
    running: &mut Running,
    limit: Duration,
    log: &Path,
    told: &mut dyn FnMut(String),
) -> Result<u64> {
    let begun = Instant::now();
    let mut most = 0;
    while !player.0.has_ended() {
        interrupt::pause(LOOK_EVERY)?;
        most = most.max(allocated_bytes(&running.data));
        running.check_alive()?;
        if begun.elapsed() > limit {
            fail!(
                "took longer than {} minutes (--time-max)",
                limit.as_secs() / 60
            );
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        if let Some(line) = said.lines().last() {
            told(line.to_owned());
        }
    }
    Ok(most.max(allocated_bytes(&running.data)))
}

/// The further arguments: lines of Squid's configuration as they are, or for Loligo the name of a file with its lines.
fn extra(contestant: &Contestant) -> Result<Vec<String>> {
    if !contestant.rival.is_ours() || contestant.settings.is_empty() {
        return Ok(contestant.settings.clone());
    }
    // Not in the run directory, which is emptied when the proxy is started.
    let dir = workspace::run_dir().join("replay");
    std::fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
    let path = dir.join(format!("{}.toml", contestant.name));
    let text = contestant.settings.join("\n") + "\n";
    std::fs::write(&path, text).during(|| format!("writing {}", path.display()))?;
    Ok(vec!["--config".to_owned(), path.display().to_string()])
}

/// Writes the proxy's own metrics beside its logs, so that a surprising figure can be examined.
fn keep_metrics(running: &Running) {
    if let Ok(answer) = Client::new(running.admin).get("/metrics") {
        // A failure does no harm: nothing reads the file.
        let _ = std::fs::write(running.run.join("metrics.txt"), answer.body);
    }
}

/// The bytes that the file system has allocated for a folder's files.
fn allocated_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            // The file may have been removed by now.
            let Ok(meta) = entry.metadata() else { continue };
            match meta.is_dir() {
                true => dirs.push(entry.path()),
                false => sum += meta.blocks() * 512,
            }
        }
    }
    sum
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).during(|| format!("looking for {}", path.display()))
}
