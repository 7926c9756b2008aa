//! The screen of a state: a pure function.
//!
//! ```text
//! Loligo 0.1.0  http://127.0.0.1:3129  running for 2 h     the proxy
//! req/s 1,234     hits 63.2 % ...                       four lines of figures
//! ▁▂▃▅▂                                                    requests of the last two minutes
//!  hosts  keys  origins  classes  stages                   tabs
//! host                      requests v   misses   bytes    the table
//! ...
//! q quit  tab table  s sort  p pause  ? help               keys, or what is wrong
//! ```
//!
//! If the screen is too small, the trend is left out first, then lines of the table. Limits: any size; below [`WIDTH_MIN`] or
//! [`HEIGHT_MIN`] only a message about the size is shown.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Sparkline, Wrap};

use crate::top::live::Live;
use crate::top::state::State;
use crate::top::tables::{Kind, Table, summary, table};
use crate::top::words::{harmless, rate, shortened, span};

/// Columns below which nothing can be read.
const WIDTH_MIN: u16 = 40;
/// Lines below which nothing can be read.
const HEIGHT_MIN: u16 = 10;
/// The fewest lines with which the trend is shown.
const HEIGHT_OF_TREND: u16 = 18;
const TREND_LINES: u16 = 3;
const FIGURE_LINES: u16 = 4;
/// Columns of a figure; a longer one takes twice as many.
const FIGURE_WIDTH: usize = 16;
/// The narrowest column of names.
const NAME_MIN: usize = 12;
/// The narrowest column of names in a table with [`Table::is_narrow`].
const NARROW_NAME_MIN: usize = 9;

const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws the state.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let words = format!("{WIDTH_MIN} x {HEIGHT_MIN} are needed");
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let has_trend = area.height >= HEIGHT_OF_TREND;
    let [title, figures, trend, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(FIGURE_LINES),
        Constraint::Length(if has_trend { TREND_LINES + 1 } else { 0 }),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title_line(state), title);
    if let Some(live) = &state.live {
        frame.render_widget(Paragraph::new(figure_lines(live)), figures);
        if has_trend {
            draw_trend(live, trend, frame);
        }
        frame.render_widget(tab_line(state), tabs);
        let table = table(state.shown, live, state.sort());
        frame.render_widget(Paragraph::new(table_lines(&table, state, body)), body);
    }
    frame.render_widget(foot_line(state), foot);
    if state.helps {
        draw_help(area, frame);
    }
}

fn title_line(state: &State) -> Line<'static> {
    let mut spans = vec![Span::styled("Loligo", STRONG)];
    if let Some(live) = &state.live {
        spans.push(format!(" {}", harmless(&live.version)).into());
        spans.push(Span::styled(format!("  {}  ", state.url), QUIET));
        let phase = format!("{} for {}", harmless(&live.phase), span(live.uptime_s));
        let style = if live.phase == "running" {
            Style::new()
        } else {
            BAD
        };
        spans.push(Span::styled(phase, style));
        spans.push(Span::styled(format!("  {} workers", live.workers), QUIET));
    } else {
        spans.push(Span::styled(format!("  {}", state.url), QUIET));
    }
    if state.is_paused {
        spans.push("  ".into());
        spans.push(" paused ".reversed());
    }
    Line::from(spans)
}

fn figure_lines(live: &Live) -> Vec<Line<'static>> {
    let line = |figures: Vec<(&'static str, String)>| {
        let mut spans = Vec::new();
        for (name, value) in figures {
            let style = match name {
                "NOT STORING" => BAD,
                _ => QUIET,
            };
            // Align in columns, with at least one blank, so that the words do not move.
            let used = name.len() + 1 + value.chars().count();
            let width = (used + 1).next_multiple_of(FIGURE_WIDTH) - name.len() - 1;
            spans.push(Span::styled(format!("{name} "), style));
            spans.push(Span::styled(format!("{value:<width$}"), STRONG));
        }
        Line::from(spans)
    };
    summary(live).into_iter().map(line).collect()
}

fn draw_trend(live: &Live, area: Rect, frame: &mut Frame<'_>) {
    let all = &live.trend.requests_per_s;
    let shown = &all[all.len().saturating_sub(usize::from(area.width))..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let title = format!(
        "requests a second, the last {} s, at most {}",
        shown.len(),
        rate(most)
    );
    // The chart takes whole numbers; scale, so that a rate below one is still visible.
    let scale = if most > 0.0 { 10_000.0 / most } else { 0.0 };
    // The present is at the right edge, even when there are few values.
    let unknown = usize::from(area.width).saturating_sub(shown.len());
    let heights = std::iter::repeat_n(0.0, unknown).chain(shown.iter().copied());
    let heights: Vec<u64> = heights.map(|n| (n.max(0.0) * scale) as u64).collect();
    let [head, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Span::styled(title, QUIET), head);
    let trend = Sparkline::default()
        .data(heights)
        .max(10_000)
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(trend, bars);
}

fn tab_line(state: &State) -> Line<'static> {
    let mut spans = Vec::new();
    for kind in Kind::shown(state.live.as_ref()) {
        let title = format!(" {} ", kind.title());
        spans.push(match kind == state.shown {
            true => title.reversed(),
            false => Span::styled(title, QUIET),
        });
        spans.push(" ".into());
    }
    Line::from(spans)
}

/// The table in an area: head, note, and the rows that fit.
fn table_lines(table: &Table, state: &State, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let widths = widths(table, width);
    let head = table.columns.iter().enumerate().map(|(at, name)| {
        let mark = if at == table.sorted_by { " v" } else { "" };
        let cell = fitted(&format!("{name}{mark}"), at, &widths);
        Span::styled(cell, if mark.is_empty() { QUIET } else { STRONG })
    });
    let mut lines = vec![Line::from(head.collect::<Vec<_>>())];
    let note = wrapped(&table.note, width);
    // Room for the rows, below the head and the note.
    let room = height.saturating_sub(1 + note.len());
    let below = table.rows.len().saturating_sub(room);
    let skipped = state.scrolled.min(below);
    for row in table.rows.iter().skip(skipped).take(room) {
        let cells = row.iter().enumerate();
        lines.push(Line::from(
            cells
                .map(|(at, cell)| Span::raw(fitted(cell, at, &widths)))
                .collect::<Vec<_>>(),
        ));
    }
    if table.rows.is_empty() && room > 0 {
        lines.push(Line::styled("nothing yet", QUIET));
    }
    while lines.len() + note.len() < height {
        lines.push(Line::raw(""));
    }
    lines.extend(note.into_iter().map(|line| Line::styled(line, QUIET)));
    lines
}

/// The widths of columns: numbers get the width they need, the name gets the rest.
fn widths(table: &Table, width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = (0..table.columns.len())
        .map(|at| {
            let cells = table.rows.iter().map(|row| row[at].chars().count());
            let cells = cells.max().unwrap_or(0);
            // Leave room for the mark of the sorted column, and a gap.
            let head = table.columns[at].len();
            match table.is_narrow {
                false => cells.max(head + 2).max(8) + 2,
                true if at == table.sorted_by => cells.max(head + 2) + 2,
                true => cells.max(head) + 2,
            }
        })
        .collect();
    let numbers: usize = widths[1..].iter().sum();
    let name_min = match table.is_narrow {
        true => NARROW_NAME_MIN,
        false => NAME_MIN,
    };
    widths[0] = width.saturating_sub(numbers).max(name_min);
    widths
}

/// A cell, padded to its column: the first column is aligned left, others right.
fn fitted(cell: &str, at: usize, widths: &[usize]) -> String {
    let width = widths[at];
    match at {
        0 => format!("{:<width$}", shortened(cell, width.saturating_sub(1))),
        _ => format!("{:>width$}", shortened(cell, width.saturating_sub(1))),
    }
}

/// A sentence in lines of this width.
fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the beginning");
        if line.is_empty() {
            *line = word.to_owned();
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            *line += " ";
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn foot_line(state: &State) -> Line<'static> {
    match &state.trouble {
        Some((why, tries)) => {
            let tries = match tries {
                1 => String::new(),
                tries => format!(" ({tries} times)"),
            };
            Line::styled(format!("{why}{tries}; trying again"), BAD)
        }
        None if state.live.is_none() => Line::styled("asking...", QUIET),
        None => Line::styled(
            "q quit   tab or arrows: table   s sort   p pause   ? help",
            QUIET,
        ),
    }
}

const HELP: &str = "\
tab, left, right, 1 to 7   choose the table
up, down, page up, down    move in the table
s                          sort by the next column (marked v)
p, space                   pause: nothing changes
?                          this help
q, ctrl-c                  quit

hits, of bytes, p50, p99   of the last minute
HTTP/2, TLS                share of the requests, the last minute
full/s, resumed/s          TLS handshakes
disk reads n + m waiting   under way, and due for a slow disk
misses                     requests that the cache did not answer
<=                         a share may be so much or less";

fn draw_help(area: Rect, frame: &mut Frame<'_>) {
    let lines = HELP.lines().count() as u16 + 2;
    let columns = HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4;
    let (width, height) = (columns.min(area.width), lines.min(area.height));
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::new().borders(Borders::ALL).title(" loligo top ");
    let help = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(help.block(block), place);
}
