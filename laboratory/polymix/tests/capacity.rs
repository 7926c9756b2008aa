//! The capacity of the load generator: robots against the servers, without a proxy and without think time.
//!
//! In the ordinary test run it is small and shows only that it works. To measure:
//! `POLYMIX_RATE=20000 POLYMIX_ROBOTS=5000 cargo test --release -p polymix --test capacity -- --nocapture`

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use polymix::Mix;
use polymix::network::Network;
use polymix::phases::Sizing;
use polymix::run::{Origin, Share, Test, robots};
use polymix::wire::Minor;

/// Requests a second by default.
const RATE: f64 = 200.0;

#[test]
fn robots_keep_the_rate_they_intend() {
    let rate = std::env::var("POLYMIX_RATE").map_or(RATE, |text| text.parse().unwrap());
    let robots_wanted = std::env::var("POLYMIX_ROBOTS").map(|text| text.parse().unwrap());
    let robots_wanted = robots_wanted.ok();
    // The server answers absolute URLs too, so it can stand in for a proxy.
    let mut test = Test {
        sizing: Sizing {
            mix: Mix::Three,
            rate,
            fill_rate: rate,
            cache_bytes: 0,
            time_scale: if rate > RATE {
                1.0 / 720.0
            } else {
                1.0 / 7200.0
            },
        },
        proxy: (Ipv4Addr::LOCALHOST, 0).into(),
        https: false,
        origin: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        spread: false,
        robots: robots_wanted,
        servers: None,
        named: false,
        name_server: None,
        network: Network::NONE,
        think_scale: 0.0,
        robot_addresses: Some(Ipv4Addr::new(127, 2, 0, 1)),
        minor: Minor::One,
        world: 3,
        seed: 3,
        patience: Duration::from_secs(30),
        remote: false,
        only: vec!["inc1".to_owned(), "top1".to_owned()],
        range_share: 0.0,
        share: Share::WHOLE,
    };
    let origin = Origin::start(test.servers(), test.server(), None).unwrap();
    test.proxy = origin.address;
    test.origin.set_port(origin.address.port());
    let report = robots(&test, |_| {}).unwrap();
    println!("{}", report.text());
    println!("servers: {:?}", origin.counters.seen());
    assert_eq!(report.total.errors, 0, "{:?}", report.faults);
    let top = report.phases.last().unwrap();
    assert!(
        top.request_rate > 0.8 * rate,
        "{} of {rate}",
        top.request_rate
    );
}
