//! Draws values as lines, marks and bars.
//!
//! Colours are those of Okabe and Ito, which colour-blind readers can distinguish. Each series also has marks of its own shape, for
//! prints in black.
//!
//! Not known here: labels of axes, legends.   Limits: after [`COLOURS`], colours repeat, dashed.

use std::fmt::Write as _;

use crate::axis::{Span, value_text};
use crate::plot::{HEIGHT, LEFT, RIGHT, TOP, WIDTH};

pub(crate) const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#7f7f7f",
];

/// Bars narrower than this have no number above them.
const VALUE_WIDTH: f64 = 22.0;
/// Width of a character of such a number.
const VALUE_CHARACTER: f64 = 6.2;

/// The range of the x axis.
pub(crate) enum Reach {
    Spanned(Span),
    /// Names at 0, 1, 2, …; the range is from half a step before the first to half a step after the last.
    Named([f64; 2]),
}

/// How a series differs from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Index of the colour and of the mark.
    pub nth: usize,
    /// A dashed line, without marks.
    pub dashed: bool,
}

impl Look {
    pub(crate) fn colour(self) -> &'static str {
        COLOURS[self.nth % COLOURS.len()]
    }

    pub(crate) fn dash(self) -> &'static str {
        match (self.dashed, self.nth / COLOURS.len()) {
            (true, _) => " stroke-dasharray=\"7 5\"",
            (false, 0) => "",
            (false, _) => " stroke-dasharray=\"2 3\"",
        }
    }
}

/// Maps values to points of the drawing.
pub(crate) struct Frame {
    pub x: Reach,
    pub y: Span,
    /// The y of the x axis.
    pub bottom: f64,
}

impl Frame {
    pub(crate) fn x_at(&self, value: f64) -> f64 {
        let place = match &self.x {
            Reach::Spanned(span) => span.place(value),
            Reach::Named([low, high]) => (value - low) / (high - low),
        };
        LEFT + place * (WIDTH - LEFT - RIGHT)
    }

    pub(crate) fn y_at(&self, value: f64) -> f64 {
        TOP + (1.0 - self.y.place(value)) * (self.bottom - TOP)
    }

    /// Width of a bar, with its gap to the next one.
    fn bar_width(&self, points: usize, of: usize) -> f64 {
        let group = match &self.x {
            Reach::Named(_) => (self.x_at(1.0) - self.x_at(0.0)) * 0.8,
            Reach::Spanned(_) => 0.8 * (WIDTH - LEFT - RIGHT) / points.max(1) as f64,
        };
        group / of as f64
    }

    /// Bars of the `at`-th of `of` series, with their values if there is room.
    pub(crate) fn bars(
        &self,
        points: &[(f64, f64)],
        (at, of): (usize, usize),
        colour: &str,
        out: &mut String,
    ) {
        let width = self.bar_width(points.len(), of);
        let foot = self.y_at(self.y.floor());
        for &(x, y) in points {
            let top = self.y_at(y);
            let left = self.x_at(x) + width * (at as f64 - of as f64 / 2.0);
            let text = value_text(y);
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{text}</title></rect>",
                top.min(foot),
                (width - 1.0).max(1.0),
                (top - foot).abs(),
            );
            let room = width >= VALUE_WIDTH && VALUE_CHARACTER * text.len() as f64 <= width + 2.0;
            if room {
                let at_y = if top <= foot { top - 3.0 } else { top + 10.0 };
                let _ = writeln!(
                    out,
                    "<text class=\"value\" x=\"{:.1}\" y=\"{at_y:.1}\" text-anchor=\"middle\">{text}</text>",
                    left + width / 2.0
                );
            }
        }
    }
}

pub(crate) fn polyline(frame: &Frame, points: &[(f64, f64)], look: Look, out: &mut String) {
    let _ = write!(
        out,
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} points=\"",
        look.colour(),
        look.dash()
    );
    for &(x, y) in points {
        let _ = write!(out, "{:.1},{:.1} ", frame.x_at(x), frame.y_at(y));
    }
    out.push_str("\"/>\n");
}

/// A mark at each point, with its values as a tooltip.
pub(crate) fn marks(frame: &Frame, points: &[(f64, f64)], look: Look, out: &mut String) {
    for &(x, y) in points {
        let title = match frame.x {
            Reach::Named(_) => value_text(y),
            Reach::Spanned(_) => format!("{}, {}", value_text(x), value_text(y)),
        };
        mark(frame.x_at(x), frame.y_at(y), look, &title, out);
    }
}

/// The mark of a series: a disc, a square, a triangle, a diamond in turn.
pub(crate) fn mark(x: f64, y: f64, look: Look, title: &str, out: &mut String) {
    let path = match look.nth % 4 {
        0 => format!(
            "M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
            x - 3.2
        ),
        1 => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        2 => format!("M{x:.1} {:.1}l4 7h-8z", y - 4.0),
        _ => format!("M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z", y - 4.2),
    };
    let title = if title.is_empty() {
        String::new()
    } else {
        format!("<title>{title}</title>")
    };
    let _ = writeln!(
        out,
        "<path class=\"point\" d=\"{path}\" fill=\"{}\">{title}</path>",
        look.colour()
    );
}

/// If the texts of bars or ticks would overlap, they are rotated by this many degrees.
pub(crate) const TURN_DEGREES: f64 = 30.0;

/// Height of a rotated text of this width.
pub(crate) fn turned_height(width: f64) -> f64 {
    width * TURN_DEGREES.to_radians().sin() + 12.0
}

/// Distance of the legend from the x axis: below the names at the ticks and the label.
pub(crate) fn below_axis(label: &str, names_height: f64) -> f64 {
    let label = if label.is_empty() { 0.0 } else { 20.0 };
    names_height + label + 14.0
}

// The margins must hold the texts above and left of the plot.
const _: () = assert!(TOP >= 13.0 && LEFT >= 50.0 && HEIGHT > 200.0);
