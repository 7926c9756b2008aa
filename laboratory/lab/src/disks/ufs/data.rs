//! The data of files: growing them, delayed writes, reads.

use std::io;

use super::super::free_space::{BLOCK_BYTES, FRAG_BYTES, FRAGS, Frag, FreeSpace};
use super::super::hardware::Way;
use super::memory::page;
use super::{DIRECT_BLOCKS, INDIRECT_BLOCKS, Ufs, full};

impl Ufs {
    /// Allocates blocks so that the file can hold `bytes`.
    pub(super) fn grow(&mut self, inode: u32, bytes: u64) -> io::Result<()> {
        let file = self.inode(inode);
        if bytes <= file.bytes {
            return Ok(());
        }
        let blocks = bytes.div_ceil(BLOCK_BYTES) as usize;
        let had = file.blocks.len();
        //= paper 002 section 3.3   a file system block is more than many a URL needs: short files end in fragments
        let tail = if blocks <= DIRECT_BLOCKS {
            let rest = bytes - (blocks as u64 - 1) * BLOCK_BYTES;
            rest.div_ceil(FRAG_BYTES) as u32
        } else {
            FRAGS
        };
        file.bytes = bytes;
        if had > 0 && (blocks > had || tail > file.tail_frags) && file.tail_frags < FRAGS {
            self.widen_tail(inode)?;
        }
        while self.inode(inode).blocks.len() < blocks {
            let file = self.inode(inode);
            let at = file.blocks.len();
            let frags = if at + 1 == blocks { tail } else { FRAGS };
            let place = self.place_for_block(inode, at, frags)?;
            let file = self.inode(inode);
            file.blocks.push(place);
            file.tail_frags = frags;
            self.note_bitmap(place);
        }
        Ok(())
    }

    /// Replaces a last block of a few fragments by a whole block.
    fn widen_tail(&mut self, inode: u32) -> io::Result<()> {
        let file = self.inode(inode);
        let (Some(&old), frags) = (file.blocks.last(), file.tail_frags) else {
            return Ok(());
        };
        let group = FreeSpace::group_of(old);
        self.space.free_frags(old, frags);
        let place = self.space.take_block(None, group).map_err(full)?;
        let file = self.inode(inode);
        file.tail_frags = FRAGS;
        if let Some(last) = file.blocks.last_mut() {
            *last = place;
        }
        self.note_bitmap(place);
        Ok(())
    }

    fn place_for_block(&mut self, inode: u32, at: usize, frags: u32) -> io::Result<Frag> {
        let file = self.inode(inode);
        let last = file.blocks.last().copied();
        let mut group = last.map_or(file.place.group, FreeSpace::group_of);
        let mut wanted = last.map(|last| Frag(last.0 + FRAGS));
        if at >= DIRECT_BLOCKS && (at - DIRECT_BLOCKS).is_multiple_of(INDIRECT_BLOCKS) {
            // A long file continues in another group, and has an indirect block there.
            group = self.space.group_after(group);
            wanted = None;
            let block = self.space.take_block(None, group).map_err(full)?;
            self.inode(inode).indirect.push(block);
            self.meta_new(block);
        }
        if frags == FRAGS {
            self.space.take_block(wanted, group).map_err(full)
        } else {
            self.space.take_frags(frags, group).map_err(full)
        }
    }

    pub(super) fn note_bitmap(&mut self, place: Frag) {
        let bitmap = self.space.bitmap_block(FreeSpace::group_of(place));
        self.meta_later(bitmap);
    }

    /// Reads the indirect block that holds a block's address.
    fn look_up(&mut self, inode: u32, block: u32) {
        if let Some(indirect) = (block as usize).checked_sub(DIRECT_BLOCKS) {
            let at = self.inode(inode).indirect[indirect / INDIRECT_BLOCKS];
            self.meta_in(at);
        }
    }

    /// Brings a block of a file into memory.
    fn fault(&mut self, inode: u32, block: u32) {
        self.look_up(inode, block);
        let most = self.machine.cluster_blocks;
        let file = self.inode(inode);
        let in_order = file.next_read == block;
        let blocks = file.blocks.len() as u32;
        let first = file.blocks[block as usize];
        let mut end = block + 1;
        // A sequential reader gets a whole cluster.
        while in_order && end < blocks && end - block < most {
            let file = self.inode(inode);
            if file.blocks[end as usize - 1].0 + FRAGS != file.blocks[end as usize].0
                || self.pages.has(page(inode, end))
            {
                break;
            }
            end += 1;
        }
        let file = self.inode(inode);
        let mut frags = (end - block) * FRAGS;
        if end == blocks {
            frags -= FRAGS - file.tail_frags;
        }
        self.wait_for(Way::Read, first, frags);
        for at in (block..end).rev() {
            self.add_page(page(inode, at));
        }
        if in_order {
            self.read_ahead(inode, end);
        }
    }

    /// Also fetches the cluster behind the one just read, without waiting for it.
    fn read_ahead(&mut self, inode: u32, first: u32) {
        let most = self.machine.cluster_blocks;
        let blocks = self.inode(inode).blocks.len() as u32;
        let mut end = first;
        while end < blocks && end - first < most && !self.pages.has(page(inode, end)) {
            let file = self.inode(inode);
            if end > first && file.blocks[end as usize - 1].0 + FRAGS != file.blocks[end as usize].0
            {
                break;
            }
            end += 1;
        }
        if end == first {
            return;
        }
        let file = self.inode(inode);
        let at = file.blocks[first as usize];
        let mut frags = (end - first) * FRAGS;
        if end == blocks {
            frags -= FRAGS - file.tail_frags;
        }
        self.work(self.machine.request_io_us);
        self.queue
            .read_ahead(self.now_us, inode + 1, at.span(frags));
        for at in (first..end).rev() {
            self.add_page(page(inode, at));
        }
    }

    pub(super) fn read_bytes(&mut self, inode: u32, at_byte: u64, bytes: u64) -> io::Result<()> {
        self.work(self.machine.call_us);
        let first = (at_byte / BLOCK_BYTES) as u32;
        let last = ((at_byte + bytes.max(1) - 1) / BLOCK_BYTES) as u32;
        if last as usize >= self.inode(inode).blocks.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for block in first..=last {
            if !self.pages.touch(page(inode, block)) {
                self.fault(inode, block);
            }
            self.inode(inode).next_read = block + 1;
            self.work(self.machine.page_us);
        }
        self.work(bytes as f64 * self.machine.byte_us);
        Ok(())
    }

    pub(super) fn write_bytes(&mut self, inode: u32, at_byte: u64, bytes: u64) -> io::Result<()> {
        self.work(self.machine.call_us);
        let end = at_byte + bytes;
        let file = self.inode(inode);
        let (had, first_data) = (file.blocks.len() as u32, file.bytes == 0);
        self.grow(inode, end)?;
        if first_data && bytes > 0 {
            self.settle_new(inode);
        }
        let mut at = at_byte;
        while at < end {
            let block = (at / BLOCK_BYTES) as u32;
            let to = end.min((u64::from(block) + 1) * BLOCK_BYTES);
            let key = page(inode, block);
            let whole = to - at == BLOCK_BYTES;
            if !self.pages.touch(key) {
                //= paper 002 section 3.4   a write to part of a page that is not in memory reads it from the disk first
                if whole || block >= had {
                    self.look_up(inode, block);
                    self.add_page(key);
                } else {
                    self.fault(inode, block);
                    self.inode(inode).next_read = block + 1;
                }
            }
            self.pages.set_dirty(key, true);
            self.work(self.machine.page_us + (to - at) as f64 * self.machine.byte_us);
            if to.is_multiple_of(BLOCK_BYTES) {
                self.whole_block(inode, block);
            }
            at = to;
        }
        Ok(())
    }

    /// A block is written to its end: it will go out together with the whole blocks before it.
    fn whole_block(&mut self, inode: u32, block: u32) {
        let most = self.machine.cluster_blocks;
        let file = self.inode(inode);
        let follows = file.run_blocks > 0
            && block == file.run_first + file.run_blocks
            && file.blocks[block as usize - 1].0 + FRAGS == file.blocks[block as usize].0;
        if !follows {
            self.push_run(inode);
            self.inode(inode).run_first = block;
        }
        let file = self.inode(inode);
        file.run_blocks += 1;
        if file.run_blocks >= most {
            self.push_run(inode);
        }
    }
}
