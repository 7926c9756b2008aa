//! Rules that allow, deny, answer and redirect: asked on every way by which a request is answered, before anything is done for it.

use std::sync::Arc;

use ::proxy::plan::{
    Canned, FieldFits, FieldIs, HostList, Plan, ProxyProtocol, Rule, Scheme, Text, Then, Verdict,
    When,
};

use crate::harness::{
    running::{Plans, forward_plan, with_admin},
    *,
};

fn words(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn deny() -> Then {
    decide(Verdict::Deny { words: None })
}

fn allow() -> Then {
    decide(Verdict::Allow)
}

fn decide(verdict: Verdict) -> Then {
    Then {
        verdict: Some(verdict),
        ..Then::default()
    }
}

fn rule(when: When, then: Then) -> Rule {
    Rule {
        name: None,
        when,
        then,
    }
}

fn paths(paths: &str) -> When {
    When {
        paths: words(paths),
        ..When::default()
    }
}

fn hosts(hosts: &str) -> When {
    When {
        hosts: words(hosts),
        ..When::default()
    }
}

fn clients(networks: &str) -> When {
    let networks = networks.split_whitespace();
    When {
        clients: networks.map(|it| it.parse().unwrap()).collect(),
        ..When::default()
    }
}

fn with(mut plan: Plan, rules: impl Into<Vec<Rule>>) -> Plan {
    plan.rules = rules.into();
    with_admin(plan)
}

/// Clients say by a PROXY header who they are.
fn of_many(mut plan: Plan) -> Plan {
    plan.listeners[0].naming.proxy_protocol = ProxyProtocol::Always;
    plan.listeners[0].allow = vec!["192.0.2.0/24".parse().unwrap()];
    plan
}

fn client(proxy: &Proxy, last: u8) -> Client {
    let mut client = proxy.client();
    client.send(format!("PROXY TCP4 192.0.2.{last} 10.0.0.1 1 80\r\n"));
    client
}

#[track_caller]
fn denied(answer: &Response) {
    assert_eq!(answer.status, 403, "{answer:?}");
    let why = "loligo; error=http_request_denied";
    assert_eq!(answer.field("proxy-status"), Some(why));
    assert_eq!(answer.cache(), "loligo; detail=http_request_denied");
    assert!(!answer.is_hit());
}

#[test]
fn a_denied_client_gets_nothing_from_memory_nor_disk_and_others_do() {
    let disk = Disk::of_mib(16);
    for on_disk in [false, true] {
        let origin = Origin::sending(ok(&[FRESH], "secret"));
        let mut plan = with(plan_for(&origin), [rule(clients("192.0.2.66/32"), deny())]);
        if on_disk {
            plan = disk.under(plan);
            plan.memory_bytes = 0;
        }
        let proxy = Proxy::start(of_many(plan));
        let (mut good, mut bad) = (client(&proxy, 1), client(&proxy, 66));
        denied(&bad.get("/a"));
        assert_eq!(good.get("/a").text(), "secret");
        assert!(good.get("/a").is_hit());
        for fields in [
            &[][..],
            &["Cache-Control: max-stale"],
            &["Range: bytes=0-1"],
            &["If-None-Match: \"x\""],
            &["Cache-Control: only-if-cached"],
        ] {
            denied(&bad.ask("GET", "/a", fields).read("GET"));
        }
        for method in ["HEAD", "OPTIONS", "TRACE", "PURGE", "DELETE", "LINK"] {
            let answer = bad.ask(method, "/a", &[]).read(method);
            assert_eq!(answer.status, 403, "{method}");
        }
        assert_eq!(bad.ask("OPTIONS", "*", &[]).read("OPTIONS").status, 403);
        assert!(good.get("/a").is_hit());
        assert_eq!(origin.requests().len(), 1);
    }
}

#[test]
fn pipelined_requests_are_asked_about_one_by_one() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let proxy = Proxy::start(with(plan_for(&origin), [rule(paths("/no"), deny())]));
    assert_eq!(proxy.get("/a").status, 200);
    let mut client = proxy.client();
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send(["/a", "/no", "/a", "/no/x", "/a"].map(one).concat());
    let statuses = [0; 5].map(|_| client.read("GET").status);
    assert_eq!(statuses, [200, 403, 200, 403, 200]);
    // A body that nobody reads ends the connection.
    client.send("POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    denied(&client.read("POST"));
    client.expect_close();
}

#[test]
fn a_path_cannot_be_written_so_that_a_rule_does_not_see_it() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let rules = [rule(paths("/admin"), deny())];
    let proxy = Proxy::start(with(plan_for(&origin), rules));
    for path in [
        "/admin",
        "/admin/x",
        "/admin?x",
        "/%61dmin",
        "/x/../admin",
        "/x/%2e%2e/admin",
        "/x/%2E./admin/",
        "/x%2f..%2fadmin",
        "//admin",
        "/./admin",
        "/%2561dmin",
        "/x;y/..;z/admin",
        "/admin;x",
    ] {
        denied(&proxy.get(path));
        denied(&proxy.ask("GET", path, &["Cache-Control: max-stale"]));
    }
    for path in ["/adminx", "/x/admin", "/a?/admin", "/admi"] {
        assert_eq!(proxy.get(path).status, 200, "{path}");
    }
    // What is allowed is allowed only if no server could take it for something else.
    let rules = [
        rule(paths("/public"), allow()),
        rule(When::default(), deny()),
    ];
    let proxy = Proxy::start(with(plan_for(&origin), rules));
    for path in ["/public", "/public/a", "/public?a=/../x"] {
        assert_eq!(proxy.get(path).status, 200, "{path}");
    }
    for path in [
        "/public/../admin",
        "/public/%2e%2e/a",
        "/public%2f..%2fa",
        "/",
        "/p",
    ] {
        denied(&proxy.get(path));
    }
}

#[test]
fn a_host_is_known_however_it_is_written() {
    let origin = Origin::sending(ok(&[], "body"));
    let port = origin.address.port();
    let rules = [rule(hosts("localhost *.bad.example 127.0.0.9"), deny())];
    let proxy = Proxy::start(with(forward_plan(&[port]), rules));
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "x.Bad.Example.",
        "127.0.0.9",
        "[::ffff:127.0.0.9]",
    ] {
        let url = format!("http://{host}:{port}/");
        denied(&proxy.get(&url));
        // The target counts, not the field.
        denied(&proxy.ask("GET", &url, &["Host: good.example"]));
        let connect = proxy.ask("CONNECT", &format!("{host}:{port}"), &[]);
        assert_eq!(connect.status, 403, "{host}");
        assert!(connect.field("proxy-status").is_some(), "{host}");
    }
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(proxy.ask("GET", &url, &["Host: localhost"]).status, 200);
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.field("host") != Some("localhost"))
    );
    // Addresses instead of names.
    let rules = [rule(hosts(When::ANY_ADDRESS), deny())];
    let proxy = Proxy::start(with(forward_plan(&[port]), rules));
    denied(&proxy.get(&url));
    assert_eq!(
        proxy.ask("CONNECT", &format!("[::1]:{port}"), &[]).status,
        403
    );
    assert_eq!(proxy.get(&format!("http://localhost:{port}/")).status, 200);
}

#[test]
fn a_tunnel_is_asked_about_by_host_and_port_before_the_name_is_looked_up() {
    let canned = |status| {
        decide(Verdict::Answer(Canned {
            status,
            body: "no".into(),
            content_type: None,
        }))
    };
    let redirect = decide(Verdict::Redirect {
        to: Text::plain("https://a/"),
        status: 302,
    });
    let rules = [
        rule(hosts("ok.invalid"), canned(200)),
        rule(hosts("gone.invalid"), canned(410)),
        rule(hosts("moved.invalid"), redirect),
        // A tunnel has neither path nor scheme.
        rule(paths("/"), deny()),
        rule(
            When {
                scheme: Some(Scheme::Https),
                ..When::default()
            },
            deny(),
        ),
        rule(
            When {
                ports: vec![444..=500],
                ..When::default()
            },
            deny(),
        ),
    ];
    let proxy = Proxy::start(with(forward_plan(&[443, 445]), rules));
    let connect = |to: &str| proxy.ask("CONNECT", to, &[]).status;
    // None of these names exists.
    assert_eq!(connect("ok.invalid:443"), 403);
    assert_eq!(connect("moved.invalid:443"), 403);
    assert_eq!(connect("gone.invalid:443"), 410);
    assert_eq!(connect("any.invalid:445"), 403);
    // Asked of the rules, and then of the system.
    assert!(connect("any.invalid:443") >= 500);
}

#[test]
fn the_first_rule_that_decides_counts_and_is_counted() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let mut tagged = rule(paths("/x"), deny());
    tagged.then.tag = Some("team".to_owned());
    tagged.name = Some("no x".to_owned());
    let sentence = decide(Verdict::Deny {
        words: Some("ask the owner".to_owned()),
    });
    let rules = [
        rule(paths("/x/free"), allow()),
        tagged,
        rule(
            paths("/"),
            Then {
                tag: Some("rest".to_owned()),
                ..Then::default()
            },
        ),
        rule(paths("/y"), sentence),
        rule(paths("/y"), allow()),
    ];
    let proxy = Proxy::start(with(plan_for(&origin), rules));
    assert_eq!(proxy.get("/x/free").status, 200);
    denied(&proxy.get("/x"));
    denied(&proxy.get("/x/more"));
    let answer = proxy.get("/y");
    denied(&answer);
    assert_eq!(answer.text(), "403 Forbidden\nask the owner\n");
    assert!(proxy.get("/x/free").is_hit());
    for line in [
        "loligo_rules_decided_total{rule=\"no x\",decision=\"denied\"} 2",
        "loligo_rules_decided_total{rule=\"rule 4\",decision=\"denied\"} 1",
        "loligo_tagged_requests_total{tag=\"team\"} 4",
        "loligo_tagged_requests_total{tag=\"rest\"} 1",
    ] {
        // A request is counted behind its answer.
        eventually(line, || {
            let metrics = proxy.admin("GET", "/metrics");
            metrics.text().contains(line).then_some(())
        });
    }
    let status: serde_json::Value =
        serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
    assert_eq!(status["rules"][0]["name"], "no x");
    assert_eq!(status["rules"][0]["requests"], 2);
    assert_eq!(status["rules"][0]["decision"], "denied");
}

#[test]
fn answers_and_redirects_come_from_here() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let canned = |status, body: &'static str| {
        decide(Verdict::Answer(Canned {
            status,
            body: body.into(),
            content_type: Some("text/plain".to_owned()),
        }))
    };
    let to = Text::parse("https://${host}:${port}${path}${query}", false).unwrap();
    let rules = [
        rule(paths("/robots.txt"), canned(200, "User-agent: *\n")),
        rule(paths("/ping"), canned(204, "")),
        rule(paths("/old"), decide(Verdict::Redirect { to, status: 308 })),
    ];
    let proxy = Proxy::start(with(plan_for(&origin), rules));
    let mut client = proxy.client();
    let robots = client.get("/robots.txt");
    assert_eq!((robots.status, robots.text()), (200, "User-agent: *\n"));
    assert_eq!(robots.field("content-type"), Some("text/plain"));
    let head = client.ask("HEAD", "/robots.txt", &[]).read("HEAD");
    assert_eq!(
        (head.text(), head.field("content-length")),
        ("", Some("14"))
    );
    let ping = client.get("/ping");
    assert_eq!((ping.status, ping.field("content-length")), (204, None));
    let moved = client
        .ask("GET", "/old/a%20b?x=1&y", &["Host: WWW.example.org:81"])
        .read("GET");
    assert_eq!(moved.status, 308);
    let location = "https://www.example.org:81/old/a%20b?x=1&y";
    assert_eq!(moved.field("location"), Some(location));
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn conditions_about_fields_and_queries_hold_on_each_way() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let field = |name: &str, how| FieldFits {
        name: name.to_owned(),
        how,
    };
    let rules = [
        rule(
            When {
                fields: vec![
                    field("user-agent", FieldIs::One(words("*bot* *crawl*"))),
                    field("x-good", FieldIs::There(false)),
                ],
                ..When::default()
            },
            deny(),
        ),
        rule(
            When {
                queries: words("debug mode=*raw"),
                ..When::default()
            },
            deny(),
        ),
    ];
    let mut plan = with(plan_for(&origin), rules);
    plan.limits.head_bytes_max = 128 << 10;
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("/a").status, 200);
    let ask = |fields: &[&str]| proxy.ask("GET", "/a", fields).status;
    assert_eq!(ask(&["User-Agent: a bot"]), 403);
    assert_eq!(ask(&["User-Agent: a", "user-agent: crawler"]), 403);
    assert_eq!(ask(&["User-Agent: a bot", "X-Good:"]), 200);
    assert_eq!(ask(&["User-Agent: a Bot"]), 200);
    let long = format!("User-Agent: {}", "a".repeat(60_000));
    assert_eq!(ask(&[&long]), 200);
    for query in [
        "debug",
        "x=1&debug=",
        "d%65bug=1",
        "mode=very+raw",
        "x;mode=raw",
    ] {
        assert_eq!(proxy.get(&format!("/q?{query}")).status, 403, "{query}");
    }
    for query in ["debugs", "mode=rare", "x=debug", ""] {
        assert_eq!(proxy.get(&format!("/q?{query}")).status, 200, "{query}");
    }
}

#[test]
fn a_list_of_hosts_is_read_again_when_its_file_changes_and_kept_when_that_is_wrong() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hosts");
    std::fs::write(&path, "# ads\n.ads.example\n").unwrap();
    let when = When {
        host_lists: vec![Arc::new(HostList::read(&path).unwrap())],
        ..When::default()
    };
    let plan = with(plan_for(&origin), [rule(when, deny())]);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let status = |host: &str| proxy.ask("GET", "/a", &[&format!("Host: {host}")]).status;
    assert_eq!(
        [status("x.ADS.example."), status("more.example")],
        [403, 200]
    );
    let replace = |text: &str| {
        let other = directory.path().join("other");
        std::fs::write(&other, text).unwrap();
        std::fs::rename(&other, &path).unwrap();
    };
    replace(".more.example\n");
    eventually("the new list", || {
        (status("more.example") == 403).then_some(())
    });
    assert_eq!(status("x.ads.example"), 200);
    replace("what is this?\n");
    eventually("the refusal", || {
        (proxy.counter("config_reload_failures") == 1).then_some(())
    });
    assert_eq!(status("more.example"), 403);
    replace("third.example\n");
    eventually("the third list", || {
        (status("third.example") == 403).then_some(())
    });
    assert_eq!(status("more.example"), 200);
}

#[test]
fn a_rule_holds_for_connections_that_are_open_when_it_comes() {
    let origin = Origin::sending(ok(&[FRESH], "body"));
    let plan = with(plan_for(&origin), []);
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    let mut client = proxy.client();
    assert_eq!(client.get("/a").status, 200);
    assert!(client.get("/a").is_hit());
    let when = clients("127.0.0.0/8");
    plans.set(Ok(with(plan, [rule(when, deny())])));
    assert_eq!(proxy.admin("POST", "/reload").status, 200);
    denied(&client.get("/a"));
    denied(&proxy.get("/a"));
}
