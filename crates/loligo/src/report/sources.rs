//! From files, standard input and running proxies to reports of sources.
//!
//! The kind of a file is found from its first bytes, not from its name: a profile has a header, a report in JSON begins with a brace, and
//! Squid's log has lines in its format. Unusable parts of a source are counted and reported with line or offset; the rest is used.
//!
//! Not known here: what is computed.
//! Limits: the first [`SNIFFED_BYTES`] of a source decide its kind; a report in JSON has at most [`JSON_BYTES_MAX`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use profile::{Item, ProfileError, Reader};
use report::model::{Report, SourceKind, SourceReport};
use report::squid::{self, Line};
use report::{Builder, Known, Options, Source};

use super::args::Named;
use super::lines::Lines;
use super::live::{self, End};
use super::progress::Progress;

/// How many first bytes of a source decide its kind.
const SNIFFED_BYTES: usize = 64 << 10;
/// The largest report in JSON; the report of a week has some 30 MB.
const JSON_BYTES_MAX: u64 = 1 << 30;
/// The reader's buffer; large, so that a disk reads ahead.
const BUFFER_BYTES: usize = 256 << 10;
/// How many items are read between two updates of the progress.
const STRIDE: u64 = 8192;
/// The first bytes of every profile.
const PROFILE_MAGIC: &[u8] = b"\x00LoliPro";

/// A source that was read.
pub enum Gathered {
    /// Data from which a report can be computed.
    Builder(Box<Builder>),
    /// Reports that were computed earlier.
    Reports(Vec<SourceReport>),
}

/// Reads one source. `-` is standard input.
///
/// # Errors
/// A message: the source cannot be read, or is of no known kind.
pub fn gather(named: &Named, options: &Options, progress: &Progress) -> Result<Gathered, String> {
    let path = named.path.display();
    let said = |e: &dyn std::fmt::Display| format!("{path}: {e}");
    let source: Box<dyn Read> = if named.path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let file = File::open(&named.path).map_err(|e| said(&e))?;
        if file.metadata().is_ok_and(|found| found.is_dir()) {
            return Err(said(&"is a directory; name the files in it"));
        }
        Box::new(file)
    };
    read(named, source, options, progress).map_err(|e| said(&e))
}

fn read(
    named: &Named,
    mut source: Box<dyn Read>,
    options: &Options,
    progress: &Progress,
) -> Result<Gathered, String> {
    let mut first = Vec::new();
    let limit = SNIFFED_BYTES as u64;
    (source.by_ref().take(limit).read_to_end(&mut first)).map_err(|e| e.to_string())?;
    if first.is_empty() {
        return Err("is empty".to_owned());
    }
    let kind = kind(&first)?;
    let whole = Cursor::new(first).chain(source);
    let whole = BufReader::with_capacity(BUFFER_BYTES, whole);
    let (source_kind, known) = match kind {
        Kind::Json => return json(named, whole).map(Gathered::Reports),
        Kind::Profile => (SourceKind::Profile, Known::PROFILE),
        Kind::Squid { has_stages } => (SourceKind::Squid, known_of_squid(has_stages)),
    };
    let described = Source {
        name: named.name.clone(),
        level: named.level,
        kind: source_kind,
        known,
    };
    let mut builder = Builder::new(described, options.clone());
    match kind {
        Kind::Profile => profile(&mut builder, whole, &named.path.to_string_lossy(), progress)?,
        _ => log(&mut builder, whole, named, progress)?,
    }
    // Release memory for the next source.
    builder.rest().map_err(|e| spilled(&e))?;
    Ok(Gathered::Builder(Box::new(builder)))
}

fn known_of_squid(has_stages: bool) -> Known {
    match has_stages {
        true => (Known::SQUID.with_stages(&squid::STAGES)).and(Known::SERVER_RESPONSE),
        false => Known::SQUID,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Profile,
    Squid { has_stages: bool },
    Json,
}

/// The kind of a source, by its first bytes.
fn kind(first: &[u8]) -> Result<Kind, String> {
    if first.starts_with(PROFILE_MAGIC) {
        return Ok(Kind::Profile);
    }
    if first.starts_with(&[0x1f, 0x8b]) || first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Err(
            "is compressed; unpack it into a pipe: zcat FILE | loligo report NAME=-".to_owned(),
        );
    }
    if first.trim_ascii_start().starts_with(b"{") {
        return Ok(Kind::Json);
    }
    let mut why = None;
    for line in first.split(|&b| b == b'\n') {
        match squid::parse(line) {
            Ok(Line::Request { has_stages, .. }) => return Ok(Kind::Squid { has_stages }),
            Ok(_) => {}
            Err(e) => why = why.or(Some(e)),
        }
    }
    let why = why.map_or_else(
        || "it has no lines with requests".to_owned(),
        |e| format!("a line of it {e}"),
    );
    Err(format!(
        "is neither a profile (loligo serve --profile) nor Squid's access.log in its native format ({why}) nor a report in JSON"
    ))
}

fn json(named: &Named, source: impl Read) -> Result<Vec<SourceReport>, String> {
    let mut text = Vec::new();
    (source.take(JSON_BYTES_MAX + 1).read_to_end(&mut text)).map_err(|e| e.to_string())?;
    if text.len() as u64 > JSON_BYTES_MAX {
        return Err("is too large for a report".to_owned());
    }
    let report: Report = serde_json::from_slice(&text)
        .map_err(|e| format!("is no report that loligo report --json wrote: {e}"))?;
    if report.format > report::model::FORMAT {
        return Err(format!(
            "is of format {}, made by a later loligo report; this one knows {}",
            report.format,
            report::model::FORMAT
        ));
    }
    let mut sources = report.sources;
    if sources.is_empty() {
        return Err("is a report without sources".to_owned());
    }
    if let [only] = sources.as_mut_slice() {
        only.level = named.level.or(only.level);
    }
    Ok(sources)
}

/// Reads a profile to its end.
fn profile(
    builder: &mut Builder,
    source: impl BufRead,
    name: &str,
    progress: &Progress,
) -> Result<(), String> {
    let mut reader = Reader::new(source).map_err(|e| e.to_string())?;
    let mut count = 0;
    while let Some(item) = reader.next() {
        match item {
            Ok(Item::Request(record)) => builder.request(&record),
            Ok(Item::Event(event)) => builder.event(&event),
            Err(
                e @ (ProfileError::Torn { .. }
                | ProfileError::Version { .. }
                | ProfileError::Io(_)
                | ProfileError::NotAProfile),
            ) => {
                builder.trouble(format!("{name}: {e}"));
                Ok(())
            }
        }
        .map_err(|e| spilled(&e))?;
        count += 1;
        if count % STRIDE == 0 {
            progress.at(reader.offset());
        }
    }
    Ok(())
}

/// Reads Squid's log to its end.
fn log(
    builder: &mut Builder,
    source: impl BufRead,
    named: &Named,
    progress: &Progress,
) -> Result<(), String> {
    let name = named.path.to_string_lossy();
    let mut lines = Lines::new(source);
    let (mut queries, mut query_hits) = (0u64, 0u64);
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(e) => {
                builder.trouble(format!("{name}: {e}; the rest was not read"));
                break;
            }
        };
        let number = line.number;
        match squid::parse(line.bytes) {
            Ok(Line::Request { record, asked, .. }) => {
                builder.named(&record, &asked);
                builder.request(&record).map_err(|e| spilled(&e))?;
            }
            Ok(Line::Query { is_hit }) => {
                queries += 1;
                query_hits += u64::from(is_hit);
            }
            Ok(Line::Empty) => {}
            Err(e) if line.is_cut => {
                builder.trouble(format!(
                    "{name}: line {number}: is longer than a line can be, and {e}"
                ));
            }
            Err(e) => builder.trouble(format!("{name}: line {number}: {e}")),
        }
        if number % STRIDE == 0 {
            progress.at(lines.offset());
        }
    }
    builder.note("its times are in steps of 1 ms");
    builder.note("what could not be cached counts as a miss, for the log does not tell them apart");
    if queries > 0 {
        builder.note(format!(
            "{queries} queries of other proxies (UDP_...), {query_hits} of them hits; they are no requests"
        ));
    }
    Ok(())
}

fn spilled(error: &dyn std::fmt::Display) -> String {
    format!("a temporary file: {error}; TMPDIR says where they are")
}

/// Listens to a running proxy.
///
/// # Errors
/// A message.
pub fn listen(url: &str, end: &End, options: &Options) -> Result<Builder, String> {
    let body = live::open(url, end.clone())?;
    let source = Source {
        name: url.strip_prefix("http://").unwrap_or(url).to_owned(),
        level: None,
        kind: SourceKind::Profile,
        known: Known::PROFILE,
    };
    let mut builder = Builder::new(source, options.clone());
    let reader = Reader::new(BufReader::new(body)).map_err(|e| match e {
        ProfileError::NotAProfile => format!("{url}: sent no profile while it was listened to"),
        e => format!("{url}: {e}"),
    })?;
    for item in reader {
        match item {
            Ok(Item::Request(record)) => builder.request(&record).map_err(|e| spilled(&e))?,
            Ok(Item::Event(event)) => builder.event(&event).map_err(|e| spilled(&e))?,
            // The record that was cut by the end of the time.
            Err(ProfileError::Torn { .. }) if end.is_here() => {}
            Err(e) => builder.trouble(format!("{url}: {e}")),
        }
    }
    if !end.is_here() {
        builder.note("the proxy ended the connection before the time was over");
    }
    builder.rest().map_err(|e| spilled(&e))?;
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_its_first_bytes_tell() {
        let mut profile = Vec::new();
        profile::write_file_header(0, &mut profile);
        assert_eq!(kind(&profile), Ok(Kind::Profile));
        assert_eq!(kind(b" {\"format\": 1}"), Ok(Kind::Json));
        let line = b"# x\nhello\n1.0 5 192.0.2.1 TCP_HIT/200 9 GET http://a/ - HIER_NONE/- -";
        assert_eq!(kind(line), Ok(Kind::Squid { has_stages: false }));
        let longer = [&line[..], b" 1 2 3\n"].concat();
        assert_eq!(kind(&longer), Ok(Kind::Squid { has_stages: true }));
    }

    #[test]
    fn what_is_neither_says_so() {
        let said = |bytes: &[u8]| kind(bytes).unwrap_err();
        assert!(said(b"hello\n").contains("has 1 fields of 10"));
        assert!(said(b"\n").contains("no lines with requests"));
        assert!(said(&[0x1f, 0x8b, 8, 0]).contains("zcat"));
    }
}
