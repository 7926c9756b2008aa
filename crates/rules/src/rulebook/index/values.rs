//! The distinct values of conditions, and which of them match.
//!
//! Not known here: which rules name a value.

use std::{collections::HashMap, sync::Arc};

use message::Scheme;
use plan::{HostList, Hours, When, address};

use super::{
    fields::Fields,
    globs::Globs,
    networks::{Networks, Ports},
    numbers::{Found, Next},
    paths::Paths,
};
use crate::{
    rulebook::{
        fits::Circumstances,
        paths::{parameter, split},
    },
    table::{EMPTY, Table, hash_from_end, hash_of, with},
};

/// All values by kind, each with its number.
#[derive(Debug, Default)]
pub struct Values {
    pub hosts: Hosts,
    pub paths: Paths,
    pub clients: Networks,
    pub queries: Queries,
    pub ports: Ports,
    pub fields: Fields,
    methods: Table,
    schemes: Vec<(Scheme, u32)>,
    listeners: HashMap<usize, u32>,
    hours: HashMap<Hours, u32>,
    /// By address in memory: rules that name one file share one list.
    host_lists: HashMap<usize, (Arc<HostList>, u32)>,
}

impl Values {
    /// Must be called once all values are numbered.
    pub fn finish(&mut self) {
        self.paths.finish();
        self.queries.globs.finish();
        self.fields.finish();
    }

    pub fn method_number(&mut self, name: &str, next: Next<'_>) -> u32 {
        let name = name.as_bytes();
        self.methods.number(hash_of(name), name, next)
    }

    pub fn method(&self, name: &str) -> Found {
        let name = name.as_bytes();
        self.methods.get(hash_of(name), name).into_iter().collect()
    }

    pub fn scheme_number(&mut self, scheme: Scheme, next: Next<'_>) -> u32 {
        let known = self.schemes.iter().find(|(known, _)| *known == scheme);
        known.map(|(_, number)| *number).unwrap_or_else(|| {
            let number = next();
            self.schemes.push((scheme, number));
            number
        })
    }

    pub fn scheme(&self, scheme: Option<Scheme>) -> Found {
        let fitting = (self.schemes.iter()).filter(|(known, _)| Some(*known) == scheme);
        fitting.map(|(_, number)| *number).collect()
    }

    pub fn listener_number(&mut self, listener: usize, next: Next<'_>) -> u32 {
        *self.listeners.entry(listener).or_insert_with(next)
    }

    pub fn listener(&self, listener: usize) -> Found {
        self.listeners.get(&listener).copied().into_iter().collect()
    }

    pub fn hours_number(&mut self, hours: &Hours, next: Next<'_>) -> u32 {
        *self.hours.entry(*hours).or_insert_with(next)
    }

    pub fn hours(&self, at: &Circumstances) -> Found {
        let is_it = |hours: &Hours| hours.contains(if hours.is_utc { at.utc } else { at.local });
        let fitting = self.hours.iter().filter(|(hours, _)| is_it(hours));
        fitting.map(|(_, number)| *number).collect()
    }

    pub fn host_list_number(&mut self, list: &Arc<HostList>, next: Next<'_>) -> u32 {
        let entry = self.host_lists.entry(Arc::as_ptr(list) as usize);
        entry.or_insert_with(|| (Arc::clone(list), next())).1
    }

    pub fn host_lists(&self, host: &str) -> Found {
        let fitting = self
            .host_lists
            .values()
            .filter(|(list, _)| list.contains(host));
        fitting.map(|(_, number)| *number).collect()
    }
}

/// Patterns for hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    /// `example.org`, hashed from its end.
    whole: Table,
    /// `*.example.org`, without the `*.`
    below: Table,
    /// [`When::ANY_ADDRESS`].
    addresses: Option<u32>,
    /// Patterns of another form, which a configuration file cannot contain.
    others: Vec<(String, u32)>,
}

impl Hosts {
    pub fn number(&mut self, pattern: &str, next: Next<'_>) -> u32 {
        let lower = pattern.to_ascii_lowercase();
        let hash = |name: &str| hash_from_end(name.as_bytes());
        match lower.strip_prefix("*.") {
            _ if pattern == When::ANY_ADDRESS => *self.addresses.get_or_insert_with(next),
            Some(name) => self.below.number(hash(name), name.as_bytes(), next),
            None if lower.starts_with('*') => {
                let number = next();
                self.others.push((lower, number));
                number
            }
            None => (self.whole).number(hash(&lower), lower.as_bytes(), next),
        }
    }

    /// The patterns that match a host. It must be in the form that rules use.
    pub fn of(&self, host: &str) -> Found {
        let name = host.strip_suffix('.').unwrap_or(host).as_bytes();
        let mut found = Found::new();
        let mut hash = EMPTY;
        for (at, &byte) in name.iter().enumerate().rev() {
            if byte == b'.' && at > 0 && !self.below.is_empty() {
                found.extend(self.below.get(hash, &name[at + 1..]));
            }
            hash = with(hash, byte);
        }
        found.extend(self.whole.get(hash, name));
        if self.addresses.is_some() && may_be_address(name) && address(host).is_some() {
            found.extend(self.addresses);
        }
        let others = self.others.iter();
        let others = others.filter(|(pattern, _)| plan::host_fits(pattern, host));
        found.extend(others.map(|(_, number)| *number));
        found
    }
}

fn may_be_address(host: &[u8]) -> bool {
    host.last().is_some_and(u8::is_ascii_digit) || host.contains(&b':')
}

/// Patterns for query parameters.
#[derive(Debug, Default)]
pub struct Queries {
    /// Patterns that are a parameter's name.
    names: Table,
    /// Patterns for a whole `name=value`.
    globs: Globs,
}

impl Queries {
    pub fn number(&mut self, pattern: &str, next: Next<'_>) -> u32 {
        match pattern.contains(['*', '=']) {
            true => self.globs.number(pattern, next),
            false => {
                let name = pattern.as_bytes();
                self.names.number(hash_of(name), name, next)
            }
        }
    }

    /// The patterns that match a parameter of a target.
    pub fn of(&self, target: Option<&str>) -> Found {
        let (_, query) = split(target);
        let mut found = Found::new();
        for one in query.split(['&', ';']).filter(|it| !it.is_empty()) {
            let one = parameter(one.as_bytes());
            let name_bytes = memchr::memchr(b'=', &one).unwrap_or(one.len());
            let name = &one[..name_bytes];
            if name_bytes <= self.names.bytes_max() {
                found.extend(self.names.get(hash_of(name), name));
            }
            self.globs.look(&one, &mut found);
        }
        // A client may send one parameter a thousand times.
        found.sort_unstable();
        found.dedup();
        found
    }
}
