//! Plots as SVG: lines, points, bars; a legend; both axes linear or logarithmic.
//!
//! A dashed series whose name begins with another's (`hits, paper` after `hits`) has the same colour. A series without a point that the
//! axes can show is not in the legend.
//!
//! Not known here: what is measured; how shapes are drawn (`drawing`, `legend`).
//! Limits: [`POINTS_MAX`] points a series; of a longer series every n-th point is drawn.

use std::fmt::Write as _;

use crate::axis::{Axis, tick_text};
use crate::drawing::{
    Frame, Look, Reach, TURN_DEGREES, below_axis, marks, polyline, turned_height,
};
use crate::escaped;
use crate::legend::{self, Entry, Sample};

/// Most points of a series that are drawn.
pub const POINTS_MAX: usize = 2_000;

/// Lines with more points than this have no marks.
const MARKS_MAX: usize = 40;

pub(crate) const WIDTH: f64 = 860.0;
/// Height from the upper edge to the x axis, and the least below it.
pub(crate) const HEIGHT: f64 = 400.0;
pub(crate) const LEFT: f64 = 70.0;
pub(crate) const RIGHT: f64 = 20.0;
pub(crate) const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;
/// Width of a character of 12 px, approximately, in the wider of the usual fonts.
pub(crate) const CHARACTER: f64 = 6.8;
/// Height of the caption above a drawing in its own file.
const CAPTION: f64 = 30.0;
const MARGIN: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Line,
    Points,
    Bars,
    /// A dashed line: a target, a ceiling.
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

    /// A dashed line: an expectation, a printed value, or a ceiling.
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
    /// Names instead of numbers on the x axis: 0, 1, 2, …
    names: Vec<String>,
    /// Where something begins, with its name.
    marks: Vec<(f64, String)>,
    /// Name of a file with only this plot.
    stem: String,
}

impl Plot {
    /// A plot without curves.
    pub fn new(caption: &str, x: Axis, y: Axis) -> Plot {
        Plot {
            caption: caption.to_owned(),
            x,
            y,
            series: Vec::new(),
            names: Vec::new(),
            marks: Vec::new(),
            stem: String::new(),
        }
    }

    /// Adds a curve.
    #[must_use]
    pub fn with(mut self, series: Series) -> Plot {
        self.series.push(series);
        self
    }

    /// Sets names at x = 0, 1, 2, … instead of numbers: for bars.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Plot {
        self.names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Names a file with only this plot, without its ending; by default the name is made from the caption.
    #[must_use]
    pub fn called(mut self, stem: &str) -> Plot {
        self.stem = stem.to_owned();
        self
    }

    /// The name of a file with only this plot, without its ending: small letters, digits, and hyphens.
    pub fn stem(&self) -> String {
        let name = if self.stem.is_empty() {
            &self.caption
        } else {
            &self.stem
        };
        let mut stem = String::new();
        for c in name.chars().flat_map(char::to_lowercase) {
            if c.is_ascii_alphanumeric() {
                stem.push(c);
            } else if !stem.ends_with('-') && !stem.is_empty() {
                stem.push('-');
            }
        }
        stem.trim_end_matches('-').to_owned()
    }

    /// A vertical line at `x` with a name: something begins here.
    #[must_use]
    pub fn mark(mut self, x: f64, name: &str) -> Plot {
        self.marks.push((x, name.to_owned()));
        self
    }

    pub(crate) fn html(&self, out: &mut String) {
        let caption = escaped(&self.caption);
        let _ = write!(
            out,
            "<figure><figcaption>{caption}</figcaption>\n<div class=\"wide\">{}</div></figure>\n",
            self.svg()
        );
    }

    /// The drawing in the style of its page.
    pub fn svg(&self) -> String {
        let (body, height) = self.body();
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
            escaped(&self.caption)
        )
    }

    /// The drawing as a separate file: with caption, style and a light background, so that it is readable anywhere.
    pub fn svg_file(&self) -> String {
        let (body, height) = self.body();
        let caption = escaped(&self.caption);
        let (width, tall) = (WIDTH + 2.0 * MARGIN, height + CAPTION + 2.0 * MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{tall:.0}\" \
             viewBox=\"{:.0} {:.0} {width:.0} {tall:.0}\" role=\"img\" aria-label=\"{caption}\">\n\
             <style>{}{}</style>\n\
             <rect x=\"{:.0}\" y=\"{:.0}\" width=\"{width:.0}\" height=\"{tall:.0}\" rx=\"6\" fill=\"#fff\"/>\n\
             <text class=\"caption\" x=\"10\" y=\"-10\">{caption}</text>\n{body}</svg>\n",
            -MARGIN,
            -CAPTION - MARGIN,
            crate::LIGHT,
            crate::DRAWING,
            -MARGIN,
            -CAPTION - MARGIN,
        )
    }

    /// All points that these axes can show.
    fn shown<'a>(&'a self, x: &'a Axis, y: &'a Axis) -> impl Iterator<Item = (f64, f64)> + 'a {
        let points = self.series.iter().flat_map(|s| s.points.iter().copied());
        points.filter(|point| x.takes(point.0) && y.takes(point.1))
    }

    /// The look of each series. A dashed one takes the colour of the series that it is named after.
    fn looks(&self) -> Vec<Look> {
        let mut next = 0;
        let mut looks: Vec<Look> = Vec::new();
        for (at, series) in self.series.iter().enumerate() {
            let dashed = series.shape == Shape::Dashes;
            let namesake = self.series[..at].iter().position(|other| {
                dashed
                    && other.shape != Shape::Dashes
                    && series
                        .name
                        .strip_prefix(&other.name)
                        .is_some_and(|more| more.starts_with(", "))
            });
            let nth = match namesake {
                Some(other) => looks[other].nth,
                None => {
                    next += 1;
                    next - 1
                }
            };
            looks.push(Look { nth, dashed });
        }
        looks
    }

    /// The content of the drawing, and its height.
    fn body(&self) -> (String, f64) {
        let all = || self.series.iter().flat_map(|s| &s.points);
        let x = self.x.decided(all().map(|p| p.0));
        let y = self.y.decided(all().map(|p| p.1));
        let bars = self.series.iter().filter(|s| s.shape == Shape::Bars);
        let bars = bars.count();
        let frame = Frame {
            x: if self.names.is_empty() {
                Reach::Spanned(x.span(self.shown(&x, &y).map(|p| p.0)))
            } else {
                Reach::Named([-0.5, self.names.len() as f64 - 0.5])
            },
            y: y.span(self.shown(&x, &y).map(|p| p.1)),
            bottom: HEIGHT - BOTTOM,
        };
        let mut out = String::new();
        let names_height = self.grid(&frame, y.is_log() && bars > 0, &mut out);
        self.draw_marks(&frame, &mut out);
        let mut bar = 0;
        let mut entries: Vec<Entry> = Vec::new();
        for (series, look) in self.series.iter().zip(self.looks()) {
            let points = series.points.iter().copied();
            let points: Vec<(f64, f64)> = points
                .filter(|point| x.takes(point.0) && y.takes(point.1))
                .collect();
            let sample = match series.shape {
                Shape::Line if points.len() <= MARKS_MAX => Sample::LineWithMarks,
                Shape::Line | Shape::Dashes => Sample::Line,
                Shape::Points => Sample::Marks,
                Shape::Bars => Sample::Bar,
            };
            match sample {
                Sample::Bar => {
                    frame.bars(&points, (bar, bars), look.colour(), &mut out);
                    bar += 1;
                }
                Sample::Marks => marks(&frame, &points, look, &mut out),
                Sample::Line => polyline(&frame, &points, look, &mut out),
                Sample::LineWithMarks => {
                    polyline(&frame, &points, look, &mut out);
                    marks(&frame, &points, look, &mut out);
                }
            }
            if !points.is_empty() {
                entries.push(Entry {
                    name: &series.name,
                    look,
                    sample,
                });
            }
        }
        // A single series of bars is described by the caption.
        if entries.len() == 1 && bars == 1 {
            entries.clear();
        }
        let top = frame.bottom + below_axis(&self.x.label, names_height);
        legend::draw(&entries, top, &mut out);
        (out, top + legend::height(&entries) + 4.0)
    }

    fn draw_marks(&self, frame: &Frame, out: &mut String) {
        for (n, (value, name)) in self.marks.iter().enumerate() {
            let x = frame.x_at(*value);
            if !(LEFT..=WIDTH - RIGHT).contains(&x) {
                continue;
            }
            // Neighbours have three different heights, so that short names do not overlap.
            let y = TOP + 12.0 + (n % 3) as f64 * 13.0;
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>\
                 <text class=\"tick halo\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                frame.bottom,
                x + 3.0,
                escaped(name)
            );
        }
    }

    /// Lines, ticks and labels; returns the height of the names below the x axis.
    fn grid(&self, frame: &Frame, log_bars: bool, out: &mut String) -> f64 {
        let (right, bottom) = (WIDTH - RIGHT, frame.bottom);
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
            Reach::Spanned(span) => {
                let ticks = span.ticks().into_iter();
                ticks.map(|v| (v, tick_text(v))).collect()
            }
            Reach::Named(_) => {
                let names = self.names.iter().enumerate();
                names.map(|(n, name)| (n as f64, name.clone())).collect()
            }
        };
        let longest = ticks.iter().map(|(_, text)| text.chars().count()).max();
        let longest = longest.unwrap_or(0) as f64 * CHARACTER;
        let slot = (right - LEFT) / ticks.len().max(1) as f64;
        let turned = !self.names.is_empty() && longest + 6.0 > slot;
        for (value, text) in ticks {
            let x = frame.x_at(value);
            let (down, place) = if turned {
                let at = format!("{:.1} {:.1}", x + 5.0, bottom + 15.0);
                (
                    5.0,
                    format!(
                        "transform=\"translate({at}) rotate(-{TURN_DEGREES})\" text-anchor=\"end\""
                    ),
                )
            } else {
                let at = format!("x=\"{x:.1}\" y=\"{}\"", bottom + 18.0);
                (5.0, format!("{at} text-anchor=\"middle\""))
            };
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"tick\" {place}>{}</text>",
                bottom + down,
                escaped(&text)
            );
        }
        let names_height = if turned { turned_height(longest) } else { 18.0 };
        // On a logarithmic axis the heights of bars mislead, so the label says that the axis is one.
        let note = if log_bars {
            " (equal steps are factors)"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}{note}</text>",
            right - LEFT,
            bottom - TOP,
            f64::midpoint(LEFT, right),
            bottom + names_height + 20.0,
            escaped(&self.x.label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y.label)
        );
        names_height
    }
}

#[cfg(test)]
mod tests;
