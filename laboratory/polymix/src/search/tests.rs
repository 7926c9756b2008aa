//! Searches for peaks that are known.

use super::*;
use crate::testing;

const BOUNDS: Bounds = Bounds {
    first: 100.0,
    least: 10.0,
    most: 10_000.0,
    tolerance: 0.05,
};

/// Rates tried, and the result, for a proxy that sustains less than `peak` and a generator whose limit is `limit`.
fn found(peak: f64, limit: f64) -> (Vec<f64>, Found) {
    let mut search = Search::new(BOUNDS);
    let mut rates = Vec::new();
    while let Some(rate) = search.next_rate() {
        let why = vec!["so".to_owned()];
        rates.push(rate);
        let verdict = if rate < peak.min(limit) {
            Verdict::Stood
        } else if rate < limit {
            Verdict::Failed(why)
        } else {
            Verdict::Unclear(why)
        };
        search.tried(rate, &verdict);
    }
    (rates, search.found())
}

#[test]
fn the_peak_is_found_within_the_tolerance() {
    for peak in [11.0, 37.0, 99.0, 100.5, 450.0, 1_234.0, 9_999.0] {
        let (rates, found) = found(peak, f64::INFINITY);
        let Found::Peak { rate, beyond, .. } = found else {
            panic!("{peak}: {found:?} after {rates:?}");
        };
        assert!(rate < peak && peak <= beyond, "{rate} {peak} {beyond}");
        assert!(beyond / rate <= 1.0501, "{rate} to {beyond}");
        assert!(rates.len() <= 12, "{rates:?}");
    }
}

#[test]
fn first_it_doubles_then_it_halves_the_gap() {
    let (rates, _) = found(450.0, f64::INFINITY);
    assert_eq!(
        rates,
        [100.0, 200.0, 400.0, 800.0, 566.0, 476.0, 436.0, 456.0]
    );
}

#[test]
fn the_ends_are_told_as_such() {
    assert_eq!(
        found(1e9, f64::INFINITY).1,
        Found::AtLeast { rate: 10_000.0 }
    );
    let (rates, nothing) = found(1.0, f64::INFINITY);
    assert!(
        matches!(nothing, Found::Nothing { least: 10.0, .. }),
        "{nothing:?}"
    );
    assert_eq!(rates, [100.0, 50.0, 25.0, 12.5, 10.0]);
}

#[test]
fn a_saturated_generator_gives_no_peak() {
    let (_, found_there) = found(5_000.0, 700.0);
    let Found::Generator {
        stood: Some(stood),
        at,
        ..
    } = found_there
    else {
        panic!("{found_there:?}");
    };
    assert!(stood < 700.0 && 700.0 <= at && at / stood < 1.06);
    // The proxy fails first, so the limit of the generator does not matter.
    assert!(matches!(found(300.0, 700.0).1, Found::Peak { .. }));
    assert!(matches!(found(50.0, 20.0).1, Found::Generator { .. }));
}

#[test]
fn a_search_judges_its_runs() {
    // A proxy that loses its hits above 300 requests a second.
    let run = |_, rate: f64| -> Result<Report, ()> {
        let mut report = testing::report("x", rate);
        if rate > 300.0 {
            for row in &mut report.phases {
                row.counted.hits.count /= 2;
            }
        }
        Ok(report)
    };
    let conditions = Conditions::for_think_scale(1.0);
    let (steps, found) = search(BOUNDS, conditions, run).unwrap();
    let Found::Peak { rate, .. } = found else {
        panic!("{found:?}");
    };
    assert!((285.0..=300.0).contains(&rate), "{rate}");
    let report = SearchReport {
        stamp: Stamp::new(FORMAT, VERSION),
        label: "x".to_owned(),
        setup: BTreeMap::new(),
        bounds: BOUNDS,
        conditions,
        steps,
        found,
    };
    assert!(SearchReport::from_json(&report.json()).unwrap() == report);
    assert!(SearchReport::from_json(&testing::report("a", 10.0).json()).is_err());
    let rates: Vec<_> = report.by_rate().iter().map(|step| step.rate).collect();
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]));
}
