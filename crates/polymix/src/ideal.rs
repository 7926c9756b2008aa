//! What an ideal cache would answer: the hit ratio that a stream of requests offers.
//!
//! An ideal cache keeps every cachable object that it has seen whole, and forgets an object that is posted to (RFC 9111 §4.4).
//! It is told of requests in their order and remembers a bit for each object; the numbers of objects are dense, so bits are
//! all it takes: some 10 MB for a day at 1,000 requests/s.
//!
//! A first request that says If-Modified-Since with a time after Last-Modified is answered 304 and brings nothing: the next
//! one is a miss too. That costs the hit ratio a little against the recurrence.
//!
//! Not known here: modifications. An object that has expired since is counted as offered; at the specified life cycles that
//! is about a hundredth of the hits.   Limits: memory grows with the objects created.   Source: spec section 2, RFC 9111.

use crate::content::{IMAGES_STRIDE, Kind, ObjectId};
use crate::request::{Condition, Method, Request};

/// An unlimited cache without contents.
#[derive(Debug, Clone)]
pub struct Ideal {
    servers: Vec<[Kept; 4]>,
}

/// The objects of one kind on one server: a word for 64 of them; of images, for those of one page.
type Kept = Vec<u64>;

impl Ideal {
    /// Nothing is kept yet.
    #[must_use]
    pub fn new(servers: u32) -> Self {
        Self {
            servers: vec![Default::default(); servers as usize],
        }
    }

    /// Whether it answers this request from what it keeps; it keeps what the answer brings.
    pub fn ask(&mut self, request: &Request) -> bool {
        if !request.id.cachable() {
            return false;
        }
        let (word, bit) = self.place(request.id);
        let has = *word & bit != 0;
        match (request.method, request.condition) {
            (Method::Post(_), _) => {
                *word &= !bit;
                false
            }
            (Method::Head, _) | (Method::Get, Condition::Ims304) => has,
            (Method::Get, condition) => {
                *word |= bit;
                has && condition != Condition::Reload
            }
        }
    }

    /// The word and the bit of an object.
    fn place(&mut self, id: ObjectId) -> (&mut u64, u64) {
        let words = match id.kind {
            Kind::Image => IMAGES_STRIDE,
            _ => 64,
        };
        let list = &mut self.servers[usize::from(id.server)][id.kind.index()];
        let index = usize::try_from(id.number / words).expect("what is kept fits in memory");
        if list.len() <= index {
            list.resize(index + 1, 0);
        }
        (&mut list[index], 1 << (id.number % words))
    }
}

// The images of a page have bits of one word.
const _: () = assert!(crate::content::IMAGES_MAX <= 64);

#[cfg(test)]
mod tests {
    use super::*;

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
            offered: false,
        }
    }

    /// What becomes of requests for one object, a letter each: h for a hit.
    fn asked(requests: &[(Condition, Method)]) -> String {
        let mut ideal = Ideal::new(1);
        let mut ask = |(condition, method): &(Condition, Method)| {
            let hit = ideal.ask(&request(*condition, *method, true));
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
    }

    #[test]
    fn what_is_uncachable_is_none() {
        let mut ideal = Ideal::new(1);
        let request = request(Condition::Basic, Method::Get, false);
        assert!(!ideal.ask(&request) && !ideal.ask(&request));
    }

    #[test]
    fn images_are_kept_one_by_one() {
        let mut ideal = Ideal::new(1);
        let page = request(Condition::Basic, Method::Get, true);
        let images: Vec<_> = (0..64)
            .map(|n| page.image(n))
            .filter(|image| image.id.cachable())
            .collect();
        assert!(!ideal.ask(&images[0]) && !ideal.ask(&images[1]));
        assert!(ideal.ask(&images[0]) && ideal.ask(&images[1]));
        assert!(!ideal.ask(&images[2]));
    }
}
