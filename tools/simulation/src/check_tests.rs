//! Deliberately wrong answers: each must be reported, and the right one must not.

use super::*;
use crate::random::Random;
use crate::world::{Content, PREFIX, TAG, Target};

const TAG_OF_ALL: u8 = 3;

/// A world with the keys `/a` (0) and `/b` (1), in its first life.
struct Scene {
    world: World,
    damages: Vec<Damage>,
    random: Random,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::default();
        world.life = 1;
        world.full_key(b"/a", 0, true);
        world.full_key(b"/b", 1, true);
        Self {
            world,
            damages: Vec::new(),
            random: Random::new(1),
        }
    }

    fn put_since(&mut self, key: FullKey, began: u64) -> VersionNumber {
        let content = Content::random(1000, &mut self.random);
        let number = self.world.hand_in(key, began, content, TAG_OF_ALL);
        self.world.taken(number, 0, false);
        number
    }

    fn put(&mut self, key: FullKey) -> VersionNumber {
        let began = self.world.begin();
        self.put_since(key, began)
    }

    fn write(&mut self, version: VersionNumber) {
        let at = u64::from(version) * 4096;
        let number = u64::from(version) + 1;
        self.world.writing(version, at..at + 4096);
        self.world
            .write_over(version, &(at..at + 4096), true, number);
    }

    fn put_durably(&mut self, key: FullKey) -> VersionNumber {
        let version = self.put(key);
        self.write(version);
        self.world.flush_over(u64::MAX, true);
        version
    }

    fn crash(&mut self, power_cut: bool) {
        self.world.end_life(power_cut);
        self.world.life += 1;
    }

    fn acknowledge(&mut self, invalidation: u32) {
        self.world.invalidations[invalidation as usize].acknowledged = true;
    }

    /// Serves a version exactly as it was stored.
    fn serve(&self, version: VersionNumber) -> Result<VersionNumber, String> {
        let v = &self.world.versions[version as usize];
        let key = &self.world.full_keys[v.full_key as usize].key;
        let answer = Served {
            key,
            meta: &v.meta,
            body: v.content.bytes(),
            doubted: false,
        };
        served(&self.world, &self.damages, v.full_key, answer, true)
    }

    fn refused(&self, version: VersionNumber, rule: &str) {
        let error = self.serve(version).unwrap_err();
        assert!(error.starts_with(rule), "{error}");
    }
}

#[test]
fn what_was_stored_last_may_be_served() {
    let mut scene = Scene::new();
    let version = scene.put(0);
    assert_eq!(scene.serve(version), Ok(version));
    scene.crash(true);
    assert_eq!(scene.serve(version), Ok(version), "it may have landed");
}

#[test]
fn what_was_softly_purged_must_be_told_stale() {
    let mut scene = Scene::new();
    let version = scene.put(0);
    let other = scene.put(1);
    let soft = scene.world.invalidate(Target::Soft(0));
    scene.refused(version, "R6");
    assert_eq!(scene.serve(other), Ok(other));
    scene.crash(true);
    assert_eq!(scene.serve(version), Ok(version), "it was not acknowledged");
    scene.acknowledge(soft);
    scene.refused(version, "R6");
}

#[test]
fn other_bytes_are_noticed() {
    let mut scene = Scene::new();
    let (a, b) = (scene.put(0), scene.put(1));
    let v = |n: VersionNumber| &scene.world.versions[n as usize];
    let right = Served {
        key: b"/a",
        meta: &v(a).meta,
        body: v(a).content.bytes(),
        doubted: false,
    };
    let mut body = right.body.to_vec();
    body[999] ^= 1;
    let mut meta = right.meta.to_vec();
    meta[4] ^= 1;
    let wrong = [
        Served {
            body: &body,
            ..right
        },
        Served {
            body: &right.body[..999],
            ..right
        },
        Served { body: b"", ..right },
        Served {
            meta: &meta,
            ..right
        },
        Served { meta: b"", ..right },
        Served {
            meta: &[255; 5],
            ..right
        },
        Served {
            key: b"/b",
            ..right
        },
        Served {
            meta: &v(b).meta,
            body: v(b).content.bytes(),
            ..right
        },
    ];
    assert_eq!(served(&scene.world, &[], 0, right, true), Ok(a));
    for answer in wrong {
        let error = served(&scene.world, &[], 0, answer, true).unwrap_err();
        assert!(error.starts_with("R1"), "{error}");
    }
}

#[test]
fn a_version_that_was_refused_is_never_served() {
    let mut scene = Scene::new();
    let began = scene.world.begin();
    let content = Content::random(10, &mut scene.random);
    let refused = scene.world.hand_in(0, began, content, 0);
    scene.refused(refused, "R1");
}

#[test]
fn what_was_invalidated_is_dead() {
    for target in [
        Target::Primary(0),
        Target::Predicate(PREFIX, (*b"/").into()),
        Target::Predicate(TAG, [TAG_OF_ALL].into()),
    ] {
        let mut scene = Scene::new();
        let version = scene.put_durably(0);
        let slow = scene.world.begin();
        let invalidation = scene.world.invalidate(target.clone());
        scene.refused(version, "R2");
        let later = scene.put_since(0, slow);
        scene.refused(later, "R2");
        // The invalidation is not acknowledged: the end of the life may undo it.
        scene.world.full_keys[0].versions.pop();
        scene.crash(false);
        assert_eq!(scene.serve(version), Ok(version));
        scene.acknowledge(invalidation);
        scene.refused(version, "R2");
        scene.crash(true);
        scene.refused(version, "R2");
        let fresh = scene.put(0);
        assert_eq!(scene.serve(fresh), Ok(fresh));
    }
}

#[test]
fn what_does_not_match_lives() {
    for target in [
        Target::Primary(1),
        Target::Predicate(PREFIX, (*b"/b").into()),
        Target::Predicate(TAG, [TAG_OF_ALL + 1].into()),
    ] {
        let mut scene = Scene::new();
        let version = scene.put_durably(0);
        let invalidation = scene.world.invalidate(target);
        scene.acknowledge(invalidation);
        assert_eq!(scene.serve(version), Ok(version));
    }
}

#[test]
fn a_replaced_version_does_not_come_back() {
    let mut scene = Scene::new();
    let old = scene.put_durably(0);
    let new = scene.put(0);
    scene.refused(old, "R3");
    scene.write(new);
    scene.refused(old, "R3");
    scene.crash(false);
    scene.refused(old, "R3");
    scene.world.flush_over(u64::MAX, true);
    scene.crash(true);
    scene.refused(old, "R3");
    assert_eq!(scene.serve(new), Ok(new));
}

#[test]
fn a_replaced_version_may_come_back_if_its_successor_was_lost() {
    let mut scene = Scene::new();
    let old = scene.put_durably(0);
    let new = scene.put(0);
    scene.write(new);
    scene.crash(true);
    assert_eq!(scene.serve(old), Ok(old));

    let mut scene = Scene::new();
    let old = scene.put_durably(0);
    let new = scene.put(0);
    scene.write(new);
    // A write that a failed flush left out may never be covered by a later flush.
    scene.world.flush_over(u64::MAX, false);
    scene.world.flush_over(u64::MAX, true);
    scene.crash(true);
    assert_eq!(scene.serve(old), Ok(old));

    let mut scene = Scene::new();
    let old = scene.put_durably(0);
    let new = scene.put_durably(0);
    scene.crash(true);
    scene.refused(old, "R3");
    let range = scene.world.versions[new as usize].copies[0].range.clone();
    scene.damages.push(Damage { range, number: 99 });
    assert_eq!(scene.serve(old), Ok(old));
}

#[test]
fn damage_before_the_write_is_no_excuse() {
    let mut scene = Scene::new();
    scene.put_durably(1);
    let old = scene.put_durably(0);
    let new = scene.put_durably(0);
    scene.crash(true);
    let range = scene.world.versions[new as usize].copies[0].range.clone();
    scene.damages.push(Damage { range, number: 1 });
    scene.refused(old, "R3");
}

#[test]
fn bytes_that_do_not_verify_need_an_excuse() {
    let mut scene = Scene::new();
    assert!(unverified(&scene.world, &[], 0, None, "").is_err());
    let version = scene.put_durably(0);
    assert!(unverified(&scene.world, &[], 0, None, "").is_err());
    let range = scene.world.versions[version as usize].copies[0]
        .range
        .clone();
    let damages = [Damage { range, number: 99 }];
    assert!(unverified(&scene.world, &damages, 0, None, "").is_ok());
    scene.crash(true);
    assert!(unverified(&scene.world, &[], 0, None, "").is_ok());
}

#[test]
fn rules_can_be_waived() {
    let waived = Waived::of(&[3, 4, 200]);
    assert!(waived.passes("R3: x") && waived.passes("R4: x"));
    assert!(!waived.passes("R5: x") && !waived.passes("panic") && !waived.passes("R"));
    assert!(!Waived::default().passes("R3: x"));
}

#[test]
fn what_must_survive() {
    let mut scene = Scene::new();
    let a = scene.put_durably(0);
    let b = scene.put(1);
    scene.write(b);
    let survive = |scene: &Scene, n| must_survive(&scene.world, &scene.damages, n);
    scene.crash(false);
    assert!(survive(&scene, a) && survive(&scene, b));
    scene.crash(true);
    assert!(survive(&scene, a) && !survive(&scene, b));
    scene.world.invalidate(Target::Primary(0));
    assert!(!survive(&scene, a));
    assert!(too_many_missing(2, 50) && !too_many_missing(1, 50));
    assert!(too_many_missing(11, 1000) && !too_many_missing(10, 1000));
}
