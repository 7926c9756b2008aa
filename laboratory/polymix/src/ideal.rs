//! The hit ratio that a stream of requests offers: what an ideal cache would answer.
//!
//! An ideal cache keeps every cachable object that it received whole until the object expires, and drops an object when a POST for
//! it is seen (RFC 9111 §4.4). It gets the requests in order and keeps four bits an object, which tell whether the kept version is
//! the current one. Object numbers are dense, so bits are enough: some 20 MB for a day at 1,000 requests/s.
//!
//! Polygraph calls a reply offered if it is cachable and was requested before (57.9 % of basic replies in PolyMix-3). We count that
//! too (`stats`), but no cache can reach it. If the first request for an object has If-Modified-Since with a time after
//! Last-Modified, the answer is 304 without a body, so the next request is a miss too (1.4 points). Objects expire (0.1 points).
//! A range of an object that is not kept stores nothing either.
//!
//! These rules are written once: [`Meaning`] says what a request means to any cache, and a cache of limited size (`lru`) follows the
//! same values.
//!
//! Not known here: how long answers take, how large a cache is. An object is there as soon as it was requested.
//! Limits: memory grows with the objects created; an object that is requested again after exactly `VERSIONS` modifications counts
//! as unmodified.   Source: spec section 2, RFC 9111.

use crate::content::{IMAGES_MAX, IMAGES_STRIDE, Kind, ObjectId};
use crate::request::{Condition, Method, Request};

/// Bits an object: 0 if it is not kept, else its version modulo `VERSIONS`, plus 1.
const BITS: u64 = 4;
const VERSIONS: u64 = (1 << BITS) - 1;
/// Objects in a word.
const OBJECTS: u64 = u64::BITS as u64 / BITS;

/// An ideal cache.
#[derive(Debug, Clone)]
pub struct Ideal {
    servers: Vec<[Kept; 4]>,
    life_scale: f64,
}

/// What a request means to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing: the answer must not be stored.
    None,
    /// The cache must drop the object.
    Forgets,
    /// Answered from the cache if the copy is fresh. A server's answer to it is not stored.
    Looks {
        /// A cache that never evicts has the current version.
        fresh: bool,
    },
    /// Like `Looks`, but a server's answer is stored.
    Brings {
        /// A cache that never evicts has the current version.
        fresh: bool,
        /// The request is a reload: a server must answer.
        reload: bool,
    },
}

impl Meaning {
    /// A cache that never evicts answers from its copy.
    #[must_use]
    pub fn is_hit(self) -> bool {
        match self {
            Self::None | Self::Forgets => false,
            Self::Looks { fresh } => fresh,
            Self::Brings { fresh, reload } => fresh && !reload,
        }
    }
}

/// The objects of one kind on one server: a word for each `OBJECTS` of them; for images, a word for each page.
type Kept = Vec<u64>;

impl Ideal {
    /// An empty cache. `life_scale` is that of the servers.
    #[must_use]
    pub fn new(servers: u32, life_scale: f64) -> Self {
        Self {
            servers: vec![Default::default(); servers as usize],
            life_scale,
        }
    }

    /// Whether the cache answers this request, made at `now_s`, from its copy. Stores the answer of a server if it may.
    pub fn ask(&mut self, request: &Request, now_s: u64) -> bool {
        self.follow(request, now_s).is_hit()
    }

    /// Like `ask`, but returns what the request means to any cache.
    pub fn follow(&mut self, request: &Request, now_s: u64) -> Meaning {
        if !request.id.cachable() {
            return Meaning::None;
        }
        let version = request.id.life(self.life_scale).version_at(now_s).number;
        let now = version % VERSIONS + 1;
        let (word, shift) = self.place(request.id);
        let fresh = *word >> shift & VERSIONS == now;
        let without = *word & !(VERSIONS << shift);
        match (request.method, request.condition) {
            (Method::Post(_), _) => {
                *word = without;
                Meaning::Forgets
            }
            (Method::Head, _) | (Method::Get, Condition::Ims304 | Condition::Range { .. }) => {
                Meaning::Looks { fresh }
            }
            (Method::Get, condition) => {
                *word = without | now << shift;
                Meaning::Brings {
                    fresh,
                    reload: condition == Condition::Reload,
                }
            }
        }
    }

    /// The word that has the object's bits, and their position in it.
    fn place(&mut self, id: ObjectId) -> (&mut u64, u64) {
        let objects = match id.kind {
            Kind::Image => IMAGES_STRIDE,
            _ => OBJECTS,
        };
        let list = &mut self.servers[usize::from(id.server)][id.kind.index()];
        let index = usize::try_from(id.number / objects).expect("what is kept fits in memory");
        if list.len() <= index {
            list.resize(index + 1, 0);
        }
        (&mut list[index], id.number % objects * BITS)
    }
}

// The bits of a page's images are in one word.
const _: () = assert!(IMAGES_MAX as u64 <= OBJECTS);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn request(condition: Condition, method: Method, cachable: bool) -> Request {
        let id = (1..)
            .map(|number| ObjectId {
                world: 1,
                server: 0,
                kind: Kind::Html,
                number,
            })
            .find(|id| id.cachable() == cachable)
            .unwrap();
        Request {
            id,
            condition,
            method,
            abort: false,
            repeat: false,
            offered: false,
            offered_lru: false,
        }
    }

    /// The results of requests for one object, a letter each: h for a hit.
    fn asked(requests: &[(Condition, Method)]) -> String {
        let mut ideal = Ideal::new(1, 1.0);
        let mut ask = |(condition, method): &(Condition, Method)| {
            let hit = ideal.ask(&request(*condition, *method, true), NOW_S);
            if hit { 'h' } else { '-' }
        };
        requests.iter().map(&mut ask).collect()
    }

    #[test]
    fn what_was_seen_is_a_hit_but_for_reloads() {
        let get = |condition| (condition, Method::Get);
        let (basic, reload) = (get(Condition::Basic), get(Condition::Reload));
        let (ims_200, ims_304) = (get(Condition::Ims200), get(Condition::Ims304));
        assert_eq!(asked(&[basic, basic, reload, basic]), "-h-h");
        assert_eq!(asked(&[ims_304, basic, ims_304]), "--h");
        assert_eq!(asked(&[ims_200, basic]), "-h");
        let post = (Condition::Basic, Method::Post(1));
        assert_eq!(asked(&[basic, post, basic]), "---");
        let range = get(Condition::Range { first: 0, last: 9 });
        assert_eq!(asked(&[range, range, basic, range]), "---h");
    }

    #[test]
    fn what_has_expired_is_asked_for_anew() {
        let mut ideal = Ideal::new(1, 1.0);
        let request = request(Condition::Basic, Method::Get, true);
        let version = request.id.life(1.0).version_at(NOW_S);
        assert!(!ideal.ask(&request, NOW_S));
        assert!(ideal.ask(&request, version.until_s - 1));
        assert!(!ideal.ask(&request, version.until_s));
        assert!(ideal.ask(&request, version.until_s));
    }

    #[test]
    fn what_is_uncachable_is_none() {
        let mut ideal = Ideal::new(1, 1.0);
        let request = request(Condition::Basic, Method::Get, false);
        assert!(!ideal.ask(&request, NOW_S) && !ideal.ask(&request, NOW_S));
    }

    #[test]
    fn images_are_kept_one_by_one() {
        let mut ideal = Ideal::new(1, 1.0);
        let page = request(Condition::Basic, Method::Get, true);
        let images: Vec<_> = (0..64)
            .map(|n| page.image(n))
            .filter(|image| image.id.cachable())
            .collect();
        assert!(!ideal.ask(&images[0], NOW_S) && !ideal.ask(&images[1], NOW_S));
        assert!(ideal.ask(&images[0], NOW_S) && ideal.ask(&images[1], NOW_S));
        assert!(!ideal.ask(&images[2], NOW_S));
    }
}
