//! The operator's rules and purges, where only parts of an object are stored: ranges, holes, HEAD and 304 together.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proxy::{
    Clock,
    plan::{KeyRule, Rule, Then, When},
};

use super::{
    harness::{running::with_admin, *},
    ranges::{F, TAG, ask_range, asked, bounds, expect_part, part, serve},
};

fn rule(then: Then) -> Rule {
    let when = When::default();
    Rule {
        name: None,
        when,
        then,
    }
}

fn ttl(seconds: u64) -> Then {
    Then {
        ttl: Some(Duration::from_secs(seconds)),
        ..Then::default()
    }
}

fn by_kind() -> Then {
    Then {
        key: Some(KeyRule {
            fields: vec!["x-kind".into()],
            ignore_query: vec!["utm".into()],
            ..KeyRule::default()
        }),
        ..Then::default()
    }
}

/// A proxy on a disk of its own, with a clock that stands.
struct Stage {
    proxy: Proxy,
    clock: Clock,
    _disk: Disk,
}

impl Stage {
    fn new(origin: &Origin, rules: Vec<Rule>) -> Stage {
        let disk = Disk::of_mib(32);
        let mut plan = with_admin(disk.under(plan_for(origin)));
        plan.rules = rules;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = Clock::held_at(now.as_millis() as u64);
        Stage {
            proxy: Proxy::start_at(plan, clock.clone()),
            clock,
            _disk: disk,
        }
    }

    fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn ask(&self, target: &str, fields: &[&str]) -> Response {
        self.proxy.ask("GET", target, fields)
    }

    fn range(&self, range: &str) -> Response {
        ask_range(&mut self.proxy.client(), "/a", range)
    }

    fn purge(&self, query: &str) {
        let answer = self.proxy.admin("DELETE", &format!("/cache?{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Its body differs by `X-Kind`; it knows HEAD, ranges and tags.
fn kinds(fields: &'static [&'static str]) -> Origin {
    Origin::start(move |exchange| {
        let body = body_of(exchange.field("x-kind").unwrap_or("a"));
        if exchange.request.method == "HEAD" {
            let length = format!("Content-Length: {}", body.len());
            return exchange.send(head("200 OK", &[fields, &[&length]].concat()));
        }
        serve(exchange, &body, fields);
    })
}

fn body_of(kind: &str) -> Vec<u8> {
    let mut body = pattern(3 * F);
    body.fill_with({
        let mut at = kind.as_bytes()[0];
        move || {
            at = at.wrapping_mul(5).wrapping_add(kind.as_bytes()[0]);
            at
        }
    });
    body
}

#[test]
fn a_ttl_holds_for_parts_for_holes_filled_and_after_head_and_304() {
    let origin = kinds(&["Cache-Control: max-age=1", TAG, "Vary: X-Other"]);
    let stage = Stage::new(&origin, vec![rule(ttl(100))]);
    let body = body_of("a");
    let hit = |range: &str, span: (usize, usize)| {
        let answer = stage.range(range);
        expect_part(&answer, &body, span);
        assert!(answer.is_hit(), "{range}: {}", answer.cache());
    };
    expect_part(&stage.range("bytes=0-9"), &body, (0, 9));
    stage.wait(99);
    hit("bytes=10-19", (10, 19));
    // The hole is filled as long as it is fresh; the answer is as good as a 304.
    let answer = stage.range(&format!("bytes={F}-{}", F + 9));
    expect_part(&answer, &body, (F, F + 9));
    stage.wait(99);
    hit("bytes=0-9", (0, 9));
    // Stale: a range validates it.
    stage.wait(2);
    let answer = stage.range("bytes=0-9");
    expect_part(&answer, &body, (0, 9));
    assert!(
        answer.cache().contains("fwd-status=304"),
        "{}",
        answer.cache()
    );
    stage.wait(99);
    hit(&format!("bytes=0-{}", F + 9), (0, F + 9));
    // Stale again: a HEAD freshens it.
    stage.wait(2);
    let answer = stage.proxy.ask("HEAD", "/a", &[]);
    assert!(!answer.is_hit());
    stage.wait(99);
    hit("bytes=0-9", (0, 9));
    let ranges = asked(&origin);
    let widened = format!("bytes=0-{}", F - 1);
    let second = format!("bytes={F}-{}", 2 * F - 1);
    assert_eq!(ranges, [&*widened, &second, &widened, "all"]);
}

#[test]
fn what_makes_part_of_the_key_keeps_parts_apart_too() {
    let origin = kinds(&[FRESH, TAG]);
    let stage = Stage::new(&origin, vec![rule(by_kind())]);
    let (a, b) = (body_of("a"), body_of("b"));
    let get = |target: &str, kind: &str, range: &str| {
        let kind = format!("X-Kind: {kind}");
        let range = format!("Range: {range}");
        stage.ask(target, &[&kind, &range])
    };
    // The same tag for both: nothing but the rule keeps them apart.
    expect_part(&get("/a", "a", "bytes=0-9"), &a, (0, 9));
    let first = get("/a", "b", "bytes=0-9");
    assert!(!first.is_hit());
    expect_part(&first, &b, (0, 9));
    for (kind, body) in [("a", &a), ("b", &b)] {
        let answer = get("/a?utm=1", kind, "bytes=5-20");
        assert!(answer.is_hit());
        expect_part(&answer, body, (5, 20));
        // Over a hole.
        let across = format!("bytes=5-{}", F + 5);
        for is_hit in [false, true] {
            let answer = get("/a", kind, &across);
            assert_eq!(answer.is_hit(), is_hit);
            expect_part(&answer, body, (5, F + 5));
        }
        // The rest completes it.
        let field = format!("X-Kind: {kind}");
        assert_same(&stage.ask("/a", &[&field]).body, body);
        let whole = stage.ask("/a?utm=2", &[&field]);
        assert!(whole.is_hit());
        assert_same(&whole.body, body);
    }
    stage.proxy.ask("POST", "/a", &["Content-Length: 0"]);
    for (kind, body) in [("a", &a), ("b", &b)] {
        let answer = get("/a", kind, "bytes=0-9");
        assert!(!answer.is_hit());
        expect_part(&answer, body, (0, 9));
    }
}

#[test]
fn a_range_is_cut_only_from_a_fetch_that_agrees_in_the_key() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let kind = exchange.field("x-kind").unwrap_or("a").to_owned();
        let body = body_of(&kind);
        if exchange.field("range").is_some() {
            return serve(exchange, &body, &[FRESH, TAG]);
        }
        let whole = ok(&[FRESH, TAG], &body);
        let (front, back) = whole.split_at(whole.len() / 2);
        exchange.send(front);
        held.pass();
        exchange.send(back);
    });
    let stage = Stage::new(&origin, vec![rule(by_kind())]);
    let mut early = stage.proxy.client();
    early.ask("GET", "/a", &["X-Kind: a"]);
    gate.arrived(1);
    let fields = ["X-Kind: b", "Range: bytes=0-9"];
    let other = stage.ask("/a", &fields);
    expect_part(&other, &body_of("b"), (0, 9));
    assert!(!other.cache().contains("collapsed"), "{}", other.cache());
    let same = stage.ask("/a", &["X-Kind: a", "Range: bytes=0-9"]);
    expect_part(&same, &body_of("a"), (0, 9));
    assert!(same.cache().contains("collapsed"), "{}", same.cache());
    gate.open();
    assert_same(&early.read("GET").body, &body_of("a"));
}

#[test]
fn what_a_rule_keeps_out_is_kept_out_in_parts_too() {
    let bypass = || Then {
        bypass: Some(true),
        ..Then::default()
    };
    let of_type = |then| Rule {
        name: None,
        when: When {
            content_types: vec!["video/*".into()],
            ..When::default()
        },
        then,
    };
    let short = Then {
        object_bytes_max: Some(2 * F as u64),
        ..Then::default()
    };
    let exactly = "bytes=100-199";
    let widened = format!("bytes=0-{}", F - 1);
    for (rule, first) in [
        // Nothing is known to be worth keeping: asked for as the client does.
        (rule(bypass()), exactly),
        // That is found out with the first answer.
        (of_type(bypass()), &*widened),
        (rule(short), &widened),
    ] {
        let origin = kinds(&[FRESH, TAG, "Content-Type: video/mp4"]);
        let stage = Stage::new(&origin, vec![rule.clone()]);
        for _ in 0..2 {
            let answer = stage.range(exactly);
            expect_part(&answer, &body_of("a"), (100, 199));
            assert!(!answer.is_hit(), "{rule:?}");
        }
        assert_eq!(asked(&origin), [first, exactly], "{rule:?}");
    }
}

#[test]
fn cookies_are_stripped_from_parts() {
    let origin = kinds(&[FRESH, TAG, "Set-Cookie: s=1"]);
    let strip = Then {
        strip_set_cookie: Some(true),
        ..Then::default()
    };
    let stage = Stage::new(&origin, vec![rule(strip)]);
    let across = format!("bytes=5-{}", F + 5);
    for (range, span, is_hit) in [
        ("bytes=0-9", (0, 9), false),
        ("bytes=0-9", (0, 9), true),
        (&across, (5, F + 5), false),
        (&across, (5, F + 5), true),
    ] {
        let answer = stage.range(range);
        expect_part(&answer, &body_of("a"), span);
        assert_eq!(answer.is_hit(), is_hit);
        assert_eq!(answer.field("set-cookie"), None, "{range}");
    }
}

#[test]
fn a_cookie_that_comes_with_a_part_is_for_the_one_who_asked() {
    let origin = kinds(&["Cache-Control: public, max-age=100", TAG, "Set-Cookie: s=1"]);
    let stage = Stage::new(&origin, Vec::new());
    let across = format!("bytes=5-{}", F + 5);
    for (range, span, is_hit) in [
        ("bytes=0-9", (0, 9), false),
        ("bytes=0-9", (0, 9), true),
        (&across, (5, F + 5), false),
        (&across, (5, F + 5), true),
    ] {
        let answer = stage.range(range);
        expect_part(&answer, &body_of("a"), span);
        assert_eq!(answer.is_hit(), is_hit);
        let cookie = (!is_hit).then_some("s=1");
        assert_eq!(answer.field("set-cookie"), cookie, "{range}");
    }
}

#[test]
fn what_touches_a_hole_is_told_to_be_partial() {
    let origin = kinds(&[FRESH, TAG]);
    let stage = Stage::new(&origin, Vec::new());
    let why = |answer: Response| answer.cache().split("; ").nth(1).unwrap().to_owned();
    assert_eq!(why(stage.range("bytes=0-9")), "fwd=uri-miss");
    // The client has the part a moment before the store has.
    eventually("the part is stored", || {
        (why(stage.range("bytes=0-9")) == "hit").then_some(())
    });
    assert_eq!(why(stage.range(&format!("bytes=5-{F}"))), "fwd=partial");
    assert_eq!(why(stage.proxy.ask("HEAD", "/a", &[])), "fwd=partial");
    assert_eq!(why(stage.ask("/a", &[])), "fwd=partial");
    assert_eq!(why(stage.ask("/a", &[])), "hit");
}

const PURGES: [(&str, bool); 6] = [
    ("url=http://test.example/a", false),
    ("prefix=http://test.example/", false),
    ("tag=t", false),
    ("soft=1&url=http://test.example/a", true),
    ("soft=1&prefix=http://test.example/", true),
    ("soft=1&tag=t", true),
];

#[test]
fn an_object_with_holes_is_purged_like_any_other() {
    let origin = kinds(&[FRESH, TAG, "Cache-Tag: t"]);
    for rules in [vec![], vec![rule(by_kind())]] {
        let stage = Stage::new(&origin, rules);
        let body = body_of("a");
        for (query, soft) in PURGES {
            stage.range("bytes=0-9");
            assert!(stage.range("bytes=0-9").is_hit());
            stage.purge(query);
            let answer = stage.range("bytes=0-9");
            expect_part(&answer, &body, (0, 9));
            assert!(!answer.is_hit(), "{query}");
            let validated = answer.cache().contains("fwd-status=304");
            assert_eq!(validated, soft, "{query}: {}", answer.cache());
            assert!(stage.range("bytes=0-9").is_hit(), "{query}");
            // Soft: the fragment that was there before still counts, and a hole is filled beside it.
            let across = format!("bytes=5-{}", F + 5);
            expect_part(&stage.range(&across), &body, (5, F + 5));
            let answer = stage.range(&across);
            assert!(answer.is_hit());
            expect_part(&answer, &body, (5, F + 5));
            stage.purge("url=http://test.example/a");
        }
    }
}

#[test]
fn a_part_under_way_when_it_is_purged_is_not_kept() {
    for (query, _) in PURGES {
        for has_holes in [false, true] {
            let gate = Gate::new();
            let held = gate.clone();
            let origin = Origin::start(move |exchange| {
                let fields = [FRESH, TAG, "Surrogate-Key: s t"];
                let range = exchange.field("range").unwrap().to_owned();
                let nth = exchange.nth();
                let body = body_of("a");
                let answer = part(&body, bounds(&range, body.len()), &fields);
                let (front, back) = answer.split_at(answer.len() / 2);
                exchange.send(front);
                if nth == if has_holes { 2 } else { 1 } {
                    held.pass();
                }
                exchange.send(back);
            });
            let stage = Stage::new(&origin, Vec::new());
            let second = format!("bytes={F}-{}", 2 * F - 1);
            let range = if has_holes {
                stage.range("bytes=0-9");
                second
            } else {
                format!("bytes=0-{}", F - 1)
            };
            let mut early = stage.proxy.client();
            early.ask("GET", "/a", &[&format!("Range: {range}")]);
            gate.arrived(1);
            stage.purge(query);
            gate.open();
            let span = bounds(&range, 3 * F);
            expect_part(&early.read("GET"), &body_of("a"), span);
            let answer = stage.range(&range);
            expect_part(&answer, &body_of("a"), span);
            assert!(!answer.is_hit(), "{query}: {}", answer.cache());
            let answer = stage.range(&range);
            expect_part(&answer, &body_of("a"), span);
            assert!(answer.is_hit(), "{query}: {}", answer.cache());
        }
    }
}
