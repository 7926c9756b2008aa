//! The list of members: those of the configuration, and discovered ones that come and go.
//!
//! New members are found in two ways. The operator's DNS *name* lists the addresses of all members (`listed`). A stranger that proves the key and
//! opens a link also becomes a member, at the address it tells (`knocked`), before the name is looked up again.
//! An address gets a place at once. Its member is named by the address until the handshake tells the real name (`met`):
//!
//! | the handshake says | then |
//! |---|---|
//! | our own name, or the address is ours | the address is ignored |
//! | a new name | the place belongs to that member |
//! | the name of a member without a link | that member has moved here: its own place gets this address, and this place is freed |
//! | the name of a linked member, same process | the address is a second one of that member, and is ignored |
//! | the name of a linked member, another process | we try again later: the old link may be about to end |
//! | another name than that of the place | the address now belongs to another member; the old one is kept, without an address |
//!
//! A discovered member is *forgotten*, and its place freed, after `forget_after_ms` without being listed or linked. A failed look-up changes
//! nothing. A configured member is never forgotten, and keeps the address in the file.
//!
//! Invariants: no two places have the same name, no two have the same address to connect to, and none has our own name.
//!
//! Not known here: sockets, DNS, what a member holds.
//! Limits: the number of places. An address that finds none free is counted ([`Roll::unplaced`]) and gets one once a place is free.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use super::member::Who;
use base::member::MemberId;
use plan::{ClusterMember, PeerAddress};

/// A link beats within this time after its handshake, ms.
const LINKED_WITHIN_MS: u64 = 3000;

/// A place has got another member or none, or more is known of its member.
pub type Change = (MemberId, Option<Who>);

/// The fate of a connection whose peer has told its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It becomes the link of the place.
    Stays,
    /// It is closed: the peer is not the member of this place.
    Leaves,
    /// It is closed, and may succeed at the next attempt: another process of this name still has a link.
    Waits,
}

/// What a peer has told in a handshake, on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of its process: differs from start to start.
    pub incarnation: u64,
}

/// The state of all links, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Members with a link in at least one direction, a bit each.
    pub linked: u64,
    /// Members whose link, opened by us, is up and beats, a bit each.
    pub trusted: u64,
    /// Milliseconds.
    pub ms: u64,
}

/// The list of members; described at the head of this file.
#[derive(Debug)]
pub struct Roll {
    own: Box<str>,
    forget_after_ms: u64,
    places: Box<[Place]>,
    /// All addresses in the last successful look-up.
    listed: BTreeSet<SocketAddr>,
    /// The ignored ones of these, with the member that they are a second address of; `None`: our own.
    left_out: BTreeMap<SocketAddr, Option<MemberId>>,
    unplaced: usize,
    /// The last number given as an occupant, turn or time of freeing.
    numbers: u64,
    changes: Vec<Change>,
}

#[derive(Debug, Default)]
struct Place {
    entry: Option<Entry>,
    /// Number of the event that freed it; later events have higher numbers.
    freed: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    who: Who,
    /// The address that we connect to, if known.
    address: Option<SocketAddr>,
    /// Number of the process that had the last link.
    incarnation: Option<u64>,
    /// When a connection of ours to its address last met it.
    met_ms: Option<u64>,
    /// When it was last listed or linked.
    seen_ms: u64,
}

impl Roll {
    /// A roll of the configured members, with so many places.
    pub fn new(own: &str, configured: &[ClusterMember], places: usize, forget_ms: u64) -> Roll {
        let mut roll = Roll {
            own: own.into(),
            forget_after_ms: forget_ms,
            places: (0..places.max(configured.len()))
                .map(|_| Place::default())
                .collect(),
            listed: BTreeSet::new(),
            left_out: BTreeMap::new(),
            unplaced: 0,
            numbers: 0,
            changes: Vec::new(),
        };
        for (number, member) in configured.iter().enumerate() {
            let host = member.at.host.parse();
            let entry = Entry {
                who: Who {
                    name: member.name.as_str().into(),
                    is_named: true,
                    at: member.at.clone(),
                    is_called: true,
                    is_discovered: false,
                    occupant: roll.number(),
                    turn: roll.number(),
                },
                address: host.ok().map(|ip| SocketAddr::new(ip, member.at.port)),
                incarnation: None,
                met_ms: None,
                seen_ms: 0,
            };
            roll.put(MemberId(number as u8), entry);
        }
        roll
    }

    /// Takes the changes since the last call.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Addresses of the last successful look-up for which no place was free.
    pub fn unplaced(&self) -> usize {
        self.unplaced
    }

    /// Members, as a bit for each number.
    pub fn mask(&self) -> u64 {
        let taken = self.entries().map(|(id, _)| id.bit());
        taken.fold(0, |mask, bit| mask | bit)
    }

    /// A look-up of the name has given these addresses.
    pub fn listed(&mut self, addresses: &[SocketAddr], now: Now) {
        self.listed = addresses.iter().copied().collect();
        let listed = &self.listed;
        self.left_out.retain(|address, _| listed.contains(address));
        self.unplaced = 0;
        for address in addresses {
            let is_known = self.left_out.contains_key(address) || self.at(*address).is_some();
            if !is_known && self.take(*address, now).is_none() {
                self.unplaced += 1;
            }
        }
        self.tick(now);
    }

    /// Forgets members that have been away for too long.
    pub fn tick(&mut self, now: Now) {
        let ids: Vec<MemberId> = self.entries().map(|(id, _)| id).collect();
        for id in ids {
            let is_listed = self.is_listed(id);
            let Some(entry) = self.entry_mut(id) else {
                continue;
            };
            if is_listed || now.linked & id.bit() != 0 {
                entry.seen_ms = now.ms;
            }
            let away_ms = now.ms.saturating_sub(entry.seen_ms);
            let (is_discovered, forget_ms) = (entry.who.is_discovered, self.forget_after_ms);
            if is_discovered && away_ms >= forget_ms {
                self.free(id);
            }
        }
    }

    /// The address of this place turned out to be our own.
    pub fn is_own(&mut self, id: MemberId, turn: u64) {
        if let Some(entry) = self.entry(id)
            && entry.who.turn == turn
            && entry.who.is_discovered
        {
            let address = entry.address;
            self.free(id);
            self.leave_out(address, None);
        }
    }

    /// A handshake at the address of this place has told the peer's name. `turn`: that of the place when we connected.
    pub fn met(&mut self, id: MemberId, turn: u64, said: Said<'_>, now: Now) -> Verdict {
        let Some(entry) = self.entry(id).filter(|entry| entry.who.turn == turn) else {
            return Verdict::Leaves;
        };
        if said.name == &*self.own {
            self.is_own(id, turn);
            return Verdict::Leaves;
        }
        let (address, is_its) = (entry.address, *entry.who.name == *said.name);
        if !entry.who.is_discovered || (entry.who.is_named && is_its) {
            if let Some(entry) = self.entry_mut(id) {
                entry.met(said, now);
            }
            return Verdict::Stays;
        }
        let was_named = entry.who.is_named;
        let Some(other) = self.named(said.name) else {
            return self.met_a_new_one(id, was_named, said, now);
        };
        let is_trusted = now.trusted & other.bit() != 0;
        let (is_same, is_fixed, is_met) = self.entry(other).map_or((false, false, false), |it| {
            let is_met = it
                .met_ms
                .is_some_and(|ms| now.ms.saturating_sub(ms) < LINKED_WITHIN_MS);
            let is_same = it.incarnation == Some(said.incarnation);
            (is_same, !it.who.is_discovered, is_met)
        });
        if is_trusted && !is_same && !is_fixed {
            return Verdict::Waits;
        }
        // A place that had only the address is freed. A place with a known member keeps it, without this address.
        match was_named {
            true => self.uncall(id),
            false => self.free(id),
        }
        match is_fixed || is_same && (is_trusted || is_met) {
            true => self.leave_out(address, Some(other)),
            false => self.move_to(other, address, now),
        }
        Verdict::Leaves
    }

    /// The peer at the address of this place has told a name that no place has.
    fn met_a_new_one(
        &mut self,
        id: MemberId,
        was_named: bool,
        said: Said<'_>,
        now: Now,
    ) -> Verdict {
        if !was_named {
            if let Some(entry) = self.entry_mut(id) {
                (entry.who.name, entry.who.is_named) = (said.name.into(), true);
                entry.met(said, now);
            }
            self.tell(id);
            return Verdict::Stays;
        }
        let address = self.entry(id).and_then(|entry| entry.address);
        self.uncall(id);
        if let Some(address) = address
            && self.take(address, now).is_none()
        {
            // No place is free: a member that is there is worth more than one that has gone, so give this place to the new one.
            self.free(id);
            self.take(address, now);
        }
        Verdict::Leaves
    }

    /// A stranger that can be reached at this address has proved the key and opened a link. `None`: it is not taken as a member, because it has our
    /// own name or no place is free.
    pub fn knocked(&mut self, said: Said<'_>, from: SocketAddr, now: Now) -> Option<MemberId> {
        if said.name == &*self.own {
            return None;
        }
        if let Some(id) = self.named(said.name) {
            let is_elsewhere = self.entry(id).is_some_and(|entry| {
                entry.who.is_discovered && entry.address != Some(from) && !self.is_listed(id)
            });
            if is_elsewhere && now.trusted & id.bit() == 0 && self.at(from).is_none() {
                self.move_to(id, Some(from), now);
            }
            if let Some(entry) = self.entry_mut(id) {
                entry.seen_ms = now.ms;
            }
            return Some(id);
        }
        let nameless = self.at(from).filter(|id| {
            let entry = self.entry(*id);
            entry.is_some_and(|entry| !entry.who.is_named)
        });
        let id = match nameless {
            Some(id) => id,
            // Another member is listed at this address. If the stranger is a member, a look-up of the name will find it.
            None if self.at(from).is_some() => return None,
            None => self.take(from, now)?,
        };
        let entry = self.entry_mut(id)?;
        (entry.who.name, entry.who.is_named) = (said.name.into(), true);
        entry.incarnation = Some(said.incarnation);
        self.tell(id);
        Some(id)
    }

    /// The member of this name.
    pub fn named(&self, name: &str) -> Option<MemberId> {
        let mut named = self
            .entries()
            .filter(|(_, entry)| entry.who.is_named && *entry.who.name == *name);
        named.next().map(|(id, _)| id)
    }

    /// The member that has this address.
    fn at(&self, address: SocketAddr) -> Option<MemberId> {
        let mut at = self
            .entries()
            .filter(|(_, entry)| entry.address == Some(address));
        at.next().map(|(id, _)| id)
    }

    /// Does the last look-up list an address of this member?
    fn is_listed(&self, id: MemberId) -> bool {
        let address = self.entry(id).and_then(|entry| entry.address);
        address.is_some_and(|address| self.listed.contains(&address))
            || self.left_out.values().any(|of| *of == Some(id))
    }

    fn take(&mut self, address: SocketAddr, now: Now) -> Option<MemberId> {
        let free = self.places.iter().enumerate();
        let free = free.filter(|(_, place)| place.entry.is_none());
        // Reuse the place that has been free for longest, so that few tasks still hold its number.
        let (number, _) = free.min_by_key(|(_, place)| place.freed)?;
        let id = MemberId(number as u8);
        let entry = Entry {
            who: Who {
                name: address.to_string().into(),
                is_named: false,
                at: place_of(address),
                is_called: true,
                is_discovered: true,
                occupant: self.number(),
                turn: self.number(),
            },
            address: Some(address),
            incarnation: None,
            met_ms: None,
            seen_ms: now.ms,
        };
        self.put(id, entry);
        Some(id)
    }

    fn free(&mut self, id: MemberId) {
        let freed = self.number();
        let place = &mut self.places[usize::from(id.0)];
        (place.entry, place.freed) = (None, freed);
        self.left_out.retain(|_, of| *of != Some(id));
        self.changes.push((id, None));
    }

    fn leave_out(&mut self, address: Option<SocketAddr>, of: Option<MemberId>) {
        if let Some(address) = address.filter(|address| self.listed.contains(address)) {
            self.left_out.insert(address, of);
        }
    }

    fn move_to(&mut self, id: MemberId, address: Option<SocketAddr>, now: Now) {
        let turn = self.number();
        if let (Some(entry), Some(address)) = (self.entry_mut(id), address) {
            (entry.address, entry.seen_ms) = (Some(address), now.ms);
            (entry.incarnation, entry.met_ms) = (None, None);
            (entry.who.at, entry.who.turn) = (place_of(address), turn);
            entry.who.is_called = true;
            self.tell(id);
        }
    }

    /// Removes the address of a member, because another member has it now.
    fn uncall(&mut self, id: MemberId) {
        let turn = self.number();
        if let Some(entry) = self.entry_mut(id) {
            entry.address = None;
            (entry.who.is_called, entry.who.turn) = (false, turn);
            self.tell(id);
        }
    }

    fn put(&mut self, id: MemberId, entry: Entry) {
        self.places[usize::from(id.0)].entry = Some(entry);
        self.tell(id);
    }

    fn tell(&mut self, id: MemberId) {
        let who = self.entry(id).map(|entry| entry.who.clone());
        self.changes.push((id, who));
    }

    fn entry(&self, id: MemberId) -> Option<&Entry> {
        self.places.get(usize::from(id.0))?.entry.as_ref()
    }

    fn entry_mut(&mut self, id: MemberId) -> Option<&mut Entry> {
        self.places.get_mut(usize::from(id.0))?.entry.as_mut()
    }

    fn entries(&self) -> impl Iterator<Item = (MemberId, &Entry)> {
        let all = self.places.iter().zip(0..);
        all.filter_map(|(place, number)| Some((MemberId(number), place.entry.as_ref()?)))
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

impl Entry {
    fn met(&mut self, said: Said<'_>, now: Now) {
        self.incarnation = Some(said.incarnation);
        (self.met_ms, self.seen_ms) = (Some(now.ms), now.ms);
    }
}

fn place_of(address: SocketAddr) -> PeerAddress {
    PeerAddress {
        host: address.ip().to_string(),
        port: address.port(),
    }
}

#[cfg(test)]
mod tests;
