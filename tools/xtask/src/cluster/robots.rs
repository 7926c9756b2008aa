//! PolyMix's robots at every door: compares every byte, and reports the requests that reach the nodes.
//!
//! Not known here: the requests of a robot.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::bed::Bed;
use super::report::{Grid, Section};
use super::site::{FORWARD, Role};
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::ports;
use crate::process::{CommandLine, Server};
use crate::rivals;
use crate::truths::verdict::Verdict;
use crate::workspace;

/// KiB of the cache size for each second of the run; the fill phase brings twice the cache size.
const FILLED_KIB_A_SECOND: u64 = 64;
/// The robots' error for an answer that is older than one of their reloads.
const STALE_AFTER_RELOAD: &str = "stale after a reload";

/// The servers and robots of a run; dropping it ends them.
struct Processes {
    origin: Option<Server>,
    robots: Vec<(String, Child)>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, robot) in &mut self.robots {
            // The robot may have ended.
            let _ = robot.kill();
            let _ = robot.wait();
        }
        if let Some(mut origin) = self.origin.take()
            && let Err(failure) = origin.stop()
        {
            eprintln!("stopping the servers: {failure}");
        }
    }
}

/// Loads the bed for about this many seconds, at this total rate over all doors.
pub fn run(bed: &mut Bed, seconds: u32, rate: u32) -> Result<Section> {
    let doors: Vec<(String, std::net::SocketAddr)> = bed
        .members
        .iter()
        .filter(|member| member.spec.role.is_door())
        .map(|member| (member.name().to_owned(), member.at(FORWARD)))
        .collect();
    let mut section = Section::new(format!("PolyMix at {}", names(&doors)));
    // PolyMix's phases take 8 h and 15 min together; they are scaled down to the wanted time.
    let scale = (f64::from(seconds) / (8.25 * 3600.0)).to_string();
    let share = (rate / doors.len() as u32).max(1).to_string();
    let origin = format!("{}:{}", bed.network.home, ports::free()?);
    let workload: Vec<String> = [
        "--rate",
        &share,
        "--time-scale",
        &scale,
        "--think-scale",
        "0.02",
        "--http",
        "1.1",
        "--one-address",
        // Few servers: with more of them, few objects would be repeated in this short run.
        "--servers",
        "8",
        "--origin",
        &origin,
    ]
    .map(str::to_owned)
    .into();
    let before = bed.counts()?;
    let program = rivals::lab_binary().display().to_string();
    let line = ["bench", "origin", "--remote"]
        .map(str::to_owned)
        .into_iter();
    let line = mortal(&program, line.chain(workload.iter().cloned()).collect());
    let mut processes = Processes {
        origin: Some(line.spawn(&bed.site.dir.join("polymix-origin.log"))?),
        robots: Vec::new(),
    };
    let is_up = || TcpStream::connect(&origin).is_ok();
    if !interrupt::wait_until(Duration::from_secs(30), is_up)? {
        fail!("PolyMix's servers do not answer");
    }
    let cache_size = format!("{}KiB", FILLED_KIB_A_SECOND * u64::from(seconds));
    for (n, (name, door)) in doors.iter().enumerate() {
        let log = fs::File::create(bed.site.dir.join(format!("robots-{name}.txt")))
            .during(|| "a log of the robots".into())?;
        let errors = log.try_clone().during(|| "a second handle".into())?;
        let own: Vec<String> = ["bench", "robots", "--quiet"].map(str::to_owned).into();
        let place: Vec<String> = [
            "--proxy",
            &door.to_string(),
            "--cache-size",
            &cache_size,
            "--world",
            "7",
            "--seed",
            &(n + 1).to_string(),
            "--json",
            &bed.site
                .dir
                .join(format!("robots-{name}.json"))
                .display()
                .to_string(),
        ]
        .map(str::to_owned)
        .into();
        let line = mortal(&program, [own, workload.clone(), place].concat());
        let robot = Command::new(&line.program)
            .args(&line.args)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .during(|| "starting the robots".into())?;
        processes.robots.push((name.clone(), robot));
    }
    loop {
        let robots = processes.robots.iter_mut();
        if !robots
            .map(|(_, robot)| robot.try_wait())
            .any(|ended| matches!(ended, Ok(None)))
        {
            break;
        }
        bed.check_alive()?;
        interrupt::pause(Duration::from_millis(200))?;
    }
    drop(processes);
    told(bed, &doors, &mut section)?;
    let gained: Vec<_> = bed
        .counts()?
        .iter()
        .zip(&before)
        .map(|(now, then)| now.since(then))
        .collect();
    super::misses::tell(bed, &gained, &mut section);
    Ok(section)
}

/// A command that the kernel kills together with this process, so that a SIGKILL leaves nothing behind. (Members are found by their
/// namespaces instead.)
fn mortal(program: &str, args: Vec<String>) -> CommandLine {
    match workspace::program("setpriv") {
        Some(setpriv) => {
            let before = ["--pdeathsig", "KILL", program].map(str::to_owned);
            CommandLine::new(
                &setpriv.display().to_string(),
                before.into_iter().chain(args),
            )
        }
        None => CommandLine::new(program, args),
    }
}

fn names(doors: &[(String, std::net::SocketAddr)]) -> String {
    let names: Vec<&str> = doors.iter().map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}

/// Reports the robots' results.
fn told(bed: &Bed, doors: &[(String, std::net::SocketAddr)], section: &mut Section) -> Result<()> {
    let mut grid = Grid::new(
        "PolyMix",
        [
            "door",
            "requests",
            "right",
            "wrong",
            "hit %",
            "offered %",
            "p50 ms",
            "p99 ms",
        ],
    );
    let (mut wrong, mut first) = (0, String::new());
    for (name, _) in doors {
        let path = bed.site.dir.join(format!("robots-{name}.json"));
        let text = fs::read_to_string(&path)
            .during(|| format!("the robots at {name} told nothing: {}", path.display()))?;
        let told: Value =
            serde_json::from_str(&text).during(|| format!("reading {}", path.display()))?;
        let total = &told["total"];
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        for (fault, count) in total["faults"].as_object().into_iter().flatten() {
            let count = count.as_u64().unwrap_or(0);
            if fault == STALE_AFTER_RELOAD {
                section.remarks.push(format!("{name}: {count} answers were {fault}: a reload goes to the origin, and other members keep what they have"));
            } else {
                wrong += count;
                first = format!("{name}: {fault}");
            }
        }
        for fault in told["faults"].as_array().into_iter().flatten().take(3) {
            section
                .remarks
                .push(format!("{name}: {}", fault.as_str().unwrap_or_default()));
        }
        grid.row([
            name.clone(),
            format!("{}", number(&total["requests"])),
            format!("{}", number(&total["replies"])),
            format!("{}", number(&total["errors"])),
            format!("{:.1}", number(&total["dhr_percent"])),
            format!("{:.1}", number(&total["offered_percent"])),
            format!("{:.1}", number(&total["response"]["p50_ms"])),
            format!("{:.1}", number(&total["response"]["p99_ms"])),
        ]);
        if number(&total["replies"]).is_nan() || number(&total["replies"]) < 1.0 {
            section
                .verdicts
                .push(Verdict::broken("PolyMix", &format!("{name}: no answers")));
        }
    }
    section
        .verdicts
        .push(Verdict::none("wrong answers", wrong, &first));
    section.grids.push(grid);
    let nodes = bed
        .members
        .iter()
        .filter(|member| member.spec.role == Role::Node)
        .count();
    section
        .remarks
        .push(format!("{} doors, {nodes} nodes behind them", doors.len()));
    Ok(())
}
