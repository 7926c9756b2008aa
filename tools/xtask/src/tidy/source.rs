//! Parses a Rust file for the walls: the modules that it names, and its functions.
//!
//! The file is read as tokens, so comments and strings do not count, and paths within macros do. Code under `#[cfg(test)]` is
//! left out: tests may use everything.
//!
//! Not known here: which modules exist, what a name refers to.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Source {
    /// Paths from the crate's root. Each begins with a word that may be a module; the item's own name may be at the end.
    pub paths: Vec<Vec<String>>,
    pub functions: Vec<Function>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// The 1-based line where its body ends.
    pub line: usize,
    /// Lines of the body.
    pub lines: usize,
    /// Number of parameters, including `self`.
    pub parameters: usize,
    /// Whether a parameter is a whole worker, or all of the state that workers share.
    pub takes_a_bag: bool,
}

/// Types that a function should not take to use one or two of their fields.
const BAGS: [&str; 2] = ["Worker", "Shared"];

/// Reads a file whose module has this path from the crate's root. `None`: it is not Rust.
pub fn read(module: &[String], text: &str) -> Option<Source> {
    let tokens: TokenStream = text.parse().ok()?;
    let mut reader = Reader {
        module: module.to_vec(),
        source: Source::default(),
    };
    reader.walk(tokens);
    Some(reader.source)
}

struct Reader {
    /// The module of the code being read, including inline modules.
    module: Vec<String>,
    source: Source,
}

impl Reader {
    fn walk(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens, at) {
                at = end_of_item(&tokens, at + 2);
                continue;
            }
            let word = ident(&tokens, at);
            if let Some(word) = &word
                && is_path(&tokens, at + 1)
                && !(at >= 2 && is_path(&tokens, at - 2))
                && let Some(start) = self.start(word)
            {
                // Arguments in parentheses behind the path are handled by the next steps of the loop.
                at = self.path(start, &tokens, at + 1);
                continue;
            }
            if word.as_deref() == Some("fn") {
                self.function(&tokens, at);
            }
            match (word.as_deref(), &tokens[at]) {
                (Some("mod"), _) => {
                    if let (Some(name), Some(TokenTree::Group(body))) =
                        (ident(&tokens, at + 1), tokens.get(at + 2))
                    {
                        self.module.push(name);
                        self.walk(body.stream());
                        self.module.pop();
                        at += 2;
                    }
                }
                (_, TokenTree::Group(group)) => self.walk(group.stream()),
                _ => {}
            }
            at += 1;
        }
    }

    /// The start of a path that begins with this word. Any other word may be a module below this one.
    fn start(&self, word: &str) -> Option<Vec<String>> {
        let mut start = self.module.clone();
        match word {
            "crate" => start.clear(),
            "super" => drop(start.pop()?),
            "self" => {}
            _ => start.push(word.to_owned()),
        }
        Some(start)
    }

    /// Continues the path at `at`, which may be `::`; returns the index behind the path.
    fn path(&mut self, mut path: Vec<String>, tokens: &[TokenTree], mut at: usize) -> usize {
        while is_path(tokens, at) {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(word)) if word == "super" => drop(path.pop()),
                Some(TokenTree::Ident(word)) if word == "self" => {}
                Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.tree(&path, group.stream());
                    return at + 3;
                }
                _ => break,
            }
            at += 3;
        }
        self.source.paths.push(path);
        at
    }

    /// Reads the braces of a `use`.
    fn tree(&mut self, prefix: &[String], tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for part in tokens.split(|token| is_punct(Some(token), ',')) {
            let mut path = prefix.to_vec();
            match ident(part, 0).as_deref() {
                None | Some("self") => {}
                Some("super") => drop(path.pop()),
                Some(word) => path.push(word.to_owned()),
            }
            if !part.is_empty() {
                self.path(path, part, 1);
            }
        }
    }

    /// Reads a function; `at` is the word `fn`.
    fn function(&mut self, tokens: &[TokenTree], at: usize) {
        let Some(name) = ident(tokens, at + 1) else {
            return; // a type
        };
        let mut groups = tokens[at..].iter().filter_map(|token| match token {
            TokenTree::Group(group) => Some(group),
            _ => None,
        });
        // Parentheses within generic parameters occur only in bounds (`F: Fn(..)`); they are then mistaken for the function's.
        let parameters = groups.find(|group| group.delimiter() == Delimiter::Parenthesis);
        let end = tokens[at..]
            .iter()
            .position(|token| is_punct(Some(token), ';'));
        let body = tokens[at..].iter().position(
            |token| matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace),
        );
        let (Some(parameters), Some(body)) = (parameters, body) else {
            return;
        };
        if end.is_some_and(|end| end < body) {
            return; // declared, without a body
        }
        let span = tokens[at + body].span();
        self.source.functions.push(Function {
            name,
            line: span.end().line,
            lines: (span.end().line - span.start().line).saturating_sub(1),
            parameters: count_parameters(parameters.stream()),
            takes_a_bag: takes_a_bag(parameters.stream()),
        });
    }
}

/// Counts parameters: commas outside of angle brackets separate them.
fn count_parameters(tokens: TokenStream) -> usize {
    let (mut depth, mut count, mut is_open) = (0_i32, 0, false);
    let mut before_is_dash = false;
    for token in tokens {
        let mark = match &token {
            TokenTree::Punct(punct) => Some(punct.as_char()),
            _ => None,
        };
        match mark {
            Some('<') => depth += 1,
            Some('>') if !before_is_dash => depth -= 1,
            _ => {}
        }
        if mark == Some(',') && depth == 0 {
            is_open = false;
        } else if !is_open {
            is_open = true;
            count += 1;
        }
        before_is_dash = mark == Some('-');
    }
    count
}

/// Whether a parameter is `&Worker`, `&Rc<Worker>`, `&Arc<Shared>` and the like; `&self` of them does not count.
fn takes_a_bag(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    (0..tokens.len()).any(|at| {
        let is_bag = ident(&tokens, at).is_some_and(|word| BAGS.contains(&word.as_str()));
        let behind = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        let is_lent = is_punct(behind(1), '&');
        let is_counted = is_punct(behind(1), '<') && is_punct(behind(3), '&');
        is_bag && (is_lent || is_counted)
    })
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at)? {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// Whether `::` is at this place.
fn is_path(tokens: &[TokenTree], at: usize) -> bool {
    let first = tokens.get(at);
    let joins = matches!(first, Some(TokenTree::Punct(punct)) if punct.spacing() == Spacing::Joint);
    joins && is_punct(first, ':') && is_punct(tokens.get(at + 1), ':')
}

fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Group(group)) = tokens.get(at + 1) else {
        return false;
    };
    is_punct(tokens.get(at), '#') && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The index behind the item's braces or semicolon.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let is_end = |token: &TokenTree| {
        is_punct(Some(token), ';')
            || matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
    };
    match tokens[from..].iter().position(is_end) {
        Some(end) => from + end + 1,
        None => tokens.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let module = ["a".to_owned(), "b".to_owned()];
        let source = read(&module, text).unwrap();
        source.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_from_the_root() {
        for (text, expected) in [
            ("use crate::x::{Y, z::{self, W}};", "x::Y x::z x::z::W"),
            ("use super::c;", "a::c"),
            ("fn f() { self::d::g(); super::super::h() }", "a::b::d::g h"),
            ("use d::E;", "a::b::d::E"),
            ("macro!(crate::x::Y { 1 });", "x::Y"),
            ("mod inner { use super::d; }", "a::b::d"),
            ("// crate::x\nconst S: &str = \"crate::y\";", ""),
            ("#[cfg(test)] mod tests { use crate::x; }", ""),
            ("#[cfg(test)]\nuse crate::x;\nuse crate::y;", "y"),
            ("use crate::x::*;", "x"),
        ] {
            assert_eq!(paths(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn functions_and_what_they_take() {
        let text = "fn f(worker: &Rc<Worker>, map: HashMap<A, B>) -> C {\n1\n}\n\
                    impl X { fn g(&self, to: impl Fn(&A, &B) -> C,) where A: B { } fn h(&self); }";
        let functions = read(&[], text).unwrap().functions;
        let shown: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.lines, f.parameters, f.takes_a_bag))
            .collect();
        assert_eq!(shown, [("f", 1, 2, true), ("g", 0, 2, false)]);
    }
}
