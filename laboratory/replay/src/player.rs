//! The clients: so many connections to the proxy, each with one request at a time.
//!
//! Before the row, one request of its own proves that the proxy asks this origin and hands its bytes on. After that every answer is
//! compared byte by byte.
//!
//! Limits: [`CONNECTIONS_MAX`] connections; an answer has the time-out for each of its pieces, and as a whole the time-out beside what
//! it would take at [`SLOWEST_BYTES_PER_S`]; the replay ends when [`FAILED_IN_ROW_MAX`] requests in a row have failed.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::{Connection, Cut, Framing, Response};

use crate::bench::{Bench, Ended, Stop, Turn, Watcher};
use crate::content::Body;
use crate::name::Ask;
use crate::origin::Origin;
use crate::proc_io::DeviceBytes;
use crate::report::Report;

/// More are refused.
pub const CONNECTIONS_MAX: usize = 1024;
/// A slower answer is given up.
pub const SLOWEST_BYTES_PER_S: u64 = 64 << 10;
/// After so many failures in a row the replay ends.
pub const FAILED_IN_ROW_MAX: u32 = 200;
/// How long the proxy may take until the first request of all works. Some take an origin for dead when they start.
const FIRST_MAX: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const FIRST_BYTES: u32 = 5000;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// How the proxy is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// As a forward proxy: with whole URLs, in which this is the authority of the origin.
    Forward {
        /// Such as `127.0.0.1:8000`.
        authority: String,
    },
    /// As if it were the origin, with this Host.
    Reverse {
        /// Such as `www.example.org`.
        host: String,
    },
}

/// What a replay is made of, beside the row and the origin.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the row, for the report.
    pub trace: String,
    /// Where the proxy listens.
    pub proxy: SocketAddr,
    /// How it is asked.
    pub way: Way,
    /// First part of all names: what was stored under another one answers nothing.
    pub world: String,
    /// Requests of the row.
    pub requests: u64,
    /// Bytes of its different objects.
    pub object_bytes: u64,
    /// Of these, the first so many fill the cache and are not counted.
    pub warm: u64,
    /// Requests at a time.
    pub connections: usize,
    /// Requests a second at most.
    pub pace: Option<f64>,
    /// How long nothing may come.
    pub timeout: Duration,
    /// The proxy's processes, whose bytes to devices are counted with those of their descendants.
    pub pids: Vec<u32>,
}

/// Why there was no replay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The proxy does not take a connection.
    #[error("{0}: {1}; is the proxy running, and --proxy its address?")]
    Unreachable(SocketAddr, String),
    /// The first request did not reach the origin, or its answer was another one.
    #[error("{0}")]
    Unfit(String),
    /// The row can not be read on.
    #[error("{0}")]
    Row(String),
    /// The origin can not be started.
    #[error("the origin: {0}")]
    Origin(String),
    /// The counters of a process can not be read.
    #[error("{0}")]
    Device(String),
}

/// Plays the row. `told` is called now and then with how many requests have begun; whoever wants to stop says so by `wants_to_stop`.
///
/// # Errors
/// The proxy can not be reached or does not ask the origin; the row can not be read.
pub fn play(
    settings: &Settings,
    origin: &Origin,
    row: impl Iterator<Item = Result<Ask, String>> + Send + 'static,
    wants_to_stop: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(u64),
) -> Result<Report, Fault> {
    let player = Player {
        settings,
        wants_to_stop,
        begun: Instant::now(),
    };
    player.prove(origin)?;
    let pids = settings.pids.clone();
    let look = move || match &pids[..] {
        [] => Ok(None),
        pids => DeviceBytes::of(pids).map(Some),
    };
    let failed_max = FAILED_IN_ROW_MAX.max(2 * settings.connections as u32);
    let bench =
        Bench::new(row, settings.warm, failed_max, Box::new(look)).map_err(Fault::Device)?;
    let bench = Arc::new(bench);
    let watcher: Arc<dyn Watcher> = bench.clone();
    let serving = origin
        .serve(&watcher)
        .map_err(|e| Fault::Origin(e.to_string()))?;
    let begun = Instant::now();
    let player = Player { begun, ..player };
    std::thread::scope(|scope| {
        let clients = 0..settings.connections.clamp(1, CONNECTIONS_MAX);
        let clients: Vec<_> = clients
            .map(|_| scope.spawn(|| player.client(&bench)))
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            std::thread::sleep(TELL_EVERY);
            told(bench.given());
        }
    });
    drop(serving);
    let finished = bench.finish();
    match &finished.stopped {
        Some(Stop::Unreadable(why)) => return Err(Fault::Row(why.clone())),
        Some(Stop::Device(why)) => return Err(Fault::Device(why.clone())),
        Some(Stop::Asked | Stop::Failing) | None => {}
    }
    Ok(Report::of(settings, origin.address(), finished))
}

struct Player<'a> {
    settings: &'a Settings,
    wants_to_stop: &'a (dyn Fn() -> bool + Sync),
    begun: Instant,
}

/// A connection to the proxy; there may be none at the moment.
#[derive(Default)]
struct Line(Option<Connection<TcpStream>>);

impl Player<'_> {
    fn client(&self, bench: &Bench<impl Iterator<Item = Result<Ask, String>> + Send>) {
        let mut line = Line::default();
        while let Some(turn) = bench.begin(self.wants_to_stop) {
            let (ended, sent) = if self.paces(turn) {
                self.get(&mut line, &turn.ask)
            } else {
                (Ended::Stopped, 0)
            };
            bench.end(turn, ended, sent);
        }
    }

    /// Waits for the time of a request, if there is a pace. False: somebody wants to stop.
    fn paces(&self, turn: Turn) -> bool {
        let Some(pace) = self.settings.pace else {
            return !(self.wants_to_stop)();
        };
        let at = self.begun + Duration::from_secs_f64(turn.place as f64 / pace);
        loop {
            if (self.wants_to_stop)() {
                return false;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(TELL_EVERY));
        }
    }

    /// One request and its answer, and how often it was sent.
    fn get(&self, line: &mut Line, ask: &Ask) -> (Ended, u32) {
        let is_used = line.0.is_some();
        match self.try_get(line, ask) {
            // A proxy may close what is idle, and the request may meet that on its way.
            Err(Lost::BeforeHead(_)) if is_used => match self.try_get(line, ask) {
                Ok(ended) => (ended, 2),
                Err(Lost::BeforeHead(why) | Lost::After(why)) => (Ended::Failed(why), 2),
            },
            Ok(ended) => (ended, 1),
            Err(Lost::BeforeHead(why) | Lost::After(why)) => (Ended::Failed(why), 1),
        }
    }

    fn try_get(&self, line: &mut Line, ask: &Ask) -> Result<Ended, Lost> {
        let mut connection = match line.0.take() {
            Some(connection) => connection,
            None => self
                .connect()
                .map_err(|e| Lost::After(format!("connecting: {}", e.kind())))?,
        };
        let begun = Instant::now();
        let answer = connection
            .send(self.head(ask).as_bytes())
            .and_then(|()| final_head(&mut connection));
        let head = match answer {
            Ok(head) => head,
            Err(cut @ (Cut::Closed | Cut::Reset)) => {
                return Err(Lost::BeforeHead(format!("{cut}")));
            }
            Err(cut) => return Err(Lost::After(format!("{cut}"))),
        };
        let framing = head
            .framing("GET")
            .map_err(|malformed| Lost::After(Cut::Malformed(malformed).to_string()))?;
        let slowest = u64::from(ask.size_bytes) / SLOWEST_BYTES_PER_S;
        let limit = self.settings.timeout + Duration::from_secs(slowest);
        let mut checking = Checking::new(ask, head.status == 200);
        let came = connection.body(framing, &mut |piece| {
            checking.take(piece);
            checking.goes_on() && begun.elapsed() < limit
        });
        let ends_with_connection = framing == Framing::Close;
        if ends_with_connection && came.is_ok() && checking.is_short() {
            return Err(Lost::After(format!("in the body: {}", Cut::Closed)));
        }
        if let Some(why) = checking.objection(&head, ask, came.is_ok()) {
            return Ok(Ended::Wrong(why));
        }
        match came {
            Ok(_) if head.keeps_alive() => line.0 = Some(connection),
            Ok(_) => {}
            Err(Cut::Enough) if head.status == 200 => {
                return Err(Lost::After("too slow".to_owned()));
            }
            Err(_) if head.status != 200 => {}
            Err(cut) => return Err(Lost::After(format!("in the body: {cut}"))),
        }
        Ok(match head.status {
            200 => Ended::Well,
            status => Ended::Failed(format!("status {status}")),
        })
    }

    fn connect(&self) -> std::io::Result<Connection<TcpStream>> {
        let timeout = self.settings.timeout;
        let stream = TcpStream::connect_timeout(&self.settings.proxy, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection::new(stream))
    }

    fn head(&self, ask: &Ask) -> String {
        let path = ask.path(&self.settings.world);
        let (target, host) = match &self.settings.way {
            Way::Forward { authority } => (format!("http://{authority}{path}"), authority),
            Way::Reverse { host } => (path, host),
        };
        format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: loligo-lab-replay\r\nAccept: */*\r\n\r\n"
        )
    }

    /// Does the proxy ask this origin, and hand on what it answers?
    fn prove(&self, origin: &Origin) -> Result<(), Fault> {
        let proxy = self.settings.proxy;
        let unreachable = |e: std::io::Error| Fault::Unreachable(proxy, e.to_string());
        self.connect().map_err(unreachable)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        // A name of its own each time: what was stored in an earlier proof proves nothing.
        let now = now.unwrap_or_default();
        let first = |try_number: u32| Ask {
            object: u32::MAX - try_number,
            server: now.subsec_nanos(),
            version: now.as_secs() as u32,
            size_bytes: FIRST_BYTES,
        };
        let until = Instant::now() + FIRST_MAX;
        let mut try_number = 0;
        loop {
            let ask = first(try_number);
            let bench = Bench::new(std::iter::once(Ok(ask)), 0, u32::MAX, Box::new(|| Ok(None)));
            let bench = Arc::new(bench.map_err(Fault::Device)?);
            let watcher: Arc<dyn Watcher> = bench.clone();
            let serving = origin
                .serve(&watcher)
                .map_err(|e| Fault::Origin(e.to_string()))?;
            let mut said = String::new();
            if let Some(turn) = bench.begin(self.wants_to_stop) {
                let (ended, sent) = self.get(&mut Line::default(), &turn.ask);
                if let Ended::Failed(why) | Ended::Wrong(why) = &ended {
                    said.clone_from(why);
                }
                bench.end(turn, ended, sent);
            }
            drop(serving);
            let counted = bench.finish().counted;
            if counted.misses == 1 {
                return Ok(());
            }
            let is_over = Instant::now() >= until || (self.wants_to_stop)();
            if is_over || counted.failed == 0 {
                let asked = counted.origin.requests > 0;
                return Err(Fault::Unfit(self.unfit(&said, asked, origin.address())));
            }
            try_number += 1;
            std::thread::sleep(FIRST_PAUSE);
        }
    }

    /// Why the first request did not work, and what to do about it.
    fn unfit(&self, said: &str, asked: bool, origin: SocketAddr) -> String {
        let proxy = self.settings.proxy;
        let said = if said.is_empty() { "answered" } else { said };
        let before = format!("{proxy}: the first request did not work ({said})");
        if asked {
            return format!(
                "{before}, although the origin was asked for it and answered; the proxy changes what it hands on, or is too slow (--timeout)"
            );
        }
        match &self.settings.way {
            Way::Forward { .. } => format!(
                "{before}; the origin at {origin} was not asked: let the proxy forward requests to that address and port \
                 (loligo: allow-destinations; squid: http_access), or say --reverse if it is no forward proxy"
            ),
            Way::Reverse { .. } => format!(
                "{before}; the origin at {origin} was not asked: make it the proxy's origin (--origin ADDRESS binds it to a fixed \
                 port), and name with --host the site for which the proxy asks it"
            ),
        }
    }
}

/// Why there was no whole answer.
enum Lost {
    /// The connection ended before a byte of the answer's head.
    BeforeHead(String),
    After(String),
}

/// The head of the answer itself, behind those of 1xx.
fn final_head(connection: &mut Connection<TcpStream>) -> Result<Response, Cut> {
    /// More are no HTTP.
    const INTERIM_MAX: u32 = 16;
    for _ in 0..INTERIM_MAX {
        let head: Response = connection.head()?;
        if !(100..200).contains(&head.status) {
            return Ok(head);
        }
    }
    Err(Cut::Malformed(wire::Malformed("1xx without end".into())))
}

/// Compares an answer as it comes.
struct Checking {
    body: Body,
    came: u64,
    is_ours: bool,
    is_wrong: bool,
}

impl Checking {
    /// `is_ours`: the answer says that it is the object.
    fn new(ask: &Ask, is_ours: bool) -> Self {
        Self {
            body: Body::new(ask.object, ask.version, 0, u64::from(ask.size_bytes)),
            came: 0,
            is_ours,
            is_wrong: false,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if self.is_ours && !self.is_wrong {
            self.is_wrong = !self.body.takes(piece);
        }
        self.came += piece.len() as u64;
    }

    /// Of an error page some bytes are read, so that the connection can go on; not more.
    fn goes_on(&self) -> bool {
        const PAGE_BYTES_MAX: u64 = 1 << 20;
        match self.is_ours {
            true => !self.is_wrong,
            false => self.came < PAGE_BYTES_MAX,
        }
    }

    fn is_short(&self) -> bool {
        self.is_ours && !self.is_wrong && self.body.left() > 0
    }

    /// What is wrong with the answer, if it says that it is the object.
    fn objection(&self, head: &Response, ask: &Ask, is_whole: bool) -> Option<String> {
        if !self.is_ours {
            return None;
        }
        let tag = format!("\"{}\"", ask.tag());
        if let Some(other) = head
            .fields
            .first("etag")
            .filter(|it| it.trim_start_matches("W/") != tag)
        {
            return Some(format!("the ETag of another object or version: {other}"));
        }
        if self.is_wrong {
            let at = u64::from(ask.size_bytes) - self.body.left();
            return Some(format!(
                "other bytes than the origin's, from byte {at} on or soon after"
            ));
        }
        (is_whole && self.is_short())
            .then(|| format!("ended well after {} bytes of {}", self.came, ask.size_bytes))
    }
}
