//! The truth: what there is at the origins, what they have sent and to whom, what was purged, and when.
//!
//! Every answer of an origin has a number of its own, its *serial*, which travels in a field and is stored with the answer; a body
//! follows from resource, variant and version, byte by byte. So of whatever a client gets it can be said where and when it came from.
//!
//! Order is counted in *ticks*, of which no two events have the same; time in virtual milliseconds.
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

/// Bodies of so many bytes are cut into fragments, or nearly.
const LARGE_BYTES: u64 = 50_000;
/// Kept of the story of one resource.
const STORY_LINES_MAX: usize = 400;

/// The world, as all tasks of a run share it.
pub type Shared = Rc<RefCell<World>>;

/// What a resource's answers vary by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Nothing.
    Nothing,
    /// A field of its own.
    Flavor,
    /// The content coding.
    Coding,
}

/// What there is under one URL at one origin.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its authority, as in Host.
    pub host: &'static str,
    /// Its path.
    pub path: String,
    /// The only origin that has it.
    pub origin: SocketAddr,
    /// What its answers vary by now.
    pub vary: Vary,
    /// Bytes of its shortest version.
    pub bytes: u64,
    /// Its answers' lifetime, seconds.
    pub max_age_s: u64,
    /// Stale answers may be served while it is asked, for so many seconds.
    pub stale_while_s: u64,
    /// It sends ETag.
    pub has_etag: bool,
    /// It serves ranges.
    pub has_ranges: bool,
    /// It obeys If-Range.
    pub knows_if_range: bool,
    /// It says `public`.
    pub is_public: bool,
    /// Of its answers one in so many is for the one who asked alone; 0: none.
    pub private_one_in: u64,
    /// The tag it carries.
    pub tag: &'static str,
    /// It is named by its digest, and never changes.
    pub is_file: bool,
    /// What it is now.
    pub version: u64,
}

impl Resource {
    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    /// The length of a version. Of what is large all have the same, so that it tells nobody which one it is.
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

/// Writes bytes of a body from `offset` on into `out`.
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
    /// Of what.
    pub resource: usize,
    /// Which version.
    pub version: u64,
    /// Which variant.
    pub variant: u64,
    /// The request of a client that it was asked for.
    pub request: u64,
    /// When the origin saw the request.
    pub begun: u64,
    /// When its head was sent.
    pub sent_ms: u64,
    /// It is for that request alone, and why.
    pub private: Option<&'static str>,
    /// What it varies by.
    pub vary: Vary,
    /// Its lifetime.
    pub max_age_s: u64,
    /// See [`Resource::stale_while_s`].
    pub stale_while_s: u64,
    /// A byte of its body is wrong.
    pub is_wrong: bool,
    /// It ends with the connection, and that ended too early: nobody can tell.
    pub looks_whole: bool,
}

/// How a server of the group is, and what it has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server {
    /// Nobody can connect to it.
    pub is_down: bool,
    /// It says so when its health is asked for; else it answers.
    pub is_ill: bool,
    /// It answers 503 to what is unsafe.
    pub fails: bool,
    /// Connections that were tried,
    pub tries: u64,
    /// and requests that came, checks not among them.
    pub asked: u64,
}

/// What is known of a request of a client, by its number.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whose.
    pub client: IpAddr,
    /// Bytes of its body,
    pub upload: usize,
    /// and whether the client sends all of them.
    pub is_whole: bool,
    /// An origin is told whose it is, before anything else on a connection.
    pub is_told: bool,
    /// It says who it is.
    pub is_authorised: bool,
    /// It was sent on by an answer that is for it alone.
    pub is_bound: bool,
    /// It may change something.
    pub is_unsafe: bool,
    /// Once more it does the same, so it may be sent again if it is known that there was no answer.
    pub may_repeat: bool,
    /// An origin has seen it: what became of it there.
    pub seen: Option<Seen>,
}

/// What became of an unsafe request at an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It closed the connection and did nothing.
    Closed,
    /// Anything else.
    Taken,
}

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// One URL.
    Url(String),
    /// All that begin so.
    Prefix(String),
    /// All that carry the tag.
    Tag(&'static str),
    /// This one.
    One(usize),
}

impl About {
    /// Is it about this one?
    pub fn fits(&self, number: usize, resource: &Resource) -> bool {
        match self {
            About::One(one) => *one == number,
            About::Url(url) => resource.url() == *url,
            About::Prefix(prefix) => resource.url().starts_with(prefix.as_str()),
            About::Tag(tag) => resource.tag == *tag,
        }
    }
}

/// What makes older answers dead, or stale.
#[derive(Clone, Debug)]
pub struct Purge {
    /// Which.
    pub about: About,
    /// Stale instead of dead.
    pub soft: bool,
    /// Who was told, in words.
    pub by: &'static str,
    /// When it was asked for: older answers of origins are meant.
    pub issued: u64,
    /// When that was acknowledged: requests that begin later are meant.
    pub acknowledged: u64,
    /// Is it certain to hold after a crash?
    pub durable: bool,
    /// The life of the proxy in which it was.
    pub life: u32,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Those by HTTP/2.
    pub over_h2: u64,
    /// Tunnels that were asked for.
    pub tunnels: u64,
    /// Answers that could be compared with what an origin sent.
    pub compared: u64,
    /// Of those, hits.
    pub hits: u64,
    /// Hits on what an earlier life of the proxy had stored.
    pub recovered_hits: u64,
    /// Partial answers.
    pub parts: u64,
    /// Answers that broke off.
    pub broken: u64,
    /// Answers of the proxy's own.
    pub refused: u64,
    /// Purges, unsafe methods among them.
    pub purges: u64,
    /// Requests that origins saw.
    pub asked: u64,
    /// Starts of the proxy.
    pub lives: u64,
}

/// See the head of this file.
pub struct World {
    /// All there is.
    pub resources: Vec<Resource>,
    /// All answers of origins, by serial.
    pub answers: Vec<Answer>,
    /// All purges.
    pub purges: Vec<Purge>,
    /// The chance of everybody.
    pub random: Random,
    /// Which life of the proxy it is.
    pub life: u32,
    /// When that began.
    pub life_began: u64,
    /// The numbers of the run.
    pub counts: Counts,
    /// What all answers come to.
    pub digest: u64,
    /// The first rule that was broken, and of what resource.
    pub failure: Option<(String, Option<usize>)>,
    /// Origins answer as they should, and so does the network.
    pub calm: bool,
    /// The servers of the group.
    pub servers: [Server; 3],
    /// All tunnels, by number.
    pub tunnels: Vec<Drawn>,
    /// How often the proxy has ended.
    pub ends: u64,
    /// It is about to end: what it still does may be cut off.
    pub is_ending: bool,
    stories: Vec<VecDeque<String>>,
    tick: u64,
    sent: Vec<Sent>,
    began: Instant,
}

impl World {
    /// Before anything has happened.
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

    /// The next tick.
    pub fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// The number of a new request; [`World::sent`] is to be told of it.
    pub fn next_request(&mut self) -> u64 {
        self.counts.requests += 1;
        self.sent.len() as u64
    }

    /// A client has made it.
    pub fn sent(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    /// An origin sends it on, by an answer that is for it alone.
    pub fn binds(&mut self, number: u64) {
        if let Some(sent) = self.sent.get_mut(number as usize) {
            sent.is_bound = true;
        }
    }

    /// What is known of a request.
    pub fn sent_as(&self, number: u64) -> Option<&Sent> {
        self.sent.get(usize::try_from(number).ok()?)
    }

    /// An origin has received all of a request (R9): it is as its client has sent it, and what may not be repeated comes once.
    ///
    /// # Errors
    /// The rule is broken.
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

    /// Virtual time since the run began.
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

    /// A rule is broken.
    pub fn fail(&mut self, message: String, resource: Option<usize>) {
        if self.failure.is_none() {
            self.failure = Some((message, resource));
        }
    }

    /// An unsafe method or a purge is over: what it was about is dead or stale.
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

    /// The latest purge that an answer to a request that began at `began` must respect.
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
