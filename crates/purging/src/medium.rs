//! Storage for the segments of a journal: files in a directory, or memory.
//!
//! A journal in memory lasts as long as its process. It is meant for a front without a store, and for tests.
//!
//! Not known here: the contents. All calls block.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// File names of segments, before the number.
const PREFIX: &str = "purges.";

/// This file exists while the journal is new and objects from before it may still be served.
const DOUBTFUL: &str = "new";

/// File names of drafts, before the number.
const DRAFT: &str = "draft.";

/// The medium: a set of numbered byte sequences.
#[derive(Debug)]
pub enum Medium {
    /// One file for each sequence.
    Files(Files),
    /// In memory of this process.
    Memory(BTreeMap<u64, Vec<u8>>),
}

/// A directory, locked against other processes.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// Holds the lock.
    _lock: File,
    /// The file that is being appended to, with its number.
    last: Option<(u64, File)>,
}

impl Files {
    /// Takes a directory, and creates it if necessary.
    ///
    /// # Errors
    /// It cannot be created or written to, or another process uses it.
    pub fn open(directory: &Path) -> io::Result<Files> {
        fs::create_dir_all(directory)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let lock = options.open(directory.join("lock"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("another process uses it"))?;
        Ok(Files {
            directory: directory.to_owned(),
            _lock: lock,
            last: None,
        })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{PREFIX}{number}"))
    }

    /// Makes creations, renames and removals durable.
    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// A byte sequence in the making. [`Medium::install`] makes it a numbered sequence atomically.
#[derive(Debug)]
pub enum Draft {
    /// A file, with its path and length.
    File(PathBuf, File, u64),
    /// In memory of this process.
    Memory(Vec<u8>),
}

impl Draft {
    /// Appends to it.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Draft::Memory(all) => all.extend(bytes),
            Draft::File(_, file, length) => {
                file.write_all_at(bytes, *length)?;
                *length += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// At most so many bytes from this offset.
    pub fn read(&self, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let left = self.bytes().saturating_sub(offset).min(bytes_max as u64) as usize;
        match self {
            Draft::Memory(all) => Ok(all
                .iter()
                .skip(offset as usize)
                .take(left)
                .copied()
                .collect()),
            Draft::File(_, file, _) => {
                let mut out = vec![0; left];
                file.read_exact_at(&mut out, offset)?;
                Ok(out)
            }
        }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        match self {
            Draft::Memory(all) => all.len() as u64,
            Draft::File(_, _, length) => *length,
        }
    }
}

impl Drop for Draft {
    /// Removes the file. An installed draft has another name by then.
    fn drop(&mut self) {
        if let Draft::File(path, ..) = self {
            let _ = fs::remove_file(path);
        }
    }
}

fn missing() -> io::Error {
    io::Error::from(ErrorKind::NotFound)
}

impl Medium {
    /// The numbers of all sequences, in order.
    pub fn list(&self) -> io::Result<Vec<u64>> {
        let files = match self {
            Medium::Memory(all) => return Ok(all.keys().copied().collect()),
            Medium::Files(files) => files,
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&files.directory)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Was the journal marked as not to be relied on? In memory there is no mark, because nothing outlives the process.
    pub fn is_doubtful(&self) -> io::Result<bool> {
        match self {
            Medium::Memory(_) => Ok(false),
            Medium::Files(files) => files.directory.join(DOUBTFUL).try_exists(),
        }
    }

    /// Sets or removes the mark that the journal is not to be relied on; durably.
    pub fn set_doubtful(&mut self, is_doubtful: bool) -> io::Result<()> {
        let Medium::Files(files) = self else {
            return Ok(());
        };
        let mark = files.directory.join(DOUBTFUL);
        match (is_doubtful, mark.try_exists()?) {
            (true, false) => File::create(mark)?.sync_all()?,
            (false, true) => fs::remove_file(mark)?,
            _ => {}
        }
        files.sync_names()
    }

    /// Begins an empty draft, replacing one of the same number.
    pub fn draft(&self, number: u64) -> io::Result<Draft> {
        let files = match self {
            Medium::Memory(_) => return Ok(Draft::Memory(Vec::new())),
            Medium::Files(files) => files,
        };
        let path = files.directory.join(format!("{DRAFT}{number}"));
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).read(true).write(true);
        let file = options.open(&path)?;
        Ok(Draft::File(path, file, 0))
    }

    /// Turns a draft into the sequence of this number, durably, replacing an existing one.
    pub fn install(&mut self, draft: Draft, number: u64) -> io::Result<()> {
        match (self, &draft) {
            (Medium::Memory(all), Draft::Memory(bytes)) => {
                all.insert(number, bytes.clone());
            }
            (Medium::Files(files), Draft::File(path, file, _)) => {
                file.sync_all()?;
                files.last.take_if(|(last, _)| *last == number);
                fs::rename(path, files.path(number))?;
                files.sync_names()?;
            }
            _ => return Err(missing()),
        }
        Ok(())
    }

    /// Removes drafts left by an earlier process.
    pub fn remove_drafts(&self) -> io::Result<()> {
        let Medium::Files(files) = self else {
            return Ok(());
        };
        for entry in fs::read_dir(&files.directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(DRAFT) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Creates a sequence with these bytes, durably.
    pub fn create(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Medium::Memory(all) => {
                all.insert(number, bytes.to_vec());
            }
            Medium::Files(files) => {
                let mut file = File::create(files.path(number))?;
                file.write_all(bytes)?;
                file.sync_all()?;
                files.sync_names()?;
                files.last = Some((number, file));
            }
        }
        Ok(())
    }

    /// Appends to the sequence that was created last.
    pub fn append(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Medium::Memory(all) => all.get_mut(&number).ok_or_else(missing)?.extend(bytes),
            Medium::Files(files) => {
                let last = files.last.as_mut().filter(|(last, _)| *last == number);
                last.ok_or_else(missing)?.1.write_all(bytes)?;
            }
        }
        Ok(())
    }

    /// Makes the bytes appended to the last created sequence durable.
    pub fn sync(&mut self, number: u64) -> io::Result<()> {
        match self {
            Medium::Memory(_) => Ok(()),
            Medium::Files(files) => {
                let last = files.last.as_ref().filter(|(last, _)| *last == number);
                // Sequences of an earlier start are only read, so there is nothing to flush.
                last.map_or(Ok(()), |(_, file)| file.sync_data())
            }
        }
    }

    /// At most so many bytes of a sequence, from this offset.
    pub fn read(&self, number: u64, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let files = match self {
            Medium::Memory(all) => {
                let all = all.get(&number).ok_or_else(missing)?;
                let rest = all.get(offset as usize..).unwrap_or_default();
                return Ok(rest[..rest.len().min(bytes_max)].to_vec());
            }
            Medium::Files(files) => files,
        };
        let file = File::open(files.path(number))?;
        let left = file.metadata()?.len().saturating_sub(offset);
        let mut out = vec![0; left.min(bytes_max as u64) as usize];
        file.read_exact_at(&mut out, offset)?;
        Ok(out)
    }

    /// Cuts a sequence to this length, durably.
    pub fn cut(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        match self {
            Medium::Memory(all) => {
                let all = all.get_mut(&number).ok_or_else(missing)?;
                all.truncate(bytes as usize);
                Ok(())
            }
            Medium::Files(files) => {
                let file = OpenOptions::new().write(true).open(files.path(number))?;
                file.set_len(bytes)?;
                file.sync_all()
            }
        }
    }

    /// The length of a sequence.
    pub fn bytes(&self, number: u64) -> io::Result<u64> {
        match self {
            Medium::Memory(all) => Ok(all.get(&number).ok_or_else(missing)?.len() as u64),
            Medium::Files(files) => Ok(fs::metadata(files.path(number))?.len()),
        }
    }

    /// Removes a sequence.
    pub fn remove(&mut self, number: u64) -> io::Result<()> {
        match self {
            Medium::Memory(all) => {
                all.remove(&number);
                Ok(())
            }
            Medium::Files(files) => fs::remove_file(files.path(number)),
        }
    }
}
