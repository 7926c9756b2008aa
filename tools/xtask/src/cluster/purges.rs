//! Objects are purged while a node is away; when it is back, none of them may come from a cache.
//!
//! Nobody else asks meanwhile, so the origin's count tells for every single answer whether it came from a cache.
//!
//! Not known here: how members tell each other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::bed::Bed;
use super::crowd::Object;
use super::faults::Fault;
use super::report::{Grid, Section};
use super::site::SITE;
use crate::failure::{Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::origin;
use crate::truths::verdict::Verdict;

/// Objects of each sort.
const OBJECTS: u64 = 60;
const BODY_BYTES: u64 = 3000;
/// Longer than it takes to notice that a member is silent.
const AWAY: Duration = Duration::from_secs(5);
/// How long what was fetched may take to reach the nodes.
const SETTLED_MAX: Duration = Duration::from_secs(10);

/// What becomes of an object while the node is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    PurgedByUrl,
    PurgedByPrefix,
}

impl Fate {
    const ALL: [Self; 3] = [Self::Kept, Self::PurgedByUrl, Self::PurgedByPrefix];

    fn prefix(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::PurgedByUrl => "url",
            Self::PurgedByPrefix => "prefix",
        }
    }

    fn object(self, n: u64) -> Object {
        Object::exactly(format!("{}-{n}", self.prefix()), BODY_BYTES)
    }
}

/// Fills, takes the last node away by this fault, purges, brings it back, asks.
pub fn run(bed: &mut Bed, fault: Fault) -> Result<Section> {
    let Some(nth) = bed.nodes().pop() else {
        fail!("no member has a store");
    };
    let name = bed.members[nth].name().to_owned();
    let mut section = Section::new(format!("purges while {name} is {}", fault.name()));
    if fault == Fault::Cut && !bed.network.has_cables() {
        section
            .remarks
            .push("not tried: members have no network of their own (this needs root)".into());
        return Ok(section);
    }
    fill(bed, nth, &mut section)?;
    let mut said = Vec::new();
    super::faults::away(bed, fault, nth, AWAY, |bed| purge(bed, nth, &mut said))?;
    section.grids.push(answers(&said));
    ask(bed, nth, &mut section)?;
    Ok(section)
}

/// Asks for everything at every door and at the node itself, until all of it comes from caches.
fn fill(bed: &Bed, nth: usize, section: &mut Section) -> Result<()> {
    let mut places: Vec<SocketAddr> = bed.doors().iter().map(|door| door.site).collect();
    places.push(bed.members[nth].at(SITE));
    let mut cached = 0;
    let filled = interrupt::wait_until(SETTLED_MAX, || {
        cached = 0;
        for place in &places {
            let mut client = Client::new(*place);
            let all = Fate::ALL
                .iter()
                .flat_map(|fate| (0..OBJECTS).map(|n| fate.object(n)));
            cached += all
                .filter(|object| is_cached(bed, &mut client, object) == Some(true))
                .count();
        }
        cached == places.len() * Fate::ALL.len() * OBJECTS as usize
    })?;
    if !filled {
        section.remarks.push(format!(
            "before: {cached} of {} answers came from caches",
            places.len() * Fate::ALL.len() * OBJECTS as usize
        ));
    }
    // A checkpoint is not needed, but records must be on disk: clusters close after a second.
    interrupt::pause(Duration::from_secs(2))
}

/// Does this answer come from a cache? None: it is wrong.
fn is_cached(bed: &Bed, client: &mut Client, object: &Object) -> Option<bool> {
    let before = bed.origin.served();
    let answer = client.get(&object.path).ok()?;
    object
        .is_right(&answer)
        .then(|| bed.origin.served() == before)
}

/// Purges that were answered alike.
struct Said {
    what: String,
    by: String,
    status: u16,
    answer: String,
    ms: Vec<f64>,
}

fn answers(said: &[Said]) -> Grid {
    let mut grid = Grid::new(
        "What purges were answered while it was away",
        ["purge", "at", "status", "times", "longest ms", "answer"],
    );
    for it in said {
        grid.row([
            it.what.clone(),
            it.by.clone(),
            it.status.to_string(),
            it.ms.len().to_string(),
            format!("{:.0}", it.ms.iter().fold(0.0, |a: f64, b| a.max(*b))),
            it.answer.clone(),
        ]);
    }
    grid
}

/// Purges at a member that is not away.
fn purge(bed: &Bed, away: usize, said: &mut Vec<Said>) -> Result<()> {
    let is_able =
        |n: &usize| *n != away && bed.members[*n].spec.role != super::site::Role::Balancer;
    // Behind HAProxy no node tells another, so each has to be told.
    let told: Vec<usize> = match bed.site.route {
        super::site::Route::Haproxy => (0..bed.members.len()).filter(is_able).collect(),
        _ => (0..bed.members.len()).filter(is_able).take(1).collect(),
    };
    for n in told {
        let member = &bed.members[n];
        let site = format!("http://{}", bed.origin.address());
        let mut purge = |what: &str, value: String| {
            let begun = Instant::now();
            let (status, answer) =
                member.admin("DELETE", &format!("/cache?{what}={}", encoded(&value)))?;
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            // Answers that differ in the URL only are one row.
            let answer = answer
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace(&value, "...");
            let found = said
                .iter_mut()
                .find(|it| it.what == what && it.by == member.name() && it.answer == answer);
            match found {
                Some(row) => row.ms.push(ms),
                None => said.push(Said {
                    what: what.to_owned(),
                    by: member.name().to_owned(),
                    status,
                    answer: answer.clone(),
                    ms: vec![ms],
                }),
            }
            match status {
                200 | 503 => Ok(()),
                _ => fail!(
                    "a purge at {} was answered {status}: {answer}",
                    member.name()
                ),
            }
        };
        for number in 0..OBJECTS {
            purge(
                "url",
                format!("{site}{}", Fate::PurgedByUrl.object(number).path),
            )?;
        }
        let prefix = origin::path(BODY_BYTES, Fate::PurgedByPrefix.prefix());
        purge("prefix", format!("{site}{prefix}"))?;
    }
    Ok(())
}

fn encoded(text: &str) -> String {
    text.replace('%', "%25")
        .replace(':', "%3A")
        .replace('/', "%2F")
        .replace('?', "%3F")
}

/// At once: half of the objects at the node itself, the others at the doors.
fn ask(bed: &Bed, nth: usize, section: &mut Section) -> Result<()> {
    let node = bed.members[nth].at(SITE);
    let mut grid = Grid::new(
        "After its return",
        [
            "objects",
            "asked at",
            "from a cache",
            "from the origin",
            "wrong",
        ],
    );
    let mut errors = 0;
    for fate in [Fate::PurgedByUrl, Fate::PurgedByPrefix, Fate::Kept] {
        let doors = bed.doors();
        let mut counted = [[0_u64; 3]; 2];
        for n in 0..OBJECTS {
            interrupt::check()?;
            let at_doors = (n % 2) as usize;
            let place = match at_doors {
                0 => node,
                _ => doors[n as usize / 2 % doors.len()].site,
            };
            let found = is_cached(bed, &mut Client::new(place), &fate.object(n));
            let column = match found {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            };
            counted[at_doors][column] += 1;
        }
        let sum = |column: usize| counted[0][column] + counted[1][column];
        if fate != Fate::Kept {
            let what = format!("purged and served from a cache: {}", fate.prefix());
            section
                .verdicts
                .push(Verdict::none(what, sum(0), "see the table"));
        }
        errors += sum(2);
        for (place, [cached, fetched, wrong]) in ["the node", "the doors"].iter().zip(counted) {
            grid.row([
                fate.prefix().to_owned(),
                (*place).to_owned(),
                cached.to_string(),
                fetched.to_string(),
                wrong.to_string(),
            ]);
        }
    }
    section
        .verdicts
        .push(Verdict::none("errors", errors, "see the table"));
    section.grids.push(grid);
    Ok(())
}
