//! The operator's cache rules, as data: for which exchanges, and what is done with them. `crate::request::rulebook` carries them out.

use std::time::Duration;

use super::bounds::YEAR;
use super::setting::{bytes, seconds, settings, switch};
use super::{ClientDirectives, GIB};

/// One `[[rule]]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// Which exchanges it is for.
    pub when: When,
    /// What it says of them.
    pub then: Then,
}

/// Which exchanges a rule is for: all conditions hold, and of each at least one value. An empty list is no condition.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct When {
    /// Lower case, without port: host names, or `*.suffix` for every name below it.
    pub hosts: Vec<String>,
    /// Paths: each takes itself and all below it, by whole segments; one with `*` the whole path, `*` being any
    /// number of any characters. Without query.
    pub paths: Vec<String>,
    /// Methods; GET means HEAD too, which is answered from a stored GET.
    pub methods: Vec<String>,
    /// Status codes of the response, first and last of each range.
    pub statuses: Vec<(u16, u16)>,
    /// Media types of the response, lower case: `image/png`, `image/*`.
    pub content_types: Vec<String>,
}

impl When {
    /// Is a rule's `ttl` or `ttl-min` for this status? Where the rule names none, only for what is no error and speaks
    /// of the resource itself: a month for every page must not mean a month for the 503 of one bad minute.
    pub fn keeps(&self, status: u16) -> bool {
        !self.statuses.is_empty() || Self::KEPT.contains(&status)
    }

    /// The statuses that `ttl` and `ttl-min` are for, unless `status` says otherwise.
    pub const KEPT: [u16; 7] = [200, 203, 206, 300, 301, 308, 410];

    /// Must the response be known?
    pub fn asks_of_response(&self) -> bool {
        !self.statuses.is_empty() || !self.content_types.is_empty()
    }
}

settings! {
/// What a rule says; `None`: nothing, so that the next rule, or the general settings, decide.
pub struct Then {
    /// Ask the origin each time, and store nothing. With a condition on the response: store nothing. `false` exempts from a later rule.
    bypass: Option<bool> = switch(false) => "false",
    /// Take `Cookie` away from the request, once `key-cookies` has been looked at: the origin does not see it.
    strip_cookies: Option<bool> = switch(false) => "false",
    /// Take `Set-Cookie` away from answers to GET that could be stored, so that they are not refused for it. Only where such answers are
    /// the same for everybody.
    strip_set_cookie: Option<bool> = switch(false) => "false",
    /// How long a response is fresh, whatever the origin says of that: 200, 203, 206, 300, 301, 308 and 410, or the statuses that
    /// `status` names, whichever they are. What forbids storing or reuse (no-store, private, no-cache, Authorization, Set-Cookie,
    /// `Vary: *`) forbids it all the same.
    ttl: Option<Duration> = seconds(0, 0, YEAR) => "what the origin says",
    /// No response of these statuses that may be stored is fresh for less, counted from its birth (`Date`, `Age`).
    ttl_min: Option<Duration> = seconds(0, 0, YEAR) => "0s",
    /// No response is fresh for longer, nor may it be served stale for longer.
    ttl_max: Option<Duration> = seconds(0, 0, YEAR) => "`cache.ttl-max`",
    /// How long a response is fresh that states no lifetime and has no Last-Modified to guess from, if it is no error.
    default_ttl: Option<Duration> = seconds(0, 0, YEAR) => "`cache.default-ttl`",
    /// How long 404, 405, 410, 414 and 501 are fresh when the origin does not say. For other errors: `ttl` with `status`.
    negative_ttl: Option<Duration> = seconds(0, 0, YEAR) => "`cache.negative-ttl`",
    /// For so long after its lifetime a response is served while it is revalidated, if the origin says nothing of that and does not
    /// forbid it (must-revalidate, proxy-revalidate, s-maxage, no-cache), and it is no error.
    stale_while_revalidate: Option<Duration> = seconds(0, 0, YEAR) => "`cache.stale-while-revalidate`",
    /// The same if the origin fails.
    stale_if_error: Option<Duration> = seconds(0, 0, YEAR) => "`cache.stale-if-error`",
    /// Nothing longer is stored.
    object_bytes_max: Option<u64> = bytes(0, 0, 1024 * GIB) => "`limits.object-max`",
}
besides {
    /// What the key is made of beside the URL.
    key: Option<KeyRule> = None,
    /// How much clients may demand of the cache.
    client_directives: Option<ClientDirectives> = None,
}
}

/// How a rule changes keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRule {
    /// Query parameters that make no difference: names, or beginnings with `*` behind them.
    pub ignore_query: Vec<String>,
    /// Request fields that make one, lower case.
    pub fields: Vec<String>,
    /// Cookies that make one.
    pub cookies: Vec<String>,
}

impl Rule {
    /// The most rules a plan may have.
    pub const RULES_MAX: usize = 128;
    /// The most values one condition, or one list of names, may have.
    pub const VALUES_MAX: usize = 256;
    /// The longest value, bytes.
    pub const VALUE_BYTES_MAX: usize = 256;
}
