//! Names: directories, the search in them, and the writes that a call waits for.

use std::collections::BTreeSet;
use std::io;

use super::super::free_space::{BLOCK_BYTES, FRAGS};
use super::super::hardware::Way;
use super::super::{DirId, FileId};
use super::memory::page;
use super::{Dir, Entry, Ufs, full, unknown};

/// Bytes of an entry with a name of eight to fifteen letters.
pub(super) const ENTRY_BYTES: u64 = 24;
/// A directory of more blocks is searched so often that it is taken to be in memory; only the block with the entry is looked up.
pub(super) const SEARCHED_BLOCKS_MAX: u32 = 8;

impl Ufs {
    /// Makes a file's inode and its entry.
    pub(super) fn add_file(&mut self, file: FileId) -> io::Result<()> {
        if self.files.contains_key(&file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.work(self.machine.name_us);
        let (dir, slot) = self.room_for_entry(file.dir)?;
        let group = self.inode(dir).place.group;
        let place = self.space.take_inode(group).map_err(full)?;
        let inode = self.add_inode(place);
        self.meta_later(self.space.bitmap_block(place.group));
        //= paper 002 section 3.2   a create is an inode and an entry, each a write that is waited for (Figure 3: above 20 ms)
        self.meta_now(place.block());
        self.write_entry(dir, slot);
        self.files.insert(file, Entry { inode, slot });
        Ok(())
    }

    /// Writes the inode again after the first data of a new file, so that it does not point to older data.
    pub(super) fn settle_new(&mut self, inode: u32) {
        let block = self.inode(inode).place.block();
        //= paper 002 section 3.2   Figure 3: a file with data costs about one write more than an empty one
        self.meta_now(block);
    }

    /// Makes a directory: its inode, its first block, the parent's inode, the parent's entry.
    pub(super) fn add_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()> {
        self.work(self.machine.name_us);
        let (above, slot) = self.room_for_entry(parent)?;
        let group = self.space.group_for_dir();
        let place = self.space.take_inode(group).map_err(full)?;
        let inode = self.add_inode(place);
        self.meta_later(self.space.bitmap_block(place.group));
        self.meta_now(place.block());
        let mut made = Dir {
            inode,
            slots: 0,
            free: BTreeSet::new(),
        };
        made.slots = 2; // itself and its parent
        self.dirs.insert(dir, made);
        self.grow(inode, BLOCK_BYTES)?;
        self.add_page(page(inode, 0));
        self.write_entry(inode, 0);
        let above_block = self.inode(above).place.block();
        self.meta_now(above_block);
        self.write_entry(above, slot);
        Ok(())
    }

    /// Looks up a file that was not used recently: its entry, then its inode.
    pub(super) fn find_file(&mut self, file: FileId) -> io::Result<()> {
        self.work(self.machine.name_us);
        let entry = self.entry(file)?;
        let dir = self
            .dirs
            .get(&file.dir)
            .ok_or_else(|| unknown("directory"))?;
        let dir = dir.inode;
        self.search(dir, entry.slot);
        let block = self.inode(entry.inode).place.block();
        self.meta_in(block);
        Ok(())
    }

    /// Removes entry, data and inode.
    pub(super) fn remove_file(&mut self, file: FileId) -> io::Result<()> {
        self.find_file(file)?;
        let entry = self.entry(file)?;
        self.files.remove(&file);
        let dir = self
            .dirs
            .get_mut(&file.dir)
            .ok_or_else(|| unknown("directory"))?;
        dir.free.insert(entry.slot);
        let dir = dir.inode;
        //= paper 002 section 3.2   a delete writes the entry and, if there was data, the inode (Figure 3: 10 to 20 ms)
        self.write_entry(dir, entry.slot);
        let Some(gone) = self.inodes[entry.inode as usize].take() else {
            return Err(unknown("inode"));
        };
        self.free_inodes.push(entry.inode);
        if gone.blocks.is_empty() {
            self.meta_later(gone.place.block());
        } else {
            self.meta_now(gone.place.block());
        }
        for (at, &place) in gone.blocks.iter().enumerate() {
            let frags = if at + 1 == gone.blocks.len() {
                gone.tail_frags
            } else {
                FRAGS
            };
            self.pages.remove(page(entry.inode, at as u32));
            self.space.free_frags(place, frags);
        }
        for &place in &gone.indirect {
            self.meta.remove(u64::from(place.0));
            self.space.free_frags(place, FRAGS);
        }
        if let Some(&first) = gone.blocks.first() {
            self.note_bitmap(first);
        }
        self.space.free_inode(gone.place);
        self.meta_later(self.space.bitmap_block(gone.place.group));
        Ok(())
    }

    /// Searches a whole directory for a name that it does not have, and finds room for the entry: inode and slot.
    fn room_for_entry(&mut self, id: DirId) -> io::Result<(u32, u32)> {
        let dir = self.dirs.get_mut(&id).ok_or_else(|| unknown("directory"))?;
        let (inode, slots) = (dir.inode, dir.slots);
        let slot = dir.free.pop_first().unwrap_or(slots);
        dir.slots = slots.max(slot + 1);
        let blocks = self.inode(inode).blocks.len() as u32;
        let block = Self::block_of(slot);
        if slots > 0 {
            self.search(inode, slots - 1);
        }
        if block >= blocks {
            let bytes = (u64::from(block) + 1) * BLOCK_BYTES;
            self.grow(inode, bytes)?;
            self.add_page(page(inode, block));
        }
        Ok((inode, slot))
    }

    fn block_of(slot: u32) -> u32 {
        (u64::from(slot) * ENTRY_BYTES / BLOCK_BYTES) as u32
    }

    /// Searches a directory from its beginning up to a slot.
    fn search(&mut self, dir: u32, slot: u32) {
        //= paper 002 section 3.2   the look-up takes time linear in the directory's length
        let last = Self::block_of(slot);
        self.work(f64::from(slot + 1) * self.machine.entry_us);
        self.work(f64::from(last + 1) * self.machine.page_us);
        let first = if last < SEARCHED_BLOCKS_MAX { 0 } else { last };
        for block in first..=last {
            self.dir_page_in(dir, block);
        }
    }

    fn dir_page_in(&mut self, dir: u32, block: u32) {
        let key = page(dir, block);
        if self.pages.touch(key) {
            return;
        }
        if let Some(&at) = self.inode(dir).blocks.get(block as usize) {
            self.wait_for(Way::Read, at, FRAGS);
        }
        self.add_page(key);
    }

    /// Writes the block of an entry and waits for it.
    fn write_entry(&mut self, dir: u32, slot: u32) {
        let block = Self::block_of(slot);
        self.dir_page_in(dir, block);
        let at = self.inode(dir).blocks[block as usize];
        self.wait_for(Way::Write, at, FRAGS);
    }
}
