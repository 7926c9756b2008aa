//! The admin interface of a whole proxy: real sockets on loopback, a store in a temporary file, an origin that
//! counts what it is asked.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use proxy::plan::{Admin, Listener, Plan, StorePlan};

/// How long anything may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(20);

struct House {
    proxy: SocketAddr,
    admin: SocketAddr,
    origin: Origin,
    stopper: proxy::Stopper,
    running: JoinHandle<Result<(), proxy::ServeError>>,
    _folder: tempfile::TempDir,
}

impl House {
    fn start() -> House {
        House::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Plan)) -> House {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut plan = Plan::with_listeners(vec![Listener::forward(any, Vec::new())]);
        plan.admin = Some(Admin {
            address: any,
            allow: Vec::new(),
        });
        plan.workers = 2;
        plan.stores = vec![StorePlan::at(folder.path().join("store"), Some(16 << 20))];
        change(&mut plan);
        let (sender, ready) = mpsc::channel();
        let running = thread::spawn(move || {
            proxy::start(plan, |ready, stopper| {
                sender
                    .send((ready.listeners[0], ready.admin.unwrap(), stopper))
                    .unwrap();
            })
        });
        let (proxy, admin, stopper) = ready.recv_timeout(PATIENCE).unwrap();
        House {
            proxy,
            admin,
            origin: Origin::start(),
            stopper,
            running,
            _folder: folder,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.origin.address)
    }

    /// Through the proxy.
    fn get(&self, path: &str) -> String {
        let url = self.url(path);
        let host = self.origin.address;
        exchange(
            self.proxy,
            &format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    }

    /// At the admin interface.
    fn ask(&self, method: &str, target: &str) -> String {
        let host = self.admin;
        exchange(
            self.admin,
            &format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(body(&self.ask("GET", "/status"))).unwrap()
    }

    /// Asks until it is a hit. (It is stored at the latest shortly after it was answered.)
    fn make_hit(&self, path: &str) {
        until(|| cache_status(&self.get(path)).contains("hit"));
    }

    fn stop(self) {
        self.stopper.stop();
        self.running.join().unwrap().unwrap();
    }
}

struct Origin {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    /// Lets one request for `/hold` go on.
    release: mpsc::Sender<()>,
}

impl Origin {
    fn start() -> Origin {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let counter = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in socket.incoming() {
                let (counter, released) = (Arc::clone(&counter), Arc::clone(&released));
                thread::spawn(move || Origin::serve(stream.unwrap(), &counter, &released));
            }
        });
        Origin {
            address,
            asked,
            release,
        }
    }

    fn serve(mut stream: TcpStream, asked: &AtomicUsize, released: &Mutex<mpsc::Receiver<()>>) {
        let mut head = Vec::new();
        let mut byte = [0];
        while matches!(stream.read(&mut byte), Ok(1)) {
            head.push(byte[0]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            asked.fetch_add(1, Ordering::SeqCst);
            if head.starts_with(b"GET /hold ") {
                let _ = released.lock().unwrap().recv_timeout(PATIENCE);
            }
            let body = "x".repeat(1000);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
            head.clear();
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Sends bytes, reads to the end of the connection.
fn exchange(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn cache_status(answer: &str) -> &str {
    let line = answer.lines().find(|l| l.starts_with("Cache-Status:"));
    line.unwrap_or_else(|| panic!("no Cache-Status in {answer}"))
}

fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "it does not come to pass");
        thread::yield_now();
    }
}

#[test]
fn what_was_cached_is_seen_purged_and_fetched_again() {
    let house = House::start();
    house.make_hit("/a");
    let asked = house.origin.asked();

    until(|| house.status()["requests"]["by_class"]["memory-hit"]["requests"] == 1);
    let status = house.status();
    assert_eq!(status["phase"], "running");
    assert_eq!(status["listeners"][0]["address"], house.proxy.to_string());
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
        let answer = house.ask(method, target);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let json: serde_json::Value = serde_json::from_str(body(&answer)).unwrap();
        assert_eq!(json["url"], url);
        assert_eq!(json["durable"], true);
        json["purged"] == true
    };
    // The three ways to say it.
    assert!(purged("PURGE", &format!("/{url}")));
    assert!(!purged("PURGE", &format!("/{url}")));
    assert!(!cache_status(&house.get("/a")).contains("hit"));
    assert_eq!(house.origin.asked(), asked + 1);
    house.make_hit("/a");
    assert!(purged("PURGE", &url));
    house.make_hit("/a");
    assert!(purged("DELETE", &format!("/cache?url={encoded}")));
    assert_eq!(house.status()["counters"]["cache"]["purges"], 4);
    assert_eq!(house.status()["memory"]["objects"], 0);
    house.stop();
}

#[test]
fn a_scrape_is_well_formed_and_complete() {
    let house = House::start();
    house.make_hit("/a");
    until(|| house.status()["requests"]["by_class"]["memory-hit"]["requests"] == 1);
    let answer = house.ask("GET", "/metrics");
    assert!(answer.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0;"));
    let text = body(&answer);
    assert!(text.ends_with("# EOF\n"));
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
        "loligo_store_free_pieces{store=\"",
        "loligo_store_largest_free_chunks{store=\"",
        "loligo_store_evictions_total{store=\"",
        "loligo_disk_writes_total ",
        "loligo_disk_read_errors_total 0\n",
        "loligo_io_engine_info{engine=\"",
        &format!(
            "loligo_answers_total{{listener=\"{}\",origin=\"other\",status=\"2xx\"}} 2\n",
            house.proxy
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
    house.stop();
}

#[test]
fn every_metric_says_what_it_counts_and_in_what() {
    let house = House::start();
    let answer = house.ask("GET", "/metrics");
    let helps: Vec<(&str, &str)> = (body(&answer).lines())
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '))
        .collect();
    assert!(helps.len() > 100, "{}", helps.len());
    for (at, (name, help)) in helps.iter().enumerate() {
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
    house.stop();
}

#[test]
fn answers_are_counted_by_listener_origin_and_status() {
    let house = House::start();
    let origin = house.origin.address;
    let any = "127.0.0.1:0".parse().unwrap();
    let url = proxy::plan::OriginUrl {
        tls: false,
        host: origin.ip().to_string(),
        port: origin.port(),
        path: String::new(),
    };
    let mut route = proxy::plan::Route::everything_to(url);
    route.path_prefix = "/in".into();
    let mut reverse = Listener::forward(any, Vec::new());
    reverse.role = proxy::plan::Role::Reverse(vec![route]);
    let mut plan = Plan::with_listeners(vec![Listener::forward(any, Vec::new()), reverse]);
    plan.admin = Some(Admin {
        address: any,
        allow: Vec::new(),
    });
    let (sender, ready) = mpsc::channel();
    let running = thread::spawn(move || {
        proxy::start(plan, |ready, stopper| {
            sender.send((ready.clone(), stopper)).unwrap();
        })
    });
    let (ready, stopper) = ready.recv_timeout(PATIENCE).unwrap();
    let (forward, reverse) = (ready.listeners[0], ready.listeners[1]);
    let ask = |to: SocketAddr, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        exchange(to, &request)
    };
    assert!(ask(reverse, "/in/a").starts_with("HTTP/1.1 200"));
    assert!(ask(reverse, "/in/a").starts_with("HTTP/1.1 200"));
    assert!(ask(reverse, "/out").starts_with("HTTP/1.1 404"));
    assert!(ask(reverse, " ").starts_with("HTTP/1.1 400"));
    // Nobody listens there: it is the port of something that has gone.
    let gone = TcpListener::bind(any).unwrap().local_addr().unwrap();
    assert!(ask(forward, &format!("http://{gone}/")).starts_with("HTTP/1.1 502"));
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
    let mut text = String::new();
    until(|| {
        text = exchange(
            ready.admin.unwrap(),
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        all(&text).is_some()
    });
    stopper.stop();
    running.join().unwrap().unwrap();
    house.stop();
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
    house.stop();
    house_of_top.stop();
}

#[test]
fn connections_are_kept_and_requests_may_come_in_rows_or_pieces() {
    let house = House::start();
    let get = |more: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let answers = exchange(
        house.admin,
        &[get(""), get(""), get("Connection: close\r\n")].concat(),
    );
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(answers.matches("\r\n\r\nok\n").count(), 3);

    let mut stream = TcpStream::connect(house.admin).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in get("Connection: close\r\n").bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok\n"));

    let refused = exchange(
        house.admin,
        "PURGE /http://h/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    house.stop();
}

#[test]
fn while_draining_it_says_so() {
    let house = House::start();
    thread::scope(|scope| {
        let held = scope.spawn(|| house.get("/hold"));
        until(|| house.origin.asked() == 1);
        assert!(house.ask("GET", "/healthz").starts_with("HTTP/1.1 200 "));
        house.stopper.stop();
        until(|| house.ask("GET", "/healthz").starts_with("HTTP/1.1 503 "));
        assert_eq!(house.status()["phase"], "draining");
        house.origin.release.send(()).unwrap();
        assert!(held.join().unwrap().starts_with("HTTP/1.1 200 "));
    });
    house.stop();
}
