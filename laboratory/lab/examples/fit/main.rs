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
//! A stream's rows take some seconds on one core, the fit 160 streams and some more: it says beforehand how long. Its last lines say whether the
//! defaults are what it found. Equal programs give equal answers, to the digit: time does not end the search, the number of streams does.

mod rows;
mod search;

use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use lab::generate::DecLike;
use rows::{ROWS, TABLE};
use search::{PARAMETERS, Parameter, Problem, Residuals, Search, loss};

/// Seeds the fit looks at.
const FITTED: [u64; 1] = [1];
/// Seeds of the last step.
const COUNTED: [u64; 4] = [1, 2, 3, 4];
/// Seeds it does not.
const HELD_OUT: [u64; 6] = [11, 12, 13, 14, 15, 16];
/// Streams that the search from each start may ask for: the derivatives, and some steps.
const LOOK: usize = 16;
/// Then so many of the searches go on,
const CHOSEN: usize = 2;
/// each for so many more streams.
const MORE: usize = 40;
/// Calls of the last step, each for [`COUNTED`] streams' counts alone.
const LAST: usize = 16;
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

/// The first parameters; their pull is to where `first()` has them.
fn problem<F: FnMut(&[f64]) -> Residuals>(parameters: usize, off: F) -> Problem<F> {
    let bounds = PARAMETERS[..parameters].iter();
    let bounds = bounds.map(|p| (p.bounds.0.ln(), p.bounds.1.ln())).collect();
    Problem::new(off, bounds, logs(&search::first(), parameters))
}

/// A bar of streams. On no terminal it is not seen, and the steps on standard output have to do.
fn bar(streams: usize) -> ProgressBar {
    let bar = ProgressBar::new(streams as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} streams, {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// The rows of each stream; the bar goes on by one.
fn rows_of<'a>(others: DecLike, bar: &'a ProgressBar) -> impl FnMut(&[f64]) -> Residuals + 'a {
    move |x| {
        let begun = Instant::now();
        let off = residuals(&rows::mean(like(others, x), &FITTED, false));
        if bar.position() == 0 {
            say_how_long(
                begun.elapsed().as_secs_f64(),
                bar.length().unwrap_or_default(),
            );
        }
        bar.inc(1);
        off
    }
}

fn say_how_long(stream_s: f64, streams: u64) {
    // The counts of the last step take a quarter of a stream's rows, the rows that are only watched half as much again.
    let after = (LAST * COUNTED.len()) as f64 / 4.0 + (1 + HELD_OUT.len()) as f64 * 1.5;
    let minutes = |streams: f64| streams * stream_s / 60.0;
    eprintln!(
        "At most {streams} streams of {stream_s:.1} s: {:.0} minutes, and {:.0} more for the counts and the seeds held out.",
        minutes(streams as f64),
        minutes(after)
    );
}

/// Looks around from each start, goes on from where that is best, rounds the best end, and fits the counts once more by the parameters
/// that they decide: on four seeds, since one seed's counts differ by up to 3 % from another's.
fn fit_all() {
    let starts = search::starts();
    let bar = bar(starts.len() * LOOK + CHOSEN * MORE);
    // What is not fitted is the same in all of them.
    let mut problem = problem(FIT, rows_of(search::first(), &bar));
    let mut searches: Vec<(usize, Search)> = starts
        .iter()
        .map(|start| Search::at(logs(start, FIT)))
        .enumerate()
        .collect();
    for (at, search) in &mut searches {
        bar.suspend(|| println!("\nStart {}:", *at + 1));
        search.go_on(&mut problem, LOOK, |loss, x| tell(&bar, loss, x));
    }
    searches.sort_by(|a, b| a.1.loss().total_cmp(&b.1.loss()));
    searches.truncate(CHOSEN);
    for (at, search) in &mut searches {
        bar.suspend(|| println!("\nStart {} goes on:", *at + 1));
        search.go_on(&mut problem, MORE, |loss, x| tell(&bar, loss, x));
    }
    bar.finish_and_clear();
    let best = searches
        .iter()
        .min_by(|a, b| a.1.loss().total_cmp(&b.1.loss()));
    let Some((at, search)) = best else { return };
    println!(
        "\nStart {} ended best, with a loss of {:.2}.",
        at + 1,
        search.loss()
    );
    let best = rounded(like(search::first(), search.x()));
    let found = counted(best);
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
    if found == DecLike::default() {
        println!("\nThe defaults are these values.");
    } else {
        println!(
            "\nThe defaults differ: {}",
            values(&logs(&DecLike::default(), FIT))
        );
    }
}

/// As it will be written down.
fn rounded(mut like: DecLike) -> DecLike {
    for parameter in &PARAMETERS[..FIT] {
        let written = digits((parameter.get)(&like));
        (parameter.set)(&mut like, written.parse().expect("digits of a number"));
    }
    like
}

/// The last step: the counts, on several seeds.
fn counted(best: DecLike) -> DecLike {
    println!("\nThe counts, on seeds {COUNTED:?}:");
    let off = |x: &[f64]| {
        let all = COUNTED.map(|seed| {
            rows::counts(DecLike {
                seed,
                ..like(best, x)
            })
        });
        let logs = |at: usize| all.iter().map(|rows| rows[at].ln()).sum::<f64>() / all.len() as f64;
        residuals(&std::array::from_fn::<f64, 4, _>(|at| logs(at).exp()))
    };
    let mut problem = problem(COUNTS, off);
    let mut search = Search::at(logs(&best, COUNTS));
    let hidden = ProgressBar::hidden();
    search.go_on(&mut problem, LAST, |loss, x| tell(&hidden, loss, x));
    rounded(like(best, search.x()))
}

fn values(logs: &[f64]) -> String {
    let values = PARAMETERS.iter().zip(logs);
    let values: Vec<String> = values
        .map(|(p, x)| format!("{}={}", p.name, digits(x.exp())))
        .collect();
    values.join(" ")
}

fn tell(bar: &ProgressBar, loss: f64, x: &[f64]) {
    bar.suspend(|| println!("loss {loss:.2}: {}", values(x)));
}

/// The stream where the search from `start` ends.
fn fit(start: DecLike) -> DecLike {
    let bar = bar(LOOK + MORE);
    let mut problem = problem(FIT, rows_of(start, &bar));
    let mut search = Search::at(logs(&start, FIT));
    search.go_on(&mut problem, LOOK + MORE, |loss, x| tell(&bar, loss, x));
    bar.finish_and_clear();
    rounded(like(start, search.x()))
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
        Some("from") => show(fit(like)),
        Some("show") => show(like),
        Some("tenth") => tenth(like, &names),
        Some(other) => {
            eprintln!("{other}: say nothing, from, show or tenth");
            std::process::exit(2);
        }
    }
}
