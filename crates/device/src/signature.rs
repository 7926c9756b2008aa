//! Recognises foreign signatures on a file or disk before we overwrite it.
//!
//! A new store overwrites the first bytes of a disk, and a mistyped letter names another disk. So the first and the
//! last mebibyte are searched for the signatures of file systems, volume managers, encryption, arrays and partition
//! tables; one is enough to refuse. A signature of two bytes counts only if the fields around it make sense, since a
//! wiped disk may be full of random bytes.
//!
//! The search ends at our own superblock. After it come cached objects, and their content must not be able to make
//! the store unusable. Only the unused bytes between the two copies of the superblock are still searched, since an
//! array made of the disk later leaves its signature there.
//!
//! Not known here: files, devices, and of our own format all but the first eight bytes.
//!
//! Limits: signatures after the first mebibyte are not found: VMFS (but it lies in a partition, which is found) and
//! the mirrors of btrfs and LUKS2. The names are for people, not for parsing.
//!
//! Sources: the format documents of each; the list and the places were compared with util-linux's
//! `libblkid/src/superblocks`.

/// How many bytes at each end are searched.
pub const SPAN_BYTES: usize = 1 << 20;

/// How a store begins, see `docs/format.md`.
const OURS: &[u8] = b"\x89LOLIGO\n";
/// The bytes between the two copies of our superblock are not ours.
const OURS_FREE: std::ops::Range<u64> = 4096..32_768;

/// A foreign signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is, with its article: `an ext4 file system`.
    pub name: &'static str,
    /// The position of the signature, in bytes.
    pub at: u64,
}

/// Signatures at a fixed place that are long enough to be believed.
struct Mark(&'static str, u64, &'static [u8]);

const SWAP: &str = "swap space";
const HIBERNATION: &str = "the image of a hibernated system";
const UDF: &str = "a UDF file system";
const ISO: &str = "an ISO 9660 file system";
const OCFS2: &str = "an OCFS2 file system";
const REISERFS: &str = "a ReiserFS file system";
const LVM: &str = "an LVM2 physical volume";
const LUKS: &str = "a LUKS encrypted volume";
const GPT: &str = "a GPT partition table";
const MD: &str = "a member of an md array";
const FAT: &str = "a FAT file system";
const ZFS: &str = "a member of a ZFS pool";
const NILFS2: &str = "a NILFS2 file system";
const DRBD: &str = "a DRBD volume";
const STRATIS: &str = "a Stratis pool";
const FIRMWARE_RAID: &str = "a member of a firmware RAID";

#[rustfmt::skip]
const MARKS: &[Mark] = &[
    Mark(LUKS, 0, b"LUKS\xba\xbe"),
    Mark("a BitLocker encrypted volume", 3, b"-FVE-FS-"),
    Mark("a bcache device", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    Mark("a bcachefs file system", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    Mark("a Ceph BlueStore", 0, b"bluestore block device"),
    Mark(STRATIS, 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    Mark(STRATIS, 9 * 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    Mark(HIBERNATION, 0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
    Mark("a VDO volume", 0, b"dmvdo001"),
    Mark("an Oracle ASM disk", 32, b"ORCLDISK"),
    Mark("an XFS file system", 0, b"XFSB"),
    Mark("a btrfs file system", 65_536 + 64, b"_BHRfS_M"),
    Mark("an F2FS file system", 1024, &0xF2F5_2010_u32.to_le_bytes()),
    Mark("an NTFS file system", 3, b"NTFS    "),
    Mark("an exFAT file system", 3, b"EXFAT   "),
    Mark("an EROFS file system", 1024, &0xE0F5_E1E2_u32.to_le_bytes()),
    Mark("a SquashFS file system", 0, b"hsqs"),
    Mark("a SquashFS file system", 0, b"sqsh"),
    Mark("a JFS file system", 32_768, b"JFS1"),
    Mark("a GFS2 file system", 65_536, b"\x01\x16\x19\x70\0\0\0\x01"),
    Mark("an APFS container", 32, b"NXSB"),
    Mark("an HFS+ file system", 1024, b"H+\0\x04"),
    Mark("an HFS+ file system", 1024, b"HX\0\x05"),
    Mark("a qcow2 disk image", 0, b"QFI\xfb"),
    Mark("a VHDX disk image", 0, b"vhdxfile"),
    Mark(REISERFS, 65_536 + 52, b"ReIsErFs"),
    Mark(REISERFS, 65_536 + 52, b"ReIsEr2Fs"),
    Mark(REISERFS, 65_536 + 52, b"ReIsEr3Fs"),
    Mark(REISERFS, 65_536, b"ReIsEr4"),
    Mark(REISERFS, 8192 + 52, b"ReIsErFs"),
    Mark(REISERFS, 8192 + 20, b"ReIsErFs"),
    Mark("an OCFS file system", 8192, b"OracleCFS"),
    // The second block, of whatever size.
    Mark(OCFS2, 2 * 512, b"OCFSV2"),
    Mark(OCFS2, 2 * 1024, b"OCFSV2"),
    Mark(OCFS2, 2 * 2048, b"OCFSV2"),
    Mark(OCFS2, 2 * 4096, b"OCFSV2"),
    // A label in one of the first four sectors.
    Mark(LVM, 0, b"LABELONE"),
    Mark(LVM, 512, b"LABELONE"),
    Mark(LVM, 2 * 512, b"LABELONE"),
    Mark(LVM, 3 * 512, b"LABELONE"),
    // Array version 1: magic and major version.
    Mark(MD, 0, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    Mark(MD, 4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    Mark(GPT, 512, b"EFI PART"),
    Mark(GPT, 4096, b"EFI PART"),
];

/// Any of these bytes at a fixed place before the end.
type EndMark = (&'static str, Option<u64>, &'static [&'static [u8]]);

/// Versions 8.0 to 8.3, 8.4 not stopped in order, and 9.
const DRBD_MAGICS: &[&[u8]] = &[
    b"\x83\x74\x02\x6b",
    b"\x83\x74\x02\x6c",
    b"\x83\x74\x02\x6d",
];

/// The end of a page of 4 to 64 KiB, the first one of a swap space.
#[rustfmt::skip]
const PAGE_ENDS: &[(&str, &[u8; 10])] = &[
    (SWAP, b"SWAPSPACE2"),
    (SWAP, b"SWAP-SPACE"),
    (HIBERNATION, b"S1SUSPEND\0"),
    (HIBERNATION, b"S2SUSPEND\0"),
    (HIBERNATION, b"ULSUSPEND\0"),
    (HIBERNATION, b"LINHIB0001"),
];

/// Looks for a foreign signature. `first` and `last` are the first and last [`SPAN_BYTES`], or fewer; they may
/// overlap.
pub fn foreign(first: &[u8], last: &[u8], size: u64) -> Option<Signature> {
    let disk = Disk { first, last, size };
    if first.starts_with(OURS) {
        return disk.marks(|mark| OURS_FREE.contains(&mark.1));
    }
    disk.marks(|_| true)
        .or_else(|| disk.luks2_copy())
        .or_else(|| disk.ext())
        .or_else(|| disk.nilfs2())
        .or_else(|| disk.optical())
        .or_else(|| disk.swap())
        .or_else(|| disk.zfs())
        .or_else(|| disk.fat())
        .or_else(|| disk.partitions())
        .or_else(|| disk.at_the_end())
}

/// The bytes that were read.
struct Disk<'a> {
    first: &'a [u8],
    last: &'a [u8],
    size: u64,
}

impl Disk<'_> {
    fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        let within = |part: &'_ [u8], begins: u64| {
            let from = usize::try_from(at.checked_sub(begins)?).ok()?;
            (from.checked_add(len)? <= part.len()).then_some(from)
        };
        if let Some(from) = within(self.first, 0) {
            return Some(&self.first[from..from + len]);
        }
        let from = within(self.last, self.size.checked_sub(self.last.len() as u64)?)?;
        Some(&self.last[from..from + len])
    }

    fn has(&self, at: u64, bytes: &[u8]) -> bool {
        self.bytes(at, bytes.len()) == Some(bytes)
    }

    fn u8(&self, at: u64) -> u8 {
        self.bytes(at, 1).map_or(0, |b| b[0])
    }

    fn u16(&self, at: u64) -> u16 {
        self.bytes(at, 2)
            .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
    }

    fn u32(&self, at: u64) -> u32 {
        self.bytes(at, 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn marks(&self, wanted: impl Fn(&Mark) -> bool) -> Option<Signature> {
        let mut marks = MARKS.iter().filter(|mark| wanted(mark));
        let Mark(name, at, _) = marks.find(|Mark(_, at, bytes)| self.has(*at, bytes))?;
        Some(Signature { name, at: *at })
    }

    /// The second header of LUKS2, in case the first is broken: at a power of two from 16 KiB on.
    fn luks2_copy(&self) -> Option<Signature> {
        let mut places = (14..20).map(|shift| 1_u64 << shift);
        let at = places.find(|at| self.has(*at, b"SKUL\xba\xbe"))?;
        Some(Signature { name: LUKS, at })
    }

    /// ext2, ext3, ext4: they differ by the features they use.
    fn ext(&self) -> Option<Signature> {
        const BLOCK: u64 = 1024;
        let at = BLOCK + 56;
        let sensible = self.u32(BLOCK) > 0 // inodes
            && self.u32(BLOCK + 4) > 0 // blocks
            && self.u32(BLOCK + 24) <= 6 // block size, up to 64 KiB
            && self.u32(BLOCK + 76) <= 1; // revision
        if !self.has(at, &[0x53, 0xEF]) || !sensible {
            // A journal of its own has no inodes.
            let journal = self.has(at, &[0x53, 0xEF]) && self.u32(BLOCK + 96) == 0x8;
            return journal.then_some(Signature {
                name: "the journal of an ext4 file system",
                at,
            });
        }
        let (compatible, incompatible, read_only) = (
            self.u32(BLOCK + 92),
            self.u32(BLOCK + 96),
            self.u32(BLOCK + 100),
        );
        // Extents, 64 bit, flexible groups; huge files, group checksums, large directories, checksums.
        let name = if incompatible & 0x2C0 != 0 || read_only & 0x478 != 0 {
            "an ext4 file system"
        } else if incompatible & 0x8 != 0 {
            "the journal of an ext3 file system"
        } else if compatible & 0x4 != 0 {
            "an ext3 file system"
        } else {
            "an ext2 file system"
        };
        Some(Signature { name, at })
    }

    /// NILFS2 has a superblock at 1024 and one in the last whole 4 KiB.
    fn nilfs2(&self) -> Option<Signature> {
        let sensible = |at: &u64| {
            self.u32(*at) == 2 // revision
                && self.has(*at + 6, &[0x34, 0x34])
                && (64..=1024).contains(&self.u16(*at + 8)) // bytes
                && self.u32(*at + 20) <= 6 // block size, up to 64 KiB
        };
        // The kernel counts from the last whole 4 KiB, libblkid from the last sector.
        let backups = [self.before_end(4096, 4096), self.before_end(4096, 512)];
        let mut places = backups.into_iter().flatten().chain([1024]);
        let at = places.find(sensible)?;
        Some(Signature {
            name: NILFS2,
            at: at + 6,
        })
    }

    /// The volume descriptors of optical media. A disk may have both kinds; then UDF, the newer one, counts.
    fn optical(&self) -> Option<Signature> {
        const DESCRIPTORS: u64 = 32_768;
        const MAX: u64 = 64;
        let of = |name, marks: &[&[u8]]| {
            (0..MAX)
                .map(|n| DESCRIPTORS + n * 2048 + 1)
                .find(|at| marks.iter().any(|mark| self.has(*at, mark)))
                .map(|at| Signature { name, at })
        };
        of(UDF, &[b"NSR02", b"NSR03"]).or_else(|| of(ISO, &[b"CD001"]))
    }

    fn swap(&self) -> Option<Signature> {
        let pages = (12..=16).map(|shift| (1_u64 << shift) - 10);
        pages
            .flat_map(|at| PAGE_ENDS.iter().map(move |(name, mark)| (at, name, mark)))
            .find(|(at, _, mark)| self.has(*at, mark.as_slice()))
            .map(|(at, name, _)| Signature { name, at })
    }

    /// Four labels, two at each end; in each a ring of "uberblocks", of either byte order.
    fn zfs(&self) -> Option<Signature> {
        const LABEL: u64 = 256 << 10;
        const MAGIC: u64 = 0x00BA_B10C;
        let whole = self.size - self.size % LABEL;
        [
            Some(0),
            Some(LABEL),
            whole.checked_sub(2 * LABEL),
            whole.checked_sub(LABEL),
        ]
        .into_iter()
        .flatten()
        .flat_map(|label| (128..256).map(move |n| label + n * 1024))
        .find(|at| self.has(*at, &MAGIC.to_le_bytes()) || self.has(*at, &MAGIC.to_be_bytes()))
        .map(|at| Signature { name: ZFS, at })
    }

    /// A boot sector that says FAT, or that describes one.
    fn fat(&self) -> Option<Signature> {
        if !self.has(510, &[0x55, 0xAA]) {
            return None;
        }
        let named = |at: u64| {
            [&b"FAT12   "[..], b"FAT16   ", b"FAT32   ", b"FAT     "]
                .iter()
                .any(|name| self.has(at, name))
        };
        if let Some(at) = [54, 82].into_iter().find(|at| named(*at)) {
            return Some(Signature { name: FAT, at });
        }
        let described = matches!(self.u8(0), 0xEB | 0xE9) // a jump
            && matches!(self.u16(11), 512 | 1024 | 2048 | 4096) // bytes a sector
            && self.u8(13).is_power_of_two() // sectors a cluster
            && self.u16(14) > 0 // reserved sectors
            && matches!(self.u8(16), 1 | 2) // tables
            && self.u8(21) >= 0xF0; // media
        described.then_some(Signature { name: FAT, at: 0 })
    }

    /// An MBR with at least one entry in use, and all four in order.
    fn partitions(&self) -> Option<Signature> {
        let entries = [446, 462, 478, 494];
        let used = |at: &u64| self.u8(*at + 4) != 0 && self.u32(*at + 12) != 0;
        let sensible = self.has(510, &[0x55, 0xAA])
            && entries.iter().all(|at| matches!(self.u8(*at), 0 | 0x80))
            && entries.iter().any(used);
        sensible.then_some(Signature {
            name: "an MBR partition table",
            at: 510,
        })
    }

    /// The position `bytes` before the end, where the end is rounded down to a whole `grain`.
    fn before_end(&self, bytes: u64, grain: u64) -> Option<u64> {
        (self.size - self.size % grain).checked_sub(bytes)
    }

    /// Signatures at the end.
    fn at_the_end(&self) -> Option<Signature> {
        const SECTOR: u64 = 512;
        const PAGE: u64 = 4096;
        const DDF: &[&[u8]] = &[b"\xde\x11\xde\x11", b"\x11\xde\x11\xde"];
        #[rustfmt::skip]
        let marks: [EndMark; 9] = [
            (MD, self.before_end(2 * PAGE, PAGE), &[b"\xfc\x4e\x2b\xa9\x01\0\0\0"]),
            // Version 0.90, of either byte order.
            (MD, self.before_end(65_536, 65_536), &[b"\xfc\x4e\x2b\xa9\0\0\0\0", b"\xa9\x2b\x4e\xfc\0\0\0\0"]),
            (GPT, self.before_end(SECTOR, SECTOR), &[b"EFI PART"]),
            (GPT, self.before_end(PAGE, PAGE), &[b"EFI PART"]),
            (DRBD, self.before_end(PAGE, PAGE).map(|at| at + 60), DRBD_MAGICS),
            (DRBD, self.before_end(PAGE, SECTOR).map(|at| at + 60), DRBD_MAGICS),
            (FIRMWARE_RAID, self.before_end(2 * SECTOR, SECTOR), &[b"Intel Raid ISM Cfg Sig. "]),
            (FIRMWARE_RAID, self.before_end(SECTOR, SECTOR), DDF),
            (FIRMWARE_RAID, self.before_end(257 * SECTOR, SECTOR), DDF),
        ];
        marks.into_iter().find_map(|(name, at, marks)| {
            let at = at?;
            let there = marks.iter().any(|mark| self.has(at, mark));
            there.then_some(Signature { name, at })
        })
    }
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
