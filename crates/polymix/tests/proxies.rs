//! The benchmark against small proxies in this process: honest ones pass, each kind of cheat is named.
//!
//! The proxies are as simple as can be: a thread a connection, one request a connection, HTTP/1.0. The cache keeps what came
//! with `Cache-Control: public` until its Expires.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polymix::Mix;
use polymix::phases::Sizing;
use polymix::report::Report;
use polymix::run::{Origin, Test, polymix, robots};
use polymix::wire::Minor;

/// What a proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Passes everything on.
    Plain,
    /// Caches, as it should.
    Cache,
    /// Answers reloads from the cache.
    IgnoresReload,
    /// Keeps what is private.
    KeepsPrivate,
    /// Answers every GET with the object of another URL.
    MixesUp,
    /// Spoils a byte in the middle.
    Spoils,
    /// Leaves out the end.
    CutsShort,
    /// Says 304 to everybody.
    NeverModified,
    /// Says 502.
    Breaks,
    /// Closes without a word.
    HangsUp,
}

type Cache = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Starts a proxy. It lives as long as the test process.
fn proxy(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cache = Cache::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || {
                let _ = serve(stream, manner, &cache);
            });
        }
    });
    address
}

fn serve(mut client: TcpStream, manner: Manner, cache: &Cache) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0; 1024];
    let head_end = loop {
        let n = client.read(&mut byte)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&byte[..n]);
        if let Some(end) = find(&request, b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&request[..head_end]).into_owned();
    let length = field(&text, "Content-Length").map_or(0, |value| value.parse().unwrap());
    while request.len() < head_end + length {
        let n = client.read(&mut byte)?;
        request.extend_from_slice(&byte[..n]);
    }
    let url = text.split(' ').nth(1).unwrap().to_owned();
    let reload = field(&text, "Pragma").is_some();
    let plain_get = text.starts_with("GET ") && field(&text, "If-Modified-Since").is_none();
    let may_answer =
        plain_get && manner != Manner::Plain && (!reload || manner == Manner::IgnoresReload);
    let key = if manner == Manner::MixesUp {
        "the same".to_owned()
    } else {
        url
    };
    let stored = cache.lock().unwrap().get(&key).cloned();
    let mut answer = match stored.filter(|_| may_answer) {
        Some(answer) => answer,
        None => {
            let answer = ask(&field(&text, "Host").unwrap(), &request)?;
            let head = String::from_utf8_lossy(&answer).into_owned();
            let public = field(&head, "Cache-Control").is_some_and(|v| v == "public");
            let keep = public || manner == Manner::KeepsPrivate;
            if plain_get && keep && head.contains(" 200 OK") {
                cache.lock().unwrap().insert(key, answer.clone());
            }
            answer
        }
    };
    let middle = answer.len() - 1;
    match manner {
        Manner::Spoils => answer[middle] ^= 1,
        Manner::CutsShort => answer.truncate(middle),
        Manner::NeverModified => answer = b"HTTP/1.0 304 Not Modified\r\n\r\n".to_vec(),
        Manner::Breaks => answer = b"HTTP/1.0 502 Bad Gateway\r\n\r\n".to_vec(),
        Manner::HangsUp => answer.clear(),
        _ => {}
    }
    client.write_all(&answer)
}

/// One request to the origin; the connection is closed after it.
fn ask(host: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut origin = TcpStream::connect(host)?;
    let mut text = request.to_vec();
    let keep = find(&text, b"keep-alive").map(|at| at..at + b"keep-alive".len());
    if let Some(range) = keep {
        text.splice(range, *b"close");
    }
    origin.write_all(&text)?;
    let mut answer = Vec::new();
    origin.read_to_end(&mut answer)?;
    Ok(answer)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn field(head: &str, name: &str) -> Option<String> {
    let head = head.split("\r\n\r\n").next()?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
}

/// A test of a few seconds.
fn test(mix: Mix, rate: f64, manner: Manner) -> Test {
    Test {
        sizing: Sizing {
            mix,
            rate,
            fill_rate: rate,
            cache_bytes: 100_000,
            time_scale: 1.0 / 7200.0,
        },
        proxy: proxy(manner),
        origin: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        spread: false,
        robots: None,
        servers: Some(2),
        think_scale: 0.004,
        robot_addresses: None,
        minor: Minor::Zero,
        world: 9,
        seed: 1,
        patience: Duration::from_secs(20),
        remote: false,
        only: Vec::new(),
    }
}

fn run_mix(mix: Mix, manner: Manner, rate: f64) -> Report {
    run_test(&test(mix, rate, manner))
}

/// One at a time: they go by the clock, and would slow each other down.
static ALONE: Mutex<()> = Mutex::new(());

fn run_test(test: &Test) -> Report {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let report = polymix(test, |_| {}).unwrap();
    println!("{}", report.text());
    report
}

/// Without the phases that fill a cache: who cheats need not be filled.
fn run_cheat(manner: Manner) -> Report {
    run_test(&Test {
        only: ["inc1", "top1", "top2"].map(str::to_owned).to_vec(),
        ..test(Mix::Three, 60.0, manner)
    })
}

#[track_caller]
fn caught(manner: Manner, name: &str) {
    let report = run_cheat(manner);
    let count = report.total.faults.get(name).copied().unwrap_or(0);
    assert!(
        count > 0,
        "{manner:?} was not caught: {:?}",
        report.total.faults
    );
}

#[test]
fn a_plain_proxy_is_right_and_never_hits() {
    let report = run_mix(Mix::Three, Manner::Plain, 60.0);
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    assert_eq!(report.unfinished, 0);
    assert!(report.total.replies > 150);
    assert!(report.total.dhr_percent == 0.0);
    assert!(report.frozen);
    let names: Vec<_> = report.phases.iter().map(|p| p.name.as_str()).collect();
    assert!(names.contains(&"top2"));
    let again: Report = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(again.total.replies, report.total.replies);
}

#[test]
fn a_cache_is_right_and_hits_about_as_offered() {
    let report = run_mix(Mix::Three, Manner::Cache, 150.0);
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    let top = report.phases.iter().find(|p| p.name == "top2").unwrap();
    assert!(top.offered_percent > 45.0, "{}", top.offered_percent);
    assert!(
        top.dhr_percent > top.offered_percent - 10.0,
        "{}",
        top.dhr_percent
    );
    assert!(top.hit.mean_ms < top.miss.mean_ms);
}

#[test]
fn polymix_4_passes_too() {
    let report = run_mix(Mix::Four, Manner::Cache, 150.0);
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
}

#[test]
fn an_answer_that_is_out_of_date_is_stale() {
    // Its server lives in the past, as a cache does that ignores Expires.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut test = test(Mix::Three, 60.0, Manner::Plain);
    test.only = vec!["top1".to_owned()];
    let mut settings = test.server();
    settings.clock_shift_s = -400 * 86_400;
    let origin = Origin::start(test.servers(), settings).unwrap();
    test.origin.set_port(origin.address.port());
    let report = robots(&test, |_| {}).unwrap();
    assert!(report.total.faults.get("stale").is_some_and(|n| *n > 20));
}

#[test]
fn ignoring_a_reload_is_caught() {
    caught(Manner::IgnoresReload, "reload from cache");
}

#[test]
fn keeping_what_is_private_is_caught() {
    caught(Manner::KeepsPrivate, "uncachable from cache");
}

#[test]
fn serving_another_object_is_caught() {
    let report = run_cheat(Manner::MixesUp);
    let faults = &report.total.faults;
    assert!(report.total.errors > 40, "{faults:?}");
}

#[test]
fn a_wrong_byte_is_caught() {
    caught(Manner::Spoils, "wrong bytes");
}

#[test]
fn a_short_answer_is_caught() {
    caught(Manner::CutsShort, "truncated");
}

#[test]
fn a_false_304_is_caught() {
    caught(Manner::NeverModified, "304 without a condition");
    caught(Manner::NeverModified, "304 though modified");
}

#[test]
fn failing_is_caught() {
    caught(Manner::Breaks, "status 502");
    caught(Manner::HangsUp, "closed without an answer");
}
