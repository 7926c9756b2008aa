//! Some dozens of runs, so that the simulation itself can't rot; `cargo xtask sim` runs thousands.

use simulation::{Mistake, Options, Report, Waived, run};

/// Four of a second or so.
const SEEDS: u64 = 60;

fn options(seed: u64) -> Options {
    Options {
        seed,
        steps: 3000,
        mistake: None,
        waived: Waived::default(),
        watch: None,
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
    assert_eq!((sum.seeds, sum.steps), (SEEDS, SEEDS * 3000));
    assert!(sum.kills > 100 && sum.power_cuts > 100 && sum.closes > 50);
    assert!(
        sum.noted_regions * 2 > sum.notes * 3,
        "{} notes of {} regions",
        sum.notes,
        sum.noted_regions
    );
    assert!(sum.handed_over > 20 && sum.thawed > 20, "{sum:?}");
    assert!(sum.compared > 500 && sum.acknowledged > 100);
    assert!(sum.by_parts > 100, "{}", sum.by_parts);
    assert!(sum.reinserted > 100, "{}", sum.reinserted);
}

/// The others are for `cargo xtask sim --mistakes`; only every other seed has upgrades.
#[test]
fn what_may_go_wrong_with_an_upgrade_is_noticed() {
    for mistake in [
        Mistake::ThawInSilence,
        Mistake::ServeWhatIsGone,
        Mistake::ForgetToTell,
        Mistake::NoProtection,
    ] {
        let mut seeds = (1..=SEEDS * 3).step_by(2).map(|seed| Options {
            mistake: Some(mistake),
            ..options(seed)
        });
        let noticed = seeds.find_map(|options| run(options).1);
        assert!(noticed.is_some(), "{mistake:?}");
        println!("{mistake:?}: {}", noticed.unwrap().message);
    }
}

/// A sweep that reads is the default, which half of these seeds have.
#[test]
fn what_may_go_wrong_when_the_sweep_writes_again_is_noticed() {
    for mistake in [Mistake::ReinsertTheDead, Mistake::ReinsertUnverified] {
        let mut seeds = (1..=SEEDS).map(|seed| Options {
            mistake: Some(mistake),
            ..options(seed)
        });
        let noticed = seeds.find_map(|options| run(options).1);
        assert!(noticed.is_some(), "{mistake:?}");
        println!("{mistake:?}: {}", noticed.unwrap().message);
    }
}

#[test]
fn a_block_that_is_not_compared_is_noticed() {
    let mut seeds = (1..=SEEDS).map(|seed| Options {
        mistake: Some(Mistake::NoBlockCheck),
        ..options(seed)
    });
    let noticed = seeds.find_map(|options| run(options).1);
    println!("{}", noticed.expect("a damaged block").message);
}

/// Found a fault once. It passes now, and fails if what mended it is left out.
fn stays_mended(seed: u64, without: Mistake) {
    let (_, failure) = run(options(seed));
    assert!(failure.is_none(), "{}", failure.unwrap());
    let (_, failure) = run(Options {
        mistake: Some(without),
        ..options(seed)
    });
    assert!(
        failure.is_some(),
        "seed {seed} has nothing to find any more"
    );
}

/// A write failed during a scan, and the record that had been replaced long before was served again.
#[test]
fn seed_622_stays_mended() {
    stays_mended(622, Mistake::LostComesBack);
}

/// The disk failed under an invalidation of the process before, and the new one heard of none that came later.
#[test]
fn seed_505_stays_mended() {
    stays_mended(505, Mistake::TellNoMore);
}

/// What another process still read was free in the allocator that a scan had made anew.
#[test]
fn seed_127_stays_mended() {
    stays_mended(127, Mistake::ProtectionOfBefore);
}

#[test]
fn a_seed_is_a_run() {
    assert_eq!(run(options(7)), run(options(7)));
}
