//! The output of an export: a file that is complete or not there, or a stream.
//!
//! A file is written as `NAME.part` in the same folder and renamed at its end, so a program that finds `NAME` finds all of it. Outputs that
//! are not plain files (a pipe, `/dev/stdout`) are written to directly; `-` is standard output.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// Where the bytes go; `out` is buffered.
pub struct Output {
    /// The writer.
    pub out: Box<dyn Write + Send>,
    /// How the output is completed or dropped.
    pub place: Place,
}

/// How an output ends.
pub enum Place {
    /// A stream, which needs no completion.
    Stream,
    /// A file that is renamed at the end.
    Part {
        /// Its present name.
        part: PathBuf,
        /// Its final name.
        whole: PathBuf,
    },
}

impl Output {
    /// Opens an output. `is_binary`: refuse a terminal.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn open(path: &Path, is_binary: bool) -> Result<Self, String> {
        if path == Path::new("-") {
            if is_binary && io::stdout().is_terminal() {
                return Err("Parquet is not for a terminal; name a file".to_owned());
            }
            return Ok(Output {
                out: Box::new(BufWriter::new(io::stdout())),
                place: Place::Stream,
            });
        }
        let is_plain = fs::metadata(path).map_or(true, |meta| meta.is_file());
        let (opened, place) = if is_plain {
            let part = part_of(path);
            let whole = path.to_owned();
            (part.clone(), Place::Part { part, whole })
        } else {
            (path.to_owned(), Place::Stream)
        };
        let file = match place {
            Place::Part { .. } => File::create(&opened),
            Place::Stream => File::options().write(true).open(&opened),
        };
        let file = file.map_err(|e| format!("{}: {e}", opened.display()))?;
        Ok(Output {
            out: Box::new(BufWriter::with_capacity(1 << 18, file)),
            place,
        })
    }
}

/// The name of a file until it is complete.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

impl Place {
    /// Completes the output: the file takes its final name.
    ///
    /// # Errors
    /// The rename failed.
    pub fn keep(self) -> io::Result<()> {
        match self {
            Place::Stream => Ok(()),
            Place::Part { part, whole } => fs::rename(part, whole),
        }
    }

    /// Drops an incomplete output: the file is removed.
    pub fn drop(self) {
        if let Place::Part { part, .. } = self {
            // If the file cannot be removed, its name still shows that it is a part.
            let _ = fs::remove_file(part);
        }
    }
}
