//! An upstream of an edition, and its servers as they are now: those that the configuration lists, and those that names have led to.
//!
//! Not known here: when names are looked up (`following`), who is asked.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use super::{Member, Server, Upstream, budget::Budget, locked};
use base::clock::Instant;
use plan::{OriginUrl, Plan, Records, SERVERS_MAX, ServerName};

/// How long a request waits until names are answered for the first time, or are known not to be.
const FIRST_ANSWER_WAIT: Duration = Duration::from_secs(10);

/// An upstream of an edition.
pub struct Group {
    /// As configured.
    pub plan: Arc<plan::Upstream>,
    now: Mutex<Arc<Upstream>>,
}

/// What an upstream has for all its servers. It outlasts editions.
pub(super) struct Common {
    pub(super) budget: Mutex<Budget>,
    /// What is owed to each server, by the hash of its name, if they are asked in turn.
    pub(super) owed: Mutex<Vec<(u64, f64)>>,
    /// Held while a server is put out for a judgement: so many at once are bounded.
    pub(super) ejecting: Mutex<()>,
    pub(super) drawn: AtomicU64,
    pub(super) counts: Counts,
    /// What its names have led to.
    pub(super) found: Mutex<Vec<Answers>>,
    /// Told when names were answered.
    answered: watch::Sender<()>,
}

/// What an upstream counts.
#[derive(Default)]
pub(super) struct Counts {
    /// Requests that were sent to one more server.
    pub(super) retries: AtomicU64,
    /// Those that were not, because the budget was used up.
    pub(super) retries_refused: AtomicU64,
    /// Requests for which no server was up.
    pub(super) none_up: AtomicU64,
    /// Servers that answered badly and were kept, because too many were out already.
    pub(super) spared: AtomicU64,
}

/// The last answers for a name.
pub(super) struct Answers {
    pub(super) of: Question,
    /// The servers, in order. They stay while the name is not answered.
    pub(super) servers: Vec<Found>,
    /// It was looked up once, with or without success.
    pub(super) is_tried: bool,
    /// Why the last look-up has failed.
    pub(super) fault: Option<String>,
    /// When it is looked up again; `None`: at once.
    pub(super) next: Option<Instant>,
    pub(super) is_asked: bool,
}

/// What is looked up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Question {
    pub(super) host: String,
    pub(super) is_service: bool,
}

/// A server that a name has led to. Of one by its address alone only that counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Found {
    pub(super) priority: u16,
    pub(super) target: String,
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) weight: u16,
}

/// The upstreams of a plan; what was known of their servers, and of their names, stays known.
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

    /// The same, once it is known where its names lead.
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

    /// Its servers are those that its names lead to now.
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
    /// Are its first servers to be found yet?
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

    /// These names are looked up, and no other. What is known of them stays known.
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

/// A server before it is known, or known again.
struct Wanted {
    at: OriginUrl,
    weight: u32,
    /// Those of lower ones are asked first.
    order: (bool, usize),
    is_found: bool,
    certified: Option<Arc<str>>,
}

/// The upstream with the servers of its plan, and those that its names have led to.
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
                    // It has just been started, as far as can be known: its share grows.
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

/// The servers that a name has led to.
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
