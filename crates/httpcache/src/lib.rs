//! HTTP caching (RFC 9111) as functions of header fields and time.
//!
//! A shared cache asks a handful of questions about each exchange; each file answers one.
//!
//! | file | question |
//! |---|---|
//! | `directives` | what do Cache-Control and Pragma say? |
//! | `targeted`, `structured` | is there a field for this kind of cache that replaces them? (RFC 9213) |
//! | `storable` | may this response be stored, and shared with requests that wait for it? |
//! | `freshness` | how long is it fresh? (`Standing`: 26 bytes that answer all later questions of time) |
//! | `judge` | may it be served now, to this request, or while the origin fails? |
//! | `withheld` | which of its fields must not be stored for others? |
//! | `vary` | to which requests does it apply? |
//! | `varying` | which fields select among the responses of a resource if these name different fields? |
//! | `validate` | is the client's copy, or the stored one, still current? what does a 304 change? |
//! | `head` | does an answer to HEAD still describe the stored response? |
//! | `range` | which bytes of the stored response does a request ask for? |
//! | `part` | do these bytes belong to the stored response? |
//! | `invalidate` | which stored responses does an unsafe request invalidate? |
//! | `cache_status` | how is the client told what the cache did? (RFC 9211) |
//! | `date` | which instant does an HTTP date mean? |
//!
//! The questions are about an `exchange`, under an operator's `rules`.
//!
//! The first rule: in doubt, do not store, do not share, ask the origin again. A directive that restricts is obeyed even
//! if misspelt; a directive that permits must be written correctly.
//!
//! Not known here: sockets, storage, threads, clocks (`now` is a parameter), message framing.
//! Left out on purpose: Warning.
#![forbid(unsafe_code)]

pub mod cache_status;
mod chain;
mod codings;
mod date;
mod directives;
mod exchange;
mod field_list;
mod freshness;
mod head;
mod invalidate;
mod judge;
mod part;
mod range;
mod rules;
mod storable;
mod structured;
mod targeted;
#[cfg(test)]
mod testing;
mod validate;
mod vary;
mod varying;
mod withheld;

pub use chain::{Bound, Hop, bind};
pub use date::{DATE_BYTES, UnixMillis, format_date, parse_date};
pub use directives::{ClientDirectives, DELTA_SECONDS_MAX, RequestDirectives, ResponseDirectives};
pub use exchange::{Request, Response};
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
pub use rules::Rules;
pub use storable::{NotStorable, Terms, assess, may_share, may_share_as, storable};
pub use structured::{Value as StructuredValue, parse_dictionary};
pub use targeted::TARGETED_FIELDS;
pub use validate::{
    Condition, add_validators, evaluate, freshen, not_modified_fields, remove_conditions, validates,
};
pub use vary::{VARY_BYTES_MAX, VaryList, VaryStar, vary_key, vary_key_of, vary_list};
pub use varying::list_after;
pub use withheld::{take_cookies, take_withheld};
