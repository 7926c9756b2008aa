//! The operator's rules, as data: conditions and effects. `rules::rulebook` carries them out.
//!
//! A rule may decide whether a request is served ([`Verdict`]), how the cache treats it, and which fields are changed ([`Edit`]).

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ipnet::IpNet;
use message::Scheme;

use super::bounds::YEAR;
use super::hosts::HostList;
use super::hours::Hours;
use super::setting::GIB;
use super::setting::{bytes, seconds, settings, switch};
use super::verdicts::{Edit, Verdict};
use httpcache::ClientDirectives;

/// One `[[rule]]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// Its name, for people.
    pub name: Option<String>,
    /// Its conditions.
    pub when: When,
    /// Its effects.
    pub then: Then,
}

/// Conditions of a rule. All must hold; each holds if one of its values matches. An empty list is no condition.
///
/// Conditions on users, groups or the name of the TLS connection would come after `clients`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct When {
    /// The client's networks.
    pub clients: Vec<IpNet>,
    /// Listeners, by their number in the plan.
    pub listeners: Vec<usize>,
    /// Hours of the week.
    pub hours: Vec<Hours>,
    /// The scheme of the URL; a CONNECT has none.
    pub scheme: Option<Scheme>,
    /// Lower case, without port: host names, `*.suffix` for every name below it, addresses without brackets, or
    /// [`When::ANY_ADDRESS`].
    pub hosts: Vec<String>,
    /// Lists of hosts.
    pub host_lists: Vec<Arc<HostList>>,
    /// The port of the URL.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Parameters of the query: `name`, or a pattern with `*` that matches the whole `name=value`.
    pub queries: Vec<String>,
    /// Fields of the request; all of these must match.
    pub fields: Vec<FieldFits>,
    /// Paths: each matches itself and all below it, by whole segments. One with `*` must match the whole path; `*` is any
    /// number of any characters. Without query.
    pub paths: Vec<String>,
    /// Methods; GET includes HEAD, which is answered from a stored GET.
    pub methods: Vec<String>,
    /// Status codes of the response, first and last of each range.
    pub statuses: Vec<(u16, u16)>,
    /// Media types of the response, lower case: `image/png`, `image/*`.
    pub content_types: Vec<String>,
}

/// A condition about a field of the request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldFits {
    /// The field's name, lower case.
    pub name: String,
    /// The condition.
    pub how: FieldIs,
}

/// A condition on the value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldIs {
    /// The request has the field (`true`), or lacks it (`false`).
    There(bool),
    /// The value of one of its lines matches one of these patterns, in which `*` stands for any characters, or none.
    One(Vec<String>),
}

impl When {
    /// A value for `hosts`: matches every IP address.
    pub const ANY_ADDRESS: &str = "[*]";

    /// Does a rule's `ttl` or `ttl-min` apply to this status? If the rule names no status, only to those of [`When::KEPT`]:
    /// a month for every page must not mean a month for the 503 of one bad minute.
    pub fn keeps(&self, status: u16) -> bool {
        !self.statuses.is_empty() || Self::KEPT.contains(&status)
    }

    /// The statuses that `ttl` and `ttl-min` apply to, unless `status` names others.
    pub const KEPT: [u16; 7] = [200, 203, 206, 300, 301, 308, 410];

    /// Do the conditions need the response?
    pub fn asks_of_response(&self) -> bool {
        !self.statuses.is_empty() || !self.content_types.is_empty()
    }
}

settings! {
/// The effects of a rule; `None`: the next rule decides, or the general settings.
pub struct Then {
    /// Ask the origin each time, and store nothing. With a condition on the response: store nothing. `false` exempts from a later rule.
    bypass: Option<bool> = switch(false) => "false",
    /// Remove `Cookie` from the request: neither the origin sees it, nor `key-cookies`.
    strip_cookies: Option<bool> = switch(false) => "false",
    /// Remove `Set-Cookie` from answers to GET that could otherwise be stored. Only where such answers are the same for all
    /// clients.
    strip_set_cookie: Option<bool> = switch(false) => "false",
    /// How long a response is fresh, whatever the origin says: of status 200, 203, 206, 300, 301, 308 and 410, or of those in
    /// `status`. Storing or reuse that is forbidden (no-store, private, no-cache, Authorization, Set-Cookie, `Vary: *`) stays
    /// forbidden.
    ttl: Option<Duration> = seconds(0, 0, YEAR) => "what the origin says",
    /// Storable responses of these statuses are fresh for at least this long, counted from their birth (`Date`, `Age`).
    ttl_min: Option<Duration> = seconds(0, 0, YEAR) => "0s",
    /// Responses are neither fresh nor served stale for longer than this.
    ttl_max: Option<Duration> = seconds(0, 0, YEAR) => "`cache.ttl-max`",
    /// How long a response is fresh if it states no lifetime, has no Last-Modified, and is no error.
    default_ttl: Option<Duration> = seconds(0, 0, YEAR) => "`cache.default-ttl`",
    /// How long 404, 405, 410, 414 and 501 are fresh if the origin does not say. For other errors: `ttl` with `status`.
    negative_ttl: Option<Duration> = seconds(0, 0, YEAR) => "`cache.negative-ttl`",
    /// How long after its lifetime a response is served while it is revalidated, if the origin says nothing about that and
    /// does not forbid it (must-revalidate, proxy-revalidate, s-maxage, no-cache). Not for errors.
    stale_while_revalidate: Option<Duration> = seconds(0, 0, YEAR) => "`cache.stale-while-revalidate`",
    /// The same if the origin fails.
    stale_if_error: Option<Duration> = seconds(0, 0, YEAR) => "`cache.stale-if-error`",
    /// Longer objects are not stored.
    object_bytes_max: Option<u64> = bytes(0, 0, 1024 * GIB) => "`limits.object-max`",
}
besides {
    /// Changes of the key.
    key: Option<KeyRule> = None,
    /// Which cache directives of clients count.
    client_directives: Option<ClientDirectives> = None,
    /// The names of the quotas that count the request, besides those of the listener.
    quotas: Vec<String> = Vec::new(),
    /// Is the request served? The verdict of the first matching rule that has one counts.
    verdict: Option<Verdict> = None,
    /// A name for the request in logs and metrics.
    tag: Option<String> = None,
    /// Changes of the request's fields.
    request_edits: Vec<Edit> = Vec::new(),
    /// Changes of the answer's fields.
    response_edits: Vec<Edit> = Vec::new(),
}
}

impl Then {
    /// May the rule store more, or give one answer to more requests? If so, it must match in every way a server may read the path.
    pub fn shares_more(&self) -> bool {
        let is_time = |time: Option<Duration>| time.is_some_and(|time| !time.is_zero());
        let times = [
            self.ttl,
            self.ttl_min,
            self.default_ttl,
            self.negative_ttl,
            self.stale_while_revalidate,
            self.stale_if_error,
        ];
        self.bypass == Some(false)
            || self.bypass.is_none()
                && (self.strip_cookies == Some(true)
                    || self.strip_set_cookie == Some(true)
                    || times.into_iter().any(is_time)
                    || self
                        .key
                        .as_ref()
                        .is_some_and(|key| !key.ignore_query.is_empty()))
    }

    /// Can the rule only store less, or give an answer to fewer requests? Then matching one way to read the path is enough.
    pub fn shares_less(&self) -> bool {
        let bounds = [
            self.ttl,
            self.ttl_min,
            self.ttl_max,
            self.default_ttl,
            self.negative_ttl,
            self.stale_while_revalidate,
            self.stale_if_error,
        ];
        !self.shares_more()
            && (self.bypass == Some(true)
                || self.strip_cookies == Some(false)
                || self.strip_set_cookie == Some(false)
                || self.object_bytes_max.is_some()
                || bounds.iter().any(Option::is_some)
                || self.key.is_some())
    }
}

/// Changes of keys by a rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyRule {
    /// Ignored query parameters: names, or prefixes followed by `*`.
    pub ignore_query: Vec<String>,
    /// Request fields in the key, lower case.
    pub fields: Vec<String>,
    /// Cookies in the key.
    pub cookies: Vec<String>,
}

impl Rule {
    /// The most rules a plan may have.
    pub const RULES_MAX: usize = 100_000;
    /// The most values of a condition that is looked up by hash.
    pub const VALUES_MAX: usize = 100_000;
    /// The most names of fields, parameters, cookies, host lists or hours, and statuses and media types, that one list may have.
    pub const NAMES_MAX: usize = 256;
    /// The longest value, bytes.
    pub const VALUE_BYTES_MAX: usize = 256;
    /// The longest name, and the longest tag, bytes.
    pub const NAME_BYTES_MAX: usize = 64;

    /// Its name, or else its number, from 1.
    pub fn told(&self, at: usize) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("rule {}", at + 1),
        }
    }
}
