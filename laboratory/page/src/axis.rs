//! Axes: scales and ticks.
//!
//! An axis is linear, logarithmic, or chooses one of both when it knows the values ([`Axis::spread`]). Moments ([`Axis::utc`],
//! [`Axis::of_day`]) and sizes ([`Axis::bytes`]) have ticks of their own.
//!
//! Not known here: points on the screen; a position is a share of the axis between 0 and 1.   Limits: about eight ticks.

use crate::moments;

const TICKS: f64 = 6.0;

/// An undecided axis is logarithmic if the greatest value is this many times the least. Otherwise small values could not be seen.
const SPREAD: f64 = 30.0;
/// An axis of moments may be this many times as long as the data of a panel.
const LOST: f64 = 1.5;
/// Most ticks of an axis of moments.
const MOMENTS_MAX: f64 = 9.0;
/// Most ticks of an axis of sizes.
const SIZES_MAX: i32 = 11;

/// The texts at the ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    Numbers,
    /// Seconds since 1970.
    Utc,
    /// Seconds since midnight.
    OfDay,
    /// Powers of two.
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// To be decided when the values are known.
    Either,
}

/// A direction of a plot.
#[derive(Debug, Clone)]
pub struct Axis {
    pub(crate) label: String,
    scale: Scale,
    texts: Texts,
    /// Values that are always in view.
    must_show: Vec<f64>,
}

impl Axis {
    /// A linear axis; 0 is in view. The label should have the unit.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            texts: Texts::Numbers,
            must_show: vec![0.0],
        }
    }

    /// A logarithmic axis; values of 0 and below are left out.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
            texts: Texts::Numbers,
            must_show: Vec::new(),
        }
    }

    /// Linear from 0, or logarithmic if small values could not be seen otherwise.
    pub fn spread(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Either,
            texts: Texts::Numbers,
            must_show: vec![0.0],
        }
    }

    /// Moments as seconds since 1970, in UTC; the axis begins and ends with the data.
    pub fn utc(label: &str) -> Axis {
        Axis {
            texts: Texts::Utc,
            must_show: Vec::new(),
            ..Axis::linear(label)
        }
    }

    /// Seconds since midnight, all 24 hours: to compare days.
    pub fn of_day(label: &str) -> Axis {
        Axis {
            texts: Texts::OfDay,
            must_show: vec![0.0, 86_400.0],
            ..Axis::linear(label)
        }
    }

    /// Sizes in bytes, logarithmic, with powers of two at the ticks.
    pub fn bytes(label: &str) -> Axis {
        Axis {
            texts: Texts::Bytes,
            ..Axis::log(label)
        }
    }

    /// Does not keep 0 in view: the axis begins with the data.
    pub fn without_zero(mut self) -> Axis {
        self.must_show.retain(|&value| value != 0.0);
        self
    }

    /// Keeps `value` in view, such as the upper end of a share, or a target.
    pub fn showing(mut self, value: f64) -> Axis {
        self.must_show.push(value);
        self
    }

    pub(crate) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale != Scale::Log || value > 0.0)
    }

    pub(crate) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// The same axis, with its scale decided from the values.
    pub(crate) fn decided(&self, values: impl Iterator<Item = f64>) -> Axis {
        let mut axis = self.clone();
        if self.scale == Scale::Either {
            let (mut least, mut most, mut below) = (f64::INFINITY, 0.0_f64, false);
            for value in values.filter(|value| value.is_finite()) {
                below |= value < 0.0;
                if value > 0.0 {
                    least = least.min(value);
                    most = most.max(value);
                }
            }
            axis.scale = if !below && most > least * SPREAD {
                Scale::Log
            } else {
                Scale::Linear
            };
        }
        axis
    }

    /// The range of the axis for these values.
    pub(crate) fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for value in values.chain(self.must_show.iter().copied()) {
            if self.takes(value) {
                low = low.min(value);
                high = high.max(value);
            }
        }
        if low > high {
            (low, high) = (1.0, 2.0); // nothing to show
        }
        let texts = self.texts;
        if self.scale == Scale::Log {
            let (low, high) = match texts {
                Texts::Bytes => {
                    let low = low.log2().floor();
                    (low.exp2(), high.log2().ceil().max(low + 2.0).exp2())
                }
                _ => {
                    let low = round_down(low);
                    (low, round_up(high).max(low * 10.0))
                }
            };
            return Span {
                scale: Scale::Log,
                texts,
                low,
                high,
                step: 0.0,
            };
        }
        if high - low < f64::EPSILON * high.abs().max(1.0) {
            high = low + 1.0;
        }
        if matches!(texts, Texts::Utc | Texts::OfDay) {
            return Span {
                scale: Scale::Linear,
                texts,
                low,
                high,
                step: 0.0,
            };
        }
        let step = step(high - low);
        Span {
            scale: Scale::Linear,
            texts,
            low: ((low / step) + 1e-9).floor() * step,
            high: ((high / step) - 1e-9).ceil() * step,
            step,
        }
    }
}

/// The visible range of an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    scale: Scale,
    texts: Texts,
    low: f64,
    high: f64,
    /// Distance of ticks on a linear axis; both ends are ticks.
    step: f64,
}

impl Span {
    /// The position of `value`: 0 at the lower end, 1 at the upper.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => {
                (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
            _ => (value - self.low) / (self.high - self.low),
        }
    }

    /// The value at which bars begin.
    pub(crate) fn floor(&self) -> f64 {
        match self.scale {
            Scale::Log => self.low,
            _ => 0f64.clamp(self.low, self.high),
        }
    }

    /// Whether this value can be shown.
    pub(crate) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale != Scale::Log || value > 0.0)
    }

    /// Whether `own` covers so little of this axis of moments that it could hardly be seen.
    pub(crate) fn dwarfs(&self, own: &Span) -> bool {
        self.texts == Texts::Utc && self.high - self.low > LOST * (own.high - own.low)
    }

    /// Both ends.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Values of the ticks, and their texts.
    pub(crate) fn named_ticks(&self) -> Vec<(f64, String)> {
        match self.texts {
            Texts::Numbers => self
                .ticks()
                .into_iter()
                .map(|v| (v, tick_text(v)))
                .collect(),
            Texts::Utc => moments::ticks(self.low, self.high, MOMENTS_MAX, true),
            Texts::OfDay => moments::ticks(self.low, self.high, MOMENTS_MAX, false),
            Texts::Bytes => {
                let (first, last) = (
                    self.low.log2().round() as i32,
                    self.high.log2().round() as i32,
                );
                let stride = ((last - first) / SIZES_MAX + 1).max(1);
                let stride = stride.unsigned_abs().next_power_of_two().cast_signed();
                // Ticks are at multiples of the stride, so that 1 KiB and 1 MiB are among them.
                let powers = (first..=last).filter(|power| power.rem_euclid(stride) == 0);
                powers
                    .map(|power| f64::from(power).exp2())
                    .map(|v| (v, bytes_text(v)))
                    .collect()
            }
        }
    }

    /// The text of a value in a tooltip or a table.
    pub(crate) fn value_text(&self, value: f64) -> String {
        match self.texts {
            Texts::Numbers => value_text(value),
            Texts::Utc => format!("{} UTC", moments::utc_text(value)),
            Texts::OfDay => format!("{} UTC", moments::clock_text(value)),
            Texts::Bytes => bytes_text(value),
        }
    }

    /// Values of the ticks.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.scale != Scale::Log && self.step <= 0.0 {
            return vec![self.low, self.high];
        }
        if self.scale != Scale::Log {
            let count = ((self.high - self.low) / self.step).round() as usize;
            return (0..=count)
                .map(|n| self.low + n as f64 * self.step)
                .collect();
        }
        let decades = (self.high / self.low).log10();
        let (digits, stride): (&[f64], i32) = match decades {
            d if d <= 2.4 => (&[1.0, 2.0, 5.0], 1),
            d if d <= 8.0 => (&[1.0], 1),
            d => (&[1.0], (d / 8.0).ceil() as i32),
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let inside =
            |value: &f64| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(value);
        (first..=last)
            .step_by(stride as usize)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(inside)
            .collect()
    }
}

/// The largest of 1, 2, 5 times a power of ten that is not above `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf((value.log10() + 1e-9).floor());
    let digit = [5.0, 2.0]
        .into_iter()
        .find(|d| d * power <= value * (1.0 + 1e-9));
    digit.unwrap_or(1.0) * power
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf((value.log10() + 1e-9).floor());
    let digit = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|d| d * power >= value * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// 1, 2 or 5 times a power of ten, so that `length` has about six steps.
fn step(length: f64) -> f64 {
    let rough = length / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let digit = rough / power;
    let rounded = match digit {
        d if d < 1.5 => 1.0,
        d if d < 3.2 => 2.0,
        d if d < 7.5 => 5.0,
        _ => 10.0,
    };
    rounded * power
}

/// Bytes in the largest unit, by factors of 1024, that is not above them.
pub fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut at = 0;
    while value >= 1024.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", value_text(value), units[at])
}

/// The shortest text for a number at a tick.
pub(crate) fn tick_text(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.6}");
    format!("{}{suffix}", without_tail(&text))
}

/// A measured value, rounded to three digits or a few more: beside a bar, in a tooltip.
pub fn value_text(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        _ => 6,
    };
    let text = format!("{scaled:.decimals$}");
    format!("{}{suffix}", without_tail(&text))
}

fn without_tail(text: &str) -> &str {
    let short = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    };
    if short == "-0" { "0" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
        let span = axis.span(values.iter().copied());
        span.ticks().into_iter().map(tick_text).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_hold_all() {
        let axis = Axis::linear("x");
        assert_eq!(
            ticks(&axis, &[3.0, 97.0]),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            ticks(&axis, &[0.31]),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35"]
        );
        assert_eq!(
            ticks(&axis.clone().without_zero(), &[1000.0, 1006.0]),
            ["1000", "1001", "1002", "1003", "1004", "1005", "1006"]
        );
        assert_eq!(ticks(&axis, &[-10.0, 10.0]), ["-10", "-5", "0", "5", "10"]);
    }

    #[test]
    fn both_ends_of_a_linear_axis_are_ticks() {
        // The step was once computed again from the rounded ends: 20, 30, … 60 on an axis that ended at 65.
        for values in [[20.4, 62.0], [0.0, 44.7], [38.0, 44.7], [-8.4, 3.0]] {
            let span = Axis::linear("x").without_zero().span(values.into_iter());
            let ticks = span.ticks();
            assert!(span.place(ticks[0]).abs() < 1e-9, "{values:?}: {ticks:?}");
            assert!(
                (span.place(ticks[ticks.len() - 1]) - 1.0).abs() < 1e-9,
                "{values:?}: {ticks:?}"
            );
            assert!((4..=11).contains(&ticks.len()), "{values:?}: {ticks:?}");
        }
    }

    #[test]
    fn log_ticks_are_round_and_the_ends_near_the_values() {
        let axis = Axis::log("x");
        assert_eq!(
            ticks(&axis, &[0.02, 3000.0, 0.0]),
            ["0.1", "1", "10", "100", "1000"]
        );
        // Regression: an axis of three decades for two decades of values, so most of the plot was empty.
        assert_eq!(
            ticks(&axis, &[0.011, 1.1]),
            ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
        );
        assert_eq!(ticks(&axis, &[1e6]), ["1M", "2M", "5M", "10M"]);
        assert_eq!(ticks(&axis, &[1e-9, 1e9]).len(), 7);
    }

    #[test]
    fn an_undecided_axis_is_logarithmic_where_small_values_would_not_be_seen() {
        let axis = Axis::spread("x");
        let is_log = |values: &[f64]| axis.decided(values.iter().copied()).is_log();
        assert!(is_log(&[2.67, 4363.0]) && is_log(&[0.0, 1.0, 100.0]));
        assert!(!is_log(&[0.1, 0.3]) && !is_log(&[-1.0, 500.0, 1.0]) && !is_log(&[]));
    }

    #[test]
    fn values_are_said_in_few_digits() {
        let texts = [
            0.0,
            0.112_108,
            2_044.77,
            229_028.8,
            14.0,
            99.94,
            1_234_567.0,
        ];
        let texts = texts.map(value_text);
        assert_eq!(texts, ["0", "0.112", "2045", "229k", "14", "99.9", "1.23M"]);
    }

    #[test]
    fn sizes_have_powers_of_two_at_their_ticks() {
        let named = |values: &[f64]| -> Vec<String> {
            let span = Axis::bytes("size").span(values.iter().copied());
            span.named_ticks()
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(
            named(&[91.0, 4e7]),
            [
                "64 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB",
                "16 MiB", "64 MiB"
            ]
        );
        assert_eq!(named(&[0.0, 1000.0]), ["512 B", "1 KiB", "2 KiB"]);
        assert_eq!(named(&[1.0, 1e15]).first().unwrap(), "1 B");
        assert_eq!(
            (bytes_text(1536.0), bytes_text(0.0)),
            ("1.5 KiB".into(), "0 B".into())
        );
    }

    #[test]
    fn an_axis_of_moments_ends_where_its_points_do() {
        let span = Axis::utc("time").span([1000.0, 4600.0].into_iter());
        assert_eq!(span.ends(), (1000.0, 4600.0));
        let day = Axis::of_day("time").span([40_000.0].into_iter());
        assert_eq!(day.ends(), (0.0, 86_400.0));
        assert_eq!(day.value_text(3600.0), "01:00 UTC");
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        for axis in [
            Axis::linear("x"),
            Axis::log("x"),
            Axis::utc("x"),
            Axis::bytes("x"),
        ] {
            let span = axis.span([f64::NAN].into_iter());
            assert!(span.ticks().len() >= 2);
            assert!(span.place(1.0).is_finite());
        }
    }

    #[test]
    fn places_go_from_end_to_end() {
        let span = Axis::log("x").span([1.0, 100.0].into_iter());
        assert!((span.place(1.0)).abs() < 1e-9);
        assert!((span.place(10.0) - 0.5).abs() < 1e-9);
        assert!((span.place(100.0) - 1.0).abs() < 1e-9);
        assert!(
            (Axis::linear("y")
                .showing(1.0)
                .span([0.2].into_iter())
                .place(1.0)
                - 1.0)
                .abs()
                < 1e-9
        );
    }
}
