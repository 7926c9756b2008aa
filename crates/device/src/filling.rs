//! Aligned memory that is read while it is still being filled, and written to a device when it is full.
//!
//! A long body is received straight into its place in the record that goes to the disk:
//!
//! ```text
//!   0            begin            filled              end         len
//!   +--------------+-----------------+-----------------+-----------+
//!   |    before    |  given out      |  to be filled   |  behind   |
//!   +--------------+-----------------+-----------------+-----------+
//! ```
//!
//! Filled bytes are given out as [`Bytes`], piece by piece, and may be read at once. *Before* and *behind* can be written at any time
//! until the whole memory is given out ([`Filling::share`]). When the last reference is dropped, the memory goes back to its
//! [`FillingPool`], which keeps it for reuse, since a page fault costs more than copying the page.
//!
//! Invariants:
//!   G1  bytes in `begin..filled` never change again; after `share` no byte changes
//!   G2  each `Memory` has one `Filling`; only this changes bytes, and only bytes that no [`Bytes`] covers
//!
//! Limits: a pool lends and keeps at most `bytes_max` in all; [`KEPT_MAX`] buffers are kept, none longer than [`KEPT_BYTES_MAX`].

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::buffer::AlignedBuf;

/// The most buffers that are kept for reuse.
const KEPT_MAX: usize = 16;
/// The longest buffer that is kept for reuse.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// The memory of all [`Filling`]s of a process.
pub struct FillingPool {
    bytes_max: AtomicUsize,
    /// Kept and lent bytes. Lent bytes count until the last reader is gone, or until [`Filling::counted_elsewhere`].
    bytes: AtomicUsize,
    kept: Mutex<Vec<AlignedBuf>>,
}

/// See the head of the file.
pub struct Filling {
    memory: Arc<Memory>,
    begin: usize,
    filled: usize,
    end: usize,
    is_shared: bool,
}

struct Memory {
    /// `None` only during the drop. Never dereferenced: all access is through `at`.
    buf: Option<AlignedBuf>,
    at: NonNull<u8>,
    len: usize,
    pool: Arc<FillingPool>,
    /// Do its bytes count in the pool?
    is_counted: AtomicBool,
}

// SAFETY: a Memory owns its bytes; G1 and G2 exclude that a byte is written while another thread reads or writes it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// The bytes in `range`.
    ///
    /// # Safety
    /// They lie within the memory, and nobody changes them while the slice lives.
    unsafe fn slice(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: the caller's promise; all of the memory was initialised by `AlignedBuf` (B2).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(range.start), range.len()) }
    }

    /// The bytes in `range`, for writing.
    ///
    /// # Safety
    /// They lie within the memory, and nobody else reads or changes them while the slice lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "G2: one Filling alone writes, and borrows itself for it"
    )]
    unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: the caller's promise; all of the memory was initialised by `AlignedBuf` (B2).
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().add(range.start), range.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            self.pool.take_back(buf, *self.is_counted.get_mut());
        }
    }
}

/// Some of the bytes that were given out.
struct Part {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a part covers only filled or shared bytes, which lie within the memory and do not change (G1).
        unsafe { self.memory.slice(self.range.clone()) }
    }
}

impl FillingPool {
    /// A pool of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<FillingPool> {
        Arc::new(FillingPool {
            bytes_max: AtomicUsize::new(bytes_max),
            bytes: AtomicUsize::new(0),
            kept: Mutex::default(),
        })
    }

    /// Changes the bound. Lent memory stays lent.
    pub fn resize(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        while self.bytes() > bytes_max && self.forget_one() {}
    }

    /// How many bytes are lent and kept.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory of `len` bytes, of which `body` are to be filled. The content of the others is arbitrary. `None`: too much is lent.
    pub fn lend(self: &Arc<Self>, len: usize, body: Range<usize>) -> Option<Filling> {
        assert!(
            body.start <= body.end && body.end <= len,
            "{body:?} of {len}"
        );
        let mut buf = match self.take_kept(len) {
            Some(buf) => buf,
            None => {
                // No kept buffer has this length: free kept buffers until there is room for a new one.
                while !self.count(len) {
                    if !self.forget_one() {
                        return None;
                    }
                }
                AlignedBuf::zeroed(len)
            }
        };
        let at = NonNull::new(buf.as_mut_ptr()).expect("a slice begins somewhere");
        let memory = Memory {
            len: buf.len(),
            at,
            buf: Some(buf),
            pool: Arc::clone(self),
            is_counted: AtomicBool::new(true),
        };
        Some(Filling {
            memory: Arc::new(memory),
            begin: body.start,
            filled: body.start,
            end: body.end,
            is_shared: false,
        })
    }

    /// Counts `len` more bytes, if there is room for them.
    fn count(&self, len: usize) -> bool {
        let most = self.bytes_max.load(Ordering::Relaxed);
        let fits = |bytes: usize| bytes.checked_add(len).filter(|sum| *sum <= most);
        (self.bytes)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    /// A kept buffer of exactly this length.
    fn take_kept(&self, len: usize) -> Option<AlignedBuf> {
        let mut kept = self.kept();
        let at = kept.iter().position(|buf| buf.len() == len)?;
        Some(kept.swap_remove(at))
    }

    /// Frees one kept buffer. False: there is none.
    fn forget_one(&self) -> bool {
        let kept = self.kept().pop();
        if let Some(buf) = &kept {
            self.bytes.fetch_sub(buf.len(), Ordering::Relaxed);
        }
        kept.is_some()
    }

    fn take_back(&self, buf: AlignedBuf, was_counted: bool) {
        let len = buf.len();
        let mut kept = self.kept();
        let has_room = kept.len() < KEPT_MAX
            && len <= KEPT_BYTES_MAX
            && self.bytes() <= self.bytes_max.load(Ordering::Relaxed);
        if has_room && (was_counted || self.count(len)) {
            kept.push(buf);
        } else if was_counted {
            self.bytes.fetch_sub(len, Ordering::Relaxed);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<AlignedBuf>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filling {
    /// How much has been filled.
    pub fn filled(&self) -> usize {
        self.filled - self.begin
    }

    /// How much is still to be filled.
    pub fn left(&self) -> usize {
        self.end - self.filled
    }

    /// The next bytes to be filled.
    pub fn space(&mut self) -> &mut [u8] {
        // SAFETY: no part covers bytes from `filled` on (G1), and `&mut self` borrows the only writer (G2).
        unsafe { self.memory.slice_mut(self.filled..self.end) }
    }

    /// Declares the first `n` bytes of [`Filling::space`] filled, and returns them. They do not change any more.
    pub fn advance(&mut self, n: usize) -> Bytes {
        assert!(n <= self.left(), "{n} of {} bytes", self.left());
        let from = self.filled;
        self.filled += n;
        self.part(from..self.filled)
    }

    /// The bytes before and behind those that are to be filled.
    pub fn around(&mut self) -> (&mut [u8], &mut [u8]) {
        assert!(!self.is_shared, "it was given out");
        // SAFETY: no part covers these bytes before `share`, the two ranges do not overlap, and `&mut self` borrows the only writer (G2).
        unsafe {
            (
                self.memory.slice_mut(0..self.begin),
                self.memory.slice_mut(self.end..self.memory.len),
            )
        }
    }

    /// The whole memory. No byte of it changes from here on.
    pub fn share(&mut self) -> Bytes {
        self.is_shared = true;
        self.filled = self.end;
        self.part(0..self.memory.len)
    }

    /// From here on another module counts these bytes, so the pool may lend as many again.
    pub fn counted_elsewhere(&self) {
        if self.memory.is_counted.swap(false, Ordering::Relaxed) {
            let len = self.memory.len;
            self.memory.pool.bytes.fetch_sub(len, Ordering::Relaxed);
        }
    }

    fn part(&self, range: Range<usize>) -> Bytes {
        Bytes::from_owner(Part {
            memory: Arc::clone(&self.memory),
            range,
        })
    }

    /// What has been filled so far.
    pub fn body(&self) -> Bytes {
        self.part(self.begin..self.filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_is_filled_is_read_while_the_rest_comes() {
        let mut filling = FillingPool::new(MIB).lend(8192, 100..5100).unwrap();
        filling.space()[..4].copy_from_slice(b"loli");
        let first = filling.advance(4);
        assert_eq!((filling.filled(), filling.left()), (4, 4996));
        let reader = std::thread::spawn(move || assert_eq!(first, "loli"));
        filling.space().fill(b'x');
        let rest = filling.advance(4996);
        reader.join().unwrap();
        let (before, behind) = filling.around();
        assert_eq!((before.len(), behind.len()), (100, 3092));
        before.fill(1);
        behind.fill(2);
        let all = filling.share();
        assert_eq!(all.as_ptr().addr() % crate::ALIGN_BYTES, 0);
        assert_eq!((&all[..100], &all[100..104]), (&[1; 100][..], &b"loli"[..]));
        assert_eq!((&all[104..5100], &all[5100..]), (&rest[..], &[2; 3092][..]));
        assert_eq!(filling.body(), all.slice(100..5100));
    }

    #[test]
    fn memory_comes_back_when_its_last_reader_has_gone() {
        let pool = FillingPool::new(MIB);
        let mut filling = pool.lend(4096, 0..4096).unwrap();
        filling.space().fill(7);
        let part = filling.advance(1000);
        let at = part.as_ptr();
        drop(filling);
        let other = pool.lend(4096, 0..4096).unwrap();
        assert_ne!(
            other.memory.at.as_ptr().cast_const(),
            at,
            "still being read"
        );
        assert!(part.iter().all(|b| *b == 7));
        drop(part);
        assert_eq!(pool.bytes(), 8192, "one is lent, one is kept");
        let again = pool.lend(4096, 0..4096).unwrap();
        assert_eq!(again.memory.at.as_ptr().cast_const(), at);
        assert_eq!(pool.bytes(), 8192);
    }

    #[test]
    fn no_more_is_lent_than_the_pool_has() {
        let pool = FillingPool::new(10_000);
        let mut first = pool.lend(4096, 0..4096).unwrap();
        let last_reader = first.advance(1);
        let second = pool.lend(4096, 0..4096).unwrap();
        assert!(pool.lend(4096, 0..4096).is_none());
        drop(first);
        assert!(
            pool.lend(4096, 0..4096).is_none(),
            "who reads one byte holds all of it"
        );
        drop(last_reader);
        // Kept memory of another length makes room.
        let longer = pool.lend(5632, 0..5632).unwrap();
        assert_eq!(pool.bytes(), 4096 + 5632);
        // A cache that counts what it has does not keep others from being lent.
        longer.counted_elsewhere();
        longer.counted_elsewhere();
        assert_eq!(pool.bytes(), 4096);
        let third = pool.lend(5632, 0..5632).unwrap();
        drop(longer);
        assert_eq!(pool.bytes(), 4096 + 5632, "no room to keep it");
        drop((second, third));
        pool.resize(5000);
        assert_eq!(pool.bytes(), 4096);
        pool.resize(0);
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "it was given out")]
    fn what_was_given_out_is_not_changed() {
        let mut filling = FillingPool::new(MIB).lend(4096, 10..20).unwrap();
        let _all = filling.share();
        filling.around();
    }
}
