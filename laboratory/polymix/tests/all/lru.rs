//! Compares the exact LRU with a slow, obvious twin, on the requests of a day.
//!
//! The twin is a list of objects with their versions, and has the rules of RFC 9111 written out once more. It uses nothing of `ideal`
//! or `lru`.

use polymix::Mix;
use polymix::content::ObjectId;
use polymix::ideal::Ideal;
use polymix::lru::{ExactLru, HEAD_BYTES};
use polymix::popularity::Popularity;
use polymix::random::Chance;
use polymix::request::{Condition, Method, Request};

/// Shortens life cycles, so that objects change during the test.
const LIFE_SCALE: f64 = 1e-3;
const BEGAN_S: u64 = 1_700_000_000;

/// The slow and obvious LRU; the coldest object comes first.
struct Twin {
    capacity_bytes: u64,
    kept: Vec<(ObjectId, u64)>,
}

impl Twin {
    fn bytes(&self) -> u64 {
        let sizes = self.kept.iter().map(|(id, _)| id.size() + HEAD_BYTES);
        sizes.sum()
    }

    fn ask(&mut self, request: &Request, now_s: u64) -> bool {
        let id = request.id;
        if !id.cachable() {
            return false;
        }
        let version = id.life(LIFE_SCALE).version_at(now_s).number;
        let at = self.kept.iter().position(|(kept, _)| *kept == id);
        let fresh = at.is_some_and(|at| self.kept[at].1 == version);
        if matches!(request.method, Method::Post(_)) {
            if let Some(at) = at {
                self.kept.remove(at);
            }
            return false;
        }
        let brings = request.method == Method::Get
            && !matches!(
                request.condition,
                Condition::Ims304 | Condition::Range { .. }
            );
        if !fresh && !brings {
            return false;
        }
        if let Some(at) = at {
            self.kept.remove(at);
        }
        if id.size() + HEAD_BYTES <= self.capacity_bytes {
            self.kept.push((id, version));
        }
        while self.bytes() > self.capacity_bytes {
            self.kept.remove(0);
        }
        fresh && request.condition != Condition::Reload
    }
}

/// Requests as robots make them, with images, ranges and all types of PolyMix-4, four a second.
fn requests(count: usize) -> Vec<(Request, u64)> {
    let mut chance = Chance::new(17);
    let mut popularity = Popularity::new(Mix::Four, 1, 3);
    let mut all = Vec::new();
    while all.len() < count {
        let picked = popularity.pick(0.7, &mut chance);
        let request = Request::draw(Mix::Four, picked.id, 4.0, &mut chance);
        let request = request.draw_range(0.1, &mut chance);
        let now_s = BEGAN_S + all.len() as u64 / 4;
        all.push((request, now_s));
        if request.condition != Condition::Ims304 && request.method == Method::Get {
            let images = (0..request.id.images()).map(|n| (request.image(n), now_s));
            all.extend(images);
        }
    }
    all
}

/// Hits of an LRU of this size, and those of the ideal cache.
fn hits(capacity_bytes: u64, requests: &[(Request, u64)]) -> (Vec<bool>, Vec<bool>) {
    let (mut ideal, mut lru) = (Ideal::new(3, LIFE_SCALE), ExactLru::new(capacity_bytes));
    let each = requests.iter().map(|(request, now_s)| {
        let meaning = ideal.follow(request, *now_s);
        let hit = lru.ask(request.id, meaning);
        assert!(lru.kept_bytes() <= capacity_bytes);
        (hit, meaning.is_hit())
    });
    each.unzip()
}

#[test]
fn it_answers_as_its_twin_does() {
    let requests = requests(12_000);
    let mut before = 0;
    for capacity_bytes in [0, 200_000, 1_000_000, 4_000_000] {
        let mut twin = Twin {
            capacity_bytes,
            kept: Vec::new(),
        };
        let (found, _) = hits(capacity_bytes, &requests);
        for (n, (request, now_s)) in requests.iter().enumerate() {
            assert_eq!(
                found[n],
                twin.ask(request, *now_s),
                "request {n} of {capacity_bytes} bytes: {request:?}"
            );
        }
        let count = found.iter().filter(|hit| **hit).count();
        assert!(count > before || capacity_bytes == 0, "{count} {before}");
        before = count;
    }
}

#[test]
fn one_larger_than_everything_is_the_ideal_cache() {
    let (found, ideal) = hits(u64::MAX, &requests(100_000));
    assert!(found == ideal);
    let count = found.iter().filter(|hit| **hit).count();
    assert!(count > 5_000, "{count}");
}

#[test]
fn a_larger_one_never_has_less() {
    let requests = requests(50_000);
    let count = |capacity_bytes: u64| {
        let (found, _) = hits(capacity_bytes, &requests);
        found.iter().filter(|hit| **hit).count()
    };
    let counts = [1 << 20, 1 << 22, 1 << 24, 1 << 26].map(count);
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts[3] > counts[0] * 3 / 2, "{counts:?}");
}
