//! A client of people, and not of ours, that reads while another process takes the proxy's place, and while it stops.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::*;
use crate::{
    harness::running::{draining_long, own_host_plan},
    upgrade,
};

/// Its stdout as it comes: how many bodies were whole, and what else is said.
#[derive(Default)]
struct Said {
    whole: AtomicUsize,
    other: Mutex<Vec<String>>,
}

#[test]
fn go_reads_through_upgrades_and_a_stop() {
    let Some(mut go) = client("go") else { return };
    let origin = Origin::start(|exchange| {
        let bytes = exchange.path().trim_start_matches('/').parse().unwrap_or(0);
        // Without a validator: what is lost on the way cannot be asked for again.
        exchange.send(ok(&[FRESH], pattern(bytes)));
    });
    let authority = Authority::new();
    let signed = authority.sign("localhost", &["localhost"]);
    let disk = Disk::of_mib(128);
    let mut plan = speaking(draining_long(own_host_plan(&origin)));
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    // All bodies together are larger.
    (plan.workers, plan.memory_bytes) = (2, 3 << 20);
    let mut house = upgrade::House::of(disk.under(plan));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("main.go");
    fs::write(&source, include_str!("upgraded.go")).unwrap();
    go.arg("build").arg(&source).current_dir(dir.path());
    go.envs([
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", ""),
    ]);
    run(&mut go);
    let mut go = Command::new("timeout");
    go.arg(CLIENT_SECONDS_MAX).arg(dir.path().join("main"));
    let port = house.proxy.ready.listeners[0].port();
    go.arg(format!("https://localhost:{port}"));
    go.arg(authority.path("ca.pem"));
    go.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = go.spawn().unwrap();
    let stops = running.stdin.take().unwrap();
    let lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let said = Arc::new(Said::default());
    let heard = Arc::clone(&said);
    let listening = thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            match &*line {
                "." => _ = heard.whole.fetch_add(1, Ordering::Relaxed),
                _ => heard.other.lock().unwrap().push(line),
            }
        }
    });
    let goes_on = || {
        let before = said.whole.load(Ordering::Relaxed);
        eventually("it goes on", || {
            let other = said.other.lock().unwrap().clone();
            assert!(other.is_empty(), "{other:#?}");
            (said.whole.load(Ordering::Relaxed) > before + 40).then_some(())
        });
    };
    for _ in 0..2 {
        goes_on();
        house.upgrade().ended().unwrap();
    }
    goes_on();
    house.proxy.begin_to_stop();
    house.proxy.ended().unwrap();
    drop(stops);
    listening.join().unwrap();
    let status = running.wait().unwrap();
    let (whole, other) = (&said.whole, said.other.lock().unwrap());
    assert_eq!(*other, ["done"], "of {whole:?}, {status}");
}
