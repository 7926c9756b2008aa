//! Tables: the first column names the row, the others are figures.
//!
//! Not known here: what is in them.   Limits: none but memory.

use crate::escaped;

/// Rows of cells under named columns.
#[derive(Debug, Clone)]
pub struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. Say the unit in the column's name: `response (ms)`.
    pub fn new(caption: &str, columns: &[&str]) -> Table {
        Table {
            caption: caption.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// One more row; missing cells stay empty.
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

    /// For a terminal: caption, columns, rows; the first column to the left, figures to the right.
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
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub(crate) fn html(&self, out: &mut String) {
        out.push_str(&format!(
            "<table><caption>{}</caption>\n",
            escaped(&self.caption)
        ));
        line(out, "th", &self.columns);
        for row in &self.rows {
            line(out, "td", row);
        }
        out.push_str("</table>\n");
    }
}

fn line(out: &mut String, cell: &str, texts: &[String]) {
    out.push_str("<tr>");
    for text in texts {
        out.push_str(&format!("<{cell}>{}</{cell}>", escaped(text)));
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
        assert!(out.contains("<tr><td>simple</td><td>14</td><td></td></tr>"));
        assert_eq!(out.matches("<th>").count(), 3);
    }

    #[test]
    #[should_panic(expected = "2 cells in 1 columns of t")]
    fn too_many_cells_are_a_mistake() {
        Table::new("t", &["a"]).row(["1".into(), "2".into()]);
    }
}
