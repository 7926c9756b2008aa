//! Free space: cylinder groups with inodes, blocks and fragments, allocated as by the Fast File System.
//!
//! A group holds a copy of the superblock, its bitmap block, its inodes, and blocks for data. A new directory goes to the next
//! group, a file to its directory's group, a block behind the file's last one. A long file moves on to another group at times,
//! so that it does not fill one. The tail of a short file takes eighths of a block.
//!
//! Not known here: names, contents, time.   Limits: block numbers fit 29 bits.
//! Sources: McKusick et al., A Fast File System for UNIX (1984); newfs defaults of Solaris.

use super::constants::{Constant, Trust};
use super::hardware::{SECTOR_BYTES, Span};

/// A file system block.
pub const BLOCK_BYTES: u64 = 8192;
/// A fragment, the smallest unit of allocation.
pub const FRAG_BYTES: u64 = 1024;
/// Fragments of a block.
pub const FRAGS: u32 = (BLOCK_BYTES / FRAG_BYTES) as u32;
/// Sectors of a fragment.
const FRAG_SECTORS: u64 = FRAG_BYTES / SECTOR_BYTES;
/// newfs: 16 cylinders a group; on this disk 18.6 MB.
const GROUP_BLOCKS: u32 = 2268;
/// newfs, for disks of 3 GB and more: an inode for each 8 KB.
const GROUP_INODES: u32 = 2268;
/// Inodes have 128 bytes.
const BLOCK_INODES: u32 = 64;
const INODE_BLOCKS: u32 = GROUP_INODES.div_ceil(BLOCK_INODES);
/// Superblock copy and bitmap block come before the inodes.
const DATA_BLOCK: u32 = 2 + INODE_BLOCKS;

/// The constants of the file system, each with its source.
pub fn constants() -> Vec<Constant> {
    use Trust::Known;
    let sizes = format!("{} KB, {} KB", BLOCK_BYTES / 1024, FRAG_BYTES / 1024);
    let group =
        format!("{GROUP_BLOCKS} blocks (16 cylinders), {GROUP_INODES} inodes (one for 8 KB)");
    vec![
        Constant::new("`BLOCK_BYTES`, `FRAG_BYTES`", sizes, Known, "UFS"),
        Constant::new("`GROUP_BLOCKS`, `GROUP_INODES`", group, Known, "`newfs`"),
        Constant::new(
            "next group of a long file",
            "after 12 blocks, then every 2,048",
            Known,
            "`maxbpg`",
        ),
    ]
}

/// A place, in fragments from the start of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frag(pub u32);

impl Frag {
    /// The sectors of `count` fragments from here on.
    pub fn span(self, count: u32) -> Span {
        Span {
            first: u64::from(self.0) * FRAG_SECTORS,
            sectors: count * FRAG_SECTORS as u32,
        }
    }
}

/// An inode's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodePlace {
    /// Its cylinder group.
    pub group: u32,
    index: u32,
}

impl InodePlace {
    /// The block that holds the inode.
    pub fn block(self) -> Frag {
        Frag((self.group * GROUP_BLOCKS + 2 + self.index / BLOCK_INODES) * FRAGS)
    }
}

#[derive(Debug, Clone)]
struct Group {
    free_blocks: u32,
    free_inodes: u32,
    /// Where the next search for a block begins.
    rotor: u32,
    inode_rotor: u32,
    inodes: Vec<u64>,
    /// Number of partly free blocks, by their longest free run of fragments.
    partial: [u32; FRAGS as usize],
}

/// The free space of a file system.
#[derive(Debug)]
pub struct FreeSpace {
    groups: Vec<Group>,
    /// Free fragments of each block, as bits.
    free: Vec<u8>,
    dirs: u32,
}

/// There is no room left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Longest run of ones.
fn longest_run(mut bits: u8) -> u32 {
    let mut run = 0;
    while bits != 0 {
        bits &= bits << 1;
        run += 1;
    }
    run
}

impl FreeSpace {
    /// An empty file system on this many sectors.
    pub fn new(sectors: u64) -> FreeSpace {
        let blocks = sectors / (BLOCK_BYTES / SECTOR_BYTES);
        let groups = (blocks / u64::from(GROUP_BLOCKS)).max(1) as u32;
        let mut free = vec![0xff; (groups * GROUP_BLOCKS) as usize];
        for group in 0..groups {
            let first = (group * GROUP_BLOCKS) as usize;
            free[first..first + DATA_BLOCK as usize].fill(0);
        }
        FreeSpace {
            groups: vec![
                Group {
                    free_blocks: GROUP_BLOCKS - DATA_BLOCK,
                    free_inodes: GROUP_INODES,
                    rotor: DATA_BLOCK,
                    inode_rotor: 0,
                    inodes: vec![0; (GROUP_INODES as usize).div_ceil(64)],
                    partial: [0; FRAGS as usize],
                };
                groups as usize
            ],
            free,
            dirs: 0,
        }
    }

    /// The bitmap block of a group.
    pub fn bitmap_block(&self, group: u32) -> Frag {
        Frag((group * GROUP_BLOCKS + 1) * FRAGS)
    }

    /// The group of a place.
    pub fn group_of(at: Frag) -> u32 {
        at.0 / FRAGS / GROUP_BLOCKS
    }

    /// The group for the next directory, round robin.
    pub fn group_for_dir(&mut self) -> u32 {
        let group = self.dirs % self.groups.len() as u32;
        self.dirs += 1;
        group
    }

    /// The group in which a long file continues: the next one with at least the mean number of free blocks.
    pub fn group_after(&self, group: u32) -> u32 {
        let count = self.groups.len() as u32;
        let total: u64 = self.groups.iter().map(|g| u64::from(g.free_blocks)).sum();
        let mean = (total / u64::from(count)) as u32;
        (1..=count)
            .map(|step| (group + step) % count)
            .find(|&g| self.groups[g as usize].free_blocks >= mean)
            .unwrap_or(group)
    }

    /// The wanted group first, then groups at doubling distance, then all.
    fn search(&self, group: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.groups.len() as u32;
        let mut rehash = Vec::new();
        let (mut at, mut step) = (group, 1);
        while step < count {
            at = (at + step) % count;
            rehash.push(at);
            step *= 2;
        }
        std::iter::once(group)
            .chain(rehash)
            .chain((2..count).map(move |step| (group + step) % count))
    }

    /// Allocates an inode, in this group if possible.
    pub fn take_inode(&mut self, group: u32) -> Result<InodePlace, Full> {
        let group = self
            .search(group)
            .find(|&g| self.groups[g as usize].free_inodes > 0)
            .ok_or(Full)?;
        let it = &mut self.groups[group as usize];
        let mut index = it.inode_rotor;
        while it.inodes[index as usize / 64] >> (index % 64) & 1 == 1 {
            index = (index + 1) % GROUP_INODES;
        }
        it.inodes[index as usize / 64] |= 1 << (index % 64);
        it.free_inodes -= 1;
        it.inode_rotor = index;
        Ok(InodePlace { group, index })
    }

    /// Frees an inode.
    pub fn free_inode(&mut self, at: InodePlace) {
        let it = &mut self.groups[at.group as usize];
        it.inodes[at.index as usize / 64] &= !(1 << (at.index % 64));
        it.free_inodes += 1;
        it.inode_rotor = it.inode_rotor.min(at.index);
    }

    /// Allocates a whole block: the one at `wanted` if it is free, else one in its group, else elsewhere.
    pub fn take_block(&mut self, wanted: Option<Frag>, group: u32) -> Result<Frag, Full> {
        if let Some(at) = wanted
            && self.free.get((at.0 / FRAGS) as usize) == Some(&0xff)
        {
            return Ok(self.take_whole(at.0 / FRAGS));
        }
        let group = self
            .search(group)
            .find(|&g| self.groups[g as usize].free_blocks > 0)
            .ok_or(Full)?;
        let base = group * GROUP_BLOCKS;
        let mut at = self.groups[group as usize].rotor;
        while self.free[(base + at) as usize] != 0xff {
            at = (at + 1) % GROUP_BLOCKS;
        }
        self.groups[group as usize].rotor = at;
        Ok(self.take_whole(base + at))
    }

    fn take_whole(&mut self, block: u32) -> Frag {
        self.set(block, 0);
        Frag(block * FRAGS)
    }

    /// Allocates adjacent fragments of one block, fewer than a block.
    pub fn take_frags(&mut self, count: u32, group: u32) -> Result<Frag, Full> {
        let has = |g: &Group| g.partial[count as usize..].iter().any(|&blocks| blocks > 0);
        if !has(&self.groups[group as usize]) {
            let block = self.take_block(None, group)?;
            self.set(block.0 / FRAGS, (0xff_u32 << count) as u8);
            return Ok(block);
        }
        let base = group * GROUP_BLOCKS;
        let mut at = self.groups[group as usize].rotor;
        loop {
            let bits = self.free[(base + at) as usize];
            if bits != 0xff && longest_run(bits) >= count {
                let mask = (1u32 << count) - 1;
                let shift = (0..=FRAGS - count)
                    .find(|shift| u32::from(bits) >> shift & mask == mask)
                    .expect("a run of that length was just measured");
                self.set(base + at, bits & !((mask << shift) as u8));
                return Ok(Frag((base + at) * FRAGS + shift));
            }
            at = (at + 1) % GROUP_BLOCKS;
        }
    }

    /// Frees fragments of one block.
    pub fn free_frags(&mut self, at: Frag, count: u32) {
        let block = at.0 / FRAGS;
        let mask = (((1u32 << count) - 1) << (at.0 % FRAGS)) as u8;
        let bits = self.free[block as usize];
        assert_eq!(bits & mask, 0, "fragments at {} are freed twice", at.0);
        self.set(block, bits | mask);
        let group = &mut self.groups[(block / GROUP_BLOCKS) as usize];
        group.rotor = group.rotor.min(block % GROUP_BLOCKS).max(DATA_BLOCK);
    }

    fn set(&mut self, block: u32, bits: u8) {
        let old = std::mem::replace(&mut self.free[block as usize], bits);
        let group = &mut self.groups[(block / GROUP_BLOCKS) as usize];
        match old {
            0xff => group.free_blocks -= 1,
            0 => {}
            old => group.partial[longest_run(old) as usize] -= 1,
        }
        match bits {
            0xff => group.free_blocks += 1,
            0 => {}
            bits => group.partial[longest_run(bits) as usize] += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> FreeSpace {
        FreeSpace::new(8_000_000)
    }

    #[test]
    fn blocks_follow_each_other() {
        let mut space = space();
        let first = space.take_block(None, 3).unwrap();
        let next = space.take_block(Some(Frag(first.0 + FRAGS)), 3).unwrap();
        assert_eq!(next.0, first.0 + FRAGS);
        assert_eq!(FreeSpace::group_of(next), 3);
        space.free_frags(first, FRAGS);
        assert_eq!(space.take_block(None, 3), Ok(first));
    }

    #[test]
    fn tails_share_a_block() {
        let mut space = space();
        let a = space.take_frags(3, 0).unwrap();
        let b = space.take_frags(4, 0).unwrap();
        let c = space.take_frags(2, 0).unwrap();
        assert_eq!(b.0, a.0 + 3);
        assert_ne!(
            c.0 / FRAGS,
            a.0 / FRAGS,
            "one fragment was left, two are wanted"
        );
        let d = space.take_frags(1, 0).unwrap();
        assert!([a.0 + 7, c.0 + 2].contains(&d.0));
        for (at, count) in [(a, 3), (b, 4), (c, 2), (d, 1)] {
            space.free_frags(at, count);
        }
        assert_eq!(space.take_block(None, 0), Ok(Frag(a.0)));
    }

    #[test]
    fn full_groups_overflow() {
        let mut space = space();
        let count = space.groups.len() as u32;
        for _ in 0..GROUP_INODES * count {
            space.take_inode(0).unwrap();
        }
        assert_eq!(space.take_inode(0), Err(Full));
        let one = InodePlace {
            group: 1,
            index: 77,
        };
        space.free_inode(one);
        assert_eq!(space.take_inode(0), Ok(one));
        assert!(one.block() < space.bitmap_block(2) && one.block() > space.bitmap_block(1));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_noticed() {
        let mut space = space();
        let at = space.take_frags(2, 0).unwrap();
        space.free_frags(at, 2);
        space.free_frags(at, 2);
    }
}
