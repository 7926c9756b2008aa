//! Ranges of what is not stored, or only in part: what is fetched, what is kept, what is put together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    harness::*,
    ranges::{
        Bounds, F, TAG, ask_range, asked, bounds, expect_part, expect_parts, part, ranged, serve,
    },
};

#[test]
fn what_is_fetched_of_a_large_object_are_the_fragments_that_are_wanted() {
    let body = pattern(5 * F + 1000);
    let len = body.len();
    let origin = ranged(body.clone(), &[FRESH, TAG, "Content-Type: text/x"]);
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let mut expected = Vec::new();
    // Range, its bytes, what the origin is asked for.
    let steps: &[(&str, Bounds, Option<&str>)] = &[
        (
            "bytes=65034-65048",
            (F + 10, F + 24),
            Some("bytes=65024-130047"),
        ),
        ("bytes=65024-130047", (F, 2 * F - 1), None),
        ("bytes=130000-130009", (130_000, 130_009), None),
        ("bytes=65023-65024", (F - 1, F), Some("bytes=0-65023")),
        (
            "bytes=-10",
            (len - 10, len - 1),
            Some("bytes=325120-326119"),
        ),
        ("bytes=0-195072", (0, 3 * F), Some("bytes=130048-260095")),
        ("bytes=325140-", (5 * F + 20, len - 1), None),
        ("bytes=0-260095", (0, 4 * F - 1), None),
    ];
    for (range, span, from_origin) in steps {
        let answer = ask_range(&mut client, "/a", range);
        expect_part(&answer, &body, *span);
        assert_eq!(
            answer.is_hit(),
            from_origin.is_none(),
            "{range}: {}",
            answer.cache()
        );
        expected.extend(*from_origin);
        assert_eq!(asked(&origin), expected, "{range}");
    }
    let answer = ask_range(&mut client, "/a", "bytes=0-99,200000-200099");
    expect_parts(&answer, &body, &[(0, 99), (200_000, 200_099)]);
    let answer = client
        .ask("GET", "/a", &["If-None-Match: \"1\""])
        .read("GET");
    assert_eq!(answer.status, 304);
    drop(client);
    proxy.stop();

    // A restart changes nothing; and a plain GET completes it.
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let answer = ask_range(&mut client, "/a", "bytes=100-260095");
    expect_part(&answer, &body, (100, 4 * F - 1));
    assert!(answer.is_hit());
    let answer = client.get("/a");
    assert_same(&answer.body, &body);
    expected.push("bytes=260096-325119");
    assert_eq!(asked(&origin), expected);
    let answer = client.get("/a");
    assert!(answer.is_hit());
    assert_eq!(answer.field("content-length"), Some(&len.to_string()[..]));
    assert_same(&answer.body, &body);
    assert_eq!(asked(&origin), expected);
}

#[test]
fn a_suffix_brings_the_last_fragment() {
    let body = pattern(3 * F + 1000);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let answer = ask_range(&mut client, "/a", "bytes=-10");
    expect_part(&answer, &body, (body.len() - 10, body.len() - 1));
    let answer = ask_range(&mut client, "/a", &format!("bytes={}-", 3 * F));
    expect_part(&answer, &body, (3 * F, body.len() - 1));
    assert!(answer.is_hit());
    assert_eq!(asked(&origin), ["bytes=-65034"]);
}

#[test]
fn a_plain_request_for_an_object_that_is_mostly_missing_fetches_all_of_it() {
    let body = pattern(4 * F);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    ask_range(&mut client, "/a", "bytes=0-9");
    let head = client.ask("HEAD", "/a", &[]).read("HEAD");
    assert!(!head.is_hit(), "an incomplete object answers no HEAD");
    let answer = client.get("/a");
    assert_eq!((answer.status, answer.is_hit()), (200, false));
    assert_same(&answer.body, &body);
    let answer = client.get("/a");
    assert!(answer.is_hit());
    assert_same(&answer.body, &body);
    assert_eq!(asked(&origin), ["bytes=0-65023", "all", "all"]);
}

#[test]
fn parts_of_two_versions_are_never_mixed() {
    let bodies = [pattern(3 * F), vec![b'x'; 3 * F]];
    let version = Arc::new(AtomicUsize::new(0));
    // As they should be, and without regard to If-Range.
    for honest in [true, false] {
        version.store(0, Ordering::SeqCst);
        let origin = Origin::start({
            let (bodies, version) = (bodies.clone(), Arc::clone(&version));
            move |exchange| {
                let version = version.load(Ordering::SeqCst);
                let tag = format!("ETag: \"{version}\"");
                if honest {
                    return serve(exchange, &bodies[version], &[FRESH, &tag]);
                }
                let span = match exchange.field("range") {
                    Some(range) => bounds(range, 3 * F),
                    None => return exchange.send(ok(&[FRESH, &tag], &bodies[version])),
                };
                exchange.send(part(&bodies[version], span, &[FRESH, &tag]));
            }
        });
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        let mut client = proxy.client();
        let answer = ask_range(&mut client, "/a", "bytes=0-9");
        expect_part(&answer, &bodies[0], (0, 9));
        version.store(1, Ordering::SeqCst);
        // The part that is there is fresh; what lacks comes of the new version, and so does everything from then on.
        let span = (F - 5, F + 5);
        for _ in 0..2 {
            let answer = ask_range(&mut client, "/a", &format!("bytes={}-{}", span.0, span.1));
            expect_part(&answer, &bodies[1], span);
            assert_eq!(answer.field("etag"), Some("\"1\""));
        }
        for (first, last) in [(0, 9), (0, 3 * F - 1), (2 * F, 2 * F)] {
            let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
            expect_part(&answer, &bodies[1], (first, last));
        }
        assert_same(&client.get("/a").body, &bodies[1]);
    }
}

#[test]
fn without_a_strong_validator_nothing_is_stored_in_parts() {
    let body = pattern(3 * F);
    for fields in [&[FRESH][..], &[FRESH, "ETag: W/\"1\""]] {
        let origin = ranged(body.clone(), fields);
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        let mut client = proxy.client();
        for _ in 0..3 {
            let answer = ask_range(&mut client, "/a", "bytes=100-199");
            expect_part(&answer, &body, (100, 199));
            assert!(!answer.is_hit());
        }
        // From the second on it is asked for no more than the client is.
        let exactly = "bytes=100-199";
        assert_eq!(asked(&origin), ["bytes=0-65023", exactly, exactly]);
    }
}

#[test]
fn private_parts_are_not_kept() {
    let body = pattern(3 * F);
    for fields in [
        &["Cache-Control: private, max-age=600", TAG][..],
        &["Cache-Control: no-store", TAG],
    ] {
        let origin = ranged(body.clone(), fields);
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        for _ in 0..2 {
            let answer = proxy.ask("GET", "/a", &["Range: bytes=0-9"]);
            expect_part(&answer, &body, (0, 9));
            assert!(!answer.is_hit());
        }
        assert_eq!(origin.count("/a"), 2);
    }
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    for _ in 0..2 {
        let answer = proxy.ask(
            "GET",
            "/a",
            &["Range: bytes=0-9", "Authorization: Basic eA=="],
        );
        expect_part(&answer, &body, (0, 9));
    }
    assert_eq!(asked(&origin), ["bytes=0-9", "bytes=0-9"]);
}

#[test]
fn an_origin_that_lies_about_its_parts_gets_nothing_stored() {
    let body = pattern(3 * F);
    // What it says, and what it sends, when it is asked for a fragment.
    let lies: &[(&str, usize)] = &[
        ("bytes 0-65023/195072", 100),
        ("bytes 1-65024/195072", F),
        ("bytes 100-50/195072", F),
        ("bytes 0-65023/1000", F),
        ("bytes 130048-195071/195072", F),
        ("lines 0-65023/195072", F),
        ("bytes 0-65023/195072, bytes 0-65023/195072", F),
        ("nonsense", F),
    ];
    for &(said, sent) in lies {
        let origin = Origin::start({
            let body = body.clone();
            move |exchange| {
                if exchange.field("range") == Some("bytes=0-65023") {
                    let range = format!("Content-Range: {said}");
                    let fields = [FRESH, TAG, &range];
                    exchange.send(answer("206 Partial Content", &fields, &body[..sent]));
                } else {
                    serve(exchange, &body, &[FRESH, TAG]);
                }
            }
        });
        let disk = Disk::of_mib(32);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        let mut client = proxy.client();
        for _ in 0..2 {
            let answer = ask_range(&mut client, "/a", "bytes=0-9");
            expect_part(&answer, &body, (0, 9));
            assert!(!answer.is_hit(), "{said}");
        }
    }
}

#[test]
fn a_stale_part_is_validated_with_the_range() {
    let body = pattern(3 * F);
    let newer = vec![b'x'; 3 * F];
    let version = Arc::new(AtomicUsize::new(1));
    let origin = Origin::start({
        let (body, newer, version) = (body.clone(), newer.clone(), Arc::clone(&version));
        move |exchange| {
            let stale = ["Cache-Control: max-age=60", "Age: 100"];
            match version.load(Ordering::SeqCst) {
                1 => serve(exchange, &body, &[stale[0], stale[1], TAG]),
                _ => serve(exchange, &newer, &[stale[0], stale[1], "ETag: \"2\""]),
            }
        }
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    for _ in 0..2 {
        let answer = ask_range(&mut client, "/a", "bytes=0-9");
        expect_part(&answer, &body, (0, 9));
    }
    let last = origin.last();
    assert_eq!(last.field("if-none-match"), Some("\"1\""));
    assert_eq!(last.field("range"), Some("bytes=0-65023"));
    // Confirmed, and then something lacks.
    let answer = ask_range(&mut client, "/a", "bytes=65020-65030");
    expect_part(&answer, &body, (65_020, 65_030));
    assert_eq!(asked(&origin).len(), 4);
    assert_eq!(origin.last().field("range"), Some("bytes=65024-130047"));
    assert_eq!(origin.last().field("if-range"), Some("\"1\""));
    version.store(2, Ordering::SeqCst);
    for span in [(5, 9), (65_020, 65_030), (0, 3 * F - 1)] {
        let answer = ask_range(&mut client, "/a", &format!("bytes={}-{}", span.0, span.1));
        expect_part(&answer, &newer, span);
    }
}

#[test]
fn what_an_unsafe_method_made_untrue_is_not_served_in_parts() {
    let body = pattern(3 * F);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let ask = || proxy.ask("GET", "/a", &["Range: bytes=0-9"]);
    assert!(!ask().is_hit());
    assert!(ask().is_hit());
    proxy.ask("DELETE", "/a", &[]);
    assert!(!ask().is_hit());
    assert!(ask().is_hit());
}

#[test]
fn variants_have_parts_of_their_own() {
    let bodies = [pattern(3 * F), vec![b'x'; 3 * F]];
    let origin = Origin::start({
        let bodies = bodies.clone();
        move |exchange| {
            let french = exchange.field("accept-language") == Some("fr");
            let (body, tag) = match french {
                true => (&bodies[1], "ETag: \"fr\""),
                false => (&bodies[0], "ETag: \"en\""),
            };
            serve(exchange, body, &[FRESH, tag, "Vary: Accept-Language"]);
        }
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    for hit in [false, true] {
        for (language, body) in ["en", "fr"].into_iter().zip(&bodies) {
            let language = format!("Accept-Language: {language}");
            let answer = proxy.ask("GET", "/a", &["Range: bytes=100-199", &language]);
            expect_part(&answer, body, (100, 199));
            assert_eq!(answer.is_hit(), hit);
        }
    }
}

#[test]
fn what_is_purged_while_a_part_of_it_arrives_is_not_kept() {
    let body = pattern(3 * F);
    let gate = Gate::new();
    let origin = Origin::start({
        let (body, gate) = (body.clone(), gate.clone());
        move |exchange| {
            if exchange.request.method == "DELETE" || exchange.nth() > 3 {
                return serve(exchange, &body, &[FRESH, TAG]);
            }
            let span = bounds(exchange.field("range").unwrap(), body.len());
            let whole = part(&body, span, &[FRESH, TAG]);
            exchange.send(&whole[..F / 2]);
            if exchange.nth() == 2 {
                gate.pass();
            }
            exchange.send(&whole[F / 2..]);
        }
    });
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let ask = |range: &str| ask_range(&mut proxy.client(), "/a", range);
    assert_eq!(ask("bytes=0-9").status, 206);
    assert!(ask("bytes=0-9").is_hit());
    let mut client = proxy.client();
    let range = format!("Range: bytes={}-{}", F, 2 * F - 1);
    client.ask("GET", "/a", &[&range]);
    let mut early = client.read_head();
    gate.arrived(1);
    proxy.ask("DELETE", "/a", &[]);
    gate.open();
    client.wire.response_body("GET", &mut early);
    expect_part(&early, &body, (F, 2 * F - 1));
    assert!(!ask("bytes=0-9").is_hit());
    assert!(!ask(&format!("bytes={}-{}", F, F + 9)).is_hit());
}

#[test]
fn many_who_miss_the_same_part_fetch_it_once() {
    let body = pattern(3 * F);
    let gate = Gate::new();
    let origin = Origin::start({
        let (body, gate) = (body.clone(), gate.clone());
        move |exchange| {
            gate.pass();
            match exchange.path() {
                "/private" => serve(exchange, &body, &["Cache-Control: private", TAG]),
                _ => serve(exchange, &body, &[FRESH, TAG]),
            }
        }
    });
    let disk = Disk::of_mib(32);
    let mut plan = disk.under(plan_for(&origin));
    plan.workers = 2;
    let proxy = Proxy::start(plan);
    let mut clients = Vec::new();
    for n in 0..8 {
        let mut client = proxy.client();
        client.ask("GET", "/a", &[&format!("Range: bytes={n}-{}", n + 100)]);
        clients.push(client);
    }
    gate.arrived(1);
    gate.open();
    for (n, client) in clients.iter_mut().enumerate() {
        expect_part(&client.read("GET"), &body, (n, n + 100));
    }
    // Who came to the proxy only after the first had been answered has made no request either.
    assert_eq!(origin.count("/a"), 1);
    // What cannot be kept is waited for by nobody a second time.
    for client in &mut clients {
        client.ask("GET", "/private", &["Range: bytes=0-9"]);
    }
    for client in &mut clients {
        expect_part(&client.read("GET"), &body, (0, 9));
    }
    assert!(origin.count("/private") > 1);
}

#[test]
fn if_range_of_what_is_not_stored_is_heeded() {
    let body = pattern(3 * F);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let ask = |target: &str, tag: &str| {
        let condition = format!("If-Range: {tag}");
        proxy.ask("GET", target, &["Range: bytes=5-9", &condition])
    };
    expect_part(&ask("/a", "\"1\""), &body, (5, 9));
    let answer = ask("/b", "\"0\"");
    assert_eq!(answer.status, 200);
    assert_same(&answer.body, &body);
    assert!(ask("/a", "\"1\"").is_hit());
    // A part that is stored, but of another version than the client has.
    assert_eq!(ask("/a", "\"0\"").status, 200);
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn whatever_is_asked_in_whatever_order_the_bytes_are_right() {
    let len = 20 * F + 4321;
    let body = pattern(len);
    let origin = ranged(body.clone(), &[FRESH, TAG, "Content-Type: text/x"]);
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let disk = Disk::of_mib(64);
        let mut proxy = Proxy::start(disk.under(plan_for(&origin)));
        let mut client = proxy.client();
        for step in 0..40 {
            let what = format!("seed {seed}, step {step}");
            if dice.below(10) == 0 {
                drop(client);
                proxy.stop();
                proxy = Proxy::start(disk.under(plan_for(&origin)));
                client = proxy.client();
            }
            let first = dice.below(len);
            let most = [1, 1000, F, 4 * F, len][dice.below(5)];
            let last = (first + dice.below(most)).min(len - 1);
            match dice.below(10) {
                0 if step > 20 => {
                    let answer = client.get("/a");
                    assert_eq!(answer.status, 200, "{what}");
                    assert_same(&answer.body, &body);
                }
                1 => {
                    let answer = ask_range(&mut client, "/a", &format!("bytes=-{}", len - first));
                    expect_part(&answer, &body, (first, len - 1));
                }
                2 => {
                    let answer = ask_range(&mut client, "/a", &format!("bytes={first}-"));
                    expect_part(&answer, &body, (first, len - 1));
                }
                _ => {
                    let answer = ask_range(&mut client, "/a", &format!("bytes={first}-{last}"));
                    expect_part(&answer, &body, (first, last));
                }
            }
        }
    }
}

#[test]
fn what_is_for_one_client_reaches_him_with_his_part_and_nobody_else() {
    let body = pattern(3 * F);
    const FIELDS: &[&str] = &[
        "Cache-Control: max-age=600, private=\"x-secret\"",
        "X-Secret: his",
        TAG,
    ];
    let origin = ranged(body.clone(), FIELDS);
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    for secret in [Some("his"), None] {
        let answer = ask_range(&mut client, "/a", "bytes=10-19");
        expect_part(&answer, &body, (10, 19));
        assert_eq!(answer.field("x-secret"), secret, "{}", answer.cache());
        assert_eq!(answer.is_hit(), secret.is_none());
    }
}

/// Digests of what a message carries are of the whole or of one part, and true of nothing else. Repr-Digest is of the representation.
#[test]
fn digests_of_a_message_go_with_no_other_message() {
    const DIGESTS: [&str; 5] = [
        FRESH,
        TAG,
        "Content-Digest: sha-256=:AA==:",
        "Content-MD5: AA==",
        "Repr-Digest: sha-256=:BB==:",
    ];
    let (large, small) = (pattern(3 * F), pattern(1000));
    let bodies = [large.clone(), small.clone()];
    let origin = Origin::start(move |exchange| {
        let is_small = exchange.path().starts_with("/small");
        serve(exchange, &bodies[usize::from(is_small)], &DIGESTS);
    });
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let mut ask = |target: &str, range: &str| {
        let answer = match range {
            "" => client.get(target),
            range => ask_range(&mut client, target, range),
        };
        let has = |name| answer.field(name).is_some();
        assert!(has("repr-digest"), "{target} {range}");
        assert_eq!(has("content-digest"), has("content-md5"));
        (answer.status, has("content-digest"))
    };
    // The whole has it, a part of it not.
    assert_eq!(ask("/small", ""), (200, true));
    assert_eq!(ask("/small", ""), (200, true));
    assert_eq!(ask("/small", "bytes=0-9"), (206, false));
    assert_eq!(ask("/small", "bytes=0-9,20-29"), (206, false));
    assert_eq!(ask("/large", ""), (200, true));
    assert_eq!(ask("/large", "bytes=9-99"), (206, false));
    // Fetched in parts, wider than was asked for: neither another part nor the whole.
    assert_eq!(ask("/large/a", "bytes=10-20"), (206, false));
    assert_eq!(ask("/large/a", "bytes=10-20"), (206, false));
    assert_eq!(ask("/large/a", "bytes=10-70000"), (206, false));
    assert_eq!(ask("/large/a", "bytes=0-"), (206, false));
    assert_eq!(ask("/large/a", ""), (200, false));
}

#[test]
fn a_range_behind_the_end_is_refused_with_date_and_via() {
    let origin = ranged(pattern(1000), &[FRESH, TAG]);
    let proxy = Proxy::start(plan_for(&origin));
    let mut client = proxy.client();
    client.get("/a");
    let refused = ask_range(&mut client, "/a", "bytes=5000-");
    assert_eq!(refused.status, 416);
    for name in ["date", "via", "content-range", "cache-status"] {
        assert_eq!(refused.fields.all(name).len(), 1, "{name} {refused:?}");
    }
}
