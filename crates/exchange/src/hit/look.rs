//! Which stored object answers a plain request, whatever protocol it came in.
//!
//! A plain request is a GET without directive, condition, range and body. The key is put together in scratch space; the operator's rules,
//! the front, freshness and quotas are asked; nothing is allocated. Whoever calls sends the object in the words of its protocol
//! ([`crate::hit`]).
//!
//! Not known here: sockets, how a request or an answer looks on the wire.

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

/// Fields that make a request take the long way; so does a body.
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

/// Counted at the quotas of each request, if there are any; and whose bytes are counted, if that is.
pub type Passed = Option<Option<Box<Bill>>>;

/// A plain GET.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// As HTTP/1 writes it: origin form, or on a forward listener the whole URL.
    pub target: &'a str,
    /// The value of Host.
    pub host: Option<&'a str>,
    /// For rules about fields.
    pub fields: &'a dyn FieldLines,
}

/// Who asks, and where.
pub struct Asker<'a, 's> {
    /// The listener it comes by.
    pub listener: &'a ListenerState,
    /// The client's address.
    pub client: IpAddr,
    /// A member of our cluster has forwarded it.
    pub is_member: bool,
    /// The rules that requests of its connection may meet.
    pub standing: &'s mut Standing,
}

/// What the operator's rules say of a plain request.
#[derive(Clone, Default)]
pub struct RulesOfHit {
    /// What they call it.
    pub tag: Option<Tag>,
    /// Those that it meets.
    pub met: Met,
    /// Do they change fields of its answer?
    pub changes: bool,
}

/// A fresh object in memory. The request is counted at its quotas.
pub struct Fresh<'a, 'f> {
    /// The object.
    pub resident: &'f Arc<Resident>,
    /// Its primary hash.
    pub hash: KeyHash,
    /// What is asked for.
    pub place: Place<'a>,
    /// When it was looked for.
    pub now: UnixMillis,
    /// What the rules say.
    pub rules: RulesOfHit,
    /// Whose bytes are counted.
    pub passed: Passed,
}

/// An object on disk, whose extent is pinned.
pub struct Pinned {
    /// The pin.
    pub guard: ReadGuard,
    /// The request's key.
    pub key: Vec<u8>,
    /// Its hash.
    pub hash: KeyHash,
    /// The number of the route.
    pub route: Option<usize>,
    /// What was invalidated later is not served.
    pub sequence: Sequence,
    /// As in [`Preloaded`](cache::preloaded::Preloaded).
    pub removals: u64,
    /// What the rules say.
    pub rules: RulesOfHit,
    /// It is within its quotas, and counted.
    pub passed: Passed,
}

/// What a look came to.
pub enum Looked<'a, 'f> {
    /// It can be answered now.
    Fresh(Fresh<'a, 'f>),
    /// It must be read first.
    OnDisk(Box<Pinned>),
    /// There is none. Said only where no rule of the operator's is looked at.
    Absent(Absent),
    /// The long way.
    Long,
}

/// Looks for the object. `began`: when the request was seen.
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

/// What is looked for.
struct Sought<'a> {
    listener: &'a ListenerState,
    client: IpAddr,
    place: Place<'a>,
    hash: KeyHash,
    rules: RulesOfHit,
    /// The quotas of each request.
    tolls: Chosen,
}

impl<'a> Sought<'a> {
    /// Writes its key. `None`: the operator's rules, or the lack of a resource, want the long way.
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
            // What fields make a difference to is found through its marker.
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

    /// Is it within its quotas? Asked when it is known that it is a hit: the long way counts all others.
    #[inline]
    fn passes(&self) -> Option<Passed> {
        if self.tolls.is_empty() {
            return Some(None);
        }
        let whose = (self.client, self.place.host());
        let bill = toll::passes(self.listener, self.tolls, whose, self.rules.tag);
        bill.ok().map(Some)
    }

    /// May it be served as it is?
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

    /// Pins it. `may_be_absent`: memory has nothing under its hash.
    fn on_disk<'f>(self, cache: &Cache, key: &[u8], may_be_absent: bool) -> Looked<'a, 'f> {
        let (hash, key) = (self.hash, || key.to_vec());
        // Noted before the look-up: what is invalidated after it is not served.
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
    /// What changes the fields of its answer, if anything does. `id`: a number of this request alone.
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
