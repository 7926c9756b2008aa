//! The truth: the resources of origins, their answers and requesters, and purges, with the order of all events.
//!
//! Every answer of an origin has its own number, the *serial*, in a field that is stored with the answer. A body is a function of resource,
//! variant and version. So the origin and time of every received byte can be determined.
//!
//! Order is counted in *ticks*; no two events have the same one. Time is in virtual milliseconds.
//!
//! Not known here: sockets, the proxy.

use std::{
    cell::RefCell,
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

use simulation::Random;
use tokio::time::Instant;

use crate::{
    ask::{Ask, upload_bytes},
    chosen::{ELSEWHERE, FILES, GROUP, at, server_of},
    tunnel::Drawn,
};

/// Bodies of at least this length are cut into fragments, or nearly so.
const LARGE_BYTES: u64 = 50_000;
/// Most lines of a resource's story.
const STORY_LINES_MAX: usize = 400;

/// The world, shared by all tasks of a run.
pub type Shared = Rc<RefCell<World>>;

/// The field by which a resource's answers vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vary {
    /// None.
    Nothing,
    /// The field X-Flavor.
    Flavor,
    /// The content coding.
    Coding,
}

/// A resource: one URL at one origin.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its authority, as in Host.
    pub host: &'static str,
    /// Its path.
    pub path: String,
    /// The only origin that has it.
    pub origin: SocketAddr,
    /// How its answers vary now.
    pub vary: Vary,
    /// Length of its shortest version.
    pub bytes: u64,
    /// Lifetime of its answers, seconds.
    pub max_age_s: u64,
    /// Seconds for which stale answers may be served during revalidation.
    pub stale_while_s: u64,
    /// Its answers have an ETag.
    pub has_etag: bool,
    /// It serves ranges.
    pub has_ranges: bool,
    /// It honours If-Range.
    pub knows_if_range: bool,
    /// Its answers are `public`.
    pub is_public: bool,
    /// One in this many of its answers is for one request alone; 0 means none.
    pub private_one_in: u64,
    /// Its tag for purges.
    pub tag: &'static str,
    /// Its URL is named by its digest, and it never changes.
    pub is_file: bool,
    /// Its present version.
    pub version: u64,
}

impl Resource {
    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    /// The length of a version. All versions of a large resource have the same length, so the length does not reveal the version.
    pub fn length(&self, version: u64) -> u64 {
        match self.bytes < LARGE_BYTES {
            true => self.bytes + version * 37 % 101,
            false => self.bytes,
        }
    }

    /// The entity tag of a variant.
    pub fn etag(version: u64, variant: u64) -> String {
        format!("\"v{version}.{variant}\"")
    }
}

/// Fills `out` with the body's bytes from `offset` on.
pub fn write_body(resource: usize, variant: u64, version: u64, offset: u64, out: &mut [u8]) {
    let seed = (resource as u64) << 40 ^ variant << 32 ^ version;
    let word = |n: u64| {
        let mut z = (seed ^ n.rotate_left(48)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 32)).to_le_bytes()
    };
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let (bytes, skip) = (word(at / 8), (at % 8) as usize);
        let n = rest.len().min(8 - skip);
        rest[..n].copy_from_slice(&bytes[skip..skip + n]);
        rest = &mut rest[n..];
        at += n as u64;
    }
}

/// One answer of an origin.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its resource.
    pub resource: usize,
    /// Its version.
    pub version: u64,
    /// Its variant.
    pub variant: u64,
    /// The number of the client's request that it answers.
    pub request: u64,
    /// When the origin received the request.
    pub begun: u64,
    /// When its head was sent.
    pub sent_ms: u64,
    /// Set if it is for this request alone: the reason.
    pub private: Option<&'static str>,
    /// How it varies.
    pub vary: Vary,
    /// Its lifetime, seconds.
    pub max_age_s: u64,
    /// See [`Resource::stale_while_s`].
    pub stale_while_s: u64,
    /// A byte of its body is wrong.
    pub is_wrong: bool,
    /// It ends with the connection, which closed too early: a receiver cannot notice.
    pub looks_whole: bool,
}

/// The state of a server of the group, and its counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server {
    /// Connections to it fail.
    pub is_down: bool,
    /// It fails health checks, but answers other requests.
    pub is_ill: bool,
    /// It answers unsafe requests with 503.
    pub fails: bool,
    /// Connections attempted.
    pub tries: u64,
    /// Requests received, without health checks.
    pub asked: u64,
}

/// Facts about a client's request, by its number.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The client.
    pub client: IpAddr,
    /// Length of the body.
    pub upload: usize,
    /// Whether the client sends the whole body.
    pub is_whole: bool,
    /// The origin is told the client's address, in front of all else on a connection.
    pub is_told: bool,
    /// It has an Authorization field.
    pub is_authorised: bool,
    /// It was redirected by an answer for this request alone.
    pub is_bound: bool,
    /// Its method is unsafe.
    pub is_unsafe: bool,
    /// Its method is idempotent, so it may be sent again if it certainly got no answer.
    pub may_repeat: bool,
    /// What the origin did with it, if one has received it.
    pub seen: Option<Seen>,
}

/// What an origin did with an unsafe request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It closed the connection without doing anything.
    Closed,
    /// Anything else.
    Taken,
}

/// The target of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// One URL.
    Url(String),
    /// All URLs with this prefix.
    Prefix(String),
    /// All resources with this tag.
    Tag(&'static str),
    /// This resource.
    One(usize),
}

impl About {
    /// Whether it matches this resource.
    pub fn fits(&self, number: usize, resource: &Resource) -> bool {
        match self {
            About::One(one) => *one == number,
            About::Url(url) => resource.url() == *url,
            About::Prefix(prefix) => resource.url().starts_with(prefix.as_str()),
            About::Tag(tag) => resource.tag == *tag,
        }
    }
}

/// An event that makes older answers dead, or stale.
#[derive(Clone, Debug)]
pub struct Purge {
    /// Its target.
    pub about: About,
    /// Stale instead of dead.
    pub soft: bool,
    /// The cause, in words.
    pub by: &'static str,
    /// When it was requested: older answers of origins are affected.
    pub issued: u64,
    /// When it was acknowledged: requests that begin later must respect it.
    pub acknowledged: u64,
    /// Whether it certainly survives a crash.
    pub durable: bool,
    /// The life of the proxy in which it was made.
    pub life: u32,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Requests over HTTP/2.
    pub over_h2: u64,
    /// Tunnels requested.
    pub tunnels: u64,
    /// Answers that could be compared with what an origin sent.
    pub compared: u64,
    /// Hits among them.
    pub hits: u64,
    /// Hits on responses that an earlier life of the proxy had stored.
    pub recovered_hits: u64,
    /// Partial answers.
    pub parts: u64,
    /// Answers that broke off.
    pub broken: u64,
    /// Answers made by the proxy itself.
    pub refused: u64,
    /// Purges, including unsafe methods.
    pub purges: u64,
    /// Requests that origins received.
    pub asked: u64,
    /// Starts of the proxy.
    pub lives: u64,
}

/// See the module.
pub struct World {
    /// All resources.
    pub resources: Vec<Resource>,
    /// All answers of origins, by serial.
    pub answers: Vec<Answer>,
    /// All purges.
    pub purges: Vec<Purge>,
    /// Random numbers for the whole run.
    pub random: Random,
    /// Number of the proxy's life.
    pub life: u32,
    /// When this life began.
    pub life_began: u64,
    /// Counts of the run.
    pub counts: Counts,
    /// A digest of all answers.
    pub digest: u64,
    /// The first broken rule, and the resource that it is about.
    pub failure: Option<(String, Option<usize>)>,
    /// Origins and the network behave well.
    pub calm: bool,
    /// The servers of the group.
    pub servers: [Server; 3],
    /// All tunnels, by number.
    pub tunnels: Vec<Drawn>,
    /// Number of ends of the proxy.
    pub ends: u64,
    /// The proxy is about to end: whatever it still does may be cut off.
    pub is_ending: bool,
    stories: Vec<VecDeque<String>>,
    tick: u64,
    sent: Vec<Sent>,
    began: Instant,
}

impl World {
    /// A world before the run.
    pub fn new(resources: Vec<Resource>, random: Random) -> World {
        World {
            stories: vec![VecDeque::new(); resources.len()],
            resources,
            answers: Vec::new(),
            purges: Vec::new(),
            random,
            life: 0,
            life_began: 0,
            counts: Counts::default(),
            digest: 0xcbf2_9ce4_8422_2325,
            failure: None,
            calm: false,
            servers: Default::default(),
            tunnels: Vec::new(),
            ends: 0,
            is_ending: false,
            tick: 0,
            sent: Vec::new(),
            began: Instant::now(),
        }
    }

    /// Advances the clock; returns the next tick.
    pub fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// The number of a new request, which must be recorded with [`World::sent`].
    pub fn next_request(&mut self) -> u64 {
        self.counts.requests += 1;
        self.sent.len() as u64
    }

    /// Records a request of a client.
    pub fn sent(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    /// Records that an origin redirected a request by an answer for it alone.
    pub fn binds(&mut self, number: u64) {
        if let Some(sent) = self.sent.get_mut(number as usize) {
            sent.is_bound = true;
        }
    }

    /// The facts about a request.
    pub fn sent_as(&self, number: u64) -> Option<&Sent> {
        self.sent.get(usize::try_from(number).ok()?)
    }

    /// Checks a request that an origin has received (R9): it is as its client sent it, and comes once if it may not be repeated.
    ///
    /// # Errors
    /// If the rule is broken.
    pub fn received(&mut self, number: u64, body: &[u8], became: Seen) -> Result<(), String> {
        let sent = self.sent.get_mut(number as usize);
        let sent = sent.ok_or_else(|| format!("R9: request {number} was never sent"))?;
        if sent.is_unsafe {
            let may_come = match sent.seen {
                None => true,
                Some(Seen::Closed) => sent.may_repeat && sent.upload == 0,
                Some(Seen::Taken) => false,
            };
            if !may_come {
                return Err(format!("R9: request {number} comes once more, {sent:?}"));
            }
            sent.seen = Some(became);
        }
        if !sent.is_whole {
            return Err(format!(
                "R9: request {number} ends after {} bytes, and its client has left in the middle",
                body.len()
            ));
        }
        match body == upload_bytes(number, sent.upload) {
            true => Ok(()),
            false => Err(format!(
                "R9: the body of request {number} came as {} other bytes of {}",
                body.len(),
                sent.upload
            )),
        }
    }

    /// Virtual milliseconds since the run began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Adds to the digest.
    pub fn note(&mut self, number: u64) {
        self.digest = (self.digest ^ number)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    /// Adds to the story of a resource.
    pub fn tell(&mut self, resource: usize, line: impl FnOnce() -> String) {
        if self.failure.is_some() {
            return; // the story ends where the rule was broken
        }
        let head = format!("{:9} ms  life {}  ", self.now_ms(), self.life);
        let story = &mut self.stories[resource];
        if story.len() == STORY_LINES_MAX {
            story.pop_front();
        }
        story.push_back(head + &line());
    }

    /// Adds to all stories.
    pub fn tell_all(&mut self, line: &str) {
        for resource in 0..self.resources.len() {
            self.tell(resource, || line.to_owned());
        }
    }

    /// The story of a resource.
    pub fn story(&self, resource: usize) -> Vec<String> {
        self.stories[resource].iter().cloned().collect()
    }

    /// Records a broken rule.
    pub fn fail(&mut self, message: String, resource: Option<usize>) {
        if self.failure.is_none() {
            self.failure = Some((message, resource));
        }
    }

    /// Records a purge or an unsafe method that is complete: older answers of its target are dead or stale.
    pub fn purged(&mut self, purge: Purge) {
        for n in 0..self.resources.len() {
            if purge.about.fits(n, &self.resources[n]) {
                self.tell(n, || {
                    format!(
                        "{} of {:?}, soft: {}, durable: {}, issued at tick {}",
                        purge.by, purge.about, purge.soft, purge.durable, purge.issued
                    )
                });
            }
        }
        self.counts.purges += 1;
        self.purges.push(purge);
    }

    /// The latest purge that the answer to this request must respect.
    pub fn purged_before(&self, ask: &Ask, soft: bool) -> Option<&Purge> {
        let (resource, began) = (ask.resource, ask.began);
        let holds = |purge: &&Purge| {
            purge.soft == soft
                && purge.acknowledged < began
                && (purge.durable || purge.life == self.life)
                && purge.about.fits(resource, &self.resources[resource])
        };
        self.purges
            .iter()
            .filter(holds)
            .max_by_key(|purge| purge.issued)
    }

    /// The resource that an origin has under this name.
    pub fn find(&self, origin: SocketAddr, host: &str, path: &str) -> Option<usize> {
        let origin = match server_of(origin) {
            Some(_) => at(GROUP, 80),
            None if origin == at(FILES.0, 80) || origin == at(ELSEWHERE.0, 80) => {
                let is_it = |r: &Resource| r.is_file && r.path == path;
                return self.resources.iter().position(is_it);
            }
            None => origin,
        };
        let is_it = |r: &Resource| r.origin == origin && r.host == host && r.path == path;
        self.resources.iter().position(is_it)
    }
}
