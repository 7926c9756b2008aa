//! Settings as a person wrote them, each with its place. Only the shape of the file is checked here.
//!
//! A configuration is flat: a setting has a name such as `store.size` and a value. Only stores, listeners, their routes and rules repeat;
//! each is a [`Block`]. Tables become names with dots, and a flag becomes a setting too (the later one wins). So files and flags
//! are checked by the same code, and complaints about them read alike.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, did_you_mean};
use super::{general, retired};

/// The largest configuration file read, bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// All settings of a file and of flags.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Raw {
    /// Settings outside blocks that repeat.
    pub whole: Block,
    /// The `[store]` block, or the `[[store]]` blocks, or one for each `--store`.
    pub stores: Vec<Block>,
    /// The `[[listener]]` blocks, or one for each `--listen`.
    pub listeners: Vec<Block>,
    /// The `[[rule]]` blocks.
    pub rules: Vec<Block>,
    /// Settings of the file's stores that `--store` has replaced; they are checked all the same.
    pub replaced: Vec<Given>,
    /// Tables that do not exist, or are written with the wrong brackets; their content is left out.
    pub problems: Vec<Problem>,
    /// Settings that have no effect any more, by line.
    pub notes: Vec<Problem>,
}

/// Settings that belong together.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Block {
    /// Where it begins.
    pub place: Place,
    /// Its settings, by their whole names.
    pub given: Vec<Given>,
    /// The `[[listener.route]]` blocks of a listener.
    pub routes: Vec<Block>,
}

impl Block {
    /// A block without settings.
    pub fn at(place: Place) -> Self {
        Block {
            place,
            ..Block::default()
        }
    }

    /// This setting as it was written; the last one counts.
    pub fn find(&self, key: &str) -> Option<&Given> {
        self.given.iter().rfind(|given| given.key == key)
    }

    /// Was this setting written?
    pub fn says(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// A problem with this setting: where it was written, or else where the block begins.
    pub fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        match self.find(key) {
            Some(given) => given.problem(message),
            None => Problem {
                place: self.place.clone(),
                key: key.to_owned(),
                value: String::new(),
                message: message.into(),
            },
        }
    }
}

/// One setting as written.
#[derive(Clone, PartialEq, Debug)]
pub struct Given {
    /// `store.size`
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub place: Place,
}

/// A value as written.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `"text"`; everything on the command line.
    Text(String),
    /// `42`
    Number(i64),
    /// `true`
    Switch(bool),
    /// `[...]`
    List(Vec<Value>),
    /// A value that no setting takes (float, date, table within a list), as written.
    Other(String),
}

impl fmt::Display for Value {
    /// As in TOML, but for passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{:?}", without_password(text)),
            Value::Number(n) => write!(f, "{n}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Other(text) => f.write_str(text),
        }
    }
}

impl Given {
    /// A setting from the command line.
    pub fn flag(key: &str, flag: &'static str, text: &str) -> Self {
        Given {
            key: key.to_owned(),
            value: Value::Text(text.to_owned()),
            place: Place::Flag(flag),
        }
    }

    /// A problem with this setting.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            place: self.place.clone(),
            key: self.key.clone(),
            value: self.value.to_string(),
            message: message.into(),
        }
    }
}

/// A URL as it is told: without the user and password in it.
pub fn without_password(text: &str) -> String {
    let begin = text.find("://").map_or(0, |at| at + 3);
    let (front, rest) = text.split_at(begin);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if begin > 0 || user.contains(':') => format!("{front}…@{host}{path}"),
        _ => text.to_owned(),
    }
}

/// Reads a file's text; the only problem that leaves nothing to be read is text that is no TOML.
pub fn parse(text: &str, path: &Path) -> Result<Raw, Problem> {
    let mut parser = Parser {
        text,
        path: Arc::new(path.to_owned()),
        raw: Raw::default(),
    };
    let root = DeTable::parse(text).map_err(|e| Problem {
        place: parser.place(e.span().map_or(0, |span| span.start)),
        key: String::new(),
        value: String::new(),
        message: format!("not TOML: {}", e.message().trim()),
    })?;
    parser.root(root.get_ref());
    // A table's entries come in the order of their names.
    parser.raw.notes.sort_by_key(Problem::line);
    Ok(parser.raw)
}

struct Parser<'a> {
    text: &'a str,
    path: Arc<PathBuf>,
    raw: Raw,
}

type Entry<'a, 'i> = (&'a str, &'a Spanned<DeValue<'i>>, Place);

impl Parser<'_> {
    fn place(&self, at: usize) -> Place {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
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
                "rule" => self.raw.rules = self.blocks("rule", value, place),
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
            } else if !is_listener
                || !self.is_stray("listener.", key, value, &place, &["route".into()])
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

    /// Is it a table, or an array of tables, of a name that is none of those known? Then that is a problem.
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

    #[test]
    fn passwords_are_not_told() {
        for (text, told) in [
            ("http://u:p@a.org/x@y", "http://…@a.org/x@y"),
            ("u:p@a.org", "…@a.org"),
            ("http://a.org/x@y", "http://a.org/x@y"),
            ("/var/log/a:b@c.log", "/var/log/a:b@c.log"),
            ("store@2", "store@2"),
        ] {
            assert_eq!(without_password(text), told);
        }
    }

    proptest! {
        #[test]
        fn any_text_ends_in_an_answer(text in "[a-z\\[\\]=\"., \n{}0-9#-]{0,120}") {
            let _ = parse(&text, Path::new("x.toml"));
        }
    }
}
