//! Every page of `docs/` is reached from its list, `docs/README.md`: a page that nobody finds might as well not be there.

use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::failure::{During, Result};

const LIST: &str = "docs/README.md";

/// Looks at the folder below `root`.
pub fn check(root: &Path) -> Result<Vec<(PathBuf, Finding)>> {
    let list = fs::read_to_string(root.join(LIST)).during(|| format!("reading {LIST}"))?;
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
    pages.sort();
    Ok(unreached(&list, &pages))
}

fn unreached(list: &str, pages: &[String]) -> Vec<(PathBuf, Finding)> {
    let is_reached = |page: &String| page == "README.md" || list.contains(&format!("({page})"));
    let missing = pages.iter().filter(|page| !is_reached(page));
    let found = missing.map(|page| {
        let message = format!("is not in the list of pages, {LIST}");
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
        let pages = ["README.md", "a.md", "b.md", "decisions/0001-x.md"].map(str::to_owned);
        let list = "| [a.md](a.md) | [0001](decisions/0001-x.md) [b.md](other/b.md) |";
        let found = unreached(list, &pages);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Path::new("docs/b.md"));
    }

    #[test]
    fn the_list_of_this_workspace_has_every_page() {
        assert_eq!(check(&crate::workspace::root()).unwrap(), []);
    }
}
