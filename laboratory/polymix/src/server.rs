//! The origin: all servers of the workload in one process.
//!
//! One listener answers for every server; the URL says for which one. A connection lives for zipf(16) requests, or until it has been
//! idle for 15 s. Before each reply is a think time, norm(2.5 s, 1 s). No object is stored: heads are functions of name and time,
//! and bodies are computed piece by piece as the socket takes them.
//!
//! Clients on other machines are refused unless `remote` is set.
//!
//! Limits: `CONNECTIONS_MAX` (more are closed at once), heads of `wire::HEAD_BYTES_MAX`.   Not known here: the proxy.
//! Source: spec sections 3 and 4. The delay and loss of the network in front of the servers are imitated here (`network`).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use crate::Mix;
use crate::body::Body;
use crate::cores::Cores;
use crate::name;
use crate::network::{Network, Path};
use crate::random::{Chance, normal, zipf};
use crate::range::ContentRange;
use crate::request::{Method, server_abort};
use crate::wire::{self, Incoming, Minor, Reply};

//= spec section 3   norm(2.5 s, 1 s), zipf(16), 15 s
const THINK_S_MEAN: f64 = 2.5;
const THINK_S_SDEV: f64 = 1.0;
const REQUESTS_A_CONNECTION: u32 = 16;
const IDLE: Duration = Duration::from_secs(15);
const CONNECTIONS_MAX: u64 = 18_000;
const PIECE_BYTES: usize = 64 * 1024;
/// A request head must be complete within this time.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// How the servers behave.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Which workload: only PolyMix-4 has aborts.
    pub mix: Mix,
    /// 1 is the specified think time, 0 none.
    pub think_scale: f64,
    /// Delay and loss between proxy and servers.
    pub network: Network,
    /// Shortens life cycles along with the test.
    pub life_scale: f64,
    /// HTTP/1.0, as specified, or 1.1.
    pub minor: Minor,
    /// Seed of think times and connection lengths.
    pub seed: u64,
    /// Answer clients that are not on this machine.
    pub remote: bool,
    /// Added to the clock, seconds: for tests of staleness.
    pub clock_shift_s: i64,
}

/// Counts of the servers.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests answered.
    pub replies: AtomicU64,
    /// Replies with status 304.
    pub not_modified: AtomicU64,
    /// Bytes of bodies.
    pub body_bytes: AtomicU64,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections open now.
    pub open: AtomicU64,
    /// Connections refused, or closed because of a bad request.
    pub refused: AtomicU64,
    /// Replies cut short on purpose.
    pub aborted: AtomicU64,
    /// CPU time of the servers' thread, microseconds; updated ten times a second.
    pub cpu_us: AtomicU64,
}

/// The counters that a report uses, at a moment or as a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests answered.
    pub replies: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// CPU time of the servers' thread.
    pub cpu: Duration,
}

impl Counters {
    /// The current values.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen {
            replies: self.replies.load(Relaxed),
            body_bytes: self.body_bytes.load(Relaxed),
            connections: self.connections.load(Relaxed),
            cpu: Duration::from_micros(self.cpu_us.load(Relaxed)),
        }
    }

    /// Updates `cpu_us` for ever; must run on the servers' thread.
    pub async fn watch_cpu(self: Arc<Self>) {
        loop {
            let us = Cores::of_this_thread().cpu.as_micros();
            self.cpu_us
                .store(u64::try_from(us).unwrap_or(u64::MAX), Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Seen {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            replies: self.replies + other.replies,
            body_bytes: self.body_bytes + other.body_bytes,
            connections: self.connections + other.connections,
            cpu: self.cpu + other.cpu,
        }
    }

    /// The difference since `then`.
    #[must_use]
    pub fn since(&self, then: &Self) -> Self {
        Self {
            replies: self.replies - then.replies,
            body_bytes: self.body_bytes - then.body_bytes,
            connections: self.connections - then.connections,
            cpu: self.cpu.saturating_sub(then.cpu),
        }
    }
}

thread_local! {
    static PIECE: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE_BYTES]);
}

/// A listener for all servers. If servers have their own addresses, the caller passes the unspecified address and their port.
///
/// # Errors
/// If the address cannot be bound.
pub fn listen(address: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&std::net::SocketAddr::V4(address).into())?;
    socket.listen(4096)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Answers for ever. Must run on a `LocalSet`.
pub async fn serve(listener: TcpListener, settings: Settings, counters: Arc<Counters>) {
    let settings = Rc::new(settings);
    let mut chance = Chance::new(settings.seed);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of descriptors: wait for open connections to end.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let stranger = !settings.remote && !peer.ip().is_loopback();
        if stranger || counters.open.load(Relaxed) >= CONNECTIONS_MAX {
            counters.refused.fetch_add(1, Relaxed);
            continue;
        }
        counters.connections.fetch_add(1, Relaxed);
        counters.open.fetch_add(1, Relaxed);
        let connection = Connection {
            stream,
            settings: Rc::clone(&settings),
            counters: Arc::clone(&counters),
            chance: Chance::new(chance.draw()),
            path: Path::new(settings.network),
            answered: None,
            received: Vec::new(),
        };
        tokio::task::spawn_local(connection.run());
    }
}

struct Connection {
    stream: TcpStream,
    settings: Rc<Settings>,
    counters: Arc<Counters>,
    chance: Chance,
    /// The connection's path through the network.
    path: Path,
    /// When the last reply was sent.
    answered: Option<Instant>,
    /// Bytes received and not yet used.
    received: Vec<u8>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Relaxed);
    }
}

impl Connection {
    async fn run(mut self) {
        let _ = self.stream.set_nodelay(true);
        if self.exchanges().await.is_err() {
            // The proxy closed the connection, which it may, or sent something that is not of this workload.
            self.counters
                .refused
                .fetch_add(u64::from(!self.received.is_empty()), Relaxed);
        }
    }

    async fn exchanges(&mut self) -> io::Result<()> {
        let requests = zipf(REQUESTS_A_CONNECTION, self.chance.unit());
        for left in (0..requests).rev() {
            let Some(request) = self.next().await? else {
                return Ok(());
            };
            let keep_alive = left > 0 && request.keep_alive;
            if !self.answer(&request, keep_alive).await? || !keep_alive {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next request; none if the client closed the connection or was idle for too long.
    async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            if let Some(request) = wire::parse_request(&self.received)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?
            {
                self.received.drain(..request.head_bytes);
                if let Method::Post(bytes) = request.method {
                    self.skip(bytes).await?;
                }
                return Ok(Some(request));
            }
            let idle = self.received.is_empty();
            if idle {
                // An idle connection holds no buffer.
                self.received = Vec::new();
            }
            let patience = if idle { IDLE } else { HEAD_TIME };
            match tokio::time::timeout(patience, self.receive()).await {
                Ok(Ok(0)) | Err(_) if idle => return Ok(None),
                Ok(Ok(0)) | Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {}
                Ok(Err(e)) => return Err(e),
            }
        }
    }

    async fn receive(&mut self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            let read = PIECE.with_borrow_mut(|piece| {
                let n = self.stream.try_read(piece)?;
                self.received.extend_from_slice(&piece[..n]);
                Ok(n)
            });
            match read {
                Err(e) if io::Error::kind(&e) == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Reads and drops a request's body.
    async fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        loop {
            let take = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(self.received.len());
            self.received.drain(..take);
            left -= take as u64;
            if left == 0 {
                return Ok(());
            }
            match tokio::time::timeout(HEAD_TIME, self.receive()).await {
                Ok(Ok(n)) if n > 0 => {}
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Sends the answer; returns whether the connection can be used further.
    async fn answer(&mut self, request: &Incoming, keep_alive: bool) -> io::Result<bool> {
        let Some(id) = name::parse(&request.target) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let on_the_way = self.think(request).await;
        let shift_ms = self.settings.clock_shift_s * 1_000;
        // The reply was made before it began to travel.
        let on_the_way_ms = u64::try_from(on_the_way.as_millis()).expect("a delay");
        let now_ms = now_ms().saturating_add_signed(shift_ms) - on_the_way_ms;
        let now_s = now_ms / 1_000;
        let version = id.life(self.settings.life_scale).version_at(now_s);
        //= spec section 4   304 when Last-Modified <= If-Modified-Since
        let get = request.method == Method::Get;
        let unchanged = get
            && request
                .since_s
                .is_some_and(|since| version.since_s <= since);
        let size = id.size();
        // rfc9110 §13.1.5: a range is sent only if the client has this version.
        let same = request
            .if_range_s
            .is_none_or(|modified_s| modified_s == version.since_s);
        let wanted = request.range.filter(|_| get && !unchanged && same);
        let part = wanted.and_then(|wanted| wanted.of(size));
        let (first, end) = part.unwrap_or((0, size));
        let reply = Reply {
            status: match part {
                _ if unchanged => 304,
                Some(_) => 206,
                None => 200,
            },
            length: end - first,
            range: part.map(|(first, end)| ContentRange {
                first,
                last: end - 1,
                size,
            }),
            cachable: id.cachable(),
            now_s,
            modified_s: version.since_s,
            expires_s: version.until_s,
            exchange: request.exchange,
            version: version.number,
            made_ms: now_ms,
            checksum: (!unchanged && part.is_none() && id.has_checksum())
                .then(|| Body::new(id, version.number).content_md5()),
            keep_alive,
        };
        let mut head = Vec::with_capacity(512);
        wire::write_reply(&reply, self.settings.minor, &mut head);
        let body =
            (!unchanged && request.method != Method::Head).then(|| Body::new(id, version.number));
        let sent = match (&body, server_abort(self.settings.mix, request.exchange)) {
            (None, _) => 0,
            (Some(_), Some(share)) => share_of(end - first, share),
            (Some(_), None) => end - first,
        };
        self.counters.replies.fetch_add(1, Relaxed);
        self.counters
            .not_modified
            .fetch_add(u64::from(unchanged), Relaxed);
        self.counters.body_bytes.fetch_add(sent, Relaxed);
        self.send(&head, body.as_ref(), first, sent).await?;
        self.answered = Some(Instant::now());
        let cut = body.is_some() && sent < end - first;
        self.counters.aborted.fetch_add(u64::from(cut), Relaxed);
        Ok(!cut)
    }

    /// Waits until the first byte of the reply arrives: both ways and the think time. Returns the reply's way.
    async fn think(&mut self, request: &Incoming) -> Duration {
        let on_the_way = self.path.reply();
        let mut wait = on_the_way;
        match self.answered {
            None => wait += self.path.connecting(&mut self.chance),
            Some(answered) => self.path.rested(answered.elapsed()),
        }
        let posted = match request.method {
            Method::Post(bytes) => bytes,
            Method::Get | Method::Head => 0,
        };
        wait += self
            .path
            .request(request.head_bytes as u64 + posted, &mut self.chance);
        let seconds = think_s(self.chance.unit()) * self.settings.think_scale;
        wait += Duration::from_secs_f64(seconds);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        on_the_way
    }

    /// Sends the head and `len` bytes of the body from `first` on. All connections share one piece of memory, so bytes that a full socket
    /// does not take are computed again. Bytes that the network delays are sent later.
    async fn send(
        &mut self,
        head: &[u8],
        body: Option<&Body>,
        first: u64,
        len: u64,
    ) -> io::Result<()> {
        let total = head.len() as u64 + len;
        let mut sent = 0_u64;
        // Bytes that have arrived by now, and the wait until more arrive.
        let (mut arrived, mut pause) = (0_u64, Duration::ZERO);
        while sent < total {
            if sent == arrived {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                let burst = self.path.burst(total - sent, &mut self.chance);
                arrived += burst.bytes;
                pause = burst.pause;
                continue;
            }
            let now = usize::try_from(arrived - sent).unwrap_or(usize::MAX);
            let wrote = PIECE.with_borrow_mut(|piece| {
                let head_left = usize::try_from(sent)
                    .ok()
                    .and_then(|n| head.get(n..))
                    .unwrap_or_default();
                let head_left = &head_left[..head_left.len().min(now)];
                piece[..head_left.len()].copy_from_slice(head_left);
                let done = sent.saturating_sub(head.len() as u64);
                let room = piece.len().min(now) - head_left.len();
                let take = usize::try_from(len - done).unwrap_or(room).min(room);
                if let Some(body) = body {
                    let part = &mut piece[head_left.len()..head_left.len() + take];
                    body.fill(first + done, part);
                }
                self.stream.try_write(&piece[..head_left.len() + take])
            });
            match wrote {
                Ok(n) => sent += n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Think time before a reply, seconds, from a number in [0, 1).
#[must_use]
pub fn think_s(u: f64) -> f64 {
    //= spec section 3   negative is 0
    normal(THINK_S_MEAN, THINK_S_SDEV, u).max(0.0)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // bytes of an object, and less
fn share_of(bytes: u64, share: f64) -> u64 {
    ((bytes as f64 * share) as u64).min(bytes - 1)
}

/// Unix milliseconds.
#[must_use]
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// Unix seconds.
#[must_use]
pub fn now_s() -> u64 {
    now_ms() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_those_of_the_specification() {
        let mut chance = Chance::new(1);
        let draws = 200_000;
        let times: Vec<f64> = (0..draws).map(|_| think_s(chance.unit())).collect();
        let mean = times.iter().sum::<f64>() / f64::from(draws);
        // Cutting off at 0 raises the mean by 0.002 s.
        assert!((mean - 2.502).abs() < 0.01, "{mean}");
        let zero = times.iter().filter(|t| **t == 0.0).count();
        #[allow(clippy::cast_precision_loss)]
        let share = zero as f64 / f64::from(draws);
        assert!((share - 0.0062).abs() < 0.001, "{share}");
    }
}
