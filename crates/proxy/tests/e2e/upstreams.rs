//! Several servers behind a name: who is asked, what is sent again, what is not, and what is told of it.

use std::{
    collections::BTreeMap,
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ::proxy::plan::{Balance, HealthCheck, OriginUrl, Plan, Role, Route, Server, Upstream};
use serde_json::Value;

use super::harness::{running::*, *};

const NO_STORE: &[&str] = &["Cache-Control: no-store"];
const NAME: &str = "app";

/// A reverse proxy before these servers.
pub fn plan_of(servers: Vec<Server>) -> Plan {
    let nowhere = OriginUrl {
        tls: false,
        host: NAME.to_owned(),
        port: 80,
        path: String::new(),
    };
    let mut plan = plan(::proxy::plan::Listener::reverse(
        local(),
        Vec::new(),
        nowhere,
    ));
    plan.listeners[0].role = Role::Reverse(vec![Route::everything_to_upstream(NAME, "")]);
    plan.upstreams = vec![Upstream {
        name: NAME.to_owned(),
        servers,
        slow_start: Duration::ZERO,
        ..Upstream::default()
    }];
    with_admin(plan)
}

fn servers(origins: &[&Origin]) -> Vec<Server> {
    let server = |origin: &&Origin| Server::at(url(origin.address));
    origins.iter().map(server).collect()
}

fn weighing(weight: u32, origin: &Origin) -> Server {
    Server {
        weight,
        ..Server::at(url(origin.address))
    }
}

/// An origin that says who it is; nothing is to be stored.
fn saying(name: &'static str) -> Origin {
    Origin::start(move |exchange| exchange.send(ok(NO_STORE, name)))
}

/// What `/status` says of the server.
fn standing(proxy: &Proxy, address: SocketAddr) -> Value {
    let status: Value = serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
    let servers = status["upstreams"][0]["servers"].as_array().unwrap();
    let name = format!("http://{address}");
    let found = servers.iter().find(|it| it["server"] == name.as_str());
    found.expect("it is configured").clone()
}

fn state(proxy: &Proxy, address: SocketAddr) -> String {
    let state = &standing(proxy, address)["state"];
    state.as_str().unwrap().to_owned()
}

/// Which server has answered how often; nothing but 200 may come.
#[track_caller]
fn count_answers(proxy: &Proxy, n: usize) -> BTreeMap<String, usize> {
    let mut client = proxy.client();
    let mut counts = BTreeMap::new();
    for i in 0..n {
        let answer = client.get(&format!("/{i}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        *counts.entry(answer.text().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn shares_are_those_of_the_weights() {
    let [a, b, c] = ["a", "b", "c"].map(saying);
    let all = vec![weighing(2, &a), weighing(1, &b), weighing(1, &c)];
    for balance in [
        Balance::LeastOutstanding,
        Balance::RoundRobin,
        Balance::HashUrl,
    ] {
        let mut plan = plan_of(all.clone());
        plan.upstreams[0].balance = balance;
        let proxy = Proxy::start(plan);
        let n = 1000;
        let counts = count_answers(&proxy, n);
        for (name, percent) in [("a", 50), ("b", 25), ("c", 25)] {
            let got = counts[name] * 100 / n;
            assert!(got.abs_diff(percent) <= 5, "{balance:?}: {counts:?}");
        }
    }
}

#[test]
fn a_url_and_a_client_have_their_server() {
    let [a, b, c] = ["a", "b", "c"].map(saying);
    for balance in [Balance::HashUrl, Balance::HashClient] {
        let mut plan = plan_of(servers(&[&a, &b, &c]));
        plan.upstreams[0].balance = balance;
        let proxy = Proxy::start(plan);
        let of_url = |n: usize| proxy.get(&format!("/{n}")).text().to_owned();
        let first: Vec<_> = (0..20).map(of_url).collect();
        let again: Vec<_> = (0..20).map(of_url).collect();
        assert_eq!(first, again);
        let is_one = first.iter().all(|it| *it == first[0]);
        assert_eq!(is_one, balance == Balance::HashClient, "{first:?}");
    }
}

/// What a bad server does with a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Evil {
    /// It accepts and says nothing.
    Silent,
    Answers500,
    /// It resets in the middle of the head.
    ResetsInHead,
    /// It closes without a word.
    Closes,
}

fn evil(how: Evil, is_evil: &Arc<AtomicBool>) -> Origin {
    let is_evil = Arc::clone(is_evil);
    Origin::start(move |exchange| {
        if !is_evil.load(Ordering::SeqCst) {
            exchange.body();
            return exchange.send(ok(NO_STORE, "evil"));
        }
        match how {
            Evil::Silent => {
                // Until the proxy gives up.
                let mut stream = exchange.wire.stream();
                let _ = stream.read(&mut [0; 1]);
                exchange.close();
            }
            Evil::Answers500 => {
                exchange.send(answer("500 Oops", NO_STORE, "evil"));
            }
            Evil::ResetsInHead => {
                exchange.send("HTTP/1.1 200 OK\r\nCont");
                exchange.reset();
            }
            Evil::Closes => exchange.close(),
        }
    })
}

/// Clients that ask at once and without end; what was not 200.
struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    bad: Arc<Mutex<Vec<String>>>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(proxy: &Proxy, at_once: usize) -> Load {
        let load = Load {
            is_over: Arc::default(),
            answered: Arc::default(),
            bad: Arc::default(),
            clients: Vec::new(),
        };
        let clients = (0..at_once).map(|number| {
            let mut client = proxy.client();
            let (is_over, answered) = (Arc::clone(&load.is_over), Arc::clone(&load.answered));
            let bad = Arc::clone(&load.bad);
            thread::spawn(move || {
                for n in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let answer = client.get(&format!("/load/{number}/{n}"));
                    answered.fetch_add(1, Ordering::SeqCst);
                    if answer.status != 200 {
                        let told = format!("{} {}", answer.status, answer.text());
                        bad.lock().unwrap().push(told);
                    }
                }
            })
        });
        let clients = clients.collect();
        Load { clients, ..load }
    }

    /// Until so many more were answered.
    fn goes_on(&self, n: usize) {
        let before = self.answered.load(Ordering::SeqCst);
        eventually("requests are answered", || {
            (self.answered.load(Ordering::SeqCst) >= before + n).then_some(())
        });
    }

    fn end(self) -> Vec<String> {
        self.is_over.store(true, Ordering::SeqCst);
        self.clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        self.bad.lock().unwrap().clone()
    }
}

#[test]
fn a_server_that_is_killed_under_load_costs_no_get() {
    let (a, b, c) = (saying("a"), saying("b"), saying("c"));
    let gone = c.address;
    let proxy = Proxy::start(plan_of(servers(&[&a, &b, &c])));
    let load = Load::start(&proxy, 8);
    load.goes_on(200);
    // As with SIGKILL: its port is closed, and so are its connections.
    drop(c);
    load.goes_on(600);
    assert_eq!(load.end(), [""; 0]);
    assert_ne!(state(&proxy, gone), "up");
    let after = count_answers(&proxy, 200);
    let share = after["a"] * 100 / 200;
    assert!(share.abs_diff(50) <= 15, "{after:?}");
}

#[test]
fn a_server_that_turns_bad_under_load_costs_no_get() {
    for how in [
        Evil::Answers500,
        Evil::ResetsInHead,
        Evil::Closes,
        Evil::Silent,
    ] {
        let is_evil = Arc::new(AtomicBool::new(false));
        let (a, b, c) = (saying("a"), saying("b"), evil(how, &is_evil));
        let mut plan = plan_of(servers(&[&a, &b, &c]));
        plan.timeouts.origin_first_byte = Duration::from_secs(1);
        let proxy = Proxy::start(plan);
        let load = Load::start(&proxy, 6);
        load.goes_on(20);
        is_evil.store(true, Ordering::SeqCst);
        eventually("it is put out", || {
            let standing = standing(&proxy, c.address);
            (standing["ejections"].as_u64().unwrap() > 0).then_some(())
        });
        load.goes_on(200);
        assert_eq!(load.end(), [""; 0], "{how:?}");
        // Back, it is found out by one request.
        is_evil.store(false, Ordering::SeqCst);
        eventually("it is back", || {
            proxy.get("/back");
            (state(&proxy, c.address) == "up").then_some(())
        });
    }
}

#[test]
fn a_post_is_sent_to_one_server_once() {
    for how in [
        Evil::Answers500,
        Evil::ResetsInHead,
        Evil::Closes,
        Evil::Silent,
    ] {
        let is_evil = Arc::new(AtomicBool::new(true));
        let (a, b) = (saying("a"), evil(how, &is_evil));
        let mut plan = plan_of(servers(&[&a, &b]));
        plan.timeouts.origin_first_byte = Duration::from_millis(500);
        let proxy = Proxy::start(plan);
        let mut failed = 0;
        for n in 0..20 {
            let path = format!("/{n}");
            for (method, field) in [("POST", "Content-Length: 0"), ("POST", "X-A: b")] {
                let answer = proxy.ask(method, &path, &[field]);
                failed += usize::from(answer.status >= 500);
            }
            assert_eq!(a.count(&path) + b.count(&path), 2, "{how:?}");
        }
        assert!(failed > 0, "{how:?}: the bad one was never asked");
    }
}

#[test]
fn a_post_goes_to_the_next_server_if_no_connection_can_be_made() {
    let a = saying("a");
    let mut plan = plan_of(vec![Server::at(url(nobody())), Server::at(url(a.address))]);
    plan.upstreams[0].balance = Balance::RoundRobin;
    let proxy = Proxy::start(plan);
    for n in 0..20 {
        let mut client = proxy.client();
        client.send(format!(
            "POST /{n} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
        ));
        assert_eq!(client.read("POST").text(), "a");
        assert_eq!(a.count(&format!("/{n}")), 1);
    }
}

#[test]
fn servers_that_all_fail_get_a_few_more_requests_and_not_twice_as_many() {
    let is_evil = Arc::new(AtomicBool::new(true));
    let all: Vec<_> = (0..3).map(|_| evil(Evil::Answers500, &is_evil)).collect();
    let proxy = Proxy::start(plan_of(servers(&all.iter().collect::<Vec<_>>())));
    let n = 400;
    let mut client = proxy.client();
    let began = Instant::now();
    for i in 0..n {
        let answer = client.get(&format!("/{i}"));
        // What a server has said goes on to the client.
        assert_eq!((answer.status, answer.text()), (500, "evil"));
    }
    let sent: usize = all.iter().map(|origin| origin.requests().len()).sum();
    let windows = 1 + began.elapsed().as_secs() as usize / 10;
    assert!(sent > n, "some are sent again");
    assert!(sent <= n + windows * 50, "{sent} for {n}");
    let text = proxy.admin("GET", "/metrics");
    let refused = format!("loligo_upstream_retries_refused_total{{upstream=\"{NAME}\"}} ");
    let refused = text.text().lines().find_map(|it| it.strip_prefix(&refused));
    assert_ne!(refused.expect("it is counted"), "0");
    // Never more than half are put out for what may be the fault of the requests.
    let up = all.iter().filter(|it| state(&proxy, it.address) == "up");
    assert_eq!(up.count(), 2);
}

#[test]
fn with_all_down_what_is_stale_is_served_or_503_with_retry_after() {
    let stored = ok(&[STALE, &["ETag: \"1\""]].concat(), "stored");
    let (a, b) = (Origin::sending(stored.clone()), Origin::sending(stored));
    let mut plan = plan_of(servers(&[&a, &b]));
    plan.upstreams[0].retries = 5;
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("/stored").text(), "stored");
    drop((a, b));
    eventually("they are known to be down", || {
        let answer = proxy.get("/other");
        let field = answer.fields.get("retry-after").map(str::to_owned);
        let seconds: u32 = field?.parse().unwrap();
        assert!((1..=60).contains(&seconds));
        assert_eq!(answer.status, 503);
        let said = answer.fields.get("proxy-status");
        assert_eq!(said, Some("loligo; error=destination_unavailable"));
        assert!(answer.text().contains("no server of the origin is up"));
        Some(())
    });
    assert_eq!(proxy.get("/stored").text(), "stored");
}

#[test]
fn a_backup_is_asked_while_no_other_is_up() {
    let (a, b) = (saying("a"), saying("b"));
    let mut all = servers(&[&a, &b]);
    all[1].backup = true;
    let proxy = Proxy::start(plan_of(all));
    assert_eq!(count_answers(&proxy, 20), [("a".to_owned(), 20)].into());
    drop(a);
    assert_eq!(count_answers(&proxy, 20), [("b".to_owned(), 20)].into());
}

#[test]
fn checks_put_a_server_out_and_in_again() {
    let is_well = Arc::new(AtomicBool::new(true));
    let a = saying("a");
    let told = Arc::clone(&is_well);
    let b = Origin::start(move |exchange| {
        let is_check = exchange.path() == "/healthz?x";
        let is_bad = is_check && !told.load(Ordering::SeqCst);
        exchange.send(match is_bad {
            true => answer("503 Ill", NO_STORE, ""),
            false => ok(NO_STORE, "b"),
        });
    });
    let mut plan = plan_of(servers(&[&a, &b]));
    plan.upstreams[0].host = Some("www.example".to_owned());
    plan.upstreams[0].health = Some(HealthCheck {
        path: "/healthz?x".to_owned(),
        every: Duration::from_millis(100),
        status: vec![200..=200],
        ..HealthCheck::default()
    });
    plan.workers = 3;
    let proxy = Proxy::start(plan);
    eventually("both are checked", || {
        (a.count("/healthz?x") > 1 && b.count("/healthz?x") > 1).then_some(())
    });
    let check = b
        .requests()
        .into_iter()
        .find(|it| it.target == "/healthz?x");
    assert_eq!(check.unwrap().field("host"), Some("www.example"));
    assert_eq!(count_answers(&proxy, 50).len(), 2);
    is_well.store(false, Ordering::SeqCst);
    eventually("it is ill", || {
        (state(&proxy, b.address) == "ill").then_some(())
    });
    assert_eq!(count_answers(&proxy, 20), [("a".to_owned(), 20)].into());
    let why = standing(&proxy, b.address)["checked"]["why"].clone();
    assert_eq!(why, "/healthz?x answers 503");
    let metrics = proxy.admin("GET", "/metrics");
    let of_b = format!("{{upstream=\"app\",server=\"http://{}\"}}", b.address);
    for line in [
        format!("loligo_upstream_server_up{of_b} 0"),
        format!("loligo_upstream_server_check_failed{of_b} 1"),
    ] {
        assert!(metrics.text().contains(&line), "{}", metrics.text());
    }
    is_well.store(true, Ordering::SeqCst);
    eventually("it is well", || {
        (state(&proxy, b.address) == "up").then_some(())
    });
    assert_eq!(count_answers(&proxy, 50).len(), 2);
}

#[test]
fn the_operator_takes_a_server_out_and_its_answers_end() {
    let gate = Gate::new();
    let held = gate.clone();
    let a = Origin::start(move |exchange| {
        if exchange.path() == "/slow" {
            held.pass();
        }
        exchange.send(ok(NO_STORE, "a"));
    });
    let b = saying("b");
    let mut all = servers(&[&a, &b]);
    all[1].backup = true;
    let proxy = Proxy::start(plan_of(all));
    let mut slow = proxy.client();
    slow.ask("GET", "/slow", &[]);
    gate.arrived(1);
    assert_eq!(standing(&proxy, a.address)["in_flight"], 1);
    let order = |state: &str| {
        let target = format!("/upstreams/app/{}?state={state}", a.address);
        proxy.admin("POST", &target).status
    };
    assert_eq!(order("drain"), 200);
    assert_eq!(proxy.get("/x").text(), "b");
    assert_eq!(state(&proxy, a.address), "drained");
    gate.open();
    assert_eq!(slow.read("GET").text(), "a");
    eventually("it is empty", || {
        (standing(&proxy, a.address)["in_flight"] == 0).then_some(())
    });
    assert_eq!(order("down"), 200);
    assert_eq!(proxy.get("/x").text(), "b");
    assert_eq!(order("up"), 200);
    assert_eq!(proxy.get("/x").text(), "a");
    assert_eq!(order("sideways"), 400);
    for (method, target, status) in [
        ("POST", "/upstreams/app/10.0.0.1:80?state=up", 404),
        ("POST", "/upstreams/other/10.0.0.1:80?state=up", 404),
        ("GET", "/upstreams/app/10.0.0.1:80?state=up", 405),
    ] {
        assert_eq!(proxy.admin(method, target).status, status, "{target}");
    }
}

#[test]
fn servers_come_and_go_and_what_is_stored_and_known_stays() {
    let fresh =
        |name: &'static str| Origin::start(move |exchange| exchange.send(ok(&[FRESH], name)));
    let (a, b, c) = (fresh("a"), fresh("b"), fresh("c"));
    let mut plan = plan_of(servers(&[&a, &b]));
    let Role::Reverse(routes) = &mut plan.listeners[0].role else {
        panic!("a reverse listener")
    };
    routes[0].pass_host = false;
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    let reload = |plan: &Plan| {
        plans.set(Ok(plan.clone()));
        let answer = proxy.admin("POST", "/reload");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().to_owned()
    };
    let stored = proxy.get("/stored").text().to_owned();
    let asked = a.requests().into_iter().chain(b.requests()).next().unwrap();
    assert_eq!(asked.field("host"), Some("app"), "one Host for all servers");
    let drain = format!("/upstreams/app/{}?state=drain", b.address);
    assert_eq!(proxy.admin("POST", &drain).status, 200);
    let requests = standing(&proxy, a.address)["requests"].clone();

    plan.upstreams[0].servers = servers(&[&c, &b, &a]);
    let told = reload(&plan);
    assert!(!told.contains("no longer finds"), "{told}");
    assert_eq!(state(&proxy, b.address), "drained");
    assert_eq!(standing(&proxy, a.address)["requests"], requests);
    assert!(proxy.get("/stored").is_hit());

    plan.upstreams[0].servers = servers(&[&c]);
    reload(&plan);
    let kept = proxy.get("/stored");
    assert!(kept.is_hit() && kept.text() == stored);
    for n in 0..5 {
        assert_eq!(proxy.get(&format!("/{n}")).text(), "c");
    }
    plan.upstreams[0].name = "other".to_owned();
    if let Role::Reverse(routes) = &mut plan.listeners[0].role {
        let pass_host = routes[0].pass_host;
        routes[0] = Route {
            pass_host,
            ..Route::everything_to_upstream("other", "")
        };
    }
    assert!(reload(&plan).contains("no longer finds"));
    assert!(!proxy.get("/stored").is_hit());
}

#[test]
fn the_log_names_the_server_that_was_asked() {
    let a = saying("a");
    let live = OriginUrl {
        host: "localhost".to_owned(),
        ..url(a.address)
    };
    let mut plan = plan_of(vec![Server::at(url(nobody())), Server::at(live)]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    plan.logs.access = Some(::proxy::plan::AccessLog {
        target: ::proxy::plan::LogTarget::File(path.clone()),
        format: ::proxy::plan::AccessFormat::Squid,
    });
    let proxy = Proxy::start(plan);
    proxy.get("/x");
    proxy.stop();
    let log = std::fs::read_to_string(path).unwrap();
    assert!(log.contains("/localhost "), "{log}");
}

/// A server that takes connections and lets them wait is not connected to by anything but a time-out.
#[test]
fn a_silent_server_is_left_for_another_after_the_time_out() {
    let silent = TcpListener::bind(local()).unwrap();
    let at = silent.local_addr().unwrap();
    let holding = thread::spawn(move || {
        let held: Vec<TcpStream> = silent.incoming().take(3).flatten().collect();
        drop(held);
    });
    let a = saying("a");
    let mut plan = plan_of(vec![Server::at(url(at)), Server::at(url(a.address))]);
    plan.upstreams[0].balance = Balance::RoundRobin;
    plan.timeouts.origin_first_byte = Duration::from_millis(300);
    let proxy = Proxy::start(plan);
    // Three silences in a row, and it is not asked any more.
    let mut client = proxy.client();
    eventually("it is put out", || {
        assert_eq!(client.get("/x").text(), "a");
        (state(&proxy, at) != "up").then_some(())
    });
    holding.join().unwrap();
}
