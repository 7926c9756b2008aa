//! Lines of Squid's log, and the records that they become.

use super::*;
use proptest::prelude::*;

fn request(line: &str) -> Record {
    match parse(line.as_bytes()).unwrap() {
        Line::Request { record, .. } => record,
        other => panic!("{line}: {other:?}"),
    }
}

fn with_code(code: &str) -> String {
    format!(
        "1700000000.123 45 192.0.2.7 {code} 1234 GET http://a.example/x - HIER_DIRECT/192.0.2.80 text/html"
    )
}

/// Every result code of Squid 2.7 to 7, its class, and its flags.
const GOLDEN: &[(&str, Class, &str)] = &[
    ("TCP_MEM_HIT/200", Class::MemoryHit, ""),
    (
        "TCP_MEM_HIT_ABORTED/200",
        Class::MemoryHit,
        "client_aborted",
    ),
    ("TCP_HIT/200", Class::DiskHit, ""),
    ("TCP_HIT/206", Class::DiskHit, ""),
    ("TCP_HIT_ABORTED/200", Class::DiskHit, "client_aborted"),
    ("TCP_HIT_TIMEDOUT/200", Class::DiskHit, "origin_aborted"),
    ("TCP_ASYNC_HIT/200", Class::DiskHit, ""),
    ("TCP_IMS_HIT/304", Class::ImsHit, ""),
    ("TCP_INM_HIT/304", Class::ImsHit, ""),
    ("TCP_NEGATIVE_HIT/404", Class::NegativeHit, ""),
    ("TCP_REFRESH_UNMODIFIED/304", Class::ImsHit, "validated"),
    (
        "TCP_REFRESH_UNMODIFIED/200",
        Class::Revalidated,
        "validated",
    ),
    (
        "TCP_REFRESH_UNMODIFIED_ABORTED/200",
        Class::Revalidated,
        "client_aborted validated",
    ),
    ("TCP_REFRESH_HIT/200", Class::Revalidated, "validated"),
    ("TCP_REFRESH_HIT/304", Class::ImsHit, "validated"),
    ("TCP_REFRESH_IGNORED/200", Class::Revalidated, "validated"),
    ("TCP_REFRESH_FAIL_OLD/200", Class::Stale, "stale"),
    ("TCP_REFRESH_FAIL/200", Class::Stale, "stale"),
    ("TCP_REF_FAIL_HIT/200", Class::Stale, "stale"),
    ("TCP_REFRESH_FAIL_ERR/503", Class::Error, "validated"),
    ("TCP_REFRESH_FAIL_HIT/200", Class::Stale, "stale"),
    ("TCP_STALE_HIT/200", Class::Stale, "stale"),
    ("TCP_OFFLINE_HIT/200", Class::Stale, "stale"),
    ("TCP_CF_HIT/200", Class::Collapsed, ""),
    ("TCP_CF_MISS/200", Class::Collapsed, ""),
    ("TCP_CF_REFRESH_UNMODIFIED/200", Class::Collapsed, ""),
    ("TCP_REFRESH_MODIFIED/200", Class::Miss, "validated"),
    ("TCP_REFRESH_MISS/200", Class::Miss, "validated"),
    ("TCP_CLIENT_REFRESH_MISS/200", Class::Miss, ""),
    ("TCP_CLIENT_REFRESH/200", Class::Miss, ""),
    ("TCP_SWAPFAIL_MISS/200", Class::Miss, ""),
    ("TCP_SWAPFAIL/200", Class::Miss, ""),
    ("TCP_MISS/200", Class::Miss, ""),
    ("TCP_MISS_ABORTED/000", Class::Miss, "client_aborted"),
    ("TCP_MISS_TIMEDOUT/200", Class::Miss, "origin_aborted"),
    (
        "TCP_MISS_TIMEDOUT_ABORTED/200",
        Class::Miss,
        "client_aborted origin_aborted",
    ),
    ("TCP_IMS_MISS/200", Class::Miss, ""),
    ("TCP_TUNNEL/200", Class::Tunnel, ""),
    ("TCP_TUNNEL_ABORTED/200", Class::Tunnel, "client_aborted"),
    ("TCP_DENIED/403", Class::Error, ""),
    ("TCP_DENIED_REPLY/403", Class::Error, ""),
    ("TCP_DENIED_ABORTED/403", Class::Error, "client_aborted"),
    ("TCP_REDIRECT/302", Class::Error, ""),
    ("NONE/400", Class::Error, ""),
    ("NONE_NONE/000", Class::Error, ""),
    ("NONE_ABORTED/400", Class::Error, "client_aborted"),
    ("NONE_NONE_ABORTED/000", Class::Error, "client_aborted"),
    ("TAG_NONE/503", Class::Error, ""),
    ("TCP_NONE/200", Class::Error, ""),
];

#[test]
fn every_code_has_its_class() {
    for (code, class, flags) in GOLDEN {
        let record = request(&with_code(code));
        let set = Flags::ALL
            .iter()
            .filter(|(flag, _)| record.flags.contains(*flag));
        let set: Vec<&str> = set.map(|(_, name)| *name).collect();
        assert_eq!(
            (record.class, set.join(" ").as_str()),
            (*class, *flags),
            "{code}"
        );
    }
}

#[test]
fn the_codes_of_our_own_log_come_back() {
    for class in Class::ALL {
        let status = if class == Class::ImsHit { 304 } else { 200 };
        let record = request(&with_code(&format!("{}/{status}", class.squid_code())));
        // Squid's codes do not distinguish uncachable responses from other misses.
        let told = if class == Class::Uncachable {
            Class::Miss
        } else {
            class
        };
        assert_eq!(record.class, told);
    }
}

#[test]
fn the_time_is_that_of_the_end() {
    let record = request(&with_code("TCP_MISS/200"));
    assert_eq!(record.began_unix_us, 1_700_000_000_078_000);
    assert_eq!(record.total_us, 45_000);
    assert_eq!(record.ended_unix_us(), 1_700_000_000_123_000);
    assert_eq!(
        (record.status, record.bytes_out, record.method),
        (200, 1234, Method::Get)
    );
    let long = with_code("TCP_MISS/200").replace(" 45 ", " 9999999999 ");
    assert_eq!(request(&long).total_us, u32::MAX);
}

#[test]
fn names_are_hashes_and_equal_for_equals() {
    let one = request(&with_code("TCP_MISS/200")).names.unwrap();
    let other = request(&with_code("TCP_MISS/200").replace("/x ", "/y "))
        .names
        .unwrap();
    assert_ne!(one.key, other.key);
    assert_eq!((one.client, one.server), (other.client, other.server));
    let hit = with_code("TCP_HIT/200").replace("HIER_DIRECT/192.0.2.80", "HIER_NONE/-");
    assert_eq!(request(&hit).names.unwrap().server, 0, "nobody was asked");
}

#[test]
fn hits_of_peers_are_told_by_the_hierarchy_code() {
    for (code, is_hit) in [
        ("SIBLING_HIT/p", true),
        ("CD_PARENT_HIT/p", true),
        ("TIMEOUT_PARENT_HIT/p", true),
        ("PARENT_UDP_HIT_OBJ/p", true),
        ("FIRSTUP_PARENT/p", false),
        ("PARENT_MISS/p", false),
        ("HIER_DIRECT/10.0.0.1", false),
        ("HIER_NONE/-", false),
    ] {
        let line = format!("1.000 5 10.0.0.1 TCP_MISS/200 100 GET http://a/ - {code} text/html");
        let flags = request(&line).flags;
        assert_eq!(flags.contains(Flags::PEER_HIT), is_hit, "{code}");
    }
}

#[test]
fn hierarchy_codes_name_whom_was_asked() {
    for (code, hierarchy) in [
        ("HIER_NONE/-", Hierarchy::None),
        ("NONE/-", Hierarchy::None),
        ("HIER_DIRECT/192.0.2.1", Hierarchy::Direct),
        ("DIRECT/a.example", Hierarchy::Direct),
        ("TIMEOUT_DIRECT/a.example", Hierarchy::Direct),
        ("ORIGINAL_DST/192.0.2.1", Hierarchy::Direct),
        ("PINNED/192.0.2.1", Hierarchy::Direct),
        ("FIRSTUP_PARENT/192.0.2.1", Hierarchy::Parent),
        ("TIMEOUT_FIRST_UP_PARENT/p", Hierarchy::Parent),
        ("PARENT_HIT/p", Hierarchy::Parent),
        ("ROUNDROBIN_PARENT/p", Hierarchy::Parent),
        ("CARP/p", Hierarchy::Parent),
        ("SIBLING_HIT/p", Hierarchy::Sibling),
        ("CD_SIBLING_HIT/p", Hierarchy::Sibling),
    ] {
        let line = with_code("TCP_MISS/200").replace("HIER_DIRECT/192.0.2.80", code);
        assert_eq!(request(&line).hierarchy, hierarchy, "{code}");
    }
}

#[test]
fn queries_and_empty_lines_are_no_requests() {
    let icp = "1700000000.123 0 192.0.2.7 UDP_MISS/000 60 ICP_QUERY http://a/ - HIER_NONE/- -";
    assert_eq!(parse(icp.as_bytes()), Ok(Line::Query { is_hit: false }));
    let hit = icp.replace("UDP_MISS", "UDP_HIT");
    assert_eq!(parse(hit.as_bytes()), Ok(Line::Query { is_hit: true }));
    assert_eq!(parse(b""), Ok(Line::Empty));
    assert_eq!(parse(b"# comment"), Ok(Line::Empty));
}

#[test]
fn the_fields_of_the_longer_format_are_stages() {
    let line = with_code("TCP_MISS/200") + " 5 30 38";
    let Line::Request {
        record, has_stages, ..
    } = parse(line.as_bytes()).unwrap()
    else {
        panic!("{line}");
    };
    assert!(has_stages);
    let stage = |name| record.stage(name).map(|s| (s.start_us, s.total_us));
    assert_eq!(stage(StageName::Dns), Some((0, 5_000)));
    assert_eq!(stage(StageName::ProxyConnect), Some((5_000, 8_000)));
    assert_eq!(stage(StageName::ServerReply), Some((13_000, 30_000)));

    let hit = with_code("TCP_HIT/200") + " - - -";
    let Line::Request {
        record, has_stages, ..
    } = parse(hit.as_bytes()).unwrap()
    else {
        panic!("{hit}");
    };
    assert!(has_stages && record.stages.iter().all(Option::is_none));
    // Headers, as appended by `log_mime_hdrs on`, are not stages.
    let headers = with_code("TCP_HIT/200") + " [Host: a] [x] [y]";
    assert!(matches!(
        parse(headers.as_bytes()),
        Ok(Line::Request {
            has_stages: false,
            ..
        })
    ));
}

/// Lines that Squid 5.7 wrote in the longer format: a refused connection, a client that disconnected, a reused connection.
const WRITTEN: &str = "\
1795348610.699      0 127.0.0.1 TCP_MISS/503 3440 GET http://127.0.0.1:1/refused - HIER_DIRECT/127.0.0.1 text/html - - 0
1795348610.910     51 127.0.0.1 TCP_MISS_ABORTED/000 0 GET http://127.0.0.1:37099/aborted - HIER_DIRECT/127.0.0.1 - - 0 51
1795348610.479     68 127.0.0.1 TCP_MISS/200 3296 GET http://127.0.0.1:37099/a - HIER_DIRECT/127.0.0.1 - - 67 68";

#[test]
fn lines_of_a_squid_are_read() {
    let stages = |line: &str| {
        let Ok(Line::Request {
            record, has_stages, ..
        }) = parse(line.as_bytes())
        else {
            panic!("{line}");
        };
        assert!(has_stages, "{line}");
        let us = |name| record.stage(name).map(|stage| stage.total_us);
        [
            StageName::Dns,
            StageName::ProxyConnect,
            StageName::ServerReply,
        ]
        .map(us)
    };
    let found: Vec<_> = WRITTEN.lines().map(stages).collect();
    assert_eq!(
        found,
        [
            [None, Some(0), None],
            [None, Some(51_000), Some(0)],
            [None, Some(1_000), Some(67_000)],
        ]
    );
}

#[test]
fn what_is_no_line_says_why() {
    for (line, why) in [
        ("hello", "has 1 fields of 10"),
        (
            "1700000000.123 45 192.0.2.7 TCP_HIT/200 12",
            "has 5 fields of 10",
        ),
        (
            "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2326 \"-\" \"-\"",
            "is no time in seconds",
        ),
        (
            &with_code("TCP_MISS/200").replace(" 45 ", " x "),
            "\"x\" is no time in milliseconds",
        ),
        (&with_code("TCP_MISS"), "\"TCP_MISS\" is no result code"),
        (&with_code("TCP_MISS/2x0"), "is no result code"),
        (
            &with_code("TCP_WONDER/200"),
            "result code \"TCP_WONDER\" is not known",
        ),
        (&with_code("MISS/200"), "result code \"MISS\" is not known"),
        (
            &with_code("TCP_MISS/200").replace(" 1234 ", " -1 "),
            "\"-1\" is no number of bytes",
        ),
        (
            &with_code(&format!("\u{1b}[31m{}/200", "x".repeat(90))),
            "result code \"?[31mxxx",
        ),
    ] {
        let said = parse(line.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(why) && said.len() < 120, "{line}: {said}");
    }
}

proptest! {
    #[test]
    fn foreign_lines_are_no_panic(line: Vec<u8>) {
        let _ = parse(&line);
    }

    #[test]
    fn odd_fields_are_no_panic(fields in proptest::collection::vec("[0-9A-Z_/.-]{0,24}", 8..16)) {
        let _ = parse(fields.join(" ").as_bytes());
    }

    #[test]
    fn every_stage_lies_within_its_request(elapsed in 0..100u64, [dns, reply, total]: [u64; 3]) {
        let line = with_code("TCP_MISS/200").replace(" 45 ", &format!(" {elapsed} "));
        let record = request(&format!("{line} {dns} {reply} {total}"));
        for stage in record.stages.iter().flatten() {
            prop_assert!(stage.first_us <= stage.total_us);
            prop_assert!(stage.start_us + stage.total_us <= record.total_us);
        }
    }
}
