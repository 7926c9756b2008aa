//! Charts: one figure of several proxies or days, as small drawings side by side on one scale, with what belongs to it.
//!
//! A [`Chart`] is more than a [`crate::Plot`]: it has an anchor, an alternative text, a panel for each source, several statistics of one
//! curve of which the reader chooses (`layers`), points that are based on too little, bands in which nothing happened, stacked areas,
//! remarks, and the tables behind it. Without scripts the first statistic is seen; `script.js` lets the reader choose.
//!
//! ```
//! use page::chart::{Chart, Curve, Panel, Spot};
//! use page::Axis;
//!
//! let hits = Curve::line("hits", 0, vec![vec![Spot::new(1.0, 2.0), Spot::new(2.0, 5.0).weak()]]);
//! let chart = Chart::new("figure-5", "Response time", Axis::utc("time of day (UTC)"), Axis::linear("ms"))
//!     .with(Panel::new("leaf").curve(hits));
//! assert!(page::Page::new("A report").chart(&chart).html().contains("id=\"figure-5\""));
//! ```
//!
//! Not known here: what is measured; how shapes are drawn (`drawing`).
//! Limits: [`STRIPS_MAX`] places of a panel say their values under the mouse; tables are not cut.

mod drawing;
mod file;
mod html;

pub(crate) use self::html::{CHART_DARK, CHART_DRAWING, CHART_SCRIPT, CHART_STYLE};
use crate::{Axis, Table};

/// Places of a panel that say their values under the mouse; a panel with more places says none.
pub const STRIPS_MAX: usize = 300;

/// The first colours, in order, are those of `Curve::colour`; they come again after so many.
pub const COLOURS: usize = 8;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Where on the x axis.
    pub x: f64,
    /// Where on the y axis; not a number: a gap in the curve.
    pub y: f64,
    /// Based on too few values: drawn hollow, not joined to its neighbours.
    pub is_weak: bool,
    /// Of how many values, if that is to be said.
    pub count: Option<u64>,
}

impl Spot {
    /// A point that can be relied on.
    pub fn new(x: f64, y: f64) -> Spot {
        Spot {
            x,
            y,
            is_weak: false,
            count: None,
        }
    }

    /// The curve is interrupted at `x`.
    pub fn gap(x: f64) -> Spot {
        Spot::new(x, f64::NAN)
    }

    /// The same, based on too few values.
    #[must_use]
    pub fn weak(mut self) -> Spot {
        self.is_weak = true;
        self
    }

    /// The same, with the number of values it is made of.
    #[must_use]
    pub fn of(mut self, count: u64) -> Spot {
        self.count = Some(count);
        self
    }
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Line,
    Dashed,
    Dotted,
    /// On top of the areas before it.
    Area,
}

/// One curve of a panel, in one or more statistics.
#[derive(Debug, Clone)]
pub struct Curve {
    name: String,
    colour: usize,
    style: Style,
    /// By [`Chart::statistics`]; a single one is seen with each.
    layers: Vec<Vec<Spot>>,
}

impl Curve {
    fn new(name: &str, colour: usize, style: Style, layers: Vec<Vec<Spot>>) -> Curve {
        Curve {
            name: name.to_owned(),
            colour,
            style,
            layers,
        }
    }

    /// Points joined in the order given. Curves of one name and colour in several panels have one entry in the legend.
    pub fn line(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Line, layers)
    }

    /// A dashed line: the same from another point of view.
    pub fn dashed(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Dashed, layers)
    }

    /// A dotted line: where colour and dashes are not enough.
    pub fn dotted(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Dotted, layers)
    }

    /// An area on top of those before it in the panel.
    pub fn area(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Area, layers)
    }

    fn layer(&self, nth: usize) -> &[Spot] {
        match self.layers.as_slice() {
            [only] => only,
            layers => layers.get(nth).map_or(&[], Vec::as_slice),
        }
    }
}

/// One drawing of a chart: a source, or a day.
#[derive(Debug, Clone)]
pub struct Panel {
    title: String,
    colour: Option<usize>,
    curves: Vec<Curve>,
    counts: Vec<(f64, f64)>,
    bands: Vec<(f64, f64)>,
    marks: Vec<(f64, String)>,
    note: Option<String>,
}

impl Panel {
    /// Without curves.
    pub fn new(title: &str) -> Panel {
        Panel {
            title: title.to_owned(),
            colour: None,
            curves: Vec::new(),
            counts: Vec::new(),
            bands: Vec::new(),
            marks: Vec::new(),
            note: None,
        }
    }

    /// The source's colour, in front of the title.
    #[must_use]
    pub fn colour(mut self, colour: usize) -> Panel {
        self.colour = Some(colour);
        self
    }

    /// One more curve.
    #[must_use]
    pub fn curve(mut self, curve: Curve) -> Panel {
        self.curves.push(curve);
        self
    }

    /// On how many values the points are based, in grey against an axis of its own to the right.
    #[must_use]
    pub fn counts(mut self, counts: Vec<(f64, f64)>) -> Panel {
        self.counts = counts;
        self
    }

    /// From where to where on the x axis (almost) nothing happened: grey.
    #[must_use]
    pub fn bands(mut self, bands: Vec<(f64, f64)>) -> Panel {
        self.bands = bands;
        self
    }

    /// Something happened at `x`.
    #[must_use]
    pub fn mark(mut self, x: f64, name: &str) -> Panel {
        self.marks.push((x, name.to_owned()));
        self
    }

    /// Said in place of a drawing: why there is none.
    #[must_use]
    pub fn without(mut self, why: &str) -> Panel {
        self.note = Some(why.to_owned());
        self
    }

    fn is_drawn(&self) -> bool {
        self.note.is_none()
    }

    fn spots(&self, layer: usize) -> impl Iterator<Item = Spot> + '_ {
        self.curves
            .iter()
            .flat_map(move |curve| curve.layer(layer).iter().copied())
    }
}

/// A figure.
#[derive(Debug, Clone)]
pub struct Chart {
    id: String,
    title: String,
    alternative: String,
    x: Axis,
    y: Axis,
    statistics: Vec<String>,
    panels: Vec<Panel>,
    own_scales: bool,
    remarks: Vec<(String, String)>,
    tables: Vec<Table>,
}

impl Chart {
    /// Without panels. `id` is the anchor: small letters, digits, hyphens.
    pub fn new(id: &str, title: &str, x: Axis, y: Axis) -> Chart {
        Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            alternative: title.to_owned(),
            x,
            y,
            statistics: Vec::new(),
            panels: Vec::new(),
            own_scales: false,
            remarks: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// What the drawing shows, in words, for those who do not see it.
    #[must_use]
    pub fn alternative(mut self, text: &str) -> Chart {
        self.alternative = text.to_owned();
        self
    }

    /// The names of the curves' layers, of which the reader chooses one; the first is seen without scripts.
    #[must_use]
    pub fn statistics(mut self, names: &[&str]) -> Chart {
        self.statistics = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// One more panel.
    #[must_use]
    pub fn with(mut self, panel: Panel) -> Chart {
        self.panels.push(panel);
        self
    }

    /// Each panel has a y axis that fits its own values.
    #[must_use]
    pub fn own_scales(mut self, own: bool) -> Chart {
        self.own_scales = own;
        self
    }

    /// Something to be read with the drawing: a term, and what is said under it.
    #[must_use]
    pub fn remark(mut self, term: &str, text: &str) -> Chart {
        self.remarks.push((term.to_owned(), text.to_owned()));
        self
    }

    /// The numbers behind the drawing, folded.
    #[must_use]
    pub fn table(mut self, table: Table) -> Chart {
        self.tables.push(table);
        self
    }

    /// The anchor.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The heading.
    pub fn title(&self) -> &str {
        &self.title
    }

    fn layers(&self) -> usize {
        self.statistics.len().max(1)
    }
}

#[cfg(test)]
mod tests;
