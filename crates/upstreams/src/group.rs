//! An upstream of an edition, and its servers as they are now: those that the configuration lists, and those found by names.
//!
//! Not known here: when names are looked up (`following`), which server is asked.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use super::{Member, Server, Upstream, budget::Budget, locked};
use base::clock::Instant;
use plan::{OriginUrl, Plan, Records, SERVERS_MAX, ServerName};

/// The longest wait of a request for the first answers for names.
const FIRST_ANSWER_WAIT: Duration = Duration::from_secs(10);

/// An upstream of an edition.
pub struct Group {
    /// As configured.
    pub plan: Arc<plan::Upstream>,
    now: Mutex<Arc<Upstream>>,
}

/// State shared by all servers of an upstream. It outlives editions.
pub(super) struct Common {
    pub(super) budget: Mutex<Budget>,
    /// Round robin: what is owed to each server, by the hash of its name.
    pub(super) owed: Mutex<Vec<(u64, f64)>>,
    /// Held while a server is ejected for a judgement, because the number of such servers is bounded.
    pub(super) ejecting: Mutex<()>,
    pub(super) drawn: AtomicU64,
    pub(super) counts: Counts,
    /// The answers for its names.
    pub(super) found: Mutex<Vec<Answers>>,
    /// Notified when names were answered.
    answered: watch::Sender<()>,
}

/// The counters of an upstream.
#[derive(Default)]
pub(super) struct Counts {
    /// Requests sent to a further server.
    pub(super) retries: AtomicU64,
    /// Requests not sent to a further server, because the budget was used up.
    pub(super) retries_refused: AtomicU64,
    /// Requests for which no server was up.
    pub(super) none_up: AtomicU64,
    /// Servers that were not ejected despite their answers, because too many were ejected already.
    pub(super) spared: AtomicU64,
}

/// The last answers for a name.
pub(super) struct Answers {
    pub(super) of: Question,
    /// The servers, sorted. They stay while look-ups fail.
    pub(super) servers: Vec<Found>,
    /// The name was looked up once, successfully or not.
    pub(super) is_tried: bool,
    /// The error of the last look-up.
    pub(super) fault: Option<String>,
    /// When to look it up again; `None`: at once.
    pub(super) next: Option<Instant>,
    pub(super) is_asked: bool,
}

/// A name to look up, and the kind of records.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Question {
    pub(super) host: String,
    pub(super) is_service: bool,
}

/// A server found by a name. Of one found by address records, only `ip` is used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Found {
    pub(super) priority: u16,
    pub(super) target: String,
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) weight: u16,
}

/// The upstreams of a plan. State of their servers and names is taken from `before`.
pub fn of_plan(plan: &Plan, before: &[Arc<Group>]) -> Vec<Arc<Group>> {
    let now = Instant::now();
    let of = |plan: &plan::Upstream| {
        let known = before.iter().find(|known| known.plan.name == plan.name);
        let known = known.map(|known| known.now());
        let common = match &known {
            Some(known) => Arc::clone(&known.common),
            None => Arc::new(Common::new(now)),
        };
        common.ask_for(&plan.names);
        let plan = Arc::new(plan.clone());
        let upstream = made(&plan, &common, known.as_deref(), now);
        Arc::new(Group {
            plan,
            now: Mutex::new(Arc::new(upstream)),
        })
    };
    plan.upstreams.iter().map(of).collect()
}

impl Group {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its servers as they are now.
    pub fn now(&self) -> Arc<Upstream> {
        Arc::clone(&locked(&self.now))
    }

    /// Its servers, once the first answers for its names are there.
    pub async fn known(&self) -> Arc<Upstream> {
        let now = self.now();
        if !now.awaits_answers() {
            return now;
        }
        let mut answered = now.common.answered.subscribe();
        let first =
            async { while self.now().awaits_answers() && answered.changed().await.is_ok() {} };
        let _ = timeout(FIRST_ANSWER_WAIT, first).await;
        self.now()
    }

    /// Replaces its servers by those that its names have now.
    pub(super) fn follow(&self, at: Instant) {
        let mut now = locked(&self.now);
        let next = made(&self.plan, &now.common, Some(&now), at);
        let names = |of: &Upstream| -> Vec<String> {
            of.members.iter().map(|it| it.server.name.clone()).collect()
        };
        let [before, after] = [names(&now), names(&next)];
        let without = |these: &[String], others: &[String]| {
            let left = these.iter().filter(|it| !others.contains(it));
            left.cloned().collect::<Vec<_>>().join(", ")
        };
        if before != after {
            let upstream = self.name();
            let (come, gone) = (without(&after, &before), without(&before, &after));
            tracing::info!(upstream, come, gone, "names lead to other servers");
        }
        *now = Arc::new(next);
        let common = Arc::clone(&now.common);
        drop(now);
        common.answered.send_replace(());
    }
}

impl Upstream {
    /// Does it have no primary servers yet, because names wait for their first answer?
    fn awaits_answers(&self) -> bool {
        let is_first = |member: &Member| !member.is_backup;
        !self.members.iter().any(is_first)
            && locked(&self.common.found).iter().any(|it| !it.is_tried)
    }
}

impl Common {
    fn new(now: Instant) -> Common {
        Common {
            budget: Mutex::new(Budget::new(now)),
            owed: Mutex::default(),
            ejecting: Mutex::default(),
            drawn: AtomicU64::new(0),
            counts: Counts::default(),
            found: Mutex::default(),
            answered: watch::Sender::new(()),
        }
    }

    /// Sets the names to look up. Answers for names that stay are kept.
    fn ask_for(&self, names: &[ServerName]) {
        let mut found = locked(&self.found);
        found.retain(|it| names.iter().any(|name| Question::of(name) == it.of));
        for name in names {
            let of = Question::of(name);
            if !found.iter().any(|it| it.of == of) {
                found.push(Answers::none(of));
            }
        }
    }
}

impl Question {
    fn of(name: &ServerName) -> Question {
        Question {
            host: name.host.clone(),
            is_service: name.records == Records::Services,
        }
    }
}

impl Answers {
    fn none(of: Question) -> Answers {
        Answers {
            of,
            servers: Vec::new(),
            is_tried: false,
            fault: None,
            next: None,
            is_asked: false,
        }
    }
}

/// A server to be part of the upstream, new or known.
struct Wanted {
    at: OriginUrl,
    weight: u32,
    /// Servers of lower orders are asked first.
    order: (bool, usize),
    is_found: bool,
    certified: Option<Arc<str>>,
}

/// Makes an upstream of the servers of its plan and those found by its names.
fn made(
    plan: &Arc<plan::Upstream>,
    common: &Arc<Common>,
    before: Option<&Upstream>,
    now: Instant,
) -> Upstream {
    let mut all: Vec<Wanted> = (plan.servers.iter())
        .map(|server| Wanted {
            at: server.at.clone(),
            weight: server.weight,
            order: (server.backup, 0),
            is_found: false,
            certified: None,
        })
        .collect();
    for name in &plan.names {
        let found = locked(&common.found);
        let answers = found.iter().find(|it| it.of == Question::of(name));
        all.extend(answers.into_iter().flat_map(|it| led_to(name, &it.servers)));
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for one in all {
        if !wanted.iter().any(|known| known.at == one.at) {
            wanted.push(one);
        }
    }
    if wanted.len() > SERVERS_MAX {
        let (upstream, servers) = (plan.name.as_str(), wanted.len());
        tracing::warn!(upstream, servers, "only the first {SERVERS_MAX} are asked");
        wanted.truncate(SERVERS_MAX);
    }
    let mut orders: Vec<_> = wanted.iter().map(|it| it.order).collect();
    orders.sort_unstable();
    orders.dedup();
    let had_servers = before.is_some_and(|before| !before.members.is_empty());
    let member = |wanted: Wanted| {
        let name = wanted.at.to_string();
        let known = before.and_then(|before| before.server(&name));
        let server = known.map_or_else(
            || {
                let server = Server::new(&wanted.at, now);
                if wanted.is_found && had_servers {
                    // A server that appears later has probably just been started: its share grows.
                    locked(&server.breaker).close(now);
                }
                Arc::new(server)
            },
            Arc::clone,
        );
        let rank = orders.iter().position(|it| *it == wanted.order);
        Member {
            server,
            weight: wanted.weight,
            rank: rank.unwrap_or_default(),
            is_backup: wanted.order != (false, 0),
            certified: wanted.certified,
        }
    };
    Upstream {
        plan: Arc::clone(plan),
        members: wanted.into_iter().map(member).collect(),
        common: Arc::clone(common),
    }
}

/// The servers found by a name.
fn led_to(name: &ServerName, found: &[Found]) -> Vec<Wanted> {
    let mut priorities: Vec<u16> = found.iter().map(|it| it.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let certified: Option<Arc<str>> = name.tls.then(|| name.certified().into());
    let of = |found: &Found| {
        let (port, weight) = match name.records {
            Records::Addresses { port, weight } => (port, weight),
            //= rfc2782   0 where there is no choice to be made, else a very small chance
            Records::Services => (found.port, u32::from(found.weight).max(1)),
        };
        let priority = priorities.iter().position(|it| *it == found.priority);
        Wanted {
            at: OriginUrl {
                tls: name.tls,
                host: found.ip.to_string(),
                port,
                path: String::new(),
            },
            weight,
            order: (name.backup, priority.unwrap_or_default()),
            is_found: true,
            certified: certified.clone(),
        }
    };
    found.iter().map(of).collect()
}
