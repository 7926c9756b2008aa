//! Every mark is built by hand, from the format documents and not from the table it is looked up in.

use proptest::prelude::*;

use super::*;

const SIZE: u64 = 64 << 20;
const KIB: u64 = 1024;

/// A disk of zeros with some bytes put on it.
struct Made {
    first: Vec<u8>,
    last: Vec<u8>,
    size: u64,
}

impl Made {
    fn of(size: u64) -> Self {
        let span = size.min(SPAN_BYTES as u64) as usize;
        Self {
            first: vec![0; span],
            last: vec![0; span],
            size,
        }
    }

    fn put(mut self, at: u64, bytes: &[u8]) -> Self {
        let last_at = self.size - self.last.len() as u64;
        for (n, byte) in (at..).zip(bytes) {
            if let Some(to) = self.first.get_mut(n as usize) {
                *to = *byte;
            }
            if let Some(to) = n
                .checked_sub(last_at)
                .and_then(|n| self.last.get_mut(n as usize))
            {
                *to = *byte;
            }
        }
        self
    }

    fn seen(&self) -> Option<(&'static str, u64)> {
        foreign(&self.first, &self.last, self.size).map(|found| (found.name, found.at))
    }
}

fn check(name: &'static str, at: u64, parts: &[(u64, &[u8])]) {
    let made = parts
        .iter()
        .fold(Made::of(SIZE), |made, (at, bytes)| made.put(*at, bytes));
    assert_eq!(made.seen(), Some((name, at)));
}

#[test]
fn file_systems_with_a_mark_of_their_own() {
    check("an XFS file system", 0, &[(0, b"XFSB\0\0\x10\0")]);
    check("a btrfs file system", 65_600, &[(65_600, b"_BHRfS_M")]);
    check("an F2FS file system", 1024, &[(1024, b"\x10\x20\xf5\xf2")]);
    check(
        "an NTFS file system",
        3,
        &[(0, b"\xeb\x52\x90NTFS    "), (510, b"\x55\xaa")],
    );
    check(
        "an exFAT file system",
        3,
        &[(0, b"\xeb\x76\x90EXFAT   "), (510, b"\x55\xaa")],
    );
    check("an EROFS file system", 1024, &[(1024, b"\xe2\xe1\xf5\xe0")]);
    check("a SquashFS file system", 0, &[(0, b"hsqs")]);
    check("a JFS file system", 32_768, &[(32_768, b"JFS1\x01\0\0\0")]);
    check(
        "a GFS2 file system",
        65_536,
        &[(65_536, b"\x01\x16\x19\x70\0\0\0\x01")],
    );
    check("an APFS container", 32, &[(32, b"NXSB")]);
    check("an HFS+ file system", 1024, &[(1024, b"H+\0\x04")]);
    check("a ReiserFS file system", 65_588, &[(65_588, b"ReIsEr2Fs")]);
    check("a ReiserFS file system", 65_588, &[(65_588, b"ReIsErFs")]);
    check("a ReiserFS file system", 65_536, &[(65_536, b"ReIsEr4")]);
    for at in [1024, 2048, 4096, 8192] {
        check("an OCFS2 file system", at, &[(at, b"OCFSV2")]);
    }
}

#[test]
fn the_ext_family_by_its_features() {
    let ext = |name, features: &[u8; 12]| {
        let (counts, revision) = ([1, 0, 0, 0, 1, 0, 0, 0], [1, 0, 0, 0]);
        let parts: &[(u64, &[u8])] = &[
            (1024, &counts),
            (1080, b"\x53\xef"),
            (1100, &revision),
            (1116, features),
        ];
        check(name, 1080, parts);
    };
    ext(
        "an ext2 file system",
        &[0x38, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
    );
    ext(
        "an ext3 file system",
        &[0x3c, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
    );
    ext(
        "an ext4 file system",
        &[0x3c, 0, 0, 0, 0xc2, 2, 0, 0, 0x6b, 4, 0, 0],
    );
    ext(
        "the journal of an ext3 file system",
        &[0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
    );
    check(
        "the journal of an ext4 file system",
        1080,
        &[(1080, b"\x53\xef"), (1120, b"\x08\0\0\0")],
    );
}

#[test]
fn nilfs2_at_both_ends() {
    let superblock = |at| {
        let fields: [(u64, &[u8]); 3] = [
            (at, b"\x02\0\0\0\0\0\x34\x34"),
            (at + 8, b"\x18\x01"),
            (at + 20, b"\x02\0\0\0"),
        ];
        check("a NILFS2 file system", at + 6, &fields);
    };
    superblock(1024);
    superblock(SIZE - 4096);
}

#[test]
fn optical_media_in_one_of_their_descriptors() {
    check("an ISO 9660 file system", 32_769, &[(32_769, b"CD001")]);
    check(
        "a UDF file system",
        32_769 + 2 * 2048,
        &[
            (32_769, b"CD001"),
            (32_769 + 2048, b"BEA01"),
            (32_769 + 4096, b"NSR03"),
        ],
    );
}

#[test]
fn swap_and_sleep_at_the_end_of_a_page_of_any_size() {
    for page in [4, 8, 16, 32, 64].map(|kib| kib * KIB) {
        check("swap space", page - 10, &[(page - 10, b"SWAPSPACE2")]);
    }
    check("swap space", 4086, &[(4086, b"SWAP-SPACE")]);
    check(
        "the image of a hibernated system",
        4086,
        &[(4086, b"S1SUSPEND\0")],
    );
}

#[test]
fn volumes_arrays_and_encryption() {
    check("a LUKS encrypted volume", 0, &[(0, b"LUKS\xba\xbe\0\x01")]);
    check(
        "a LUKS encrypted volume",
        16 * KIB,
        &[(16 * KIB, b"SKUL\xba\xbe\0\x02")],
    );
    check(
        "a LUKS encrypted volume",
        512 * KIB,
        &[(512 * KIB, b"SKUL\xba\xbe\0\x02")],
    );
    check(
        "a BitLocker encrypted volume",
        3,
        &[(0, b"\xeb\x58\x90-FVE-FS-"), (510, b"\x55\xaa")],
    );
    for sector in 0..4 {
        let at = sector * 512;
        check(
            "an LVM2 physical volume",
            at,
            &[(at, b"LABELONE"), (at + 24, b"LVM2 001")],
        );
    }
    for at in [0, 4096, SIZE - 8192] {
        check(
            "a member of an md array",
            at,
            &[(at, b"\xfc\x4e\x2b\xa9\x01\0\0\0")],
        );
    }
    let last_64_kib = SIZE - 64 * KIB;
    check(
        "a member of an md array",
        last_64_kib,
        &[(last_64_kib, b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a")],
    );
    check(
        "a member of an md array",
        last_64_kib,
        &[(last_64_kib, b"\xa9\x2b\x4e\xfc\0\0\0\0")],
    );
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    check("a bcache device", 4120, &[(4120, bcache)]);
    check("a Ceph BlueStore", 0, &[(0, b"bluestore block device\n")]);
    check(
        "a Stratis pool",
        516,
        &[(516, b"!Stra0tis\x86\xff\x02^\x41rh")],
    );
    check(
        "a DRBD volume",
        SIZE - 4036,
        &[(SIZE - 4036, b"\x83\x74\x02\x6d")],
    );
    check(
        "a member of a firmware RAID",
        SIZE - 1024,
        &[(SIZE - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00")],
    );
    check(
        "a member of a firmware RAID",
        SIZE - 512,
        &[(SIZE - 512, b"\xde\x11\xde\x11")],
    );
}

#[test]
fn a_zfs_pool_in_any_of_its_four_labels_and_both_byte_orders() {
    let (little, big) = (b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c");
    for label in [0, 256, 64 * 1024 - 512, 64 * 1024 - 256] {
        let at = (label + 128) * KIB;
        check("a member of a ZFS pool", at, &[(at, little)]);
        check(
            "a member of a ZFS pool",
            at + 8 * KIB,
            &[(at + 8 * KIB, big)],
        );
    }
}

#[test]
fn fat_by_name_or_by_description_and_not_taken_for_partitions() {
    let boot: (u64, &[u8]) = (510, b"\x55\xaa");
    check(
        "a FAT file system",
        82,
        &[(0, b"\xeb\x58\x90mkfs.fat"), (82, b"FAT32   "), boot],
    );
    check(
        "a FAT file system",
        54,
        &[(0, b"\xeb\x3c\x90"), (54, b"FAT16   "), boot],
    );
    let described = b"\xeb\x3c\x90MSDOS2.0\x00\x02\x04\x01\x00\x02\x00\x02\x00\x00\xf8";
    check("a FAT file system", 0, &[(0, described), boot]);
}

#[test]
fn partition_tables() {
    let entry = b"\x80\x20\x21\0\x83\xfe\xff\xff\0\x08\0\0\0\xf8\x01\0";
    let boot: (u64, &[u8]) = (510, b"\x55\xaa");
    for at in [446, 462, 478, 494] {
        check("an MBR partition table", 510, &[(at, entry), boot]);
    }
    for at in [512, 4096, SIZE - 512, SIZE - 4096] {
        check("a GPT partition table", at, &[(at, b"EFI PART\0\0\x01\0")]);
    }
    // A boot sector without entries, one with nonsense for entries, and entries without the mark.
    assert_eq!(Made::of(SIZE).put(510, b"\x55\xaa").seen(), None);
    let nonsense = Made::of(SIZE)
        .put(446, entry)
        .put(462, b"\x17")
        .put(510, b"\x55\xaa");
    assert_eq!(nonsense.seen(), None);
    assert_eq!(Made::of(SIZE).put(446, entry).seen(), None);
}

#[test]
fn copies_at_other_places() {
    let stratis = b"!Stra0tis\x86\xff\x02^\x41rh";
    check("a Stratis pool", 4612, &[(4612, stratis)]);
    check("an OCFS file system", 8192, &[(8192, b"OracleCFS")]);
    let tuxonice = b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c";
    check("the image of a hibernated system", 0, &[(0, tuxonice)]);
    let ddf = SIZE - 257 * 512;
    check(
        "a member of a firmware RAID",
        ddf,
        &[(ddf, b"\x11\xde\x11\xde")],
    );
}

#[test]
fn disk_images() {
    check("a qcow2 disk image", 0, &[(0, b"QFI\xfb\0\0\0\x03")]);
    check("a VHDX disk image", 0, &[(0, b"vhdxfile")]);
}

#[test]
fn our_own_is_none_whatever_it_holds_but_for_what_was_made_of_it_since() {
    let ours = || Made::of(SIZE).put(0, b"\x89LOLIGO\n");
    assert_eq!(ours().seen(), None);
    let held = ours()
        .put(65_600, b"_BHRfS_M")
        .put(SIZE - 512, b"EFI PART")
        .put(SIZE - 8192, b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    assert_eq!(held.seen(), None);
    let array = ours().put(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    assert_eq!(array.seen(), Some(("a member of an md array", 4096)));
    // The second copy alone does not make it ours: the first was overwritten.
    let lost = Made::of(SIZE).put(32_768, b"\x89LOLIGO\n").put(0, b"XFSB");
    assert_eq!(lost.seen(), Some(("an XFS file system", 0)));
}

#[test]
fn sizes_that_are_not_round() {
    // The backup of a GPT in the last sector, arrays in whole blocks before the end.
    let size = SIZE + 3 * 512;
    assert!(Made::of(size).put(size - 512, b"EFI PART").seen().is_some());
    let md_1_0 = (size / 512 - 16) / 8 * 8 * 512;
    assert!(
        Made::of(size)
            .put(md_1_0, b"\xfc\x4e\x2b\xa9\x01\0\0\0")
            .seen()
            .is_some()
    );
    let md_0_90 = size / 65_536 * 65_536 - 65_536;
    assert!(
        Made::of(size)
            .put(md_0_90, b"\xfc\x4e\x2b\xa9\0\0\0\0")
            .seen()
            .is_some()
    );
    let small = 100 * KIB;
    assert!(
        Made::of(small)
            .put(small - 8192, b"\xfc\x4e\x2b\xa9\x01\0\0\0")
            .seen()
            .is_some()
    );
}

#[test]
fn empty_zero_and_text_are_nobodys() {
    assert_eq!(foreign(&[], &[], 0), None);
    assert_eq!(Made::of(SIZE).seen(), None);
    assert_eq!(Made::of(4096).seen(), None);
    let text = b"a cache is what is left when everything else has been forgotten. ".repeat(20_000);
    assert_eq!(foreign(&text, &text, text.len() as u64), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_are_nobodys(seed in any::<u64>()) {
        let mut state = seed | 1;
        let mut bytes = vec![0; SPAN_BYTES];
        for chunk in bytes.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes());
        }
        // Even if two of its bytes happen to be a boot signature.
        bytes[510..512].copy_from_slice(b"\x55\xaa");
        bytes[446] = 1;
        bytes[1080..1082].copy_from_slice(b"\x53\xef");
        bytes[1048..1052].copy_from_slice(b"\xff\xff\xff\xff");
        bytes[1120] = 0;
        bytes[0] = 0;
        prop_assert_eq!(foreign(&bytes, &bytes, 5 << 30), None);
    }

    #[test]
    fn any_bytes_of_any_length_do_no_harm(
        first in prop::collection::vec(any::<u8>(), 0..9000), last in prop::collection::vec(any::<u8>(), 0..9000),
        size in prop_oneof![0u64..20_000, any::<u64>()],
    ) {
        let _ = foreign(&first, &last, size);
    }
}
