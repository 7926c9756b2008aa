//! Memory for long bodies that are sent to sockets without a copy.
//!
//! The arena is a file in memory (memfd), mapped and cut into slots of one size. The content of a slot is given out as [`Bytes`]. To send
//! it to a plain socket, ask where it lies ([`Arena::place_of`]) and let the kernel send it from the file ([`Arena::send`]).
//!
//! When the last reference to a slot is dropped, its pages are punched out of the file. A page that a socket has not sent yet keeps
//! its content, because the kernel gives the slot new pages when it is written again. So a slot may be used again at once.
//!
//! Invariants:
//!   A1  a slot is in `free`, or owned by exactly one [`Slot`], which is written before it is given out and never again
//!   A2  nobody else has the file: it is private to this process, and its length never changes
//!
//! Limits: pages are counted as shared memory of this process. Without memfd there is no arena.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::{NonNull, null_mut},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create, sendfile},
    io::pwrite,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::buffer::ALIGN_BYTES;

/// See the head of the file.
pub struct Arena {
    file: OwnedFd,
    base: NonNull<u8>,
    slot_bytes: usize,
    slots: u32,
    free: Mutex<Free>,
}

/// Slots are used for the first time in order, so that the list is no longer than the most slots that were in use at once.
struct Free {
    slots: Vec<u32>,
    untouched: u32,
}

// SAFETY: the mapping is read only, and belongs to the Arena alone (A2); bytes in it change only while no `Slot` owns them (A1).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// A slot in use.
struct Slot {
    arena: Arc<Arena>,
    number: u32,
    len: usize,
}

impl Arena {
    /// An arena of `slots` slots of `slot_bytes` each, rounded up to pages. It takes address space, but no memory yet.
    ///
    /// # Errors
    /// The kernel gives no such file, or no room to map it.
    pub fn new(slot_bytes: usize, slots: u32) -> io::Result<Arc<Arena>> {
        let slot_bytes = slot_bytes.next_multiple_of(ALIGN_BYTES);
        let len = slot_bytes
            .checked_mul(slots as usize)
            .filter(|&len| len > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let file = memfd_create("loligo-bodies", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        // SAFETY: a new mapping, placed by the kernel, of a file of this length that never becomes shorter (A2).
        let base = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Arena {
            file,
            base,
            slot_bytes,
            slots,
            free: Mutex::new(Free {
                slots: Vec::new(),
                untouched: 0,
            }),
        }))
    }

    /// A copy of `body` in a slot. `None`: it is longer than a slot, no slot is free, or the kernel has no memory.
    pub fn keep(self: &Arc<Self>, body: &[u8]) -> Option<Bytes> {
        if body.is_empty() || body.len() > self.slot_bytes {
            return None;
        }
        // From here on, dropping `slot` gives the slot back.
        let slot = Slot {
            number: self.take()?,
            arena: Arc::clone(self),
            len: body.len(),
        };
        let mut done = 0;
        while done < body.len() {
            match pwrite(&self.file, &body[done..], slot.offset() + done as u64) {
                Ok(n) if n > 0 => done += n,
                Err(rustix::io::Errno::INTR) => {}
                _ => return None,
            }
        }
        Some(Bytes::from_owner(slot))
    }

    /// Where these bytes lie in the file. `None`: they are not in this arena.
    pub fn place_of(&self, bytes: &[u8]) -> Option<u64> {
        let place = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        (place < self.len()).then_some(place as u64)
    }

    /// Lets the kernel send up to `len` bytes of the file to a socket. Returns how many the socket has taken.
    ///
    /// # Errors
    /// As for a write to the socket.
    pub fn send(&self, socket: impl AsFd, place: u64, len: usize) -> io::Result<usize> {
        let mut place = place;
        Ok(sendfile(socket, &self.file, Some(&mut place), len)?)
    }

    fn len(&self) -> usize {
        self.slot_bytes * self.slots as usize
    }

    fn take(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.slots.pop().or_else(|| {
            let next = free.untouched;
            (next < self.slots).then(|| {
                free.untouched += 1;
                next
            })
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours (`new`), of this length, and no `Slot` is left: each holds the Arena.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len()) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Slot {
    fn offset(&self) -> u64 {
        u64::from(self.number) * self.arena.slot_bytes as u64
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: A1: these bytes lie in the mapping, were written, and change only after this value is dropped.
        unsafe {
            let first = self.arena.base.as_ptr().add(self.offset() as usize);
            std::slice::from_raw_parts(first, self.len)
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = self.arena.slot_bytes as u64;
        let is_punched = fallocate(&self.arena.file, hole, self.offset(), len).is_ok();
        // A page that a socket still sends from must not be written again.
        if is_punched {
            let mut free = (self.arena.free.lock()).unwrap_or_else(PoisonError::into_inner);
            free.slots.push(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const SLOT: usize = 1 << 20;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    fn filled(with: u8) -> Vec<u8> {
        vec![with; SLOT]
    }

    #[test]
    fn bytes_are_those_that_were_kept() {
        let arena = Arena::new(SLOT - 5000, 2).unwrap();
        assert!(arena.keep(&[]).is_none());
        assert!(arena.keep(&filled(1)).is_none(), "longer than a slot");
        let body: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
        let kept = arena.keep(&body).unwrap();
        let other = arena.keep(&body[1..]).unwrap();
        assert!(arena.keep(&body).is_none(), "no slot is free");
        assert_eq!((&kept[..], &other[..]), (&body[..], &body[1..]));
        drop(kept);
        assert_eq!(arena.keep(&body[2..]).unwrap(), body[2..]);
        assert_eq!(other, body[1..]);
    }

    #[test]
    fn places_are_of_its_own_bytes_only() {
        let arena = Arena::new(SLOT, 2).unwrap();
        let kept = arena.keep(&filled(1)).unwrap();
        let place = arena.place_of(&kept).unwrap();
        assert_eq!(arena.place_of(&kept[100..]), Some(place + 100));
        assert_eq!(arena.place_of(&filled(1)), None);
        let another = Arena::new(SLOT, 2).unwrap();
        assert_eq!(another.place_of(&kept), None);
    }

    #[test]
    fn what_a_socket_still_sends_stays_as_it_was() {
        let arena = Arena::new(SLOT, 1).unwrap();
        let (here, mut there) = pair();
        here.set_nonblocking(true).unwrap();
        let first = arena.keep(&filled(1)).unwrap();
        let place = arena.place_of(&first).unwrap();
        let mut sent = Vec::new();
        while let Ok(n) = arena.send(&here, place, SLOT) {
            sent.push(n);
        }
        assert!(!sent.is_empty());
        // The slot is given back and used again before the other side has read anything.
        drop(first);
        let second = arena.keep(&filled(2)).unwrap();
        assert_eq!(arena.place_of(&second), Some(place));
        let mut came = vec![0; sent.iter().sum()];
        there.read_exact(&mut came).unwrap();
        assert!(came.iter().all(|&byte| byte == 1));
        assert!(second.iter().all(|&byte| byte == 2));
    }

    #[test]
    fn memory_is_given_back_with_the_last_of_the_bytes() {
        let arena = Arena::new(SLOT, 4).unwrap();
        let pages = || rustix::fs::fstat(&arena.file).unwrap().st_blocks * 512;
        let kept = arena.keep(&filled(1)).unwrap();
        let part = kept.slice(10..20);
        drop(kept);
        assert_eq!(pages() as usize, SLOT);
        assert_eq!(part, filled(1)[..10]);
        drop(part);
        assert_eq!(pages(), 0);
    }

    #[test]
    fn a_socket_that_is_closed_is_an_error() {
        let arena = Arena::new(SLOT, 1).unwrap();
        let kept = arena.keep(&filled(1)).unwrap();
        let (mut here, there) = pair();
        drop(there);
        let place = arena.place_of(&kept).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while arena.send(&here, place, SLOT).is_ok() {
            assert!(std::time::Instant::now() < until);
        }
        assert!(here.write(b"x").is_err());
    }
}
