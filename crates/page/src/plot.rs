//! Plots as SVG: lines, points, bars; a legend; both axes linear or logarithmic.
//!
//! Colours are those of Okabe and Ito, which people tell apart whatever their eyes; beyond eight they come again with
//! dashes.
//!
//! Not known here: what is measured.   Limits: [`POINTS_MAX`] points a series; of more, every n-th is drawn.

use std::fmt::Write as _;

use crate::axis::{Axis, Span, tick_text};
use crate::escaped;

/// Points of a series that are drawn.
pub const POINTS_MAX: usize = 2_000;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;
const LEGEND_LINE: f64 = 18.0;
/// Entries of the legend side by side.
const LEGEND_COLUMNS: usize = 3;

const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8b7355", "#7f7f7f",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Line,
    Points,
    Bars,
    /// A line across: a target, a ceiling.
    Dashes,
}

/// One curve.
#[derive(Debug, Clone)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    shape: Shape,
}

impl Series {
    fn new(name: &str, points: Vec<(f64, f64)>, shape: Shape) -> Series {
        let stride = points.len().div_ceil(POINTS_MAX).max(1);
        Series {
            name: name.to_owned(),
            points: points.into_iter().step_by(stride).collect(),
            shape,
        }
    }

    /// Points joined in the order given.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, points, Shape::Line)
    }

    /// Points alone.
    pub fn points(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, points, Shape::Points)
    }

    /// Bars that stand on 0; series of bars with the same x stand side by side.
    pub fn bars(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, points, Shape::Bars)
    }

    /// A dashed line: what is expected, printed elsewhere, or the ceiling.
    pub fn dashes(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, points, Shape::Dashes)
    }
}

/// Curves between two axes.
#[derive(Debug, Clone)]
pub struct Plot {
    caption: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    /// Names in place of numbers on the x axis: 0, 1, 2, …
    names: Vec<String>,
    /// Where something begins.
    marks: Vec<(f64, String)>,
}

impl Plot {
    /// Axes without curves.
    pub fn new(caption: &str, x: Axis, y: Axis) -> Plot {
        Plot {
            caption: caption.to_owned(),
            x,
            y,
            series: Vec::new(),
            names: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// One more curve.
    #[must_use]
    pub fn with(mut self, series: Series) -> Plot {
        self.series.push(series);
        self
    }

    /// Names at x = 0, 1, 2, … instead of numbers: for bars.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Plot {
        self.names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// A line upright at `x`, with a name: something begins here.
    #[must_use]
    pub fn mark(mut self, x: f64, name: &str) -> Plot {
        self.marks.push((x, name.to_owned()));
        self
    }

    pub(crate) fn html(&self, out: &mut String) {
        let caption = escaped(&self.caption);
        let _ = write!(
            out,
            "<figure><figcaption>{caption}</figcaption>\n{}</figure>\n",
            self.svg()
        );
    }

    /// The drawing alone.
    pub fn svg(&self) -> String {
        let seen = || {
            self.series
                .iter()
                .flat_map(|s| &s.points)
                .filter(|(x, y)| self.x.takes(*x) && self.y.takes(*y))
        };
        let named_edges = if self.names.is_empty() {
            None
        } else {
            Some([-0.5, self.names.len() as f64 - 0.5])
        };
        let frame = Frame {
            x: match named_edges {
                Some(edges) => Reach::Named(edges),
                None => Reach::Spanned(self.x.span(seen().map(|p| p.0))),
            },
            y: self.y.span(seen().map(|p| p.1)),
        };
        let legend = self.series.len().div_ceil(LEGEND_COLUMNS) as f64 * LEGEND_LINE;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
            HEIGHT + legend,
            escaped(&self.caption)
        );
        self.grid(&frame, &mut out);
        self.draw_marks(&frame, &mut out);
        let bars = self
            .series
            .iter()
            .filter(|s| s.shape == Shape::Bars)
            .count();
        let mut bar = 0;
        for (n, series) in self.series.iter().enumerate() {
            let points: Vec<(f64, f64)> = series
                .points
                .iter()
                .copied()
                .filter(|(x, y)| self.x.takes(*x) && self.y.takes(*y))
                .collect();
            let colour = COLOURS[n % COLOURS.len()];
            match series.shape {
                Shape::Line | Shape::Dashes => {
                    let dash = match (series.shape, n / COLOURS.len()) {
                        (Shape::Dashes, _) => " stroke-dasharray=\"7 5\"",
                        (_, 0) => "",
                        _ => " stroke-dasharray=\"2 3\"",
                    };
                    polyline(&frame, &points, colour, dash, &mut out);
                    if series.shape == Shape::Line && points.len() <= 40 {
                        dots(&frame, &points, colour, &mut out);
                    }
                }
                Shape::Points => dots(&frame, &points, colour, &mut out),
                Shape::Bars => {
                    frame.bars(&points, (bar, bars), colour, &mut out);
                    bar += 1;
                }
            }
            legend_entry(n, &series.name, colour, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }

    fn draw_marks(&self, frame: &Frame, out: &mut String) {
        for (n, (value, name)) in self.marks.iter().enumerate() {
            let x = frame.x_at(*value);
            if !(LEFT..=WIDTH - RIGHT).contains(&x) {
                continue;
            }
            // Neighbours at three heights, so that short ones do not cover each other.
            let y = TOP + 12.0 + (n % 3) as f64 * 13.0;
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                HEIGHT - BOTTOM,
                x + 3.0,
                escaped(name)
            );
        }
    }

    fn grid(&self, frame: &Frame, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in frame.y.ticks() {
            let y = frame.y_at(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                tick_text(value)
            );
        }
        let ticks: Vec<(f64, String)> = match &frame.x {
            Reach::Spanned(span) => span
                .ticks()
                .into_iter()
                .map(|v| (v, tick_text(v)))
                .collect(),
            Reach::Named(_) => self
                .names
                .iter()
                .enumerate()
                .map(|(n, name)| (n as f64, escaped(name)))
                .collect(),
        };
        for (value, text) in ticks {
            let x = frame.x_at(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                bottom + 5.0,
                bottom + 18.0
            );
        }
        let _ = writeln!(
            out,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            right - LEFT,
            bottom - TOP,
            f64::midpoint(LEFT, right),
            bottom + 38.0,
            escaped(&self.x.label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y.label)
        );
    }
}

/// How far the x axis goes.
enum Reach {
    Spanned(Span),
    Named([f64; 2]),
}

/// From values to points of the drawing.
struct Frame {
    x: Reach,
    y: Span,
}

impl Frame {
    fn x_at(&self, value: f64) -> f64 {
        let place = match &self.x {
            Reach::Spanned(span) => span.place(value),
            Reach::Named([low, high]) => (value - low) / (high - low),
        };
        LEFT + place * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        TOP + (1.0 - self.y.place(value)) * (HEIGHT - TOP - BOTTOM)
    }

    fn bars(
        &self,
        points: &[(f64, f64)],
        (at, of): (usize, usize),
        colour: &str,
        out: &mut String,
    ) {
        let group = match &self.x {
            Reach::Named(_) => (self.x_at(1.0) - self.x_at(0.0)) * 0.8,
            Reach::Spanned(_) => 0.8 * (WIDTH - LEFT - RIGHT) / points.len().max(1) as f64,
        };
        let width = group / of as f64;
        let foot = self.y_at(self.y.floor());
        for &(x, y) in points {
            let top = self.y_at(y);
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{}</title></rect>",
                self.x_at(x) - group / 2.0 + width * at as f64,
                top.min(foot),
                (width - 1.0).max(1.0),
                (top - foot).abs(),
                tick_text(y)
            );
        }
    }
}

fn polyline(frame: &Frame, points: &[(f64, f64)], colour: &str, dash: &str, out: &mut String) {
    let _ = write!(
        out,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash} points=\""
    );
    for &(x, y) in points {
        let _ = write!(out, "{:.1},{:.1} ", frame.x_at(x), frame.y_at(y));
    }
    out.push_str("\"/>\n");
}

fn dots(frame: &Frame, points: &[(f64, f64)], colour: &str, out: &mut String) {
    for &(x, y) in points {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}, {}</title></circle>",
            frame.x_at(x),
            frame.y_at(y),
            tick_text(x),
            tick_text(y)
        );
    }
}

fn legend_entry(n: usize, name: &str, colour: &str, out: &mut String) {
    let column = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS as f64;
    let x = LEFT + (n % LEGEND_COLUMNS) as f64 * column;
    let y = HEIGHT + (n / LEGEND_COLUMNS) as f64 * LEGEND_LINE + 6.0;
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
        y - 6.0,
        x + 18.0,
        escaped(name)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        Plot::new("t", Axis::linear("x"), Axis::log("y"))
    }

    #[test]
    fn curves_begin_and_end_where_their_values_are() {
        let svg = plot()
            .with(Series::line("s", vec![(0.0, 1.0), (10.0, 100.0)]))
            .svg();
        let low = format!("{LEFT:.1},{:.1}", HEIGHT - BOTTOM);
        let high = format!("{:.1},{TOP:.1}", WIDTH - RIGHT);
        assert!(svg.contains(&format!("points=\"{low} {high} \"")), "{svg}");
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let svg = plot()
            .with(Series::points(
                "s",
                vec![(1.0, 0.0), (1.0, f64::NAN), (2.0, 5.0)],
            ))
            .svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn marks_are_where_they_belong_or_not_at_all() {
        let svg = plot()
            .with(Series::line("s", vec![(1.0, 1.0), (100.0, 5.0)]))
            .mark(50.0, "half<way")
            .mark(9e9, "beyond")
            .svg();
        assert_eq!(svg.matches("class=\"mark\"").count(), 1);
        assert!(svg.contains(">half&lt;way</text>") && !svg.contains("beyond"));
    }

    #[test]
    fn many_points_are_thinned() {
        let points = (0..POINTS_MAX * 3).map(|n| (n as f64, 1.0)).collect();
        let svg = plot().with(Series::points("s", points)).svg();
        assert_eq!(svg.matches("<circle").count(), POINTS_MAX);
    }

    #[test]
    fn bars_stand_side_by_side_under_names() {
        let svg = Plot::new("t", Axis::linear(""), Axis::linear("y"))
            .named(&["a<", "b"])
            .with(Series::bars("one", vec![(0.0, 1.0), (1.0, 2.0)]))
            .with(Series::bars("two", vec![(0.0, 3.0), (1.0, 4.0)]))
            .svg();
        assert!(svg.contains(">a&lt;</text>"));
        let lefts: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect x=") && line.contains("<title>"))
            .filter_map(|line| line.split('"').nth(1)?.parse().ok())
            .collect();
        assert_eq!(lefts.len(), 4);
        assert!(
            lefts[0] < lefts[2] && lefts[2] < lefts[1] && lefts[1] < lefts[3],
            "{lefts:?}"
        );
    }
}
