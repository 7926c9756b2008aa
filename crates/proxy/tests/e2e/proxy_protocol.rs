//! Who the client is when balancers stand before the proxy: PROXY headers of connections, forwarded fields of requests.

use std::{path::Path, time::Duration};

use ::proxy::plan::{AccessFormat, AccessLog, ClientField, LogTarget, Naming, Plan, ProxyProtocol};
use ipnet::IpNet;
use serde_json::Value;

use crate::harness::{
    running::{Plans, url, with_admin},
    *,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Every connection must begin with a header; these clients are served beside this machine.
fn required(origin: &Origin, allow: &[&str]) -> Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.listeners[0].allow = networks(allow);
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan
}

/// The balancer is at 127.0.0.1, and is believed.
fn trusting(origin: &Origin, field: ClientField, allow: &[&str]) -> Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.listeners[0].allow = networks(allow);
    plan.listeners[0].naming = Naming {
        trusted: networks(&["127.0.0.1/32", "10.0.0.0/8"]),
        field,
        ..Naming::default()
    };
    plan
}

fn v1(client: &str) -> String {
    format!("PROXY TCP4 {client} 10.0.0.1 4711 80\r\n")
}

fn v2(command: u8, family: u8, length: u16, body: &[u8]) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    out.extend([command, family]);
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

fn v2_of(client: [u8; 4], values: &[u8]) -> Vec<u8> {
    let body = [&client[..], &[10, 0, 0, 1, 0x12, 0x67, 0, 80], values].concat();
    v2(0x21, 0x11, body.len() as u16, &body)
}

fn told(client: &Response) -> &str {
    client.field("x-told").unwrap()
}

/// Says in `X-Told` what it was told of the client; not to be stored.
fn telling() -> Origin {
    Origin::start(|exchange| {
        let told = exchange
            .field("x-forwarded-for")
            .unwrap_or("nobody")
            .to_owned();
        let fields = [format!("X-Told: {told}"), "Cache-Control: no-store".into()];
        exchange.send(ok(&[&fields[0], &fields[1]], "body"));
    })
}

#[test]
fn the_client_that_a_header_names_is_the_client() {
    let origin = telling();
    let proxy = Proxy::start(required(&origin, &["192.0.2.0/24"]));
    let mut client = proxy.client();
    client.send(v1("192.0.2.7"));
    // Several requests on the connection, and two in one piece.
    assert_eq!(told(&client.get("/a")), "192.0.2.7");
    let two = client::request("GET", "/b", &[], "").repeat(2);
    client.send(two);
    assert_eq!(told(&client.read("GET")), "192.0.2.7");
    assert_eq!(told(&client.read("GET")), "192.0.2.7");

    // Together with the request in one write, and byte by byte.
    let request = client::request("GET", "/c", &[], "");
    let header = v2_of([192, 0, 2, 8], &[4, 0, 3, 1, 2, 3]);
    let whole = [&header[..], request.as_bytes()].concat();
    assert_eq!(told(&proxy.client().send(&whole).read("GET")), "192.0.2.8");
    let mut slow = proxy.client();
    for byte in &whole {
        slow.send([*byte]);
    }
    assert_eq!(told(&slow.read("GET")), "192.0.2.8");

    // Health checks name nobody: it is the balancer that asks.
    for header in [v2(0x20, 0, 0, b""), b"PROXY UNKNOWN\r\n".to_vec()] {
        let mut client = proxy.client();
        assert_eq!(told(&client.send(header).get("/d")), "127.0.0.1");
    }
    proxy.await_count("proxy_headers", 5);
    assert_eq!(proxy.counter("proxy_headers_refused"), 0);
}

#[test]
fn a_named_client_must_be_allowed() {
    let origin = telling();
    let proxy = Proxy::start(required(&origin, &["192.0.2.0/24"]));
    let mut client = proxy.client();
    client.send(v1("198.51.100.1")).expect_close();
    proxy.await_count("client_connections_refused", 1);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn what_is_no_header_is_closed_and_counted() {
    let origin = telling();
    let proxy = Proxy::start(required(&origin, &["0.0.0.0/0"]));
    let hostile: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n",
        &[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat(),
        &v2(0x21, 0x11, 65535, b""),
        &v2(0x21, 0x11, 5, b"12345"),
        &v2_of([1, 2, 3, 4], &[1, 0xff, 0xff, 1]),
        &v2(0x2f, 0x11, 12, &[0; 12]),
        b"\x16\x03\x01\x02\x00",
    ];
    for (n, bytes) in hostile.iter().enumerate() {
        let mut client = proxy.client();
        // The close may overtake what was sent: then it is a reset.
        client.send(bytes).expect_cut();
        proxy.await_count("proxy_headers_refused", n as u64 + 1);
    }
    // Half of one, and the end.
    let mut client = proxy.client();
    client
        .send(&v2_of([192, 0, 2, 7], &[])[..20])
        .finish_sending();
    client.expect_close();
    proxy.await_count("proxy_headers_refused", 9);
    // A look whether the port is open is no fault.
    proxy.client().finish_sending();
    assert_eq!(proxy.counter("proxy_headers"), 0);
    proxy.await_count("proxy_headers_refused", 9);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_header_that_does_not_come_is_not_waited_for_without_end() {
    let origin = telling();
    let mut plan = required(&origin, &[]);
    plan.timeouts.client_head = Duration::from_millis(200);
    let proxy = Proxy::start(plan);
    proxy.client().expect_close();
    let mut client = proxy.client();
    client
        .send(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80")
        .expect_close();
    proxy.await_count("proxy_headers_refused", 2);
    // A header and then nothing is a connection that idles.
    let mut client = proxy.client();
    client.send("PROXY UNKNOWN\r\n");
    eventually("it is read", || {
        (proxy.counter("proxy_headers") == 1).then_some(())
    });
    assert_eq!(told(&client.get("/")), "127.0.0.1");
}

#[test]
fn only_listed_balancers_send_headers() {
    let origin = telling();
    let mut plan = required(&origin, &["192.0.2.0/24"]);
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::From(networks(&["10.0.0.0/8"]));
    let proxy = Proxy::start(plan);
    // This machine is not listed, so a header is no HTTP.
    for header in [v1("192.0.2.7").into_bytes(), v2_of([192, 0, 2, 7], &[])] {
        let mut client = proxy.client();
        let answer = client.send(header).read("GET");
        assert_eq!(answer.status, 400);
    }
    assert_eq!(told(&proxy.get("/")), "127.0.0.1");

    let mut plan = required(&origin, &["192.0.2.0/24"]);
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::From(networks(&["127.0.0.1/32"]));
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    assert_eq!(told(&client.send(v1("192.0.2.7")).get("/")), "192.0.2.7");
}

#[test]
fn sixty_four_clients_of_a_balancer_are_logged_by_their_addresses() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let plan = logged(required(&origin, &["192.0.2.0/24"]), &log);
    let proxy = Proxy::start(plan);
    let mut clients: Vec<Client> = (0..64)
        .map(|n| {
            let mut client = proxy.client();
            client.send(v1(&format!("192.0.2.{n}")));
            client
        })
        .collect();
    for _ in 0..2 {
        for (n, client) in clients.iter_mut().enumerate() {
            let answer = client.get("/same");
            assert!(n == 0 || answer.is_hit());
        }
    }
    drop(clients);
    let entries = entries(proxy, &log);
    let of = |n: usize| {
        let address = format!("192.0.2.{n}");
        entries
            .iter()
            .filter(|entry| entry["client"] == address.as_str())
            .count()
    };
    assert_eq!(entries.len(), 128);
    assert!((0..64).all(|n| of(n) == 2));
}

fn logged(mut plan: Plan, to: &Path) -> Plan {
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(to.to_owned()),
        format: AccessFormat::Json,
    });
    plan
}

/// The lines as JSON, once the proxy has stopped.
fn entries(proxy: Proxy, log: &Path) -> Vec<Value> {
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_trusted_proxy_says_for_whom_it_asks_with_each_request() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let plan = trusting(&origin, ClientField::XForwardedFor, &["192.0.2.0/24"]);
    let proxy = Proxy::start(logged(plan, &log));
    let mut client = proxy.client();
    for list in ["192.0.2.1", "6.6.6.6, 192.0.2.2", "192.0.2.3, 10.1.1.1"] {
        let field = format!("X-Forwarded-For: {list}");
        client.ask("GET", "/a", &[&field]).read("GET");
    }
    // Without the field it is the balancer that asks; what another field says goes for nothing.
    client
        .ask("GET", "/a", &["Forwarded: for=192.0.2.9"])
        .read("GET");
    // On the long way, too.
    let fields = ["X-Forwarded-For: 192.0.2.4", "Cache-Control: max-stale"];
    client.ask("GET", "/a", &fields).read("GET");
    drop(client);
    let entries = entries(proxy, &log);
    let clients: Vec<_> = entries
        .iter()
        .map(|entry| entry["client"].as_str().unwrap())
        .collect();
    assert_eq!(
        clients,
        [
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.3",
            "127.0.0.1",
            "192.0.2.4"
        ]
    );
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_client_that_is_not_served_gets_no_hit_through_a_balancer() {
    let origin = Origin::sending(ok(&[FRESH], "secret"));
    let plan = trusting(&origin, ClientField::Forwarded, &["192.0.2.0/24"]);
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let ask = |client: &mut Client, value: &str, target: &str| {
        let field = format!("Forwarded: {value}");
        client.ask("GET", target, &[&field]).read("GET")
    };
    assert_eq!(ask(&mut client, "for=192.0.2.1", "/a").text(), "secret");
    assert!(ask(&mut client, "for=192.0.2.1", "/a").is_hit());
    for target in ["/a", "/b"] {
        let answer = ask(&mut client, "for=192.0.2.1, for=198.51.100.1", target);
        assert_eq!(
            (answer.status, answer.cache()),
            (403, "loligo; detail=http_request_denied")
        );
    }
    // The connection is the balancer's, and goes on.
    assert!(ask(&mut client, "for=192.0.2.1", "/a").is_hit());
    let broken = ask(&mut client, "for=\"192.0.2.1", "/a");
    assert_eq!(
        (broken.status, broken.cache()),
        (400, "loligo; detail=http_request_error")
    );
    let many = "for=6.6.6.6, ".repeat(1000) + "for=192.0.2.1";
    assert!(ask(&mut client, &many, "/a").is_hit());
    // A CONNECT is refused like the rest.
    let connect = client.ask("CONNECT", "a:443", &["Forwarded: for=198.51.100.1"]);
    assert_eq!(connect.read("GET").status, 403);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn nobody_else_is_believed() {
    let origin = telling();
    let mut plan = trusting(&origin, ClientField::XForwardedFor, &["192.0.2.0/24"]);
    plan.listeners[0].naming.trusted = networks(&["10.0.0.0/8"]);
    let proxy = Proxy::start(plan.clone());
    let answer = proxy.ask("GET", "/", &["X-Forwarded-For: 192.0.2.1"]);
    assert_eq!(told(&answer), "127.0.0.1");

    // The client of a balancer cannot be trusted for it; a balancer behind a balancer can.
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan.listeners[0].allow.extend(networks(&["10.0.0.0/8"]));
    let proxy = Proxy::start(plan);
    for (hop, expected) in [("192.0.2.9", "192.0.2.9"), ("10.0.0.9", "192.0.2.1")] {
        let mut client = proxy.client();
        client.send(v1(hop));
        let answer = client
            .ask("GET", "/", &["X-Forwarded-For: 192.0.2.1"])
            .read("GET");
        assert_eq!(told(&answer), expected);
    }
}

#[test]
fn appending_names_the_balancer_and_replacing_its_client() {
    let origin = telling();
    let mut plan = trusting(&origin, ClientField::XForwardedFor, &["192.0.2.0/24"]);
    plan.listeners[0].forwarded = ::proxy::plan::Forwarded::Append;
    let proxy = Proxy::start(plan);
    let answer = proxy.ask("GET", "/", &["X-Forwarded-For: 192.0.2.1"]);
    assert_eq!(told(&answer), "192.0.2.1, 127.0.0.1");
}

#[test]
fn a_reload_changes_who_is_believed_at_the_next_request() {
    let origin = telling();
    let mut plan = trusting(&origin, ClientField::XForwardedFor, &["192.0.2.0/24"]);
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    let mut client = proxy.client();
    let ask = |client: &mut Client| {
        let answer = client
            .ask("GET", "/", &["X-Forwarded-For: 192.0.2.1"])
            .read("GET");
        told(&answer).to_owned()
    };
    assert_eq!(ask(&mut client), "192.0.2.1");
    plan.listeners[0].naming.trusted.clear();
    plans.set(Ok(plan));
    assert_eq!(proxy.admin("POST", "/reload").status, 200);
    assert_eq!(ask(&mut client), "127.0.0.1");
}

/// An origin that expects a PROXY header; its connections are served by one after the other.
fn origin_of_headers() -> (std::net::SocketAddr, std::sync::mpsc::Receiver<Vec<u8>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut came) = (stream.unwrap(), Vec::new());
            let mut byte = [0];
            while !came.ends_with(b"\r\n\r\n")
                || came.ends_with(SIGNATURE.get(..4).unwrap()) && came.len() < 20
            {
                if std::io::Read::read(&mut stream, &mut byte).unwrap() == 0 {
                    return;
                }
                came.push(byte[0]);
            }
            let answer = ok(&["Cache-Control: max-age=600"], "body");
            if std::io::Write::write_all(&mut stream, &answer).is_err()
                || sender.send(came).is_err()
            {
                return;
            }
        }
    });
    (address, receiver)
}

#[test]
fn an_origin_is_told_of_each_client_on_a_connection_of_its_own() {
    let (address, came) = origin_of_headers();
    let origin = telling();
    let mut plan = required(&origin, &["192.0.2.0/24"]);
    if let ::proxy::plan::Role::Reverse(routes) = &mut plan.listeners[0].role {
        routes[0].origin = url(address);
        routes[0].tells_client = true;
    }
    let proxy = Proxy::start(plan);
    for n in [7, 8] {
        let mut client = proxy.client();
        client.send(v1(&format!("192.0.2.{n}")));
        for target in ["a", "b"] {
            let answer = client.get(&format!("/{n}{target}"));
            assert_eq!(answer.text(), "body");
            assert!(client.get(&format!("/{n}{target}")).is_hit());
            let came = came.recv_timeout(PATIENCE).unwrap();
            assert!(came.starts_with(SIGNATURE));
            assert_eq!(came[12..16], [0x21, 0x11, 0, 12]);
            assert_eq!(came[16..20], [192, 0, 2, n]);
            assert_eq!(came[24..26], 4711_u16.to_be_bytes());
            assert!(came[28..].starts_with(format!("GET /{n}{target} ").as_bytes()));
        }
    }
}
