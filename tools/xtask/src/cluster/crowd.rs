//! Clients that send requests without pause, compare every byte, and count by the second.
//!
//! Each client has its turns, so the rate is the demanded one as long as answers arrive in time. A share of the requests is for
//! objects that are requested once, the others are chosen by Zipf's law. Clients use all open *doors* in turn, as
//! a balancer of TCP connections would: a thread checks the health of each door every [`LOOK_EVERY`].
//!
//! Errors are: an answer other than 200, a connection that ends without an answer. Wrong bytes are counted apart. If the door is gone,
//! or found to be gone while a client waits there, the client retries at another door, as with a balancer; only if that
//! fails it is an error. A body that ends early because its door is gone is counted apart: no proxy can prevent that.
//!
//! Not known here: the members behind the doors.   Limits: [`CLIENTS_MAX`]; a request waits as long as [`crate::http`] allows.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::member::is_well;
use crate::chance::{Chance, mix};
use crate::failure::{Result, fail};
use crate::http::{Answer, Client, Ended, Request};
use crate::origin::{self, Origin};

const CLIENTS_MAX: usize = 256;
/// How often the balancer checks whether a door is open.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A client that is later than this does not catch up.
const LATE_MAX: Duration = Duration::from_secs(1);
/// Most errors that are described in full.
const EXAMPLES_MAX: usize = 10;

/// The requests to make.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Demand {
    /// Requests a second.
    pub rate: u32,
    pub clients: usize,
    /// Objects that are requested repeatedly.
    pub objects: u64,
    /// Percentage of requests for objects that are requested once.
    pub fresh_percent: u64,
    /// Mean length of bodies; they vary from an eighth to about twice of it.
    pub body_bytes: u64,
    pub seed: u64,
}

/// The address for clients, and the address of the health check; HAProxy counts as always healthy.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    pub site: SocketAddr,
    pub admin: Option<SocketAddr>,
}

/// The counts of one second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Second {
    pub answers: u64,
    /// Answers of the origin.
    pub fetched: u64,
    pub errors: u64,
    /// Complete answers with status 200 and a wrong body.
    pub wrong: u64,
    /// Bodies that ended early because their door was killed.
    pub cut: u64,
    /// Requests retried at another door.
    pub again: u64,
    /// Time of each answer.
    #[serde(skip)]
    pub waits_us: Vec<u32>,
}

impl Second {
    /// Percentage of answers without a request to the origin. Answers in flight between two seconds blur it.
    pub fn hit_percent(&self) -> f64 {
        hit_percent(self.answers, self.fetched)
    }
}

fn hit_percent(answers: u64, fetched: u64) -> f64 {
    100.0 * (answers as f64 - fetched as f64) / answers.max(1) as f64
}

/// The sum of some seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sum {
    pub seconds: usize,
    pub answers: u64,
    pub hit_percent: f64,
    pub errors: u64,
    pub wrong: u64,
    pub cut: u64,
    pub again: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Sum {
    /// The sum of these seconds.
    pub fn of(seconds: &[Second]) -> Self {
        let sum = |f: fn(&Second) -> u64| seconds.iter().map(f).sum::<u64>();
        let answers = sum(|s| s.answers);
        let mut waits: Vec<u32> = seconds.iter().flat_map(|s| s.waits_us.clone()).collect();
        waits.sort_unstable();
        let percentile = |percent: usize| match waits.len() {
            0 => 0.0,
            count => f64::from(waits[(count * percent / 100).min(count - 1)]) / 1000.0,
        };
        Self {
            seconds: seconds.len(),
            answers,
            hit_percent: hit_percent(answers, sum(|s| s.fetched)),
            errors: sum(|s| s.errors),
            wrong: sum(|s| s.wrong),
            cut: sum(|s| s.cut),
            again: sum(|s| s.again),
            p50_ms: percentile(50),
            p99_ms: percentile(99),
        }
    }
}

/// An object, whose name determines its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub path: String,
    id: String,
    bytes: u64,
}

impl Object {
    /// An object of this name, with a length around `body_bytes`.
    pub fn of(id: String, number: u64, body_bytes: u64) -> Self {
        let spread = body_bytes.max(8) * 2;
        Self::exactly(id, body_bytes / 8 + mix(number) % spread)
    }

    /// An object of this name and length.
    pub fn exactly(id: String, bytes: u64) -> Self {
        let path = origin::path(bytes, &id);
        Self { path, id, bytes }
    }

    /// Whether the answer has exactly the object's bytes.
    pub fn is_right(&self, answer: &Answer) -> bool {
        answer.status == 200
            && answer.body.len() as u64 == self.bytes
            && origin::is_body_of(&answer.body, &self.id)
    }
}

/// Zipf's law with exponent 1: the n-th object is requested 1/n as often as the first.
#[derive(Debug, Clone, Copy)]
pub struct Popularity {
    log: f64,
}

impl Popularity {
    /// Zipf's law over this many objects.
    pub fn over(objects: u64) -> Self {
        Self {
            log: (objects.max(1) as f64 + 1.0).ln(),
        }
    }

    /// The rank of the next request's object, from 0.
    pub fn draw(self, unit: f64) -> u64 {
        // The inverse of the integral of 1/x from 1 on.
        (self.log * unit).exp() as u64 - 1
    }
}

struct Shared {
    demand: Demand,
    doors: Vec<Door>,
    open: Vec<Arc<AtomicBool>>,
    stop: AtomicBool,
    begun: Instant,
    seconds: Mutex<Vec<Second>>,
    examples: Mutex<Vec<String>>,
    turn: AtomicU64,
    fresh: AtomicU64,
}

/// Running clients; dropping it stops them.
pub struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts the clients. Hits are computed from the origin's count of answers, so nobody else may use the origin meanwhile.
    pub fn start(demand: Demand, doors: Vec<Door>, origin: &Origin) -> Result<Self> {
        if doors.is_empty() || demand.clients == 0 || demand.clients > CLIENTS_MAX {
            fail!("a crowd needs a door and 1 to {CLIENTS_MAX} clients");
        }
        let shared = Arc::new(Shared {
            demand,
            open: doors
                .iter()
                .map(|_| Arc::new(AtomicBool::new(true)))
                .collect(),
            doors,
            stop: AtomicBool::new(false),
            begun: Instant::now(),
            seconds: Mutex::default(),
            examples: Mutex::default(),
            turn: AtomicU64::new(0),
            // Numbers of fresh objects continue behind those of an earlier crowd with the same seed.
            fresh: AtomicU64::new(origin.served() << 20),
        });
        let mut threads = Vec::new();
        for n in 0..demand.clients {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || ask(&shared, n as u64)));
        }
        let (looker, counter) = (Arc::clone(&shared), Arc::clone(&shared));
        threads.push(std::thread::spawn(move || look(&looker)));
        let served = origin.counter();
        threads.push(std::thread::spawn(move || count(&counter, &served)));
        Ok(Self { shared, threads })
    }

    /// Whole seconds since the start.
    pub fn now(&self) -> usize {
        self.shared.begun.elapsed().as_secs() as usize
    }

    /// The complete seconds so far.
    pub fn seconds(&self) -> Vec<Second> {
        let seconds = self.shared.seconds.lock().expect("no client panics");
        seconds[..seconds.len().min(self.now())].to_vec()
    }

    /// The first errors, in full.
    pub fn examples(&self) -> Vec<String> {
        self.shared
            .examples
            .lock()
            .expect("no client panics")
            .clone()
    }

    /// Stops the clients; returns the counts of all seconds.
    pub fn end(mut self) -> Vec<Second> {
        let seconds = self.seconds();
        self.halt();
        seconds
    }

    fn halt(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn with_second(&self, f: impl FnOnce(&mut Second)) {
        let at = self.begun.elapsed().as_secs() as usize;
        let mut seconds = self.seconds.lock().expect("no client panics");
        if seconds.len() <= at {
            seconds.resize(at + 1, Second::default());
        }
        f(&mut seconds[at]);
    }

    /// The next open door in turn; if none is open, the next one.
    fn door(&self) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let count = self.doors.len();
        let is_open = |n: &usize| self.open[*n].load(Ordering::Relaxed);
        let mut in_turn = (0..count).map(|n| (turn + n) % count);
        in_turn.find(is_open).unwrap_or(turn % count)
    }

    fn next_object(&self, chance: &mut Chance, popularity: Popularity) -> Object {
        let demand = &self.demand;
        if chance.percent(demand.fresh_percent) {
            let number = self.fresh.fetch_add(1, Ordering::Relaxed);
            return Object::of(format!("once-{number}"), number, demand.body_bytes);
        }
        let number = popularity.draw(chance.unit());
        Object::of(format!("o{number}"), number, demand.body_bytes)
    }

    fn tell(&self, example: String) {
        let at = self.begun.elapsed().as_secs_f64();
        let example = format!("after {at:.1} s: {example}");
        let mut examples = self.examples.lock().expect("no client panics");
        if examples.len() < EXAMPLES_MAX {
            examples.push(example);
        }
    }
}

/// Runs one client until the crowd is stopped.
fn ask(shared: &Shared, nth: u64) {
    let demand = &shared.demand;
    let mut chance = Chance::new(demand.seed.wrapping_add(nth << 32));
    let popularity = Popularity::over(demand.objects);
    let doors = shared.doors.iter().zip(&shared.open);
    let mut clients: Vec<Client> = doors
        .map(|(door, open)| match shared.doors.len() {
            // With a single door there is no balancer.
            1 => Client::new(door.site),
            _ => Client::while_open(door.site, Arc::clone(open)),
        })
        .collect();
    let pause = Duration::from_secs_f64(demand.clients as f64 / f64::from(demand.rate.max(1)));
    let mut next = shared.begun + pause.mul_f64(chance.unit());
    while !shared.is_over() {
        let now = Instant::now();
        match next.checked_duration_since(now) {
            // Sleep for short times, so that the end is noticed.
            Some(wait) if wait > Duration::from_millis(50) => {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            Some(wait) => std::thread::sleep(wait),
            None if now - next > LATE_MAX => next = now,
            None => {}
        }
        next += pause;
        let object = shared.next_object(&mut chance, popularity);
        ask_once(shared, &mut clients, &object);
    }
}

fn ask_once(shared: &Shared, clients: &mut [Client], object: &Object) {
    let begun = Instant::now();
    let first = shared.door();
    let mut broken = None;
    for n in 0..clients.len() {
        let door = (first + n) % clients.len();
        if n > 0 && !shared.open[door].load(Ordering::Relaxed) {
            continue;
        }
        let mut answer = Answer::default();
        let ended = clients[door].ask_repeatably(Request::of("GET", &object.path), &mut answer);
        let (after_head, reason) = match ended {
            Ended::Whole | Ended::HungUp => {
                let us = begun.elapsed().as_micros().min(u128::from(u32::MAX)) as u32;
                shared.with_second(|second| {
                    second.answers += 1;
                    second.waits_us.push(us);
                });
                if !object.is_right(&answer) {
                    let is_wrong = answer.status == 200;
                    shared.with_second(|second| {
                        second.wrong += u64::from(is_wrong);
                        second.errors += u64::from(!is_wrong);
                    });
                    shared.tell(format!(
                        "{}: status {}, {} bytes",
                        object.path,
                        answer.status,
                        answer.body.len()
                    ));
                }
                return;
            }
            Ended::Broken { after_head, reason } => (after_head, reason),
        };
        if shared.is_over() {
            return;
        }
        let admin = shared.doors[door].admin;
        let door_is_gone = !shared.open[door].load(Ordering::Relaxed)
            || admin.is_some_and(|admin| !is_well(admin));
        if door_is_gone && after_head {
            shared.with_second(|second| second.cut += 1);
            return;
        }
        broken = Some(reason);
        if !door_is_gone {
            break;
        }
        shared.open[door].store(false, Ordering::Relaxed);
        shared.with_second(|second| second.again += 1);
    }
    shared.with_second(|second| second.errors += 1);
    shared.tell(format!("{}: {}", object.path, broken.unwrap_or_default()));
}

/// The balancer: checks which doors are open.
fn look(shared: &Shared) {
    while !shared.is_over() {
        for (door, open) in shared.doors.iter().zip(&shared.open) {
            if let Some(admin) = door.admin {
                open.store(is_well(admin), Ordering::Relaxed);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Counts the origin's answers in each second.
fn count(shared: &Shared, served: &AtomicU64) {
    const TICK: Duration = Duration::from_millis(20);
    let mut before = served.load(Ordering::SeqCst);
    while !shared.is_over() {
        let now = served.load(Ordering::SeqCst);
        shared.with_second(|second| second.fetched += now - before);
        before = now;
        std::thread::sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> Demand {
        Demand {
            rate: 400,
            clients: 4,
            objects: 50,
            fresh_percent: 30,
            body_bytes: 1000,
            seed: 1,
        }
    }

    #[test]
    fn the_first_objects_are_asked_for_most() {
        let mut chance = Chance::new(3);
        let popularity = Popularity::over(1000);
        let mut asked = vec![0_u32; 1001];
        for _ in 0..100_000 {
            asked[popularity.draw(chance.unit()) as usize] += 1;
        }
        assert!(asked[0] > asked[1] && asked[1] > asked[9] && asked[9] > asked[400]);
        assert_eq!(asked[1000], 0);
        let below_ten: u32 = asked[..10].iter().sum();
        // ln 11 / ln 1001
        assert!((33_000..36_500).contains(&below_ten), "{below_ten}");
    }

    #[test]
    fn an_origin_alone_gives_right_answers_and_no_hits() {
        let origin = Origin::start(0, 1).unwrap();
        let door = Door {
            site: origin.address(),
            admin: None,
        };
        let crowd = Crowd::start(demand(), vec![door], &origin).unwrap();
        let is_enough = || Sum::of(&crowd.seconds()).answers >= 100;
        assert!(crate::interrupt::wait_until(Duration::from_secs(60), is_enough).unwrap());
        let examples = crowd.examples();
        let sum = Sum::of(&crowd.end());
        let others = (sum.errors, sum.wrong, sum.cut, sum.again);
        assert_eq!(others, (0, 0, 0, 0), "{examples:?}");
        assert!(sum.hit_percent.abs() < 10.0 && sum.p50_ms > 0.0, "{sum:?}");
    }

    #[test]
    fn answers_that_are_wrong_and_doors_that_are_shut_are_errors() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let shut = listener.local_addr().unwrap();
        drop(listener);
        let origin = Origin::start(0, 1).unwrap();
        let door = Door {
            site: shut,
            admin: None,
        };
        let crowd = Crowd::start(demand(), vec![door], &origin).unwrap();
        let has_errors = || Sum::of(&crowd.seconds()).errors > 0;
        assert!(crate::interrupt::wait_until(Duration::from_secs(60), has_errors).unwrap());
        assert!(!crowd.examples().is_empty());
        let object = Object::of("x".into(), 1, 100);
        let wrong = Answer {
            status: 200,
            body: b"other".to_vec(),
        };
        assert!(!object.is_right(&wrong));
    }
}
