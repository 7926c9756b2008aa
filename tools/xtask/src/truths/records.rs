//! Rules for every record, checked over a PolyMix run.
//!
//! Each stage lies within its request; the first byte of a stage is not after its last; the stages of a fetch begin in their order; a
//! request that waited for another's fetch has no stage of a server; there are as many
//! records as requests of the robots, and as many replies of servers as the servers sent.
//!
//! Source: paper 001, section 4.1, by which every stage is a part of its request.

use std::fs::File;
use std::io::BufReader;

use profile::{Class, Item, Reader, Record, StageName, dump_json};
use serde_json::Value;

use super::Told;
use super::polymix::Run;
use super::verdict::Verdict;
use crate::failure::{During, Result};

/// The text of a rule, and a function that checks a record.
type Rule = (&'static str, fn(&Record) -> bool);

const RULES: [Rule; 6] = [
    ("stages that end after their request", |record| {
        let mut stages = record.stages.iter().flatten();
        stages.all(|it| u64::from(it.start_us) + u64::from(it.total_us) <= record.total_us.into())
    }),
    ("stages whose first byte is after their last", |record| {
        let mut stages = record.stages.iter().flatten();
        stages.all(|it| it.first_us <= it.total_us)
    }),
    (
        "fetches whose stages begin in another order than name, connection, reply",
        |record| {
            use StageName::{Dns, ProxyConnect, ServerReply};
            let starts = [Dns, ProxyConnect, ServerReply].map(|name| record.stage(name));
            starts.iter().flatten().is_sorted_by_key(|it| it.start_us)
        },
    ),
    ("collapsed requests with a stage of a server", |record| {
        use StageName::{Dns, Peer, ProxyConnect, ServerReply, SwapOut};
        record.class != Class::Collapsed
            || [Dns, Peer, ProxyConnect, ServerReply, SwapOut]
                .iter()
                .all(|&name| record.stage(name).is_none())
    }),
    ("misses without a server's reply, whole ones", |record| {
        record.class != Class::Miss
            || record
                .flags
                .intersects(profile::Flags::CLIENT_ABORTED | profile::Flags::ORIGIN_ABORTED)
            || record.stage(StageName::ServerReply).is_some()
    }),
    (
        "memory hits with a stage of a server or a disk read",
        |record| {
            use StageName::{Dns, ProxyConnect, ServerReply, SwapIn};
            record.class != Class::MemoryHit
                || [Dns, ProxyConnect, ServerReply, SwapIn]
                    .iter()
                    .all(|&name| record.stage(name).is_none())
        },
    ),
];

/// Reads the profile once and checks every record by every rule.
pub fn tell(run: &Run) -> Result<Told> {
    let shown = run.profile.display();
    let file = File::open(&run.profile).during(|| format!("opening {shown}"))?;
    let reader = Reader::new(BufReader::new(file)).during(|| format!("reading {shown}"))?;
    let mut broken = RULES.map(|_| (0u64, String::new()));
    let mut torn = (0, String::new());
    let (mut by_class, mut with_reply) = ([0u64; Class::ALL.len()], 0);
    for item in reader {
        let record = match item {
            Ok(Item::Request(record)) => record,
            Ok(Item::Event(_)) => continue,
            Err(e) => {
                note(&mut torn, || e.to_string());
                continue;
            }
        };
        by_class[record.class as usize] += 1;
        with_reply += u64::from(record.stage(StageName::ServerReply).is_some());
        for ((_, keeps), broken) in RULES.iter().zip(&mut broken) {
            if !keeps(&record) {
                note(broken, || json(&record));
            }
        }
    }
    let mut verdicts = vec![Verdict::none("torn places in the profile", torn.0, &torn.1)];
    for ((what, _), (count, first)) in RULES.iter().zip(&broken) {
        verdicts.push(Verdict::none(*what, *count, first));
    }
    let all: u64 = by_class.iter().sum();
    let counts = Class::ALL
        .iter()
        .zip(by_class)
        .filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(class, count)| format!("{} {count}", class.as_str()))
        .collect();
    println!("        {all} requests: {}", counts.join(", "));
    if let Some(robots) = &run.robots {
        let counted = |number: &Value| number.as_u64().unwrap_or_default();
        verdicts.push(Verdict::same(
            "requests of all classes: those that the robots made",
            counted(&robots["total"]["requests"]),
            all,
        ));
        verdicts.push(Verdict::same(
            "requests with a server's reply: replies that the servers gave",
            counted(&robots["total"]["origin"]["replies"]),
            with_reply,
        ));
    }
    Ok(Told::Verdicts(verdicts))
}

fn note(broken: &mut (u64, String), say: impl FnOnce() -> String) {
    broken.0 += 1;
    if broken.0 == 1 {
        broken.1 = say();
    }
}

fn json(record: &Record) -> String {
    let mut out = Vec::new();
    dump_json(record, &mut out);
    String::from_utf8_lossy(&out).trim_end().to_owned()
}
