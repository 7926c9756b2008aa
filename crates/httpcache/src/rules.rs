//! The operator's decisions about caching.

use crate::directives::ClientDirectives;

/// The operator's settings for caching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The heuristic lifetime, in percent of the time since the last modification. 0 turns the heuristic off. (RFC
    /// 9111 §4.2.2)
    pub heuristic_fraction_percent: u32,
    /// The longest heuristic lifetime, in seconds.
    pub heuristic_max_s: u32,
    /// The longest lifetime of any kind, and the longest window in which a stale response may be served, in seconds.
    pub ttl_max_s: u32,
    /// Lifetime of heuristically cacheable errors (404, 405, 410, 414, 501) for which the origin gives none, in
    /// seconds; 0 = none.
    pub negative_ttl_s: u32,
    /// Lifetime of responses other than errors if the origin gives none and there is no Last-Modified to guess from,
    /// in seconds; 0 = none.
    pub default_ttl_s: u32,
    /// Lifetime of failures of the origin (500, 502, 503, 504) for which it gives none, in seconds; 0 = not stored
    /// then.
    pub error_ttl_s: u32,
    /// Replaces the origin's lifetime, in seconds. Directives that forbid storing or reuse still hold.
    pub ttl_s: Option<u32>,
    /// The shortest lifetime, in seconds.
    pub ttl_min_s: u32,
    /// How long a stale response may be served while it is revalidated, if the origin does not say, in seconds; 0 =
    /// not.
    pub stale_while_revalidate_s: u32,
    /// How long it may be served if the origin fails, if the origin does not say, in seconds; 0 = only if the origin
    /// cannot be reached.
    pub stale_if_error_s: u32,
    /// Store responses with Set-Cookie even without `public` or `s-maxage`, and store Set-Cookie.
    pub store_set_cookie: bool,
    /// If a request has Cookie, do not store an answer whose freshness is only guessed. True for a cache that works for the origin: its
    /// pages often differ by cookies without saying so.
    pub cookie_bars_guess: bool,
    /// Obey targeted fields: true for a cache that works for the origin. (RFC 9213 §3)
    pub targeted: bool,
    /// Which of a client's directives are obeyed.
    pub client_directives: ClientDirectives,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            heuristic_fraction_percent: 10,
            heuristic_max_s: 86_400,
            ttl_max_s: 31_536_000,
            negative_ttl_s: 0,
            default_ttl_s: 0,
            error_ttl_s: 0,
            ttl_s: None,
            ttl_min_s: 0,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            store_set_cookie: false,
            cookie_bars_guess: false,
            targeted: true,
            client_directives: ClientDirectives::Obey,
        }
    }
}
