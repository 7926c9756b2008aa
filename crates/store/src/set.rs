//! Several stores as one: which member has which keys.
//!
//! Objects are spread by weighted rendezvous hashing of their primary key: each member draws a number from the key
//! and its own id, and the highest wins. When a member leaves or comes, only its share moves. One member has
//! everything of a primary key (markers, variants, fragments, invalidations), so each member can go on, pause or fail
//! alone.
//!
//! The start of members: see `joining`.
//!
//! Not known here: devices, paths.
//! Source: Thaler and Ravishankar, Using name-based mappings to increase hit rates (1998), for rendezvous hashing.

use crate::index::key::{KeyHash, KeyHasher};
use crate::index::marker::Marker;
use crate::invalidating::{DurabilityHandle, Invalidated, NotTaken, Settled};
use crate::secret::Pseudonyms;
use crate::sequence::Sequence;
use crate::store::Store;
use std::sync::Arc;
use twox_hash::XxHash3_64;

pub use crate::joining::{Joining, Moves, SetNumbers, join, member_id, moves, placement};

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

/// The durability handles of an invalidation in several members.
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

    /// May a predicate match a record that began at `began`? If not, key and metadata need not be compared.
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
}
