//! The type of a request: conditions, reloads, methods, aborts.
//!
//! A share of the requests is special; the phases begin with a tenth of that share (`special`). The images of a page are requested with
//! the same conditions as the page, but always with GET.
//!
//! Ranges are an addition of ours, for proxies that store parts. There are none by default.
//!
//! Not known here: connections.   Source: spec section 2; Polygraph's Client for what images inherit.

use crate::Mix;
use crate::content::{Kind, ObjectId};
use crate::random::{self, Chance};

//= spec section 2   request types
const IMS_200: f64 = 0.05;
const IMS_304: f64 = 0.10;
const RELOAD: f64 = 0.05;
//= spec section 2   methods of PolyMix-4
const POST: f64 = 0.015;
const HEAD: f64 = 0.001;
const POST_BYTES_END: u64 = 8 * 1024;
//= spec section 2   0.1 % by robots and 0.1 % by servers
const ABORT: f64 = 0.001;

/// What the request says about cached copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Condition {
    /// Says nothing about them.
    Basic,
    /// If-Modified-Since a second before Last-Modified: 200 is expected.
    Ims200,
    /// If-Modified-Since a second after Last-Modified: 304 is expected.
    Ims304,
    /// No cached copy is acceptable: a server must answer.
    Reload,
    /// A range of the object. Not in PolyMix; see `Request::draw_range`.
    Range {
        /// The first byte.
        first: u64,
        /// The last byte.
        last: u64,
    },
}

/// The method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// POST, with the length of its body
    Post(u64),
    /// HEAD
    Head,
}

/// One request, before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The object.
    pub id: ObjectId,
    /// What the request says about cached copies.
    pub condition: Condition,
    /// GET, mostly.
    pub method: Method,
    /// The robot closes the connection in the middle of the answer.
    pub abort: bool,
    /// The object, or the page it is part of, was requested before. Polygraph's offered hits are counted by this alone.
    pub repeat: bool,
    /// An ideal cache answers; see `ideal`.
    pub offered: bool,
    /// An exact LRU of the cache's size answers; see `lru`.
    pub offered_lru: bool,
}

impl Request {
    /// Draws a request for an object that was picked.
    pub fn draw(mix: Mix, id: ObjectId, special: f64, chance: &mut Chance) -> Self {
        let mut request = Self {
            id,
            condition: condition(chance.unit(), special),
            method: Method::Get,
            abort: false,
            repeat: false,
            offered: false,
            offered_lru: false,
        };
        if mix == Mix::Four {
            request.method = method(special, chance);
        }
        request = request.draw_abort(mix, chance);
        if request.method != Method::Get {
            request.condition = Condition::Basic;
        }
        request
    }

    /// Records whether the object was requested before. The images of a page inherit this, as in Polygraph.
    #[must_use]
    pub fn asked_before(mut self, repeat: bool) -> Self {
        self.repeat = repeat;
        self
    }

    /// Draws whether the robot aborts the answer. Each request is drawn by itself, images too.
    //= spec section 2   0.1 % by robots; Polygraph's HttpCltXact chooses when a transaction begins
    #[must_use]
    pub fn draw_abort(mut self, mix: Mix, chance: &mut Chance) -> Self {
        self.abort = mix == Mix::Four && chance.event(ABORT);
        self
    }

    /// With probability `share`, turns a plain request for an object without images into one for a range. PolyMix has no ranges: with a
    /// share of 0 no number is drawn, so all other draws stay the same.
    #[must_use]
    pub fn draw_range(mut self, share: f64, chance: &mut Chance) -> Self {
        let fit = self.is_basic() && self.id.kind != Kind::Html;
        if fit && share > 0.0 && chance.event(share) {
            let size = self.id.size();
            let first = chance.below(size);
            let last = first + chance.below(size - first);
            self.condition = Condition::Range { first, last };
        }
        self
    }

    /// The request for an image of the page. Whether it is aborted is not drawn yet: see `draw_abort`.
    #[must_use]
    pub fn image(&self, position: u32) -> Self {
        Self {
            id: self.id.image(position),
            method: Method::Get,
            abort: false,
            offered: false,
            offered_lru: false,
            ..*self
        }
    }

    /// Whether the request counts for the document hit ratio.
    #[must_use]
    pub fn is_basic(&self) -> bool {
        self.condition == Condition::Basic && self.method == Method::Get
    }
}

/// Where the server aborts its answer to this exchange, as a share of the body; mostly none. A function of the exchange, so that the
/// robot knows that the server aborted, not the proxy.
#[must_use]
pub fn server_abort(mix: Mix, exchange: u64) -> Option<f64> {
    let hash = random::mix(exchange ^ 0x00AB_0127);
    (mix == Mix::Four && random::unit(hash) < ABORT).then(|| random::unit(random::mix(hash)))
}

fn condition(u: f64, special: f64) -> Condition {
    let mut left = u;
    for (share, condition) in [
        (IMS_200, Condition::Ims200),
        (IMS_304, Condition::Ims304),
        (RELOAD, Condition::Reload),
    ] {
        if left < share * special {
            return condition;
        }
        left -= share * special;
    }
    Condition::Basic
}

fn method(special: f64, chance: &mut Chance) -> Method {
    let u = chance.unit();
    if u < POST * special {
        Method::Post(chance.below(POST_BYTES_END))
    } else if u < (POST + HEAD) * special {
        Method::Head
    } else {
        Method::Get
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 400_000;

    fn share(mix: Mix, special: f64, mut of: impl FnMut(&Request) -> bool) -> f64 {
        let mut chance = Chance::new(5);
        let id = ObjectId {
            world: 1,
            server: 0,
            kind: Kind::Html,
            number: 1,
        };
        let counted = (0..DRAWS)
            .filter(|_| of(&Request::draw(mix, id, special, &mut chance)))
            .count();
        f64::from(u32::try_from(counted).unwrap()) / f64::from(DRAWS)
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        let sdev = (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt();
        assert!(
            (found - expected).abs() <= 4.0 * sdev,
            "{found} is not {expected}"
        );
    }

    #[test]
    fn types_have_their_shares() {
        for (condition, expected) in [
            (Condition::Basic, 0.80),
            (Condition::Ims200, 0.05),
            (Condition::Ims304, 0.10),
            (Condition::Reload, 0.05),
        ] {
            near(
                share(Mix::Three, 1.0, |r| r.condition == condition),
                expected,
            );
        }
        near(
            share(Mix::Three, 0.1, |r| r.condition != Condition::Basic),
            0.02,
        );
    }

    #[test]
    fn ranges_lie_within_the_object_and_none_come_unasked() {
        let mut chance = Chance::new(6);
        let mut ranges = 0;
        for number in 1..10_000 {
            let id = ObjectId {
                world: 1,
                server: 0,
                kind: Kind::Other,
                number,
            };
            let request = Request::draw(Mix::Three, id, 1.0, &mut chance);
            assert_eq!(request.draw_range(0.0, &mut chance), request);
            match request.draw_range(0.25, &mut chance).condition {
                Condition::Range { first, last } => {
                    assert!(request.is_basic() && first <= last && last < id.size());
                    ranges += 1;
                }
                condition => assert_eq!(condition, request.condition),
            }
        }
        // A quarter of the 80 % that are basic requests.
        assert!((1_850..2_150).contains(&ranges), "{ranges}");
    }

    #[test]
    fn methods_have_their_shares() {
        near(
            share(Mix::Four, 1.0, |r| matches!(r.method, Method::Post(_))),
            0.015,
        );
        near(share(Mix::Four, 1.0, |r| r.method == Method::Head), 0.001);
        near(
            share(Mix::Four, 0.1, |r| matches!(r.method, Method::Post(_))),
            0.0015,
        );
        near(share(Mix::Four, 1.0, |r| r.abort), 0.001);
        let mut chance = Chance::new(7);
        let mut image = |r: &Request| r.image(1).draw_abort(Mix::Four, &mut chance).abort;
        near(share(Mix::Four, 1.0, &mut image), 0.001);
        let mut image = |r: &Request| r.image(1).draw_abort(Mix::Three, &mut chance).abort;
        near(share(Mix::Three, 1.0, &mut image), 0.0);
        near(
            share(Mix::Three, 1.0, |r| r.method != Method::Get || r.abort),
            0.0,
        );
    }
}
