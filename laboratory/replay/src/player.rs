//! The clients: several connections to the proxy, each with one request at a time.
//!
//! First, a request outside of the row proves that the proxy asks this origin and forwards its bytes. After that, every answer is
//! compared byte by byte.
//!
//! Limits: [`CONNECTIONS_MAX`] connections; each read of an answer has the time-out, and the whole answer has the time-out plus the time
//! that it takes at [`SLOWEST_BYTES_PER_S`]; the replay ends when [`FAILED_IN_ROW_MAX`] requests in a row have failed.

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

/// Most connections; a larger number is refused.
pub const CONNECTIONS_MAX: usize = 1024;
/// A slower answer is aborted.
pub const SLOWEST_BYTES_PER_S: u64 = 64 << 10;
/// The replay ends after this many failures in a row.
pub const FAILED_IN_ROW_MAX: u32 = 200;
/// Time for the proxy until the very first request works. Some proxies take an origin for dead when they start.
const FIRST_MAX: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const FIRST_BYTES: u32 = 5000;
/// Interval of progress reports.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// The form of requests to the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// As to a forward proxy: with absolute URLs, in which this is the origin's authority.
    Forward {
        /// Such as `127.0.0.1:8000`.
        authority: String,
    },
    /// As to the origin itself, with this Host.
    Reverse {
        /// Such as `www.example.org`.
        host: String,
    },
}

/// Settings of a replay, besides the row and the origin.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the row, for the report.
    pub trace: String,
    /// The proxy's address.
    pub proxy: SocketAddr,
    /// The form of requests to it.
    pub way: Way,
    /// First part of all names. Responses stored under another one are never used.
    pub world: String,
    /// Requests in the row.
    pub requests: u64,
    /// Bytes of its different objects, each counted once.
    pub object_bytes: u64,
    /// Number of requests at the beginning that only fill the cache and are not counted.
    pub warm: u64,
    /// Requests at the same time.
    pub connections: usize,
    /// Most requests a second, if limited.
    pub pace: Option<f64>,
    /// Longest time without progress on a connection.
    pub timeout: Duration,
    /// The proxy's processes: bytes that they and their descendants exchange with devices are counted.
    pub pids: Vec<u32>,
}

/// Why a replay failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The proxy does not accept a connection.
    #[error("{0}: {1}; is the proxy running, and --proxy its address?")]
    Unreachable(SocketAddr, String),
    /// The first request did not reach the origin, or its answer was not the origin's.
    #[error("{0}")]
    Unfit(String),
    /// The row cannot be read further.
    #[error("{0}")]
    Row(String),
    /// The origin cannot be started.
    #[error("the origin: {0}")]
    Origin(String),
    /// The counters of a process cannot be read.
    #[error("{0}")]
    Device(String),
}

/// Plays the row. `told` is called at intervals with the number of requests begun; `wants_to_stop` returns true to stop the replay.
///
/// # Errors
/// If the proxy cannot be reached or does not ask the origin, or the row cannot be read.
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

/// A connection to the proxy; none if it is not open.
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

    /// Waits until a request is due, if there is a pace. Returns false if the replay is to be stopped.
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

    /// Sends a request and reads its answer; returns how often it was sent.
    fn get(&self, line: &mut Line, ask: &Ask) -> (Ended, u32) {
        let is_used = line.0.is_some();
        match self.try_get(line, ask) {
            // A proxy may close an idle connection while the request is on its way.
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

    /// Proves that the proxy asks this origin and forwards its answer.
    fn prove(&self, origin: &Origin) -> Result<(), Fault> {
        let proxy = self.settings.proxy;
        let unreachable = |e: std::io::Error| Fault::Unreachable(proxy, e.to_string());
        self.connect().map_err(unreachable)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        // A new name each time: a response stored in an earlier proof would prove nothing.
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

    /// The message for a first request that failed: the reason, and the remedy.
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

/// Why there is no complete answer.
enum Lost {
    /// The connection ended before a byte of the answer's head.
    BeforeHead(String),
    After(String),
}

/// Reads heads until one is not 1xx.
fn final_head(connection: &mut Connection<TcpStream>) -> Result<Response, Cut> {
    /// With more than this, the message counts as malformed.
    const INTERIM_MAX: u32 = 16;
    for _ in 0..INTERIM_MAX {
        let head: Response = connection.head()?;
        if !(100..200).contains(&head.status) {
            return Ok(head);
        }
    }
    Err(Cut::Malformed(wire::Malformed("1xx without end".into())))
}

/// Compares an answer as it arrives.
struct Checking {
    body: Body,
    came: u64,
    is_ours: bool,
    is_wrong: bool,
}

impl Checking {
    /// `is_ours`: the answer claims to be the object.
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

    /// Reads at most some bytes of an error page, so that the connection can be used again.
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

    /// What is wrong with the answer, if it claims to be the object.
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
