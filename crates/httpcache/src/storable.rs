//! May this response be stored, and may it be shared with requests that wait for it?
//!
//! These are the rules of RFC 9111 §3 for a shared cache. Each refusal has a name for Cache-Status. Five rules are stricter
//! than the RFC. Only GET is stored (HEAD is answered from it). A response with Set-Cookie is stored only if the
//! origin intends it for shared caches, and then without the cookie ([`take_cookies`]). A status that depends on the
//! client or on the request (401, 412, 416, …) is never stored. Neither is a response that could never be reused. With
//! [`Rules::cookie_bars_guess`], neither is an answer to a request with Cookie that does not state its freshness.
//!
//! Not known here: sizes, space, what is already stored.
//!
//! [`take_cookies`]: crate::take_cookies

use fields::Fields;

use crate::date::{UnixMillis, date_of};
use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::exchange::{Request, Response};
use crate::freshness::{
    Standing, StandingFlags, explicit_lifetime_s, has_explicit_lifetime, has_validator,
    heuristically_cacheable, kept_by_rule,
};
use crate::judge::{Verdict, judge};
use crate::rules::Rules;
use crate::vary::{VaryList, vary_list};
use crate::withheld::is_withheld;

/// Why a response is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotStorable {
    /// The method is not GET.
    Method,
    /// The status is not final, not known to be cacheable, or depends on the request.
    Status,
    /// The response is partial.
    Range,
    /// The client's directives forbid it.
    RequestNoStore,
    /// The origin's directives forbid it.
    NoStore,
    /// It is intended for one user.
    Private,
    /// The request has Authorization, and the origin does not permit sharing the answer.
    Authorization,
    /// It sets a cookie, and the origin does not permit sharing it.
    SetCookie,
    /// The request has Cookie, and neither origin nor operator states how long the answer is fresh.
    Cookie,
    /// No other request would match its Vary.
    VaryStar,
    /// It could never be reused: no lifetime and no validator.
    NoFreshness,
    /// Cache-Control cannot be read with certainty.
    Malformed,
    /// The body ends with the connection, so it may be incomplete. The caller detects this.
    CloseDelimited,
    /// An operator's rule forbids it. The caller detects this.
    Rule,
}

impl NotStorable {
    /// The token for Cache-Status `detail`.
    pub fn as_str(&self) -> &'static str {
        match self {
            NotStorable::Method => "method",
            NotStorable::Status => "status",
            NotStorable::Range => "range",
            NotStorable::RequestNoStore => "request-no-store",
            NotStorable::NoStore => "no-store",
            NotStorable::Private => "private",
            NotStorable::Authorization => "authorization",
            NotStorable::SetCookie => "set-cookie",
            NotStorable::Cookie => "cookie",
            NotStorable::VaryStar => "vary-star",
            NotStorable::NoFreshness => "no-freshness",
            NotStorable::Malformed => "malformed",
            NotStorable::CloseDelimited => "close-delimited",
            NotStorable::Rule => "rule",
        }
    }
}

/// May a shared cache store the response? (RFC 9111 §3)
pub fn storable(request: &Request, response: &Response, rules: &Rules) -> Result<(), NotStorable> {
    let said = ResponseDirectives::parse(response.fields, rules);
    let is_valid = || has_validator(response.fields);
    storable_as(request, response, &said, is_valid, None, rules)
}

/// [`storable`] and [`Standing::of`] in one call, so that the fields are parsed once.
pub fn assess(
    request: &Request,
    response: &Response,
    asked: UnixMillis,
    received: UnixMillis,
    rules: &Rules,
) -> (Result<(), NotStorable>, Standing) {
    let said = ResponseDirectives::parse(response.fields, rules);
    let is_valid = has_validator(response.fields);
    (
        storable_as(request, response, &said, || is_valid, Some(received), rules),
        Standing::as_said(response, &said, is_valid, (asked, received), rules),
    )
}

fn storable_as(
    request: &Request,
    response: &Response,
    said: &ResponseDirectives,
    has_validator: impl FnOnce() -> bool,
    received: Option<UnixMillis>,
    rules: &Rules,
) -> Result<(), NotStorable> {
    let asked = RequestDirectives::heeded(request.fields, rules.client_directives);
    let fields = response.fields;
    let refuse = |condition: bool, why: NotStorable| if condition { Err(why) } else { Ok(()) };

    refuse(request.method != "GET", NotStorable::Method)?;
    //= rfc9111 §3.3   partial content is judged as the 200 it is part of: see `part::as_if_whole`
    //= rfc9110 §14.4   in other responses Content-Range means nothing
    refuse(response.status == 206, NotStorable::Range)?;
    refuse(never_stored(response.status), NotStorable::Status)?;
    refuse(said.malformed, NotStorable::Malformed)?;
    //= rfc9111 §5.2.1.5   no-store in the request
    refuse(asked.no_store, NotStorable::RequestNoStore)?;
    //= rfc9111 §5.2.2.3   must-understand: not without knowing the status; with it, no-store may be overlooked
    refuse(
        said.must_understand && !understood(response.status),
        NotStorable::Status,
    )?;
    refuse(said.no_store && !said.must_understand, NotStorable::NoStore)?;
    //= rfc9111 §5.2.2.7   a shared cache must not store it
    refuse(said.private, NotStorable::Private)?;
    //= rfc9111 §3.5   public, s-maxage and must-revalidate allow it
    let for_all = said.shared_on_purpose() || said.must_revalidate;
    refuse(
        request.fields.contains(b"authorization") && !for_all,
        NotStorable::Authorization,
    )?;
    let cookie_for_all = said.shared_on_purpose() || rules.store_set_cookie;
    refuse(
        sets_cookie(fields) && !cookie_for_all,
        NotStorable::SetCookie,
    )?;
    //= rfc9111 §4.2.2   a heuristic is allowed, not demanded: an answer that may be one user's is not guessed to be everybody's
    let is_said = || rules.ttl_s.is_some() || speaks_of_reuse(said, fields, received);
    refuse(
        rules.cookie_bars_guess && request.fields.contains(b"cookie") && !is_said(),
        NotStorable::Cookie,
    )?;
    //= rfc9111 §4.1   a member "*" always fails to match
    refuse(vary_list(fields).is_err(), NotStorable::VaryStar)?;
    //= rfc9111 §3   at least one of: public, Expires, max-age, s-maxage, a heuristically cacheable status
    // or a setting of the operator, which replaces them
    let ruled = rules.ttl_s.is_some();
    let marked = said.public || ruled || has_explicit_lifetime(said, fields);
    refuse(
        !marked && !may_be_guessed(response.status, rules),
        NotStorable::Status,
    )?;
    // Most responses have a validator, which is enough.
    refuse(
        !has_validator() && !reusable(request, response, rules),
        NotStorable::NoFreshness,
    )
}

/// May `waiter`, which joined the fetch that `leader` began, get the response? The response must be storable as
/// an answer to both requests, both must agree in the fields that Vary names, and the cache must be allowed to serve
/// it to `waiter` now.
///
/// `rules` are those of the response, with the waiter's `client_directives`. A waiter with HEAD counts as one with
/// GET.
//= rfc9111 §4   collapsed requests, provided that it is allowed to reuse that response for the requests in question
pub fn may_share(
    leader: &Request,
    waiter: &Request,
    response: &Response,
    standing: &Standing,
    now: UnixMillis,
    rules: &Rules,
) -> bool {
    let directives = RequestDirectives::heeded(waiter.fields, rules.client_directives);
    let terms = Terms {
        directives: &directives,
        list: None,
        rules,
    };
    may_share_as(leader, waiter, response, standing, now, &terms)
}

/// Further terms that decide whether two requests share a response.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The waiter's directives that are obeyed. `no-cache` and `max-age=0` need not be among them if the waiter joined
    /// before the origin was asked: the answer satisfies them anyway.
    pub directives: &'a RequestDirectives,
    /// The list by which variants of the resource are distinguished, if known.
    pub list: Option<&'a VaryList>,
    /// The rules for the response.
    pub rules: &'a Rules,
}

/// [`may_share`] on these terms.
pub fn may_share_as(
    leader: &Request,
    waiter: &Request,
    response: &Response,
    standing: &Standing,
    now: UnixMillis,
    terms: &Terms<'_>,
) -> bool {
    let rules = terms.rules;
    let method = if waiter.method == "HEAD" {
        "GET"
    } else {
        waiter.method
    };
    let waiter = Request { method, ..*waiter };
    // A response stored for a request without Cookie serves requests with Cookie, too.
    let for_waiter = Rules {
        cookie_bars_guess: false,
        ..*rules
    };
    storable(leader, response, rules).is_ok()
        && storable(&waiter, response, &for_waiter).is_ok()
        && vary_agrees(leader.fields, waiter.fields, response.fields, terms.list)
        && !matches!(judge(standing, terms.directives, now), Verdict::Validate(_))
}

fn may_be_guessed(status: u16, rules: &Rules) -> bool {
    heuristically_cacheable(status) || kept_by_rule(status, rules)
}

/// Does the origin state how long the response may be reused, or that it is for all? A lifetime of 0 does not forbid stale reuse while the
/// origin cannot be reached, so it counts only if stale reuse is forbidden. Without Date and `received` every Expires counts as past.
//= rfc9111 §4.2.4   a stale answer may be given by a cache that is disconnected
pub(crate) fn speaks_of_reuse(
    said: &ResponseDirectives,
    fields: &Fields,
    received: Option<UnixMillis>,
) -> bool {
    let at_s = date_of(fields, b"date")
        .at()
        .or(received.map(|at| at.seconds()));
    let lifetime_s = || explicit_lifetime_s(fields, said, at_s.unwrap_or(u64::MAX));
    said.shared_on_purpose()
        || said.no_cache
        || lifetime_s().is_some_and(|lifetime_s| lifetime_s > 0 || said.must_not_be_stale())
}

/// Are the caching rules of this status implemented here?
pub(crate) fn understood(status: u16) -> bool {
    heuristically_cacheable(status) || matches!(status, 302 | 303 | 307)
}

/// Is the status interim, out of range, or dependent on the request rather than the resource?
fn never_stored(status: u16) -> bool {
    match status {
        0..=199 | 600.. => true,
        206 | 304 => true,
        // Answers to credentials, preconditions, ranges, expectations, and to the state of a connection.
        401 | 407 | 408 | 412 | 416 | 417 | 421 | 425 | 426 => true,
        // RFC 6585: "Responses with the 428 (429, 431, 511) status code MUST NOT be stored by a cache."
        428 | 429 | 431 | 511 => true,
        _ => false,
    }
}

/// Would a cookie be stored with the response?
pub(crate) fn sets_cookie(fields: &Fields) -> bool {
    let shown = |name: &[u8]| fields.contains(name) && !is_withheld(fields, name);
    shown(b"set-cookie") || shown(b"set-cookie2")
}

/// Could a later request be served from this response, which has no validator, without asking the origin?
fn reusable(request: &Request, response: &Response, rules: &Rules) -> bool {
    let epoch = date_of(response.fields, b"date").at().unwrap_or(0);
    let received = UnixMillis(epoch.saturating_mul(1000));
    let standing = Standing::of(request, response, received, received, rules);
    let windows = standing
        .stale_while_revalidate_s
        .max(standing.stale_if_error_s);
    let usable_stale = windows > 0 && !standing.flags.contains(StandingFlags::MUST_REVALIDATE);
    let usable = standing.lifetime_s > standing.initial_age_s || usable_stale;
    usable && !standing.flags.contains(StandingFlags::NO_CACHE)
}

/// Compares by the known list if the response names no new field, because it is stored by that list as well (`varying`).
fn vary_agrees(a: &Fields, b: &Fields, response: &Fields, known: Option<&VaryList>) -> bool {
    let Ok(named) = vary_list(response) else {
        return false;
    };
    let known = known.filter(|known| known.has_all_of(named.as_ref()));
    (known.or(named.as_ref())).is_none_or(|list| list.agrees(a, b, response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Exchange, fields};

    fn check_with(rules: &Rules, text: &str, expected: &str) {
        let exchange = Exchange::parse(text);
        let found = match storable(&exchange.request(), &exchange.response(), rules) {
            Ok(()) => "stored",
            Err(why) => why.as_str(),
        };
        assert_eq!(found, expected, "{text}");
    }

    fn check(text: &str, expected: &str) {
        check_with(&Rules::default(), text, expected);
    }

    #[test]
    fn both_questions_at_once_have_the_same_answers() {
        let rules = Rules::default();
        for text in [
            "GET | 200 Cache-Control: max-age=60 & Date: @0",
            "GET | 200 Cache-Control: private, max-age=60",
            "GET | 404 ETag: \"a\" & Vary: accept",
            "GET Cache-Control: no-store | 200 ETag: \"a\"",
        ] {
            let exchange = Exchange::parse(text);
            let (request, response) = (exchange.request(), exchange.response());
            let (asked, received) = (UnixMillis(5_000), UnixMillis(9_000));
            assert_eq!(
                assess(&request, &response, asked, received, &rules),
                (
                    storable(&request, &response, &rules),
                    Standing::of(&request, &response, asked, received, &rules)
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn something_must_allow_it() {
        check("GET | 200 Cache-Control: max-age=60", "stored");
        check("GET | 200 Cache-Control: s-maxage=60", "stored");
        check("GET | 200 Date: @0 & Expires: @60", "stored");
        check("GET | 200 ETag: \"a\"", "stored");
        check("GET | 200 Last-Modified: @-1000", "stored");
        check("GET | 404 ETag: \"a\"", "stored");
        check("GET | 200 Date: @0", "no-freshness");
        check("GET | 200 Cache-Control: public", "no-freshness");
        check("GET | 302 ETag: \"a\"", "status");
        check("GET | 302 Cache-Control: max-age=60", "stored");
        check("GET | 302 Date: @0 & Expires: @60", "stored");
        check("GET | 302 Cache-Control: public & ETag: \"a\"", "stored");
        check("GET | 500 ETag: \"a\"", "status");
        check("GET | 503 Cache-Control: max-age=5", "stored");
        check("GET | 299 Last-Modified: @-1000", "status");
        check("GET | 299 Cache-Control: max-age=5", "stored");
    }

    #[test]
    fn it_must_be_of_use_later() {
        check("GET | 200 Cache-Control: max-age=0", "no-freshness");
        check("GET | 200 Cache-Control: max-age=oops", "no-freshness");
        check("GET | 200 Cache-Control: max-age=0 & ETag: \"a\"", "stored");
        check(
            "GET | 200 Cache-Control: max-age=0 & ETag: a",
            "no-freshness",
        );
        check(
            "GET | 200 Cache-Control: max-age=0 & Last-Modified: yesterday",
            "no-freshness",
        );
        check(
            "GET | 200 Cache-Control: max-age=0, stale-while-revalidate=9",
            "stored",
        );
        check(
            "GET | 200 Cache-Control: max-age=0, stale-if-error=9",
            "stored",
        );
        check(
            "GET | 200 Cache-Control: max-age=0, stale-if-error=9, must-revalidate",
            "no-freshness",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, no-cache",
            "no-freshness",
        );
        check("GET | 200 Cache-Control: no-cache & ETag: \"a\"", "stored");
        check("GET | 200 Date: @0 & Expires: @-1", "no-freshness");
        check("GET | 200 Date: @0 & Expires: 0", "no-freshness");
        check(
            "GET | 200 Cache-Control: max-age=60 & Age: 60",
            "no-freshness",
        );
        check("GET | 200 Cache-Control: max-age=60 & Age: 59", "stored");
    }

    #[test]
    fn only_get_and_only_final_answers() {
        for method in ["HEAD", "POST", "PUT", "OPTIONS", "get", "QUERY"] {
            check(
                &format!("{method} | 200 Cache-Control: max-age=60"),
                "method",
            );
        }
        for status in [
            100, 103, 304, 401, 407, 412, 416, 421, 428, 429, 431, 511, 600, 999,
        ] {
            check(
                &format!("GET | {status} Cache-Control: public, max-age=60"),
                "status",
            );
        }
        check(
            "GET Range: bytes=0-1 | 206 Cache-Control: max-age=60",
            "range",
        );
        check(
            "GET | 200 Cache-Control: max-age=60 & Content-Range: bytes 0-1/2",
            "stored",
        );
    }

    #[test]
    fn forbidden_by_directive() {
        check("GET | 200 Cache-Control: max-age=60, no-store", "no-store");
        check(
            "GET | 200 Cache-Control: max-age=60 & Cache-Control: No-Store",
            "no-store",
        );
        check(
            "GET Cache-Control: no-store | 200 Cache-Control: max-age=60",
            "request-no-store",
        );
        check(
            "GET Pragma: no-cache | 200 Cache-Control: max-age=60",
            "stored",
        );
        check("GET | 200 Cache-Control: max-age=60, private", "private");
        check(
            "GET | 200 Cache-Control: public, max-age=60, private",
            "private",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, private=\"set-cookie\"",
            "stored",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, private=\"set-cookie\" & Set-Cookie: a=b",
            "stored",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, private=\"foo\" & Set-Cookie: a=b",
            "set-cookie",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, private=\"vary\"",
            "private",
        );
        check("GET | 200 Cache-Control: max-age=60, x=\"y", "malformed");
    }

    #[test]
    fn must_understand() {
        check(
            "GET | 200 Cache-Control: max-age=60, must-understand, no-store",
            "stored",
        );
        check(
            "GET | 302 Cache-Control: max-age=60, must-understand",
            "stored",
        );
        check(
            "GET | 299 Cache-Control: max-age=60, must-understand",
            "status",
        );
        check(
            "GET | 299 Cache-Control: max-age=60, must-understand, no-store",
            "status",
        );
        check(
            "GET Cache-Control: no-store | 200 Cache-Control: max-age=60, must-understand",
            "request-no-store",
        );
    }

    #[test]
    fn authorised_requests() {
        let ask = |said: &str| format!("GET Authorization: Basic eA== | 200 Cache-Control: {said}");
        check(&ask("max-age=60"), "authorization");
        check(&ask("max-age=60, public"), "stored");
        check(&ask("max-age=60, must-revalidate"), "stored");
        check(&ask("s-maxage=60"), "stored");
        check(&ask("s-maxage=x, max-age=60"), "authorization");
        check(&ask("max-age=60, proxy-revalidate"), "authorization");
        check(&ask("max-age=60, must-revalidate=1"), "authorization");
        check(&ask("max-age=60, public, private"), "private");
    }

    #[test]
    fn cookies() {
        check(
            "GET | 200 Cache-Control: max-age=60 & Set-Cookie: a=b",
            "set-cookie",
        );
        check(
            "GET | 200 Cache-Control: max-age=60, public & Set-Cookie: a=b",
            "stored",
        );
        check(
            "GET | 200 Cache-Control: s-maxage=60 & Set-Cookie: a=b",
            "stored",
        );
        check("GET Cookie: a=b | 200 Cache-Control: max-age=60", "stored");
        let lenient = Rules {
            store_set_cookie: true,
            ..Rules::default()
        };
        check_with(
            &lenient,
            "GET | 200 Cache-Control: max-age=60 & Set-Cookie: a=b",
            "stored",
        );
    }

    #[test]
    fn varying() {
        check(
            "GET | 200 Cache-Control: max-age=60 & Vary: Accept",
            "stored",
        );
        check("GET | 200 Cache-Control: max-age=60 & Vary: *", "vary-star");
        check(
            "GET | 200 Cache-Control: max-age=60 & Vary: Accept & Vary: *",
            "vary-star",
        );
    }

    #[test]
    fn negative_lifetime_by_rule() {
        let rules = Rules {
            negative_ttl_s: 10,
            ..Rules::default()
        };
        check_with(&rules, "GET | 404 Date: @0", "stored");
        check_with(&rules, "GET | 404 Cache-Control: max-age=0", "no-freshness");
        check_with(&rules, "GET | 200 Date: @0", "no-freshness");
        check_with(&rules, "GET | 500 Date: @0", "status");
    }

    #[test]
    fn failures_of_the_origin_by_rule() {
        let rules = Rules {
            error_ttl_s: 10,
            ..Rules::default()
        };
        for status in [500, 502, 503, 504] {
            check_with(&rules, &format!("GET | {status} Date: @0"), "stored");
            check(&format!("GET | {status} Date: @0"), "status");
        }
        check_with(&rules, "GET | 503 Cache-Control: no-store", "no-store");
        check_with(&rules, "GET | 503 Cache-Control: max-age=0", "no-freshness");
        check_with(&rules, "GET | 503 Set-Cookie: a=b", "set-cookie");
        check_with(
            &rules,
            "GET Authorization: x | 503 Date: @0",
            "authorization",
        );
        check_with(&rules, "GET | 404 Date: @0", "no-freshness");
        check_with(&rules, "GET | 507 Date: @0", "status");
        let exchange = Exchange::parse("GET | 503 Date: @0 & Last-Modified: @-9999");
        let (request, response) = (exchange.request(), exchange.response());
        let at = crate::testing::EPOCH;
        let standing = Standing::of(&request, &response, at, at, &rules);
        assert_eq!(standing.lifetime_s, 10);
    }

    #[test]
    fn a_lifetime_by_rule_makes_storable_but_lifts_no_prohibition() {
        let rules = Rules {
            ttl_s: Some(10),
            ..Rules::default()
        };
        for status in [200, 302, 299, 404, 500, 503] {
            check_with(&rules, &format!("GET | {status} Date: @0"), "stored");
        }
        check_with(&rules, "GET | 200 Cache-Control: max-age=0", "stored");
        for (exchange, why) in [
            ("GET | 200 Cache-Control: no-store", "no-store"),
            ("GET | 200 Cache-Control: private", "private"),
            ("GET | 200 Cache-Control: no-cache", "no-freshness"),
            ("GET | 200 Cache-Control: x=\"y", "malformed"),
            ("GET | 200 Set-Cookie: a=b", "set-cookie"),
            ("GET | 200 Vary: *", "vary-star"),
            ("GET Authorization: x | 200 Date: @0", "authorization"),
            ("GET | 401 Date: @0", "status"),
            ("POST | 200 Date: @0", "method"),
        ] {
            check_with(&rules, exchange, why);
        }
    }

    fn shared(exchange: &str, waiter: &str) -> bool {
        let exchange = Exchange::parse(exchange);
        let (method, waiting) = waiter.split_once(' ').unwrap_or((waiter, ""));
        let waiting = fields(waiting);
        let rules = Rules::default();
        let (request, response) = (exchange.request(), exchange.response());
        let standing = Standing::of(
            &request,
            &response,
            exchange.sent,
            crate::testing::EPOCH,
            &rules,
        );
        may_share(
            &request,
            &Request {
                method,
                fields: &waiting,
            },
            &response,
            &standing,
            exchange.now,
            &rules,
        )
    }

    #[test]
    fn sharing_a_fetch() {
        let plain = "GET | 200 Cache-Control: max-age=60";
        assert!(shared(plain, "GET"));
        assert!(shared(plain, "HEAD"));
        assert!(shared(plain, "GET Cookie: a=b"));
        assert!(!shared(plain, "POST"));
        assert!(!shared(plain, "GET Authorization: x"));
        assert!(!shared(plain, "GET Cache-Control: no-store"));
        assert!(!shared(plain, "GET Cache-Control: no-cache"));
        assert!(!shared(plain, "GET Cache-Control: min-fresh=90"));
        assert!(!shared(
            "GET | 200 Cache-Control: private, max-age=60",
            "GET"
        ));
        assert!(!shared(
            "GET Authorization: x | 200 Cache-Control: max-age=60",
            "GET"
        ));
        assert!(!shared(
            "GET | 200 Cache-Control: max-age=60 & Set-Cookie: a=b",
            "GET"
        ));
        assert!(!shared(
            "GET | 200 Cache-Control: max-age=0 & ETag: \"a\"",
            "GET"
        ));
        assert!(!shared(
            "GET | 200 Cache-Control: no-cache & ETag: \"a\"",
            "GET"
        ));
        let varying =
            "GET Accept-Language: da | 200 Cache-Control: max-age=60 & Vary: Accept-Language";
        assert!(shared(varying, "GET Accept-Language: DA"));
        assert!(!shared(varying, "GET Accept-Language: de"));
        assert!(!shared(varying, "GET"));
    }

    #[test]
    fn what_a_cookie_may_have_chosen_needs_a_word_on_its_freshness() {
        let rules = Rules {
            cookie_bars_guess: true,
            default_ttl_s: 60,
            negative_ttl_s: 60,
            ..Rules::default()
        };
        let guessing = Rules {
            cookie_bars_guess: false,
            ..rules
        };
        for silent in [
            "200 Last-Modified: @-1000",
            "200 ETag: \"a\"",
            "200 Date: @0",
            "404 Date: @0",
            "200 Cache-Control: must-revalidate & ETag: \"a\"",
            "200 Cache-Control: max-age=0 & ETag: \"a\"",
            "200 Cache-Control: max-age=oops & ETag: \"a\"",
            "200 Date: @0 & Expires: 0 & ETag: \"a\"",
            "200 Date: @0 & Expires: @-9 & ETag: \"a\"",
            "200 Expires: @-9 & ETag: \"a\"",
        ] {
            check_with(&rules, &format!("GET Cookie: a=b | {silent}"), "cookie");
            check_with(&rules, &format!("GET | {silent}"), "stored");
            check_with(&guessing, &format!("GET Cookie: a=b | {silent}"), "stored");
        }
        for said in [
            "200 Cache-Control: max-age=60",
            "200 Date: @0 & Expires: @60",
            "200 Cache-Control: public & Last-Modified: @-1000",
            "200 Cache-Control: no-cache & ETag: \"a\"",
            "200 Cache-Control: max-age=0, must-revalidate & ETag: \"a\"",
            "200 Date: @0 & Cache-Control: proxy-revalidate & Expires: 0 & ETag: \"a\"",
        ] {
            check_with(&rules, &format!("GET Cookie: a=b | {said}"), "stored");
        }
        let ruled = Rules {
            ttl_s: Some(60),
            ..rules
        };
        check_with(&ruled, "GET Cookie: a=b | 200 Date: @0", "stored");
    }
}
