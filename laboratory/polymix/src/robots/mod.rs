//! The clients: thousands of robots on one thread.
//!
//! `schedule` gives each robot its turns. A robot's request is sent on a kept connection; on a new one if the robot has fewer than
//! four; otherwise it waits in the robot's queue. Each connection is a task (`connection`). After a correct page its images are
//! requested at once. They are subtracted from the robot's later turns, so that the rate includes them.
//!
//! A response time begins at the intended time of the request. If the request waited for one of the robot's four connections, which
//! the workload demands, the time begins when a connection was free, and the wait is counted apart. The delay of the schedule
//! itself is counted as lag: if that is more than a few milliseconds, the load generator is what is being measured.
//!
//! Not known here: the right answers (`check`).
//! Limits: `QUEUE_MAX` requests wait in a robot, more are faults; kept connections are closed after `IDLE`.
//! Source: spec sections 2 and 6.

mod connection;
mod outcome;
mod reloads;
mod schedule;
mod stream;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::outcome::{GivenUp, News, Outcome, PhaseRun, Progress};
use self::reloads::Reloads;
use self::schedule::Schedule;
use crate::Mix;
use crate::answer::Finished;
use crate::check::Fault;
use crate::clock::{GAP_S_MEAN, Pace};
use crate::content::{IMAGES_MAX, Kind};
use crate::cores::Cores;
use crate::ideal::Ideal;
use crate::lru::ExactLru;
use crate::name::Servers;
use crate::phases::{Ends, Phase};
use crate::popularity::{Popularity, direct_kind};
use crate::random::{Chance, zipf};
use crate::request::{Condition, Method, Request};
use crate::series::Series;
use crate::server::{Counters, now_s};
use crate::stats::{Counted, FAULTS_KEPT, Timing, Volume};
use crate::wire::Minor;

//= spec section 2   at most 4 connections a robot
const CONNECTIONS_MAX: u8 = 4;
const QUEUE_MAX: usize = 1_000;
/// A kept connection is closed after this long without use.
const IDLE: Duration = Duration::from_secs(15);
/// Number of turns simulated to give a robot a typical debt of images.
const DEBT_TURNS: u32 = 64;
/// The schedule checks the time at least this often.
const TICK: Duration = Duration::from_millis(20);
/// Answers that arrive later than this after the last phase are not waited for.
const DRAIN: Duration = Duration::from_secs(10);

/// Number of robots for a rate.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // thousands
pub fn robots_for(rate: f64) -> u32 {
    (rate * GAP_S_MEAN).ceil().max(1.0) as u32
}

/// Settings of the robots.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which workload.
    pub mix: Mix,
    /// The proxy under test.
    pub proxy: SocketAddr,
    /// Robots speak TLS to the proxy.
    pub https: bool,
    /// The servers of the objects.
    pub servers: Servers,
    /// Number of robots.
    pub robots: u32,
    /// Speed of a robot; 1 is as specified.
    pub speed: f64,
    /// The first of the robots' addresses, one for each robot; otherwise the system chooses.
    pub addresses: Option<Ipv4Addr>,
    /// Identifies the objects of these robots: two groups of robots must have different ones.
    pub world: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// HTTP/1.0, as specified, or 1.1.
    pub minor: Minor,
    /// Shortens life cycles along with the test; the same as the servers'.
    pub life_scale: f64,
    /// Share of plain requests, other than for pages, that ask for a range. PolyMix has none.
    pub range_share: f64,
    /// Bytes of the proxy's cache: size of the LRU whose hits are counted.
    pub cache_bytes: u64,
    /// Number of fills after which the working set is frozen.
    pub working_set_fills: u64,
    /// Longest wait for an answer, and for a connection.
    pub patience: Duration,
    /// Most open sockets; beyond that a request fails as `Exhausted`. The servers, if they are in this process, need the other
    /// descriptors to answer, or the run would not end.
    pub sockets_max: u64,
    /// Above this many connections, idle ones are closed at once: descriptors are scarce.
    pub kept_max: u64,
}

/// A request with its times.
#[derive(Debug, Clone, Copy)]
struct Job {
    request: Request,
    /// The phase in which the request was intended.
    phase: usize,
    intended: Instant,
    /// When the robot had a connection for the request.
    ready: Instant,
    retried: bool,
}

#[derive(Debug, Default)]
struct Robot {
    /// Images fetched that the schedule has not subtracted yet.
    owed: u32,
    open: u8,
    queue: VecDeque<Job>,
    /// Kept connections: sending a job wakes the connection's task.
    kept: Vec<oneshot::Sender<Job>>,
}

impl Robot {
    /// A robot that has been running for a while. Without debts, all robots would fetch their first images in addition to the planned rate,
    /// and a short test would not make up for that.
    fn new(chance: &mut Chance) -> Self {
        let mut owed = 0_u32;
        for _ in 0..DEBT_TURNS {
            if owed > 0 {
                owed -= 1;
            } else if direct_kind(chance.unit()).1 == Kind::Html {
                owed = zipf(IMAGES_MAX, chance.unit());
            }
        }
        Self {
            owed,
            ..Self::default()
        }
    }
}

struct Shared {
    settings: Settings,
    /// TLS for connections to the proxy; none if they are plain.
    encryption: Option<Arc<ClientConfig>>,
    began: Instant,
    state: RefCell<State>,
}

struct State {
    popularity: Popularity,
    ideal: Ideal,
    lru: ExactLru,
    reloads: Reloads,
    chance: Chance,
    robots: Vec<Robot>,
    phase: usize,
    /// All phases are over. Remaining answers are awaited, but start no further requests.
    over: bool,
    counted: Vec<Counted>,
    series: Series,
    faults: Vec<String>,
    fills: Volume,
    replies: u64,
    errors: u64,
    in_flight: u64,
    exchange: u64,
    /// Sockets that are open or being opened.
    sockets: u64,
    connections: u64,
    connections_max: u64,
    /// CPU times that are already in the series.
    noted: Cores,
    noted_origin: Duration,
}

/// Runs all phases. Must run on a `LocalSet`. `progress` is called once a second and after each phase. `origin` has the servers'
/// counters, if they are in this process.
pub async fn run(
    settings: Settings,
    phases: &[Phase],
    origin: Option<&Counters>,
    mut progress: impl FnMut(News<'_>),
) -> Outcome {
    let mut chance = Chance::new(settings.seed);
    let mut schedule = Schedule::new(settings.robots, &mut chance);
    let robots = (0..settings.robots).map(|_| Robot::new(&mut chance));
    let robots = robots.collect();
    let shared = Rc::new(Shared {
        began: Instant::now(),
        state: RefCell::new(State {
            popularity: Popularity::new(settings.mix, settings.world, settings.servers.count),
            ideal: Ideal::new(settings.servers.count, settings.life_scale),
            lru: ExactLru::new(settings.cache_bytes),
            reloads: Reloads::default(),
            chance,
            robots,
            phase: 0,
            over: false,
            counted: Vec::new(),
            series: Series::default(),
            faults: Vec::new(),
            fills: Volume::default(),
            replies: 0,
            errors: 0,
            in_flight: 0,
            exchange: u64::from(settings.world) << 32,
            sockets: 0,
            connections: 0,
            connections_max: 0,
            noted: Cores::of_this_thread(),
            noted_origin: origin.map_or(Duration::ZERO, |o| o.seen().cpu),
        }),
        encryption: settings.https.then(stream::encryption),
        settings,
    });
    let mut runs = Vec::new();
    let mut begins = shared.began;
    for phase in phases {
        shared.begin_phase();
        let cores = Cores::of_this_thread();
        let seen = origin.map(Counters::seen);
        let ends = schedule
            .run(&shared, phase, begins, origin, &mut progress)
            .await;
        runs.push(PhaseRun {
            name: phase.name,
            from: begins - shared.began,
            to: ends - shared.began,
            intended_rate: shared.intended_rate(phase, ends - begins),
            given_up: shared.given_up(phase),
            cores: Cores::of_this_thread() - cores,
            counted: Counted::default(),
            origin: origin
                .map(Counters::seen)
                .zip(seen)
                .map(|(now, then)| now.since(&then)),
        });
        begins = ends;
        if runs.len() < phases.len() {
            progress(News::PhaseOver(&shared.outcome(runs.clone())));
        }
    }
    shared.state.borrow_mut().over = true;
    let patience_ends = Instant::now() + DRAIN;
    while shared.state.borrow().in_flight > 0 && Instant::now() < patience_ends {
        tokio::time::sleep(TICK).await;
    }
    shared.outcome(runs)
}

impl State {
    /// Whether a phase has reached its goal. A phase of fixed length has none.
    fn reached(&self, phase: &Phase) -> bool {
        match phase.ends {
            Ends::After(_) => false,
            Ends::ServersSeen(_) => self.popularity.all_servers_seen(),
            Ends::Filled { bytes, .. } => self.fills.bytes >= bytes && self.popularity.frozen(),
        }
    }
}

impl Shared {
    fn begin_phase(&self) {
        let mut state = self.state.borrow_mut();
        state.counted.push(Counted::default());
        state.phase = state.counted.len() - 1;
    }

    /// When a phase ended, if it has. A phase of fixed length ends at its planned time, however late this is called.
    fn ended(&self, phase: &Phase, begins: Instant) -> Option<Instant> {
        let now = Instant::now();
        let state = self.state.borrow();
        let time_over = begins + Duration::from_secs_f64(phase.length_s());
        if state.reached(phase) {
            Some(now.min(time_over))
        } else {
            (now >= time_over).then_some(time_over)
        }
    }

    /// How far a fill came that did not reach its goal.
    fn given_up(&self, phase: &Phase) -> Option<GivenUp> {
        let state = self.state.borrow();
        if state.reached(phase) {
            return None;
        }
        GivenUp::of(phase, &state.fills, self.settings.working_set_fills)
    }

    /// A robot's turn: it sends a request, or pays for an image that it fetched.
    fn ask(self: &Rc<Self>, robot: u32, intended: Instant, recurrence: f64, special: f64) {
        let request = {
            let state = &mut *self.state.borrow_mut();
            let owed = &mut state.robots[robot as usize].owed;
            if *owed > 0 {
                *owed -= 1;
                state.counted[state.phase].skipped += 1;
                return;
            }
            let mix = self.settings.mix;
            let wanted = Popularity::recurrence(mix) * recurrence;
            let picked = state.popularity.pick(wanted, &mut state.chance);
            let now = Instant::now();
            let lag = now.saturating_duration_since(intended);
            state.counted[state.phase].lag.add(lag);
            state.series.at(now - self.began).launched(lag);
            Request::draw(mix, picked.id, special, &mut state.chance)
                .asked_before(picked.old)
                .draw_range(self.settings.range_share, &mut state.chance)
        };
        self.launch(robot, request, intended);
    }

    fn launch(self: &Rc<Self>, robot: u32, mut request: Request, intended: Instant) {
        let state = &mut *self.state.borrow_mut();
        let meaning = state.ideal.follow(&request, now_s());
        request.offered = meaning.is_hit();
        request.offered_lru = state.lru.ask(request.id, meaning);
        state.series.at(self.began.elapsed()).requests += 1;
        let counted = &mut state.counted[state.phase];
        counted.requests += 1;
        counted.offered += u64::from(request.offered);
        counted.lru += u64::from(request.offered_lru);
        let mut job = Job {
            request,
            phase: state.phase,
            intended,
            ready: intended,
            retried: false,
        };
        let own = &mut state.robots[robot as usize];
        while let Some(kept) = own.kept.pop() {
            match kept.send(job) {
                Ok(()) => {
                    state.in_flight += 1;
                    return;
                }
                // That connection was closed meanwhile.
                Err(back) => job = back,
            }
        }
        if own.open < CONNECTIONS_MAX {
            own.open += 1;
            state.in_flight += 1;
            tokio::task::spawn_local(connection::run(Rc::clone(self), robot, job));
        } else if own.queue.len() < QUEUE_MAX {
            own.queue.push_back(job);
            state.in_flight += 1;
        } else {
            state.errors += 1;
            counted.failed(&Fault::Overload);
        }
    }

    /// The next job for a connection that is free now.
    fn next(&self, robot: u32) -> Option<Job> {
        let mut job = self.state.borrow_mut().robots[robot as usize]
            .queue
            .pop_front()?;
        job.ready = Instant::now().max(job.intended);
        Some(job)
    }

    fn keep(&self, robot: u32) -> oneshot::Receiver<Job> {
        let (sender, receiver) = oneshot::channel();
        self.state.borrow_mut().robots[robot as usize]
            .kept
            .push(sender);
        receiver
    }

    fn gone(&self, robot: u32) {
        let own = &mut self.state.borrow_mut().robots[robot as usize];
        own.open -= 1;
        own.kept.retain(|kept| !kept.is_closed());
    }

    fn finished(self: &Rc<Self>, robot: u32, job: &Job, finished: &Finished, first_byte: Instant) {
        let now = Instant::now();
        let timing = Timing {
            first_byte: first_byte - job.ready,
            response: now - job.ready,
            queued: job.ready - job.intended,
        };
        {
            let state = &mut *self.state.borrow_mut();
            state.in_flight -= 1;
            state.replies += 1;
            let counted = &mut state.counted[job.phase];
            let fills = counted.fills;
            counted.finished(&job.request, finished, &timing);
            // Polygraph's goals count basic misses only (ObjId::fill).
            if job.request.is_basic() {
                state.fills.count += counted.fills.count - fills.count;
                state.fills.bytes += counted.fills.bytes - fills.bytes;
            }
            if job.request.condition == Condition::Reload
                && let Some(made_ms) = finished.made_ms
            {
                state.reloads.answered(job.request.id, made_ms);
            }
            let sample = state.series.at(now - self.began);
            sample.finished(&job.request, finished, timing.response);
            if !state.popularity.frozen() && state.fills.count >= self.settings.working_set_fills {
                state.popularity.freeze();
            }
        }
        let over = self.state.borrow().over;
        let images = match (job.request.method, finished.status) {
            (Method::Get, 200) if !over => job.request.id.images(),
            _ => 0,
        };
        self.state.borrow_mut().robots[robot as usize].owed += images;
        for position in 0..images {
            let image = {
                let state = &mut *self.state.borrow_mut();
                let image = job.request.image(position);
                image.draw_abort(self.settings.mix, &mut state.chance)
            };
            self.launch(robot, image, now);
        }
    }

    fn failed(&self, job: &Job, fault: &Fault) {
        let state = &mut *self.state.borrow_mut();
        state.in_flight -= 1;
        state.errors += 1;
        state.counted[job.phase].failed(fault);
        state.series.at(self.began.elapsed()).errors += 1;
        if state.faults.len() < FAULTS_KEPT {
            let mut path = Vec::new();
            crate::name::write_path(job.request.id, &mut path);
            let address = self.settings.servers.host(job.request.id.server);
            let path = String::from_utf8_lossy(&path);
            let (method, condition) = (job.request.method, job.request.condition);
            let text = format!("{fault}: http://{address}{path} ({method:?}, {condition:?})");
            state.faults.push(text);
        }
    }

    /// Adds the CPU time since the last call to the series.
    fn note(&self, origin: Option<&Counters>) {
        let state = &mut *self.state.borrow_mut();
        let (cores, seen) = (Cores::of_this_thread(), origin.map(Counters::seen));
        let taken = cores - state.noted;
        let sample = state.series.at(self.began.elapsed());
        sample.cpu_s += taken.cpu.as_secs_f64();
        sample.core_wait_s += taken.wait.as_secs_f64();
        sample.connections_max = sample.connections_max.max(state.connections);
        state.noted = cores;
        if let Some(seen) = seen {
            sample.origin_cpu_s += seen.cpu.saturating_sub(state.noted_origin).as_secs_f64();
            state.noted_origin = seen.cpu;
        }
    }

    fn progress(&self, phase: &'static str, begins: Instant) -> Progress {
        let state = self.state.borrow();
        Progress {
            phase,
            phase_time: begins.elapsed(),
            time: self.began.elapsed(),
            replies: state.replies,
            errors: state.errors,
            in_flight: state.in_flight,
            fills: state.fills,
            frozen: state.popularity.frozen(),
        }
    }

    fn outcome(&self, mut phases: Vec<PhaseRun>) -> Outcome {
        let state = &mut *self.state.borrow_mut();
        // Copied at the end: a request is counted when it ends, which may be after its phase.
        for (run, counted) in phases.iter_mut().zip(state.counted.iter()) {
            run.counted = counted.clone();
        }
        Outcome {
            phases,
            series: state.series.clone(),
            faults: state.faults.clone(),
            unfinished: state.in_flight,
            working_set: state.popularity.working_set(),
            frozen: state.popularity.frozen(),
            repeats_wanted: state.popularity.repeats_wanted(),
            nothing_to_repeat: state.popularity.nothing_to_repeat(),
            connections_max: state.connections_max,
        }
    }

    fn intended_rate(&self, phase: &Phase, took: Duration) -> f64 {
        let seconds = took.as_secs_f64().max(1e-9);
        f64::from(self.settings.robots) * Pace::of(phase, self.settings.speed).done(seconds)
            / GAP_S_MEAN
            / seconds
    }
}
