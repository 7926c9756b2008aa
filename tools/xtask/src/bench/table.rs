//! Tables that are readable on a terminal and valid Markdown.

/// A header and rows; the first column is left-aligned, the others right.
#[derive(Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self {
            header: header.map(str::to_owned).into(),
            rows: Vec::new(),
        }
    }

    /// An empty table with any number of columns.
    pub fn with_columns(header: Vec<String>) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As Markdown, in columns.
    pub fn render(&self) -> String {
        let columns = self.header.len();
        let empty = String::new();
        let width = |column: usize| {
            std::iter::once(&self.header)
                .chain(&self.rows)
                .map(|row| row.get(column).map_or(0, |cell| cell.chars().count()))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &[String]| {
            let cells: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, &width)| {
                    let cell = row.get(column).unwrap_or(&empty);
                    if column == 0 {
                        format!("{cell:width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                })
                .collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, &width)| {
                let dashes = "-".repeat(width.max(2) - usize::from(column > 0));
                if column == 0 { dashes } else { dashes + ":" }
            })
            .collect();
        let mut text = line(&self.header);
        text.push_str(&line(&rule));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["server", "req/s"]);
        table.row(["haproxy".into(), "98,000".into()]);
        table.row(["x".into()]);
        expect![[r#"
            | server  |  req/s |
            | ------- | -----: |
            | haproxy | 98,000 |
            | x       |        |
        "#]]
        .assert_eq(&table.render());
    }
}
