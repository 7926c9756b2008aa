//! Which stored object answers a plain request, whatever protocol it came in.
//!
//! A plain request is a GET without directive, condition, range and body. The key is put together in scratch space; the operator's rules,
//! the front, freshness and quotas are asked; nothing is allocated. Whoever calls sends the object in the words of its protocol
//! ([`crate::conn::fast`], [`crate::h2`]).
//!
//! Not known here: sockets, how a request or an answer looks on the wire.

use std::{net::IpAddr, sync::Arc};

use message::Seen;
use store::{KeyHash, Lookup, ReadGuard, Sequence};

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
use cache::memory::{Front, Resident};
use plan::Verdict;
use purging::gate::Served;
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
#[derive(Clone, Copy, Default)]
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
    let Asker {
        listener, client, ..
    } = asker;
    let Ok(place) = target::locate(listener, "GET", plain.target, plain.host) else {
        return Looked::Long;
    };
    let mut key = worker.key.borrow_mut();
    key.clear();
    let mut tolls = listener.tolls.each;
    let (book, edition) = (&listener.book, listener.edition.number);
    let mut rules = RulesOfHit::default();
    let name_bytes = if book.is_empty() {
        place.write_key(None, &mut key)
    } else {
        let unix_ms = worker.unix_ms(began).0;
        let among = asker
            .standing
            .of(book, edition, client, listener.number, unix_ms);
        let met = book.met(among, &place.question("GET", plain.fields));
        let ruled = book.request(met, !asker.is_member);
        // What fields make a difference to is found through its marker.
        if ruled.bypass
            || ruled.shape.is_some_and(Shape::has_extras)
            || ruled.verdict.is_some_and(|(_, it)| *it != Verdict::Allow)
        {
            return Looked::Long;
        }
        tolls = listener.tolls_of(ruled.met).each;
        rules = RulesOfHit {
            tag: ruled.tag,
            changes: !asker.is_member && book.changes_answers(ruled.met),
            met: ruled.met,
        };
        place.write_key(ruled.shape, &mut key)
    };
    let hash = worker.hasher.hash(&key[..name_bytes]);
    let tag = rules.tag;
    // Asked when it is known that it is a hit: the long way counts all others.
    let passed_at = |place: &Place<'_>| match tolls.is_empty() {
        true => Ok(None),
        false => toll::passes(listener, tolls, (client, place.host()), tag).map(Some),
    };
    let served = worker.shared.served();
    if served == Served::Nothing {
        return Looked::Long;
    }
    let looked_up = front.look_up(&worker.shared.cache.memory, hash, &key);
    let is_absent = matches!(looked_up, Err(None)) && book.is_empty();
    let Ok(resident) = looked_up else {
        match &worker.storage.disk {
            Some(disk) if served == Served::All && !disk.is_shut(hash) => {}
            _ => return Looked::Long,
        }
        // Noted before the look-up: what is invalidated after it is not served.
        let store = worker.shared.cache.store.of(hash);
        let sequence = store.sequence();
        let removals = worker.shared.cache.memory.removals(hash);
        let read = match store.look_up(hash) {
            Lookup::OnDisk(read) => read,
            Lookup::Absent if is_absent => {
                let key = key.clone();
                return Looked::Absent(Absent { key, hash });
            }
            Lookup::Absent | Lookup::Buffered(_) => return Looked::Long,
        };
        let Ok(passed) = passed_at(&place) else {
            return Looked::Long;
        };
        return Looked::OnDisk(Box::new(Pinned {
            guard: store.guard(read),
            key: key.clone(),
            hash,
            route: place.route_number(),
            sequence,
            removals,
            rules,
            passed,
        }));
    };
    let now = worker.unix_ms(began);
    let object = &resident.object;
    if object.large.is_some() || !object.standing.is_fresh_for(listener.foreign, now) {
        return Looked::Long;
    }
    let Ok(passed) = passed_at(&place) else {
        return Looked::Long;
    };
    Looked::Fresh(Fresh {
        resident,
        hash,
        place,
        rules,
        passed,
    })
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
            met: self.met,
            asked: AskedFor::of(&place.question("GET", fields)),
            client,
            id: id(),
        })
    }
}
