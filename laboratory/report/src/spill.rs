//! Stores records by time, on disk if needed, to be read slot by slot.
//!
//! Records come in the order in which requests ended, with batches of several workers mixed, and several files may follow each other.
//! So each record is put into the bucket of its instant. When the buckets hold more than [`BUFFER_BYTES`], all are appended to one
//! temporary file, and only their positions in it stay in memory. The length of the source is not known in advance: a bucket first
//! covers one second, and when there would be more than [`BUCKETS_MAX`], pairs of buckets are merged.
//!
//! The file is unlinked as soon as it is open, so nothing of it remains when the program ends, even by a crash.
//!
//! Not known here: the content of records, beyond an instant and bytes.   Limits: memory is [`BUFFER_BYTES`], and 16 bytes for each
//! mebibyte of the file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes in memory of all buckets together.
const BUFFER_BYTES: usize = 32 << 20;
/// A bucket longer than this is written.
const BUCKET_BYTES: usize = 1 << 20;
/// Most buckets.
const BUCKETS_MAX: usize = 2048;
const SECOND_US: u64 = 1_000_000;
/// Bytes of the length in front of each record.
const LENGTH_BYTES: usize = 2;

/// A temporary file cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {source}; a report needs room for temporary files: name another directory with TMPDIR",
    directory.display()
)]
pub struct SpillError {
    /// The directory of the file.
    pub directory: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// A temporary file to which pieces are appended.
pub(crate) struct Scratch {
    directory: PathBuf,
    file: Option<File>,
    length: u64,
}

/// A piece of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    at: u64,
    bytes: usize,
}

impl Scratch {
    /// The file is created in that directory, once there is something to write.
    pub(crate) fn new(directory: &Path) -> Self {
        Scratch {
            directory: directory.to_owned(),
            file: None,
            length: 0,
        }
    }

    /// Appends a piece.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Piece, SpillError> {
        let written = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => unnamed(&self.directory).and_then(|file| {
                self.file = Some(file);
                self.file.as_mut().expect("just set").write_all(bytes)
            }),
        };
        written.map_err(|source| self.failed(source))?;
        let piece = Piece {
            at: self.length,
            bytes: bytes.len(),
        };
        self.length += bytes.len() as u64;
        Ok(piece)
    }

    /// Reads a piece.
    pub(crate) fn read(&self, piece: Piece, into: &mut Vec<u8>) -> Result<(), SpillError> {
        let file = self.file.as_ref().expect("a piece was written");
        into.resize(piece.bytes, 0);
        file.read_exact_at(into, piece.at)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> SpillError {
        SpillError {
            directory: self.directory.clone(),
            source,
        }
    }
}

/// Creates a file that only this program can open.
fn unnamed(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("loligo-report-{}-{number}", std::process::id()));
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path);
        match opened {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
    }
}

#[derive(Default)]
struct Bucket {
    written: Vec<Piece>,
    buffer: Vec<u8>,
}

/// Records by their instants.
pub(crate) struct Spill {
    scratch: Scratch,
    /// Length of a bucket: a power of two of seconds.
    bucket_us: u64,
    buckets: BTreeMap<u64, Bucket>,
    buffered: usize,
}

impl Spill {
    /// Empty; the file will be in that directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Spill {
            scratch: Scratch::new(directory),
            bucket_us: SECOND_US,
            buckets: BTreeMap::new(),
            buffered: 0,
        }
    }

    /// Stores the bytes that `write` appends, at most 64 KiB.
    pub(crate) fn put(
        &mut self,
        at_unix_us: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SpillError> {
        let bucket = self.buckets.entry(at_unix_us / self.bucket_us).or_default();
        let begin = bucket.buffer.len();
        bucket.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut bucket.buffer);
        let length = bucket.buffer.len() - begin - LENGTH_BYTES;
        let length = u16::try_from(length).expect("a record fits");
        bucket.buffer[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.buffered += bucket.buffer.len() - begin;
        if bucket.buffer.len() >= BUCKET_BYTES {
            // Taken instead of cleared: a cleared buffer would keep memory that is not counted.
            let full = std::mem::take(&mut bucket.buffer);
            self.buffered -= full.len();
            bucket.written.push(self.scratch.append(&full)?);
        } else if self.buffered >= BUFFER_BYTES {
            self.flush()?;
        }
        while self.buckets.len() > BUCKETS_MAX {
            self.coarsen();
        }
        Ok(())
    }

    /// Writes everything that is in memory.
    pub(crate) fn flush(&mut self) -> Result<(), SpillError> {
        for bucket in self.buckets.values_mut() {
            let buffer = std::mem::take(&mut bucket.buffer);
            if !buffer.is_empty() {
                bucket.written.push(self.scratch.append(&buffer)?);
            }
        }
        self.buffered = 0;
        Ok(())
    }

    /// Merges pairs of buckets.
    fn coarsen(&mut self) {
        self.bucket_us *= 2;
        for (number, mut bucket) in std::mem::take(&mut self.buckets) {
            let into = self.buckets.entry(number / 2).or_default();
            into.written.append(&mut bucket.written);
            into.buffer.append(&mut bucket.buffer);
        }
    }

    /// Calls `take` with every record whose bucket touches `from..to`. This includes some records from before and after.
    pub(crate) fn touching(
        &self,
        from_unix_us: u64,
        to_unix_us: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), SpillError> {
        let (first, last) = (
            from_unix_us / self.bucket_us,
            to_unix_us.saturating_sub(1) / self.bucket_us,
        );
        let mut read = Vec::new();
        for (_, bucket) in self.buckets.range(first..=last.max(first)) {
            for piece in &bucket.written {
                self.scratch.read(*piece, &mut read)?;
                each(&read, &mut take);
            }
            each(&bucket.buffer, &mut take);
        }
        Ok(())
    }
}

fn each(mut bytes: &[u8], take: &mut impl FnMut(&[u8])) {
    while let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() {
        let (thing, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
        take(thing);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(spill: &mut Spill, at: u64) {
        spill
            .put(at, |out| out.extend_from_slice(&at.to_le_bytes()))
            .unwrap();
    }

    fn all_of(spill: &Spill, from: u64, to: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let take = |thing: &[u8]| found.push(u64::from_le_bytes(thing.try_into().unwrap()));
        spill.touching(from, to, take).unwrap();
        found.retain(|at| (from..to).contains(at));
        found.sort();
        found
    }

    proptest! {
        #[test]
        fn what_was_put_away_is_found_by_its_time(
            times in proptest::collection::vec(any::<u32>(), 0..300),
            flush in 0..300usize,
            (a, b) in (any::<u32>(), any::<u32>()),
        ) {
            let mut spill = Spill::new(&std::env::temp_dir());
            for (i, &at) in times.iter().enumerate() {
                put(&mut spill, u64::from(at) * 1000);
                if i == flush {
                    spill.flush().unwrap();
                }
            }
            let (from, to) = (u64::from(a.min(b)) * 1000, u64::from(a.max(b)) * 1000);
            let mut want: Vec<u64> = times.iter().map(|&at| u64::from(at) * 1000).collect();
            want.retain(|at| (from..to).contains(at));
            want.sort();
            prop_assert_eq!(all_of(&spill, from, to), want);
        }
    }

    #[test]
    fn many_buckets_become_fewer_and_lose_nothing() {
        let mut spill = Spill::new(&std::env::temp_dir());
        let times: Vec<u64> = (0..5000u64).map(|i| i * 60 * SECOND_US).collect();
        times.iter().for_each(|&at| put(&mut spill, at));
        assert!(spill.buckets.len() <= BUCKETS_MAX);
        assert_eq!(all_of(&spill, 0, u64::MAX), times);
    }

    #[test]
    fn memory_is_bounded() {
        let mut spill = Spill::new(&std::env::temp_dir());
        for i in 0..200_000u64 {
            let at = i * 7919 % 1000 * SECOND_US;
            spill.put(at, |out| out.resize(out.len() + 300, 1)).unwrap();
            assert!(spill.buffered < BUFFER_BYTES);
        }
        assert!(spill.scratch.length > 20 << 20);
        let mut count = 0;
        spill.touching(0, u64::MAX, |_| count += 1).unwrap();
        assert_eq!(count, 200_000);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let mut spill = Spill::new(Path::new("/nowhere/at/all"));
        put(&mut spill, 1);
        let error = spill.flush().unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("TMPDIR"));
    }
}
