//! Writes a sequence of [`Access`] as CSV, packed if its name ends in `.zst`: `at_ms,object,server,size_bytes`.
//!
//! A packed file is a sequence of frames of [`FRAME_BYTES`], so that memory stays bounded; every zstd decoder reads them as one.
//!
//! Source: our own columns; `csv` beside reads them by name.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::Access;

/// Bytes packed as one frame.
pub const FRAME_BYTES: usize = 4 << 20;

/// Writes into a file, packed or not.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    /// Bytes not yet packed; `None` if the file is not packed.
    frame: Option<Vec<u8>>,
}

impl Writer {
    /// Makes or empties the file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(path: &Path) -> io::Result<Writer> {
        Ok(Writer {
            out: BufWriter::new(File::create(path)?),
            frame: (path.extension().is_some_and(|end| end == "zst")).then(Vec::new),
        })
    }

    /// Writes the remaining bytes. Without this call the file is incomplete.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.pack()?;
        self.out.flush()
    }

    fn pack(&mut self) -> io::Result<()> {
        if let Some(frame) = &mut self.frame {
            let packed = compress_to_vec(&frame[..], CompressionLevel::Fastest);
            frame.clear();
            self.out.write_all(&packed)?;
        }
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(frame) = &mut self.frame else {
            return self.out.write(bytes);
        };
        frame.extend_from_slice(bytes);
        if frame.len() >= FRAME_BYTES {
            self.pack()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes requests after a line that names the columns; returns their number.
///
/// # Errors
/// Errors of `out`.
pub fn write_csv(accesses: impl Iterator<Item = Access>, out: &mut impl Write) -> io::Result<u64> {
    writeln!(out, "at_ms,object,server,size_bytes")?;
    let mut count = 0;
    for access in accesses {
        let Access {
            at_ms,
            object,
            server,
            size_bytes,
        } = access;
        writeln!(out, "{at_ms},{object},{server},{size_bytes}")?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    #[test]
    fn what_is_written_is_read_again() {
        // More than two frames.
        let accesses: Vec<Access> = (0..500_000)
            .map(|n| Access {
                at_ms: u64::from(n) * 7,
                object: n,
                server: n / 100,
                size_bytes: n % 1000,
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        for name in ["t.csv", "t.csv.zst"] {
            let path = dir.path().join(name);
            let mut out = Writer::create(&path).unwrap();
            assert_eq!(
                write_csv(accesses.iter().copied(), &mut out).unwrap(),
                500_000
            );
            out.finish().unwrap();
            let found: Vec<_> = Trace::open(&path, None, None)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(found == accesses, "{name}");
        }
        let size = |name| std::fs::metadata(dir.path().join(name)).unwrap().len();
        assert!(size("t.csv.zst") * 2 < size("t.csv"));
    }
}
