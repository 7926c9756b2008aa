//! The page: from reports of sources to charts and tables.
//!
//! Side by side (the usual way) each source has a panel in every figure, and a curve's colour says what the curve is about. With days over each other
//! each curve has a panel, and the colour says which day.
//!
//! Not known here: how anything is computed (crate `report`) or drawn (crate `page`).
//! Limits: [`MARKS_MAX`] marks a panel; the others are in no plot.

use page::chart::{COLOURS, Chart, Curve, Panel, Spot};
use page::{Axis, Page, Table, bytes_text, utc_text, value_text};
use report::model::{self, AxisKind, Figure, Form, Point, Role, SourceReport};

/// Marks of a panel: of more, they would only cover the curves.
const MARKS_MAX: usize = 8;
const DAY_S: f64 = 86_400.0;
/// The choices above a time plot. What a curve's value is (mostly its median) comes first.
const STATISTICS: [&str; 5] = ["median", "p90", "p95", "p99", "mean"];

/// How figures of several sources stand to each other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Each source has its own y axis.
    pub own_scales: bool,
    /// Days over each other on an axis of 24 hours.
    pub days: bool,
}

/// The whole page.
pub fn page(sources: &[SourceReport], layout: Layout) -> Page {
    let names: Vec<String> = sources.iter().map(called).collect();
    let mut page = Page::new(&format!("Report: {}", names.join(", ")));
    page.with_contents();
    for (source, name) in sources.iter().zip(&names) {
        page.text(&about(source, name));
    }
    for table in tables(sources) {
        page.table(&table);
    }
    let notes = cannot_tell(sources);
    if !notes.is_empty() {
        page.heading("What the sources could not tell");
        page.list(&notes);
    }
    page.heading("The figures of the paper");
    let mut is_ours = false;
    for figure in figures(sources) {
        if !is_ours && !is_of_paper(&figure.id) {
            is_ours = true;
            page.heading("Besides the paper");
        }
        page.chart(&chart(&figure.id, sources, layout));
    }
    page.heading("All measures");
    page.folded("The numbers", &[measures(sources)]);
    page
}

/// Name and level.
pub fn called(source: &SourceReport) -> String {
    match source.level {
        Some(level) => format!("{} ({})", source.name, super::args::level_name(level)),
        None => source.name.clone(),
    }
}

/// The source in a sentence.
pub fn about(source: &SourceReport, name: &str) -> String {
    let seconds = |us: u64| us as f64 / 1e6;
    if source.requests == 0 {
        return format!("{name}: no requests.");
    }
    let idle = source.slots.iter().filter(|slot| slot.is_idle).count();
    let mut out = format!(
        "{name}: {} requests from {} to {} UTC, in {} slots of {}",
        grouped(source.requests),
        utc_text(seconds(source.began_unix_us).floor()),
        utc_text(seconds(source.ended_unix_us).floor()),
        source.slots.len(),
        span_text(seconds(source.slot_us)),
    );
    if idle > 0 {
        out += &format!(", {idle} of them idle (grey, not in the medians of the day)");
    }
    out + "."
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn span_text(seconds: f64) -> String {
    if seconds >= 60.0 && seconds % 60.0 == 0.0 {
        format!("{} min", value_text(seconds / 60.0))
    } else {
        format!("{} s", value_text(seconds))
    }
}

/// Tables with the sources as columns.
pub fn tables(sources: &[SourceReport]) -> Vec<Table> {
    let mut ids: Vec<&str> = Vec::new();
    for table in sources.iter().flat_map(|source| &source.tables) {
        if !ids.contains(&table.id.as_str()) {
            ids.push(&table.id);
        }
    }
    ids.into_iter()
        .filter_map(|id| table(id, sources))
        .collect()
}

/// `None` if no source has a fact for it.
fn table(id: &str, sources: &[SourceReport]) -> Option<Table> {
    let of = |source: &SourceReport| source.tables.iter().find(|table| table.id == id).cloned();
    let columns: Vec<Option<model::Table>> = sources.iter().map(of).collect();
    let has_facts = |table: &&model::Table| !table.facts.is_empty();
    let first = columns.iter().flatten().find(has_facts)?;
    let caption = caption(first);
    let names: Vec<String> = sources.iter().map(called).collect();
    let mut heads = vec![""];
    heads.extend(names.iter().map(String::as_str));
    let mut facts: Vec<&str> = Vec::new();
    for fact in columns.iter().flatten().flat_map(|table| &table.facts) {
        if !facts.contains(&fact.name.as_str()) {
            facts.push(&fact.name);
        }
    }
    let mut out = Table::new(&caption, &heads);
    for name in facts {
        let value = |table: &Option<model::Table>| {
            let fact = table
                .as_ref()
                .and_then(|t| t.facts.iter().find(|f| f.name == name));
            fact.map_or("-".to_owned(), |fact| fact.value.clone())
        };
        out.row(std::iter::once(name.to_owned()).chain(columns.iter().map(value)));
    }
    Some(out)
}

fn caption(table: &model::Table) -> String {
    if is_of_paper(&table.id) {
        format!("Table {}. {}", table.id, table.title)
    } else {
        table.title.clone()
    }
}

/// Notes and troubles, in sentences.
pub fn cannot_tell(sources: &[SourceReport]) -> Vec<String> {
    let mut out = Vec::new();
    for source in sources {
        let name = called(source);
        out.extend(source.notes.iter().map(|note| format!("{name}: {note}")));
        for table in &source.tables {
            if let Some(why) = &table.not_recorded {
                out.push(format!("{name}: {}: {why}", caption(table)));
            }
        }
        let troubles = &source.troubles;
        if troubles.count > 0 {
            let more = troubles.count - troubles.first.len() as u64;
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            out.push(format!(
                "{name}: {} places could not be used, the rest was: {}{more}",
                troubles.count,
                troubles.first.join("; ")
            ));
        }
    }
    out
}

/// `1` to `25`, `24b`.
pub fn is_of_paper(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_digit())
}

/// The figures of all sources, in order: each as the first source has it that has it.
pub fn figures(sources: &[SourceReport]) -> Vec<&Figure> {
    let mut out: Vec<&Figure> = Vec::new();
    for figure in sources.iter().flat_map(|source| &source.figures) {
        if !out.iter().any(|other| other.id == figure.id) {
            out.push(figure);
        }
    }
    out
}

/// `Figure 7. Document and byte hit ratio`.
fn title(figure: &Figure) -> String {
    if is_of_paper(&figure.id) {
        format!("Figure {}. {}", figure.id, figure.title)
    } else {
        figure.title.clone()
    }
}

fn chart(id: &str, sources: &[SourceReport], layout: Layout) -> Chart {
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

/// What the drawing shows, for those who do not see it.
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
        return panel.without("no request of this source had this");
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
                figure.not_recorded.as_deref().or(curve)
            });
            panel = panel.without(why.unwrap_or("no request had this"));
        }
        panels.push(panel);
    }
    if panels.is_empty() {
        let why = with
            .iter()
            .find_map(|(_, _, figure)| figure.not_recorded.as_deref());
        panels.push(Panel::new("").without(why.unwrap_or("no request had this")));
    }
    panels
}

/// Colour and line: 0 whole, 1 dashed, 2 dotted.
type Look = (usize, usize);

fn drawn(form: Form, name: &str, (colour, line): Look, layers: Vec<Vec<Spot>>) -> Curve {
    match (form, line) {
        (Form::Stacked, _) => Curve::area(name, colour, layers),
        (_, 0) => Curve::line(name, colour, layers),
        (_, 1) => Curve::dashed(name, colour, layers),
        _ => Curve::dotted(name, colour, layers),
    }
}

/// The colour that its role has on the whole page; in a figure with several curves of a role, other lines.
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
                // Nothing is joined over slots without a value, nor over midnight.
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

/// By [`STATISTICS`].
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

/// What happened while requests were served; where it began is no news.
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

/// All measures, with the quartiles over the slots.
pub fn measures(sources: &[SourceReport]) -> Table {
    let mut heads = vec!["measure".to_owned(), "unit".to_owned()];
    for source in sources {
        heads.push(called(source));
        heads.push("quartiles of the slots".to_owned());
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("", &heads);
    let Some(first) = sources.first() else {
        return table;
    };
    for measured in &first.measures {
        let mut cells = vec![measured.name.clone(), measured.unit.clone()];
        for source in sources {
            let here = source.measure(&measured.id);
            cells.push(
                here.and_then(|m| m.value)
                    .map_or("-".to_owned(), value_text),
            );
            let quartiles = here.and_then(|m| m.quartiles);
            cells.push(quartiles.map_or(String::new(), |q| q.map(value_text).join(" / ")));
        }
        table.row(cells);
    }
    table
}
