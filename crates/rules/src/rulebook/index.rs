//! The conditions of all rules, turned around: from a request to the rules that fit.
//!
//! Each different value of a condition (a host, a path, a network) has a number, and with it the list of the rules that name it. All values of
//! a kind are looked up at once: a host with each of its ends that begin at a dot, a path with each of its beginnings that end where a
//! segment does, a client with each length of network, texts with `*` by one search for a piece of each.
//!
//! Of the conditions of a rule, one is its *key*: that whose values the fewest other rules name. The rules whose key fits are the candidates,
//! mostly a handful. Only of these the other conditions are asked, again by the numbers that were found. So a request costs by its own length
//! and by the number of candidates, not by the number of rules.
//!
//! Where rules share all their values with many others (a hundred hosts by a hundred paths), the candidates are those hundred.
//!
//! Invariant, which the tests hold against [`super::fits`]: a rule is found here exactly if it has no unmet condition there.
//!
//! Not known here: what a rule does, but for the readings of a path (`paths`).

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

/// All rules' conditions.
#[derive(Debug, Default)]
pub struct Index {
    values: Values,
    /// By value: all rules that name it.
    naming: Lists,
    /// By value: those of which it is the key.
    keyed: Lists,
    /// The kinds that are the key of a rule.
    keys: Vec<Kind>,
    /// Rules without conditions.
    always: Vec<u32>,
    /// By rule: the kinds of its conditions, but for its key.
    others: Vec<SmallVec<[Kind; 4]>>,
    /// By rule: in which readings its paths must fit.
    reads: Vec<Reads>,
    /// What the rules want of all readings.
    reads_any: Reads,
}

/// What is known of a connection before it asks anything, as rules look at it.
#[derive(Clone, Debug, Default)]
pub struct Among {
    clients: Found,
    listener: Found,
    hours: Found,
}

/// A request, with what was found for it so far.
struct Asked<'a> {
    index: &'a Index,
    among: &'a Among,
    question: &'a Question<'a>,
    method: &'a str,
    /// By kind.
    found: [Option<Found>; FIELDS as usize],
    /// Of those about fields.
    fields: Vec<Option<Found>>,
    paths: Option<FoundPaths>,
}

impl Index {
    /// What a connection tells.
    pub fn among(&self, at: &Circumstances) -> Among {
        Among {
            clients: self.values.clients.of(at.client.to_canonical()),
            listener: self.values.listener(at.listener),
            hours: self.values.hours(at),
        }
    }

    /// The rules that a question of such a connection meets; the method counts as this one.
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
        // Most are found by one value of one kind, in order.
        if !rules.is_sorted_by(|one, next| one < next) {
            rules.sort_unstable();
            rules.dedup();
        }
        rules.retain(|rule| asked.holds(*rule));
        Met::of(&rules)
    }
}

impl Asked<'_> {
    /// Adds the rules whose key, of this kind, fits.
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
        // By its key it is a candidate already if one reading fits, which may not be enough.
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
