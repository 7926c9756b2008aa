//! The legend: a sample of each series and its name, in as many columns as fit.
//!
//! Not known here: values.   Limits: names are not cut; a name wider than the plot goes beyond its edge.

use std::fmt::Write as _;

use crate::drawing::{Look, mark};
use crate::escaped;
use crate::plot::{CHARACTER, LEFT, RIGHT, WIDTH};

const LINE: f64 = 18.0;
/// Width of the sample, and of the gap after a name.
const SAMPLE: f64 = 26.0;
const BETWEEN: f64 = 22.0;
const COLUMNS_MAX: usize = 6;

/// The form of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    Line,
    LineWithMarks,
    Marks,
    Bar,
}

/// A name and its sample.
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub look: Look,
    pub sample: Sample,
}

fn columns(entries: &[Entry]) -> usize {
    let longest = entries.iter().map(|e| e.name.chars().count()).max();
    let width = SAMPLE + BETWEEN + CHARACTER * longest.unwrap_or(0) as f64;
    (((WIDTH - LEFT - RIGHT) / width) as usize).clamp(1, COLUMNS_MAX)
}

/// Height of all entries.
pub(crate) fn height(entries: &[Entry]) -> f64 {
    entries.len().div_ceil(columns(entries)) as f64 * LINE
}

/// Draws the entries below `top`.
pub(crate) fn draw(entries: &[Entry], top: f64, out: &mut String) {
    let columns = columns(entries);
    let width = (WIDTH - LEFT - RIGHT) / columns as f64;
    for (n, entry) in entries.iter().enumerate() {
        let x = LEFT + (n % columns) as f64 * width;
        let y = top + (n / columns) as f64 * LINE + 12.0;
        let colour = entry.look.colour();
        let middle = y - 4.0;
        if entry.sample == Sample::Bar {
            let _ = write!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
                x + 5.0,
                y - 9.0
            );
        }
        if matches!(entry.sample, Sample::Line | Sample::LineWithMarks) {
            let _ = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" stroke-width=\"2\"{}/>",
                x + 20.0,
                entry.look.dash()
            );
        }
        if matches!(entry.sample, Sample::Marks | Sample::LineWithMarks) {
            mark(x + 10.0, middle, entry.look, "", out);
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            x + SAMPLE,
            escaped(entry.name)
        );
    }
}
