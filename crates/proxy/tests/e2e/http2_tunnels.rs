//! Streams as tunnels: CONNECT and WebSocket.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use proxy::plan::Listener;
use ring::digest;
use socket2::SockRef;

use crate::{
    harness::{
        FRESH, Origin, PATIENCE, Proxy, assert_same, head, ok, pattern, plan_for,
        running::{forward_plan, local, plan},
    },
    http2_client::{Client, HOST, play, read, speaking, upload},
};

/// Sends back what it gets, to the end, on each connection.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(n) = stream.read(&mut room) {
                    if n == 0 || stream.write_all(&room[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn connect_to(port: u16) -> Request<()> {
    Request::builder()
        .method(Method::CONNECT)
        .uri(format!("127.0.0.1:{port}"))
        .body(())
        .unwrap()
}

#[test]
fn many_tunnels_on_one_connection() {
    let port = echo();
    let proxy = Proxy::start(speaking(forward_plan(&[port])));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let mut tunnels = Vec::new();
        for number in 0..10 {
            let client = client.clone();
            tunnels.push(tokio::task::spawn_local(async move {
                let sent = pattern(300_000 + number);
                let (answer, stream) = client.begin(connect_to(port), false).await.unwrap();
                let answer = answer.await;
                assert_eq!(answer.as_ref().unwrap().status(), 200);
                let (_, got) = tokio::join!(upload(stream, &sent), read(answer));
                assert_eq!(got.broken, None);
                assert_same(&got.body, &sent);
            }));
        }
        for tunnel in tunnels {
            tunnel.await.unwrap();
        }
        let refused = client.begin(connect_to(9), false).await.unwrap().0;
        assert_eq!(read(refused.await).await.status, 403);
        // Ordinary requests go on beside them.
        let gone = client.begin(connect_to(port), false).await.unwrap();
        drop(gone);
        let (answer, _stream) = client.begin(connect_to(port), false).await.unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
    });
}

/// Of a reset, RFC 9113 §8.5 wants that it is one on the other side, too.
#[test]
fn a_tunnel_that_breaks_breaks_on_the_other_side() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = Proxy::start(speaking(forward_plan(&[port])));
    let (sender, ends) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0; 1];
        // The first is reset here.
        let (mut first, _) = listener.accept().unwrap();
        first.read_exact(&mut byte).unwrap();
        SockRef::from(&first)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(first);
        // The second by the client.
        let (mut second, _) = listener.accept().unwrap();
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        second.read_exact(&mut byte).unwrap();
        sender.send(second.read(&mut byte)).unwrap();
    });
    play(async {
        let client = Client::plain(proxy.address()).await;
        let (answer, mut stream) = client.begin(connect_to(port), false).await.unwrap();
        let answer = answer.await;
        stream.send_data(Bytes::from("x"), false).unwrap();
        let answer = read(answer).await;
        assert_eq!(
            (answer.status, answer.broken),
            (200, Some(h2::Reason::CONNECT_ERROR))
        );
        let (answer, mut stream) = client.begin(connect_to(port), false).await.unwrap();
        let answer = answer.await.unwrap();
        stream.send_data(Bytes::from("x"), false).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.send_reset(h2::Reason::CANCEL);
        drop(answer);
        let end = tokio::task::spawn_blocking(move || ends.recv_timeout(PATIENCE).unwrap());
        let end = end.await.unwrap().map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_forward_proxy_takes_scheme_and_authority() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(speaking(plan(Listener::forward(local(), Vec::new()))));
    play(async {
        let client = Client::plain(proxy.address()).await;
        for is_hit in [false, true] {
            let url = format!("http://{}/a?b", origin.address);
            let request = Request::builder().uri(url).body(()).unwrap();
            let answer = client.ask(request).await;
            assert_eq!((answer.status, answer.is_hit()), (200, is_hit));
        }
    });
    assert_eq!(origin.requests()[0].target, "/a?b");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(*three.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text
}

#[test]
fn websocket_to_an_origin_of_http1() {
    let origin = Origin::start(|exchange| {
        if exchange.path() == "/plain" {
            return exchange.send(ok(&[], "plain"));
        }
        assert_eq!(exchange.request.method, "GET");
        assert_eq!(exchange.field("upgrade"), Some("websocket"));
        assert_eq!(exchange.field("sec-websocket-version"), Some("13"));
        assert_eq!(exchange.field("sec-websocket-protocol"), Some("chat"));
        let key = exchange.field("sec-websocket-key").unwrap().to_owned();
        let both = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, both.as_bytes());
        let accept = match exchange.path() {
            "/wrong" => "bm8=".to_owned(),
            _ => base64(sum.as_ref()),
        };
        match exchange.path() {
            "/no" => return exchange.send(ok(&[], "no websocket here")),
            "/denied" => {
                return exchange.send(crate::harness::answer("403 Forbidden", &[], "no"));
            }
            _ => {}
        }
        exchange.send(head(
            "101 Switching Protocols",
            &[
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Protocol: chat",
                &format!("Sec-WebSocket-Accept: {accept}"),
            ],
        ));
        if let Ok(some) = exchange.wire.some() {
            exchange.send([b"echo ", &some[..]].concat());
        }
        exchange.close();
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        // Its SETTINGS say that it may be asked.
        let _ = client.get("/plain").await;
        for (path, status, broken) in [
            ("/chat", 200, None),
            ("/denied", 403, None),
            ("/no", 502, None),
            ("/wrong", 0, Some(h2::Reason::INTERNAL_ERROR)),
        ] {
            let mut request = Request::builder()
                .method(Method::CONNECT)
                .uri(format!("http://{HOST}{path}"))
                .header("sec-websocket-version", "13")
                .header("sec-websocket-protocol", "chat")
                .body(())
                .unwrap();
            let protocol = h2::ext::Protocol::from_static("websocket");
            request.extensions_mut().insert(protocol);
            let (answer, mut stream) = client.begin(request, false).await.unwrap();
            let answer = answer.await;
            if status == 200 {
                let fields = answer.as_ref().unwrap().headers();
                assert_eq!(fields["sec-websocket-protocol"], "chat");
                assert!(!fields.contains_key("sec-websocket-accept"));
                stream.send_data(Bytes::from("hello"), false).unwrap();
            }
            let answer = read(answer).await;
            assert_eq!((answer.status, answer.broken), (status, broken), "{path}");
            if status == 200 {
                assert_eq!(answer.body, b"echo hello");
            }
        }
        let mut request = client.request("CONNECT", "/", &[]);
        request
            .extensions_mut()
            .insert(h2::ext::Protocol::from_static("connect-udp"));
        let (answer, _stream) = client.begin(request, false).await.unwrap();
        assert_eq!(read(answer.await).await.status, 501);
    });
}
