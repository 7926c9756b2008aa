//! Reads reports from files, and joins parts of one run.
//!
//! Not known here: the content of reports.   Limits: none but memory.

use std::path::{Path, PathBuf};

use polymix::report::Report;
use polymix::search::SearchReport;

/// Reports written by `--json`.
#[derive(Debug)]
pub enum Read {
    /// Runs; parts of one run are joined.
    Runs(Vec<Report>),
    /// Searches.
    Searches(Vec<SearchReport>),
}

/// Reads all files, or says what is wrong with one of them.
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

/// Names a report without a label after its file.
fn call(label: &mut String, path: &Path) {
    if label.is_empty()
        && let Some(stem) = path.file_stem()
    {
        *label = stem.to_string_lossy().into_owned();
    }
}
