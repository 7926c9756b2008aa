//! Connections to origins: which are used again and by what, how many stay, names that move, what clients are told of failures.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use ::proxy::plan::{OriginUrl, Plan, Role};

use crate::{
    budgets::gauge,
    harness::{
        client::request,
        names::NameServer,
        running::{url, with_admin},
        tls::{Authority, listener_tls},
        *,
    },
};

const KEEPS: &str = "Keep-Alive: timeout=5";

fn post(client: &mut Client) -> Response {
    client.send(request("POST", "/a", &["Content-Length: 5"], "hello"));
    client.read("POST")
}

/// How many connections carried these requests.
fn connections(origin: &Origin) -> usize {
    let requests = origin.requests();
    let all: BTreeSet<usize> = requests.iter().map(|it| it.connection).collect();
    all.len()
}

#[test]
fn posts_in_turn_share_the_connection_of_an_origin_that_says_how_long_it_keeps_it() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[KEEPS], "done"));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..20 {
        assert_eq!(post(&mut client).text(), "done");
    }
    // A pause of the machine of several seconds between two of them makes a connection too old.
    assert!(
        connections(&origin) <= 3,
        "{} connections",
        connections(&origin)
    );
}

#[test]
fn without_a_word_an_origin_that_keeps_connections_is_believed_once_it_has_shown_that() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[], "done"));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    eventually("a connection is used again", || {
        post(&mut client);
        (connections(&origin) < origin.requests().len()).then_some(())
    });
}

/// An origin of 50 processes, of which each serves one connection until that was idle for five seconds.
fn prefork() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..50 {
        let listener = listener.try_clone().unwrap();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                serve_until_idle(stream);
            }
        });
    }
    address
}

fn serve_until_idle(mut stream: TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut came = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        came.extend_from_slice(&buffer[..n]);
        if came.ends_with(b"\r\n\r\nhello") {
            came.clear();
            if stream.write_all(&ok(&[], "done")).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_prefork_origin_is_not_used_up_by_one_client() {
    let origin = prefork();
    let mut plan = plan_for(&Origin::sending(""));
    if let Role::Reverse(routes) = &mut plan.listeners[0].role {
        routes[0].origin = url(origin);
    }
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    let began = Instant::now();
    for _ in 0..200 {
        assert_eq!(post(&mut client).text(), "done");
    }
    let took = began.elapsed();
    // Each wait for a process that lets go of its connection would be one of five seconds, and there would be three.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn no_more_connections_are_kept_than_were_in_use_at_once() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[], "done"));
    });
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = proxy.client();
                for _ in 0..60 {
                    post(&mut client);
                }
            });
        }
    });
    let idle = eventually("the gauge is read", || {
        let used = gauge(&proxy, "origin_connections_used_open");
        let idle = gauge(&proxy, "origin_connections_idle_open");
        (used == 0 && idle > 0).then_some(idle)
    });
    assert!(idle <= 3, "{idle} are idle");
}

#[test]
fn a_post_on_a_connection_that_breaks_is_sent_once() {
    let seen = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start({
        let seen = Arc::clone(&seen);
        move |exchange| {
            exchange.body();
            seen.fetch_add(1, SeqCst);
            match exchange.nth_here {
                // It does not keep its word.
                2 => exchange.close(),
                _ => exchange.send(ok(&[KEEPS], "done")),
            }
        }
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    let (mut failed, mut asked) = (0, 0);
    // None was idle for longer when it broke. Others are young for half of that.
    let mut idle_max = Duration::ZERO;
    let began = Instant::now();
    for n in 0..20 {
        if n > 1 {
            until_elapsed(Instant::now(), idle_max);
        }
        client.send(request("POST", "/a", &["Content-Length: 5"], "hello"));
        let answer = client.read("POST");
        asked += 1;
        if answer.status == 502 {
            failed += 1;
            idle_max = began.elapsed();
        }
        assert!([200, 502].contains(&answer.status));
    }
    assert_eq!(seen.load(SeqCst), asked, "each was sent once");
    assert_eq!(failed, 1, "one that broke its word is not believed again");
}

#[test]
fn an_origin_that_closes_after_each_answer_loses_no_post() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[], "done"));
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..200 {
        assert_eq!(post(&mut client).text(), "done");
    }
}

fn named(name: &str, port: u16, names: &NameServer, mut plan: Plan) -> Plan {
    if let Role::Reverse(routes) = &mut plan.listeners[0].role {
        routes[0].origin = OriginUrl {
            tls: false,
            host: name.to_owned(),
            port,
            path: String::new(),
        };
    }
    plan.dns.servers = vec![names.address];
    plan
}

/// An origin at this address of loopback that says which it is; requests come on connections that are kept.
pub fn saying(address: &str, port: u16) -> (thread::JoinHandle<()>, u16) {
    let listener = TcpListener::bind((address, port)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = address.to_owned();
    let serving = thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let address = address.clone();
            thread::spawn(move || {
                let (mut came, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    came.extend_from_slice(&buffer[..n]);
                    if came.ends_with(b"\r\n\r\n") {
                        came.clear();
                        let answer = ok(&["Cache-Control: no-store"], &address);
                        if stream.write_all(&answer).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (serving, port)
}

#[test]
fn busy_connections_follow_a_name_that_moves() {
    let gate = Gate::new();
    let names = NameServer::start(&gate);
    let (_first, port) = saying("127.0.0.1", 0);
    let (_second, _) = saying("127.0.0.3", port);
    let plan = plan_for(&Origin::sending(""));
    let proxy = Proxy::start(named("moves.example", port, &names, plan));
    let mut client = proxy.client();
    assert_eq!(client.get("/a").text(), "127.0.0.1");
    names.move_to(3);
    // Without a pause: the connection is never idle for long.
    eventually("it has moved", || {
        (client.get("/a").text() == "127.0.0.3").then_some(())
    });
}

#[test]
fn a_name_without_an_answer_is_not_asked_again_by_each_request() {
    let gate = Gate::new();
    let names = NameServer::start(&gate);
    let mut plan = plan_for(&Origin::sending(""));
    plan.dns.timeout = Duration::from_secs(1);
    plan.dns.attempts = 1;
    plan.cache.unreachable_ttl = Duration::ZERO;
    let proxy = Proxy::start(named("silent.example", 80, &names, plan));
    let mut client = proxy.client();
    let first = client.get("/1");
    assert_eq!(first.status, 504);
    let asked = names.unanswered();
    let began = Instant::now();
    let second = client.get("/2");
    let took = began.elapsed();
    assert!([503, 504].contains(&second.status), "{}", second.status);
    // Else a second and more would have gone by.
    if took < Duration::from_millis(900) {
        assert_eq!(names.unanswered(), asked);
        return;
    }
    assert_eq!(names.unanswered(), asked, "asked again, for {took:?}");
}

#[test]
fn clients_are_not_told_what_the_origin_is_called() {
    let authority = Authority::new();
    let signed = authority.sign("other", &["other.test"]);
    let origin = Origin::sending(ok(&[], "hello"));
    let mut behind = plan_for(&origin);
    behind.listeners[0].tls = Some(listener_tls(&[&signed]));
    let behind = Proxy::start(behind);
    let mut plan = plan_for(&origin);
    plan.tls.ca_file = Some(authority.path("ca.pem"));
    // Each asks anew, and is told of a certificate.
    plan.cache.unreachable_ttl = Duration::ZERO;
    if let Role::Reverse(routes) = &mut plan.listeners[0].role {
        routes[0].origin = OriginUrl {
            tls: true,
            ..url(behind.address())
        };
    }
    let proxy = Proxy::start(plan);
    for (method, fields) in [
        ("GET", &[][..]),
        ("GET", &["Range: bytes=0-5"]),
        ("HEAD", &[]),
        ("POST", &[]),
    ] {
        let mut client = proxy.client();
        let answer = client.ask(method, "/a", fields).read(method);
        assert_eq!(answer.status, 502);
        let told = format!("{:?} {}", answer.fields, answer.text());
        assert!(!told.contains("other.test"), "{told}");
        assert!(told.contains("tls_certificate_error"), "{told}");
    }
}

#[test]
fn an_answer_that_may_not_be_stored_is_given_up_with_its_last_client() {
    let gate = Gate::new();
    let origin = Origin::start({
        let gate = gate.clone();
        move |exchange| {
            if exchange.nth() > 1 {
                gate.pass();
            }
            exchange.send(ok(&["Cache-Control: no-store"], "mine"));
        }
    });
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    assert_eq!(proxy.get("/a").text(), "mine");
    let clients: Vec<Client> = (0..30)
        .map(|_| {
            let mut client = proxy.client();
            client.ask("GET", "/a", &[]);
            client
        })
        .collect();
    gate.arrived(30);
    eventually("the gauge shows them", || {
        (gauge(&proxy, "origin_connections_used_open") == 30).then_some(())
    });
    clients.into_iter().for_each(Client::vanish);
    eventually("all connections are closed", || {
        (gauge(&proxy, "origin_connections_used_open") == 0).then_some(())
    });
    gate.open();
}

#[test]
fn what_is_passed_is_given_up_with_its_client_too() {
    let gate = Gate::new();
    let origin = Origin::start({
        let gate = gate.clone();
        move |exchange| {
            gate.pass();
            exchange.send(ok(&[], ""));
        }
    });
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    let clients: Vec<Client> = (0..5)
        .map(|_| {
            let mut client = proxy.client();
            client.ask("OPTIONS", "/a", &[]);
            client
        })
        .collect();
    gate.arrived(5);
    eventually("the gauge shows them", || {
        (gauge(&proxy, "origin_connections_used_open") == 5).then_some(())
    });
    clients.into_iter().for_each(Client::vanish);
    eventually("all connections are closed", || {
        (gauge(&proxy, "origin_connections_used_open") == 0).then_some(())
    });
    gate.open();
}

#[test]
fn stalled_uploads_of_one_client_leave_an_origin_to_others() {
    let origin = Origin::start(|exchange| {
        exchange.body();
        exchange.send(ok(&[], "done"));
    });
    let mut plan = plan_for(&origin);
    plan.pool.per_origin_max = 8;
    // Without the share the miss below would wait for one of the uploads.
    plan.timeouts.connect = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let stalled: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = proxy.client();
            client.send(request("POST", "/a", &["Content-Length: 5"], "he"));
            client
        })
        .collect();
    eventually("some are on their way", || {
        (origin.count("/a") >= 4).then_some(())
    });
    for n in 0..5 {
        assert_eq!(proxy.get(&format!("/{n}")).status, 200);
    }
    assert_eq!(
        origin.count("/a"),
        4,
        "half of eight: nobody else wants them"
    );
    drop(stalled);
}
