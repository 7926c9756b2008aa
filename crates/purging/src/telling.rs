//! What other members are told: our purges at once, and a member that comes back all that it has missed.
//!
//! For each member:
//!
//! ```text
//! Silent --link--> Asked --HAVE--> Finding --journal--> Replaying --end--> Confirming --ENACTED--> Current
//! ```
//!
//! A Confirming or Current member gets our purges directly; in other states it gets them through the journal. If its link ends or a frame could
//! not be sent, it becomes Silent. HAVE begins the sequence anew in any state.
//!
//! A purge is answered when every member has it. A member without a link for [`AWAY_AFTER_MS`] is *away*: the answer does not wait for it, but
//! our journal must be durable, and the member is told when it is back. A member that has been Finding or Replaying for as long is treated
//! alike: new purges reach it through the journal, after what it lacks. A linked member that has not answered by the purge's time limit is
//! reported as *not* having it.
//!
//! Not known here: files of the journal, sockets, the contents of purges, purges of other members.
//! Limits: [`PENDING_MAX`] pending purges; [`WINDOW`] unacknowledged entries to a member that is being replayed.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{
    journal::{Entry, Line, Position},
    message::Message,
    stamp::{Origin, Stamp, Vector},
};
use base::member::MemberId;

/// Purges waiting for members, at most. A further one is told, but answered as if no member had it.
pub const PENDING_MAX: usize = 16 << 10;
/// A member is away after this time without a link, or of being told what it has missed, ms.
pub const AWAY_AFTER_MS: u64 = 1000;
/// Unacknowledged entries of the journal sent to one member.
const WINDOW: usize = 256;
/// An unanswered question is asked again after this time, ms.
const ASKED_AGAIN_MS: u64 = 1000;

/// The number of a purge whose answer is waited for.
pub type Ticket = u64;

/// How long a purge waits for members and journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// The answer to give.
    pub ticket: Ticket,
    /// When to give it at the latest.
    pub until_ms: u64,
    /// Until when to wait for our own journal.
    pub kept_until_ms: u64,
}

/// The result of a purge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Linked members that do not have it, a bit each.
    pub missing: u64,
    /// Members that are away and will be told, a bit each.
    pub away: u64,
    /// A member is away, but our own journal does not have the purge durably.
    pub is_unkept: bool,
}

/// A task for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a message to a member, over the link that we have opened.
    Send(MemberId, Message),
    /// Append an entry to the journal.
    Append(Entry),
    /// Make the journal durable, then call [`Telling::synced`].
    Sync(Stamp),
    /// Find where the journal has what a member lacks, then call [`Telling::found`]. The member has heard this; `None`: its journal is new, so it
    /// needs nothing from before.
    Find(MemberId, u64, Option<Vector>),
    /// Read lines from the journal, then call [`Telling::read`].
    Read(MemberId, u64, Position),
    /// Answer a purge.
    Answer(Ticket, Outcome),
}

#[derive(Debug)]
enum State {
    Silent,
    Asked { at_ms: u64 },
    Finding { token: u64 },
    Replaying(Replaying),
    Confirming { token: u64 },
    Current,
}

#[derive(Debug)]
struct Replaying {
    token: u64,
    next: Position,
    lines: VecDeque<Line>,
    is_reading: bool,
    /// Our last purge at the time of the last [`Command::Read`].
    read_at: Stamp,
    on_their_way: usize,
    /// Changes of summaries sent so far.
    also: u64,
}

/// The member that has a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Changes when the number goes to another member.
    pub occupant: u64,
    /// The hash of its name.
    pub name: u64,
}

#[derive(Debug)]
struct Follower {
    /// Identity of the member; `None`: no member has this number.
    occupant: Option<u64>,
    state: State,
    /// When its link last came up or ended.
    since_ms: u64,
    is_linked: bool,
    /// When it began to be told what it has missed.
    behind_since_ms: Option<u64>,
    /// What it has heard, as it said itself, plus what was told since.
    heard: Vector,
    round: u64,
}

#[derive(Debug)]
struct Pending {
    waits: Waits,
    waiting: u64,
    away: u64,
    /// Members that our entry asked others to tell.
    untold: u64,
    sync: Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sync {
    NotAsked,
    Asked,
    Done,
    Failed,
}

/// The state of telling for all members.
#[derive(Debug)]
pub struct Telling {
    own: Origin,
    last: Stamp,
    next: Stamp,
    /// The name hash of each member.
    names: Box<[u64]>,
    followers: Vec<Follower>,
    pending: BTreeMap<Stamp, Pending>,
    /// See [`Self::are_others_to_tell`].
    are_others_to_tell: bool,
    tokens: u64,
    commands: VecDeque<Command>,
}

impl Telling {
    /// The state without any links. `last`: our last purge before this start; `first`: stamps of this start lie above it; `names`: the name hash of
    /// each member.
    pub fn new(own: Origin, last: Stamp, first: Stamp, names: Box<[u64]>) -> Telling {
        let follower = |_| Follower::new(Some(0), 0);
        Telling {
            own,
            last,
            next: first.next(),
            followers: (0..names.len()).map(follower).collect(),
            names,
            pending: BTreeMap::new(),
            are_others_to_tell: false,
            tokens: 0,
            commands: VecDeque::new(),
        }
    }

    /// Sets the members by their numbers. Pending purges stop waiting for members that are gone; if one returns, it is told what the journal has, or
    /// drops everything. Returns the numbers whose member has changed, a bit each.
    pub fn set_members(&mut self, seats: &[Option<Seat>], now_ms: u64) -> u64 {
        let mut changed = 0;
        for (number, (follower, seat)) in self.followers.iter_mut().zip(seats).enumerate() {
            self.names[number] = seat.map_or(0, |seat| seat.name);
            let occupant = seat.map(|seat| seat.occupant);
            if follower.occupant != occupant {
                *follower = Follower::new(occupant, now_ms);
                changed |= 1 << number;
            }
        }
        if changed != 0 {
            let stamps: Vec<Stamp> = self.pending.keys().copied().collect();
            for stamp in stamps {
                if let Some(pending) = self.pending.get_mut(&stamp) {
                    pending.waiting &= !changed;
                    pending.away &= !changed;
                }
                self.settle(stamp, now_ms);
            }
        }
        changed
    }

    /// The members, a bit each.
    fn members(&self) -> u64 {
        let there = self.followers.iter().enumerate();
        let there = there.filter(|(_, follower)| follower.occupant.is_some());
        there.fold(0, |mask, (number, _)| mask | 1 << number)
    }

    /// The next command. After every other call, poll until there is none.
    pub fn poll(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Has this member everything that we have told, and does it get purges directly?
    pub fn is_current(&self, member: MemberId) -> bool {
        matches!(self.followers[usize::from(member.0)].state, State::Current)
    }

    /// The number of purges that wait for members.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Tells a purge of ours. It is answered if there is a `waits`.
    pub fn order(&mut self, change: Bytes, unix_s: u64, waits: Option<Waits>, now_ms: u64) {
        let entry = Entry {
            origin: self.own,
            stamp: self.next,
            before: self.last,
            unix_s,
            change,
        };
        (self.last, self.next) = (self.next, self.next.next());
        let is_there = |f: &Follower| f.occupant.is_some();
        let keep =
            (self.followers.iter()).any(|f| is_there(f) && !matches!(f.state, State::Current));
        let is_told = |f: &Follower| matches!(f.state, State::Confirming { .. } | State::Current);
        let is_untold = |f: &Follower| is_there(f) && !is_told(f);
        let mut untold_members = 0;
        let mut untold = Vec::new();
        for (number, follower) in self.followers.iter().enumerate() {
            if is_untold(follower) {
                untold_members |= 1 << number;
                untold.push(self.names[number]);
            }
        }
        self.commands.push_back(Command::Append(entry.clone()));
        for (number, follower) in self.followers.iter().enumerate() {
            if is_told(follower) {
                let message = Message::Entry {
                    keep,
                    untold: untold.clone(),
                    entry: entry.clone(),
                };
                self.commands.push_back(send(number, message));
            }
        }
        let Some(waits) = waits else {
            return;
        };
        let all = self.members();
        if self.pending.len() >= PENDING_MAX {
            let outcome = Outcome {
                missing: all,
                ..Outcome::default()
            };
            self.commands
                .push_back(Command::Answer(waits.ticket, outcome));
            return;
        }
        self.pending.insert(
            entry.stamp,
            Pending {
                waits,
                waiting: all,
                away: 0,
                untold: untold_members,
                sync: Sync::NotAsked,
            },
        );
        self.settle(entry.stamp, now_ms);
    }

    /// To be called regularly. `links`: for each member, whether it has a link, and since when.
    pub fn tick(&mut self, links: &[(bool, u64)], now_ms: u64) {
        for (number, &(is_linked, since_ms)) in links.iter().enumerate() {
            let follower = &mut self.followers[number];
            if follower.occupant.is_none() {
                continue;
            }
            if (follower.is_linked, follower.since_ms) != (is_linked, since_ms) {
                (follower.is_linked, follower.since_ms) = (is_linked, since_ms);
                follower.state = State::Silent;
            }
            let is_due = match follower.state {
                State::Silent => true,
                State::Asked { at_ms } => now_ms.saturating_sub(at_ms) >= ASKED_AGAIN_MS,
                _ => false,
            };
            let since_ms = follower.behind_since_ms.unwrap_or(now_ms);
            follower.behind_since_ms = follower.is_behind().then_some(since_ms);
            if is_linked && is_due {
                follower.state = State::Asked { at_ms: now_ms };
                self.commands.push_back(send(number, Message::Ask));
            }
        }
        let waiting: Vec<Stamp> = self.pending.keys().copied().collect();
        for stamp in waiting {
            self.settle(stamp, now_ms);
        }
    }

    /// The journal cannot be read now; the member is asked again after a while.
    pub fn put_off(&mut self, member: MemberId, now_ms: u64) {
        self.followers[usize::from(member.0)].state = State::Asked { at_ms: now_ms };
    }

    /// Did a member go away with a purge of ours sent but not acknowledged? The entry did not ask others to tell that member, although they may still
    /// reach it. The next entry will ask them.
    pub fn are_others_to_tell(&mut self) -> bool {
        std::mem::take(&mut self.are_others_to_tell)
    }

    /// The last message to this member could not be sent.
    pub fn broke(&mut self, member: MemberId) {
        self.followers[usize::from(member.0)].state = State::Silent;
    }

    /// Another member could not tell these members (by name hashes) an entry that our journal has now. Those that are linked to us are asked anew,
    /// and hear it from us.
    pub fn others_could_not_tell(&mut self, names: &[u64]) {
        for (follower, name) in self.followers.iter_mut().zip(&self.names) {
            let will_hear = matches!(follower.state, State::Silent | State::Asked { .. });
            if names.contains(name) && !will_hear {
                follower.state = State::Silent;
            }
        }
    }

    /// A member tells how far it has heard.
    pub fn have(
        &mut self,
        member: MemberId,
        round: u64,
        is_fresh: bool,
        heard: Vector,
        now_ms: u64,
    ) {
        let token = self.token();
        let follower = &mut self.followers[usize::from(member.0)];
        follower.round = round;
        follower.state = State::Finding { token };
        let upto = heard.last(self.own);
        let find = Command::Find(member, token, (!is_fresh).then(|| heard.clone()));
        follower.heard = heard;
        self.commands.push_back(find);
        self.heard_upto(member, upto, now_ms);
    }

    /// The journal was searched for what a member lacks: where that begins, or, if some is gone, all that the journal has heard.
    pub fn found(&mut self, member: MemberId, token: u64, place: Result<Position, Vector>) {
        let follower = &mut self.followers[usize::from(member.0)];
        if !matches!(follower.state, State::Finding { token: asked } if asked == token) {
            return;
        }
        match place {
            Ok(next) => {
                follower.state = State::Replaying(Replaying {
                    token,
                    next,
                    lines: VecDeque::new(),
                    is_reading: true,
                    read_at: self.last,
                    on_their_way: 0,
                    also: 0,
                });
                self.commands.push_back(Command::Read(member, token, next));
            }
            Err(heard) => {
                follower.heard.hear_all(&heard);
                // Search again, for entries that have come meanwhile. Search by `heard` alone: if it is merged with what the follower knows
                // besides, a full vector forgets some origins, and the follower would be told again and again that they are lost.
                let find = Command::Find(member, token, Some(heard.clone()));
                let number = usize::from(member.0);
                self.commands
                    .push_back(send(number, Message::Lost { heard }));
                self.commands.push_back(find);
            }
        }
    }

    /// Lines were read from the journal, with the position of the next; `None`: the position is gone.
    pub fn read(
        &mut self,
        member: MemberId,
        token: u64,
        brought: Option<(Vec<Line>, Position)>,
        is_sure: bool,
    ) {
        let (last, number) = (self.last, usize::from(member.0));
        let follower = &mut self.followers[number];
        let State::Replaying(replaying) = &mut follower.state else {
            return;
        };
        if replaying.token != token {
            return;
        }
        replaying.is_reading = false;
        let Some((lines, next)) = brought else {
            follower.state = State::Finding { token };
            let find = Command::Find(member, token, Some(follower.heard.clone()));
            self.commands.push_back(find);
            return;
        };
        replaying.next = next;
        if lines.is_empty() && replaying.lines.is_empty() && replaying.read_at == last {
            let told = Message::Told {
                round: follower.round,
                token,
                is_sure,
            };
            follower.state = State::Confirming { token };
            self.commands.push_back(send(number, told));
            return;
        }
        replaying.lines.extend(lines);
        self.go_on(member);
    }

    /// A purge is durable at a member.
    pub fn done(&mut self, member: MemberId, origin: Origin, stamp: Stamp, now_ms: u64) {
        let follower = &mut self.followers[usize::from(member.0)];
        if let State::Replaying(replaying) = &mut follower.state {
            replaying.on_their_way = replaying.on_their_way.saturating_sub(1);
            self.go_on(member);
        }
        if origin == self.own
            && let Some(pending) = self.pending.get_mut(&stamp)
        {
            pending.waiting &= !member.bit();
            pending.away &= !member.bit();
            self.settle(stamp, now_ms);
        }
    }

    /// All that was told before this TOLD is durable at a member.
    pub fn enacted(&mut self, member: MemberId, token: u64, now_ms: u64) {
        let follower = &mut self.followers[usize::from(member.0)];
        if matches!(follower.state, State::Confirming { token: asked } if asked == token) {
            follower.state = State::Current;
            // It has dropped all that it had lost, so it counts as having heard that too.
            let upto = follower.heard.last(self.own);
            self.heard_upto(member, upto, now_ms);
        }
    }

    /// The journal is durable up to this purge, or failed.
    pub fn synced(&mut self, stamp: Stamp, is_done: bool, now_ms: u64) {
        if let Some(pending) = self.pending.get_mut(&stamp) {
            pending.sync = match is_done {
                true => Sync::Done,
                false => Sync::Failed,
            };
            self.settle(stamp, now_ms);
        }
    }

    fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// Sends lines that were read, and asks for more.
    fn go_on(&mut self, member: MemberId) {
        let number = usize::from(member.0);
        let follower = &mut self.followers[number];
        let State::Replaying(replaying) = &mut follower.state else {
            return;
        };
        while replaying.on_their_way < WINDOW {
            let Some(line) = replaying.lines.pop_front() else {
                if !replaying.is_reading {
                    replaying.is_reading = true;
                    replaying.read_at = self.last;
                    let read = Command::Read(member, replaying.token, replaying.next);
                    self.commands.push_back(read);
                }
                return;
            };
            let message = match line {
                Line::Entry(entry) if follower.heard.has(entry.origin, entry.stamp) => continue,
                Line::Entry(entry) => {
                    (follower.heard).hear(entry.origin, entry.stamp, entry.unix_s);
                    replaying.on_their_way += 1;
                    Message::Entry {
                        keep: true,
                        untold: Vec::new(),
                        entry,
                    }
                }
                Line::Also(change) => {
                    replaying.on_their_way += 1;
                    replaying.also += 1;
                    Message::Also {
                        token: replaying.token,
                        place: replaying.also - 1,
                        change,
                    }
                }
                Line::Upto(heard) => {
                    follower.heard.hear_all(&heard);
                    Message::Upto {
                        token: replaying.token,
                        place: replaying.also,
                        heard,
                    }
                }
            };
            self.commands.push_back(send(number, message));
        }
    }

    /// A member has all our purges up to this one.
    fn heard_upto(&mut self, member: MemberId, upto: Stamp, now_ms: u64) {
        let heard: Vec<Stamp> = self
            .pending
            .range(..=upto)
            .map(|(stamp, _)| *stamp)
            .collect();
        for stamp in heard {
            if let Some(pending) = self.pending.get_mut(&stamp) {
                pending.waiting &= !member.bit();
                pending.away &= !member.bit();
            }
            self.settle(stamp, now_ms);
        }
    }

    /// Answers a purge if there is nothing left to wait for.
    fn settle(&mut self, stamp: Stamp, now_ms: u64) {
        let Some(pending) = self.pending.get_mut(&stamp) else {
            return;
        };
        for (number, follower) in self.followers.iter().enumerate() {
            let bit = 1 << number;
            let since_ms = follower.away_since_ms();
            let is_away =
                since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= AWAY_AFTER_MS);
            if is_away && pending.waiting & bit != 0 {
                pending.waiting &= !bit;
                pending.away |= bit;
                self.are_others_to_tell |= pending.untold & bit == 0;
            }
        }
        if pending.away != 0 && pending.sync == Sync::NotAsked {
            pending.sync = Sync::Asked;
            self.commands.push_back(Command::Sync(stamp));
        }
        let is_kept = pending.away == 0
            || matches!(pending.sync, Sync::Done | Sync::Failed)
            || now_ms >= pending.waits.kept_until_ms;
        if (pending.waiting == 0 && is_kept) || now_ms >= pending.waits.until_ms {
            let outcome = Outcome {
                missing: pending.waiting,
                away: pending.away,
                is_unkept: pending.away != 0 && pending.sync != Sync::Done,
            };
            self.commands
                .push_back(Command::Answer(pending.waits.ticket, outcome));
            self.pending.remove(&stamp);
        }
    }
}

impl Follower {
    /// Is it being told what it has missed?
    fn is_behind(&self) -> bool {
        matches!(self.state, State::Finding { .. } | State::Replaying(_))
    }

    /// Since when purges reach it only through the journal.
    fn away_since_ms(&self) -> Option<u64> {
        match self.is_linked {
            true => self.behind_since_ms.filter(|_| self.is_behind()),
            false => Some(self.since_ms),
        }
    }

    /// A member without a link.
    fn new(occupant: Option<u64>, now_ms: u64) -> Follower {
        Follower {
            occupant,
            state: State::Silent,
            since_ms: now_ms,
            is_linked: false,
            behind_since_ms: None,
            heard: Vector::default(),
            round: 0,
        }
    }
}

fn send(number: usize, message: Message) -> Command {
    Command::Send(MemberId(number as u8), message)
}

/// A bit for each of so many members.
pub fn all(members: usize) -> u64 {
    match members {
        0 => 0,
        _ => u64::MAX >> (64 - members.min(64)),
    }
}

#[cfg(test)]
mod tests;
