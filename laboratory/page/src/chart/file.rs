//! A chart as a separate SVG file: panels, titles, legend, on a light background.
//!
//! Only the first statistic is drawn; remarks and tables are left out.
//!
//! Not known here: where the file is stored.   Limits: three panels a row.

use std::fmt::Write as _;

use super::drawing::{Scales, extent, svg};
use super::html::CHART_DRAWING;
use super::{COLOURS, Chart, Panel};
use crate::escaped;

const PANELS_A_ROW: usize = 3;
const MARGIN: f64 = 10.0;
/// Heights: the caption above the panels, the title above each, a line of the legend below all.
const CAPTION: f64 = 28.0;
const TITLE: f64 = 20.0;
const LINE: f64 = 20.0;
/// Width of a character of 12 px, approximately, in the wider of the usual fonts.
const CHARACTER: f64 = 6.8;
const INK: &str = "svg{--ink:#1b2733;--paper:#fff;--faint:#5c6773;--rule:#d5dbe1}";

/// Breaks words into lines of at most `characters` characters; a longer word gets its own line.
fn folded(text: &str, characters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        let long = last.chars().count() + 1 + word.chars().count();
        match (last.is_empty(), long > characters) {
            (true, _) => last.push_str(word),
            (false, false) => *last += &format!(" {word}"),
            (false, true) => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Chart {
    /// The content of the file.
    pub fn svg_file(&self) -> String {
        let drawn: Vec<&Panel> = self.panels.iter().filter(|p| p.is_drawn()).collect();
        let shared = Scales::of(self, &drawn);
        let (width, height) = extent(self.panels.len());
        let columns = self.panels.len().clamp(1, PANELS_A_ROW);
        let rows = self.panels.len().div_ceil(columns);
        let all_width = columns as f64 * width + 2.0 * MARGIN;
        let mut body = String::new();
        for (n, panel) in self.panels.iter().enumerate() {
            let x = MARGIN + (n % columns) as f64 * width;
            let y = MARGIN + CAPTION + (n / columns) as f64 * (height + TITLE);
            title(panel, x + 58.0, y + 12.0, &mut body);
            if let Some(why) = &panel.note {
                for (nth, line) in folded(why, (width / CHARACTER) as usize).iter().enumerate() {
                    let _ = writeln!(
                        body,
                        "<text class=\"tick\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                        x + width / 2.0,
                        y + height / 2.0 + (nth as f64 - 2.0) * LINE,
                        escaped(line)
                    );
                }
                continue;
            }
            let scales = Scales::beside(&shared, self, panel);
            let drawing = svg(self, panel, &scales, (self.panels.len(), 1));
            let place = format!(
                "<svg x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{height}\"",
                y + TITLE
            );
            body.push_str(&drawing.replacen("<svg", &place, 1));
        }
        let top = MARGIN + CAPTION + rows as f64 * (height + TITLE);
        let bottom = self.legend_of_file(&drawn, (top, all_width), &mut body) + MARGIN;
        let caption = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all_width:.0}\" height=\"{bottom:.0}\" \
             viewBox=\"0 0 {all_width:.0} {bottom:.0}\" role=\"img\" aria-label=\"{caption}\">\n\
             <style>{INK}{}{}{CHART_DRAWING}</style>\n\
             <rect width=\"{all_width:.0}\" height=\"{bottom:.0}\" rx=\"6\" fill=\"#fff\"/>\n\
             <text class=\"caption\" x=\"{MARGIN}\" y=\"{:.0}\">{caption}</text>\n{body}</svg>\n",
            crate::LIGHT,
            crate::DRAWING,
            MARGIN + 14.0
        )
    }

    /// Draws the legend; returns the y where it ends.
    fn legend_of_file(&self, drawn: &[&Panel], (top, width): (f64, f64), out: &mut String) -> f64 {
        let entries = self.entries(drawn);
        if entries.len() < 2 {
            return top;
        }
        let (mut x, mut y) = (MARGIN + 58.0, top);
        out.push_str("<g class=\"legend\">");
        for entry in entries {
            let needed = 32.0 + CHARACTER * entry.name.chars().count() as f64 + 18.0;
            if x + needed > width && x > MARGIN + 58.0 {
                (x, y) = (MARGIN + 58.0, y + LINE);
            }
            let _ = writeln!(
                out,
                "<g transform=\"translate({x:.1} {:.1})\">{}<text x=\"32\" y=\"9\">{}</text></g>",
                y + 5.0,
                entry.sample,
                escaped(&entry.name)
            );
            x += needed;
        }
        out.push_str("</g>\n");
        y + LINE
    }
}

/// The title of a panel, after a box in the colour of its source.
fn title(panel: &Panel, x: f64, y: f64, out: &mut String) {
    if panel.title.is_empty() {
        return;
    }
    if let Some(colour) = panel.colour {
        let _ = write!(
            out,
            "<rect class=\"c{}\" style=\"fill:var(--c)\" x=\"{x:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\" rx=\"2\"/>",
            colour % COLOURS,
            y - 8.5
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{y:.1}\" font-weight=\"600\">{}</text>",
        if panel.colour.is_some() { x + 14.0 } else { x },
        escaped(&panel.title)
    );
}
