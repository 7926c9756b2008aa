//! The cost to a node of being followed: alone, in a cluster without other members, followed by one front, by two.
//!
//! Three quarters of the requests are for objects that the node does not have, with bodies of 2 bytes; each connection sends the next
//! request after an answer. Processes of one build differ by more than following costs, so the share of the thread that only talks to
//! members and sends hints is shown, too; a worker does the same work whether the node is followed or not.
//! The four are measured in turn, round after round; the fronts receive the hints and do nothing else.
//! Source: paper 003, section 5.

use serde::Serialize;

use super::{Options, build, fill, measure, one};
use crate::bench::stats::Spread;
use crate::bench::table::Table;
use crate::cluster::bed::Bed;
use crate::cluster::site::{Role, Route, SITE};
use crate::failure::{During, Result};
use crate::progress::Progress;
use crate::wrk::{Figures, Objects};

const MISS_PERCENT: u64 = 75;
const BODY_BYTES: u64 = 2;
/// Number of objects that are hits.
const KNOWN: u64 = 2000;

/// One run: wrk's figures, CPU us of the node per answer, and the part of them in the thread that sends hints.
type Run = (Figures, f64, f64);

/// A node with a number of followers.
#[derive(Debug, Serialize)]
pub struct Followed {
    name: &'static str,
    rate: Spread,
    /// Relative to the node alone in the same round.
    rate_ratio: Spread,
    cpu_us: Spread,
    /// Relative to the node alone in the same round.
    pub cpu_ratio: Spread,
    /// Share of the thread that sends hints.
    telling: Spread,
    p50_us: Spread,
    p90_us: Spread,
    p98_us: Spread,
}

/// Measures all four, round after round.
pub fn following(options: &Options) -> Result<Vec<Followed>> {
    // A node behind HAProxy is in no cluster; HAProxy itself gets no requests here.
    let arrangements = [
        ("alone", Route::Haproxy, 1, 1),
        ("in a cluster, nobody there", Route::Hints, 1, 1),
        ("one front follows", Route::Hints, 1, 0),
        ("two fronts follow", Route::Hints, 2, 0),
    ];
    let mut beds = Vec::new();
    for (name, route, fronts, absent_fronts) in arrangements {
        let mut bed = build(route, fronts, 1)?;
        for member in bed.members.iter_mut().take(absent_fronts) {
            member.stop()?;
        }
        beds.push((name, bed));
    }
    let mut samples: Vec<Vec<Run>> = vec![Vec::new(); beds.len()];
    let steps = u64::from(options.rounds) * beds.len() as u64;
    let mut progress = Progress::new("measuring", steps);
    for round in 0..options.rounds {
        for ((name, bed), samples) in beds.iter().zip(&mut samples) {
            progress.say(*name);
            samples.push(followed(bed, round, options).during(|| (*name).to_owned())?);
            progress.step();
        }
    }
    drop(progress);
    let spread = |of: &[Run], f: fn(&Run) -> f64| Spread::of(of.iter().map(f));
    let rows: Vec<Followed> = beds
        .iter()
        .zip(&samples)
        .map(|((name, _), of)| Followed {
            name,
            rate: spread(of, |it| it.0.rate()),
            rate_ratio: Spread::of(
                of.iter()
                    .zip(&samples[0])
                    .map(|(it, alone)| it.0.rate() / alone.0.rate()),
            ),
            cpu_us: spread(of, |it| it.1),
            cpu_ratio: Spread::of(of.iter().zip(&samples[0]).map(|(it, alone)| it.1 / alone.1)),
            telling: spread(of, |it| it.2 / it.1),
            p50_us: spread(of, |it| it.0.p50_us),
            p90_us: spread(of, |it| it.0.p90_us),
            p98_us: spread(of, |it| it.0.p98_us),
        })
        .collect();
    let mut table = Table::new([
        "a node",
        "req/s",
        "/ alone",
        "min-max",
        "CPU us",
        "/ alone",
        "min-max",
        "telling %",
        "min-max",
        "p50 us",
        "p90 us",
        "p98 us",
    ]);
    for row in &rows {
        table.row([
            row.name.to_owned(),
            format!("{:.0}", row.rate.median),
            format!("{:.3}", row.rate_ratio.median),
            format!("{:.3}-{:.3}", row.rate_ratio.min, row.rate_ratio.max),
            format!("{:.2}", row.cpu_us.median),
            format!("{:.3}", row.cpu_ratio.median),
            format!("{:.3}-{:.3}", row.cpu_ratio.min, row.cpu_ratio.max),
            format!("{:.2}", 100.0 * row.telling.median),
            format!(
                "{:.2}-{:.2}",
                100.0 * row.telling.min,
                100.0 * row.telling.max
            ),
            format!("{:.0}", row.p50_us.median),
            format!("{:.0}", row.p90_us.median),
            format!("{:.0}", row.p98_us.median),
        ]);
    }
    println!(
        "{}\n{MISS_PERCENT} % misses, bodies of {BODY_BYTES} bytes, {} connections; medians of {} rounds of {} s, \
         interleaved; ratios within a round.\n",
        table.render(),
        options.connections,
        options.rounds,
        options.seconds
    );
    Ok(rows)
}

fn followed(bed: &Bed, round: u32, options: &Options) -> Result<Run> {
    let node = one(bed, Role::Node)?;
    let prefix = format!("r{round}-");
    fill(node.at(SITE), KNOWN, BODY_BYTES, &prefix)?;
    let objects = Objects::Mixed {
        prefix,
        count: KNOWN,
        fresh_percent: MISS_PERCENT,
        seed: u64::from(round) + 1,
    };
    let before = node.cpu_of_cluster();
    let measured = measure(&[node], node.at(SITE), BODY_BYTES, objects, options)?;
    let telling = node.cpu_of_cluster().saturating_sub(before).as_secs_f64();
    let telling_us = telling * 1e6 / measured.figures.requests as f64;
    Ok((measured.figures, measured.cpu_us[0], telling_us))
}
