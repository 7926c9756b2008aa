//! Finds the stored object that answers a plain request, for all protocols.
//!
//! A plain request is a GET without directive, condition, range and body. The key is built in scratch space, then the operator's rules, the
//! front, freshness and quotas are checked; nothing is allocated. The caller sends the object in the format of its protocol
//! ([`crate::hit`]).
//!
//! Not known here: sockets, the wire format of a request or an answer.

use std::{net::IpAddr, sync::Arc};

use httpcache::UnixMillis;
use message::Seen;
use store::{KeyHash, KeyHasher, Lookup, ReadGuard, Sequence};

use crate::{
    listener::ListenerState,
    request::{
        changing::HitChanging,
        incoming::Absent,
        target::{self, Place},
        toll::{self, Bill},
    },
    state::Worker,
};
use base::clock::Instant;
use cache::{
    Cache,
    memory::{Front, Resident},
};
use plan::Verdict;
use purging::gate::Served;
use quota::Chosen;
use rules::rulebook::{Met, Shape, Standing, Tag, edits::AskedFor, fits::FieldLines};

/// Fields that make a request take the long way; a body does so, too.
pub const NOT_PLAIN: Seen = Seen::CACHE_CONTROL
    .union(Seen::PRAGMA)
    .union(Seen::RANGE)
    .union(Seen::IF_RANGE)
    .union(Seen::IF_NONE_MATCH)
    .union(Seen::IF_MODIFIED_SINCE)
    .union(Seen::IF_MATCH)
    .union(Seen::IF_UNMODIFIED_SINCE)
    .union(Seen::EXPECT)
    .union(Seen::TRANSFER_ENCODING);

/// The outer value: the request was counted at quotas for each request. The inner one: the quotas that count its bytes.
pub type Passed = Option<Option<Box<Bill>>>;

/// A plain GET.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// The target as HTTP/1 writes it: origin form, or on a forward listener the whole URL.
    pub target: &'a str,
    /// The value of Host.
    pub host: Option<&'a str>,
    /// The request's fields, for rules about them.
    pub fields: &'a dyn FieldLines,
}

/// The client and listener of a request.
pub struct Asker<'a, 's> {
    /// The listener that accepted the request.
    pub listener: &'a ListenerState,
    /// The client's address.
    pub client: IpAddr,
    /// A cluster member has forwarded the request.
    pub is_member: bool,
    /// The rules that the connection's requests may match.
    pub standing: &'s mut Standing,
}

/// The operator's rules for a plain request.
#[derive(Clone, Default)]
pub struct RulesOfHit {
    /// The tag that the rules give the request.
    pub tag: Option<Tag>,
    /// The rules that match.
    pub met: Met,
    /// Do they change fields of the answer?
    pub changes: bool,
}

/// A fresh object in memory. The request has been counted at its quotas.
pub struct Fresh<'a, 'f> {
    /// The object.
    pub resident: &'f Arc<Resident>,
    /// The object's primary hash.
    pub hash: KeyHash,
    /// The resource asked for.
    pub place: Place<'a>,
    /// The time of the look-up.
    pub now: UnixMillis,
    /// The operator's rules for the request.
    pub rules: RulesOfHit,
    /// The quotas that count the request's bytes.
    pub passed: Passed,
}

/// An object on disk, whose extent is pinned.
pub struct Pinned {
    /// The pin.
    pub guard: ReadGuard,
    /// The request's key.
    pub key: Vec<u8>,
    /// The key's hash.
    pub hash: KeyHash,
    /// The number of the route.
    pub route: Option<usize>,
    /// The invalidation sequence before the look-up: an object invalidated since is not served.
    pub sequence: Sequence,
    /// As in [`Preloaded`](cache::preloaded::Preloaded).
    pub removals: u64,
    /// The operator's rules for the request.
    pub rules: RulesOfHit,
    /// The request's count at its quotas.
    pub passed: Passed,
}

/// The result of a look-up.
pub enum Looked<'a, 'f> {
    /// The object can be sent now.
    Fresh(Fresh<'a, 'f>),
    /// The object must be read first.
    OnDisk(Box<Pinned>),
    /// There is no object. Returned only if the operator has no rules.
    Absent(Absent),
    /// The request must take the long way.
    Long,
}

/// Looks the object up. `began`: when the request was seen.
#[inline]
pub fn look<'a, 'f>(
    worker: &Worker,
    front: &'f mut Front,
    asker: Asker<'a, '_>,
    plain: Plain<'a>,
    began: Instant,
) -> Looked<'a, 'f> {
    let now = worker.unix_ms(began);
    let mut key = worker.key.borrow_mut();
    let Some(sought) = Sought::of(asker, plain, now, &worker.hasher, &mut key) else {
        return Looked::Long;
    };
    let (cache, served) = (&worker.shared.cache, worker.shared.served());
    if served == Served::Nothing {
        return Looked::Long;
    }
    let found = front.look_up(&cache.memory, sought.hash, &key);
    match (found, &worker.storage.disk) {
        (Ok(resident), _) => sought.in_memory(resident, now),
        (Err(other), Some(disk)) if served == Served::All && !disk.is_shut(sought.hash) => {
            sought.on_disk(cache, &key, other.is_none())
        }
        (Err(_), _) => Looked::Long,
    }
}

/// A look-up of one object.
struct Sought<'a> {
    listener: &'a ListenerState,
    client: IpAddr,
    place: Place<'a>,
    hash: KeyHash,
    rules: RulesOfHit,
    /// The quotas for each request.
    tolls: Chosen,
}

impl<'a> Sought<'a> {
    /// Builds the key. `None`: the operator's rules, or a target that names no resource, require the long way.
    #[inline]
    fn of(
        asker: Asker<'a, '_>,
        plain: Plain<'a>,
        now: UnixMillis,
        hasher: &KeyHasher,
        key: &mut Vec<u8>,
    ) -> Option<Sought<'a>> {
        let (listener, client) = (asker.listener, asker.client);
        let place = target::locate(listener, "GET", plain.target, plain.host).ok()?;
        key.clear();
        let (book, edition) = (&listener.book, listener.edition.number);
        let mut tolls = listener.tolls.each;
        let mut rules = RulesOfHit::default();
        let name_bytes = if book.is_empty() {
            place.write_key(None, key)
        } else {
            let among = (asker.standing).of(book, edition, client, listener.number, now.0);
            let met = book.met(among, &place.question("GET", plain.fields));
            let ruled = book.request(met, !asker.is_member);
            // A response that depends on fields is found through its marker.
            if ruled.bypass
                || ruled.shape.is_some_and(Shape::has_extras)
                || ruled.verdict.is_some_and(|(_, it)| *it != Verdict::Allow)
            {
                return None;
            }
            tolls = listener.tolls_of(&ruled.met).each;
            rules = RulesOfHit {
                tag: ruled.tag,
                changes: !asker.is_member && book.changes_answers(&ruled.met),
                met: ruled.met,
            };
            place.write_key(ruled.shape, key)
        };
        Some(Sought {
            listener,
            client,
            place,
            hash: hasher.hash(&key[..name_bytes]),
            rules,
            tolls,
        })
    }

    /// Counts the request at its quotas. Called only for a hit, since the long way counts all other requests.
    #[inline]
    fn passes(&self) -> Option<Passed> {
        if self.tolls.is_empty() {
            return Some(None);
        }
        let whose = (self.client, self.place.host());
        let bill = toll::passes(self.listener, self.tolls, whose, self.rules.tag);
        bill.ok().map(Some)
    }

    /// Serves an object in memory, if it is small, fresh and within the quotas.
    #[inline]
    fn in_memory<'f>(self, resident: &'f Arc<Resident>, now: UnixMillis) -> Looked<'a, 'f> {
        let object = &resident.object;
        if object.large.is_some() || !object.standing.is_fresh_for(self.listener.foreign, now) {
            return Looked::Long;
        }
        let Some(passed) = self.passes() else {
            return Looked::Long;
        };
        Looked::Fresh(Fresh {
            resident,
            hash: self.hash,
            place: self.place,
            now,
            rules: self.rules,
            passed,
        })
    }

    /// Pins an object on disk. `may_be_absent`: memory has nothing under the object's hash.
    fn on_disk<'f>(self, cache: &Cache, key: &[u8], may_be_absent: bool) -> Looked<'a, 'f> {
        let (hash, key) = (self.hash, || key.to_vec());
        // Read the sequence before the look-up: an object invalidated in between must not be served.
        let store = cache.store.of(hash);
        let sequence = store.sequence();
        let removals = cache.memory.removals(hash);
        let read = match store.look_up(hash) {
            Lookup::OnDisk(read) => read,
            Lookup::Absent if may_be_absent && self.listener.book.is_empty() => {
                return Looked::Absent(Absent { key: key(), hash });
            }
            Lookup::Absent | Lookup::Buffered(_) => return Looked::Long,
        };
        let Some(passed) = self.passes() else {
            return Looked::Long;
        };
        Looked::OnDisk(Box::new(Pinned {
            guard: store.guard(read),
            key: key(),
            hash,
            route: self.place.route_number(),
            sequence,
            removals,
            rules: self.rules,
            passed,
        }))
    }
}

impl RulesOfHit {
    /// The changes to the fields of the answer, if there are any. `id`: a number unique to this request.
    pub fn changing<'q>(
        &self,
        place: &'q Place<'_>,
        fields: &'q dyn FieldLines,
        client: IpAddr,
        id: impl FnOnce() -> u64,
    ) -> Option<HitChanging<'q>> {
        self.changes.then(|| HitChanging {
            met: self.met.clone(),
            asked: AskedFor::of(&place.question("GET", fields)),
            client,
            id: id(),
        })
    }
}
