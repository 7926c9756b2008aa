//! HTTP caching (RFC 9111) as functions of header fields and time.
//!
//! A shared cache asks a handful of questions about each exchange; each file answers one.
//!
//! | file | question |
//! |---|---|
//! | `directives` | what do Cache-Control and Pragma say? |
//! | `targeted`, `structured` | is there a field for our kind of cache that replaces them? (RFC 9213) |
//! | `storable` | may this response be stored, and shared with requests that wait for it? |
//! | `freshness` | how long is it fresh? (`Standing`: 26 bytes that answer all later questions of time) |
//! | `judge` | may it be served now, to this request, or while the origin fails? |
//! | `withheld` | which of its fields must not be stored for others? |
//! | `vary` | to which requests does it apply? |
//! | `validate` | is the client's copy, or ours, still the current one? what does a 304 change? |
//! | `head` | does an answer to HEAD still describe it? |
//! | `range` | which bytes of it are wanted? |
//! | `part` | do these bytes belong to it? |
//! | `invalidate` | which stored responses does an unsafe request invalidate? |
//! | `cache_status` | how do we tell the client what we did? (RFC 9211) |
//! | `date` | which instant does an HTTP date mean? |
//!
//! The first rule: in doubt, do not store, do not share, ask the origin again. A directive that restricts counts even
//! if misspelt; one that permits must be written correctly.
//!
//! Not known here: sockets, storage, threads, clocks (`now` is a parameter), message framing.
//! Left out on purpose: Warning.
#![forbid(unsafe_code)]

pub mod cache_status;
mod chain;
mod codings;
mod date;
mod directives;
mod field_list;
mod freshness;
mod head;
mod invalidate;
mod judge;
mod part;
mod range;
mod storable;
mod structured;
mod targeted;
#[cfg(test)]
mod testing;
mod validate;
mod vary;
mod withheld;

use fields::Fields;

pub use chain::{Bound, Hop, bind};
pub use date::{DATE_BYTES, UnixMillis, format_date, parse_date};
pub use directives::{ClientDirectives, DELTA_SECONDS_MAX, RequestDirectives, ResponseDirectives};
pub use freshness::{Standing, StandingFlags};
pub use head::describes;
pub use invalidate::{INVALIDATED_URIS_MAX, invalidated_uris, invalidates};
pub use judge::{Verdict, Why, judge, may_serve_on_error};
pub use part::{
    ContentRange, as_if_whole, ask_for_part, content_range, has_strong_validator, is_of_same,
    is_part,
};
pub use range::{
    ByteRange, PARTS_MAX, RangeAsked, RangeSpec, SPECS_MAX, Span, byte_range, range_asked,
    write_content_range, write_unsatisfied_range,
};
pub use storable::{NotStorable, Terms, assess, may_share, may_share_as, storable};
pub use structured::{Value as StructuredValue, parse_dictionary};
pub use targeted::TARGETED_FIELDS;
pub use validate::{
    Condition, add_validators, evaluate, freshen, not_modified_fields, remove_conditions, validates,
};
pub use vary::{VARY_BYTES_MAX, VaryList, VaryStar, vary_key, vary_key_of, vary_list};
pub use withheld::{take_cookies, take_withheld};

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
    /// A request with Cookie keeps what is only guessed to be fresh out of the store: true for a cache that works for the origin, whose
    /// pages differ by cookies more often than they say so.
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

/// The part of a request that caching looks at.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method, case-sensitive.
    pub method: &'a str,
    /// Its header fields.
    pub fields: &'a Fields,
}

/// The part of a response that caching looks at.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// Its header fields.
    pub fields: &'a Fields,
}
