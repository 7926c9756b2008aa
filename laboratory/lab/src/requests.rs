//! Requests in order, in any number: up to [`MEMORY_MAX`] are kept in memory, more in an unnamed file.
//!
//! Not known here: the meaning of the requests.
//! Limits: [`MEMORY_MAX`] requests in memory; beyond that all of them go to a file in `$TMPDIR`, else `/var/tmp`. The file is gone
//! when its last reader is dropped.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::{Access, DiskOp, DiskRequest};

/// Most requests kept in memory: 64 to 96 MiB.
pub const MEMORY_MAX: usize = 4 << 20;
/// Records read with one call.
const READ_RECORDS: usize = 8192;

/// A request that can be written to a file.
pub trait Record: Copy {
    /// Bytes of one packed request.
    const BYTES: usize;

    /// Writes the request into `bytes`, which are [`Record::BYTES`] long.
    fn pack(&self, bytes: &mut [u8]);

    /// Reads a request that [`Record::pack`] wrote.
    fn unpack(bytes: &[u8]) -> Self;
}

/// Requests in order; any number of readers at a time.
#[derive(Debug)]
pub struct Requests<R> {
    kept: Kept<R>,
    len: usize,
}

#[derive(Debug)]
enum Kept<R> {
    Memory(Vec<R>),
    File(File),
}

impl<R> From<Vec<R>> for Requests<R> {
    fn from(requests: Vec<R>) -> Requests<R> {
        Requests {
            len: requests.len(),
            kept: Kept::Memory(requests),
        }
    }
}

impl<R: Record> Requests<R> {
    /// The number of requests.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the file that holds the requests; `None` if they are in memory.
    pub fn file_bytes(&self) -> Option<u64> {
        match self.kept {
            Kept::Memory(_) => None,
            Kept::File(_) => Some((self.len * R::BYTES) as u64),
        }
    }

    /// All requests in order. A read error of the file is returned and ends the iteration.
    pub fn iter(&self) -> Iter<'_, R> {
        Iter {
            requests: self,
            at: 0,
            part: Vec::new(),
        }
    }

    /// Calls `take` with each request in order; stops at the first error.
    pub fn each(&self, mut take: impl FnMut(R) -> io::Result<()>) -> io::Result<()> {
        self.iter().try_for_each(|request| take(request?))
    }
}

/// Requests, one after the other.
#[derive(Debug)]
pub struct Iter<'a, R> {
    requests: &'a Requests<R>,
    at: usize,
    /// The records last read from the file; `at % READ_RECORDS` is the next one.
    part: Vec<u8>,
}

impl<R: Record> Iterator for Iter<'_, R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        let at = self.at;
        if at == self.requests.len {
            return None;
        }
        let file = match &self.requests.kept {
            Kept::Memory(requests) => {
                self.at += 1;
                return Some(Ok(requests[at]));
            }
            Kept::File(file) => file,
        };
        let within = at % READ_RECORDS;
        if within == 0 {
            let records = READ_RECORDS.min(self.requests.len - at);
            self.part.resize(records * R::BYTES, 0);
            if let Err(e) = file.read_exact_at(&mut self.part, (at * R::BYTES) as u64) {
                self.at = self.requests.len;
                return Some(Err(e));
            }
        }
        self.at += 1;
        Some(Ok(R::unpack(&self.part[within * R::BYTES..][..R::BYTES])))
    }
}

/// Collects requests, to become [`Requests`].
#[derive(Debug)]
pub struct Gathering<R> {
    few: Vec<R>,
    many: Option<BufWriter<File>>,
    len: usize,
    memory_max: usize,
}

impl<R: Record> Default for Gathering<R> {
    fn default() -> Gathering<R> {
        Gathering::with(MEMORY_MAX)
    }
}

impl<R: Record> Gathering<R> {
    /// An empty collection that keeps at most `memory_max` requests in memory.
    fn with(memory_max: usize) -> Gathering<R> {
        Gathering {
            few: Vec::new(),
            many: None,
            len: 0,
            memory_max,
        }
    }

    /// The number of requests so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no requests yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a request.
    pub fn add(&mut self, request: R) -> io::Result<()> {
        if self.many.is_none() && self.few.len() == self.memory_max {
            let mut out = BufWriter::new(nameless_file()?);
            for request in std::mem::take(&mut self.few) {
                write(&mut out, request)?;
            }
            self.many = Some(out);
        }
        match &mut self.many {
            Some(out) => write(out, request)?,
            None => self.few.push(request),
        }
        self.len += 1;
        Ok(())
    }

    /// Ends the collection; the requests can now be read.
    pub fn finish(self) -> io::Result<Requests<R>> {
        let kept = match self.many {
            Some(out) => Kept::File(out.into_inner().map_err(io::IntoInnerError::into_error)?),
            None => Kept::Memory(self.few),
        };
        Ok(Requests {
            kept,
            len: self.len,
        })
    }
}

/// The directory for files of requests. Not `/tmp`, which is often in memory.
pub fn waiting_dir() -> PathBuf {
    let dir = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    PathBuf::from(dir)
}

fn nameless_file() -> io::Result<File> {
    let dir = waiting_dir();
    tempfile::tempfile_in(&dir).map_err(|e| {
        let dir = dir.display();
        io::Error::new(
            e.kind(),
            format!("{dir}: {e}; TMPDIR names another directory"),
        )
    })
}

fn write<R: Record>(out: &mut impl io::Write, request: R) -> io::Result<()> {
    let mut record = [0; RECORD_BYTES_MAX];
    request.pack(&mut record[..R::BYTES]);
    out.write_all(&record[..R::BYTES])
}

const RECORD_BYTES_MAX: usize = 20;

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Record for DiskRequest {
    const BYTES: usize = 13;

    fn pack(&self, bytes: &mut [u8]) {
        bytes[0] = match self.op {
            DiskOp::Read => 0,
            DiskOp::Write => 1,
            DiskOp::Delete => 2,
        };
        bytes[1..5].copy_from_slice(&self.object.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.server.to_le_bytes());
        bytes[9..].copy_from_slice(&self.size_bytes.to_le_bytes());
    }

    fn unpack(bytes: &[u8]) -> DiskRequest {
        DiskRequest {
            op: match bytes[0] {
                0 => DiskOp::Read,
                1 => DiskOp::Write,
                _ => DiskOp::Delete,
            },
            object: number(bytes, 1),
            server: number(bytes, 5),
            size_bytes: number(bytes, 9),
        }
    }
}

impl Record for Access {
    const BYTES: usize = 20;

    fn pack(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.at_ms.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.object.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.server.to_le_bytes());
        bytes[16..].copy_from_slice(&self.size_bytes.to_le_bytes());
    }

    fn unpack(bytes: &[u8]) -> Access {
        Access {
            at_ms: u64::from(number(bytes, 0)) | u64::from(number(bytes, 4)) << 32,
            object: number(bytes, 8),
            server: number(bytes, 12),
            size_bytes: number(bytes, 16),
        }
    }
}

const _: () = assert!(DiskRequest::BYTES <= RECORD_BYTES_MAX && Access::BYTES <= RECORD_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests come back unchanged from memory and from a file.
    fn check<R: Record + PartialEq>(all: &[R]) {
        for memory_max in [1000, all.len()] {
            let mut gathering = Gathering::with(memory_max);
            all.iter().for_each(|&r| gathering.add(r).unwrap());
            let requests = gathering.finish().unwrap();
            let in_file = (memory_max < all.len()).then_some((all.len() * R::BYTES) as u64);
            assert_eq!(
                (requests.file_bytes(), requests.len()),
                (in_file, all.len())
            );
            let mut back = Vec::new();
            let take = |request| {
                back.push(request);
                Ok(())
            };
            requests.each(take).unwrap();
            assert!(back == all);
        }
    }

    #[test]
    fn many_come_back_from_a_file_as_they_were() {
        let ops = [DiskOp::Write, DiskOp::Read, DiskOp::Delete];
        let numbers = 0..3 * READ_RECORDS as u32 + 7;
        let disk = numbers.clone().map(|n| DiskRequest {
            op: ops[n as usize % 3],
            object: n,
            server: n.wrapping_mul(2_654_435_761),
            size_bytes: u32::MAX - n,
        });
        check(&disk.collect::<Vec<_>>());
        let clients = numbers.map(|n| Access {
            at_ms: u64::from(n) * 123_456_789_012,
            object: n,
            server: n.wrapping_mul(2_654_435_761),
            size_bytes: u32::MAX - n,
        });
        check(&clients.collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_was_cut_is_an_error_and_the_end() {
        let access = Access {
            at_ms: 1,
            object: 2,
            server: 3,
            size_bytes: 4,
        };
        let mut gathering = Gathering::with(0);
        (0..10).for_each(|_| gathering.add(access).unwrap());
        let requests = gathering.finish().unwrap();
        let Kept::File(file) = &requests.kept else {
            panic!("in memory");
        };
        file.set_len(50).unwrap();
        let found: Vec<_> = requests.iter().collect();
        assert!(matches!(&found[..], [Err(e)] if e.kind() == io::ErrorKind::UnexpectedEof));
        assert!(requests.each(|_| Ok(())).is_err());
    }
}
