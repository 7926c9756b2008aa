//! Fits the stream like Digital's (`lab::generate::DecLike`) to what paper 002 prints: which parameters, rows, loss and bounds is told
//! in `rows.rs` and `search.rs`, what came out in docs/lab-traces.md.
//!
//! ```text
//! cargo run --release -p lab --example fit                          the fit, and its rows
//! cargo run --release -p lab --example fit -- from [NAME=VALUE …]   the fit, begun at the defaults, changed so
//! cargo run --release -p lab --example fit -- show [NAME=VALUE …]   the rows of the defaults, changed so, also on seeds that were not fitted
//! cargo run --release -p lab --example fit -- tenth [NAME … NAME=VALUE …]  what 10 % more of each parameter, or of those named, does to each row
//! ```
//!
//! A stream's rows take 6 s on one core, a fit two to four hundred streams. Equal programs give equal answers, to the digit: time does not end the search, rounds do.

mod rows;
mod search;

use lab::generate::DecLike;
use rows::{ROWS, TABLE};
use search::{PARAMETERS, Parameter, Search, loss};

/// Seeds the fit looks at.
const FITTED: [u64; 1] = [1];
/// Seeds of the last step.
const COUNTED: [u64; 4] = [1, 2, 3, 4];
/// Seeds it does not.
const HELD_OUT: [u64; 6] = [11, 12, 13, 14, 15, 16];
const STEPS_MAX: usize = 24;
/// Of [`PARAMETERS`], the first so many are fitted.
const FIT: usize = 8;
/// Of these, the first so many are what the counts decide.
const COUNTS: usize = 3;

/// How far off the first rows are.
fn residuals(seen: &[f64]) -> Vec<f64> {
    let fitted = TABLE.iter().zip(seen);
    fitted
        .filter_map(|(row, seen)| {
            let tolerance = row.tolerance?;
            Some((seen / row.printed).ln() / (1.0 + tolerance).ln())
        })
        .collect()
}

fn logs(like: &DecLike, first: usize) -> Vec<f64> {
    PARAMETERS[..first]
        .iter()
        .map(|p| (p.get)(like).ln())
        .collect()
}

fn like(others: DecLike, logs: &[f64]) -> DecLike {
    let mut like = others;
    for (parameter, log) in PARAMETERS.iter().zip(logs) {
        (parameter.set)(&mut like, log.exp());
    }
    like
}

/// Four digits, as they will be written down.
fn digits(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

fn print_rows(columns: &[(&str, [f64; ROWS])]) {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    println!(
        "\n| row | paper | {} | tolerance | from |",
        names.join(" | ")
    );
    println!("|---|--:|{}--:|---|", "--:|".repeat(columns.len()));
    for (at, row) in TABLE.iter().enumerate() {
        let seen: Vec<String> = columns.iter().map(|(_, rows)| digits(rows[at])).collect();
        let tolerance = row.tolerance.map(|t| format!("{:.0} %", t * 100.0));
        println!(
            "| {} | {} | {} | {} | {} |",
            row.name,
            digits(row.printed),
            seen.join(" | "),
            tolerance.as_deref().unwrap_or("watched"),
            row.source
        );
    }
}

/// A search over the first parameters; their pull is to where `first()` has them.
fn search_over<F: FnMut(&[f64]) -> Vec<f64>>(parameters: usize, off: F) -> Search<F> {
    let bounds = PARAMETERS[..parameters].iter();
    Search {
        off,
        bounds: bounds.map(|p| (p.bounds.0.ln(), p.bounds.1.ln())).collect(),
        first: logs(&search::first(), parameters),
    }
}

/// Searches from each start, takes the best, rounds it, and fits the counts once more by the parameters that they decide: on four
/// seeds, since one seed's counts differ by up to 3 % from another's.
fn fit_all() {
    let ends = search::starts().map(fit);
    let best = ends.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, best)) = best else { return };
    let mut rounded = best;
    for parameter in &PARAMETERS[..FIT] {
        (parameter.set)(
            &mut rounded,
            digits((parameter.get)(&best)).parse().unwrap_or(f64::NAN),
        );
    }
    println!("\nThe counts, on seeds {COUNTED:?}:");
    let off = |x: &[f64]| {
        let all = COUNTED.map(|seed| {
            rows::counts(DecLike {
                seed,
                ..like(rounded, x)
            })
        });
        let logs = |at: usize| all.iter().map(|rows| rows[at].ln()).sum::<f64>() / all.len() as f64;
        residuals(&std::array::from_fn::<f64, 4, _>(|at| logs(at).exp()))
    };
    let found = search_over(COUNTS, off).run(logs(&rounded, COUNTS), STEPS_MAX, tell);
    let found = like(rounded, &found);
    println!("\n| parameter | first | fitted | bounds | because |\n|---|--:|--:|---|---|");
    for parameter in &PARAMETERS[..FIT] {
        let (low, high) = parameter.bounds;
        println!(
            "| {} | {} | {} | {low} to {high} | {} |",
            parameter.name,
            digits((parameter.get)(&search::first())),
            digits((parameter.get)(&found)),
            parameter.why.unwrap_or_default()
        );
    }
    show(found);
}

fn tell(step: usize, loss: f64, x: &[f64]) {
    let values: Vec<String> = PARAMETERS
        .iter()
        .zip(x)
        .map(|(p, x)| format!("{}={}", p.name, digits(x.exp())))
        .collect();
    println!("step {step}, loss {loss:.2}: {}", values.join(" "));
}

/// The loss where the search ends, and the stream there.
fn fit(start: DecLike) -> (f64, DecLike) {
    let off = |x: &[f64]| residuals(&rows::mean(like(start, x), &FITTED, false));
    let mut search = search_over(FIT, off);
    let found = search.run(logs(&start, FIT), STEPS_MAX, tell);
    (loss(&search.residuals(&found)), like(start, &found))
}

fn show(like: DecLike) {
    let seen = rows::mean(like, &FITTED, true);
    let held: Vec<[f64; ROWS]> = HELD_OUT
        .iter()
        .map(|&seed| rows::see(DecLike { seed, ..like }, true))
        .collect();
    let extreme = |pick: fn(f64, f64) -> f64| {
        std::array::from_fn(|at| {
            held.iter()
                .map(|rows| rows[at])
                .reduce(pick)
                .unwrap_or(f64::NAN)
        })
    };
    print_rows(&[
        ("fitted seeds", seen),
        ("held out, mean", rows::middle(&held)),
        ("least", extreme(f64::min)),
        ("most", extreme(f64::max)),
    ]);
    let worth = |rows: &[f64; ROWS]| loss(&residuals(rows));
    println!(
        "\nLoss of the rows: {:.2}, held out {:.2}",
        worth(&seen),
        worth(&rows::middle(&held))
    );
}

fn tenth(like: DecLike, only: &[String]) {
    let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
    println!(
        "Change of a row in per cent when a parameter grows by 10 %: the mean of 10 % more and, turned round, 10 % less.\n"
    );
    println!(
        "| parameter | {} |\n|---|{}",
        names.join(" | "),
        "--:|".repeat(ROWS)
    );
    let wanted = |p: &&Parameter| only.is_empty() || only.iter().any(|name| name == p.name);
    for parameter in PARAMETERS.iter().filter(wanted) {
        let with = |factor: f64| {
            let mut other = like;
            (parameter.set)(&mut other, (parameter.get)(&like) * factor);
            rows::mean(other, &FITTED, true)
        };
        let (more, less) = (with(1.1), with(1.0 / 1.1));
        let cells: Vec<String> = more
            .iter()
            .zip(&less)
            .map(|(m, l)| format!("{:+.1}", 50.0 * (m / l).ln()))
            .collect();
        println!("| {} | {} |", parameter.name, cells.join(" | "));
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next();
    let mut like = DecLike::default();
    let mut names = Vec::new();
    for arg in args {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let parameter = PARAMETERS.iter().find(|p| p.name == name);
        match (parameter, value, value.and_then(|v| v.parse().ok())) {
            (Some(parameter), _, Some(value)) => (parameter.set)(&mut like, value),
            (Some(_), None, _) => names.push(arg),
            _ => {
                let known: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
                eprintln!("{arg}: say NAME=VALUE, NAME one of {}", known.join(", "));
                std::process::exit(2);
            }
        }
    }
    match what.as_deref() {
        None => fit_all(),
        Some("from") => show(fit(like).1),
        Some("show") => show(like),
        Some("tenth") => tenth(like, &names),
        Some(other) => {
            eprintln!("{other}: say nothing, from, show or tenth");
            std::process::exit(2);
        }
    }
}
