//! Settings as a person wrote them, each with its place. Only the shape of the file is checked here.
//!
//! A configuration is flat: a setting has a name such as `store.size` and a value. Only stores, listeners, rules and the like repeat;
//! each is a [`Block`]. Tables become names with dots, and a flag becomes a setting, too (the later one counts). So files and flags
//! are checked by the same code, and messages about them read alike.

use std::fmt;

use super::problem::{Place, Problem};

/// The most that messages show of a value: items of a list (of a longer one only their number), and characters of a text.
const EXCERPT_ITEMS: usize = 16;
const EXCERPT_CHARS: usize = 300;

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
    /// The `[[limit]]` blocks.
    pub quotas: Vec<Block>,
    /// The `[[upstream]]` blocks.
    pub upstreams: Vec<Block>,
    /// The `[[parent]]` blocks.
    pub parents: Vec<Block>,
    /// The `[[sibling]]` blocks.
    pub siblings: Vec<Block>,
    /// The `[cluster]` block.
    pub cluster: Option<Block>,
    /// Its `[[cluster.member]]` blocks.
    pub members: Vec<Block>,
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
    /// Its `[[listener.certificate]]` blocks.
    pub certificates: Vec<Block>,
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

    /// Is this setting in the block?
    pub fn says(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// A problem with this setting, at its place, or else where the block begins.
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
    /// `{ a = 1 }`, of a setting that takes names and values.
    Table(Vec<(String, Value)>),
    /// A value that no setting takes (float, date, table within a list), as written.
    Other(String),
}

impl fmt::Display for Value {
    /// As in TOML, without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{:?}", without_password(text)),
            Value::Number(n) => write!(f, "{n}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<_> = entries.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
            Value::Other(text) => f.write_str(text),
        }
    }
}

impl Value {
    /// As in TOML, but a long list is its number of items, and a long text its beginning.
    pub fn excerpt(&self) -> String {
        let whole = match self {
            Value::List(items) if items.len() > EXCERPT_ITEMS => {
                return format!("[… {} values]", items.len());
            }
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(Value::excerpt).collect();
                format!("[{}]", items.join(", "))
            }
            value => value.to_string(),
        };
        match whole.char_indices().nth(EXCERPT_CHARS) {
            Some((end, _)) => format!("{}…", &whole[..end]),
            None => whole,
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
            value: match self.is_secret() {
                true => "…".to_owned(),
                false => self.value.excerpt(),
            },
            message: message.into(),
        }
    }

    /// Is the value secret, for the origin alone?
    pub fn is_secret(&self) -> bool {
        let secret = ["rule.request-set", "rule.request-add"];
        secret.iter().any(|key| self.key.starts_with(key))
    }
}

/// A URL without user and password, for messages. A password may contain `/`, so everything before the last `@` is left
/// out, even if it may be a path.
pub fn without_password(text: &str) -> String {
    let begin = text.find("://").map_or(0, |at| at + 3);
    let (front, rest) = text.split_at(begin);
    let (url, more) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    match url.rsplit_once('@') {
        Some((user, host)) if begin > 0 || (user.contains(':') && !user.starts_with('/')) => {
            format!("{front}…@{host}{more}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_told() {
        for (text, told) in [
            ("http://u:p@a.org/x", "http://…@a.org/x"),
            ("http://u:pa/ss@a.org", "http://…@a.org"),
            ("http://u:p@ss@a.org/x y@z", "http://…@a.org/x y@z"),
            ("u:p@a.org", "…@a.org"),
            ("u:pa/ss@a.org", "…@a.org"),
            ("http://a.org/x y@z", "http://a.org/x y@z"),
            // In doubt, too much is left out.
            ("http://u:p@a.org/x@y", "http://…@y"),
            ("/var/log/a:b@c.log", "/var/log/a:b@c.log"),
            ("store@2", "store@2"),
        ] {
            assert_eq!(without_password(text), told);
        }
    }
}
