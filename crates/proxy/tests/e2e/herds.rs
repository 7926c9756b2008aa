//! Many who ask for the same at once: how often the origin is asked, with variants, credentials and reloads.
//!
//! That all have come before the origin answers is made certain as in `sharing`: by other requests through the same worker
//! behind them.

use std::time::Duration;

use ::proxy::Clock;
use httpcache::ClientDirectives;

use super::harness::{running::plan_for, *};

const EACH: usize = 100;
const GZIP: &str = "Accept-Encoding: gzip";
const BR: &str = "Accept-Encoding: br";
const VARY: &str = "Vary: Accept-Encoding";

/// An origin that waits at the gate and answers `/a` with the coding that was asked for, and for the how manieth time.
fn coding(gate: &Gate, fields: &'static [&'static str]) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange| {
        gate.pass();
        let coding = exchange.field("accept-encoding").unwrap_or("none");
        let body = format!("{coding} {}", exchange.nth());
        exchange.send(ok(
            &[fields, &[VARY, &format!("Content-Encoding: {coding}")]].concat(),
            body,
        ));
    })
}

/// When this returns, what was sent before it to the only worker has been seen there.
fn fence(proxy: &Proxy) {
    for n in 0..3 {
        let path = format!("/fence{n}");
        let answer = proxy.ask("OPTIONS", &path, &["Max-Forwards: 0"]);
        assert_eq!(answer.status, 200);
    }
}

/// Sends a request for `/a` with each of these fields.
fn herd(proxy: &Proxy, asked: impl IntoIterator<Item = &'static str>) -> Vec<Client> {
    let asked = asked.into_iter().map(|field| {
        let mut client = proxy.client();
        client.ask("GET", "/a", &[field]);
        client
    });
    asked.collect()
}

fn read(clients: Vec<Client>) -> Vec<Response> {
    clients.into_iter().map(|mut c| c.read("GET")).collect()
}

/// One after the other: gzip, br, gzip, br ...
fn both() -> impl Iterator<Item = &'static str> {
    [GZIP, BR].into_iter().cycle().take(2 * EACH)
}

#[track_caller]
fn assert_own_codings(answers: &[Response]) {
    for (answer, asked) in answers.iter().zip(both()) {
        let coding = &asked["Accept-Encoding: ".len()..];
        assert!(answer.text().starts_with(coding), "{}", answer.text());
    }
}

#[test]
fn a_herd_for_two_variants_makes_two_fetches() {
    let gate = Gate::new();
    let origin = coding(&gate, &[FRESH]);
    let proxy = Proxy::before(&origin);
    let clients = herd(&proxy, both());
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    assert_own_codings(&read(clients));
    assert_eq!(origin.count("/a"), 2);
    assert!(proxy.ask("GET", "/a", &[GZIP]).is_hit());
    assert!(proxy.ask("GET", "/a", &[BR]).is_hit());
}

/// However they spell it: those who accept what the first one got share it.
#[test]
fn a_herd_of_browsers_makes_as_many_fetches_as_there_are_codings() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        let accepted = exchange.field("accept-encoding").unwrap_or_default();
        let coding = match accepted.contains("br") {
            true => "br",
            false => "gzip",
        };
        let coded = format!("Content-Encoding: {coding}");
        exchange.send(ok(&[FRESH, VARY, &coded], coding));
    });
    let proxy = Proxy::before(&origin);
    let browsers = [
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Accept-Encoding: gzip, deflate, br",
        "Accept-Encoding: br;q=1.0, gzip;q=0.8",
        "Accept-Encoding: deflate, gzip",
    ];
    let asked = || browsers.into_iter().cycle().take(EACH);
    let clients = herd(&proxy, asked());
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    for (answer, asked) in read(clients).iter().zip(asked()) {
        let coding = answer.field("content-encoding").unwrap();
        assert!(asked.contains(coding), "{coding} for {asked}");
    }
    assert_eq!(origin.count("/a"), 2);
    for field in browsers {
        assert!(proxy.ask("GET", "/a", &[field]).is_hit(), "{field}");
    }
}

/// The list is known from what is stored; nothing is known of what could not be kept.
#[test]
fn a_herd_for_variants_that_are_too_large_to_keep_makes_two_fetches() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        let coding = exchange.field("accept-encoding").unwrap_or("none");
        let body = coding.repeat(100_000);
        let coded = format!("Content-Encoding: {coding}");
        exchange.send(ok(&[FRESH, VARY, &coded], body));
    });
    let mut plan = plan_for(&origin);
    plan.memory_bytes = 1 << 20;
    let proxy = Proxy::start(plan);
    let clients = herd(&proxy, both().take(20));
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    assert_own_codings(&read(clients));
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn when_they_are_stale_each_variant_is_validated_once() {
    for workers in [1, 2] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            let coding = exchange.field("accept-encoding").unwrap_or("none");
            let tag = format!("ETag: \"{coding}\"");
            if exchange.field("if-none-match").is_some() {
                held.pass();
                return exchange.send(head("304 Not Modified", &[FRESH, VARY, &tag]));
            }
            let coded = format!("Content-Encoding: {coding}");
            let fields = [STALE, &[VARY, &tag, &coded]].concat();
            exchange.send(ok(&fields, coding));
        });
        let mut plan = plan_for(&origin);
        plan.workers = workers;
        let proxy = Proxy::start(plan);
        read(herd(&proxy, [GZIP, BR]));
        assert_eq!(origin.count("/a"), 2);
        let clients = herd(&proxy, both());
        gate.arrived(2);
        fence(&proxy);
        gate.open();
        assert_own_codings(&read(clients));
        assert_eq!(origin.count("/a"), 4, "{workers} workers");
    }
}

#[test]
fn behind_the_back_of_those_who_get_it_stale_each_variant_is_fetched_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.nth() > 2 {
            held.pass();
        }
        let coding = exchange.field("accept-encoding").unwrap_or("none");
        let swr = "Cache-Control: max-age=0, stale-while-revalidate=600";
        let coded = format!("Content-Encoding: {coding}");
        exchange.send(ok(&[swr, VARY, &coded], coding));
    });
    let proxy = Proxy::before(&origin);
    read(herd(&proxy, [GZIP, BR]));
    assert_own_codings(&read(herd(&proxy, both())));
    // The answers are older than what is fetched behind them.
    gate.arrived(2);
    fence(&proxy);
    assert_eq!(origin.count("/a"), 4);
    gate.open();
}

#[test]
fn one_with_credentials_does_not_keep_the_others_apart() {
    for field in ["Authorization: Basic YTpi", "Cookie: user=a"] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            // He has been there before.
            if exchange.nth() > 1 {
                held.pass();
            }
            let credentials = ["authorization", "cookie"];
            let is_user = credentials
                .iter()
                .any(|name| exchange.field(name).is_some());
            let (said, body) = match is_user {
                true => ("Cache-Control: private", "for one"),
                false => (FRESH, "for all"),
            };
            exchange.send(ok(&[said], body));
        });
        let proxy = Proxy::before(&origin);
        assert_eq!(proxy.ask("GET", "/a", &[field]).text(), "for one");
        let asked = std::iter::once(field).chain(std::iter::repeat_n("X: 1", EACH));
        let clients = herd(&proxy, asked);
        gate.arrived(2);
        fence(&proxy);
        gate.open();
        let answers = read(clients);
        assert_eq!(answers[0].text(), "for one");
        assert!(answers[1..].iter().all(|a| a.text() == "for all"));
        assert_eq!(origin.count("/a"), 3, "{field}");
    }
}

/// Those who came with him, before anybody knew: they find each other.
#[test]
fn those_who_waited_in_vain_for_the_answer_to_one_with_a_cookie_wait_for_one_of_their_own() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        match exchange.field("cookie") {
            Some(_) => exchange.send(ok(&["Cache-Control: private"], "for one")),
            None => exchange.send(ok(&[FRESH], "for all")),
        }
    });
    let proxy = Proxy::before(&origin);
    let asked = std::iter::once("Cookie: a=b").chain(std::iter::repeat_n("X: 1", EACH));
    let clients = herd(&proxy, asked);
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    let answers = read(clients);
    assert_eq!(answers[0].text(), "for one");
    assert!(answers[1..].iter().all(|a| a.text() == "for all"));
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn an_answer_for_one_keeps_its_herd_from_waiting_for_each_other() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        let body = format!("{}", exchange.nth());
        exchange.send(ok(&["Cache-Control: private"], body));
    });
    let proxy = Proxy::before(&origin);
    let clients = herd(&proxy, std::iter::repeat_n("X: 1", EACH));
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    let mut bodies: Vec<_> = read(clients).iter().map(|a| a.text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), EACH, "each has its own");
}

/// Reloads: of nothing, and of what is stored.
#[test]
fn reloads_that_come_together_make_two_fetches() {
    for (directive, is_stored) in [
        ("Cache-Control: no-cache", false),
        ("Cache-Control: max-age=0", true),
        ("Pragma: no-cache", true),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            let is_reload = ["cache-control", "pragma"]
                .iter()
                .any(|name| exchange.field(name).is_some());
            if is_reload {
                held.pass();
            }
            exchange.send(ok(&[FRESH], format!("{}", exchange.nth())));
        });
        let proxy = Proxy::before(&origin);
        let before = usize::from(is_stored);
        if is_stored {
            proxy.get("/a");
        }
        let mut first = herd(&proxy, [directive]);
        gate.arrived(1);
        // They came after the first one was asked for: its answer is not for them.
        let others = herd(&proxy, std::iter::repeat_n(directive, EACH));
        fence(&proxy);
        gate.open();
        let number = |n: usize| format!("{}", before + n);
        assert_eq!(first[0].read("GET").text(), number(1));
        for answer in read(others) {
            assert_eq!(answer.text(), number(2), "{directive}");
        }
        assert_eq!(origin.count("/a"), before + 2);
        assert_eq!(proxy.get("/a").text(), number(2));
    }
}

/// The answer under way is older than a second, so it is not for them; they share what is asked next.
#[test]
fn patient_reloads_behind_a_long_download_share_a_fetch() {
    let (first_gate, gate) = (Gate::new(), Gate::new());
    let (first_held, held) = (first_gate.clone(), gate.clone());
    let origin = Origin::start(move |exchange| {
        if exchange.nth() == 1 {
            exchange.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 4\r\n\r\nol"
            ));
            first_held.pass();
            exchange.send("d\n");
        } else {
            held.pass();
            exchange.send(ok(&[FRESH], "new"));
        }
    });
    let mut plan = plan_for(&origin);
    plan.listeners[0].heeds.client_directives = ClientDirectives::Revalidate;
    let clock = Clock::held_at(1_800_000_000_000);
    let proxy = Proxy::start_at(plan, clock.clone());
    let mut first = proxy.client();
    first.ask("GET", "/a", &[]).read_head();
    clock.advance(Duration::from_secs(2));
    let others = herd(&proxy, std::iter::repeat_n("Cache-Control: no-cache", EACH));
    gate.arrived(1);
    fence(&proxy);
    gate.open();
    for answer in read(others) {
        assert_eq!(answer.text(), "new");
    }
    // The first of them asks at once; who comes while it waits shares one more.
    assert!(origin.count("/a") <= 3, "{}", origin.count("/a"));
    first_gate.open();
}

/// Who reloads waits for the one before, but not for ever.
#[test]
fn a_reload_behind_an_origin_that_hangs_is_sent_all_the_same() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.nth() == 1 {
            held.pass();
        }
        exchange.send(ok(&[FRESH], format!("{}", exchange.nth())));
    });
    let proxy = Proxy::before(&origin);
    let mut first = herd(&proxy, ["X: 1"]);
    gate.arrived(1);
    let second = proxy.ask("GET", "/a", &["Cache-Control: no-cache"]);
    assert_eq!(second.text(), "2");
    gate.open();
    first[0].read("GET");
}

/// Nobody joins what began before a purge, whichever variant it is.
#[test]
fn a_purge_closes_the_fetches_of_all_variants() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.request.method == "POST" {
            return exchange.send(ok(&[], "done"));
        }
        let is_old = exchange.nth() <= 4;
        if is_old && exchange.nth() > 2 {
            held.pass();
        }
        let body = if is_old { "old" } else { "new" };
        exchange.send(ok(&[STALE, &[VARY]].concat(), body));
    });
    let proxy = Proxy::before(&origin);
    read(herd(&proxy, [GZIP, BR]));
    let early = herd(&proxy, [GZIP, BR]);
    gate.arrived(2);
    assert_eq!(proxy.ask("POST", "/a", &[]).text(), "done");
    for field in [GZIP, BR] {
        let answer = proxy.ask("GET", "/a", &[field]);
        assert_eq!(answer.text(), "new", "{field}");
    }
    gate.open();
    assert!(read(early).iter().all(|answer| answer.text() == "old"));
}
