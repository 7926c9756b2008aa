//! Joining a set of stores at a start: which members keep their content, and which start empty.
//!
//! A member that was away, or did not own a key for a while, has missed invalidations. Two numbers in the superblocks
//! detect this:
//! * the set's *generation* rises at every start and is written to every member present. A member that comes back with a
//!   lower one has missed a run and starts empty. So does one of the same generation with another placement: it was in another run.
//! * the *placement*, a hash of ids and weights. A key that leaves by one change can come back by a later one, and
//!   has missed purges by then. With rendezvous hashing, added members only take keys, and members that leave only
//!   give keys away. So a member notes when keys last may have left it; when keys may come, it refuses what it stored
//!   before that. A failed disk that is replaced by an empty one costs only its share.
//!
//! Not known here: open stores; which of them has a key (`set`).

use crate::recover::superblock::Superblock;
use twox_hash::XxHash3_64;

/// The id of a store with that uuid in a set.
pub fn member_id(uuid: [u8; 16]) -> u64 {
    XxHash3_64::oneshot(&uuid)
}

/// The duty of a member of a set at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Go on with its content; the superblock carries the set's numbers.
    Keeps(Box<Superblock>),
    /// Start empty: it has missed invalidations, or was not a member.
    StartsEmpty {
        /// Why, to be shown.
        reason: &'static str,
    },
}

/// The numbers of a set at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetNumbers {
    /// Names the set.
    pub uuid: [u8; 16],
    /// The generation of this start.
    pub generation: u64,
    /// Seeds the key hashes of all members.
    pub hash_seed: u64,
}

/// How keys move at a start, for one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Keys of others may become its own.
    pub may_come: bool,
    /// Keys of its own may become others'.
    pub may_leave: bool,
}

/// How keys move for a member that was left with this superblock. `members`: the present members, by id and weight, each with
/// its superblock if it keeps its content.
pub fn moves(own: &Superblock, members: &[(u64, u32, Option<&Superblock>)]) -> Moves {
    // The members that were placed together with it, with their present weights.
    let stayed: Vec<(u64, u32)> = members
        .iter()
        .filter(|(_, weight, block)| {
            block.is_some_and(|b| b.placement == own.placement && b.weight == *weight)
        })
        .map(|&(id, weight, _)| (id, weight))
        .collect();
    Moves {
        // Not if all earlier members are still here: others were only added.
        may_come: placement(&stayed) != own.placement,
        // Not if all present members were there before: others only left.
        may_leave: stayed.len() != members.len(),
    }
}

/// Decides at a start which members keep their content. `found`: for each configured store its superblock, if it can
/// be read.
///
/// The set is the one that most stores belong to, so that a foreign disk does not empty the others. `fresh` is used
/// if no member has such numbers yet.
pub fn join(found: &[Option<Superblock>], fresh: SetNumbers) -> (SetNumbers, Vec<Joining>) {
    // A new store belongs to no set yet.
    let members = || found.iter().flatten().filter(|b| b.set_uuid != [0; 16]);
    let of_set = |uuid| members().filter(|b| b.set_uuid == uuid).count();
    // Superblocks written by the same start agree in set, generation and placement.
    let start_of = |b: &Superblock| (b.set_uuid, b.set_generation, b.placement);
    let of_start = |block| {
        let same = members().filter(|b| start_of(b) == start_of(block));
        same.count()
    };
    let newest = members().max_by_key(|b| {
        let set = (of_set(b.set_uuid), b.set_generation, b.set_uuid);
        (set, of_start(b), b.placement)
    });
    let numbers = match newest {
        Some(block) => SetNumbers {
            uuid: block.set_uuid,
            generation: block.set_generation + 1,
            hash_seed: block.hash_seed,
        },
        None => SetNumbers {
            generation: 1,
            ..fresh
        },
    };
    let joining = found.iter().map(|block| {
        let Some(block) = block.as_ref().filter(|b| b.set_uuid != [0; 16]) else {
            return Joining::StartsEmpty {
                reason: "it is new",
            };
        };
        if block.set_uuid != numbers.uuid {
            Joining::StartsEmpty {
                reason: "it did not belong to this set of stores",
            }
        } else if block.set_generation + 1 != numbers.generation {
            Joining::StartsEmpty {
                reason: "it was away while the others were in use, and has missed what was purged",
            }
        } else if newest.is_some_and(|newest| newest.placement != block.placement) {
            // The two have run without each other equally often.
            Joining::StartsEmpty {
                reason: "it was in use without the others, and has missed what was purged there",
            }
        } else {
            Joining::Keeps(Box::new(Superblock {
                set_generation: numbers.generation,
                ..block.clone()
            }))
        }
    });
    (numbers, joining.collect())
}

/// The hash of ids and weights, whatever their order.
pub fn placement(members: &[(u64, u32)]) -> u64 {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let bytes: Vec<u8> = sorted
        .iter()
        .flat_map(|(id, weight)| [id.to_le_bytes(), u64::from(*weight).to_le_bytes()].concat())
        .collect();
    XxHash3_64::oneshot(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::recover::open::Identity;
    use crate::settings::Settings;
    use crate::store::Store;

    fn store(seed: u8) -> Store {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        let identity = Identity::new([seed; Identity::RANDOM_BYTES]);
        Store::create(geometry, &Settings::default(), identity)
    }

    fn block(store: &Store) -> Superblock {
        Superblock::decode(&store.opening()[0].1).unwrap()
    }

    #[test]
    fn who_was_away_starts_empty() {
        let fresh = SetNumbers {
            uuid: [9; 16],
            generation: 0,
            hash_seed: 3,
        };
        let (numbers, joining) = join(&[None, None], fresh);
        assert_eq!((numbers.generation, numbers.hash_seed), (1, 3));
        assert!(
            joining
                .iter()
                .all(|j| matches!(j, Joining::StartsEmpty { .. }))
        );
        let member = |generation| Superblock {
            set_uuid: [9; 16],
            set_generation: generation,
            ..block(&store(1))
        };
        let (numbers, joining) = join(&[Some(member(5)), Some(member(4)), None], fresh);
        assert_eq!(numbers.generation, 6);
        assert!(matches!(&joining[0], Joining::Keeps(b) if b.set_generation == 6));
        assert!(matches!(joining[1], Joining::StartsEmpty { .. }));
        let stranger = Superblock {
            set_uuid: [8; 16],
            ..member(3)
        };
        let (_, joining) = join(&[Some(member(5)), Some(stranger)], fresh);
        assert!(matches!(joining[1], Joining::StartsEmpty { .. }));
    }

    /// Which of them keep what they have, and the numbers.
    fn kept(found: &[Superblock]) -> (SetNumbers, Vec<bool>) {
        let found: Vec<_> = found.iter().cloned().map(Some).collect();
        let (numbers, joining) = join(&found, SetNumbers::default());
        let keeps = |joining: &Joining| matches!(joining, Joining::Keeps(_));
        (numbers, joining.iter().map(keeps).collect())
    }

    fn member_of(uuid: u8, generation: u64, together: &[(u64, u32)]) -> Superblock {
        Superblock {
            set_uuid: [uuid; 16],
            set_generation: generation,
            placement: placement(together),
            hash_seed: u64::from(uuid),
            ..block(&store(1))
        }
    }

    #[test]
    fn of_members_that_ran_without_each_other_equally_often_one_keeps() {
        let (a, b, c) = ((1, 1), (2, 1), (3, 1));
        let alone = [member_of(9, 6, &[a]), member_of(9, 6, &[b])];
        let (numbers, keeps) = kept(&alone);
        assert_eq!(numbers.generation, 7);
        assert_eq!(keeps.iter().filter(|keeps| **keeps).count(), 1);
        let [first, second] = alone;
        let (_, turned) = kept(&[second, first]);
        assert_eq!(turned, [keeps[1], keeps[0]], "whatever the order");
        // Two that ran together rather than one.
        for (one, two) in [(a, [b, c]), (c, [a, b])] {
            let together = member_of(9, 6, &two);
            let found = [member_of(9, 6, &[one]), together.clone(), together];
            assert_eq!(kept(&found).1, [false, true, true]);
        }
    }

    #[test]
    fn a_disk_of_another_set_does_not_empty_the_others() {
        let together = [(1, 1), (2, 1)];
        let own = member_of(3, 5, &together);
        let found = [member_of(9, 100, &[(7, 1)]), own.clone(), own.clone()];
        let (numbers, keeps) = kept(&found);
        assert_eq!(keeps, [false, true, true]);
        assert_eq!((numbers.uuid, numbers.generation), ([3; 16], 6));
        assert_eq!(numbers.hash_seed, 3);
        // Where neither set has more stores, the set that was started more often.
        let (numbers, keeps) = kept(&[member_of(2, 7, &together), own]);
        assert_eq!(keeps, [true, false]);
        assert_eq!((numbers.uuid, numbers.generation), ([2; 16], 8));
    }

    #[test]
    fn keys_come_when_members_go_and_leave_when_members_come() {
        let placed = |members: &[(u64, u32)], weight| Superblock {
            placement: placement(members),
            weight,
            ..block(&store(1))
        };
        let (a, b, c) = ((1, 1), (2, 1), (3, 1));
        let together = placed(&[a, b], 1);
        let seen = |own: &Superblock, members: &[(u64, u32, Option<&Superblock>)]| {
            let Moves {
                may_come,
                may_leave,
            } = moves(own, members);
            (may_come, may_leave)
        };
        let old = Some(&together);
        assert_eq!(seen(&together, &[(1, 1, old), (2, 1, old)]), (false, false));
        assert_eq!(seen(&together, &[(1, 1, old)]), (true, false), "b is gone");
        let three = [(1, 1, old), (2, 1, old), (3, 1, None)];
        assert_eq!(seen(&together, &three), (false, true), "c is new");
        let exchanged = [(1, 1, old), (3, 1, None)];
        assert_eq!(seen(&together, &exchanged), (true, true));
        let heavier = [(1, 2, old), (2, 1, old)];
        assert_eq!(seen(&together, &heavier), (true, true));
        // A store of another placement counts as one that was absent.
        let other = placed(&[a, c], 1);
        let mixed = [(1, 1, old), (2, 1, old), (3, 1, Some(&other))];
        assert_eq!(seen(&together, &mixed), (false, true));
        assert_eq!(seen(&placed(&[a, b, c], 1), &mixed[..2]), (true, true));
    }

    #[test]
    fn a_placement_does_not_depend_on_the_order() {
        assert_eq!(placement(&[(1, 2), (3, 4)]), placement(&[(3, 4), (1, 2)]));
        assert_ne!(placement(&[(1, 2), (3, 4)]), placement(&[(1, 2), (3, 5)]));
    }
}
