//! Markers: for a primary key with variants, how to find them.
//!
//! A marker is an entry of the index in the place of the primary's own record, eight bytes. It says which request fields select a
//! variant (its *list*, opaque here, see `lists`) and gives the *salt* that goes into the full key of each variant. No salt is given
//! twice to one primary (`salts`). So to purge a primary is to drop its marker: all variants are out of reach at once, whatever
//! their number, even those that a fill under way has yet to insert. They are evicted in their turn.
//!
//! ```text
//!   set ------> marker (salt, list) --another list--> marker (next salt, list)
//!                  |  \--more of the same list (`resume`)--> same salt
//!                  +--purged, aged, its place is another key's--> gone; the next one gets a higher salt
//! ```
//!
//! *How it lasts.* Nothing is logged. The record of each variant carries the salt and the list that its marker had when it was stored;
//! a checkpoint has the markers. A scan sets the marker of what it finds alive and younger than the checkpoint; of older records the
//! checkpoint knows whether the marker is still there. A purge is in the log, and drops the marker again. While a scan is under way the
//! place of a marker that gets a new salt, or of any record that is stored, is noted as *fresh*: variants that the scan finds of it are
//! older, and are not taken. Salts may begin anew where a store was scanned without a checkpoint, so among the variants of a primary
//! that one scan finds, the newest by sequence tells the salt, not the greatest.
//!
//! *How it leaves.* It ages by one in each pass (`evict/aging`), three to a round of the hand, and leaves in the fourth
//! unless it was looked up, or a variant stored, since. So it stays at least as long as anything stored under it. Where no hand goes round, or if
//! there are far more markers than records (the device refuses), a segment that has [`Index::markers_max`] of them makes such passes at once,
//! until an eighth of them has left. One whose list no other marker has also leaves when its shard has no room for one more list.
//!
//! Two primaries of one place (`index`) share a marker. Each then takes the other's for its own: misses, since the full key of a
//! variant names its primary.
//!
//! Limits: lists see `lists`; markers [`MARKERS_PER_RECORD`] a record and [`SPARE_MARKERS`] a segment; [`FRESH_MAX`] a shard, with one
//! more all of its places count as fresh.
//! Not known here: what a list means.

use crate::Sequence;
use crate::evict::left::Name;
use crate::index::entry::Mark;
use crate::index::key::KeyHash;
use crate::index::lists::{Full, LIST_BYTES_MAX, List};
use crate::index::salts::Salts;
use crate::index::segment::Segment;
use crate::index::{Entry, Index, Short, Spot};
use crate::layout::{checkpoint_list, record_marker};
use crate::mistakes::Mistake;
use crate::store::Store;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Markers of a segment: so many for each record it has, and [`SPARE_MARKERS`].
const MARKERS_PER_RECORD: usize = 3;

/// Markers that a segment may have without any record.
pub(crate) const SPARE_MARKERS: usize = 1 << 12;

/// As many as that where nothing is ever stored (`Store::volatile`), in each of a few segments.
pub(crate) const SPARE_MARKERS_VOLATILE: usize = 1 << 16;

/// Places of a shard that can be noted as fresh.
const FRESH_MAX: usize = 1 << 16;

/// Places of the index that got something new since a scan began.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    names: HashSet<Name>,
    all: bool,
}

impl Fresh {
    pub(crate) fn add(&mut self, name: Name) {
        self.all |= self.names.len() >= FRESH_MAX;
        if !self.all {
            self.names.insert(name);
        }
    }

    pub(crate) fn has(&self, name: Name) -> bool {
        self.all || self.names.contains(&name)
    }
}

/// How to find the variants of a primary key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Goes into the full key of each variant; never the same twice for one primary.
    pub salt: u64,
    /// The caller's own: which request fields select the variant.
    pub list: Arc<[u8]>,
}

/// A marker as the record of a variant carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Carried<'a> {
    pub salt: u64,
    pub root: u64,
    pub list: &'a [u8],
}

impl<'a> Carried<'a> {
    /// Appends it to the bytes of a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; record_marker::BYTES];
        record_marker::SALT.put_u64(&mut bytes, self.salt);
        record_marker::ROOT.put_u64(&mut bytes, self.root);
        record_marker::LIST_LEN.put_u16(&mut bytes, self.list.len() as u16);
        bytes.extend_from_slice(self.list);
        bytes
    }

    /// Reads what [`Self::encode`] wrote, and how long it is; None for anything else.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (fixed, rest) = bytes.split_at_checked(record_marker::BYTES)?;
        let list = rest.get(..usize::from(record_marker::LIST_LEN.u16(fixed)))?;
        let carried = Self {
            salt: record_marker::SALT.u64(fixed),
            root: record_marker::ROOT.u64(fixed),
            list,
        };
        let len = record_marker::BYTES + list.len();
        (list.len() <= LIST_BYTES_MAX).then_some((carried, len))
    }
}

impl Index {
    fn mark(&self, primary: KeyHash) -> Option<(Spot, Mark)> {
        let spot = self.find_entry(primary)?;
        Some((spot, self.get(spot).as_marker()?))
    }

    /// Has the primary, or another one of its place, a marker?
    pub(crate) fn has_marker(&self, primary: KeyHash) -> bool {
        self.mark(primary).is_some()
    }

    /// The marker of a primary key, and the root of its list. That counts as a use.
    pub(crate) fn marker(&mut self, primary: KeyHash) -> Option<(Marker, u64)> {
        let (spot, mark) = self.mark(primary)?;
        if mark.age > 0 {
            self.set(spot, Entry::marker(Mark { age: 0, ..mark }));
        }
        Some(self.marker_of(spot, mark))
    }

    fn marker_of(&self, spot: Spot, mark: Mark) -> (Marker, u64) {
        let List { bytes, root } = self.lists.get(mark.list);
        let salt = self.segment(spot.segment).salts.salt(mark.generation);
        let list = Arc::clone(bytes);
        (Marker { salt, list }, *root)
    }

    /// The marker of a primary key with that list, if need be with a new salt, which puts all variants stored so far out of reach. There
    /// is no record in its place. `leaves` is told of markers that had to make room, and of their segments. True: the salt is new.
    pub(crate) fn set_marker(
        &mut self,
        primary: KeyHash,
        list: &[u8],
        mut leaves: impl FnMut(usize, Short),
    ) -> Result<(Marker, bool), Full> {
        if let Some((marker, _)) = self.marker(primary)
            && *marker.list == *list
        {
            return Ok((marker, false));
        }
        let root = List::root_of(list);
        let number = match self.lists.take(list, root) {
            Ok(number) => number,
            Err(Full) => {
                self.make_room_for_a_list(&mut leaves);
                self.lists.take(list, root)?
            }
        };
        let segment = self.segment_of(primary);
        let mut leaves = |short| leaves(segment, short);
        let mut before = self.mark(primary);
        let mut next = match before {
            Some((_, mark)) => self.segment(segment).salts.after(mark.generation),
            None => {
                self.make_room_for_a_marker(segment, &mut leaves);
                self.segment(segment).salts.first()
            }
        };
        if next.is_none() {
            let era = self.segment(segment).salts.era();
            self.begin_era(segment, era.saturating_add(1), &mut leaves);
            (before, next) = (None, Some(0));
        }
        let mark = Mark {
            generation: next.expect("an era begins with all its generations"),
            list: number,
            age: 0,
        };
        match before {
            Some((spot, before)) => {
                self.lists.give_back(before.list);
                self.set(spot, Entry::marker(mark));
            }
            None => self.insert(primary, Entry::marker(mark)),
        }
        let (spot, mark) = self.mark(primary).expect("it was set just now");
        Ok((self.marker_of(spot, mark).0, true))
    }

    /// The marker of that salt, with another list. None: there is no such marker, or no room for the list.
    pub(crate) fn resume_marker(
        &mut self,
        primary: KeyHash,
        salt: u64,
        list: &[u8],
    ) -> Option<Marker> {
        let (present, root) = self.marker(primary)?;
        if present.salt != salt || *present.list == *list {
            return Some(present).filter(|present| present.salt == salt);
        }
        let number = self.lists.take(list, root).ok()?;
        let (spot, mark) = self.mark(primary)?;
        self.lists.give_back(mark.list);
        let mark = Mark {
            list: number,
            ..mark
        };
        self.set(spot, Entry::marker(mark));
        Some(self.marker_of(spot, mark).0)
    }

    /// The marker leaves. False: there was none. `careless`: its salt may be given again, a mistake.
    pub(crate) fn drop_marker(&mut self, primary: KeyHash, careless: bool) -> bool {
        let Some((spot, mark)) = self.mark(primary) else {
            return false;
        };
        self.remove(spot);
        self.lists.give_back(mark.list);
        if !careless {
            self.segment_mut(spot.segment).salts.left(mark.generation);
        }
        true
    }

    /// A scan has found a variant, stored under that marker. There is no record in the marker's place. False: the variant is out of
    /// reach, the present marker is another one. `age`: is it older or newer than all variants of the primary found so far, if there are
    /// any? Of these the newest decides, since a salt given while a scan was under way may be below those the scan had yet to find.
    pub(crate) fn found_marker(
        &mut self,
        primary: KeyHash,
        carried: &Carried<'_>,
        age: Option<Ordering>,
    ) -> bool {
        let (era, generation) = Salts::parts(carried.salt);
        let segment = self.segment_of(primary);
        let present_era = u64::from(self.segment(segment).salts.era());
        let Ok(era) = u32::try_from(era) else {
            return false;
        };
        if u64::from(era) < present_era {
            return false;
        }
        if u64::from(era) > present_era {
            self.begin_era(segment, era, &mut |_| ());
        }
        let before = self.mark(primary);
        if let Some((spot, mark)) = before {
            let is_same = self.lists.get(mark.list).root == carried.root;
            let by_salt = generation.cmp(&mark.generation);
            let order = match by_salt {
                Ordering::Equal => by_salt,
                _ => age.unwrap_or(by_salt),
            };
            if order != by_salt {
                let higher = generation.max(mark.generation);
                self.segment_mut(segment).salts.left(higher);
            }
            match order {
                Ordering::Less => return false,
                Ordering::Equal if is_same => return true,
                // One salt for two lists: when it was given again nothing was left to tell. Nothing of either may be reached.
                Ordering::Equal => {
                    match self.segment(segment).salts.after(generation) {
                        Some(generation) => {
                            self.set(spot, Entry::marker(Mark { generation, ..mark }))
                        }
                        None => self.begin_era(segment, era.saturating_add(1), &mut |_| ()),
                    }
                    return false;
                }
                Ordering::Greater => {}
            }
        }
        let Ok(number) = self.lists.take(carried.list, carried.root) else {
            return false;
        };
        let mark = Mark {
            generation,
            list: number,
            age: 0,
        };
        match before {
            Some((spot, before)) => {
                self.lists.give_back(before.list);
                self.set(spot, Entry::marker(mark));
            }
            None => self.insert(primary, Entry::marker(mark)),
        }
        true
    }

    /// A segment has no markers any more, and salts that none of them had.
    fn begin_era(&mut self, segment: usize, era: u32, leaves: &mut impl FnMut(Short)) {
        let Self {
            segments, lists, ..
        } = self;
        segments[segment].retain_markers(|short, mark| {
            lists.give_back(mark.list);
            leaves(short);
            None
        });
        segments[segment].salts = Salts::of_era(era);
    }

    /// Markers leave that have a list for themselves alone. An origin that makes up ever new lists would fill the table with them.
    fn make_room_for_a_list(&mut self, leaves: &mut impl FnMut(usize, Short)) {
        let Self {
            segments, lists, ..
        } = self;
        let is_single = lists.singles();
        for (number, segment) in segments.iter_mut().enumerate() {
            let mut salts = segment.salts;
            segment.retain_markers(|short, mark| {
                if !is_single[usize::from(mark.list)] {
                    return Some(mark);
                }
                lists.give_back(mark.list);
                salts.left(mark.generation);
                leaves(number, short);
                None
            });
            segment.salts = salts;
        }
    }

    /// Every marker of a segment is one pass older; `leaves` is told of those that have gone, so many at most. The others of the
    /// highest age stay as they are.
    pub(crate) fn age_markers(
        &mut self,
        segment: usize,
        mut most: usize,
        mut leaves: impl FnMut(Short),
    ) {
        let Self {
            segments, lists, ..
        } = self;
        let segment = &mut segments[segment];
        let mut salts = segment.salts;
        segment.retain_markers(|short, mark| {
            if mark.age < Mark::AGE_MAX {
                let age = mark.age + 1;
                return Some(Mark { age, ..mark });
            }
            if most == 0 {
                return Some(mark);
            }
            most -= 1;
            lists.give_back(mark.list);
            salts.left(mark.generation);
            leaves(short);
            None
        });
        segment.salts = salts;
    }

    /// As many markers as that segment may have.
    fn markers_max(&self, segment: &Segment) -> usize {
        MARKERS_PER_RECORD * segment.records() + self.spare_markers
    }

    /// Where no pass came for long, all are of one age: an eighth of them leaves, and a look-up saves the others.
    fn make_room_for_a_marker(&mut self, segment: usize, leaves: &mut impl FnMut(Short)) {
        let markers = self.segment(segment).markers();
        if markers < self.markers_max(self.segment(segment)) {
            return;
        }
        for _ in 0..=Mark::AGE_MAX {
            let gone = markers - self.segment(segment).markers();
            // Every pass makes the others older, so not one more than is needed.
            if gone > markers / 16 {
                break;
            }
            self.age_markers(segment, markers / 8 - gone, &mut *leaves);
        }
    }

    /// How many markers; adds up the segments.
    pub(crate) fn markers(&self) -> usize {
        self.segments.iter().map(Segment::markers).sum()
    }

    /// Every segment begins above that era.
    pub(crate) fn begin_after(&mut self, era: u32) {
        for segment in &mut self.segments {
            segment.salts = Salts::of_era(era.saturating_add(1));
        }
    }

    /// The highest era that any segment is in.
    pub(crate) fn era_max(&self) -> u32 {
        let eras = self.segments.iter().map(|segment| segment.salts.era());
        eras.max().unwrap_or(0)
    }

    /// Appends the form a checkpoint keeps of a segment: its salts, the lists of its markers, its table.
    pub(crate) fn encode_segment(&self, segment: usize, out: &mut Vec<u8>) {
        let segment = self.segment(segment);
        let numbers: BTreeSet<u16> = match segment.markers() {
            0 => BTreeSet::new(),
            _ => segment.marks().map(|mark| mark.list).collect(),
        };
        for number in [
            segment.salts.era(),
            segment.salts.floor(),
            numbers.len() as u32,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in numbers {
            let List { bytes, root } = self.lists.get(number);
            let start = out.len();
            out.resize(start + checkpoint_list::BYTES, 0);
            let place = &mut out[start..];
            checkpoint_list::NUMBER.put_u16(place, number);
            checkpoint_list::LIST_LEN.put_u16(place, bytes.len() as u16);
            checkpoint_list::ROOT.put_u64(place, *root);
            out.extend_from_slice(bytes);
        }
        segment.encode(out);
    }

    /// Takes over what [`Self::encode_segment`] wrote; None for anything else, never a panic. Markers that find no room for their list leave.
    pub(crate) fn take_segment(&mut self, number: usize, mut bytes: &[u8]) -> Option<()> {
        let mut next = || {
            let (&four, rest) = bytes.split_first_chunk()?;
            bytes = rest;
            Some(u32::from_le_bytes(four))
        };
        let mut salts = Salts::of_foreign(next()?, next()?)?;
        let lists = next()?;
        let mut known = BTreeMap::new();
        for _ in 0..lists {
            let (fixed, rest) = bytes.split_at_checked(checkpoint_list::BYTES)?;
            let len = usize::from(checkpoint_list::LIST_LEN.u16(fixed));
            let (list, rest) = rest.split_at_checked(len)?;
            let root = checkpoint_list::ROOT.u64(fixed);
            known.insert(checkpoint_list::NUMBER.u16(fixed), (list, root));
            bytes = rest;
        }
        let mut segment = Segment::decode(&mut bytes).ok()?;
        let Self {
            segments,
            lists: own,
            ..
        } = self;
        segment.retain_markers(|_, mark| {
            let list = known.get(&mark.list);
            let taken = list.and_then(|(list, root)| own.take(list, *root).ok());
            if taken.is_none() {
                salts.left(mark.generation);
            }
            // How old it is nobody knows: its age begins anew.
            let list = taken?;
            Some(Mark {
                list,
                age: 0,
                ..mark
            })
        });
        segment.salts = salts;
        let place = segments.get_mut(number)?;
        let mut lost = Vec::new();
        place.retain_markers(|_, mark| {
            lost.push(mark.list);
            None
        });
        lost.into_iter().for_each(|list| own.give_back(list));
        *place = segment;
        Some(())
    }

    /// Has every list as many markers as it counts?
    pub(crate) fn audit_markers(&self) -> Result<(), String> {
        let mut marks = self.segments.iter().flat_map(Segment::marks);
        let (users, markers) = (self.lists.users(), self.markers());
        if users != markers {
            return Err(format!("{markers} markers, but lists count {users}"));
        }
        match marks.find(|mark| usize::from(mark.list) >= self.lists.places()) {
            Some(mark) => Err(format!("{mark:?} has no list")),
            None => Ok(()),
        }
    }
}

impl Store {
    /// How to find the variants of a primary key, if it has any.
    pub fn marker(&self, primary: KeyHash) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        shard.index.marker(primary).map(|(marker, _)| marker)
    }

    /// The marker of a primary key with that list: the present one, or, if its list is another or there is none,
    /// a new one with a new salt, which puts all variants stored so far, and what was stored without one, out of reach. None if the primary
    /// was invalidated since `began`, the list is longer than [`LIST_BYTES_MAX`], or there are too many different lists: then nothing
    /// is to be stored.
    pub fn set_marker(&self, primary: KeyHash, list: &[u8], began: Sequence) -> Option<Marker> {
        let number = self.shard_of(primary);
        let segments = self.limits.segments;
        let mut shard = self.shard(number);
        if list.len() > LIST_BYTES_MAX || !shard.admits(primary, began) {
            return None;
        }
        // What was stored without a marker lies in its place.
        if shard.has(primary) {
            let (_, freed) = shard.kill(primary);
            self.queue_freed(freed);
            self.has_left(primary);
        }
        let leaves = |segment, short| {
            self.name_has_left(Name::new(number * segments + segment, short));
        };
        let Ok((marker, is_new)) = shard.index.set_marker(primary, list, leaves) else {
            self.counters.lists_refused.add(1);
            return None;
        };
        if is_new && self.is_scanning() {
            shard.fresh.add(self.name_of(primary));
        }
        Some(marker)
    }

    /// How often there was no room for one more list.
    pub fn lists_refused(&self) -> u64 {
        self.counters.lists_refused.get()
    }

    /// The marker of that salt with another list, which leads to what was stored with the one before as well. None if there is no such
    /// marker any more, or the list is too long, or there are too many different lists. A crash may bring back the one before.
    pub fn resume_marker(&self, primary: KeyHash, salt: u64, list: &[u8]) -> Option<Marker> {
        let mut shard = self.shard(self.shard_of(primary));
        if list.len() > LIST_BYTES_MAX {
            return None;
        }
        shard.index.resume_marker(primary, salt, list)
    }

    /// What the record of a variant is to carry; None: there is no marker any more, so it could not be reached.
    pub(crate) fn carried(&self, primary: KeyHash) -> Option<Vec<u8>> {
        let mut shard = self.shard(self.shard_of(primary));
        let (Marker { salt, list }, root) = shard.index.marker(primary)?;
        let carried = Carried {
            salt,
            root,
            list: &list,
        };
        Some(carried.encode())
    }

    /// A scan has found the record of a variant, alive and not in the checkpoint. False: it cannot be reached.
    pub(crate) fn variant_found(
        &self,
        primary: KeyHash,
        began: Sequence,
        carried: &Carried<'_>,
        age: Option<Ordering>,
    ) -> bool {
        let careless = self.limits.mistakes.make(Mistake::IgnoreBegan);
        let mut shard = self.shard(self.shard_of(primary));
        // It may have been purged since the scan asked.
        if shard.invalidations.since(primary, began) && !careless {
            return false;
        }
        let name = self.name_of(primary);
        if shard.fresh.has(name) {
            return false;
        }
        if shard.has(primary) {
            let (_, freed) = shard.kill(primary);
            self.queue_freed(freed);
        }
        shard.index.found_marker(primary, carried, age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::record::NewRecord;
    use crate::recover::open::Identity;
    use crate::settings::Settings;
    use crate::write::writer::Outcome;
    use std::sync::atomic::Ordering;

    fn store(settings: &Settings) -> Store {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        Store::create(
            geometry,
            settings,
            Identity::new([1; Identity::RANDOM_BYTES]),
        )
    }

    fn carried(salt: u64, list: &[u8]) -> Carried<'_> {
        let root = List::root_of(list);
        Carried { salt, root, list }
    }

    #[test]
    fn a_purge_that_comes_while_a_scan_looks_is_not_undone() {
        let store = store(&Settings::default());
        let (purged, other) = (store.hasher().hash(b"/a"), store.hasher().hash(b"/b"));
        let carried = carried(1 << 16, b"accept");
        let began = store.sequence();
        assert!(!store.is_dead(purged, began, b"/a", b""));
        let _ = store.invalidate(purged);
        assert!(!store.variant_found(purged, began, &carried, None));
        assert_eq!(store.marker(purged), None);
        assert!(store.variant_found(other, began, &carried, None));
        assert!(store.marker(other).is_some());
    }

    #[test]
    fn what_is_stored_during_a_scan_stays_though_a_marker_had_its_place() {
        let store = store(&Settings::default());
        while let Some(work) = store.next_work(0) {
            store.work_done(work.id, Ok(None), 0);
        }
        let (found, primary) = (store.hasher().hash(b"/a"), store.hasher().hash(b"/b"));
        let marker = store
            .set_marker(primary, b"accept", store.sequence())
            .unwrap();
        let variant = NewRecord {
            // The index cannot tell it from /a.
            hash: KeyHash(found.0 ^ 1 << Short::BITS),
            primary,
            key: &marker.salt.to_le_bytes(),
            meta: b"",
            body: &[b"x"],
            fragment: None,
            total: None,
            began: store.sequence(),
            server: 0,
        };
        store.scanning.store(true, Ordering::SeqCst);
        assert_eq!(store.insert(&variant, 0).outcome, Outcome::Stored);
        let carried = carried(1 << 16, b"accept");
        assert!(!store.variant_found(found, store.sequence(), &carried, None));
        assert!(store.contains(variant.hash));
        assert_eq!(store.marker(found), None);
    }

    #[test]
    fn a_marker_that_was_found_below_the_floor_does_not_get_a_salt_of_its_past() {
        let mut index = Index::new(1);
        let primary = KeyHash(1);
        let set = |index: &mut Index, list: &[u8]| {
            let set = index.set_marker(primary, list, |_, _| ());
            set.unwrap().0.salt
        };
        let first = set(&mut index, b"accept");
        let second = set(&mut index, b"cookie");
        assert!(second > first);
        // Another marker of the segment leaves, so the floor rises.
        index.drop_marker(primary, false);
        assert!(index.found_marker(primary, &carried(first, b"accept"), None));
        assert!(set(&mut index, b"origin") > second);
        // One salt that was given for two lists.
        index.drop_marker(primary, false);
        assert!(index.found_marker(primary, &carried(first, b"accept"), None));
        assert!(!index.found_marker(primary, &carried(first, b"cookie"), None));
        assert!(index.marker(primary).unwrap().0.salt > second);
    }

    #[test]
    fn soft_purges_of_what_is_out_of_reach_make_room_for_others() {
        let store = store(&Settings {
            replacement: "lru".parse().unwrap(),
            shards: 1,
            ..Settings::default()
        });
        let max = store.limits.soft_purges_max as u64;
        assert!(max > 0);
        for n in 0..3 * max {
            let primary = store.hasher().hash(&n.to_le_bytes());
            store
                .set_marker(primary, b"accept", store.sequence())
                .unwrap();
            let _ = store.doubt(primary);
            assert!(store.marker(primary).is_some(), "{n} of {max}");
            store.shard(0).index.drop_marker(primary, false);
        }
    }

    #[test]
    fn the_newest_variant_that_a_scan_finds_tells_the_salt() {
        use std::cmp::Ordering;
        let primary = KeyHash(7);
        let (low, high, higher) = (1 << 16, 1 << 16 | 2, 1 << 16 | 5);
        let mut index = Index::new(1);
        assert!(index.found_marker(primary, &carried(high, b"accept"), None));
        let newer = Some(Ordering::Greater);
        assert!(index.found_marker(primary, &carried(low, b"cookie"), newer));
        let older = Some(Ordering::Less);
        assert!(!index.found_marker(primary, &carried(higher, b"accept"), older));
        assert_eq!(index.marker(primary).unwrap().0.salt, low);
        // None of them is given again.
        let (next, _) = index.set_marker(primary, b"range", |_, _| ()).unwrap();
        assert!(next.salt > higher);
    }
}
