//! Where the segments of a journal lie: files of a directory, or memory.
//!
//! In memory a journal lasts as long as its process: for a front that stores nothing, and for tests.
//!
//! Not known here: what the bytes say. All calls block.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Names of files, before the number.
const PREFIX: &str = "purges.";

/// A file that is there while the journal is new, and what was stored before it may still be served.
const DOUBTFUL: &str = "new";

/// Names of drafts, before the number.
const DRAFT: &str = "draft.";

/// Numbered sequences of bytes.
#[derive(Debug)]
pub enum Medium {
    /// A file each.
    Files(Files),
    /// In this process only.
    Memory(BTreeMap<u64, Vec<u8>>),
}

/// A directory that no other process uses as this one does.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// Locked.
    _lock: File,
    /// What is being appended to.
    last: Option<(u64, File)>,
}

impl Files {
    /// Takes a directory, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made or written to, or another process has it.
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

    /// Makes names durable.
    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Bytes that are to become a sequence all at once, or never ([`Medium::install`]).
#[derive(Debug)]
pub enum Draft {
    /// A file.
    File(PathBuf, File, u64),
    /// In this process only.
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

    /// At most so many bytes from there.
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

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        match self {
            Draft::Memory(all) => all.len() as u64,
            Draft::File(_, _, length) => *length,
        }
    }
}

impl Drop for Draft {
    /// One that was installed has another name by then.
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
    /// The numbers there are, in order.
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

    /// Was it marked as not to be relied on? In memory it never outlives a start.
    pub fn is_doubtful(&self) -> io::Result<bool> {
        match self {
            Medium::Memory(_) => Ok(false),
            Medium::Files(files) => files.directory.join(DOUBTFUL).try_exists(),
        }
    }

    /// Marks it as not to be relied on, or takes the mark away; durably.
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

    /// Begins a draft, in place of one of the same number.
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

    /// Makes a sequence of a draft, durably, in place of that of this number if there is one.
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

    /// Removes what drafts an earlier process has left.
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

    /// Begins one with these bytes, durably.
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

    /// Appends to the one that was created last.
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

    /// Makes durable what was appended to the one that was created last.
    pub fn sync(&mut self, number: u64) -> io::Result<()> {
        match self {
            Medium::Memory(_) => Ok(()),
            Medium::Files(files) => {
                let last = files.last.as_ref().filter(|(last, _)| *last == number);
                // One of an earlier start was read, so nothing was appended to it.
                last.map_or(Ok(()), |(_, file)| file.sync_data())
            }
        }
    }

    /// At most so many bytes from there.
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

    /// Cuts off, durably, what is behind so many bytes.
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

    /// How long it is.
    pub fn bytes(&self, number: u64) -> io::Result<u64> {
        match self {
            Medium::Memory(all) => Ok(all.get(&number).ok_or_else(missing)?.len() as u64),
            Medium::Files(files) => Ok(fs::metadata(files.path(number))?.len()),
        }
    }

    /// Removes one.
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
