//! A disk that hangs, and stores that cannot be opened.

use std::{
    fs,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use device::{Device, FaultPlan, Operation};
use proxy::{
    ServeError,
    plan::{Plan, StorePlan},
};

use super::disk::send_tagged;
use super::harness::{
    Disk, FRESH, Origin, Proxy, assert_same, await_hit_by_read, eventually, ok, pattern, plan_for,
    running::with_admin,
};

const STORE_BYTES: usize = 64 << 20;
const READ_WAIT: Duration = Duration::from_millis(100);
/// More than all waits for the disk of one request, on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(15);

fn hasty(origin: &Origin) -> Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.memory_bytes = 0;
    plan.storing.read_wait = READ_WAIT;
    plan
}

fn health(proxy: &Proxy) -> (u16, String) {
    let answer = proxy.admin("GET", "/healthz");
    (answer.status, answer.text().trim_end().to_owned())
}

#[test]
fn what_lies_on_a_disk_that_hangs_comes_from_the_origin() {
    let body = pattern(20_000);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    let proxy = Proxy::start_on(hasty(&origin), device);
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    let asked = origin.requests().len();
    let given_up = proxy.counter("disk_reads_given_up");

    faults.hold(Operation::Read);
    faults.hold(Operation::Write);
    let start = Instant::now();
    let answer = proxy.get("/1");
    assert!(start.elapsed() < LONG);
    assert!(!answer.is_hit());
    assert_same(&answer.body, &body);
    assert_eq!(origin.requests().len(), asked + 1);
    let given_up = proxy.counter("disk_reads_given_up") - given_up;
    assert_eq!(given_up, 1, "waited for once");

    // Now everybody knows.
    let said = eventually("it is said", || {
        let (status, said) = health(&proxy);
        assert_eq!(status, 200);
        said.contains("does not answer").then_some(said)
    });
    assert!(said.starts_with("ok\nstore "), "{said}");
    let reads = proxy.counter("disk_reads");
    proxy.get("/1");
    assert_eq!(proxy.counter("disk_reads"), reads, "nobody asks it");
    proxy.get("/new");
    proxy.get("/new");

    faults.release(Operation::Read);
    faults.release(Operation::Write);
    eventually("it is used again", || {
        (health(&proxy).1 == "ok").then_some(())
    });
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    proxy.stop();
}

#[test]
fn a_large_object_on_a_disk_that_hangs_comes_from_the_origin() {
    let body = pattern(5 << 20);
    // Without a tag nothing can be completed: the first fragment must be there before anything is promised.
    let origin = Origin::sending(ok(&[FRESH], &body));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    let mut plan = hasty(&origin);
    plan.storing.read_wait = Duration::from_secs(2);
    let proxy = Proxy::start_on(plan, device);
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    faults.hold(Operation::Read);
    let answer = proxy.get("/1");
    assert!(!answer.is_hit());
    assert_same(&answer.body, &body);
    faults.release(Operation::Read);
    eventually("it is used again", || {
        (health(&proxy).1 == "ok").then_some(())
    });
    await_hit_by_read(&proxy, "/1");
    proxy.stop();
}

#[test]
fn a_large_body_that_has_begun_when_the_disk_hangs_is_completed_from_the_origin() {
    // More than the sockets between here and there hold.
    let body = pattern(24 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |exchange| send_tagged(exchange, &sent));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    let mut plan = hasty(&origin);
    plan.storing.read_wait = Duration::from_secs(2);
    let proxy = Proxy::start_on(plan, device);
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    let asked = origin.count("/1");

    let mut client = proxy.client();
    let answer = client.ask("GET", "/1", &[]).read_head();
    assert!(answer.is_hit());
    let first = client.bytes(100_000);
    faults.hold(Operation::Read);
    let rest = client.bytes(body.len() - first.len());
    assert_same(&first, &body[..first.len()]);
    assert_same(&rest, &body[first.len()..]);
    assert_eq!(origin.count("/1"), asked + 1, "for the rest");
    faults.release(Operation::Read);
    proxy.stop();
}

#[test]
fn a_proxy_whose_disk_hangs_can_be_stopped() {
    let origin = Origin::sending(ok(&[FRESH], pattern(20_000)));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    let proxy = Proxy::start_on(hasty(&origin), device);
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    for kind in [Operation::Read, Operation::Write, Operation::Flush] {
        faults.hold(kind);
    }
    proxy.get("/1");
    eventually("it is set aside", || {
        (health(&proxy).1 != "ok").then_some(())
    });
    let start = Instant::now();
    proxy.stop();
    assert!(start.elapsed() < LONG);
    faults.clear();
}

#[test]
fn a_store_that_cannot_be_opened_ends_the_start_before_anybody_can_connect() {
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let disk = Disk::of_mib(16);
    fs::create_dir(disk.path()).unwrap();
    // Whoever listens here already would be the one to be told.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = disk.under(plan_for(&origin));
    plan.listeners[0].address = taken.local_addr().unwrap();
    let refused = proxy::start(plan, |_, _| {});
    assert!(matches!(refused, Err(ServeError::Store(_))), "{refused:?}");
}

#[test]
fn where_stores_are_not_required_those_that_cannot_be_opened_are_left_out() {
    let origin = Origin::sending(ok(&[FRESH], pattern(3_000)));
    let disk = Disk::of_mib(16);
    fs::create_dir(disk.path()).unwrap();
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.storing.required = false;
    let alone = Proxy::start(plan.clone());
    assert!(alone.ready.stores.is_empty());
    assert!(!alone.get("/1").is_hit());
    assert!(alone.get("/1").is_hit(), "from memory");
    let (status, said) = health(&alone);
    assert_eq!(status, 200);
    assert!(said.contains("left out"), "{said}");
    // When the store is back it has not heard of this.
    let url = format!("/http://{}/1", origin.address);
    assert_eq!(alone.admin("PURGE", &url).status, 503);
    alone.stop();

    let other = disk.path().with_file_name("other");
    plan.stores.push(StorePlan::at(other, Some(16 << 20)));
    let proxy = Proxy::start(plan.clone());
    assert_eq!(proxy.ready.stores.len(), 1);
    assert!(health(&proxy).1.contains("left out"));
    proxy.stop();

    plan.storing.required = true;
    assert!(proxy::start(plan, |_, _| {}).is_err(), "of several too");
}

#[test]
fn an_early_answer_of_the_disk_is_waited_for() {
    // The same device, answering late but in time: a hit.
    let origin = Origin::sending(ok(&[FRESH], pattern(20_000)));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    let mut plan = hasty(&origin);
    plan.storing.read_wait = Duration::from_secs(60);
    let proxy = Proxy::start_on(plan, Arc::clone(&device));
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    faults.hold(Operation::Read);
    let mut client = proxy.client();
    let answer = client.ask("GET", "/1", &[]);
    while faults.held() == 0 {
        std::thread::yield_now();
    }
    faults.release(Operation::Read);
    assert!(answer.read("GET").is_hit());
    proxy.stop();
}

/// A HEAD waits for no fetch: it finds what is stored, or goes to the origin.
#[test]
fn the_first_answer_is_stored_before_it_ends_though_the_disk_is_slow() {
    let origin = Origin::sending(ok(&[FRESH], "x"));
    let faults = FaultPlan::new();
    let device = Device::faulty(STORE_BYTES, faults.clone());
    faults.hold(Operation::Flush);
    let slow = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        faults.release(Operation::Flush);
    });
    let proxy = Proxy::start_on(plan_for(&origin), device);
    proxy.get("/a");
    let head = proxy.ask("HEAD", "/a", &[]);
    assert!(head.is_hit(), "{}", head.cache());
    slow.join().unwrap();
}
