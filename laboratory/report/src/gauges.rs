//! The machine's state, sampled each second, as numbers of a slot.
//!
//! For a gauge that counts up, the number is its increase. If it fell, the process had restarted, so the increase is its new value. For
//! other gauges the number is the mean of the samples. Gauges of several workers or disks are summed.
//!
//! Limits: [`SAMPLES_MAX`] samples a slot of a gauge of one worker or disk; further ones are left out.

use std::collections::BTreeMap;

use profile::{Gauge, Second};

/// More than the number of seconds in the longest slot.
const SAMPLES_MAX: usize = 8192;

#[derive(Default)]
struct Samples {
    /// Instant and value of each sample.
    all: Vec<(u64, u64)>,
    /// The last sample of an earlier slot.
    before: Option<(u64, u64)>,
}

/// The samples of the slot that is being read.
#[derive(Default)]
pub(crate) struct Gauges(BTreeMap<(u8, u8), Samples>);

/// The course of a gauge over some slots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// Increase.
    pub(crate) rise: f64,
    /// Length of the time of that increase, seconds.
    pub(crate) seconds: f64,
    /// Sum of the means of the slots.
    means: f64,
    /// Number of slots.
    slots: f64,
    /// Number of samples.
    pub(crate) samples: u64,
}

impl Course {
    /// Increase a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.rise / self.seconds)
    }

    /// Its mean.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.slots > 0.0).then(|| self.means / self.slots)
    }

    /// Adds the course over other slots.
    pub(crate) fn add(&mut self, other: &Course) {
        self.rise += other.rise;
        self.seconds += other.seconds;
        self.means += other.means;
        self.slots += other.slots;
        self.samples += other.samples;
    }
}

/// Courses by gauge.
pub(crate) type Courses = BTreeMap<u8, Course>;

impl Gauges {
    /// Adds the samples of a second.
    pub(crate) fn put(&mut self, second: &Second) {
        for &(gauge, value) in &second.gauges {
            let samples = self.0.entry((gauge as u8, second.number)).or_default();
            if samples.all.len() < SAMPLES_MAX {
                samples.all.push((second.at_unix_us, value));
            }
        }
    }

    /// Ends the slot: returns the courses of gauges, and the busy time of each disk by its number.
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

/// Whether it is a gauge of lag, which is a time and not a count.
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
        // The next slot continues from the last value; in this slot the process restarted.
        put(&mut gauges, 14, 0, 170);
        put(&mut gauges, 16, 0, 20);
        let course = gauges.close().0[&(Gauge::DeviceReads as u8)];
        assert_eq!((course.rise, course.seconds), (60.0, 4.0));
        assert!(gauges.close().0.is_empty());
    }
}
