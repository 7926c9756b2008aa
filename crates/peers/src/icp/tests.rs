//! Asking siblings that are sockets of the test; and the table alone.

use super::table::{PROBE_EVERY, QUERIES_MAX, SILENT_AFTER};
use super::*;
use plan::Sibling;

fn plan(port: u16) -> Plan {
    let mut plan = Plan::with_listeners(Vec::new());
    let host = "127.0.0.1".to_owned();
    plan.siblings = vec![Sibling {
        at: PeerAddress { host, port: 1 },
        ask: Ask::Icp { port },
        ..Sibling::default()
    }];
    plan
}

/// A sibling that the test plays, and our side.
fn pair() -> (UdpSocket, Icp, SocketAddr) {
    let sibling = UdpSocket::bind("127.0.0.1:0").unwrap();
    (sibling.set_read_timeout(Some(Duration::from_secs(10)))).unwrap();
    let at = sibling.local_addr().unwrap();
    let icp = Icp::open(&plan(at.port())).unwrap().unwrap();
    icp.found(0, at);
    let us = SocketAddr::new(at.ip(), icp.address().unwrap().port());
    (sibling, icp, us)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A query that the sibling has received: its number and URL.
fn received(sibling: &UdpSocket) -> (u32, Vec<u8>) {
    let mut datagram = [0; 512];
    let (len, _) = sibling.recv_from(&mut datagram).unwrap();
    let message = Message::decode(&datagram[..len]).unwrap();
    assert_eq!(message.opcode, Opcode::Query);
    (message.request, message.url.to_vec())
}

fn answer(opcode: Opcode, request: u32) -> Message<'static> {
    Message {
        opcode,
        request,
        url: b"http://a/",
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_answer_goes_to_whoever_asked() {
    let (sibling, icp, _) = pair();
    let from = sibling.local_addr().unwrap();
    for (opcode, expected) in [
        (Opcode::Hit, Answer::Hit),
        (Opcode::Miss, Answer::Miss),
        (Opcode::MissNoFetch, Answer::Miss),
        (Opcode::Denied, Answer::Miss),
        (Opcode::Error, Answer::Miss),
    ] {
        let answered = runtime().block_on(async {
            let asking = icp.ask(0, b"http://a/", LONG);
            let answering = async {
                let (request, url) = received(&sibling);
                assert_eq!(url, b"http://a/");
                // From another address, and to another number.
                let elsewhere = SocketAddr::new(from.ip(), from.port() ^ 1);
                icp.answered(elsewhere, &answer(Opcode::Hit, request));
                icp.answered(from, &answer(Opcode::Hit, request ^ 1));
                icp.answered(from, &answer(opcode, request));
                // The same answer twice.
                icp.answered(from, &answer(Opcode::Hit, request));
            };
            tokio::join!(asking, answering).0
        });
        assert_eq!(answered, expected);
    }
    let strays = icp.counters.icp_strays.load(Ordering::Relaxed);
    assert_eq!(strays, 15);
    assert_eq!(icp.table().under_way(), 0);
}

#[test]
fn what_is_not_answered_in_time_is_no_answer_and_leaves_nothing_behind() {
    let (sibling, icp, _) = pair();
    runtime().block_on(async {
        let answer = icp.ask(0, b"http://a/", Duration::from_millis(1)).await;
        assert_eq!(answer, Answer::Nothing);
        // When a client goes away its query is removed.
        let gone = tokio::time::timeout(Duration::from_millis(1), icp.ask(0, b"http://a/", LONG));
        assert!(gone.await.is_err());
    });
    assert_eq!(icp.table().under_way(), 0);
    let (request, _) = received(&sibling);
    let from = sibling.local_addr().unwrap();
    icp.answered(from, &answer(Opcode::Hit, request));
    assert_eq!(icp.counters.icp_strays.load(Ordering::Relaxed), 1, "late");
    assert_eq!(icp.counters.icp_unanswered.load(Ordering::Relaxed), 1);
}

#[test]
fn what_cannot_be_asked_is_no_answer() {
    let (_sibling, icp, _) = pair();
    runtime().block_on(async {
        assert_eq!(icp.ask(7, b"http://a/", LONG).await, Answer::Nothing);
        assert_eq!(icp.ask(0, b"", LONG).await, Answer::Nothing);
        assert_eq!(icp.ask(0, &[b'a'; 20_000], LONG).await, Answer::Nothing);
    });
    assert_eq!(icp.table().under_way(), 0);
    assert_eq!(icp.counters.icp_queries_unsent.load(Ordering::Relaxed), 3);
}

#[test]
fn without_siblings_and_a_port_there_is_no_socket() {
    assert!(
        Icp::open(&Plan::with_listeners(Vec::new()))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_silent_sibling_is_asked_now_and_then_and_not_waited_for() {
    let at: SocketAddr = "192.0.2.1:3130".parse().unwrap();
    let mut table = Table::new(1);
    let mut now = Instant::now();
    assert!(matches!(table.ask(0, 1, now), Asked::Refused), "no address");
    table.set_address(0, at);
    for n in 1..=SILENT_AFTER {
        let Asked::Wait { request, .. } = table.ask(0, n, now) else {
            panic!("{n}");
        };
        assert_eq!(table.timed_out(request), n == SILENT_AFTER);
    }
    let Asked::Probe { request: lost, .. } = table.ask(0, 100, now) else {
        panic!("the first query of a silent sibling is a probe");
    };
    assert!(matches!(table.ask(0, 101, now), Asked::Silent));
    now += PROBE_EVERY;
    let Asked::Probe { request, .. } = table.ask(0, 102, now) else {
        panic!("it is time for another");
    };
    assert_eq!(table.under_way(), 1, "the one before is forgotten");
    assert_eq!(table.answered(at, lost, Opcode::Miss), Matched::Stray);
    assert_eq!(table.answered(at, request, Opcode::Miss), Matched::Back(0));
    assert!(matches!(table.ask(0, 103, now), Asked::Wait { .. }));
}

#[test]
fn a_sibling_that_denies_is_soon_not_waited_for() {
    let at: SocketAddr = "192.0.2.1:3130".parse().unwrap();
    let mut table = Table::new(1);
    table.set_address(0, at);
    for n in 1..=SILENT_AFTER {
        let asked = table.ask(0, n, Instant::now());
        assert!(matches!(asked, Asked::Wait { .. }));
        let expected = match n == SILENT_AFTER {
            true => Matched::Denied(0),
            false => Matched::Taken,
        };
        assert_eq!(table.answered(at, n, Opcode::Denied), expected);
    }
    let asked = table.ask(0, 0, Instant::now());
    assert!(matches!(asked, Asked::Probe { .. }));
}

#[test]
fn queries_under_way_are_bounded_and_their_numbers_differ() {
    let mut table = Table::new(1);
    table.set_address(0, "192.0.2.1:3130".parse().unwrap());
    let mut waiting = Vec::new();
    for n in 0..QUERIES_MAX as u32 {
        // Each number is drawn twice.
        match table.ask(0, n & !1, Instant::now()) {
            Asked::Wait { answer, .. } => waiting.push(answer),
            _ => panic!("refused after {}", waiting.len()),
        }
    }
    assert_eq!(table.under_way(), QUERIES_MAX);
    assert!(matches!(table.ask(0, 5, Instant::now()), Asked::Refused));
}

#[test]
fn a_sibling_is_asked_at_an_address_of_the_sockets_family() {
    let is_reached = |from: &str, to: &str| reaches(from.parse().unwrap(), to.parse().unwrap());
    assert!(is_reached("0.0.0.0", "192.0.2.1"));
    assert!(is_reached("0.0.0.0", "::ffff:192.0.2.1"));
    assert!(!is_reached("0.0.0.0", "2001:db8::1"));
    assert!(is_reached("::", "192.0.2.1") && is_reached("::", "2001:db8::1"));
    assert!(is_reached("2001:db8::2", "2001:db8::1"));
    assert!(!is_reached("2001:db8::2", "192.0.2.1"));
}
