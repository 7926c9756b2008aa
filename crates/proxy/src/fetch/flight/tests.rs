//! Readers of different speed.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::*;

const WINDOW: u64 = 100;

/// A flight with a quick and a slow reader; nothing of its body is stored.
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

/// Takes all that is there, and waits.
fn take_all(reader: &FlightReader) {
    while let Poll::Ready(Next::Piece(_)) = now(reader.next()) {}
}

fn has_left(reader: &FlightReader) -> bool {
    matches!(
        now(reader.next()),
        Poll::Ready(Next::Broken(Broken::Lagged))
    )
}

/// As much as fits, in small pieces.
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
    for _ in 0..5 {
        // Both stand still.
        flight.cut_still(WINDOW);
        assert_eq!(flight.readers(), 2);
    }
    take_all(&quick);
    flight.cut_still(WINDOW);
    assert_eq!(flight.readers(), 2, "that may have been a moment ago");
    flight.cut_still(WINDOW);
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

/// When the budget of all is used up, the window is small, and many are behind by so little.
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
