//! Rounds of `--upgrade`: another process replaces the proxy, and sometimes one of the two is killed meanwhile.
//!
//! Most upgrades are not disturbed. Then no request may fail, nothing purged may come back, and durable objects must hit. In the
//! others, the new or the old process gets SIGKILL: in three of four while one of them is held at a step of the hand-over (`steps`), all
//! steps in turn, else after a random part of the time that an upgrade takes. A surviving process must serve; at a step it is known which
//! one must survive. If none survives, the proxy is started as after any kill.
//!
//! Limits: [`COMMAND_MAX`] for an upgrade, [`END_MAX`] for the old process to end its requests, [`LEFT_MAX`] until a process serves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::proxy::Proxy;
use super::steps::{AtSteps, Hold, Left, Step};
use super::trial::Trial;
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::process::{Identity, Server, tail};
use crate::progress::Progress;

const COMMAND_MAX: Duration = Duration::from_secs(120);
const END_MAX: Duration = Duration::from_secs(90);
/// Longest time for a killed process to end.
const KILLED_MAX: Duration = Duration::from_secs(20);
const LEFT_MAX: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Percentage of upgrades without a kill.
const UNDISTURBED_PERCENT: u64 = 50;
/// Percentage of the kills that happen at a step.
const AT_STEPS_PERCENT: u64 = 75;
/// Least assumed duration of an upgrade in ms, so that some kills come late.
const LENGTH_MS_MIN: f64 = 40.0;

/// The outcomes of upgrades.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Upgrades {
    /// No process was killed.
    pub undisturbed: u64,
    pub new_killed: u64,
    pub old_killed: u64,
    /// The kill came after the upgrade, or before the new process existed.
    pub missed: u64,
    /// Survivors of kills: the old process, the new process, none.
    pub old_went_on: u64,
    pub new_went_on: u64,
    pub started_anew: u64,
    /// Kills while a process was held at a step.
    pub steps: AtSteps,
    /// For each undisturbed upgrade: how long nothing was stored, and how long no connection was accepted, in ms.
    pub frozen_ms: Vec<u64>,
    pub waited_ms: Vec<u64>,
}

impl Upgrades {
    /// The number of all upgrades.
    pub fn tried(&self) -> u64 {
        self.undisturbed + self.new_killed + self.old_killed + self.missed
    }

    /// The outcomes in one line.
    pub fn text(&self) -> String {
        let (frozen, waited) = (spread(&self.frozen_ms), spread(&self.waited_ms));
        format!(
            "{} upgrades: {} undisturbed, the new process killed in {}, the old one in {}, too early or late in {}; then the old one served \
             on {} times, the new one {}, and {} times none; nothing stored for {frozen}, nobody accepted for {waited}",
            self.tried(),
            self.undisturbed,
            self.new_killed,
            self.old_killed,
            self.missed,
            self.old_went_on,
            self.new_went_on,
            self.started_anew
        )
    }
}

/// Median and maximum.
fn spread(ms: &[u64]) -> String {
    let mut ms = ms.to_vec();
    ms.sort_unstable();
    match ms.last() {
        None => "-".to_owned(),
        Some(most) => format!("{} ms (median; {most} at most)", ms[ms.len() / 2]),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    New,
    Old,
}

/// The process to kill, and the step; `None`: at a random moment.
type Kill = (Victim, Option<Step>);

impl Trial<'_> {
    fn draw_kill(&mut self) -> Option<Kill> {
        if self.chance.percent(UNDISTURBED_PERCENT) {
            return None;
        }
        let victim = |is_old| if is_old { Victim::Old } else { Victim::New };
        if self.chance.percent(AT_STEPS_PERCENT) {
            let (step, is_old) = self.deck.draw(&mut self.chance);
            return Some((victim(is_old), Some(step)));
        }
        Some((victim(self.chance.percent(50)), None))
    }
}

impl Trial<'_> {
    pub(super) fn upgrade_round(&mut self, progress: &Progress) -> Result<()> {
        let (from, to) = self.plan.seconds;
        let life = self.chance.seconds(from, to);
        progress.say("under load");
        self.live(life)?;
        let kill = self.draw_kill();
        let words = match kill {
            None => "nobody killed".to_owned(),
            Some((victim, None)) => format!("{victim:?} killed"),
            Some((victim, Some(step))) => format!("{victim:?} killed at {}", step.name),
        };
        self.release();
        self.recovering_since = None;
        self.reserve();
        progress.say(format!("upgraded; {words}"));
        let shared = self.shared();
        self.report.lives.push(format!(
            "upgrade at {:.3} s, {words}",
            shared.begun.elapsed().as_secs_f64()
        ));
        match kill {
            None => self.upgrade_in_peace()?,
            Some(kill) => self.upgrade_and_kill(kill)?,
        }
        self.stopped_in_order = kill.is_none();
        self.recovering_since = Some(Instant::now());
        Ok(())
    }

    fn upgrade_in_peace(&mut self) -> Result<()> {
        let begun = Instant::now();
        let old = self.proxy.identity()?;
        let mut command = Asked::begin(&self.proxy)?;
        while !command.has_ended(begun)? {
            interrupt::pause(LOOK_EVERY)?;
        }
        let words = command.words()?;
        self.upgrade_ms = self.upgrade_ms.max(begun.elapsed().as_secs_f64() * 1000.0);
        let number = |before: &str| -> Option<u64> {
            let (_, rest) = words.split_once(before)?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let pid = number("process ").and_then(|pid| Identity::of(u32::try_from(pid).ok()?));
        let Some(new) = pid else {
            fail!("the upgrade failed: {words}{}", tail(&self.proxy.log));
        };
        let upgrades = &mut self.report.upgrades;
        upgrades.undisturbed += 1;
        upgrades.frozen_ms.extend(number("stored for "));
        upgrades.waited_ms.extend(number("waited for "));
        // The old process serves its slow clients to the end, and the next upgrade must not find it.
        let server = self.proxy.adopt(new);
        self.await_end(server, old)
    }

    /// Waits under load until the old process has ended.
    fn await_end(&mut self, server: Option<Server>, old: Identity) -> Result<()> {
        let mut server = server;
        let deadline = Instant::now() + END_MAX;
        loop {
            // Collect its exit status, or it stays a zombie.
            let _ = server.as_mut().map(Server::has_ended);
            if !old.is_alive() {
                return Ok(());
            }
            if Instant::now() > deadline {
                fail!("the old process does not end within {END_MAX:?}");
            }
            self.live(Duration::from_millis(20))?;
        }
    }

    fn upgrade_and_kill(&mut self, (victim, step): Kill) -> Result<()> {
        let shared = self.shared();
        let old = self.proxy.identity()?;
        let length = self.upgrade_ms.max(LENGTH_MS_MIN) * 1.2;
        let when = Duration::from_secs_f64(self.chance.seconds(0.0, length).as_secs_f64() / 1000.0);
        // The kill excuses all failures from here on.
        shared.life.turn();
        let hold = step.map(|step| Hold::new(&self.proxy.holds, step));
        let hold = hold.transpose()?;
        let begun = Instant::now();
        let mut command = Asked::begin(&self.proxy)?;
        match &hold {
            Some(hold) if !hold.await_it()? => {
                let name = step.map_or("", |step| step.name);
                fail!(
                    "an upgrade does not come to {name}{}",
                    tail(&self.proxy.log)
                );
            }
            Some(_) => {}
            None => {
                while begun.elapsed() < when {
                    interrupt::pause(Duration::from_micros(200))?;
                }
            }
        }
        let new = self.others(old).into_iter().next();
        let killed_at = Instant::now();
        let killed = match victim {
            Victim::Old => Some(old),
            _ => new,
        };
        let upgrades = &mut self.report.upgrades;
        match (victim, killed) {
            (_, None) => upgrades.missed += 1,
            (Victim::Old, _) => upgrades.old_killed += 1,
            _ => upgrades.new_killed += 1,
        }
        if let (Some(step), Some(_)) = (step, killed) {
            let at = upgrades.steps.entry(step.name).or_default();
            match victim {
                Victim::Old => at.old_killed += 1,
                Victim::New => at.new_killed += 1,
            }
        }
        if let Some(killed) = killed {
            killed.signal(Signal::KILL);
            let ended = || !killed.is_alive();
            if !interrupt::wait_until(KILLED_MAX, ended)? {
                fail!("a process does not end {KILLED_MAX:?} after SIGKILL");
            }
        }
        drop(hold);
        while !command.has_ended(begun)? {
            interrupt::pause(LOOK_EVERY)?;
        }
        shared.ledger.killed(killed_at);
        let mut last = self.proxy.adopt(old);
        let deadline = Instant::now() + LEFT_MAX;
        let is_left = loop {
            let _ = last.as_mut().map(Server::has_ended);
            let mut left = self.others(Identity {
                pid: 0,
                start_ticks: 0,
            });
            // If both are left, the old one only drains its connections, and the new one answers.
            if left.len() > 1 {
                left.retain(|one| *one != old);
            }
            match left[..] {
                [] => {
                    self.proxy.adopt_none();
                    last = None;
                    self.proxy.start()?;
                    break Left::Nobody;
                }
                [one] if self.proxy.answers() && one.is_alive() => {
                    match last.take().filter(|_| one == old) {
                        Some(server) => self.proxy.take_back(server),
                        None => drop(self.proxy.adopt(one)),
                    }
                    break if one == old { Left::Old } else { Left::New };
                }
                _ if Instant::now() > deadline => fail!(
                    "nobody serves {LEFT_MAX:?} after a kill{}",
                    tail(&self.proxy.log)
                ),
                _ => interrupt::pause(LOOK_EVERY)?,
            }
        };
        let upgrades = &mut self.report.upgrades;
        match is_left {
            Left::Old => upgrades.old_went_on += 1,
            Left::New => upgrades.new_went_on += 1,
            Left::Nobody => upgrades.started_anew += 1,
        }
        let wanted = step.and_then(|step| match victim {
            Victim::Old => Some(step.without_old),
            Victim::New => step.without_new,
        });
        if wanted.is_some_and(|wanted| wanted != is_left) {
            let name = step.map_or("", |step| step.name);
            shared.wrong(&format!(
                "{victim:?} was killed at {name}, and left is {is_left:?} instead of {wanted:?}"
            ));
        }
        shared.life.turn();
        // The old process may still serve its requests.
        if !self.others(old).is_empty() && old.is_alive() {
            self.await_end(last, old)?;
        }
        Ok(())
    }

    /// The processes of this proxy, except one.
    fn others(&self, but: Identity) -> Vec<Identity> {
        // The admin address is always among the arguments of its processes.
        let address = self.proxy.admin.to_string();
        let is_ours = |pid: u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.nth(1) == Some(b"serve") && words.any(|word| word == address.as_bytes())
        };
        let entries = std::fs::read_dir(Path::new("/proc")).into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let ours = pids.filter(|pid| is_ours(*pid)).filter_map(Identity::of);
        ours.filter(|one| *one != but && one.is_alive()).collect()
    }
}

/// A running `loligo upgrade`.
struct Asked(std::process::Child);

impl Asked {
    fn begin(proxy: &Proxy) -> Result<Asked> {
        let child = Command::new(proxy.program())
            .args(["upgrade", &format!("http://{}", proxy.admin)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map(Asked).during(|| "asking for an upgrade".into())
    }

    fn has_ended(&mut self, begun: Instant) -> Result<bool> {
        if begun.elapsed() > COMMAND_MAX {
            let _ = self.0.kill();
            fail!("an upgrade takes longer than {COMMAND_MAX:?}");
        }
        Ok(!matches!(self.0.try_wait(), Ok(None)))
    }

    /// The output of the command.
    fn words(self) -> Result<String> {
        let output = self.0.wait_with_output();
        let output = output.during(|| "reading what the upgrade says".into())?;
        let words = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&words).into_owned())
    }
}
