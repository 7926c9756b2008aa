//! The machine's state, second by second, as numbers of a slot.
//!
//! A gauge that counts from the start of something gives what it rose by; where it fell, the process had begun anew, and it rose by its new value.
//! Others give the mean of their samples. A gauge of several workers or disks is summed over them.
//!
//! Limits: [`SAMPLES_MAX`] samples of a gauge of one worker or disk in a slot; more are left out.

use std::collections::BTreeMap;

use profile::{Gauge, Second};

/// One a second for more than the longest slot.
const SAMPLES_MAX: usize = 8192;

#[derive(Default)]
struct Samples {
    /// Instant and value.
    all: Vec<(u64, u64)>,
    /// The last of an earlier slot.
    before: Option<(u64, u64)>,
}

/// The samples of the slot that is being read.
#[derive(Default)]
pub(crate) struct Gauges(BTreeMap<(u8, u8), Samples>);

/// What a gauge did in some slots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// It rose by this.
    pub(crate) rise: f64,
    /// In so many seconds.
    pub(crate) seconds: f64,
    /// Sum of the means of the slots.
    means: f64,
    /// Slots.
    slots: f64,
    /// Samples.
    pub(crate) samples: u64,
}

impl Course {
    /// How fast it rose, a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.rise / self.seconds)
    }

    /// Its mean.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.slots > 0.0).then(|| self.means / self.slots)
    }

    /// And what it did in others.
    pub(crate) fn add(&mut self, other: &Course) {
        self.rise += other.rise;
        self.seconds += other.seconds;
        self.means += other.means;
        self.slots += other.slots;
        self.samples += other.samples;
    }
}

/// By gauge.
pub(crate) type Courses = BTreeMap<u8, Course>;

impl Gauges {
    /// A second of the slot.
    pub(crate) fn put(&mut self, second: &Second) {
        for &(gauge, value) in &second.gauges {
            let samples = self.0.entry((gauge as u8, second.number)).or_default();
            if samples.all.len() < SAMPLES_MAX {
                samples.all.push((second.at_unix_us, value));
            }
        }
    }

    /// What the gauges did in the slot, and the busy time of each disk by its number. The next slot begins.
    pub(crate) fn close(&mut self) -> (Courses, Courses) {
        let (mut courses, mut of_disks) = (Courses::new(), Courses::new());
        for (&(gauge, number), samples) in &mut self.0 {
            samples.all.sort_unstable();
            let (Some(&first), Some(&last)) = (samples.all.first(), samples.all.last()) else {
                continue;
            };
            let mut from = samples.before.unwrap_or(first);
            let seconds = last.0.saturating_sub(from.0) as f64 / 1e6;
            let mut rise = 0;
            for &(at, value) in &samples.all {
                rise = value
                    .checked_sub(from.1)
                    .unwrap_or(value)
                    .saturating_add(rise);
                from = (at, value);
            }
            let count = samples.all.len() as f64;
            let mean = samples
                .all
                .iter()
                .map(|&(_, value)| value as f64)
                .sum::<f64>()
                / count;
            let put = |course: &mut Course| {
                course.rise += rise as f64;
                course.seconds = course.seconds.max(seconds);
                course.means += mean;
                course.slots = 1.0;
                course.samples += samples.all.len() as u64;
            };
            put(courses.entry(gauge).or_default());
            if gauge == Gauge::DeviceBusyUs as u8 {
                put(of_disks.entry(number).or_default());
            }
            samples.before = Some(last);
            samples.all.clear();
        }
        (courses, of_disks)
    }
}

/// Is it one of those that are timed, not counted?
pub(crate) fn is_lag(gauge: Gauge) -> bool {
    matches!(gauge, Gauge::LagP50Us | Gauge::LagP99Us | Gauge::LagMaxUs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Subject;

    fn put(gauges: &mut Gauges, second: u64, number: u8, value: u64) {
        gauges.put(&Second {
            at_unix_us: second * 1_000_000,
            subject: Subject::Device,
            number,
            gauges: vec![(Gauge::DeviceReads, value)],
        });
    }

    #[test]
    fn a_total_gives_what_it_rose_by() {
        let mut gauges = Gauges::default();
        for (second, value) in [(12, 130), (10, 100), (11, 110)] {
            put(&mut gauges, second, 0, value);
        }
        put(&mut gauges, 10, 1, 5);
        put(&mut gauges, 12, 1, 9);
        let course = gauges.close().0[&(Gauge::DeviceReads as u8)];
        assert_eq!((course.rate(), course.samples), (Some(17.0), 5));
        assert_eq!(course.mean(), Some(340.0 / 3.0 + 7.0));
        // The next slot goes on from the last value; the process began anew in it.
        put(&mut gauges, 14, 0, 170);
        put(&mut gauges, 16, 0, 20);
        let course = gauges.close().0[&(Gauge::DeviceReads as u8)];
        assert_eq!((course.rise, course.seconds), (60.0, 4.0));
        assert!(gauges.close().0.is_empty());
    }
}
