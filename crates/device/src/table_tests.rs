//! The table with a simulated kernel: the test makes the calls and answers them.

use super::*;

struct Bench {
    table: Table,
    woken: Vec<Waker>,
}

impl Bench {
    fn new() -> Self {
        Self {
            table: Table::default(),
            woken: Vec::new(),
        }
    }

    fn read(&mut self, at: u64, len: usize) -> u32 {
        self.table
            .submit(Transfer::new(at, len, 512).unwrap(), Order::Read, None)
            .unwrap()
    }

    fn write(&mut self, at: u64, data: &'static [u8]) -> u32 {
        let transfer = Transfer::new(at, data.len(), 1).unwrap();
        self.table
            .submit(transfer, Order::Write(Bytes::from_static(data)), None)
            .unwrap()
    }

    /// The kernel's side of a read: writes `byte` all over it.
    fn fill(call: &Call, byte: u8, bytes: usize) -> i32 {
        let Call::Read { to, len, .. } = call else {
            panic!("{call:?} is not a read")
        };
        assert!(bytes <= *len as usize);
        // SAFETY: the call's memory belongs to its slot until `complete` (O1), and is `len` bytes long.
        unsafe { std::ptr::write_bytes(*to, byte, bytes) };
        bytes as i32
    }

    fn complete(&mut self, slot: u32, result: i32) {
        self.table.complete(slot, result, &mut self.woken);
        self.table.audit();
    }

    fn poll(&mut self, slot: u32) -> Poll<Answer> {
        self.table
            .poll(slot, &mut Context::from_waker(Waker::noop()))
    }

    fn ready(&mut self, slot: u32) -> Answer {
        match self.poll(slot) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("slot {slot} has no answer"),
        }
    }
}

#[test]
fn a_read_is_widened_continued_and_cut_to_what_was_wanted() {
    let mut b = Bench::new();
    let slot = b.read(600, 1000);
    let (_, call) = b.table.next().unwrap();
    assert!(matches!(
        call,
        Call::Read {
            at: 512,
            len: 1536,
            ..
        }
    ));
    let moved = Bench::fill(&call, 1, 512);
    b.complete(slot, moved);
    assert!(b.poll(slot).is_pending());
    let (again, call) = b.table.next().unwrap();
    assert!(
        again == slot
            && matches!(
                call,
                Call::Read {
                    at: 1024,
                    len: 1024,
                    ..
                }
            )
    );
    let moved = Bench::fill(&call, 2, 1024);
    b.complete(slot, moved);
    assert_eq!(b.woken.len(), 1);
    let bytes = b.ready(slot).unwrap();
    assert_eq!(bytes.len(), 1000);
    assert!(bytes[..424].iter().all(|x| *x == 1) && bytes[424..].iter().all(|x| *x == 2));
    b.table.audit();
    assert_eq!(b.table.in_flight(), 0);
}

#[test]
fn a_dropped_waiter_leaves_the_memory_to_the_kernel() {
    let mut b = Bench::new();
    let slot = b.read(0, 512);
    let (_, call) = b.table.next().unwrap();
    drop(b.table.abandon(slot));
    assert_eq!(b.table.flying(), 1);
    let moved = Bench::fill(&call, 9, 512);
    b.complete(slot, moved);
    assert_eq!((b.table.in_flight(), b.woken.len()), (0, 0));
    assert_eq!(b.read(0, 512), slot, "the slot is free again");
}

#[test]
fn an_abandoned_read_that_waits_is_never_made_but_a_write_is() {
    let mut b = Bench::new();
    let (read, write) = (b.read(0, 512), b.write(0, b"squid"));
    drop(b.table.abandon(read));
    drop(b.table.abandon(write));
    let (slot, call) = b.table.next().unwrap();
    assert!(slot == write && matches!(call, Call::Write { len: 5, .. }));
    assert!(b.table.next().is_none());
    b.complete(write, 5);
    assert_eq!(b.table.in_flight(), 0);
}

#[test]
fn errors_are_told_and_interruptions_tried_again() {
    let mut b = Bench::new();
    let slot = b.write(512, b"squid");
    for _ in 0..RETRIES_MAX {
        b.table.next().unwrap();
        b.complete(slot, -EINTR);
        assert!(b.poll(slot).is_pending());
    }
    b.table.next().unwrap();
    b.complete(slot, -EAGAIN);
    let fault = b.ready(slot).unwrap_err();
    assert!(
        matches!(&fault, IoFault::Device { at: 512, len: 5, source } if source.raw_os_error() == Some(EAGAIN))
    );
}

#[test]
fn an_early_end_is_short() {
    let mut b = Bench::new();
    let slot = b.read(0, 1024);
    let (_, call) = b.table.next().unwrap();
    let moved = Bench::fill(&call, 1, 700);
    b.complete(slot, moved);
    b.table.next().unwrap();
    b.complete(slot, 188);
    assert!(matches!(
        b.ready(slot),
        Err(IoFault::Short {
            at: 0,
            wanted: 1024,
            got: 700
        })
    ));
}

#[test]
fn the_two_limits_hold() {
    let mut b = Bench::new();
    let slots: Vec<_> = (0..QUEUE_MAX).map(|_| b.read(0, 512)).collect();
    let refused = b
        .table
        .submit(Transfer::new(0, 1, 1).unwrap(), Order::Read, None);
    assert!(matches!(refused, Err(IoFault::Busy)));
    let flown: Vec<_> = std::iter::from_fn(|| b.table.next()).collect();
    assert_eq!(
        (flown.len(), b.table.flying()),
        (IN_FLIGHT_MAX, IN_FLIGHT_MAX)
    );
    assert_eq!(b.table.in_flight(), slots.len());
    b.read(0, 512);
}

#[test]
fn a_flush_waits_its_turn_and_runs_though_nobody_waits_for_it() {
    let mut b = Bench::new();
    let reads: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| b.read(0, 512)).collect();
    let flush = Transfer::new(0, 0, 1).unwrap();
    let flush = b.table.submit(flush, Order::Flush, None).unwrap();
    let flown: Vec<_> = std::iter::from_fn(|| b.table.next()).collect();
    assert_eq!(flown.len(), reads.len(), "no room for the flush yet");
    drop(b.table.abandon(flush));
    let moved = Bench::fill(&flown[0].1, 1, 512);
    b.complete(reads[0], moved);
    // Interrupted, it is made again; then done.
    for result in [-EINTR, 0] {
        assert_eq!(b.table.next(), Some((flush, Call::Flush)));
        b.complete(flush, result);
    }
    assert_eq!(b.table.in_flight(), IN_FLIGHT_MAX - 1);
}

#[test]
fn a_broken_ring_answers_all_and_keeps_what_flies() {
    let mut b = Bench::new();
    let (flying, waiting) = (b.read(0, 512), b.read(512, 512));
    let (_, call) = b.table.next().unwrap();
    assert!(b.poll(flying).is_pending());
    b.table.break_down(9, &mut b.woken);
    assert!(b.ready(flying).is_err() && b.ready(waiting).is_err());
    assert_eq!((b.table.flying(), b.woken.len()), (1, 1));
    assert!(
        b.table
            .submit(Transfer::new(0, 1, 1).unwrap(), Order::Flush, None)
            .is_err()
    );
    let moved = Bench::fill(&call, 1, 512);
    b.complete(flying, moved);
    assert_eq!(b.table.in_flight(), 0);
}
