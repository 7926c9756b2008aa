//! Builds the index: numbers the values, and chooses the key of each rule.
//!
//! There are two passes, each linear in the number of values: the first numbers the values and counts the rules that name each one; the
//! second chooses the keys by these counts.

use plan::{Rule, When};
use smallvec::SmallVec;

use super::{
    Index,
    lists::Lists,
    numbers::{
        CLIENT, FIELDS, HOST, HOST_LIST, Kind, LISTENER, METHOD, PATH, PORT, QUERY, SCHEME, TIME,
    },
    paths::Reads,
    values::Values,
};

/// A value that a rule names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Naming {
    kind: Kind,
    value: u32,
}

/// The values that the rules name.
#[derive(Default)]
struct Build {
    values: Values,
    /// For each rule its values, without duplicates, sorted by kind.
    named: Vec<Vec<Naming>>,
    /// For each value: how many rules name it.
    counts: Vec<u32>,
}

impl Index {
    /// An index of these rules.
    pub fn new(rules: &[Rule]) -> Index {
        let mut build = Build::default();
        for rule in rules {
            build.add(&rule.when);
        }
        let Build {
            mut values,
            named,
            counts,
        } = build;
        values.finish();
        let keys: Vec<Option<Kind>> = named.iter().map(|of| key(of, &counts)).collect();
        let mut others: Vec<SmallVec<[Kind; 4]>> = Vec::with_capacity(rules.len());
        for (named, key) in named.iter().zip(&keys) {
            let mut kinds: SmallVec<[Kind; 4]> = named.iter().map(|it| it.kind).collect();
            kinds.dedup();
            kinds.retain(|kind| Some(*kind) != *key);
            others.push(kinds);
        }
        let all = || (0..).zip(&named).zip(&keys);
        let pairs = all().flat_map(|((rule, named), key)| {
            let pairs = named
                .iter()
                .map(move |it| (it.kind == key.unwrap_or(0), it.value));
            pairs.map(move |(is_key, value)| (is_key, value, rule))
        });
        let naming = pairs.clone().map(|(_, value, rule)| (value, rule));
        let keyed = pairs.filter(|(is_key, ..)| *is_key);
        let keyed = keyed.map(|(_, value, rule)| (value, rule));
        let always = (0..).zip(rules).zip(&named);
        // Only rules without a condition. A rule whose condition has no value never matches.
        let always = always.filter(|((_, rule), named)| named.is_empty() && is_empty(&rule.when));
        let reads = rules.iter().map(Reads::of);
        let mut used: Vec<Kind> = keys.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        Index {
            naming: Lists::new(counts.len(), naming),
            keyed: Lists::new(counts.len(), keyed),
            keys: used,
            always: always.map(|((rule, _), _)| rule).collect(),
            others,
            reads_any: reads.clone().fold(Reads::NO_PATH, Reads::or),
            reads: reads.collect(),
            values,
        }
    }
}

/// The kind whose values the fewest rules name; of several such kinds, the cheapest to look up.
fn key(named: &[Naming], counts: &[u32]) -> Option<Kind> {
    let kinds = named.chunk_by(|one, next| one.kind == next.kind);
    let costs = kinds.map(|of_kind| {
        let most = of_kind.iter().map(|it| counts[it.value as usize]).max();
        (most, of_kind[0].kind)
    });
    costs.min().map(|(_, kind)| kind)
}

/// Has a rule no condition on the connection or the request?
fn is_empty(when: &When) -> bool {
    let of_response = When {
        statuses: when.statuses.clone(),
        content_types: when.content_types.clone(),
        ..When::default()
    };
    *when == of_response
}

impl Build {
    fn add(&mut self, when: &When) {
        let mut named = Vec::new();
        let is_possible = self.name(when, &mut named);
        // A rule that can never match is listed for no value.
        if !is_possible {
            named.clear();
        }
        named.sort_unstable();
        named.dedup();
        for naming in &named {
            self.counts[naming.value as usize] += 1;
        }
        self.named.push(named);
    }

    /// Numbers all values of a rule. False: one of its conditions has no value, so it can never match.
    fn name(&mut self, when: &When, named: &mut Vec<Naming>) -> bool {
        let (values, counts) = (&mut self.values, &mut self.counts);
        let next: &mut dyn FnMut() -> u32 = &mut || {
            counts.push(0);
            counts.len() as u32 - 1
        };
        let mut is_possible = true;
        let mut add = |kind: Kind, is_condition: bool, numbers: Vec<u32>| {
            is_possible &= !is_condition || !numbers.is_empty();
            named.extend(numbers.into_iter().map(|value| Naming { kind, value }));
        };
        /// The numbers of the values of a condition.
        macro_rules! numbered {
            ($kind:expr, $list:expr, $number:expr) => {
                let numbers = $list.iter().map($number);
                add($kind, !$list.is_empty(), numbers.collect())
            };
        }
        numbered!(HOST, when.hosts, |it| values.hosts.number(it, next));
        numbered!(PATH, when.paths, |it| values.paths.number(it, next));
        numbered!(CLIENT, when.clients, |it| values
            .clients
            .number_of(it, next));
        numbered!(QUERY, when.queries, |it| values.queries.number(it, next));
        numbered!(METHOD, when.methods, |it| values.method_number(it, next));
        let ports = when.ports.iter();
        let ports = ports.flat_map(|range| values.ports.numbers(range, next));
        add(PORT, !when.ports.is_empty(), ports.collect());
        numbered!(SCHEME, when.scheme.as_slice(), |it| values
            .scheme_number(*it, next));
        numbered!(LISTENER, when.listeners, |it| values
            .listener_number(*it, next));
        numbered!(TIME, when.hours, |it| values.hours_number(it, next));
        numbered!(HOST_LIST, when.host_lists, |it| values
            .host_list_number(it, next));
        for (field, numbers) in values.fields.numbers(&when.fields, next) {
            add(FIELDS + field, true, numbers);
        }
        is_possible
    }
}
