//! Axes: what stretches where, and where the ticks are.
//!
//! Not known here: points on the screen; a place is a share of the axis between 0 and 1.   Limits: about eight ticks.

const TICKS: f64 = 6.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

/// A direction of a plot.
#[derive(Debug, Clone)]
pub struct Axis {
    pub(crate) label: String,
    scale: Scale,
    /// What must be in view whatever the points are.
    must_show: Vec<f64>,
}

impl Axis {
    /// Equal steps are equal lengths; 0 is in view. Say the unit in the label.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            must_show: vec![0.0],
        }
    }

    /// Equal factors are equal lengths; what is not above 0 is left out.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
            must_show: Vec::new(),
        }
    }

    /// As a linear axis, but it begins where the points do.
    pub fn without_zero(mut self) -> Axis {
        self.must_show.retain(|&value| value != 0.0);
        self
    }

    /// Keeps `value` in view: the upper end of a share, a target.
    pub fn showing(mut self, value: f64) -> Axis {
        self.must_show.push(value);
        self
    }

    pub(crate) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The part of the axis that is seen when these values are.
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
        match self.scale {
            Scale::Linear => {
                if high - low < f64::EPSILON * high.abs().max(1.0) {
                    high = low + 1.0;
                }
                let step = step(high - low);
                Span {
                    scale: self.scale,
                    low: (low / step).floor() * step,
                    high: (high / step).ceil() * step,
                }
            }
            Scale::Log => {
                let low = 10f64.powf((low.log10() + 1e-9).floor());
                let high = 10f64.powf((high.log10() - 1e-9).ceil()).max(low * 10.0);
                Span {
                    scale: self.scale,
                    low,
                    high,
                }
            }
        }
    }
}

/// The part of an axis that is seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Span {
    /// Where `value` is: 0 at the lower end, 1 at the upper.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
        }
    }

    /// Where bars stand on.
    pub(crate) fn floor(&self) -> f64 {
        match self.scale {
            Scale::Linear => 0f64.clamp(self.low, self.high),
            Scale::Log => self.low,
        }
    }

    /// Values with a line and a number.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let count = ((self.high - self.low) / step).round() as usize;
                (0..=count).map(|n| self.low + n as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10().round() as i32;
                let stride = 1 + (decades / 8).max(0);
                (0..=decades)
                    .step_by(stride as usize)
                    .map(|n| self.low * 10f64.powi(n))
                    .collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, for about six steps.
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

/// A number at a tick, as short as it can be said.
pub(crate) fn tick_text(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{suffix}")
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
    fn log_ticks_are_powers_of_ten() {
        let axis = Axis::log("x");
        assert_eq!(
            ticks(&axis, &[0.02, 30.0, 0.0]),
            ["0.01", "0.1", "1", "10", "100"]
        );
        assert_eq!(ticks(&axis, &[1e6]), ["1M", "10M"]);
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        for axis in [Axis::linear("x"), Axis::log("x")] {
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
