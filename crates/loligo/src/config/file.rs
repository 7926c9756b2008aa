//! A configuration file, read: TOML becomes settings with their places.
//!
//! Tables become names with dots; unknown tables and retired settings are reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::foreign::why_no_toml;
use super::problem::{Place, Problem, did_you_mean};
use super::raw::{Block, Given, Raw, Value};
use super::{general, retired};

/// The largest configuration file read, bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file's text. The only error is text that is not TOML; other problems are in the result.
pub fn parse(text: &str, path: &Path) -> Result<Raw, Problem> {
    let mut parser = Parser {
        text,
        line_ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect(),
        path: Arc::new(path.to_owned()),
        raw: Raw::default(),
    };
    let root = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        Problem {
            place: parser.place(at),
            key: String::new(),
            value: String::new(),
            message: why_no_toml(text, at, e.message()),
        }
    })?;
    parser.root(root.get_ref());
    // The entries of a table come in the order of their names, so sort by line.
    parser.raw.notes.sort_by_key(Problem::line);
    Ok(parser.raw)
}

struct Parser<'a> {
    text: &'a str,
    /// Where its lines end.
    line_ends: Vec<usize>,
    path: Arc<PathBuf>,
    raw: Raw,
}

type Entry<'a, 'i> = (&'a str, &'a Spanned<DeValue<'i>>, Place);

impl Parser<'_> {
    fn place(&self, at: usize) -> Place {
        let line = 1 + self.line_ends.partition_point(|&end| end < at);
        Place::Line(self.path.clone(), line)
    }

    fn entries<'a, 'i>(&self, table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'i>>)| {
            let name: &'a std::borrow::Cow<'i, str> = key.get_ref();
            (name.as_ref(), value, self.place(key.span().start))
        };
        table.iter().map(entry).collect()
    }

    fn root(&mut self, root: &DeTable<'_>) {
        let tables = general::sections();
        for (key, value, place) in self.entries(root) {
            match key {
                "listener" => self.raw.listeners = self.blocks("listener", value, place),
                "upstream" => self.raw.upstreams = self.blocks("upstream", value, place),
                "parent" => self.raw.parents = self.blocks("parent", value, place),
                "sibling" => self.raw.siblings = self.blocks("sibling", value, place),
                "rule" => self.raw.rules = self.blocks("rule", value, place),
                "limit" => self.raw.quotas = self.blocks("limit", value, place),
                "cluster" if matches!(value.get_ref(), DeValue::Table(_)) => {
                    if let DeValue::Table(table) = value.get_ref() {
                        self.cluster(table, place);
                    }
                }
                "store" => {
                    self.raw.stores = match value.get_ref() {
                        DeValue::Table(table) => vec![self.block("store", table, place)],
                        _ => self.blocks("store", value, place),
                    }
                }
                _ if self.is_stray("", key, value, &place, &tables) => {}
                _ => {
                    let mut given = std::mem::take(&mut self.raw.whole.given);
                    self.flatten(key, value, place, &mut given);
                    self.raw.whole.given = given;
                }
            }
        }
    }

    /// `[cluster]`, in which `[[cluster.member]]` repeats.
    fn cluster(&mut self, table: &DeTable<'_>, place: Place) {
        let mut block = Block::at(place);
        for (key, value, place) in self.entries(table) {
            match key {
                "member" => self.raw.members = self.blocks("cluster.member", value, place),
                _ if self.is_stray("cluster.", key, value, &place, &["member".into()]) => {}
                _ => self.flatten(&format!("cluster.{key}"), value, place, &mut block.given),
            }
        }
        self.raw.cluster = Some(block);
    }

    /// The blocks of an array of tables.
    fn blocks(&mut self, name: &str, value: &Spanned<DeValue<'_>>, place: Place) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut all_are_tables = false;
        if let DeValue::Array(items) = value.get_ref() {
            all_are_tables = true;
            for item in items.iter() {
                match item.get_ref() {
                    DeValue::Table(table) => {
                        let place = self.place(item.span().start);
                        blocks.push(self.block(name, table, place));
                    }
                    _ => all_are_tables = false,
                }
            }
        }
        if !all_are_tables {
            let single = if name == "store" { "[store] or " } else { "" };
            let message =
                format!("expected blocks that begin with {single}[[{name}]], two brackets");
            self.raw
                .problems
                .push(Block::at(place).problem(name, message));
        }
        blocks
    }

    fn block(&mut self, name: &str, table: &DeTable<'_>, place: Place) -> Block {
        let mut block = Block::at(place);
        let is_listener = name == "listener";
        for (key, value, place) in self.entries(table) {
            if is_listener && key == "route" {
                block.routes = self.blocks("listener.route", value, place);
            } else if is_listener && key == "certificate" {
                block.certificates = self.blocks("listener.certificate", value, place);
            } else if !is_listener
                || !self.is_stray(
                    "listener.",
                    key,
                    value,
                    &place,
                    &["route".into(), "certificate".into()],
                )
            {
                self.flatten(&format!("{name}.{key}"), value, place, &mut block.given);
            }
        }
        block
    }

    /// A table's entries become `name.key`.
    fn flatten(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        place: Place,
        given: &mut Vec<Given>,
    ) {
        if let DeValue::Table(table) = value.get_ref() {
            for (key, value, place) in self.entries(table) {
                self.flatten(&format!("{name}.{key}"), value, place, given);
            }
            return;
        }
        let one = Given {
            key: name.to_owned(),
            value: self.value(value),
            place,
        };
        match retired::instead(name) {
            Some(instead) => {
                let message = format!("has no effect any more, take it out: {instead}");
                self.raw.notes.push(one.problem(message));
            }
            None => given.push(one),
        }
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Value {
        let as_written =
            || Value::Other(self.text.get(value.span()).unwrap_or_default().to_owned());
        match value.get_ref() {
            DeValue::String(text) => Value::Text(text.as_ref().to_owned()),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
                .map_or_else(|_| as_written(), Value::Number),
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Array(items) => {
                Value::List(items.iter().map(|item| self.value(item)).collect())
            }
            DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => as_written(),
        }
    }

    /// Is this a table, or an array of tables, with an unknown name? If so, adds a problem.
    fn is_stray(
        &mut self,
        scope: &str,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        place: &Place,
        known: &[String],
    ) -> bool {
        let is_table = |value: &DeValue<'_>| matches!(value, DeValue::Table(_));
        let (is_one, are_several) = match value.get_ref() {
            DeValue::Array(items) => (false, items.iter().any(|item| is_table(item.get_ref()))),
            value => (is_table(value), false),
        };
        if !is_one && !are_several || is_one && known.iter().any(|name| name == key) {
            return false;
        }
        let message = match did_you_mean(key, known.iter().map(String::as_str)) {
            _ if !scope.is_empty() && general::sections().iter().any(|name| name == key) => {
                format!(
                    "is not part of this block: write it above the first [block], or as a block of its own, [{key}]"
                )
            }
            Some(meant) if meant == key => {
                "is one table: write it with one pair of brackets".to_owned()
            }
            Some(meant) => format!("there is no such table; did you mean \"{meant}\"?"),
            None => "there is no such table; `loligo settings` lists them all".to_owned(),
        };
        let block = Block::at(place.clone());
        let problem = block.problem(&format!("{scope}{key}"), message);
        self.raw.problems.push(problem);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Raw {
        parse(text, Path::new("x.toml")).unwrap()
    }

    fn line(place: &Place) -> usize {
        match place {
            Place::Line(_, line) => *line,
            _ => 0,
        }
    }

    #[test]
    fn tables_and_dotted_keys_are_the_same_setting() {
        let (a, b) = (
            read("[store]\nsize = \"1GiB\"\n"),
            read("\nstore.size = \"1GiB\"\n"),
        );
        assert_eq!(a.stores[0].given, b.stores[0].given);
        let size = &a.stores[0].given[0];
        assert_eq!((size.key.as_str(), line(&size.place)), ("store.size", 2));
        let (a, b) = (
            read("[log]\nlevel = \"warn\"\n"),
            read("\nlog.level = \"warn\"\n"),
        );
        assert_eq!((a.whole.given[0].key.as_str(), &a), ("log.level", &b));
    }

    #[test]
    fn blocks_keep_order_and_line() {
        let raw = read("[[store]]\npath = \"a\"\n[[store]]\npath = \"b\"\n");
        let lines: Vec<_> = raw.stores.iter().map(|s| line(&s.given[0].place)).collect();
        assert_eq!(lines, [2, 4]);
        let raw = read(
            "[[listener]]\naddress = \"a\"\n[[listener]]\naddress = \"b\"\n\n[[listener.route]]\npath = \"/x\"\n",
        );
        assert_eq!(raw.listeners.len(), 2);
        assert_eq!(raw.listeners[1].given[0].value, Value::Text("b".into()));
        assert_eq!(line(&raw.listeners[1].routes[0].given[0].place), 7);
        let raw = read("store = \"/x\"");
        assert_eq!(
            raw.problems[0].to_string(),
            "x.toml:1: store: expected blocks that begin with [store] or [[store]], two brackets"
        );
    }

    #[test]
    fn a_table_that_is_none_is_told_with_what_was_meant() {
        let raw = read(
            "[stroe]\nsize = \"1GiB\"\n[[rules]]\nttl = \"1m\"\n[timeout]\n[[limits]]\nhead-max = 1\n\
             [colours]\nx = 1\n[[listener]]\n[[listener.routes]]\norigin = \"a\"\n",
        );
        assert_eq!(raw.whole.given, []);
        let mut told: Vec<_> = raw.problems.iter().collect();
        told.sort_by_key(|problem| problem.line());
        let told: Vec<_> = told.iter().map(|problem| problem.to_string()).collect();
        assert_eq!(
            told,
            [
                "x.toml:1: stroe: there is no such table; did you mean \"store\"?",
                "x.toml:3: rules: there is no such table; did you mean \"rule\"?",
                "x.toml:5: timeout: there is no such table; did you mean \"timeouts\"?",
                "x.toml:6: limits: is one table: write it with one pair of brackets",
                "x.toml:8: colours: there is no such table; `loligo settings` lists them all",
                "x.toml:11: listener.routes: there is no such table; did you mean \"route\"?",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_ends_in_an_answer(text in "[a-z\\[\\]=\"., \n{}0-9#-]{0,120}") {
            let _ = parse(&text, Path::new("x.toml"));
        }
    }
}
