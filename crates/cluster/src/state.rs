//! The state of the cluster that all threads share: a place for each other member, and the common parts of links, hints, pushes and purges.
//!
//! The roll decides which member has which place; [`Cluster::apply`] carries that out. The other files act on this state.
//!
//! Not known here: links, threads, how a request is routed.
//! Limits: [`MEMBERS_MAX`](plan::MEMBERS_MAX) other members at a time.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use hints::{
    View,
    frames::{Frame, Hello},
};
use store::Set;

use crate::{
    member::{Member, MemberCounters},
    publishing::Publishing,
    purges::Purging,
    push::pushing::{Pushing, Receiving},
    roll::Roll,
};
use base::{
    clock::Instant,
    member::{MemberId, OfMember},
};
use origin::Destination;
use plan::Plan;

/// The shared state of the cluster.
pub struct Cluster {
    /// The settings.
    pub plan: plan::Cluster,
    /// Places for the other members, by their numbers.
    pub(crate) places: Box<[Member]>,
    /// Which member has which place.
    roll: Mutex<Roll>,
    /// Counters and flags of discovery.
    pub discovery: Discovery,
    /// The names of our listeners in the cluster, by their numbers.
    pub listeners: Vec<Box<str>>,
    /// A random number of this process; differs from start to start.
    pub incarnation: u64,
    /// When this process joined the cluster; times of members are counted from here.
    pub began: Instant,
    /// Our pushes to other members.
    pub pushing: Pushing,
    /// Pushes from other members to us.
    pub receiving: Receiving,
    /// Counters of the cluster as a whole.
    pub counters: Counters,
    /// The state of purges that go to all members.
    pub purging: Purging,
    /// Stores that each member is expected to have: as many as we have.
    pub(crate) stores_expected: u32,
    /// Have we a store that other members are told of?
    pub(crate) has_store: bool,
    /// Requests routed round-robin so far.
    pub(crate) turn: AtomicU64,
    /// What our stores hold; `None`: there is no store.
    publishing: Mutex<Option<Publishing>>,
    /// What the other members hold.
    view: Mutex<View>,
}

/// Counters of the cluster as a whole.
#[derive(Default)]
pub struct Counters {
    /// Connections, in either direction, whose handshake failed: no proof of the key, or meant for another peer.
    pub handshakes_refused: AtomicU64,
    /// Malformed frames; each has ended its link.
    pub frames_malformed: AtomicU64,
    /// Frames with hints, sent and received.
    pub hint_frames: AtomicU64,
    /// Bytes of these frames.
    pub hint_bytes: AtomicU64,
}

impl Counters {
    /// Counts a frame that was sent or received.
    pub(crate) fn passed(&self, frame: &Frame, bytes: usize) {
        if matches!(frame, Frame::Full(_) | Frame::Update(_)) {
            self.hint_frames.fetch_add(1, Ordering::Relaxed);
            self.hint_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

/// The state of discovery, as other threads see it.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Has the look-up of the name succeeded at least once?
    pub(crate) has_answer: AtomicBool,
    /// See [`Self::changes`].
    pub(crate) changes: AtomicU64,
    /// Members that have a link to us which they opened, a bit each.
    pub(crate) linked_to_us: AtomicU64,
    /// Look-ups that failed.
    pub failures: AtomicU64,
    /// Addresses of the last successful look-up, including our own.
    pub addresses: AtomicU64,
    /// Addresses of the last successful look-up that have no place.
    pub unplaced: AtomicU64,
    /// Members forgotten so far.
    pub forgotten: AtomicU64,
}

impl Discovery {
    /// A number that grows whenever the list of members or what is known of a member changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Sets whether a member has opened a link to us that is still up.
    pub(crate) fn set_linked(&self, id: MemberId, is_linked: bool) {
        match is_linked {
            true => self.linked_to_us.fetch_or(id.bit(), Ordering::Relaxed),
            false => self.linked_to_us.fetch_and(!id.bit(), Ordering::Relaxed),
        };
    }
}

impl Cluster {
    /// The cluster of this plan, or `None` if the plan has no cluster. `stores`: our disk stores.
    ///
    /// # Errors
    /// The system provides no random numbers.
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

    /// The view. Only the cluster's thread changes it.
    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The roll. Every change must be followed by [`Self::apply`].
    pub(crate) fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out what the roll has decided.
    pub(crate) fn apply(&self, roll: &mut Roll) {
        let changes = roll.changes();
        if changes.is_empty() {
            return;
        }
        for (id, who) in changes {
            let Some(place) = self.place(id) else {
                continue;
            };
            match (place.who(), &who) {
                (None, Some(new)) => {
                    tracing::info!(member = %new.name, at = %new.at, "a cluster member has come");
                }
                (Some(old), None) => {
                    self.discovery.forgotten.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(member = %old.name, at = %old.at, "a cluster member is one no more");
                }
                (Some(old), Some(new)) if old.name != new.name => {
                    tracing::info!(member = %new.name, at = %new.at, "a cluster member has said its name");
                }
                (Some(old), Some(new)) if old.at != new.at => {
                    tracing::info!(member = %new.name, at = %new.at, "a cluster member has another address");
                }
                _ => {}
            }
            place.set_who(who, self.now_ms());
        }
        // Size the group of filters with room for more members. Otherwise each further member would add a group, and with it a look-up a request.
        let columns = (roll.mask().count_ones() * self.stores_expected).next_power_of_two();
        self.view().expect_columns(columns);
        self.discovery.changes.fetch_add(1, Ordering::Release);
    }

    /// The publisher of our stores; `None` inside: there is no store.
    pub fn publishing(&self) -> MutexGuard<'_, Option<Publishing>> {
        self.publishing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The hello of a member without a store.
    pub(crate) fn hello_without_store(&self) -> Hello {
        Hello {
            incarnation: self.incarnation,
            name: self.plan.name.clone(),
            columns: Vec::new(),
        }
    }

    /// Milliseconds since [`Self::began`].
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Where to send requests for a member's listener with the same name as ours of this number. `None`: there is no such member.
    pub fn destination(&self, id: MemberId, listener: usize) -> Option<Destination> {
        let who = self.place(id)?.who()?;
        Some(Destination {
            tls: false,
            host: who.at.host.as_str().into(),
            port: who.at.port,
            member: Some(OfMember { id, listener }),
            terms: None,
            http2: None,
        })
    }

    /// The other members, by their numbers.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        let places = self.places.iter().zip(0..);
        let places = places.map(|(place, number)| (MemberId(number), place));
        places.filter(|(_, place)| place.is_there())
    }

    /// The counters of all places, members that were forgotten included.
    pub fn counted(&self) -> impl Iterator<Item = &MemberCounters> {
        self.places.iter().map(|place| &place.counters)
    }

    /// A member by its number.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.place(id).filter(|place| place.is_there())
    }

    /// The place of this number, taken or free.
    pub(crate) fn place(&self, id: MemberId) -> Option<&Member> {
        self.places.get(usize::from(id.0))
    }

    /// The names of the members in this bit mask.
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
