//! Some hundred schedules without a mistake, and each mistake noticed.

use hints_simulation::{Counts, Mistake, Options, run};

fn options(seed: u64, mistake: Option<Mistake>) -> Options {
    Options {
        seed,
        mistake,
        tells: false,
    }
}

#[test]
fn what_nodes_have_is_found_by_all_fronts_in_the_end() {
    let mut all = Counts::default();
    for seed in 1..=300 {
        let (counts, failure) = run(options(seed, None));
        all.add(&counts);
        if let Some(failure) = failure {
            panic!("{failure}");
        }
    }
    for (what, times) in all.all() {
        assert!(times > 0, "no schedule has {what}");
    }
}

#[test]
fn each_mistake_is_noticed() {
    const SEEDS: u64 = 1500;
    for &mistake in Mistake::ALL {
        let is_noticed = (1..=SEEDS).any(|seed| run(options(seed, Some(mistake))).1.is_some());
        assert!(is_noticed, "{} in {SEEDS} seeds", mistake.name());
    }
}
