//! The next stretch of the hand: which of its records are to be written again (`reinsert`), and how many of them are read.
//!
//! A sweep goes through the whole index anyway. On its way it lists the records of the stretch that comes after its own. When it ends,
//! the best of them are chosen, up to a share of the stretch:
//!
//! ```text
//!            1 + 4 x hits
//!   worth = ---------------      hits and age as the index has them (`index/usage`); age in half rounds, and half of one more
//!            length x age
//! ```
//!
//! A hit counts four times as much as mere presence, since most records that were never read are never asked for. Forgotten records
//! ([`UsageBits::is_forgotten`]) are no candidates: otherwise records of one chunk that nobody asks for would be worth more than others,
//! and stay for ever. Figures with a weight of one are in docs/decisions/0101.
//!
//! *The share* is the configured one as long as all chosen records are read before the sweep of their stretch ends. It is halved
//! if the disk is late, down to [`SHARE_MIN`], and rises by a quarter with each stretch that was read in time.
//!
//! Not known here: locks, the device, what a record is.
//! Limits: in memory 12 bytes for each record of two stretches, which is 0.4 bytes a record of the store; in a small store up to 1.5.
//! Source: GreedyDual-Size with Frequency (Cherkasova 1998) for the worth; reinsertion by region as in CacheLib (Berg et al., OSDI 2020).

use crate::index::entry::Entry;
use crate::index::segment::Segment;
use crate::index::usage::{Usage, UsageBits};
use extent::{Chunk, Chunks, Extent};

/// A hit counts this many times as much as mere presence.
const HIT_WEIGHT: u32 = 4;

/// The worth of a record of one chunk that was never read, and was stored just now.
const UNIT: u32 = 1 << 24;

/// The least share that is written again, in percent, as long as the disk reads at all.
const SHARE_MIN: u8 = 10;

/// A record that lies in the coming stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    worth: u32,
    first: u32,
    chunks: u32,
}

impl Candidate {
    /// `None` if the record is not to be written again.
    pub(crate) fn of(entry: Entry, bits: UsageBits) -> Option<Self> {
        // A copy of a record that a soft purge has met would count as fresh.
        if entry.is_writing() || entry.is_doubted() || bits.is_forgotten(entry.usage()) {
            return None;
        }
        let Extent { first, len } = entry.extent();
        Some(Self {
            worth: worth(entry.usage(), len),
            first: first.0,
            chunks: len.0,
        })
    }
}

fn worth(usage: Usage, len: Chunks) -> u32 {
    let halves = 2 * u32::from(usage.age) + 1;
    let hits = 1 + HIT_WEIGHT * u32::from(usage.hits);
    (hits * UNIT) / (len.0 * halves)
}

const _: () = {
    let most = 1 + HIT_WEIGHT * Usage::HITS_MAX as u32;
    assert!(most <= u32::MAX / UNIT, "the highest worth fits");
};

/// The least share of a stretch of that length that is written again.
pub(crate) fn share_min(stretch: Chunks) -> Chunks {
    share(stretch, SHARE_MIN)
}

fn share(stretch: Chunks, percent: u8) -> Chunks {
    Chunks((u64::from(stretch.0) * u64::from(percent) / 100) as u32)
}

/// The best of the candidates, as many as fit `room`, in the order of places.
fn best(mut candidates: Vec<Candidate>, room: Chunks) -> Vec<Extent> {
    candidates.sort_unstable_by_key(|it| (u32::MAX - it.worth, it.first));
    let mut left = room.0;
    candidates.retain(|it| {
        let fits = it.chunks <= left;
        left -= if fits { it.chunks } else { 0 };
        fits
    });
    candidates.sort_unstable_by_key(|it| it.first);
    let place = |it: &Candidate| Extent::new(Chunk(it.first), Chunks(it.chunks));
    candidates.iter().map(place).collect()
}

/// The candidates that a sweep under way lists of the next stretch, and whether the sweep ages the records.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    stretch: Option<Extent>,
    candidates: Vec<Candidate>,
    sweeps_since_pass: u32,
    is_passing: bool,
}

impl Listing {
    /// A sweep begins. A round has `sweeps_a_round` of them; `passes_a_round` of those age the records.
    pub(crate) fn sweep_begins(&mut self, next: Extent, sweeps_a_round: u32, passes_a_round: u32) {
        self.stretch = Some(next);
        self.candidates.clear();
        self.sweeps_since_pass += 1;
        let sweeps = sweeps_a_round / passes_a_round.max(1);
        self.is_passing = passes_a_round > 0 && self.sweeps_since_pass >= sweeps;
    }

    /// The sweep goes through a segment of the index.
    pub(crate) fn pass(&mut self, segment: &mut Segment) {
        let Some(stretch) = self.stretch else { return };
        if self.is_passing {
            segment.age_records();
        }
        let bits = segment.usage_bits();
        let entries = segment.iter().map(|(_, entry)| entry);
        let there = entries.filter(|entry| stretch.contains(entry.first()));
        let candidates = there.filter_map(|entry| Candidate::of(entry, bits));
        self.candidates.extend(candidates);
    }

    /// The sweep has been through the whole index.
    pub(crate) fn sweep_ends(&mut self) -> Vec<Candidate> {
        if std::mem::take(&mut self.is_passing) {
            self.sweeps_since_pass = 0;
        }
        self.stretch = None;
        std::mem::take(&mut self.candidates)
    }
}

/// The progress of reading the next stretch.
#[derive(Debug)]
pub(crate) struct Coming {
    /// The number of sweeps that had ended when the candidates were listed.
    sweeps: u64,
    /// Candidates among which the choice is still to be made.
    candidates: Vec<Candidate>,
    /// Places still to be read, the last one first.
    chosen: Vec<Extent>,
    is_reading: bool,
    /// Whether a stretch was listed.
    is_known: bool,
    stretch: Chunks,
    percent: u8,
    percent_max: u8,
    /// No read begins before this time.
    pub(super) not_before_ms: u64,
}

impl Coming {
    /// Nothing is listed yet. `stretch`: the length of one.
    pub(crate) fn new(percent_max: u8, stretch: Chunks) -> Self {
        Self {
            sweeps: 0,
            candidates: Vec::new(),
            chosen: Vec::new(),
            is_reading: false,
            is_known: false,
            stretch,
            percent: percent_max,
            percent_max,
            not_before_ms: 0,
        }
    }

    /// Another sweep has ended and has listed `candidates`. Returns whether all of the stretch before was read in time.
    pub(super) fn sweep_ended(&mut self, sweeps: u64, candidates: Vec<Candidate>) -> bool {
        let was_known = self.is_known;
        let is_done = self.is_done();
        if was_known {
            self.percent = match is_done {
                true => (self.percent + self.percent / 4).min(self.percent_max),
                false => (self.percent / 2).max(SHARE_MIN.min(self.percent_max)),
            };
        }
        self.sweeps = sweeps;
        self.is_known = true;
        self.candidates = candidates;
        self.chosen = Vec::new();
        was_known && is_done
    }

    /// Is nothing left to choose, and nothing to read?
    pub(super) fn is_done(&self) -> bool {
        self.candidates.is_empty() && self.chosen.is_empty() && !self.is_reading
    }

    /// The candidates for [`Self::choose`], which needs no lock, with the number of ended sweeps and the chunks to choose.
    pub(super) fn begin_choice(&mut self) -> Option<(u64, Vec<Candidate>, Chunks)> {
        if self.candidates.is_empty() {
            return None;
        }
        let room = share(self.stretch, self.percent);
        let candidates = std::mem::take(&mut self.candidates);
        // Busy until [`Self::chosen`] is called.
        self.is_reading = true;
        Some((self.sweeps, candidates, room))
    }

    /// The best of the candidates, the last place first.
    pub(super) fn choose(candidates: Vec<Candidate>, room: Chunks) -> Vec<Extent> {
        let mut chosen = best(candidates, room);
        chosen.reverse();
        chosen
    }

    /// Takes the choice, unless another sweep has ended since.
    pub(super) fn chosen(&mut self, sweeps: u64, chosen: Vec<Extent>) {
        self.is_reading = false;
        if sweeps == self.sweeps {
            self.chosen = chosen;
        }
    }

    /// The places of one read: neighbours, with gaps of at most `gap`, in all at most `most`, or a single one. Ends with [`Self::read`].
    pub(super) fn next_window(&mut self, gap: Chunks, most: Chunks) -> Option<(u64, Vec<Extent>)> {
        if self.is_reading {
            return None;
        }
        let begin = self.chosen.pop()?;
        let mut window = vec![begin];
        let mut end = begin.end();
        while let Some(next) = self.chosen.last()
            && next.first.0 - end.0.min(next.first.0) <= gap.0
            && next.end().0 - begin.first.0 <= most.0
        {
            end = next.end();
            window.extend(self.chosen.pop());
        }
        self.is_reading = true;
        Some((self.sweeps, window))
    }

    /// The read under way has ended.
    pub(super) fn read(&mut self) {
        self.is_reading = false;
    }

    /// A read is under way, or the best are being chosen.
    pub(super) fn is_busy(&self) -> bool {
        self.is_reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits() -> UsageBits {
        UsageBits::spare_of(1 << 20)
    }

    fn candidate(first: u32, chunks: u32, hits: u8, age: u8) -> Candidate {
        let extent = Extent::new(Chunk(first), Chunks(chunks));
        let entry = Entry::new(extent, false).with_usage(Usage { hits, age });
        Candidate::of(entry, bits()).unwrap()
    }

    fn firsts(places: &[Extent]) -> Vec<u32> {
        places.iter().map(|place| place.first.0).collect()
    }

    #[test]
    fn what_is_short_read_and_young_is_worth_most() {
        let of = |chunks, hits, age| candidate(0, chunks, hits, age).worth;
        assert!(of(8, 1, 0) > of(16, 1, 0) && of(16, 1, 0) > of(16, 0, 0));
        assert!(of(8, 1, 0) > of(8, 1, 1) && of(8, 1, 3) > 0);
        assert_eq!(of(1, 0, 0), UNIT);
        assert!(of(1 << 19, 1, 3) > 0, "the least there is");
        let written = Entry::new(Extent::new(Chunk(0), Chunks(1)), true);
        let forgotten = written.with_writing(false);
        let forgotten = forgotten.with_usage(Usage { hits: 0, age: 3 });
        let doubted = written.with_writing(false).with_doubt();
        for entry in [written, forgotten, doubted] {
            assert_eq!(Candidate::of(entry, bits()), None);
        }
    }

    #[test]
    fn the_best_that_fit_are_chosen_in_order_of_place() {
        let all = vec![
            candidate(90, 10, 0, 0),
            candidate(50, 10, 1, 0),
            candidate(0, 30, 3, 0),
            candidate(40, 10, 0, 2),
            candidate(30, 8, 3, 0),
        ];
        let of = |room| firsts(&best(all.clone(), Chunks(room)));
        assert_eq!(of(8), [30]);
        assert_eq!(of(20), [30, 50]);
        assert_eq!(of(28), [30, 50, 90], "the long one does not fit any more");
        assert_eq!(of(1000).len(), 5);
    }

    #[test]
    fn neighbours_are_read_together() {
        let mut coming = Coming::new(50, Chunks(1000));
        let all = [0, 10, 30, 200, 260].map(|first| candidate(first, 10, 0, 0));
        assert!(!coming.sweep_ended(1, all.to_vec()));
        assert!(!coming.is_done());
        let (sweeps, candidates, room) = coming.begin_choice().unwrap();
        assert_eq!((sweeps, room.0), (1, 500));
        assert!(coming.is_busy());
        coming.chosen(sweeps, Coming::choose(candidates, room));
        let mut windows = Vec::new();
        while let Some((_, window)) = coming.next_window(Chunks(20), Chunks(35)) {
            assert!(
                coming.next_window(Chunks(20), Chunks(35)).is_none(),
                "one at a time"
            );
            windows.push(firsts(&window));
            coming.read();
        }
        let expected: [&[u32]; 4] = [&[0, 10], &[30], &[200], &[260]];
        assert_eq!(windows, expected);
        assert!(coming.is_done() && coming.sweep_ended(2, Vec::new()));
    }

    #[test]
    fn what_was_chosen_for_a_stretch_that_is_gone_is_dropped() {
        let mut coming = Coming::new(30, Chunks(1000));
        coming.sweep_ended(1, vec![candidate(0, 10, 0, 0)]);
        let (sweeps, candidates, room) = coming.begin_choice().unwrap();
        coming.sweep_ended(2, Vec::new());
        coming.chosen(sweeps, Coming::choose(candidates, room));
        assert!(coming.next_window(Chunks(1), Chunks(1)).is_none());
        assert!(coming.is_done());
    }

    #[test]
    fn a_disk_that_is_late_gets_less_to_do_and_then_more_again() {
        let mut coming = Coming::new(30, Chunks(1000));
        let all = || vec![candidate(0, 10, 0, 0)];
        let mut percents = Vec::new();
        coming.sweep_ended(1, all());
        for sweep in 2..5 {
            assert!(!coming.sweep_ended(sweep, all()));
            percents.push(coming.percent);
        }
        for sweep in 5..12 {
            let (sweeps, candidates, room) = coming.begin_choice().unwrap();
            coming.chosen(sweeps, Coming::choose(candidates, room));
            while coming.next_window(Chunks(1), Chunks(1)).is_some() {
                coming.read();
            }
            assert!(coming.sweep_ended(sweep, all()));
            percents.push(coming.percent);
        }
        assert_eq!(percents, [15, 10, 10, 12, 15, 18, 22, 27, 30, 30]);
    }

    #[test]
    fn records_grow_older_so_many_times_a_round() {
        let next = Extent::new(Chunk(0), Chunks(1));
        for (sweeps, passes) in [(64, 2), (16, 2), (64, 1), (5, 2), (64, 0)] {
            let mut listing = Listing::default();
            let mut passed = 0;
            for _ in 0..sweeps * 10 {
                listing.sweep_begins(next, sweeps, passes);
                passed += u32::from(listing.is_passing);
                listing.sweep_ends();
            }
            let rounds = 10 * passes..=12 * passes + passes;
            assert!(rounds.contains(&passed), "{passed} of {sweeps}, {passes}");
        }
    }
}
