//! What an operator sets holds over HTTP/2 as over HTTP/1: who is let in, limits, rules; and processes that follow each other.

use std::time::Duration;

use ::proxy::plan::{
    Edit, Excess, How, Per, Plan, ProxyProtocol, Quota, QuotaKeys, Rate, Rule, Text, Then, Verdict,
    What, When,
};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    harness::{
        FRESH, Gate, Origin, Proxy, assert_same, eventually, head, ok, pattern, plan_for,
        running::{Plans, draining_long, own_host_plan, with_admin},
        tls::{Authority, listener_tls},
    },
    http2_client::{Client, HOST, play, read, speaking},
    http2_raw::{GOAWAY, Raw, get},
};

/// Says in `X-Told` what it was told of the client; not to be stored.
fn telling() -> Origin {
    Origin::start(|exchange| {
        let told = exchange.field("x-forwarded-for").unwrap_or("nobody");
        let fields = [format!("X-Told: {told}"), "Cache-Control: no-store".into()];
        exchange.send(ok(&[&fields[0], &fields[1]], "body"));
    })
}

fn of_many(mut plan: Plan) -> Plan {
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan.listeners[0].allow = vec!["192.0.2.0/24".parse().unwrap()];
    plan
}

/// A connection that begins with a PROXY header for this client.
async fn as_client(proxy: &Proxy, last: u8, authority: Option<&Authority>) -> Client {
    let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
    let header = format!("PROXY TCP4 192.0.2.{last} 10.0.0.1 1 80\r\n");
    socket.write_all(header.as_bytes()).await.unwrap();
    Client::over_socket(socket, authority).await
}

#[test]
fn a_proxy_header_comes_before_tls_and_before_the_preface() {
    let authority = Authority::new();
    let signed = authority.sign("a", &[HOST]);
    let origin = telling();
    for is_tls in [true, false] {
        let mut plan = of_many(speaking(plan_for(&origin)));
        plan.listeners[0].tls = is_tls.then(|| listener_tls(&[&signed]));
        let proxy = Proxy::start(plan);
        play(async {
            let authority = is_tls.then_some(&authority);
            let seven = as_client(&proxy, 7, authority).await;
            let eight = as_client(&proxy, 8, authority).await;
            for _ in 0..2 {
                assert_eq!(seven.get("/").await.field("x-told"), Some("192.0.2.7"));
                assert_eq!(eight.get("/").await.field("x-told"), Some("192.0.2.8"));
            }
        });
    }
}

#[test]
fn rules_deny_and_change_fields_on_every_stream() {
    let text = |text: &str| Text::parse(text, true).unwrap();
    let set = |name: &str, value: &str| Edit {
        name: name.to_owned(),
        how: How::Set(text(value)),
    };
    let rules = vec![
        Rule {
            when: When {
                clients: vec!["192.0.2.9/32".parse().unwrap()],
                ..When::default()
            },
            then: Then {
                verdict: Some(Verdict::Deny { words: None }),
                ..Then::default()
            },
            ..Rule::default()
        },
        Rule {
            then: Then {
                request_edits: vec![set("X-Asked", "${client}")],
                response_edits: vec![set("X-Who", "${client} ${method} ${path}")],
                ..Then::default()
            },
            ..Rule::default()
        },
    ];
    let origin = Origin::start(|exchange| {
        let asked = format!("X-Was: {}", exchange.field("x-asked").unwrap_or("nobody"));
        exchange.send(ok(&[FRESH, &asked], "body"));
    });
    let mut plan = of_many(speaking(plan_for(&origin)));
    plan.rules = rules;
    let proxy = Proxy::start(plan);
    play(async {
        let seven = as_client(&proxy, 7, None).await;
        let eight = as_client(&proxy, 8, None).await;
        let denied = as_client(&proxy, 9, None).await;
        for (client, last, is_hit) in [(&seven, 7, false), (&eight, 8, true), (&seven, 7, true)] {
            let answer = client.get("/a").await;
            assert_eq!(answer.is_hit(), is_hit);
            // What was put in for one client is not another's; what the origin was told is stored.
            let who = format!("192.0.2.{last} GET /a");
            assert_eq!(answer.field("x-who"), Some(&who[..]));
            assert_eq!(answer.field("x-was"), Some("192.0.2.7"));
        }
        for _ in 0..2 {
            let answer = denied.get("/a").await;
            assert_eq!((answer.status, answer.field("x-was")), (403, None));
        }
    });
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn limits_count_each_stream() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let quota = |what, amount| Quota {
        name: "q".to_owned(),
        per: Per::Client,
        what,
        rate: Rate {
            amount,
            period: Duration::from_secs(3600),
        },
        burst: amount,
        then: Excess::Refuse,
        keys: QuotaKeys::default(),
    };
    // Of ten requests on one connection; hits are free of a limit on misses.
    for (what, path, served) in [
        (What::Requests, "/same", 3),
        (What::Misses, "/same", 10),
        (What::Misses, "/other", 3),
    ] {
        let mut plan = of_many(speaking(plan_for(&origin)));
        plan.listeners[0].quotas.push("q".to_owned());
        plan.quotas.push(quota(what, 3));
        let proxy = Proxy::start(plan);
        play(async {
            let client = as_client(&proxy, 7, None).await;
            let mut counts = [0, 0];
            for round in 0..10 {
                let path = match path {
                    "/same" => path.to_owned(),
                    path => format!("{path}/{round}"),
                };
                match client.get(&path).await.status {
                    200 => counts[0] += 1,
                    429 => counts[1] += 1,
                    other => panic!("{other}"),
                }
            }
            assert_eq!(counts, [served, 10 - served], "{what:?} {path}");
            // Another client has a count of its own.
            let other = as_client(&proxy, 8, None).await;
            assert_eq!(other.get(path).await.status, 200);
        });
    }
}

#[test]
fn an_origin_that_fails_in_the_middle_breaks_its_stream_alone() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/whole" {
            return exchange.send(ok(&["Cache-Control: no-store"], pattern(200_000)));
        }
        exchange.send(head("200 OK", &[FRESH, "Content-Length: 1000000"]));
        exchange.send(pattern(300_000));
        held.pass();
        exchange.reset();
    });
    let proxy = Proxy::start(speaking(plan_for(&origin)));
    play(async {
        let client = Client::plain(proxy.address()).await;
        let asked = client.request("GET", "/broken", &[]);
        let (broken, _) = client.begin(asked, true).await.unwrap();
        let asked = client.request("GET", "/whole", &[]);
        let (whole, _) = client.begin(asked, true).await.unwrap();
        let broken = broken.await;
        gate.open();
        // Both share the connection's window.
        let (broken, whole) = tokio::join!(read(broken), async { read(whole.await).await });
        assert_eq!(broken.broken, Some(h2::Reason::INTERNAL_ERROR));
        assert_same(&broken.body, &pattern(broken.body.len()));
        assert_same(&whole.body, &pattern(200_000));
        assert_eq!(client.get("/whole").await.status, 200);
    });
    // Nothing of it is stored.
    assert!(!play(async { Client::plain(proxy.address()).await.get("/broken").await }).is_hit());
}

#[test]
fn another_process_takes_over_and_open_connections_lose_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            held.pass();
        }
        exchange.send(ok(&[FRESH], "body"));
    });
    let plans = Plans::of(&with_admin(draining_long(speaking(own_host_plan(&origin)))));
    let (proxy, heirs) = Proxy::start_with_heirs(&plans);
    let mut busy = Raw::connect(proxy.address());
    busy.send(&get(1, "/held"));
    let mut idle = Raw::connect(proxy.address());
    idle.send(&get(1, "/a"));
    assert_eq!(idle.outcome(1), Some(Ok(200)));
    gate.arrived(1);
    let answer = eventually("another process takes over", || {
        let answer = proxy.admin("POST", "/upgrade");
        (answer.status == 200).then_some(answer)
    });
    assert!(answer.text().contains("has taken over"));
    let next = heirs.next();
    // Both are told; what was under way is answered, and so is what was sent before the client knew.
    busy.send(&get(3, "/b"));
    let (mut statuses, mut gone_away) = (Vec::new(), 0);
    gate.open();
    while statuses.len() < 2 {
        match busy.next() {
            Some(frame) if frame.kind == GOAWAY => {
                assert_eq!(frame.word(4), 0);
                gone_away += 1;
            }
            Some(frame) if frame.kind == crate::http2_raw::HEADERS => statuses.push(frame.stream),
            Some(_) => {}
            None => panic!("a request was lost: {statuses:?}, {gone_away} GOAWAYs"),
        }
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [1, 3]);
    assert_eq!(idle.farewell(), Some(0));
    proxy.ended().unwrap();
    let mut raw = Raw::connect(next.address());
    raw.send(&get(1, "/a"));
    assert_eq!(raw.outcome(1), Some(Ok(200)));
}
