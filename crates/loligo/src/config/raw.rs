//! What the user said: settings as written, each with its place. Nothing is checked here but the shape.
//!
//! A configuration is flat: a setting has a name like `store.size` and a value. Only stores, listeners and
//! their routes, and rules repeat. TOML tables are flattened to such names, the command line's flags become settings too (later ones win),
//! and `table` knows which names exist. So a file and a flag are checked by the same lines of code and
//! complain in the same way.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::problem::{Place, Problem, did_you_mean};
use crate::config::table::sections;

/// The largest configuration file read, bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Everything the user said.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Raw {
    /// Settings outside blocks that repeat.
    pub given: Vec<Given>,
    /// The `[store]` block, or the `[[store]]` blocks.
    pub stores: Vec<RawStore>,
    /// What the file's stores say of themselves, where flags have replaced them: checked all the same.
    pub replaced: Vec<Given>,
    /// The `[[listener]]` blocks.
    pub listeners: Vec<RawListener>,
    /// The `[[rule]]` blocks.
    pub rules: Vec<RawRule>,
    /// Tables of a name that no table has; what is in them says nothing.
    pub strays: Vec<Problem>,
}

/// One `[store]` or `[[store]]` block, or one `--store`.
#[derive(Clone, PartialEq, Debug)]
pub struct RawStore {
    /// Where the block begins.
    pub place: Place,
    /// Its settings, names without `store.`; those of all stores among them.
    pub given: Vec<Given>,
}

/// One `[[listener]]` block, or one `--listen`.
#[derive(Clone, PartialEq, Debug)]
pub struct RawListener {
    /// Where the block begins.
    pub place: Place,
    /// Its settings, names without `listener.`.
    pub given: Vec<Given>,
    /// The `[[listener.route]]` blocks.
    pub routes: Vec<RawRoute>,
}

/// One `[[listener.route]]` block.
#[derive(Clone, PartialEq, Debug)]
pub struct RawRoute {
    /// Where the block begins.
    pub place: Place,
    /// Its settings, names without `listener.route.`.
    pub given: Vec<Given>,
}

/// One `[[rule]]` block.
#[derive(Clone, PartialEq, Debug)]
pub struct RawRule {
    /// Where the block begins.
    pub place: Place,
    /// Its settings, names without `rule.`.
    pub given: Vec<Given>,
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
    /// What no setting takes: floats, dates, tables within lists; as written.
    Other(String),
}

impl fmt::Display for Value {
    /// As in TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{text:?}"),
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

    /// The value as text.
    pub fn text(&self) -> Result<&str, Problem> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.problem("expected text in quotes")),
        }
    }

    /// The value as a list: an array, or text with commas. Numbers in an array count as their text.
    pub fn list(&self) -> Result<Vec<String>, Problem> {
        let expected = || self.problem("expected a list such as [\"a\", \"b\"], or \"a,b\"");
        match &self.value {
            Value::Text(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
                .collect()),
            Value::Number(n) => Ok(vec![n.to_string()]),
            Value::List(items) => items
                .iter()
                .map(|item| match item {
                    Value::Text(text) => Ok(text.trim().to_owned()),
                    Value::Number(n) => Ok(n.to_string()),
                    _ => Err(expected()),
                })
                .collect(),
            Value::Switch(_) | Value::Other(_) => Err(expected()),
        }
    }

    /// The value as a path. One in the file is relative to the file's directory, one in a flag to the current.
    pub fn path(&self) -> Result<PathBuf, Problem> {
        let text = self.text()?;
        if text.is_empty() {
            return Err(self.problem("expected a path"));
        }
        match &self.place {
            Place::Line(file, _) => Ok(file.parent().unwrap_or(Path::new("")).join(text)),
            Place::Flag(_) | Place::Default => Ok(PathBuf::from(text)),
        }
    }
}

/// Reads a file's text. Everything understandable is in `Raw` even if there are problems.
pub fn parse(text: &str, path: &Path) -> (Raw, Vec<Problem>) {
    let mut parser = Parser {
        text,
        path: Arc::new(path.to_owned()),
        problems: Vec::new(),
    };
    let mut raw = Raw::default();
    match DeTable::parse(text) {
        Ok(root) => parser.root(root.get_ref(), &mut raw),
        Err(e) => {
            let at = e.span().map_or(0, |span| span.start);
            let message = format!("not TOML: {}", e.message().trim());
            let place = parser.place(at);
            parser.problems.push(Problem {
                place,
                key: String::new(),
                value: String::new(),
                message,
            });
        }
    }
    (raw, parser.problems)
}

struct Parser<'a> {
    text: &'a str,
    path: Arc<PathBuf>,
    problems: Vec<Problem>,
}

type Entry<'a, 'i> = (&'a str, &'a Spanned<DeValue<'i>>, Place);

impl Parser<'_> {
    fn place(&self, at: usize) -> Place {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        Place::Line(
            self.path.clone(),
            1 + before.iter().filter(|&&b| b == b'\n').count(),
        )
    }

    fn entries<'a, 'i>(&self, table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'i>>)| {
            let name: &'a std::borrow::Cow<'i, str> = key.get_ref();
            (name.as_ref(), value, self.place(key.span().start))
        };
        table.iter().map(entry).collect()
    }

    fn root(&mut self, root: &DeTable<'_>, raw: &mut Raw) {
        for (key, value, place) in self.entries(root) {
            if key == "listener" {
                for (table, place) in self.blocks(key, value, place) {
                    let listener = self.listener(table, place, &mut raw.strays);
                    raw.listeners.push(listener);
                }
            } else if key == "rule" {
                for (table, place) in self.blocks(key, value, place) {
                    let mut given = Vec::new();
                    for (key, value, place) in self.entries(table) {
                        self.flatten(key, value, place, &mut given);
                    }
                    raw.rules.push(RawRule { place, given });
                }
            } else if key == "store" {
                self.stores(value, place, &mut raw.stores);
            } else if let Some(problem) = stray(key, value, &place, sections()) {
                raw.strays.push(problem);
            } else {
                self.flatten(key, value, place, &mut raw.given);
            }
        }
    }

    /// One table, or an array of tables.
    fn stores(&mut self, value: &Spanned<DeValue<'_>>, place: Place, stores: &mut Vec<RawStore>) {
        let blocks = match value.get_ref() {
            DeValue::Table(table) => vec![(table, place)],
            _ => self.blocks("store", value, place),
        };
        for (table, place) in blocks {
            let mut given = Vec::new();
            for (key, value, place) in self.entries(table) {
                self.flatten(key, value, place, &mut given);
            }
            stores.push(RawStore { place, given });
        }
    }

    fn listener(
        &mut self,
        table: &DeTable<'_>,
        place: Place,
        strays: &mut Vec<Problem>,
    ) -> RawListener {
        let mut listener = RawListener {
            place,
            given: Vec::new(),
            routes: Vec::new(),
        };
        for (key, value, place) in self.entries(table) {
            if key == "route" {
                for (table, place) in self.blocks("listener.route", value, place) {
                    let mut given = Vec::new();
                    for (key, value, place) in self.entries(table) {
                        self.flatten(key, value, place, &mut given);
                    }
                    listener.routes.push(RawRoute { place, given });
                }
            } else if let Some(mut problem) = stray(key, value, &place, ["route"].into_iter()) {
                problem.key.insert_str(0, "listener.");
                strays.push(problem);
            } else {
                self.flatten(key, value, place, &mut listener.given);
            }
        }
        listener
    }

    /// The tables of an array of tables.
    fn blocks<'a, 'i>(
        &mut self,
        name: &str,
        value: &'a Spanned<DeValue<'i>>,
        place: Place,
    ) -> Vec<(&'a DeTable<'i>, Place)> {
        let mut blocks = Vec::new();
        let mut stray = true;
        if let DeValue::Array(items) = value.get_ref() {
            stray = false;
            for item in items.iter() {
                match item.get_ref() {
                    DeValue::Table(table) => blocks.push((table, self.place(item.span().start))),
                    _ => stray = true,
                }
            }
        }
        if stray {
            let single = if name == "store" { "[store] or " } else { "" };
            let message =
                format!("expected blocks that begin with {single}[[{name}]], two brackets");
            self.problems.push(Problem {
                place,
                key: name.to_owned(),
                value: String::new(),
                message,
            });
        }
        blocks
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
        } else {
            given.push(Given {
                key: name.to_owned(),
                value: self.value(value),
                place,
            });
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
}

/// A table, or an array of tables, of a name that is none of these.
fn stray<'a>(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    place: &Place,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<Problem> {
    let is_table = |value: &DeValue<'_>| matches!(value, DeValue::Table(_));
    let (is_one, are_several) = match value.get_ref() {
        DeValue::Array(items) => (false, items.iter().any(|item| is_table(item.get_ref()))),
        value => (is_table(value), false),
    };
    let mut names = known.clone();
    if !is_one && !are_several || is_one && names.any(|name| name == key) {
        return None;
    }
    let message = match did_you_mean(key, known) {
        Some(meant) if meant == key => {
            "is one table: write it with one pair of brackets".to_owned()
        }
        Some(meant) => format!("there is no such table; did you mean \"{meant}\"?"),
        None => "there is no such table; `loligo settings` lists them all".to_owned(),
    };
    Some(Problem {
        place: place.clone(),
        key: key.to_owned(),
        value: String::new(),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(place: &Place) -> usize {
        match place {
            Place::Line(_, line) => *line,
            _ => 0,
        }
    }

    #[test]
    fn tables_and_dotted_keys_are_the_same_setting() {
        let (a, problems) = parse("[store]\nsize = \"1GiB\"\n", Path::new("x.toml"));
        assert_eq!(problems, []);
        let (b, _) = parse("\nstore.size = \"1GiB\"\n", Path::new("x.toml"));
        assert_eq!(a.stores[0].given, b.stores[0].given);
        assert_eq!(
            (
                a.stores[0].given[0].key.as_str(),
                line(&a.stores[0].given[0].place)
            ),
            ("size", 2)
        );
        let (a, _) = parse("[log]\nlevel = \"warn\"\n", Path::new("x.toml"));
        let (b, _) = parse("\nlog.level = \"warn\"\n", Path::new("x.toml"));
        assert_eq!((a.given[0].key.as_str(), &a), ("log.level", &b));
    }

    #[test]
    fn one_store_or_several() {
        let text = "[[store]]\npath = \"a\"\n[[store]]\npath = \"b\"\n";
        let (raw, problems) = parse(text, Path::new("x.toml"));
        assert_eq!(problems, []);
        let lines: Vec<_> = raw.stores.iter().map(|s| line(&s.given[0].place)).collect();
        assert_eq!(lines, [2, 4]);
        let (_, problems) = parse("store = \"/x\"", Path::new("x.toml"));
        assert_eq!(
            problems[0].to_string(),
            "x.toml:1: store: expected blocks that begin with [store] or [[store]], two brackets"
        );
    }

    #[test]
    fn listeners_and_routes_keep_order_and_line() {
        let text = "[[listener]]\naddress = \"a\"\n[[listener]]\naddress = \"b\"\n\n[[listener.route]]\npath = \"/x\"\n";
        let (raw, problems) = parse(text, Path::new("x.toml"));
        assert_eq!(problems, []);
        assert_eq!(raw.listeners.len(), 2);
        assert_eq!(raw.listeners[1].given[0].value, Value::Text("b".into()));
        assert_eq!(line(&raw.listeners[1].routes[0].given[0].place), 7);
    }

    #[test]
    fn what_is_not_toml_is_told_with_its_line() {
        let (_, problems) = parse("workers = 2\nmemory = = 3\n", Path::new("x.toml"));
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].to_string().starts_with("x.toml:2: not TOML: "),
            "{}",
            problems[0]
        );
    }

    #[test]
    fn a_single_bracket_listener_is_explained() {
        let (_, problems) = parse("[listener]\naddress = \"a\"\n", Path::new("x.toml"));
        assert_eq!(
            problems[0].to_string(),
            "x.toml:1: listener: expected blocks that begin with [[listener]], two brackets"
        );
    }

    #[test]
    fn a_table_that_is_none_is_told_with_what_was_meant() {
        let text = "[stroe]\nsize = \"1GiB\"\n[[rules]]\nttl = \"1m\"\n[timeout]\n[[limits]]\nhead-max = 1\n\
                    [colours]\nx = 1\n[[listener]]\n[[listener.routes]]\norigin = \"a\"\n";
        let (raw, problems) = parse(text, Path::new("x.toml"));
        assert_eq!((problems, raw.given), (Vec::new(), Vec::new()));
        let mut strays: Vec<_> = raw.strays.iter().collect();
        strays.sort_by_key(|problem| problem.line());
        let told: Vec<_> = strays.iter().map(|problem| problem.to_string()).collect();
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
    fn paths_in_a_file_are_relative_to_it() {
        let (raw, _) = parse("p = \"a/b\"\nq = \"/c\"", Path::new("/etc/loligo/x.toml"));
        assert_eq!(raw.given[0].path().unwrap(), Path::new("/etc/loligo/a/b"));
        assert_eq!(raw.given[1].path().unwrap(), Path::new("/c"));
        assert_eq!(
            Given::flag("p", "--p", "a/b").path().unwrap(),
            Path::new("a/b")
        );
    }

    proptest! {
        #[test]
        fn any_text_ends_in_an_answer(text in "[a-z\\[\\]=\"., \n{}0-9#-]{0,120}") {
            let _ = parse(&text, Path::new("x.toml"));
        }
    }
}
