//! Answers that stall when their clients leave: the origin's connection is closed if nobody waits for it and nothing of it is stored.

use std::{
    io::Read,
    net::TcpStream,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use crate::{
    harness::{
        Client as PlainClient, FRESH, Gate, Origin, Proxy, chunk, eventually, head, plan_for,
    },
    http2_client::{Client, play, speaking},
};

const CLIENTS: usize = 30;
/// A closed connection is seen within this time, also on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(5);

/// The ways in which a body is not stored, by path; `/stored` is.
const WAYS: [&str; 6] = [
    "/no-store",
    "/private",
    "/long",
    "/chunked",
    "/early",
    "/post",
];

fn method(path: &str) -> &'static str {
    match path.starts_with("/post") {
        true => "POST",
        false => "GET",
    }
}

/// An origin that sends the beginning of a body and nothing more. The channel has each connection's end, with what was asked for.
fn stalling() -> (Origin, Receiver<String>) {
    let (sender, ends) = mpsc::channel();
    let origin = Origin::start(move |exchange| {
        let path = exchange.path().to_owned();
        let is_chunked = path.starts_with("/chunked");
        let fields: &[&str] = match path.split('/').nth(1) {
            Some("private") => &["Cache-Control: private", "Content-Length: 1000"],
            Some("long") => &[FRESH, "Content-Length: 100000000"],
            Some("chunked") => &["Cache-Control: no-store", "Transfer-Encoding: chunked"],
            Some("stored") => &[FRESH, "Content-Length: 1000"],
            _ => &["Cache-Control: no-store", "Content-Length: 1000"],
        };
        exchange.body();
        exchange.send(head("200 OK", fields));
        match is_chunked {
            true => exchange.send(chunk("begin")),
            // Nothing but the head.
            false if path.starts_with("/early") => {}
            false => exchange.send("begin"),
        }
        if ends_within(exchange.wire.stream(), 10 * SOON) {
            let _ = sender.send(path);
        }
        exchange.close();
    });
    (origin, ends)
}

/// Does the other side close within this time?
fn ends_within(mut stream: &TcpStream, limit: Duration) -> bool {
    stream.set_read_timeout(Some(limit)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// So many connections have ended. Returns how long that took.
fn await_ends(ends: &Receiver<String>, count: usize) -> Duration {
    let begun = Instant::now();
    for seen in 0..count {
        let left = SOON.saturating_sub(begun.elapsed());
        let ended = ends.recv_timeout(left);
        assert!(ended.is_ok(), "{seen} of {count} connections were closed");
    }
    begun.elapsed()
}

fn path(number: usize) -> String {
    format!("{}/{number}", WAYS[number % WAYS.len()])
}

#[test]
fn what_nobody_waits_for_and_nobody_stores_is_closed_at_once() {
    let (origin, ends) = stalling();
    let mut plan = plan_for(&origin);
    plan.limits.object_bytes_max = 1 << 20;
    let proxy = Proxy::start(plan);
    let clients: Vec<PlainClient> = (0..CLIENTS)
        .map(|number| {
            let path = path(number);
            let mut client = proxy.client();
            client.ask(method(&path), &path, &[]).read_head();
            client
        })
        .collect();
    drop(clients);
    await_ends(&ends, CLIENTS);
}

#[test]
fn streams_that_are_reset_and_connections_that_end_close_theirs_at_the_origin() {
    let (origin, ends) = stalling();
    let mut plan = speaking(plan_for(&origin));
    plan.limits.object_bytes_max = 1 << 20;
    let proxy = Proxy::start(plan);
    play(async {
        let client = Client::plain(proxy.address()).await;
        let mut begun = Vec::new();
        for number in 0..CLIENTS {
            let path = path(number);
            let request = client.request(method(&path), &path, &[]);
            let (answer, stream) = client.begin(request, true).await.unwrap();
            begun.push((answer.await.unwrap(), stream));
        }
        for (answer, mut stream) in begun.drain(..CLIENTS / 2) {
            stream.send_reset(h2::Reason::CANCEL);
            drop(answer);
        }
        let ends = tokio::task::spawn_blocking(move || {
            await_ends(&ends, CLIENTS / 2);
            ends
        });
        let ends = ends.await.unwrap();
        assert!(ends.try_recv().is_err(), "the others are waited for");
        drop((begun, client));
        let all = tokio::task::spawn_blocking(move || await_ends(&ends, CLIENTS / 2));
        all.await.unwrap();
    });
}

#[test]
fn what_is_stored_goes_on_and_so_does_a_wait_that_has_finished_sending() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.send(head("200 OK", &[FRESH, "Content-Length: 10"]));
        exchange.send("begin");
        held.pass();
        exchange.send("ended");
    });
    let proxy = Proxy::before(&origin);
    let mut waits = proxy.client();
    waits.ask("GET", "/waits", &[]).finish_sending();
    let mut leaves = proxy.client();
    leaves.ask("GET", "/leaves", &[]).read_head();
    drop(leaves);
    gate.arrived(2);
    // Long enough that it would have been noticed.
    std::thread::sleep(Duration::from_millis(300));
    gate.open();
    assert_eq!(waits.read("GET").text(), "beginended");
    eventually("it is stored", || {
        proxy.get("/leaves").is_hit().then_some(())
    });
    assert_eq!(origin.count("/leaves"), 1);
}
