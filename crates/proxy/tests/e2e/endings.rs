//! How connections end when we end them: what was sent arrives, whatever the client still sends. Stops and upgrades under a crowd of clients of
//! HTTP/2 are in `upgrade`.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::{
    harness::{
        FRESH, Gate, Origin, PATIENCE, Proxy, assert_same,
        client::request,
        ok, pattern, plan_for,
        running::{draining_long, forward_plan},
    },
    http2_client::speaking,
    http2_raw::{DATA, END_STREAM, HEADERS, Raw, WINDOW_UPDATE, frame, get},
};

/// More than a client's kernel takes of what it does not read, and less than ours takes of what it cannot send.
const BYTES: usize = 200 << 10;
/// How long a client goes on sending without reading. Longer than it takes a connection to end that nobody holds open.
const LATE: Duration = Duration::from_millis(2500);

/// A connection whose kernel takes little of what is not read.
fn narrow(address: SocketAddr) -> TcpStream {
    let kinds = (socket2::Domain::IPV4, socket2::Type::STREAM);
    let socket = socket2::Socket::new(kinds.0, kinds.1, None).unwrap();
    socket.set_recv_buffer_size(32 << 10).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends this again and again without reading, and then reads to the end.
fn read_late(mut stream: &TcpStream, sends: &[u8]) -> Vec<u8> {
    let began = Instant::now();
    while began.elapsed() < LATE {
        let _ = stream.write_all(sends);
        thread::sleep(Duration::from_millis(20));
    }
    let mut all = Vec::new();
    // A reset behind the last byte is the client's own fault.
    let _ = stream.read_to_end(&mut all);
    all
}

#[track_caller]
fn ends_with(got: &[u8], body: &[u8]) {
    let begins = got.len().saturating_sub(body.len());
    assert_same(&got[begins..], body);
}

#[test]
fn an_answer_over_http2_arrives_though_the_proxy_stops_and_windows_are_updated() {
    let origin = Origin::sending(ok(&[FRESH], pattern(BYTES)));
    let proxy = Proxy::start(speaking(draining_long(plan_for(&origin))));
    proxy.get("/a");
    let socket = narrow(proxy.address());
    let update = |stream| frame(WINDOW_UPDATE, 0, stream, &(4u32 << 20).to_be_bytes());
    let mut raw = Raw::on(socket.try_clone().unwrap(), &[(4, 4 << 20)]);
    raw.send(&update(0));
    raw.send(&get(1, "/a"));
    // It answers, so it has read that.
    while raw.next().is_none_or(|frame| frame.kind != HEADERS) {}
    proxy.begin_to_stop();
    let began = Instant::now();
    while began.elapsed() < LATE {
        raw.send(&frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()));
        thread::sleep(Duration::from_millis(20));
    }
    let mut body = Vec::new();
    let mut has_ended = false;
    while let Some(frame) = raw.next() {
        if frame.kind == DATA {
            body.extend_from_slice(&frame.payload);
            has_ended |= frame.flags & END_STREAM != 0;
        }
    }
    assert_same(&body, &pattern(BYTES));
    assert!(has_ended);
    drop((raw, socket));
    proxy.stop();
}

#[test]
fn the_last_answer_of_a_connection_arrives_though_more_is_asked() {
    let origin = Origin::sending(ok(&[FRESH], pattern(BYTES)));
    let proxy = Proxy::start(plan_for(&origin));
    proxy.get("/stored");
    let mut socket = narrow(proxy.ready.listeners[0]);
    let last = request("GET", "/stored", &["Connection: close"], "");
    socket.write_all(last.as_bytes()).unwrap();
    let more = request("GET", "/more", &[], "");
    ends_with(&read_late(&socket, more.as_bytes()), &pattern(BYTES));
}

#[test]
fn an_answer_that_was_held_arrives_though_the_proxy_stops_and_more_is_asked() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], pattern(BYTES)));
    });
    let proxy = Proxy::start(draining_long(plan_for(&origin)));
    let mut socket = narrow(proxy.ready.listeners[0]);
    let more = request("GET", "/more", &[], "");
    socket
        .write_all(request("GET", "/held", &[], "").as_bytes())
        .unwrap();
    gate.arrived(1);
    proxy.begin_to_stop();
    gate.open();
    ends_with(&read_late(&socket, more.as_bytes()), &pattern(BYTES));
    drop(socket);
    proxy.stop();
}

#[test]
fn the_end_of_a_tunnel_arrives_though_the_origin_takes_no_more() {
    // As much as the kernel takes for the proxy: a reset takes away what is still on the origin's side.
    let all = pattern(BYTES / 2);
    let sent = all.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    let origin = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&sent).unwrap();
        held.pass();
        // Both ways: what comes from here on is answered by a reset.
    });
    let proxy = Proxy::start(forward_plan(&[address.port()]));
    let mut socket = narrow(proxy.ready.listeners[0]);
    let host = format!("Host: {address}");
    let connect = request("CONNECT", &address.to_string(), &[&host], "");
    socket.write_all(connect.as_bytes()).unwrap();
    gate.arrived(1);
    gate.open();
    origin.join().unwrap();
    ends_with(&read_late(&socket, b"more"), &all);
}

/// A body without a length ends where its connection does, so only a reset tells that there was more of it.
#[test]
fn an_answer_that_breaks_off_ends_with_a_reset() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        held.pass();
        exchange.close();
    });
    let proxy = Proxy::start(plan_for(&origin));
    let mut socket = TcpStream::connect(proxy.ready.listeners[0]).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let asks = b"GET /cut HTTP/1.0\r\nHost: a.test\r\n\r\n";
    socket.write_all(asks).unwrap();
    let mut got = Vec::new();
    let mut some = [0; 4096];
    // A reset takes what has not been read with it.
    while !got.ends_with(b"half") {
        let bytes = socket.read(&mut some).unwrap();
        assert_ne!(bytes, 0, "{}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&some[..bytes]);
    }
    gate.open();
    let end = socket.read(&mut some).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}
