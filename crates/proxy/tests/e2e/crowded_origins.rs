//! What origins make us hold: uploads that they do not take, and bodies that they send over HTTP/2 before anybody reads them.

use std::{
    future::poll_fn,
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use ::proxy::plan::Http2;
use bytes::Bytes;
use http::Response;
use tokio::task::spawn_local;

use super::{
    budgets::gauge,
    harness::{Gate, Origin, Proxy, assert_same, eventually, ok, pattern, plan_for, running::*},
    http2_client::speaking,
    http2_raw::{Raw, get},
    origin_http2::plan_by_h2,
    origin_http2_servers::start_server,
};

const MIB: u64 = 1 << 20;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// What the gauge comes to rest at.
fn rest_of(proxy: &Proxy, name: &str) -> u64 {
    let (mut last, mut since) = (gauge(proxy, name), Instant::now());
    eventually("it comes to rest", || {
        let now = gauge(proxy, name);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(last)
    })
}

/// Sends until nothing more is taken for a while.
fn send_all_that_goes(mut stream: &TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let (piece, mut last) = (vec![7; 64 << 10], Instant::now());
    while last.elapsed() < Duration::from_millis(300) {
        match stream.write(&piece) {
            Ok(bytes) if bytes > 0 => last = Instant::now(),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[test]
fn uploads_that_an_origin_does_not_take_count_and_others_go_through() {
    const UPLOADS: usize = 24;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path().starts_with("/held") {
            // It reads nothing.
            held.pass();
            return;
        }
        let (body, _) = exchange.body();
        exchange.send(ok(&["Cache-Control: no-store"], body));
    });
    let mut plan = with_admin(plan_for(&origin));
    plan.limits.transfer_buffer_bytes = 4 * MIB;
    let proxy = Proxy::start(plan);
    let uploads: Vec<TcpStream> = (0..UPLOADS)
        .map(|number| {
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            let framing = match number % 2 {
                0 => "Content-Length: 1000000000\r\n\r\n",
                _ => "Transfer-Encoding: chunked\r\n\r\n3b9aca00\r\n",
            };
            let head = format!("POST /held/{number} HTTP/1.1\r\nHost: a.example\r\n{framing}");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    gate.arrived(UPLOADS);
    std::thread::scope(|scope| {
        for stream in &uploads {
            scope.spawn(|| send_all_that_goes(stream));
        }
    });
    let counted = rest_of(&proxy, "transfer_bytes");
    let uploads_held = UPLOADS as u64;
    assert!(counted >= uploads_held * 4096, "{counted} are counted");
    assert!(counted <= uploads_held * (16 << 10), "{counted} are held");
    let body = pattern(3_000_000);
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    let head = format!("POST /echo HTTP/1.1\r\nHost: a.example\r\n{length}");
    let mut client = proxy.client();
    client.send([head.as_bytes(), &body].concat());
    assert_same(&client.read("POST").body, &body);
    uploads.into_iter().for_each(drop);
    gate.open();
    eventually("nothing is held", || {
        (gauge(&proxy, "transfer_bytes") == 0).then_some(())
    });
}

/// An origin that sends as much of its long bodies as windows allow, and says how much that was.
fn pouring(body_bytes: usize, poured: &Arc<AtomicU64>) -> SocketAddr {
    let poured = Arc::clone(poured);
    start_server(move |stream| {
        let poured = Arc::clone(&poured);
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let poured = Arc::clone(&poured);
                spawn_local(async move {
                    let answer = Response::builder().header("cache-control", "no-store");
                    let answer = answer.body(()).unwrap();
                    let Ok(mut body) = respond.send_response(answer, false) else {
                        return;
                    };
                    let mut left = body_bytes;
                    while left > 0 {
                        body.reserve_capacity(left);
                        let room = poll_fn(|cx| body.poll_capacity(cx)).await;
                        let Some(Ok(room)) = room else { return };
                        let bytes = room.min(left);
                        left -= bytes;
                        poured.fetch_add(bytes as u64, SeqCst);
                        let piece = Bytes::from(vec![7; bytes]);
                        if body.send_data(piece, left == 0).is_err() {
                            return;
                        }
                    }
                });
            }
        }
    })
}

/// The windows of the clients are closed, so nothing of a body leaves the proxy: what the origin could send is what is held.
#[test]
fn bodies_in_the_windows_of_an_origin_count_and_do_not_fill_the_memory() {
    const CONNECTIONS: usize = 4;
    const STREAMS: u32 = 50;
    const BUDGET: u64 = 16 * MIB;
    const BODY: usize = 300_000;
    let streams = CONNECTIONS as u64 * u64::from(STREAMS);
    let poured = Arc::default();
    let at = url(pouring(BODY, &poured));
    let mut plan = speaking(plan_by_h2(at, Http2::Known));
    plan.limits.transfer_buffer_bytes = BUDGET;
    let proxy = Proxy::start(plan);
    let mut attackers: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| Raw::connect_with(proxy.address(), &[(INITIAL_WINDOW_SIZE, 0)]))
        .collect();
    for (nth, raw) in attackers.iter_mut().enumerate() {
        for stream in 0..STREAMS {
            raw.send(&get(2 * stream + 1, &format!("/{nth}/{stream}")));
        }
    }
    let counted = rest_of(&proxy, "transfer_bytes");
    let held = poured.load(SeqCst);
    // What each may have in any case: a small window, and a step.
    assert!(
        held <= BUDGET + streams * (4 << 10),
        "{held} bytes are held"
    );
    assert!(held >= streams * (16 << 10), "{held} bytes are held");
    // Each request counts besides, for what it takes to answer it.
    let of_bodies = counted - streams * (24 << 10);
    assert!(of_bodies >= held * 9 / 10, "{of_bodies} of {held} count");
    let began = Instant::now();
    assert_eq!(proxy.get("/honest").body.len(), BODY);
    assert!(began.elapsed() < Duration::from_secs(20));
    drop(attackers);
    eventually("nothing is held", || {
        (gauge(&proxy, "transfer_bytes") == 0).then_some(())
    });
    // Windows grow again where there is memory.
    assert_eq!(proxy.get("/again").body.len(), BODY);
    assert_eq!(gauge(&proxy, "transfer_bytes"), 0);
}
