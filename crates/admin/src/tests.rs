//! Requests to the admin interface, and which of them are allowed.

use super::*;
use base::pulse::Pulse;
use cache::opening::Absent;
use exchange::testing;
use plan::{Listener, Plan};

fn ask_as(admin: &Admin, host: Option<&str>, method: &str, target: &str) -> Answer {
    let request = Request {
        method,
        target,
        host,
        site: None,
        accept: None,
        is_of_a_page: false,
        peer: None,
    };
    testing::wait(admin.answer(&request))
}

#[test]
fn a_page_of_another_site_does_not_listen() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    // Without a journal there is no profile to listen to.
    for (site, status) in [
        (None, 503),
        (Some("none"), 503),
        (Some("same-origin"), 503),
        (Some("same-site"), 403),
        (Some("cross-site"), 403),
    ] {
        let request = Request {
            method: "GET",
            target: "/profile",
            host: Some("127.0.0.1:3129"),
            site: site.map(str::as_bytes),
            accept: None,
            is_of_a_page: false,
            peer: None,
        };
        let answer = testing::wait(admin.answer(&request));
        assert_eq!(answer.status, status, "{site:?}");
    }
}

fn ask(method: &str, target: &str) -> (u16, String) {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    let answer = ask_as(&admin, Some("127.0.0.1:3129"), method, target);
    (answer.status, String::from_utf8(answer.body).unwrap())
}

#[test]
fn everything_on_the_list_is_there() {
    assert_eq!(ask("GET", "/").0, 200);
    for line in INDEX.lines().skip(2) {
        let (method, rest) = line.split_once(' ').unwrap();
        let target = rest
            .split("  ")
            .next()
            .unwrap()
            .replace("URL", "http%3A%2F%2Fh%2F");
        let (status, body) = ask(method, &target);
        // The test has no journal to listen to, no cluster to route in, and no file to reload or start from.
        let is_absent = ["/profile", "/reload", "/upgrade"].contains(&&*target)
            || target.starts_with("/cluster/");
        let expected = if is_absent { 503 } else { 200 };
        assert_eq!(status, expected, "{method} {target}: {body}");
    }
}

#[test]
fn what_is_not_there_says_what_is() {
    let (status, body) = ask("GET", "/nothing");
    assert_eq!(status, 404);
    assert!(body.contains("GET /status"));
}

#[test]
fn wrong_methods_are_told_the_right_ones() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    for (method, target, allow) in [
        ("POST", "/status", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("GET", "/cache?url=x", "DELETE"),
        ("OPTIONS", "*", "GET, HEAD, POST, PURGE, DELETE"),
        ("CONNECT", "h:443", "GET, HEAD, POST, PURGE, DELETE"),
    ] {
        let answer = ask_as(&admin, Some("localhost"), method, target);
        assert_eq!(
            (answer.status, answer.allow),
            (405, Some(allow)),
            "{method} {target}"
        );
    }
}

#[test]
fn it_is_no_proxy_but_takes_whole_urls_of_its_own() {
    assert_eq!(ask("GET", "http://127.0.0.1:3129/healthz").0, 200);
    assert_eq!(ask("GET", "http://[::1]:3129").0, 200);
    assert_eq!(ask("GET", "http://www.example.org/healthz").0, 421);
}

#[test]
fn health_follows_the_phase() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    let health = || ask_as(&admin, None, "GET", "/healthz").status;
    assert_eq!(health(), 200);
    admin.shared.phase.send_replace(Phase::Draining);
    assert_eq!(health(), 503);
    // A supervisor that restarts the process when it does not live must let it finish its requests.
    assert_eq!(ask_as(&admin, None, "GET", "/livez").status, 200);
}

#[test]
fn health_is_answered_while_all_turns_are_taken() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    let turns: Vec<_> = (0..64).map(|_| testing::wait(admin.room.turn())).collect();
    let status = |target: &str| {
        let request = Request {
            method: "GET",
            target,
            host: Some("localhost"),
            site: None,
            accept: None,
            is_of_a_page: false,
            peer: None,
        };
        let place = Place::new();
        let mut answer = std::pin::pin!(admin.answer_at(&place, &request));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match answer.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => Some(answer.status),
            std::task::Poll::Pending => None,
        }
    };
    for path in ["/healthz", "/livez?x", "/status"] {
        let expected = (path != "/status").then_some(200);
        assert_eq!(status(path), expected, "{path}");
        //= rfc9112 §3.2.2   the absolute form is the same request
        let whole = format!("http://localhost:3129{path}");
        assert_eq!(status(&whole), expected, "{whole}");
    }
    drop(turns);
}

#[test]
fn health_fails_when_a_worker_stands_still_and_tells_of_stores_left_out() {
    let mut shared = testing::shared();
    let inner = Arc::get_mut(&mut shared).unwrap();
    let cache = Arc::get_mut(&mut inner.cache).unwrap();
    cache.absent.push(Absent {
        path: "/x/store".into(),
        why: "it is broken".to_owned(),
    });
    let admin = Admin::new(shared, testing::no_upgrade);
    let answer = ask_as(&admin, None, "GET", "/healthz");
    assert_eq!(answer.status, 200);
    let said = String::from_utf8(answer.body).unwrap();
    assert!(said.contains("/x/store: left out: it is broken"), "{said}");

    let mut shared = testing::shared();
    let pulses = &mut Arc::get_mut(&mut shared).unwrap().pulses;
    pulses[1] = Pulse::still_for(Duration::from_secs(11));
    let admin = Admin::new(shared, testing::no_upgrade);
    let answer = ask_as(&admin, None, "GET", "/healthz");
    assert_eq!(answer.status, 503);
    let said = String::from_utf8(answer.body).unwrap();
    assert!(said.contains("worker 1 has not moved"), "{said}");
    assert_eq!(ask_as(&admin, None, "GET", "/livez").status, 503);
    admin.shared.pulses[1].beat();
    assert_eq!(ask_as(&admin, None, "GET", "/healthz").status, 200);
}

#[test]
fn a_page_under_another_name_may_neither_look_nor_purge() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    for host in [
        Some("rebound.example"),
        Some("127.0.0.1.example:3129"),
        None,
    ] {
        for (method, target) in [
            ("PURGE", "/http://h/a"),
            ("DELETE", "/cache?url=http://h/a"),
            ("DELETE", "/cache?prefix=http://h/"),
            ("DELETE", "/cache?soft=1&tag=a"),
        ] {
            let answer = ask_as(&admin, host, method, target);
            assert_eq!(answer.status, 403, "{host:?} {method}");
        }
        // Browsers always send Host.
        let looks = if host.is_none() { 200 } else { 421 };
        assert_eq!(ask_as(&admin, host, "GET", "/metrics").status, looks);
    }
    for host in [
        "localhost",
        "LOCALHOST:3129",
        "192.0.2.1:3129",
        "[2001:db8::1]:3129",
    ] {
        let answer = ask_as(&admin, Some(host), "PURGE", "/http://h/a");
        assert_eq!(answer.status, 200, "{host}");
    }
    // Like a request to a proxy: Host must equal the URL's host (RFC 9112 §3.2.2).
    let answer = ask_as(&admin, Some("h"), "PURGE", "http://h/a");
    assert_eq!(answer.status, 200);
    assert_eq!(admin.purges.get(), 5);
}

#[test]
fn a_name_of_the_settings_is_as_good_as_an_address() {
    let address = "127.0.0.1:3128".parse().unwrap();
    let mut plan = Plan::with_listeners(vec![Listener::forward(address, Vec::new())]);
    let names = vec!["cache.example".to_owned(), "*.pods.example".to_owned()];
    plan.admin_names = names;
    let admin = Admin::new(testing::shared_of(plan), testing::no_upgrade);
    for (host, served) in [
        ("cache.example:3129", true),
        ("Cache.Example.", true),
        ("a.pods.example", true),
        ("pods.example", false),
        ("cache.example.evil.example", false),
    ] {
        let looks = ask_as(&admin, Some(host), "GET", "/status").status;
        assert_eq!(looks == 200, served, "{host}");
        let purges = ask_as(&admin, Some(host), "PURGE", "/http://h/a").status;
        assert_eq!(purges == 200, served, "{host}");
    }
}

#[test]
fn purges_say_whether_anything_was_there() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    let purge = || {
        let answer = ask_as(&admin, Some("localhost"), "PURGE", "/http://h/a");
        String::from_utf8(answer.body).unwrap()
    };
    assert!(purge().contains("\"purged\": false"));
    let keys = exchange::request::target::names_of_url(
        &admin.listeners(),
        "http://h/a",
        exchange::request::target::Names::All,
    )
    .unwrap();
    let key = admin.shared.cache.hasher().hash(&keys[0]);
    let began = admin.shared.cache.store.sequence(key);
    admin
        .shared
        .cache
        .store
        .set_marker(key, b"accept", began)
        .unwrap();
    assert!(purge().contains("\"purged\": true"));
    assert!(purge().contains("\"purged\": false"));
    for bad in ["/", "/status", "/http:/h/a", "/ftp://h/a"] {
        let answer = ask_as(&admin, Some("localhost"), "PURGE", bad);
        assert_eq!(answer.status, 400, "{bad}");
    }
    assert!(ask("GET", "/metrics").1.contains("loligo_purges_total 0\n"));
    let body = ask_as(&admin, None, "GET", "/metrics").body;
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains("loligo_purges_total 3\n")
    );
}

#[test]
fn only_allowed_clients_are_served() {
    let admin = Admin::new(testing::shared(), testing::no_upgrade);
    assert!(admin.serves("127.0.0.1".parse().unwrap()));
    assert!(!admin.serves("192.0.2.1".parse().unwrap()));
}

#[test]
fn the_dashboard_needs_nothing_from_elsewhere_and_finds_its_places() {
    let page = include_str!("dashboard.html");
    for outside in ["src=", "href=", "url(", "@import", "https://"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for call in ["$(\"", "list(\"", "table(\"", "bar(\"", "choice(\""] {
        let mut found = page.split(call).skip(1).peekable();
        assert!(found.peek().is_some(), "{call}");
        for rest in found {
            let id = rest.split('"').next().unwrap();
            // `$("top-" + kind)` stands for one id of each kind.
            let ids = match id {
                "top-" => vec!["top-hosts".to_owned(), "top-urls".to_owned()],
                id => vec![id.to_owned()],
            };
            for id in ids {
                assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            }
        }
    }
}
