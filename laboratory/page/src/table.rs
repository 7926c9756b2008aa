//! Tables: the first column names the row, the others are figures.
//!
//! Not known here: the meaning of cells.   Limits: none but memory.

use crate::escaped;

/// Rows of cells under named columns.
#[derive(Debug, Clone)]
pub struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. Column names should have the unit: `response (ms)`.
    pub fn new(caption: &str, columns: &[&str]) -> Table {
        Table {
            caption: caption.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty.
    ///
    /// # Panics
    ///
    /// If there are more cells than columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) -> &mut Table {
        let mut cells: Vec<String> = cells.into_iter().collect();
        assert!(
            cells.len() <= self.columns.len(),
            "{} cells in {} columns of {}",
            cells.len(),
            self.columns.len(),
            self.caption
        );
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
        self
    }

    /// The table as text: caption, columns, rows; the first column is left-aligned, the others right-aligned.
    pub fn text(&self) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| c.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = format!("{}\n", self.caption);
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if at == 0 {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            // Cells may contain names of foreign files, which must not move the cursor of a terminal.
            let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
            out.extend(line.trim_end().chars().map(safe));
            out.push('\n');
        }
        out
    }

    pub(crate) fn html(&self, out: &mut String) {
        // No <caption> element, because it would be wrapped to the width of a narrow table.
        out.push_str(&format!(
            "<figure><figcaption>{}</figcaption><div class=\"wide\"><table>\n",
            escaped(&self.caption)
        ));
        let left: Vec<bool> = (0..self.columns.len()).map(|at| self.is_text(at)).collect();
        if self.columns.iter().any(|name| !name.is_empty()) {
            line(out, "th", &self.columns, &left);
        }
        for row in &self.rows {
            line(out, "td", row, &left);
        }
        out.push_str("</table></div></figure>\n");
    }

    /// Whether a column is text rather than figures: the first column, and those whose cells are mostly words.
    fn is_text(&self, at: usize) -> bool {
        let cells = self.rows.iter().map(|row| row[at].as_str());
        let cells: Vec<&str> = cells.filter(|cell| !matches!(*cell, "" | "-")).collect();
        let words = cells.iter().filter(|cell| !is_figure(cell)).count();
        // A column without a name contains facts of different kinds.
        at == 0 || self.columns[at].is_empty() || (words > 0 && 2 * words >= cells.len())
    }
}

/// A number, with at most a unit or a second number: `12.5 MiB`, `46:31`, `50~60`, `1.2 to 3.4`.
fn is_figure(cell: &str) -> bool {
    let number = cell.trim_start_matches(['+', '-', '.', '<', '>', '~']);
    number.starts_with(|c: char| c.is_ascii_digit()) && cell.split_whitespace().count() <= 3
}

fn line(out: &mut String, cell: &str, texts: &[String], left: &[bool]) {
    out.push_str("<tr>");
    for (text, &left) in texts.iter().zip(left) {
        let class = if left { " class=\"l\"" } else { "" };
        out.push_str(&format!("<{cell}{class}>{}</{cell}>", escaped(text)));
    }
    out.push_str("</tr>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("Layouts", &["layout", "ops/s", "p99 (ms)"]);
        table.row(["simple".into(), "14".into()]);
        table.row(["größte".into(), "1495".into(), "3.5".into()]);
        table
    }

    #[test]
    fn text_lines_up() {
        let want = "Layouts\n\
                    layout  ops/s  p99 (ms)\n\
                    simple     14\n\
                    größte   1495       3.5\n";
        assert_eq!(sample().text(), want);
    }

    #[test]
    fn html_has_every_cell() {
        let mut out = String::new();
        sample().html(&mut out);
        assert!(out.contains("<tr><td class=\"l\">simple</td><td>14</td><td></td></tr>"));
        assert_eq!(out.matches("<th").count(), 3);
    }

    #[test]
    fn words_are_to_the_left_and_figures_to_the_right() {
        let mut table = Table::new("t", &["proxy", "mean (ms)", "carried", "version"]);
        for (mean, carried, version) in [
            ("24.6", "yes", "5.7"),
            ("1316", "hit ratio 32.3 of 50.4 %", "1.22.1"),
            ("failed", "", "-"),
        ] {
            let cells = ["loligo", mean, carried, version];
            table.row(cells.map(str::to_owned));
        }
        let left: Vec<bool> = (0..4).map(|at| table.is_text(at)).collect();
        assert_eq!(left, [true, false, true, false]);
    }

    #[test]
    fn facts_have_no_empty_head() {
        let mut table = Table::new("t", &["", ""]);
        table.row(["rate".into(), "200 requests/s, 200 in the fill".into()]);
        let mut out = String::new();
        table.html(&mut out);
        assert!(!out.contains("<th"), "{out}");
    }

    #[test]
    #[should_panic(expected = "2 cells in 1 columns of t")]
    fn too_many_cells_are_a_mistake() {
        Table::new("t", &["a"]).row(["1".into(), "2".into()]);
    }
}
