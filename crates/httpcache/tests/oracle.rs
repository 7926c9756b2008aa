//! A comparison with two other implementations: what is stored, and for how long, with the crate
//! `http-cache-semantics`; what is a valid dictionary, with the crate `sfv`.
//!
//! `http-cache-semantics` differs by design: it follows RFC 7234 and is lenient in other places. A table lists each
//! difference with its reason and its cases. A disagreement that no row explains fails the test, and so does a row
//! that explains none. The dictionaries must always agree.
//!
//! The cases are drawn from a fixed seed: a failure repeats.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use fields::Fields;
use http_cache_semantics::{CacheOptions, CachePolicy};
use httpcache::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const CASES: usize = 20_000;
/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW_S: u64 = 784_111_777;

/// One exchange.
#[derive(Clone, Debug)]
struct Case {
    status: u16,
    request: Vec<(&'static str, String)>,
    response: Vec<(&'static str, String)>,
}

impl Case {
    fn has(&self, name: &str) -> bool {
        self.response.iter().any(|(n, _)| *n == name)
    }

    fn values(&self, name: &str) -> Vec<&str> {
        let of_name = self.response.iter().filter(|(n, _)| *n == name);
        of_name.map(|(_, value)| value.as_str()).collect()
    }

    fn directives(&self) -> Vec<&str> {
        let all = self.values("cache-control").into_iter();
        all.flat_map(|v| v.split(',').map(str::trim)).collect()
    }

    fn says(&self, directive: &str) -> bool {
        self.directives()
            .iter()
            .any(|d| d.split('=').next().unwrap().eq_ignore_ascii_case(directive))
    }

    fn contradicts_itself(&self) -> bool {
        let all = self.directives();
        let name = |d: &str| d.split('=').next().unwrap().to_owned();
        let twice = |d: &&&str| all.iter().filter(|other| name(other) == name(d)).count() > 1;
        all.iter().any(|d| twice(&d))
    }

    fn authorized(&self) -> bool {
        self.request
            .iter()
            .any(|(name, _)| *name == "authorization")
    }
}

fn directive() -> impl Strategy<Value = String> {
    let named = |name: &'static str| Just(name.to_owned());
    let seconds = prop_oneof![
        8 => (0u32..3000).prop_map(|s| s.to_string()),
        1 => Just("99999999999999999999999".to_owned()),
        1 => prop::sample::select(vec!["", "-1", "1.5", "x", "\"60\"", "+7"]).prop_map(str::to_owned),
    ];
    prop_oneof![
        6 => ("(max-age|s-maxage)", seconds).prop_map(|(name, s)| format!("{name}={s}")),
        1 => named("max-age"),
        2 => prop::sample::select(vec!["public", "private", "no-store", "no-cache"]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["must-revalidate", "proxy-revalidate", "immutable"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["must-understand", "no-transform", "foo=bar"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["No-Store", "PUBLIC", "Max-Age=60", "no-cache=\"a\"", "private=\"a\""])
            .prop_map(str::to_owned),
    ]
}

fn date(offset_s: impl Strategy<Value = i64>) -> impl Strategy<Value = String> {
    let text = |offset: i64| {
        let bytes = format_date(UnixMillis(NOW_S.saturating_add_signed(offset) * 1000));
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    prop_oneof![8 => offset_s.prop_map(text), 1 => "(0|-1|soon)"]
}

fn case() -> impl Strategy<Value = Case> {
    let line = prop_oneof![
        6 => vec(directive(), 1..4).prop_map(|d| ("cache-control", d.join(", "))),
        2 => date(-500i64..3000).prop_map(|d| ("expires", d)),
        2 => date(-100_000i64..10).prop_map(|d| ("last-modified", d)),
        1 => (0u32..500).prop_map(|age| ("age", age.to_string())),
        1 => "(x|5, 7|-1)".prop_map(|age| ("age", age)),
        1 => Just(("etag", "\"a\"".to_owned())),
        1 => "(no-cache|foo)".prop_map(|value| ("pragma", value)),
        1 => "(accept|\\*|a, \\*)".prop_map(|value| ("vary", value)),
        1 => Just(("set-cookie", "a=b".to_owned())),
    ];
    let status = prop_oneof![
        4 => Just(200u16),
        2 => prop::sample::select(vec![203u16, 204, 300, 301, 308, 404, 405, 410, 414, 501]),
        1 => prop::sample::select(vec![201u16, 302, 303, 307, 400, 403, 451, 500, 503]),
        1 => prop::sample::select(vec![206u16, 304, 401, 412, 416, 429]),
    ];
    let ask = prop_oneof![
        6 => Just(Vec::new()),
        1 => Just(vec![("authorization", "x".to_owned())]),
        1 => Just(vec![("cache-control", "no-store".to_owned())]),
    ];
    let past = prop_oneof![3 => Just(0i64), 1 => -300i64..0, 1 => 0i64..300];
    (status, ask, vec(line, 0..5), past).prop_map(|(status, request, mut response, past)| {
        let date = format_date(UnixMillis(NOW_S.saturating_add_signed(past) * 1000));
        response.push(("date", String::from_utf8(date.to_vec()).unwrap()));
        Case {
            status,
            request,
            response,
        }
    })
}

/// May it be stored, and for how many seconds is it fresh from now on?
type Opinion = (bool, u64);

fn ours(case: &Case) -> (Opinion, Option<NotStorable>) {
    let fields = |lines: &[(&str, String)]| -> Fields {
        lines
            .iter()
            .map(|(n, v)| (n.as_bytes(), v.as_bytes()))
            .collect()
    };
    let (asked, answered) = (fields(&case.request), fields(&case.response));
    let request = Request {
        method: "GET",
        fields: &asked,
    };
    let response = Response {
        status: case.status,
        fields: &answered,
    };
    let rules = Rules {
        heuristic_max_s: u32::MAX,
        ttl_max_s: u32::MAX,
        ..Rules::default()
    };
    let storable = storable(&request, &response, &rules);
    let now = UnixMillis(NOW_S * 1000);
    let standing = Standing::of(&request, &response, now, now, &rules);
    let fresh_s = match standing.is_fresh(now) {
        true => standing.ttl_s(now).unsigned_abs(),
        false => 0,
    };
    ((storable.is_ok(), fresh_s), storable.err())
}

fn theirs(case: &Case) -> Opinion {
    let mut request = http::Request::builder().uri("http://a/");
    for (name, value) in &case.request {
        request = request.header(*name, value);
    }
    let mut response = http::Response::builder().status(case.status);
    for (name, value) in &case.response {
        response = response.header(*name, value);
    }
    let options = CacheOptions {
        immutable_min_time_to_live: Duration::ZERO,
        ..CacheOptions::default()
    };
    let now = UNIX_EPOCH + Duration::from_secs(NOW_S);
    let request = request.body(()).unwrap();
    let response = response.body(()).unwrap();
    let policy = CachePolicy::new_options(&request, &response, now, options);
    (policy.is_storable(), policy.time_to_live(now).as_secs())
}

/// A reason for which opinions may differ: its name, why ours stands, and in which cases.
type Difference = (
    &'static str,
    &'static str,
    fn(&Case, Option<NotStorable>) -> bool,
);

/// Whether it may be stored.
const STORING: &[Difference] = &[
    (
        "fields",
        "RFC 9111 §5.2.2.4, §5.2.2.7: with names only those fields are withheld; they take the response for meant",
        |case, _| {
            let names = |d: &str| d.starts_with("private=") || d.starts_with("no-cache=");
            case.directives().iter().any(|d| names(d))
        },
    ),
    (
        "useless",
        "RFC 9111 §3 permits, it does not oblige: without lifetime and validator it could never be used",
        |_, why| why == Some(NotStorable::NoFreshness),
    ),
    (
        "cookies",
        "a cookie for all must be said to be for all; they store it and call it stale",
        |_, why| why == Some(NotStorable::SetCookie),
    ),
    (
        "vary *",
        "RFC 9111 §4.1: it matches no request; they store it and call it stale",
        |_, why| why == Some(NotStorable::VaryStar),
    ),
    (
        "status",
        "RFC 9111 §3: any final status with explicit freshness; they follow RFC 7234 and want it understood",
        |case, why| why.is_none() && matches!(case.status, 201 | 400 | 403 | 451 | 500 | 503),
    ),
    (
        "must-understand",
        "RFC 9111 §5.2.2.3, which RFC 7234 does not have: no-store may be overlooked, an unknown status not",
        |case, _| case.says("must-understand"),
    ),
    (
        "letter case",
        "RFC 9111 §5.2: directives are case-insensitive; they take them as written",
        |case, _| {
            case.directives()
                .iter()
                .any(|d| d.chars().any(char::is_uppercase))
        },
    ),
    (
        "authorised",
        "s-maxage that is 0 or no number says nothing of sharing",
        |case, _| case.authorized() && case.says("s-maxage"),
    ),
    (
        "contradictions",
        "directives that contradict each other they take for must-revalidate, which lets authorised answers through",
        |case, why| why == Some(NotStorable::Authorization) && case.contradicts_itself(),
    ),
];

/// For how long it is fresh.
const FRESHNESS: &[Difference] = &[
    (
        "fields",
        "RFC 9111 §5.2.2.4, §5.2.2.7: with names only those fields are withheld; they take the response for meant",
        |case, _| {
            let names = |d: &str| d.starts_with("private=") || d.starts_with("no-cache=");
            case.directives().iter().any(|d| names(d))
        },
    ),
    (
        "letter case",
        "RFC 9111 §5.2: directives are case-insensitive; they take them as written",
        |case, _| {
            case.directives()
                .iter()
                .any(|d| d.chars().any(char::is_uppercase))
        },
    ),
    (
        "repeated",
        "RFC 9111 §4.2.1: of several values the first, or stale: ours is the smallest, theirs the first",
        |case, _| {
            let all = case.directives();
            let count = |name| all.iter().filter(|d| d.starts_with(name)).count();
            count("max-age") > 1 || count("s-maxage") > 1
        },
    ),
    (
        "proxy-revalidate",
        "RFC 9111 §5.2.2.8: it forbids stale answers; they take it for no lifetime at all",
        |case, _| case.says("proxy-revalidate"),
    ),
    (
        "without an argument",
        "RFC 9111 §4.2.1: invalid freshness information is stale; they go on to the next source",
        |case, _| case.directives().contains(&"max-age"),
    ),
    (
        "overflow",
        "RFC 9111 §1.2.2: it saturates; they take it for 0",
        |case, _| case.directives().iter().any(|d| d.len() > 25),
    ),
    (
        "signs",
        "RFC 9111 §1.2.2: delta-seconds are digits alone",
        |case, _| case.directives().iter().any(|d| d.contains("=+")),
    ),
    (
        "apparent age",
        "RFC 9111 §4.2.3: Date tells of an age too; they only look at Age",
        |case, _| {
            let date = parse_date(case.values("date")[0].as_bytes());
            date.is_some_and(|date| date < NOW_S)
        },
    ),
    (
        "age lists",
        "RFC 9111 §5.1: the first member counts; they drop the field, or look at one line only",
        |case, _| case.values("age").len() > 1 || case.values("age").contains(&"5, 7"),
    ),
    (
        "pragma",
        "RFC 9111 §5.4: it means nothing certain in a response; we only guess no lifetime then",
        |case, _| case.values("pragma").contains(&"no-cache"),
    ),
    (
        "dates in doubt",
        "of several Expires or Last-Modified ours is the more cautious reading, theirs the first line",
        |case, _| case.values("expires").len() > 1 || case.values("last-modified").len() > 1,
    ),
    (
        "guesses",
        "a tenth, rounded down, is a matter of floating point with them",
        |case, _| {
            let stated = case.has("expires") || case.says("max-age") || case.says("s-maxage");
            case.has("last-modified") && !stated
        },
    ),
    (
        "cookies",
        "public or s-maxage lifts it with us, public or immutable with them",
        |case, _| case.has("set-cookie"),
    ),
];

/// Which rows of a table explain a disagreement; their use is counted.
fn explain(
    table: &[Difference],
    uses: &mut BTreeMap<&'static str, usize>,
    case: &Case,
    why: Option<NotStorable>,
) -> bool {
    let mut explained = false;
    for (name, _, applies) in table {
        if applies(case, why) {
            *uses.entry(name).or_default() += 1;
            explained = true;
        }
    }
    explained
}

#[test]
fn storing_and_freshness() {
    let mut runner = TestRunner::deterministic();
    let strategy = case();
    let (mut storing, mut freshness) = (BTreeMap::new(), BTreeMap::new());
    let (mut agreed, mut puzzles) = (0, Vec::new());
    for _ in 0..CASES {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        let ((we_store, we_s), why) = ours(&case);
        let (they_store, they_s) = theirs(&case);
        let explained = if we_store != they_store {
            explain(STORING, &mut storing, &case, why)
        } else if we_store && we_s != they_s {
            explain(FRESHNESS, &mut freshness, &case, why)
        } else {
            agreed += 1;
            true
        };
        if !explained {
            let opinions =
                format!("ours {we_store} {we_s} s ({why:?}), theirs {they_store} {they_s} s");
            puzzles.push(format!("{opinions}: {case:?}"));
        }
    }
    puzzles.sort_by_key(String::len);
    puzzles.truncate(10);
    assert!(puzzles.is_empty(), "unexplained:\n{}", puzzles.join("\n"));
    for (table, uses) in [(STORING, &storing), (FRESHNESS, &freshness)] {
        for (name, why, _) in table {
            assert!(uses.contains_key(name), "never seen: {name} ({why})");
        }
    }
    assert!(
        agreed > CASES / 2,
        "{agreed} of {CASES}: {storing:?} {freshness:?}"
    );
}

fn dictionary_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "(max-age|s-maxage|no-store|private|a|b|\\*c|d-e_f\\.g)",
        3 => "(=|=|,|, |,\t|;| |\\(|\\)|-)",
        3 => "[0-9]{1,16}(\\.[0-9]{0,4})?",
        2 => "\"([ -!#-\\[\\]-~]|\\\\\"|\\\\\\\\|\\\\x){0,6}\"?",
        1 => "(\\?[012]?|@-?[0-9]{1,3}|:[a-zA-Z0-9+/]{0,8}={0,2}:?|%\"(%[0-9a-f]{2}|[a-z]){0,4}\")",
        1 => "(Tok/en:1|\\*x|A|\u{e4}|\t|\\[)",
    ]
    .prop_map(String::into_bytes);
    let member = (
        "(a|b|max-age|no-store)",
        "(=[0-9]{1,4}|=\\?[01]|=\"[a-z, ]{0,5}\"|=tok|)",
        "(;p=1|; q|)",
    )
        .prop_map(|(key, value, parameter)| [key, value, parameter].concat());
    let sound = vec(member, 0..4).prop_map(|members| members.join(", ").into_bytes());
    let damaged = (sound.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut text, at, byte)| {
            if !text.is_empty() {
                let at = at.index(text.len());
                text[at] = byte;
            }
            text
        },
    );
    prop_oneof![
        2 => vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => sound,
        2 => damaged,
    ]
}

fn by_sfv(text: &[u8]) -> Option<BTreeMap<String, StructuredValue>> {
    let dictionary: sfv::Dictionary = sfv::Parser::new(text).parse().ok()?;
    let value = |entry: &sfv::ListEntry| match entry {
        sfv::ListEntry::Item(item) => match &item.bare_item {
            sfv::BareItem::Integer(number) => StructuredValue::Integer((*number).into()),
            sfv::BareItem::Boolean(yes) => StructuredValue::Boolean(*yes),
            sfv::BareItem::String(_) => StructuredValue::String,
            _ => StructuredValue::Other,
        },
        sfv::ListEntry::InnerList(_) => StructuredValue::Other,
    };
    let members = dictionary
        .iter()
        .map(|(key, entry)| (key.as_str().to_owned(), value(entry)));
    Some(members.collect())
}

#[test]
fn dictionaries() {
    let mut runner = TestRunner::deterministic();
    let strategy = dictionary_text();
    let mut read = 0;
    for _ in 0..CASES {
        let text = strategy.new_tree(&mut runner).unwrap().current();
        let ours = parse_dictionary(&text).map(|members| {
            let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
            members
                .into_iter()
                .map(|(key, value)| (text(key), value))
                .collect()
        });
        assert_eq!(ours, by_sfv(&text), "{:?}", String::from_utf8_lossy(&text));
        read += usize::from(ours.is_some_and(|members: BTreeMap<_, _>| !members.is_empty()));
    }
    assert!(read > CASES / 10, "only {read} were dictionaries");
}
