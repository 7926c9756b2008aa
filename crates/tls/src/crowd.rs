//! Which handshake is given up when a worker has as many as it may.
//!
//! A client that stalls in its handshake holds a place until `timeouts.client-handshake`. Instead of refusing others, the worker gives up its oldest
//! handshake for a new one, if the oldest is at least [`SAFE_FOR`] old: most honest clients are done by then. So an attacker that stalls
//! handshakes can cut others down to [`SAFE_FOR`] only with more than `limits.handshakes-max` connections a second.
//!
//! Not known here: the bound on their number, TLS.
//!
//! Limits: one entry for each handshake under way. Work grows with the logarithm of their number.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    task::{Poll, Waker},
    time::Duration,
};

use base::clock::Instant;

/// No handshake is given up before this age.
pub const SAFE_FOR: Duration = Duration::from_secs(1);

/// A worker's handshakes, in the order in which they began.
#[derive(Default)]
pub struct Crowd(RefCell<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    places: BTreeMap<u64, Place>,
}

struct Place {
    began: Instant,
    waker: Waker,
}

/// A handshake's place, given up when dropped.
struct Member<'c> {
    crowd: &'c Crowd,
    number: u64,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.crowd.0.borrow_mut().places.remove(&self.number);
    }
}

impl Crowd {
    /// Runs a handshake that begins now. `None`: it was given up for another one.
    pub async fn join<T>(&self, now: Instant, shaking: impl Future<Output = T>) -> Option<T> {
        let mut shaking = pin!(shaking);
        let mut member = None;
        poll_fn(move |cx| {
            let mut waiting = self.0.borrow_mut();
            let Member { number, .. } = member.get_or_insert_with(|| {
                let number = waiting.next;
                waiting.next += 1;
                let (began, waker) = (now, cx.waker().clone());
                waiting.places.insert(number, Place { began, waker });
                Member {
                    crowd: self,
                    number,
                }
            });
            match waiting.places.get_mut(number) {
                Some(place) => place.waker.clone_from(cx.waker()),
                None => return Poll::Ready(None),
            }
            drop(waiting);
            shaking.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Gives up the oldest handshake. False: there is none, or it is younger than [`SAFE_FOR`].
    pub fn make_room(&self, now: Instant) -> bool {
        let mut waiting = self.0.borrow_mut();
        let Some(oldest) = waiting.places.first_entry() else {
            return false;
        };
        if now.saturating_duration_since(oldest.get().began) < SAFE_FOR {
            return false;
        }
        let place = oldest.remove();
        drop(waiting);
        place.waker.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, task::Context};

    use super::*;

    #[test]
    fn the_oldest_goes_and_only_once_it_has_had_its_time() {
        let crowd = Crowd::default();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!crowd.make_room(at(5000)), "there is none");
        let mut one = Box::pin(crowd.join(at(0), pending::<()>()));
        let mut two = Box::pin(crowd.join(at(10), pending::<()>()));
        let mut three = Box::pin(crowd.join(at(20), async { 3 }));
        assert!(one.as_mut().poll(&mut cx).is_pending());
        assert!(two.as_mut().poll(&mut cx).is_pending());
        assert_eq!(three.as_mut().poll(&mut cx), Poll::Ready(Some(3)));
        assert!(!crowd.make_room(at(999)));
        assert!(crowd.make_room(at(1000)));
        assert!(!crowd.make_room(at(1000)), "the next one is younger");
        assert_eq!(one.as_mut().poll(&mut cx), Poll::Ready(None));
        assert!(two.as_mut().poll(&mut cx).is_pending());
        drop(two);
        assert!(!crowd.make_room(at(5000)), "both have left");
        drop((one, three));
        assert!(crowd.0.borrow().places.is_empty());
    }
}
