//! PURGE on a listener's own port, as an application sends it, and from whom it is taken.

use ::proxy::plan::{Plan, Role};

use crate::harness::{running::forward_plan, *};

/// Where the clients of these tests are.
const HERE: &str = "127.0.0.0/8";

fn purging(mut plan: Plan, from: &str) -> Plan {
    plan.listeners[0].purge_from = vec![from.parse().unwrap()];
    plan
}

fn origin() -> Origin {
    Origin::sending(ok(&[FRESH], "x"))
}

fn purge(proxy: &Proxy, target: &str, fields: &[&str]) -> Response {
    proxy.ask("PURGE", target, fields)
}

#[test]
fn an_application_purges_what_its_clients_ask_for() {
    let origin = origin();
    let proxy = Proxy::start(purging(plan_for(&origin), HERE));
    proxy.get("/a?b=c");
    assert!(proxy.get("/a?b=c").is_hit());
    let answer = purge(&proxy, "/a?b=c", &["Content-Length: 0"]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert!(answer.text().contains("\"purged\": true"), "{answer:?}");
    assert!(answer.text().contains("\"durable\": true"), "{answer:?}");
    assert!(!proxy.get("/a?b=c").is_hit());
    // And its connection stays.
    let mut client = proxy.client();
    for purged in ["\"purged\": true", "\"purged\": false"] {
        let answer = client.ask("PURGE", "/a?b=c", &[]).read("PURGE");
        assert!(answer.text().contains(purged), "{answer:?}");
    }
    assert_eq!(origin.requests().len(), 2, "no PURGE was forwarded");
}

#[test]
fn a_forward_listener_takes_the_whole_url() {
    let origin = origin();
    let proxy = Proxy::start(purging(forward_plan(&[]), HERE));
    let url = format!("http://{}/a", origin.address);
    proxy.get(&url);
    assert!(purge(&proxy, &url, &[]).text().contains("\"purged\": true"));
    assert!(!proxy.get(&url).is_hit());
    assert_eq!(purge(&proxy, "/a", &[]).status, 400);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn nobody_else_purges_and_no_purge_goes_on() {
    let origin = origin();
    for (plan, status) in [
        (plan_for(&origin), 405),
        (purging(plan_for(&origin), "192.0.2.0/24"), 403),
    ] {
        let served = origin.requests().len();
        let proxy = Proxy::start(plan);
        proxy.get("/a");
        let answer = purge(&proxy, "/a", &[]);
        assert_eq!(answer.status, status);
        assert_eq!(answer.field("allow").is_some(), status == 405);
        // What is behind a body is no request; it is not read.
        let mut client = proxy.client();
        client.ask("PURGE", "/a", &["Content-Length: 4"]);
        assert_eq!(client.read("PURGE").field("connection"), Some("close"));
        assert!(proxy.get("/a").is_hit(), "{status}");
        assert_eq!(origin.requests().len(), served + 1, "{status}");
    }
}

#[test]
fn soft_and_everything_below_as_modules_ask_for_it() {
    let origin = origin();
    let proxy = Proxy::start(purging(plan_for(&origin), HERE));
    let fill = || ["/a", "/shop/b", "/shop/c"].map(|path| proxy.get(path).is_hit());
    fill();
    assert_eq!(fill(), [true; 3]);
    let answer = purge(&proxy, "/shop/b", &["Fastly-Soft-Purge: 1"]);
    assert!(answer.text().contains("\"soft\": true"), "{answer:?}");
    assert_eq!(fill(), [true, false, true]);
    let regex = ["X-Purge-Method: regex"];
    assert_eq!(purge(&proxy, "/shop/.*", &regex).status, 200);
    assert_eq!(fill(), [true, false, false]);
    assert_eq!(purge(&proxy, "/.*", &regex).status, 200);
    assert_eq!(fill(), [false; 3]);
    // What cannot be carried out is not said to have been.
    for pattern in ["/(a|b).*", "/a$", "/a.*b.*"] {
        assert_eq!(purge(&proxy, pattern, &regex).status, 501, "{pattern}");
    }
    assert_eq!(fill(), [true; 3]);
}

/// Two listeners store the same URL. A permit on one of them reaches it only if the clients there can ask for that URL too; then it
/// goes, whoever stored it.
#[test]
fn a_permit_is_for_what_clients_of_its_listener_can_ask_for() {
    let origin = origin();
    let url = format!("http://{}/a", origin.address);
    let host = format!("Host: {}", origin.address);
    for any_host in [false, true] {
        let mut plan = purging(plan_for(&origin), HERE);
        if let Role::Reverse(routes) = &mut plan.listeners[0].role {
            routes[0].host = (!any_host).then(|| "test.example".to_owned());
        }
        plan.listeners.extend(forward_plan(&[]).listeners);
        let proxy = Proxy::start(plan);
        let mut there = Client::connect(proxy.ready.listeners[1]);
        for (target, fields) in [(url.as_str(), &[][..]), ("/a", &[host.as_str()])] {
            there.get(&url);
            assert!(there.get(&url).is_hit());
            let status = if any_host { 200 } else { 404 };
            assert_eq!(purge(&proxy, target, fields).status, status);
            assert_eq!(there.get(&url).is_hit(), !any_host, "{target}");
        }
    }
}

/// A purge of something else than a URL is not taken for one of a URL: the tags' pages would stay, and the home page go.
#[test]
fn what_is_no_purge_of_a_url_is_refused_and_purges_nothing() {
    let origin = origin();
    let proxy = Proxy::start(purging(plan_for(&origin), HERE));
    proxy.get("/");
    for (method, target, fields) in [
        (
            "PURGE",
            "/",
            &["X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))"][..],
        ),
        ("PURGE", "/", &["Surrogate-Key: article-7"]),
        ("PURGE", "/", &["Cache-Tags: article-7"]),
        ("PURGE", "/", &["Cache-Tag: article-7"]),
        ("PURGE", "/", &["X-Cache-Tags: article-7"]),
        ("PURGE", "/", &["xkey: article-7", "Fastly-Soft-Purge: 1"]),
        ("PURGE", "/", &["xkey-softpurge: article-7"]),
        ("PURGE", "/*", &[]),
        ("PURGE", "/shop*", &[]),
        ("PURGE", "*", &[]),
        ("BAN", "/", &["X-Host: a", "X-Url: .*"]),
        ("PURGEKEYS", "/", &["xkey: article-7"]),
    ] {
        let answer = proxy.ask(method, target, fields);
        assert_eq!(answer.status, 501, "{method} {target} {fields:?}");
        assert!(answer.text().contains("admin interface"), "{answer:?}");
        assert!(proxy.get("/").is_hit(), "{method} {target} {fields:?}");
    }
    assert_eq!(origin.requests().len(), 1, "nothing was forwarded");
    // Where nobody may purge, nobody hears more than that.
    let proxy = Proxy::start(plan_for(&origin));
    assert_eq!(proxy.ask("BAN", "/", &[]).status, 405);
    let proxy = Proxy::start(purging(plan_for(&origin), "192.0.2.0/24"));
    assert_eq!(proxy.ask("BAN", "/", &[]).status, 403);
    assert_eq!(purge(&proxy, "/", &["xkey: a"]).status, 403);
}
