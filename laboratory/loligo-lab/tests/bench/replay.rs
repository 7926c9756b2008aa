//! `loligo lab replay` as people use it: through `loligo serve`, forwards and in reverse.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{Running, free, lab, loligo, text};

fn replay(dir: &Path, arguments: &[&str]) -> Output {
    lab(dir, &["lab", "replay"])
        .args(arguments)
        .output()
        .unwrap()
}

/// 300 requests, of which each third is for one of 100 objects of its own; the second third repeats the first.
fn trace(dir: &Path) {
    let mut lines = String::from("time,object,size\n");
    for n in 0..300 {
        let object = if n < 200 { n % 100 } else { n };
        lines.push_str(&format!("{n},o{object},{}\n", 100 + 700 * object));
    }
    std::fs::write(dir.join("trace.csv"), lines).unwrap();
}

fn json(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("out.json")).unwrap()).unwrap()
}

#[test]
fn a_trace_through_a_forward_proxy() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let address = free("127.1.0.3");
    let _proxy = Running::proxy(dir.path(), &address);
    let arguments = [
        "trace.csv",
        "--proxy",
        &format!("http://{address}"),
        "--json",
        "out.json",
    ];
    let done = replay(dir.path(), &arguments);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let counted = &json(dir.path())["counted"];
    // The second third is in memory, the last third is new.
    assert_eq!(counted["requests"], 200);
    assert_eq!(
        (&counted["hits"], &counted["misses"]),
        (&100.into(), &100.into())
    );
    assert_eq!(
        (&counted["failed"], &counted["wrong"]),
        (&0.into(), &0.into())
    );
    let bytes: u64 = (200..300).map(|n| 100 + 700 * n).sum();
    assert_eq!(counted["origin"]["bytes"], bytes);
    assert!(
        text(&done.stdout).contains("hits"),
        "{}",
        text(&done.stdout)
    );

    // Names begin anew, unless they are to be the same; the origin's address is part of them.
    let origin = free("127.1.0.1");
    for (world, hits) in [(None, 0), (Some("same"), 0), (Some("same"), 50)] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--limit", "50", "--warm", "0", "--origin", &origin]);
        arguments.extend(world.iter().flat_map(|world| ["--world", world]));
        let done = replay(dir.path(), &arguments);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        assert_eq!(json(dir.path())["counted"]["hits"], hits);
    }
}

#[test]
fn a_trace_through_a_reverse_proxy_with_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let (address, origin) = (free("127.1.0.4"), free("127.1.0.1"));
    let arguments = format!(
        "serve --admin none --store store --store-size 32MiB --memory 1MiB --workers 1 --reverse http://{origin} --listen {address}"
    );
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let proxy = Running::start(&mut loligo(dir.path(), &arguments), &address);
    let pid = proxy.0.id().to_string();
    let arguments = [
        "trace.csv",
        "--proxy",
        &address,
        "--reverse",
        "--origin",
        &origin,
        "--pid",
        &pid,
        "--json",
        "out.json",
    ];
    let done = replay(dir.path(), &arguments);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let counted = &json(dir.path())["counted"];
    assert_eq!(
        (&counted["hits"], &counted["misses"]),
        (&100.into(), &100.into())
    );
    assert!(counted["device"]["written"].is_u64(), "{counted}");
}

#[test]
fn what_does_not_work_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let nobody = free("127.1.0.5");
    let done = replay(dir.path(), &["trace.csv", "--proxy", &nobody]);
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("is the proxy running"),
        "{}",
        text(&done.stderr)
    );

    let address = free("127.1.0.6");
    let _proxy = Running::proxy(dir.path(), &address);
    let done = replay(
        dir.path(),
        &["trace.csv", "--proxy", &address, "--pid", "4194304"],
    );
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("no such process"),
        "{}",
        text(&done.stderr)
    );

    std::fs::write(dir.path().join("empty.csv"), "time,object,size\n").unwrap();
    let done = replay(dir.path(), &["empty.csv", "--proxy", &address]);
    assert!(
        text(&done.stderr).contains("no requests in it"),
        "{}",
        text(&done.stderr)
    );
    assert_eq!(replay(dir.path(), &["trace.csv"]).status.code(), Some(2));
}
