//! Where a client may make the proxy go, and what it may make an origin believe.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
};

use ::proxy::plan::{Admin, Destinations, Forward, Listener, Role};

use crate::harness::{
    running::{forward_plan, local, own_host_plan, plan},
    *,
};

/// An address of this machine beside loopback; `None` on a machine that has no other.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the kernel only chooses the address that a packet would come from.
    socket.connect("198.51.100.1:9").ok()?;
    let own = socket.local_addr().unwrap().ip();
    (!own.is_loopback()).then_some(own)
}

/// A forward listener with the destination rules of one beyond loopback.
fn public_listener(connect_ports: Vec<u16>) -> Listener {
    let mut listener = Listener::forward(local(), Vec::new());
    listener.role = Role::Forward(Forward {
        connect_ports,
        destinations: Destinations::default(),
        ..Forward::for_address(local().ip())
    });
    listener
}

#[test]
fn a_forward_client_cannot_speak_to_a_mail_server() {
    let proxy = Proxy::start(forward_plan(&[]));
    for target in [
        "http://127.0.0.1:25/",
        "https://127.0.0.1:25/",
        "http://127.0.0.1:6667/",
        "http://127.0.0.1:81/",
        "http://127.0.0.1:0/",
    ] {
        for method in ["GET", "POST", "HEAD", "PUT", "OPTIONS"] {
            let answer = proxy.ask(method, target, &["Content-Length: 0"]);
            assert_eq!(answer.status, 403, "{method} {target}");
            assert_eq!(answer.cache(), "loligo; detail=http_request_denied");
        }
    }
    assert!(
        proxy.get("http://127.0.0.1:25/").text().contains("smtp"),
        "the answer says why"
    );
}

#[test]
fn a_public_listener_reaches_no_address_of_its_own_machine() {
    let Some(own) = own_address() else { return };
    // Services bound to the address, and to all of them.
    for bound in [own, IpAddr::from([0, 0, 0, 0])] {
        let service = TcpListener::bind((bound, 0)).unwrap();
        let port = service.local_addr().unwrap().port();
        service.set_nonblocking(true).unwrap();
        let proxy = Proxy::start(plan(public_listener(vec![port])));
        let mapped = match own {
            IpAddr::V4(own) => own.to_ipv6_mapped(),
            IpAddr::V6(own) => own,
        };
        for host in [own.to_string(), format!("[{mapped}]")] {
            let answer = proxy.get(&format!("http://{host}:{port}/"));
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
            let answer = proxy.ask("CONNECT", &format!("{host}:{port}"), &[]);
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
        }
        let reached = service.accept().err().map(|error| error.kind());
        assert_eq!(reached, Some(ErrorKind::WouldBlock), "not even connected");
    }
}

#[test]
fn a_loopback_listener_reaches_all_of_its_machine() {
    let Some(own) = own_address() else { return };
    let service = TcpListener::bind((own, 0)).unwrap();
    let address = service.local_addr().unwrap();
    let proxy = Proxy::start(forward_plan(&[address.port()]));
    let mut client = proxy.client();
    client.ask("CONNECT", &address.to_string(), &[]);
    assert_eq!(client.read_head().status, 200);
}

/// Every field that a reverse proxy may say something about its client in.
const FORGED: [&str; 7] = [
    "X-Forwarded-For: 6.6.6.6",
    "X-Forwarded-Proto: https",
    "X_Forwarded-Host: evil.example",
    "x-forwarded-port: 6",
    "X-Forwarded-Prefix: /evil",
    "X-Real-IP: 6.6.6.6",
    "Forwarded: for=6.6.6.6",
];

#[test]
fn an_origin_behind_a_reverse_listener_learns_who_asks() {
    let origin = Origin::sending(ok(&[], "hello"));
    let proxy = Proxy::before(&origin);
    for method in ["GET", "HEAD", "POST"] {
        let mut fields = vec!["Host: Shop.example:8080", "Content-Length: 0"];
        fields.extend(FORGED);
        assert_eq!(proxy.ask(method, "/a", &fields).status, 200);
        let got = origin.last().head.fields;
        let all = |name: &str| got.all(name);
        assert_eq!(all("host"), ["Shop.example:8080"]);
        assert_eq!(all("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(all("x-forwarded-proto"), [way::scheme()]);
        assert_eq!(all("x-forwarded-host"), ["Shop.example:8080"]);
        let forged = |(name, value): &(String, String)| {
            ["/evil", "evil.example", "6.6.6.6"].contains(&value.as_str())
                || ["x-forwarded-port", "x-real-ip", "forwarded"].contains(&name.as_str())
        };
        assert!(!got.0.iter().any(forged), "{:?}", got.0);
    }
}

/// A Host that is not in the key must not reach the origin by another way: its answer is stored for everybody.
#[test]
fn a_host_that_is_not_passed_is_not_told() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::start(own_host_plan(&origin));
    let forged = ["Host: evil.example", "X-Forwarded-Host: evil.example"];
    assert_eq!(proxy.ask("GET", "/a", &forged).status, 200);
    let got = origin.last();
    assert_eq!(got.field("host"), Some(origin.address.to_string().as_str()));
    assert_eq!(got.field("x-forwarded-host"), None);
    assert_eq!(got.field("x-forwarded-for"), Some("127.0.0.1"));
    assert!(proxy.get("/a").is_hit());
}

#[test]
fn a_forward_listener_says_nothing_of_its_client() {
    let origin = Origin::sending(ok(&[], "hello"));
    let proxy = Proxy::start(forward_plan(&[]));
    let target = format!("http://{}/a", origin.address);
    proxy.get(&target);
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-host"] {
        assert_eq!(origin.last().field(name), None);
    }
    // What the client says is its own business.
    proxy.ask("GET", &target, &["X-Forwarded-For: 192.0.2.9"]);
    assert_eq!(origin.last().field("x-forwarded-for"), Some("192.0.2.9"));
}

/// What varies by these fields is chosen by what the origin saw, not by what the client wrote.
#[test]
fn a_forged_field_chooses_no_variant() {
    let fields = [FRESH, "Vary: X-Forwarded-For, X-Forwarded-Host"];
    let origin = Origin::sending(ok(&fields, "hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert!(
        proxy
            .ask("GET", "/a", &["X-Forwarded-For: 6.6.6.6"])
            .is_hit()
    );
    assert!(!proxy.ask("GET", "/a", &["Host: other.example"]).is_hit());
}

#[test]
fn a_request_without_a_host_goes_to_the_origin_under_its_own() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let proxy = Proxy::before(&origin);
    for is_hit in [false, true] {
        let mut client = proxy.client();
        client.send("GET /a HTTP/1.0\r\n\r\n");
        let answer = client.read("GET");
        assert_eq!((answer.text(), answer.is_hit()), ("hello", is_hit));
    }
    let own = origin.address.to_string();
    assert_eq!(origin.last().field("host"), Some(own.as_str()));
    assert_eq!(origin.last().field("x-forwarded-host"), None);
}

#[test]
fn the_admin_interface_is_not_read_under_a_foreign_name() {
    let mut plan = forward_plan(&[]);
    plan.admin = Some(Admin {
        address: local(),
        allow: Vec::new(),
    });
    let proxy = Proxy::start(plan);
    let admin: SocketAddr = proxy.ready.admin.unwrap();
    for path in [
        "/",
        "/status",
        "/metrics",
        "/dashboard",
        "/healthz",
        "/none",
    ] {
        for (host, refused) in [
            ("Host: rebound.example", true),
            ("Host: 127.0.0.1.example:3129", true),
            ("Host: localhost:3129", false),
            ("Host: [::1]", false),
        ] {
            let mut client = Client::connect(admin);
            let answer = client.ask("GET", path, &[host]).read("GET");
            assert_eq!(answer.status == 421, refused, "{path} {host}");
        }
    }
}
