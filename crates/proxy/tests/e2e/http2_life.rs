//! The life of connections and streams of HTTP/2: resets, slow readers, reloads, the end; and what is logged of it.

use std::time::Duration;

use proxy::plan::{AccessFormat, AccessLog, ClientField, LogTarget};
use serde_json::Value;

use crate::{
    harness::{
        Disk, FRESH, Gate, Origin, PATIENCE, Proxy, assert_same, eventually, head, ok, pattern,
        plan_for,
        running::{Plans, draining_long, with_admin},
    },
    http2_client::{Client, play, read, speaking},
    http2_raw::{CONTINUATION, GOAWAY, Raw, get},
};

#[test]
fn a_client_that_resets_does_not_stop_what_is_stored() {
    const BYTES: usize = 3 << 20;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let (first, second) = (pattern(BYTES / 2), pattern(BYTES));
        exchange.send(head(
            "200 OK",
            &[FRESH, &format!("Content-Length: {BYTES}")],
        ));
        exchange.send(&first);
        held.pass();
        exchange.send(&second[BYTES / 2..]);
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(speaking(with_admin(disk.under(plan_for(&origin)))));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let (answer, mut stream) = client
            .begin(client.request("GET", "/a", &[]), true)
            .await
            .unwrap();
        let answer = answer.await.unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        drop(answer);
        // The connection goes on meanwhile; it shares the fetch.
        let (other, _) = client
            .begin(client.request("GET", "/a", &[]), true)
            .await
            .unwrap();
        let other = other.await;
        gate.open();
        assert_same(&read(other).await.body, &pattern(BYTES));
        let hit = client.get("/a").await;
        assert_same(&hit.body, &pattern(BYTES));
    });
    assert_eq!(origin.count("/a"), 1);
    eventually("it is counted", || {
        (proxy.counter("h2_resets") >= 1).then_some(())
    });
}

/// The play has a limit.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_client_that_resets_before_the_head_leaves_its_fetch_to_the_others() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "shared"));
    });
    let proxy = Proxy::start(speaking(with_admin(plan_for(&origin))));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let (answer, mut stream) = client
            .begin(client.request("GET", "/a", &[]), true)
            .await
            .unwrap();
        let (other, _) = client
            .begin(client.request("GET", "/a", &[]), true)
            .await
            .unwrap();
        until(|| proxy.counter("flights_joined") == 1).await;
        // The request that drives the fetch goes; the fetch does not.
        stream.send_reset(h2::Reason::CANCEL);
        drop(answer);
        until(|| proxy.counter("h2_resets") >= 1).await;
        gate.open();
        assert_eq!(read(other.await).await.body, b"shared");
    });
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_client_that_resets_ends_what_is_not_stored() {
    let (sender, taken) = std::sync::mpsc::channel();
    let origin = Origin::start(move |exchange| {
        exchange.send(head(
            "200 OK",
            &["Cache-Control: no-store", "Content-Length: 1000000000"],
        ));
        let piece = pattern(1 << 20);
        let sent = (0..1000).take_while(|_| exchange.wire.send(&piece)).count();
        let _ = sender.send(sent);
        exchange.close();
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    let sent = play(async {
        let client = Client::plain(proxy.address()).await;
        let (answer, mut stream) = client
            .begin(client.request("GET", "/a", &[]), true)
            .await
            .unwrap();
        let answer = answer.await.unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        drop(answer);
        let waiting = tokio::task::spawn_blocking(move || taken.recv_timeout(PATIENCE));
        waiting.await.unwrap().unwrap()
    });
    assert!(sent < 1000, "the origin was let go");
}

#[test]
fn one_who_reads_slowly_holds_back_the_origin_and_nobody_else() {
    let origin = Origin::start(|exchange| match exchange.path() {
        "/small" => exchange.send(ok(&[FRESH], "small")),
        _ => exchange.send(ok(&["Cache-Control: no-store"], pattern(4 << 20))),
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(20_000)
            .initial_connection_window_size(1 << 20);
        let client = Client::over(proxy.address(), &mut builder).await;
        let (slow, _) = client
            .begin(client.request("GET", "/large", &[]), true)
            .await
            .unwrap();
        let (head, mut body) = slow.await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        for _ in 0..10 {
            assert_eq!(client.get("/small").await.body, b"small");
        }
        let mut got = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            got.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_same(&got, &pattern(4 << 20));
    });
}

#[test]
fn what_is_under_way_is_finished_when_the_proxy_stops() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "late"));
    });
    let proxy = Proxy::start(speaking(draining_long(plan_for(&origin))));
    let mut raw = Raw::connect(proxy.address());
    raw.send(&get(1, "/a"));
    let mut idle = Raw::connect(proxy.address());
    gate.arrived(1);
    proxy.begin_to_stop();
    // First the highest number, then, a second later at most, the real one.
    for last in [0x7fff_ffff, 1] {
        let frame = raw.next().unwrap();
        assert_eq!(
            (frame.kind, frame.word(0), frame.word(4)),
            (GOAWAY, last, 0)
        );
    }
    gate.open();
    assert_eq!(raw.outcome(1), Some(Ok(200)));
    assert!(raw.next().is_some_and(|frame| frame.payload == b"late"));
    assert_eq!(raw.next(), None);
    assert_eq!(idle.farewell(), Some(0));
    proxy.stop();
}

#[test]
fn another_configuration_holds_for_what_comes_next() {
    let gate = Gate::new();
    let held = gate.clone();
    let before = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[], "before"));
    });
    let after = Origin::sending(ok(&[], "after"));
    let first = speaking(with_admin(plan_for(&before)));
    let plans = Plans::of(&first);
    let proxy = Proxy::start_reloadable(&plans);
    let mut second = first.clone();
    second.listeners[0].role = plan_for(&after).listeners[0].role.clone();
    play(async {
        let client = Client::plain(proxy.address()).await;
        let (one, _) = client
            .begin(client.request("GET", "/1", &[]), true)
            .await
            .unwrap();
        let arrival = gate.clone();
        tokio::task::spawn_blocking(move || arrival.arrived(1))
            .await
            .unwrap();
        plans.set(Ok(second));
        assert_eq!(proxy.admin("POST", "/reload").status, 200);
        let two = async {
            loop {
                let two = client.get("/2").await;
                if two.body == b"after" {
                    return;
                }
            }
        };
        gate.open();
        two.await;
        assert_eq!(read(one.await).await.body, b"before");
    });
}

#[test]
fn a_request_is_logged_with_its_protocol_and_its_client() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut plan = speaking(plan_for(&origin));
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(log.clone()),
        format: AccessFormat::Json,
    });
    plan.listeners[0].naming.trusted = vec!["127.0.0.1/32".parse().unwrap()];
    plan.listeners[0].naming.field = ClientField::XForwardedFor;
    let proxy = Proxy::start(plan);
    play(async {
        let client = Client::plain(proxy.address()).await;
        for _ in 0..2 {
            let fields = [("x-forwarded-for", "192.0.2.7"), ("user-agent", "Agent")];
            // Not served: `allow` is about the client that is named.
            let refused = client.ask(client.request("GET", "/a?b", &fields)).await;
            assert_eq!(refused.status, 403);
            let fields = [("user-agent", "Agent")];
            assert_eq!(
                client
                    .ask(client.request("GET", "/a?b", &fields))
                    .await
                    .status,
                200
            );
        }
    });
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    for (line, client) in lines.iter().zip(["192.0.2.7", "127.0.0.1"].iter().cycle()) {
        assert_eq!(line["protocol"], "HTTP/2", "{line}");
        assert_eq!(line["client"], *client);
        assert!(
            line["uri"].as_str().unwrap_or_default().ends_with("/a?b"),
            "{line}"
        );
    }
}

#[test]
fn an_idle_connection_costs_nothing_but_itself_and_serves_again() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(speaking(with_admin(plan_for(&origin))));
    let mut raw = Raw::connect(proxy.address());
    for round in 0..3 {
        raw.send(&get(2 * round + 1, "/a"));
        assert_eq!(raw.outcome(2 * round + 1), Some(Ok(200)));
        // Longer than it keeps its buffers.
        let began = std::time::Instant::now();
        eventually("time goes by", || {
            (began.elapsed() > Duration::from_millis(1600)).then_some(())
        });
    }
    let metrics = proxy.admin("GET", "/metrics");
    assert!(metrics.text().contains("loligo_h2_connections_open 1\n"));
    // A frame that belongs nowhere ends it.
    raw.send(&crate::http2_raw::frame(CONTINUATION, 0, 9, &[]));
    assert_eq!(raw.farewell(), Some(1));
    eventually("it is counted", || {
        let metrics = proxy.admin("GET", "/metrics");
        let wanted = "loligo_h2_faults_total{fault=\"continuation_unexpected\"} 1";
        metrics.text().contains(wanted).then_some(())
    });
}
