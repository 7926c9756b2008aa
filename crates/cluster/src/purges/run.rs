//! The task that passes purges between this process, its journal and the other members.
//!
//! Not known here: the decisions (`purging`).

use std::{
    collections::{HashMap, HashSet},
    pin::Pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use bytes::Bytes;
use hints::frames::Frame;
use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval},
};

use super::super::{member::Member, state::Cluster};
use super::{
    Inbox, Order, Purging, SETTLED_WITHIN,
    applying::LocalCache,
    following::{Came, Following, Waiting},
    keeper::{Event, Job, Keeper, Refused, Synced},
    sweeping::Sweeping,
};
use base::member::MemberId;
use purging::{
    change::Change,
    journal::{Entry, Journal, Opening},
    message::Message,
    rejoining::{Rejoined, Rejoining},
    stamp::{Origin, Stamp, Vector},
    telling::{AWAY_AFTER_MS, Command, Outcome, Seat, Telling, Ticket, Waits, all},
};

/// How often the clock and the links are checked.
const TICK: Duration = Duration::from_millis(50);
/// Least interval between two requests to a member to begin anew, ms.
const ASKED_AGAIN_MS: u64 = 1000;
/// Replies that wait for our journal; beyond that, links are not read.
const UNSYNCED_MAX: usize = 16 << 10;
/// A stand-in where no member is meant.
const NOBODY: MemberId = MemberId(0);

type Settling = Pin<Box<dyn Future<Output = Vec<Waiting>>>>;

/// Runs until the cluster's thread ends. `begun` is dropped once objects from before the start are judged, so that later ones are not dropped.
pub async fn run(local: LocalCache, cluster: Arc<Cluster>, begun: mpsc::Sender<()>) {
    let Some((inbox, journal, opening)) = cluster.purging.take_inbox() else {
        return;
    };
    let Inbox {
        mut orders,
        mut heard,
    } = inbox;
    let applying = local.clone();
    let sweeping = match Sweeping::start(move |change| applying.apply(change)) {
        Ok(started) => started,
        Err(error) => return tracing::error!(%error, "the thread that applies purges"),
    };
    let mut desk = Desk::new(local, cluster, &journal, sweeping);
    let (mut keeper, mut events) = match Keeper::start(journal) {
        Ok(started) => started,
        Err(error) => return tracing::error!(%error, "the thread of the journal of purges"),
    };
    desk.opened(opening, &mut keeper);
    drop(begun);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut settling: Option<Settling> = None;
    loop {
        desk.carry_out(&mut keeper);
        if settling.is_none() {
            settling = desk.next_batch();
        }
        let batch = async {
            match &mut settling {
                Some(batch) => batch.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                keeper.catch_up();
                desk.tick();
            }
            Some(event) = events.recv() => desk.came_of(event),
            batch = batch => {
                settling = None;
                desk.settled(batch, &mut keeper);
            }
            Some(order) = orders.recv() => desk.order(order),
            Some((member, message)) = heard.recv(), if desk.has_room() => {
                desk.heard(member, message);
            }
            else => return,
        }
    }
}

/// A reply to be sent once the journal is durable.
struct Unsynced {
    /// The batch that must be durable.
    number: u64,
    to: MemberId,
    message: Message,
    is_of_unsafe_method: bool,
    since_ms: u64,
}

struct Desk {
    local: LocalCache,
    cluster: Arc<Cluster>,
    telling: Telling,
    following: Following,
    sweeping: Rc<Sweeping>,
    rejoining: Rejoining,
    answers: HashMap<Ticket, oneshot::Sender<Outcome>>,
    tickets: Ticket,
    /// The journal is new, and no member has told yet what came before.
    is_fresh: bool,
    /// Number of "drop everything" changes that are not durable yet.
    dropping: usize,
    unsynced: Vec<Unsynced>,
    batches: u64,
    /// When the batch that waits for our stores began to wait.
    settling_since_ms: Option<u64>,
    /// Purges by unsafe methods, with the member that told them, that are not acknowledged yet.
    of_unsafe_methods: HashSet<(MemberId, Origin, Stamp)>,
    /// The number of discovery's changes when the members were last looked at.
    seen_changes: Option<u64>,
    /// When each member was last asked to begin anew.
    asked_ms: Vec<u64>,
    /// For each member, the token of the summary that it is telling, and the number of changes received of it.
    summaries: Vec<(u64, u64)>,
}

impl Desk {
    fn new(
        local: LocalCache,
        cluster: Arc<Cluster>,
        journal: &Journal,
        sweeping: Sweeping,
    ) -> Desk {
        let places = cluster.places.len();
        let wait_ms = cluster.plan.rejoin_wait.as_millis() as u64;
        let (own, heard) = (journal.own(), journal.heard().clone());
        let names = cluster.places.iter().map(|place| place.name_hash());
        let (names, first) = (names.collect(), journal.first_stamp());
        let mut desk = Desk {
            telling: Telling::new(own, heard.last(own), first, names),
            following: Following::new(heard),
            sweeping: Rc::new(sweeping),
            rejoining: Rejoining::new(all(places), wait_ms, cluster.now_ms()),
            answers: HashMap::new(),
            tickets: 0,
            is_fresh: false,
            dropping: 0,
            unsynced: Vec::new(),
            batches: 0,
            settling_since_ms: None,
            of_unsafe_methods: HashSet::new(),
            seen_changes: None,
            asked_ms: vec![0; places],
            summaries: vec![(0, 0); places],
            local,
            cluster,
        };
        desk.look_who_is_there();
        desk
    }

    /// Enters members that have come or gone since the last call.
    fn look_who_is_there(&mut self) {
        let changes = Some(self.cluster.discovery.changes());
        if self.seen_changes == changes {
            return;
        }
        self.seen_changes = changes;
        // Read this before the places: once it is true, all known members have their places.
        let are_known = self.cluster.are_members_known();
        let seat = |place: &Member| {
            place.who().map(|who| Seat {
                occupant: who.occupant,
                name: place.name_hash(),
            })
        };
        let seats: Vec<Option<Seat>> = self.cluster.places.iter().map(seat).collect();
        let there = seats.iter().enumerate().filter(|(_, seat)| seat.is_some());
        let there = there.fold(0, |mask, (number, _)| mask | 1 << number);
        let changed = self.telling.set_members(&seats, self.now_ms());
        self.rejoining.set_members(there, changed, are_known);
        for (number, summary) in self.summaries.iter_mut().enumerate() {
            if changed >> number & 1 != 0 {
                *summary = (0, 0);
            }
        }
    }

    fn purging(&self) -> &Purging {
        &self.cluster.purging
    }

    fn now_ms(&self) -> u64 {
        self.cluster.now_ms()
    }

    /// Acts on the state in which the journal was found.
    fn opened(&mut self, opening: Opening, keeper: &mut Keeper) {
        match opening {
            Opening::Kept {
                is_damaged: true, ..
            } => {
                tracing::warn!(
                    "the journal of purges was damaged; members that need what it lost will drop what they have stored"
                );
            }
            Opening::Kept { .. } => {}
            Opening::Fresh => {
                self.is_fresh = true;
                if self.local.cache.has_disk {
                    tracing::warn!(
                        "there is no journal of the cluster's purges, so nothing that was stored before is served"
                    );
                    // Apply this at once, before anything is stored.
                    let mut waiting = self.everything(NOBODY, Vector::default());
                    waiting.change = Change::everything();
                    waiting.applied(self.local.apply(&waiting.change));
                    self.following.push(waiting);
                } else if !self.local.cache.is_without_its_stores() {
                    keeper.give(Job::Trust);
                }
            }
        }
    }

    /// Purges everything stored until now, and marks all of `heard` as heard.
    fn drop_everything(&mut self, from: MemberId, heard: Vector) {
        let waiting = self.everything(from, heard);
        self.take_in(waiting, Change::everything());
    }

    fn everything(&mut self, from: MemberId, heard: Vector) -> Waiting {
        self.dropping += 1;
        self.purging().figures.lost.fetch_add(1, Ordering::Relaxed);
        Waiting::of(from, Message::Lost { heard })
    }

    fn take_in(&mut self, waiting: Waiting, change: Change) {
        let waiting = waiting.apply(change, &self.local, &self.sweeping);
        self.following.push(waiting);
    }

    /// Is there room for another message?
    fn has_room(&self) -> bool {
        self.following.has_room() && self.unsynced.len() < UNSYNCED_MAX
    }

    fn give(&mut self, keeper: &mut Keeper, job: Job) {
        let now_ms = self.now_ms();
        match keeper.give(job) {
            Some(Refused::Entry) => {
                let unkept = &self.purging().figures.unkept;
                unkept.fetch_add(1, Ordering::Relaxed);
            }
            Some(Refused::Own(stamp)) => self.telling.synced(stamp, false, now_ms),
            Some(Refused::Telling(member)) => self.telling.put_off(member, now_ms),
            None => {}
        }
    }

    /// Starts settling the next batch in our stores, if there is one.
    fn next_batch(&mut self) -> Option<Settling> {
        let mut batch = self.following.batch();
        let (cache, sweeping) = (Arc::clone(&self.local.cache), Rc::clone(&self.sweeping));
        self.settling_since_ms = (!batch.is_empty()).then(|| self.now_ms());
        (!batch.is_empty()).then(|| -> Settling {
            Box::pin(async move {
                for waiting in &mut batch {
                    waiting.settle(&cache, &sweeping).await;
                }
                batch
            })
        })
    }

    /// A batch is durable in our stores; next comes the journal.
    fn settled(&mut self, batch: Vec<Waiting>, keeper: &mut Keeper) {
        self.batches += 1;
        self.settling_since_ms = None;
        let (number, before) = (self.batches, self.unsynced.len());
        for waiting in batch {
            if waiting.is_hopeless {
                self.given_up(&waiting);
                continue;
            }
            self.following.settled(&waiting.message);
            let from = waiting.from;
            match waiting.message {
                Message::Entry {
                    keep,
                    untold,
                    entry,
                } => {
                    let (origin, stamp) = (entry.origin, entry.stamp);
                    self.give(keeper, Job::Append(entry));
                    // Only now, so that the journal has the entry before it is searched for these members.
                    self.telling.others_could_not_tell(&untold);
                    let is_of_unsafe_method = waiting.change.is_of_unsafe_method;
                    let waited_for = (from, origin, stamp);
                    if is_of_unsafe_method && !self.of_unsafe_methods.remove(&waited_for) {
                        // `do_not_keep_waiting` has acknowledged it already.
                        continue;
                    }
                    let done = Message::Done { origin, stamp };
                    match keep {
                        true => self.reply_when_synced(from, done, is_of_unsafe_method),
                        false => self.reply(from, &done),
                    }
                }
                Message::Lost { heard } => {
                    self.dropping -= 1;
                    self.give(keeper, Job::Adopt(heard, Synced::Followed(number)));
                    self.give(keeper, Job::Trust);
                }
                Message::Also { change, place, .. } => {
                    self.give(keeper, Job::Also(from, change, place == 0));
                    let (origin, stamp) = (Origin(0), Stamp(0));
                    self.reply(from, &Message::Done { origin, stamp });
                }
                Message::Upto { heard, .. } => self.give(keeper, Job::Upto(from, heard)),
                Message::Told {
                    round,
                    token,
                    is_sure,
                } => {
                    self.rejoining.told(from, round, is_sure);
                    // This also holds for an answer to an earlier round: objects from before are dropped by now, and `heard` covers the rest.
                    self.is_fresh = false;
                    self.reply_when_synced(from, Message::Enacted { token }, false);
                }
                _ => {}
            }
        }
        if self.unsynced.len() > before {
            self.give(keeper, Job::Sync(Synced::Followed(number)));
        }
        // Update this before any member hears that we have the batch.
        self.say_who_is_current();
    }

    /// Sends a reply once the journal has the present batch durably.
    fn reply_when_synced(&mut self, to: MemberId, message: Message, is_of_unsafe_method: bool) {
        self.unsynced.push(Unsynced {
            number: self.batches,
            to,
            message,
            is_of_unsafe_method,
            since_ms: self.now_ms(),
        });
    }

    /// Handles purges by unsafe methods that could not be told. Which ones is not known any more, so members have to purge everything.
    fn tell_what_was_not(&mut self) {
        if !self.purging().is_untold.swap(false, Ordering::AcqRel) {
            return;
        }
        tracing::error!(
            "purges by unsafe methods could not be told to other members: these take everything that they have stored for purged"
        );
        let change = Change::everything().encode().unwrap_or_default();
        self.order(Order {
            change,
            waits: None,
        });
    }

    /// A message that cannot become durable in this process; see `following`.
    fn given_up(&mut self, waiting: &Waiting) {
        match waiting.message {
            Message::Lost { .. } => self.dropping -= 1,
            Message::Told { round, is_sure, .. } => {
                _ = self.rejoining.told(waiting.from, round, is_sure);
            }
            // The next tick acknowledges a purge by an unsafe method.
            _ => {}
        }
    }

    /// Acknowledges purges by unsafe methods that our stores or our journal are slow to make durable. They are applied already, and the clients of
    /// those methods wait for their responses.
    fn do_not_keep_waiting(&mut self, now_ms: u64) {
        let within_ms = SETTLED_WITHIN.as_millis() as u64;
        let is_slow = |since_ms| now_ms.saturating_sub(since_ms) >= within_ms;
        if self.settling_since_ms.is_some_and(is_slow) || self.local.cache.is_without_its_stores() {
            for (from, origin, stamp) in std::mem::take(&mut self.of_unsafe_methods) {
                self.reply(from, &Message::Done { origin, stamp });
            }
        }
        // The following ones wait for our journal.
        let is_meant = |one: &mut Unsynced| one.is_of_unsafe_method && is_slow(one.since_ms);
        let meant: Vec<Unsynced> = self.unsynced.extract_if(.., is_meant).collect();
        for Unsynced { to, message, .. } in meant {
            self.reply(to, &message);
        }
    }

    fn came_of(&mut self, event: Event) {
        let now_ms = self.now_ms();
        match event {
            Event::Synced(Synced::Own(stamp), is_done) => {
                self.telling.synced(stamp, is_done, now_ms);
            }
            // Reply even after a failed write: members that later need our journal are told that entries are lost.
            Event::Synced(Synced::Followed(number), _) => {
                let is_done = |waiting: &mut Unsynced| waiting.number <= number;
                let done: Vec<_> = self.unsynced.extract_if(.., is_done).collect();
                for Unsynced { to, message, .. } in done {
                    self.reply(to, &message);
                }
            }
            Event::Found(member, token, place) => self.telling.found(member, token, place),
            Event::Read(member, token, brought) => {
                let is_sure = self.rejoining.is_sure();
                self.telling.read(member, token, brought, is_sure);
            }
        }
    }

    /// Takes a purge of ours, which is applied here already.
    fn order(&mut self, order: Order) {
        // Look first, so that a member that has just opened a link is waited for too.
        self.look_who_is_there();
        let now_ms = self.now_ms();
        let waits = order.waits.map(|(answer, longest, longest_kept)| {
            self.tickets += 1;
            self.answers.insert(self.tickets, answer);
            let after = |wait: Duration| now_ms + wait.as_millis() as u64;
            Waits {
                ticket: self.tickets,
                until_ms: after(longest),
                // This much longer, because it takes [`AWAY_AFTER_MS`] to find that a member is away.
                kept_until_ms: after(longest_kept) + AWAY_AFTER_MS,
            }
        });
        (self.purging().figures.told).fetch_add(1, Ordering::Relaxed);
        let unix_s = base::clock::unix_ms() / 1000;
        let change = Bytes::from(order.change);
        self.telling.order(change, unix_s, waits, now_ms);
    }

    fn heard(&mut self, member: MemberId, message: Message) {
        let now_ms = self.now_ms();
        // The member may have come since the last tick. Enter it now, or the next tick would reset it and forget that it has told everything.
        self.look_who_is_there();
        if message.tells() {
            self.rejoining.heard(member, now_ms);
        }
        match message {
            Message::Ask => self.say_what_we_have(member),
            Message::Have {
                round,
                is_fresh,
                heard,
            } => self.telling.have(member, round, is_fresh, heard, now_ms),
            Message::Done { origin, stamp } => self.telling.done(member, origin, stamp, now_ms),
            Message::Enacted { token } => self.telling.enacted(member, token, now_ms),
            Message::Entry { ref entry, .. } => {
                let entry = entry.clone();
                self.entry(member, entry, message);
            }
            // Nothing was missed: all of `heard` is done here. A joining member with a new journal, for instance, has heard only of its own purges.
            Message::Lost { heard } if self.following.done.covers(&heard) => {}
            Message::Lost { heard } => {
                let member_name = self.cluster.places[usize::from(member.0)].name();
                tracing::warn!(
                    member = %member_name,
                    "purges were missed that cannot be told any more: nothing that was stored before is served"
                );
                self.drop_everything(member, heard);
            }
            told @ Message::Told { .. } => self.following.push(Waiting::of(member, told)),
            Message::Also {
                token,
                place,
                ref change,
            } => {
                let known = &mut self.summaries[usize::from(member.0)];
                if place != 0 && *known != (token, place) {
                    return self.ask_anew(member);
                }
                *known = (token, place + 1);
                let change = understood(change);
                self.take_in(Waiting::of(member, message), change);
            }
            Message::Upto { token, place, .. } => {
                if place != 0 && self.summaries[usize::from(member.0)] != (token, place) {
                    return self.ask_anew(member);
                }
                self.following.push(Waiting::of(member, message));
            }
        }
    }

    /// Asks a member to begin anew, because a message of its telling was lost.
    fn ask_anew(&mut self, member: MemberId) {
        let now_ms = self.now_ms();
        let asked_ms = &mut self.asked_ms[usize::from(member.0)];
        if now_ms.saturating_sub(*asked_ms) >= ASKED_AGAIN_MS {
            *asked_ms = now_ms;
            self.say_what_we_have(member);
        }
    }

    fn entry(&mut self, from: MemberId, entry: Entry, message: Message) {
        let (origin, stamp) = (entry.origin, entry.stamp);
        match self.following.came(&entry) {
            Came::Again => self.reply(from, &Message::Done { origin, stamp }),
            Came::BehindAGap => self.ask_anew(from),
            Came::New => {
                let change = understood(&entry.change);
                let heard = &self.purging().figures.heard;
                heard.fetch_add(1, Ordering::Relaxed);
                if change.is_of_unsafe_method {
                    self.of_unsafe_methods.insert((from, origin, stamp));
                }
                self.take_in(Waiting::of(from, message), change);
            }
        }
    }

    fn say_what_we_have(&self, to: MemberId) {
        let have = Message::Have {
            round: self.rejoining.round(),
            is_fresh: self.is_fresh,
            heard: self.following.done.clone(),
        };
        self.reply(to, &have);
    }

    fn tick(&mut self) {
        let now_ms = self.now_ms();
        let gate = &self.cluster.purging.gate;
        if gate.tick(base::clock::boot_ms())
            || (gate.is_closed_by_stop() && self.rejoining.is_over())
        {
            self.was_away(now_ms);
        }
        self.look_who_is_there();
        let links: Vec<(bool, u64)> = (self.cluster.places.iter())
            .map(|member| (member.is_trusted(), member.since_ms()))
            .collect();
        self.telling.tick(&links, now_ms);
        if self.telling.are_others_to_tell() {
            // An empty change, only to tell the others which members we cannot tell.
            let change = Change::default().encode().unwrap_or_default();
            let unix_s = base::clock::unix_ms() / 1000;
            self.telling.order(change.into(), unix_s, None, now_ms);
        }
        let linked = (links.iter().enumerate()).filter(|(_, (is_linked, _))| *is_linked);
        let linked = linked.fold(0, |mask, (number, _)| mask | 1 << number);
        if self.dropping == 0
            && let Some(rejoined) = self.rejoining.look(linked, now_ms)
        {
            self.rejoined(rejoined);
        }
        self.do_not_keep_waiting(now_ms);
        self.tell_what_was_not();
        self.say_who_is_current();
        let figures = &self.purging().figures;
        let pending = self.telling.pending() as u64;
        figures.pending.store(pending, Ordering::Relaxed);
        let is_rejoining = u64::from(!self.rejoining.is_over());
        figures.is_rejoining.store(is_rejoining, Ordering::Relaxed);
    }

    /// Publishes to the workers which members have heard all our purges.
    fn say_who_is_current(&self) {
        let members = self.cluster.members().map(|(id, _)| id);
        let current = members.filter(|member| self.telling.is_current(*member));
        let current = current.fold(0, |mask, member| mask | member.bit());
        self.purging().current.store(current, Ordering::Release);
    }

    /// This process was suspended for a while: withhold stored objects until other members have told their purges.
    fn was_away(&mut self, now_ms: u64) {
        tracing::warn!(
            "this process was stopped for a while: nothing that is stored is served until other members have told what was purged"
        );
        self.cluster.purging.gate.close();
        self.local.cache.fetches.forget_all(&|_| true);
        self.rejoining.was_away(now_ms);
        let stopped = &self.purging().figures.stopped;
        stopped.fetch_add(1, Ordering::Relaxed);
        for (id, _) in self.cluster.members() {
            self.say_what_we_have(id);
        }
    }

    fn rejoined(&mut self, rejoined: Rejoined) {
        let untold = self.names(self.rejoining.untold());
        match rejoined {
            Rejoined::Told => {
                tracing::info!("purges of the cluster are known; what is stored is served")
            }
            Rejoined::Untold => {
                let figures = &self.purging().figures;
                figures.untold.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    members = untold,
                    "no member has told what was purged while this one was away (rejoin-wait); what is stored is served all the same"
                );
            }
        }
        self.purging().gate.open();
    }

    fn names(&self, members: u64) -> String {
        self.cluster.names_of(members).join(", ")
    }

    /// Carries out the commands of `telling`.
    fn carry_out(&mut self, keeper: &mut Keeper) {
        while let Some(command) = self.telling.poll() {
            match command {
                Command::Send(to, message) => {
                    let member = &self.cluster.places[usize::from(to.0)];
                    if !member.send(frame(&message)) {
                        self.telling.broke(to);
                    }
                }
                Command::Append(entry) => {
                    self.following.own(&entry);
                    self.give(keeper, Job::Append(entry));
                }
                Command::Sync(stamp) => self.give(keeper, Job::Sync(Synced::Own(stamp))),
                Command::Find(member, token, heard) => {
                    self.give(keeper, Job::Find(member, token, heard));
                }
                Command::Read(member, token, from) => {
                    self.give(keeper, Job::Read(member, token, from));
                }
                Command::Answer(ticket, outcome) => self.answer(ticket, outcome),
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        let figures = &self.cluster.purging.figures;
        let count = |counter: &std::sync::atomic::AtomicU64, is_so| {
            counter.fetch_add(u64::from(is_so), Ordering::Relaxed);
        };
        count(&figures.missing, outcome.missing != 0 || outcome.is_unkept);
        count(&figures.away, outcome.away != 0);
        if let Some(answer) = self.answers.remove(&ticket) {
            // The caller may have given up waiting.
            let _ = answer.send(outcome);
        }
    }

    fn reply(&self, to: MemberId, message: &Message) {
        if let Some(purging) = self.cluster.member(to).map(|_| self.purging()) {
            purging.reply(to, frame(message));
        }
    }
}

/// Decodes a change. One of a newer version is not understood and may be about anything, so it counts as everything.
fn understood(change: &[u8]) -> Change {
    Change::decode(change).unwrap_or_else(|| {
        tracing::error!(
            "a purge was told that is not understood: nothing that was stored before is served"
        );
        Change::everything()
    })
}

fn frame(message: &Message) -> Bytes {
    Frame::Purging(message.encode()).to_bytes().into()
}
