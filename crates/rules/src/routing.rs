//! The routes of a listener, found by host and path.
//!
//! The result is that of a linear search: the first matching route is used ([`plan::Route::matches`]). Routes of one host pattern form
//! a group. A group is found by the hash of the host, or of one of its suffixes after a dot. In a group of many routes, every prefix of the
//! path that ends with a segment is looked up. The cost of a look-up thus depends on the length of host and path, not on the number
//! of routes.
//!
//! Invariant, tested against a linear search: the route found is the first that matches.
//!
//! Not known here: the effect of a route.

use plan::{Route, host_fits};
use smallvec::SmallVec;

use crate::table::{EMPTY, Table, hash_from_end, hash_of, with};

/// Numbers of groups; few hosts belong to more than four.
type Found = SmallVec<[u32; 4]>;

/// The routes of a listener.
#[derive(Debug, Default)]
pub struct RouteIndex {
    /// `example.org`, hashed from its end, with its group.
    whole: Table,
    /// `*.example.org`, without the `*.`
    below: Table,
    /// The group of routes for any host.
    any: Option<u32>,
    /// Patterns of another form, which a configuration file cannot have, and their groups.
    others: Vec<(String, u32)>,
    groups: Vec<Group>,
    /// The first route that is in no group of `whole`.
    first_of_many_hosts: u32,
}

/// The routes of one host pattern.
#[derive(Debug, Default)]
struct Group {
    /// Path prefixes and the numbers of their routes, in order.
    routes: Vec<(Box<str>, u32)>,
    /// The same by hash, if there are more than [`Group::FEW`].
    by_path: Option<Table>,
}

impl RouteIndex {
    /// An index of these routes, in this order.
    pub fn new(routes: &[Route]) -> RouteIndex {
        let mut index = RouteIndex {
            first_of_many_hosts: u32::MAX,
            ..RouteIndex::default()
        };
        for (number, route) in (0..).zip(routes) {
            index.add(number, route);
        }
        for group in &mut index.groups {
            group.by_path = (group.routes.len() > Group::FEW).then(|| by_path(&group.routes));
            group.routes.shrink_to_fit();
        }
        index
    }

    fn add(&mut self, number: u32, route: &Route) {
        let host = route.host.as_ref().map(|host| host.to_ascii_lowercase());
        let next = || self.groups.len() as u32;
        let is_exact = host.as_ref().is_some_and(|host| !host.starts_with('*'));
        let group = match host {
            None => *self.any.get_or_insert_with(next),
            Some(host) => match host.strip_prefix("*.") {
                Some(name) => {
                    (self.below).number(hash_from_end(name.as_bytes()), name.as_bytes(), next)
                }
                None if host.starts_with('*') => {
                    let known = self.others.iter().find(|(other, _)| *other == host);
                    known.map(|(_, group)| *group).unwrap_or_else(|| {
                        let group = self.groups.len() as u32;
                        self.others.push((host, group));
                        group
                    })
                }
                None => (self.whole).number(hash_from_end(host.as_bytes()), host.as_bytes(), next),
            },
        };
        if !is_exact {
            self.first_of_many_hosts = self.first_of_many_hosts.min(number);
        }
        let at = group as usize;
        if at == self.groups.len() {
            self.groups.push(Group::default());
        }
        self.groups[at]
            .routes
            .push((route.path_prefix.as_str().into(), number));
    }

    /// The number of the first route that matches this host (no port, any case) and path (query allowed).
    #[inline]
    pub fn find(&self, host: &str, path: &str) -> Option<usize> {
        let mut first = u32::MAX;
        self.each_group(host, |group| {
            first = group.first(path, first);
            // In all configurations routes of whole hosts come first, so no other route can precede this one.
            first < self.first_of_many_hosts
        });
        (first != u32::MAX).then_some(first as usize)
    }

    /// The numbers of all routes that match this host (no port, any case), in order.
    pub fn of_host(&self, host: &str) -> Vec<usize> {
        let mut all = Vec::new();
        self.each_group(host, |group| {
            all.extend(group.routes.iter().map(|(_, number)| *number as usize));
            false
        });
        all.sort_unstable();
        all
    }

    /// Calls `is_enough` for each group that matches the host, that of the whole host first, until it returns true.
    #[inline]
    fn each_group(&self, host: &str, mut is_enough: impl FnMut(&Group) -> bool) {
        if !(self.whole.is_empty() && self.below.is_empty()) {
            for group in self.of_name(host) {
                if is_enough(&self.groups[group as usize]) {
                    return;
                }
            }
        }
        for (pattern, group) in &self.others {
            if host_fits(pattern, host) && is_enough(&self.groups[*group as usize]) {
                return;
            }
        }
        if let Some(group) = self.any {
            is_enough(&self.groups[group as usize]);
        }
    }

    /// The groups that match a host by name, that of the whole host first.
    fn of_name(&self, host: &str) -> Found {
        // A trailing dot does not change the name.
        let name = host.strip_suffix('.').unwrap_or(host).as_bytes();
        let (mut hash, mut below) = (EMPTY, Found::default());
        for (at, byte) in name.iter().enumerate().rev() {
            if *byte == b'.' && at > 0 && !self.below.is_empty() {
                let is_it = |known: &[u8]| known.eq_ignore_ascii_case(&name[at + 1..]);
                below.extend(self.below.find(hash, is_it));
            }
            hash = with(hash, byte.to_ascii_lowercase());
        }
        let is_it = |known: &[u8]| known.eq_ignore_ascii_case(name);
        let whole = self.whole.find(hash, is_it);
        whole.into_iter().chain(below).collect()
    }
}

fn by_path(routes: &[(Box<str>, u32)]) -> Table {
    let mut table = Table::default();
    for (prefix, number) in routes {
        // Of two routes with the same path the first is used.
        table.number(hash_of(prefix.as_bytes()), prefix.as_bytes(), || *number);
    }
    table
}

impl Group {
    /// Up to this many routes are searched one by one.
    const FEW: usize = 4;

    /// The first of its routes that matches the path, or `before` if that has a smaller number.
    #[inline]
    fn first(&self, path: &str, before: u32) -> u32 {
        match &self.by_path {
            Some(table) => first_prefix(table, path.as_bytes(), before),
            None => {
                let mut routes = self.routes.iter();
                let found = routes.find(|(prefix, _)| plan::path_begins(path, prefix));
                found.map_or(before, |(_, number)| before.min(*number))
            }
        }
    }
}

/// The least number among the prefixes of the path that end with a segment; at most `before`.
fn first_prefix(table: &Table, path: &[u8], before: u32) -> u32 {
    let mut first = before;
    let mut look = |hash: u64, beginning: &[u8]| {
        if let Some(number) = table.get(hash, beginning) {
            first = first.min(number);
        }
    };
    let (mut hash, end) = (EMPTY, path.len().min(table.bytes_max() + 1));
    for (at, &byte) in path[..end].iter().enumerate() {
        let is_behind_slash = at > 0 && path[at - 1] == b'/';
        if is_behind_slash || matches!(byte, b'/' | b'?') {
            look(hash, &path[..at]);
        }
        hash = with(hash, byte);
    }
    if end == path.len() || path[end - 1] == b'/' {
        look(hash, &path[..end]);
    }
    first
}

#[cfg(test)]
mod tests;
