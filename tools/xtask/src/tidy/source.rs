//! A Rust file as the walls see it: the modules that it names, and its functions.
//!
//! The file is read as tokens, so comments and strings name nothing, and paths within macros count. Code under `#[cfg(test)]` is
//! left out: tests may know everything.
//!
//! Not known here: which modules there are, what a name stands for.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// What a file says.
#[derive(Debug, Default)]
pub struct Source {
    /// Paths from the crate's root, longest first part that may be a module; the item's own name may be at the end.
    pub paths: Vec<Vec<String>>,
    pub functions: Vec<Function>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// 1-based, where its body ends.
    pub line: usize,
    /// Of the body.
    pub lines: usize,
    /// Parameters, `self` included.
    pub parameters: usize,
    /// It takes the whole of a worker or of what workers share.
    pub takes_a_bag: bool,
}

/// What a function takes that uses one or two fields of it.
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
    /// Of the code being read, inline modules included.
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
                // Arguments in parentheses behind the path are read by what follows.
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

    /// Where a path begins that starts with this word. Any other word may be a module below this one.
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

    /// Reads on from `at`, which may be `::`; returns where the path is over.
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

    /// The braces of a `use`.
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

    /// `at` is the word `fn`.
    fn function(&mut self, tokens: &[TokenTree], at: usize) {
        let Some(name) = ident(tokens, at + 1) else {
            return; // a type
        };
        let mut groups = tokens[at..].iter().filter_map(|token| match token {
            TokenTree::Group(group) => Some(group),
            _ => None,
        });
        // Generic parameters have parentheses only as bounds (`F: Fn(..)`), which then stand for the function's.
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

/// Commas outside of angle brackets part parameters.
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

/// `&Worker`, `&Rc<Worker>`, `&Arc<Shared>` and the like; not `&self` of them.
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

/// Is here `::`?
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

/// Behind the item's braces or semicolon.
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
