//! For tests: what the pages of the repository show, so that each program can look whether its own command lines in them are right.
//!
//! Not known here: which words a program understands.

use std::fs;
use std::path::{Path, PathBuf};

/// A page that people read.
pub struct Shown {
    /// Where it is.
    pub path: PathBuf,
    text: String,
}

/// Every page of the repository at `root` that an operator reads.
///
/// # Panics
///
/// If one of them cannot be read.
pub fn all(root: &Path) -> Vec<Shown> {
    let docs = fs::read_dir(root.join("docs")).expect("docs");
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.expect("a page").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.extend(["README.md", "deploy/README.md"].map(|page| root.join(page)));
    paths.sort();
    let read = |path: PathBuf| Shown {
        text: fs::read_to_string(&path).expect("a page"),
        path,
    };
    paths.into_iter().map(read).collect()
}

impl Shown {
    /// The blocks in one of these languages: number of the first line, and text.
    pub fn blocks(&self, languages: &[&str]) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let mut open: Option<(usize, bool, String)> = None;
        for (number, line) in self.text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(language)) => {
                    open = Some((number + 2, languages.contains(&language), String::new()));
                }
                (None, None) => {}
                (Some(_), Some(_)) => {
                    let (first, is_wanted, text) = open.take().expect("an open block");
                    found.extend(is_wanted.then_some((first, text)));
                }
                (Some((_, _, text)), None) => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        found
    }

    /// The commands of this program in blocks for a shell: the line where the block begins, and the words behind the program's name.
    pub fn commands(&self, program: &str) -> Vec<(usize, Vec<String>)> {
        let mut found = Vec::new();
        for (first, text) in self.blocks(&["sh", "console"]) {
            let text = text.replace("\\\n", " ");
            let lines = text.lines().filter_map(|line| words(line, program));
            found.extend(lines.map(|words| (first, words)));
        }
        found
    }

    /// The commands of this program within sentences, `like this`, and their lines. Some name a command without all that it needs.
    pub fn mentions(&self, program: &str) -> Vec<(usize, Vec<String>)> {
        let mut found = Vec::new();
        let mut line = 1;
        for (nth, span) in self.text.split('`').enumerate() {
            // Each second part stands between ticks; three ticks of a block leave two empty parts, which keep the count.
            let is_code = nth % 2 == 1 && !span.contains("\n\n");
            let joined = span.split_whitespace().collect::<Vec<_>>().join(" ");
            found.extend(
                words(&joined, program)
                    .filter(|_| is_code)
                    .map(|words| (line, words)),
            );
            line += span.matches('\n').count();
        }
        found
    }
}

/// The words behind the name of this program, without what a shell takes away.
fn words(line: &str, program: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let rest = line.strip_prefix(program)?.strip_prefix(' ')?;
    let rest = rest.split(" #").next()?;
    let rest = rest.split("&&").next()?;
    let mut words = Vec::new();
    let mut is_quoted = false;
    let mut word = String::new();
    for character in rest.chars().chain([' ']) {
        match character {
            '\'' => is_quoted = !is_quoted,
            '>' | '&' | '|' if !is_quoted => break,
            ' ' if !is_quoted => {
                if !word.is_empty() {
                    // The shell puts the number of a process there.
                    words.push(std::mem::take(&mut word).replace("$!", "1"));
                }
            }
            other => word.push(other),
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_blocks_and_in_sentences() {
        let page = Shown {
            path: PathBuf::new(),
            text: "Say `run a --b\n'c d'`.\n\n```sh\n$ run x \\\n  --y 1 > z   # so\nother x\n```\n`run`, `run e`\n"
                .to_owned(),
        };
        let told = |found: Vec<(usize, Vec<String>)>| {
            let lines = found
                .iter()
                .map(|(line, words)| format!("{line}: {}", words.join(",")));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(told(page.commands("run")), ["5: x,--y,1"]);
        assert_eq!(told(page.mentions("run")), ["1: a,--b,c d", "9: e"]);
    }
}
