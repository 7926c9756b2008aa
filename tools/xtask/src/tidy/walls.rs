//! Walls within a crate: dependencies between files, and the size of functions.
//!
//! Files that depend on each other in a cycle can only be read together. The figures counted here may fall and never rise: the figures
//! of [`HELD`] are lowered when they fall.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::source::{self, Source};
use super::{Finding, walk};
use crate::failure::{During, Result};

/// Most files in the largest cycle of a crate that has no figure of its own.
const CIRCLE_MAX: usize = 6;

/// Most lines of a function's body.
const FUNCTION_LINES_MAX: usize = 80;

/// Most parameters of a function.
const PARAMETERS_MAX: usize = 6;

/// Files in the largest cycle of these crates.
const HELD: [(&str, usize); 7] = [
    ("http1", 0),
    ("http2", 2),
    ("httpcache", 0),
    ("loligo", 0),
    ("proxy", 0),
    ("store", 0),
    ("tls", 2),
];

/// Most functions of all crates that are too long, have too many parameters, or take a whole worker or all that workers share.
const LONG_HELD: usize = 0;
const WIDE_HELD: usize = 0;
const BAGS_HELD: usize = 29;

/// The files of a crate and their dependencies.
#[derive(Debug, Default)]
pub struct Shape {
    pub name: String,
    pub files: usize,
    /// Lines of code, without blank lines and comments.
    pub lines: usize,
    /// The largest group of files that depend on each other in a cycle.
    pub circle: Vec<PathBuf>,
    /// Dependencies between the files of that group.
    pub arrows: Vec<(PathBuf, PathBuf)>,
    pub functions: Vec<(PathBuf, source::Function)>,
}

/// Reads the crates of `crates/`.
pub fn read(root: &Path) -> Result<Vec<Shape>> {
    let mut shapes = Vec::new();
    let folder = root.join("crates");
    for entry in fs::read_dir(&folder)
        .during(|| format!("reading {}", folder.display()))?
        .flatten()
    {
        shapes.push(shape(&entry.path())?);
    }
    shapes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(shapes)
}

fn shape(folder: &Path) -> Result<Shape> {
    let source_dir = folder.join("src");
    let mut files = Vec::new();
    walk(&source_dir, &mut files)?;
    let mut shape = Shape {
        name: folder
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default(),
        ..Shape::default()
    };
    let mut sources: BTreeMap<Vec<String>, (PathBuf, Source)> = BTreeMap::new();
    for path in files {
        let inside = path.strip_prefix(&source_dir).unwrap_or(&path).to_owned();
        let Some(module) = module_of(&inside) else {
            continue;
        };
        let text = fs::read_to_string(&path).during(|| format!("reading {}", path.display()))?;
        shape.files += 1;
        shape.lines += code_lines(&text);
        if let Some(source) = source::read(&module, &text) {
            sources.insert(module, (inside, source));
        }
    }
    let modules: Vec<&Vec<String>> = sources.keys().collect();
    let arrows: Vec<BTreeSet<usize>> = sources
        .iter()
        .map(|(own, (_, source))| {
            let known = source.paths.iter().filter_map(|path| named(&modules, path));
            known.filter(|other| modules[*other] != own).collect()
        })
        .collect();
    let circle = largest_circle(&arrows);
    let paths: Vec<&PathBuf> = sources.values().map(|(path, _)| path).collect();
    shape.arrows = circle
        .iter()
        .flat_map(|file| {
            let known = arrows[*file].intersection(&circle);
            known.map(|other| (paths[*file].clone(), paths[*other].clone()))
        })
        .collect();
    shape.circle = circle.iter().map(|file| paths[*file].clone()).collect();
    for (path, source) in sources.into_values() {
        shape
            .functions
            .extend(source.functions.into_iter().map(|f| (path.clone(), f)));
    }
    Ok(shape)
}

/// The module of a file below `src`. `None`: not Rust, or tests.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let mut module: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let is_test = module
        .iter()
        .any(|part| part == "tests" || part.ends_with("_tests"));
    if path.extension()? != "rs" || is_test {
        return None;
    }
    if module.len() == 1 && (module[0] == "lib" || module[0] == "main")
        || module.last().is_some_and(|last| last == "mod")
    {
        module.pop();
    }
    Some(module)
}

/// The module that a path names: its longest prefix that is a module.
fn named(modules: &[&Vec<String>], path: &[String]) -> Option<usize> {
    (0..=path.len()).rev().find_map(|length| {
        modules
            .binary_search_by(|m| m.as_slice().cmp(&path[..length]))
            .ok()
    })
}

/// Lines that are neither blank nor a comment.
fn code_lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// The largest cycle of a graph given as adjacency lists; empty if there is none.
///
/// Two files are in one cycle if each is reachable from the other. With some hundred files a search from each is fast enough.
fn largest_circle(arrows: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len())
        .map(|start| {
            let mut reached = BTreeSet::new();
            let mut open = vec![start];
            while let Some(file) = open.pop() {
                open.extend(arrows[file].iter().filter(|next| reached.insert(**next)));
            }
            reached
        })
        .collect();
    let circle_of = |file: usize| -> BTreeSet<usize> {
        let own = reached[file].iter().copied();
        own.filter(|other| reached[*other].contains(&file))
            .collect()
    };
    (0..arrows.len())
        .map(circle_of)
        .max_by_key(BTreeSet::len)
        .unwrap_or_default()
}

/// Findings for figures that have risen, or have fallen below the figure held.
pub fn check(shapes: &[Shape]) -> Vec<(PathBuf, Finding)> {
    let mut findings = Vec::new();
    for shape in shapes {
        let held = HELD.iter().find(|(name, _)| *name == shape.name);
        let place = PathBuf::from("crates").join(&shape.name);
        hold(
            &place,
            "files in a circle",
            shape.circle.len(),
            held.map_or(CIRCLE_MAX, |h| h.1),
            held.is_some(),
            &mut findings,
        );
    }
    for (what, held, count) in counted(shapes) {
        hold(Path::new("crates"), what, count, held, true, &mut findings);
    }
    findings
}

/// Compares a figure with the one held; `is_own`: the figure is lowered when it falls.
fn hold(
    place: &Path,
    what: &str,
    now: usize,
    held: usize,
    is_own: bool,
    findings: &mut Vec<(PathBuf, Finding)>,
) {
    if now > held {
        let message = format!("{now} {what}, at most {held}: the change wants another place");
        findings.push((place.to_owned(), Finding::error(None, message)));
    } else if is_own && now < held {
        let message = format!("{now} {what}: lower the figure in tidy/walls.rs from {held}");
        findings.push((place.to_owned(), Finding::error(None, message)));
    }
}

/// Counted kinds of functions: name, figure held, present number.
fn counted(shapes: &[Shape]) -> [(&'static str, usize, usize); 3] {
    let count = |is: &dyn Fn(&source::Function) -> bool| {
        let all = shapes.iter().flat_map(|shape| &shape.functions);
        all.filter(|(_, function)| is(function)).count()
    };
    [
        (
            "functions of over 80 lines",
            LONG_HELD,
            count(&|f| f.lines > FUNCTION_LINES_MAX),
        ),
        (
            "functions with over 6 parameters",
            WIDE_HELD,
            count(&|f| f.parameters > PARAMETERS_MAX),
        ),
        (
            "functions that take a worker or all that workers share",
            BAGS_HELD,
            count(&|f| f.takes_a_bag),
        ),
    ]
}

/// Prints a table of the crates, and the dependencies in one crate's cycle.
pub fn print(shapes: &[Shape], circle_of: Option<&str>) {
    for shape in shapes.iter().filter(|s| Some(s.name.as_str()) == circle_of) {
        for (from, to) in &shape.arrows {
            println!("{} -> {}", from.display(), to.display());
        }
    }
    println!(
        "{:12} {:>6} {:>7} {:>7} {:>7}",
        "crate", "files", "lines", "circle", "arrows"
    );
    for shape in shapes {
        let Shape {
            name,
            files,
            lines,
            circle,
            arrows,
            ..
        } = shape;
        println!(
            "{name:12} {files:>6} {lines:>7} {:>7} {:>7}",
            circle.len(),
            arrows.len()
        );
    }
    for (what, _, count) in counted(shapes) {
        println!("{count} {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_circle() {
        let graph = |arrows: &[&[usize]]| -> Vec<BTreeSet<usize>> {
            arrows
                .iter()
                .map(|to| to.iter().copied().collect())
                .collect()
        };
        let largest = |arrows: &[&[usize]]| {
            largest_circle(&graph(arrows))
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert!(largest(&[&[1], &[2], &[]]).is_empty());
        assert_eq!(largest(&[&[1], &[0], &[3], &[4], &[2, 0]]), [2, 3, 4]);
    }

    #[test]
    fn modules_of_files() {
        let module = |path: &str| module_of(Path::new(path)).map(|module| module.join("::"));
        for (path, expected) in [
            ("lib.rs", Some("")),
            ("a/mod.rs", Some("a")),
            ("a/b.rs", Some("a::b")),
            ("a/tests.rs", None),
            ("a/b_tests.rs", None),
            ("a/tests/model.rs", None),
            ("a.txt", None),
        ] {
            assert_eq!(module(path).as_deref(), expected, "{path}");
        }
    }
}
