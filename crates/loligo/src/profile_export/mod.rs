//! `loligo profile export`: profiles as one table, for databases and programs for large data.
//!
//! ```text
//! files --> profile::Reader --> columns (a row of cells) --> csv or parquet --> output (a file or a stream)
//! ```
//!
//! Torn places are reported on standard error and skipped, as by `loligo profile dump`. All files are checked before the first row is
//! written, so that a foreign file among a hundred is reported at once. If the reader of the output closes it (`head`), the export ends
//! quietly. Memory: one row, or for Parquet one row group.

mod columns;
mod csv;
mod output;
#[cfg(feature = "parquet")]
mod parquet;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use profile::{Item, ProfileError, Reader};

use crate::cli::ExportFlags;
use columns::{Cell, Column, Source};
use output::Output;

/// Bytes read from a file at once.
const READ_BYTES: usize = 1 << 18;

/// Runs the command.
pub fn export(flags: &ExportFlags) -> ExitCode {
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("loligo: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &ExportFlags) -> Result<(), String> {
    let (path, is_parquet) = match (&flags.parquet, &flags.csv) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return Err("--parquet FILE or --csv FILE is needed".to_owned()),
    };
    for file in &flags.files {
        check(file, path).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let columns = match flags.events {
        true => columns::of_events(),
        false => columns::of_requests(),
    };
    let Output { out, place } = Output::open(path, is_parquet)?;
    let mut sink = Sink::new(is_parquet, &columns, out);
    let done = (sink.as_mut())
        .map_err(|e| Problem::Output(std::mem::replace(e, io::ErrorKind::Other.into())))
        .and_then(|sink| write_all(flags, sink));
    let done = done.and_then(|()| {
        let sink = sink.expect("it was made, or `done` would be an error");
        sink.finish().map_err(Problem::Output)
    });
    match done {
        Ok(()) => place.keep().map_err(|e| format!("{}: {e}", path.display())),
        Err(Problem::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(problem) => {
            place.drop();
            Err(match problem {
                Problem::Output(e) => format!("{}: {e}", path.display()),
                Problem::Input(text) => text,
            })
        }
    }
}

/// Why an export ended early.
enum Problem {
    /// A file could not be read: a sentence.
    Input(String),
    /// The output could not be written.
    Output(io::Error),
}

/// Checks that a file is a profile, and not the output.
fn check(file: &Path, output: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    if file == Path::new("-") {
        return Ok(());
    }
    let meta = std::fs::metadata(file).map_err(|e| e.to_string())?;
    for written in [output.to_owned(), output::part_of(output)] {
        if let Ok(there) = std::fs::metadata(written)
            && (there.dev(), there.ino()) == (meta.dev(), meta.ino())
        {
            return Err("the export would overwrite this profile; name another file".to_owned());
        }
    }
    // A pipe can be read only once.
    if meta.is_file() {
        let opened = File::open(file).map_err(|e| e.to_string())?;
        Reader::new(BufReader::new(opened)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn write_all(flags: &ExportFlags, sink: &mut Sink) -> Result<(), Problem> {
    let size = |file: &std::path::PathBuf| std::fs::metadata(file).map_or(0, |meta| meta.len());
    let bar = bar(flags.files.iter().map(size).sum());
    for file in &flags.files {
        let input = |e: ProfileError| Problem::Input(format!("{}: {e}", file.display()));
        let name = file.to_string_lossy();
        let source = match file == Path::new("-") {
            true => Box::new(io::stdin()) as Box<dyn Read>,
            false => Box::new(File::open(file).map_err(|e| input(e.into()))?),
        };
        let source = BufReader::with_capacity(READ_BYTES, bar.wrap_read(source));
        let reader = Reader::new(source).map_err(input)?;
        write_file(reader, &name, flags.events, sink)?.map_err(input)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// The rows of one file. The inner result is about the file, the outer about the output.
fn write_file(
    mut reader: Reader<impl BufRead>,
    name: &str,
    wants_events: bool,
    sink: &mut Sink,
) -> Result<Result<(), ProfileError>, Problem> {
    let mut row: Vec<Cell<'_>> = Vec::new();
    while let Some(item) = reader.next() {
        let source = Source {
            name,
            keys_id: reader.keys_id(),
        };
        match item {
            Ok(Item::Request(record)) if !wants_events => {
                columns::request(&record, source, &mut row);
                sink.row(&row).map_err(Problem::Output)?;
            }
            Ok(Item::Event(event)) if wants_events => {
                columns::event(&event, source, |row| sink.row(row)).map_err(Problem::Output)?;
            }
            Ok(_) => {}
            Err(torn @ ProfileError::Torn { .. }) => eprintln!("loligo: {name}: {torn}"),
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(()))
}

/// A bar of bytes on standard error; nothing unless that is a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(
        "exporting {wide_bar} {binary_bytes} of {binary_total_bytes} (left: {eta})",
    ) {
        bar.set_style(style);
    }
    bar
}

type Out = Box<dyn Write + Send>;

/// The writer of rows.
enum Sink {
    Csv(csv::Csv<Out>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Parquet<Out>>),
}

impl Sink {
    fn new(is_parquet: bool, columns: &[Column], out: Out) -> io::Result<Sink> {
        match is_parquet {
            false => Ok(Sink::Csv(csv::Csv::new(columns, out)?)),
            #[cfg(feature = "parquet")]
            true => Ok(Sink::Parquet(Box::new(parquet::Parquet::new(
                columns, out,
            )?))),
            #[cfg(not(feature = "parquet"))]
            true => Err(io::Error::other(
                "this loligo was built without Parquet (cargo feature `parquet`); export with --csv, which DuckDB turns into Parquet: \
                 docs/profile-export.md",
            )),
        }
    }

    fn row(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        match self {
            Sink::Csv(csv) => csv.row(row),
            #[cfg(feature = "parquet")]
            Sink::Parquet(parquet) => parquet.row(row),
        }
    }

    /// Writes everything that is still buffered.
    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Sink::Csv(csv) => csv.finish()?,
            #[cfg(feature = "parquet")]
            Sink::Parquet(parquet) => parquet.finish()?,
        };
        out.flush()
    }
}
