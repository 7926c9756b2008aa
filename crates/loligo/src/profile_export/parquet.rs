//! Rows as Parquet, by the crate's column writers, without Arrow.
//!
//! A row group stores its columns one after the other, so rows are collected by column until the group is full: the values that are
//! not null, and a bit a row for whether there is one. Then each column is encoded (dictionaries for repeated values, differences for
//! times), compressed with zstd and written.
//!
//! Limits: a group has [`ROWS_MAX`] rows, or fewer if its texts reach [`TEXT_BYTES_MAX`]. Collected, the widest possible rows (all nine
//! stages) take 205 bytes each, those of a real profile about half.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::columns::{Cell, Column, Kind};

/// The most rows of a group.
pub const ROWS_MAX: usize = 1_000_000;
/// Bytes of distinct texts at which a group ends.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Rows given to the encoder at once.
const BATCH: usize = 8192;

/// Writes rows as row groups.
pub struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Collected>,
    rows: usize,
    rows_max: usize,
    text_bytes: usize,
}

/// The values of one column in the present group.
struct Collected {
    /// A bit a row: is there a value? Empty if the column is never null.
    present: Vec<u8>,
    is_nullable: bool,
    values: Values,
}

enum Values {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
    Flags(Vec<bool>),
    Texts(Texts),
}

/// Texts by number; equal texts are stored once.
#[derive(Default)]
struct Texts {
    values: Vec<u32>,
    all: Vec<ByteArray>,
    known: HashMap<Box<str>, u32>,
}

impl Texts {
    /// Adds a text; returns the bytes that this takes.
    fn push(&mut self, text: &str) -> usize {
        // Consecutive rows often have the same text.
        let last = self.values.last().copied();
        if let Some(last) = last.filter(|&at| self.all[at as usize].data() == text.as_bytes()) {
            self.values.push(last);
            return 0;
        }
        if let Some(&at) = self.known.get(text) {
            self.values.push(at);
            return 0;
        }
        let at = u32::try_from(self.all.len()).expect("a group has fewer rows");
        self.all.push(ByteArray::from(text));
        self.known.insert(text.into(), at);
        self.values.push(at);
        2 * text.len() + 64
    }
}

impl Collected {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            Kind::U8 | Kind::U16 | Kind::U32 => Values::Narrow(Vec::new()),
            Kind::Time | Kind::U64 => Values::Wide(Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()),
            Kind::Text => Values::Texts(Texts::default()),
        };
        Collected {
            present: Vec::new(),
            is_nullable: column.is_nullable,
            values,
        }
    }

    /// Adds the cell of row `row`; returns the bytes of text that this takes.
    fn push(&mut self, row: usize, cell: Cell<'_>) -> usize {
        if self.is_nullable {
            if row.is_multiple_of(8) {
                self.present.push(0);
            }
            let is_there = u8::from(cell != Cell::Null);
            *self.present.last_mut().expect("row 0 made one") |= is_there << (row % 8);
        }
        match (&mut self.values, cell) {
            (_, Cell::Null) => assert!(self.is_nullable, "a column that is never null"),
            // Unsigned numbers are stored with the same bits.
            (Values::Narrow(values), Cell::Number(number)) => values.push(number as u32 as i32),
            (Values::Wide(values), Cell::Number(number)) => values.push(number as i64),
            (Values::Flags(values), Cell::Flag(is_so)) => values.push(is_so),
            (Values::Texts(texts), Cell::Text(text)) => return texts.push(text),
            (_, cell) => panic!("{cell:?} is not of the column's kind"),
        }
        0
    }

    fn write(&self, rows: usize, out: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let (mut levels, mut texts) = (Vec::with_capacity(BATCH), Vec::new());
        let mut from = 0;
        for first in (0..rows).step_by(BATCH) {
            let batch = first..rows.min(first + BATCH);
            levels.clear();
            if self.is_nullable {
                let level = |row: usize| i16::from(self.present[row / 8] >> (row % 8) & 1);
                levels.extend(batch.clone().map(level));
            }
            let there = match self.is_nullable {
                true => levels.iter().filter(|&&level| level == 1).count(),
                false => batch.len(),
            };
            let to = from + there;
            let levels = self.is_nullable.then_some(&levels[..]);
            match (&self.values, &mut *out) {
                (Values::Narrow(values), ColumnWriter::Int32ColumnWriter(out)) => {
                    out.write_batch(&values[from..to], levels, None)?
                }
                (Values::Wide(values), ColumnWriter::Int64ColumnWriter(out)) => {
                    out.write_batch(&values[from..to], levels, None)?
                }
                (Values::Flags(values), ColumnWriter::BoolColumnWriter(out)) => {
                    out.write_batch(&values[from..to], levels, None)?
                }
                (Values::Texts(all), ColumnWriter::ByteArrayColumnWriter(out)) => {
                    texts.clear();
                    let numbers = all.values[from..to].iter();
                    texts.extend(numbers.map(|&at| all.all[at as usize].clone()));
                    out.write_batch(&texts, levels, None)?
                }
                _ => unreachable!("the schema is made of the same columns"),
            };
            from = to;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.present.clear();
        match &mut self.values {
            Values::Narrow(values) => values.clear(),
            Values::Wide(values) => values.clear(),
            Values::Flags(values) => values.clear(),
            Values::Texts(texts) => *texts = Texts::default(),
        }
    }
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(columns: &[Column], out: W) -> io::Result<Self> {
        Self::with_rows_max(columns, out, ROWS_MAX)
    }

    fn with_rows_max(columns: &[Column], out: W, rows_max: usize) -> io::Result<Self> {
        let schema = parse_message_type(&message(columns)).expect("a schema of known types");
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("loligo {}", env!("CARGO_PKG_VERSION")))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_compression(Compression::ZSTD(ZstdLevel::default()));
        for column in columns {
            let path = ColumnPath::from(column.name.as_str());
            if column.kind == Kind::Time {
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()));
        Ok(Parquet {
            file: file.map_err(plain)?,
            columns: columns.iter().map(Collected::new).collect(),
            rows: 0,
            rows_max,
            text_bytes: 0,
        })
    }

    /// Adds one row; writes a group when it is full.
    ///
    /// # Errors
    /// Those of the output.
    pub fn row(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        for (column, &cell) in self.columns.iter_mut().zip(row) {
            self.text_bytes += column.push(self.rows, cell);
        }
        self.rows += 1;
        if self.rows == self.rows_max || self.text_bytes >= TEXT_BYTES_MAX {
            self.group()?;
        }
        Ok(())
    }

    fn group(&mut self) -> io::Result<()> {
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.file.next_row_group()?;
            for column in &mut self.columns {
                let mut out = group.next_column()?.expect("as many as in the schema");
                column.write(self.rows, out.untyped())?;
                out.close()?;
                column.clear();
            }
            group.close()?;
            Ok(())
        };
        write().map_err(plain)?;
        (self.rows, self.text_bytes) = (0, 0);
        self.file.flush()
    }

    /// Writes the last group and the foot.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.group()?;
        }
        self.file.into_inner().map_err(plain)
    }
}

/// The I/O error inside a Parquet error, so that callers see its kind.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// The schema in Parquet's own language.
fn message(columns: &[Column]) -> String {
    let lines = columns.iter().map(|column| {
        let repetition = if column.is_nullable {
            "optional"
        } else {
            "required"
        };
        let (physical, logical) = match column.kind {
            Kind::Time => ("int64", " (TIMESTAMP(MICROS,true))"),
            Kind::Text => ("binary", " (STRING)"),
            Kind::Flag => ("boolean", ""),
            Kind::U8 => ("int32", " (INTEGER(8,false))"),
            Kind::U16 => ("int32", " (INTEGER(16,false))"),
            Kind::U32 => ("int32", " (INTEGER(32,false))"),
            Kind::U64 => ("int64", " (INTEGER(64,false))"),
        };
        format!("{repetition} {physical} {}{logical};\n", column.name)
    });
    format!("message loligo {{\n{}}}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    fn column(name: &str, kind: Kind, is_nullable: bool) -> Column {
        Column {
            name: name.to_owned(),
            kind,
            is_nullable,
        }
    }

    fn columns() -> Vec<Column> {
        vec![
            column("t", Kind::Time, false),
            column("n", Kind::U64, true),
            column("m", Kind::U32, true),
            column("f", Kind::Flag, true),
            column("s", Kind::Text, true),
        ]
    }

    fn row(i: u64) -> [Cell<'static>; 5] {
        let some = |n: u64, cell| {
            if i.is_multiple_of(n) {
                Cell::Null
            } else {
                cell
            }
        };
        [
            Cell::Number(1_700_000_000_000_000 + i),
            some(2, Cell::Number(u64::MAX - i)),
            some(3, Cell::Number(u64::from(u32::MAX) - i)),
            some(5, Cell::Flag(i.is_multiple_of(4))),
            some(7, Cell::Text(["red", "green"][(i / 3 % 2) as usize])),
        ]
    }

    #[test]
    fn what_is_written_is_read_back_group_by_group() {
        let rows = 20_011u64;
        let mut out = Parquet::with_rows_max(&columns(), Vec::new(), 9000).unwrap();
        for i in 0..rows {
            out.row(&row(i)).unwrap();
        }
        let bytes = bytes::Bytes::from(out.finish().unwrap());
        let reader = SerializedFileReader::new(bytes).unwrap();
        let groups = reader.metadata().row_groups().iter();
        assert_eq!(
            groups.map(|group| group.num_rows()).collect::<Vec<_>>(),
            [9000, 9000, 2011]
        );
        let mut read = 0;
        for (i, found) in reader.get_row_iter(None).unwrap().enumerate() {
            let found = found.unwrap();
            for ((_, field), cell) in found.get_column_iter().zip(row(i as u64)) {
                let as_cell = match field {
                    Field::Null => Cell::Null,
                    Field::TimestampMicros(us) => Cell::Number(*us as u64),
                    Field::ULong(number) => Cell::Number(*number),
                    Field::UInt(number) => Cell::Number((*number).into()),
                    Field::Bool(is_so) => Cell::Flag(*is_so),
                    Field::Str(text) => Cell::Text(text),
                    other => panic!("{other:?}"),
                };
                assert_eq!(as_cell, cell, "row {i}");
            }
            read += 1;
        }
        assert_eq!(read, rows);
    }

    #[test]
    fn long_texts_end_a_group() {
        let columns = [column("s", Kind::Text, false)];
        let mut out = Parquet::new(&columns, Vec::new()).unwrap();
        let long = "x".repeat(1 << 20);
        for i in 0..40 {
            out.row(&[Cell::Text(&format!("{long}{i}"))]).unwrap();
        }
        let bytes = bytes::Bytes::from(out.finish().unwrap());
        let reader = SerializedFileReader::new(bytes).unwrap();
        assert!(reader.metadata().num_row_groups() > 1);
    }

    #[test]
    fn an_output_that_fails_is_told_by_its_own_kind() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Parquet::new(&columns(), Closed).unwrap();
        out.row(&row(1)).unwrap();
        let error = out.finish().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
