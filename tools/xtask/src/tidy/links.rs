//! Checks the links of pages to files of this tree: the file exists, and has the heading that is named.
//!
//! Anchors are derived from headings as by code hosts: lower case, words and hyphens, blanks as hyphens.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::failure::{During, Result};

/// Folders with pages, including the root.
const FOLDERS: [&str; 4] = ["", "docs", "docs/decisions", "deploy"];

/// Checks every page below `root`.
pub fn check(root: &Path) -> Result<Vec<(PathBuf, Finding)>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let path = root.join(folder);
        let entries = fs::read_dir(&path).during(|| format!("reading {}", path.display()))?;
        let mut pages: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        pages.retain(|page| page.extension().is_some_and(|ending| ending == "md"));
        pages.sort();
        for page in pages {
            let text =
                fs::read_to_string(&page).during(|| format!("reading {}", page.display()))?;
            let shown = page.strip_prefix(root).unwrap_or(&page).to_owned();
            let broken = links(&text).filter(|link| !leads_somewhere(&page, &text, link));
            found.extend(broken.map(|link| {
                let message = format!("the link {link} leads nowhere");
                (shown.clone(), Finding::error(None, message))
            }));
        }
    }
    Ok(found)
}

/// The text without code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Link targets that are not URLs.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let after = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = after.filter_map(|rest| rest.split(')').next());
    targets.filter(|link| !link.is_empty() && !link.contains([':', ' ']))
}

fn leads_somewhere(page: &Path, text: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = page.with_file_name(file);
    if file.is_empty() {
        return anchors(text).contains(anchor);
    }
    if anchor.is_empty() || target.extension().is_none_or(|ending| ending != "md") {
        return target.exists();
    }
    fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(anchor))
}

/// The anchors of all headings.
fn anchors(text: &str) -> HashSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim());
    titles.map(anchor).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "# Two words, `code`\n[a](#two-words-code) [b](#three) [c](https://a.example/#x)\n```\n[d](no)\n```\n[e](mod.rs) [f](none.md)";
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tidy/page.md");
        let broken: Vec<_> = links(text)
            .filter(|link| !leads_somewhere(&page, text, link))
            .collect();
        assert_eq!(broken, ["#three", "none.md"]);
    }

    #[test]
    fn the_links_of_this_workspace_lead_somewhere() {
        assert_eq!(check(&crate::workspace::root()).unwrap(), []);
    }
}
