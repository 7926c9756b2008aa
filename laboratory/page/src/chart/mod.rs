//! Charts: one figure of several proxies or days, as small panels side by side on one scale.
//!
//! A [`Chart`] has more than a [`crate::Plot`]: an anchor, an alternative text, a panel for each source, several statistics of one curve
//! from which the reader chooses (`layers`), points that are based on too few values, bands without activity, stacked areas,
//! remarks, and tables of the data. Without scripts the first statistic is visible; `script.js` lets the reader choose.
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
//! Limits: [`STRIPS_MAX`] values of x in a panel have tooltips; tables are not cut.

mod drawing;
mod file;
mod html;

pub(crate) use self::html::{CHART_DARK, CHART_DRAWING, CHART_SCRIPT, CHART_STYLE};
use crate::{Axis, Table};

/// Values of x in a panel that have tooltips; a panel with more has no tooltips.
pub const STRIPS_MAX: usize = 300;

/// Number of colours. `Curve::colour` counts them in order; after the last one the first follows.
pub const COLOURS: usize = 8;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis; NaN is a gap in the curve.
    pub y: f64,
    /// Based on too few values: drawn hollow, not joined to its neighbours.
    pub is_weak: bool,
    /// The number of values behind the point, if it is shown.
    pub count: Option<u64>,
}

impl Spot {
    /// A point based on enough values.
    pub fn new(x: f64, y: f64) -> Spot {
        Spot {
            x,
            y,
            is_weak: false,
            count: None,
        }
    }

    /// A gap in the curve at `x`.
    pub fn gap(x: f64) -> Spot {
        Spot::new(x, f64::NAN)
    }

    /// Marks the point as based on too few values.
    #[must_use]
    pub fn weak(mut self) -> Spot {
        self.is_weak = true;
        self
    }

    /// Sets the number of values behind the point.
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
    /// Stacked on the areas before it.
    Area,
}

/// One curve of a panel, in one or more statistics.
#[derive(Debug, Clone)]
pub struct Curve {
    name: String,
    colour: usize,
    style: Style,
    /// One for each of [`Chart::statistics`]; a single layer is shown with all of them.
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

    /// Points joined in the order given. Curves with the same name and colour in several panels share one entry in the legend.
    pub fn line(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Line, layers)
    }

    /// A dashed line: the same quantity from another point of view.
    pub fn dashed(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Dashed, layers)
    }

    /// A dotted line, for where colours and dashes are not enough.
    pub fn dotted(name: &str, colour: usize, layers: Vec<Vec<Spot>>) -> Curve {
        Curve::new(name, colour, Style::Dotted, layers)
    }

    /// An area that is stacked on those before it in the panel.
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
    /// A panel without curves.
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

    /// Sets the colour of the source, shown in front of the title.
    #[must_use]
    pub fn colour(mut self, colour: usize) -> Panel {
        self.colour = Some(colour);
        self
    }

    /// Adds a curve.
    #[must_use]
    pub fn curve(mut self, curve: Curve) -> Panel {
        self.curves.push(curve);
        self
    }

    /// Sets the numbers of values behind the points, drawn in grey against an axis on the right.
    #[must_use]
    pub fn counts(mut self, counts: Vec<(f64, f64)>) -> Panel {
        self.counts = counts;
        self
    }

    /// Sets ranges of the x axis with (almost) no activity, drawn in grey.
    #[must_use]
    pub fn bands(mut self, bands: Vec<(f64, f64)>) -> Panel {
        self.bands = bands;
        self
    }

    /// Marks an event at `x`.
    #[must_use]
    pub fn mark(mut self, x: f64, name: &str) -> Panel {
        self.marks.push((x, name.to_owned()));
        self
    }

    /// Shows this text instead of a drawing: the reason why there is none.
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

/// A figure with one or more panels.
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
    /// A chart without panels. `id` is the anchor: small letters, digits, hyphens.
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

    /// Describes the drawing in words, for readers who cannot see it.
    #[must_use]
    pub fn alternative(mut self, text: &str) -> Chart {
        self.alternative = text.to_owned();
        self
    }

    /// Sets the names of the curves' layers. The reader chooses one; without scripts the first is visible.
    #[must_use]
    pub fn statistics(mut self, names: &[&str]) -> Chart {
        self.statistics = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Adds a panel.
    #[must_use]
    pub fn with(mut self, panel: Panel) -> Chart {
        self.panels.push(panel);
        self
    }

    /// Lets each panel have a y axis that fits its own values.
    #[must_use]
    pub fn own_scales(mut self, own: bool) -> Chart {
        self.own_scales = own;
        self
    }

    /// Adds a remark to the drawing: a term, and its explanation.
    #[must_use]
    pub fn remark(mut self, term: &str, text: &str) -> Chart {
        self.remarks.push((term.to_owned(), text.to_owned()));
        self
    }

    /// Adds a table of the data, which the reader can unfold.
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
