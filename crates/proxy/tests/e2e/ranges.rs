//! Ranges of what is stored and of what arrives; Range fields that nobody should send.

use crate::harness::*;

/// A fragment of the small stores used here.
pub const F: usize = 65_024;
pub const TAG: &str = "ETag: \"1\"";

/// First and last byte.
pub type Bounds = (usize, usize);

/// An origin's answer to a request that may have Range, If-Range and If-None-Match, from this body.
pub fn serve(exchange: &mut Exchange, body: &[u8], fields: &[&str]) {
    let tag = fields.iter().find_map(|field| field.strip_prefix("ETag: "));
    if exchange
        .field("if-none-match")
        .is_some_and(|theirs| Some(theirs) == tag)
    {
        exchange.send(head("304 Not Modified", fields));
        return;
    }
    let same = exchange
        .field("if-range")
        .is_none_or(|theirs| Some(theirs) == tag);
    let readable = |range: &&str| same && range.starts_with("bytes=");
    let range = exchange.field("range").filter(readable);
    let range = range.map(str::to_owned);
    let Some(range) = range else {
        exchange.send(ok(fields, body));
        return;
    };
    let (first, last) = bounds(&range, body.len());
    if first >= body.len() {
        let range = format!("Content-Range: bytes */{}", body.len());
        exchange.send(answer("416 Range Not Satisfiable", &[&range], ""));
        return;
    }
    exchange.send(part(body, (first, last), fields));
}

/// A 206 with these bytes.
pub fn part(body: &[u8], (first, last): Bounds, fields: &[&str]) -> Vec<u8> {
    let range = format!("Content-Range: bytes {first}-{last}/{}", body.len());
    let fields = [fields, &[&range]].concat();
    answer("206 Partial Content", &fields, &body[first..=last])
}

pub fn bounds(range: &str, len: usize) -> Bounds {
    let (first, last) = range
        .strip_prefix("bytes=")
        .unwrap()
        .split_once('-')
        .unwrap();
    if first.is_empty() {
        return (len.saturating_sub(last.parse().unwrap()), len - 1);
    }
    let last = last.parse().unwrap_or(usize::MAX);
    (first.parse().unwrap(), last.min(len - 1))
}

/// An origin that knows ranges, with one body for all.
pub fn ranged(body: Vec<u8>, fields: &'static [&'static str]) -> Origin {
    Origin::start(move |exchange| serve(exchange, &body, fields))
}

/// The ranges the origin was asked for.
pub fn asked(origin: &Origin) -> Vec<String> {
    let range = |request: origin::Request| request.field("range").unwrap_or("all").to_owned();
    origin.requests().into_iter().map(range).collect()
}

#[track_caller]
pub fn ask_range(client: &mut Client, target: &str, range: &str) -> Response {
    let field = format!("Range: {range}");
    client.ask("GET", target, &[&field]).read("GET")
}

#[track_caller]
pub fn expect_part(answer: &Response, body: &[u8], (first, last): Bounds) {
    let range = format!("bytes {first}-{last}/{}", body.len());
    assert_eq!(
        (answer.status, answer.field("content-range")),
        (206, Some(&range[..]))
    );
    assert_same(&answer.body, &body[first..=last]);
}

/// The parts of a multipart body, by the letter of RFC 2046.
#[track_caller]
pub fn parts(answer: &Response) -> Vec<(String, Vec<u8>)> {
    assert_eq!((answer.status, answer.field("content-range")), (206, None));
    let kind = answer.field("content-type").unwrap();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let mut rest = &answer.body[..];
    let mut parts = Vec::new();
    let first = format!("--{boundary}\r\n");
    rest = rest.strip_prefix(first.as_bytes()).unwrap();
    loop {
        let end = memchr::memmem::find(rest, b"\r\n\r\n").unwrap();
        let lines = std::str::from_utf8(&rest[..end]).unwrap().to_owned();
        rest = &rest[end + 4..];
        let next = format!("\r\n--{boundary}");
        let end = memchr::memmem::find(rest, next.as_bytes()).unwrap();
        parts.push((lines, rest[..end].to_vec()));
        rest = &rest[end + next.len()..];
        if rest == b"--\r\n" {
            return parts;
        }
        rest = rest.strip_prefix(b"\r\n").unwrap();
    }
}

/// Checks several ranges of a stored body.
#[track_caller]
pub fn expect_parts(answer: &Response, body: &[u8], spans: &[Bounds]) {
    assert!(answer.is_hit());
    let found = parts(answer);
    assert_eq!(found.len(), spans.len());
    for ((lines, bytes), &(first, last)) in found.iter().zip(spans) {
        let expected = format!(
            "Content-Type: text/x\r\nContent-Range: bytes {first}-{last}/{}",
            body.len()
        );
        assert_eq!(*lines, expected);
        assert_same(bytes, &body[first..=last]);
    }
}

#[test]
fn several_ranges_come_as_parts_from_memory_disk_and_fragments() {
    for len in [10_000, 3 * F + 5] {
        let body = pattern(len);
        let origin = Origin::sending(ok(&[FRESH, "Content-Type: text/x"], &body));
        let disk = Disk::of_mib(32);
        let check = |proxy: &Proxy| {
            let mut client = proxy.client();
            let end = len - 1;
            let far = len / 2;
            let range = format!("bytes={far}-{},0-99,-1,{len}-", far + 2000);
            let answer = ask_range(&mut client, "/a", &range);
            expect_parts(&answer, &body, &[(far, far + 2000), (0, 99), (end, end)]);
            // Overlapping and touching ones become one, and one is no multipart.
            let answer = ask_range(&mut client, "/a", "bytes=5-9,0-4,2-7");
            expect_part(&answer, &body, (0, 9));
            let answer = ask_range(&mut client, "/a", &format!("bytes={len}-,{len}-"));
            assert_eq!(answer.status, 416);
            let unsatisfied = format!("bytes */{len}");
            assert_eq!(answer.field("content-range"), Some(&unsatisfied[..]));
            let head = client
                .ask("HEAD", "/a", &["Range: bytes=0-1,500-600"])
                .read("HEAD");
            assert_eq!(head.status, 200);
        };
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        proxy.get("/a");
        check(&proxy);
        proxy.stop();
        check(&Proxy::start(disk.under(plan_for(&origin))));
        assert_eq!(origin.count("/a"), 1);
    }
}

#[test]
fn a_condition_that_holds_comes_before_the_range() {
    let origin = Origin::sending(ok(&[FRESH, TAG], "0123456789"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    let ask = |fields: &[&str]| proxy.ask("GET", "/a", fields).status;
    assert_eq!(ask(&["Range: bytes=0-1", "If-None-Match: \"1\""]), 304);
    assert_eq!(ask(&["Range: bytes=90-", "If-None-Match: \"1\""]), 304);
    assert_eq!(ask(&["Range: bytes=0-1", "If-None-Match: \"2\""]), 206);
    assert_eq!(ask(&["Range: bytes=90-", "If-Range: \"2\""]), 200);
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_range_of_what_arrives_is_cut_from_it() {
    let body = pattern(400_000);
    let gates = [Gate::new(), Gate::new()];
    let origin = Origin::start({
        let (body, gates) = (body.clone(), gates.clone());
        move |exchange| {
            let gate = &gates[exchange.nth() - 1];
            let length = format!("Content-Length: {}", body.len());
            exchange.send(head("200 OK", &[FRESH, TAG, &length]));
            exchange.send(&body[..200_000]);
            gate.pass();
            exchange.send(&body[200_000..]);
        }
    });
    let disk = Disk::of_mib(16);
    let plans = [plan_for(&origin), disk.under(plan_for(&origin))];
    for (plan, gate) in plans.into_iter().zip(&gates) {
        let proxy = Proxy::start(plan);
        let mut first = proxy.client();
        first.ask("GET", "/a", &[]);
        let mut whole = first.read_head();
        let mut second = proxy.client();
        let answer = ask_range(&mut second, "/a", "bytes=1000-149999");
        expect_part(&answer, &body, (1000, 149_999));
        assert!(answer.cache().contains("collapsed"), "{}", answer.cache());
        // One that begins before what has come and ends behind it.
        let mut third = proxy.client();
        third.ask("GET", "/a", &["Range: bytes=199000-399999"]);
        let mut later = third.read_head();
        gate.open();
        third.wire.response_body("GET", &mut later);
        expect_part(&later, &body, (199_000, 399_999));
        first.wire.response_body("GET", &mut whole);
        assert_same(&whole.body, &body);
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_range_of_a_small_object_brings_all_of_it() {
    let body = pattern(5000);
    let origin = ranged(body.clone(), &[FRESH, TAG]);
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    let answer = ask_range(&mut client, "/a", "bytes=10-19");
    expect_part(&answer, &body, (10, 19));
    assert_eq!(asked(&origin), ["bytes=0-65023"]);
    assert_same(&client.get("/a").body, &body);
    let answer = ask_range(&mut client, "/a", "bytes=-7");
    expect_part(&answer, &body, (4993, 4999));
    assert!(answer.is_hit());
    // Beyond its end, which is found out only then.
    let answer = ask_range(&mut client, "/b", "bytes=5000-");
    assert_eq!(
        (answer.status, answer.field("content-range")),
        (416, Some("bytes */5000"))
    );
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn an_origin_that_knows_no_ranges_is_asked_once() {
    let body = pattern(2 * F + 7);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(32);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    for (range, first, last) in [
        ("bytes=5-9", 5, 9),
        ("bytes=65020-65030", 65_020, 65_030),
        ("bytes=-3", body.len() - 3, body.len() - 1),
    ] {
        let answer = eventually("it is stored", || {
            let answer = ask_range(&mut client, "/a", range);
            expect_part(&answer, &body, (first, last));
            (answer.is_hit() || first == 5).then_some(answer)
        });
        assert_eq!(answer.status, 206);
    }
    assert_same(&client.get("/a").body, &body);
    assert!(
        origin.count("/a") <= 2,
        "the second may have come before the first was stored"
    );
}

#[test]
fn hostile_ranges_get_no_more_than_the_whole() {
    let body = pattern(200_000);
    let large = pattern(3 * F);
    let origin = Origin::start({
        let (body, large) = (body.clone(), large.clone());
        move |exchange| {
            let range = exchange.field("range").unwrap_or("bytes=0-");
            assert!(range.len() < 100, "passed on: {range}");
            let body = if exchange.path() == "/large" {
                &large
            } else {
                &body
            };
            serve(exchange, body, &[FRESH, TAG]);
        }
    });
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let many = |spec: &str, count: usize| format!("bytes={}", vec![spec; count].join(","));
    let ascending: Vec<String> = (0..500)
        .map(|n| format!("{}-{}", n * 500, n * 500))
        .collect();
    let hostile = [
        many("0-", 1300),
        many("0-", 60),
        many("-1", 60),
        many("0-0", 500),
        many("1-0", 3),
        many("", 1000),
        format!("bytes={}", ascending.join(",")),
        "bytes=0-18446744073709551615".into(),
        "bytes=0-18446744073709551616".into(),
        "bytes=-18446744073709551616".into(),
        "bytes=--1".into(),
        "bytes=".into(),
        "bytes".into(),
        "=0-1".into(),
        "bytes=0-0;1-1".into(),
    ];
    let mut fresh = 0;
    for target in ["/small", "/large", "/new"] {
        for range in &hostile {
            let target = match target {
                "/new" => {
                    fresh += 1;
                    format!("/new/{fresh}")
                }
                other => other.to_owned(),
            };
            let whole = if target == "/large" { &large } else { &body };
            let answer = ask_range(&mut proxy.client(), &target, range);
            assert!(matches!(answer.status, 200 | 206 | 416), "{range}");
            assert!(answer.body.len() <= whole.len());
            match answer.status {
                200 => assert_same(&answer.body, whole),
                206 => {
                    let range = answer.field("content-range").unwrap().to_owned();
                    let span = range
                        .strip_prefix("bytes ")
                        .unwrap()
                        .split_once('/')
                        .unwrap()
                        .0;
                    expect_part(
                        &answer,
                        whole,
                        bounds(&format!("bytes={span}"), whole.len()),
                    );
                }
                _ => {}
            }
        }
    }
}
