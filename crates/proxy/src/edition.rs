//! An edition: a checked configuration, and what is derived from it.
//!
//! It is made whole and never changes. A request uses the edition of the listener by which it came
//! ([`ListenerState::edition`](crate::listener::ListenerState::edition)), from its first byte to its record. What lives as long as the
//! process is in [`Shared`](crate::state::Shared).
//!
//! Not known here: how an edition is replaced.

use std::{collections::HashSet, net::SocketAddr, time::Duration};

use httpcache::cache_status;
use store::KeyHasher;

use crate::{plan::Plan, request::key::tags_in_use};

/// A configuration in the forms that requests want.
pub struct Edition {
    /// Counts the editions of the process, from 1.
    pub number: u32,
    /// The settings.
    pub plan: Plan,
    /// The caching rules in the form `httpcache` wants; each listener has its own copy of them (`ListenerState::rules`).
    pub rules: httpcache::Rules,
    /// The limits of a request head in the form `http1` wants.
    pub limits: http1::Limits,
    /// Those of a response head.
    pub response_limits: http1::Limits,
    /// Addresses we listen on, the admin interface included.
    pub own_addresses: Vec<SocketAddr>,
    /// The key tags of all listeners: see [`crate::request::key`].
    pub tags: HashSet<Vec<u8>>,
    /// The plan's name as it stands in Cache-Status.
    pub cache_name: Vec<u8>,
    /// What Cache-Status says of a hit, but for the seconds.
    pub hit_prefix: Vec<u8>,
    /// `Via: 1.1 NAME (TAG)` as it is added, CRLF included; the tag is this process's own, so that a loop is seen.
    pub via_line: Vec<u8>,
}

impl Edition {
    /// The edition of this number. `via_tag`: see [`via_tag`].
    pub fn new(number: u32, plan: Plan, hasher: KeyHasher, via_tag: u32) -> Edition {
        let mut own_addresses: Vec<SocketAddr> = plan.listeners.iter().map(|l| l.address).collect();
        own_addresses.extend(plan.admin.as_ref().map(|a| a.address));
        own_addresses.extend(plan.cluster.as_ref().map(|c| c.address));
        let cache_name = cache_status::member_name(&plan.name);
        Edition {
            number,
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

    /// What is waited for on the way to and from an origin.
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

/// The bounds of one request to an origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginWaits {
    /// For the head of its answer.
    pub first_byte: Duration,
    /// Without progress in writing.
    pub write: Duration,
    /// Between two reads of its body.
    pub idle_read: Duration,
    /// How much of a head is accepted.
    pub limits: http1::Limits,
}

/// Others may have our name; the tag behind it is ours alone, so that a request that comes back is known. One for the process.
pub fn via_tag() -> u32 {
    crate::chance::u64().map_or_else(|_| std::process::id(), |tag| tag as u32)
}

fn head_limits(plan: &Plan, head_bytes_max: usize) -> http1::Limits {
    http1::Limits {
        head_bytes_max,
        fields_max: plan.limits.fields_max,
        target_bytes_max: plan.limits.target_bytes_max,
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
