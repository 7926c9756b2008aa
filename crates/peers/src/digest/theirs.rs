//! The digest of a sibling, and whether it is trusted.
//!
//! A digest is used for three times the interval between fetches. If of [`TRIES`] requests that it caused more than one in [`WRONG_SHARE`] found
//! nothing at the sibling, it is distrusted: it is dropped, and fetched anew. Squids corrupt the digests that they receive (bug 5510), not those
//! that they send.
//!
//! Not known here: how it is fetched.   Limits: those of the formats.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use hints::{
    digest::{self, Digest, IndexShape},
    squid::{self, SquidDigest},
};
use store::Tracing;
use tokio::sync::Notify;

use base::clock::Instant;
use rules::key::KEY_PREFIX;

/// Requests after which a digest is judged.
pub const TRIES: u32 = 100;
/// One in this many may find nothing.
pub const WRONG_SHARE: u32 = 5;
/// Fetch intervals after which a digest is too old.
const INTERVALS_MAX: u32 = 3;

/// A format of digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `hints::digest`.
    Loligo,
    /// `hints::squid`.
    Squid,
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Loligo => "loligo",
            Format::Squid => "squid",
        }
    }

    /// The path at which it is served.
    pub fn path(self) -> &'static str {
        match self {
            Format::Loligo => digest::PATH,
            Format::Squid => squid::PATH,
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Loligo => digest::MEDIA_TYPE,
            Format::Squid => squid::MEDIA_TYPE,
        }
    }

    /// The longest digest, bytes.
    pub fn bytes_max(self) -> usize {
        match self {
            Format::Loligo => digest::BYTES_MAX,
            Format::Squid => squid::BYTES_MAX,
        }
    }

    /// Decodes a digest.
    ///
    /// # Errors
    /// The reason why it cannot be used, for people.
    pub fn decode(self, bytes: &[u8]) -> Result<Content, String> {
        match self {
            Format::Loligo => Digest::decode(bytes)
                .map(Content::Loligo)
                .map_err(|e| e.to_string()),
            Format::Squid => SquidDigest::decode(bytes)
                .map(Content::Squid)
                .map_err(|e| e.to_string()),
        }
    }
}

/// A decoded digest.
#[derive(Debug)]
pub enum Content {
    /// In Loligo's format.
    Loligo(Digest),
    /// In Squid's format.
    Squid(SquidDigest),
}

impl Content {
    /// May the sibling have the response to GET for this URL?
    pub fn may_have(&self, url: &[u8]) -> bool {
        match self {
            Content::Squid(digest) => digest.may_have(url),
            Content::Loligo(digest) => {
                let name = [KEY_PREFIX, url].concat();
                let seed = digest.seed;
                digest.may_have(|IndexShape { shards, segments }| {
                    Tracing {
                        seed,
                        shards,
                        segments,
                    }
                    .trace(&name)
                })
            }
        }
    }

    /// Objects in it, as it says itself.
    pub fn objects(&self) -> u64 {
        match self {
            Content::Squid(digest) => digest.objects.into(),
            Content::Loligo(digest) => digest.traces(),
        }
    }
}

/// A fetched digest.
#[derive(Debug)]
pub struct Kept {
    /// Its contents.
    pub content: Content,
    /// When it was fetched.
    pub fetched: Instant,
}

/// The state of a sibling's digest, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its format; `None`: there is no digest at present.
    pub format: Option<Format>,
    /// Seconds since it was fetched.
    pub age_s: u64,
    /// Objects in it, as it says itself.
    pub objects: u64,
}

/// The digest of one sibling; described at the head of this file.
pub struct Theirs {
    kept: RwLock<Option<Arc<Kept>>>,
    /// Requests caused by the digest since it was fetched: all in the upper half, those that found nothing in the lower.
    tries: AtomicU64,
    age_max: Duration,
    /// The format that was found last.
    format: Mutex<Format>,
    /// Notified when the digest is to be fetched before its time.
    pub wanted: Notify,
}

impl Theirs {
    /// A sibling's digest that has not been fetched yet. `fetch_interval`: how often it will be.
    pub fn new(fetch_interval: Duration) -> Theirs {
        Theirs {
            kept: RwLock::default(),
            tries: AtomicU64::new(0),
            age_max: fetch_interval * INTERVALS_MAX,
            format: Mutex::new(Format::Loligo),
            wanted: Notify::new(),
        }
    }

    fn kept(&self) -> Option<Arc<Kept>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }

    /// May the sibling have the response to GET for this URL?
    pub fn may_have(&self, url: &[u8], now: Instant) -> bool {
        let kept = self.kept();
        let kept = kept.filter(|kept| now.duration_since(kept.fetched) < self.age_max);
        kept.is_some_and(|kept| kept.content.may_have(url))
    }

    /// Keeps a digest that was fetched.
    pub fn keep(&self, content: Content, fetched: Instant) {
        let kept = Kept { content, fetched };
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(kept));
        self.tries.store(0, Ordering::Relaxed);
    }

    /// The sibling was asked because of its digest. Did it have the object? True: the digest is distrusted from now on.
    pub fn tried(&self, had_it: bool) -> bool {
        let add = 1 << 32 | u64::from(!had_it);
        let now = self.tries.fetch_add(add, Ordering::Relaxed) + add;
        let (tries, wrong) = ((now >> 32) as u32, now as u32);
        if tries != TRIES {
            return false;
        }
        // The next hundred are judged separately.
        self.tries.store(0, Ordering::Relaxed);
        let is_wrong = wrong * WRONG_SHARE > TRIES;
        if is_wrong {
            *self.kept.write().unwrap_or_else(PoisonError::into_inner) = None;
            self.wanted.notify_one();
        }
        is_wrong
    }

    /// The formats to try, the likelier one first.
    pub fn formats(&self) -> [Format; 2] {
        let format = self.format.lock().unwrap_or_else(PoisonError::into_inner);
        match *format {
            Format::Loligo => [Format::Loligo, Format::Squid],
            Format::Squid => [Format::Squid, Format::Loligo],
        }
    }

    /// The digest was found in this format.
    pub fn found(&self, found: Format) {
        *self.format.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// The present state.
    pub fn standing(&self, now: Instant) -> Standing {
        let kept = self.kept();
        let kept = kept.filter(|kept| now.duration_since(kept.fetched) < self.age_max);
        let content = kept.as_ref().map(|kept| &kept.content);
        Standing {
            format: content.map(|content| match content {
                Content::Loligo(_) => Format::Loligo,
                Content::Squid(_) => Format::Squid,
            }),
            age_s: (kept.as_ref()).map_or(0, |kept| now.duration_since(kept.fetched).as_secs()),
            objects: content.map_or(0, Content::objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(300);
    const URL: &[u8] = b"http://a/";

    fn of_a_squid(urls: &[&[u8]]) -> Content {
        let size = squid::Size::new(100, 8).unwrap();
        let ages = hints::Ages::new(size.array_bytes(), 1 << 20).unwrap();
        for url in urls {
            ages.enter(squid::positions(url, u64::from(ages.bits())));
        }
        let bytes = [&size.header(1)[..], &ages.to_bytes()].concat();
        Format::Squid.decode(&bytes).unwrap()
    }

    #[test]
    fn an_old_digest_is_not_believed() {
        let theirs = Theirs::new(INTERVAL);
        let now = Instant::now();
        assert!(!theirs.may_have(URL, now), "there is none yet");
        theirs.keep(of_a_squid(&[URL]), now);
        assert!(theirs.may_have(URL, now));
        assert!(!theirs.may_have(b"http://b/", now));
        assert!(theirs.may_have(URL, now + INTERVAL * 2));
        assert!(!theirs.may_have(URL, now + INTERVAL * 3));
        let standing = theirs.standing(now + INTERVAL);
        assert_eq!(standing.format, Some(Format::Squid));
        assert_eq!((standing.age_s, standing.objects), (300, 1));
    }

    #[test]
    fn a_digest_that_is_wrong_too_often_is_dropped() {
        let now = Instant::now();
        for (wrong, is_dropped) in [(20, false), (21, true), (100, true)] {
            let theirs = Theirs::new(INTERVAL);
            theirs.keep(of_a_squid(&[URL]), now);
            let distrusted = (0..TRIES).map(|n| theirs.tried(n >= wrong));
            let distrusted: Vec<bool> = distrusted.collect();
            assert_eq!(distrusted.iter().position(|d| *d), is_dropped.then_some(99));
            assert_eq!(theirs.may_have(URL, now), !is_dropped, "{wrong} in vain");
        }
    }

    #[test]
    fn the_format_that_was_found_is_tried_first() {
        let theirs = Theirs::new(INTERVAL);
        assert_eq!(theirs.formats(), [Format::Loligo, Format::Squid]);
        theirs.found(Format::Squid);
        assert_eq!(theirs.formats(), [Format::Squid, Format::Loligo]);
    }
}
