//! `loligo profile dump`: a profile file as lines on standard output.
//!
//! Torn places are reported on standard error and skipped. If the reader of the output closes it (`head`), the command ends quietly.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use profile::{
    Item, ProfileError, Reader, dump_event, dump_header, dump_json, dump_json_event, dump_line,
};

use crate::cli::DumpFlags;

/// Prints all records.
pub fn dump(flags: &DumpFlags) -> ExitCode {
    let out = BufWriter::new(io::stdout().lock());
    let done = if flags.file == Path::new("-") {
        print(io::stdin().lock(), flags.json, out)
    } else {
        match File::open(&flags.file) {
            Ok(file) => print(BufReader::new(file), flags.json, out),
            Err(e) => Err(ProfileError::Io(e)),
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(ProfileError::Io(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("loligo: {}: {e}", flags.file.display());
            ExitCode::FAILURE
        }
    }
}

fn print(source: impl BufRead, json: bool, mut out: impl Write) -> Result<(), ProfileError> {
    let reader = Reader::new(source)?;
    if !json {
        writeln!(out, "{}", dump_header())?;
    }
    let (mut columns, mut object) = (String::new(), Vec::new());
    for item in reader {
        match item {
            Ok(item) if json => {
                object.clear();
                match item {
                    Item::Request(record) => dump_json(&record, &mut object),
                    Item::Event(event) => dump_json_event(&event, &mut object),
                }
                out.write_all(&object)?;
            }
            Ok(item) => {
                columns.clear();
                match item {
                    Item::Request(record) => dump_line(&record, &mut columns),
                    Item::Event(event) => dump_event(&event, &mut columns),
                }
                out.write_all(columns.as_bytes())?;
            }
            Err(torn @ ProfileError::Torn { .. }) => eprintln!("loligo: {torn}"),
            Err(e) => return Err(e),
        }
    }
    out.flush()?;
    Ok(())
}
