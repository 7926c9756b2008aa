//! A front that pushes what it fetched: each object to one member that keeps it.
//!
//! ```text
//! fetch ── pieces ──> Collecting ── complete ──> queue ── a worker ──> member ── verdict
//!    └──── pieces ──> clients
//! ```
//!
//! Clients and push share the pieces of a body, so a client never waits for a push, nor a push for a client. A push that finds no room
//! is dropped and counted; the object is then fetched once more when it is asked for again.
//!
//! Only what may be stored for everybody is pushed, and nothing that was asked for with Authorization. A purge that comes
//! between fetch and push wins: here, where the front has heard it, and at the member in any case (`receive`).
//!
//! Hints are registered when a push begins (*eager*): requests go to the member from then on, whose answer waits for nothing.
//!
//! | file | story |
//! |---|---|
//! | `message` | what a push looks like, and the verdicts |
//! | `queue` | what waits, and what is on its way |
//! | `eager` | hints of what is pushed |
//! | `target` | to which member a push goes |
//! | `large` | what is too long to be pushed |
//!
//! Not known here: what the member does with it.
//! Limits: `queue`; a push is given up after [`PUSH_MAX`]; a member that does not take one is followed by another, each tried once.

mod eager;
pub mod large;
pub mod message;
pub mod queue;
pub mod target;

use std::{
    collections::VecDeque,
    pin::pin,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http1::ResponseHead;
use httpcache::UnixMillis;
use profile::Hierarchy;
use store::{KeyHash, Sequence};
use twox_hash::XxHash3_64;

use crate::{
    clock::Instant,
    cluster::{Cluster, Member, MemberId, hot::Hot, marks::HEARD_AFTER},
    fetch::response::{FetchRequest, Response},
    origin::outcome::UpstreamError,
    origin::trip::{Hop, Trip},
    origin::upstream::{self, Whom},
    peers::siblings,
    plan::{self, Plan},
    request::key::{name_of_key, server_of_key},
    request::wanted::Wanted,
    state::Worker,
};

use eager::{Registered, withdraw};
use large::Large;
use message::{Terms, Verdict};
use queue::{Loads, Queue, Taken};
use target::Candidate;

/// The longest that a push may take.
const PUSH_MAX: Duration = Duration::from_secs(5);
/// The queue gets one of so many parts of the memory for objects, and that beside it;
const QUEUE_PART: u64 = 8;
/// so much at least.
const QUEUE_BYTES_MIN: u64 = 8 << 20;
/// What members told is noted once a second; so many seconds are kept.
const TOLD_MAX: usize = HEARD_AFTER.as_secs() as usize + 2;

/// What a front has to push.
pub struct Pushing {
    /// Whether what is fetched is pushed at all.
    pub is_on: bool,
    /// Which keys are asked for often.
    pub hot: Hot,
    /// What is too long to be pushed.
    pub large: Large,
    /// What is counted.
    pub counters: PushCounters,
    queue: Mutex<Queue<Push>>,
    /// The last mark of each member, as it was told at moments of the last seconds.
    told: Mutex<VecDeque<(Instant, Arc<[u64]>)>>,
}

/// What is counted of pushes.
#[derive(Default)]
pub struct PushCounters {
    /// By verdict, in the order of [`Verdict::ALL`].
    pub verdicts: [AtomicU64; Verdict::ALL.len()],
    /// Members that gave no verdict.
    pub failed: AtomicU64,
    /// Pushes that no member took.
    pub given_up: AtomicU64,
    /// Bodies that were longer than `push-max`.
    pub too_long: AtomicU64,
    /// Purged before they were sent.
    pub purged: AtomicU64,
}

/// An object on its way to a member.
struct Push {
    /// What the client asked, and what came.
    request: Bytes,
    response: Bytes,
    body: Vec<Bytes>,
    body_bytes: u64,
    primary: KeyHash,
    /// The name that its hint is made of.
    name: Box<[u8]>,
    /// Our listener.
    listener: usize,
    asked: UnixMillis,
    received: UnixMillis,
    began: Began,
    /// Members that have refused it, or have it.
    not_to: u64,
}

/// How purges stood when a fetch began.
#[derive(Clone)]
pub struct Began {
    /// Here.
    own: Sequence,
    /// The last mark of each member.
    marks: Arc<[u64]>,
}

impl Pushing {
    /// Nothing to push yet.
    pub fn new(plan: &Plan, cluster: &plan::Cluster) -> Pushing {
        let bytes_max = (plan.memory_bytes / QUEUE_PART).max(QUEUE_BYTES_MIN);
        Pushing {
            is_on: cluster.front && plan.stores.is_empty() && cluster.push_max_bytes > 0,
            hot: Hot::new(if cluster.front { cluster.hot_rate } else { 0 }),
            large: Large::new(),
            counters: PushCounters::default(),
            queue: Mutex::new(Queue::new(bytes_max)),
            told: Mutex::default(),
        }
    }

    /// Bytes of what is collected, waits and is on its way; pushes that wait; what was dropped.
    pub fn figures(&self) -> (u64, usize, queue::Counts) {
        let queue = self.queue();
        (queue.bytes(), queue.waiting(), queue.counts())
    }

    /// A second has passed.
    pub fn every_second(&self, cluster: &Cluster, now: Instant) {
        self.hot.fade();
        let mut told = self.told();
        if told.len() == TOLD_MAX {
            told.pop_front();
        }
        told.push_back((now, marks_told(cluster)));
    }

    fn told(&self) -> MutexGuard<'_, VecDeque<(Instant, Arc<[u64]>)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue<Push>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Began {
    /// As it is now, for a fetch that begins.
    pub fn now(cluster: &Cluster, own: Sequence) -> Began {
        let marks = marks_told(cluster);
        Began { own, marks }
    }

    /// As it was so long ago that purges of then have reached every member ([`HEARD_AFTER`]): for what a member says that it holds.
    /// Without marks of then, no member takes what is pushed.
    pub fn long_ago(cluster: &Cluster, store: usize, now: Instant) -> Began {
        let told = cluster.pushing.told();
        let is_old =
            |(at, _): &&(Instant, Arc<[u64]>)| now.saturating_duration_since(*at) >= HEARD_AFTER;
        let old = told.iter().rev().find(is_old);
        Began {
            own: cluster.marks.long_ago(now, store),
            marks: old.map_or_else(
                || cluster.members.iter().map(|_| 0).collect(),
                |(_, marks)| Arc::clone(marks),
            ),
        }
    }

    /// The invalidation sequence here.
    pub fn sequence(&self) -> Sequence {
        self.own
    }
}

fn marks_told(cluster: &Cluster) -> Arc<[u64]> {
    let mark = |member: &Member| member.load.sequence.load(Ordering::Relaxed);
    cluster.members.iter().map(mark).collect()
}

/// An object that a member holds and that is hot: this front keeps a copy, and members that lack it get one.
#[derive(Clone)]
pub struct Copied {
    /// How purges stood; see [`Began::long_ago`].
    pub began: Began,
    /// Members that hold it, and, if they are enough, all others.
    not_to: u64,
}

impl Copied {
    /// For the resource of this name, if it is hot now that it is asked for once more.
    pub fn of_hot(
        worker: &Worker,
        cluster: &Cluster,
        name: &[u8],
        primary: KeyHash,
    ) -> Option<Copied> {
        if !cluster.pushing.hot.asked(primary) {
            return None;
        }
        let holders = cluster.holders(name);
        let are_enough = holders.count_ones() >= u32::from(cluster.plan.hot_copies);
        let store = worker.shared.store.owner(primary);
        Some(Copied {
            began: Began::long_ago(cluster, store, Instant::now()),
            not_to: if are_enough { u64::MAX } else { holders },
        })
    }
}

/// The head of a request as a member would read it, if what is fetched for it may be pushed.
pub fn as_sent(worker: &Worker, wanted: &Wanted) -> Option<Bytes> {
    let cluster = worker.shared.cluster.as_ref()?;
    let head = &wanted.head;
    (cluster.pushing.is_on).then(|| {
        let fields = wanted.request.iter();
        message::write_request(
            &head.method,
            &head.target,
            head.host.as_deref(),
            head.version,
            fields,
        )
    })
}

/// What came as the answer to a fetch.
pub struct Came<'a> {
    /// Its head, as it came.
    pub head: &'a ResponseHead,
    /// What was made of that.
    pub response: &'a Response,
    /// The hash of the resource's name.
    pub primary: KeyHash,
    /// What tells versions of one thing from others: the hash of the key that it is stored under.
    pub key: KeyHash,
    /// When it was asked for.
    pub asked: UnixMillis,
}

/// What a fetch brings, while it comes.
pub struct Collecting {
    cluster: Arc<Cluster>,
    push: Option<Push>,
    /// What it has reserved of the queue.
    reserved: u64,
    key: u64,
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Collecting {
    /// Begins to collect what goes to a member; `None`: nothing does. `began`: how purges stood when it was asked for.
    pub fn begin(
        worker: &Worker,
        fetch_request: &FetchRequest,
        came: &Came<'_>,
        began: Option<Began>,
    ) -> Option<Collecting> {
        let Came {
            head,
            response,
            primary,
            key,
            asked,
        } = *came;
        let cluster = worker.shared.cluster.as_ref()?;
        let pushing = &cluster.pushing;
        let is_for_all =
            response.storable.is_ok() && !fetch_request.request.contains(b"authorization");
        let not_to = fetch_request
            .copied
            .as_ref()
            .map_or(0, |copied| copied.not_to);
        if !pushing.is_on || !is_for_all || not_to == u64::MAX {
            return None;
        }
        let request = fetch_request.as_sent.clone()?;
        if response
            .length
            .is_some_and(|length| length > cluster.plan.push_max_bytes)
        {
            pushing.too_long(primary);
            return None;
        }
        let received = response.standing.received;
        let mut collecting = Collecting {
            cluster: Arc::clone(cluster),
            reserved: 0,
            key: key.0,
            push: Some(Push {
                response: message::write_response(head, !response.decision.rules.store_set_cookie),
                request,
                body: Vec::new(),
                body_bytes: 0,
                primary,
                name: name_of_key(&fetch_request.key).into(),
                listener: fetch_request.listener.number,
                asked,
                received,
                began: began?,
                not_to,
            }),
        };
        let push = collecting.push.as_ref()?;
        let bytes = (push.request.len() + push.response.len()) as u64;
        collecting.reserve(bytes).then_some(collecting)
    }

    /// Takes the next piece of the body.
    pub fn take(&mut self, piece: &Bytes) {
        let bytes = piece.len() as u64;
        let Some(push) = &self.push else { return };
        let most = self.cluster.plan.push_max_bytes;
        if push.body_bytes + bytes > most {
            self.cluster.pushing.too_long(push.primary);
            self.give_up();
        } else if self.reserve(bytes)
            && let Some(push) = &mut self.push
        {
            push.body.push(piece.clone());
            push.body_bytes += bytes;
        }
    }

    /// The body is complete: it goes to a member. `length`: as promised by the head.
    pub fn complete(mut self, worker: &Rc<Worker>, length: Option<u64>) {
        let push = self.push.take();
        let Some(push) = push.filter(|push| length.is_none_or(|length| length == push.body_bytes))
        else {
            return;
        };
        let bytes = std::mem::take(&mut self.reserved);
        let pushing = &self.cluster.pushing;
        pushing.large.forget(push.primary);
        pushing.queue().put(self.key, bytes, push, Instant::now());
        start(worker, &self.cluster);
    }

    fn reserve(&mut self, bytes: u64) -> bool {
        let has_room = self.cluster.pushing.queue().reserve(bytes);
        match has_room {
            true => self.reserved += bytes,
            false => self.give_up(),
        }
        has_room
    }

    fn give_up(&mut self) {
        self.push = None;
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.cluster.pushing.queue().release(reserved);
        }
    }
}

impl Pushing {
    fn too_long(&self, primary: KeyHash) {
        self.large.note(primary);
        self.counters.too_long.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends what may go now, as a task of this worker, until nothing may.
fn start(worker: &Rc<Worker>, cluster: &Arc<Cluster>) {
    let Some(taken) = next(worker, cluster) else {
        return;
    };
    let (worker, cluster) = (Rc::clone(worker), Arc::clone(cluster));
    tokio::task::spawn_local(async move {
        let mut taken = Some(taken);
        while let Some(Taken {
            member,
            key,
            bytes,
            push,
        }) = taken
        {
            let under_way = UnderWay {
                cluster: &cluster,
                member,
                key,
                bytes,
            };
            let registered = register(&worker, member, &push);
            let sent = send(&worker, &cluster, member, &push, registered).await;
            if sent.is_err() {
                // Whether the member has it is not known; if not, its hints must not say so.
                withdraw(&cluster.members[member], registered);
            }
            drop(under_way);
            if let Some(push) = after(&cluster, member, push, sent)
                && cluster.pushing.queue().reserve(bytes)
            {
                cluster
                    .pushing
                    .queue()
                    .put(key, bytes, push, Instant::now());
            }
            taken = next(&worker, &cluster);
        }
    });
}

/// A push on its way; however that ends, its place in the queue is given back.
struct UnderWay<'a> {
    cluster: &'a Cluster,
    member: usize,
    key: u64,
    bytes: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut queue = self.cluster.pushing.queue();
        queue.done(self.member, self.key, self.bytes);
    }
}

/// The next push that may go, and where to.
fn next(worker: &Worker, cluster: &Cluster) -> Option<Taken<Push>> {
    let store = &worker.shared.store;
    loop {
        let choose = |push: &Push, loads: &Loads<'_>| choose(cluster, push, loads);
        let taken = cluster.pushing.queue().take(Instant::now(), choose)?;
        if !store.invalidated_since(taken.push.primary, taken.push.began.own) {
            return Some(taken);
        }
        cluster
            .pushing
            .counters
            .purged
            .fetch_add(1, Ordering::Relaxed);
        (cluster.pushing.queue()).done(taken.member, taken.key, taken.bytes);
    }
}

/// Registers a push with the member that it goes to.
fn register(worker: &Worker, member: usize, push: &Push) -> Registered {
    let groups = super::shim::groups(worker);
    groups.map_or_else(Registered::default, |groups| {
        eager::register(&groups, member as u8, &push.name)
    })
}

/// The member for a push, among those that may get one more now.
fn choose(cluster: &Cluster, push: &Push, loads: &Loads<'_>) -> Option<usize> {
    let now_ms = cluster.now_ms();
    let holders = cluster.holders(&push.name);
    let candidate = |(number, member): (usize, &Member)| {
        let bit = MemberId(number as u8).bit();
        let may_go = member.is_node() && member.takes_new(now_ms) && loads.has_room(number);
        (may_go && push.not_to & bit == 0).then(|| Candidate {
            member: number,
            busyness: member.busyness(now_ms) + loads.of(number) as u64,
            free_mib: member.load.free_mib.load(Ordering::Relaxed),
            holds: holders & bit != 0,
            belonging: belonging(server_of_key(&push.name), &member.name),
        })
    };
    let candidates: Vec<_> = cluster
        .members
        .iter()
        .enumerate()
        .filter_map(candidate)
        .collect();
    target::choose(
        &candidates,
        cluster.plan.spread,
        crate::chance::u64().unwrap_or(now_ms),
    )
}

/// How much a server belongs to a member: the same at all fronts.
fn belonging(server: &[u8], member: &str) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(member.as_bytes()), server)
}

/// Sends a push to a member, and hears its verdict.
async fn send(
    worker: &Rc<Worker>,
    cluster: &Cluster,
    member: usize,
    push: &Push,
    registered: Registered,
) -> Result<Verdict, UpstreamError> {
    let id = MemberId(member as u8);
    let Push {
        listener,
        request,
        response,
        ..
    } = push;
    let terms = Terms {
        asked: push.asked,
        received: push.received,
        sent: worker.now_ms().max(push.received),
        began: push.began.marks[member],
        column: registered.column,
        known: registered.known,
    };
    let heads = (request.len() + response.len()) as u64;
    let host = &cluster.members[member].name;
    let mut message = message::write_head(host, &terms, heads + push.body_bytes);
    message.reserve(heads as usize + push.body_bytes as usize);
    for piece in [request, response].into_iter().chain(&push.body) {
        message.extend_from_slice(piece);
    }
    let destination = cluster.destination(id, Some(*listener));
    let trip = Trip::new();
    let whom = Whom {
        destination: &destination,
        rules: &worker.shared.peers.rules,
        hop: Hop::to(Hierarchy::Node, member),
        trip: &trip,
    };
    let (watch, limit) = (worker.deadlines.watch(), worker.deadlines.watch());
    let exchange = async {
        let (upstream, head) = upstream::ask_final(worker, &watch, &whom, "POST", &message).await?;
        siblings::keep_connection(worker, &watch, upstream, &head).await;
        Ok(Verdict::of_status(head.status))
    };
    let verdict = limit.limit(PUSH_MAX, pin!(exchange)).await;
    verdict.unwrap_or(Err(UpstreamError::Timeout))
}

/// Counts what became of a push. Returns it if another member is to be tried.
fn after(
    cluster: &Cluster,
    member: usize,
    mut push: Push,
    sent: Result<Verdict, UpstreamError>,
) -> Option<Push> {
    let pushing = &cluster.pushing;
    let one_more = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    match sent {
        Ok(verdict) => {
            one_more(&pushing.counters.verdicts[verdict as usize]);
            cluster.members[member].answered();
            if !matches!(verdict, Verdict::Paused | Verdict::Disk) {
                return None;
            }
        }
        Err(error) => {
            one_more(&pushing.counters.failed);
            tracing::debug!(member = %cluster.members[member].name, %error, "took no push");
            cluster.members[member].failed(cluster.now_ms());
        }
    }
    push.not_to |= MemberId(member as u8).bit();
    let now_ms = cluster.now_ms();
    let is_open = |(number, member): (u8, &Member)| {
        push.not_to & MemberId(number).bit() == 0 && member.takes_new(now_ms)
    };
    let another = (0..).zip(&cluster.members).any(is_open);
    if !another {
        one_more(&pushing.counters.given_up);
    }
    another.then_some(push)
}
