//! `cargo xtask bench posts`: requests that may not be repeated, through Loligo, nginx and HAProxy, to origins that handle connections in
//! different ways.
//!
//! A POST on a connection that the origin closes meanwhile is lost: no proxy knows whether it was carried out, so none repeats it. A
//! proxy that opens a connection for each POST loses none, but exhausts an origin with a process for each connection. For each
//! behaviour of the origin, and each server, this counts both: failed POSTs, and the connections and the time used. Servers
//! are restarted for each behaviour, with one worker, and measured one after the other.
//!
//! Not known here: what is stored.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Args;

use super::table::Table;
use crate::chance::Chance;
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::rivals::{Request, Rival, build_loligo, launch};

/// How long an origin keeps an idle connection, unless its behaviour differs.
const KEPT: Duration = Duration::from_secs(5);
/// Number of processes of an origin with a process for each connection.
const PROCESSES: usize = 150;
/// Longest wait of a client for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: bench\r\nContent-Length: 5\r\n\r\nhello";

/// What is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these servers
    #[arg(long, value_delimiter = ',', default_value = "loligo,nginx,haproxy")]
    only: Vec<String>,
    /// POSTs in each case; where connections are closed later, and with processes, a tenth
    #[arg(long, default_value_t = 4000)]
    posts: u64,
    /// Clients at a time; with processes one
    #[arg(long, default_value_t = 8)]
    clients: u64,
    /// Fail if more of ours fail than of the others, any where the origin keeps its word, or if processes take us longer than 1.5 times HAProxy's time
    #[arg(long)]
    check: bool,
}

/// How an origin handles connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Keeps connections, and announces that.
    Says,
    /// Keeps connections without announcing it.
    Keeps,
    /// Closes a connection after each answer without announcing it.
    ClosesAtOnce,
    /// Closes a connection half a millisecond after an answer, unannounced.
    ClosesSoon,
    /// Closes a connection, unannounced, when it was idle for a random time of up to a fifth of a second.
    ClosesLater,
    /// Keeps connections and announces that; has a limited number of processes, each of which serves one connection.
    Processes,
    /// As `Processes`, without announcing it.
    QuietProcesses,
}

impl Way {
    const ALL: [Way; 7] = [
        Way::Says,
        Way::Keeps,
        Way::ClosesAtOnce,
        Way::ClosesSoon,
        Way::ClosesLater,
        Way::Processes,
        Way::QuietProcesses,
    ];

    fn words(self) -> &'static str {
        match self {
            Way::Says => "keeps connections 5 s, says so",
            Way::Keeps => "keeps them 5 s",
            Way::ClosesAtOnce => "closes after each answer, unsaid",
            Way::ClosesSoon => "the same, 0.5 ms later",
            Way::ClosesLater => "the same, 0 to 0.2 s later",
            Way::Processes => "150 processes, 5 s, says so",
            Way::QuietProcesses => "150 processes, 5 s",
        }
    }

    /// Whether the origin never closes a connection unexpectedly.
    fn is_honest(self) -> bool {
        matches!(self, Way::Says | Way::Keeps) || self.has_processes()
    }

    fn has_processes(self) -> bool {
        matches!(self, Way::Processes | Way::QuietProcesses)
    }

    /// The number of POSTs in all, the number of clients, the longest pause of a client.
    fn load(self, options: &Options) -> (u64, u64, u64) {
        let (all, clients) = (options.posts, options.clients.max(1));
        match self {
            Way::ClosesAtOnce | Way::ClosesSoon => (all, clients, 0),
            Way::Says | Way::Keeps | Way::ClosesLater => (all / 10, clients, 100),
            Way::Processes | Way::QuietProcesses => (all / 10, 1, 0),
        }
    }
}

/// A running origin; dropping it stops it.
struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    accepted: AtomicU64,
    /// Connections waiting for a process.
    waiting: Mutex<VecDeque<TcpStream>>,
    more: Condvar,
}

impl Origin {
    fn start(way: Way) -> Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during(|| "listening".into())?;
        let address = listener.local_addr().during(|| "listening".into())?;
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if accepting.ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                if way.has_processes() {
                    locked(&accepting.waiting).push_back(stream);
                    accepting.more.notify_one();
                    continue;
                }
                thread::spawn(move || serve(stream, way, number as u64));
            }
        });
        if way.has_processes() {
            for number in 0..PROCESSES as u64 {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    while let Some(stream) = shared.next() {
                        serve(stream, way, number);
                    }
                });
            }
        }
        Ok(Origin { address, shared })
    }

    fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        self.shared.more.notify_all();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn next(&self) -> Option<TcpStream> {
        let mut waiting = locked(&self.waiting);
        loop {
            if self.ends.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(stream) = waiting.pop_front() {
                return Some(stream);
            }
            waiting = (self.more.wait(waiting)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream, way: Way, seed: u64) {
    let mut chance = Chance::new(seed);
    let says = match way {
        Way::Says | Way::Processes => "Keep-Alive: timeout=5\r\n",
        _ => "",
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\n{says}Content-Length: 4\r\nCache-Control: no-store\r\n\r\ndone"
    );
    let _ = stream.set_nodelay(true);
    if stream.set_read_timeout(Some(KEPT)).is_err() {
        return;
    }
    let mut came = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        came.extend_from_slice(&buffer[..n]);
        let is_whole = match came.starts_with(b"POST") {
            true => came.ends_with(b"\r\n\r\nhello"),
            false => came.ends_with(b"\r\n\r\n"),
        };
        if !is_whole {
            continue;
        }
        came.clear();
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        match way {
            Way::Says | Way::Keeps | Way::Processes | Way::QuietProcesses => {}
            Way::ClosesAtOnce => return,
            Way::ClosesSoon => return thread::sleep(Duration::from_micros(500)),
            Way::ClosesLater => {
                let pause = Duration::from_millis(1 + chance.below(200));
                let _ = stream.set_read_timeout(Some(pause));
            }
        }
    }
}

/// The outcome of a number of POSTs.
#[derive(Clone, Copy, Debug)]
struct Came {
    sent: u64,
    failed: u64,
    connections: u64,
    time: Duration,
}

/// Sends POSTs through a proxy.
fn load(address: SocketAddr, origin: &Origin, (all, clients, pause_ms): (u64, u64, u64)) -> Came {
    let (before, began) = (origin.accepted(), Instant::now());
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..clients {
            let failed = &failed;
            scope.spawn(move || {
                let mut chance = Chance::new(client + 1);
                let mut connection = None;
                for _ in 0..all / clients {
                    if !post(&mut connection, address) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    if pause_ms > 0 {
                        thread::sleep(Duration::from_millis(chance.below(pause_ms)));
                    }
                }
            });
        }
    });
    Came {
        sent: all / clients * clients,
        failed: failed.into_inner(),
        connections: origin.accepted() - before,
        time: began.elapsed(),
    }
}

/// Sends one POST; returns whether the origin answered it.
fn post(connection: &mut Option<TcpStream>, address: SocketAddr) -> bool {
    let mut stream = match connection
        .take()
        .map(Ok)
        .unwrap_or_else(|| TcpStream::connect(address))
    {
        Ok(stream) => stream,
        Err(_) => return false,
    };
    let _ = stream.set_nodelay(true);
    if stream.set_read_timeout(Some(PATIENCE)).is_err() || stream.write_all(POST).is_err() {
        return false;
    }
    let mut came = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        came.extend_from_slice(&buffer[..n]);
        if came.starts_with(b"HTTP/1.1 200") && came.ends_with(b"\r\n\r\ndone") {
            *connection = Some(stream);
            return true;
        }
        // The proxy itself answered: the next request uses another connection.
        if came.len() >= 12 && !came.starts_with(b"HTTP/1.1 200") {
            return false;
        }
    }
    false
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let mut rivals = Vec::new();
    for name in &options.only {
        match Rival::of_name(name) {
            Some(rival) if matches!(rival, Rival::Loligo | Rival::Nginx | Rival::Haproxy) => {
                rivals.push(rival);
            }
            _ => fail!("{name}: there are loligo, nginx and haproxy"),
        }
    }
    if rivals.contains(&Rival::Loligo) {
        build_loligo()?;
    }
    let mut table = Table::new([
        "origin",
        "server",
        "POSTs",
        "failed",
        "connections",
        "seconds",
    ]);
    let mut missed = Vec::new();
    for way in Way::ALL {
        let mut of_way: Vec<(Rival, Came)> = Vec::new();
        for &rival in rivals.iter().filter(|rival| rival.is_installed()) {
            interrupt::check()?;
            let origin = Origin::start(way)?;
            let request = Request {
                workers: 1,
                ..Request::of(format!("posts-{}", rival.name()), origin.address)
            };
            let running = launch(rival, &request)?;
            let came = load(running.address, &origin, way.load(options));
            running.stop()?;
            eprintln!("{}: {} {came:?}", way.words(), rival.name());
            table.row([
                way.words().to_owned(),
                rival.name().to_owned(),
                came.sent.to_string(),
                came.failed.to_string(),
                came.connections.to_string(),
                format!("{:.2}", came.time.as_secs_f64()),
            ]);
            of_way.push((rival, came));
        }
        missed.extend(judge(way, &of_way));
    }
    println!("{}", table.render());
    for words in &missed {
        println!("MISSED: {words}");
    }
    match options.check && !missed.is_empty() {
        true => fail!("a target is missed"),
        false => Ok(()),
    }
}

/// Promises of ours that do not hold.
fn judge(way: Way, came: &[(Rival, Came)]) -> Vec<String> {
    let of = |rival| came.iter().find(|it| it.0 == rival).map(|it| it.1);
    let Some(ours) = of(Rival::Loligo) else {
        return Vec::new();
    };
    let mut missed = Vec::new();
    let theirs = came.iter().filter(|it| it.0 != Rival::Loligo);
    let theirs = theirs.map(|it| it.1.failed).min();
    if way.is_honest() && ours.failed > 0 || theirs.is_some_and(|theirs| ours.failed > theirs) {
        missed.push(format!("{}: {} of ours failed", way.words(), ours.failed));
    }
    if let Some(theirs) = of(Rival::Haproxy).filter(|_| way.has_processes())
        && ours.time > theirs.time.mul_f64(1.5)
    {
        let (ours, theirs) = (ours.time, theirs.time);
        missed.push(format!("{}: {ours:?}, HAProxy {theirs:?}", way.words()));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_keep_and_close_as_they_are_told() {
        for (way, connections) in [(Way::Says, 2), (Way::Processes, 2), (Way::ClosesAtOnce, 20)] {
            let origin = Origin::start(way).unwrap();
            let came = load(origin.address, &origin, (20, 2, 0));
            // Without a proxy, a client whose connection is closed has to open another one.
            assert_eq!(came.sent, 20);
            let made = came.connections + came.failed;
            assert!(
                way == Way::ClosesAtOnce || made == connections,
                "{way:?} {came:?}"
            );
            assert!(made >= connections / 2, "{way:?} {came:?}");
        }
    }

    #[test]
    fn what_is_promised_is_looked_at() {
        let came = |failed, seconds| Came {
            sent: 9,
            failed,
            connections: 1,
            time: Duration::from_secs(seconds),
        };
        let of = |way, ours, theirs| {
            judge(way, &[(Rival::Loligo, ours), (Rival::Haproxy, theirs)]).len()
        };
        assert_eq!(of(Way::ClosesLater, came(1, 1), came(1, 1)), 0);
        assert_eq!(of(Way::ClosesLater, came(2, 1), came(1, 1)), 1);
        assert_eq!(of(Way::Says, came(1, 1), came(1, 1)), 1);
        assert_eq!(of(Way::Processes, came(0, 1), came(0, 1)), 0);
        assert_eq!(of(Way::Processes, came(0, 2), came(0, 1)), 1);
    }
}
