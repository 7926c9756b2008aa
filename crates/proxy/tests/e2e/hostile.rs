//! Origins that die, lie or babble; clients that leave; a store too small; a stop in mid-answer.

use std::time::Duration;

use crate::harness::{running::draining_long, *};

/// An origin whose first answer to `/a` is bad, and whose later ones are good.
fn at_first(bad: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Origin {
    Origin::start(move |exchange| match (exchange.path(), exchange.nth()) {
        ("/a", 1) => bad(exchange),
        _ => exchange.send(ok(&[FRESH], "whole")),
    })
}

/// After what went wrong: nothing was stored, the next request works and its answer is.
#[track_caller]
fn recovers(proxy: &Proxy) {
    for hit in [false, true] {
        let answer = proxy.get("/a");
        assert_eq!((answer.status, answer.text()), (200, "whole"));
        assert_eq!(answer.is_hit(), hit);
    }
}

#[test]
fn an_origin_that_dies_in_a_response_leaves_a_cut_connection() {
    const CHUNKED: &str = "Transfer-Encoding: chunked";
    let cases: &[(&str, &str, bool)] = &[
        ("Content-Length: 10", "half", false),
        ("Content-Length: 10", "half", true),
        ("Content-Length: 10", "", false),
        (CHUNKED, "4\r\nhalf\r\n", false),
        (CHUNKED, "4\r\nhalf\r\n", true),
        (CHUNKED, "4\r\nhalf\r\n4\r\nha", false),
        (CHUNKED, "4\r\nhalf\r\n0\r\n", false),
        (CHUNKED, "4\r\nhalf\r\n0\r\nX-Sum: 3\r\n", false),
        (CHUNKED, "4\r\nhalf\r\nxyz\r\n", false),
        (CHUNKED, "4\r\nhalf\r\n-4\r\nhalf\r\n0\r\n\r\n", false),
        (CHUNKED, "4\r\nhalfer\r\n0\r\n\r\n", false),
        (CHUNKED, "4\nhalf\n0\n\n", false),
        (CHUNKED, "fffffffffffffffff\r\nhalf", false),
    ];
    for (framing, sent, reset) in cases {
        for control in [FRESH, "Cache-Control: no-store"] {
            let origin = at_first(move |exchange| {
                exchange.send(head("200 OK", &[control, framing]));
                exchange.send(sent);
                if *reset {
                    exchange.reset()
                } else {
                    exchange.close()
                }
            });
            let disk = Disk::of_mib(4);
            let proxy = Proxy::start(disk.under(plan_for(&origin)));
            let mut client = proxy.client();
            let broken = client.ask("GET", "/a", &[]).read_whatever("GET");
            assert!(
                broken.status == 502 || broken.cut.is_some(),
                "{sent:?}: {broken:?}"
            );
            if broken.status == 200 {
                assert!(
                    b"halfha".starts_with(&broken.body[..]),
                    "{sent:?}: {broken:?}"
                );
            }
            drop(client);
            recovers(&proxy);
            proxy.stop();
            assert!(
                Proxy::start(disk.under(plan_for(&origin)))
                    .get("/a")
                    .is_hit()
            );
        }
    }
}

#[test]
fn a_client_of_http_1_0_sees_a_broken_body_as_a_reset() {
    // Without a length or chunks a clean end would look like a whole body.
    for control in [FRESH, "Cache-Control: no-store"] {
        let origin = at_first(move |exchange| {
            exchange.send(head("200 OK", &[control, "Transfer-Encoding: chunked"]));
            exchange.send(chunk("half"));
            exchange.close();
        });
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        client.send("GET /a HTTP/1.0\r\n\r\n");
        let (_, end) = client.wire.read_to_end();
        assert_eq!(end, End::Reset, "{control}");
        recovers(&proxy);
    }
}

#[test]
fn garbage_is_a_bad_gateway() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(1_100));
    let cases: [&str; 18] = [
        "",
        "\0\x01\x02 garbage\r\n\r\n",
        "hello\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX y : z\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: incompl",
        &long,
        &many,
    ];
    for sent in cases {
        let bytes = sent.to_owned();
        let origin = at_first(move |exchange| {
            exchange.send(&bytes);
            exchange.close();
        });
        let proxy = Proxy::before(&origin);
        let asked = &sent[..sent.len().min(60)];
        let mut client = proxy.client();
        for method in ["GET", "POST"] {
            let path = if method == "GET" { "/a" } else { "/b" };
            let answer = client.ask(method, path, &[]).read(method);
            let status = if method == "GET" { 502 } else { 200 };
            assert_eq!(answer.status, status, "{asked:?}");
        }
        recovers(&proxy);
    }
}

#[test]
fn a_length_and_chunks_together_are_never_passed_on() {
    // Refused, or taken for chunked without the length; never both, never stored with the wrong body.
    let origin = at_first(|exchange| {
        let fields = [FRESH, "Content-Length: 3", "Transfer-Encoding: chunked"];
        exchange.send(head("200 OK", &fields));
        exchange.send("5\r\nwhole\r\n0\r\n\r\n");
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let answer = proxy.get("/a");
    assert!(answer.status == 502 || answer.text() == "whole");
    assert_eq!(proxy.get("/a").text(), "whole");
}

#[test]
fn what_follows_a_body_is_nobodys_answer() {
    // The origin sends more than its length says, at once or when the connection is in the pool already.
    for late in [false, true] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            if exchange.path() != "/a" {
                return exchange.send(ok(&[FRESH], "whole"));
            }
            let evil = ok(&[FRESH], "evil");
            let mut answer = ok(&["Cache-Control: no-store"], "four");
            if late {
                exchange.send(&answer);
                held.pass();
                exchange.send(evil);
                held.pass();
            } else {
                answer.extend_from_slice(&evil);
                exchange.send(answer);
            }
        });
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        assert_eq!(client.get("/a").text(), "four");
        gate.open();
        gate.arrived(if late { 2 } else { 0 });
        for n in 0..5 {
            let path = format!("/{n}");
            assert_eq!(client.get(&path).text(), "whole");
            assert_eq!(proxy.get(&path).text(), "whole");
        }
        let requests = origin.requests();
        let first = requests[0].connection;
        assert!(requests[1..].iter().all(|r| r.connection != first));
    }
}

#[test]
fn a_pooled_connection_is_used_again() {
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], "hello"));
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..5 {
        client.get("/a");
    }
    assert!(origin.requests().iter().all(|r| r.connection == 0));
}

#[test]
fn a_pooled_connection_that_has_closed_costs_the_client_nothing() {
    // It closes when the next request arrives: with a FIN, with a reset.
    for reset in [false, true] {
        let origin = Origin::start(move |exchange| match exchange.nth_here {
            1 => exchange.send(ok(&["Cache-Control: no-store"], exchange.path())),
            _ if reset => exchange.reset(),
            _ => exchange.close(),
        });
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        for path in ["/a", "/b", "/c", "/d"] {
            let answer = client.get(path);
            assert_eq!((answer.status, answer.text()), (200, path));
        }
        assert_eq!(origin.count("/a"), 1);
        assert_eq!(
            origin.count("/b"),
            2,
            "tried on the old connection, then on a new one"
        );
    }
}

#[test]
fn a_post_is_never_sent_twice() {
    let origin = Origin::start(|exchange| match exchange.request.method.as_str() {
        "GET" => exchange.send(ok(&["Cache-Control: no-store"], "hello")),
        _ => exchange.close(),
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.get("/a");
    let answer = client.ask("POST", "/b", &[]).read("POST");
    assert_eq!((answer.status, origin.count("/b")), (502, 1));
}

#[test]
fn a_new_connection_that_closes_is_not_tried_again() {
    let origin = Origin::start(Exchange::close);
    let proxy = Proxy::before(&origin);
    assert_eq!(proxy.get("/a").status, 502);
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_client_that_leaves_does_not_stop_what_is_stored() {
    const BYTES: usize = 3 << 20;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let (first, second) = (pattern(BYTES / 2), pattern(BYTES));
        let length = format!("Content-Length: {BYTES}");
        exchange.send(head("200 OK", &[FRESH, &length]));
        exchange.send(&first);
        held.pass();
        exchange.send(&second[BYTES / 2..]);
    });
    let disk = Disk::of_mib(16);
    let mut plan = disk.under(plan_for(&origin));
    plan.limits.quick_abort_percent = 0;
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]).read_head();
    client.bytes(1000);
    client.vanish();
    gate.open();
    eventually("it is stored", || {
        let answer = proxy.get("/a");
        assert_same(&answer.body, &pattern(BYTES));
        answer.is_hit().then_some(())
    });
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_client_that_leaves_ends_what_is_not_stored() {
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
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]).read_head();
    client.vanish();
    let sent = taken.recv_timeout(PATIENCE).unwrap();
    assert!(sent < 1000, "the origin was let go");
}

#[test]
fn a_client_of_http_1_0_may_have_finished_sending() {
    let origin = Origin::start(|exchange| {
        // Else this is cut off at once.
        std::thread::sleep(Duration::from_millis(200));
        exchange.send(ok(&["Cache-Control: no-store"], "late"));
    });
    let proxy = Proxy::before(&origin);
    for request in [
        "GET /a HTTP/1.0\r\nHost: test.example\r\nCache-Control: no-store\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: test.example\r\nAuthorization: me\r\nConnection: close\r\n\r\n",
        "OPTIONS /a HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n",
    ] {
        let mut client = proxy.client();
        client.send(request);
        client.finish_sending();
        assert_eq!(client.read("GET").text(), "late", "{request}");
    }
}

#[test]
fn a_silent_origin_is_a_time_out() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/body" {
            exchange.send(head("200 OK", &[FRESH, "Content-Length: 10"]));
            exchange.send("half");
        }
        held.pass();
        exchange.close();
    });
    let mut plan = plan_for(&origin);
    plan.timeouts.origin_first_byte = Duration::from_secs(1);
    plan.timeouts.origin_idle_read = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    for method in ["GET", "POST"] {
        assert_eq!(proxy.ask(method, "/head", &[]).status, 504);
    }
    let cut = proxy.client().ask("GET", "/body", &[]).read_whatever("GET");
    assert_eq!((cut.status, &cut.body[..]), (200, &b"half"[..]));
    assert!(cut.cut.is_some());
    gate.open();
}

#[test]
fn a_store_smaller_than_one_object_passes_it_through() {
    let body = pattern(8 << 20);
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/length" => exchange.send(ok(&[FRESH], &body)),
        "/chunked" => {
            exchange.send(head("200 OK", &[FRESH, "Transfer-Encoding: chunked"]));
            for piece in body.chunks(100_000) {
                exchange.send(chunk(piece));
            }
            exchange.send("0\r\n\r\n");
        }
        _ => exchange.send(ok(&[FRESH], "small")),
    });
    let expected = pattern(8 << 20);
    let disk = Disk::of_mib(4);
    let proxy = Proxy::start(disk.under(plan_for(&origin)));
    let mut client = proxy.client();
    for path in ["/length", "/chunked"] {
        for n in 1..3 {
            let answer = client.get(path);
            assert!(!answer.is_hit());
            assert_same(&answer.body, &expected);
            assert_eq!(origin.count(path), n);
        }
    }
    client.get("/small");
    proxy.stop();
    let hit = Proxy::start(disk.under(plan_for(&origin))).get("/small");
    assert_eq!((hit.text(), hit.is_hit()), ("small", true));
}

#[test]
fn a_full_store_makes_room_and_never_serves_the_wrong_bytes() {
    let body = |n: usize| [n.to_string().into_bytes(), pattern(60_000 + 997 * n)].concat();
    let origin = Origin::start(move |exchange| {
        let n = exchange.path()[1..].parse().unwrap();
        exchange.send(ok(&[FRESH], body(n)));
    });
    let disk = Disk::of_mib(4);
    let mut plan = disk.under(plan_for(&origin));
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan.clone());
    let mut client = proxy.client();
    for n in 0..100 {
        assert_same(&client.get(&format!("/{n}")).body, &body(n));
    }
    proxy.stop();
    let proxy = Proxy::start(plan);
    let mut hits = 0;
    for n in 0..100 {
        let only = ["Cache-Control: only-if-cached"];
        let mut client = proxy.client();
        client.ask("GET", &format!("/{n}"), &only);
        let answer = client.read_whatever("GET");
        if answer.is_hit() && answer.cut.is_none() {
            assert_same(&answer.body, &body(n));
            hits += 1;
        } else if answer.is_hit() {
            // A part was evicted before its turn came: room is made for what is read, too.
            assert_same(&answer.body, &body(n)[..answer.body.len()]);
        }
    }
    // A disk that is behind may have refused some, so which ones is not known.
    assert!((1..60).contains(&hits), "{hits} of 60 KB and more in 4 MiB");
}

#[test]
fn a_stop_lets_answers_finish() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        let answer = ok(&[FRESH], pattern(100_000));
        exchange.send(&answer[..50_000]);
        held.pass();
        exchange.send(&answer[50_000..]);
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(draining_long(plan_for(&origin))));
    let mut idle = proxy.client();
    let mut busy = proxy.client();
    busy.ask("GET", "/a", &[]);
    let mut response = busy.read_head();
    proxy.begin_to_stop();
    idle.expect_close();
    gate.open();
    busy.wire.response_body("GET", &mut response);
    assert_eq!(response.cut, None);
    assert_same(&response.body, &pattern(100_000));
    busy.expect_close();
    proxy.stop();
    assert!(
        Proxy::start(disk.under(plan_for(&origin)))
            .get("/a")
            .is_hit()
    );
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.close();
    });
    let mut plan = plan_for(&origin);
    plan.timeouts.drain = Duration::from_secs(1);
    let proxy = Proxy::start(plan);
    let mut waiting = proxy.client();
    waiting.ask("GET", "/a", &[]);
    gate.arrived(1);
    proxy.stop();
    assert!(waiting.wire.response_head().is_err());
    gate.open();
}

#[test]
fn a_connection_too_many_is_closed_and_the_others_go_on() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = plan_for(&origin);
    plan.limits.connections_max = 2;
    let proxy = Proxy::start(plan);
    let (mut one, mut two) = (proxy.client(), proxy.client());
    assert_eq!((one.get("/a").status, two.get("/a").status), (200, 200));
    let (_, end) = proxy.client().wire.read_to_end();
    assert!(matches!(end, End::Closed | End::Reset));
    assert_eq!((one.get("/a").status, two.get("/a").status), (200, 200));
    drop(two);
    eventually("there is room again", || {
        let mut three = proxy.client();
        three.wire.send(client::request("GET", "/a", &[], ""));
        three.wire.response_head().ok()
    });
}
