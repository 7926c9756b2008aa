//! The conditions of all rules about requests, turned around: from what a request says to the rules that fit.
//!
//! A hundred rules asked one by one cost a hit 3.6 us. Here each kind of condition is asked once for all rules: a host is
//! looked for with each of its ends that begin at a dot, a path with each of its beginnings that end at a `/`, and what is found
//! is the set of rules (a bit each) that name it. What is left after one kind is what the next one is asked about, the dearest last. So the
//! cost goes by the length of the request and by the patterns with `*`, not by the number of rules.
//!
//! Invariant, which the tests hold against [`super::fits`]: a rule is found here exactly if it has no unmet condition there.
//!
//! Not known here: what a rule does, but for the readings of a path: a rule that allows, or by which more is shared, needs all; one that refuses,
//! or by which less is shared, any.

use std::{borrow::Cow, collections::BTreeMap, ops::RangeInclusive, sync::Arc};

use hashbrown::HashTable;
use memchr::memmem::Finder;
use message::Scheme;

use super::{
    Met,
    fits::{FieldLines, Question, plain_host},
    paths::{parameter, plain, readings, readings_to_share},
};
use plan::{FieldIs, HostList, Rule, Then, Verdict, When, address};

/// A set of rules, a bit each.
type Bits = u128;

/// All rules' conditions about requests.
#[derive(Debug, Default)]
pub struct Index {
    methods: Methods,
    schemes: Schemes,
    ports: Ports,
    hosts: Hosts,
    paths: Paths,
    queries: Queries,
    /// A rule has at most one condition in each.
    fields: Vec<Field>,
    lists: Lists,
}

impl Index {
    /// Of these rules.
    pub fn new(rules: &[Rule]) -> Index {
        let mut index = Index::default();
        for (number, rule) in rules.iter().enumerate() {
            index.add(rule, 1 << number);
        }
        index
    }

    fn add(&mut self, rule: &Rule, bit: Bits) {
        let when = &rule.when;
        self.methods.add(&when.methods, bit);
        if let Some(scheme) = when.scheme {
            self.schemes.add(scheme, bit);
        }
        self.ports.add(&when.ports, bit);
        self.hosts.add(&when.hosts, bit);
        self.paths.add(&when.paths, &rule.then, bit);
        self.queries.add(&when.queries, bit);
        for condition in &when.fields {
            let is_it = |field: &&mut Field| field.name == condition.name && field.all & bit == 0;
            match self.fields.iter_mut().find(is_it) {
                Some(field) => field.add(&condition.how, bit),
                None => {
                    let mut field = Field::named(&condition.name);
                    field.add(&condition.how, bit);
                    self.fields.push(field);
                }
            }
        }
        self.lists.add(&when.host_lists, bit);
    }

    /// Those among these rules that a question meets; the method counts as this one.
    pub fn met(&self, among: Met, question: &Question<'_>, method: &str) -> Met {
        let mut left = among.0;
        let mut ask = |all: Bits, fit: &dyn Fn(Bits) -> Bits| {
            let asked = left & all;
            if asked != 0 {
                left &= !all | fit(asked);
            }
        };
        // GET includes HEAD.
        let method = if method == "HEAD" { "GET" } else { method };
        ask(self.methods.all, &|_| self.methods.fit(method));
        ask(self.schemes.all, &|_| self.schemes.fit(question.scheme));
        ask(self.ports.all, &|_| self.ports.fit(question.port));
        let host = plain_host(question.host);
        ask(self.hosts.all, &|asked| self.hosts.fit(&host, asked));
        let (path, query) = split(question.path);
        ask(self.paths.all, &|asked| match path {
            Some(path) => self.paths.fit_as_read(path, asked),
            None => 0,
        });
        ask(self.queries.all, &|asked| self.queries.fit(query, asked));
        for field in &self.fields {
            ask(field.all, &|asked| field.fit(question.fields, asked));
        }
        ask(self.lists.all, &|asked| self.lists.fit(&host, asked));
        Met(left)
    }
}

/// Path and query of a target.
pub fn split(target: Option<&str>) -> (Option<&str>, &str) {
    let Some(target) = target else {
        return (None, "");
    };
    let target = match memchr::memchr(b'#', target.as_bytes()) {
        Some(at) => &target[..at],
        None => target,
    };
    let (path, query) = match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, ""),
    };
    // An empty path (`http://host?query`) is "/".
    (Some(if path.is_empty() { "/" } else { path }), query)
}

#[derive(Debug, Default)]
struct Methods {
    all: Bits,
    by_name: Vec<(String, Bits)>,
}

impl Methods {
    fn add(&mut self, names: &[String], bit: Bits) {
        for name in names {
            self.all |= bit;
            add_to(&mut self.by_name, name, bit);
        }
    }

    fn fit(&self, method: &str) -> Bits {
        let mut by_name = self.by_name.iter();
        by_name
            .find(|(name, _)| name == method)
            .map_or(0, |(_, bits)| *bits)
    }
}

fn add_to<K: PartialEq + Clone>(table: &mut Vec<(K, Bits)>, key: &K, bit: Bits) {
    match table.iter_mut().find(|(known, _)| known == key) {
        Some((_, bits)) => *bits |= bit,
        None => table.push((key.clone(), bit)),
    }
}

#[derive(Debug, Default)]
struct Schemes {
    all: Bits,
    by_scheme: Vec<(Scheme, Bits)>,
}

impl Schemes {
    fn add(&mut self, scheme: Scheme, bit: Bits) {
        self.all |= bit;
        add_to(&mut self.by_scheme, &scheme, bit);
    }

    fn fit(&self, scheme: Option<Scheme>) -> Bits {
        let mut by_scheme = self.by_scheme.iter();
        by_scheme
            .find(|(one, _)| Some(*one) == scheme)
            .map_or(0, |(_, bits)| *bits)
    }
}

#[derive(Debug, Default)]
struct Ports {
    all: Bits,
    ranges: Vec<(RangeInclusive<u16>, Bits)>,
}

impl Ports {
    fn add(&mut self, ranges: &[RangeInclusive<u16>], bit: Bits) {
        for range in ranges {
            self.all |= bit;
            add_to(&mut self.ranges, range, bit);
        }
    }

    fn fit(&self, port: u16) -> Bits {
        let fitting = self
            .ranges
            .iter()
            .filter(|(range, _)| range.contains(&port));
        fitting.fold(0, |bits, (_, one)| bits | one)
    }
}

/// Texts and the rules that name them. The hash of a beginning is the hash of the shorter one and a byte, so that one walk over a text
/// has the hashes of all its beginnings.
#[derive(Debug, Default)]
struct Table {
    entries: HashTable<(u64, Box<[u8]>, Bits)>,
    bytes_max: usize,
}

/// FNV-1a. What is hashed comes from requests, what is in a table from the configuration: nobody else can make it slow.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

#[inline]
fn with(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

impl Table {
    fn add(&mut self, hash: u64, key: &[u8], bit: Bits) {
        self.bytes_max = self.bytes_max.max(key.len());
        let is_it = |entry: &(u64, Box<[u8]>, Bits)| *entry.1 == *key;
        match self.entries.find_mut(hash, is_it) {
            Some((.., bits)) => *bits |= bit,
            None => {
                let entry = (hash, key.into(), bit);
                self.entries.insert_unique(hash, entry, |entry| entry.0);
            }
        }
    }

    #[inline]
    fn get(&self, hash: u64, key: &[u8]) -> Bits {
        let found = self.entries.find(hash, |entry| *entry.1 == *key);
        found.map_or(0, |(.., bits)| *bits)
    }
}

#[derive(Debug, Default)]
struct Hosts {
    all: Bits,
    /// `example.org`, hashed from its end.
    whole: Table,
    /// `*.example.org`, without the `*.`
    below: Table,
    /// [`When::ANY_ADDRESS`].
    addresses: Bits,
    /// Patterns of another form, which a configuration file cannot have.
    others: Vec<(String, Bits)>,
}

impl Hosts {
    fn add(&mut self, patterns: &[String], bit: Bits) {
        for pattern in patterns {
            self.all |= bit;
            let lower = pattern.to_ascii_lowercase();
            let hash = |name: &str| name.bytes().rev().fold(EMPTY, with);
            match lower.strip_prefix("*.") {
                _ if pattern == When::ANY_ADDRESS => self.addresses |= bit,
                Some(name) => self.below.add(hash(name), name.as_bytes(), bit),
                None if lower.starts_with('*') => add_to(&mut self.others, &lower, bit),
                None => self.whole.add(hash(&lower), lower.as_bytes(), bit),
            }
        }
    }

    fn fit(&self, host: &str, asked: Bits) -> Bits {
        let name = host.strip_suffix('.').unwrap_or(host).as_bytes();
        let (mut hash, mut fit) = (EMPTY, 0);
        for (at, &byte) in name.iter().enumerate().rev() {
            if byte == b'.' && at > 0 {
                fit |= self.below.get(hash, &name[at + 1..]);
            }
            hash = with(hash, byte);
        }
        fit |= self.whole.get(hash, name);
        if asked & self.addresses != 0 && may_be_address(name) && address(host).is_some() {
            fit |= self.addresses;
        }
        for (pattern, bits) in &self.others {
            if plan::host_fits(pattern, host) {
                fit |= bits;
            }
        }
        fit
    }
}

fn may_be_address(host: &[u8]) -> bool {
    host.last().is_some_and(u8::is_ascii_digit) || host.contains(&b':')
}

/// A pattern with `*`, or a whole text.
#[derive(Debug)]
struct Glob {
    front: Box<[u8]>,
    /// `None`: there is no `*`, and `front` is all.
    rest: Option<(Vec<Finder<'static>>, Box<[u8]>)>,
    /// Pairs of bytes that every text has which fits, as [`Pairs`] has them.
    pairs: Box<[u8]>,
}

/// The pairs of neighbouring bytes in a text. A pattern with one that is not there does not fit: a quick no, where there are many patterns.
struct Pairs([bool; 256]);

impl Pairs {
    fn of(text: &[u8]) -> Pairs {
        let mut pairs = Pairs([false; 256]);
        for pair in text.windows(2) {
            pairs.0[usize::from(Self::number(pair))] = true;
        }
        pairs
    }

    /// Several pairs have one number.
    fn number(pair: &[u8]) -> u8 {
        pair[0]
            .wrapping_mul(29)
            .wrapping_add(pair[1].wrapping_mul(7))
    }
}

/// Patterns, and the rules that have them.
#[derive(Debug, Default)]
struct Globs(Vec<(Glob, Bits)>);

impl Globs {
    /// So many are looked for one by one.
    const FEW: usize = 3;

    fn add(&mut self, glob: Glob, bit: Bits) {
        self.0.push((glob, bit));
    }

    fn fit(&self, text: &[u8], asked: Bits) -> Bits {
        let mut fit = 0;
        let pairs = (self.0.len() > Self::FEW).then(|| Pairs::of(text));
        for (glob, bit) in &self.0 {
            let is_asked = asked & bit & !fit != 0;
            if is_asked && pairs.as_ref().is_none_or(|it| glob.may_fit(it)) && glob.fits(text) {
                fit |= bit;
            }
        }
        fit
    }
}

impl Glob {
    /// More tell hardly more.
    const PAIRS_MAX: usize = 6;

    fn may_fit(&self, text: &Pairs) -> bool {
        self.pairs.iter().all(|pair| text.0[usize::from(*pair)])
    }

    fn new(pattern: &str) -> Glob {
        let mut parts = pattern.split('*').map(str::as_bytes);
        let front = parts.next().unwrap_or_default().into();
        let mut parts: Vec<&[u8]> = parts.collect();
        let pairs = pattern
            .split('*')
            .flat_map(|part| part.as_bytes().windows(2));
        Glob {
            front,
            pairs: pairs.map(Pairs::number).take(Self::PAIRS_MAX).collect(),
            rest: parts.pop().map(|back| {
                let middle = parts.iter().filter(|part| !part.is_empty());
                let middle = middle.map(|part| Finder::new(*part).into_owned());
                (middle.collect(), back.into())
            }),
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        let Some((middle, back)) = &self.rest else {
            return *self.front == *text;
        };
        let Some(mut text) = text.strip_prefix(&*self.front) else {
            return false;
        };
        for part in middle {
            match part.find(text) {
                Some(at) => text = &text[at + part.needle().len()..],
                None => return false,
            }
        }
        text.ends_with(back)
    }

    /// The last byte of every text that fits, if it is always the same.
    fn last(&self) -> Option<u8> {
        let back = self.rest.as_ref().map_or(&self.front, |(_, back)| back);
        back.last().copied()
    }
}

#[derive(Debug, Default)]
struct Paths {
    all: Bits,
    /// Those that need all readings of a path, and those for which any will do; the others go by the path as it came.
    allowing: Bits,
    refusing: Bits,
    /// The same for those by which the cache shares more, and less.
    sharing: Bits,
    parting: Bits,
    /// `/`, which is every path.
    every: Bits,
    /// Without `*`, hashed from the front.
    table: Table,
    /// Does one in the table end in `/`?
    has_slashed: bool,
    /// With `*`: by the last byte of the path that they want, and those to which it makes no difference.
    by_last: BTreeMap<u8, Globs>,
    any_last: Globs,
}

impl Paths {
    fn add(&mut self, patterns: &[String], then: &Then, bit: Bits) {
        for pattern in patterns {
            self.all |= bit;
            match then.verdict {
                None if then.shares_more() => self.sharing |= bit,
                None if then.shares_less() => self.parting |= bit,
                None => {}
                Some(Verdict::Allow) if then.shares_more() => {
                    self.allowing |= bit;
                    self.sharing |= bit;
                }
                Some(Verdict::Allow) => self.allowing |= bit,
                Some(_) => self.refusing |= bit,
            }
            if pattern == "/" {
                self.every |= bit;
            } else if pattern.contains('*') {
                let glob = Glob::new(pattern);
                let globs = match glob.last() {
                    None => &mut self.any_last,
                    Some(last) => self.by_last.entry(last).or_default(),
                };
                globs.add(glob, bit);
            } else {
                self.has_slashed |= pattern.ends_with('/');
                let hash = pattern.bytes().fold(EMPTY, with);
                self.table.add(hash, pattern.as_bytes(), bit);
            }
        }
    }

    fn fit_as_read(&self, path: &str, asked: Bits) -> Bits {
        let mut fit = self.fit(path, asked);
        if asked & (self.allowing | self.refusing | self.parting) != 0 {
            for reading in readings(path) {
                let other = self.fit(&reading, asked);
                fit |= other & (self.refusing | self.parting);
                fit &= other | !self.allowing;
            }
        }
        if asked & (self.sharing | self.parting) != 0 {
            for reading in readings_to_share(path) {
                let other = self.fit(&reading, asked);
                fit |= other & self.parting;
                fit &= other | !self.sharing;
            }
        }
        fit
    }

    fn fit(&self, path: &str, asked: Bits) -> Bits {
        let path: Cow<'_, [u8]> = plain(path);
        let path = &*path;
        let mut fit = if path.starts_with(b"/") {
            self.every
        } else {
            0
        };
        if self.table.bytes_max > 0 {
            fit |= self.named(path);
        }
        if let Some(globs) = path.last().and_then(|last| self.by_last.get(last)) {
            fit |= globs.fit(path, asked & !fit);
        }
        fit |= self.any_last.fit(path, asked & !fit);
        fit
    }

    /// The rules that name a beginning of a path which ends where a segment does.
    fn named(&self, path: &[u8]) -> Bits {
        // One byte more, which shows whether a segment ends there.
        let end = path.len().min(self.table.bytes_max + 1);
        let (mut hash, mut fit) = (EMPTY, 0);
        for (at, &byte) in path[..end].iter().enumerate() {
            if byte == b'/' && at > 0 {
                fit |= self.table.get(hash, &path[..at]);
            }
            hash = with(hash, byte);
            if byte == b'/' && self.has_slashed {
                fit |= self.table.get(hash, &path[..=at]);
            }
        }
        if end == path.len() {
            fit |= self.table.get(hash, path);
        }
        fit
    }
}

#[derive(Debug, Default)]
struct Queries {
    all: Bits,
    /// By the parameter's name.
    names: Table,
    /// Of the whole parameter.
    globs: Globs,
}

impl Queries {
    fn add(&mut self, patterns: &[String], bit: Bits) {
        for pattern in patterns {
            self.all |= bit;
            match pattern.contains(['*', '=']) {
                true => self.globs.add(Glob::new(pattern), bit),
                false => {
                    let hash = pattern.bytes().fold(EMPTY, with);
                    self.names.add(hash, pattern.as_bytes(), bit);
                }
            }
        }
    }

    fn fit(&self, query: &str, asked: Bits) -> Bits {
        let mut fit = 0;
        for one in query.split(['&', ';']).filter(|it| !it.is_empty()) {
            let one = parameter(one.as_bytes());
            let name_bytes = memchr::memchr(b'=', &one).unwrap_or(one.len());
            let name = &one[..name_bytes];
            if name_bytes <= self.names.bytes_max {
                let hash = name.iter().copied().fold(EMPTY, with);
                fit |= self.names.get(hash, name);
            }
            fit |= self.globs.fit(&one, asked & !fit);
        }
        fit
    }
}

/// Conditions about a field.
#[derive(Debug)]
struct Field {
    name: String,
    all: Bits,
    /// The field is there, or is not.
    there: Bits,
    absent: Bits,
    values: Globs,
}

impl Field {
    fn named(name: &str) -> Field {
        Field {
            name: name.to_owned(),
            all: 0,
            there: 0,
            absent: 0,
            values: Globs::default(),
        }
    }

    fn add(&mut self, how: &FieldIs, bit: Bits) {
        self.all |= bit;
        match how {
            FieldIs::There(true) => self.there |= bit,
            FieldIs::There(false) => self.absent |= bit,
            FieldIs::One(patterns) => {
                for pattern in patterns {
                    self.values.add(Glob::new(pattern), bit);
                }
            }
        }
    }

    fn fit(&self, fields: &dyn FieldLines, asked: Bits) -> Bits {
        let mut fit = 0;
        let mut look = |value: &[u8]| {
            fit |= self.values.fit(value, asked & !fit);
            // The other lines, too.
            false
        };
        match fields.any(&self.name, &mut look) {
            Some(_) => fit | self.there,
            None => self.absent,
        }
    }
}

#[derive(Debug, Default)]
struct Lists {
    all: Bits,
    lists: Vec<(Arc<HostList>, Bits)>,
}

impl Lists {
    fn add(&mut self, lists: &[Arc<HostList>], bit: Bits) {
        for list in lists {
            self.all |= bit;
            let same = |(known, _): &&mut (Arc<HostList>, Bits)| Arc::ptr_eq(known, list);
            match self.lists.iter_mut().find(same) {
                Some((_, bits)) => *bits |= bit,
                None => self.lists.push((Arc::clone(list), bit)),
            }
        }
    }

    fn fit(&self, host: &str, asked: Bits) -> Bits {
        let with = self.lists.iter().filter(|(_, bits)| asked & bits != 0);
        let fitting = with.filter(|(list, _)| list.contains(host));
        fitting.fold(0, |fit, (_, bits)| fit | bits)
    }
}

#[cfg(test)]
mod tests;
