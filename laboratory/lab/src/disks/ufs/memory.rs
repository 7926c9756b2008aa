//! Memory: pages of files, blocks of metadata, and the daemon that writes them.

use super::super::cache::Key;
use super::super::free_space::{FRAGS, Frag};
use super::super::hardware::Way;
use super::{META, Ufs};

/// The key of a page of a file.
pub(super) fn page(inode: u32, block: u32) -> Key {
    u64::from(inode) << 32 | u64::from(block)
}

fn parts_of(key: Key) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

impl Ufs {
    /// Runs the flush daemon, if it is due.
    pub(super) fn tick(&mut self) {
        while self.now_us >= self.next_flush_us {
            let part = self.flush_part;
            self.flush_part = (part + 1) % self.machine.flush_parts;
            self.next_flush_us += self.machine.flush_every_us;
            self.flush_memory(part, self.machine.flush_parts);
        }
    }

    /// Queues writes of all dirty pages and blocks.
    pub(super) fn flush_all(&mut self) {
        self.flush_memory(0, 1);
    }

    fn flush_memory(&mut self, part: usize, parts: usize) {
        for key in self.pages.dirty_in(part, parts) {
            if self.pages.is_dirty(key) {
                self.push_cluster(key);
            }
        }
        for key in self.meta.dirty_in(part, parts) {
            self.push_meta(key);
        }
    }

    /// Writes a dirty page together with its dirty neighbours on the disk.
    fn push_cluster(&mut self, key: Key) {
        let (inode, block) = parts_of(key);
        let most = self.machine.cluster_blocks;
        let (mut first, mut end) = (block, block + 1);
        while end - first < most && first > 0 && self.joins(inode, first - 1) {
            first -= 1;
        }
        while end - first < most
            && self.joins(inode, end - 1)
            && self.pages.is_dirty(page(inode, end))
        {
            end += 1;
        }
        self.push(inode, first, end);
    }

    /// Whether this block is dirty and the next block follows it on the disk.
    fn joins(&self, inode: u32, block: u32) -> bool {
        let Some(file) = &self.inodes[inode as usize] else {
            return false;
        };
        let at = block as usize;
        at + 1 < file.blocks.len()
            && file.blocks[at].0 + FRAGS == file.blocks[at + 1].0
            && self.pages.is_dirty(page(inode, block))
    }

    /// Writes blocks that are adjacent on the disk as one request.
    fn push(&mut self, inode: u32, first: u32, end: u32) {
        for block in first..end {
            self.pages.set_dirty(page(inode, block), false);
        }
        let file = self.inode(inode);
        let at = file.blocks[first as usize];
        let mut frags = (end - first) * FRAGS;
        if end as usize == file.blocks.len() {
            frags -= FRAGS - file.tail_frags;
        }
        self.work(self.machine.request_io_us);
        self.queue.write(self.now_us, inode + 1, at.span(frags));
    }

    /// Writes the whole blocks that were written in order.
    pub(super) fn push_run(&mut self, inode: u32) {
        let file = self.inode(inode);
        let (mut first, end) = (file.run_first, file.run_first + file.run_blocks);
        file.run_blocks = 0;
        while first < end {
            if !self.pages.is_dirty(page(inode, first)) {
                first += 1;
                continue;
            }
            let mut next = first + 1;
            while next < end
                && self.joins(inode, next - 1)
                && self.pages.is_dirty(page(inode, next))
            {
                next += 1;
            }
            self.push(inode, first, next);
            first = next;
        }
        //= paper 002 section 3.1   the device's pace is the writer's, in the end
        if self.queue.waiting_bytes(inode + 1) > self.machine.write_high_bytes {
            let low = self.machine.write_low_bytes;
            self.now_us = self.queue.wait_below(self.now_us, inode + 1, low);
        }
    }

    /// Adds a page of a file to memory; evicts another if necessary.
    pub(super) fn add_page(&mut self, key: Key) {
        while let Some((victim, dirty)) = self.pages.victim() {
            if dirty {
                self.push_cluster(victim);
            }
            self.pages.remove(victim);
        }
        self.pages.insert(key);
    }

    /// Makes sure that a block of metadata is in memory; reads it if necessary.
    pub(super) fn meta_in(&mut self, block: Frag) {
        let key = u64::from(block.0);
        if self.meta.touch(key) {
            return;
        }
        self.meta_make_room();
        self.wait_for(Way::Read, block, FRAGS);
        self.meta.insert(key);
    }

    /// Changes a block of metadata; the flush daemon will write it.
    pub(super) fn meta_later(&mut self, block: Frag) {
        self.meta_in(block);
        self.meta.set_dirty(u64::from(block.0), true);
    }

    /// Changes a block of metadata and waits until it is on the platter.
    pub(super) fn meta_now(&mut self, block: Frag) {
        self.meta_in(block);
        self.wait_for(Way::Write, block, FRAGS);
        self.meta.set_dirty(u64::from(block.0), false);
    }

    /// Adds a new block of metadata to memory, without a read.
    pub(super) fn meta_new(&mut self, block: Frag) {
        let key = u64::from(block.0);
        if !self.meta.touch(key) {
            self.meta_make_room();
            self.meta.insert(key);
        }
        self.meta.set_dirty(key, true);
    }

    fn meta_make_room(&mut self) {
        while let Some((victim, dirty)) = self.meta.victim() {
            if dirty {
                self.push_meta(victim);
            }
            self.meta.remove(victim);
        }
    }

    fn push_meta(&mut self, key: Key) {
        self.meta.set_dirty(key, false);
        self.work(self.machine.request_io_us);
        self.queue
            .write(self.now_us, META, Frag(key as u32).span(FRAGS));
    }

    /// Sends a request and waits for it.
    pub(super) fn wait_for(&mut self, way: Way, at: Frag, frags: u32) {
        self.work(self.machine.request_io_us);
        self.now_us = self.queue.wait(self.now_us, META, way, at.span(frags));
    }
}
