//! Compares the distributions of the workload with the specification by statistical tests with fixed seeds.
//!
//! Continuous distributions by Kolmogorov and Smirnov, discrete ones by chi-squared, both at a level of 0.1 %. The seeds are fixed, so
//! a test that passes today passes tomorrow; if it fails after a change, the change moved a distribution. Mixes, shares and the
//! offered hit ratio of whole streams are in `offered`; means and shares of single draws are tested beside the code.

use polymix::Mix;
use polymix::clock::{GAP_S_MEAN, gap};
use polymix::content::{Kind, ObjectId};
use polymix::popularity::Popularity;
use polymix::random::{Chance, zipf};
use polymix::request::{Condition, Method, Request};
use polymix::server::think_s;

const KB: f64 = 1024.0;
const DAY_S: f64 = 86_400.0;
const YEAR_S: f64 = 365.0 * DAY_S;
const DRAWS: u32 = 20_000;

/// Critical value of D times the square root of n, at 0.1 %.
const KOLMOGOROV: f64 = 1.95;

/// Asserts that a sample may come from this distribution.
#[track_caller]
#[allow(clippy::cast_precision_loss)]
fn comes_from(what: &str, mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    assert!(n > 1_000.0, "{what}: {n} draws");
    let mut most = 0_f64;
    for (rank, x) in sample.iter().enumerate() {
        let expected = distribution(*x);
        let (below, above) = (rank as f64 / n, (rank as f64 + 1.0) / n);
        most = most.max(expected - below).max(above - expected);
    }
    let statistic = most * n.sqrt();
    assert!(statistic < KOLMOGOROV, "{what}: {statistic}");
}

/// Asserts that counts may come from these probabilities.
#[track_caller]
#[allow(clippy::cast_precision_loss)]
fn fit(what: &str, counts: &[u64], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len());
    let n: u64 = counts.iter().sum();
    let whole: f64 = probabilities.iter().sum();
    assert!((whole - 1.0).abs() < 1e-9, "{what}: {whole}");
    let chi_squared: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(count, p)| (*count as f64 - p * n as f64).powi(2) / (p * n as f64))
        .sum();
    // Wilson and Hilferty's approximation of chi-squared with k degrees of freedom at 0.1 % (3.09 deviations).
    let k = counts.len() as f64 - 1.0;
    let critical = k * (1.0 - 2.0 / (9.0 * k) + 3.09 * (2.0 / (9.0 * k)).sqrt()).powi(3);
    assert!(
        chi_squared < critical,
        "{what}: {chi_squared} of {critical}"
    );
}

fn exponential(mean: f64) -> impl Fn(f64) -> f64 {
    move |x| 1.0 - (-x.max(0.0) / mean).exp()
}

fn uniform(from: f64, to: f64) -> impl Fn(f64) -> f64 {
    move |x| ((x - from) / (to - from)).clamp(0.0, 1.0)
}

/// The normal distribution by Abramowitz and Stegun 7.1.26, to 1.5e-7.
fn normal(mean: f64, sdev: f64) -> impl Fn(f64) -> f64 {
    const A: [f64; 5] = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    move |x| {
        let z = (x - mean) / sdev / 2_f64.sqrt();
        let t = 1.0 / (1.0 + 0.327_591_1 * z.abs());
        let tail = A.iter().fold(0.0, |sum, a| sum * t + a) * t * (-z * z).exp();
        if z < 0.0 {
            tail / 2.0
        } else {
            1.0 - tail / 2.0
        }
    }
}

/// Log-normal; mean and deviation are those of the variate itself.
fn lognormal(mean: f64, sdev: f64) -> impl Fn(f64) -> f64 {
    let variance = (1.0 + (sdev / mean).powi(2)).ln();
    let of_logarithm = normal(mean.ln() - variance / 2.0, variance.sqrt());
    move |x| of_logarithm(x.ln())
}

fn objects(kind: Kind) -> impl Iterator<Item = ObjectId> {
    (1..=u64::from(DRAWS)).map(move |number| ObjectId {
        world: 20,
        server: 1,
        kind,
        number,
    })
}

/// Sizes in bytes, plus the half byte that cutting off the fraction takes on average.
#[allow(clippy::cast_precision_loss)]
fn sizes(kind: Kind) -> Vec<f64> {
    objects(kind).map(|id| id.size() as f64 + 0.5).collect()
}

#[test]
fn sizes_are_distributed_as_in_the_table() {
    comes_from("image", sizes(Kind::Image), exponential(4.5 * KB));
    comes_from(
        "download",
        sizes(Kind::Download),
        lognormal(300.0 * KB, 300.0 * KB),
    );
    comes_from("other", sizes(Kind::Other), lognormal(25.0 * KB, 10.0 * KB));
    // A page is at least as long as the list of its images. Beyond that, the rest of an exponential is exponential again.
    let longest_list = 700.0;
    let rest = sizes(Kind::Html)
        .into_iter()
        .map(|size| size - longest_list);
    let rest = rest.filter(|rest| *rest > 0.0).collect();
    comes_from("page", rest, exponential(8.5 * KB));
}

#[test]
#[allow(clippy::cast_precision_loss)]
fn life_cycles_are_distributed_as_in_the_table() {
    let cycles = |kind| -> Vec<f64> {
        objects(kind)
            .map(|id| {
                let life = id.life(1.0);
                (life.version(10_001).since_s - life.version(1).since_s) as f64 / 1e4
            })
            .collect()
    };
    comes_from(
        "image",
        cycles(Kind::Image),
        lognormal(30.0 * DAY_S, 7.0 * DAY_S),
    );
    comes_from("page", cycles(Kind::Html), lognormal(7.0 * DAY_S, DAY_S));
    comes_from(
        "download",
        cycles(Kind::Download),
        lognormal(YEAR_S / 2.0, 30.0 * DAY_S),
    );
    comes_from("other", cycles(Kind::Other), uniform(DAY_S, YEAR_S));
}

#[test]
#[allow(clippy::cast_precision_loss)]
fn objects_are_of_any_age_at_any_moment() {
    for kind in Kind::ALL {
        for now_s in [1_700_000_000, 1_800_000_000] {
            let ages = objects(kind).map(|id| {
                let version = id.life(1.0).version_at(now_s);
                (now_s - version.since_s) as f64 / (version.until_s - version.since_s) as f64
            });
            comes_from(&format!("{kind:?}"), ages.collect(), uniform(0.0, 1.0));
        }
    }
}

#[test]
fn a_time_scale_shortens_life_cycles_alike() {
    for id in objects(Kind::Image).take(1_000) {
        let (long, short) = (id.life(1.0), id.life(0.01));
        let ratio = |k| {
            let length =
                |life: &polymix::life::Life| life.version(k).since_s - life.version(1).since_s;
            #[allow(clippy::cast_precision_loss)]
            let ratio = length(&short) as f64 / length(&long) as f64;
            ratio
        };
        assert!((ratio(1_001) - 0.01).abs() < 1e-5, "{}", ratio(1_001));
    }
}

#[test]
fn cachability_has_its_shares() {
    for (kind, share) in [
        (Kind::Image, 0.80),
        (Kind::Html, 0.90),
        (Kind::Download, 0.95),
        (Kind::Other, 0.72),
    ] {
        let yes = objects(kind).filter(|id| id.cachable()).count() as u64;
        let no = u64::from(DRAWS) - yes;
        fit(&format!("{kind:?}"), &[yes, no], &[share, 1.0 - share]);
    }
}

#[test]
fn think_times_are_normal_and_not_below_zero() {
    let mut chance = Chance::new(21);
    let times: Vec<f64> = (0..DRAWS).map(|_| think_s(chance.unit())).collect();
    assert!(times.iter().all(|time| *time >= 0.0));
    let whole = normal(2.5, 1.0);
    let none = whole(0.0);
    let some = times.into_iter().filter(|time| *time > 0.0).collect();
    comes_from("think", some, |x| (whole(x) - none) / (1.0 - none));
}

#[test]
fn gaps_of_robots_are_exponential_and_uniform_in_ramps() {
    let mut chance = Chance::new(22);
    let mut gaps = |in_ramp| (0..DRAWS).map(|_| gap(in_ramp, chance.unit())).collect();
    comes_from("gap", gaps(false), exponential(GAP_S_MEAN));
    comes_from("gap in a ramp", gaps(true), uniform(0.0, 5.0));
}

#[test]
fn requests_of_many_robots_are_a_poisson_process() {
    // Counts requests of 1,000 robots in each tenth of a second: 40 on average, and a variance of 40.
    let mut chance = Chance::new(23);
    let mut counts = vec![0_u32; 1_000];
    for _ in 0..1_000 {
        let mut at = gap(false, chance.unit());
        while at < 100.0 {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let tenth = (at * 10.0) as usize;
            counts[tenth] += 1;
            at += gap(false, chance.unit());
        }
    }
    let mean = counts.iter().map(|n| f64::from(*n)).sum::<f64>() / 1e3;
    let variance = counts
        .iter()
        .map(|n| (f64::from(*n) - mean).powi(2))
        .sum::<f64>()
        / 1e3;
    assert!((mean - 40.0).abs() < 0.7, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.15, "{variance} of {mean}");
}

#[test]
fn connections_and_pages_are_used_by_zipf() {
    let mut chance = Chance::new(24);
    for n in [64, 16, 13_u32] {
        let mut counts = vec![0_u64; n as usize];
        for _ in 0..DRAWS {
            counts[zipf(n, chance.unit()) as usize - 1] += 1;
        }
        // floor((n+1)^u) = k for u from ln k to ln (k+1), over ln (n+1).
        let probability = |k: u32| (f64::from(k + 1) / f64::from(k)).ln() / f64::from(n + 1).ln();
        let probabilities: Vec<f64> = (1..=n).map(probability).collect();
        fit(&format!("zipf({n})"), &counts, &probabilities);
    }
}

#[test]
fn what_is_asked_for_directly_has_its_kinds() {
    let mut popularity = Popularity::new(Mix::Three, 1, 10);
    let mut chance = Chance::new(25);
    let mut counts = [0_u64; 3];
    for _ in 0..DRAWS {
        let kind = popularity.pick(0.5, &mut chance).id.kind;
        let place = Kind::DIRECT.iter().position(|direct| direct.0 == kind);
        counts[place.expect("images are not asked for by themselves")] += 1;
    }
    // With 4.45 images a page, these shares of requests become the table's shares of replies: 15, 0.5 and 19.5 % of all.
    fit("kinds", &counts, &[15.0 / 35.0, 0.5 / 35.0, 19.5 / 35.0]);
}

#[test]
fn servers_and_old_objects_are_equally_popular() {
    let mut popularity = Popularity::new(Mix::Three, 1, 8);
    let mut chance = Chance::new(26);
    while popularity.created() < 20_000 {
        popularity.pick(0.0, &mut chance);
    }
    let mut servers = [0_u64; 8];
    let mut last = 0;
    let mut numbers = Vec::new();
    for _ in 0..10 * DRAWS {
        let picked = popularity.pick(1.0, &mut chance);
        servers[usize::from(picked.id.server)] += 1;
        if (picked.id.server, picked.id.kind) == (3, Kind::Other) {
            last = last.max(picked.id.number);
            numbers.push(picked.id.number);
        }
    }
    fit("servers", &servers, &[0.125; 8]);
    // Ten equal parts of one list. There is no hot set before the freeze.
    let size = last / 10;
    let mut parts = [0_u64; 10];
    for number in numbers.into_iter().filter(|number| *number <= size * 10) {
        parts[usize::try_from((number - 1) / size).unwrap()] += 1;
    }
    fit("numbers", &parts, &[0.1; 10]);
}

#[test]
fn the_window_slides_with_what_is_new() {
    let mut popularity = Popularity::new(Mix::Three, 1, 1);
    let mut chance = Chance::new(27);
    while popularity.created() < 3_000 {
        popularity.pick(0.066, &mut chance);
    }
    popularity.freeze();
    let set = popularity.working_set();
    let mut newest = [0_u64; 4];
    let mut oldest_old = u64::MAX;
    for _ in 0..5 * DRAWS {
        let picked = popularity.pick(Popularity::recurrence(Mix::Three), &mut chance);
        let kind = picked.id.kind.index();
        if picked.old {
            oldest_old = oldest_old.min(picked.id.number);
        } else {
            newest[kind] = picked.id.number;
        }
    }
    assert_eq!(popularity.working_set(), set);
    // Ten working sets later, no object of the first set is requested.
    let html = newest[Kind::Html.index()];
    assert!(html > 10_000 && oldest_old > 0, "{html}");
    for _ in 0..DRAWS {
        let picked = popularity.pick(1.0, &mut chance);
        assert!(picked.old && picked.id.number + set > newest[picked.id.kind.index()]);
    }
}

#[test]
fn request_types_have_their_shares() {
    let types = |mix, special: f64, seed| {
        let mut chance = Chance::new(seed);
        let id = objects(Kind::Other).next().expect("many");
        let mut counts = [0_u64; 6];
        for _ in 0..10 * DRAWS {
            let request = Request::draw(mix, id, special, &mut chance);
            let place = match (request.method, request.condition) {
                (Method::Post(_), _) => 4,
                (Method::Head, _) => 5,
                (Method::Get, Condition::Basic) => 0,
                (Method::Get, Condition::Ims200) => 1,
                (Method::Get, Condition::Ims304) => 2,
                (Method::Get, Condition::Reload | Condition::Range { .. }) => 3,
            };
            counts[place] += 1;
        }
        counts
    };
    let three = types(Mix::Three, 1.0, 28);
    fit("PolyMix-3", &three[..4], &[0.80, 0.05, 0.10, 0.05]);
    assert_eq!(three[4..], [0, 0]);
    fit(
        "while filling",
        &types(Mix::Three, 0.1, 29)[..4],
        &[0.98, 0.005, 0.01, 0.005],
    );
    let get = 1.0 - 0.015 - 0.001;
    let shares = [0.80 * get, 0.05 * get, 0.10 * get, 0.05 * get, 0.015, 0.001];
    fit("PolyMix-4", &types(Mix::Four, 1.0, 30), &shares);
}
