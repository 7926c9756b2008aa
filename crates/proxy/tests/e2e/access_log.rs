//! What the access log says of a request: what the client asked, whatever became of it.

use std::path::Path;

use ::proxy::plan::{AccessFormat, AccessLog, LogTarget, Plan};
use serde_json::Value;

use crate::harness::{
    names::NameServer,
    running::{forward_plan, url},
    *,
};

/// Nobody listens there.
const CLOSED: u16 = 1025;
const AGENT: &str = "User-Agent: Agent/1 \"quoted\"";
const REFERER: &str = "Referer: https://u:secret@www.example.org/from";

fn logging(mut plan: Plan, to: &Path, format: AccessFormat) -> Plan {
    plan.logs.access = Some(AccessLog {
        target: LogTarget::File(to.to_owned()),
        format,
    });
    plan
}

/// The lines as JSON, once the proxy has stopped.
fn entries(proxy: Proxy, log: &Path) -> Vec<Value> {
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_reverse_listener_logs_the_clients_url_and_the_origin() {
    let origin = Origin::start(|exchange| {
        if exchange.request.method == "POST" {
            exchange.body();
        }
        exchange.send(ok(&[FRESH], pattern(20_000)));
    });
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let disk = Disk::of_mib(16);
    let mut plan = logging(disk.under(plan_for(&origin)), &log, AccessFormat::Json);
    // The origin has a path of its own, which no client asked for.
    let ::proxy::plan::Role::Reverse(routes) = &mut plan.listeners[0].role else {
        panic!()
    };
    routes[0].origin.path = "/base".into();
    let origin_url = format!("{}/base", url(origin.address));
    let (proxy, again) = (Proxy::start(plan.clone()), plan);
    let fields = [AGENT, REFERER];
    // A miss, a hit on the short way, and one on the long way.
    proxy.ask("GET", "/a?b=c", &fields);
    proxy.ask("GET", "/a?b=c", &fields);
    proxy.ask(
        "GET",
        "/a?b=c",
        &[&fields[..], &["Cache-Control: max-stale"]].concat(),
    );
    let mut client = proxy.client();
    client.ask(
        "POST",
        "/a?b=c",
        &[&fields[..], &["Content-Length: 5"]].concat(),
    );
    client.send("12345").read("POST");
    let chunked = ["Transfer-Encoding: chunked"];
    client.ask("POST", "/a?b=c", &[&fields[..], &chunked].concat());
    client.send("2\r\nab\r\n0\r\n\r\n").read("POST");
    // From disk, where the object is stored again.
    proxy.ask("GET", "/a?b=c", &fields);
    let listener = proxy.address().to_string();
    let mut lines = entries(proxy, &log);
    std::fs::remove_file(&log).unwrap();
    let proxy = Proxy::start(again);
    let second = proxy.address().to_string();
    proxy.ask("GET", "/a?b=c", &fields);
    lines.extend(entries(proxy, &log));

    let classes: Vec<_> = lines.iter().map(|line| &line["class"]).collect();
    assert_eq!(
        classes,
        [
            "miss",
            "memory-hit",
            "memory-hit",
            "uncachable",
            "uncachable",
            "miss",
            "disk-hit"
        ]
    );
    for (at, line) in lines.iter().enumerate() {
        let uri = format!("{}://test.example/a?b=c", way::scheme());
        assert_eq!(line["uri"], uri, "{line}");
        assert_eq!(line["origin"], origin_url, "{line}");
        assert_eq!(
            line["listener"],
            if at < 6 { &listener } else { &second }[..]
        );
        assert_eq!(line["protocol"], "HTTP/1.1");
        assert_eq!(line["user_agent"], "Agent/1 \"quoted\"");
        assert_eq!(line["referer"], "https://www.example.org/from");
        let asked = line["class"] != "memory-hit" && line["class"] != "disk-hit";
        let hierarchy = if asked { "FIRSTUP_PARENT" } else { "HIER_NONE" };
        assert_eq!(line["hierarchy"], hierarchy, "{line}");
    }
    let head = lines[0]["bytes_in"].as_u64().unwrap();
    let sent = client::request("GET", "/a?b=c", &fields, "").len() as u64;
    assert_eq!(head, sent);
    assert_eq!(lines[1]["bytes_in"], head);
    assert_eq!(lines[6]["bytes_in"], head);
    // The head has a letter and a field more, and then there are 5 bytes, or 2 and their framing.
    assert_eq!(
        lines[3]["bytes_in"],
        head + 1 + "Content-Length: 5\r\n".len() as u64 + 5
    );
    assert_eq!(
        lines[4]["bytes_in"],
        head + 1 + chunked[0].len() as u64 + 2 + 12
    );
}

#[test]
fn combined_lines_come_of_every_way_a_request_can_go() {
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let proxy = Proxy::start(logging(plan_for(&origin), &log, AccessFormat::Combined));
    proxy.ask("GET", "/a", &[AGENT, REFERER]);
    proxy.ask("GET", "/a", &[AGENT, REFERER]);
    proxy.ask("OPTIONS", "*", &[]);
    proxy.client().send("GET /a HTTP/1.0\r\n\r\n").read("GET");
    proxy.client().send("nonsense\r\n\r\n").read("GET");
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    let cut = |line: &str| {
        let (before, rest) = line.split_once(" - - [").unwrap();
        let (_time, rest) = rest.split_once("] ").unwrap();
        assert_eq!(before, "127.0.0.1");
        // Not the number of bytes, which changes with the clock.
        let mut words: Vec<_> = rest.split(' ').collect();
        let bytes = words
            .iter()
            .rposition(|w| w.parse::<u64>().is_ok())
            .unwrap();
        words.remove(bytes);
        words.join(" ")
    };
    let lines: Vec<_> = text.lines().map(cut).collect();
    let from = "\"https://www.example.org/from\" \"Agent/1 \\x22quoted\\x22\"";
    assert_eq!(
        lines,
        [
            &format!("\"GET /a HTTP/1.1\" 200 {from}")[..],
            &format!("\"GET /a HTTP/1.1\" 200 {from}"),
            "\"OPTIONS * HTTP/1.1\" 200 \"-\" \"-\"",
            "\"GET /a HTTP/1.0\" 200 \"-\" \"-\"",
            "\"-\" 400 \"-\" \"-\"",
        ]
    );
}

#[test]
fn a_server_whose_name_has_no_address_is_not_logged_as_asked() {
    let names = NameServer::start(&Gate::new());
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut plan = logging(forward_plan(&[443]), &log, AccessFormat::Squid);
    plan.dns.servers = vec![names.address];
    let proxy = Proxy::start(plan);
    let mut client = proxy.client();
    // The second time the failure is remembered.
    for host in ["missing.example", "missing.example", "found.example"] {
        let answer = client.get(&format!("http://{host}:{CLOSED}/"));
        assert!(answer.status >= 500, "{host}");
    }
    let to = "missing.example:443";
    proxy.ask("CONNECT", to, &[&format!("Host: {to}")]);
    proxy.stop();
    let text = std::fs::read_to_string(log).unwrap();
    let asked: Vec<_> = (text.lines())
        .map(|line| line.split(' ').nth_back(1).unwrap())
        .collect();
    let none = "HIER_NONE/-";
    assert_eq!(
        asked,
        [none, none, "HIER_DIRECT/found.example", none],
        "{text}"
    );
}

#[test]
fn no_password_of_a_url_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    for format in [
        AccessFormat::Squid,
        AccessFormat::Json,
        AccessFormat::Combined,
    ] {
        let log = dir.path().join(format!("{format:?}"));
        let proxy = Proxy::start(logging(forward_plan(&[443]), &log, format));
        for line in ["GET http://me:secret@h/a", "CONNECT me:secret@h:443"] {
            let answer = proxy
                .client()
                .send(format!("{line} HTTP/1.1\r\nHost: h\r\n{REFERER}\r\n\r\n"))
                .read("GET");
            assert_eq!(answer.status, 400);
        }
        proxy.stop();
        let text = std::fs::read_to_string(log).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(!text.contains("secret") && text.contains("h:443"), "{text}");
    }
}
