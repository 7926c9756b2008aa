//! A disk for tests: it knows what is stored where, and panics when a manager reads anything else.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::{Calls, DirId, Disk, FileId, Piece, ROOT, bytes_of, span_of};

/// Files, with the pieces stored in them.
#[derive(Debug, Default)]
pub struct Checked {
    /// By file and byte: the piece, or part of one, that begins there.
    files: HashMap<FileId, BTreeMap<u64, Piece>>,
    dirs: Vec<DirId>,
    open: HashMap<FileId, u32>,
    /// Calls so far.
    pub calls: Calls,
    /// The clock advances by this much with each call.
    pub call_us: u64,
    /// The clock.
    pub now_us: u64,
    /// The places of all reads.
    pub read_places: Vec<u64>,
    /// The place and length of each write.
    pub write_places: Vec<(u64, u64)>,
}

impl Checked {
    fn file(&mut self, file: FileId) -> &mut BTreeMap<u64, Piece> {
        assert!(self.open.contains_key(&file), "{file:?} is not open");
        self.files.get_mut(&file).expect("the file was made")
    }

    fn check(&mut self, file: FileId, at_byte: u64, piece: Piece) {
        let map = self.file(file);
        let (mut at, mut from) = (at_byte, piece.from_byte);
        let end = at_byte + u64::from(piece.bytes);
        while at < end {
            let (&begin, found) = map
                .range(..=at)
                .next_back()
                .unwrap_or_else(|| panic!("nothing lies at {at}"));
            assert!(at < begin + u64::from(found.bytes), "nothing lies at {at}");
            assert_eq!(found.object, piece.object, "another object lies at {at}");
            assert_eq!(
                found.from_byte + (at - begin) as u32,
                from,
                "another part of {} lies at {at}",
                piece.object
            );
            let step = (begin + u64::from(found.bytes)).min(end) - at;
            at += step;
            from += step as u32;
        }
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

/// Forgets the pieces in `[from, end)`; keeps the parts of them outside of that.
fn clear(file: &mut BTreeMap<u64, Piece>, from: u64, end: u64) {
    let before = file
        .range(..from)
        .next_back()
        .map(|(&at, &piece)| (at, piece));
    if let Some((at, piece)) = before {
        let until = at + u64::from(piece.bytes);
        if until > from {
            let mut head = piece;
            head.bytes = (from - at) as u32;
            file.insert(at, head);
            if until > end {
                let mut tail = piece;
                tail.from_byte += (end - at) as u32;
                tail.bytes = (until - end) as u32;
                file.insert(end, tail);
            }
        }
    }
    let inside: Vec<(u64, Piece)> = file.range(from..end).map(|(&a, &p)| (a, p)).collect();
    for (at, piece) in inside {
        file.remove(&at);
        let until = at + u64::from(piece.bytes);
        if until > end {
            let mut tail = piece;
            tail.from_byte += (end - at) as u32;
            tail.bytes = (until - end) as u32;
            file.insert(end, tail);
        }
    }
}

impl Disk for Checked {
    fn now_us(&self) -> u64 {
        self.now_us
    }

    fn start(&mut self) -> io::Result<()> {
        self.calls = Calls::default();
        Ok(())
    }

    fn make_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()> {
        assert!(parent == ROOT || self.dirs.contains(&parent));
        assert!(!self.dirs.contains(&dir) && dir != ROOT, "{dir:?} exists");
        self.dirs.push(dir);
        self.calls.dirs += 1;
        Ok(())
    }

    fn create(&mut self, file: FileId) -> io::Result<()> {
        assert!(file.dir == ROOT || self.dirs.contains(&file.dir));
        let before = self.files.insert(file, BTreeMap::new());
        assert!(before.is_none(), "{file:?} exists");
        self.open.insert(file, 1);
        self.calls.creates += 1;
        Ok(())
    }

    fn reserve(&mut self, file: FileId, _: u64) -> io::Result<()> {
        self.file(file);
        Ok(())
    }

    fn open(&mut self, file: FileId) -> io::Result<()> {
        assert!(self.files.contains_key(&file), "{file:?} does not exist");
        assert!(self.open.insert(file, 1).is_none(), "{file:?} is open");
        self.calls.opens += 1;
        Ok(())
    }

    fn write(&mut self, file: FileId, at_byte: u64, pieces: &[Piece]) -> io::Result<()> {
        self.now_us += self.call_us;
        self.calls.writes += 1;
        self.calls.write_bytes += bytes_of(pieces);
        self.write_places.push((at_byte, bytes_of(pieces)));
        let map = self.file(file);
        let mut at = at_byte;
        for &piece in pieces {
            clear(map, at, at + u64::from(piece.bytes));
            map.insert(at, piece);
            at += u64::from(piece.bytes);
        }
        Ok(())
    }

    fn read(&mut self, file: FileId, at_byte: u64, piece: Piece) -> io::Result<()> {
        self.now_us += self.call_us;
        self.calls.reads += 1;
        self.calls.read_bytes += u64::from(piece.bytes);
        self.read_places.push(at_byte);
        self.check(file, at_byte, piece);
        Ok(())
    }

    fn read_together(&mut self, file: FileId, pieces: &[(u64, Piece)]) -> io::Result<()> {
        assert!(pieces.is_sorted_by_key(|&(at, _)| at) && !pieces.is_empty());
        self.now_us += self.call_us;
        self.calls.reads += 1;
        let (at_byte, end) = span_of(pieces);
        self.calls.read_bytes += end - at_byte;
        for &(at_byte, piece) in pieces {
            self.check(file, at_byte, piece);
        }
        Ok(())
    }

    fn close(&mut self, file: FileId) -> io::Result<()> {
        assert!(self.open.remove(&file).is_some(), "{file:?} is not open");
        Ok(())
    }

    fn delete(&mut self, file: FileId) -> io::Result<()> {
        assert!(!self.open.contains_key(&file), "{file:?} is open");
        assert!(
            self.files.remove(&file).is_some(),
            "{file:?} does not exist"
        );
        self.calls.deletes += 1;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}
