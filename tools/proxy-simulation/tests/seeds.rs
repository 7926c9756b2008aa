//! Some runs, so that the simulation itself cannot rot; `cargo xtask sim --proxy` runs thousands.

use proxy_simulation::{Options, Report, run};

const SEEDS: u64 = 12;

fn options(seed: u64) -> Options {
    Options {
        seed,
        mistake: None,
    }
}

#[test]
fn no_seed_fails() {
    let mut sum = Report::default();
    for seed in 1..=SEEDS {
        let (report, failure) = run(options(seed));
        assert!(failure.is_none(), "{}", failure.unwrap());
        sum.merge(&report);
    }
    println!("{sum:?}");
}

#[test]
fn a_seed_is_a_run() {
    assert_eq!(run(options(7)), run(options(7)));
}
