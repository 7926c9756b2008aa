//! Discovery of members: looks the operator's DNS name up again and again, and carries out what the roll decides.
//!
//! The look-up has its own resolver without a cache, bounded by `dns.timeout` and `dns.attempts`. A failed look-up changes nothing and is
//! counted; only the first failure in a row and the recovery are logged.
//!
//! Not known here: the decisions (`roll`).
//! Limits: [`ADDRESSES_MAX`] addresses an answer. The highest ones beyond that are dropped, so that all members drop the same.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    member::Member,
    roll::{Now, Said, Verdict},
    state::Cluster,
};
use base::member::MemberId;
use origin::{DnsSettings, Resolver};
use plan::{Dns, MEMBERS_MAX, PeerAddress};

/// Addresses used of one look-up: two for each member, and ours.
const ADDRESSES_MAX: usize = 2 * (MEMBERS_MAX + 1);
/// How often members that have left are looked for.
const TICK: Duration = Duration::from_secs(1);

impl Cluster {
    /// Are members discovered?
    pub fn discovers(&self) -> bool {
        self.plan.discover.is_some()
    }

    /// Are the other members known? With a list in the configuration, always. With discovery, once a look-up has succeeded and found another
    /// member; until then there may be members that have to be told of purges first.
    pub fn are_members_known(&self) -> bool {
        !self.discovers()
            || (self.discovery.has_answer.load(Ordering::Acquire)
                && self.members().next().is_some())
    }

    /// A peer has proved the key and opened a link, and can be reached at this address. Returns its number if it is a member.
    pub(super) fn knocked(&self, said: Said<'_>, at: SocketAddr) -> Option<MemberId> {
        if !self.discovers() {
            return self.member_named(said.name.as_bytes());
        }
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        let mut roll = self.roll();
        let id = roll.knocked(said, at, self.links_now());
        self.apply(&mut roll);
        id
    }

    /// A peer at the address of this place has told its name.
    pub(super) fn met(&self, id: MemberId, turn: u64, said: Said<'_>) -> Verdict {
        if !self.discovers() {
            return Verdict::Stays;
        }
        let mut roll = self.roll();
        let verdict = roll.met(id, turn, said, self.links_now());
        self.apply(&mut roll);
        verdict
    }

    /// The address of this place turned out to be our own.
    pub(super) fn is_own_address(&self, id: MemberId, turn: u64) {
        let mut roll = self.roll();
        roll.is_own(id, turn);
        self.apply(&mut roll);
    }

    fn listed(&self, addresses: &[SocketAddr]) {
        let mut roll = self.roll();
        roll.listed(addresses, self.links_now());
        self.apply(&mut roll);
        let (unplaced, found) = (roll.unplaced() as u64, addresses.len() as u64);
        self.discovery.addresses.store(found, Ordering::Relaxed);
        let before = self.discovery.unplaced.swap(unplaced, Ordering::Relaxed);
        if unplaced > 0 && before == 0 {
            tracing::warn!(
                addresses = found,
                without_place = unplaced,
                "more members than a cluster can have: some are left out"
            );
        }
        // Set this last: threads that see it must also see the members.
        self.discovery.has_answer.store(true, Ordering::Release);
        self.discovery.changes.fetch_add(1, Ordering::Release);
    }

    fn links_now(&self) -> Now {
        let trusted = |(id, member): (MemberId, &Member)| (member.is_trusted()).then_some(id.bit());
        let trusted = self
            .members()
            .filter_map(trusted)
            .fold(0, |all, bit| all | bit);
        Now {
            linked: trusted | self.discovery.linked_to_us.load(Ordering::Relaxed),
            trusted,
            ms: self.now_ms(),
        }
    }
}

/// A resolver that keeps no answers.
fn resolver(dns: &Dns) -> Resolver {
    Resolver::new(DnsSettings {
        servers: dns.servers.clone(),
        timeout: dns.timeout,
        attempts: dns.attempts,
        ttl_min: Duration::ZERO,
        ttl_max: Duration::ZERO,
        negative_ttl_max: Duration::ZERO,
        names_max: 0,
    })
}

/// Looks the name up periodically, until the task is aborted.
pub async fn discover(dns: Dns, cluster: Arc<Cluster>) {
    let Some(PeerAddress { host, port }) = &cluster.plan.discover else {
        return;
    };
    let resolver = resolver(&dns);
    let mut has_failed = false;
    loop {
        match resolver.look_up_all(host, ADDRESSES_MAX).await {
            Ok(found) => {
                if std::mem::take(&mut has_failed) {
                    tracing::info!(
                        name = host,
                        "the name of the cluster's members is answered again"
                    );
                }
                let found: Vec<_> = (found.iter().map(|ip| ip.to_canonical()))
                    .map(|ip| SocketAddr::new(ip, *port))
                    .collect();
                cluster.listed(&found);
            }
            Err(error) => {
                let failures = &cluster.discovery.failures;
                failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(
                        name = host,
                        %error,
                        "the name of the cluster's members is not answered; those that are known stay"
                    );
                }
            }
        }
        tokio::time::sleep(cluster.plan.discover_every).await;
    }
}

/// Forgets members that have left, until the task is aborted.
pub async fn forget(cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(TICK.min(cluster.plan.forget_after)).await;
        let mut roll = cluster.roll();
        roll.tick(cluster.links_now());
        cluster.apply(&mut roll);
    }
}

#[cfg(test)]
mod tests {
    use hints::{
        digest::IndexShape,
        frames::{Column, Hello, Kind},
    };

    use super::*;

    use plan::Plan;

    fn discovering() -> Cluster {
        let plan = Plan {
            cluster: Some(plan::Cluster {
                name: "own".into(),
                discover: Some(PeerAddress {
                    host: "nodes.example".into(),
                    port: 1,
                }),
                ..plan::Cluster::default()
            }),
            ..Plan::with_listeners(Vec::new())
        };
        Cluster::new(&plan, None).unwrap().unwrap()
    }

    #[test]
    fn members_that_knock_before_the_name_is_answered_take_one_look_up() {
        let cluster = discovering();
        let knock = |number: u8| {
            let said = Said {
                name: &format!("n{number}"),
                incarnation: 1,
            };
            let at = SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(number)));
            cluster.knocked(said, at).unwrap()
        };
        let come: Vec<MemberId> = (0..8).map(knock).collect();
        for id in &come {
            let column = Column {
                seed: 42,
                index: IndexShape {
                    shards: 1,
                    segments: 1,
                },
                kind: Kind::Bloom(hints::Shape::new(1 << 12, 7).unwrap()),
                epoch: 1,
                incarnation: 1,
                store: 1,
                weight: 1,
            };
            let hello = Hello {
                incarnation: 1,
                name: format!("n{}", id.0),
                columns: vec![column],
            };
            cluster.view().hello(id.0, &hello, 0).unwrap();
        }
        let mut reader = cluster.view().reader();
        assert_eq!(reader.groups().iter().count(), 1);
        assert_eq!(cluster.members().count(), come.len());
    }
}
