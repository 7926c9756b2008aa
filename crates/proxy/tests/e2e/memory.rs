//! What stays in memory where there is no disk.

use super::{
    budgets::gauge,
    harness::{running::with_admin, *},
};

const MIB: u64 = 1 << 20;
const SHORT: usize = 1000;
const LONG: usize = 100_000;

/// Short answers to `/short…`, long ones to all else.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let len = match exchange.path().starts_with("/short") {
            true => SHORT,
            false => LONG,
        };
        let salt = exchange.nth() as u8;
        exchange.send(ok(&[FRESH], salted_pattern(len, salt)));
    })
}

/// A mebibyte of memory, and nothing else.
fn little(origin: &Origin) -> Proxy {
    let mut plan = with_admin(plan_for(origin));
    plan.memory_bytes = MIB;
    Proxy::start(plan)
}

#[test]
fn a_tenth_of_a_little_memory_is_no_object_too_long() {
    let origin = origin();
    let proxy = little(&origin);
    let first = proxy.get("/long");
    assert_eq!((first.is_hit(), first.body.len()), (false, LONG));
    let again = proxy.get("/long");
    assert!(again.is_hit());
    assert_same(&again.body, &first.body);
}

#[test]
fn long_objects_that_pass_by_do_not_drive_out_short_ones() {
    let origin = origin();
    let proxy = little(&origin);
    let short = |n| format!("/short{n}");
    (0..20).for_each(|n| assert!(!proxy.get(&short(n)).is_hit()));
    // Three times as many bytes as there is memory, and each is asked for once.
    for n in 0..30 {
        assert!(!proxy.get(&format!("/long{n}")).is_hit());
        assert!(gauge(&proxy, "memory_bytes") <= MIB);
    }
    (0..20).for_each(|n| assert!(proxy.get(&short(n)).is_hit(), "{n}"));
    assert!(proxy.counter("memory_evicted") >= 20);
}
