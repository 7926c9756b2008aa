//! An edition: a checked configuration and the values derived from it.
//!
//! An edition is made as a whole and never changes. A request uses the edition of its listener
//! ([`ListenerState::edition`](crate::listener::ListenerState::edition)), from its first byte to its record. State that lives as long as
//! the process is in [`Shared`](crate::state::Shared).
//!
//! Not known here: how an edition is replaced.

use std::{collections::HashSet, net::SocketAddr, sync::Arc, time::Duration};

use httpcache::cache_status;
use store::KeyHasher;

use base::listening::ListenerId;
use origin::{Destination, OriginWaits, OriginsTls, signing::Signers};
use plan::{Listener, Plan, Role};
use quota::Quotas;
use record::{labels::Rows, rule_counts::RuleCounts};
use rules::{key::tags_in_use, routing::RouteIndex, rulebook::Rulebook};
use tls::{certificates::Shown, served::ServedTls};
use upstreams::Group;

/// A configuration in the forms that requests need.
pub struct Edition {
    /// Counts the editions of the process, from 1.
    pub number: u32,
    /// The settings, with the ports that the system chose.
    pub plan: Plan,
    /// The plan's listeners, by numbers that stay the same in later editions.
    pub ids: Vec<ListenerId>,
    /// The counters of each listener's requests.
    pub rows: Vec<Rows>,
    /// The routes of each listener.
    pub routing: Vec<Arc<RouteIndex>>,
    /// The operator's rules.
    pub book: Arc<Rulebook>,
    /// The rules' counters.
    pub rule_counts: RuleCounts,
    /// TLS to origins.
    pub tls: OriginsTls,
    /// The signers of requests to origins.
    pub signers: Signers,
    /// The destinations of the plan's parents, with TLS to them.
    pub parents: Vec<Destination>,
    /// TLS to the clients of each listener.
    pub served: Vec<Option<Arc<ServedTls>>>,
    /// The quotas, with their counts.
    pub quotas: Quotas,
    /// The plan's upstreams, with the state of their servers.
    pub upstreams: Vec<Arc<Group>>,
    /// How the edition was loaded.
    pub loaded: Loaded,
    /// The caching rules in the form for `httpcache`; each listener has its own copy of them (`ListenerState::rules`).
    pub rules: httpcache::Rules,
    /// The limits of a request head in the form for `http1`.
    pub limits: http1::Limits,
    /// The limits of a response head.
    pub response_limits: http1::Limits,
    /// Addresses that the process listens on, the admin interface included.
    pub own_addresses: Vec<SocketAddr>,
    /// The key tags of all listeners: see [`rules::key`].
    pub tags: HashSet<Vec<u8>>,
    /// The plan's name in the form for Cache-Status.
    pub cache_name: Vec<u8>,
    /// The beginning of Cache-Status for a hit, up to the seconds.
    pub hit_prefix: Vec<u8>,
    /// The line `Via: 1.1 NAME (TAG)` with CRLF; the tag is unique to this process, so that a loop is detected.
    pub via_line: Vec<u8>,
}

/// How an edition was loaded.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// When it was loaded, since 1970.
    pub at: Duration,
    /// The user or event that asked for it.
    pub by: String,
    /// The configuration's meaning in lines of text, without secrets.
    pub words: String,
    /// Changed parts that were not applied, because they need a restart.
    pub wanting_a_restart: Vec<&'static str>,
}

/// The parts that an edition is made of.
pub struct Parts {
    /// As in [`Edition`].
    pub number: u32,
    /// As in [`Edition`].
    pub plan: Plan,
    /// As in [`Edition`].
    pub ids: Vec<ListenerId>,
    /// As in [`Edition`].
    pub rows: Vec<Rows>,
    /// As in [`Edition`].
    pub rule_counts: RuleCounts,
    /// As in [`Edition`].
    pub tls: OriginsTls,
    /// The signers of the edition before.
    pub signers_before: Signers,
    /// The upstreams of the edition before.
    pub upstreams_before: Vec<Arc<Group>>,
    /// As in [`Edition`].
    pub served: Vec<Option<Arc<ServedTls>>>,
    /// As in [`Edition`].
    pub quotas: Quotas,
    /// As in [`Edition`].
    pub loaded: Loaded,
    /// The hash function of the store.
    pub hasher: KeyHasher,
    /// See [`via_tag`].
    pub via_tag: u32,
}

fn routing(listener: &Listener) -> Arc<RouteIndex> {
    let routes = match &listener.role {
        Role::Reverse(routes) => &routes[..],
        Role::Forward(_) => &[],
    };
    Arc::new(RouteIndex::new(routes))
}

fn parents(plan: &Plan, tls: &OriginsTls) -> Vec<Destination> {
    let parents = plan.parents.iter();
    let at = parents.map(|parent| Destination {
        terms: tls.of(parent.tls.as_ref()),
        ..peers::known::destination(&parent.at, parent.tls.is_some())
    });
    at.collect()
}

impl Edition {
    /// Descriptions of certificates that clients refuse now.
    pub fn troubles(&self, now: Duration) -> Vec<String> {
        let served = self.served.iter().flatten();
        served.flat_map(|served| served.troubles(now)).collect()
    }

    /// Derives the other values from the parts.
    pub fn new(parts: Parts) -> Edition {
        let Parts {
            number,
            plan,
            ids,
            rows,
            rule_counts,
            tls,
            served,
            quotas,
            upstreams_before,
            signers_before,
            loaded,
            hasher,
            via_tag,
        } = parts;
        let mut own_addresses: Vec<SocketAddr> = plan.listeners.iter().map(|l| l.address).collect();
        own_addresses.extend(plan.admin.as_ref().map(|a| a.address));
        own_addresses.extend(plan.cluster.as_ref().map(|c| c.address));
        let cache_name = cache_status::member_name(&plan.name);
        Edition {
            number,
            ids,
            rows,
            routing: plan.listeners.iter().map(routing).collect(),
            book: Arc::new(Rulebook::new(&plan.rules)),
            rule_counts,
            parents: parents(&plan, &tls),
            signers: Signers::of(&plan, &signers_before),
            tls,
            served,
            quotas,
            upstreams: upstreams::of_plan(&plan, &upstreams_before),
            loaded,
            rules: rules(&plan),
            limits: head_limits(&plan, plan.limits.head_bytes_max),
            response_limits: head_limits(&plan, plan.limits.response_head_bytes_max),
            own_addresses,
            tags: tags_in_use(&plan, hasher),
            hit_prefix: cache_status::hit_prefix(&cache_name),
            cache_name,
            via_line: format!("Via: 1.1 {} ({via_tag:08x})\r\n", plan.name).into_bytes(),
            plan,
        }
    }

    /// The certificates that a listener shows.
    pub fn shown(&self, number: usize) -> &[Shown] {
        let served = self.served.get(number).and_then(Option::as_ref);
        served.map_or(&[], |served| &served.shown)
    }

    /// The time-outs and limits for exchanges with origins.
    pub fn origin_waits(&self) -> OriginWaits {
        let timeouts = &self.plan.timeouts;
        OriginWaits {
            first_byte: timeouts.origin_first_byte,
            write: timeouts.origin_write,
            idle_read: timeouts.origin_idle_read,
            limits: self.response_limits,
        }
    }
}

/// A tag for Via, made once for the process. Other proxies may have our name; the tag tells our own requests that come back from theirs.
pub fn via_tag() -> u32 {
    base::chance::u64().map_or_else(|_| std::process::id(), |tag| tag as u32)
}

fn head_limits(plan: &Plan, head_bytes_max: usize) -> http1::Limits {
    http1::Limits {
        head_bytes_max,
        fields_max: plan.limits.fields_max,
        target_bytes_max: plan.limits.target_bytes_max,
        lenient: http1::Lenient::NOTHING,
    }
}

fn rules(plan: &Plan) -> httpcache::Rules {
    let seconds = |d: Duration| u32::try_from(d.as_secs()).unwrap_or(u32::MAX);
    httpcache::Rules {
        heuristic_fraction_percent: plan.cache.heuristic_percent,
        heuristic_max_s: seconds(plan.cache.heuristic_max),
        ttl_max_s: seconds(plan.cache.ttl_max),
        default_ttl_s: seconds(plan.cache.default_ttl),
        negative_ttl_s: seconds(plan.cache.negative_ttl),
        error_ttl_s: seconds(plan.cache.error_ttl),
        stale_while_revalidate_s: seconds(plan.cache.stale_while_revalidate),
        stale_if_error_s: seconds(plan.cache.stale_if_error),
        store_set_cookie: plan.cache.store_set_cookie,
        ..httpcache::Rules::default()
    }
}
