//! A table of entries that stores only the part of a key that the entry's place does not tell.
//!
//! The key within a segment is a number h below 2^27 ([`Short`]). The n buckets share these numbers out in order: h
//! belongs to bucket `h * n >> 27`, its *home*, and what is left, the distance of h from the lowest number of that
//! bucket, is the *remainder*, which fits in 20 bits as n is at least 128. An entry lies at home or in one *second*
//! bucket, whose distance from home is computed from the remainder alone. So bucket, remainder and the bit *second*
//! give h back: the table can grow, and be listed, without a key stored anywhere.
//!
//! ```text
//!                   +------ distance(remainder) ------+
//!   h -> home ------+                                 v
//!        [e e e e e e e e]   [e e e e e e e e]   [e e e e e . . .]      eight entries a bucket, a bucket a cache line
//! ```
//!
//! An insertion goes to the emptier of the two. If both are full, the shortest chain of entries that can each move to
//! their other bucket is searched in breadth, and moved. If [`SEARCH_MAX`] buckets show no such chain the table is as
//! good as full (over 99 %) and is made an eighth larger, in whole pages. It never shrinks.
//!
//! Invariants, checked by `audit` (and `decode`):
//!   X1  an empty slot is 0; every other word is an entry with an extent that exists
//!   X2  a remainder lies within the range of its home bucket
//!   X3  no two entries have one `Short`
//!   X4  `len` counts the words that are not 0, `markers` those that are markers
//!
//! Memory: 64 bytes a bucket, in pages of 1 KiB, each an allocation of its own; while growing the old and the new ones. Tables grow
//! to ever new sizes, and memory that one leaves seldom fits the next: with one allocation a table, the allocator (mimalloc) kept nearly as
//! much again in half-empty pages. Pages of one size are used again by any table that grows, so a table costs what it holds.
//! Limits: `BUCKETS_MIN` to `BUCKETS_MAX` buckets, eight entries each. Beyond that an insertion panics: the index must
//! be cut into enough segments.
//! Not known here: the rest of the key's hash. Two keys may have one `Short`, so the reader of a record must compare its key.
//! Sources: cuckoo tables with buckets and partial keys (Fan et al., CoNEXT 2014), search in breadth (Li et al.,
//! EuroSys 2014), remainders instead of keys (quotienting: Knuth, volume 3, section 6.4, exercise 13). We differ: the
//! number of buckets is arbitrary, and the whole number can be computed from either bucket.

use super::entry::{
    Entry, KEY_MASK, Mark, REMAINDER_BITS, REMAINDER_SHIFT, SECOND, is_marker, is_sound,
};
use super::salts::Salts;
use crate::index::notes::Notes;
use crate::index::pieces::Short;
use crate::index::usage::UsageBits;

/// Entries in a bucket: a cache line of them.
const SLOTS: usize = 8;

/// The fewest buckets: with less the remainder would not fit.
pub(crate) const BUCKETS_MIN: u32 = 128;
/// The most buckets: eight million entries, 64 MiB.
pub(crate) const BUCKETS_MAX: u32 = 1 << 20;
/// Buckets in one allocation, 1 KiB. A table grows by whole pages.
const PAGE_BUCKETS: usize = 16;
/// A table for an expected number of entries gets this share more, because tables differ in their entries, and a full one is slow.
const SPARE_SHARE: usize = 32;
/// Full buckets that are searched for a way to a free slot before the table is grown. Each leads to eight others.
const SEARCH_MAX: usize = 64;

const _: () = assert!(Short::BITS - BUCKETS_MIN.ilog2() == REMAINDER_BITS);

/// How many buckets a table of `n` is made larger by: an eighth, in whole pages, one at least.
fn growth(n: u32) -> u32 {
    const PAGE: u32 = PAGE_BUCKETS as u32;
    ((n / 8 + PAGE / 2) / PAGE * PAGE).max(PAGE)
}

/// Where an entry lies. Good until the next `insert`, which may move any entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

impl Place {
    fn new(bucket: u32, slot: usize) -> Self {
        Place(bucket * SLOTS as u32 + slot as u32)
    }

    fn bucket(self) -> u32 {
        self.0 / SLOTS as u32
    }

    fn slot(self) -> usize {
        self.0 as usize % SLOTS
    }
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket([u64; SLOTS]);

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    fn used(&self) -> usize {
        self.0.iter().filter(|&&word| word != 0).count()
    }

    fn free_slot(&self) -> Option<usize> {
        self.0.iter().position(|&word| word == 0)
    }

    /// The slot with this remainder and bit.
    fn slot_of(&self, key: u64) -> Option<usize> {
        // 0 is a possible key, so an empty slot must be told from it.
        self.0
            .iter()
            .position(|&word| word & KEY_MASK == key && word != 0)
    }
}

/// One allocation.
#[derive(Clone)]
struct Page([Bucket; PAGE_BUCKETS]);

const _: () =
    assert!(size_of::<Page>() == 1024 && (BUCKETS_MAX as usize).is_multiple_of(PAGE_BUCKETS));

/// How the numbers are shared out over `n` buckets.
#[derive(Clone, Copy)]
struct Shares {
    n: u32,
}

impl Shares {
    /// Home and remainder.
    fn home(self, short: Short) -> (u32, u32) {
        let scaled = u64::from(short.0) * u64::from(self.n);
        // Within a bucket the lower part rises by n from one number to the next, and begins below n.
        let below = scaled as u32 & Short::MASK;
        ((scaled >> Short::BITS) as u32, below / self.n)
    }

    /// The lowest number whose home is `bucket`.
    fn lowest(self, bucket: u32) -> u32 {
        (u64::from(bucket) << Short::BITS).div_ceil(u64::from(self.n)) as u32
    }

    /// How far the second bucket is from home: 1 to n - 1.
    fn distance(self, remainder: u32) -> u32 {
        // The golden ratio's multiplier: neighbouring remainders end up far from each other.
        let mixed = remainder.wrapping_mul(0x9e37_79b9);
        1 + ((u64::from(mixed) * u64::from(self.n - 1)) >> 32) as u32
    }

    fn second(self, home: u32, remainder: u32) -> u32 {
        let sum = home + self.distance(remainder);
        if sum < self.n { sum } else { sum - self.n }
    }

    /// The home of the entry `word` in `bucket`.
    fn home_of(self, bucket: u32, word: u64) -> u32 {
        if word & SECOND == 0 {
            return bucket;
        }
        let distance = self.distance(remainder_of(word));
        if bucket >= distance {
            bucket - distance
        } else {
            bucket + self.n - distance
        }
    }

    /// The bucket where the entry `word` of `bucket` could lie instead.
    fn other(self, bucket: u32, word: u64) -> u32 {
        if word & SECOND == 0 {
            self.second(bucket, remainder_of(word))
        } else {
            self.home_of(bucket, word)
        }
    }

    fn short_of(self, bucket: u32, word: u64) -> Short {
        Short(self.lowest(self.home_of(bucket, word)) + remainder_of(word))
    }
}

fn remainder_of(word: u64) -> u32 {
    ((word & KEY_MASK) >> REMAINDER_SHIFT) as u32
}

fn key_of(remainder: u32) -> u64 {
    u64::from(remainder) << REMAINDER_SHIFT
}

/// A bucket that the search for room has reached, and how.
#[derive(Clone, Copy, Default)]
struct Step {
    bucket: u32,
    /// The step before, and the slot there whose entry would move into `bucket`. Unused in the two roots.
    from: u8,
    slot: u8,
}

const _: () = assert!(SEARCH_MAX <= 256);

fn chunks_of(entry: Entry) -> u64 {
    u64::from(entry.chunks())
}

/// One table. See the head of the file.
#[derive(Clone)]
pub(crate) struct Segment {
    /// The pages of `n` buckets. The rest of the last page stays empty.
    pages: Box<[Box<Page>]>,
    n: u32,
    /// Which bits of a record's word are about its use.
    bits: UsageBits,
    len: u32,
    /// How many of the entries are markers.
    markers: u32,
    /// Chunks of all entries' records.
    chunks: u64,
    /// Which salts the markers have and may have next.
    pub salts: Salts,
    /// Notes of changes, if there is a follower (`trace`).
    pub notes: Option<Box<Notes>>,
}

impl Segment {
    /// An empty table of the least size.
    pub(crate) fn new(bits: UsageBits) -> Self {
        Self::with_buckets(BUCKETS_MIN, bits)
    }

    fn with_buckets(n: u32, bits: UsageBits) -> Self {
        let pages = (n as usize).div_ceil(PAGE_BUCKETS);
        let page = || Box::new(Page([Bucket::default(); PAGE_BUCKETS]));
        Self {
            pages: (0..pages).map(|_| page()).collect(),
            n,
            bits,
            len: 0,
            markers: 0,
            chunks: 0,
            salts: Salts::default(),
            notes: None,
        }
    }

    fn shares(&self) -> Shares {
        Shares { n: self.n }
    }

    fn bucket(&self, bucket: u32) -> &Bucket {
        &self.pages[bucket as usize / PAGE_BUCKETS].0[bucket as usize % PAGE_BUCKETS]
    }

    fn bucket_mut(&mut self, bucket: u32) -> &mut Bucket {
        &mut self.pages[bucket as usize / PAGE_BUCKETS].0[bucket as usize % PAGE_BUCKETS]
    }

    /// All buckets, in order, and perhaps some empty ones behind them.
    fn all(&self) -> impl Iterator<Item = (u32, &Bucket)> {
        (0..).zip(self.pages.iter().flat_map(|page| &page.0))
    }

    /// How many entries, markers included.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// How many entries are markers.
    pub(crate) fn markers(&self) -> usize {
        self.markers as usize
    }

    /// How many entries are records.
    pub(crate) fn records(&self) -> usize {
        (self.len - self.markers) as usize
    }

    /// Chunks of all entries' records.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// How many buckets.
    pub(crate) fn buckets(&self) -> u32 {
        self.n
    }

    /// Bytes of memory, all counted but the allocator's rounding.
    pub(crate) fn memory_bytes(&self) -> usize {
        let notes = self.notes.as_ref().map_or(0, |notes| notes.memory_bytes());
        let pages = self.pages.len() * (size_of::<Box<Page>>() + size_of::<Page>());
        size_of::<Self>() + pages + notes
    }

    /// The entry of `short`, if there is one.
    pub(crate) fn find(&self, short: Short) -> Option<Place> {
        let shares = self.shares();
        let (home, remainder) = shares.home(short);
        let key = key_of(remainder);
        if let Some(slot) = self.bucket(home).slot_of(key) {
            return Some(Place::new(home, slot));
        }
        let second = shares.second(home, remainder);
        let slot = self.bucket(second).slot_of(key | SECOND)?;
        Some(Place::new(second, slot))
    }

    fn word(&self, place: Place) -> u64 {
        self.bucket(place.bucket()).0[place.slot()]
    }

    fn word_mut(&mut self, place: Place) -> &mut u64 {
        &mut self.bucket_mut(place.bucket()).0[place.slot()]
    }

    /// The entry at a place that `find` named.
    pub(crate) fn get(&self, place: Place) -> Entry {
        let word = self.word(place);
        assert!(word != 0, "the entry has left its place");
        Entry::from_word(word, self.bits)
    }

    /// Replaces the entry at `place` by another of the same key.
    pub(crate) fn set(&mut self, place: Place, entry: Entry) {
        let bits = self.bits;
        let word = self.word_mut(place);
        assert!(*word != 0, "the entry has left its place");
        let before = Entry::from_word(*word, bits);
        *word = entry.word(*word & KEY_MASK, bits);
        self.chunks = self.chunks - chunks_of(before) + chunks_of(entry);
        self.markers = self.markers - u32::from(before.is_marker()) + u32::from(entry.is_marker());
    }

    /// The record at `place` was read.
    pub(crate) fn touch(&mut self, place: Place) {
        let bits = self.bits;
        let word = self.word_mut(place);
        let touched = bits.touched(*word);
        if *word != touched {
            *word = touched;
        }
    }

    /// Which bits of a record's word are about its use.
    pub(crate) fn usage_bits(&self) -> UsageBits {
        self.bits
    }

    /// Uses these bits for usage from now on. Usage stays as far as these bits can tell it.
    pub(crate) fn keep_usage_as(&mut self, bits: UsageBits) {
        let before = std::mem::replace(&mut self.bits, bits);
        let buckets = self.pages.iter_mut().flat_map(|page| &mut page.0);
        let words = buckets.flat_map(|bucket| &mut bucket.0);
        for word in words.filter(|word| before != bits && !is_marker(**word)) {
            *word = Entry::from_word(*word, before).word(*word & KEY_MASK, bits);
        }
    }

    /// All records are a pass older.
    pub(crate) fn age_records(&mut self) {
        let bits = self.bits;
        let buckets = self.pages.iter_mut().flat_map(|page| &mut page.0);
        let words = buckets.flat_map(|bucket| &mut bucket.0);
        for word in words.filter(|word| !is_marker(**word)) {
            *word = bits.older(*word);
        }
    }

    /// Adds an entry under a number that has none, for which the caller is responsible. All places change. `expected`: how many entries
    /// there will be, 0 if unknown.
    pub(crate) fn insert(&mut self, short: Short, entry: Entry, expected: usize) {
        debug_assert!(self.find(short).is_none(), "{short:?} is there already");
        while !self.try_insert(short, entry) {
            self.grow(expected);
        }
        self.chunks += chunks_of(entry);
        self.markers += u32::from(entry.is_marker());
        if let Some(notes) = &mut self.notes {
            notes.came(short);
        }
    }

    /// Takes the entry at `place` out. The other places stay.
    pub(crate) fn remove(&mut self, place: Place) -> Entry {
        let entry = self.get(place);
        if self.notes.is_some() {
            let short = (self.shares()).short_of(place.bucket(), self.word(place));
            self.notes.iter_mut().for_each(|notes| notes.left(short));
        }
        *self.word_mut(place) = 0;
        self.len -= 1;
        self.chunks -= chunks_of(entry);
        self.markers -= u32::from(entry.is_marker());
        entry
    }

    /// Takes out every record that `keep` refuses. The other places stay.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Short, Entry) -> bool) {
        self.retain_entries(|short, entry| {
            (entry.is_marker() || keep(short, entry)).then_some(entry)
        });
    }

    /// Replaces every marker by the result of `change`; `None` removes it. The other places stay.
    pub(crate) fn retain_markers(&mut self, mut change: impl FnMut(Short, Mark) -> Option<Mark>) {
        if self.markers > 0 {
            self.retain_entries(|short, entry| match entry.as_marker() {
                Some(mark) => change(short, mark).map(Entry::marker),
                None => Some(entry),
            });
        }
    }

    fn retain_entries(&mut self, mut change: impl FnMut(Short, Entry) -> Option<Entry>) {
        let (shares, bits) = (self.shares(), self.bits);
        let buckets = self.pages.iter_mut().flat_map(|page| &mut page.0);
        for (bucket, words) in (0..).zip(buckets) {
            for word in words.0.iter_mut().filter(|word| **word != 0) {
                let entry = Entry::from_word(*word, bits);
                let short = shares.short_of(bucket, *word);
                match change(short, entry) {
                    Some(entry) => *word = entry.word(*word & KEY_MASK, bits),
                    None => {
                        self.notes.iter_mut().for_each(|notes| notes.left(short));
                        *word = 0;
                        self.len -= 1;
                        self.chunks -= chunks_of(entry);
                        self.markers -= u32::from(entry.is_marker());
                    }
                }
            }
        }
    }

    /// All records, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Short, Entry)> {
        self.entries().filter(|(_, entry)| !entry.is_marker())
    }

    /// All markers, in the order of their places.
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> {
        self.entries().filter_map(|(_, entry)| entry.as_marker())
    }

    /// All entries, in the order of their places.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Short, Entry)> {
        let (shares, bits) = (self.shares(), self.bits);
        self.words().map(move |(bucket, word)| {
            let short = shares.short_of(bucket, word);
            (short, Entry::from_word(word, bits))
        })
    }

    /// Bucket and word of every entry.
    fn words(&self) -> impl Iterator<Item = (u32, u64)> {
        self.all().flat_map(|(bucket, words)| {
            let used = words.0.iter().filter(|&&word| word != 0);
            used.map(move |&word| (bucket, word))
        })
    }

    /// `false`, and nothing changed, if no room was found.
    fn try_insert(&mut self, short: Short, entry: Entry) -> bool {
        let shares = self.shares();
        let (home, remainder) = shares.home(short);
        let second = shares.second(home, remainder);
        let (at_home, at_second) = (self.bucket(home), self.bucket(second));
        let bucket = if at_home.used() <= at_second.used() {
            home
        } else {
            second
        };
        let place = match self.bucket(bucket).free_slot() {
            Some(slot) => Place::new(bucket, slot),
            None => match self.make_room([home, second]) {
                Some(place) => place,
                None => return false,
            },
        };
        let in_second = place.bucket() != home;
        let key = key_of(remainder) | if in_second { SECOND } else { 0 };
        let word = entry.word(key, self.bits);
        *self.word_mut(place) = word;
        self.len += 1;
        true
    }

    /// Frees a slot in one of two full buckets by moving a chain of entries, the shortest there is.
    ///
    /// A bucket may be in the queue twice, but not in one chain: a slot that is free at its second turn was free at its first, and
    /// was taken then.
    fn make_room(&mut self, roots: [u32; 2]) -> Option<Place> {
        let shares = self.shares();
        let mut steps = [Step::default(); SEARCH_MAX];
        steps[0].bucket = roots[0];
        steps[1].bucket = roots[1];
        let mut queued = roots.len();
        let mut at = 0;
        while at < queued {
            let bucket = steps[at].bucket;
            for slot in 0..SLOTS {
                let other = shares.other(bucket, self.bucket(bucket).0[slot]);
                if let Some(free) = self.bucket(other).free_slot() {
                    return Some(self.move_chain(&steps, at, slot, Place::new(other, free)));
                }
                if queued < SEARCH_MAX {
                    steps[queued] = Step {
                        bucket: other,
                        from: at as u8,
                        slot: slot as u8,
                    };
                    queued += 1;
                }
            }
            at += 1;
        }
        None
    }

    /// Moves the entry `slot` of step `at` to `free`, the entry of the step before into the place left, and so on to a root. Returns
    /// the root's slot, which is empty then.
    fn move_chain(
        &mut self,
        steps: &[Step],
        mut at: usize,
        mut slot: usize,
        mut free: Place,
    ) -> Place {
        loop {
            let place = Place::new(steps[at].bucket, slot);
            let word = std::mem::take(self.word_mut(place));
            *self.word_mut(free) = word ^ SECOND;
            if at < 2 {
                return place;
            }
            slot = usize::from(steps[at].slot);
            at = usize::from(steps[at].from);
            free = place;
        }
    }

    /// Makes the table an eighth larger, or more if its entries do not fit then; up to twice as large if that many are
    /// expected. Not more, because a table never shrinks, and the expectation may be wrong.
    fn grow(&mut self, expected: usize) {
        let mut n = self.buckets();
        let wanted = (expected / SLOTS + expected / SLOTS / SPARE_SHARE).min(2 * n as usize) as u32;
        loop {
            assert!(
                n < BUCKETS_MAX,
                "a segment of {} entries cannot grow: the index has too few segments",
                self.len
            );
            n = (n + growth(n)).max(wanted).min(BUCKETS_MAX);
            let mut larger = Self::with_buckets(n, self.bits);
            // In order of place, which is nearly the order of places to come: the new table is filled from its
            // beginning, in cache.
            if self
                .entries()
                .all(|(short, entry)| larger.try_insert(short, entry))
            {
                larger.chunks = self.chunks;
                larger.markers = self.markers;
                larger.salts = self.salts;
                larger.notes = self.notes.take();
                *self = larger;
                return;
            }
        }
    }

    /// Appends the form a checkpoint keeps: buckets and entries (u32 each), for every bucket a byte with a bit for each
    /// used slot, then the entries in order of place. All little-endian.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(8 + self.n as usize + self.len() * 8);
        out.extend_from_slice(&self.buckets().to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend(self.all().take(self.n as usize).map(|(_, bucket)| {
            let bits = (0..SLOTS).map(|slot| u8::from(bucket.0[slot] != 0) << slot);
            bits.sum::<u8>()
        }));
        for (_, word) in self.words() {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads back what `encode` wrote, every entry in its place, and leaves in `bytes` what follows. The bytes may be
    /// anything: the error tells the fault, and leaves `bytes` unchanged.
    pub(crate) fn decode(bytes: &mut &[u8], bits: UsageBits) -> Result<Segment, &'static str> {
        const SHORT: &str = "a segment is cut off";
        let (&n, rest) = bytes.split_first_chunk().ok_or(SHORT)?;
        let (&len, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (n, len) = (u32::from_le_bytes(n), u32::from_le_bytes(len));
        if !(BUCKETS_MIN..=BUCKETS_MAX).contains(&n) {
            return Err("a segment has an impossible number of buckets");
        }
        let (maps, rest) = rest.split_at_checked(n as usize).ok_or(SHORT)?;
        let used: u32 = maps.iter().map(|map| map.count_ones()).sum();
        if used != len {
            return Err("a segment's slots in use are not as many as its entries");
        }
        // `used` is at most 8 * 2^20 now.
        let (words, rest) = rest.split_at_checked(len as usize * 8).ok_or(SHORT)?;
        let mut segment = Self::with_buckets(n, bits);
        segment.len = len;
        let (mut words, _) = words.as_chunks::<8>();
        for (bucket, &map) in segment
            .pages
            .iter_mut()
            .flat_map(|page| &mut page.0)
            .zip(maps)
        {
            let (own, others) = words.split_at(map.count_ones() as usize);
            words = others;
            let mut map = map;
            for word in own {
                bucket.0[map.trailing_zeros() as usize % SLOTS] = u64::from_le_bytes(*word);
                map &= map - 1;
            }
        }
        // Only after the audit: an unsound entry has no length.
        segment.audit_entries()?;
        segment.chunks = segment.iter().map(|(_, entry)| chunks_of(entry)).sum();
        segment.markers = segment.marks().count() as u32;
        *bytes = rest;
        Ok(segment)
    }

    /// Checks every invariant in full, O(n); says what is wrong.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        self.audit_entries()?;
        let chunks: u64 = self.iter().map(|(_, entry)| chunks_of(entry)).sum();
        if self.marks().count() != self.markers() {
            return Err("markers were miscounted (X4)");
        }
        match chunks == self.chunks {
            true => Ok(()),
            false => Err("the entries' chunks were miscounted (X5)"),
        }
    }

    /// Checks the invariants that the bytes of a checkpoint may break.
    fn audit_entries(&self) -> Result<(), &'static str> {
        let shares = self.shares();
        // Buckets differ by at most one in their share of numbers; remainders below this are valid in all of them.
        let numbers_min = (1 << Short::BITS) / shares.n;
        let mut used = 0;
        for (bucket, words) in self.all() {
            for (slot, &word) in words.0.iter().enumerate() {
                if word == 0 {
                    continue;
                }
                used += 1;
                if !is_sound(word, self.bits) {
                    return Err("an entry has no length, or ends beyond the last chunk (X1)");
                }
                let remainder = remainder_of(word);
                if remainder >= numbers_min {
                    let home = shares.home_of(bucket, word);
                    if remainder >= shares.lowest(home + 1) - shares.lowest(home) {
                        return Err("an entry's remainder is not of its bucket (X2)");
                    }
                }
                let key = word & KEY_MASK;
                let twin_here = words.0[..slot]
                    .iter()
                    .any(|&earlier| earlier & KEY_MASK == key && earlier != 0);
                let twin_at_home = key & SECOND != 0 && {
                    let home = shares.home_of(bucket, word);
                    self.bucket(home).slot_of(key ^ SECOND).is_some()
                };
                if twin_here || twin_at_home {
                    return Err("two entries are of one key (X3)");
                }
            }
        }
        if used != self.len {
            return Err("entries were miscounted (X4)");
        }
        Ok(())
    }
}
