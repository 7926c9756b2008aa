//! The truth: everything that was inserted into the store, everything that was invalidated, and what is certainly on the disk.
//!
//! Every inserted record is a *version* of a full key and has its number in its metadata, so each served record names its version. Key,
//! metadata and body follow from the number. Time is a clock of events (begins of fills, calls of invalidations), because the rule
//! of life compares those:
//!
//! > a version is dead if an invalidation of its primary, or a matching predicate, came after its fill began.
//!
//! A *life* is the time from one opening of the store to its end by kill, power cut or close. An invalidation that was called but not
//! acknowledged is binding in its life only; an acknowledged one is binding for ever.
//!
//! A *copy* is one write of a version: the first one, or one that the store made to keep a record that is in use.
//!
//! Not known here: the store. Limits: memory grows with the run, by some hundred bytes a version, and for hostile versions by their
//! bodies.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use store::{About, Manner};

use crate::disk::Damage;
use crate::random::Random;

/// Index into [`World::full_keys`].
pub type FullKey = u32;
/// Index into [`World::versions`].
pub type VersionNumber = u32;

/// Bodies are slices of a pool of this many random bytes.
const POOL_BYTES: usize = 2 << 20;
/// The longest body of a version that is not hostile.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Tags are below this; tag `t` is the byte `t`.
pub const TAGS: u8 = 24;
/// Bytes of the metadata with a meaning: number, tag.
const META_BYTES_MIN: usize = 5;

/// Kind of predicate that matches a prefix of the key.
pub const PREFIX: u8 = 1;
/// Kind of predicate that matches the tag in the metadata.
pub const TAG: u8 = 2;

/// Like [`TAG`], but matching records become stale, not dead.
pub const SOFT_TAG: u8 = 3;

/// How the store matches predicates of a kind.
pub fn manner(kind: u8) -> Manner {
    Manner {
        about: match kind {
            PREFIX => About::Prefix,
            _ => About::Word,
        },
        soft: kind == SOFT_TAG,
    }
}

/// The tag of a record, for the store.
pub fn words(meta: &[u8], each: &mut dyn FnMut(&[u8])) {
    meta.get(4..5).into_iter().for_each(each);
}

/// Whether a predicate matches a record.
pub fn matches(kind: u8, pattern: &[u8], key: &[u8], meta: &[u8]) -> bool {
    match kind {
        PREFIX => key.starts_with(pattern),
        _ => meta.get(4..5) == Some(pattern),
    }
}

/// Length of a version's metadata. Lengths differ, so that bodies begin at many offsets.
pub fn meta_bytes(number: VersionNumber) -> usize {
    META_BYTES_MIN + number as usize % 61
}

/// The source of a body's bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// A range of the common pool.
    Pool(Range<usize>),
    /// Bytes made for this version.
    Own(Bytes),
}

impl Content {
    /// A random body of this length (bodies of a few bytes may be equal; their metadata is not).
    pub fn random(len: usize, random: &mut Random) -> Self {
        let len = len.min(BODY_BYTES_MAX);
        let at = random.index(POOL_BYTES - len + 1);
        Self::Pool(at..at + len)
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Pool(range) => &pool()[range.clone()],
            Self::Own(bytes) => bytes,
        }
    }
}

fn pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut random = Random::new(42);
        (0..POOL_BYTES / 8)
            .flat_map(|_| random.number().to_le_bytes())
            .collect()
    })
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its write has not ended.
    Writing,
    /// Its write was reported done: the copy survives a kill.
    Written,
    /// A flush that was begun after that is done: the copy survives a power cut.
    Durable,
    /// The copy may be there or not: its write failed, or was under way or not flushed when the life ended.
    Doubtful,
}

/// A write of a version.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The range on the disk.
    pub range: Range<u64>,
    /// The number of the write, once it is done.
    pub number: u64,
    /// Its progress.
    pub state: State,
    /// A flush that should have covered it failed: later flushes may not cover it either.
    flush_failed: bool,
}

/// A record that was handed to the store.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its full key.
    pub full_key: FullKey,
    /// When its fill began, on the clock of events.
    pub began: u64,
    /// When its fill began, in the store's sequence.
    pub sequence: u64,
    /// The life in which it was stored; None if the store refused it.
    pub stored_in: Option<u32>,
    /// Whether it was stored while a recovery was under way.
    pub stored_in_recovery: bool,
    /// The last life at whose beginning, or in which, the index certainly had it.
    pub present_in: u32,
    /// The life in which the store was last told to drop it because it did not verify.
    pub forgotten_in: u32,
    /// Its body.
    pub content: Content,
    /// Its metadata.
    pub meta: Box<[u8]>,
    /// The list under which it was stored, for a variant.
    pub list: Option<Box<[u8]>>,
    /// Its copies, latest last.
    pub copies: Vec<Copy>,
}

/// A full key and all its versions.
#[derive(Clone, Debug)]
pub struct Full {
    /// The key itself.
    pub key: Box<[u8]>,
    /// The name that invalidations use.
    pub primary: u32,
    /// Whether it is neither a variant nor a fragment.
    pub plain: bool,
    /// For a variant: the salt in its key, and the list of the marker that last led to it.
    pub salt: Option<(u64, Box<[u8]>)>,
    /// Versions that the store accepted, oldest first.
    pub versions: Vec<VersionNumber>,
}

/// The target of an invalidation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One primary key.
    Primary(u32),
    /// One primary key, whose versions become stale, not dead.
    Soft(u32),
    /// Records that a predicate matches.
    Predicate(u8, Box<[u8]>),
}

/// An invalidation that was called.
#[derive(Clone, Debug)]
pub struct Invalidation {
    /// Its target.
    pub target: Target,
    /// When it was called.
    pub at: u64,
    /// The life in which it was called.
    pub life: u32,
    /// Whether the store has said that it is durable.
    pub acknowledged: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct World {
    /// The clock of events.
    pub clock: u64,
    /// Number of the life; the first is 1.
    pub life: u32,
    /// All versions.
    pub versions: Vec<Version>,
    /// All full keys.
    pub full_keys: Vec<Full>,
    numbers: HashMap<Box<[u8]>, FullKey>,
    /// All invalidations.
    pub invalidations: Vec<Invalidation>,
    of_primary: HashMap<u32, Vec<u32>>,
    predicates: Vec<u32>,
    /// The last accepted variant of each primary.
    newest_variant: HashMap<u32, VersionNumber>,
    not_durable: Vec<VersionNumber>,
}

impl World {
    /// The number of a full key.
    pub fn full_key(&mut self, key: &[u8], primary: u32, plain: bool) -> FullKey {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let number = self.full_keys.len() as FullKey;
        self.numbers.insert(key.into(), number);
        self.full_keys.push(Full {
            key: key.into(),
            primary,
            plain,
            salt: None,
            versions: Vec::new(),
        });
        number
    }

    /// The number of the full key of a variant to which a marker with this salt and list leads.
    pub fn variant(&mut self, key: &[u8], primary: u32, salt: u64, list: &[u8]) -> FullKey {
        let number = self.full_key(key, primary, false);
        self.full_keys[number as usize].salt = Some((salt, list.into()));
        number
    }

    /// The number of a full key that already exists.
    pub fn known(&self, key: &[u8]) -> Option<FullKey> {
        self.numbers.get(key).copied()
    }

    /// Advances the clock: a fill begins.
    pub fn begin(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Makes a version, which is about to be handed to the store.
    pub fn hand_in(
        &mut self,
        full_key: FullKey,
        began: u64,
        content: Content,
        tag: u8,
    ) -> VersionNumber {
        let number = self.versions.len() as VersionNumber;
        let list = &self.full_keys[full_key as usize].salt;
        let list = list.as_ref().map(|(_, list)| list.clone());
        let mut meta = vec![0; meta_bytes(number)];
        meta[..4].copy_from_slice(&number.to_le_bytes());
        meta[4] = tag;
        self.versions.push(Version {
            full_key,
            began,
            sequence: 0,
            stored_in: None,
            stored_in_recovery: false,
            present_in: 0,
            forgotten_in: 0,
            content,
            meta: meta.into(),
            list,
            copies: Vec::new(),
        });
        number
    }

    /// The store accepted a version whose fill began at `sequence`: it replaces the store's earlier version of that key.
    pub fn taken(&mut self, number: VersionNumber, sequence: u64, in_recovery: bool) {
        let version = &mut self.versions[number as usize];
        version.sequence = sequence;
        version.stored_in = Some(self.life);
        version.stored_in_recovery = in_recovery;
        version.present_in = self.life;
        let full = &mut self.full_keys[version.full_key as usize];
        full.versions.push(number);
        if full.salt.is_some() {
            self.newest_variant.insert(full.primary, number);
        }
    }

    /// Whether a variant of the same resource was accepted after this version. That hides a version without variants.
    pub fn may_be_hidden(&self, number: VersionNumber) -> bool {
        let full = &self.full_keys[self.versions[number as usize].full_key as usize];
        let newest = self.newest_variant.get(&full.primary);
        full.plain && newest.is_some_and(|&variant| variant > number)
    }

    /// The store dropped its record of a key, because it did not verify or could not be read.
    pub fn forgotten(&mut self, full_key: FullKey) {
        if let Some(newest) = self.newest(full_key) {
            self.versions[newest as usize].forgotten_in = self.life;
        }
    }

    /// The version that a record claims to be.
    pub fn claimed(&self, meta: &[u8]) -> Option<VersionNumber> {
        let bytes = meta.first_chunk::<4>()?;
        let number = u32::from_le_bytes(*bytes);
        self.versions.get(number as usize).map(|_| number)
    }

    /// A write that contains the version was submitted.
    pub fn writing(&mut self, number: VersionNumber, range: Range<u64>) {
        self.versions[number as usize].copies.push(Copy {
            range,
            number: 0,
            state: State::Writing,
            flush_failed: false,
        });
    }

    /// That write has ended.
    pub fn write_over(
        &mut self,
        version: VersionNumber,
        range: &Range<u64>,
        ok: bool,
        number: u64,
    ) {
        let mut copies = self.versions[version as usize].copies.iter_mut().rev();
        let Some(copy) = copies.find(|copy| copy.range == *range && copy.state == State::Writing)
        else {
            return;
        };
        copy.number = number;
        copy.state = if ok { State::Written } else { State::Doubtful };
        if ok {
            self.not_durable.push(version);
        }
    }

    /// A flush that covers the writes up to `covers` has ended.
    pub fn flush_over(&mut self, covers: u64, ok: bool) {
        let versions = &mut self.versions;
        self.not_durable.retain(|&number| {
            let mut left = false;
            for copy in &mut versions[number as usize].copies {
                if copy.state != State::Written || copy.flush_failed {
                    continue;
                }
                if copy.number > covers {
                    left = true;
                } else if ok {
                    copy.state = State::Durable;
                } else {
                    copy.flush_failed = true;
                }
            }
            left
        });
    }

    /// The process has ended: copies being written may be there or not. After a power cut the same holds for copies that are not durable.
    pub fn end_life(&mut self, power_cut: bool) {
        for version in &mut self.versions {
            for copy in &mut version.copies {
                if copy.state == State::Writing || (power_cut && copy.state == State::Written) {
                    copy.state = State::Doubtful;
                }
            }
        }
        if power_cut {
            self.not_durable.clear();
        }
    }

    /// Records an invalidation.
    pub fn invalidate(&mut self, target: Target) -> u32 {
        self.clock += 1;
        let number = self.invalidations.len() as u32;
        match &target {
            Target::Primary(primary) | Target::Soft(primary) => {
                self.of_primary.entry(*primary).or_default().push(number)
            }
            Target::Predicate(..) => self.predicates.push(number),
        }
        self.invalidations.push(Invalidation {
            target,
            at: self.clock,
            life: self.life,
            acknowledged: false,
        });
        number
    }

    /// The invalidations that kill a version, binding or not.
    pub fn killers(&self, number: VersionNumber) -> impl Iterator<Item = &Invalidation> {
        self.met_by(number, false)
    }

    /// The soft purges that make it stale, binding or not.
    pub fn doubters(&self, number: VersionNumber) -> impl Iterator<Item = &Invalidation> {
        self.met_by(number, true)
    }

    fn met_by(&self, number: VersionNumber, soft: bool) -> impl Iterator<Item = &Invalidation> {
        let version = &self.versions[number as usize];
        let full = &self.full_keys[version.full_key as usize];
        let of_primary = self.of_primary.get(&full.primary).into_iter().flatten();
        of_primary
            .chain(&self.predicates)
            .map(|&n| &self.invalidations[n as usize])
            .filter(|invalidation| invalidation.at > version.began)
            .filter(move |invalidation| match &invalidation.target {
                Target::Primary(_) => !soft,
                Target::Soft(_) => soft,
                Target::Predicate(kind, pattern) => {
                    (*kind == SOFT_TAG) == soft && matches(*kind, pattern, &full.key, &version.meta)
                }
            })
    }

    /// The latest version of a key.
    pub fn newest(&self, full_key: FullKey) -> Option<VersionNumber> {
        self.full_keys[full_key as usize].versions.last().copied()
    }

    /// Whether the latest copy of a version is certainly there, however the last life ended.
    pub fn is_there(&self, number: VersionNumber) -> bool {
        let latest = self.versions[number as usize].copies.last();
        latest.is_some_and(|copy| matches!(copy.state, State::Written | State::Durable))
    }

    /// Whether the disk has spoiled any copy of a version.
    pub fn is_damaged(&self, number: VersionNumber, damages: &[Damage]) -> bool {
        let copies = &self.versions[number as usize].copies;
        copies
            .iter()
            .any(|copy| damaged(&copy.range, copy.number, damages))
    }
}

/// Whether the disk has spoiled what write `number` wrote to `range`.
pub fn damaged(range: &Range<u64>, number: u64, damages: &[Damage]) -> bool {
    damages.iter().any(|damage| {
        damage.number >= number && damage.range.start < range.end && range.start < damage.range.end
    })
}
