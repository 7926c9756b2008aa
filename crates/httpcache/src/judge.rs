//! May a stored response be served now?
//!
//! The answer depends on the origin, condensed into a [`Standing`], and on the client's [`RequestDirectives`]. The
//! client may be stricter than the origin, or laxer, but it cannot override
//! `no-cache` and `must-revalidate`.
//!
//! Not known here: Vary, conditions, ranges. The caller says whether the origin can be reached.

use crate::date::UnixMillis;
use crate::directives::{RELOAD_MS, RequestDirectives};
use crate::freshness::{Standing, StandingFlags};

/// What to do with a stored response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Serve it.
    Fresh,
    /// Serve it stale: the client's max-stale allows it.
    StaleAllowed,
    /// Serve it stale, and revalidate it in the background (RFC 5861 §3).
    StaleWhileRevalidate,
    /// Ask the origin first.
    Validate(Why),
}

/// Why the origin must be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The response's lifetime is over.
    Stale,
    /// The origin demands to be asked each time (`no-cache`).
    NoCache,
    /// The client demands that the origin is asked.
    RequestNoCache,
    /// The response is older than the client accepts.
    RequestMaxAge,
    /// The response becomes stale sooner than the client accepts.
    RequestMinFresh,
}

/// May a stored response with this standing be served to this request?
///
/// A patient reload ([`RequestDirectives::is_patient`]) is ignored if the response arrived less than a second ago.
pub fn judge(standing: &Standing, directives: &RequestDirectives, now: UnixMillis) -> Verdict {
    //= rfc9111 §5.2.2.4   not without validation, whatever the client says
    if standing.flags.contains(StandingFlags::NO_CACHE) {
        return Verdict::Validate(Why::NoCache);
    }
    let is_new = now.0.abs_diff(standing.received.0) < RELOAD_MS;
    let content = is_new.then(|| directives.without_reload());
    let directives = content.as_ref().unwrap_or(directives);
    if directives.no_cache {
        return Verdict::Validate(Why::RequestNoCache);
    }
    let age_s = standing.age_s(now);
    if standing.lifetime_s > age_s {
        return judge_fresh(standing, directives, age_s);
    }
    let stale_for_s = age_s - standing.lifetime_s;
    let refused = too_old(directives, age_s) || directives.min_fresh_s.is_some();
    //= rfc9111 §4.2.4   prohibited by must-revalidate, proxy-revalidate, s-maxage
    if standing.flags.contains(StandingFlags::MUST_REVALIDATE) || refused {
        return Verdict::Validate(Why::Stale);
    }
    //= rfc9111 §5.2.1.1   with max-age the client wishes nothing stale, unless max-stale is also present
    let patient = directives.max_age_s.is_none() || directives.max_stale_s.is_some();
    if patient && within(u64::from(stale_for_s), standing.stale_while_revalidate_s) {
        return Verdict::StaleWhileRevalidate;
    }
    match directives.max_stale_s {
        Some(limit_s) if stale_for_s <= limit_s => Verdict::StaleAllowed,
        _ => Verdict::Validate(Why::Stale),
    }
}

/// May a response be served when the origin answers 500, 502, 503 or 504, or (`disconnected`) cannot be reached at all?
/// (RFC 9111 §4.2.4, RFC 5861 §4)
///
/// `stale-if-error` of the origin or the client limits this in either case. Without it, a stale response is served only
/// if the origin cannot be reached.
pub fn may_serve_on_error(
    standing: &Standing,
    directives: &RequestDirectives,
    now: UnixMillis,
    disconnected: bool,
) -> bool {
    if standing.flags.contains(StandingFlags::NO_CACHE) || directives.no_cache {
        return false;
    }
    if !matches!(judge(standing, directives, now), Verdict::Validate(_)) {
        return true;
    }
    let tolerant = directives.stale_if_error_s.is_some() || makes_no_demand(directives);
    let ttl_s = standing.ttl_s(now);
    if ttl_s > 0 {
        return tolerant;
    }
    //= rfc9111 §5.2.2.2   even a disconnected cache must not reuse it once stale
    if standing.flags.contains(StandingFlags::MUST_REVALIDATE) {
        return false;
    }
    tolerant
        && match error_window_s(standing, directives) {
            Some(limit_s) => within(ttl_s.unsigned_abs(), limit_s),
            None => disconnected,
        }
}

fn judge_fresh(standing: &Standing, directives: &RequestDirectives, age_s: u32) -> Verdict {
    if too_old(directives, age_s) {
        return Verdict::Validate(Why::RequestMaxAge);
    }
    //= rfc9111 §5.2.1.3   lifetime no less than current age plus the specified time
    match directives.min_fresh_s {
        Some(wanted_s) if standing.lifetime_s - age_s < wanted_s => {
            Verdict::Validate(Why::RequestMinFresh)
        }
        _ => Verdict::Fresh,
    }
}

/// Is the response older than the client's max-age? A browser's reload sends max-age=0, which is obeyed even in the second of arrival.
//= rfc9111 §5.2.1.1   age less than or equal to the specified number of seconds
fn too_old(directives: &RequestDirectives, age_s: u32) -> bool {
    directives
        .max_age_s
        .is_some_and(|limit_s| limit_s == 0 || age_s > limit_s)
}

/// Does no directive of the client forbid a stale answer?
fn makes_no_demand(directives: &RequestDirectives) -> bool {
    directives.max_age_s.is_none()
        && directives.min_fresh_s.is_none()
        && directives.max_stale_s.is_none()
}

/// The shorter `stale-if-error` of origin and client.
fn error_window_s(standing: &Standing, directives: &RequestDirectives) -> Option<u32> {
    let given = standing.flags.contains(StandingFlags::HAS_STALE_IF_ERROR);
    let origin = given.then_some(standing.stale_if_error_s);
    match (origin, directives.stale_if_error_s) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A window of 0 seconds never applies, not even in the second in which the response becomes stale.
fn within(stale_for_s: u64, window_s: u32) -> bool {
    window_s > 0 && stale_for_s <= u64::from(window_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;
    use crate::testing::{EPOCH, Exchange};

    fn case(text: &str) -> (Standing, RequestDirectives, UnixMillis) {
        let exchange = Exchange::parse(text);
        let rules = Rules::default();
        let standing = Standing::of(
            &exchange.request(),
            &exchange.response(),
            exchange.sent,
            EPOCH,
            &rules,
        );
        (
            standing,
            RequestDirectives::parse(&exchange.ask),
            exchange.now,
        )
    }

    fn check(text: &str, expected: Verdict) {
        let (standing, directives, now) = case(text);
        assert_eq!(judge(&standing, &directives, now), expected, "{text}");
        if directives.is_plain() {
            assert_eq!(standing.is_fresh(now), expected == Verdict::Fresh, "{text}");
        }
    }

    const FRESH: Verdict = Verdict::Fresh;
    const STALE_ALLOWED: Verdict = Verdict::StaleAllowed;
    const BEHIND: Verdict = Verdict::StaleWhileRevalidate;
    const STALE: Verdict = Verdict::Validate(Why::Stale);
    const NO_CACHE: Verdict = Verdict::Validate(Why::NoCache);
    const ASKED: Verdict = Verdict::Validate(Why::RequestNoCache);
    const TOO_OLD: Verdict = Verdict::Validate(Why::RequestMaxAge);
    const TOO_SHORT: Verdict = Verdict::Validate(Why::RequestMinFresh);

    #[test]
    fn plain_requests() {
        check("GET | 200 Cache-Control: max-age=60 | after 59", FRESH);
        check("GET | 200 Cache-Control: max-age=60 | after 60", STALE);
        check("GET | 200 Cache-Control: max-age=60, no-cache", NO_CACHE);
        check(
            "GET | 200 Cache-Control: max-age=60 | after 5, ask Cache-Control: no-transform",
            FRESH,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 5, ask Cache-Control: only-if-cached",
            FRESH,
        );
    }

    #[test]
    fn reloading() {
        check(
            "GET | 200 Cache-Control: max-age=60 | ask Cache-Control: no-cache",
            ASKED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | ask Cache-Control: no-cache, max-stale",
            ASKED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | ask Pragma: no-cache",
            ASKED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | ask Cache-Control: max-age=0",
            TOO_OLD,
        );
        check(
            "GET | 200 Cache-Control: max-age=60, immutable | ask Cache-Control: max-age=0",
            TOO_OLD,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | ask Cache-Control: max-age=oops",
            TOO_OLD,
        );
    }

    #[test]
    fn reloads_by_how_much_clients_may_demand() {
        use crate::directives::{ClientDirectives, ClientDirectives::*};
        let found = |how: ClientDirectives, later_ms: u64, ask: &str| {
            let text = format!("GET | 200 Cache-Control: max-age=60 & Age: 5 | ask {ask}");
            let (standing, _, now) = case(&text);
            let asked = Exchange::parse(&text).ask;
            let directives = RequestDirectives::heeded(&asked, how);
            judge(&standing, &directives, UnixMillis(now.0 + later_ms))
        };
        for (ask, refused) in [
            ("Cache-Control: no-cache", ASKED),
            ("Pragma: no-cache", ASKED),
            ("Cache-Control: max-age=0", TOO_OLD),
        ] {
            assert_eq!(found(Obey, 0, ask), refused, "{ask}");
            assert_eq!(found(Revalidate, 999, ask), FRESH, "{ask}");
            assert_eq!(found(Revalidate, 1000, ask), refused, "{ask}");
            assert_eq!(found(Ignore, 9000, ask), FRESH, "{ask}");
        }
        for (ask, refused) in [
            ("Cache-Control: max-age=4", TOO_OLD),
            ("Cache-Control: max-age=0, min-fresh=56", TOO_SHORT),
        ] {
            assert_eq!(found(Revalidate, 999, ask), refused, "{ask}");
            assert_eq!(found(Ignore, 999, ask), FRESH, "{ask}");
        }
        // A stale response needs the client's max-stale.
        let late = |how| {
            let (standing, _, now) = case("GET | 200 Cache-Control: max-age=5 & Age: 5");
            let asked = crate::testing::fields("Cache-Control: no-cache, max-stale");
            judge(&standing, &RequestDirectives::heeded(&asked, how), now)
        };
        assert_eq!(late(Revalidate), STALE_ALLOWED);
        assert_eq!(late(Ignore), STALE);
    }

    #[test]
    fn max_age() {
        check(
            "GET | 200 Cache-Control: max-age=60 | after 10, ask Cache-Control: max-age=10",
            FRESH,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 11, ask Cache-Control: max-age=10",
            TOO_OLD,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-age=90",
            STALE,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-age=90, max-stale=20",
            STALE_ALLOWED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-age=65, max-stale=20",
            STALE,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 11, ask Cache-Control: max-age=10, max-stale",
            TOO_OLD,
        );
    }

    #[test]
    fn min_fresh() {
        check(
            "GET | 200 Cache-Control: max-age=60 | after 50, ask Cache-Control: min-fresh=10",
            FRESH,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 51, ask Cache-Control: min-fresh=10",
            TOO_SHORT,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: min-fresh=0, max-stale",
            STALE,
        );
    }

    #[test]
    fn max_stale() {
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-stale=10",
            STALE_ALLOWED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 71, ask Cache-Control: max-stale=10",
            STALE,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 9999, ask Cache-Control: max-stale",
            STALE_ALLOWED,
        );
        check(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-stale=x",
            STALE,
        );
        for firm in [
            "max-age=60, must-revalidate",
            "max-age=60, proxy-revalidate",
            "s-maxage=60",
        ] {
            check(
                &format!(
                    "GET | 200 Cache-Control: {firm} | after 60, ask Cache-Control: max-stale"
                ),
                STALE,
            );
        }
        check(
            "GET | 200 Cache-Control: max-age=60, no-cache | ask Cache-Control: max-stale",
            NO_CACHE,
        );
    }

    #[test]
    fn stale_while_revalidate() {
        let cached = "GET | 200 Cache-Control: max-age=600, stale-while-revalidate=30";
        check(&format!("{cached} | after 599"), FRESH);
        check(&format!("{cached} | after 600"), BEHIND);
        check(&format!("{cached} | after 630"), BEHIND);
        check(&format!("{cached} | after 631"), STALE);
        check(
            &format!("{cached} | after 610, ask Cache-Control: max-stale=20"),
            BEHIND,
        );
        check(
            &format!("{cached} | after 640, ask Cache-Control: max-stale=40"),
            STALE_ALLOWED,
        );
        check(
            &format!("{cached} | after 610, ask Cache-Control: max-age=900"),
            STALE,
        );
        check(
            &format!("{cached} | after 610, ask Cache-Control: min-fresh=1"),
            STALE,
        );
        check(
            "GET | 200 Cache-Control: max-age=600, stale-while-revalidate=0 | after 600",
            STALE,
        );
        check(
            "GET | 200 Cache-Control: max-age=9, stale-while-revalidate=9, must-revalidate | after 9",
            STALE,
        );
        check(
            "GET | 200 Cache-Control: s-maxage=9, stale-while-revalidate=9 | after 9",
            STALE,
        );
    }

    fn forward(why: Why) -> &'static str {
        crate::cache_status::Forward::from(why).as_str()
    }

    #[test]
    fn words_for_cache_status() {
        assert_eq!(
            (forward(Why::Stale), forward(Why::NoCache)),
            ("stale", "stale")
        );
        assert_eq!(
            (forward(Why::RequestMaxAge), forward(Why::RequestNoCache)),
            ("request", "request")
        );
    }

    /// `expected`: when the origin answers with an error, and when it cannot be reached.
    fn check_error(text: &str, expected: (bool, bool)) {
        let (standing, directives, now) = case(text);
        let may = |disconnected| may_serve_on_error(&standing, &directives, now, disconnected);
        assert_eq!((may(false), may(true)), expected, "{text}");
    }

    #[test]
    fn stale_if_error() {
        let cached = "GET | 200 Cache-Control: max-age=600, stale-if-error=1200";
        check_error(&format!("{cached} | after 900"), (true, true));
        check_error(&format!("{cached} | after 1800"), (true, true));
        check_error(&format!("{cached} | after 1801"), (false, false));
        check_error(
            &format!("{cached} | after 900, ask Cache-Control: stale-if-error=100"),
            (false, false),
        );
        check_error(
            &format!("{cached} | after 900, ask Cache-Control: stale-if-error=9999"),
            (true, true),
        );
        check_error(
            &format!("{cached} | after 900, ask Cache-Control: max-age=5"),
            (false, false),
        );
        check_error(
            &format!("{cached} | after 900, ask Cache-Control: no-cache"),
            (false, false),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=9 | after 20, ask Cache-Control: stale-if-error=11",
            (true, true),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=9, stale-if-error=0 | after 9",
            (false, false),
        );
    }

    #[test]
    fn without_the_origin() {
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 9999",
            (false, true),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 20",
            (true, true),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60, must-revalidate | after 20",
            (true, true),
        );
        for firm in [
            "max-age=60, must-revalidate",
            "max-age=60, proxy-revalidate",
            "s-maxage=60",
        ] {
            check_error(
                &format!("GET | 200 Cache-Control: {firm}, stale-if-error=99 | after 61"),
                (false, false),
            );
        }
        check_error(
            "GET | 200 Cache-Control: max-age=60, no-cache, stale-if-error=99 | after 5",
            (false, false),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 20, ask Cache-Control: max-age=5",
            (false, false),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-age=90",
            (false, false),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 70, ask Cache-Control: max-stale=10",
            (true, true),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 71, ask Cache-Control: max-stale=10",
            (false, false),
        );
        check_error(
            "GET | 200 Cache-Control: max-age=60 | after 55, ask Cache-Control: min-fresh=9",
            (false, false),
        );
    }
}
