//! The history of each URL, which decides the versions that an answer may have.
//!
//! The origin raises versions here; clients note what was acknowledged to them. From both follows, for a request
//! that starts now, the oldest version that may answer it ([`Floor`]):
//!
//!   acknowledged  a POST or a PURGE was answered with 2xx: for good, whatever is killed afterwards
//!   replaced      a no-cache GET was answered completely, and no other GET of the URL was in flight meanwhile (of two fetches at
//!                 once either may be stored last): while the proxy lives, and after a kill if [`DURABLE_AFTER`] had passed.
//!                 A soft floor: a proxy whose store refuses the new version may still have the old one, fresh
//!   asked         no-cache requests, and URLs that must not be stored: the origin's present version
//!   aged          URLs that are fresh for a second: the origin's version that long ago
//!
//! A POST answered while the device refuses I/O binds only while the proxy lives: the invalidation cannot be written, and
//! the origin's answer cannot be taken back. A PURGE could have been refused, so it binds. *While* lasts from the request
//! until the entry here, because a client may be late with its entry: the proxy may be dead by then, and the device well again.
//!
//! Not known here: HTTP, bytes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::bodies::{Kind, Url, Variant};

/// An object that has been complete for this long is expected to be on disk.
pub const DURABLE_AFTER: Duration = Duration::from_secs(3);
/// How long a [`Kind::Brief`] answer is fresh; the origin says so in whole seconds.
pub const BRIEF: Duration = Duration::from_secs(1);
/// Longest time that a fetch may go on after its client has hung up.
const LOOSE: Duration = Duration::from_secs(5);
/// Age is counted in whole seconds, on both sides.
const AGE_SLACK: Duration = Duration::from_secs(2);

/// The oldest version that may answer, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    pub version: u64,
    pub why: &'static str,
    /// The soft floor, if it is higher.
    pub replaced: u64,
}

/// An object that was seen to be stored.
#[derive(Debug, Clone, Copy)]
struct Known {
    version: u64,
    since: Instant,
    /// Bytes that the origin had sent in all until then, to tell how much may have been stored since.
    mark: u64,
    /// The device was damaged or failed since; a hit makes the object known again.
    doubtful: bool,
}

/// The request that made a version, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deed {
    pub method: &'static str,
    pub asked: Instant,
    pub answered: Instant,
}

impl Deed {
    /// A description, with seconds since `begun`.
    pub fn since(&self, begun: Instant) -> String {
        format!(
            "last {} asked at {:.3} s, answered at {:.3} s",
            self.method,
            (self.asked - begun).as_secs_f64(),
            (self.answered - begun).as_secs_f64()
        )
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// Times at which versions 2, 3, 4... were made.
    raised: Vec<Instant>,
    acknowledged: u64,
    /// The request that acknowledged it.
    acknowledged_by: Option<Deed>,
    /// The version of a POST that could not be made durable.
    posted: Option<u64>,
    /// Versions that replaced others, with their times.
    replaced: Vec<(u64, Instant)>,
    known: [Option<Known>; 2],
    reserved: bool,
    /// GETs in flight.
    on_their_way: u32,
    asked: u64,
    /// The value of `asked` when a GET last ended.
    last_ended: u64,
    /// Until then a fetch may go on without a client.
    loose_until: Option<Instant>,
}

impl Entry {
    fn version(&self) -> u64 {
        self.raised.len() as u64 + 1
    }

    fn version_at(&self, then: Instant) -> u64 {
        self.raised.partition_point(|at| *at <= then) as u64 + 1
    }
}

/// A state of the device that is on or off, and when it last ended.
#[derive(Debug, Default)]
struct Trouble {
    is_now: AtomicBool,
    ended: Mutex<Option<Instant>>,
}

impl Trouble {
    fn set(&self, is_now: bool) {
        let mut ended = self.ended.lock().expect("no thread panics holding this");
        if self.is_now.swap(is_now, Ordering::SeqCst) && !is_now {
            *ended = Some(Instant::now());
        }
    }

    fn is_now(&self) -> bool {
        self.is_now.load(Ordering::SeqCst)
    }

    /// Whether it was on at any time since `then`.
    fn was_since(&self, then: Instant) -> bool {
        let ended = self.ended.lock().expect("no thread panics holding this");
        self.is_now() || ended.is_some_and(|ended| ended >= then)
    }
}

/// The histories of all URLs.
#[derive(Debug)]
pub struct Ledger {
    entries: Vec<Mutex<Entry>>,
    /// The last kill. A client's late entry about an earlier answer is ignored unless it binds for good.
    killed_at: Mutex<Option<Instant>>,
    io_fails: Trouble,
    io_crawls: Trouble,
    io_hangs: Trouble,
    sent_bytes: AtomicU64,
}

impl Ledger {
    /// A ledger for URLs 0 to `count` - 1, each at version 1.
    pub fn new(count: usize) -> Self {
        Self {
            entries: (0..count).map(|_| Mutex::default()).collect(),
            killed_at: Mutex::new(None),
            io_fails: Trouble::default(),
            io_crawls: Trouble::default(),
            io_hangs: Trouble::default(),
            sent_bytes: AtomicU64::new(0),
        }
    }

    fn entry(&self, id: usize) -> std::sync::MutexGuard<'_, Entry> {
        self.entries[id]
            .lock()
            .expect("no thread panics holding this")
    }

    fn is_of_this_life(&self, at: Instant) -> bool {
        let killed_at = self
            .killed_at
            .lock()
            .expect("no thread panics holding this");
        killed_at.is_none_or(|killed_at| at > killed_at)
    }

    /// The origin's version.
    pub fn version(&self, id: usize) -> u64 {
        self.entry(id).version()
    }

    /// Raises the origin's version.
    pub fn raise(&self, id: usize) -> u64 {
        let mut entry = self.entry(id);
        entry.raised.push(Instant::now());
        entry.version()
    }

    /// The origin has sent a storable body of this length.
    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The POST that made this version was answered.
    pub fn posted(&self, id: usize, version: u64, deed: Deed) {
        if !self.io_fails.was_since(deed.asked) {
            self.purged(id, version, deed);
            return;
        }
        let mut entry = self.entry(id);
        if self.is_of_this_life(deed.answered) {
            entry.posted = entry.posted.max(Some(version));
        }
    }

    /// A PURGE was answered; at its request the origin had this version.
    pub fn purged(&self, id: usize, version: u64, deed: Deed) {
        let mut entry = self.entry(id);
        if version > entry.acknowledged {
            entry.acknowledged = version;
            entry.acknowledged_by = Some(deed);
        }
    }

    /// The request that acknowledged the oldest version that may still be served.
    pub fn acknowledged_by(&self, id: usize) -> Option<Deed> {
        self.entry(id).acknowledged_by
    }

    /// A GET begins; the number returned is for [`Ledger::ended`].
    pub fn begins(&self, id: usize) -> u64 {
        let mut entry = self.entry(id);
        entry.asked += 1;
        entry.on_their_way += 1;
        entry.asked
    }

    /// The GET has ended. True if no other request for this URL was in flight meanwhile.
    pub fn ended(&self, id: usize, number: u64, whole: bool, at: Instant) -> bool {
        let mut entry = self.entry(id);
        entry.on_their_way -= 1;
        if !whole {
            entry.loose_until = Some(at + LOOSE);
        }
        // Requests that began earlier and have not ended are still counted; those that ended meanwhile have set `last_ended`.
        let alone = entry.on_their_way == 0
            && entry.asked == number
            && entry.last_ended < number
            && entry.loose_until.is_none_or(|until| until < at);
        entry.last_ended = entry.last_ended.max(entry.asked);
        alone
    }

    /// Whether the device refuses I/O.
    pub fn is_device_failing(&self) -> bool {
        self.io_fails.is_now()
    }

    /// Whether it failed or crawled at any time since. Then a PURGE may be refused.
    pub fn was_device_in_trouble(&self, since: Instant) -> bool {
        self.io_fails.was_since(since) || self.io_crawls.was_since(since)
    }

    /// The device starts or stops crawling.
    pub fn device_crawls(&self, crawls: bool) {
        self.io_crawls.set(crawls);
    }

    /// The device starts or stops hanging.
    pub fn device_hangs(&self, hangs: bool) {
        self.io_hangs.set(hangs);
        self.io_crawls.set(hangs);
    }

    /// Whether it hung at any time since.
    pub fn was_device_hanging(&self, since: Instant) -> bool {
        self.io_hangs.was_since(since)
    }

    /// A no-cache GET returned this version completely.
    pub fn replaced(&self, id: usize, version: u64, at: Instant) {
        let mut entry = self.entry(id);
        if self.is_of_this_life(at) && !self.is_device_failing() {
            entry.replaced.push((version, at));
        }
    }

    /// An answer of this version was complete, and was being stored or came from the store.
    pub fn seen(&self, id: usize, variant: Variant, version: u64, hit: bool, at: Instant) {
        let fresh = Known {
            version,
            since: at,
            mark: self.sent_bytes.load(Ordering::Relaxed),
            doubtful: self.io_fails.is_now(),
        };
        let mut entry = self.entry(id);
        if !self.is_of_this_life(at) {
            return;
        }
        let slot = &mut entry.known[variant as usize];
        match slot {
            Some(known) if hit && known.version == version => known.doubtful &= fresh.doubtful,
            // A hit whose storing no client saw may be old and close to eviction.
            _ if hit => {}
            _ => *slot = Some(fresh),
        }
    }

    /// The oldest versions that may answer a request that starts now.
    pub fn floor(&self, url: &Url, no_cache: bool, now: Instant) -> Floor {
        let entry = self.entry(url.id);
        let replaced = entry.replaced.iter().map(|(v, _)| *v).max().unwrap_or(0);
        let posted = entry.posted.unwrap_or(0);
        let mut floors = vec![
            (1, "the first"),
            (entry.acknowledged, "acknowledged"),
            (posted, "posted while the device fails"),
        ];
        if no_cache || url.kind == Kind::Unstored {
            floors.push((entry.version_at(now), "asked of the origin"));
        }
        if url.kind == Kind::Brief {
            let then = now.checked_sub(BRIEF + AGE_SLACK);
            floors.push((then.map_or(1, |then| entry.version_at(then)), "aged"));
        }
        let (version, why) = floors.into_iter().max_by_key(|f| f.0).unwrap_or((1, ""));
        Floor {
            version,
            why,
            replaced,
        }
    }

    /// The device starts or stops refusing I/O.
    pub fn device_fails(&self, fails: bool) {
        self.io_fails.set(fails);
        if fails {
            // Pending writes are lost.
            self.forget_replaced_since(Instant::now() - DURABLE_AFTER);
        }
    }

    /// The proxy was killed at this time.
    pub fn killed(&self, now: Instant) {
        // Set before the entries are walked: a client that holds an entry either sees this, or its entry is corrected below.
        *self
            .killed_at
            .lock()
            .expect("no thread panics holding this") = Some(now);
        for id in 0..self.entries.len() {
            self.entry(id).posted = None;
        }
        self.forget_replaced_since(now - DURABLE_AFTER);
    }

    fn forget_replaced_since(&self, since: Instant) {
        for id in 0..self.entries.len() {
            self.entry(id).replaced.retain(|(_, at)| *at <= since);
        }
    }

    /// The store was damaged: no object is known to be stored, and replaced versions may have come back.
    pub fn doubt(&self) {
        for id in 0..self.entries.len() {
            let mut entry = self.entry(id);
            entry.replaced.clear();
            for known in entry.known.iter_mut().flatten() {
                known.doubtful = true;
            }
        }
    }

    /// A device that hung from `hung_at` on was not given later writes, and may have lost pending ones: of the objects stored since, and
    /// shortly before, none is known to be stored.
    pub fn doubt_since(&self, hung_at: Instant) {
        for id in 0..self.entries.len() {
            for known in self.entry(id).known.iter_mut().flatten() {
                known.doubtful |= known.since + DURABLE_AFTER > hung_at;
            }
        }
    }

    /// URLs that should still be stored: complete for long enough, at the origin's version, and not too much stored since.
    pub fn durable(&self, now: Instant, behind_max: u64) -> Vec<(usize, Variant)> {
        let sent = self.sent_bytes.load(Ordering::Relaxed);
        let mut durable = Vec::new();
        for id in 0..self.entries.len() {
            let entry = self.entry(id);
            for variant in [Variant::Identity, Variant::Gzip] {
                let holds = entry.known[variant as usize].is_some_and(|known| {
                    known.since + DURABLE_AFTER <= now
                        && known.version == entry.version()
                        && !known.doubtful
                        && sent - known.mark <= behind_max
                });
                if holds {
                    durable.push((id, variant));
                }
            }
        }
        durable
    }

    /// Whether the version seen to be stored is still the origin's, with not too much stored since. Some time has passed since [`Ledger::durable`].
    pub fn is_still_durable(&self, id: usize, variant: Variant, behind_max: u64) -> bool {
        let entry = self.entry(id);
        let sent = self.sent_bytes.load(Ordering::Relaxed);
        entry.known[variant as usize].is_some_and(|known| {
            known.version == entry.version() && sent.saturating_sub(known.mark) <= behind_max
        })
    }

    /// Reserves a URL: clients do not use it until it has been checked.
    pub fn reserve(&self, id: usize, reserved: bool) {
        self.entry(id).reserved = reserved;
    }

    /// Whether the URL is reserved.
    pub fn is_reserved(&self, id: usize) -> bool {
        self.entry(id).reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(kind: Kind) -> Url {
        Url {
            id: 0,
            kind,
            bytes: 10,
        }
    }

    fn floor(ledger: &Ledger, kind: Kind) -> u64 {
        ledger.floor(&url(kind), false, Instant::now()).version
    }

    fn deed(asked: Instant) -> Deed {
        Deed {
            method: "POST",
            asked,
            answered: Instant::now(),
        }
    }

    fn soft_floor(ledger: &Ledger) -> u64 {
        let url = url(Kind::Plain);
        ledger.floor(&url, false, Instant::now()).replaced
    }

    #[test]
    fn an_acknowledgement_binds_for_good() {
        let ledger = Ledger::new(1);
        let version = ledger.raise(0);
        assert_eq!(floor(&ledger, Kind::Plain), 1, "nobody was told yet");
        ledger.purged(0, version, deed(Instant::now()));
        assert_eq!(floor(&ledger, Kind::Plain), 2);
        ledger.killed(Instant::now());
        ledger.doubt();
        assert_eq!(floor(&ledger, Kind::Plain), 2);
    }

    #[test]
    fn a_replacement_binds_after_a_kill_only_if_it_was_durable() {
        let ledger = Ledger::new(1);
        ledger.replaced(0, ledger.raise(0), Instant::now());
        assert_eq!(soft_floor(&ledger), 2);
        ledger.killed(Instant::now() + DURABLE_AFTER);
        assert_eq!(soft_floor(&ledger), 2);
        let ledger = Ledger::new(1);
        let version = ledger.raise(0);
        let before = Instant::now();
        ledger.replaced(0, version, before);
        ledger.killed(Instant::now());
        assert_eq!(soft_floor(&ledger), 0);
        ledger.replaced(0, version, before);
        assert_eq!(soft_floor(&ledger), 0, "written down too late");
    }

    #[test]
    fn only_who_is_alone_knows_what_was_stored_last() {
        let ledger = Ledger::new(1);
        let now = Instant::now();
        let one = ledger.begins(0);
        assert!(ledger.ended(0, one, true, now));
        let one = ledger.begins(0);
        let other = ledger.begins(0);
        assert!(!ledger.ended(0, one, true, now), "another began");
        assert!(!ledger.ended(0, other, true, now), "another ended");
        let one = ledger.begins(0);
        ledger.ended(0, one, false, now);
        let one = ledger.begins(0);
        assert!(!ledger.ended(0, one, true, now), "one was hung up on");
        let one = ledger.begins(0);
        assert!(ledger.ended(0, one, true, now + LOOSE + LOOSE));
    }

    #[test]
    fn a_post_while_the_device_fails_binds_until_the_kill() {
        let ledger = Ledger::new(1);
        ledger.device_fails(true);
        ledger.posted(0, ledger.raise(0), deed(Instant::now()));
        assert_eq!(floor(&ledger, Kind::Plain), 2);
        ledger.killed(Instant::now() + DURABLE_AFTER + DURABLE_AFTER);
        assert_eq!(floor(&ledger, Kind::Plain), 1);
    }

    #[test]
    fn a_post_asked_while_the_device_failed_never_binds_for_good() {
        let ledger = Ledger::new(2);
        let asked = Instant::now();
        ledger.device_fails(true);
        ledger.killed(Instant::now());
        ledger.device_fails(false);
        let mut late = deed(asked);
        late.answered = asked;
        ledger.posted(0, ledger.raise(0), late);
        assert_eq!(floor(&ledger, Kind::Plain), 1, "answered by a dead proxy");
        assert!(ledger.was_device_in_trouble(asked));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!ledger.was_device_in_trouble(Instant::now()));
        ledger.posted(0, ledger.raise(0), deed(Instant::now()));
        assert_eq!(floor(&ledger, Kind::Plain), 3);
    }

    #[test]
    fn what_must_not_be_stored_is_what_the_origin_has() {
        let ledger = Ledger::new(1);
        ledger.raise(0);
        assert_eq!(floor(&ledger, Kind::Unstored), 2);
        assert_eq!(floor(&ledger, Kind::Brief), 1);
        let later = Instant::now() + BRIEF + AGE_SLACK;
        let aged = ledger.floor(&url(Kind::Brief), false, later);
        assert_eq!((aged.version, aged.why), (2, "aged"));
        assert_eq!(ledger.floor(&url(Kind::Plain), true, later).version, 2);
    }

    #[test]
    fn durable_is_what_was_stored_long_enough_ago_and_not_invalidated() {
        let ledger = Ledger::new(2);
        ledger.seen(0, Variant::Identity, 1, false, Instant::now());
        ledger.seen(1, Variant::Gzip, 1, false, Instant::now());
        let later = Instant::now() + DURABLE_AFTER;
        assert!(ledger.durable(Instant::now(), 100).is_empty());
        assert_eq!(ledger.durable(later, 100).len(), 2);
        ledger.raise(0);
        assert_eq!(ledger.durable(later, 100), [(1, Variant::Gzip)]);
        ledger.doubt_since(later + DURABLE_AFTER + DURABLE_AFTER);
        assert_eq!(ledger.durable(later, 100).len(), 1);
        ledger.doubt_since(later - DURABLE_AFTER);
        assert!(ledger.durable(later, 100).is_empty());
        ledger.seen(1, Variant::Gzip, 1, true, Instant::now());
        ledger.doubt();
        assert!(ledger.durable(later, 100).is_empty());
        ledger.seen(1, Variant::Gzip, 1, true, Instant::now());
        assert_eq!(ledger.durable(later, 100).len(), 1);
        ledger.sent(101);
        assert!(ledger.durable(later, 100).is_empty());
    }
}
