//! Keeps docs/http.md in step with the scenarios.
//!
//! The part between the marks is generated from the titles of the scenarios; `UPDATE_DOCS=1 cargo test -p proxy --test scenarios`
//! writes it again. The rest is written by hand, and every file or test that it names (`crates/…/name.rs` or
//! `crates/…/name.rs::test`) must exist. Every section of the caching RFCs that the code cites must have a scenario.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{all, parser::Scenario};

const BEGIN: &str = "<!-- written from the scenarios: begin -->\n";
const END: &str = "<!-- written from the scenarios: end -->";

/// RFC, section and its name, in the order of the page.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("9111", "1.2.2", "Delta Seconds"),
    ("9111", "2", "Overview of Cache Operation"),
    ("9111", "3", "Storing Responses in Caches"),
    ("9111", "3.1", "Storing Header and Trailer Fields"),
    ("9111", "3.2", "Updating Stored Header Fields"),
    ("9111", "3.3", "Storing Incomplete Responses"),
    ("9111", "3.5", "Storing Responses to Authenticated Requests"),
    ("9111", "4", "Constructing Responses from Caches"),
    (
        "9111",
        "4.1",
        "Calculating Cache Keys with the Vary Header Field",
    ),
    ("9111", "4.2", "Freshness"),
    ("9111", "4.2.1", "Calculating Freshness Lifetime"),
    ("9111", "4.2.2", "Calculating Heuristic Freshness"),
    ("9111", "4.2.3", "Calculating Age"),
    ("9111", "4.2.4", "Serving Stale Responses"),
    ("9111", "4.3", "Validation"),
    ("9111", "4.3.1", "Sending a Validation Request"),
    ("9111", "4.3.2", "Handling a Received Validation Request"),
    ("9111", "4.3.3", "Handling a Validation Response"),
    (
        "9111",
        "4.3.4",
        "Freshening Stored Responses upon Validation",
    ),
    ("9111", "4.3.5", "Freshening Responses with HEAD"),
    ("9111", "4.4", "Invalidating Stored Responses"),
    ("9111", "5.1", "Age"),
    ("9111", "5.2", "Cache-Control"),
    ("9111", "5.2.1", "Request Directives"),
    ("9111", "5.2.1.1", "max-age"),
    ("9111", "5.2.1.2", "max-stale"),
    ("9111", "5.2.1.3", "min-fresh"),
    ("9111", "5.2.1.4", "no-cache"),
    ("9111", "5.2.1.5", "no-store"),
    ("9111", "5.2.1.7", "only-if-cached"),
    ("9111", "5.2.2", "Response Directives"),
    ("9111", "5.2.2.1", "max-age"),
    ("9111", "5.2.2.2", "must-revalidate"),
    ("9111", "5.2.2.3", "must-understand"),
    ("9111", "5.2.2.4", "no-cache"),
    ("9111", "5.2.2.5", "no-store"),
    ("9111", "5.2.2.6", "no-transform"),
    ("9111", "5.2.2.7", "private"),
    ("9111", "5.2.2.8", "proxy-revalidate"),
    ("9111", "5.2.2.9", "public"),
    ("9111", "5.2.2.10", "s-maxage"),
    ("9111", "5.2.3", "Extension Directives"),
    ("9111", "5.3", "Expires"),
    ("9111", "5.4", "Pragma"),
    ("9111", "5.5", "Warning"),
    ("9111", "7.3", "Caching of Sensitive Information"),
    ("9110", "4.2.3", "http(s) Normalization and Comparison"),
    ("9110", "5.3", "Field Order"),
    ("9110", "5.6.1", "Lists (#rule ABNF Extension)"),
    ("9110", "5.6.4", "Quoted Strings"),
    ("9110", "5.6.7", "Date/Time Formats"),
    ("9110", "6.5", "Trailer Fields"),
    ("9110", "6.6.1", "Date"),
    ("9110", "7.6.1", "Connection"),
    ("9110", "8.8.3", "ETag"),
    ("9110", "8.8.3.2", "Comparison"),
    ("9110", "9.2.1", "Safe Methods"),
    ("9110", "9.3.1", "GET"),
    ("9110", "9.3.2", "HEAD"),
    ("9110", "9.3.3", "POST"),
    ("9110", "10.2.2", "Location"),
    ("9110", "12.5.1", "Accept"),
    ("9110", "12.5.3", "Accept-Encoding"),
    ("9110", "12.5.4", "Accept-Language"),
    ("9110", "12.5.5", "Vary"),
    ("9110", "13.1", "Preconditions"),
    ("9110", "13.1.2", "If-None-Match"),
    ("9110", "13.1.3", "If-Modified-Since"),
    ("9110", "13.1.5", "If-Range"),
    ("9110", "13.2.1", "When to Evaluate"),
    ("9110", "13.2.2", "Precedence of Preconditions"),
    ("9110", "14.1.2", "Byte Ranges"),
    ("9110", "14.2", "Range"),
    ("9110", "14.4", "Content-Range"),
    ("9110", "15.1", "Overview of Status Codes"),
    ("9110", "15.3.7", "206 Partial Content"),
    ("9110", "15.4", "Redirection 3xx"),
    ("9110", "15.4.5", "304 Not Modified"),
    ("9110", "15.5", "Client Error 4xx"),
    ("9110", "15.5.17", "416 Range Not Satisfiable"),
    ("9112", "5.1", "Field Line Parsing"),
    ("9112", "6.3", "Message Body Length"),
    ("9112", "7.1", "Chunked Transfer Coding"),
    ("9112", "8", "Handling Incomplete Messages"),
    (
        "5861",
        "3",
        "The stale-while-revalidate Cache-Control Extension",
    ),
    ("5861", "4", "The stale-if-error Cache-Control Extension"),
    ("8246", "2", "The Immutable Cache-Control Extension"),
    ("9211", "2", "The Cache-Status HTTP Response Header Field"),
    ("9211", "2.1", "The hit Parameter"),
    ("9211", "2.2", "The fwd Parameter"),
    ("9211", "2.3", "The fwd-status Parameter"),
    ("9211", "2.4", "The ttl Parameter"),
    ("9211", "2.5", "The stored Parameter"),
    ("9211", "2.6", "The collapsed Parameter"),
    ("9211", "2.8", "The detail Parameter"),
    ("9213", "2.1", "Syntax (Targeted Fields)"),
    ("9213", "2.2", "Cache Behavior"),
    ("9213", "3", "The CDN-Cache-Control Targeted Field"),
    ("6585", "3", "Status Codes That Are Not Stored"),
    (OWN, "rule", "Cache rules (`[[rule]]`)"),
    (OWN, "purge", "Purges (`PURGE`, `DELETE /cache`)"),
];

/// Not an RFC: the operator's settings.
const OWN: &str = "operator";

/// RFCs whose cited sections must each have a scenario.
const PROVED_HERE: [&str; 5] = ["9111", "5861", "8246", "9211", "9213"];

/// Except for these, which `parts` and `ranges` in `tests/e2e` prove: combining parts takes more than one small body.
const PROVED_ELSEWHERE: [&str; 1] = ["rfc9111 §3.4"];

#[test]
fn the_page_is_up_to_date() {
    let path = root().join("docs/http.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the first mark");
    let (_, after) = rest.split_once(END).expect("the last mark");
    let written = format!("{before}{BEGIN}{}{END}{after}", lists());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let differs = page.lines().zip(written.lines()).find(|(a, b)| a != b);
    assert!(
        page == written || std::env::var_os("UPDATE_DOCS").is_some(),
        "docs/http.md is not what the scenarios say (UPDATE_DOCS=1): {differs:?}"
    );
}

#[test]
fn what_the_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/http.md")).unwrap();
    for name in page
        .split('`')
        .filter(|word| ["crates/", "tools/"].iter().any(|f| word.starts_with(f)))
    {
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let path = root().join(file);
        if path.is_dir() {
            continue;
        }
        let code = fs::read_to_string(path);
        let code = code.unwrap_or_else(|_| panic!("docs/http.md names {file}, which is not there"));
        assert!(
            test.is_empty() || code.contains(&format!("fn {test}()")),
            "docs/http.md names {name}, which is not there"
        );
    }
}

#[test]
fn every_section_the_code_cites_has_a_scenario() {
    let scenarios = all();
    let proved: BTreeSet<&str> = scenarios
        .iter()
        .flat_map(|s| s.sections.iter().map(String::as_str))
        .collect();
    let cited = citations();
    let bare: Vec<_> = cited
        .iter()
        .filter(|section| PROVED_HERE.contains(&&section[3..7]))
        .filter(|section| !proved.contains(section.as_str()))
        .filter(|section| !PROVED_ELSEWHERE.contains(&section.as_str()))
        .collect();
    assert!(bare.is_empty(), "cited, and no scenario for it: {bare:?}");
}

#[test]
fn titles_are_unique_and_sections_known() {
    let mut titles = BTreeSet::new();
    for Scenario {
        title,
        sections,
        file,
        line,
        ..
    } in all()
    {
        assert!(
            titles.insert(title.clone()),
            "{file}:{line}: {title:?} is there twice"
        );
        for section in sections {
            let known = SECTIONS
                .iter()
                .any(|(rfc, number, _)| section == name(rfc, number));
            assert!(known, "{file}:{line}: {section} is not in docs.rs");
        }
    }
}

/// One list a section, of the scenarios that name it first.
fn lists() -> String {
    let scenarios = all();
    let mut out = String::new();
    let mut rfc_before = "";
    for (rfc, number, title) in SECTIONS {
        let section = name(rfc, number);
        let own: Vec<&Scenario> = scenarios
            .iter()
            .filter(|s| s.sections[0] == section)
            .collect();
        if own.is_empty() {
            continue;
        }
        if *rfc != rfc_before {
            out += &match *rfc {
                OWN => "\n## The operator's settings\n".to_owned(),
                rfc => format!("\n## RFC {rfc}\n"),
            };
            rfc_before = rfc;
        }
        out += &match *rfc {
            OWN => format!("\n### {title}\n\n"),
            _ => format!("\n### §{number} {title}\n\n"),
        };
        for scenario in own {
            let is_later =
                |first: &String| scenario.title != scenario.template.replace("{}", first);
            if scenario.each.first().is_some_and(is_later) {
                continue; // told with the first
            }
            let title = scenario.template.replace("{}", &scenario.each.join(", "));
            out += &format!("* {title}\n");
        }
    }
    out + "\n"
}

fn name(rfc: &str, number: &str) -> String {
    match rfc {
        OWN => number.to_owned(),
        rfc => format!("rfc{rfc} §{number}"),
    }
}

/// The sections that the code cites.
fn citations() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources() {
        let code = fs::read_to_string(&file).unwrap();
        let cited = code
            .lines()
            .filter_map(|line| line.trim().strip_prefix("//= rfc"));
        for citation in cited {
            let mut words = citation.split_whitespace();
            if let (Some(rfc), Some(number)) = (words.next(), words.next()) {
                found.insert(format!("rfc{rfc} {number}"));
            }
        }
    }
    found
}

/// The files in which caching is decided and done.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let crates = [
        "httpcache",
        "rules",
        "record",
        "cache",
        "origin",
        "cluster",
        "exchange",
        "proxy",
    ];
    let mut dirs: Vec<PathBuf> = crates
        .map(|name| root().join("crates").join(name).join("src"))
        .into();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
