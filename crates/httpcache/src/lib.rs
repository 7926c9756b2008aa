//! HTTP caching (RFC 9111) as functions of header fields and time.
//!
//! A shared cache asks a handful of questions about each exchange; each file answers one.
//!
//! | file | question |
//! |---|---|
//! | `directives` | what do Cache-Control and Pragma say? |
//! | `targeted`, `structured` | is there a field for caches like us, which goes before them? (RFC 9213) |
//! | `storable` | may this response be kept, and may others waiting for it have it? |
//! | `freshness` | until when is it good? (`Standing`: 26 bytes that answer all later questions of time) |
//! | `judge` | may it be served now, to this request, or with the origin gone? |
//! | `withheld` | which of its fields do others not get? |
//! | `vary` | to which requests does it apply? |
//! | `validate` | is the client's copy, or ours, still the current one? what does a 304 change? |
//! | `head` | what does the answer to HEAD say of it? |
//! | `range` | which bytes of it are wanted? |
//! | `part` | do these bytes belong to it? |
//! | `invalidate` | which stored responses does a write make worthless? |
//! | `uri` | which texts name the same resource? |
//! | `cache_status` | how do we tell the client what we did? (RFC 9211) |
//! | `date` | which instant does an HTTP date mean? |
//!
//! One rule stands above the others: when in doubt, not stored, not shared, asked again. A directive that restricts is
//! believed even if misspelt; one that permits must be written correctly.
//!
//! Not known here: sockets, storage, threads, clocks (`now` is a parameter), message framing.
//! Left out on purpose: Warning.
#![forbid(unsafe_code)]

pub mod cache_status;
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

/// What the operator may decide about caching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Without an explicit lifetime: this part of the time since the last modification, in percent. 0 turns the
    /// heuristic off. (RFC 9111 §4.2.2)
    pub heuristic_fraction_percent: u32,
    /// No heuristic lifetime is longer, in seconds.
    pub heuristic_max_s: u32,
    /// No lifetime at all is longer, in seconds; nor are the windows in which a stale response may be served.
    pub ttl_max_s: u32,
    /// Lifetime of heuristically cacheable errors (404, 405, 410, 414, 501) about whose lifetime the origin is silent,
    /// in seconds; 0 = only what the origin says.
    pub negative_ttl_s: u32,
    /// Lifetime of what is no error, where the origin says nothing and Last-Modified gives no guess, in seconds; 0 = none.
    pub default_ttl_s: u32,
    /// Lifetime of failures of the origin (500, 502, 503, 504) about whose lifetime it is silent, in seconds; 0 = they are
    /// not stored then.
    pub error_ttl_s: u32,
    /// The lifetime, whatever the origin says of it, in seconds; what forbids storing or reuse holds all the same.
    pub ttl_s: Option<u32>,
    /// No lifetime is shorter, in seconds.
    pub ttl_min_s: u32,
    /// A response that was fresh and about whose service while stale the origin is silent may be served for so long after
    /// that while it is revalidated, in seconds; 0 = not.
    pub stale_while_revalidate_s: u32,
    /// The same if the origin fails, in seconds; 0 = only if the origin cannot be reached.
    pub stale_if_error_s: u32,
    /// Store responses with Set-Cookie even without `public` or `s-maxage`, and store Set-Cookie.
    pub store_set_cookie: bool,
    /// We work for the origin, so targeted fields are obeyed. (RFC 9213 §3)
    pub targeted: bool,
    /// What clients may demand.
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
