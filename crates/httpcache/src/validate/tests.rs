//! Conditions, validators and what a 304 changes.

use super::*;
use crate::testing::fields;

fn check(request: &str, stored: &str, expected: Condition) {
    assert_eq!(
        evaluate(&fields(request), &fields(stored)),
        expected,
        "{request} | {stored}"
    );
}

#[test]
fn if_none_match() {
    let (same, other) = (Condition::NotModified, Condition::Send);
    check("If-None-Match: \"a\"", "ETag: \"a\"", same);
    check("If-None-Match: \"a\"", "ETag: W/\"a\"", same);
    check("If-None-Match: W/\"a\"", "ETag: \"a\"", same);
    check("If-None-Match: \"b\", \"a\"", "ETag: \"a\"", same);
    check("If-None-Match: \"b\",, W/\"a\" ,", "ETag: \"a\"", same);
    check(
        "If-None-Match: \"b\" & If-None-Match: \"a\"",
        "ETag: \"a\"",
        same,
    );
    check("If-None-Match: \"b,\\\", \"a\"", "ETag: \"a\"", same);
    check("If-None-Match: \"b,a\"", "ETag: \"b,a\"", same);
    check("If-None-Match: \"\"", "ETag: \"\"", same);
    check("If-None-Match: *", "Date: @0", same);
    check("If-None-Match: \"b\"", "ETag: \"a\"", other);
    check("If-None-Match: \"A\"", "ETag: \"a\"", other);
    check("If-None-Match: w/\"a\"", "ETag: \"a\"", other);
    check("If-None-Match: a", "ETag: a", other);
    check("If-None-Match: \"a", "ETag: \"a\"", other);
    check("If-None-Match: *, \"b\"", "ETag: \"a\"", other);
    check("If-None-Match: \"a\"", "Date: @0", other);
    check("If-None-Match:", "ETag: \"a\"", other);
    check("If-None-Match: \"a\"", "ETag: \"a\" & ETag: \"b\"", other);
}

#[test]
fn if_modified_since() {
    let (same, other) = (Condition::NotModified, Condition::Send);
    check("If-Modified-Since: @-10", "Last-Modified: @-10", same);
    check("If-Modified-Since: @-9", "Last-Modified: @-10", same);
    check("If-Modified-Since: @-11", "Last-Modified: @-10", other);
    check("If-Modified-Since: @0", "Date: @0", same);
    check("If-Modified-Since: @-1", "Date: @0", other);
    check(
        "If-Modified-Since: @0",
        "Last-Modified: x & Date: @-9",
        other,
    );
    check("If-Modified-Since: @0", "ETag: \"a\"", other);
    check("If-Modified-Since: 0", "Last-Modified: @-10", other);
    check(
        "If-Modified-Since: @0 & If-Modified-Since: @1",
        "Last-Modified: @-10",
        other,
    );
    check(
        "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT",
        "Last-Modified: @0",
        same,
    );
    // Beside If-None-Match it is ignored.
    check(
        "If-None-Match: \"b\" & If-Modified-Since: @0",
        "ETag: \"a\" & Last-Modified: @-10",
        other,
    );
    check(
        "If-None-Match: \"a\" & If-Modified-Since: @-99",
        "ETag: \"a\" & Last-Modified: @-10",
        same,
    );
}

#[test]
fn conditions_for_the_origin_alone() {
    check("If-Match: \"a\"", "ETag: \"a\"", Condition::AskOrigin);
    check(
        "If-Unmodified-Since: @0 & If-None-Match: \"a\"",
        "ETag: \"a\"",
        Condition::AskOrigin,
    );
    check("Host: a", "ETag: \"a\"", Condition::Send);
}

#[test]
fn fields_of_our_304() {
    let stored = fields(
        "Date: @0 & Server: x & Content-Type: a/b & etag: \"a\" & Last-Modified: @-9 & Vary: b & Content-Length: 3 \
         & Cache-Control: max-age=3 & Cache-Control: public & Expires: @3 & Set-Cookie: c & Content-Location: /d \
         & CDN-Cache-Control: max-age=9 & Content-Security-Policy: e & content-encoding: f & Cache-Status: g; hit",
    );
    let expected = "Date: @0 & Server: x & etag: \"a\" & Vary: b & Cache-Control: max-age=3 & Cache-Control: public \
                    & Expires: @3 & Content-Location: /d & CDN-Cache-Control: max-age=9 & Content-Security-Policy: e \
                    & Cache-Status: g; hit";
    assert_eq!(not_modified_fields(&stored), fields(expected));
    assert_eq!(
        not_modified_fields(&fields("Last-Modified: @-9 & A: b")),
        fields("Last-Modified: @-9 & A: b")
    );
}

#[test]
fn asking_the_origin() {
    let asked = |stored: &str| {
        let mut request = fields("Host: a");
        let added = add_validators(&fields(stored), &mut request);
        assert_eq!(added, request.len() > 1);
        request
    };
    assert_eq!(
        asked("ETag: W/\"a\" & Last-Modified: @-9"),
        fields("Host: a & If-None-Match: W/\"a\" & If-Modified-Since: @-9")
    );
    assert_eq!(
        asked("Last-Modified: @-9"),
        fields("Host: a & If-Modified-Since: @-9")
    );
    assert_eq!(asked("ETag: a & Last-Modified: x"), fields("Host: a"));
    assert_eq!(asked("ETag: \"a\" & ETag: \"b\""), fields("Host: a"));
}

#[test]
fn removing_conditions() {
    let mut request = fields(
        "If-Match: a & A: b & If-None-Match: a & if-modified-since: a & If-Unmodified-Since: a & Range: bytes=0-",
    );
    remove_conditions(&mut request);
    assert_eq!(request, fields("A: b & Range: bytes=0-"));
    request.push(b"If-Range", b"\"a\"");
    remove_conditions(&mut request);
    assert_eq!(request, fields("A: b"));
}

#[test]
fn of_what_a_304_speaks() {
    for (stored, not_modified, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", true),
        ("ETag: \"a\"", "ETag: W/\"a\"", true),
        ("ETag: W/\"a\"", "ETag: \"a\"", false),
        ("ETag: \"a\"", "ETag: a", false),
        (
            "Last-Modified: @-9",
            "ETag: \"a\" & Last-Modified: @-9",
            false,
        ),
        (
            "ETag: \"a\" & Last-Modified: @-9",
            "ETag: \"a\" & Last-Modified: @-8",
            true,
        ),
        (
            "ETag: \"a\" & Last-Modified: @-9",
            "Last-Modified: @-9",
            true,
        ),
        (
            "ETag: \"a\" & Last-Modified: @-9",
            "Last-Modified: @-8",
            false,
        ),
        ("ETag: \"a\"", "Last-Modified: @-8", false),
        ("Last-Modified: @-9", "Last-Modified: x", false),
        ("ETag: \"a\"", "Date: @0", true),
    ] {
        assert_eq!(
            validates(&fields(stored), &fields(not_modified)),
            expected,
            "{stored} | {not_modified}"
        );
    }
}

fn check_freshen(stored: &str, not_modified: &str, expected: &str) {
    let found = freshen(&fields(stored), &fields(not_modified), &Rules::default());
    assert_eq!(found, fields(expected), "{stored} | {not_modified}");
}

#[test]
fn a_304_replaces_what_it_repeats() {
    check_freshen("A: 1 & B: 2", "b: 3 & C: 4", "A: 1 & b: 3 & C: 4");
    check_freshen("A: 1 & B: 2 & a: 3", "A: 4 & A: 5", "B: 2 & A: 4 & A: 5");
    check_freshen(
        "Cache-Control: max-age=1",
        "Cache-Control: no-cache",
        "Cache-Control: no-cache",
    );
    check_freshen(
        "Content-Type: a/b",
        "Content-Type: c/d",
        "Content-Type: c/d",
    );
    check_freshen("ETag: \"a\"", "ETag: W/\"a\"", "ETag: W/\"a\"");
}

#[test]
fn a_304_leaves_what_describes_the_content() {
    let stored = "Content-Length: 10 & Content-Encoding: gzip & A: 1";
    check_freshen(
        stored,
        "content-length: 0 & Content-Encoding: br & Content-Range: bytes 0-1/2",
        stored,
    );
}

#[test]
fn a_304_leaves_what_belongs_to_its_connection() {
    check_freshen(
        "A: 1 & B: 2",
        "Connection: close, B & B: 3 & Keep-Alive: x & TE: x & Transfer-Encoding: chunked & Upgrade: x & C: 4",
        "A: 1 & B: 2 & C: 4",
    );
}

#[test]
fn age_and_date_begin_anew() {
    check_freshen("Age: 50 & Date: @-90 & A: 1", "A: 2", "A: 2");
    check_freshen(
        "Age: 50 & Date: @-90",
        "Date: @0 & Age: 3",
        "Date: @0 & Age: 3",
    );
}

#[test]
fn cookies_of_a_304_are_for_one_user() {
    check_freshen("A: 1", "Set-Cookie: a=b", "A: 1");
    check_freshen(
        "Cache-Control: public",
        "Set-Cookie: a=b",
        "Cache-Control: public",
    );
    // Stored while the operator declared cookies common to all clients.
    check_freshen(
        "Cache-Control: public & Set-Cookie: c=d",
        "Cache-Control: max-age=3 & Set-Cookie: a=b",
        "Cache-Control: max-age=3",
    );
    let rules = Rules {
        store_set_cookie: true,
        ..Rules::default()
    };
    let found = freshen(
        &fields("Set-Cookie: c=d"),
        &fields("Set-Cookie: a=b"),
        &rules,
    );
    assert_eq!(found, fields("Set-Cookie: a=b"));
}

#[test]
fn listed_fields_are_not_in_what_is_freshened() {
    check_freshen(
        "A: 1 & B: 2",
        "Cache-Control: private=\"a\" & A: 3",
        "B: 2 & Cache-Control: private=\"a\"",
    );
}
