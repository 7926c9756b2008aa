//! SIMPLE, SQUID and MULTIPLE-DIRS: each object is a file.
//!
//! They differ in the directory alone. The file system does the rest: it allocates blocks and keeps names over a crash.
//!
//! Not known here: where the file system puts anything.   Limits: as many files and directories as it allows.
//! Source: paper 002, section 3.3.

use std::collections::HashMap;
use std::io;

use super::{Manager, contradiction, piece};
use crate::disks::{DirId, Disk, FileId, HEADER_BYTES, ROOT};
use crate::{DiskOp, DiskRequest};

const SQUID_FIRST_LEVEL: u32 = 16;
const SQUID_SECOND_LEVEL: u32 = 256;

/// The choice of directory for a new file.
#[derive(Debug)]
pub enum Tree {
    /// The only directory.
    Simple,
    /// The next of 4096 directories.
    Squid {
        /// The number of the next directory.
        next: u32,
    },
    /// The directory of the object's server.
    Servers {
        /// The directories that exist, by server.
        made: HashMap<u32, DirId>,
    },
}

impl Tree {
    /// SQUID, starting with the first directory.
    pub fn squid() -> Tree {
        Tree::Squid { next: 0 }
    }

    /// MULTIPLE-DIRS, without directories.
    pub fn servers() -> Tree {
        Tree::Servers {
            made: HashMap::new(),
        }
    }

    fn dir_for(&mut self, server: u32, disk: &mut dyn Disk) -> io::Result<DirId> {
        match self {
            Tree::Simple => Ok(ROOT),
            Tree::Squid { next } => {
                //= paper 002 section 3.3   0/00, 0/01, ... 0/FF, 1/00 and so on, round robin
                let at = *next;
                *next = (at + 1) % (SQUID_FIRST_LEVEL * SQUID_SECOND_LEVEL);
                Ok(squid_dir(at / SQUID_SECOND_LEVEL, at % SQUID_SECOND_LEVEL))
            }
            Tree::Servers { made } => {
                if let Some(&dir) = made.get(&server) {
                    return Ok(dir);
                }
                let dir = DirId(made.len() as u32 + 1);
                disk.make_dir(dir, ROOT)?;
                made.insert(server, dir);
                Ok(dir)
            }
        }
    }
}

fn squid_dir(first: u32, second: u32) -> DirId {
    DirId(1 + SQUID_FIRST_LEVEL + first * SQUID_SECOND_LEVEL + second)
}

/// A file for each object.
pub struct PerObject {
    tree: Tree,
    files: HashMap<u32, DirId>,
}

impl PerObject {
    /// A manager without objects.
    pub fn new(tree: Tree) -> PerObject {
        PerObject {
            tree,
            files: HashMap::new(),
        }
    }

    fn file(&self, object: u32) -> io::Result<FileId> {
        let dir = self.files.get(&object);
        dir.map(|&dir| FileId {
            dir,
            number: object,
        })
        .ok_or_else(|| contradiction("is not stored", object))
    }
}

impl Manager for PerObject {
    fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if let Tree::Squid { .. } = self.tree {
            for first in 0..SQUID_FIRST_LEVEL {
                let above = DirId(1 + first);
                disk.make_dir(above, ROOT)?;
                for second in 0..SQUID_SECOND_LEVEL {
                    disk.make_dir(squid_dir(first, second), above)?;
                }
            }
        }
        Ok(())
    }

    fn handle(&mut self, request: DiskRequest, disk: &mut dyn Disk) -> io::Result<()> {
        // The file's name and length replace the header of other managers.
        let body = piece(&request, HEADER_BYTES, request.size_bytes);
        match request.op {
            DiskOp::Write => {
                let dir = self.tree.dir_for(request.server, disk)?;
                if self.files.insert(request.object, dir).is_some() {
                    return Err(contradiction("is stored already", request.object));
                }
                let file = self.file(request.object)?;
                disk.create(file)?;
                if body.bytes > 0 {
                    disk.write(file, 0, &[body])?;
                }
                disk.close(file)
            }
            DiskOp::Read => {
                let file = self.file(request.object)?;
                disk.open(file)?;
                if body.bytes > 0 {
                    disk.read(file, 0, body)?;
                }
                disk.close(file)
            }
            DiskOp::Delete => {
                let file = self.file(request.object)?;
                self.files.remove(&request.object);
                disk.delete(file)
            }
        }
    }

    fn finish(&mut self, _: &mut dyn Disk) -> io::Result<()> {
        Ok(())
    }
}
