//! The stored results as text, as JSON, and as a page.
//!
//! Cells are sentences, so in a terminal each claim is a small table of its own, narrow enough for any terminal.
//!
//! Not known here: where they are stored.

use jiff::civil::Date;
use page::{Page, Table};
use serde_json::{Value, json};

use super::results::{Claim, Figure, Paper, Verdict, When};

/// The width that fits every terminal.
const COLUMNS: usize = 78;
/// The column where the texts of a claim begin, after label and age.
const TEXT_COLUMN: usize = 34;

/// The mark after an age that comes from a commit.
const OF_COMMIT: &str = "*";
const LEGEND: &str = "* The page of the command says no date; this is the age of the commit that brought the figure. Without it, the age is that of the \
                      date in the page. Where a figure is several, the oldest counts.";

/// The results as text.
pub fn text(papers: &[Paper], today: Date) -> String {
    let mut out = String::new();
    for paper in papers {
        out += &format!("Paper {}: {}\n", paper.number, paper.title);
        for claim in &paper.claims {
            out.push('\n');
            out += &claim_text(claim, today);
        }
        out.push('\n');
    }
    let sums = sums(papers);
    out += &format!("{}\n{}", folded(&sums, 0), folded(LEGEND, 0));
    out
}

fn claim_text(claim: &Claim, today: Date) -> String {
    let headline = format!("{}: {}", plain(&claim.claim), claim.verdict.name());
    let mut out = folded(&headline, 0);
    let mut line = |of: &str, age: &str, text: &str| {
        let front = format!("  {of:<16}{age:>14}  ");
        out += &front;
        out += folded(text, TEXT_COLUMN).trim_start();
    };
    line("printed", "", &plain(&claim.printed));
    for figure in claim.figures() {
        if let Some(text) = figure.text {
            let age = figure.when.map(|when| age(when, today));
            line(figure.of, &age.unwrap_or_default(), &plain(text));
        }
    }
    for (command, page) in commands_of(claim) {
        line("command", "", &said(&command, page.as_deref()));
    }
    out
}

fn said(command: &str, page: Option<&str>) -> String {
    match page {
        Some(page) => format!("{command}: docs/{page}"),
        None => command.to_owned(),
    }
}

/// `7 days old`, with a mark if the date is that of a commit.
fn age(when: &When, today: Date) -> String {
    let mark = when.commit.as_ref().map_or("", |_| OF_COMMIT);
    match when.age_days(today) {
        1 => format!("1 day old{mark}"),
        days => format!("{days} days old{mark}"),
    }
}

/// The number of claims with each verdict.
fn sums(papers: &[Paper]) -> String {
    let claims: Vec<&Claim> = papers.iter().flat_map(|paper| &paper.claims).collect();
    let each: Vec<String> = Verdict::ALL
        .map(|verdict| {
            let count = claims
                .iter()
                .filter(|claim| claim.verdict == verdict)
                .count();
            format!("{count} {}", verdict.name())
        })
        .to_vec();
    format!("{} claims: {}.", claims.len(), each.join(", "))
}

/// The results as JSON.
pub fn json(papers: &[Paper], today: Date) -> String {
    let papers: Vec<Value> = papers
        .iter()
        .map(|paper| {
            let claims: Vec<Value> = paper.claims.iter().map(|c| claim_json(c, today)).collect();
            json!({ "number": paper.number, "title": paper.title, "claims": claims })
        })
        .collect();
    let whole = json!({ "today": today.to_string(), "papers": papers });
    format!("{whole:#}\n")
}

fn claim_json(claim: &Claim, today: Date) -> Value {
    let figure = |figure: Figure<'_>| {
        let value = json!({
            "text": plain(figure.text?),
            "measured": figure.when.map(|when| when.on.to_string()),
            "commit": figure.when.and_then(|when| when.commit.clone()),
            "age_days": figure.when.map(|when| when.age_days(today)),
        });
        Some((figure.key.to_owned(), value))
    };
    let figures: serde_json::Map<String, Value> =
        claim.figures().into_iter().filter_map(figure).collect();
    let commands = commands_of(claim).into_iter();
    let commands: Vec<Value> = commands
        .map(|(command, page)| json!({ "command": command, "page": page.map(|p| format!("docs/{p}")) }))
        .collect();
    json!({
        "claim": plain(&claim.claim),
        "printed": plain(&claim.printed),
        "figures": figures,
        "verdict": claim.verdict.name(),
        "commands": commands,
        "age_days": claim.days().first().map(|when| when.age_days(today)),
    })
}

/// The results as an HTML page.
pub fn page(papers: &[Paper], today: Date) -> Page {
    let mut page = Page::new("Five papers: what is claimed, and what was found");
    page.text(&format!("{} Ages are those of {today}.", sums(papers)));
    for paper in papers {
        let mut table = Table::new(
            &format!("Paper {}: {}", paper.number, paper.title),
            &COLUMNS_OF_PAGE,
        );
        for claim in &paper.claims {
            table.row(claim_row(claim, today));
        }
        page.table(&table);
    }
    page.text(LEGEND);
    page
}

const COLUMNS_OF_PAGE: [&str; 7] = [
    "claim",
    "printed",
    "the model of 1999",
    "this machine",
    "the running program",
    "verdict",
    "command",
];

fn claim_row(claim: &Claim, today: Date) -> Vec<String> {
    let figure = |figure: &Figure<'_>| {
        let text = plain(figure.text.unwrap_or("not measured"));
        match figure.when {
            Some(when) => format!("{text} ({})", age(when, today)),
            None => text,
        }
    };
    let commands: Vec<String> = commands_of(claim)
        .iter()
        .map(|(command, page)| said(command, page.as_deref()))
        .collect();
    let mut row = vec![plain(&claim.claim), plain(&claim.printed)];
    row.extend(claim.figures().iter().map(figure));
    row.extend([claim.verdict.name().to_owned(), commands.join("; ")]);
    row
}

/// The commands of a claim, each with its page and the anchor there.
pub fn commands_of(claim: &Claim) -> Vec<(String, Option<String>)> {
    let links: Vec<(String, Option<String>)> = links(&claim.command)
        .into_iter()
        .map(|(text, target)| (plain(text), Some(target.to_owned())))
        .collect();
    match links.is_empty() {
        true => vec![(plain(&claim.command), None)],
        false => links,
    }
}

/// The links of a Markdown text: their texts and targets.
fn links(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((link, behind)) = next_link(rest) {
        found.push((link.1, link.2));
        rest = behind;
    }
    found
}

/// The text before the next link, its text and its target; and the rest after it.
fn next_link(text: &str) -> Option<((&str, &str, &str), &str)> {
    let (before, rest) = text.split_once('[')?;
    let (said, rest) = rest.split_once("](")?;
    let (target, behind) = rest.split_once(')')?;
    Some(((before, said, target), behind))
}

/// Markdown as plain text: links without their targets, code without its ticks.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(((before, said, _), behind)) = next_link(rest) {
        out += before;
        out += said;
        rest = behind;
    }
    out += rest;
    out.replace('`', "")
}

/// Wraps a text at the margin, with each line indented to this column.
fn folded(text: &str, column: usize) -> String {
    let mut out = String::new();
    let mut line = " ".repeat(column);
    for word in text.split_whitespace() {
        let is_empty = line.len() == column;
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out += &line;
            out.push('\n');
            line = " ".repeat(column);
        } else if !is_empty {
            line.push(' ');
        }
        line += word;
    }
    out += &line;
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::super::results::stored;
    use super::*;

    fn today() -> Date {
        date(2026, 12, 1)
    }

    #[test]
    fn a_row_says_how_old_its_figures_are_and_who_says_so() {
        let papers = stored();
        let text = text(&papers, today());
        let peak = "  this machine        8 days old  37 carried, 50 not\n";
        assert!(text.contains(peak), "{text}");
        let of_commit = "  model of 1999      9 days old*  35,499 s at 1 block";
        assert!(text.contains(of_commit), "{text}");
        assert!(text.contains("49 claims: "), "{text}");
    }

    #[test]
    fn every_line_fits_a_terminal_but_for_a_long_link() {
        let text = text(&stored(), today());
        let too_long = |line: &&str| line.chars().count() > COLUMNS && !line.contains("docs/");
        let long: Vec<&str> = text.lines().filter(too_long).collect();
        assert!(long.is_empty(), "{long:#?}");
        assert!(!text.contains(['`', '[']), "{text}");
    }

    #[test]
    fn programs_get_the_same() {
        let told: Value = serde_json::from_str(&json(&stored(), today())).unwrap();
        let claim = &told["papers"][0]["claims"][4];
        assert_eq!(claim["figures"]["machine"]["measured"], "2026-11-23");
        assert_eq!(claim["figures"]["ours"]["age_days"], 3);
        assert_eq!(claim["age_days"], 8);
        let page = &claim["commands"][0]["page"];
        assert_eq!(page, "docs/rivals.md#slow-disk-peak");
    }

    #[test]
    fn the_page_has_every_claim_and_needs_nothing_besides_itself() {
        let papers = stored();
        let html = page(&papers, today()).html();
        let rows = html.matches("<tr><td").count();
        let claims: usize = papers.iter().map(|paper| paper.claims.len()).sum();
        assert_eq!(rows, claims);
        assert!(!html.contains("href=") && html.contains("37 carried, 50 not (8 days old)"));
    }

    #[test]
    fn markdown_is_read() {
        let text = "before [0116](decisions/0116.md) `357`, [a](b)";
        assert_eq!(plain(text), "before 0116 357, a");
        assert_eq!(links(text), [("0116", "decisions/0116.md"), ("a", "b")]);
    }
}
