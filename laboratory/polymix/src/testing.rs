//! An invented run, for tests of reports.

use std::time::Duration;

use crate::Mix;
use crate::answer::Finished;
use crate::content::{Kind, ObjectId};
use crate::cores::Cores;
use crate::report::{About, Parts, Plan, Report};
use crate::request::{Condition, Method, Request};
use crate::robots::{GivenUp, Outcome, PhaseRun};
use crate::series::Series;
use crate::server::Seen;
use crate::stats::{Counted, Timing};

/// Seconds of each phase.
pub const PHASE_S: u64 = 10;
pub const HIT_MS: u64 = 20;
pub const MISS_MS: u64 = 2_600;

/// A run at this peak: ramps, tops, an idle phase. Six in ten replies are hits, as many as offered; an LRU has five.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn report(label: &str, rate: f64) -> Report {
    let mut series = Series::default();
    let mut phases = Vec::new();
    for (n, (name, from, to)) in [
        ("inc1", 0.1, 1.0),
        ("top1", 1.0, 1.0),
        ("dec1", 1.0, 0.1),
        ("top2", 1.0, 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let begins = n as u64 * PHASE_S;
        let mut counted = Counted::default();
        for second in 0..PHASE_S {
            let done = (second as f64 + 0.5) / PHASE_S as f64;
            let requests = ((from + (to - from) * done) * rate) as u64;
            let at = Duration::from_secs(begins + second);
            for request in 0..requests {
                one(request % 10, at, &mut counted, &mut series);
            }
            series.at(at).cpu_s += 0.25;
        }
        phases.push(PhaseRun {
            name,
            from: Duration::from_secs(begins),
            to: Duration::from_secs(begins + PHASE_S),
            intended_rate: f64::midpoint(from, to) * rate,
            given_up: None,
            cores: Cores {
                cpu: Duration::from_secs(PHASE_S) / 4,
                wait: Duration::ZERO,
            },
            origin: Some(Seen {
                replies: counted.requests * 4 / 10,
                body_bytes: counted.replies.bytes * 4 / 10,
                connections: 5,
                cpu: Duration::from_secs(1),
            }),
            counted,
        });
    }
    let outcome = Outcome {
        phases,
        series,
        faults: Vec::new(),
        unfinished: 0,
        working_set: 500,
        frozen: true,
        repeats_wanted: 20_000,
        nothing_to_repeat: 0,
        connections_max: 40,
    };
    let plan = Plan {
        https: false,
        mix: Mix::Three,
        rate,
        fill_rate: rate,
        cache_bytes: 1 << 20,
        time_scale: 1.0 / 1440.0,
        think_scale: 1.0,
        delay_ms: 40.0,
        loss: 0.000_5,
        named: false,
        one_address: false,
        http: "1.0".to_owned(),
        only: Vec::new(),
        range_share: 0.0,
        robots: 250,
        servers: 5,
        world: 7,
        seed: 1,
    };
    let about = About {
        setup: [("workload".to_owned(), "PolyMix-3".to_owned())].into(),
        plan,
        parts: Parts {
            here: vec![1],
            of: 1,
        },
        began_s: 1_700_000_000.0,
    };
    Report {
        label: label.to_owned(),
        ..Report::new(about, &outcome)
    }
}

/// The same run, with a fill that was given up at 37 %.
pub fn fill_given_up(rate: f64) -> Report {
    let mut report = report("x", rate);
    report.phases[0].name = "fill".to_owned();
    report.phases[0].given_up = Some(GivenUp {
        planned_s: 2.0,
        filled_percent: 37.0,
    });
    report
}

fn one(number: u64, at: Duration, counted: &mut Counted, series: &mut Series) {
    let hit = number < 6;
    let id = ObjectId {
        world: 7,
        server: 1,
        kind: Kind::Other,
        number: 1,
    };
    let request = Request {
        id,
        condition: Condition::Basic,
        method: Method::Get,
        abort: false,
        repeat: hit,
        offered: hit,
        offered_lru: number < 5,
    };
    let finished = Finished {
        status: 200,
        made_ms: None,
        checksum: false,
        hit,
        body_bytes: 1_000,
        keep_alive: true,
    };
    let response = Duration::from_millis(if hit { HIT_MS } else { MISS_MS });
    let timing = Timing {
        first_byte: response / 2,
        response,
        queued: Duration::ZERO,
    };
    counted.requests += 1;
    counted.offered += u64::from(hit);
    counted.lru += u64::from(request.offered_lru);
    counted.finished(&request, &finished, &timing);
    counted.connections += u64::from(counted.requests.is_multiple_of(15));
    counted.lag.add(Duration::from_micros(300));
    let sample = series.at(at);
    sample.requests += 1;
    sample.launched(Duration::from_micros(300));
    sample.finished(&request, &finished, response);
}
