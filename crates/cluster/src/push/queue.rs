//! Pushes that wait, and pushes being sent to members.
//!
//! A push takes room from its first collected byte until a member has answered: [`Queue::reserve`], then [`Queue::put`] or
//! [`Queue::release`], then [`Queue::take`], then [`Queue::done`]. A newer version replaces a waiting one of the same key. While one version
//! is being sent the next one waits, so that a member never gets the older version last.
//!
//! Not known here: the objects, how a member is chosen, sockets, time.
//! Limits: `bytes_max`; to make room the oldest push is dropped, because it has gone without a request for the longest time. [`AGE_MAX`] of
//! waiting. [`UNDER_WAY_MAX`] pushes at a time to a member. All that is dropped is counted ([`Counts`]).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base::clock::Instant;

/// How long a push may wait.
pub const AGE_MAX: Duration = Duration::from_secs(10);
/// Pushes at a time to a member. With 8, a member took fewer than came, and woke up more often for each (docs/measurements.md).
const UNDER_WAY_MAX: usize = 32;
/// Waiting pushes that one [`Queue::take`] looks at.
const LOOKED_AT_MAX: usize = 64;

/// Pushes dropped since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// For lack of room.
    pub full: u64,
    /// Because they had waited for too long.
    pub old: u64,
    /// Because a newer version came.
    pub replaced: u64,
}

/// The pushes of a front.
pub struct Queue<T> {
    bytes_max: u64,
    /// Bytes being collected, waiting or being sent.
    bytes: u64,
    /// The part of these that waits.
    waiting_bytes: u64,
    /// Waiting pushes in order of arrival.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The ticket of the waiting push of each key hash.
    by_key: HashMap<u64, u64>,
    /// Pushes being sent: member and key.
    under_way: Vec<(usize, u64)>,
    next_ticket: u64,
    counts: Counts,
}

struct Waiting<T> {
    key: u64,
    bytes: u64,
    since: Instant,
    push: T,
}

/// A push taken from the queue, to be sent.
#[derive(Debug)]
pub struct Taken<T> {
    /// The member it goes to.
    pub member: usize,
    /// The hash of its key.
    pub key: u64,
    /// The room it takes.
    pub bytes: u64,
    /// The push.
    pub push: T,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(bytes_max: u64) -> Queue<T> {
        Queue {
            bytes_max,
            bytes: 0,
            waiting_bytes: 0,
            waiting: BTreeMap::new(),
            by_key: HashMap::new(),
            under_way: Vec::new(),
            next_ticket: 0,
            counts: Counts::default(),
        }
    }

    /// Takes room for so many more bytes being collected, dropping the oldest waiting pushes. `false`: even that does not make enough room.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        if self.bytes - self.waiting_bytes + bytes > self.bytes_max {
            self.counts.full += 1;
            return false;
        }
        while self.bytes + bytes > self.bytes_max
            && let Some((&oldest, _)) = self.waiting.first_key_value()
        {
            self.remove(oldest);
            self.counts.full += 1;
        }
        self.bytes += bytes;
        true
    }

    /// Gives back room that [`Self::reserve`] took.
    pub fn release(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// Adds a complete push. `bytes`: all that was reserved for it.
    pub fn put(&mut self, key: u64, bytes: u64, push: T, now: Instant) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if let Some(before) = self.by_key.get(&key) {
            self.remove(*before);
            self.counts.replaced += 1;
        }
        let since = now;
        let waiting = Waiting {
            key,
            bytes,
            since,
            push,
        };
        self.waiting_bytes += bytes;
        self.waiting.insert(ticket, waiting);
        self.by_key.insert(key, ticket);
    }

    /// Takes the oldest push that may be sent now. `has_room`: may any member get one? If not, no push is looked at. `choose`: the member for a
    /// push; `None`: it has to wait.
    pub fn take(
        &mut self,
        now: Instant,
        has_room: impl FnOnce(&Loads<'_>) -> bool,
        mut choose: impl FnMut(&T, &Loads<'_>) -> Option<usize>,
    ) -> Option<Taken<T>> {
        self.drop_old(now);
        let loads = Loads(&self.under_way);
        if self.waiting.is_empty() || !has_room(&loads) {
            return None;
        }
        let may_go = |(ticket, waiting): (&u64, &Waiting<T>)| {
            let is_on_its_way = self.under_way.iter().any(|&(_, key)| key == waiting.key);
            let member = choose(&waiting.push, &loads).filter(|_| !is_on_its_way)?;
            Some((*ticket, member))
        };
        let (ticket, member) = (self.waiting.iter().take(LOOKED_AT_MAX)).find_map(may_go)?;
        let waiting = self.waiting.remove(&ticket)?;
        self.by_key.remove(&waiting.key);
        self.waiting_bytes -= waiting.bytes;
        self.under_way.push((member, waiting.key));
        Some(Taken {
            member,
            key: waiting.key,
            bytes: waiting.bytes,
            push: waiting.push,
        })
    }

    /// Ends a push that was taken, whether it succeeded or failed.
    pub fn done(&mut self, taken: &Taken<T>) {
        self.arrived(taken);
        self.bytes -= taken.bytes;
    }

    /// Lets a push that was taken wait again, unless a newer version has come.
    pub fn put_back(&mut self, taken: Taken<T>, now: Instant) {
        if self.by_key.contains_key(&taken.key) {
            self.counts.replaced += 1;
            return self.done(&taken);
        }
        self.arrived(&taken);
        self.put(taken.key, taken.bytes, taken.push, now);
    }

    fn arrived(&mut self, taken: &Taken<T>) {
        let way = (taken.member, taken.key);
        if let Some(at) = self.under_way.iter().position(|under| *under == way) {
            self.under_way.swap_remove(at);
        }
    }

    /// Bytes of all pushes now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of waiting pushes.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Counts of dropped pushes.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn drop_old(&mut self, now: Instant) {
        while let Some((&oldest, waiting)) = self.waiting.first_key_value()
            && now.saturating_duration_since(waiting.since) > AGE_MAX
        {
            self.remove(oldest);
            self.counts.old += 1;
        }
    }

    fn remove(&mut self, ticket: u64) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            self.by_key.remove(&waiting.key);
            self.waiting_bytes -= waiting.bytes;
            self.bytes -= waiting.bytes;
        }
    }
}

/// How many pushes are being sent to each member.
pub struct Loads<'a>(&'a [(usize, u64)]);

impl Loads<'_> {
    /// Pushes being sent to a member.
    pub fn of(&self, member: usize) -> usize {
        self.0.iter().filter(|(to, _)| *to == member).count()
    }

    /// May one more be sent to it?
    pub fn has_room(&self, member: usize) -> bool {
        self.of(member) < UNDER_WAY_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(pushes: &[(u64, u64)]) -> Queue<u64> {
        let mut queue = Queue::new(100);
        for &(key, bytes) in pushes {
            assert!(queue.reserve(bytes));
            queue.put(key, bytes, key, Instant::now());
        }
        queue
    }

    fn take_one(queue: &mut Queue<u64>) -> Option<Taken<u64>> {
        let any = |loads: &Loads<'_>| (0..2).find(|&m| loads.has_room(m));
        let has_room = |loads: &Loads<'_>| any(loads).is_some();
        queue.take(Instant::now(), has_room, |_, loads| any(loads))
    }

    fn take(queue: &mut Queue<u64>) -> Option<u64> {
        take_one(queue).map(|taken| taken.key)
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut queue = queue(&[(1, 10), (2, 10)]);
        assert_eq!(
            [take(&mut queue), take(&mut queue), take(&mut queue)],
            [Some(1), Some(2), None]
        );
    }

    #[test]
    fn a_full_queue_drops_the_oldest_but_nothing_for_what_never_fits() {
        let mut queue = queue(&[(1, 40), (2, 40)]);
        assert!(!queue.reserve(101));
        assert_eq!(queue.waiting(), 2);
        assert!(queue.reserve(30));
        assert_eq!((queue.waiting(), queue.bytes()), (1, 70));
        assert_eq!(queue.counts().full, 2);
        let taken = take_one(&mut queue).unwrap();
        assert_eq!(taken.key, 2);
        assert!(!queue.reserve(40), "what is on its way keeps its room");
        queue.done(&taken);
        assert!(queue.reserve(40));
    }

    #[test]
    fn a_newer_version_takes_the_place_of_the_one_that_waits() {
        let queue = queue(&[(1, 10), (1, 20)]);
        assert_eq!(
            (queue.waiting(), queue.bytes(), queue.counts().replaced),
            (1, 20, 1)
        );
    }

    #[test]
    fn a_newer_version_waits_until_the_one_before_has_arrived() {
        let mut queue = queue(&[(1, 10)]);
        let older = take_one(&mut queue).unwrap();
        assert!(queue.reserve(10));
        queue.put(1, 10, 1, Instant::now());
        assert_eq!(take(&mut queue), None);
        queue.put_back(older, Instant::now());
        assert_eq!(
            (queue.waiting(), queue.bytes(), queue.counts().replaced),
            (1, 10, 1)
        );
        assert_eq!(take(&mut queue), Some(1));
    }

    #[test]
    fn what_a_member_did_not_take_waits_again() {
        let mut queue = queue(&[(1, 10)]);
        let taken = take_one(&mut queue).unwrap();
        queue.put_back(taken, Instant::now());
        assert_eq!((queue.waiting(), queue.bytes()), (1, 10));
        let taken = take_one(&mut queue).unwrap();
        queue.done(&taken);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn no_push_is_looked_at_while_no_member_has_room() {
        let mut queue = queue(&[(1, 10), (2, 10)]);
        let mut looked_at = 0;
        let mut count = |_: &u64, _: &Loads<'_>| {
            looked_at += 1;
            None
        };
        assert!(queue.take(Instant::now(), |_| false, &mut count).is_none());
        assert!(queue.take(Instant::now(), |_| true, &mut count).is_none());
        assert_eq!(looked_at, 2);
    }

    #[test]
    fn what_has_waited_too_long_is_dropped() {
        let mut queue = queue(&[(1, 10)]);
        let later = Instant::now() + AGE_MAX + Duration::from_secs(1);
        assert!(queue.take(later, |_| true, |_, _| Some(0)).is_none());
        assert_eq!((queue.bytes(), queue.counts().old), (0, 1));
    }

    #[test]
    fn a_member_gets_so_many_at_a_time() {
        let pushes: Vec<_> = (0..2 * UNDER_WAY_MAX as u64 + 1)
            .map(|key| (key, 1))
            .collect();
        let mut queue = queue(&pushes);
        let taken: Vec<_> = std::iter::from_fn(|| take_one(&mut queue)).collect();
        assert_eq!(taken.len(), 2 * UNDER_WAY_MAX);
        queue.done(&taken[UNDER_WAY_MAX]);
        assert!(take(&mut queue).is_some());
    }
}
