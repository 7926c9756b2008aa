//! A hit of up to 1 MiB is one read, whatever the size of the store.

use proxy::plan::{Admin, LazyMode, Plan};

use super::harness::*;

const LENGTHS: [usize; 5] = [10_000, 130_000, 400_000, 1_000_000, 1 << 20];

fn plan_of(disk: &Disk, origin: &Origin) -> Plan {
    let usual = plan_for(origin);
    let fragment_bytes = usual.storing.fragment_bytes;
    let mut plan = disk.under(usual);
    plan.storing.fragment_bytes = fragment_bytes;
    // A slow disk's reads would bring their neighbours along.
    plan.storing.lazy_reads = LazyMode::Gather(1);
    plan.admin = Some(Admin {
        address: running::local(),
        allow: Vec::new(),
    });
    plan
}

/// `/LENGTH` has so many bytes; below `/chunked` nobody is told how many before they come.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let path = exchange.path().to_owned();
        let length = path.rsplit('/').next().unwrap().parse().unwrap();
        let body = pattern(length);
        match path.starts_with("/chunked") {
            true => {
                exchange.send(head("200 OK", &[FRESH, "Transfer-Encoding: chunked"]));
                exchange.send([chunk(&body), chunk("")].concat());
            }
            false => exchange.send(ok(&[FRESH], &body)),
        }
    })
}

#[test]
fn a_hit_of_up_to_a_mebibyte_is_one_read_in_every_store() {
    for mib in [64, 128, 2048] {
        let origin = origin();
        let disk = Disk::of_mib(mib);
        let paths = LENGTHS.map(|length| (format!("/{length}"), length));
        let chunked = LENGTHS.map(|length| (format!("/chunked/{length}"), length));
        let all: Vec<_> = paths.into_iter().chain(chunked).collect();
        let proxy = Proxy::start(plan_of(&disk, &origin));
        for (path, length) in &all {
            assert_same(&proxy.get(path).body, &pattern(*length));
        }
        proxy.stop();
        // Nothing is in memory.
        let proxy = Proxy::start(plan_of(&disk, &origin));
        for (path, length) in &all {
            let before = proxy.counter("disk_reads");
            let answer = proxy.get(path);
            assert!(answer.is_hit(), "{path} in {mib} MiB");
            assert_same(&answer.body, &pattern(*length));
            let reads = proxy.counter("disk_reads") - before;
            assert_eq!(reads, 1, "{path} in {mib} MiB");
        }
    }
}

#[test]
fn an_object_over_half_of_the_store_says_so() {
    let origin = origin();
    let disk = Disk::of_mib(64);
    let proxy = Proxy::start(plan_of(&disk, &origin));
    for (length, detail) in [(30 << 20, "; stored"), (32 << 20, "; detail=too-large")] {
        let answer = proxy.get(&format!("/{length}"));
        let status = answer.field("cache-status").unwrap();
        assert!(status.ends_with(detail), "{length}: {status}");
        assert_eq!(answer.body.len(), length);
    }
}
