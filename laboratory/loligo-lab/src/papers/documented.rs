//! The tables of docs/papers.md, generated from the stored results: `UPDATE_DOCS=1` writes them again.

use std::path::Path;

use super::results::{Claim, Paper, stored};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/papers.md");

/// The line before the table of a paper.
fn mark(paper: &Paper) -> String {
    format!(
        "<!-- Written from papers.toml by `UPDATE_DOCS=1 cargo test -p loligo-lab -- papers`: paper {} -->\n",
        paper.number
    )
}

fn table(paper: &Paper) -> String {
    let mut out = "| claim | printed | the model of 1999 | this machine | the running program | verdict | command | measured |\n\
                   |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for claim in &paper.claims {
        let figures = claim.figures();
        let mut cells = vec![claim.claim.as_str(), claim.printed.as_str()];
        cells.extend(
            figures
                .iter()
                .map(|figure| figure.text.unwrap_or("not measured")),
        );
        let measured = measured(claim);
        cells.extend([claim.verdict.name(), &claim.command, &measured]);
        out += &format!("| {} |\n", cells.join(" | "));
    }
    out
}

/// The dates of the measurements; with the commit where the command's page has no date.
fn measured(claim: &Claim) -> String {
    let mut days: Vec<String> = claim
        .days()
        .iter()
        .map(|when| match &when.commit {
            Some(commit) => format!("{} ({commit})", when.on),
            None => when.on.to_string(),
        })
        .collect();
    days.dedup();
    days.join(", ")
}

/// The page with its tables updated: each table reaches from its mark to the next empty line.
fn renewed(page: &str, papers: &[Paper]) -> String {
    let mut out = page.to_owned();
    for paper in papers {
        let mark = mark(paper);
        let (before, rest) = out
            .split_once(&mark)
            .unwrap_or_else(|| panic!("no line {mark}"));
        let behind = rest.find("\n\n").map_or("", |at| &rest[at + 1..]);
        out = format!("{before}{mark}{}{behind}", table(paper));
    }
    out
}

#[test]
fn the_tables_of_the_page_are_those_of_the_stored_results() {
    let path = Path::new(PAGE);
    let found = std::fs::read_to_string(path).unwrap();
    let wanted = renewed(&found, &stored());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "docs/papers.md is out of date: UPDATE_DOCS=1 cargo test -p loligo-lab -- papers"
    );
}
