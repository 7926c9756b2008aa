//! The disk requests of a workload, in order: in memory while they are few, else in a file without a name.
//!
//! Not known here: what they ask for.
//! Limits: [`MEMORY_MAX`] requests in memory (16 bytes each); beyond that all of them go to a file of 13 bytes a request in `$TMPDIR`,
//! else `/var/tmp`. The file is gone when the last reader is.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use crate::{DiskOp, DiskRequest};

/// More do not stay in memory: 64 MiB.
pub const MEMORY_MAX: usize = 4 << 20;
const RECORD_BYTES: usize = 13;
/// Records read with one call.
const READ_RECORDS: usize = 8192;

/// Requests in order; any number of readers at a time.
#[derive(Debug)]
pub struct Requests {
    kept: Kept,
    len: usize,
}

#[derive(Debug)]
enum Kept {
    Memory(Vec<DiskRequest>),
    File(File),
}

impl From<Vec<DiskRequest>> for Requests {
    fn from(requests: Vec<DiskRequest>) -> Requests {
        Requests {
            len: requests.len(),
            kept: Kept::Memory(requests),
        }
    }
}

impl Requests {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hands each to `take`, in order, until it fails.
    pub fn each(&self, mut take: impl FnMut(DiskRequest) -> io::Result<()>) -> io::Result<()> {
        match &self.kept {
            Kept::Memory(requests) => requests.iter().copied().try_for_each(take),
            Kept::File(file) => {
                let mut buffer = vec![0; READ_RECORDS * RECORD_BYTES];
                let mut at = 0;
                while at < self.len {
                    let records = READ_RECORDS.min(self.len - at);
                    let bytes = &mut buffer[..records * RECORD_BYTES];
                    file.read_exact_at(bytes, (at * RECORD_BYTES) as u64)?;
                    for record in bytes.chunks_exact(RECORD_BYTES) {
                        take(unpacked(record))?;
                    }
                    at += records;
                }
                Ok(())
            }
        }
    }
}

/// Requests in the making.
#[derive(Debug)]
pub struct Gathering {
    few: Vec<DiskRequest>,
    many: Option<BufWriter<File>>,
    len: usize,
    memory_max: usize,
}

impl Default for Gathering {
    fn default() -> Gathering {
        Gathering::with(MEMORY_MAX)
    }
}

impl Gathering {
    /// None yet; so many stay in memory.
    fn with(memory_max: usize) -> Gathering {
        Gathering {
            few: Vec::new(),
            many: None,
            len: 0,
            memory_max,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more.
    pub fn add(&mut self, request: DiskRequest) -> io::Result<()> {
        if self.many.is_none() && self.few.len() == self.memory_max {
            let mut out = BufWriter::new(nameless_file()?);
            for request in self.few.drain(..) {
                out.write_all(&packed(request))?;
            }
            self.few = Vec::new();
            self.many = Some(out);
        }
        match &mut self.many {
            Some(out) => out.write_all(&packed(request))?,
            None => self.few.push(request),
        }
        self.len += 1;
        Ok(())
    }

    /// That was the last one.
    pub fn finish(self) -> io::Result<Requests> {
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

/// `/tmp` is often memory, which is what these requests are to be kept out of.
fn nameless_file() -> io::Result<File> {
    let dir = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    tempfile::tempfile_in(&dir).map_err(|e| {
        let dir = dir.display();
        io::Error::new(
            e.kind(),
            format!("{dir}: {e}; TMPDIR names another directory"),
        )
    })
}

fn packed(request: DiskRequest) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = match request.op {
        DiskOp::Read => 0,
        DiskOp::Write => 1,
        DiskOp::Delete => 2,
    };
    record[1..5].copy_from_slice(&request.object.to_le_bytes());
    record[5..9].copy_from_slice(&request.server.to_le_bytes());
    record[9..13].copy_from_slice(&request.size_bytes.to_le_bytes());
    record
}

fn unpacked(record: &[u8]) -> DiskRequest {
    let number = |at: usize| {
        let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
        u32::from_le_bytes(bytes)
    };
    DiskRequest {
        op: match record[0] {
            0 => DiskOp::Read,
            1 => DiskOp::Write,
            _ => DiskOp::Delete,
        },
        object: number(1),
        server: number(5),
        size_bytes: number(9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_come_back_from_a_file_as_they_were() {
        let ops = [DiskOp::Write, DiskOp::Read, DiskOp::Delete];
        let all: Vec<DiskRequest> = (0..3 * READ_RECORDS as u32 + 7)
            .map(|n| DiskRequest {
                op: ops[n as usize % 3],
                object: n,
                server: n.wrapping_mul(2_654_435_761),
                size_bytes: u32::MAX - n,
            })
            .collect();
        let gathered = |memory_max| {
            let mut gathering = Gathering::with(memory_max);
            all.iter().for_each(|&r| gathering.add(r).unwrap());
            let requests = gathering.finish().unwrap();
            let in_file = matches!(requests.kept, Kept::File(_));
            let mut back = Vec::new();
            let take = |request| {
                back.push(request);
                Ok(())
            };
            requests.each(take).unwrap();
            assert_eq!((back.len(), requests.len()), (all.len(), all.len()));
            assert!(back == all);
            in_file
        };
        assert!(gathered(1000) && !gathered(all.len()));
    }
}
