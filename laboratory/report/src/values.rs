//! Many values, and their percentiles by nearest rank.
//!
//! Up to a limit, values are kept one by one, so percentiles are exact. Beyond it they are counted in a histogram with three digits, so
//! that a busy slot takes no more memory than a quiet one. A curve is often the union of several such sets. `Union` finds a rank in
//! several sorted sets by bisecting the range of values, without merging the sets.
//!
//! Not known here: what the values are.   Limits: values below 2^32; larger ones are kept as 2^32 - 1.
//! Source: paper 001 section 4.2 wants percentiles because means suffer from large isolated peaks.

use hdrhistogram::Histogram;

use crate::model::Spread;

/// Precision of the histogram beyond the limit, digits.
const DIGITS: u8 = 3;
/// Precision of a sketch, which is kept in JSON, digits.
const SKETCH_DIGITS: u8 = 2;

/// A set of values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// At most `limit` values, sorted if `is_sorted`; empty if there is a histogram.
    exact: Vec<u32>,
    is_sorted: bool,
    limit: usize,
    counted: Option<Box<Histogram<u32>>>,
    sum: u64,
}

impl Values {
    /// An empty set; up to `limit` values are kept one by one.
    pub(crate) fn new(limit: usize) -> Self {
        Values {
            exact: Vec::new(),
            is_sorted: true,
            limit,
            counted: None,
            sum: 0,
        }
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, value: u64) {
        let value = value.min(u32::MAX.into()) as u32;
        self.sum += u64::from(value);
        if self.counted.is_none() {
            if self.exact.len() < self.limit {
                self.exact.push(value);
                self.is_sorted = false;
                return;
            }
            self.begin_to_count();
        }
        record(self.counted.as_mut().expect("made above"), value, 1);
    }

    /// Adds all values of another set.
    pub(crate) fn add(&mut self, other: &Values) {
        if let Some(theirs) = &other.counted {
            self.begin_to_count();
            let ours = self.counted.as_mut().expect("made above");
            for step in theirs.iter_recorded() {
                let value = step.value_iterated_to().min(u32::MAX.into()) as u32;
                record(ours, value, step.count_at_value());
            }
            self.sum += other.sum;
        } else {
            for &value in &other.exact {
                self.push(value.into());
            }
        }
    }

    fn begin_to_count(&mut self) {
        if self.counted.is_none() {
            let mut histogram = histogram(DIGITS);
            for value in std::mem::take(&mut self.exact) {
                record(&mut histogram, value, 1);
            }
            self.counted = Some(Box::new(histogram));
        }
    }

    /// Number of values.
    pub(crate) fn count(&self) -> u64 {
        let counted = self.counted.as_ref().map_or(0, |counted| counted.len());
        counted + self.exact.len() as u64
    }

    /// Whether every percentile is exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.counted.is_none()
    }

    /// Sorts the values. A union takes only sorted sets.
    pub(crate) fn sort(&mut self) {
        if !self.is_sorted {
            self.exact.sort_unstable();
            self.is_sorted = true;
        }
    }

    /// Removes all values, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.exact.clear();
        self.is_sorted = true;
        self.counted = None;
        self.sum = 0;
    }
}

fn histogram(digits: u8) -> Histogram<u32> {
    Histogram::new_with_bounds(1, u32::MAX.into(), digits).expect("the bounds are in order")
}

/// Counts saturate at the largest number of a step.
fn record(histogram: &mut Histogram<u32>, value: u32, count: u32) {
    histogram.saturating_record_n(value.into(), count);
}

/// Several sorted sets as one, with some zeros added.
pub(crate) struct Union<'a> {
    sets: Vec<&'a Values>,
    zeros: u64,
    count: u64,
    sum: u64,
    /// A histogram of all sets, if one of them has one.
    counted: Option<Histogram<u32>>,
}

impl<'a> Union<'a> {
    /// The union of these sets.
    pub(crate) fn new(sets: impl IntoIterator<Item = &'a Values>) -> Self {
        let sets: Vec<&Values> = sets.into_iter().filter(|set| set.count() > 0).collect();
        let counted = sets.iter().any(|set| !set.is_exact()).then(|| {
            let mut all = Values::new(0);
            sets.iter().for_each(|set| all.add(set));
            *all.counted.expect("the limit is 0")
        });
        Union {
            zeros: 0,
            count: sets.iter().map(|set| set.count()).sum(),
            sum: sets.iter().map(|set| set.sum).sum(),
            sets,
            counted,
        }
    }

    /// Adds zeros until there are `count` values.
    pub(crate) fn with_zeros_up_to(mut self, count: u64) -> Self {
        self.zeros = count.saturating_sub(self.count);
        self.count += self.zeros;
        if let Some(counted) = &mut self.counted {
            record(counted, 0, u32::try_from(self.zeros).unwrap_or(u32::MAX));
        }
        self
    }

    /// Number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The percentile by nearest rank: value number `ceil(percent / 100 * count)` in order; 0 if there are none.
    pub(crate) fn at_percent(&self, percent: u64) -> u64 {
        let rank = nearest_rank(percent, self.count);
        if self.count == 0 || rank <= self.zeros {
            return 0;
        }
        if let Some(counted) = &self.counted {
            let share = (rank as f64 - 0.5) / self.count as f64;
            return counted.value_at_quantile(share).min(u32::MAX.into());
        }
        // The smallest value with at least `rank` values up to it.
        let (mut low, mut high) = (0, u32::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.up_to(middle) >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low.into()
    }

    /// Number of values that are at most this large.
    pub(crate) fn count_up_to(&self, value: u64) -> u64 {
        let value = value.min(u32::MAX.into());
        match &self.counted {
            Some(counted) => counted.count_between(0, value),
            None => self.up_to(value as u32),
        }
    }

    fn up_to(&self, value: u32) -> u64 {
        let within = |set: &&Values| set.exact.partition_point(|&v| v <= value) as u64;
        self.zeros + self.sets.iter().map(within).sum::<u64>()
    }

    /// Percentiles, mean and maximum, each divided by `unit`; `None` if there is no value.
    pub(crate) fn spread(&self, unit: f64) -> Option<Spread> {
        if self.count == 0 {
            return None;
        }
        let at = |percent| self.at_percent(percent) as f64 / unit;
        Some(Spread {
            p25: at(25),
            p50: at(50),
            p75: at(75),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            mean: self.sum as f64 / self.count as f64 / unit,
            max: at(100),
        })
    }

    /// The distribution for JSON, so that reports can be joined: steps of at most 1 %.
    pub(crate) fn sketch(&self) -> Vec<u64> {
        let mut steps = histogram(SKETCH_DIGITS);
        if let Some(counted) = &self.counted {
            for step in counted.iter_recorded() {
                let value = step.value_iterated_to().min(u32::MAX.into()) as u32;
                record(&mut steps, value, step.count_at_value());
            }
        } else {
            record(&mut steps, 0, u32::try_from(self.zeros).unwrap_or(u32::MAX));
            for set in &self.sets {
                count_sorted(&set.exact, &mut steps);
            }
        }
        write_sketch(&steps)
    }
}

/// Advances from step to step, not from value to value.
fn count_sorted(mut sorted: &[u32], steps: &mut Histogram<u32>) {
    while let Some(&first) = sorted.first() {
        let last = steps.highest_equivalent(first.into());
        let within = sorted.partition_point(|&v| u64::from(v) <= last);
        record(steps, first, within as u32);
        sorted = &sorted[within..];
    }
}

fn write_sketch(steps: &Histogram<u32>) -> Vec<u64> {
    let mut out = Vec::new();
    let mut before = 0;
    for step in steps
        .iter_recorded()
        .filter(|step| step.count_at_value() > 0)
    {
        let value = steps.lowest_equivalent(step.value_iterated_to());
        out.extend([value - before, step.count_at_value().into()]);
        before = value;
    }
    out
}

/// Adds up several sketches.
pub(crate) fn join_sketches<'a>(sketches: impl IntoIterator<Item = &'a [u64]>) -> Sketched {
    let mut steps = histogram(SKETCH_DIGITS);
    for sketch in sketches {
        let mut value = 0u64;
        for pair in sketch.chunks_exact(2) {
            value = value.saturating_add(pair[0]).min(u32::MAX.into());
            let count = u32::try_from(pair[1]).unwrap_or(u32::MAX);
            record(&mut steps, value as u32, count);
        }
    }
    Sketched(steps)
}

/// The sum of several sketches.
pub(crate) struct Sketched(Histogram<u32>);

impl Sketched {
    /// Number of values.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Percentiles within 1 %, each divided by `unit`; the caller knows mean and maximum.
    pub(crate) fn spread(&self, unit: f64, mean: f64, max: f64) -> Spread {
        let count = self.count();
        let at = |percent| {
            let share = (nearest_rank(percent, count) as f64 - 0.5) / count.max(1) as f64;
            let value = self.0.value_at_quantile(share);
            // The middle of the step.
            let low = self.0.lowest_equivalent(value);
            (low + value) as f64 / 2.0 / unit
        };
        Spread {
            p25: at(25),
            p50: at(50),
            p75: at(75),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            mean,
            max,
        }
    }

    /// A sketch of the sum, which can be joined again.
    pub(crate) fn sketch(&self) -> Vec<u64> {
        write_sketch(&self.0)
    }
}

/// The rank of a percentile among `count` sorted values, from 1.
//= report appendix C   nearest rank: value number ceil(p x n); the median of 4 values is the second
pub(crate) fn nearest_rank(percent: u64, count: u64) -> u64 {
    (u128::from(percent) * u128::from(count))
        .div_ceil(100)
        .max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(limit: usize, numbers: &[u32]) -> Values {
        let mut values = Values::new(limit);
        numbers.iter().for_each(|&n| values.push(n.into()));
        values.sort();
        values
    }

    #[test]
    fn the_median_of_four_is_the_second() {
        let four = values(10, &[40, 10, 30, 20]);
        assert_eq!(Union::new([&four]).at_percent(50), 20);
        assert_eq!(Union::new([&four]).at_percent(99), 40);
        let none = Union::new([]);
        assert_eq!((none.spread(1.0), none.sketch()), (None, vec![]));
    }

    #[test]
    fn missing_values_count_as_zeros() {
        let two = values(10, &[5, 7]);
        let union = Union::new([&two]).with_zeros_up_to(5);
        assert_eq!((union.at_percent(50), union.at_percent(61)), (0, 5));
        assert_eq!((union.count(), union.sum()), (5, 12));
    }

    fn slow(mut all: Vec<u32>, percent: u64) -> u64 {
        all.sort();
        all[(percent as f64 / 100.0 * all.len() as f64).ceil().max(1.0) as usize - 1].into()
    }

    proptest! {
        #[test]
        fn a_union_is_all_its_values(
            a in proptest::collection::vec(any::<u32>(), 1..40),
            b in proptest::collection::vec(0..50u32, 0..40),
            zeros in 0..20usize,
        ) {
            let all = [&a[..], &b, &vec![0; zeros]].concat();
            let (one, two) = (values(100, &a), values(100, &b));
            let union = Union::new([&one, &two]).with_zeros_up_to(all.len() as u64);
            for percent in [25, 50, 75, 90, 95, 99, 100] {
                prop_assert_eq!(union.at_percent(percent), slow(all.clone(), percent));
            }
        }

        #[test]
        fn beyond_the_limit_three_digits_are_right(a in proptest::collection::vec(1..u32::MAX, 1..300)) {
            let (counted, exact) = (values(20, &a), values(1000, &a));
            prop_assert_eq!(counted.is_exact(), a.len() <= 20);
            prop_assert_eq!(Union::new([&counted]).sum(), Union::new([&exact]).sum());
            for percent in [25, 50, 90, 99] {
                let (found, want) = (Union::new([&counted]).at_percent(percent), slow(a.clone(), percent));
                prop_assert!(found.abs_diff(want) as f64 <= want as f64 / 1000.0 + 1.0, "{found} {want}");
            }
        }

        #[test]
        fn sketches_join_within_a_hundredth(
            a in proptest::collection::vec(any::<u32>(), 1..100),
            b in proptest::collection::vec(any::<u32>(), 0..100),
        ) {
            let sketch = |numbers: &[u32], limit| Union::new([&values(limit, numbers)]).sketch();
            let joined = join_sketches([&sketch(&a, 10)[..], &sketch(&b, 1000)]);
            let all = [&a[..], &b].concat();
            prop_assert_eq!(joined.count(), all.len() as u64);
            let spread = joined.spread(1.0, 0.0, 0.0);
            for (found, percent) in [(spread.p50, 50), (spread.p99, 99)] {
                let want = slow(all.clone(), percent) as f64;
                prop_assert!((found - want).abs() <= want * 0.012 + 1.0, "{found} {want}");
            }
        }
    }
}
