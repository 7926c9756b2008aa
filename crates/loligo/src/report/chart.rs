//! A figure of all sources as a chart.
//!
//! Side by side (the default) each source has a panel, and the colour of a curve shows its role. With days over each other
//! each curve has a panel, and the colour shows the source (the day).
//!
//! Not known here: how anything is computed (crate `report`) or drawn (crate `page`).
//! Limits: [`MARKS_MAX`] marks a panel; others are not drawn.

use page::chart::{COLOURS, Chart, Curve, Panel, Spot};
use page::{Axis, Table, bytes_text, utc_text, value_text};
use report::model::{self, AxisKind, Figure, Form, Point, Role, SourceReport};

use super::names::{called, title};

/// The most marks of a panel: more would only cover the curves.
const MARKS_MAX: usize = 8;

const DAY_S: f64 = 86_400.0;

/// The choices above a time plot. The curve's own value (mostly its median) comes first.
const STATISTICS: [&str; 5] = ["median", "p90", "p95", "p99", "mean"];

/// The layout of figures with several sources.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Each source has its own y axis.
    pub own_scales: bool,
    /// Days over each other on an axis of 24 hours.
    pub days: bool,
}

/// The chart of the figure with this id, which at least one source has.
pub fn chart(id: &str, sources: &[SourceReport], layout: Layout) -> Chart {
    let with: Vec<(usize, &SourceReport, &Figure)> = (sources.iter().enumerate())
        .filter_map(|(nth, source)| Some((nth, source, source.figure(id)?)))
        .collect();
    let (_, _, first) = with[0];
    let is_timed = first.x.kind == AxisKind::TimeUtc;
    let on_days = layout.days && is_timed;
    let label = |axis: &model::Axis| axis.label.clone();
    let x = if on_days {
        Axis::of_day(&label(&first.x))
    } else {
        axis(&first.x)
    };
    let mut chart = Chart::new(&format!("figure-{id}"), &title(first), x, axis(&first.y))
        .alternative(&alternative(first))
        .own_scales(layout.own_scales);
    let curves = || with.iter().flat_map(|(_, _, figure)| &figure.curves);
    if is_timed && curves().flat_map(|c| &c.points).any(|p| p.spread.is_some()) {
        chart = chart.statistics(&STATISTICS);
    }
    let can_overlay = layout.days && first.form != Form::Stacked && sources.len() > 1;
    let panels = if can_overlay {
        overlays(&with, on_days)
    } else {
        (with.iter())
            .map(|(nth, source, figure)| {
                if sources.len() > 1 {
                    let panel = Panel::new(&called(source)).colour(*nth);
                    beside(panel, source, figure, on_days)
                } else {
                    beside(Panel::new(""), source, figure, on_days)
                }
            })
            .collect()
    };
    for panel in panels {
        chart = chart.with(panel);
    }
    for (term, text) in remarks(&with, sources.len() > 1) {
        chart = chart.remark(&term, &text);
    }
    for (_, source, figure) in &with {
        if figure.not_recorded.is_none() {
            chart = chart.table(numbers(source, figure));
        }
    }
    chart
}

fn axis(axis: &model::Axis) -> Axis {
    match axis.kind {
        AxisKind::TimeUtc => Axis::utc(&axis.label),
        AxisKind::LogBytes => Axis::bytes(&axis.label),
        AxisKind::Log => Axis::log(&axis.label),
        AxisKind::Linear => Axis::linear(&axis.label),
        AxisKind::Percent => Axis::linear(&axis.label).showing(100.0),
    }
}

/// The alternative text of the drawing.
fn alternative(figure: &Figure) -> String {
    let names: Vec<&str> = figure.curves.iter().map(|c| c.name.as_str()).collect();
    format!(
        "{}: {} over {}; curves: {}",
        title(figure),
        figure.y.label,
        figure.x.label,
        names.join(", ")
    )
}

/// The panel of a source; its curves differ in colour.
fn beside(mut panel: Panel, source: &SourceReport, figure: &Figure, on_days: bool) -> Panel {
    if let Some(why) = &figure.not_recorded {
        return panel.without(why);
    }
    let mut used = Vec::new();
    for curve in figure.curves.iter().filter(|c| !c.points.is_empty()) {
        let look = look(curve, &mut used);
        let layers = layers(curve, figure, source, on_days);
        panel = panel.curve(drawn(figure.form, &curve.name, look, layers));
    }
    if figure.curves.iter().all(|curve| curve.points.is_empty()) {
        return panel.without(why_empty(figure));
    }
    if figure.form == Form::OverSize {
        panel = panel.counts(counts(figure));
    }
    if figure.x.kind == AxisKind::TimeUtc && !on_days {
        panel = panel.bands(idle(source));
        for (at, kind) in marks(source) {
            panel = panel.mark(at, &kind);
        }
    }
    panel
}

/// Why a figure has no points.
fn why_empty(figure: &Figure) -> &str {
    let why = figure.not_recorded.as_ref().or(figure.empty.as_ref());
    why.map_or("no request of this source had this", String::as_str)
}

/// A panel for each curve; sources differ in colour.
fn overlays(with: &[(usize, &SourceReport, &Figure)], on_days: bool) -> Vec<Panel> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for curve in with.iter().flat_map(|(_, _, figure)| &figure.curves) {
        if !names.iter().any(|(id, _)| *id == curve.id) {
            names.push((&curve.id, &curve.name));
        }
    }
    let mut panels = Vec::new();
    for (id, name) in names {
        let mut panel = Panel::new(name);
        let mut is_empty = true;
        for (nth, source, figure) in with {
            let found = figure.curve(id).filter(|curve| !curve.points.is_empty());
            if let Some(curve) = found {
                let look = (*nth % COLOURS, nth / COLOURS);
                let layers = layers(curve, figure, source, on_days);
                panel = panel.curve(drawn(figure.form, &called(source), look, layers));
                is_empty = false;
            }
        }
        if is_empty {
            let why = with.iter().find_map(|(_, _, figure)| {
                let curve = figure.curve(id).and_then(|c| c.not_recorded.as_deref());
                let whole = figure.not_recorded.as_deref();
                whole.or(curve).or(figure.empty.as_deref())
            });
            panel = panel.without(why.unwrap_or("no request had this"));
        }
        panels.push(panel);
    }
    if panels.is_empty() {
        let (_, _, first) = with[0];
        panels.push(Panel::new("").without(why_empty(first)));
    }
    panels
}

/// Colour and line: 0 solid, 1 dashed, 2 dotted.
type Look = (usize, usize);

fn drawn(form: Form, name: &str, (colour, line): Look, layers: Vec<Vec<Spot>>) -> Curve {
    match (form, line) {
        (Form::Stacked, _) => Curve::area(name, colour, layers),
        (_, 0) => Curve::line(name, colour, layers),
        (_, 1) => Curve::dashed(name, colour, layers),
        _ => Curve::dotted(name, colour, layers),
    }
}

/// The colour of the curve's role, the same on the whole page; several curves of a role in a figure differ in their lines.
fn look(curve: &model::Curve, used: &mut Vec<Look>) -> Look {
    let colour = colour(curve.role);
    let first = usize::from(curve.is_dashed);
    let of_role = (first..3).map(|line| (colour, line));
    let others = (0..COLOURS).map(|colour| (colour, first));
    let free = of_role.chain(others).find(|look| !used.contains(look));
    let look = free.unwrap_or((colour, first));
    used.push(look);
    look
}

fn colour(role: Role) -> usize {
    match role {
        Role::All | Role::SwapAll | Role::Disk | Role::ProxyReply => 0,
        Role::Miss | Role::SwapOut | Role::ServerReply | Role::Memory => 1,
        Role::Hit | Role::SwapIn | Role::Ims => 2,
        Role::Collapsed | Role::Wait | Role::Aborted => 3,
        Role::ClientConnect | Role::Reused => 5,
        Role::Uncachable | Role::ProxyConnect => 4,
        Role::Negative | Role::Dns | Role::Error => 6,
        Role::Other | Role::Tunnel | Role::Peer | Role::Device | Role::Rest => 7,
    }
}

/// The curve's statistics, its value first.
fn layers(
    curve: &model::Curve,
    figure: &Figure,
    source: &SourceReport,
    on_days: bool,
) -> Vec<Vec<Spot>> {
    let has_spread = curve.points.iter().any(|point| point.spread.is_some());
    let is_timed = figure.x.kind == AxisKind::TimeUtc;
    let number = if has_spread && is_timed {
        STATISTICS.len()
    } else {
        1
    };
    let slot_s = source.slot_us as f64 / 1e6;
    let step = if is_timed { slot_s } else { f64::INFINITY };
    (0..number)
        .map(|nth| {
            let mut out: Vec<Spot> = Vec::new();
            let mut before = f64::NEG_INFINITY;
            for point in &curve.points {
                let shift = if is_timed { slot_s / 2.0 } else { 0.0 };
                let x = point.x + shift;
                let shown = if on_days { x.rem_euclid(DAY_S) } else { x };
                // The line has a gap at slots without a value, and at midnight.
                let is_wrapped = on_days && (x / DAY_S).floor() != (before / DAY_S).floor();
                if before.is_finite() && (x - before > 1.5 * step || is_wrapped) {
                    out.push(Spot::gap(shown));
                }
                before = x;
                let mut spot = Spot::new(shown, statistic(point, nth)).of(point.count);
                spot.is_weak = point.is_hollow;
                out.push(spot);
            }
            out
        })
        .collect()
}

/// The value of a point for one of [`STATISTICS`].
fn statistic(point: &Point, nth: usize) -> f64 {
    match (nth, &point.spread) {
        (0, _) => point.value,
        (_, None) => f64::NAN,
        (1, Some(spread)) => spread.p90,
        (2, Some(spread)) => spread.p95,
        (3, Some(spread)) => spread.p99,
        (_, Some(spread)) => spread.mean,
    }
}

/// The number of values of all curves at each size.
fn counts(figure: &Figure) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for point in figure.curves.iter().flat_map(|curve| &curve.points) {
        match out.iter_mut().find(|(x, _)| *x == point.x) {
            Some((_, count)) => *count += point.count as f64,
            None => out.push((point.x, point.count as f64)),
        }
    }
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

/// Runs of idle slots, in seconds since 1970.
fn idle(source: &SourceReport) -> Vec<(f64, f64)> {
    let slot_s = source.slot_us as f64 / 1e6;
    let mut out: Vec<(f64, f64)> = Vec::new();
    for slot in source.slots.iter().filter(|slot| slot.is_idle) {
        let from = slot.start_unix_us as f64 / 1e6;
        match out.last_mut() {
            Some(last) if (last.1 - from).abs() < 1e-3 => last.1 = from + slot_s,
            _ => out.push((from, from + slot_s)),
        }
    }
    out
}

/// The first marks between the beginning and the end of a source, without those in half a slot at either end.
fn marks(source: &SourceReport) -> Vec<(f64, String)> {
    let (from, to) = (source.began_unix_us, source.ended_unix_us);
    let inside = source.marks.iter().filter(|mark| {
        mark.at_unix_us > from.saturating_add(source.slot_us / 2)
            && mark.at_unix_us < to.saturating_sub(source.slot_us / 2)
    });
    let mut out: Vec<(f64, String)> = Vec::new();
    for mark in inside {
        let at = mark.at_unix_us as f64 / 1e6;
        // A long text is in several marks of one time.
        if !out
            .iter()
            .any(|(other, kind)| *other == at && *kind == mark.kind)
        {
            out.push((at, mark.kind.clone()));
        }
    }
    out.truncate(MARKS_MAX);
    out
}

fn remarks(with: &[(usize, &SourceReport, &Figure)], has_names: bool) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let (_, _, first) = with[0];
    if !first.paper_saw.is_empty() {
        out.push(("the paper saw".to_owned(), first.paper_saw.clone()));
    }
    for (_, source, figure) in with {
        let name = if has_names {
            called(source)
        } else {
            "here".to_owned()
        };
        if !figure.ours.is_empty() {
            out.push((name.clone(), figure.ours.clone()));
        }
        let missing = figure.curves.iter().filter(|c| c.not_recorded.is_some());
        let missing: Vec<&str> = missing.map(|curve| curve.name.as_str()).collect();
        if !missing.is_empty() && figure.not_recorded.is_none() {
            let text = format!("not recorded by this source: {}", missing.join(", "));
            out.push((name.clone(), text));
        }
        let is_drawn = figure.not_recorded.is_none() && figure.empty.is_none();
        let without = (figure.curves.iter())
            .filter(|curve| is_drawn && curve.points.is_empty() && curve.not_recorded.is_none());
        let without: Vec<&str> = without.map(|curve| curve.name.as_str()).collect();
        if !without.is_empty() {
            let text = format!("no request had this: {}", without.join(", "));
            out.push((name, text));
        }
    }
    let mut notes: Vec<&String> = Vec::new();
    for note in with.iter().flat_map(|(_, _, figure)| &figure.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    out.extend(
        notes
            .into_iter()
            .map(|note| ("note".to_owned(), note.clone())),
    );
    out
}

/// The points behind the curves of one source.
fn numbers(source: &SourceReport, figure: &Figure) -> Table {
    let is_timed = figure.x.kind == AxisKind::TimeUtc;
    let curves: Vec<&model::Curve> = (figure.curves.iter())
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let mut heads: Vec<String> = vec![figure.x.label.clone()];
    let mut columns: Vec<(&model::Curve, usize)> = Vec::new();
    for curve in &curves {
        let has_spread = is_timed && curve.points.iter().any(|p| p.spread.is_some());
        let number = if has_spread { STATISTICS.len() } else { 1 };
        for (nth, name) in STATISTICS.iter().enumerate().take(number) {
            columns.push((curve, nth));
            heads.push(match (number, nth) {
                (1, _) => curve.name.clone(),
                (_, 0) => format!("{}: {name}", curve.name),
                _ => (*name).to_owned(),
            });
        }
        columns.push((curve, STATISTICS.len()));
        heads.push("values".to_owned());
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&called(source), &heads);
    let mut xs: Vec<f64> = curves
        .iter()
        .flat_map(|c| c.points.iter().map(|p| p.x))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    for x in xs {
        let cell = |(curve, nth): &(&model::Curve, usize)| {
            let at = curve.points.binary_search_by(|p| p.x.total_cmp(&x));
            let Ok(at) = at else {
                return String::new();
            };
            let point = &curve.points[at];
            if *nth == STATISTICS.len() {
                return point.count.to_string();
            }
            let value = statistic(point, *nth);
            if value.is_finite() {
                value_text(value)
            } else {
                String::new()
            }
        };
        table.row(std::iter::once(x_text(figure, x)).chain(columns.iter().map(cell)));
    }
    table
}

fn x_text(figure: &Figure, x: f64) -> String {
    match figure.x.kind {
        AxisKind::TimeUtc => utc_text(x),
        AxisKind::LogBytes => bytes_text(x),
        _ => value_text(x),
    }
}
