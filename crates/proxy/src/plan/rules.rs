//! The operator's cache rules, as data: for which exchanges, and what is done with them. `crate::request::rulebook` carries them out.

use std::time::Duration;

use super::{Bounds, ClientDirectives};

const GIB: u64 = 1 << 30;

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

/// What a rule says; `None`: nothing, so that the next rule, or the general settings, decide.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Then {
    /// Neither look up nor store. With a condition on the response: do not store.
    pub bypass: Option<bool>,
    /// What the key is made of beside the URL.
    pub key: Option<KeyRule>,
    /// Take Cookie from the request, before it is looked at otherwise.
    pub strip_cookies: Option<bool>,
    /// Take Set-Cookie from the response, before it is looked at otherwise.
    pub strip_set_cookie: Option<bool>,
    /// Lifetime of [`When::KEPT`], or of the statuses that the rule is for, whatever the origin says.
    pub ttl: Option<Duration>,
    /// No lifetime of these is shorter.
    pub ttl_min: Option<Duration>,
    /// No lifetime is longer.
    pub ttl_max: Option<Duration>,
    /// Lifetime of what is no error, where the origin is silent and nothing can be guessed.
    pub default_ttl: Option<Duration>,
    /// Lifetime of errors about which the origin is silent.
    pub negative_ttl: Option<Duration>,
    /// For how long after its lifetime it may be served while it is revalidated, where the origin is silent.
    pub stale_while_revalidate: Option<Duration>,
    /// The same while the origin fails.
    pub stale_if_error: Option<Duration>,
    /// How much clients may demand of the cache.
    pub client_directives: Option<ClientDirectives>,
    /// Nothing longer is stored, bytes.
    pub object_bytes_max: Option<u64>,
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
    /// Range of the lifetimes.
    pub const TTL: Bounds<Duration> = super::seconds(0, 0, 31_536_000);
    /// Range of `object_bytes_max`.
    pub const OBJECT_BYTES_MAX: Bounds<u64> = Bounds::new(0, 1 << 20, 1024 * GIB);
}
