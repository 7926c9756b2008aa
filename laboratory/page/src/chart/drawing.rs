//! Draws a panel: grid, bands, counts, curves, areas, and invisible strips with tooltips.
//!
//! Colours are CSS classes (`c0` to `c7`), so that dark and light mode can have different ones.
//!
//! Not known here: the page around the drawing.   Limits: those of [`super`].

use std::fmt::Write as _;

use super::{COLOURS, Chart, Curve, Panel, STRIPS_MAX, Spot, Style};
use crate::Axis;
use crate::axis::{Span, tick_text, value_text};
use crate::escaped;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 18.0;
/// A tick's text is right-aligned if it is nearer to the right edge than this.
const NEAR: f64 = 24.0;
/// The right margin if there is a second axis.
const RIGHT_COUNTS: f64 = 48.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Width reserved for the text of a tick on the x axis.
const TICK_ROOM: f64 = 52.0;
const RADIUS: f64 = 2.8;

/// Width and height of a panel, in user units: the whole width of the page, half of it, or a third.
pub(super) fn extent(panels: usize) -> (f64, f64) {
    match panels {
        0 | 1 => (860.0, 340.0),
        2 => (480.0, 300.0),
        _ => (430.0, 290.0),
    }
}

/// The x axis, and the y axis of each layer.
#[derive(Clone)]
pub(super) struct Scales {
    x: Span,
    y: Vec<Span>,
    /// The axis of the counts.
    counts: Option<Span>,
}

impl Scales {
    /// The scales of one panel beside others. They are shared, but a panel gets its own x axis if it shows other days.
    pub(super) fn beside(shared: &Scales, chart: &Chart, panel: &Panel) -> Scales {
        let own = Scales::of(chart, &[panel]);
        if chart.own_scales {
            return own;
        }
        let x = if shared.x.dwarfs(&own.x) {
            own.x
        } else {
            shared.x
        };
        Scales {
            x,
            ..shared.clone()
        }
    }

    /// Scales that fit the data of these panels.
    pub(super) fn of(chart: &Chart, panels: &[&Panel]) -> Scales {
        let spots = |layer: usize| panels.iter().flat_map(move |panel| panel.spots(layer));
        let layers = chart.layers();
        let bands = || {
            panels
                .iter()
                .flat_map(|p| p.bands.iter().flat_map(|b| [b.0, b.1]))
        };
        let xs = (0..layers)
            .flat_map(spots)
            .map(|spot| spot.x)
            .chain(bands());
        let y = (0..layers).map(|layer| {
            let singles = panels.iter().flat_map(move |panel| values(panel, layer));
            let values: Vec<f64> = singles.collect();
            let axis = chart.y.decided(values.iter().copied());
            axis.span(values.into_iter())
        });
        let counts: Vec<f64> = panels
            .iter()
            .flat_map(|panel| panel.counts.iter().map(|c| c.1))
            .collect();
        Scales {
            x: chart.x.span(xs),
            y: y.collect(),
            counts: (!counts.is_empty()).then(|| Axis::linear("").span(counts.into_iter())),
        }
    }
}

/// The values that the y axis must include: those of lines, and the sums of areas.
fn values(panel: &Panel, layer: usize) -> Vec<f64> {
    let lines = panel.curves.iter().filter(|c| c.style != Style::Area);
    let lines = lines.flat_map(|curve| curve.layer(layer).iter().map(|spot| spot.y));
    let tops = stacked(panel, layer);
    let tops = tops
        .iter()
        .flat_map(|(_, edges)| edges.iter().map(|e| e.top));
    lines.chain(tops).collect()
}

/// The upper and lower edge of an area at one x.
#[derive(Clone, Copy)]
struct Edge {
    x: f64,
    top: f64,
    foot: f64,
}

/// Stacks the areas. Where a curve has no value, it adds nothing.
fn stacked(panel: &Panel, layer: usize) -> Vec<(&Curve, Vec<Edge>)> {
    let areas: Vec<&Curve> = panel
        .curves
        .iter()
        .filter(|c| c.style == Style::Area)
        .collect();
    let mut xs: Vec<f64> = (areas.iter())
        .flat_map(|area| area.layer(layer).iter().map(|spot| spot.x))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut feet = vec![0.0; xs.len()];
    let mut out = Vec::new();
    for area in areas {
        let mut edges: Vec<Edge> = (xs.iter().zip(&feet))
            .map(|(&x, &foot)| Edge { x, top: foot, foot })
            .collect();
        for spot in area.layer(layer) {
            if let Ok(at) = xs.binary_search_by(|x| x.total_cmp(&spot.x)) {
                edges[at].top += spot.y; // A gap is NaN and stays one.
            }
        }
        feet = edges.iter().map(|edge| edge.top).collect();
        out.push((area, edges));
    }
    out
}

/// The SVG of a panel with this many layers.
pub(super) fn svg(
    chart: &Chart,
    panel: &Panel,
    scales: &Scales,
    (panels, layers): (usize, usize),
) -> String {
    let (width, height) = extent(panels);
    let right = if scales.counts.is_some() {
        RIGHT_COUNTS
    } else {
        RIGHT
    };
    let frame = Frame {
        x: scales.x,
        left: LEFT,
        right: width - right,
        bottom: height - BOTTOM,
    };
    let label = format!("{}, {}", chart.alternative, panel.title);
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(label.trim_end_matches(", "))
    );
    frame.bands(&panel.bands, &mut out);
    if let Some(span) = &scales.counts {
        frame.counts(span, &panel.counts, &mut out);
    }
    frame.x_ticks(&chart.x, &mut out);
    for (layer, y) in scales.y.iter().enumerate().take(layers) {
        if layers > 1 {
            let _ = writeln!(out, "<g class=\"layer y{layer}\">");
        }
        frame.y_ticks(y, &chart.y, &mut out);
        for (area, edges) in stacked(panel, layer) {
            frame.area(y, area, &edges, &mut out);
        }
        for curve in panel.curves.iter().filter(|c| c.style != Style::Area) {
            frame.curve(y, curve, layer, &mut out);
        }
        if layers > 1 {
            out.push_str("</g>\n");
        }
    }
    frame.marks(&panel.marks, &mut out);
    frame.strips(chart, panel, scales, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Maps values to points of the drawing.
struct Frame {
    x: Span,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn x_at(&self, value: f64) -> f64 {
        self.left + self.x.place(value).clamp(0.0, 1.0) * (self.right - self.left)
    }

    fn y_at(&self, y: &Span, value: f64) -> f64 {
        TOP + (1.0 - y.place(value).clamp(-0.01, 1.01)) * (self.bottom - TOP)
    }

    fn bands(&self, bands: &[(f64, f64)], out: &mut String) {
        for &(from, to) in bands.iter().filter(|(from, to)| from < to) {
            let (from, to) = (self.x_at(from), self.x_at(to));
            let _ = writeln!(
                out,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                to - from,
                self.bottom - TOP
            );
        }
    }

    /// Grey bars, and their axis on the right.
    fn counts(&self, span: &Span, counts: &[(f64, f64)], out: &mut String) {
        let width = 0.7 * (self.right - self.left) / counts.len().max(4) as f64;
        for &(x, count) in counts {
            let (x, top) = (self.x_at(x), self.y_at(span, count));
            let _ = writeln!(
                out,
                "<rect class=\"count\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                (x - width / 2.0).max(self.left),
                self.bottom - top
            );
        }
        for value in span.ticks() {
            let _ = writeln!(
                out,
                "<text class=\"faint\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.right + 5.0,
                self.y_at(span, value) + 4.0,
                tick_text(value)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"faint\" transform=\"translate({:.1} {:.1}) rotate(90)\" text-anchor=\"middle\">values</text>",
            self.right + RIGHT_COUNTS - 10.0,
            f64::midpoint(TOP, self.bottom)
        );
    }

    fn x_ticks(&self, axis: &Axis, out: &mut String) {
        let ticks = self.x.named_ticks();
        let room = (self.right - self.left) / TICK_ROOM;
        let stride = (ticks.len() as f64 / room).ceil().max(1.0) as usize;
        for (value, text) in ticks.iter().step_by(stride) {
            let x = self.x_at(*value);
            let (text_x, anchor) = if self.right - x < NEAR {
                (self.right + RIGHT - 2.0, "end")
            } else {
                (x, "middle")
            };
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{text_x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                self.bottom,
                self.bottom + 5.0,
                self.bottom + 18.0,
                escaped(text)
            );
        }
        let _ = writeln!(
            out,
            "<rect class=\"frame\" x=\"{}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            self.left,
            self.right - self.left,
            self.bottom - TOP,
            f64::midpoint(self.left, self.right),
            self.bottom + 37.0,
            escaped(&axis.label)
        );
    }

    fn y_ticks(&self, y: &Span, axis: &Axis, out: &mut String) {
        for (value, text) in y.named_ticks() {
            let at = self.y_at(y, value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                self.left,
                self.right,
                self.left - 6.0,
                at + 4.0
            );
        }
        let _ = writeln!(
            out,
            "<text transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(TOP, self.bottom),
            escaped(&axis.label)
        );
    }

    fn area(&self, y: &Span, area: &Curve, edges: &[Edge], out: &mut String) {
        for run in edges.split(|edge| !edge.top.is_finite() || !self.x.takes(edge.x)) {
            // A single point is drawn as a narrow bar, so that it can be seen.
            let wide = if run.len() == 1 { 2.0 } else { 0.0 };
            let mut path = String::new();
            for edge in run {
                let at = self.y_at(y, edge.top);
                let x = self.x_at(edge.x);
                let _ = write!(path, "{:.1},{at:.1} ", x - wide);
                if wide > 0.0 {
                    let _ = write!(path, "{:.1},{at:.1} ", x + wide);
                }
            }
            for edge in run.iter().rev() {
                let at = self.y_at(y, edge.foot);
                let x = self.x_at(edge.x);
                let _ = write!(path, "{:.1},{at:.1} ", x + wide);
                if wide > 0.0 {
                    let _ = write!(path, "{:.1},{at:.1} ", x - wide);
                }
            }
            if !path.is_empty() {
                let _ = writeln!(
                    out,
                    "<polygon class=\"area c{}\" points=\"{path}\"/>",
                    area.colour % COLOURS
                );
            }
        }
    }

    /// Neighbouring strong points are joined. Weak points, and strong ones without neighbours, are drawn as marks.
    fn curve(&self, y: &Span, curve: &Curve, layer: usize, out: &mut String) {
        let class = curve_class(curve);
        let seen = |spot: &Spot| self.x.takes(spot.x) && y.takes(spot.y);
        let spots = curve.layer(layer);
        for run in spots.split(|spot| spot.is_weak || !seen(spot)) {
            match run {
                [] => {}
                [alone] => {
                    let (x, y) = (self.x_at(alone.x), self.y_at(y, alone.y));
                    let _ = writeln!(
                        out,
                        "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"/>"
                    );
                }
                run => {
                    let _ = write!(out, "<polyline class=\"curve {class}\" points=\"");
                    for spot in run {
                        let _ =
                            write!(out, "{:.1},{:.1} ", self.x_at(spot.x), self.y_at(y, spot.y));
                    }
                    out.push_str("\"/>\n");
                }
            }
        }
        for spot in spots.iter().filter(|spot| spot.is_weak && seen(spot)) {
            let (x, y) = (self.x_at(spot.x), self.y_at(y, spot.y));
            let _ = writeln!(
                out,
                "<circle class=\"hollow {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"/>"
            );
        }
    }

    fn marks(&self, marks: &[(f64, String)], out: &mut String) {
        let (low, high) = self.x.ends();
        let inside = marks.iter().filter(|(x, _)| (low..=high).contains(x));
        for (n, (value, name)) in inside.enumerate() {
            let x = self.x_at(*value);
            // Text at the right end is right-aligned, so that it stays inside.
            let (dx, anchor) = if x > self.right - 80.0 {
                (-3.0, " text-anchor=\"end\"")
            } else {
                (3.0, "")
            };
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text class=\"tick halo\" x=\"{:.1}\" y=\"{:.1}\"{anchor}>{}</text>",
                self.bottom,
                x + dx,
                TOP + 12.0 + (n % 3) as f64 * 13.0,
                escaped(name)
            );
        }
    }

    /// Invisible strips over the drawing, one for each x, with the values there as tooltips.
    fn strips(&self, chart: &Chart, panel: &Panel, scales: &Scales, out: &mut String) {
        let spots = panel.curves.iter().flat_map(|curve| curve.layer(0));
        let mut xs: Vec<f64> = spots
            .filter(|s| s.y.is_finite() && self.x.takes(s.x))
            .map(|s| s.x)
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        if xs.is_empty() || xs.len() > STRIPS_MAX {
            return;
        }
        for (n, &x) in xs.iter().enumerate() {
            let at = self.x_at(x);
            let before = if n == 0 {
                self.left
            } else {
                f64::midpoint(self.x_at(xs[n - 1]), at)
            };
            let after = match xs.get(n + 1) {
                Some(&next) => f64::midpoint(at, self.x_at(next)),
                None => self.right,
            };
            let mut text = scales.x.value_text(x);
            for curve in &panel.curves {
                said(chart, curve, x, &mut text);
            }
            let _ = writeln!(
                out,
                "<rect class=\"strip\" x=\"{before:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                (after - before).max(0.5),
                self.bottom - TOP,
                escaped(&text)
            );
        }
    }
}

/// Appends the curve's values at `x`, on one line.
fn said(chart: &Chart, curve: &Curve, x: f64, text: &mut String) {
    let at = |layer: usize| {
        let spots = curve.layer(layer).iter();
        spots
            .copied()
            .find(|spot| spot.x == x && spot.y.is_finite())
    };
    let Some(first) = at(0) else {
        return;
    };
    let _ = write!(text, "\n{}:", curve.name);
    if curve.layers.len() < 2 {
        let _ = write!(text, " {}", value_text(first.y));
    } else {
        let named = chart.statistics.iter().enumerate();
        let values = named.filter_map(|(layer, name)| at(layer).map(|spot| (name, spot.y)));
        let values = values.map(|(name, y)| format!(" {name} {}", value_text(y)));
        text.push_str(&values.collect::<Vec<_>>().join(","));
    }
    if let Some(count) = first.count {
        let _ = write!(text, " (of {count})");
    }
}

/// The CSS classes for a curve's colour and dashes.
pub(super) fn curve_class(curve: &Curve) -> String {
    let dash = match curve.style {
        Style::Line => "",
        Style::Dashed => " dashed",
        Style::Dotted => " dotted",
        Style::Area => " area",
    };
    format!("c{}{dash}", curve.colour % COLOURS)
}
