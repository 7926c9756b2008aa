//! An inverted index of all rules' conditions: finds the matching rules of a request.
//!
//! Each distinct value of a condition (a host, a path, a network) has a number, and with it the list of the rules that name it. All values
//! of a kind are looked up at once: a host with each of its suffixes after a dot, a path with each of its prefixes that end with a
//! segment, a client with each prefix length of a network, patterns with `*` by one search for a piece of each.
//!
//! One condition of each rule is its *key*: the one whose values the fewest other rules name. Rules whose key matches are the candidates,
//! mostly a handful. The other conditions are checked for candidates only, again by the numbers that were found. So the cost of a request
//! depends on its own length and on the number of candidates, not on the number of rules.
//!
//! If rules share all their values with many others (a hundred hosts by a hundred paths), there are a hundred candidates.
//!
//! Invariant, tested against [`super::fits`]: a rule is found here exactly if it has no unmet condition there.
//!
//! Not known here: the effects of a rule, except for the readings of a path (`paths`).

mod build;
mod fields;
mod globs;
mod lists;
mod networks;
mod numbers;
mod paths;
mod values;

use smallvec::SmallVec;

use super::{
    Met,
    fits::{Circumstances, Question, plain_host},
};
use lists::Lists;
use numbers::{
    CLIENT, FIELDS, Found, HOST, HOST_LIST, Kind, LISTENER, METHOD, PATH, PORT, QUERY, SCHEME, TIME,
};
use paths::{FoundPaths, Reads};
use values::Values;

/// The index of all rules' conditions.
#[derive(Debug, Default)]
pub struct Index {
    values: Values,
    /// For each value: all rules that name it.
    naming: Lists,
    /// For each value: the rules whose key contains it.
    keyed: Lists,
    /// The kinds that are the key of at least one rule.
    keys: Vec<Kind>,
    /// Rules without conditions.
    always: Vec<u32>,
    /// For each rule: the kinds of its conditions, except its key.
    others: Vec<SmallVec<[Kind; 4]>>,
    /// For each rule: the readings in which its paths must match.
    reads: Vec<Reads>,
    /// The readings that any rule needs.
    reads_any: Reads,
}

/// The values of conditions that match a connection.
#[derive(Clone, Debug, Default)]
pub struct Among {
    clients: Found,
    listener: Found,
    hours: Found,
}

/// A request, with the values found for it so far.
struct Asked<'a> {
    index: &'a Index,
    among: &'a Among,
    question: &'a Question<'a>,
    method: &'a str,
    /// The values found, by kind.
    found: [Option<Found>; FIELDS as usize],
    /// The values found for conditions on fields.
    fields: Vec<Option<Found>>,
    paths: Option<FoundPaths>,
}

impl Index {
    /// The values that match a connection.
    pub fn among(&self, at: &Circumstances) -> Among {
        Among {
            clients: self.values.clients.of(at.client.to_canonical()),
            listener: self.values.listener(at.listener),
            hours: self.values.hours(at),
        }
    }

    /// The rules that a request on such a connection meets; `method` is used in place of its own.
    pub fn met(&self, among: &Among, question: &Question<'_>, method: &str) -> Met {
        let mut asked = Asked {
            index: self,
            among,
            question,
            // GET includes HEAD.
            method: if method == "HEAD" { "GET" } else { method },
            found: [const { None }; FIELDS as usize],
            fields: Vec::new(),
            paths: None,
        };
        asked.fields.resize(self.values.fields.len(), None);
        let mut rules: SmallVec<[u32; 16]> = SmallVec::from_slice(&self.always);
        for &kind in &self.keys {
            asked.candidates(kind, &mut rules);
        }
        // Most rules are found by one value of one kind, and so in order.
        if !rules.is_sorted_by(|one, next| one < next) {
            rules.sort_unstable();
            rules.dedup();
        }
        rules.retain(|rule| asked.holds(*rule));
        Met::of(&rules)
    }
}

impl Asked<'_> {
    /// Adds the rules whose key is of this kind and matches.
    fn candidates(&mut self, kind: Kind, rules: &mut SmallVec<[u32; 16]>) {
        let index = self.index;
        if kind == PATH {
            for value in self.paths().values() {
                rules.extend_from_slice(index.keyed.of(value));
            }
            return;
        }
        for &value in self.found(kind) {
            rules.extend_from_slice(index.keyed.of(value));
        }
    }

    /// Do all conditions of a candidate hold?
    fn holds(&mut self, rule: u32) -> bool {
        let index = self.index;
        let reads = index.reads[rule as usize];
        // A rule becomes a candidate if one reading of the path matches its key; that may not be enough.
        let has_readings = |paths: &FoundPaths| !paths.are_plain();
        if reads != Reads::NO_PATH
            && self.paths.as_ref().is_some_and(has_readings)
            && !self.path_holds(rule)
        {
            return false;
        }
        let others = &index.others[rule as usize];
        others.iter().all(|&kind| match kind {
            PATH => self.path_holds(rule),
            _ => {
                let found = self.found(kind);
                found.iter().any(|&value| index.naming.has(value, rule))
            }
        })
    }

    fn path_holds(&mut self, rule: u32) -> bool {
        let index = self.index;
        let reads = index.reads[rule as usize];
        let names = |found: &Found| found.iter().any(|&value| index.naming.has(value, rule));
        self.paths().hold(reads, names)
    }

    fn paths(&mut self) -> &FoundPaths {
        let (question, index) = (self.question, self.index);
        (self.paths).get_or_insert_with(|| index.values.paths.found(question.path, index.reads_any))
    }

    fn found(&mut self, kind: Kind) -> &Found {
        if self.place(kind).is_none() {
            *self.place(kind) = Some(self.look(kind));
        }
        (self.place(kind).as_ref()).expect("it was put there just now")
    }

    fn place(&mut self, kind: Kind) -> &mut Option<Found> {
        match kind.checked_sub(FIELDS) {
            None => &mut self.found[kind as usize],
            Some(field) => &mut self.fields[field as usize],
        }
    }

    fn look(&self, kind: Kind) -> Found {
        let (values, question) = (&self.index.values, self.question);
        match kind {
            HOST => values.hosts.of(&plain_host(question.host)),
            CLIENT => self.among.clients.clone(),
            QUERY => values.queries.of(question.path),
            METHOD => values.method(self.method),
            PORT => values.ports.of(question.port),
            SCHEME => values.scheme(question.scheme),
            LISTENER => self.among.listener.clone(),
            TIME => self.among.hours.clone(),
            HOST_LIST => values.host_lists(&plain_host(question.host)),
            field => values.fields.of((field - FIELDS) as usize, question.fields),
        }
    }
}

#[cfg(test)]
mod tests;
