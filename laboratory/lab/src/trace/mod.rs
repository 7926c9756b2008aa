//! Traces: from a file of any of the known formats to a sequence of [`Access`].
//!
//! ```text
//! file --open--> bytes --lines, records, csv--> entries --names--> Access
//!        .zst .gz .xz                             |
//!                                              counted: lines, requests, skipped (by reason), bad
//! ```
//!
//! A line that cannot be parsed is counted, the first few are kept for display, and reading goes on. The same holds for
//! valid lines that are not requests to a cache ([`Skip`]). Only a source that cannot be read or unpacked ends it.
//! A 304 has no size: the object is taken to have the size it had last.
//!
//! Memory: a line, and 28 to 48 bytes for every object ever named (its hash, its number, its last size).
//!
//! Not known here: caches.
//! Limits: lines of [`LINE_BYTES_MAX`], longer ones are bad; objects of 4 GiB; 2^32 - 2 objects.

mod csv;
mod entry;
mod lines;
pub(crate) mod names;
mod open;
mod records;
pub mod report;
mod summary;
mod write;

use std::fmt;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

pub use csv::{Columns, UnknownColumns};
pub use entry::Skip;
pub use open::{XZ_MEMORY_KIB_MAX, ZSTD_WINDOW_BYTES_MAX};
pub use summary::{SizeClass, Summary, Summing};
pub use write::{Writer, write_csv};

use crate::Access;
use csv::Csv;
use entry::{Entry, Parsed};
use names::Names;

/// Longer lines count as bad.
pub const LINE_BYTES_MAX: usize = 1 << 16;
/// Bad lines kept for display.
pub const BAD_KEPT: usize = 5;
/// Bytes of a bad line that are shown.
const BAD_SHOWN_BYTES: usize = 100;
/// Bytes and lines examined to detect the format.
const LOOK_BYTES: usize = 1 << 16;
const LOOK_LINES: usize = 50;

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Boston University traces.
    Bu,
    /// Squid's native access.log.
    Squid,
    /// Common or combined log format.
    Clf,
    /// Digital's proxy traces, binary.
    Dec,
    /// Digital's proxy traces, as their tools print them.
    DecText,
    /// UC Berkeley's Home IP traces, binary.
    Ucb,
    /// UC Berkeley's Home IP traces, as `showtrace` prints them.
    UcbText,
    /// Columns with a delimiter.
    Csv,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(Format, &'static str); 9] = [
        (Format::Bu, "bu"),
        (Format::Squid, "squid"),
        (Format::Clf, "clf"),
        (Format::Dec, "dec"),
        (Format::DecText, "dec-text"),
        (Format::Ucb, "ucb"),
        (Format::UcbText, "ucb-text"),
        (Format::Csv, "csv"),
        (Format::OracleGeneral, "oracle-general"),
    ];

    /// Formats with one request a line, in the order in which they are tried: the strictest first.
    const LINES: [Format; 6] = [
        Format::Bu,
        Format::UcbText,
        Format::DecText,
        Format::Squid,
        Format::Clf,
        Format::Csv,
    ];

    /// The format that parses most of the first lines; `None` if none parses half of them.
    fn of(start: &[u8]) -> Option<Format> {
        if start.is_empty() {
            return Some(Format::Csv);
        }
        if records::looks_like_dec(start) {
            return Some(Format::Dec);
        }
        if records::looks_like_ucb(start) {
            return Some(Format::Ucb);
        }
        let text = &start[..start.len().min(4096)];
        if text.contains(&0) {
            return records::looks_like_oracle(start).then_some(Format::OracleGeneral);
        }
        let mut lines: Vec<&[u8]> = start.split(|&byte| byte == b'\n').collect();
        if start.len() == LOOK_BYTES {
            // The last line is cut off.
            lines.pop();
        }
        lines.retain(|line| !is_blank(line));
        lines.truncate(LOOK_LINES);
        let understood = |format: Format| {
            let mut csv = Csv::new(None);
            let good = |line: &&&[u8]| {
                matches!(
                    parse_line(format, &mut csv, line),
                    Parsed::Request(_) | Parsed::Skipped(_)
                )
            };
            lines.iter().filter(good).count()
        };
        // In a tie the stricter format.
        let best = Format::LINES
            .into_iter()
            .rev()
            .max_by_key(|&format| understood(format))?;
        (2 * understood(best) >= lines.len().saturating_sub(1)).then_some(best)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Format::ALL.iter().find(|(format, _)| format == self);
        f.pad(name.map_or("", |(_, name)| name))
    }
}

/// The text is not the name of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trace's format is bu, squid, clf, dec, dec-text, ucb, ucb-text, csv or oracle-general")]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Format::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(format, _)| *format).ok_or(UnknownFormat)
    }
}

/// The reason why reading a trace ends.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The trace cannot be read, or not unpacked.
    #[error("{path}: {source}", path = path.display())]
    Unreadable {
        /// The trace.
        path: PathBuf,
        /// The error of the system or the unpacker.
        source: io::Error,
    },
    /// The first lines are in no known format.
    #[error("{path}: its format is not clear; name it with --format", path = path.display())]
    Unclear {
        /// The trace.
        path: PathBuf,
    },
    /// More objects than have numbers.
    #[error("{path}: more than 2^32 objects", path = path.display())]
    TooMany {
        /// The trace.
        path: PathBuf,
    },
}

/// Counts of a trace's lines so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Lines or records.
    pub lines: u64,
    /// Lines that are requests to a cache.
    pub requests: u64,
    /// Lines that cannot be parsed.
    pub bad: u64,
    /// Valid lines that are not requests to a cache, by reason as in [`Skip::ALL`].
    pub skipped: [u64; Skip::ALL.len()],
    /// The first bad lines: number, error, beginning.
    pub bad_shown: Vec<String>,
}

/// A trace that is being read.
///
/// ```no_run
/// use lab::trace::Trace;
///
/// let mut trace = Trace::open("access.log.zst".as_ref(), None, None)?;
/// for access in trace.by_ref() {
///     println!("{:?}", access?);
/// }
/// println!("{} bad lines", trace.tally().bad);
/// # Ok::<(), lab::trace::TraceError>(())
/// ```
pub struct Trace {
    path: PathBuf,
    source: Box<dyn BufRead>,
    format: Format,
    csv: Csv,
    line: Vec<u8>,
    tally: Tally,
    objects: Names,
    servers: Names,
    /// By object: its last known size; `NOT_KNOWN` if no line had one.
    sizes: Vec<u32>,
    first_at_us: Option<u64>,
    ended: bool,
}

const NOT_KNOWN: u32 = u32::MAX;

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Trace");
        out.field("path", &self.path)
            .field("format", &self.format)
            .field("tally", &self.tally);
        out.finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens a trace; `-` is standard input. The format is detected unless it is given; `columns` are for CSV.
    ///
    /// # Errors
    /// The trace cannot be read, or its format is not clear.
    pub fn open(
        path: &Path,
        format: Option<Format>,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        let unreadable = |source| TraceError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let source = open::open(path).map_err(unreadable)?;
        Trace::new(path, source, format, columns)
    }

    /// A trace of these bytes; `path` is for messages.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(
        path: &Path,
        bytes: impl Read + 'static,
        format: Option<Format>,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        let unreadable = |source| TraceError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let source = open::unpacked(bytes).map_err(unreadable)?;
        Trace::new(path, source, format, columns)
    }

    fn new(
        path: &Path,
        mut source: Box<dyn BufRead>,
        format: Option<Format>,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        let unreadable = |source| TraceError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let format = match format.or(columns.map(|_| Format::Csv)) {
            Some(format) => format,
            None => {
                // A buffer may hold fewer bytes than are to be examined, so they are read first and chained before the rest.
                let mut start = Vec::new();
                let mut look = source.as_mut().take(LOOK_BYTES as u64);
                look.read_to_end(&mut start).map_err(unreadable)?;
                let found = Format::of(&start);
                source = Box::new(io::BufReader::new(io::Cursor::new(start).chain(source)));
                found.ok_or_else(|| TraceError::Unclear {
                    path: path.to_owned(),
                })?
            }
        };
        if format == Format::Dec {
            records::skip_dec_header(source.as_mut()).map_err(unreadable)?;
        }
        Ok(Trace {
            path: path.to_owned(),
            source,
            format,
            csv: Csv::new(columns),
            line: Vec::new(),
            tally: Tally::default(),
            objects: Names::default(),
            servers: Names::default(),
            sizes: Vec::new(),
            first_at_us: None,
            ended: false,
        })
    }

    /// The format, given or detected.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Counts of the lines so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The number of different servers so far; some formats do not distinguish servers.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The next line or record; `None` at the end.
    fn next_parsed(&mut self) -> io::Result<Option<Parsed>> {
        match self.format {
            Format::OracleGeneral => records::oracle(self.source.as_mut()),
            Format::Dec => records::dec(self.source.as_mut()),
            Format::Ucb => records::ucb(self.source.as_mut()),
            format => {
                if !read_line(self.source.as_mut(), &mut self.line)? {
                    return Ok(None);
                }
                if self.line.len() > LINE_BYTES_MAX {
                    return Ok(Some(Parsed::Bad("longer than 64 KiB")));
                }
                if is_blank(&self.line) {
                    return Ok(Some(Parsed::Nothing));
                }
                Ok(Some(parse_line(format, &mut self.csv, &self.line)))
            }
        }
    }

    /// Counts a line or record; returns the request if it is one.
    fn take(&mut self, parsed: Parsed) -> Result<Option<Access>, TraceError> {
        self.tally.lines += 1;
        match parsed {
            Parsed::Nothing => Ok(None),
            Parsed::Skipped(skip) => {
                self.tally.skipped[skip as usize] += 1;
                Ok(None)
            }
            Parsed::Bad(why) => {
                self.bad(why);
                Ok(None)
            }
            Parsed::Request(entry) => self.access(&entry),
        }
    }

    fn bad(&mut self, why: &str) {
        self.tally.bad += 1;
        if self.tally.bad_shown.len() < BAD_KEPT {
            let shown = &self.line[..self.line.len().min(BAD_SHOWN_BYTES)];
            let text = format!("{}: {why}: {}", self.tally.lines, shown.escape_ascii());
            self.tally
                .bad_shown
                .push(text.trim_end_matches(": ").to_owned());
        }
    }

    fn access(&mut self, entry: &Entry) -> Result<Option<Access>, TraceError> {
        let size_bytes = match entry.size_bytes.map(u32::try_from) {
            Some(Ok(size)) if size < NOT_KNOWN => Some(size),
            Some(_) => {
                self.bad("an object of 4 GiB or more");
                return Ok(None);
            }
            None => None,
        };
        let many = || TraceError::TooMany {
            path: self.path.clone(),
        };
        let object = self.objects.number(entry.object).ok_or_else(many)?;
        if self.sizes.len() <= object as usize {
            self.sizes.resize(object as usize + 1, NOT_KNOWN);
        }
        let last = &mut self.sizes[object as usize];
        let size_bytes = size_bytes.unwrap_or(*last);
        if size_bytes == NOT_KNOWN {
            self.tally.skipped[Skip::Size as usize] += 1;
            return Ok(None);
        }
        *last = size_bytes;
        let server = self.servers.number(entry.server).ok_or_else(many)?;
        let first_at_us = *self.first_at_us.get_or_insert(entry.at_us);
        self.tally.requests += 1;
        Ok(Some(Access {
            // Logs are in the order in which answers ended, so times may step back.
            at_ms: entry.at_us.saturating_sub(first_at_us) / 1000,
            object,
            server,
            size_bytes,
        }))
    }
}

impl Iterator for Trace {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.next_parsed() {
                Ok(None) => self.ended = true,
                Ok(Some(parsed)) => match self.take(parsed) {
                    Ok(None) => {}
                    Ok(Some(access)) => return Some(Ok(access)),
                    Err(e) => {
                        self.ended = true;
                        return Some(Err(e));
                    }
                },
                Err(source) => {
                    self.ended = true;
                    let path = self.path.clone();
                    return Some(Err(TraceError::Unreadable { path, source }));
                }
            }
        }
        None
    }
}

fn parse_line(format: Format, csv: &mut Csv, line: &[u8]) -> Parsed {
    match format {
        Format::Bu => lines::bu(line).into(),
        Format::Squid => lines::squid(line).into(),
        Format::Clf => lines::clf(line).into(),
        Format::DecText => lines::dec_text(line).into(),
        Format::UcbText => lines::ucb_text(line).into(),
        Format::Csv => csv.parse(line).into(),
        Format::Dec | Format::Ucb | Format::OracleGeneral => Parsed::Bad("no line"),
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Reads the next line without its end; of a line that is too long one byte more than the limit, skipping the rest. False at the end.
fn read_line(source: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let bytes = match source.fill_buf() {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if bytes.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        source.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
