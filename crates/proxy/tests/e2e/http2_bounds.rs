//! What one connection of HTTP/2 may have: requests, time, memory for heads and bodies; and heads that are unlike HTTP/1's.

use std::{thread, time::Duration};

use proxy::plan::{AccessFormat, AccessLog, LogTarget};
use serde_json::Value;

use crate::{
    budgets::gauge,
    harness::{
        FRESH, Gate, Origin, Proxy, assert_same, chunk, eventually, head, ok, pattern, plan_for,
        running::with_admin,
    },
    http2_client::{Client, play, read, speaking},
    http2_raw::{
        DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, Raw, WINDOW_UPDATE, block,
        field, frame, get, head as request, headers,
    },
};

const REFUSED_STREAM: u32 = 7;

#[test]
fn a_connection_ends_after_so_many_requests_and_loses_none() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = speaking(plan_for(&origin));
    plan.limits.connection_requests_max = 10;
    let proxy = Proxy::start(plan);
    let mut raw = Raw::connect(proxy.address());
    for round in 0..9 {
        raw.send(&get(2 * round + 1, "/a"));
        assert_eq!(raw.outcome(2 * round + 1), Some(Ok(200)));
    }
    raw.send(&get(19, "/a"));
    let told = loop {
        let frame = raw.next().expect("the connection stays");
        if frame.kind == GOAWAY {
            break frame;
        }
    };
    assert_eq!((told.word(0), told.word(4)), (0x7fff_ffff, 0));
    // The client may have sent more before it knew; that is answered, until it says that it knows.
    for round in 10..20 {
        raw.send(&get(2 * round + 1, "/a"));
        assert_eq!(raw.outcome(2 * round + 1), Some(Ok(200)));
    }
    raw.send(&frame(PING, 1, 0, b"draining"));
    assert_eq!(raw.farewell(), Some(0));
    // The next connection is as good as the first.
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "/a"));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
}

#[test]
fn clients_move_on_to_other_connections_and_miss_no_answer() {
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], pattern(20_000)));
    let mut plan = speaking(plan_for(&origin));
    plan.limits.connection_requests_max = 7;
    let proxy = Proxy::start(plan);
    play(async {
        let (mut answered, mut connections) = (0, 0);
        while answered < 60 {
            let client = Client::plain(proxy.address()).await;
            connections += 1;
            while answered < 60 {
                // A client that was told opens no stream: it fails before anything was sent.
                let path = format!("/{answered}");
                let Some((answer, _)) = client
                    .begin(client.request("GET", &path, &[]), true)
                    .await
                    .ok()
                else {
                    break;
                };
                let answer = match answer.await {
                    // Above the last stream of the GOAWAY: not taken, so it may be sent again.
                    Err(error) if error.is_go_away() && error.is_remote() => break,
                    answer => read(answer).await,
                };
                assert_same(&answer.body, &pattern(20_000));
                answered += 1;
            }
        }
        assert!(connections >= 2, "{connections}");
    });
}

#[test]
fn an_old_connection_ends_and_what_is_under_way_is_finished() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "late"));
    });
    let mut plan = speaking(plan_for(&origin));
    plan.timeouts.client_age = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "/a"));
    let first = raw.next().unwrap();
    assert_eq!((first.kind, first.word(4)), (GOAWAY, 0));
    gate.open();
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    assert!(raw.next().is_some_and(|frame| frame.payload == b"late"));
    while raw.frame().is_some() {}
}

#[test]
fn a_get_that_ends_later_is_looked_up_like_any_other() {
    let origin = Origin::start(|exchange| {
        let (body, _) = exchange.body();
        exchange.send(ok(&[FRESH], body));
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    let mut raw = Raw::connect(proxy.address());
    let mut ask = |id: u32, method: &str, body: &[u8]| {
        raw.send(&frame(HEADERS, END_HEADERS, id, &request(method, "/a")));
        raw.send(&frame(DATA, END_STREAM, id, body));
        assert_eq!(raw.outcome(id), Some(Ok(200)));
    };
    for round in 0..4 {
        ask(2 * round + 1, "GET", b"");
    }
    ask(9, "HEAD", b"");
    assert_eq!(origin.count("/a"), 1);
    // With a body it is not the cache's.
    ask(11, "GET", b"question");
    assert_eq!(origin.count("/a"), 2);
    assert_eq!(origin.last().field("transfer-encoding"), Some("chunked"));
    // One that stays open is passed on as it is.
    raw.send(&frame(HEADERS, END_HEADERS, 13, &request("GET", "/a")));
    eventually("the origin is asked", || {
        (origin.count("/a") == 3).then_some(())
    });
    raw.send(&frame(DATA, END_STREAM, 13, b"late"));
    assert_eq!(raw.outcome(13), Some(Ok(200)));
}

#[test]
fn trailers_of_a_body_of_known_length_reach_the_origin() {
    let origin = Origin::start(|exchange| {
        assert_eq!(exchange.field("te"), Some("trailers"));
        assert_eq!(exchange.field("connection"), Some("TE"));
        assert_eq!(exchange.field("content-length"), None);
        let (body, trailers) = exchange.body();
        assert_eq!(trailers.get("sum"), Some("7"));
        exchange.send(head("200 OK", &["Transfer-Encoding: chunked"]));
        exchange.send(chunk(body));
        exchange.send("0\r\nsum: 8\r\n\r\n");
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let fields = [
            ("te", "trailers"),
            ("trailer", "sum"),
            ("content-length", "4"),
        ];
        let request = client.request("POST", "/call", &fields);
        let (answer, mut stream) = client.begin(request, false).await.unwrap();
        stream.send_data("ping".into(), false).unwrap();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("sum", "7".parse().unwrap());
        stream.send_trailers(trailers).unwrap();
        let answer = read(answer.await).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ping"[..]));
        assert_eq!(answer.trailers.unwrap()["sum"], "8");
    });
}

#[test]
fn a_malformed_head_is_logged() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut plan = speaking(plan_for(&origin));
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(log.clone()),
        format: AccessFormat::Json,
    });
    let proxy = Proxy::start(plan);
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "no slash"));
    assert_eq!(raw.outcome(1), Some(Err(1)));
    let many: Vec<u8> = (0..1100).flat_map(|_| field(b"a", b"b")).collect();
    let block = [request("GET", "/"), many].concat();
    raw.send(&headers(END_STREAM, 3, &block));
    assert_eq!(raw.outcome(3), Some(Ok(431)));
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, status) in lines.iter().zip([400, 431]) {
        assert_eq!(line["status"], status, "{line}");
        assert_eq!(line["protocol"], "HTTP/2", "{line}");
        assert_eq!(line["client"], "127.0.0.1", "{line}");
    }
}

#[test]
fn heads_of_requests_under_way_are_bounded() {
    let gate = Gate::new();
    let passed = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() != "/other" {
            passed.pass();
        }
        exchange.send(ok(&[FRESH], "late"));
    });
    let mut plan = with_admin(speaking(plan_for(&origin)));
    plan.limits.head_buffer_bytes = 1 << 20;
    let proxy = Proxy::start(plan);
    let hit = || play(async { Client::plain(proxy.address()).await.get("/other").await });
    assert_eq!(hit().status, 200);
    // 14 KB each: 74 of them are a MiB.
    let large = "x".repeat(14 << 10);
    let mut raw = Raw::connect(proxy.address());
    for round in 0..100 {
        let path = format!("/{round}");
        let block = [request("GET", &path), block(&[("note", &large)])].concat();
        raw.send(&headers(END_STREAM, 2 * round + 1, &block));
    }
    assert_eq!(raw.outcome(199), Some(Err(REFUSED_STREAM)));
    let refused = proxy.counter("h2_streams_refused");
    assert!((20..40).contains(&refused), "{refused}");
    // What memory answers takes none of it.
    assert!(hit().is_hit());
    gate.open();
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "/new"));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
}

#[test]
fn a_head_may_have_many_fields_in_each_protocol() {
    let names: Vec<String> = (0..300).map(|n| format!("X-{n}: v")).collect();
    let lines: Vec<&str> = names.iter().map(String::as_str).collect();
    let fields = [&lines[..], &["Cache-Control: no-store"]].concat();
    let origin = Origin::sending(ok(&fields, "many"));
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    let asked = |fields: &wire::Fields| {
        let names = fields.0.iter().map(|(name, _)| name.to_lowercase());
        names.filter(|name| name.starts_with("x-")).count()
    };
    let answer = proxy.ask("GET", "/1", &lines);
    assert_eq!((answer.status, answer.text()), (200, "many"));
    assert!((0..300).all(|n| answer.field(&format!("x-{n}")) == Some("v")));
    assert!(asked(&origin.last().fields) >= 300);
    // Crumbs are one line.
    let mut raw = Raw::connect(proxy.address());
    let each = |n: usize| field(format!("x-{n}").as_bytes(), b"v");
    let many: Vec<u8> = (0..300).flat_map(each).collect();
    let crumbs: Vec<u8> = (0..115)
        .flat_map(|n| field(b"cookie", format!("n{n}={}", "v".repeat(60)).as_bytes()))
        .collect();
    let block = [request("GET", "/2"), many, crumbs].concat();
    raw.send(&headers(END_STREAM, 1, &block));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    let last = origin.last();
    assert!(asked(&last.fields) >= 300);
    let cookies = last.field("cookie").unwrap();
    assert_eq!(cookies.split("; ").count(), 115);
}

#[test]
fn how_many_fields_is_a_setting() {
    let lines: Vec<String> = (0..40).map(|n| format!("X-{n}: v")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let origin = Origin::start({
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        move |exchange| {
            let many: Vec<&str> = lines.iter().map(String::as_str).collect();
            let fields = if exchange.path() == "/many" {
                &many[..]
            } else {
                &[]
            };
            exchange.send(ok(fields, "hello"));
        }
    });
    let mut plan = speaking(plan_for(&origin));
    plan.limits.fields_max = 32;
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.ask("GET", "/", &lines[..20]).status, 200);
    let refused = proxy.ask("GET", "/", &lines);
    assert_eq!(refused.status, 431);
    assert!(refused.text().contains("too many fields"), "{refused:?}");
    let mut raw = Raw::connect(proxy.address());
    let each = |count: usize| (0..count).flat_map(|n| field(format!("x-{n}").as_bytes(), b"v"));
    for (id, count, status) in [(1, 20, 200), (3, 40, 431)] {
        let block = [request("GET", "/"), each(count).collect()].concat();
        raw.send(&headers(END_STREAM, id, &block));
        assert_eq!(raw.outcome(id), Some(Ok(status)));
    }
    assert_eq!(proxy.ask("GET", "/many", &[]).status, 502);
}

/// A client at the other end of a long line: what windows allow is sent at once, and then nothing until the answers to that have come.
/// Returns how often it had to wait, and the largest window it has seen.
fn upload_over_a_long_line(proxy: &Proxy, bytes: usize) -> (usize, usize) {
    const ROUND_TRIP: Duration = Duration::from_millis(100);
    let mut raw = Raw::connect(proxy.address());
    raw.send(&frame(HEADERS, END_HEADERS, 1, &request("POST", "/up")));
    let (mut stream, mut connection) = (64 << 10, 1 << 20);
    let (mut sent, mut waits, mut most) = (0, 0, 0);
    loop {
        most = most.max(stream);
        while sent < bytes && stream.min(connection) > 0 {
            let len = (16 << 10).min(stream).min(connection).min(bytes - sent);
            let end = if sent + len == bytes { END_STREAM } else { 0 };
            assert!(raw.send(&frame(DATA, end, 1, &vec![7; len])));
            (sent, stream, connection) = (sent + len, stream - len, connection - len);
        }
        if sent == bytes {
            break;
        }
        thread::sleep(ROUND_TRIP);
        waits += 1;
        raw.send(&frame(PING, 0, 0, b"all here"));
        loop {
            let frame = raw.frame().expect("the connection stays");
            match (frame.kind, frame.stream) {
                (PING, _) => break,
                (WINDOW_UPDATE, 0) => connection += frame.word(0) as usize,
                (WINDOW_UPDATE, _) => stream += frame.word(0) as usize,
                _ => {}
            }
        }
    }
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    let body = loop {
        let frame = raw.next().expect("the answer has a body");
        if frame.kind == DATA {
            break frame.payload;
        }
    };
    assert_eq!(body, bytes.to_string().as_bytes());
    (waits, most)
}

#[test]
fn the_window_of_a_long_upload_grows() {
    let origin = Origin::start(|exchange| {
        let (body, _) = exchange.body();
        exchange.send(ok(&[], body.len().to_string()));
    });
    let proxy = Proxy::start(with_admin(speaking(plan_for(&origin))));
    let (waits, most) = upload_over_a_long_line(&proxy, 8 << 20);
    // 64 KiB, 4 MiB, and the rest; a busy machine may need some more.
    assert!(waits <= 6, "{waits} round trips");
    assert!((2 << 20..=4 << 20).contains(&most), "{most}");
    eventually("what was lent returns", || {
        (gauge(&proxy, "transfer_bytes") == 0).then_some(())
    });

    // Where a quarter of the transfer buffer is little, little is lent.
    let mut plan = speaking(plan_for(&origin));
    plan.limits.transfer_buffer_bytes = 2 << 20;
    let proxy = Proxy::start(plan);
    let (waits, most) = upload_over_a_long_line(&proxy, 8 << 20);
    assert!(waits > 10, "{waits} round trips");
    assert!((65_537..=(256 + 512) << 10).contains(&most), "{most}");
}

/// Others of its connection have used up the window, and wait for their origin: it is not the client that is slow.
#[test]
fn an_upload_that_may_send_nothing_is_not_too_slow() {
    const STREAM_WINDOW: usize = 64 << 10;
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[], "done"));
    });
    let mut plan = speaking(plan_for(&origin));
    plan.pool.per_origin_max = 1;
    plan.timeouts.client_body = Duration::from_secs(1);
    // So long the others wait for the connection.
    plan.timeouts.connect = Duration::from_secs(3);
    let proxy = Proxy::start(plan);
    let mut raw = Raw::connect(proxy.address());
    let is_window = |it: &Frame| it.kind == WINDOW_UPDATE && it.stream == 0;
    while !is_window(&raw.frame().expect("it begins with all of its window")) {}
    raw.send(&frame(HEADERS, END_HEADERS, 1, &request("POST", "/one")));
    raw.send(&frame(DATA, 0, 1, b"a"));
    eventually("it has the connection", || {
        (origin.count("/one") == 1).then_some(())
    });
    let mut left = (1 << 20) - 1;
    let mut stream = 1;
    while left > 0 {
        stream += 2;
        let block = request("POST", "/other");
        raw.send(&frame(HEADERS, END_HEADERS, stream, &block));
        let mut of_stream = STREAM_WINDOW.min(left);
        left -= of_stream;
        while of_stream > 0 {
            let len = of_stream.min(16 << 10);
            raw.send(&frame(DATA, 0, stream, &vec![7; len]));
            of_stream -= len;
        }
    }
    loop {
        let frame = raw.frame().expect("the connection stays");
        assert!(frame.kind != HEADERS || frame.stream != 1, "it is answered");
        if is_window(&frame) {
            break;
        }
    }
    raw.send(&frame(DATA, END_STREAM, 1, b"b"));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
}

/// Its end may come by itself, behind all of its bytes: then it is through, and another one has its place at the origin.
#[test]
fn an_upload_that_ends_by_an_empty_frame_is_through() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.body();
        held.pass();
        exchange.send(ok(&[], "done"));
    });
    let mut plan = speaking(plan_for(&origin));
    // Of them two may be one client's uploads.
    plan.pool.per_origin_max = 4;
    let proxy = Proxy::start(plan);
    let mut raw = Raw::connect(proxy.address());
    for nth in 0..3 {
        let (stream, path) = (2 * nth + 1, format!("/{nth}"));
        let mut fields = request("POST", &path);
        fields.extend(field(b"content-length", b"1"));
        raw.send(&frame(HEADERS, END_HEADERS, stream, &fields));
        raw.send(&frame(DATA, 0, stream, b"a"));
        eventually("it comes to the origin", || {
            (origin.count(&path) == 1).then_some(())
        });
        raw.send(&frame(DATA, END_STREAM, stream, b""));
    }
    gate.open();
    for _ in 0..3 {
        while raw.next().expect("the connection stays").kind != HEADERS {}
    }
}
