//! Checks that every page of `docs/` is listed in `docs/README.md` and in the contents of the book, `docs/SUMMARY.md`, so that readers
//! find it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::failure::{During, Result};

const LISTS: [&str; 2] = ["docs/README.md", "docs/SUMMARY.md"];

/// Checks the folder below `root`.
pub fn check(root: &Path) -> Result<Vec<(PathBuf, Finding)>> {
    let mut pages = Vec::new();
    for folder in ["", "decisions/"] {
        let path = root.join("docs").join(folder);
        let entries = fs::read_dir(&path).during(|| format!("reading {}", path.display()))?;
        let names = entries
            .flatten()
            .map(|it| it.file_name().to_string_lossy().into_owned());
        let texts = names.filter(|name| name.ends_with(".md"));
        pages.extend(texts.map(|name| format!("{folder}{name}")));
    }
    pages.retain(|page| !LISTS.contains(&format!("docs/{page}").as_str()));
    pages.sort();
    let mut found = Vec::new();
    for list in LISTS {
        let text = fs::read_to_string(root.join(list)).during(|| format!("reading {list}"))?;
        found.extend(unreached(list, &text, &pages));
    }
    Ok(found)
}

fn unreached(list: &str, text: &str, pages: &[String]) -> Vec<(PathBuf, Finding)> {
    let is_reached = |page: &String| text.contains(&format!("({page})"));
    let missing = pages.iter().filter(|page| !is_reached(page));
    let found = missing.map(|page| {
        let message = format!("is not in the list of pages, {list}");
        (
            PathBuf::from("docs").join(page),
            Finding::error(None, message),
        )
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_in_the_list_is_found() {
        let pages = ["a.md", "b.md", "decisions/0001-x.md"].map(str::to_owned);
        let list = "| [a.md](a.md) | [0001](decisions/0001-x.md) [b.md](other/b.md) |";
        let found = unreached("docs/README.md", list, &pages);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Path::new("docs/b.md"));
    }

    #[test]
    fn the_list_of_this_workspace_has_every_page() {
        assert_eq!(check(&crate::workspace::root()).unwrap(), []);
    }
}
