//! A cluster: members that know what the others hold, and purge together.
//!
//! Every member opens a *link* to every other and keeps it open. Over the link that A opened to B, A learns what B holds and how B is,
//! and tells B what is purged; B does the same over its own link to A. Requests go over connections of their own, which are pooled like
//! those to origins. Both kinds begin with a handshake in which each side proves that it has the cluster's key.
//!
//! | file | story |
//! |---|---|
//! | `member` | who the others are, and how they are |
//! | `roll`, `discovering` | which members there are, if they come and go |
//! | `shaking` | carrying the handshake (`hints::handshake`) over a connection |
//! | `forwarded` | the fields by which a forwarded request says whom it is from |
//! | `framing` | frames on a link |
//! | `routing`, `choosing` | which members are asked for a request |
//! | `answered` | what members say of their answers |
//! | `forwarded` | what members tell each other in a request's fields |
//! | `thread` | the thread that all of this runs on, and the socket that members connect to |
//! | `push` | what a front fetched goes to a member |
//! | `hot` | which keys are asked for often |
//! | `link` | a link that we opened |
//! | `linked` | a link that another opened |
//! | `purging` | purges of the whole cluster |
//! | `publishing` | what our stores hold, told to the others |
//! | `standing` | how a member stands, in a word |
//! | `status` | how all of it stands, for people |
//! | `following` | what the others hold, in a view that workers look up in |
//!
//! [`Cluster`] is what all threads share. A proxy without a cluster has none, and asks once a connection whether there is one.
//!
//! Not known here: HTTP, and how a request is routed.
//! Limits: [`MEMBERS_MAX`](plan::MEMBERS_MAX) other members at a time.
#![forbid(unsafe_code)]

pub mod answered;
pub mod choosing;
pub mod discovering;
pub mod following;
pub mod forwarded;
pub mod framing;
pub mod hot;
pub mod link;
pub mod linked;
pub mod member;
pub mod publishing;
pub mod purging;
pub mod push;
pub mod roll;
pub mod routing;
pub mod shaking;
pub mod standing;
pub mod status;
mod thread;

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use hints::{
    View,
    frames::{Frame, Hello},
};
use store::Set;

use crate::push::{Pushing, Receiving};
use base::{
    clock::Instant,
    member::{MemberId, OfMember},
};
use origin::Destination;
use plan::Plan;

use discovering::Discovery;
use publishing::Publishing;
use purging::Purging;
use roll::Roll;

pub use member::{Member, Who};
pub use standing::Standing;
pub use status::{ClusterStatus, MemberStatus};
pub use thread::{ClusterThread, Start};

/// What all threads know of our cluster.
pub struct Cluster {
    /// The settings.
    pub plan: plan::Cluster,
    /// Places for the other members, by their numbers.
    places: Box<[Member]>,
    /// Who has them.
    roll: Mutex<Roll>,
    /// How members are found that come and go.
    pub discovery: Discovery,
    /// The names of our listeners in the cluster, by their numbers.
    pub listeners: Vec<Box<str>>,
    /// Differs from start to start.
    pub incarnation: u64,
    /// When it began; times of members are counted from here.
    pub began: Instant,
    /// What we push.
    pub pushing: Pushing,
    /// What is pushed to us.
    pub receiving: Receiving,
    /// What is counted.
    pub counters: Counters,
    /// Purges of all members.
    pub purging: Purging,
    /// Stores that a member is expected to have: as many as we have.
    stores_expected: u32,
    /// Have we a store that others are told of?
    has_store: bool,
    /// Requests routed in turn so far.
    turn: AtomicU64,
    /// What our stores hold; `None`: there is no store.
    publishing: Mutex<Option<Publishing>>,
    /// What the others hold.
    view: Mutex<View>,
}

/// What is counted of the cluster as a whole.
#[derive(Default)]
pub struct Counters {
    /// Connections that did not prove the key, or were meant for somebody else; ours to others, and others' to us.
    pub handshakes_refused: AtomicU64,
    /// Frames that were none, each the end of a link.
    pub frames_malformed: AtomicU64,
    /// Frames with hints, sent and received.
    pub hint_frames: AtomicU64,
    /// Their bytes.
    pub hint_bytes: AtomicU64,
}

impl Counters {
    /// A frame was sent or received.
    fn passed(&self, frame: &Frame, bytes: usize) {
        if matches!(frame, Frame::Full(_) | Frame::Update(_)) {
            self.hint_frames.fetch_add(1, Ordering::Relaxed);
            self.hint_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

/// A key that nobody has had.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_cluster_key() -> std::io::Result<plan::ClusterKey> {
    let mut bytes = [0; plan::ClusterKey::BYTES];
    base::chance::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(plan::ClusterKey::new(bytes))
}

impl Cluster {
    /// The cluster of this plan, if it is of one. `stores`: what is on disk.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(plan: &Plan, stores: Option<&Set>) -> Result<Option<Cluster>, getrandom::Error> {
        let Some(settings) = &plan.cluster else {
            return Ok(None);
        };
        let incarnation = base::chance::u64()?;
        let publishing = stores.map(|stores| Publishing::new(settings, incarnation, stores));
        let names = (0..plan.listeners.len()).map(|number| plan.listener_name(number).into());
        let stores_expected = plan.stores.len().max(1) as u32;
        let columns_expected = settings.members.len() as u32 * stores_expected;
        let places = match settings.discover {
            Some(_) => plan::MEMBERS_MAX,
            None => settings.members.len(),
        };
        let forget_ms = settings.forget_after.as_millis() as u64;
        let roll = Roll::new(&settings.name, &settings.members, places, forget_ms);
        let cluster = Cluster {
            places: (0..places).map(|_| Member::free()).collect(),
            roll: Mutex::new(roll),
            discovery: Discovery::default(),
            stores_expected,
            listeners: names.collect(),
            incarnation,
            pushing: Pushing::new(plan, settings),
            receiving: Receiving::default(),
            began: Instant::now(),
            counters: Counters::default(),
            purging: Purging::new(places),
            has_store: !plan.stores.is_empty(),
            turn: AtomicU64::new(0),
            publishing: Mutex::new(publishing.transpose()?),
            view: Mutex::new(View::new(columns_expected)),
            plan: settings.clone(),
        };
        cluster.apply(&mut cluster.roll());
        Ok(Some(cluster))
    }

    /// What our stores hold; `None` in it: there is no store.
    pub fn publishing(&self) -> MutexGuard<'_, Option<Publishing>> {
        self.publishing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What a member without a store says of itself.
    fn hello_without_store(&self) -> Hello {
        Hello {
            incarnation: self.incarnation,
            name: self.plan.name.clone(),
            columns: Vec::new(),
        }
    }

    /// Milliseconds since it began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Where requests for a member's listener go that is called as ours of this number. `None`: there is no such member.
    pub fn destination(&self, id: MemberId, listener: usize) -> Option<Destination> {
        let who = self.place(id)?.who()?;
        Some(Destination {
            tls: false,
            host: who.at.host.as_str().into(),
            port: who.at.port,
            member: Some(OfMember { id, listener }),
        })
    }

    /// The other members, by their numbers.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        let places = self.places.iter().zip(0..);
        let places = places.map(|(place, number)| (MemberId(number), place));
        places.filter(|(_, place)| place.is_there())
    }

    /// What was counted of all members, also of those that were forgotten.
    pub fn counted(&self) -> impl Iterator<Item = &member::MemberCounters> {
        self.places.iter().map(|place| &place.counters)
    }

    /// A member by its number.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.place(id).filter(|place| place.is_there())
    }

    /// The place of this number, whoever has it.
    pub(crate) fn place(&self, id: MemberId) -> Option<&Member> {
        self.places.get(usize::from(id.0))
    }

    /// The names of members, a bit each.
    pub fn names_of(&self, members: u64) -> Vec<String> {
        let named = |(id, member): (MemberId, &Member)| {
            (members & id.bit() != 0).then(|| member.name().to_string())
        };
        self.members().filter_map(named).collect()
    }

    /// The number of the member of this name.
    pub fn member_named(&self, name: &[u8]) -> Option<MemberId> {
        self.roll().named(std::str::from_utf8(name).ok()?)
    }

    /// The number of our listener of this name.
    pub fn listener_named(&self, name: &[u8]) -> Option<usize> {
        (self.listeners.iter()).position(|listener| listener.as_bytes() == name)
    }
}
