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
//! What was filled is given out as [`Bytes`], piece by piece, and readers may have it at once. *Before* and *behind* are written
//! at any time, until all of it is given out ([`Filling::share`]). Memory that is no longer used by anybody is kept for the next
//! one: a page fault costs more than copying the page.
//!
//! Invariants:
//!   G1  what lies in `begin..filled` is never changed again, nor is anything after `share`
//!   G2  there is one `Filling` for a `Memory`, and it alone changes bytes, those that no [`Bytes`] has
//!
//! Limits: [`FILLING_MAX`] at a time in this process; [`KEPT_MAX`] are kept, none longer than [`KEPT_BYTES_MAX`].

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::buffer::AlignedBuf;

/// The most that are being filled at a time; there is no other for the time being.
pub const FILLING_MAX: usize = 128;
/// The most that are kept for the next ones.
const KEPT_MAX: usize = 16;
/// The longest that is kept.
const KEPT_BYTES_MAX: usize = 2 << 20;

static FILLING: AtomicUsize = AtomicUsize::new(0);
static KEPT: Mutex<Vec<AlignedBuf>> = Mutex::new(Vec::new());

/// See the head of the file.
pub struct Filling {
    memory: Arc<Memory>,
    begin: usize,
    filled: usize,
    end: usize,
    is_shared: bool,
}

struct Memory {
    /// `None` only while it is dropped. Never dereferenced: all access is by `at`.
    buf: Option<AlignedBuf>,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: memory of its own; who reads and who writes which bytes at the same time is ruled by G1 and G2.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// These bytes.
    ///
    /// # Safety
    /// They lie within the memory, and nobody changes them while the slice lives.
    unsafe fn slice(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: the caller's promise; all of the memory was initialised by `AlignedBuf` (B2).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(range.start), range.len()) }
    }

    /// These bytes, for writing.
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
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buf) = self.buf.take()
            && kept.len() < KEPT_MAX
            && self.len <= KEPT_BYTES_MAX
        {
            kept.push(buf);
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
        // SAFETY: parts are made of what was filled, or shared, which lies within and does not change (G1).
        unsafe { self.memory.slice(self.range.clone()) }
    }
}

impl Filling {
    /// `len` bytes, of which `body` are to be filled. The others have any content. `None`: there are too many.
    pub fn new(len: usize, body: Range<usize>) -> Option<Filling> {
        assert!(
            body.start <= body.end && body.end <= len,
            "{body:?} of {len}"
        );
        if FILLING.fetch_add(1, Ordering::Relaxed) >= FILLING_MAX {
            FILLING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut buf = take_kept(len).unwrap_or_else(|| AlignedBuf::zeroed(len));
        let at = NonNull::new(buf.as_mut_ptr()).expect("a slice begins somewhere");
        let memory = Memory {
            len: buf.len(),
            at,
            buf: Some(buf),
        };
        Some(Filling {
            memory: Arc::new(memory),
            begin: body.start,
            filled: body.start,
            end: body.end,
            is_shared: false,
        })
    }

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
        // SAFETY: no part has bytes from `filled` on (G1), and this borrows the only one that writes (G2).
        unsafe { self.memory.slice_mut(self.filled..self.end) }
    }

    /// The first `n` bytes of [`Filling::space`] are filled: they do not change any more.
    pub fn advance(&mut self, n: usize) -> Bytes {
        assert!(n <= self.left(), "{n} of {} bytes", self.left());
        let from = self.filled;
        self.filled += n;
        self.part(from..self.filled)
    }

    /// The bytes before and behind those that are to be filled.
    pub fn around(&mut self) -> (&mut [u8], &mut [u8]) {
        assert!(!self.is_shared, "it was given out");
        // SAFETY: no part has these bytes before `share`, the two do not overlap, and this borrows the only one that writes (G2).
        unsafe {
            (
                self.memory.slice_mut(0..self.begin),
                self.memory.slice_mut(self.end..self.memory.len),
            )
        }
    }

    /// All of it. Nothing is changed from here on.
    pub fn share(&mut self) -> Bytes {
        self.is_shared = true;
        self.filled = self.end;
        self.part(0..self.memory.len)
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

impl Drop for Filling {
    fn drop(&mut self) {
        FILLING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A kept one of exactly that length.
fn take_kept(len: usize) -> Option<AlignedBuf> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = kept.iter().position(|buf| buf.len() == len)?;
    Some(kept.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_read_while_the_rest_comes() {
        let mut filling = Filling::new(8192, 100..5100).unwrap();
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
        // Of a length that no other test has.
        let len = 77 * 512;
        let mut filling = Filling::new(len, 0..len).unwrap();
        filling.space().fill(7);
        let part = filling.advance(1000);
        let at = part.as_ptr();
        drop(filling);
        let other = Filling::new(len, 0..len).unwrap();
        assert_ne!(
            other.memory.at.as_ptr().cast_const(),
            at,
            "still being read"
        );
        assert!(part.iter().all(|b| *b == 7));
        drop(part);
        let again = Filling::new(len, 0..len).unwrap();
        assert_eq!(again.memory.at.as_ptr().cast_const(), at);
    }

    #[test]
    #[should_panic(expected = "it was given out")]
    fn what_was_given_out_is_not_changed() {
        let mut filling = Filling::new(4096, 10..20).unwrap();
        let _all = filling.share();
        filling.around();
    }
}
