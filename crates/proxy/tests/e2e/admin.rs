//! The admin interface of a whole proxy: real sockets on loopback, a store in a temporary file, an origin that
//! counts what it is asked.

use std::{net::SocketAddr, thread};

use ::proxy::plan::{Listener, Plan, Role, Route};

use super::harness::{running::*, *};

/// A forward proxy with two workers and a store, and an origin.
struct House {
    proxy: Proxy,
    origin: Origin,
    /// Requests for `/hold` wait here.
    gate: Gate,
    _disk: Disk,
}

impl House {
    fn start() -> House {
        House::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Plan)) -> House {
        let disk = Disk::of_mib(16);
        let listener = Listener::forward(local(), Vec::new());
        let mut plan = with_admin(disk.under(Plan::with_listeners(vec![listener])));
        plan.workers = 2;
        change(&mut plan);
        let gate = Gate::new();
        let held = gate.clone();
        House {
            proxy: Proxy::start(plan),
            origin: Origin::start(move |exchange| {
                if exchange.path() == "/hold" {
                    held.pass();
                }
                exchange.send(ok(&[FRESH], [b'x'; 1000]));
            }),
            gate,
            _disk: disk,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.origin.address)
    }

    /// Through the proxy.
    fn get(&self, path: &str) -> Response {
        let host = format!("Host: {}", self.origin.address);
        self.proxy.ask("GET", &self.url(path), &[&host])
    }

    fn asked(&self) -> usize {
        self.origin.requests().len()
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(self.proxy.admin("GET", "/status").text()).unwrap()
    }

    /// Asks until it is a hit. (It is stored at the latest shortly after it was answered.)
    fn make_hit(&self, path: &str) {
        until(|| self.get(path).is_hit());
    }
}

fn until(mut done: impl FnMut() -> bool) {
    eventually("it comes to pass", || done().then_some(()));
}

#[test]
fn what_was_cached_is_seen_purged_and_fetched_again() {
    let house = House::start();
    house.make_hit("/a");
    let asked = house.asked();

    until(|| house.status()["requests"]["by_class"]["memory-hit"]["requests"] == 1);
    let status = house.status();
    assert_eq!(status["phase"], "running");
    assert_eq!(
        status["listeners"][0]["address"],
        house.proxy.address().to_string()
    );
    assert_eq!(status["workers"].as_array().unwrap().len(), 2);
    assert!(status["hit_ratio"]["bytes"].as_f64().unwrap() > 0.0);
    assert!(status["requests"]["latency_us"]["p99"].as_f64().unwrap() > 0.0);
    assert_eq!(status["memory"]["objects"], 1);
    assert_eq!(status["stores"][0]["bytes"], 16 << 20);
    assert_eq!(status["stores"][0]["now"]["records"], 1);
    assert!(status["stores"][0]["recovery"].is_null());
    assert_eq!(status["counters"]["disk"]["disk_read_errors"], 0);

    let (url, encoded) = (
        house.url("/a"),
        house.url("/a").replace(':', "%3A").replace('/', "%2F"),
    );
    let purged = |method: &str, target: &str| {
        let answer = house.proxy.admin(method, target);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(json["url"], url);
        assert_eq!(json["durable"], true);
        json["purged"] == true
    };
    // The three ways to say it.
    assert!(purged("PURGE", &format!("/{url}")));
    assert!(!purged("PURGE", &format!("/{url}")));
    assert!(!house.get("/a").is_hit());
    assert_eq!(house.asked(), asked + 1);
    house.make_hit("/a");
    assert!(purged("PURGE", &url));
    house.make_hit("/a");
    assert!(purged("DELETE", &format!("/cache?url={encoded}")));
    assert_eq!(house.status()["counters"]["cache"]["purges"], 4);
    assert_eq!(house.status()["memory"]["objects"], 0);
    house.proxy.stop();
}

#[test]
fn a_scrape_is_well_formed_and_complete() {
    let house = House::start();
    house.make_hit("/a");
    until(|| house.status()["requests"]["by_class"]["memory-hit"]["requests"] == 1);
    let admin = house.proxy.ready.admin.unwrap();
    let host = format!("Host: {admin}");
    let asks_for_it = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let answer = Client::connect(admin)
        .ask("GET", "/metrics", &[&host, asks_for_it])
        .read("GET");
    let kind = answer.field("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0;"));
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("\n# TYPE loligo_requests counter\n"));
    is_complete(text, &house);
    // Who does not ask for it may not be able to read it.
    let answer = house.proxy.admin("GET", "/metrics");
    let kind = answer.field("content-type").unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text();
    assert!(!text.contains("# EOF"));
    assert!(text.contains("\n# TYPE loligo_requests_total counter\n"));
    assert!(text.contains("\n# TYPE loligo_io_engine_info gauge\n"));
    is_complete(text, &house);
    house.proxy.stop();
}

/// Are samples under their families, and are all families there?
#[track_caller]
fn is_complete(text: &str, house: &House) {
    let mut family = "";
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            family = described.split(' ').next().unwrap();
        }
        if !line.starts_with('#') {
            assert!(line.starts_with(family), "{line} is not of {family}");
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    for begin in [
        "loligo_requests_total{class=\"memory-hit\"} 1\n",
        "loligo_response_bytes_total{class=\"miss\"} ",
        "loligo_hit_ratio_documents 0.",
        "loligo_hit_ratio_bytes 0.",
        "loligo_request_duration_seconds_bucket{le=\"+Inf\",class=\"memory-hit\"} 1\n",
        "loligo_client_connections_open ",
        "loligo_origin_requests_total 1\n",
        "loligo_memory_bytes ",
        "loligo_store_ready_chunks{store=\"",
        "loligo_store_free_pieces{store=\"",
        "loligo_store_writes_total{store=\"",
        "loligo_store_write_bytes_total{store=\"",
        "loligo_store_largest_free_chunks{store=\"",
        "loligo_store_evictions_total{store=\"",
        "loligo_disk_writes_total ",
        "loligo_disk_read_errors_total 0\n",
        "loligo_io_engine_info{engine=\"",
        &format!(
            "loligo_answers_total{{listener=\"{}\",origin=\"other\",status=\"2xx\"}} 2\n",
            house.proxy.address()
        ),
        "loligo_origin_failures_total{cause=\"dns_timeout\"} 0\n",
        "loligo_store_live_bytes{store=\"",
        "loligo_store_never_written_bytes{store=\"",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_start_time_seconds ",
    ] {
        assert!(
            text.contains(&format!("\n{begin}")),
            "{begin} not in\n{text}"
        );
    }
}

#[test]
fn every_metric_says_what_it_counts_and_in_what() {
    let house = House::start();
    let answer = house.proxy.admin("GET", "/metrics");
    let helps: Vec<(&str, &str)> = (answer.text().lines())
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '))
        .collect();
    assert!(helps.len() > 100, "{}", helps.len());
    for (at, (name, help)) in helps.iter().enumerate() {
        let name = name.trim_end_matches("_total");
        let bare = name.trim_start_matches("loligo_").replace('_', " ");
        let says_more = |prefix: &str| {
            let help = help.trim_start_matches(prefix).to_ascii_lowercase();
            help.trim_end_matches('.') != bare.trim_start_matches("store ")
        };
        assert!(says_more("") && says_more("Store: "), "{name}: {help}");
        assert!(help.len() > 12, "{name}: {help}");
        for (unit, words) in [
            ("_bytes", &["ytes", "emory"][..]),
            ("_seconds", &["seconds"]),
        ] {
            let says = words.iter().any(|word| help.contains(word));
            assert!(!name.ends_with(unit) || says, "{name}: {help}");
        }
        let twin = helps[..at].iter().find(|(_, other)| other == help);
        assert_eq!(twin, None, "{name}");
    }
    house.proxy.stop();
}

#[test]
fn answers_are_counted_by_listener_origin_and_status() {
    let house = House::start();
    let origin = house.origin.address;
    let mut route = Route::everything_to(url(origin));
    route.path_prefix = "/in".into();
    let mut reverse = Listener::forward(local(), Vec::new());
    reverse.role = Role::Reverse(vec![route]);
    let listeners = vec![Listener::forward(local(), Vec::new()), reverse];
    let proxy = Proxy::start(with_admin(Plan::with_listeners(listeners)));
    let (forward, reverse) = (proxy.ready.listeners[0], proxy.ready.listeners[1]);
    let ask = |to: SocketAddr, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        Client::connect(to).send(request).read("GET").status
    };
    assert_eq!(ask(reverse, "/in/a"), 200);
    assert_eq!(ask(reverse, "/in/a"), 200);
    assert_eq!(ask(reverse, "/out"), 404);
    assert_eq!(ask(reverse, " "), 400);
    let gone = nobody();
    assert_eq!(ask(forward, &format!("http://{gone}/")), 502);
    let all = |text: &str| -> Option<()> {
        for (listener, of, status, count) in [
            (reverse, format!("http://{origin}"), "2xx", 2),
            (reverse, "other".to_owned(), "4xx", 2),
            (forward, "other".to_owned(), "5xx", 1),
        ] {
            text.contains(&format!(
                "\nloligo_answers_total{{listener=\"{listener}\",origin=\"{of}\",status=\"{status}\"}} {count}\n"
            ))
            .then_some(())?;
        }
        text.contains("\nloligo_origin_failures_total{cause=\"connection_refused\"} 1\n")
            .then_some(())
    };
    until(|| all(proxy.admin("GET", "/metrics").text()).is_some());
    proxy.stop();
    house.proxy.stop();
}

#[test]
fn what_is_asked_for_most_is_told_where_it_is_wanted() {
    let house = House::start();
    assert!(house.status()["top"].is_null());
    let house_of_top = House::with(|plan| plan.logs.top = true);
    for _ in 0..3 {
        house_of_top.make_hit("/a?u=1");
    }
    house_of_top.make_hit("/b");
    let url = house_of_top.url("/a?u=1");
    let host = house_of_top.origin.address.to_string();
    until(|| {
        let top = &house_of_top.status()["top"];
        top["hosts"][0]["name"] == host
            && top["hosts"][0]["share"] == 1.0
            && top["urls"][0]["name"] == url
            && top["urls"].as_array().is_some_and(|urls| urls.len() == 2)
    });
    house.proxy.stop();
    house_of_top.proxy.stop();
}

#[test]
fn connections_are_kept_and_requests_may_come_in_rows_or_pieces() {
    let house = House::start();
    let get = |more: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let admin = house.proxy.ready.admin.unwrap();
    let mut client = Client::connect(admin);
    client.send([get(""), get(""), get("Connection: close\r\n")].concat());
    for _ in 0..3 {
        let answer = client.read("GET");
        assert_eq!((answer.status, answer.text()), (200, "ok\n"));
    }
    client.expect_close();

    let mut client = Client::connect(admin);
    for byte in get("Connection: close\r\n").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.read("GET").text(), "ok\n");

    let purge = "PURGE /http://h/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(Client::connect(admin).send(purge).read("PURGE").status, 413);
    house.proxy.stop();
}

#[test]
fn while_draining_it_says_so() {
    let house = House::start();
    let healthy = || house.proxy.admin("GET", "/healthz").status;
    thread::scope(|scope| {
        let held = scope.spawn(|| house.get("/hold"));
        house.gate.arrived(1);
        assert_eq!(healthy(), 200);
        house.proxy.begin_to_stop();
        until(|| healthy() == 503);
        assert_eq!(house.status()["phase"], "draining");
        house.gate.open();
        assert_eq!(held.join().unwrap().status, 200);
    });
    house.proxy.stop();
}

#[test]
fn neither_half_requests_nor_idle_connections_shut_it() {
    let house = House::start();
    let admin = house.proxy.ready.admin.unwrap();
    let host = format!("Host: {admin}");
    let mut kept = Vec::new();
    for number in 0..600 {
        let mut client = Client::connect(admin);
        match number % 3 {
            0 => {}
            1 => _ = client.send("GET /status HT"),
            _ => {
                let answer = client.ask("GET", "/", &[&host]).read("GET");
                assert_eq!(answer.status, 200);
            }
        }
        kept.push(client);
    }
    for target in ["/healthz", "/status", "/metrics"] {
        assert_eq!(house.proxy.admin("GET", target).status, 200, "{target}");
    }
    // Those that have waited longest gave way, not the last ones.
    let last = kept.last_mut().unwrap();
    assert_eq!(last.ask("GET", "/", &[&host]).read("GET").status, 200);
}
