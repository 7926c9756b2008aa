//! Markers: how to find the variants of a primary key.
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
//! *Persistence*: see `lasting`.
//!
//! *Aging*: a marker ages by one in each pass (`evict/aging`), three to a round of the hand, and leaves in the fourth unless it was
//! looked up, or a variant was stored, since. So it stays at least as long as anything stored under it. If no hand goes round, or
//! there are far more markers than records (the device refuses), a segment with [`Index::markers_max`] markers makes such passes at once,
//! until an eighth of them has left. A marker whose list no other marker has also leaves when its shard has no room for one more list.
//!
//! Two primaries of one place (`index`) share a marker, and each takes the other's for its own. That only causes misses, since the full
//! key of a variant names its primary.
//!
//! Limits: lists see `lists`; markers [`MARKERS_PER_RECORD`] a record and [`SPARE_MARKERS`](super::SPARE_MARKERS) a segment.
//! Not known here: what a list means.

#[cfg(test)]
mod tests;

pub mod lasting;

use crate::index::entry::Entry;
use crate::index::entry::Mark;
use crate::index::key::KeyHash;
use crate::index::lists::{Full, List};
use crate::index::pieces::Short;
use crate::index::salts::Salts;
use crate::index::segment::Segment;
use crate::index::{Index, Spot};
use std::sync::Arc;

/// Markers of a segment: this many for each of its records, and [`SPARE_MARKERS`](super::SPARE_MARKERS).
const MARKERS_PER_RECORD: usize = 3;

/// How to find the variants of a primary key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Goes into the full key of each variant; never the same twice for one primary.
    pub salt: u64,
    /// Which request fields select the variant; opaque here.
    pub list: Arc<[u8]>,
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

    /// Returns the primary's marker with that list, and whether its salt is new: if there is no marker or its list differs, a new salt puts all
    /// variants stored so far out of reach. The marker's place must hold no record. `leaves` is called for each marker that makes room.
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

    /// Gives the marker of that salt another list. `None` if there is no such marker, or no room for the list.
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

    /// Removes the marker; false if there was none. With `careless` its salt may be given again, a deliberate mistake.
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

    /// Removes all markers of a segment, and begins an era of salts that none of them had.
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

    /// Removes the markers whose list no other marker has. An origin that invents ever new lists would fill the table with those.
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

    /// Makes every marker of a segment one pass older. Of the highest age at most `most` leave, and `leaves` is called for each; the
    /// others of that age stay as they are.
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

    /// The most markers that this segment may have.
    fn markers_max(&self, segment: &Segment) -> usize {
        MARKERS_PER_RECORD * segment.records() + self.spare_markers
    }

    /// If no pass came for long, all markers are of one age. So only an eighth of them leaves; the others stay if they are looked up in time.
    fn make_room_for_a_marker(&mut self, segment: usize, leaves: &mut impl FnMut(Short)) {
        let markers = self.segment(segment).markers();
        if markers < self.markers_max(self.segment(segment)) {
            return;
        }
        for _ in 0..=Mark::AGE_MAX {
            let gone = markers - self.segment(segment).markers();
            // No more passes than needed, since each makes the remaining markers older.
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

    /// Do the lists count as many markers as there are, and has each marker a list?
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
