//! Clients of HTTP/2 that lie, flood and dawdle: what they get, what the origin sees, and that others are served meanwhile.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc,
    time::Duration,
};

use proxy::plan::Plan;

use crate::{
    harness::{
        Disk, FRESH, Gate, Origin, PATIENCE, Proxy, eventually, ok, pattern, plan_for,
        running::with_admin,
    },
    http2_client::{Client, HOST, play, speaking},
    http2_raw::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, Raw,
        SETTINGS, WINDOW_UPDATE, block, field, frame, get, head, headers,
    },
};

const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn plan_of(origin: &Origin) -> Plan {
    speaking(with_admin(plan_for(origin)))
}

/// Another client is answered.
fn others_are_served(proxy: &Proxy) {
    let hit = play(async { Client::plain(proxy.address()).await.get("/other").await });
    assert_eq!(hit.status, 200);
}

#[test]
fn nothing_dirty_reaches_the_origin() {
    let origin = Origin::sending(ok(&[FRESH], "clean"));
    let proxy = Proxy::start(plan_of(&origin));
    let pseudo = |path: &str| head("GET", path);
    let with = |name: &[u8], value: &[u8]| [pseudo("/"), field(name, value)].concat();
    let dirty: Vec<Vec<u8>> = vec![
        with(b"x", b"a\r\nEvil: 1"),
        with(b"x", b"a\nEvil: 1"),
        with(b"x", b"a\rb"),
        with(b"x", b"a\0b"),
        with(b"x", b" a"),
        with(b"x", b"a "),
        with(b"x\r\nevil", b"1"),
        with(b"x: 1\r\nevil", b"1"),
        with(b"x y", b"1"),
        with(b"X", b"1"),
        with(b"", b"1"),
        with(b"transfer-encoding", b"chunked"),
        with(b"connection", b"close"),
        with(b"connection", b"x-forwarded-for"),
        with(b"keep-alive", b"1"),
        with(b"proxy-connection", b"close"),
        with(b"upgrade", b"websocket"),
        with(b"te", b"gzip"),
        with(b"host", b"evil.example"),
        with(b"content-length", b"+1"),
        with(b"content-length", b"1, 1"),
        with(b"content-length", b"0x1"),
        with(b"content-length", b"5"),
        with(b":path", b"/other"),
        with(b":evil", b"1"),
        [
            pseudo("/"),
            field(b"content-length", b"0"),
            field(b"content-length", b"0"),
        ]
        .concat(),
        [field(b"x", b"1"), pseudo("/")].concat(),
        pseudo("no-slash"),
        pseudo(""),
        pseudo("*"),
        pseudo("http://evil.example/"),
        pseudo("/ HTTP/1.1\r\nEvil: 1\r\n\r\n"),
        pseudo("/a b"),
        pseudo("/a#b"),
        head("GE T", "/"),
        head("GET / HTTP/1.1\r\nEvil: 1\r\n\r\n", "/"),
        head("", "/"),
        block(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]),
        block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "u:p@evil.example"),
            (":path", "/"),
        ]),
        block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a\r\nEvil: 1"),
            (":path", "/"),
        ]),
        block(&[
            (":method", "GET"),
            (":scheme", "ftp"),
            (":authority", HOST),
            (":path", "/"),
        ]),
        block(&[(":method", "CONNECT"), (":authority", HOST), (":path", "/")]),
    ];
    for (case, dirty) in dirty.iter().enumerate() {
        let mut raw = Raw::connect(proxy.address());
        raw.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, dirty));
        assert_eq!(raw.outcome(1), Some(Err(PROTOCOL_ERROR)), "case {case}");
        // The connection is as good as before.
        raw.send(&get(3, "/clean"));
        assert_eq!(raw.outcome(3), Some(Ok(200)), "behind case {case}");
    }
    // A body unlike its Content-Length.
    for (length, body) in [("5", &b"123456"[..]), ("5", b"1234")] {
        let mut raw = Raw::connect(proxy.address());
        let block = [
            head("POST", "/post"),
            field(b"content-length", length.as_bytes()),
        ]
        .concat();
        raw.send(&frame(HEADERS, END_HEADERS, 1, &block));
        raw.send(&frame(DATA, END_STREAM, 1, body));
        assert_ne!(raw.outcome(1), Some(Ok(200)));
    }
    for request in origin.requests() {
        assert!(
            ["/clean", "/post"].contains(&&request.target[..]),
            "{request:?}"
        );
        assert_eq!(request.field("evil"), None);
        assert_eq!(request.field("host"), Some(HOST));
    }
    eventually("it is counted", || {
        (proxy.counter("requests_malformed") >= dirty.len() as u64).then_some(())
    });
}

/// On a port that speaks both protocols.
#[test]
fn a_broken_preface_is_told_in_http2_and_a_broken_request_in_http1() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(plan_of(&origin));
    for preface in [
        &b"INVALID CONNECTION PREFACE\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"\0\0\x12\x04\0\0\0\0\0\n",
    ] {
        let mut raw = Raw::silent(proxy.address());
        raw.send(preface);
        let settings = raw.frame().expect("the first frame");
        assert_eq!((settings.kind, settings.flags), (SETTINGS, 0));
        assert_eq!(raw.farewell(), Some(PROTOCOL_ERROR));
        assert_eq!(raw.frame(), None);
    }
    for (request, status) in [
        (&b"GET no-slash HTTP/1.1\r\n\r\n"[..], "400"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
        (b"GET / HTTP/3.0\r\n\r\n", "505"),
        (b"GET / HTTP/1.1\nHost: a\n\n", "400"),
        // Behind a request the protocol is known.
        (
            b"GET /other HTTP/1.1\r\nHost: a\r\n\r\nNONSENSE\r\n\r\n",
            "200",
        ),
    ] {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(request).unwrap();
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{told}");
        let last = told.rmatch_indices("HTTP/1.1 ").next().unwrap().0;
        assert_ne!(&told[last + 9..last + 12], "200", "{told}");
    }
    others_are_served(&proxy);
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(plan_of(&origin));
    let many: Vec<u8> = (0..1100).flat_map(|_| field(b"a", b"b")).collect();
    let mut raw = Raw::connect(proxy.address());
    raw.send(&frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        1,
        &[head("GET", "/"), many].concat(),
    ));
    assert_eq!(raw.outcome(1), Some(Ok(431)));
    let body = raw.next().unwrap();
    assert_eq!((body.kind, body.flags), (DATA, END_STREAM));
    let text = String::from_utf8(body.payload).unwrap();
    assert!(text.starts_with("431 Request Header Fields Too Large\ntoo many"));
    // Too large by a little, and by as much as a browser may have cookies.
    for (id, crumbs) in [(3, 140), (5, 500)] {
        let crumbs: Vec<u8> = (0..crumbs)
            .flat_map(|_| field(b"cookie", &[b'c'; 120]))
            .collect();
        let block = [head("GET", "/"), crumbs].concat();
        raw.send(&headers(END_STREAM, id, &block));
        assert_eq!(raw.outcome(id), Some(Ok(431)));
    }
    assert_eq!(origin.requests().len(), 0);
    others_are_served(&proxy);
}

#[test]
fn rapid_reset_begins_a_bounded_number_of_fetches() {
    let gate = Gate::new();
    let passed = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() != "/other" {
            passed.pass();
        }
        exchange.send(ok(&[FRESH], "late"));
    });
    let proxy = Proxy::start(plan_of(&origin));
    let mut raw = Raw::connect(proxy.address());
    for round in 0..10_000 {
        let id = 2 * round + 1;
        let both = [
            get(id, &format!("/{round}")),
            frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes()),
        ];
        if !raw.send(&both.concat()) {
            break;
        }
    }
    assert_ne!(raw.farewell(), Some(0));
    others_are_served(&proxy);
    gate.open();
    assert!(
        origin.requests().len() <= 101,
        "{}",
        origin.requests().len()
    );
    eventually("their tasks end", || {
        let open = proxy
            .admin("GET", "/metrics")
            .text()
            .contains("loligo_h2_streams_open 0\n");
        open.then_some(())
    });
}

#[test]
fn what_is_reset_at_once_is_recorded_and_not_fetched() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(plan_of(&origin));
    let mut raw = Raw::connect(proxy.address());
    let rounds = (0..10).map(|round| {
        let id = 2 * round + 1;
        let reset = frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes());
        [get(id, &format!("/{round}")), reset].concat()
    });
    assert!(raw.send(&rounds.collect::<Vec<_>>().concat()));
    eventually("they end", || {
        (proxy.counter("client_aborts") == 10).then_some(())
    });
    assert_eq!(origin.requests().len(), 0);
    let errors = r#"loligo_requests_total{class="error"} 10"#;
    eventually("each has its record", || {
        let metrics = proxy.admin("GET", "/metrics");
        metrics.text().contains(errors).then_some(())
    });
    others_are_served(&proxy);
}

/// What is sent the n-th time.
type Flood = Box<dyn Fn(u32) -> Vec<u8>>;

#[test]
fn floods_end_the_connection() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(plan_of(&origin));
    let floods: Vec<(&str, Flood)> = vec![
        ("ping", Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("settings", Box::new(|_| frame(SETTINGS, 0, 0, &[]))),
        (
            "window",
            Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ),
        ("unknown", Box::new(|_| frame(0x77, 0, 0, &[]))),
        (
            "continuation",
            Box::new(|round| match round {
                0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
                _ => frame(CONTINUATION, 0, 1, &[]),
            }),
        ),
        (
            "malformed",
            Box::new(|round| get(2 * round + 1, "no slash")),
        ),
        (
            "empty data",
            Box::new(|round| match round {
                0 => frame(HEADERS, END_HEADERS, 1, &head("POST", "/")),
                _ => frame(DATA, 0, 1, &[]),
            }),
        ),
    ];
    for (name, flood) in floods {
        let mut raw = Raw::connect(proxy.address());
        let mut rounds = 0;
        while rounds < 1_000_000 && raw.send(&flood(rounds)) {
            rounds += 1;
        }
        assert!(rounds < 1_000_000, "{name} goes on");
        // The GOAWAY may be lost with the reset of a connection that is still written to.
        let farewell = raw.farewell();
        assert!(
            matches!(farewell, None | Some(ENHANCE_YOUR_CALM)),
            "{name}: {farewell:?}"
        );
        others_are_served(&proxy);
    }
    for fault in ["useless_frames", "continuation_flood", "reset_flood"] {
        let none = format!("loligo_h2_faults_total{{fault=\"{fault}\"}} 0");
        eventually(fault, || {
            let metrics = proxy.admin("GET", "/metrics");
            (!metrics.text().contains(&none)).then_some(())
        });
    }
}

#[test]
fn a_client_that_opens_no_window_is_reset_and_others_are_served() {
    let origin = Origin::sending(ok(&[FRESH], pattern(500_000)));
    let mut plan = plan_of(&origin);
    plan.timeouts.client_write = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    others_are_served(&proxy);
    // SETTINGS_INITIAL_WINDOW_SIZE of 0: heads come, bodies do not.
    let mut raw = Raw::connect_with(proxy.address(), &[(4, 0)]);
    for round in 0..50 {
        raw.send(&get(2 * round + 1, ["/other", "/miss"][round as usize % 2]));
    }
    others_are_served(&proxy);
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    let mut resets = 0;
    while resets < 50 {
        let frame = raw.next().expect("the connection stays");
        assert_ne!((frame.kind, frame.payload.is_empty()), (DATA, false));
        resets += u32::from(frame.kind == RST_STREAM);
    }
    raw.send(&get(1001, "/other"));
    assert_eq!(raw.outcome(1001), Some(Ok(200)));
}

#[test]
fn the_slow_are_closed() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = plan_of(&origin);
    plan.timeouts.client_head = Duration::from_secs(1);
    plan.timeouts.client_handshake = Duration::from_secs(1);
    plan.timeouts.client_idle = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    // A preface that does not end.
    let mut raw = Raw::silent(proxy.address());
    raw.send(b"PRI * HTTP/2.0\r\n");
    assert_eq!(raw.frame(), None);
    // No SETTINGS.
    let mut raw = Raw::silent(proxy.address());
    raw.send(http2::PREFACE);
    assert!(raw.farewell().is_some());
    // A frame that does not end, and a block that does not.
    for bytes in [
        get(1, "/")[..20].to_vec(),
        frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
    ] {
        let mut raw = Raw::connect(proxy.address());
        raw.send(&bytes);
        assert!(raw.farewell().is_some());
        assert_eq!(raw.outcome(1), None);
    }
    // Nothing at all; pings do not count.
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "/"));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    assert_eq!(raw.farewell(), Some(0));
    assert_eq!(raw.frame(), None);
}

#[test]
fn streams_of_the_process_are_bounded() {
    let gate = Gate::new();
    let passed = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() != "/other" {
            passed.pass();
        }
        exchange.send(ok(&[FRESH], "late"));
    });
    let mut plan = plan_of(&origin);
    plan.limits.streams_max = 3;
    let proxy = Proxy::start(plan);
    others_are_served(&proxy);
    let mut raws = [(); 2].map(|()| Raw::connect(proxy.address()));
    for raw in &mut raws {
        raw.send(&[get(1, "/a"), get(3, "/b")].concat());
    }
    let (sender, outcomes) = mpsc::channel();
    for mut raw in raws {
        let sender = sender.clone();
        std::thread::spawn(move || {
            // Both are answered, or one is refused before.
            let first = raw.outcome(3);
            sender.send(first).unwrap();
        });
    }
    assert_eq!(outcomes.recv().unwrap(), Some(Err(REFUSED_STREAM)));
    // A hit in memory takes no task.
    others_are_served(&proxy);
    gate.open();
    assert_eq!(outcomes.recv().unwrap(), Some(Ok(200)));
    proxy.await_count("h2_streams_refused", 1);
}

#[test]
fn large_objects_from_disk_wait_their_turn_on_a_connection_that_takes_nothing() {
    const OBJECTS: u32 = 20;
    let origin = Origin::sending(ok(&[FRESH], pattern(100_000)));
    let disk = Disk::of_mib(512);
    let mut plan = disk.under(plan_of(&origin));
    plan.memory_bytes = 0;
    plan.timeouts.client_write = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    for n in 0..OBJECTS {
        let path = format!("/{n}");
        eventually("it is read from the device", || {
            let before = proxy.counter("disk_reads");
            play(async { Client::plain(proxy.address()).await.get(&path).await });
            (proxy.counter("disk_reads") > before).then_some(())
        });
    }
    // Heads come, bodies do not, until the stream is reset.
    let mut raw = Raw::connect_with(proxy.address(), &[(4, 0)]);
    for n in 0..OBJECTS {
        raw.send(&get(2 * n + 1, &format!("/{n}")));
    }
    let (mut heads, mut resets) = (0, 0);
    while resets < OBJECTS {
        let frame = raw.next().expect("the connection stays");
        heads += u32::from(frame.kind == HEADERS);
        resets += u32::from(frame.kind == RST_STREAM);
        // Eight at a time are in memory.
        assert!(heads <= resets + 8, "{heads} heads, {resets} resets");
    }
    assert_eq!(heads, OBJECTS);
}

/// What a client may have on its way when its connection ends is read, so that nothing resets the connection before it knows why.
#[test]
fn what_is_on_its_way_does_not_lose_the_goaway() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(plan_of(&origin));
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut raw = Raw::on(stream.try_clone().unwrap(), &[]);
    // A window opened by nothing, and as much DATA as the window of the connection allows.
    let data = frame(DATA, 0, 1, &[0; 16_384]).repeat(60);
    let all = [frame(WINDOW_UPDATE, 0, 0, &[0; 4]), data].concat();
    assert!(raw.send(&all), "the proxy has closed");
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("an end, no reset");
    let go_away = [&[0, 0, 8, GOAWAY, 0][..], &[0; 8], &[0, 0, 0, 1]].concat();
    assert!(came.ends_with(&go_away), "{came:?}");
    eventually("it is closed", || {
        let metrics = proxy.admin("GET", "/metrics");
        let none = "\nloligo_client_connections_open 0\n";
        metrics.text().contains(none).then_some(())
    });
    assert!(stream.take_error().unwrap().is_none(), "it was reset");
}
