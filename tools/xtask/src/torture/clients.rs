//! The clients: some dozens of connections, each with one request after the other.
//!
//! Most requests are for random URLs, a few URLs far more often than the others. Some are for a range, some clients hang up in the middle,
//! want an answer from the origin (no-cache), post, or purge. Every answer goes through an
//! [`Inspection`], and what it acknowledges is entered in the ledger.
//!
//! Only failures caused by a kill are forgiven: for a failed request [`Life`] is consulted, which the trial
//! changes before it kills and after the next start. While the device fails, and from the first damage on, one more
//! failure is forgiven and counted: an answer of several fragments that is cut off, since its head has been sent already.
//!
//! Some clients download a large object slowly and purge it, in a new version, before it is complete: a download that began before the
//! purge must end whole, with its first version. While the device hangs, no client may wait for a byte longer than [`HANG_WAIT_MAX`].
//!
//! Limits: [`CLIENTS`] threads; [`WRONGS_MAX`] wrong answers are kept.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wire::Response;

use super::bodies::{Catalogue, Kind, LARGE, Url, Variant};
use super::check::{Asked, Inspection, Seen};
use super::ledger::{Deed, Ledger};
use super::origin::PACE;
use super::report::Figures;
use crate::chance::{Chance, mix};
use crate::http::{self, Ended, Receiver, Request};

/// Number of clients.
pub const CLIENTS: usize = 32;
/// Most wrong answers kept.
pub const WRONGS_MAX: usize = 50;
const AWAIT_EVERY: Duration = Duration::from_millis(2);
/// Longest pause between two requests of a client, so that all of them together do not saturate the machine.
const THINK_MS_MAX: u64 = 30;
/// After 5 s (`store.read-wait`) a read that a hanging device does not answer is given up and fetched from the origin; the rest is
/// a margin for a busy machine.
pub const HANG_WAIT_MAX: Duration = Duration::from_secs(8);
/// Duration of a slow download.
const DOWNLOAD_S: (f64, f64) = (0.5, 2.0);
/// Longest of the short ranges of large objects, which are read by blocks.
const SHORT_PART_BYTES_MAX: u64 = 128 << 10;
/// Most short ranges in a row.
const SHORT_PARTS_MAX: u64 = 6;
/// Attempts to find an object large enough for a range.
const PICKS_MAX: usize = 200;
/// Milliseconds between two pieces that the origin sends of a download that is not from the store.
const PACE_MS: &str = "15";

/// The number of the proxy's present life or death: even while it lives.
#[derive(Debug, Default)]
pub struct Life(AtomicU64);

impl Life {
    /// The present number.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether this is the number of a life.
    pub fn is_one(number: u64) -> bool {
        number.is_multiple_of(2)
    }

    /// Whether a kill explains the failure of a request that began at this number.
    pub fn has_turned_since(&self, number: u64) -> bool {
        !Self::is_one(number) || self.number() != number
    }

    /// Changes from life to death, or from death to life.
    pub fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// State shared by all clients and the trial.
#[derive(Debug)]
pub struct Shared {
    pub catalogue: Arc<Catalogue>,
    pub ledger: Arc<Ledger>,
    pub life: Life,
    pub figures: Figures,
    pub wrongs: Mutex<Vec<String>>,
    /// The store is damaged, or its device fails: answers cut off are forgiven (see the head of this file).
    pub cuts_forgiven: AtomicBool,
    pub stop: AtomicBool,
    /// Repeat a GET if its idle connection was closed: a process that is replaced by another closes idle connections.
    pub repeats: bool,
    /// An answer older than a replaced version is wrong.
    pub strict: bool,
    /// A download cut by a purge is wrong.
    pub whole_downloads: bool,
    /// A wait longer than [`HANG_WAIT_MAX`] is wrong.
    pub bounded_waits: bool,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    /// Start of the run, for messages.
    pub begun: Instant,
}

impl Shared {
    /// Notes a wrong answer.
    pub fn wrong(&self, what: &str) {
        let text = format!(
            "{:.3} s, life {}: {what}",
            self.begun.elapsed().as_secs_f64(),
            self.life.number() / 2
        );
        let mut wrongs = self.wrongs.lock().expect("no thread panics holding this");
        if wrongs.len() < WRONGS_MAX {
            wrongs.push(text);
        }
    }
}

/// One GET.
#[derive(Debug, Clone, Copy)]
pub struct Get {
    pub url: Url,
    pub variant: Variant,
    pub range: Option<(u64, u64)>,
    pub no_cache: bool,
    pub hang_up_after: u64,
    pub slowly: Option<Slowly>,
}

/// A slow download.
#[derive(Debug, Clone, Copy)]
pub struct Slowly {
    /// Its total duration.
    pub time: Duration,
    /// The object is purged when this many bytes have arrived.
    pub purge_at: u64,
}

impl Get {
    /// A plain request for the whole object.
    pub fn plain(url: Url, variant: Variant) -> Self {
        Self {
            url,
            variant,
            range: None,
            no_cache: false,
            hang_up_after: u64::MAX,
            slowly: None,
        }
    }
}

/// A client with its connections.
pub struct Client<'a> {
    shared: &'a Shared,
    proxy: http::Client,
    admin: http::Client,
    /// The number of the life in which they were opened.
    life: u64,
}

impl<'a> Client<'a> {
    /// A client without connections.
    pub fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            proxy: http::Client::new(shared.address),
            admin: http::Client::new(shared.admin),
            life: 0,
        }
    }

    /// Makes one request after the other until told to stop.
    pub fn work(&mut self, chance: &mut Chance) {
        let shared = self.shared;
        while !shared.stop.load(Ordering::Relaxed) {
            if !Life::is_one(shared.life.number()) {
                std::thread::sleep(AWAIT_EVERY);
                continue;
            }
            self.one(chance);
            std::thread::sleep(Duration::from_millis(chance.below(THINK_MS_MAX)));
        }
    }

    fn one(&mut self, chance: &mut Chance) {
        let url = self.shared.catalogue.pick(chance);
        if self.shared.ledger.is_reserved(url.id) {
            return;
        }
        let variant = match url.kind {
            Kind::Varied if chance.percent(50) => Variant::Gzip,
            _ => Variant::Identity,
        };
        let mut get = Get::plain(url, variant);
        match chance.below(1000) {
            0..10 => self.post(&url),
            10..20 => self.purge(&url),
            20..35 => {
                self.shared.ledger.raise(url.id);
                get.no_cache = true;
                self.get(&get);
            }
            60..64 => self.download(chance),
            35..60 if url.bytes > 1 => {
                get.hang_up_after = 1 + chance.below(url.bytes);
                self.get(&get);
            }
            _ if url.bytes >= LARGE.start && chance.percent(40) => self.parts(&mut get, chance),
            _ => _ = self.get(&get),
        }
    }

    /// Requests a range of a large object, or several short ones in a row, as players do.
    fn parts(&mut self, get: &mut Get, chance: &mut Chance) {
        let bytes = get.url.bytes;
        let mut from = chance.below(bytes);
        let (len, parts) = match chance.percent(50) {
            true => (1 + chance.below(bytes - from), 1),
            false => (
                1 + chance.below(SHORT_PART_BYTES_MAX),
                1 + chance.below(SHORT_PARTS_MAX),
            ),
        };
        for _ in 0..parts {
            let to = (from + len).min(bytes);
            if from >= to {
                break;
            }
            get.range = Some((from, to));
            self.get(get);
            from = to;
        }
    }

    /// Downloads a large object slowly, and purges and changes it meanwhile.
    fn download(&mut self, chance: &mut Chance) {
        let shared = self.shared;
        let large = |url: &Url| {
            url.bytes >= LARGE.start && url.lasts() && !shared.ledger.is_reserved(url.id)
        };
        let mut picks = (0..PICKS_MAX).map(|_| shared.catalogue.pick(chance));
        let Some(url) = picks.find(large) else {
            return;
        };
        let mut get = Get::plain(url, Variant::Identity);
        get.slowly = Some(Slowly {
            time: chance.seconds(DOWNLOAD_S.0, DOWNLOAD_S.1),
            purge_at: 1 + chance.below(url.bytes / 2),
        });
        // Half of the downloads come from the store, half from the origin.
        get.no_cache = chance.percent(50);
        self.get(&get);
    }

    /// The number of this life; closes connections of an earlier one.
    fn begin(&mut self) -> u64 {
        let life = self.shared.life.number();
        if self.life != life {
            self.life = life;
            self.proxy.close();
            self.admin.close();
        }
        life
    }

    /// Whether a kill explains the failure.
    fn is_forgiven(&self, life: u64) -> bool {
        self.shared.life.has_turned_since(life)
    }

    /// Makes one GET and inspects the answer. `None`: broken, forgiven or not, or wrong.
    pub fn get(&mut self, get: &Get) -> Option<Seen> {
        let shared = self.shared;
        let figures = &shared.figures;
        let life = self.begin();
        let begun = Instant::now();
        let number = shared.ledger.begins(get.url.id);
        let asked = Asked {
            url: get.url,
            variant: get.variant,
            range: get.range,
            floor: shared.ledger.floor(&get.url, get.no_cache, begun),
            hang_up_after: get.hang_up_after,
            strict: shared.strict,
        };
        let range = get
            .range
            .map(|(from, to)| format!("bytes={from}-{}", to - 1));
        let mut fields = Vec::new();
        if get.url.kind == Kind::Varied {
            fields.push(("Accept-Encoding", get.variant.name()));
        }
        if let Some(range) = &range {
            fields.push(("Range", range));
        }
        if get.no_cache {
            fields.push(("Cache-Control", "no-cache"));
        }
        let mut inspection = Inspection::new(&shared.catalogue, &shared.ledger, asked);
        let path = get.url.path();
        fn request<'a>(target: &'a str, fields: &'a [(&'a str, &'a str)]) -> Request<'a> {
            Request {
                fields,
                ..Request::of("GET", target)
            }
        }
        let mut purged = false;
        let (ended, wait) = match get.slowly {
            None => {
                let request = request(&path, &fields);
                let ended = match shared.repeats {
                    true => self.proxy.ask_repeatably(request, &mut inspection),
                    false => self.proxy.ask(request, &mut inspection),
                };
                (ended, self.proxy.longest_wait())
            }
            Some(slowly) => {
                if get.no_cache {
                    fields.push((PACE, PACE_MS));
                }
                let mut download = Download {
                    shared,
                    get,
                    slowly,
                    inspection: &mut inspection,
                    came: 0,
                    purged: false,
                };
                let mut narrow = http::Client::narrow(shared.address);
                let ended = narrow.ask(request(&path, &fields), &mut download);
                purged = download.purged;
                (ended, narrow.longest_wait())
            }
        };
        if shared.ledger.was_device_hanging(begun) && !self.is_forgiven(life) {
            figures.waited(wait);
            if wait > HANG_WAIT_MAX {
                Figures::add(&figures.waited, 1);
                if shared.bounded_waits {
                    shared.wrong(&format!(
                        "{get:?}: nothing came for {wait:?} while the device hung"
                    ));
                }
            }
        }
        let ended_at = Instant::now();
        let whole = ended == Ended::Whole;
        let alone = shared.ledger.ended(get.url.id, number, whole, ended_at);
        Figures::add(&figures.requests, 1);
        let seen = match inspection.verdict(&ended) {
            Ok(seen) => seen,
            Err(wrong) => {
                self.proxy.close();
                let deed = shared.ledger.acknowledged_by(get.url.id);
                let deed = deed.map_or(String::new(), |deed| {
                    format!("; {}", deed.since(shared.begun))
                });
                shared.wrong(&format!("{get:?}: {wrong}{deed}"));
                Figures::add(&figures.wrong, 1);
                return None;
            }
        };
        Figures::add(&figures.compared_bytes, seen.compared_bytes);
        match ended {
            Ended::Broken { after_head, reason } => {
                self.broken(life, after_head, &reason, get, purged);
                return None;
            }
            Ended::HungUp => {
                Figures::add(&figures.hung_up, 1);
                return None;
            }
            Ended::Whole => {}
        }
        match get.slowly {
            Some(_) => Figures::add(&figures.downloads, u64::from(purged)),
            None => figures.answered(ended_at - begun),
        }
        Figures::add(&figures.compared, 1);
        if seen.hit {
            Figures::add(&figures.hits, 1);
            Figures::add(&figures.large_hits, u64::from(get.url.bytes >= LARGE.start));
        } else {
            Figures::add(&figures.misses, 1);
        }
        Figures::add(&figures.went_back, u64::from(seen.went_back));
        Figures::add(&figures.parts, u64::from(get.range.is_some()));
        // The object may have been purged meanwhile.
        if seen.is_all && !purged {
            let (id, version) = (get.url.id, seen.version);
            if get.url.lasts() && (seen.hit || seen.stored) {
                shared
                    .ledger
                    .seen(id, get.variant, version, seen.hit, ended_at);
            }
            if get.no_cache {
                Figures::add(&figures.replacements, 1);
                if alone && get.url.lasts() && get.url.kind != Kind::Varied {
                    shared.ledger.replaced(id, version, ended_at);
                }
            }
        }
        Some(seen)
    }

    fn broken(&mut self, life: u64, after_head: bool, reason: &str, get: &Get, purged: bool) {
        let figures = &self.shared.figures;
        if self.is_forgiven(life) {
            Figures::add(&figures.broken_by_kills, 1);
        } else if after_head && get.url.bytes >= LARGE.start {
            // The next fragment was lost to a fault, or to a purge or an eviction before it was read, and the origin has another
            // version by now.
            let by_fault = self.shared.cuts_forgiven.load(Ordering::SeqCst);
            let figure = match (by_fault, purged) {
                (true, _) => &figures.cut_by_faults,
                (false, true) => &figures.downloads_cut,
                (false, false) => &figures.cut_in_mid_body,
            };
            Figures::add(figure, 1);
            if purged && !by_fault && self.shared.whole_downloads {
                self.shared
                    .wrong(&format!("{get:?}: cut off behind a purge: {reason}"));
            }
        } else {
            self.shared.wrong(&format!("{get:?}: broken: {reason}"));
            Figures::add(&figures.failed, 1);
        }
    }

    fn post(&mut self, url: &Url) {
        let shared = self.shared;
        let life = self.begin();
        let mut order = Order::new("POST", url);
        let path = url.path();
        let request = Request {
            body: Some(b"raise it"),
            ..Request::of("POST", &path)
        };
        order.ended = self.proxy.ask(request, &mut order.reply);
        if self.is_acknowledged(&order, life) {
            match order.reply.raised {
                Some(version) => shared.ledger.posted(url.id, version, order.deed()),
                None => shared.wrong(&format!("POST {url:?}: not the origin's answer")),
            }
            Figures::add(&shared.figures.posts, 1);
        }
    }

    fn purge(&mut self, url: &Url) {
        let shared = self.shared;
        let life = self.begin();
        let version = shared.ledger.raise(url.id);
        let target = format!("/http://{}{}", shared.address, url.path());
        let mut order = Order::new("PURGE", url);
        // The admin interface closes connections idle for some seconds, perhaps at this moment.
        let request = Request::of("PURGE", &target);
        order.ended = self.admin.ask_repeatably(request, &mut order.reply);
        if self.is_acknowledged(&order, life) {
            shared.ledger.purged(url.id, version, order.deed());
            Figures::add(&shared.figures.purges, 1);
        }
    }

    /// Whether it succeeded. A 2xx is an acknowledgement, even if the rest of the answer never came.
    fn is_acknowledged(&self, order: &Order, life: u64) -> bool {
        let shared = self.shared;
        let figures = &shared.figures;
        Figures::add(&figures.requests, 1);
        let status = order.reply.status;
        if (200..300).contains(&status) {
            figures.answered(order.begun.elapsed());
            return true;
        }
        if self.is_forgiven(life) {
            Figures::add(&figures.broken_by_kills, 1);
        } else if order.method == "PURGE"
            && status >= 500
            && shared.ledger.was_device_in_trouble(order.begun)
        {
            Figures::add(&figures.purges_refused, 1);
        } else {
            shared.wrong(&format!(
                "{} {:?}: status {status}, {:?}",
                order.method, order.url, order.ended
            ));
            Figures::add(&figures.failed, 1);
        }
        false
    }
}

/// A slow download in flight.
struct Download<'a, 'b> {
    shared: &'a Shared,
    get: &'b Get,
    slowly: Slowly,
    inspection: &'b mut Inspection<'a>,
    came: u64,
    purged: bool,
}

impl Receiver for Download<'_, '_> {
    fn head(&mut self, head: &Response) -> bool {
        self.inspection.head(head)
    }

    fn body(&mut self, piece: &[u8]) -> bool {
        self.came += piece.len() as u64;
        if !self.purged && self.came >= self.slowly.purge_at {
            Client::new(self.shared).purge(&self.get.url);
            self.purged = true;
        }
        let share = piece.len() as f64 / self.get.url.bytes.max(1) as f64;
        std::thread::sleep(self.slowly.time.mul_f64(share));
        self.inspection.body(piece)
    }
}

/// A POST or a PURGE, and its outcome.
struct Order<'a> {
    method: &'static str,
    url: &'a Url,
    begun: Instant,
    reply: Reply,
    ended: Ended,
}

impl<'a> Order<'a> {
    fn new(method: &'static str, url: &'a Url) -> Self {
        Self {
            method,
            url,
            begun: Instant::now(),
            reply: Reply::default(),
            ended: Ended::HungUp,
        }
    }

    fn deed(&self) -> Deed {
        Deed {
            method: self.method,
            asked: self.begun,
            answered: Instant::now(),
        }
    }
}

/// The answer to a POST or a PURGE.
#[derive(Debug, Default)]
struct Reply {
    status: u16,
    raised: Option<u64>,
}

impl Receiver for Reply {
    fn head(&mut self, head: &Response) -> bool {
        self.status = head.status;
        self.raised = head.fields.first("x-raised").and_then(|v| v.parse().ok());
        true
    }

    fn body(&mut self, _: &[u8]) -> bool {
        true
    }
}

/// Starts all clients.
pub fn start(shared: &Arc<Shared>, seed: u64) -> Vec<std::thread::JoinHandle<()>> {
    (0..CLIENTS as u64)
        .map(|n| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                Client::new(&shared).work(&mut Chance::new(seed ^ mix(n)));
            })
        })
        .collect()
}
