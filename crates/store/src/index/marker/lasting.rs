//! How markers outlast a process: in the records of their variants, and in checkpoints.
//!
//! Markers are not logged. The record of each variant carries the salt and the list that its marker had when it was stored; a
//! checkpoint has the markers. From live variants younger than the checkpoint a scan sets the marker; for older variants the checkpoint
//! tells whether the marker is still there. A purge is in the log, and drops the marker again. During a scan, the place of a marker that
//! gets a new salt, or of any record that is stored, is noted as *fresh*: variants that the scan finds there are older, and are not taken.
//! Salts may begin anew in a store that was scanned without a checkpoint. So among the variants of a primary that one scan finds, the
//! newest by sequence decides the salt, not the greatest.
//!
//! Limit: [`FRESH_MAX`] fresh places a shard; with one more all of its places count as fresh.

use crate::evict::left::Name;
use crate::index::Index;
use crate::index::carried::Carried;
use crate::index::entry::Entry;
use crate::index::entry::Mark;
use crate::index::key::KeyHash;
use crate::index::lists::List;
use crate::index::salts::Salts;
use crate::index::segment::Segment;
use crate::index::usage::UsageBits;
use crate::layout::checkpoint_list;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

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

impl Index {
    /// A scan has found a variant that was stored under that marker. The marker's place must hold no record. False if the variant is out of
    /// reach, because the present marker is another one. `age`: is the variant older or newer than all others of the primary found so far, if
    /// any? The newest decides, since a salt given during a scan may be below salts that the scan had yet to find.
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
                // One salt was given for two lists, because nothing told of the first when it was given again. Variants of neither may be reached.
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

    /// Makes every segment begin above that era.
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

    /// Takes over a segment as [`Self::encode_segment`] wrote it, `None` if it is invalid. Markers that find no room for their list leave.
    pub(crate) fn take_segment(
        &mut self,
        number: usize,
        mut bytes: &[u8],
        usage_bits: UsageBits,
    ) -> Option<()> {
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
        let mut segment = Segment::decode(&mut bytes, usage_bits).ok()?;
        segment.keep_usage_as(self.segments.first()?.usage_bits());
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
            // The marker's age is unknown, so it begins anew.
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
}
