//! A and AAAA of one name, asked for at once: the answer for one family does not wait long for the other.
//!
//! RFC 8305 §3: once one family has been answered, the other has a short time left: IPv6 [`LATE_V6`], IPv4 [`LATE_V4`], which is
//! longer because IPv6 alone may not work. A family that fails, or is late, does not fail the name.
//!
//! For [`MEMORY`] after its answer for IPv6 was late, a name is asked for IPv4 only, so that not every connection waits.
//!
//! Not known here: the bounds of the whole look-up (`dns`). Limits: [`NAMES_MAX`] names are remembered; others wait each time.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    pin::{Pin, pin},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    lookup::Lookup,
    net::NetError,
    proto::rr::{Name, RData, Record, RecordType},
};
use tokio::time::timeout;

use super::dns::Found;
use base::clock::Instant;

/// RFC 8305 §3, "Resolution Delay".
const LATE_V6: Duration = Duration::from_millis(50);
/// The same for IPv4.
const LATE_V4: Duration = Duration::from_secs(1);
/// How long a late answer for IPv6 is remembered.
const MEMORY: Duration = Duration::from_secs(30);
/// The most names in one [`Until`].
const NAMES_MAX: usize = 1024;

/// A set of names, each until a time.
#[derive(Default)]
pub(super) struct Until(RefCell<HashMap<Box<str>, Instant>>);

impl Until {
    pub(super) fn has(&self, host: &str, now: Instant) -> bool {
        self.0.borrow().get(host).is_some_and(|until| now < *until)
    }

    pub(super) fn note(&self, host: &str, now: Instant, until: Instant) {
        let mut names = self.0.borrow_mut();
        if names.len() >= NAMES_MAX {
            names.retain(|_, until| now < *until);
        }
        if names.len() < NAMES_MAX {
            names.insert(host.into(), until);
        }
    }

    pub(super) fn forget(&self, host: &str) {
        self.0.borrow_mut().remove(host);
    }

    pub(super) fn clear(&self) {
        self.0.take();
    }
}

/// The addresses of a name. `late`: names whose answer for IPv6 was late.
///
/// # Errors
/// Neither family has an address. Of two errors, one other than "no records" is returned, because there may be addresses then.
pub(super) async fn addresses(
    by: &TokioResolver,
    name: &Name,
    late: &Until,
) -> Result<Found, NetError> {
    let host = name.to_ascii();
    let ipv4 = || by.lookup(name.clone(), RecordType::A);
    if late.has(&host, Instant::now())
        && let Ok(found) = ipv4().await
    {
        return Ok(Found::of(&[found], true));
    }
    let (mut ipv4, mut ipv6) = (
        pin!(ipv4()),
        pin!(by.lookup(name.clone(), RecordType::AAAA)),
    );
    let (ipv4, ipv6) = tokio::select! {
        found = &mut ipv4 => {
            let rest = rest(&found, LATE_V6, ipv6).await;
            if rest.is_none() {
                let now = Instant::now();
                late.note(&host, now, now + MEMORY);
            }
            (Some(found), rest)
        }
        found = &mut ipv6 => {
            let rest = rest(&found, LATE_V4, ipv4).await;
            (rest, Some(found))
        }
    };
    match (ipv4, ipv6) {
        (Some(Ok(ipv4)), Some(Ok(ipv6))) => Ok(Found::of(&[ipv4, ipv6], false)),
        (Some(Ok(one)), other) | (other, Some(Ok(one))) => {
            let is_told = matches!(&other, Some(Err(error)) if error.is_no_records_found());
            Ok(Found::of(&[one], !is_told))
        }
        (Some(Err(error)), other) | (other, Some(Err(error))) => Err(match other {
            Some(Err(other)) if error.is_no_records_found() => other,
            _ => error,
        }),
        (None, None) => Err(NetError::Timeout),
    }
}

/// The answer for the other family; `None`: not in time. If the first one failed, the other is waited for without this limit.
async fn rest(
    first: &Result<Lookup, NetError>,
    limit: Duration,
    other: Pin<&mut impl Future<Output = Result<Lookup, NetError>>>,
) -> Option<Result<Lookup, NetError>> {
    match first {
        Ok(_) => timeout(limit, other).await.ok(),
        Err(_) => Some(other.await),
    }
}

impl Found {
    fn of(lookups: &[Lookup], is_partial: bool) -> Found {
        let address = |record: &Record| match record.data {
            RData::A(it) => Some(IpAddr::V4(it.0)),
            RData::AAAA(it) => Some(IpAddr::V6(it.0)),
            _ => None,
        };
        let records = lookups.iter().flat_map(|it| it.answers());
        let until = lookups.iter().map(|it| it.valid_until()).min();
        Found {
            addresses: records.filter_map(address).collect(),
            until: until.map_or_else(Instant::now, Instant::from_std),
            is_partial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectError;
    use crate::dns::{DnsSettings, NameServer, Resolver};

    /// The result of a look-up, how long it took, and how many questions were asked.
    async fn look_up(
        resolver: &Resolver,
        server: &NameServer,
        host: &str,
    ) -> (Found, Duration, usize) {
        let begun = Instant::now();
        let mut found = None;
        let asked = server.while_answering(async { found = Some(resolver.look_up(host).await) });
        let asked = asked.await;
        (found.unwrap().unwrap(), begun.elapsed(), asked)
    }

    fn resolver(server: &NameServer) -> Resolver {
        Resolver::new(DnsSettings {
            ttl_min: Duration::from_secs(60),
            ..server.settings()
        })
    }

    fn addresses(found: &Found) -> Vec<String> {
        found.addresses.iter().map(IpAddr::to_string).collect()
    }

    /// A fraction of the time-out of one query.
    const SOON: Duration = Duration::from_millis(800);

    #[tokio::test]
    async fn what_is_never_answered_costs_a_short_wait_and_that_only_once() {
        let server = NameServer::new().await;
        let resolver = resolver(&server);
        let (found, took, asked) = look_up(&resolver, &server, "silent6.example").await;
        assert_eq!(addresses(&found), ["192.0.2.7"]);
        assert!(found.is_partial);
        assert!((LATE_V6..SOON).contains(&took), "{took:?}");
        assert_eq!(asked, 2);
        resolver.reload();
        let (found, took, asked) = look_up(&resolver, &server, "silent6.example").await;
        assert_eq!(addresses(&found), ["192.0.2.7"]);
        assert!(found.is_partial && took < SOON);
        assert_eq!(asked, 1, "the other one is known to be late");
    }

    #[tokio::test]
    async fn ipv4_is_waited_for_longer_and_not_for_the_whole_time() {
        let server = NameServer::new().await;
        let (found, took, _) = look_up(&resolver(&server), &server, "silent4.example").await;
        assert_eq!(addresses(&found), ["2001:db8::7"]);
        assert!(found.is_partial);
        assert!((LATE_V4..LATE_V4 + SOON).contains(&took), "{took:?}");
    }

    #[tokio::test]
    async fn a_family_that_fails_does_not_fail_the_name() {
        let server = NameServer::new().await;
        for (host, expected) in [
            ("lame6.example", "192.0.2.7"),
            ("lame4.example", "2001:db8::7"),
        ] {
            let (found, took, _) = look_up(&resolver(&server), &server, host).await;
            assert_eq!(addresses(&found), [expected], "{host}");
            assert!(found.is_partial, "{host}: there may be others");
            assert!(took < SOON, "{host} {took:?}");
        }
    }

    #[tokio::test]
    async fn that_a_family_has_no_address_is_told_and_that_it_fails_is_not() {
        let server = NameServer::new().await;
        let resolver = resolver(&server);
        let (found, ..) = look_up(&resolver, &server, "inside.example").await;
        assert_eq!(addresses(&found), ["127.0.0.1"]);
        assert!(!found.is_partial, "there are no others");
        // The answer "no IPv4 address" comes first.
        for _ in 0..8 {
            resolver.reload();
            let (found, ..) = look_up(&resolver, &server, "only6.example").await;
            assert_eq!(addresses(&found), ["2001:db8::7"]);
            assert!(!found.is_partial);
        }
        for host in ["fail6.example", "fail4.example"] {
            let mut found = None;
            let looking = async { found = Some(resolver.look_up(host).await) };
            server.while_answering(looking).await;
            let failed = found.unwrap().map(|found| found.addresses);
            assert_eq!(failed, Err(ConnectError::DnsFailed), "{host}");
        }
    }

    #[test]
    fn names_are_remembered_up_to_a_bound() {
        let (names, now) = (Until::default(), Instant::now());
        let note = |host: usize, now: Instant| names.note(&host.to_string(), now, now + MEMORY);
        (0..2 * NAMES_MAX).for_each(|host| note(host, now));
        assert!(names.has("0", now) && !names.has(&NAMES_MAX.to_string(), now));
        assert!(!names.has("0", now + MEMORY));
        note(NAMES_MAX, now + MEMORY);
        assert_eq!(names.0.borrow().len(), 1);
    }
}
