//! How long responses stay fresh.

use super::*;
use crate::testing::{EPOCH, Exchange, at};

fn standing_with(rules: &Rules, text: &str) -> (Standing, UnixMillis) {
    let exchange = Exchange::parse(text);
    let standing = Standing::of(
        &exchange.request(),
        &exchange.response(),
        exchange.sent,
        EPOCH,
        rules,
    );
    (standing, exchange.now)
}

fn check_with(rules: &Rules, text: &str, expected: &str) {
    let (standing, now) = standing_with(rules, text);
    let fresh = if standing.is_fresh(now) {
        "fresh"
    } else {
        "stale"
    };
    let found = format!(
        "{fresh} age={} ttl={}",
        standing.age_s(now),
        standing.ttl_s(now)
    );
    assert_eq!(found, expected, "{text}");
    assert_eq!(Standing::decode(&standing.encode()), standing, "{text}");
}

fn check(text: &str, expected: &str) {
    check_with(&Rules::default(), text, expected);
}

fn flags(text: &str) -> StandingFlags {
    standing_with(&Rules::default(), text).0.flags
}

#[test]
fn fresh_until_its_age_reaches_its_lifetime() {
    check("GET | 200 Cache-Control: max-age=60", "fresh age=0 ttl=60");
    check(
        "GET | 200 Cache-Control: max-age=60 | after 30",
        "fresh age=30 ttl=30",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | after 59",
        "fresh age=59 ttl=1",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | after 60",
        "stale age=60 ttl=0",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | after 90",
        "stale age=90 ttl=-30",
    );
}

#[test]
fn which_lifetime_counts() {
    check(
        "GET | 200 Cache-Control: max-age=60, s-maxage=20",
        "fresh age=0 ttl=20",
    );
    check(
        "GET | 200 Cache-Control: max-age=60, s-maxage=0",
        "stale age=0 ttl=0",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Date: @0 & Expires: @20",
        "fresh age=0 ttl=60",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Expires: 0",
        "fresh age=0 ttl=60",
    );
    check(
        "GET | 200 Cache-Control: max-age=x & Date: @0 & Expires: @20",
        "stale age=0 ttl=0",
    );
    check("GET | 200 Date: @0 & Expires: @20", "fresh age=0 ttl=20");
    check(
        "GET | 200 Date: @0 & Expires: @20 & Last-Modified: @-9000",
        "fresh age=0 ttl=20",
    );
}

#[test]
fn expires() {
    check("GET | 200 Date: @-10 & Expires: @20", "fresh age=10 ttl=20");
    check("GET | 200 Date: @100 & Expires: @120", "fresh age=0 ttl=20");
    check("GET | 200 Expires: @20", "fresh age=0 ttl=20");
    check(
        "GET | 200 Date: rubbish & Expires: @20",
        "fresh age=0 ttl=20",
    );
    check(
        "GET | 200 Date: @0 & Date: @-50 & Expires: @20",
        "fresh age=0 ttl=20",
    );
    check("GET | 200 Date: @0 & Expires: @-20", "stale age=0 ttl=0");
    check("GET | 200 Date: @0 & Expires: @0", "stale age=0 ttl=0");
    for expired in ["0", "-1", "never", ""] {
        check(
            &format!("GET | 200 Expires: {expired} & Last-Modified: @-9000"),
            "stale age=0 ttl=0",
        );
    }
    check(
        "GET | 200 Date: @0 & Expires: @20 & Expires: @20",
        "fresh age=0 ttl=20",
    );
    check(
        "GET | 200 Date: @0 & Expires: @20 & Expires: @30",
        "stale age=0 ttl=0",
    );
}

#[test]
fn guessing_from_the_last_modification() {
    check(
        "GET | 200 Date: @0 & Last-Modified: @-1000",
        "fresh age=0 ttl=100",
    );
    check("GET | 200 Last-Modified: @-1000", "fresh age=0 ttl=100");
    check(
        "GET | 200 Date: @-500 & Last-Modified: @-1000",
        "stale age=500 ttl=-450",
    );
    check(
        "GET | 200 Date: @0 & Last-Modified: @-99999999",
        "fresh age=0 ttl=86400",
    );
    check(
        "GET | 200 Date: @0 & Last-Modified: @1000",
        "stale age=0 ttl=0",
    );
    check(
        "GET | 200 Date: @0 & Last-Modified: @-1000 & Last-Modified: @-2000",
        "stale age=0 ttl=0",
    );
    check(
        "GET | 302 Date: @0 & Last-Modified: @-1000",
        "stale age=0 ttl=0",
    );
    check(
        "GET | 302 Cache-Control: public & Last-Modified: @-1000",
        "fresh age=0 ttl=100",
    );
    check(
        "GET | 200 Pragma: no-cache & Last-Modified: @-1000",
        "stale age=0 ttl=0",
    );
    check(
        "GET | 200 Cache-Control: max-age=0 & Last-Modified: @-1000",
        "stale age=0 ttl=0",
    );
    let rules = Rules {
        heuristic_fraction_percent: 0,
        ..Rules::default()
    };
    check_with(
        &rules,
        "GET | 200 Date: @0 & Last-Modified: @-1000",
        "stale age=0 ttl=0",
    );
}

#[test]
fn rules_may_have_the_last_word_on_lifetimes() {
    let fixed = Rules {
        ttl_s: Some(30),
        ..Rules::default()
    };
    let control = |said: &str| format!("GET | 200 Cache-Control: {said}");
    for said in [
        "max-age=60",
        "max-age=0",
        "s-maxage=5, must-revalidate",
        "x",
    ] {
        check_with(&fixed, &control(said), "fresh age=0 ttl=30");
    }
    check_with(&fixed, "GET | 503 Date: @0", "fresh age=0 ttl=30");
    check_with(
        &fixed,
        "GET | 200 Date: @0 & Age: 40",
        "stale age=40 ttl=-10",
    );
    let (standing, _) = standing_with(&fixed, &control("no-cache"));
    assert!(standing.flags.contains(StandingFlags::NO_CACHE));
    let at_least = Rules {
        ttl_min_s: 30,
        ttl_max_s: 50,
        ..Rules::default()
    };
    for (said, ttl) in [("max-age=0", 30), ("max-age=40", 40), ("max-age=60", 50)] {
        check_with(&at_least, &control(said), &format!("fresh age=0 ttl={ttl}"));
    }
    check_with(
        &at_least,
        &control("max-age=60, x=\"y"),
        "stale age=0 ttl=0",
    );
}

#[test]
fn what_expires_now_is_stale_and_its_windows_begin() {
    let (mut standing, _) = standing_with(
        &Rules::default(),
        "GET | 200 Cache-Control: max-age=600, stale-while-revalidate=60",
    );
    let now = UnixMillis(EPOCH.0 + 100_000);
    assert!(standing.is_fresh(now));
    standing.expire_at(now);
    assert!(!standing.is_fresh(now));
    assert!(!standing.is_fresh(EPOCH), "whatever the clock says");
    let windows = |s: &Standing| (s.stale_while_revalidate_s, s.stale_if_error_s);
    assert_eq!(windows(&standing), (160, 0));
    standing.expire_at(UnixMillis(now.0 + 50_000));
    assert_eq!(windows(&standing), (160, 0), "once is enough");
}

#[test]
fn rules_bound_lifetimes() {
    let rules = Rules {
        ttl_max_s: 50,
        negative_ttl_s: 7,
        ..Rules::default()
    };
    check_with(
        &rules,
        "GET | 200 Cache-Control: max-age=60",
        "fresh age=0 ttl=50",
    );
    check_with(
        &rules,
        "GET | 200 Cache-Control: max-age=99999999999",
        "fresh age=0 ttl=50",
    );
    check_with(&rules, "GET | 404 Date: @0", "fresh age=0 ttl=7");
    check_with(
        &rules,
        "GET | 404 Cache-Control: max-age=9",
        "fresh age=0 ttl=9",
    );
    check_with(&rules, "GET | 503 Date: @0", "stale age=0 ttl=0");
    let swr = standing_with(
        &rules,
        "GET | 200 Cache-Control: stale-while-revalidate=60, stale-if-error=3",
    )
    .0;
    assert_eq!(
        (swr.stale_while_revalidate_s, swr.stale_if_error_s),
        (50, 3)
    );
}

#[test]
fn age_at_arrival() {
    check(
        "GET | 200 Cache-Control: max-age=60 & Date: @-10",
        "fresh age=10 ttl=50",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Date: @10",
        "fresh age=0 ttl=60",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Age: 10",
        "fresh age=10 ttl=50",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Age: 10 & Date: @-20",
        "fresh age=20 ttl=40",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Age: 10 & Date: @-5 | sent -3",
        "fresh age=13 ttl=47",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | sent -3",
        "fresh age=3 ttl=57",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | sent 3",
        "fresh age=0 ttl=60",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Age: 10, 20",
        "fresh age=10 ttl=50",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 & Age: 10 & Age: 20",
        "fresh age=10 ttl=50",
    );
    for ignored in ["x", "-1", "1.5", "", "x, 20", "\"20\""] {
        check(
            &format!("GET | 200 Cache-Control: max-age=60 & Age: {ignored}"),
            "fresh age=0 ttl=60",
        );
    }
    let endless = "GET | 200 Cache-Control: max-age=60 & Age: 99999999999999999999 | after 10";
    check(endless, "stale age=2147483648 ttl=-2147483588");
}

#[test]
fn clocks_that_run_back() {
    check(
        "GET | 200 Cache-Control: max-age=60 | after -60",
        "fresh age=0 ttl=60",
    );
    check(
        "GET | 200 Cache-Control: max-age=60 | after -61",
        "stale age=2147483648 ttl=-2147483588",
    );
}

#[test]
fn flags_tell_the_rest() {
    for (text, flag) in [
        (
            "GET | 200 Cache-Control: must-revalidate",
            StandingFlags::MUST_REVALIDATE,
        ),
        (
            "GET | 200 Cache-Control: proxy-revalidate",
            StandingFlags::MUST_REVALIDATE,
        ),
        (
            "GET | 200 Cache-Control: s-maxage=5",
            StandingFlags::MUST_REVALIDATE,
        ),
        ("GET | 200 Cache-Control: no-cache", StandingFlags::NO_CACHE),
        (
            "GET | 200 Cache-Control: no-cache=\"x\"",
            StandingFlags::default(),
        ),
        (
            "GET | 200 Cache-Control: no-cache=\"x y\"",
            StandingFlags::NO_CACHE,
        ),
        ("GET | 200 Cache-Control: x=\"", StandingFlags::NO_CACHE),
        (
            "GET | 200 Last-Modified: @-10",
            StandingFlags::HEURISTIC.union(StandingFlags::HAS_VALIDATOR),
        ),
        ("GET | 200 ETag: W/\"x\"", StandingFlags::HAS_VALIDATOR),
        ("GET | 404 Date: @0", StandingFlags::NEGATIVE),
        ("GET | 200 Vary: Accept", StandingFlags::HAS_VARY),
        (
            "GET | 200 Cache-Control: immutable",
            StandingFlags::IMMUTABLE,
        ),
        (
            "GET | 200 Cache-Control: stale-if-error=0",
            StandingFlags::HAS_STALE_IF_ERROR,
        ),
    ] {
        assert_eq!(flags(text), flag, "{text}");
    }
    assert_eq!(flags("GET | 200 ETag: x"), StandingFlags::default());
    assert_eq!(
        flags("GET | 200 ETag: \"x\" & ETag: \"y\""),
        StandingFlags::default()
    );
}

#[test]
fn expiring() {
    let (mut standing, now) =
        standing_with(&Rules::default(), "GET | 200 Cache-Control: max-age=60");
    standing.expire();
    assert!(!standing.is_fresh(now) && standing.ttl_s(at(5)) == -5);
}

#[test]
fn the_operators_grace_is_for_what_was_good_and_is_not_spoken_of() {
    let rules = Rules {
        stale_while_revalidate_s: 30,
        stale_if_error_s: 300,
        ..Rules::default()
    };
    let windows = |text: &str| {
        let (standing, _) = standing_with(&rules, text);
        let limited = standing.flags.contains(StandingFlags::HAS_STALE_IF_ERROR);
        let found = (standing.stale_while_revalidate_s, standing.stale_if_error_s);
        assert_eq!(
            limited,
            found.1 > 0 || text.contains("stale-if-error"),
            "{text}"
        );
        found
    };
    assert_eq!(windows("GET | 200 Cache-Control: max-age=60"), (30, 300));
    assert_eq!(
        windows("GET | 301 Date: @0 & Last-Modified: @-9999"),
        (30, 300)
    );
    for (said, expected) in [
        ("stale-while-revalidate=5", (5, 300)),
        ("stale-while-revalidate=0, stale-if-error=0", (0, 0)),
        ("stale-if-error=9", (30, 9)),
        ("must-revalidate", (0, 0)),
        ("proxy-revalidate", (0, 0)),
        ("s-maxage=60", (0, 0)),
        ("no-cache", (0, 0)),
        ("must-revalidate, stale-if-error=9", (0, 9)),
    ] {
        let text = format!("GET | 200 Cache-Control: max-age=60, {said}");
        assert_eq!(windows(&text), expected, "{said}");
    }
    for none in [
        "GET | 200 Cache-Control: max-age=0",
        "GET | 200 ETag: \"a\"",
        "GET | 404 Cache-Control: max-age=60",
        "GET | 503 Cache-Control: max-age=60",
        "GET | 200 Cache-Control: max-age=60, x=\"",
    ] {
        assert_eq!(windows(none), (0, 0), "{none}");
    }
}

#[test]
fn what_may_be_served_stale_is_of_use() {
    for (text, expected) in [
        ("max-age=60 | after 59", true),
        ("max-age=60 | after 60", false),
        ("max-age=60, stale-if-error=30 | after 90", true),
        ("max-age=60, stale-if-error=30 | after 91", false),
        ("max-age=60, stale-while-revalidate=30 | after 90", true),
        (
            "max-age=60, stale-if-error=30, must-revalidate | after 59",
            true,
        ),
        (
            "max-age=60, stale-if-error=30, must-revalidate | after 90",
            false,
        ),
        ("max-age=60, stale-if-error=30, no-cache | after 0", false),
    ] {
        let text = format!("GET | 200 Cache-Control: {text}");
        let (standing, now) = standing_with(&Rules::default(), &text);
        assert_eq!(standing.is_of_use(now), expected, "{text}");
    }
}

#[test]
fn who_is_foreign_to_whom() {
    let obeying = Rules::default();
    let other = Rules {
        targeted: false,
        ..Rules::default()
    };
    let both = "GET | 200 Cache-Control: max-age=9 & CDN-Cache-Control: max-age=90";
    let plain = "GET | 200 Cache-Control: max-age=9 & CDN-Cache-Control: max-age=";
    let fresh = |rules: &Rules, text: &str, obeys: bool| {
        let (standing, now) = standing_with(rules, text);
        let stored = Standing::decode(&standing.encode());
        assert_eq!(stored, standing);
        stored.is_fresh_for(StandingFlags::foreign(obeys), now)
    };
    for obeys in [false, true] {
        assert_eq!(fresh(&obeying, both, obeys), obeys);
        assert_eq!(fresh(&other, both, obeys), !obeys);
        assert!(fresh(&obeying, plain, obeys) && fresh(&other, plain, obeys));
    }
    assert_eq!(standing_with(&other, both).0.lifetime_s, 9);
}
