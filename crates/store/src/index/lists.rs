//! The lists of a shard's markers, each kept once.
//!
//! Many resources vary, by a few dozen lists. So a marker has only the number of its list, and a list is kept as long as a marker has
//! it. A list also has a *root*: the hash of the list for which the marker's salt was given. Lists that follow one another under one
//! salt have one root, so a salt that is found with two roots was given twice.
//!
//! Limits: [`LISTS_MAX`] lists and [`BYTES_MAX`] a shard. To make room for one more, lists that a single marker has leave (`marker`). If all
//! have several markers, the new list is refused, and responses with that list are not stored.
//! Not known here: what a list means, which markers have it.

use std::collections::HashMap;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Lists of a shard: as many as a marker has numbers.
const LISTS_MAX: usize = 1 << 16;

/// Bytes of a shard's lists.
const BYTES_MAX: usize = 1 << 20;

/// The longest list a marker may have; a longer one is refused.
pub const LIST_BYTES_MAX: usize = 1024;

/// There is no room for one more list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// A list with its root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub bytes: Arc<[u8]>,
    pub root: u64,
}

impl List {
    /// The root of all lists under a salt that was given for this list.
    pub(crate) fn root_of(bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes)
    }

    /// The key under which a list is found.
    fn name(bytes: &[u8], root: u64) -> Box<[u8]> {
        [&root.to_le_bytes(), bytes].concat().into()
    }
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// By number: the list, and how many markers have it. `None` if the number is unused.
    listed: Vec<Option<(List, u32)>>,
    numbers: HashMap<Box<[u8]>, u16>,
    unused: Vec<u16>,
    bytes: usize,
}

impl Lists {
    /// The number of a list, for one more marker that has it.
    pub(crate) fn take(&mut self, bytes: &[u8], root: u64) -> Result<u16, Full> {
        let name = List::name(bytes, root);
        if let Some(&number) = self.numbers.get(&name) {
            self.share(number);
            return Ok(number);
        }
        let has_number = !self.unused.is_empty() || self.listed.len() < LISTS_MAX;
        if !has_number || bytes.len() > LIST_BYTES_MAX || self.bytes + name.len() > BYTES_MAX {
            return Err(Full);
        }
        let number = self.unused.pop().unwrap_or(self.listed.len() as u16);
        if usize::from(number) == self.listed.len() {
            self.listed.push(None);
        }
        let bytes = Arc::from(bytes);
        self.listed[usize::from(number)] = Some((List { bytes, root }, 1));
        self.bytes += name.len();
        self.numbers.insert(name, number);
        Ok(number)
    }

    /// Counts one more marker of a list.
    fn share(&mut self, number: u16) {
        let listed = self.listed[usize::from(number)].as_mut();
        listed.expect("a number stays as long as a marker has it").1 += 1;
    }

    /// Counts one marker less of a list; the last one frees it.
    pub(crate) fn give_back(&mut self, number: u16) {
        let listed = &mut self.listed[usize::from(number)];
        let (list, users) = listed
            .as_mut()
            .expect("a number stays as long as a marker has it");
        *users -= 1;
        if *users == 0 {
            let name = List::name(&list.bytes, list.root);
            self.bytes -= name.len();
            self.numbers.remove(&name);
            self.unused.push(number);
            *listed = None;
        }
    }

    /// The list of a number that a marker has.
    pub(crate) fn get(&self, number: u16) -> &List {
        let listed = self.listed[usize::from(number)].as_ref();
        &listed.expect("a number stays as long as a marker has it").0
    }

    /// All numbers are below this.
    pub(crate) fn places(&self) -> usize {
        self.listed.len()
    }

    /// How many lists there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.listed.len() - self.unused.len()
    }

    /// By number: is there only one marker with that list?
    pub(crate) fn singles(&self) -> Vec<bool> {
        let users = self.listed.iter().map(|listed| match listed {
            Some((_, users)) => *users,
            None => 0,
        });
        users.map(|users| users == 1).collect()
    }

    /// The number of markers of all lists together.
    pub(crate) fn users(&self) -> usize {
        self.listed.iter().flatten().map(|(_, n)| *n as usize).sum()
    }

    /// Bytes of memory, without the maps' spare room.
    pub(crate) fn memory_bytes(&self) -> usize {
        2 * self.bytes + self.listed.len() * size_of::<Option<(List, u32)>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lists: &mut Lists, bytes: &[u8]) -> u16 {
        lists.take(bytes, List::root_of(bytes)).unwrap()
    }

    #[test]
    fn a_list_is_there_once_and_as_long_as_it_is_used() {
        let mut lists = Lists::default();
        let accept = take(&mut lists, b"accept");
        assert_eq!(take(&mut lists, b"accept"), accept);
        let cookie = take(&mut lists, b"cookie");
        assert_ne!(accept, cookie);
        assert_eq!((lists.len(), lists.users()), (2, 3));
        lists.give_back(accept);
        assert_eq!(&*lists.get(accept).bytes, b"accept");
        lists.give_back(accept);
        assert_eq!((lists.len(), lists.users()), (1, 1));
        assert_eq!(take(&mut lists, b"other"), accept, "its number is free");
        lists.give_back(accept);
        lists.give_back(cookie);
        assert_eq!(lists.bytes, 0);
    }

    #[test]
    fn one_list_of_two_roots_is_two() {
        let mut lists = Lists::default();
        let one = lists.take(b"accept", 1).unwrap();
        assert_ne!(lists.take(b"accept", 2), Ok(one));
        assert_eq!(lists.get(one).root, 1);
    }

    #[test]
    fn a_full_table_refuses_what_it_does_not_have() {
        let mut lists = Lists::default();
        let mut taken = 0u32;
        while lists
            .take(&[&taken.to_le_bytes()[..], &[0; 1000]].concat(), 0)
            .is_ok()
        {
            taken += 1;
        }
        assert!((900..1100).contains(&taken));
        let first = [&0u32.to_le_bytes()[..], &[0; 1000]].concat();
        assert_eq!(lists.take(&first, 0), Ok(0));
        lists.give_back(0);
        lists.give_back(0);
        assert!(lists.take(&[9; 1000], 0).is_ok());
        assert_eq!(
            Lists::default().take(&[0; LIST_BYTES_MAX + 1], 0),
            Err(Full)
        );
    }

    #[test]
    fn no_more_lists_than_numbers() {
        let mut lists = Lists::default();
        for n in 0..LISTS_MAX as u32 {
            assert_eq!(lists.take(&n.to_le_bytes(), 0), Ok(n as u16));
        }
        assert_eq!(lists.take(b"one more", 0), Err(Full));
    }
}
