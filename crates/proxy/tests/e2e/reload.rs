//! A new configuration while the proxy serves: what is live, what wants a restart, and that no connection is cut.
//!
//! The rows of the table of `docs/operations.md`, one test or more each.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use ::proxy::plan::{
    AccessFormat, AccessLog, Listener, LogTarget, Plan, Role, Rule, StorePlan, Then, When,
};
use serde_json::Value;

use super::harness::{names::NameServer, running::*, *};

/// A proxy whose configuration may change.
struct House {
    plan: Plan,
    plans: Plans,
    proxy: Proxy,
}

impl House {
    fn of(plan: Plan) -> House {
        let plan = with_admin(plan);
        let plans = Plans::of(&plan);
        House {
            proxy: Proxy::start_reloadable(&plans),
            plan,
            plans,
        }
    }

    /// Changes the configuration; what the admin interface says.
    fn try_change(&mut self, target: &str, change: impl FnOnce(&mut Plan)) -> Response {
        change(&mut self.plan);
        self.plans.set(Ok(self.plan.clone()));
        self.proxy.admin("POST", target)
    }

    /// The same, and it must be in force.
    #[track_caller]
    fn change(&mut self, change: impl FnOnce(&mut Plan)) -> String {
        let answer = self.try_change("/reload", change);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let listeners = self.listeners();
        self.proxy.listens(&listeners, &self.plan);
        answer.text().to_owned()
    }

    /// The same, and it must be refused with these words in its reason; nothing has changed.
    #[track_caller]
    fn refused(&mut self, change: impl FnOnce(&mut Plan), why: &str) {
        let (plan, before) = (self.plan.clone(), self.in_force());
        let answer = self.try_change("/reload", change);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
        assert_eq!(self.in_force(), before);
        self.plan = plan;
    }

    fn status(&self) -> Value {
        serde_json::from_str(self.proxy.admin("GET", "/status").text()).unwrap()
    }

    /// What `/status` says of configuration and listeners, but for refusals.
    fn in_force(&self) -> Value {
        let status = self.status();
        let mut configuration = status["configuration"].clone();
        let told = configuration.as_object_mut().unwrap();
        told.remove("reloads_refused");
        told.remove("last_refused");
        serde_json::json!([
            configuration,
            status["listeners"],
            status["admin"],
            status["memory"]["bytes_max"],
            status["connections"]["max"],
            status["transfers"]["bytes_max"],
        ])
    }

    fn edition(&self) -> u64 {
        self.status()["configuration"]["edition"].as_u64().unwrap()
    }

    /// Where clients connect, in the order of the configuration.
    fn listeners(&self) -> Vec<SocketAddr> {
        let status = self.status();
        let listeners = status["listeners"].as_array().unwrap();
        let address = |listener: &Value| listener["address"].as_str().unwrap().parse().unwrap();
        listeners.iter().map(address).collect()
    }
}

fn origin_of(text: &'static str) -> Origin {
    Origin::start(move |exchange| exchange.send(ok(&[FRESH], text)))
}

/// A free port that is not 0: such a listener is known again.
fn free_address() -> SocketAddr {
    TcpListener::bind(local()).unwrap().local_addr().unwrap()
}

#[test]
fn a_connection_stays_and_its_next_request_is_of_the_new_configuration() {
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    assert!(client.get("/a").cache().starts_with("loligo;"));
    assert_eq!(house.edition(), 1);
    let told = house.change(|plan| plan.name = "other".to_owned());
    assert!(told.contains("in force as edition 2"), "{told}");
    let hit = client.get("/a");
    assert!(hit.cache().starts_with("other; hit"), "{}", hit.cache());
    let status = house.status();
    let configuration = &status["configuration"];
    assert_eq!(configuration["edition"], 2);
    assert!(configuration["by"].as_str().unwrap().contains("127.0.0.1"));
    let metrics = house.proxy.admin("GET", "/metrics");
    assert!(metrics.text().contains("\nloligo_config_edition 2\n"));
    assert!(
        metrics
            .text()
            .contains("\nloligo_config_reload_failures_total 0\n")
    );
    assert!(metrics.text().contains("\nloligo_config_loaded_seconds "));
}

#[test]
fn what_began_under_a_configuration_ends_under_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "x"));
    });
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    client.ask("GET", "/a", &[]);
    gate.arrived(1);
    house.change(|plan| {
        plan.name = "other".to_owned();
        plan.listeners[0].role = Role::Reverse(Vec::new());
    });
    gate.open();
    let answer = client.read("GET");
    assert_eq!((answer.status, answer.text()), (200, "x"));
    assert!(answer.cache().starts_with("loligo;"), "{}", answer.cache());
    assert_eq!(client.get("/a").status, 404, "there is no route any more");
}

#[test]
fn a_refused_configuration_leaves_everything_as_it_was() {
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    client.get("/a");
    let before = house.in_force();
    house.plans.set(Err(
        "loligo.toml:3: memory = \"1\": too little\nloligo.toml:9: x: there is no such setting"
            .to_owned(),
    ));
    let answer = house.proxy.admin("POST", "/reload");
    assert_eq!(answer.status, 422);
    assert!(
        answer
            .text()
            .starts_with("loligo.toml:3: memory = \"1\": too little\nloligo.toml:9:")
    );
    assert_eq!(house.in_force(), before);
    let status = house.status();
    let configuration = &status["configuration"];
    assert_eq!(configuration["reloads_refused"], 1);
    assert_eq!(
        configuration["last_refused"]["why"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    house.proxy.await_count("config_reload_failures", 1);
    assert!(client.get("/a").is_hit(), "its connection is as it was");

    // What is bound already makes all of it fail, the part that would work included.
    let taken = TcpListener::bind(local()).unwrap();
    let address = taken.local_addr().unwrap();
    let add = |plan: &mut Plan| {
        plan.name = "other".to_owned();
        plan.listeners
            .push(Listener::forward(free_address(), Vec::new()));
        plan.listeners.push(Listener::forward(address, Vec::new()));
    };
    house.refused(add, "cannot listen there");
    house.refused(
        |plan| plan.tls.ca_file = Some("/missing.pem".into()),
        "TLS to origins: /missing.pem: cannot be read",
    );
    let log = |plan: &mut Plan| plan.logs.profile = Some("/missing/profile".into());
    house.refused(log, "log.profile");
    assert!(client.get("/a").cache().starts_with("loligo;"));
    // Nothing is left that would hinder the next one.
    house.change(|plan| plan.name = "other".to_owned());
    assert!(client.get("/a").cache().starts_with("other;"));
}

#[test]
fn what_wants_a_restart_refuses_the_whole_or_is_left_out() {
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    house.refused(|plan| plan.workers = 2, "workers changed");
    let store = |plan: &mut Plan| plan.stores.push(StorePlan::at("/x", None));
    house.refused(store, "[[store]] changed");
    house.refused(|plan| plan.storing.required = false, "[store] changed");
    house.refused(|plan| plan.admin = None, "admin.address changed");
    house.refused(|plan| plan.logs.top = true, "admin.top changed");
    house.refused(|plan| plan.icp.rate_max = 1, "[icp] changed");
    let answer = house.try_change("/reload?partial=1", |plan| {
        plan.workers = 2;
        plan.name = "other".to_owned();
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(house.proxy.get("/a").cache().starts_with("other;"));
    let status = house.status();
    assert_eq!(status["configuration"]["wanting_a_restart"][0], "workers");
    assert_eq!(status["workers"].as_array().unwrap().len(), 1);
    house.refused(|_| {}, "workers changed");
    house.change(|plan| plan.workers = 1);
    assert!(
        house.status()["configuration"]
            .get("wanting_a_restart")
            .is_none()
    );
    assert_eq!(house.proxy.admin("POST", "/reload?partial=2").status, 400);
}

#[test]
fn listeners_come_and_go_and_no_connection_is_cut() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            held.pass();
        }
        exchange.send(ok(&[FRESH], "x"));
    });
    let reverse = |address| way::dress(Listener::reverse(address, Vec::new(), url(origin.address)));
    let mut plan = plan_for(&origin);
    plan.workers = 2;
    let mut house = House::of(plan);
    let mut of_first = house.proxy.client();
    of_first.get("/a");

    house.change(|plan| plan.listeners.push(reverse(local())));
    let listeners = house.listeners();
    assert_eq!(listeners.len(), 2);
    assert_eq!(
        listeners[0],
        house.proxy.address(),
        "port 0 means the same port"
    );
    let mut idle = Client::connect(listeners[1]);
    assert!(idle.get("/a").is_hit());
    let mut busy = Client::connect(listeners[1]);
    busy.ask("GET", "/held", &[]);
    gate.arrived(1);

    house.change(|plan| plan.listeners.truncate(1));
    idle.expect_close();
    eventually("nobody listens there", || {
        TcpStream::connect(listeners[1]).err()
    });
    gate.open();
    assert_eq!(busy.read("GET").text(), "x");
    busy.expect_close();
    assert!(of_first.get("/a").is_hit());

    // The other way round: the first goes, and the second takes its place in the list.
    house.change(|plan| plan.listeners = vec![reverse(listeners[1])]);
    assert_eq!(house.listeners(), [listeners[1]]);
    of_first.expect_close();
    assert!(Client::connect(listeners[1]).get("/a").is_hit());
    let of = |answers: &Value, address: SocketAddr| {
        let rows = answers.as_array().unwrap().iter();
        let of_it = rows.filter(|row| row["listener"] == address.to_string());
        of_it
            .map(|row| row["by_status"]["2xx"].as_u64().unwrap())
            .sum::<u64>()
    };
    eventually("each answer is counted where it was given", || {
        let answers = &house.status()["answers"];
        let counted = (of(answers, listeners[0]), of(answers, listeners[1]));
        (counted == (2, 3)).then_some(())
    });
}

#[test]
fn who_is_not_allowed_any_more_is_let_go() {
    let Some(own) = super::access::own_address() else {
        return;
    };
    let origin = origin_of("x");
    let mut plan = plan_for(&origin);
    plan.listeners[0].address = "0.0.0.0:0".parse().unwrap();
    plan.listeners[0].allow = vec![own.into()];
    let mut house = House::of(plan);
    let address = SocketAddr::new(own, house.proxy.address().port());
    let mut client = Client::connect(address);
    assert_eq!(client.get("/a").status, 200);
    house.change(|plan| plan.listeners[0].allow = vec!["192.0.2.1/32".parse().unwrap()]);
    client.ask("GET", "/a", &[]);
    client.expect_cut();
    Client::connect(address).expect_cut();
    house.change(|plan| plan.listeners[0].allow = vec![own.into()]);
    assert!(Client::connect(address).get("/a").is_hit());
}

#[test]
fn routes_are_live_and_keys_that_change_are_told() {
    let (first, second) = (origin_of("first"), origin_of("second"));
    let mut house = House::of(plan_for(&first));
    let mut client = house.proxy.client();
    assert_eq!(client.get("/a").text(), "first");
    let to = |origin: &Origin| {
        let mut listener = Listener::reverse(local(), Vec::new(), url(origin.address));
        listener.heeds = plan_for(origin).listeners[0].heeds;
        listener
    };
    let told = house.change(|plan| plan.listeners = vec![to(&second)]);
    assert!(
        told.contains("no longer finds all that it has stored"),
        "{told}"
    );
    assert_eq!(client.get("/a").text(), "second");
    let told = house.change(|plan| plan.name = "other".to_owned());
    assert!(!told.contains("no longer finds"), "{told}");
}

#[test]
fn rules_and_the_choices_of_caching_are_live() {
    let origin = Origin::start(|exchange| exchange.send(ok(&[], "x")));
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    let mut is_kept = |path: &str| {
        client.get(path);
        client.get(path).is_hit()
    };
    assert!(!is_kept("/a"));
    house.change(|plan| plan.cache.default_ttl = Duration::from_secs(60));
    assert!(is_kept("/b"));
    house.change(|plan| {
        plan.rules = vec![Rule {
            name: None,
            when: When {
                paths: vec!["/c".to_owned()],
                ..When::default()
            },
            then: Then {
                bypass: Some(true),
                ..Then::default()
            },
        }];
    });
    assert!(!is_kept("/c") && is_kept("/d"));
    house.change(|plan| plan.rules.clear());
    assert!(is_kept("/c"));
}

#[test]
fn limits_and_time_outs_are_live() {
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    assert_eq!(client.get("/a").status, 200);
    house.change(|plan| plan.limits.connections_max = 1);
    house.proxy.client().expect_cut();
    house.change(|plan| {
        plan.limits.connections_max = 10;
        plan.limits.head_bytes_max = 4096;
        plan.limits = plan.limits.clone().derived();
    });
    let long = format!("X: {}", "x".repeat(5000));
    assert_eq!(house.proxy.ask("GET", "/a", &[&long]).status, 431);
    house.change(|plan| plan.timeouts.client_idle = Duration::from_secs(1));
    assert_eq!(
        client.get("/a").status,
        200,
        "it has waited under the old one"
    );
    client.expect_close();
    house.change(|plan| {
        plan.memory_bytes = 128 << 20;
        plan.limits.transfer_buffer_bytes = 8 << 20;
    });
    let status = house.status();
    assert_eq!(status["memory"]["bytes_max"], 128 << 20);
    assert_eq!(status["transfers"]["bytes_max"], 8 << 20);
}

#[test]
fn less_memory_evicts_what_is_too_much_and_no_more() {
    let origin = Origin::start(|exchange| exchange.send(ok(&[FRESH], [b'x'; 50_000])));
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    for number in 0..200 {
        client.get(&format!("/{number}"));
    }
    let bytes = |house: &House| house.status()["memory"]["bytes"].as_u64().unwrap();
    assert!(bytes(&house) > 9 << 20);
    house.change(|plan| plan.memory_bytes = 8 << 20);
    eventually("it is small enough", || {
        (bytes(&house) <= 8 << 20).then_some(())
    });
    assert!(bytes(&house) > 6 << 20);
    house.change(|plan| plan.memory_bytes = 0);
    eventually("it is empty", || (bytes(&house) == 0).then_some(()));
    assert_eq!(client.get("/1").status, 200);
}

#[test]
fn names_and_the_pool_are_live() {
    let gate = Gate::new();
    let server = NameServer::start(&gate);
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/held" {
            held.pass();
        }
        exchange.send(ok(&[FRESH], "x"));
    });
    let nobody = free_address();
    let mut plan = forward_plan(&[]);
    plan.dns.servers = vec![nobody];
    (plan.dns.timeout, plan.dns.attempts) = (Duration::from_secs(1), 1);
    plan.cache.unreachable_ttl = Duration::ZERO;
    plan.pool.per_origin_max = 1;
    plan.timeouts.connect = Duration::from_secs(1);
    let mut house = House::of(plan);
    let url = |path: &str| format!("http://a.example:{}{path}", origin.address.port());
    assert!(house.proxy.get(&url("/a")).status >= 502);
    house.change(|plan| plan.dns.servers = vec![server.address]);
    assert_eq!(house.proxy.get(&url("/a")).status, 200);

    let mut client = house.proxy.client();
    client.ask("GET", &url("/held"), &[]);
    gate.arrived(1);
    assert_eq!(
        house.proxy.get(&url("/b")).status,
        503,
        "there is one connection alone"
    );
    house.change(|plan| plan.pool.per_origin_max = 2);
    assert_eq!(house.proxy.get(&url("/c")).status, 200);
    gate.open();
    assert_eq!(client.read("GET").status, 200);
}

#[test]
fn logs_begin_change_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    let path = |name: &str| dir.path().join(name);
    let log = |name: &str, format| AccessLog {
        target: LogTarget::File(path(name)),
        format,
    };
    let has = |file: &Path, word: &str| {
        std::fs::read_to_string(file).is_ok_and(|text| text.contains(word))
    };
    client.get("/none");
    house.change(|plan| plan.logs.access = Some(log("first", AccessFormat::Squid)));
    client.get("/one");
    eventually("it is logged", || has(&path("first"), "/one").then_some(()));
    house.change(|plan| {
        plan.logs.access = Some(log("second", AccessFormat::Json));
        plan.logs.profile = Some(path("profile"));
    });
    client.get("/two");
    eventually("in the other file", || {
        has(&path("second"), "/two").then_some(())
    });
    eventually("a profile, too", || {
        let bytes = std::fs::metadata(path("profile")).map_or(0, |meta| meta.len());
        (bytes > 16).then_some(())
    });
    client.get("/last");
    house.change(|plan| {
        plan.logs.access = None;
        plan.logs.profile = None;
    });
    eventually("nothing is lost at the end", || {
        has(&path("second"), "/last").then_some(())
    });
    client.get("/after");
    house.proxy.stop();
    assert!(!has(&path("first"), "/none") && !has(&path("first"), "/two"));
    assert!(!has(&path("second"), "/after"));
}

#[test]
fn a_listener_gets_a_log_of_its_own_and_loses_it() {
    let dir = tempfile::tempdir().unwrap();
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let path = dir.path().join("own");
    let log = AccessLog {
        target: LogTarget::File(path.clone()),
        format: AccessFormat::Squid,
    };
    let has = |word: &str| std::fs::read_to_string(&path).is_ok_and(|text| text.contains(word));
    let mut client = house.proxy.client();
    client.get("/none");
    house.change(|plan| plan.logs.of_listeners = [(0, Some(log))].into());
    client.get("/own");
    eventually("it is logged", || has("/own").then_some(()));
    house.change(|plan| plan.logs.of_listeners.clear());
    client.get("/after");
    house.proxy.stop();
    assert!(!has("/none") && !has("/after"));
    let log = AccessLog {
        target: LogTarget::File("/missing/log".into()),
        format: AccessFormat::Squid,
    };
    let mut house = House::of(plan_for(&origin));
    house.refused(
        |plan| plan.logs.of_listeners = [(0, Some(log))].into(),
        "listener.access-log",
    );
}

#[test]
fn the_admin_interface_follows_and_pages_of_a_browser_may_not_ask() {
    let origin = origin_of("x");
    let mut house = House::of(plan_for(&origin));
    let admin = house.proxy.ready.admin.unwrap();
    let ask = |method: &str, target: &str, fields: &[&str]| {
        let mut client = Client::connect(admin);
        client.ask(method, target, fields).read(method).status
    };
    let host = format!("Host: {admin}");
    assert_eq!(ask("GET", "/reload", &[&host]), 405);
    assert_eq!(
        ask("POST", "/reload", &[&host, "Origin: http://evil.example"]),
        403
    );
    assert_eq!(
        ask("POST", "/reload", &[&host, "Sec-Fetch-Site: cross-site"]),
        403
    );
    assert_eq!(ask("POST", "/reload", &["Host: cache.example"]), 403);
    assert_eq!(house.edition(), 1);
    house.change(|plan| plan.admin_names = vec!["cache.example".to_owned()]);
    assert_eq!(ask("POST", "/reload", &["Host: cache.example"]), 200);
    assert_eq!(house.edition(), 3);
    // What is stored by a route of a new edition is found by a purge.
    let other = origin_of("other");
    house.change(|plan| {
        plan.listeners = own_host_plan(&other).listeners;
    });
    house.proxy.get("/a");
    let purged = house
        .proxy
        .admin("PURGE", &format!("/http://{}/a", other.address));
    assert!(
        purged.text().contains("\"purged\": true"),
        "{}",
        purged.text()
    );
}

#[test]
fn a_proxy_that_drains_or_cannot_read_its_configuration_refuses() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[], "x"));
    });
    let house = House::of(plan_for(&origin));
    let mut client = house.proxy.client();
    client.ask("GET", "/a", &[]);
    gate.arrived(1);
    house.proxy.begin_to_stop();
    let answer = eventually("it drains", || {
        let answer = house.proxy.admin("POST", "/reload");
        (answer.status == 503).then_some(answer)
    });
    assert!(answer.text().contains("draining"), "{}", answer.text());
    gate.open();
    assert_eq!(client.read("GET").status, 200);

    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    assert_eq!(proxy.admin("POST", "/reload").status, 503);
}

#[test]
fn many_at_once_are_one() {
    let origin = origin_of("x");
    let house = House::of(plan_for(&origin));
    let proxy = &house.proxy;
    let ask = || proxy.admin("POST", "/reload").status;
    assert_eq!(ask(), 200);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        for asked in asking {
            assert_eq!(asked.join().unwrap(), 200);
        }
    });
    let editions = house.edition() - 1;
    assert!((2..=20).contains(&editions), "{editions}");
    assert!(editions < 20, "each had an edition of its own");
}

/// Clients on connections that stay, while the configuration changes and changes again: nothing fails, and what was a hit is one.
#[test]
fn nothing_fails_while_the_configuration_changes() {
    const RELOADS: usize = 40;
    let origin = origin_of("x");
    let mut plan = plan_for(&origin);
    plan.workers = 2;
    let mut house = House::of(plan);
    house.proxy.get("/a");
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let address = house.proxy.address();
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !over.load(Ordering::Relaxed) {
                    if number == 0 {
                        client = Client::connect(address);
                    }
                    let answer = client.get("/a");
                    assert!(answer.cache().contains("; hit"), "{}", answer.cache());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let other = Listener::forward(local(), Vec::new());
    for number in 0..RELOADS {
        let before = answered.load(Ordering::Relaxed);
        house.change(|plan| {
            plan.name = format!("name{number}");
            plan.cache.heuristic_percent = number as u32;
            plan.pool.per_origin_max = 1 + number;
            plan.listeners.truncate(1);
            if number % 2 == 0 {
                plan.listeners.push(other.clone());
            }
        });
        eventually("requests go on", || {
            (answered.load(Ordering::Relaxed) > before).then_some(())
        });
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    assert_eq!(house.edition(), 1 + RELOADS as u64);
    assert_eq!(origin.requests().len(), 1);
}
