//! Several stores as one: which member has which keys, and which member must start empty after an absence.
//!
//! Objects are spread by weighted rendezvous hashing of their primary key: each member draws a number from the key
//! and its own id, and the highest wins. When a member leaves or comes, only its share moves. One member has
//! everything of a primary key (markers, variants, fragments, invalidations), so each member can go on, pause or fail
//! alone.
//!
//! A member that was away, or did not own a key for a while, has missed invalidations. Two numbers in the superblocks
//! detect this:
//! * the set's *generation* rises at every start and is written to every member present. A member that comes back with a
//!   lower one has missed a run: it starts empty. So does one with the same that was placed otherwise: it was in another run.
//! * the *placement*, a hash of ids and weights. A key that leaves by one change can come back by a later one, and
//!   has missed purges by then. With rendezvous hashing, added members only take keys, and members that leave only
//!   give keys away. So a member notes when keys last may have left it; when keys may come, it refuses what it stored
//!   before that. A failed disk that is replaced by an empty one costs only its share.
//!
//! Not known here: devices, paths.
//! Source: Thaler and Ravishankar, Using name-based mappings to increase hit rates (1998), for rendezvous hashing.

use crate::index::key::{KeyHash, KeyHasher};
use crate::index::marker::Marker;
use crate::invalidating::{DurabilityHandle, Invalidated, NotTaken, Settled};
use crate::recover::superblock::Superblock;
use crate::secret::Pseudonyms;
use crate::sequence::Sequence;
use crate::store::Store;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Members of a set at most.
pub const MEMBERS_MAX: usize = 64;

/// One store of a set.
#[derive(Debug)]
struct Member {
    store: Arc<Store>,
    id: u64,
    weight: f64,
}

/// Several stores as one, or a single store.
#[derive(Debug)]
pub struct Set {
    members: Vec<Member>,
}

/// An invalidation of several members.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an invalidation may be acknowledged only when it is settled"]
pub struct DurabilityHandles(Vec<(usize, DurabilityHandle)>);

impl DurabilityHandles {
    /// The members that must make it durable, by their place in the set.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(member, _)| *member)
    }
}

impl Set {
    /// A set of these stores, each with its id ([`member_id`]) and weight (above 0).
    ///
    /// All share a hash seed (asserted): a key hash means the same everywhere.
    pub fn new(members: impl IntoIterator<Item = (Arc<Store>, u64, u32)>) -> Self {
        let members: Vec<_> = members
            .into_iter()
            .map(|(store, id, weight)| Member {
                store,
                id,
                weight: f64::from(weight.max(1)),
            })
            .collect();
        assert!(!members.is_empty(), "a set of no store");
        assert!(members.len() <= MEMBERS_MAX, "{} stores", members.len());
        let probe = |member: &Member| member.store.hasher().hash(b"probe");
        let seeds_agree = members.iter().all(|m| probe(m) == probe(&members[0]));
        assert!(seeds_agree, "the stores of a set have different hash seeds");
        Self { members }
    }

    /// A set of one.
    pub fn of_one(store: Arc<Store>) -> Self {
        Self::new([(store, 0, 1)])
    }

    /// The members, in the order given.
    pub fn stores(&self) -> impl ExactSizeIterator<Item = &Arc<Store>> {
        self.members.iter().map(|member| &member.store)
    }

    /// The members as they are placed: store, id, weight.
    pub fn placed(&self) -> impl Iterator<Item = (&Arc<Store>, u64, u32)> {
        (self.members.iter()).map(|member| (&member.store, member.id, member.weight as u32))
    }

    /// The number of the member that has everything of a primary key.
    #[inline]
    pub fn owner(&self, primary: KeyHash) -> usize {
        if self.members.len() == 1 {
            return 0;
        }
        owner_of(primary, self.members.iter().map(|m| (m.id, m.weight))).unwrap_or(0)
    }

    /// The member that has everything of a primary key.
    #[inline]
    pub fn of(&self, primary: KeyHash) -> &Arc<Store> {
        &self.members[self.owner(primary)].store
    }

    /// Makes key hashes.
    pub fn hasher(&self) -> KeyHasher {
        self.members[0].store.hasher()
    }

    /// Makes pseudonyms, under the secret of the first member.
    pub fn pseudonyms(&self) -> Pseudonyms {
        self.members[0].store.pseudonyms()
    }

    /// See [`Store::sequence`]; of the member that owns the key.
    pub fn sequence(&self, primary: KeyHash) -> Sequence {
        self.of(primary).sequence()
    }

    /// See [`Store::invalidated_since`].
    pub fn invalidated_since(&self, primary: KeyHash, began: Sequence) -> bool {
        self.of(primary).invalidated_since(primary, began)
    }

    /// See [`Store::is_invalid`].
    pub fn is_invalid(&self, primary: KeyHash, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        self.of(primary).is_invalid(primary, began, key, meta)
    }

    /// See [`Store::is_purged_since`].
    pub fn is_purged_since(
        &self,
        primary: KeyHash,
        began: Sequence,
        key: &[u8],
        meta: &[u8],
    ) -> bool {
        self.of(primary).is_purged_since(primary, began, key, meta)
    }

    /// See [`Store::is_doubted`] and [`Store::is_softened_since`].
    pub fn is_doubted(&self, primary: KeyHash, began: Sequence, key: &[u8], meta: &[u8]) -> bool {
        let store = self.of(primary);
        store.is_doubted(began, key, meta) || store.is_softened_since(primary, began)
    }

    /// May a predicate match a record that began then? If not, key and metadata need not be compared.
    pub fn predicates_since(&self, primary: KeyHash, began: Sequence) -> bool {
        self.of(primary).predicates_since(began)
    }

    /// The highest share of room that predicates take in a member, in percent.
    pub fn predicates_percent(&self) -> u64 {
        let taken = self.stores().map(|store| store.predicates_percent());
        taken.max().unwrap_or(0)
    }

    /// Has eviction begun?
    pub fn is_full(&self) -> bool {
        self.stores().any(|store| store.has_evicted())
    }

    /// See [`Store::marker`].
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        self.of(primary).marker(primary)
    }

    /// See [`Store::set_marker`].
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        self.of(primary).set_marker(primary, list, began)
    }

    /// See [`Store::resume_marker`].
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        self.of(primary).resume_marker(primary, salt, list)
    }

    /// See [`Store::invalidate`].
    pub fn invalidate(&self, primary: KeyHash) -> (bool, DurabilityHandles) {
        let owner = self.owner(primary);
        let Invalidated { indexed, handle } = self.members[owner].store.invalidate(primary);
        (indexed, DurabilityHandles(vec![(owner, handle)]))
    }

    /// [`Self::invalidate`] without a log entry if nothing of the key is or was stored
    /// ([`Store::invalidate_stored`]). In a set of several everything is logged.
    pub fn invalidate_stored(&self, primary: KeyHash) -> (bool, DurabilityHandles) {
        if self.members.len() > 1 {
            return self.invalidate(primary);
        }
        let Invalidated { indexed, handle } = self.members[0].store.invalidate_stored(primary);
        (indexed, DurabilityHandles(vec![(0, handle)]))
    }

    /// See [`Store::doubt`].
    pub fn doubt(&self, primary: KeyHash) -> (bool, DurabilityHandles) {
        let owner = self.owner(primary);
        let Invalidated { indexed, handle } = self.members[owner].store.doubt(primary);
        (indexed, DurabilityHandles(vec![(owner, handle)]))
    }

    /// See [`Store::invalidate_matching`]: in all members.
    ///
    /// # Errors
    /// The pattern is too long, or a member has no room for it. No member has taken it.
    pub fn invalidate_matching(
        &self,
        kind: u8,
        pattern: &[u8],
    ) -> Result<DurabilityHandles, NotTaken> {
        if let [only] = &self.members[..] {
            let handle = only.store.invalidate_matching(kind, pattern)?;
            return Ok(DurabilityHandles(vec![(0, handle)]));
        }
        for store in self.stores() {
            store.would_take(kind, pattern)?;
        }
        let handles = self.stores().map(|store| {
            let taken = store.invalidate_matching(kind, pattern);
            // Another pattern took the room since the check. The other members have purged already, so the caller
            // must sweep memory too. The purge never becomes durable, so the client is told to repeat it.
            taken.unwrap_or(DurabilityHandle::REFUSED)
        });
        Ok(DurabilityHandles(handles.enumerate().collect()))
    }

    /// See [`Store::settled`]: durable when all members concerned say so.
    pub fn settled(&self, handles: &DurabilityHandles) -> Settled {
        let mut all = Settled::Durable;
        for &(number, handle) in &handles.0 {
            match self.members[number].store.settled(handle) {
                Settled::Durable => {}
                Settled::Pending => all = Settled::Pending,
                Settled::Failed => return Settled::Failed,
            }
        }
        all
    }
}

/// The member with the largest value gets the key. On average each gets its share by weight.
fn score(primary: KeyHash, id: u64, weight: f64) -> f64 {
    let drawn = XxHash3_64::oneshot_with_seed(id, &primary.0.to_le_bytes());
    // Uniform in (0, 1): 53 bits are what a double holds.
    let uniform = ((drawn >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -weight / uniform.ln()
}

fn owner_of(primary: KeyHash, members: impl Iterator<Item = (u64, f64)>) -> Option<usize> {
    let mut best = (None, f64::MIN);
    for (number, (id, weight)) in members.enumerate() {
        let score = score(primary, id, weight);
        if score > best.1 {
            best = (Some(number), score);
        }
    }
    best.0
}

/// The number of the member that has everything of a primary key, in a set of members with these ids and weights.
pub fn owner_among(primary: KeyHash, members: impl Iterator<Item = (u64, u32)>) -> Option<usize> {
    owner_of(
        primary,
        members.map(|(id, weight)| (id, f64::from(weight.max(1)))),
    )
}

/// The id of a store with that uuid in a set.
pub fn member_id(uuid: [u8; 16]) -> u64 {
    XxHash3_64::oneshot(&uuid)
}

/// What a member of a set must do at a start.
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
    /// Of this start.
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

/// How keys move for a member that was left with this superblock. `members`: those of now, by id and weight, each with its
/// superblock if it goes on with what it has.
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
            // Each ran without the other equally often.
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

    fn store(seed: u8) -> Arc<Store> {
        let identity = Identity::new([seed; Identity::RANDOM_BYTES]).in_set(SetNumbers {
            hash_seed: 7,
            ..SetNumbers::default()
        });
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        Arc::new(Store::create(geometry, &Settings::default(), identity))
    }

    fn set(weights: &[u32]) -> Set {
        Set::new(
            weights
                .iter()
                .enumerate()
                .map(|(n, &weight)| (store(n as u8), n as u64 + 100, weight)),
        )
    }

    #[test]
    fn shares_follow_the_weights() {
        let set = set(&[1, 1, 2]);
        let mut counts = [0u32; 3];
        for n in 0..40_000u64 {
            counts[set.owner(set.hasher().hash(&n.to_le_bytes()))] += 1;
        }
        for (count, wanted) in counts.iter().zip([10_000, 10_000, 20_000]) {
            assert!(count.abs_diff(wanted) < wanted / 20, "{counts:?}");
        }
    }

    #[test]
    fn only_the_share_of_who_goes_moves() {
        let three = set(&[1, 1, 1]);
        let two = set(&[1, 1]);
        for n in 0..5_000u64 {
            let key = three.hasher().hash(&n.to_le_bytes());
            let owner = three.owner(key);
            assert!(owner == 2 || owner == two.owner(key));
        }
    }

    #[test]
    fn a_predicate_is_settled_when_all_members_have_it() {
        let set = set(&[1, 1]);
        let handles = set.invalidate_matching(1, b"x").unwrap();
        assert_eq!(set.settled(&handles), Settled::Pending);
        for store in set.stores() {
            while let Some(work) = store.next_work(0) {
                store.work_done(work.id, Ok(None), 0);
            }
        }
        assert_eq!(set.settled(&handles), Settled::Durable);
    }

    #[test]
    fn a_predicate_is_taken_by_all_members_or_by_none() {
        let set = set(&[1, 1]);
        let full = set.stores().nth(1).unwrap();
        let mut n = 0;
        // Nothing carries out the work that makes room.
        while full
            .invalidate_matching(1, format!("{n:01000}").as_bytes())
            .is_ok()
        {
            n += 1;
        }
        let refused = set.invalidate_matching(1, &[b'x'; 1000]);
        assert_eq!(refused, Err(NotTaken::Full));
        assert_eq!(full.figures().predicates, n);
        assert_eq!(full.figures().predicates_refused, 2);
        assert_eq!(set.stores().next().unwrap().figures().predicates, 0);
        // A pattern that is there already takes no room.
        let known = set.invalidate_matching(1, &[b'0'; 1000]);
        assert_eq!(set.settled(&known.unwrap()), Settled::Pending);
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
        // Where neither has more, the one that was started more often.
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
