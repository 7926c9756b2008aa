//! Servers found by names: on the control thread, names are looked up again as often as their TTL says, and changes are
//! passed to the upstreams.
//!
//! A failed or empty look-up changes nothing: the known servers stay, and the log has one line at the first failure and one at
//! the next success. The same holds for the address of an SRV target, or one address family, without an answer. A target that does not
//! exist any more is removed.
//!
//! Limits: [`LOOKUPS_MAX`] look-ups at once, others wait. An answer is used for [`EVERY_MIN`] at least.
//! Not known here: what a server is (`group`), whether a server is healthy.

use std::{net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::sleep_until};

use super::{
    Group,
    group::{Found, Question},
    locked,
};
use base::clock::Instant;
use origin::{ConnectError, DnsSettings, Resolver, Service};
use plan::SERVERS_MAX;

/// The most names that are looked up at once.
const LOOKUPS_MAX: usize = 64;
/// An answer is used for this long, however short its TTL is.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The time until a failed look-up is repeated: while servers are known, and while none is.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_AT_ONCE: Duration = Duration::from_secs(1);
/// The longest pause while nothing is due.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The names to look up, and the settings for it.
pub struct Names {
    /// The upstreams.
    pub upstreams: Vec<Arc<Group>>,
    /// The settings for look-ups.
    pub dns: DnsSettings,
}

/// The result of a look-up: servers, and until when the answer is valid.
type Answer = Result<(Vec<Found>, Instant), ConnectError>;

/// A finished look-up.
struct Ended {
    upstream: String,
    of: Question,
    answer: Answer,
}

/// Looks names up for as long as the process serves. `names_of` reads an edition of the configuration. To be called on a `LocalRuntime`.
pub async fn run<E>(mut editions: watch::Receiver<Arc<E>>, names_of: impl Fn(&E) -> Names) {
    let now = |editions: &mut watch::Receiver<Arc<E>>| {
        let edition = Arc::clone(&editions.borrow_and_update());
        let mut names = names_of(&edition);
        // Negative answers are not cached, because a missing name may appear soon.
        names.dns.negative_ttl_max = Duration::ZERO;
        names
    };
    let mut wanted = now(&mut editions);
    let resolver = Rc::new(Resolver::new(wanted.dns.clone()));
    let mut lookups = JoinSet::new();
    loop {
        let next = begin_those_due(&wanted.upstreams, &resolver, &mut lookups);
        tokio::select! {
            changed = editions.changed() => {
                if changed.is_err() {
                    return;
                }
                let before = std::mem::replace(&mut wanted, now(&mut editions));
                if before.dns != wanted.dns {
                    resolver.follow(wanted.dns.clone());
                    ask_all_anew(&wanted.upstreams);
                }
                // Apply answers that came while the edition was being made.
                let with_names = wanted.upstreams.iter().filter(|it| !it.plan.names.is_empty());
                with_names.for_each(|it| it.follow(Instant::now()));
            }
            Some(ended) = lookups.join_next(), if !lookups.is_empty() => {
                if let Ok(ended) = ended {
                    note(&wanted.upstreams, ended, Instant::now());
                }
            }
            () = sleep_until(next), if lookups.len() < LOOKUPS_MAX => {}
        }
    }
}

/// Makes all names due at once, because new name servers may give other answers.
fn ask_all_anew(upstreams: &[Arc<Group>]) {
    for group in upstreams {
        let upstream = group.now();
        let mut found = locked(&upstream.common.found);
        found.iter_mut().for_each(|answers| answers.next = None);
    }
}

/// Starts the look-ups that are due. Returns the time when the next one is due.
fn begin_those_due(
    upstreams: &[Arc<Group>],
    resolver: &Rc<Resolver>,
    lookups: &mut JoinSet<Ended>,
) -> Instant {
    let now = Instant::now();
    let mut next = now + PAUSE_MAX;
    for group in upstreams {
        let upstream = group.now();
        for answers in locked(&upstream.common.found).iter_mut() {
            let due = answers.next.unwrap_or(now);
            if answers.is_asked {
                continue;
            }
            if due > now || lookups.len() >= LOOKUPS_MAX {
                next = next.min(due.max(now));
                continue;
            }
            answers.is_asked = true;
            let (of, known) = (answers.of.clone(), answers.servers.clone());
            let (resolver, upstream) = (Rc::clone(resolver), group.name().to_owned());
            lookups.spawn_local(async move {
                let answer = match of.is_service {
                    true => services(&resolver, &of.host, known).await,
                    false => addresses(&resolver, &of.host, &known).await,
                };
                Ended {
                    upstream,
                    of,
                    answer,
                }
            });
        }
    }
    next
}

async fn addresses(resolver: &Resolver, host: &str, known: &[Found]) -> Answer {
    let found = resolver.addresses(host).await?;
    let of = |ip: IpAddr| Found {
        priority: 0,
        target: String::new(),
        ip,
        port: 0,
        weight: 0,
    };
    let all = all_of(&found, known.iter());
    Ok((in_order(all.into_iter().map(of)), found.until))
}

/// The addresses found, and the known addresses of a family without an answer.
fn all_of<'a>(found: &origin::Found, known: impl Iterator<Item = &'a Found>) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = found.addresses.iter().map(IpAddr::to_canonical).collect();
    if found.is_partial {
        let is_ipv4 = found.addresses.iter().all(IpAddr::is_ipv4);
        let untold = known.map(|it| it.ip).filter(|ip| ip.is_ipv4() != is_ipv4);
        all.extend(untold);
    }
    all
}

/// The addresses of all servers that a name offers. `known`: those from before.
async fn services(resolver: &Rc<Resolver>, name: &str, known: Vec<Found>) -> Answer {
    let (services, mut until) = resolver.services(name).await?;
    let mut lookups = JoinSet::new();
    for service in services.into_iter().take(SERVERS_MAX) {
        let resolver = Rc::clone(resolver);
        lookups.spawn_local(async move {
            let host = service.target.trim_end_matches('.');
            let answer = resolver.addresses(host).await;
            (service, answer)
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = lookups.join_next().await {
        let Ok((service, answer)) = ended else {
            continue;
        };
        match answer {
            Ok(found) => {
                until = until.min(found.until);
                let known = known.iter().filter(|it| it.target == service.target);
                let addresses = all_of(&found, known).into_iter();
                all.extend(addresses.map(|ip| service_at(&service, ip)));
            }
            Err(ConnectError::NotFound) => {}
            Err(error) => {
                let target = service.target.as_str();
                tracing::debug!(name, target, %error, "the addresses that are known stay");
                let known = known.iter().filter(|it| it.target == target);
                all.extend(known.map(|it| service_at(&service, it.ip)));
                until = until.min(Instant::now() + AGAIN);
            }
        }
    }
    match all.is_empty() {
        true => Err(ConnectError::NotFound),
        false => Ok((in_order(all), until)),
    }
}

fn service_at(service: &Service, ip: IpAddr) -> Found {
    Found {
        priority: service.priority,
        target: service.target.clone(),
        ip,
        port: service.port,
        weight: service.weight,
    }
}

fn in_order(found: impl IntoIterator<Item = Found>) -> Vec<Found> {
    let mut found: Vec<Found> = found.into_iter().collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn note(upstreams: &[Arc<Group>], ended: Ended, now: Instant) {
    let Ended {
        upstream,
        of,
        answer,
    } = ended;
    // The present edition may lack the upstream or the name.
    let Some(group) = upstreams.iter().find(|it| it.name() == upstream) else {
        return;
    };
    let common = Arc::clone(&group.now().common);
    let mut found = locked(&common.found);
    let Some(answers) = found.iter_mut().find(|it| it.of == of) else {
        return;
    };
    answers.is_asked = false;
    let is_first = !std::mem::replace(&mut answers.is_tried, true);
    let name = of.host.as_str();
    let has_changed = match answer {
        Ok((servers, until)) => {
            if answers.fault.take().is_some() {
                tracing::info!(upstream, name, "the name of servers is answered again");
            }
            answers.next = Some(until.max(now + EVERY_MIN));
            let has_changed = answers.servers != servers;
            answers.servers = servers;
            has_changed
        }
        Err(error) => {
            let pause = match answers.servers.is_empty() {
                true => AGAIN_AT_ONCE,
                false => AGAIN,
            };
            answers.next = Some(now + pause);
            if answers.fault.replace(error.to_string()).is_none() {
                let known = answers.servers.len();
                tracing::warn!(upstream, name, %error, known, "the name of servers is not answered; those that are known stay");
            }
            false
        }
    };
    drop(found);
    if is_first || has_changed {
        group.follow(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Upstream, of_plan};
    use super::*;
    use plan::{OriginUrl, Plan, Records, Server, ServerName};

    fn name(host: &str, records: Records, backup: bool) -> ServerName {
        ServerName {
            host: host.to_owned(),
            tls: false,
            records,
            backup,
        }
    }

    /// An upstream with one listed server and these names.
    fn plan_of(names: &[ServerName]) -> Plan {
        let listed = Server::at(OriginUrl {
            tls: false,
            host: "10.0.0.1".to_owned(),
            port: 80,
            path: String::new(),
        });
        let mut plan = Plan::with_listeners(Vec::new());
        plan.upstreams = vec![plan::Upstream {
            name: "app".to_owned(),
            servers: vec![listed],
            names: names.to_vec(),
            ..plan::Upstream::default()
        }];
        plan
    }

    const PORT: Records = Records::Addresses {
        port: 80,
        weight: 3,
    };

    fn found(text: &str) -> Found {
        let numbers: Vec<u16> = text.split('.').map(|it| it.parse().unwrap()).collect();
        let [priority, weight, last] = numbers[..] else {
            panic!("priority, weight, last byte of the address")
        };
        Found {
            priority,
            target: format!("{last}.example."),
            ip: IpAddr::from([10, 0, 0, last as u8]),
            port: 80,
            weight,
        }
    }

    /// Answers a look-up of the name with servers written as `priority.weight.last-byte-of-the-address`.
    fn answer(groups: &[Arc<Group>], host: &str, servers: &[&str], now: Instant) {
        let is_service = host.starts_with('_');
        ended(
            groups,
            Question {
                host: host.to_owned(),
                is_service,
            },
            Ok((servers.iter().map(|it| found(it)).collect(), now)),
            now,
        );
    }

    fn ended(groups: &[Arc<Group>], of: Question, answer: Answer, now: Instant) {
        let upstream = "app".to_owned();
        note(
            groups,
            Ended {
                upstream,
                of,
                answer,
            },
            now,
        );
    }

    /// Each server: the last byte of its address, its weight, its rank.
    fn told(upstream: &Upstream) -> String {
        let of = |it: &super::super::Member| {
            let host = &it.server.destination.host;
            let last = host.rsplit('.').next().unwrap().to_owned();
            format!("{last}:{}:{}", it.weight, it.rank)
        };
        upstream
            .members
            .iter()
            .map(of)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn addresses_of_a_family_that_is_not_told_stay() {
        let known = ["0.1.1", "0.1.2"].map(found);
        let mut known = known.to_vec();
        known[1].ip = "2001:db8::2".parse().unwrap();
        let told = |is_partial| origin::Found {
            addresses: vec![IpAddr::from([10, 0, 0, 3])],
            until: Instant::now(),
            is_partial,
        };
        let of = |is_partial| {
            let all = all_of(&told(is_partial), known.iter());
            all.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(false), ["10.0.0.3"]);
        assert_eq!(of(true), ["10.0.0.3", "2001:db8::2"]);
    }

    #[test]
    fn answers_make_servers_and_failures_leave_them() {
        let names = [name("a", PORT, false), name("b", PORT, true)];
        let plan = plan_of(&names);
        let groups = of_plan(&plan, &[]);
        let (group, now) = (&groups[0], Instant::now());
        assert_eq!(told(&group.now()), "1:1:0");
        answer(&groups, "b", &["0.0.9"], now);
        assert_eq!(told(&group.now()), "1:1:0 9:3:1");
        // The listed server is known already.
        answer(&groups, "a", &["0.0.1", "0.0.2"], now);
        assert_eq!(told(&group.now()), "1:1:0 2:3:0 9:3:1");
        let before = group.now();
        let of = Question {
            host: "a".to_owned(),
            is_service: false,
        };
        ended(&groups, of.clone(), Err(ConnectError::NotFound), now);
        assert!(Arc::ptr_eq(&before, &group.now()));
        let next = locked(&before.common.found)[0].next;
        assert_eq!(next, Some(now + AGAIN));
        // A reload keeps the servers found, unless the new plan does not have the name.
        let reloaded = of_plan(&plan, &groups);
        assert_eq!(told(&reloaded[0].now()), "1:1:0 2:3:0 9:3:1");
        let is_same = |a: &Upstream, b: &Upstream, n: usize| {
            Arc::ptr_eq(&a.members[n].server, &b.members[n].server)
        };
        assert!((0..3).all(|n| is_same(&before, &reloaded[0].now(), n)));
        let without = of_plan(&plan_of(&names[1..]), &reloaded);
        assert_eq!(told(&without[0].now()), "1:1:0 9:3:1");
        answer(&without, "a", &["0.0.7"], now);
        assert_eq!(told(&without[0].now()), "1:1:0 9:3:1");
        answer(&without, "b", &["0.0.8"], now);
        assert_eq!(told(&without[0].now()), "1:1:0 8:3:1");
        assert_eq!(
            told(&before),
            "1:1:0 2:3:0 9:3:1",
            "of a request that began"
        );
    }

    #[test]
    fn priorities_are_ranks_and_backups_come_behind_them() {
        let names = [
            name("_a._tcp.x", Records::Services, false),
            name("b", PORT, true),
        ];
        let groups = of_plan(&plan_of(&names), &[]);
        let now = Instant::now();
        let services = ["10.5.2", "10.0.3", "20.7.4", "900.1.5"];
        answer(&groups, "_a._tcp.x", &services, now);
        answer(&groups, "b", &["0.0.6"], now);
        let wanted = "1:1:0 2:5:0 3:1:0 4:7:1 5:1:2 6:3:3";
        assert_eq!(told(&groups[0].now()), wanted);
        let backups = groups[0].now();
        let backups: Vec<bool> = backups.members.iter().map(|it| it.is_backup).collect();
        assert_eq!(backups, [false, false, false, true, true, true]);
    }

    #[test]
    fn only_as_many_as_there_may_be_are_taken() {
        let groups = of_plan(&plan_of(&[name("a", PORT, false)]), &[]);
        let many: Vec<String> = (2..200).map(|n| format!("0.0.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        answer(&groups, "a", &many, Instant::now());
        assert_eq!(groups[0].now().members.len(), SERVERS_MAX);
    }

    #[test]
    fn an_answer_counts_for_a_second_at_least() {
        let groups = of_plan(&plan_of(&[name("a", PORT, false)]), &[]);
        let now = Instant::now();
        answer(&groups, "a", &["0.0.2"], now);
        let next = locked(&groups[0].now().common.found)[0].next;
        assert_eq!(next, Some(now + EVERY_MIN));
    }
}
