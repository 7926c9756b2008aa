//! Readers of different speed.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::*;
use ledger::Ledger;

const WINDOW: u64 = 100;

/// A flight with a fast and a slow reader; its body is not stored.
fn two() -> [FlightReader; 2] {
    let flights = Flights::new(10);
    let join = || flights.join_or_start(KeyHash(1), b"key", || Some(0));
    let (Join::Started(quick), Join::Joined(slow)) = (join(), join()) else {
        panic!("two readers of one flight");
    };
    [quick, slow]
}

fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes all pieces that are there, and begins to wait.
fn take_all(reader: &FlightReader) {
    while let Poll::Ready(Next::Piece(_)) = now(reader.next()) {}
}

fn has_left(reader: &FlightReader) -> bool {
    matches!(
        now(reader.next()),
        Poll::Ready(Next::Broken(Broken::Lagged))
    )
}

/// Pushes small pieces until the flight is full.
fn fill(flight: &Flight) {
    while let Poll::Ready(true) = now(flight.room(WINDOW)) {
        assert!(flight.push(Bytes::from_static(&[0; 10]), WINDOW));
        if flight.arrived_bytes() > 100 * WINDOW {
            return;
        }
    }
}

#[test]
fn a_slow_reader_holds_the_fetch_back_and_loses_nothing() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    for round in 0..100 {
        fill(flight);
        take_all(&quick);
        assert!(now(flight.room(WINDOW)).is_pending(), "{round}");
        flight.cut_still(WINDOW);
        assert!(matches!(now(slow.next()), Poll::Ready(Next::Piece(_))));
    }
    assert_eq!(flight.readers(), 2);
}

#[test]
fn one_that_takes_nothing_while_another_waits_is_cut() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    fill(flight);
    for _ in 0..2 * STILL_MAX {
        // Neither reader takes anything.
        flight.cut_still(WINDOW);
        assert_eq!(flight.readers(), 2);
    }
    take_all(&quick);
    // The first check only notes the reader's position.
    for look in 0..=STILL_MAX {
        assert_eq!(flight.readers(), 2, "look {look}");
        flight.cut_still(WINDOW);
    }
    assert_eq!(flight.readers(), 1);
    assert!(has_left(&slow));
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
}

#[test]
fn one_that_can_go_on_by_itself_holds_nobody_up() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    flight.is_resumable(WINDOW);
    fill(flight);
    assert_eq!(flight.readers(), 2, "nobody waits");
    take_all(&quick);
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
    assert_eq!(flight.readers(), 1);
    assert!(has_left(&slow));
}

/// When the shared budget is used up, windows are small, and many readers are a window behind.
#[test]
fn a_small_window_sends_nobody_to_the_origin() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    flight.is_resumable(10 * WINDOW);
    fill(flight);
    take_all(&quick);
    assert!(now(flight.room(WINDOW)).is_pending());
    assert_eq!(flight.readers(), 2);
    assert!(matches!(now(slow.next()), Poll::Ready(Next::Piece(_))));
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
}

/// Taking slices counts as progress, even if a piece lasts longer than the wait.
#[test]
fn one_that_reads_steadily_is_not_cut_within_a_piece() {
    const PIECE: usize = 256 << 10;
    const WINDOW: u64 = 1 << 20;
    // 2 KB a second, between two checks.
    const ROUND: usize = 4 << 10;
    let [quick, slow] = two();
    let flight = &quick.flight;
    let (mut has, mut got) = (0, 0);
    for round in 0..1000 {
        while let Poll::Ready(true) = now(flight.room(WINDOW)) {
            assert!(flight.push(Bytes::from(vec![0; PIECE]), WINDOW));
            take_all(&quick);
            assert_eq!(flight.readers(), 2, "cut in round {round}, after {got}");
        }
        flight.cut_still(WINDOW);
        while has < ROUND {
            let Poll::Ready(Next::Piece(piece)) = now(slow.next()) else {
                panic!("cut in round {round}, after {got}");
            };
            has += piece.len();
            got += piece.len();
        }
        has -= ROUND;
    }
    assert_eq!(flight.readers(), 2);
    // The reader stops within a piece.
    for _ in 0..=STILL_MAX {
        flight.cut_still(WINDOW);
    }
    assert_eq!(flight.readers(), 1);
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
}

/// Other slow readers must wait until one of those that have left is done.
#[test]
fn so_many_at_most_go_on_by_themselves_at_a_time() {
    let flights = Flights::new(1000);
    let join = || flights.join_or_start(KeyHash(1), b"key", || Some(0));
    let Join::Started(quick) = join() else {
        panic!("the first reader");
    };
    let slow = || match join() {
        Join::Joined(reader) => reader,
        _ => panic!("another reader"),
    };
    let mut slow: Vec<FlightReader> = (0..pace::LEFT_MAX + 10).map(|_| slow()).collect();
    let flight = &quick.flight;
    flight.is_resumable(WINDOW);
    fill(flight);
    take_all(&quick);
    assert!(now(flight.room(WINDOW)).is_pending());
    assert_eq!(flight.readers(), 11);
    slow.retain(|reader| !has_left(reader));
    assert_eq!(slow.len(), 10);
    // Each reader has taken a piece.
    fill(flight);
    take_all(&quick);
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
    assert_eq!(flight.readers(), 1);
}

/// While memory is short, a small window is full although a reader is only a little behind.
#[test]
fn one_that_goes_on_holding_others_up_leaves() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    flight.is_resumable(1000 * WINDOW);
    let mut time = Instant::now();
    let mut rounds = 0;
    while flight.readers() == 2 {
        fill(flight);
        take_all(&quick);
        flight.lock().hold(WINDOW, time);
        time += Duration::from_secs(1);
        flight.lock().hold(WINDOW, time);
        let _ = now(slow.next());
        rounds += 1;
        assert!(rounds < 100);
    }
    assert!((20..=22).contains(&rounds), "{rounds}");
    assert!(has_left(&slow));
}

/// The beginning is kept for joining readers as long as there is memory for it.
#[test]
fn what_is_kept_of_the_beginning_fits_a_window_that_has_shrunk() {
    let [quick, slow] = two();
    let flight = &quick.flight;
    let failed = FirstEvent::Failed(Arc::new(FetchError::Abandoned));
    flight.publish(failed, true, Keeping::Beginning, 10 * WINDOW);
    assert!(flight.push(Bytes::from_static(&[0; 2 * WINDOW as usize]), 10 * WINDOW));
    take_all(&quick);
    take_all(&slow);
    assert!(matches!(now(flight.room(WINDOW)), Poll::Ready(true)));
}

#[test]
fn what_is_stored_is_kept_for_a_reader_until_its_room_is_needed() {
    let [slow, _] = two();
    let (flight, ledger) = (&slow.flight, Ledger::new(1 << 20));
    let holder = ledger.holder();
    flight.keep_fragments(WINDOW);
    for _ in 0..100 {
        flight.push(holder.count(Bytes::from_static(&[0; 10])), WINDOW);
    }
    flight.note_stored(flight.arrived_bytes(), &Bytes::from_static(b"key"), 1);
    flight.finish(Ok(None));
    assert_eq!(ledger.bytes(), WINDOW);
    let next = now(slow.next());
    assert!(matches!(next, Poll::Ready(Next::Stored { number: 0, .. })));
    flight.keep_less(WINDOW / 2);
    assert_eq!(ledger.bytes(), WINDOW / 2);
}

#[test]
fn what_is_not_stored_is_unwanted_once_the_last_reader_has_left() {
    let [quick, slow] = two();
    let flight = Arc::clone(&quick.flight);
    assert!(flight.push(Bytes::from_static(b"begin"), WINDOW));
    drop(quick);
    assert!(now(flight.unwanted()).is_pending(), "one still reads");
    assert!(flight.ends_with_readers());
    drop(slow);
    assert!(now(flight.unwanted()).is_ready());
}

#[test]
fn the_last_reader_that_leaves_wakes_the_fetch() {
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let [quick, slow] = two();
    let flight = Arc::clone(&quick.flight);
    let woken = Arc::new(Woken(false.into()));
    let mut unwanted = pin!(flight.unwanted());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    drop(quick);
    assert!(unwanted.as_mut().poll(cx).is_pending());
    drop(slow);
    assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
    assert!(unwanted.poll(cx).is_ready());
}

#[test]
fn what_is_stored_is_unwanted_once_nobody_reads_it_and_it_is_not_worth_it() {
    for (length, is_wanted) in [(1_000_000, false), (1_000, true)] {
        let [quick, slow] = two();
        let flight = Arc::clone(&quick.flight);
        drop(slow);
        let worth = Worth {
            left_bytes: 10_000,
            percent: 90,
        };
        flight.is_worth(worth, Some(length));
        flight.keep_fragments(100);
        assert!(!flight.ends_with_readers());
        assert!(flight.push(Bytes::from_static(b"begin"), WINDOW));
        drop(quick);
        assert_eq!(now(flight.unwanted()).is_pending(), is_wanted, "{length}");
    }
}
