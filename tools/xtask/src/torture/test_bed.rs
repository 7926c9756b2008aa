//! The store's place, and the faults applied to it.
//!
//! The store is a file in a directory of our own below the system's temporary one, or a loop device over a
//! file there. The faults:
//!
//!   flip      between a kill and the restart: flips bits in one copy of the superblock, in the other metadata or
//!             in records; in the data area also empties blocks, and swaps blocks
//!   detach    while it runs: the file is made immutable, so that the kernel refuses writes; or it is truncated, so that
//!             reads behind the cut fail and writes there leave holes. On a loop device these become I/O errors
//!   hang      no operation is answered until the fault ends, by the block I/O controller: a byte a second, so that the first
//!             operation would take an hour
//!   throttle  a few operations a second, by the block I/O controller (cgroup v1). Loop devices only: other devices are
//!             not ours to slow down
//!
//! Bits are flipped only in blocks that are not empty; a flip in empty space would test nothing.
//!
//! Everything is undone by guards: attributes, limits, devices, files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rustix::fs::IFlags;

use crate::block::{Limited, Loop};
use crate::chance::Chance;
use crate::failure::{During, Result, fail};
use crate::size::Bytes;

/// Magic bytes of the format (docs/format.md); a store of another format is hit anywhere.
const MAGIC: &[u8] = b"\x89LOLIGO\n";
const SUPERBLOCK_BYTES: u64 = 4096;
const SUPERBLOCKS: [u64; 2] = [0, 32 << 10];
const METADATA_AT: u64 = 64 << 10;
const DATA_AT_FIELD: usize = 136;

const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// Blocks read at a time.
const SPAN_BLOCKS: u64 = 64;
/// Bytes of the data area used as leftovers.
const LEFTOVERS_BYTES: usize = 1 << 20;

/// File or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    File,
    Loop,
}

/// What may be done to a store beside killing its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    Flip,
    Detach,
    Throttle,
    Hang,
}

/// The place of a store.
#[derive(Debug)]
pub struct TestBed {
    /// The path given to the proxy.
    pub store: PathBuf,
    pub bytes: Bytes,
    /// The file: the store itself, or the one under the loop device.
    backing: PathBuf,
    // In this order: the device is detached and its file removed before the directory.
    device: Option<Loop>,
    pub dir: PathBuf,
    _dir: Dir,
}

#[derive(Debug)]
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.0) {
            eprintln!("removing {}: {e}", self.0.display());
        }
    }
}

impl TestBed {
    /// Makes a test bed; `name` is part of the directory's name.
    pub fn make(on: On, bytes: Bytes, name: &str) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("loligo-torture-{name}"));
        fs::create_dir(&dir).during(|| format!("making {}", dir.display()))?;
        let guard = Dir(dir.clone());
        let (store, backing, device) = match on {
            On::File => {
                let store = dir.join("store.loligo");
                (store.clone(), store, None)
            }
            On::Loop => {
                let backing = dir.join("device.img");
                let device = Loop::attach(&backing, bytes)?;
                (device.device.clone(), backing, Some(device))
            }
        };
        Ok(Self {
            store,
            bytes,
            backing,
            device,
            dir,
            _dir: guard,
        })
    }

    /// Whether this fault is possible here; the error says why not.
    pub fn bears(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Flip => Ok(()),
            Fault::Detach => {
                let probe = self.dir.join("probe");
                let file = File::create(&probe).during(|| format!("making {}", probe.display()))?;
                Immutable::make(&file, &probe).map(drop)
            }
            Fault::Throttle => self.throttle().map(drop),
            Fault::Hang => self.hang().map(drop),
        }
    }

    fn open(&self) -> Result<File> {
        File::options()
            .read(true)
            .write(true)
            .open(&self.store)
            .during(|| format!("opening {}", self.store.display()))
    }

    /// Part of the data area, if it has any data.
    pub fn leftovers(&self) -> Option<Vec<u8>> {
        let file = self.open().ok()?;
        let mut bytes = vec![0; LEFTOVERS_BYTES];
        file.read_exact_at(&mut bytes, data_at(&file)?).ok()?;
        Some(bytes)
    }

    /// Damages stored data; returns a description. Only while no proxy runs.
    pub fn flip(&self, chance: &mut Chance) -> Result<String> {
        let file = self.open()?;
        let data_at = data_at(&file).unwrap_or(METADATA_AT);
        let data = (data_at, self.bytes.0);
        let io = || format!("damaging {}", self.store.display());
        let words = match chance.below(4) {
            0 => {
                // Only one of the two copies: without both there is no store, and nothing to test.
                let copy = SUPERBLOCKS[chance.below(2) as usize];
                let n = flip_bits(&file, (copy, copy + SUPERBLOCK_BYTES), 3, chance).during(io)?;
                format!("{n} bits of the superblock at {copy}")
            }
            1 if data_at > METADATA_AT => {
                let n = flip_bits(&file, (METADATA_AT, data_at), 4, chance).during(io)?;
                format!("{n} bits of metadata")
            }
            2 => {
                let n = mix_blocks(&file, data, 40, chance).during(io)?;
                format!("{n} blocks of data")
            }
            _ => {
                let n = flip_bits(&file, data, 200, chance).during(io)?;
                format!("{n} bits of data")
            }
        };
        file.sync_all().during(io)?;
        Ok(words)
    }

    /// Makes the device fail, in one of several ways, until the guard is dropped.
    pub fn detach(&self, chance: &mut Chance) -> Result<Detached> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(&self.backing)
            .during(|| format!("opening {}", self.backing.display()))?;
        let way = chance.below(3);
        let mut words = Vec::new();
        if way != 0 {
            let kept = self.bytes.0 / 4 + chance.below(self.bytes.0 / 2);
            let kept = kept / BLOCK as u64 * BLOCK as u64;
            file.set_len(kept)
                .during(|| format!("cutting {}", self.backing.display()))?;
            words.push(format!("cut to {kept} bytes"));
        }
        let immutable = match way {
            1 => None,
            _ => Some(Immutable::make(&file, &self.backing)?),
        };
        if immutable.is_some() {
            words.push("writes refused".into());
        }
        Ok(Detached {
            words: words.join(", "),
            immutable,
            file,
            bytes: self.bytes,
        })
    }

    /// Makes the device crawl until the guard is dropped.
    pub fn throttle(&self) -> Result<Limited> {
        self.device()?.crawl()
    }

    /// Makes the device hang until the guard is dropped; then it answers all waiting operations.
    pub fn hang(&self) -> Result<Limited> {
        self.device()?.hang()
    }

    fn device(&self) -> Result<&Loop> {
        match &self.device {
            Some(device) => Ok(device),
            None => fail!("only a loop device can be slowed without slowing others"),
        }
    }
}

fn data_at(file: &File) -> Option<u64> {
    let mut head = [0; BLOCK];
    let field = DATA_AT_FIELD..DATA_AT_FIELD + 8;
    SUPERBLOCKS.into_iter().find_map(|copy| {
        file.read_exact_at(&mut head, copy).ok()?;
        let at = u64::from_le_bytes(head[field.clone()].try_into().ok()?);
        (head.starts_with(MAGIC) && at > METADATA_AT && at < 1 << 41).then_some(at)
    })
}

/// The first block that is not empty, from a random place within [from, to) on, with its offset.
fn aim(
    file: &File,
    (from, to): (u64, u64),
    chance: &mut Chance,
) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    let blocks = (to - from) / BLOCK as u64;
    let start = chance.below(blocks.max(1));
    let mut span = vec![0; SPAN_BLOCKS as usize * BLOCK];
    let mut at = start;
    // From the start to the end, then from the beginning to the start.
    for end in [blocks, start] {
        while at < end {
            let n = (end - at).min(SPAN_BLOCKS);
            let span = &mut span[..n as usize * BLOCK];
            file.read_exact_at(span, from + at * BLOCK as u64)?;
            let found = span.chunks(BLOCK).position(|b| b != [0; BLOCK]);
            if let Some(found) = found {
                let place = from + (at + found as u64) * BLOCK as u64;
                return Ok(Some((place, span[found * BLOCK..][..BLOCK].to_vec())));
            }
            at += n;
        }
        at = 0;
    }
    Ok(None)
}

/// Flips up to `max` bits, all in one area; returns how many.
fn flip_bits(file: &File, area: (u64, u64), max: u64, chance: &mut Chance) -> std::io::Result<u64> {
    let wanted = 1 + chance.below(max);
    let mut done = 0;
    while done < wanted {
        let Some((at, mut block)) = aim(file, area, chance)? else {
            break;
        };
        let written: Vec<usize> = (0..BLOCK / SECTOR)
            .filter(|s| block[s * SECTOR..][..SECTOR].iter().any(|b| *b != 0))
            .collect();
        let sector = written[chance.below(written.len() as u64) as usize];
        let byte = sector * SECTOR + chance.below(SECTOR as u64) as usize;
        block[byte] ^= 1 << chance.below(8);
        file.write_all_at(&block, at)?;
        done += 1;
    }
    Ok(done)
}

/// Empties blocks, and swaps blocks; returns how many.
fn mix_blocks(
    file: &File,
    area: (u64, u64),
    max: u64,
    chance: &mut Chance,
) -> std::io::Result<u64> {
    let wanted = 1 + chance.below(max);
    let mut done = 0;
    while done < wanted {
        let (Some((here, one)), Some((there, other))) =
            (aim(file, area, chance)?, aim(file, area, chance)?)
        else {
            break;
        };
        if chance.percent(50) {
            file.write_all_at(&[0; BLOCK], here)?;
            done += 1;
        } else {
            file.write_all_at(&other, here)?;
            file.write_all_at(&one, there)?;
            done += 2;
        }
    }
    Ok(done)
}

/// A device that fails; dropping this repairs it. Data that was cut off is lost.
#[derive(Debug)]
pub struct Detached {
    pub words: String,
    immutable: Option<Immutable>,
    file: File,
    bytes: Bytes,
}

impl Drop for Detached {
    fn drop(&mut self) {
        self.immutable = None;
        if let Err(e) = self.file.set_len(self.bytes.0) {
            eprintln!("giving a store its size back: {e}");
        }
    }
}

/// A file that the kernel refuses to write to, also through descriptors opened before.
#[derive(Debug)]
struct Immutable {
    file: File,
}

impl Immutable {
    fn make(file: &File, path: &Path) -> Result<Self> {
        let file = file
            .try_clone()
            .during(|| "one more descriptor of a store".into())?;
        rustix::fs::ioctl_getflags(&file)
            .and_then(|flags| rustix::fs::ioctl_setflags(&file, flags | IFlags::IMMUTABLE))
            .during(|| format!("making {} immutable", path.display()))?;
        Ok(Self { file })
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let undone = rustix::fs::ioctl_getflags(&self.file).and_then(|flags| {
            rustix::fs::ioctl_setflags(&self.file, flags.difference(IFlags::IMMUTABLE))
        });
        if let Err(e) = undone {
            eprintln!("making a store writable again (chattr -i): {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_done_where_something_is_written() {
        let test_bed = TestBed::make(On::File, Bytes(8 << 20), "test-bed").unwrap();
        let mut content = vec![0; 8 << 20];
        content[5 << 20..(5 << 20) + 9000].fill(7);
        let mut chance = Chance::new(3);
        fs::write(&test_bed.store, &content).unwrap();
        let file = test_bed.open().unwrap();
        let mut damaged = 0;
        for _ in 0..40 {
            test_bed.flip(&mut chance).unwrap();
            let found = fs::read(&test_bed.store).unwrap();
            damaged += u32::from(found != content);
            // Each damage is flushed, so only what differs is written back.
            for at in (0..content.len()).step_by(BLOCK) {
                let whole = &content[at..at + BLOCK];
                if &found[at..at + BLOCK] != whole {
                    file.write_all_at(whole, at as u64).unwrap();
                }
            }
        }
        drop(file);
        assert!(damaged > 10, "{damaged}");
        let dir = test_bed.dir.clone();
        drop(test_bed);
        assert!(!dir.exists());
    }

    #[test]
    fn a_detached_store_gets_its_size_back() {
        let test_bed = TestBed::make(On::File, Bytes(8 << 20), "test-detach").unwrap();
        if test_bed.bears(Fault::Detach).is_err() {
            eprintln!("no file can be made immutable here");
            return;
        }
        fs::write(&test_bed.store, vec![1; 8 << 20]).unwrap();
        let opened = test_bed.open().unwrap();
        let mut refused = 0;
        for seed in 0..6 {
            let detached = test_bed.detach(&mut Chance::new(seed)).unwrap();
            refused += u32::from(opened.write_all_at(b"x", 0).is_err());
            drop(detached);
            opened.write_all_at(b"x", 0).unwrap();
            assert_eq!(fs::metadata(&test_bed.store).unwrap().len(), 8 << 20);
        }
        assert!(refused > 0);
    }

    #[test]
    fn a_hanging_device_answers_when_it_is_over() {
        let test_bed = match TestBed::make(On::Loop, Bytes(8 << 20), "test-hang") {
            Ok(test_bed) if test_bed.bears(Fault::Hang).is_ok() => test_bed,
            _ => {
                eprintln!("no loop device can be held up here");
                return;
            }
        };
        let file = test_bed.open().unwrap();
        let hung = test_bed.hang().unwrap();
        let writing = std::thread::spawn(move || {
            file.write_all_at(&[7; BLOCK], 0)
                .and_then(|()| file.sync_all())
        });
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!writing.is_finished());
        drop(hung);
        writing.join().unwrap().unwrap();
    }
}
