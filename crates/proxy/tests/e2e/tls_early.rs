//! Requests that come before the handshake is complete: hits are answered at once, everything else waits.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use http2::PREFACE;
use proxy::plan::{ClientCertificates, Plan};
use rustls::{ClientConnection, StreamOwned};

use crate::{
    budgets::gauge,
    harness::{
        Disk, Exchange, FRESH, Origin, PATIENCE, Proxy, eventually, ok,
        running::Plans,
        tls::{Authority, Encrypted, TlsClient},
    },
    http2_raw::{SETTINGS, block, frame, headers},
    real_clients::client as real_client,
    tls::tls_plan,
};

/// As long as something that must not happen is waited for.
const A_WHILE: Duration = Duration::from_millis(200);

struct World {
    authority: Authority,
    origin: Origin,
    proxy: Proxy,
}

fn answer(exchange: &mut Exchange) {
    let body = format!("{} {}", exchange.nth() - 1, exchange.path());
    let fresh = match exchange.path() {
        "/stale" => "Cache-Control: max-age=0",
        _ => FRESH,
    };
    exchange.send(ok(&[fresh, "ETag: \"one\""], body));
}

fn world(change: impl FnOnce(&mut Plan)) -> World {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let origin = Origin::start(answer);
    let mut plan = tls_plan(&origin, &[&signed]);
    plan.listeners[0].tls.as_mut().unwrap().early_data = true;
    change(&mut plan);
    World {
        proxy: Proxy::start(plan),
        authority,
        origin,
    }
}

impl World {
    /// A client that has been here, and has asked for these.
    fn client(&self, asked: &[&str]) -> TlsClient {
        let client = self.authority.client().early();
        for path in asked {
            let mut connection = client.connect(self.proxy.address(), "a.example");
            assert_eq!(connection.get(path, "a.example").status(), "200");
        }
        client
    }

    fn early(&self, client: &TlsClient, said: impl AsRef<[u8]>) -> Early {
        Early::begin(
            client.connect(self.proxy.address(), "a.example"),
            said.as_ref(),
        )
    }

    fn early_hits(&self) -> u64 {
        self.proxy.counter("tls_early_hits")
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// A client that has said something in its first bytes, and has not completed the handshake.
struct Early {
    session: ClientConnection,
    tcp: TcpStream,
    /// All that it has sent, encrypted.
    first: Vec<u8>,
    heard: Vec<u8>,
}

impl Early {
    fn begin(Encrypted(StreamOwned { conn, sock }): Encrypted, said: &[u8]) -> Early {
        let mut early = Early {
            session: conn,
            tcp: sock,
            first: Vec::new(),
            heard: Vec::new(),
        };
        let mut room = early.session.early_data().expect("a ticket for early data");
        room.write_all(said).unwrap();
        let mut first = Vec::new();
        while early.session.wants_write() {
            early.session.write_tls(&mut first).unwrap();
        }
        early.tcp.write_all(&first).unwrap();
        early.first = first;
        early
    }

    /// Reads what comes within that time, and sends nothing. False: the connection has ended.
    fn hear(&mut self, within: Duration) -> bool {
        self.tcp.set_read_timeout(Some(within)).unwrap();
        match self.session.read_tls(&mut self.tcp) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut));
                return true;
            }
        }
        let plain = self.session.process_new_packets().unwrap();
        let mut room = vec![0; plain.plaintext_bytes_to_read()];
        self.session.reader().read_exact(&mut room).unwrap();
        self.heard.extend(room);
        true
    }

    /// What has come, once this is part of it.
    #[track_caller]
    fn until(&mut self, part: &str) -> String {
        eventually(part, || {
            let goes_on = self.hear(A_WHILE);
            let heard = String::from_utf8_lossy(&self.heard).into_owned();
            let is_there = heard.contains(part);
            assert!(is_there || goes_on, "it has ended: {heard}");
            is_there.then_some(heard)
        })
    }

    #[track_caller]
    fn hears_nothing(&mut self) {
        let before = self.heard.len();
        for _ in 0..3 {
            assert!(self.hear(A_WHILE / 2));
        }
        let heard = String::from_utf8_lossy(&self.heard[before..]);
        assert_eq!(heard, "", "before the handshake is complete");
    }

    /// Completes the handshake.
    fn finish(&mut self) {
        assert!(self.session.wants_write());
        while self.session.wants_write() {
            self.session.write_tls(&mut self.tcp).unwrap();
        }
    }

    fn into_encrypted(self) -> Encrypted {
        self.tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        Encrypted(StreamOwned::new(self.session, self.tcp))
    }

    fn is_closed(&mut self) {
        eventually("it is closed", || (!self.hear(A_WHILE)).then_some(()));
    }
}

#[test]
fn a_hit_is_answered_before_the_handshake_is_complete() {
    let world = world(|plan| plan.limits.handshakes_max = 1);
    let client = world.client(&["/a", "/a"]);
    let resumed = world.proxy.counter("tls_handshakes_resumed");
    let mut early = world.early(&client, [get("/a"), get("/a")].concat());
    let heard = early.until("0 /aHTTP/1.1 200");
    assert!(heard.contains("; hit"), "{heard}");
    eventually("the second comes too", || {
        early.hear(A_WHILE);
        early.heard.ends_with(b"0 /a").then_some(())
    });
    assert!(early.session.is_early_data_accepted());
    world.proxy.await_count("tls_early_hits", 2);
    world.proxy.await_count("tls_early_connections", 1);
    assert_eq!(world.proxy.counter("tls_handshakes_resumed"), resumed);
    // It keeps nobody else out.
    world.client(&["/a"]);
    early.finish();
    eventually("the handshake is complete", || {
        (world.proxy.counter("tls_handshakes_resumed") == resumed + 1).then_some(())
    });
    eventually("no handshake is under way", || {
        (gauge(&world.proxy, "tls_handshakes_open") == 0).then_some(())
    });
    let mut connection = early.into_encrypted();
    assert_eq!(connection.get("/b", "a.example").body, b"0 /b");
    assert_eq!(connection.get("/a", "a.example").body, b"0 /a");
    world.proxy.await_count("tls_early_hits", 2);
    assert_eq!(world.origin.count("/a"), 1);
}

#[test]
fn what_is_no_hit_waits_for_the_end_of_the_handshake() {
    let world = world(|_| {});
    let client = world.client(&["/a", "/stale"]);
    let with = |first: &str, more: &str| {
        let line = first.to_owned() + " HTTP/1.1\r\nHost: a.example\r\n";
        line + more + "\r\n"
    };
    for (said, part) in [
        (get("/miss"), "/miss"),
        (get("/stale"), "/stale"),
        (with("GET /a", "Cache-Control: no-cache\r\n"), " /a"),
        (with("HEAD /a", ""), "200 OK"),
        (with("GET /a", "Range: bytes=0-1\r\n"), "206 Partial"),
        (with("GET /a", "If-None-Match: \"one\"\r\n"), "304 Not"),
        (with("POST /a", "Content-Length: 3\r\n") + "abc", " /a"),
        (with("PUT /b", "Content-Length: 3\r\n"), "200 OK"),
        ("no request at all\r\n\r\n".to_owned(), "400 Bad"),
    ] {
        let before = world.origin.requests().len();
        let hits = world.early_hits();
        let mut early = world.early(&client, &said);
        if part == "400 Bad" {
            // Nobody is harmed by a refusal.
            early.until(part);
            continue;
        }
        early.hears_nothing();
        assert_eq!(world.origin.requests().len(), before, "{said}");
        early.finish();
        if said.starts_with("PUT") {
            early.session.writer().write_all(b"abc").unwrap();
            early.finish();
        }
        early.until(part);
        assert_eq!(world.early_hits(), hits, "{said}");
    }
}

#[test]
fn behind_a_hit_the_next_waits_and_half_a_head_too() {
    let world = world(|_| {});
    let client = world.client(&["/a"]);
    let mut early = world.early(&client, [get("/a"), get("/miss"), get("/a")].concat());
    early.until("0 /a");
    early.hears_nothing();
    assert_eq!(world.origin.count("/miss"), 0);
    early.finish();
    early.until("0 /missHTTP");
    world.proxy.await_count("tls_early_hits", 1);
    let (first, second) = (get("/a")[..20].to_owned(), get("/a")[20..].to_owned());
    let mut early = world.early(&client, first);
    early.hears_nothing();
    early.finish();
    early.session.writer().write_all(second.as_bytes()).unwrap();
    early.finish();
    early.until("0 /a");
    world.proxy.await_count("tls_early_hits", 1);
}

#[test]
fn what_is_sent_again_is_not_answered() {
    let world = world(|_| {});
    let client = world.client(&["/a"]);
    let early = world.early(&client, get("/a"));
    let first = early.first.clone();
    eventually("the first is answered", || {
        (world.early_hits() == 1).then_some(())
    });
    let requests = || world.proxy.counter("origin_requests");
    let before = requests();
    for _ in 0..20 {
        let mut tcp = TcpStream::connect(world.proxy.address()).unwrap();
        tcp.write_all(&first).unwrap();
        tcp.set_read_timeout(Some(A_WHILE)).unwrap();
        let mut answer = [0; 1 << 14];
        assert!(tcp.read(&mut answer).unwrap() > 0, "a hello of its own");
    }
    world.proxy.await_count("tls_early_connections", 1);
    world.proxy.await_count("tls_early_hits", 1);
    assert_eq!(requests(), before);
}

#[test]
fn a_client_that_never_completes_it_is_closed_in_time_and_counted() {
    let world = world(|plan| plan.timeouts.client_handshake = Duration::from_millis(400));
    let client = world.client(&["/a", "/a", "/a", "/a"]);
    let count = |name: &str| world.proxy.counter(name);
    for said in [get("/a"), get("/miss"), "GET /a".to_owned()] {
        let before = count("tls_handshakes_timed_out");
        world.early(&client, said).is_closed();
        eventually("it is counted", || {
            (count("tls_handshakes_timed_out") == before + 1).then_some(())
        });
    }
    let mut early = world.early(&client, get("/a"));
    early.until("0 /a");
    drop(early);
    eventually("it has left", || {
        (count("tls_handshakes_left") == 1).then_some(())
    });
    let mut early = world.early(&client, get("/a"));
    early.until("0 /a");
    early.tcp.write_all(&[23, 3, 3, 0, 20]).unwrap();
    early.tcp.write_all(&[7; 20]).unwrap();
    eventually("it has failed", || {
        (count("tls_handshakes_failed") == 1).then_some(())
    });
    eventually("no handshake is under way", || {
        (gauge(&world.proxy, "tls_handshakes_open") == 0).then_some(())
    });
    assert_eq!(world.origin.count("/miss"), 0);
}

#[test]
fn what_is_on_disk_is_answered_early_too() {
    let disk = Disk::of_mib(64);
    let world = world(|plan| {
        *plan = disk.under(plan.clone());
        plan.memory_bytes = 0;
    });
    let client = world.client(&["/a"]);
    eventually("it is read from the device", || {
        let mut connection = client.connect(world.proxy.address(), "a.example");
        assert_eq!(connection.get("/a", "a.example").body, b"0 /a");
        (world.proxy.counter("disk_reads") > 0).then_some(())
    });
    let reads = world.proxy.counter("disk_reads");
    world.early(&client, get("/a")).until("0 /a");
    world.proxy.await_count("tls_early_hits", 1);
    world.proxy.await_count("disk_reads", reads + 1);
    let mut early = world.early(&client, get("/miss"));
    early.hears_nothing();
    assert_eq!(world.origin.count("/miss"), 0);
}

#[test]
fn over_http2_hits_are_answered_early_and_others_wait() {
    let world = world(|plan| plan.listeners[0].http2 = true);
    world.client(&["/a"]);
    let client = world.authority.client().offering(&["h2"]).early();
    let begin = || [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let request = |stream, method: &str, path: &str, ends: bool| {
        let lines = block(&[
            (":method", method),
            (":scheme", "https"),
            (":authority", "a.example"),
            (":path", path),
        ]);
        headers(u8::from(ends), stream, &lines)
    };
    // A session of this protocol.
    let mut first = client.connect(world.proxy.address(), "a.example");
    first.send([begin(), request(1, "GET", "/a", true)].concat());
    let mut room = [0; 1 << 14];
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains("0 /a") {
        let read = first.0.read(&mut room).unwrap();
        assert!(read > 0);
        heard.extend_from_slice(&room[..read]);
    }
    let said = [
        begin(),
        request(1, "GET", "/miss", true),
        request(3, "GET", "/a", true),
        request(5, "POST", "/a", false),
        frame(0, 1, 5, b"abc"),
    ];
    let mut early = world.early(&client, said.concat());
    early.until("0 /a");
    early.hears_nothing();
    world.proxy.await_count("tls_early_hits", 1);
    assert_eq!(world.origin.requests().len(), 1);
    early.finish();
    early.until("/miss");
    eventually("both are asked", || {
        (world.origin.requests().len() == 3).then_some(())
    });
    // One that does not complete it, and asks for what the POST has taken away.
    let mut early = world.early(&client, said.concat());
    early.until("0 /miss");
    drop(early);
    thread::sleep(A_WHILE);
    assert_eq!(world.origin.requests().len(), 3);
}

#[test]
fn over_http2_a_client_that_never_completes_it_is_closed_in_time() {
    let world = world(|plan| {
        plan.listeners[0].http2 = true;
        plan.timeouts.client_handshake = Duration::from_millis(400);
    });
    let client = world.authority.client().offering(&["h2"]).early();
    let begin = || [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let mut first = client.connect(world.proxy.address(), "a.example");
    first.send(begin());
    let mut room = [0; 1 << 10];
    assert!(first.0.read(&mut room).unwrap() > 0);
    thread::sleep(A_WHILE / 4);
    world.early(&client, begin()).is_closed();
    eventually("it is counted", || {
        (world.proxy.counter("tls_handshakes_timed_out") == 1).then_some(())
    });
    eventually("no handshake is under way", || {
        (gauge(&world.proxy, "tls_handshakes_open") == 0).then_some(())
    });
}

#[test]
fn sessions_are_kept_over_a_reload_and_within_their_bound() {
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let good = authority.sign("good client", &["c.example"]);
    let origin = Origin::start(answer);
    let mut plan = tls_plan(&origin, &[&signed]);
    let tls = plan.listeners[0].tls.as_mut().unwrap();
    tls.early_data = true;
    tls.clients = Some(ClientCertificates {
        ca: authority.path("ca.pem"),
        are_required: true,
    });
    plan.workers = 2;
    plan.limits.tls_sessions_bytes = 64 << 10;
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    let shown = authority.client().showing(&good);
    for client in [shown.clone().early(), shown.clone().only_tls12().early()] {
        for n in 0..6 {
            let mut connection = client.connect(proxy.address(), "a.example");
            assert_eq!(connection.get("/a", "a.example").body, b"0 /a");
            assert_eq!(connection.is_resumed(), n > 0, "{n}");
            if n == 3 {
                assert_eq!(proxy.admin("POST", "/reload").status, 200);
            }
        }
    }
    // Who was known is not asked for a certificate again, and is still known by it.
    eventually("it is counted", || {
        (proxy.counter("tls_handshakes_resumed") >= 10).then_some(())
    });
    let many = shown.early();
    let mut first = many.connect(proxy.address(), "a.example");
    assert_eq!(first.get("/a", "a.example").status(), "200");
    for _ in 0..100 {
        let mut other = authority
            .client()
            .showing(&good)
            .connect(proxy.address(), "a.example");
        assert_eq!(other.get("/a", "a.example").status(), "200");
    }
    eventually("it is counted", || {
        (proxy.counter("tls_sessions_forgotten") > 50).then_some(())
    });
    let mut again = many.connect(proxy.address(), "a.example");
    assert_eq!(again.get("/a", "a.example").status(), "200");
    assert!(!again.is_resumed());
}

#[test]
fn nothing_is_early_unless_it_is_allowed() {
    let world = world(|plan| plan.listeners[0].tls.as_mut().unwrap().early_data = false);
    let client = world.client(&["/a"]);
    let mut connection = client.connect(world.proxy.address(), "a.example");
    assert!(connection.0.conn.early_data().is_none());
    assert_eq!(connection.get("/a", "a.example").body, b"0 /a");
    assert!(connection.is_resumed());
}

#[test]
fn openssl_is_answered_early() {
    let world = world(|_| {});
    world.client(&["/a"]);
    let path = |name: &str| world.authority.path(name).display().to_string();
    let (session, said) = (path("session"), path("said"));
    let request = get("/a").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    std::fs::write(&said, &request).unwrap();
    let ask = |client: &mut Command, request: &str| {
        let address = world.proxy.address().to_string();
        client.args(["-tls1_3", "-servername", "a.example", "-connect", &address]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = client.stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(request.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (more, request) in [
        (
            ["-sess_out", &session, "-verify_quiet", "-nocommands"],
            &request[..],
        ),
        (["-sess_in", &session, "-early_data", &said], ""),
    ] {
        let Some(mut client) = real_client("openssl") else {
            return;
        };
        client.args(["s_client", "-quiet"]).args(more);
        let answer = ask(&mut client, request);
        assert!(answer.contains("0 /a"), "{answer}");
    }
    world.proxy.await_count("tls_early_hits", 1);
}
