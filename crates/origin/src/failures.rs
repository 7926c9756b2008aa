//! Remembers origins that could not be reached, so that not every request tries a dead one.
//!
//! A failure to connect (name, TCP, TLS) is remembered for a short time. Until then, requests fail at once with
//! [`ConnectError::Remembered`]. A successful connection clears the entry. Answers of origins and failures of this machine
//! do not count.
//!
//! A failure is returned only to requests that would have tried the same addresses. Otherwise clients of a listener
//! with strict rules would learn about the inside of a network from failures noted by one with wider rules.
//!
//! Limits: [`FAILURES_MAX`] destinations a worker; while all are recent, further ones are not remembered.

use base::clock::Instant;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::inward::{Machine, permitted};
use crate::connection::{ConnectError, Destination};
use base::access::Destinations;

/// The most destinations remembered.
pub const FAILURES_MAX: usize = 1024;

struct Failure {
    /// The addresses of the name; empty if it did not resolve.
    found: Vec<IpAddr>,
    /// The addresses that were tried.
    tried: Vec<SocketAddr>,
    error: Arc<ConnectError>,
    until: Instant,
}

/// One worker's failures.
pub(super) struct Failures {
    ttl: Cell<Duration>,
    table: RefCell<HashMap<Destination, Failure>>,
    noted: Cell<u64>,
    recalled: Cell<u64>,
}

impl Failures {
    /// An empty table. Failures are remembered for `ttl`; zero: not at all.
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            ttl: Cell::new(ttl),
            table: RefCell::default(),
            noted: Cell::new(0),
            recalled: Cell::new(0),
        }
    }

    /// Applies a new time for which failures are remembered. If it differs, the table is cleared.
    pub(super) fn follow(&self, ttl: Duration) {
        if self.ttl.replace(ttl) != ttl {
            self.table.borrow_mut().clear();
        }
    }

    /// The failure that a connection would most likely meet now.
    pub(super) fn recall(
        &self,
        to: &Destination,
        access: &Destinations,
        machine: &Machine,
        now: Instant,
    ) -> Option<ConnectError> {
        let table = self.table.borrow();
        let failure = table.get(to).filter(|failure| now < failure.until)?;
        let allowed = permitted(failure.found.clone(), to.port, access, machine).ok()?;
        if allowed != failure.tried {
            return None;
        }
        self.recalled.set(self.recalled.get() + 1);
        Some(ConnectError::Remembered(Arc::clone(&failure.error)))
    }

    /// How many failures were remembered so far, and how often one was returned instead of a new attempt.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.noted.get(), self.recalled.get())
    }

    pub(super) fn note(
        &self,
        to: &Destination,
        found: &[IpAddr],
        tried: &[SocketAddr],
        error: &ConnectError,
        now: Instant,
    ) {
        if self.ttl.get().is_zero() || !is_of_the_origin(error) {
            return;
        }
        let mut table = self.table.borrow_mut();
        if table.len() >= FAILURES_MAX && !table.contains_key(to) {
            table.retain(|_, failure| now < failure.until);
            if table.len() >= FAILURES_MAX {
                return;
            }
        }
        let failure = Failure {
            found: found.to_vec(),
            tried: tried.to_vec(),
            error: Arc::new(error.clone()),
            until: now + self.ttl.get(),
        };
        table.insert(to.clone(), failure);
        self.noted.set(self.noted.get() + 1);
    }

    /// A connection succeeded: forgets the destination's failure.
    pub(super) fn clear(&self, to: &Destination) {
        let mut table = self.table.borrow_mut();
        if !table.is_empty() {
            table.remove(to);
        }
    }
}

/// Is the failure the origin's, so that the next attempt would fail in the same way?
fn is_of_the_origin(error: &ConnectError) -> bool {
    match error {
        ConnectError::NotFound | ConnectError::DnsFailed | ConnectError::DnsTimeout => true,
        ConnectError::Refused | ConnectError::Unroutable | ConnectError::Timeout => true,
        ConnectError::Tls(fault, _) => *fault != crate::tls_words::TlsFault::NoRoots,
        ConnectError::Forbidden(_) | ConnectError::Busy | ConnectError::Exhausted => false,
        ConnectError::Io(_) | ConnectError::Remembered(_) | ConnectError::Member(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::access::Forbidden;

    const TTL: Duration = Duration::from_secs(1);

    fn to(host: &str) -> Destination {
        Destination {
            tls: false,
            host: host.into(),
            port: 80,
            member: None,
            terms: None,
            http2: None,
        }
    }

    fn recall(
        failures: &Failures,
        to: &Destination,
        access: &Destinations,
        now: Instant,
    ) -> Option<ConnectError> {
        let machine = Machine::with(vec!["203.0.113.5".parse().unwrap()]);
        failures.recall(to, access, &machine, now)
    }

    fn noted(failures: &Failures, to: &Destination, ips: &[&str], now: Instant) {
        let found: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let tried: Vec<SocketAddr> = found.iter().map(|ip| SocketAddr::new(*ip, 80)).collect();
        failures.note(to, &found, &tried, &ConnectError::Refused, now);
    }

    #[test]
    fn a_failure_is_remembered_for_a_while_or_until_a_success() {
        let (failures, now, all) = (Failures::new(TTL), Instant::now(), Destinations::default());
        let (a, b) = (to("a"), to("b"));
        noted(&failures, &a, &["192.0.2.1"], now);
        let again = recall(&failures, &a, &all, now).expect("remembered");
        assert_eq!(
            again,
            ConnectError::Remembered(Arc::new(ConnectError::Refused))
        );
        assert_eq!(
            (again.status(), again.detail_token()),
            (503, "destination_unavailable")
        );
        assert_eq!(recall(&failures, &b, &all, now), None);
        assert_eq!(recall(&failures, &a, &all, now + TTL), None);
        failures.clear(&a);
        assert_eq!(recall(&failures, &a, &all, now), None);
        assert_eq!(failures.counts(), (1, 1));
    }

    #[test]
    fn our_own_failures_are_not() {
        let (failures, now, all) = (Failures::new(TTL), Instant::now(), Destinations::default());
        for error in [
            ConnectError::Busy,
            ConnectError::Exhausted,
            ConnectError::Forbidden(Forbidden::Loopback),
        ] {
            failures.note(&to("a"), &[], &[], &error, now);
            assert_eq!(recall(&failures, &to("a"), &all, now), None);
        }
        let never = Failures::new(Duration::ZERO);
        noted(&never, &to("a"), &["192.0.2.1"], now);
        assert_eq!(recall(&never, &to("a"), &all, now), None);
    }

    #[test]
    fn what_others_may_not_try_they_do_not_hear_of() {
        let (failures, now) = (Failures::new(TTL), Instant::now());
        let outside = Destinations {
            loopback: false,
            ..Destinations::default()
        };
        noted(&failures, &to("a"), &["127.0.0.1"], now);
        assert_eq!(recall(&failures, &to("a"), &outside, now), None);
        noted(&failures, &to("d"), &["203.0.113.5"], now);
        assert_eq!(recall(&failures, &to("d"), &outside, now), None);
        noted(&failures, &to("b"), &["127.0.0.1", "192.0.2.1"], now);
        assert_eq!(recall(&failures, &to("b"), &outside, now), None);
        noted(&failures, &to("c"), &["192.0.2.1"], now);
        assert!(recall(&failures, &to("c"), &outside, now).is_some());
    }

    #[test]
    fn the_table_is_bounded() {
        let (failures, now, all) = (Failures::new(TTL), Instant::now(), Destinations::default());
        for n in 0..=FAILURES_MAX {
            noted(&failures, &to(&n.to_string()), &["192.0.2.1"], now);
        }
        assert_eq!(failures.table.borrow().len(), FAILURES_MAX);
        let later = now + TTL;
        noted(&failures, &to("later"), &["192.0.2.1"], later);
        assert!(recall(&failures, &to("later"), &all, later).is_some());
        assert_eq!(failures.table.borrow().len(), 1);
    }
}
