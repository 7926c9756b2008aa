//! TLS to clients: certificates, handshakes, and what goes over it.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use proxy::plan::{ClientCertificates, Listener, ListenerTls, Plan, Role};

use crate::harness::{
    FRESH, Framing, Origin, PATIENCE, Proxy, eventually, ok, pattern, plan_for,
    running::{Plans, forward_plan, with_admin},
    tls::{Authority, Encrypted, Signed, listener_tls, look_at, replace},
};

/// A reverse proxy with these certificates.
pub fn tls_plan(origin: &Origin, signed: &[&Signed]) -> Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.listeners[0].tls = Some(listener_tls(signed));
    plan
}

/// Answers everything with these bytes, to be kept.
fn origin_of(body: Vec<u8>) -> Origin {
    Origin::sending(ok(&[FRESH], body))
}

#[test]
fn a_client_is_shown_the_certificate_of_the_name_it_asks_for() {
    let authority = Authority::new();
    let first = authority.sign("first", &["first.example"]);
    let wild = authority.sign("wild", &["*.wild.example"]);
    let exact = authority.sign("exact", &["exact.wild.example"]);
    let origin = origin_of(b"hello".to_vec());
    let proxy = Proxy::start(tls_plan(&origin, &[&first, &wild, &exact]));
    for client in [authority.client(), authority.client().only_tls12()] {
        for (name, shown) in [
            ("first.example", &first),
            ("a.wild.example", &wild),
            ("exact.wild.example", &exact),
        ] {
            let mut connection = client.connect(proxy.address(), name);
            let answer = connection.get("/", name);
            assert_eq!((answer.status(), &answer.body[..]), ("200", &b"hello"[..]));
            assert_eq!(connection.shown(), shown.certificate, "{name}");
        }
        // Of no name that is known: the first is shown, and it is the client that does not want it.
        let mut stranger = client.connect(proxy.address(), "a.b.wild.example");
        assert_eq!(stranger.shake().unwrap_err().kind(), ErrorKind::InvalidData);
    }
    eventually("both have declined", || {
        (proxy.counter("tls_handshakes_declined") == 2).then_some(())
    });
    proxy.await_count("tls_handshakes_full", 6);
}

#[test]
fn a_hit_is_the_same_over_tls_and_its_scheme_is_part_of_its_key() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = Origin::start(|exchange| {
        let proto = exchange
            .field("x-forwarded-proto")
            .unwrap_or("none")
            .to_owned();
        exchange.send(ok(&[FRESH], format!("by {proto}")));
    });
    let mut plan = tls_plan(&origin, &[&signed]);
    let plain = plan_for(&origin).listeners[0].clone();
    plan.listeners.push(plain);
    let proxy = Proxy::start(plan);
    let mut client = authority.client().connect(proxy.address(), "a.example");
    for hit in [false, true] {
        let answer = client.get("/", "a.example");
        assert_eq!(answer.body, b"by https");
        assert_eq!(answer.head.contains("loligo; hit"), hit, "{}", answer.head);
    }
    let mut plain = crate::harness::Client::connect(proxy.ready.listeners[1]);
    let answer = plain.ask("GET", "/", &["Host: a.example"]).read("GET");
    assert_eq!(
        answer.body, b"by http",
        "what TLS clients got is not theirs"
    );
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn bodies_of_all_sizes_arrive_whole_also_when_read_slowly() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let sizes = [0, 1, 4096, 16_384, 65_536, 300_000, 8 << 20];
    let origin = Origin::start(|exchange| {
        let size: usize = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], pattern(size)));
    });
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    for client in [authority.client(), authority.client().only_tls12()] {
        for size in sizes {
            for _ in 0..2 {
                let mut connection = client.connect(proxy.address(), "a.example");
                let answer = connection.get(&format!("/{size}"), "a.example");
                assert!(answer.body == pattern(size), "{size}");
            }
        }
    }
    // The client takes nothing until the proxy has written what the sockets hold, then all of it; then asks once more.
    let mut slow = authority.client().connect(proxy.address(), "a.example");
    let size = 8 << 20;
    let request = format!("GET /{size} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    slow.send(&request).send(&request);
    for _ in 0..2 {
        assert!(slow.answer().body == pattern(size));
    }
}

#[test]
fn requests_one_after_the_other_and_at_once_are_answered_in_order() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = Origin::start(|exchange| {
        let target = exchange.path().to_owned();
        exchange.send(ok(&[FRESH], target));
    });
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    let mut client = authority.client().connect(proxy.address(), "a.example");
    let all: String = (0..100)
        .map(|n| format!("GET /{} HTTP/1.1\r\nHost: a.example\r\n\r\n", n % 7))
        .collect();
    client.send(all);
    for n in 0..100 {
        assert_eq!(client.answer().body, format!("/{}", n % 7).into_bytes());
    }
    // The last one says that it is the last, and so does the proxy.
    client.send("GET /1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().body, b"/1");
    assert_eq!(client.rest().unwrap(), b"");
}

#[test]
fn what_comes_in_single_bytes_is_understood() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    let mut client = authority.client().connect(proxy.address(), "a.example");
    client.0.sock.set_nodelay(true).unwrap();
    // The hello, one byte a segment; then each byte of a request in a record of its own.
    let mut hello = Vec::new();
    client.0.conn.write_tls(&mut hello).unwrap();
    for byte in &hello {
        client.0.sock.write_all(&[*byte]).unwrap();
    }
    for byte in b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.answer().body, b"hello");
}

#[test]
fn an_upload_waits_for_its_100_and_arrives_whole() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = Origin::start(|exchange| {
        let (body, _) = exchange.body();
        exchange.send(ok(&["Cache-Control: no-store"], body));
    });
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    let mut client = authority.client().connect(proxy.address(), "a.example");
    let body = pattern(1 << 20);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.answer().status(), "100");
    client.send(&body);
    let answer = client.answer();
    assert!(answer.body == body, "{}", answer.head);
}

#[test]
fn an_upload_that_is_cut_off_without_a_goodbye_is_an_aborted_request() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let (tell, told) = mpsc::channel();
    let origin = Origin::start(move |exchange| {
        let (data, _, cut) = exchange.wire.body(Framing::Length(1 << 20));
        tell.send((data.len(), cut.is_some())).unwrap();
        exchange.close();
    });
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    let mut client = authority.client().connect(proxy.address(), "a.example");
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1048576\r\n\r\n");
    client.send(pattern(300_000));
    client.0.sock.shutdown(Shutdown::Write).unwrap();
    let (bytes, is_cut) = told.recv_timeout(PATIENCE).unwrap();
    assert!(is_cut && bytes <= 300_000, "{bytes}");
}

#[test]
fn plain_http_on_a_tls_port_is_told_so_and_nonsense_is_left_alone() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let proxy = Proxy::start(tls_plan(&origin, &[&signed]));
    let answer = proxy.get("/");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("speaks TLS"), "{}", answer.text());
    for nonsense in [&b"\x00\x01\x02\x03"[..], b"\x80\x2e\x01\x00\x02", b"\xff"] {
        let mut tcp = TcpStream::connect(proxy.address()).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(nonsense).unwrap();
        let mut rest = Vec::new();
        let _ = tcp.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    proxy.await_count("tls_handshakes_plain", 4);
    // It begins as TLS does, and is none.
    let mut tcp = TcpStream::connect(proxy.address()).unwrap();
    tcp.write_all(&[22, 3, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff])
        .unwrap();
    eventually("it has failed", || {
        (proxy.counter("tls_handshakes_failed") == 1).then_some(())
    });
}

#[test]
fn a_handshake_that_stops_ends_in_time_and_only_so_many_go_on_at_once() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed]);
    plan.timeouts.client_handshake = Duration::from_millis(300);
    plan.limits.handshakes_max = 2;
    let proxy = Proxy::start(plan);
    let stop = || {
        let mut tcp = TcpStream::connect(proxy.address()).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(&[22, 3, 1]).unwrap();
        tcp
    };
    let mut stopped: Vec<TcpStream> = (0..4).map(|_| stop()).collect();
    for tcp in &mut stopped {
        let mut rest = Vec::new();
        let _ = tcp.read_to_end(&mut rest);
    }
    eventually("all are over", || {
        (proxy.counter("tls_handshakes_timed_out") + proxy.counter("tls_handshakes_crowded") == 4)
            .then_some(())
    });
    eventually("it is counted", || {
        (proxy.counter("tls_handshakes_timed_out") >= 2).then_some(())
    });
    let mut client = authority.client().connect(proxy.address(), "a.example");
    assert_eq!(client.get("/", "a.example").body, b"hello");
    drop(stop());
    eventually("it has left", || {
        (proxy.counter("tls_handshakes_left") == 1).then_some(())
    });
}

#[test]
fn those_that_stop_in_their_handshakes_shut_nobody_out() {
    const PLACES: u64 = 4;
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed]);
    plan.workers = 1;
    plan.timeouts.client_handshake = Duration::from_secs(3600);
    plan.limits.handshakes_max = PLACES as u32;
    let proxy = Proxy::start(plan);
    let is_open = |count: u64| {
        let line = format!("\nloligo_tls_handshakes_open {count}\n");
        let metrics = proxy.admin("GET", "/metrics");
        metrics.text().contains(&line).then_some(())
    };
    let mut stopped: Vec<TcpStream> = (1..=PLACES)
        .map(|nth| {
            let mut tcp = TcpStream::connect(proxy.address()).unwrap();
            tcp.set_read_timeout(Some(PATIENCE)).unwrap();
            tcp.write_all(&[22, 3, 1]).unwrap();
            eventually("it has a place", || is_open(nth));
            tcp
        })
        .collect();
    // Until the first has had its second, a client is refused.
    let mut client = eventually("a client gets in", || {
        let mut client = authority.client().connect(proxy.address(), "a.example");
        client.shake().ok().map(|()| client)
    });
    assert_eq!(client.get("/", "a.example").body, b"hello");
    proxy.await_count("tls_handshakes_given_up", 1);
    eventually("the others go on", || is_open(PLACES - 1));
    assert!(matches!(stopped[0].read(&mut [0; 1]), Ok(0) | Err(_)));
    let second = &mut stopped[1];
    second.set_nonblocking(true).unwrap();
    let heard = second.read(&mut [0; 1]);
    assert_eq!(heard.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn sessions_are_resumed_on_every_worker_and_after_a_reload() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed]);
    plan.workers = 3;
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    for client in [authority.client(), authority.client().only_tls12()] {
        let client = client.remembering();
        let before = proxy.counter("tls_handshakes_resumed");
        for n in 0..12 {
            let mut connection = client.connect(proxy.address(), "a.example");
            assert_eq!(connection.get("/", "a.example").body, b"hello");
            assert_eq!(connection.is_resumed(), n > 0, "{n}");
            if n == 6 {
                assert_eq!(proxy.admin("POST", "/reload").status, 200);
            }
        }
        proxy.await_count("tls_handshakes_resumed", before + 11);
    }
}

#[test]
fn a_client_must_show_a_certificate_where_one_is_required() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let good = authority.sign("good client", &["c.example"]);
    let other = Authority::new();
    let bad = other.sign("bad client", &["c.example"]);
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed]);
    let with = |are_required| {
        Some(ListenerTls {
            clients: Some(ClientCertificates {
                ca: authority.path("ca.pem"),
                are_required,
            }),
            ..listener_tls(&[&signed])
        })
    };
    plan.listeners[0].tls = with(true);
    let origin_url = plan.listeners[0].clone();
    plan.listeners.push(Listener {
        tls: with(false),
        ..origin_url.clone()
    });
    plan.listeners.push(Listener {
        tls: Some(listener_tls(&[&signed])),
        ..origin_url
    });
    let proxy = Proxy::start(plan);
    let [required, optional, none] = proxy.ready.listeners[..] else {
        panic!("three listeners");
    };
    for client in [authority.client(), authority.client().only_tls12()] {
        for address in [required, optional] {
            let mut it = client.clone().showing(&good).connect(address, "a.example");
            assert_eq!(it.get("/", "a.example").body, b"hello");
            assert!(ask(client.clone().showing(&bad).connect(address, "a.example")).is_err());
        }
        assert!(ask(client.connect(required, "a.example")).is_err());
        assert!(ask(client.connect(optional, "a.example")).is_ok());
        // Whoever was not asked for a certificate does not resume where one is required.
        let client = client.remembering();
        assert!(ask(client.connect(none, "a.example")).is_ok());
        let mut again = client.connect(none, "a.example");
        assert!(again.shake().is_ok());
        assert!(ask(client.connect(required, "a.example")).is_err());
    }
    eventually("they are counted", || {
        (proxy.counter("tls_handshakes_uncertified") == 8).then_some(())
    });
}

/// One request, which may fail.
fn ask(mut client: Encrypted) -> std::io::Result<Vec<u8>> {
    client.shake()?;
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    client.0.write_all(request)?;
    client.try_answer().map(|answer| answer.body)
}

#[test]
fn a_renewed_certificate_is_shown_without_a_request_lost() {
    let authority = Authority::new();
    let mut shown = authority.sign("a", &["a.example"]);
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&shown]);
    plan.workers = 2;
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let client = authority.client();
    let certificate = || {
        let mut connection = client.connect(proxy.address(), "a.example");
        assert_eq!(connection.get("/", "a.example").body, b"hello");
        connection.shown()
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = || {
            let mut long = client.connect(proxy.address(), "a.example");
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(long.get("/", "a.example").body, b"hello");
                certificate();
            }
        };
        let loads = [scope.spawn(load), scope.spawn(load)];
        for _ in 0..3 {
            // What it is in the middle of being renewed as is no pair: the old one stays.
            shown = authority.sign("a", &["a.example"]);
            eventually("it is shown", || {
                (certificate() == shown.certificate).then_some(())
            });
        }
        is_over.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().unwrap();
        }
    });
    let files = &shown.files;
    let good = std::fs::read_to_string(&files.chain).unwrap();
    replace(&files.chain, "nonsense");
    let refused = proxy.admin("POST", "/reload");
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("a.pem"), "{}", refused.text());
    assert_eq!(certificate(), shown.certificate, "the one before stays");
    replace(&files.chain, &good);
    assert_eq!(proxy.admin("POST", "/reload").status, 200);
}

#[test]
fn files_that_cannot_be_used_refuse_the_start_and_are_named() {
    let authority = Authority::new();
    let origin = origin_of(Vec::new());
    let good = authority.sign("good", &["a.example"]);
    let other = authority.sign("other", &["a.example"]);
    let ended = authority.sign_with("ended", &["a.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let early = authority.sign_with("early", &["a.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2999, 1, 1);
        params.not_after = rcgen::date_time_ymd(3000, 1, 1);
    });
    let mut mismatched = good.files.clone();
    mismatched.key = other.files.key.clone();
    let mut keyless = good.files.clone();
    keyless.key = good.files.chain.clone();
    let mut missing = good.files.clone();
    missing.chain = authority.path("missing.pem");
    let mut ocsp = good.files.clone();
    ocsp.ocsp = Some(good.files.chain.clone());
    for (files, name, why) in [
        (ended.files, "ended.pem", "has ended, on 2021-01-01"),
        (early.files, "early.pem", "begins to hold on 2999-01-01"),
        (mismatched, "other.key", "is not the key of the certificate"),
        (keyless, "good.pem", "has no private key"),
        (missing, "missing.pem", "cannot be read"),
        (ocsp, "good.pem", "is no OCSP response"),
    ] {
        let beside_a_good_one = vec![good.files.clone(), files.clone()];
        for certificates in [vec![files], beside_a_good_one] {
            let mut plan = plan_for(&origin);
            plan.listeners[0].tls = Some(ListenerTls {
                certificates,
                is_strict: true,
                ..ListenerTls::default()
            });
            let refused = proxy::start(plan, |_, _| panic!("it must not come up"));
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(name) && said.contains(why), "{said}");
        }
    }
}

/// One that ends while the proxy serves gives way to a wildcard, and one that begins comes before it.
#[test]
fn a_certificate_whose_time_changes_is_sorted_anew() {
    let authority = Authority::new();
    let origin = origin_of(b"hello".to_vec());
    let good = authority.sign("good", &["*.b.example"]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let soon = rcgen::date_time_ymd(1970, 1, 1) + now + Duration::from_secs(3);
    let ends = authority.sign_with("ends", &["ends.b.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = soon;
    });
    let begins = authority.sign_with("begins", &["begins.b.example"], |params| {
        params.not_before = soon;
        params.not_after = rcgen::date_time_ymd(2999, 1, 1);
    });
    let mut plan = tls_plan(&origin, &[&good, &ends, &begins]);
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    for (name, signed) in [("ends.b.example", &good), ("begins.b.example", &begins)] {
        eventually(name, || {
            let shown = look_at(proxy.address(), name, &[]).unwrap().0;
            (shown == signed.certificate).then_some(())
        });
    }
}

/// `tls-strict` is for what is put there: what ends in service stops no reload.
#[test]
fn a_strict_listener_goes_on_when_a_certificate_ends_in_service() {
    let authority = Authority::new();
    let origin = origin_of(b"hello".to_vec());
    let good = authority.sign("good", &["*.b.example"]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let ends = authority.sign_with("ends", &["ends.b.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + now + Duration::from_secs(4);
    });
    let mut plan = tls_plan(&origin, &[&good, &ends]);
    plan.listeners[0].tls.as_mut().unwrap().is_strict = true;
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    eventually("it gives way", || {
        let shown = look_at(proxy.address(), "ends.b.example", &[]).unwrap().0;
        (shown == good.certificate).then_some(())
    });
    let reloaded = proxy.admin("POST", "/reload");
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
}

#[test]
fn a_certificate_whose_time_is_over_is_told_and_does_not_stop_the_others() {
    let authority = Authority::new();
    let origin = origin_of(b"hello".to_vec());
    let ended = |stem, names: &[&str]| {
        authority.sign_with(stem, names, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
    };
    // The first of the settings, and one that a wildcard stands in for; and the only one of a listener.
    let (first, covered) = (
        ended("first", &["a.example"]),
        ended("covered", &["x.b.example"]),
    );
    let good = authority.sign("good", &["*.b.example"]);
    let alone = ended("alone", &["c.example"]);
    let mut plan = with_admin(tls_plan(&origin, &[&first, &covered, &good]));
    plan.listeners
        .push(tls_plan(&origin, &[&alone]).listeners.remove(0));
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let shown = |number: usize, name| look_at(proxy.ready.listeners[number], name, &[]).unwrap().0;
    for (number, name, certificate) in [
        (0, "x.b.example", &good),
        (0, "other.example", &good),
        (0, "a.example", &first),
        (1, "c.example", &alone),
        (1, "other.example", &alone),
    ] {
        assert_eq!(shown(number, name), certificate.certificate, "{name}");
    }
    let told = proxy.admin("POST", "/reload");
    assert_eq!(told.status, 200, "{}", told.text());
    for file in ["first.pem", "covered.pem", "alone.pem"] {
        let line = told.text().lines().find(|line| line.contains(file));
        let line = line.unwrap_or_else(|| panic!("{file}: {}", told.text()));
        assert!(line.contains("has ended, on 2021-01-01"), "{line}");
    }
    assert!(!told.text().contains("good.pem"));
}

#[test]
fn a_forward_proxy_tunnels_and_fetches_over_tls() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = Origin::start(|exchange| {
        let target = exchange.path().to_owned();
        exchange.send(ok(&[FRESH], target));
    });
    let mut plan = forward_plan(&[origin.address.port()]);
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    let proxy = Proxy::start(plan);
    let host = origin.address;
    let mut client = authority.client().connect(proxy.address(), "a.example");
    let answer = client.get(&format!("http://{host}/x"), &host.to_string());
    assert_eq!(answer.body, b"/x");
    client.send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(client.answer().status(), "200");
    let answer = client.get("/inside", "a.example");
    assert_eq!(answer.body, b"/inside");
    // TLS within TLS ends as plain bytes do: what the client says goodbye to is closed on the other side.
    client.0.conn.send_close_notify();
    client.0.flush().unwrap();
    assert_eq!(client.rest().unwrap(), b"");
}

#[test]
fn a_self_signed_certificate_is_made_and_survives_a_reload() {
    let origin = origin_of(b"hello".to_vec());
    let mut plan = with_admin(plan_for(&origin));
    plan.listeners[0].tls = Some(ListenerTls {
        is_self_signed: true,
        ..ListenerTls::default()
    });
    assert!(matches!(plan.listeners[0].role, Role::Reverse(_)));
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let status = || proxy.admin("GET", "/status").text().to_owned();
    let names = "localhost, 127.0.0.1, ::1";
    assert!(status().contains(names), "{}", status());
    let metrics = proxy.admin("GET", "/metrics");
    let line = format!(
        "loligo_tls_certificate_expires_seconds{{listener=\"{}\",name=\"localhost\"}}",
        proxy.address()
    );
    assert!(metrics.text().contains(&line), "{}", metrics.text());
    // Nobody trusts it.
    let stranger = Authority::new().client();
    let mut client = stranger.connect(proxy.address(), "localhost");
    assert!(client.shake().is_err());
    assert_eq!(proxy.admin("POST", "/reload").status, 200);
    assert!(status().contains(names));
}

#[test]
fn an_ocsp_response_is_sent_along_and_read_again_when_it_changes() {
    let authority = Authority::new();
    let mut signed = authority.sign("a", &["a.example"]);
    let file = authority.path("a.ocsp");
    let plain = authority.sign("b", &["b.example"]);
    // SEQUENCE of three bytes: what is in it is for clients to judge.
    std::fs::write(&file, [0x30, 3, 1, 2, 3]).unwrap();
    signed.files.ocsp = Some(file.clone());
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed, &plain]);
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let stapled = |name| look_at(proxy.address(), name, &[]).unwrap().2;
    assert_eq!(stapled("a.example"), [0x30, 3, 1, 2, 3]);
    assert_eq!(stapled("b.example"), [0; 0]);
    std::fs::write(authority.path("next"), [0x30, 1, 9]).unwrap();
    std::fs::rename(authority.path("next"), &file).unwrap();
    eventually("the new one is sent", || {
        (stapled("a.example") == [0x30, 1, 9]).then_some(())
    });
}

/// DER of a tag and its content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length: &[u8] = match content.len() {
        len @ ..0x80 => &[len as u8],
        len @ ..0x100 => &[0x81, len as u8],
        len => &[0x82, (len >> 8) as u8, len as u8],
    };
    [&[tag], length, content].concat()
}

/// A successful response of RFC 6960 about the certificate with this serial number. Nobody has signed it.
fn ocsp_response(serial: &[u8]) -> Vec<u8> {
    let algorithm = der(0x30, &[der(6, &[0x2b, 14, 3, 2, 26]), der(5, &[])].concat());
    let certificate = [
        algorithm,
        der(4, &[1; 20]),
        der(4, &[2; 20]),
        der(2, serial),
    ]
    .concat();
    let single = [
        der(0x30, &certificate),
        der(0x80, &[]),
        der(0x18, b"20260101000000Z"),
    ]
    .concat();
    let responses = der(0x30, &der(0x30, &single));
    let responder = der(0xa2, &der(4, &[2; 20]));
    let data = der(
        0x30,
        &[responder, der(0x18, b"20260101000000Z"), responses].concat(),
    );
    let basic = der(0x30, &[data, der(0x30, &[]), der(3, &[0])].concat());
    let kind = der(6, &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]);
    let bytes = der(0xa0, &der(0x30, &[kind, der(4, &basic)].concat()));
    der(0x30, &[der(10, &[0]), bytes].concat())
}

/// The serial number of a certificate: behind the version, at the front.
fn serial_of(certificate: &[u8]) -> Vec<u8> {
    let version = [0xa0, 3, 2, 1, 2, 2];
    let at = certificate.windows(6).position(|it| it == version).unwrap();
    let bytes = usize::from(certificate[at + 6]);
    certificate[at + 7..at + 7 + bytes].to_vec()
}

#[test]
fn an_ocsp_response_about_another_certificate_is_not_sent_along() {
    let authority = Authority::new();
    let mut signed = authority.sign("a", &["a.example"]);
    let file = authority.path("a.ocsp");
    signed.files.ocsp = Some(file.clone());
    let client = authority.client();
    std::fs::write(&file, ocsp_response(&[1, 2, 3])).unwrap();
    let origin = origin_of(b"hello".to_vec());
    let mut plan = tls_plan(&origin, &[&signed]);
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let stapled = || look_at(proxy.address(), "a.example", &[]).unwrap().2;
    assert_eq!(stapled(), [0; 0]);
    let mut connection = client.connect(proxy.address(), "a.example");
    connection.shake().unwrap();
    let shown = connection.shown();
    let own = ocsp_response(&serial_of(&shown));
    std::fs::write(authority.path("next"), &own).unwrap();
    std::fs::rename(authority.path("next"), &file).unwrap();
    eventually("its own is sent", || (stapled() == own).then_some(()));
}
