//! Problems of a configuration: the place, the setting, the value, and what to do about it.
//!
//! Problems are collected ([`Found`]), so that all mistakes are reported at once.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a setting was written.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line of the configuration file, counted from 1.
    Line(Arc<PathBuf>, usize),
    /// A flag of the command line.
    Flag(&'static str),
    /// Nowhere: a default.
    #[default]
    Default,
}

impl Place {
    /// ` in line 7` for a place in a file, to tell apart several blocks of a kind.
    pub fn words(&self) -> String {
        match self {
            Place::Line(_, line) => format!(" in line {line}"),
            Place::Flag(_) | Place::Default => String::new(),
        }
    }
}

/// One problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it was written.
    pub place: Place,
    /// The setting, `store.size`; empty if the problem is not about a single setting.
    pub key: String,
    /// The value as written; empty if the problem is not about a value.
    pub value: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Problem {
    /// For sorting: flags first, then by line.
    pub fn line(&self) -> usize {
        match self.place {
            Place::Line(_, line) => line,
            Place::Flag(_) | Place::Default => 0,
        }
    }
}

impl fmt::Display for Problem {
    /// `loligo.toml:12: store.size = "1KiB": ...`, `--store-size 1KiB: ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Flag(flag) => {
                // As typed: without the quotes of TOML.
                let typed = self.value.trim_matches('"');
                write!(
                    f,
                    "{flag}{}{typed}: ",
                    if typed.is_empty() { "" } else { " " }
                )?;
            }
            place => {
                if let Place::Line(path, line) = place {
                    write!(f, "{}:{line}: ", path.display())?;
                }
                match (self.key.as_str(), self.value.as_str()) {
                    ("", _) => {}
                    (key, "") => write!(f, "{key}: ")?,
                    (key, value) => write!(f, "{key} = {value}: ")?,
                }
            }
        }
        f.write_str(&self.message)
    }
}

/// The findings of a check of a configuration.
#[derive(Default)]
pub struct Found {
    pub problems: Vec<Problem>,
    /// Things that are allowed but may surprise.
    pub notes: Vec<String>,
    /// Defaults that were lowered to fit this machine.
    pub fitted: Vec<String>,
}

/// The message for an address beyond loopback without a list of clients.
pub fn needs_allow(how: &str) -> String {
    format!("beyond this machine it must say whom it serves: {how}")
}

/// The name most like `wrong`, if one is near enough to be meant.
pub fn did_you_mean<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    fn last(name: &str) -> &str {
        name.rsplit('.').next().unwrap_or(name)
    }
    // Count errors by the last part of a name only: the other parts are common to all names of a block.
    let near = |name: &&str| {
        let most = 1 + last(name).len() / 5;
        // Names whose lengths differ far too much are not compared.
        let errors = (wrong.len().abs_diff(name.len()) <= 4 * most).then(|| distance(wrong, name));
        errors.filter(|errors| *errors <= most)
    };
    let known: Vec<_> = known.collect();
    let best = (known.iter().copied()).filter_map(|name| Some((near(&name)?, name)));
    // Also accept the last part of a name without its section ("size" for "store.size").
    best.min_by_key(|(errors, _)| *errors)
        .map(|(_, name)| name)
        .or_else(|| known.into_iter().find(|name| last(name) == last(wrong)))
}

/// How many letters were left out, put in, mistaken, or changed places with their neighbours. Names are short.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(x != y);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_what_and_which_value() {
        let mut problem = Problem {
            place: Place::Line(Arc::new("a.toml".into()), 3),
            key: "store.size".into(),
            value: "\"1KiB\"".into(),
            message: "too small".into(),
        };
        assert_eq!(
            problem.to_string(),
            "a.toml:3: store.size = \"1KiB\": too small"
        );
        problem.place = Place::Flag("--store-size");
        assert_eq!(problem.to_string(), "--store-size 1KiB: too small");
        problem.place = Place::Default;
        problem.value = String::new();
        assert_eq!(problem.to_string(), "store.size: too small");
    }

    #[test]
    fn near_names_are_suggested_and_far_ones_not() {
        let known = ["store.size", "store.path", "limits.head-max", "workers"];
        let meant = |wrong| did_you_mean(wrong, known.into_iter());
        assert_eq!(meant("worker"), Some("workers"));
        assert_eq!(meant("store.siez"), Some("store.size"));
        assert_eq!(meant("limits.headmax"), Some("limits.head-max"));
        assert_eq!(meant("size"), Some("store.size"));
        assert_eq!(meant("colour"), None);
        assert_eq!(meant("compress"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("stroe", "store"), distance("ab", "")), (1, 2));
    }
}
