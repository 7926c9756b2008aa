//! Objects are purged while a node is away, or cannot use its disk; none of them may be answered from a cache afterwards.
//!
//! The objects are requested at three times: some while the node is away, at every member that clients reach; some right after its
//! return; the others when all members are linked again. A member that lost its links, and was named as away by a purge, may answer its
//! own clients from its store until it is linked; no other member may. Purges answered with 503 promise nothing: they are counted, and
//! repeated at the end.
//!
//! No other client is active, so the origin's count shows for every single answer whether it came from a cache.
//!
//! Not known here: the protocol between members.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::bed::Bed;
use super::crowd::Object;
use super::faults::Fault;
use super::report::{Grid, Section};
use super::site::{ADMIN, Role, Route, SITE};
use crate::failure::{Failure, Result, fail};
use crate::http::{Answer, Client, Ended, Request};
use crate::interrupt;
use crate::origin;
use crate::truths::verdict::Verdict;

/// Objects of each sort that are requested when all members are linked again.
const OBJECTS: u64 = 60;
/// Objects of each sort that are requested while the node is away, and as many right after its return.
const EARLIER: u64 = 20;
const ALL: u64 = OBJECTS + 2 * EARLIER;
const BODY_BYTES: u64 = 3000;
/// Longer than members need to notice that one is silent.
const AWAY: Duration = Duration::from_secs(5);
/// Purges in flight: one that waits for a member takes five seconds.
const PURGES: u64 = 20;
/// Longest time for fetched objects to reach the nodes.
const SETTLED_MAX: Duration = Duration::from_secs(10);
/// Longest time after the return in which a purge may be refused.
const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// What is done to an object while the node is away.
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

/// Fills the caches, takes the last node away by this fault, purges, requests, brings the node back, requests again.
pub fn run(bed: &mut Bed, fault: Fault) -> Result<Section> {
    let Some(nth) = bed.nodes().pop() else {
        fail!("no member has a store");
    };
    let name = bed.members[nth].name().to_owned();
    let mut section = Section::new(format!("purges while {name} is {}", fault.name()));
    if let Some(why) = fault.lacks(bed) {
        section.remarks.push(format!("not tried: {why}"));
        return Ok(section);
    }
    fill(bed, nth, &mut section)?;
    let mut said = Vec::new();
    super::faults::away(bed, fault, nth, AWAY, |bed| {
        said = purge(bed, nth)?;
        section.grids.push(answers(&said));
        ask(bed, nth, &said, Moment::Away(fault), &mut section)
    })?;
    let back = Instant::now();
    ask(bed, nth, &said, Moment::Return(fault), &mut section)?;
    bed.await_joined()?;
    section.remarks.push(format!(
        "all members were linked again {:.1} s after the return",
        back.elapsed().as_secs_f64()
    ));
    ask(bed, nth, &said, Moment::Linked, &mut section)?;
    ask_again(&said, &mut section)?;
    Ok(section)
}

/// Requests everything at every door and at the node itself, until all answers come from caches.
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
                .flat_map(|fate| (0..ALL).map(|n| fate.object(n)));
            cached += all
                .filter(|object| is_cached(bed, &mut client, object) == Some(true))
                .count();
        }
        cached == places.len() * Fate::ALL.len() * ALL as usize
    })?;
    if !filled {
        section.remarks.push(format!(
            "before: {cached} of {} answers came from caches",
            places.len() * Fate::ALL.len() * ALL as usize
        ));
    }
    // No checkpoint is needed, but records must be on disk: clusters close after a second.
    interrupt::pause(Duration::from_secs(2))
}

/// Whether the answer comes from a cache; `None` if the answer is wrong.
fn is_cached(bed: &Bed, client: &mut Client, object: &Object) -> Option<bool> {
    let before = bed.origin.served();
    let answer = client.get(&object.path).ok()?;
    object
        .is_right(&answer)
        .then(|| bed.origin.served() == before)
}

/// A purge and its answer.
#[derive(Debug, Clone)]
struct Said {
    fate: Fate,
    /// The object, for a purge by URL.
    n: Option<u64>,
    at: SocketAddr,
    by: String,
    target: String,
    status: u16,
    answer: String,
    ms: f64,
}

impl Said {
    /// Sends the purge.
    fn send(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut answer = Answer::default();
        let request = Request::of("DELETE", &self.target);
        if let Ended::Broken { reason, .. } = Client::new(self.at).ask(request, &mut answer) {
            fail!("{} at {}: {reason}", self.target, self.by);
        }
        self.ms = begun.elapsed().as_secs_f64() * 1000.0;
        self.status = answer.status;
        let text = String::from_utf8_lossy(&answer.body);
        self.answer = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.status {
            200 | 503 => Ok(()),
            status => fail!("a purge at {} was answered {status}: {text}", self.by),
        }
    }

    /// The row of the answer: answers that differ in the URL only share one.
    fn row(&self) -> String {
        let words = self.answer.split(' ');
        let without_urls = words.map(|word| if word.contains("/size/") { "..." } else { word });
        without_urls.collect::<Vec<_>>().join(" ")
    }

    /// Whether the purge covers this object.
    fn is_of(&self, fate: Fate, n: u64) -> bool {
        self.fate == fate && self.n.is_none_or(|it| it == n)
    }
}

fn answers(said: &[Said]) -> Grid {
    let mut grid = Grid::new(
        "What purges were answered while it was away",
        ["purge", "at", "status", "times", "longest ms", "answer"],
    );
    let mut rows: Vec<(&Said, String, Vec<f64>)> = Vec::new();
    for it in said {
        let row = it.row();
        let is_it = |other: &&mut (&Said, String, Vec<f64>)| {
            other.0.fate == it.fate && other.0.by == it.by && other.1 == row
        };
        match rows.iter_mut().find(is_it) {
            Some((_, _, ms)) => ms.push(it.ms),
            None => rows.push((it, row, vec![it.ms])),
        }
    }
    for (it, answer, ms) in rows {
        grid.row([
            it.fate.prefix().to_owned(),
            it.by.clone(),
            it.status.to_string(),
            ms.len().to_string(),
            format!("{:.0}", ms.iter().fold(0.0, |a: f64, b| a.max(*b))),
            answer,
        ]);
    }
    grid
}

/// Sends purges to a member that is not away, several at a time.
fn purge(bed: &Bed, away: usize) -> Result<Vec<Said>> {
    let is_able = |n: &usize| *n != away && bed.members[*n].spec.role != Role::Balancer;
    // Behind HAProxy nodes do not forward purges, so each node gets every purge.
    let told: Vec<usize> = match bed.site.route {
        Route::Haproxy => (0..bed.members.len()).filter(is_able).collect(),
        _ => (0..bed.members.len()).filter(is_able).take(1).collect(),
    };
    let site = format!("http://{}", bed.origin.address());
    let mut purges = Vec::new();
    for member in told.iter().map(|n| &bed.members[*n]) {
        let mut add = |fate: Fate, n: Option<u64>, what: &str, path: String| {
            purges.push(Said {
                fate,
                n,
                at: member.at(ADMIN),
                by: member.name().to_owned(),
                target: format!("/cache?{what}={}", encoded(&format!("{site}{path}"))),
                status: 0,
                answer: String::new(),
                ms: 0.0,
            });
        };
        for n in 0..ALL {
            let fate = Fate::PurgedByUrl;
            add(fate, Some(n), "url", fate.object(n).path);
        }
        let fate = Fate::PurgedByPrefix;
        add(
            fate,
            None,
            "prefix",
            origin::path(BODY_BYTES, fate.prefix()),
        );
    }
    send_all(purges)
}

fn send_all(purges: Vec<Said>) -> Result<Vec<Said>> {
    let waiting = Mutex::new(purges);
    let done = Mutex::new(Vec::new());
    let first: Mutex<Option<Failure>> = Mutex::new(None);
    let worker = || {
        loop {
            let next = waiting.lock().expect("no worker panics").pop();
            let Some(mut it) = next else {
                break;
            };
            match interrupt::check().and_then(|()| it.send()) {
                Ok(()) => done.lock().expect("no worker panics").push(it),
                Err(failure) => {
                    first
                        .lock()
                        .expect("no worker panics")
                        .get_or_insert(failure);
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PURGES {
            scope.spawn(worker);
        }
    });
    match first.into_inner().expect("no worker panics") {
        Some(failure) => Err(failure),
        None => Ok(done.into_inner().expect("no worker panics")),
    }
}

fn encoded(text: &str) -> String {
    text.replace('%', "%25")
        .replace(':', "%3A")
        .replace('/', "%2F")
        .replace('?', "%3F")
}

/// The time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// After the purges, while the member is away.
    Away(Fault),
    /// Right after the member's return.
    Return(Fault),
    /// When all members are linked again.
    Linked,
}

impl Moment {
    fn caption(self) -> &'static str {
        match self {
            Self::Away(_) => "While it is away",
            Self::Return(_) => "Right after its return",
            Self::Linked => "When all are linked again",
        }
    }

    fn numbers(self) -> Range<u64> {
        match self {
            Self::Linked => 0..OBJECTS,
            Self::Away(_) => OBJECTS..OBJECTS + EARLIER,
            Self::Return(_) => OBJECTS + EARLIER..ALL,
        }
    }

    /// Whether clients reach the node.
    fn is_reachable(self) -> bool {
        match self {
            Self::Away(fault) => fault.leaves_reachable(),
            Self::Return(_) | Self::Linked => true,
        }
    }

    /// Whether the node may miss a purge that named it as away. A node that starts, or was stopped, first asks for purges.
    fn may_not_have_heard(self) -> bool {
        matches!(self, Self::Away(_) | Self::Return(Fault::Cut | Fault::Part))
    }
}

/// Requests half of the objects at the node itself, if it can be reached, the others at the other doors.
fn ask(bed: &Bed, nth: usize, said: &[Said], moment: Moment, section: &mut Section) -> Result<()> {
    let (node, caption) = (bed.members[nth].at(SITE), moment.caption());
    let name = format!("\"{}\"", bed.members[nth].name());
    let doors = bed.doors().into_iter().map(|door| door.site);
    let doors: Vec<SocketAddr> = doors.filter(|door| *door != node).collect();
    let mut grid = Grid::new(
        caption,
        [
            "objects",
            "asked at",
            "from a cache",
            "from the origin",
            "wrong",
        ],
    );
    let (mut broken, mut unpromised, mut errors) = (0, 0, 0);
    for fate in [Fate::PurgedByUrl, Fate::PurgedByPrefix, Fate::Kept] {
        let mut counted = [[0_u64; 3]; 2];
        for n in moment.numbers() {
            interrupt::check()?;
            let at_doors = n % 2 == 1 || !moment.is_reachable();
            let place = match at_doors {
                false => node,
                true => doors[n as usize / 2 % doors.len()],
            };
            let found = is_cached(bed, &mut Client::new(place), &fate.object(n));
            let column = match found {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            };
            counted[usize::from(at_doors)][column] += 1;
            if fate == Fate::Kept || found != Some(true) {
                continue;
            }
            let mut about = said.iter().filter(|it| it.is_of(fate, n));
            let is_promised = about.all(|it| {
                let may_not_have_heard =
                    moment.may_not_have_heard() && !at_doors && it.answer.contains(&name);
                it.status == 200 && !may_not_have_heard
            });
            broken += u64::from(is_promised);
            unpromised += u64::from(!is_promised);
        }
        errors += counted[0][2] + counted[1][2];
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
    let when = caption.to_lowercase();
    section.verdicts.push(Verdict::none(
        format!("purged, acknowledged and served from a cache {when}"),
        broken,
        "see the table",
    ));
    section.verdicts.push(Verdict::none(
        format!("errors {when}"),
        errors,
        "see the table",
    ));
    if unpromised > 0 {
        section.remarks.push(format!(
            "{when}: {unpromised} came from a cache although a purge was tried, which was refused or named the node as away"
        ));
    }
    section.grids.push(grid);
    Ok(())
}

/// Refused purges must be acknowledged when they are repeated.
fn ask_again(said: &[Said], section: &mut Section) -> Result<()> {
    let mut refused: Vec<Said> = said.iter().filter(|it| it.status != 200).cloned().collect();
    if refused.is_empty() {
        return Ok(());
    }
    let count = refused.len();
    let begun = Instant::now();
    let are_done = interrupt::wait_until(ACKNOWLEDGED_MAX, || {
        if let Ok(sent) = send_all(refused.clone()) {
            refused = sent.into_iter().filter(|it| it.status != 200).collect();
        }
        refused.is_empty()
    })?;
    section.verdicts.push(Verdict {
        what: "purges that were refused are acknowledged when they are asked for again".into(),
        how: format!(
            "{} of {count} after {:.1} s",
            count - refused.len(),
            begun.elapsed().as_secs_f64()
        ),
        is_met: are_done,
    });
    Ok(())
}
