//! The benchmark against small proxies in this process: correct ones pass, and each kind of cheating is reported by name.
//!
//! The assertions do not depend on the speed of the machine: the requests follow from plan and seed, late ones are sent all the same,
//! and hits are compared with the proxy's own count. So the tests may run in parallel.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use polymix::Mix;
use polymix::check::EXHAUSTED;
use polymix::network::Network;
use polymix::phases::{Ends, Phase, Sizing};
use polymix::report::Report;
use polymix::robots;
use polymix::run::{self, Origin, Share, Test, polymix};
use polymix::search::{Bounds, Conditions, Found, search};
use polymix::wire::Minor;

use crate::manners::{Manner, encrypted, proxy};

/// A test of a few seconds, with all phases.
fn test(mix: Mix, proxy: SocketAddr) -> Test {
    Test {
        sizing: Sizing {
            mix,
            rate: 500.0,
            fill_rate: 500.0,
            cache_bytes: 100_000,
            time_scale: 1.0 / 28_800.0,
        },
        proxy,
        https: false,
        origin: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        spread: false,
        robots: None,
        servers: Some(2),
        named: false,
        name_server: None,
        network: Network::NONE,
        think_scale: 0.004,
        robot_addresses: None,
        minor: Minor::Zero,
        world: 9,
        seed: 1,
        patience: Duration::from_secs(60),
        remote: false,
        only: Vec::new(),
        range_share: 0.0,
        share: Share::WHOLE,
    }
}

fn run(test: &Test) -> Report {
    let report = polymix(test, |_| {}).unwrap();
    println!("{}", report.text());
    report
}

/// One phase at full load, and one server; to detect cheating no fill is needed. Some 200 requests, and four times as many if pages
/// are delivered. The rarest type is a twentieth of them.
fn brief(manner: Manner) -> Test {
    let mut test = test(Mix::Three, proxy(manner).0);
    (test.sizing.rate, test.sizing.fill_rate) = (1_000.0, 1_000.0);
    test.only = vec!["top1".to_owned()];
    test.servers = Some(1);
    test
}

#[track_caller]
fn has(report: &Report, names: &[&str]) {
    let faults = &report.total.faults;
    for name in names {
        let count = faults.get(*name).copied().unwrap_or(0);
        assert!(count > 0, "no {name:?} in {faults:?}");
    }
}

/// A brief run makes few requests of some types, fewer on a busy machine, so each retry is four times as long.
#[track_caller]
fn caught(manner: Manner, names: &[&str]) {
    let mut test = brief(manner);
    let mut report = run(&test);
    for _ in 0..2 {
        let faults = &report.total.faults;
        if names.iter().all(|name| faults.contains_key(*name)) {
            break;
        }
        test.sizing.time_scale *= 4.0;
        report = run(&test);
    }
    has(&report, names);
}

/// Like `caught`, with range requests among the others.
#[track_caller]
fn caught_by_ranges(manner: Manner, names: &[&str]) {
    let report = run(&Test {
        range_share: 0.5,
        ..brief(manner)
    });
    has(&report, names);
}

#[test]
fn a_plain_proxy_is_right_and_never_hits() {
    let report = run(&test(Mix::Three, proxy(Manner::Plain).0));
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    assert_eq!(report.unfinished, 0);
    assert!(report.total.replies > 100);
    assert!(report.total.dhr_percent == 0.0);
    assert!(report.frozen);
    let names: Vec<_> = report.phases.iter().map(|p| p.name.as_str()).collect();
    assert!(names.contains(&"top2"));
    assert!(Report::from_json(&report.json()).unwrap() == report);
}

#[test]
fn the_network_delays_what_comes_from_servers() {
    let delay = Duration::from_millis(10);
    let report = run(&Test {
        think_scale: 0.0,
        network: Network::new(delay, 0.02),
        ..brief(Manner::Plain)
    });
    // Losses are no faults: TCP sends lost packets again.
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    let miss = report.total.miss;
    assert!(miss.p50_ms >= 20.0, "{miss:?}");
    // A timeout, two delays and a think time of 0.
    assert!(miss.max_ms >= 220.0, "{miss:?}");
}

#[test]
fn a_cache_is_right_and_hits_as_often_as_it_says() {
    let (address, cache) = proxy(Manner::Cache);
    let report = run(&Test {
        think_scale: 0.02,
        ..test(Mix::Three, address)
    });
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    assert_eq!(report.unfinished, 0);
    // The proxy answers only basic requests, and all of its hits are counted.
    assert_eq!(report.total.counted.hits.count, cache.hits.load(Relaxed));
    let top = report.top();
    // Some 300 requests in all, so the number of repeats varies by a few percent.
    assert!(top.offered_percent > 35.0, "{}", top.offered_percent);
    assert!(top.dhr_percent > top.offered_percent / 2.0);
    assert!(top.dhr_percent < top.offered_percent + 2.0);
    // The working set of a short test in a small cache: an LRU has some of it, in each phase, and the sums agree with the robots'.
    assert!(top.lru_percent > 0.0 && top.lru_percent <= top.offered_percent);
    assert!(report.total.counted.lru <= report.total.counted.offered);
    let phases = report.phases.iter().map(|p| p.counted.lru_basic);
    assert_eq!(phases.sum::<u64>(), report.total.counted.lru_basic);
    let series = report.series.iter().map(|m| m.sample.lru);
    assert_eq!(series.sum::<u64>(), report.total.counted.lru_basic);
    let traffic = top.dhr_traffic_percent.unwrap();
    assert!(
        traffic > 0.0 && traffic < top.dhr_percent + 5.0,
        "{traffic}"
    );
    // The servers think for 50 ms.
    assert!(top.hit.p50_ms < top.miss.p50_ms);
}

#[test]
fn polymix_4_passes_too() {
    let report = run(&test(Mix::Four, proxy(Manner::Cache).0));
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
}

#[test]
fn ranges_pass_too() {
    let report = run(&Test {
        range_share: 0.5,
        ..brief(Manner::Cache)
    });
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
}

#[test]
fn parts_of_a_run_by_several_robots_make_one_report() {
    // The servers run once; the robots run in two parts at the same time, as two processes would.
    let (address, cache) = proxy(Manner::Cache);
    let mut test = Test {
        only: vec!["inc1".to_owned(), "top1".to_owned()],
        ..test(Mix::Three, address)
    };
    let origin = Origin::start(test.servers(), test.server(), None).unwrap();
    test.origin.set_port(origin.address.port());
    let parts = [1, 2].map(|part| {
        let test = Test {
            share: Share { part, of: 2 },
            ..test.clone()
        };
        std::thread::spawn(move || run::robots(&test, |_| {}).unwrap())
    });
    let parts = parts.map(|part| part.join().unwrap());
    for part in &parts {
        // Each part makes half of the requests, for its own objects. Fewer on a busy machine, because robots wait for answers.
        assert!(
            (20..400).contains(&part.total.requests),
            "{}",
            part.total.requests
        );
        assert_eq!(part.total.errors, 0, "{:?}", part.faults);
    }
    let whole = Report::joined(&parts).unwrap();
    assert_eq!(
        whole.total.replies,
        parts[0].total.replies + parts[1].total.replies
    );
    assert_eq!(whole.total.counted.hits.count, cache.hits.load(Relaxed));
    assert!((whole.total.intended_rate / parts[0].total.intended_rate - 2.0).abs() < 0.01);
    assert!(whole.missing_parts().is_empty());
}

/// A thousand robots for a test with phases of its own.
fn robots(test: &Test, origin_port: u16) -> robots::Settings {
    let mut servers = test.servers();
    servers.first.set_port(origin_port);
    robots::Settings {
        mix: test.sizing.mix,
        proxy: test.proxy,
        https: test.https,
        servers,
        robots: 1_000,
        speed: 1.0,
        addresses: None,
        world: 1,
        seed: 1,
        minor: Minor::Zero,
        life_scale: test.sizing.time_scale,
        range_share: 0.0,
        cache_bytes: 1 << 20,
        working_set_fills: 100,
        patience: test.patience,
        sockets_max: 1_000,
        kept_max: 1_000,
    }
}

fn phase(test: &Test, name: &str) -> Phase {
    let phases = polymix::phases::phases(&test.sizing);
    phases.into_iter().find(|p| p.name == name).unwrap()
}

fn run_robots(settings: robots::Settings, phase: &Phase) -> robots::Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let run = robots::run(settings, std::slice::from_ref(phase), None, |_| {});
    tokio::task::LocalSet::new().block_on(&runtime, run)
}

#[test]
fn a_fill_that_gets_nowhere_is_given_up_and_that_is_told() {
    let filling = |manner, at_most_s| {
        let test = brief(manner);
        let origin = Origin::start(test.servers(), test.server(), None).unwrap();
        let mut fill = phase(&test, "fill");
        fill.ends = Ends::Filled {
            bytes: 20_000,
            planned_s: 0.25,
            at_most_s,
        };
        let settings = robots(&test, origin.address.port());
        run_robots(settings, &fill).phases[0].given_up
    };
    // No fill succeeds through `Breaks`.
    let given_up = filling(Manner::Breaks, 1.0).expect("there was nothing to fill with");
    assert!((given_up.planned_s - 0.25).abs() < 1e-9 && given_up.filled_percent == 0.0);
    assert_eq!(filling(Manner::Plain, 60.0), None);
}

#[test]
fn servers_may_have_addresses_of_their_own() {
    let (address, cache) = proxy(Manner::Cache);
    let report = run(&Test {
        origin: SocketAddrV4::new(Ipv4Addr::new(127, 1, 7, 249), 0),
        spread: true,
        servers: Some(4),
        only: vec!["inc1".to_owned(), "top1".to_owned()],
        ..test(Mix::Three, address)
    });
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    assert!(report.total.replies > 20);
    // Addresses count up from the first one, 250 in a network.
    let hosts = cache.hosts.lock().unwrap();
    let hosts: Vec<_> = hosts
        .iter()
        .map(|host| host.rsplit_once(':').unwrap().0)
        .collect();
    assert_eq!(
        hosts,
        ["127.1.7.249", "127.1.7.250", "127.1.8.1", "127.1.8.2"]
    );
}

#[test]
fn robots_that_run_out_of_sockets_say_so_and_go_on() {
    let test = brief(Manner::Plain);
    let origin = Origin::start(test.servers(), test.server(), None).unwrap();
    let settings = robots::Settings {
        sockets_max: 2,
        kept_max: 2,
        ..robots(&test, origin.address.port())
    };
    let outcome = run_robots(settings, &phase(&test, "top1"));
    let counted = &outcome.phases[0].counted;
    assert!(counted.replies.count > 0);
    assert_eq!(counted.faults.keys().collect::<Vec<_>>(), [EXHAUSTED]);
    assert_eq!((outcome.connections_max, outcome.unfinished), (2, 0));
}

#[test]
fn a_search_goes_up_with_a_cache_and_stays_down_without() {
    let bounds = Bounds {
        first: 300.0,
        least: 300.0,
        most: 600.0,
        tolerance: 0.5,
    };
    // Times do not matter here, so a busy machine does not either.
    let conditions = Conditions {
        response_ms_max: 60_000.0,
        hit_points: 20.0,
    };
    let found = |manner| {
        let (address, _) = proxy(manner);
        let run_at = |step, rate| {
            let mut test = test(Mix::Three, address);
            (test.sizing.rate, test.sizing.fill_rate) = (rate, rate);
            test.sizing.time_scale *= 2.0;
            test.sizing.cache_bytes = 0;
            test.world += u32::try_from(step).unwrap();
            test.only = ["fill", "top1"].map(str::to_owned).to_vec();
            polymix(&test, |_| {})
        };
        search(bounds, conditions, run_at).unwrap()
    };
    let (steps, at_least) = found(Manner::Cache);
    assert_eq!(at_least, Found::AtLeast { rate: 600.0 });
    assert_eq!(steps.len(), 2);
    let (_, nothing) = found(Manner::Plain);
    let Found::Nothing { why, .. } = nothing else {
        panic!("{nothing:?}");
    };
    assert!(
        why.iter()
            .any(|why| why.contains("document hit ratio 0.00 %")),
        "{why:?}"
    );
}

#[test]
fn an_answer_that_is_out_of_date_is_stale() {
    // The clock of the server is in the past, so its answers look like those of a cache that ignores Expires.
    let mut test = brief(Manner::Plain);
    let mut settings = test.server();
    settings.clock_shift_s = -400 * 86_400;
    let origin = Origin::start(test.servers(), settings, None).unwrap();
    test.origin.set_port(origin.address.port());
    let report = run::robots(&test, |_| {}).unwrap();
    assert!(report.total.faults.get("stale").is_some_and(|n| *n > 20));
}

#[test]
fn ignoring_a_reload_is_caught() {
    caught(Manner::IgnoresReload, &["reload from cache"]);
}

#[test]
fn a_cache_that_goes_on_as_before_after_a_reload_is_caught() {
    // Long enough for kept copies to be so old that they cannot be answers that were overtaken.
    let mut test = brief(Manner::ForgetsReload);
    (test.sizing.rate, test.sizing.fill_rate) = (400.0, 400.0);
    test.sizing.time_scale *= 16.0;
    has(&run(&test), &["stale after a reload"]);
}

#[test]
fn keeping_what_is_private_is_caught() {
    caught(Manner::KeepsPrivate, &["uncachable from cache"]);
}

#[test]
fn serving_another_object_is_caught() {
    let report = run(&brief(Manner::MixesUp));
    let faults = &report.total.faults;
    assert!(report.total.errors > 40, "{faults:?}");
}

#[test]
fn a_wrong_byte_is_caught() {
    caught(Manner::Spoils, &["wrong bytes"]);
}

#[test]
fn a_short_answer_is_caught() {
    caught(Manner::CutsShort, &["truncated"]);
}

#[test]
fn a_false_304_is_caught() {
    caught(
        Manner::NeverModified,
        &["304 without a condition", "304 though modified"],
    );
}

#[test]
fn failing_is_caught() {
    caught(Manner::Breaks, &["status 502"]);
    caught(Manner::HangsUp, &["closed without an answer"]);
}

#[test]
fn another_range_is_caught() {
    caught_by_ranges(Manner::OtherRange, &["wrong range"]);
    caught_by_ranges(Manner::PartsOnly, &["wrong range"]);
}

#[test]
fn a_range_of_other_bytes_is_caught() {
    caught_by_ranges(Manner::ShiftsRange, &["wrong bytes"]);
}

#[test]
fn a_short_range_is_caught() {
    caught_by_ranges(Manner::CutsRange, &["truncated"]);
}

#[test]
fn over_tls_every_byte_is_checked_too() {
    let (cache, counted) = proxy(Manner::Cache);
    let (address, resumed) = encrypted(cache);
    let report = run(&Test {
        https: true,
        ..test(Mix::Four, address)
    });
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    assert!(report.total.replies > 100 && counted.hits.load(Relaxed) > 0);
    assert!(resumed.load(Relaxed) > 0, "sessions are resumed");
    let (spoiling, _) = encrypted(proxy(Manner::Spoils).0);
    let report = run(&Test {
        https: true,
        proxy: spoiling,
        ..brief(Manner::Spoils)
    });
    has(&report, &["wrong bytes"]);
    // A client that speaks plain HTTP to a TLS port gets no answer that it understands.
    let report = run(&Test {
        proxy: address,
        ..brief(Manner::Plain)
    });
    assert_eq!(report.total.replies, 0);
}
