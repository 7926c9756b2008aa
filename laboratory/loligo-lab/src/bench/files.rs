//! Reports in files: read back, joined, written as asked.
//!
//! Not known here: what is in them.   Limits: none but memory.

use std::path::{Path, PathBuf};

use polymix::report::Report;
use polymix::search::SearchReport;

/// What `--json` may have written.
#[derive(Debug)]
pub enum Read {
    /// Runs; parts of one are joined.
    Runs(Vec<Report>),
    /// Searches.
    Searches(Vec<SearchReport>),
}

/// Reads all, or says what is wrong with one of them.
pub fn read(files: &[PathBuf]) -> Result<Read, String> {
    let mut runs: Vec<Vec<Report>> = Vec::new();
    let mut searches = Vec::new();
    for path in files {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| said(&e))?;
        if let Ok(mut search) = SearchReport::from_json(&text) {
            call(&mut search.label, path);
            searches.push(search);
            continue;
        }
        let mut report = Report::from_json(&text).map_err(|e| said(&e))?;
        call(&mut report.label, path);
        match runs
            .iter_mut()
            .find(|parts| parts[0].is_part_of_same(&report))
        {
            Some(parts) => parts.push(report),
            None => runs.push(vec![report]),
        }
    }
    if !searches.is_empty() && !runs.is_empty() {
        return Err("runs and searches do not compare; give files of one sort".to_owned());
    }
    if !searches.is_empty() {
        return Ok(Read::Searches(searches));
    }
    let joined = runs.iter().map(|parts| Report::joined(parts));
    let joined: Result<_, _> = joined.collect();
    Ok(Read::Runs(joined.map_err(|e| e.to_string())?))
}

/// A report without a label is named after its file.
fn call(label: &mut String, path: &Path) {
    if label.is_empty()
        && let Some(stem) = path.file_stem()
    {
        *label = stem.to_string_lossy().into_owned();
    }
}
