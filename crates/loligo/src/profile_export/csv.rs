//! Rows as CSV.
//!
//= rfc4180 section 2   lines end with CRLF; a field with a comma, a quote or a line end stands in quotes; a quote in it is doubled
//!
//! The first line has the names. A null is an empty field, a time RFC 3339 in UTC, a flag `true` or `false`.

use std::io::{self, Write};

use super::columns::{Cell, Column, Kind};

/// Writes rows as lines.
pub struct Csv<W> {
    out: W,
    kinds: Vec<Kind>,
    line: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// Writes the line of names.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(columns: &[Column], mut out: W) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        out.write_all(names.join(",").as_bytes())?;
        out.write_all(b"\r\n")?;
        Ok(Csv {
            out,
            kinds: columns.iter().map(|column| column.kind).collect(),
            line: Vec::new(),
        })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn row(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        for (i, (kind, cell)) in self.kinds.iter().zip(row).enumerate() {
            if i > 0 {
                self.line.push(b',');
            }
            match cell {
                Cell::Null => {}
                Cell::Number(us) if *kind == Kind::Time => profile::time_text(*us, &mut self.line),
                Cell::Number(number) => number_text(*number, &mut self.line),
                Cell::Flag(true) => self.line.extend_from_slice(b"true"),
                Cell::Flag(false) => self.line.extend_from_slice(b"false"),
                Cell::Text(text) => field(text, &mut self.line),
            }
        }
        self.line.extend_from_slice(b"\r\n");
        self.out.write_all(&self.line)
    }

    /// Writes buffered bytes, and returns the output.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn number_text(number: u64, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("a Vec takes every write");
}

/// Writes a text. An empty one is in quotes: without them it would be null.
fn field(text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            kind,
            is_nullable: true,
        };
        let columns = [
            column("t", Kind::Time),
            column("n", Kind::U64),
            column("f", Kind::Flag),
            column("s", Kind::Text),
        ];
        let mut csv = Csv::new(&columns, Vec::new()).unwrap();
        let texts = ["plain", "", "a,b", "say \"a\"", "two\r\nlines"];
        for text in texts {
            let row = [
                Cell::Number(1_700_000_000_123_456),
                Cell::Number(u64::MAX),
                Cell::Flag(true),
                Cell::Text(text),
            ];
            csv.row(&row).unwrap();
        }
        csv.row(&[Cell::Null; 4]).unwrap();
        let out = String::from_utf8(csv.finish().unwrap()).unwrap();
        let front = "2023-11-14T22:13:20.123456Z,18446744073709551615,true,";
        let expected = [
            "plain",
            "\"\"",
            "\"a,b\"",
            "\"say \"\"a\"\"\"",
            "\"two\r\nlines\"",
        ];
        let lines = expected.map(|text| format!("{front}{text}\r\n")).concat();
        assert_eq!(out, format!("t,n,f,s\r\n{lines},,,\r\n"));
    }
}
