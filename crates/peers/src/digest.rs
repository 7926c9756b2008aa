//! Digests: which objects siblings have, told in advance.
//!
//! | file | story |
//! |---|---|
//! | `digest/own` | our digest, which follows the stores |
//! | `digest/theirs` | digests of siblings, and whether they are trusted |
//! | `peers/fetching` | fetching them; the tasks of digests |
//! | `request/digest_serving` | serving our digest |
//!
//! There are two formats. Loligo's (`hints::digest`) follows the index exactly and costs no read. Squid's (`hints::squid`) is made from URLs, so
//! an object can be entered only where its URL is at hand. See docs/decisions/0044-digests.md.
//!
//! Not known here: sockets, requests.

pub mod own;
pub mod theirs;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use store::Set;

use base::clock::Instant;
use plan::{Ask, Plan};
use rules::key::{KEY_PREFIX, name_of_key};

use own::Own;
use theirs::Theirs;

/// Why our digest cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmakable {
    /// There is no store to describe.
    NoStore,
    /// It would be too large.
    TooLarge {
        /// Objects that the stores can hold.
        objects: u64,
        /// Bits for each.
        bits_per_object: u8,
    },
}

impl fmt::Display for Unmakable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmakable::NoStore => write!(
                f,
                "digest.serve needs a [[store]]: a digest tells what is on disk"
            ),
            Unmakable::TooLarge {
                objects,
                bits_per_object,
            } => write!(
                f,
                "digest.serve: the stores can hold {objects} objects, and {bits_per_object} bits for each are more than the {} of a \
                 digest; lower digest.bits-per-object, or leave digest.serve out",
                hints::digest::BITS_MAX
            ),
        }
    }
}

impl std::error::Error for Unmakable {}

/// Counters of digests.
#[derive(Default, Debug)]
pub struct Counters {
    /// Digests of siblings that were fetched completely.
    pub fetched: AtomicU64,
    /// Their bytes.
    pub fetched_bytes: AtomicU64,
    /// Fetches that failed, or returned something that is not a digest.
    pub failed: AtomicU64,
    /// Digests dropped because they were wrong too often.
    pub distrusted: AtomicU64,
    /// Times that our digest was served.
    pub served: AtomicU64,
    /// Their bytes.
    pub served_bytes: AtomicU64,
    /// Times that a sibling's digest claimed an object.
    pub yes: AtomicU64,
    /// Times that the sibling then had the object.
    pub true_hits: AtomicU64,
    /// Times that it did not have the object.
    pub false_hits: AtomicU64,
    /// Times that our digest was begun anew, because changes were lost or it had become too small.
    pub begun_anew: AtomicU64,
}

impl Counters {
    /// Name, meaning and value of each.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        [
            (
                "digests_fetched",
                "Digests of siblings fetched whole",
                &self.fetched,
            ),
            (
                "digest_fetched_bytes",
                "Bytes of digests fetched",
                &self.fetched_bytes,
            ),
            (
                "digests_failed",
                "Digests that could not be fetched, or were none",
                &self.failed,
            ),
            (
                "digests_distrusted",
                "Digests given up because they were wrong too often",
                &self.distrusted,
            ),
            ("digests_served", "Digests served to siblings", &self.served),
            (
                "digest_served_bytes",
                "Bytes of digests served",
                &self.served_bytes,
            ),
            (
                "digest_yes",
                "Times that a sibling's digest said yes",
                &self.yes,
            ),
            (
                "digest_true_hits",
                "Times that the sibling had what its digest said",
                &self.true_hits,
            ),
            (
                "digest_false_hits",
                "Times that the sibling did not have what its digest said",
                &self.false_hits,
            ),
            (
                "digest_begun_anew",
                "Times that our digest was begun anew",
                &self.begun_anew,
            ),
        ]
        .map(|(name, help, value)| (name, help, value.load(Ordering::Relaxed)))
        .into_iter()
    }
}

/// Our digest, and those of siblings.
#[derive(Default)]
pub struct Digests {
    /// Our digest; `None`: none is served.
    pub own: Option<Own>,
    /// By the sibling's number in the plan; `None`: the sibling is not asked by digest.
    theirs: Box<[Option<Theirs>]>,
    /// Counters.
    pub counters: Counters,
}

impl Digests {
    /// The digests of this plan. `stores`: our disk stores.
    ///
    /// # Errors
    /// Our digest cannot be made.
    pub fn new(plan: &Plan, stores: Option<&Set>) -> Result<Digests, Unmakable> {
        let theirs = plan.siblings.iter().map(|sibling| match sibling.ask {
            Ask::Digest => Some(Theirs::new(plan.digests.fetch_interval)),
            Ask::Icp { .. } | Ask::Try => None,
        });
        Ok(Digests {
            own: match (plan.digests.serve, stores) {
                (false, _) => None,
                (true, None) => return Err(Unmakable::NoStore),
                (true, Some(stores)) => Some(Own::new(stores, &plan.digests)?),
            },
            theirs: theirs.collect(),
            counters: Counters::default(),
        })
    }

    /// May a sibling, by its number in the plan, have the response to GET for this URL (in normal form, as in keys)? No, if its digest is unknown,
    /// too old, or distrusted.
    pub fn may_have(&self, sibling: usize, url: &[u8]) -> bool {
        let theirs = self.theirs(sibling);
        let is_there = theirs.is_some_and(|theirs| theirs.may_have(url, Instant::now()));
        self.counters
            .yes
            .fetch_add(u64::from(is_there), Ordering::Relaxed);
        is_there
    }

    /// A sibling was asked because its digest claimed the object. Did it have the object?
    pub fn tried(&self, sibling: usize, had_it: bool) {
        let Some(theirs) = self.theirs(sibling) else {
            return;
        };
        let counter = match had_it {
            true => &self.counters.true_hits,
            false => &self.counters.false_hits,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if theirs.tried(had_it) {
            self.counters.distrusted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Name, meaning and value of all counters, and the size of our digest; nothing if there are no digests.
    pub fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        if self.own.is_none() && self.siblings().next().is_none() {
            return Vec::new();
        }
        let mut figures: Vec<_> = self.counters.all().collect();
        if let Some(own) = &self.own {
            let (entries, bytes) = own.size();
            figures.push(("digest_entries_open", "Entries in our digest", entries));
            let words = "Bytes of memory of our digest";
            figures.push(("digest_memory_bytes_open", words, bytes));
        }
        figures
    }

    /// The digest of a sibling, by its number in the plan.
    pub fn theirs(&self, sibling: usize) -> Option<&Theirs> {
        self.theirs.get(sibling)?.as_ref()
    }

    /// The numbers of the siblings that are asked by digest.
    pub fn siblings(&self) -> impl Iterator<Item = usize> {
        let numbered = self.theirs.iter().enumerate();
        numbered.filter_map(|(number, theirs)| theirs.as_ref().map(|_| number))
    }

    /// An object with this key was stored (with its length in bytes), or read again from disk (`None`).
    #[inline]
    pub fn met(&self, key: &[u8], stored_bytes: Option<u64>) {
        if let Some(own) = &self.own
            && let Some(url) = name_of_key(key).strip_prefix(KEY_PREFIX)
        {
            own.met(url, stored_bytes);
        }
    }
}

/// How often our digest collects changes from the stores.
pub const COLLECTED_EVERY: Duration = Duration::from_secs(1);
