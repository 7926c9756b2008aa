//! Tests of blocks of stores: their plans, or the messages about them.

use std::path::Path;

use expect_test::{Expect, expect};
use proxy::plan::{AdmissionKind, LazyMode, PolicyKind, Replacement};

use super::*;
use crate::cli::Flags;
use crate::config::testing::{complaints, machine, raw, settle};
use crate::config::{Settled, into_plan};

#[track_caller]
fn wrong(text: &str, expected: Expect) {
    expected.assert_eq(&complaints(text));
}

#[test]
fn a_new_store_leaves_half_of_the_free_space() {
    let size = |path: &str| {
        settle(&format!("store.path = \"{path}\""))
            .unwrap()
            .plan
            .stores[0]
            .size_bytes
    };
    assert_eq!(size("/small/store"), Some(1536 << 20));
    assert_eq!(size("/elsewhere/empty"), Some(10 << 30));
    wrong(
        "store.path = \"/full/store\"",
        expect![[r#"
            loligo.toml:1: store.path = "/full/store": only 5MiB are free where the store would be, too little for half of it to hold one; choose another place (flag --store), a size (--store-size), or --store none
        "#]],
    );
}

#[test]
fn an_existing_store_keeps_its_size_unless_told() {
    let size = |text: &str| settle(text).unwrap().plan.stores[0].size_bytes;
    assert_eq!(size("store.path = \"/x/half-gib\""), None);
    assert_eq!(size("store.path = \"/x/device\""), None);
    assert_eq!(
        size("[store]\npath = \"/x/half-gib\"\nsize = \"512MiB\""),
        Some(512 << 20)
    );
    // An empty file counts as none.
    assert_eq!(
        size("[store]\npath = \"/x/empty\"\nsize = \"1GiB\""),
        Some(1 << 30)
    );
}

#[test]
fn a_store_of_another_size_than_the_file_s_can_not_be() {
    for size in ["1GiB", "256MiB"] {
        let told = complaints(&format!(
            "[store]\npath = \"/x/half-gib\"\nsize = \"{size}\"\n"
        ));
        assert_eq!(
            told,
            format!(
                "loligo.toml:3: store.size = \"{size}\": /x/half-gib has 512MiB, and a store keeps its size: write that, or leave size out; \
                 for a new, empty store of {size} remove the file while no proxy runs\n"
            )
        );
    }
}

#[test]
fn a_store_larger_than_the_free_space_can_not_be() {
    wrong(
        "[store]\npath = \"/small/store\"\nsize = \"4GiB\"",
        expect![[r#"
            loligo.toml:3: store.size = "4GiB": 4GiB do not fit: only 3GiB are free where /small/store is to be; a smaller size (flag --store-size), or another place
        "#]],
    );
    assert!(settle("[store]\npath = \"/small/half-gib\"\nsize = \"512MiB\"").is_ok());
    wrong(
        "[[store]]\npath = \"/small/a\"\nsize = \"2GiB\"\n[[store]]\npath = \"/x/a\"\nsize = \"2GiB\"\n\
         [[store]]\npath = \"/small/b\"\nsize = \"2GiB\"\n",
        expect![[r#"
            loligo.toml:9: store.size = "2GiB": 2GiB do not fit: beside the other stores only 1GiB are free where /small/b is to be; a smaller size (flag --store-size), or another place
        "#]],
    );
}

#[test]
fn a_store_that_can_not_be_opened_is_told() {
    wrong(
        "[store]\nsize = \"512MiB\"\npath = \"/closed/half-gib\"",
        expect![[r#"
            loligo.toml:3: store.path = "/closed/half-gib": /closed/half-gib cannot be opened: Permission denied
        "#]],
    );
}

#[test]
fn stores_that_can_not_be() {
    wrong(
        "store.path = \"/x/dir\"",
        expect![[r#"
            loligo.toml:1: store.path = "/x/dir": /x/dir is a directory; name a file, such as /x/dir/store
        "#]],
    );
    wrong(
        "[store]\npath = \"none\"\nsize = \"1GiB\"",
        expect![[r#"
            loligo.toml:3: store.size = "1GiB": there is no store (store.path is none)
        "#]],
    );
    let homeless = Machine {
        cache_dir: None,
        ..machine()
    };
    let problems = into_plan(&Raw::default(), &homeless).unwrap_err();
    assert!(
        problems[0]
            .to_string()
            .starts_with("store.path: no cache directory is known"),
        "{}",
        problems[0]
    );
}

#[test]
fn several_stores_each_with_its_own() {
    let plan = settle(
        r#"
        [[store]]
        path = "/x/half-gib"
        direct = false
        replacement = "gdsf"
        [[store]]
        path = "/x/device"
        weight = 4
        force = true
        admission = "second-hit"
        replacement = "gdsf"
        "#,
    )
    .unwrap()
    .plan;
    let mut a = StorePlan::at("/x/half-gib", None);
    a.direct = false;
    let mut b = StorePlan::at("/x/device", None);
    (b.weight, b.force) = (4, true);
    assert_eq!(plan.stores, [a, b]);
    let gdsf = Replacement::Ordered(PolicyKind::Gdsf);
    assert_eq!(
        (plan.storing.replacement, plan.storing.admission),
        (gdsf, AdmissionKind::SecondHit)
    );
}

#[test]
fn new_stores_on_one_file_system_share_the_half_of_its_space() {
    let settled = settle(
        "[[store]]\npath = \"/small/a\"\n[[store]]\npath = \"/small/b\"\n[[store]]\npath = \"/x/a\"",
    );
    let sizes: Vec<_> = settled
        .unwrap()
        .plan
        .stores
        .iter()
        .map(|s| s.size_bytes)
        .collect();
    assert_eq!(sizes, [Some(768 << 20), Some(768 << 20), Some(10 << 30)]);
}

#[test]
fn no_store_twice_and_each_has_a_path() {
    wrong(
        r#"[[store]]
path = "/x/a"
[[store]]
path = "/x/a"
[[store]]
path = "/alias/a"
[[store]]
size = "1GiB"
[[store]]
path = "none"
[[store]]
path = "/x/b"
pth = 3
wieght = 2
"#,
        expect![[r#"
            loligo.toml:4: store.path = "/x/a": is a store already; give each its own file or device
            loligo.toml:6: store.path = "/alias/a": is the same as /x/a, which is a store already; give each its own file or device
            loligo.toml:7: store.path: where there are several stores, each needs a path, such as path = "/dev/sdb"
            loligo.toml:10: store.path = "none": means no store at all, but there are others; take this one out, or the others
            loligo.toml:13: store.pth = 3: there is no such setting here; did you mean "store.path"?
            loligo.toml:14: store.wieght = 2: there is no such setting here; did you mean "store.weight"?
        "#]],
    );
}

#[test]
fn what_holds_for_all_is_said_once() {
    wrong(
        "[[store]]\npath = \"/x/a\"\nread-wait = \"1s\"\n[[store]]\npath = \"/x/b\"\nread-wait = \"2s\"",
        expect![[r#"
            loligo.toml:6: store.read-wait = "2s": holds for all stores, and another block says "1s"; say it once
        "#]],
    );
}

#[test]
fn policies_and_lazy_reads_are_read() {
    let storing = |text: &str| settle(&format!("[store]\n{text}")).unwrap().plan.storing;
    let threshold = storing("replacement = \"lru-threshold=256KiB\"").replacement;
    let size_max = 256 << 10;
    assert_eq!(
        threshold,
        Replacement::Ordered(PolicyKind::LruThreshold { size_max })
    );
    let window = storing("replacement = \"second-chance=10\"").replacement;
    assert_eq!(window, Replacement::SecondChance { window_percent: 10 });
    let share = storing("replacement = \"reinsertion\"").replacement;
    assert_eq!(share, Replacement::Reinsertion { percent: 20 });
    assert_eq!(storing("").replacement, share);
    assert_eq!(storing("").admission, AdmissionKind::BySize);
    assert_eq!(storing("").lazy_reads, LazyMode::Measured);
    assert_eq!(
        storing("lazy-reads = \"auto\"").lazy_reads,
        LazyMode::Measured
    );
    assert_eq!(storing("lazy-reads = 0").lazy_reads, LazyMode::Gather(0));
    assert_eq!(
        storing("lazy-reads = \"64\"").lazy_reads,
        LazyMode::Gather(64)
    );
    wrong(
        r#"[store]
replacement = "lru-threshold=big"
admission = "some"
lazy-reads = 65
weight = 0
force = "yes"
"#,
        expect![[r#"
            loligo.toml:2: store.replacement = "lru-threshold=big": expected a size behind lru-threshold=, such as "lru-threshold=256KiB"
            loligo.toml:3: store.admission = "some": expected all, second-hit, tinylfu or by-size
            loligo.toml:4: store.lazy-reads = 65: must be from 0 to 64
            loligo.toml:5: store.weight = 0: must be from 1 to 1000
            loligo.toml:6: store.force = "yes": expected true or false, without quotes
        "#]],
    );
    wrong(
        "[store]\nreplacement = \"sieve\"",
        expect![[r#"
            loligo.toml:2: store.replacement = "sieve": no longer offered, being no better than lru: write lru, or leave the line out for second-chance
        "#]],
    );
}

fn with_flags(text: &str, store: &[&str], size: Option<&str>) -> Settled {
    let mut raw = raw(text).unwrap();
    let flags = Flags {
        store: store.iter().map(|&path| path.to_owned()).collect(),
        store_size: size.map(str::to_owned),
        ..Flags::default()
    };
    flags.add_to(&mut raw);
    into_plan(&raw, &machine()).unwrap()
}

#[test]
fn flags_replace_the_stores_of_the_file_but_not_what_holds_for_all() {
    let file = "[store]\npath = \"/x/device\"\nforce = true\nadmission = \"tinylfu\"";
    let plan = with_flags(file, &["/x/a", "/x/b"], Some("1GiB")).plan;
    let store = |path| StorePlan::at(path, Some(1 << 30));
    assert_eq!(plan.stores, [store("/x/a"), store("/x/b")]);
    assert_eq!(plan.storing.admission, AdmissionKind::TinyLfu);
    let plan = with_flags(file, &[], Some("1GiB")).plan;
    assert_eq!(
        (plan.stores[0].force, plan.stores[0].size_bytes),
        (true, Some(1 << 30))
    );
    let plan = with_flags("", &[], Some("1GiB")).plan;
    assert_eq!(
        plan.stores[0].path,
        Path::new("/home/u/.cache/loligo/store")
    );
    assert_eq!(plan.stores[0].size_bytes, Some(1 << 30));
}

#[test]
fn force_is_told() {
    let settled = settle("[store]\npath = \"/x/device\"\nforce = true").unwrap();
    assert_eq!(settled.notes.len(), 1);
    assert!(settled.plan.stores[0].force);
}
