//! Some runs, so that the simulation itself cannot rot; `cargo xtask sim --proxy` runs hundreds.

use proxy::Mistake;
use proxy_simulation::{Options, Report, run};

const SEEDS: u64 = 8;

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
    let counts = sum.counts;
    assert_eq!(sum.seeds, SEEDS);
    assert!(counts.lives > SEEDS && counts.purges > 200, "{counts:?}");
    assert!(counts.compared > 1000 && counts.parts > 100, "{counts:?}");
    assert!(counts.hits > 200 && counts.recovered_hits > 0, "{counts:?}");
    assert!(counts.broken > 50, "{counts:?}");
    assert!(counts.over_h2 > 200 && counts.tunnels > 10, "{counts:?}");
}

#[test]
fn a_seed_is_a_run() {
    let (once, again) = (run(options(7)), run(options(7)));
    assert_eq!(once, again);
    assert_ne!(once.0.digest, run(options(6)).0.digest);
}

#[test]
fn a_mistake_is_told_with_its_story() {
    let noticed = |seed| {
        let mistaken = Options {
            mistake: Some(Mistake::StorePrivate),
            ..options(seed)
        };
        Some((seed, run(mistaken).1?))
    };
    let found = (1..=20).find_map(noticed);
    let (seed, failure) = found.expect("one of them has private answers");
    assert!(failure.message.starts_with("R4"), "{failure}");
    let again = format!("sim --proxy --seed {seed}");
    assert!(failure.to_string().contains(&again));
    assert!(
        failure
            .story
            .iter()
            .any(|line| line.contains("origin answers"))
    );
}
