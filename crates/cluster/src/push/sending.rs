//! Sends pushes to members, in tasks of the workers that take from the queue.
//!
//! A worker whose fetch is complete starts such a task. The task sends any push that may go next, also those of other workers, and ends when none
//! may. Pushes that wait for room at a member are taken by the task that frees this room.
//!
//! Not known here: where pushes come from.

use std::{pin::pin, rc::Rc, sync::atomic::Ordering, time::Duration};

use hints::view::Groups;
use httpcache::UnixMillis;
use profile::Hierarchy;
use twox_hash::XxHash3_64;

use crate::{following::trace_of, member::Member, state::Cluster};
use base::{
    clock::{Clock, Instant},
    member::MemberId,
};
use origin::{
    outcome::UpstreamError,
    trip::{Hop, Trip},
    upstream::{self, Whom},
};
use rules::key::server_of_key;

use super::{
    context::PushContext,
    eager::{self, Registered},
    message::{self, Terms, Verdict},
    pushing::Push,
    queue::{Loads, Taken},
    target::{self, Candidate},
};

/// Time limit of a push.
const PUSH_MAX: Duration = Duration::from_secs(5);

impl PushContext {
    /// To be called every second, by one worker for all: fades hot keys, and sends pushes that had no member to go to but have one now.
    pub fn every_second(self: &Rc<Self>, now: Instant) {
        let pushing = &self.cluster.pushing;
        pushing.hot.fade();
        let own = self.cache.store.stores().map(|store| store.sequence());
        pushing.moments.note(now, own.collect(), &self.groups());
        start(self);
    }
}

/// Starts a task of this worker that sends pushes while any may go.
pub fn start(context: &Rc<PushContext>) {
    let Some(mut taken) = next(context) else {
        return;
    };
    let context = Rc::clone(context);
    tokio::task::spawn_local(async move {
        loop {
            carry(&context, taken).await;
            match next(&context) {
                Some(another) => taken = another,
                None => return,
            }
        }
    });
}

/// A push being sent. Dropping it gives its room in the queue back, however the sending ends.
struct UnderWay<'a> {
    cluster: &'a Cluster,
    taken: Option<Taken<Push>>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.cluster.pushing.queue().done(&taken);
        }
    }
}

/// Sends a push to its member, and puts it back if another member is to be tried.
async fn carry(context: &PushContext, taken: Taken<Push>) {
    let cluster = &*context.cluster;
    let mut under_way = UnderWay {
        cluster,
        taken: Some(taken),
    };
    let Some(taken) = &under_way.taken else {
        return;
    };
    let (number, push) = (taken.member, &taken.push);
    let member = &cluster.places[number];
    let is_hinted = is_hinted(context, number, push);
    // Register first: requests that go to the member from now on find the object there, or the member fetches it.
    let registered = register(context, number, push);
    let sent = send(context, number, push, registered).await;
    let is_stored = |answer: &Answer| answer.verdict == Verdict::Stored;
    if !sent.as_ref().is_ok_and(is_stored) {
        // A member that refuses a push may not have read its name, so the registration has to be withdrawn here.
        eager::withdraw(member, registered);
    }
    if sent.as_ref().is_ok_and(|answer| answer.had_it) && !is_hinted && !push.is_copy {
        (member.counters.false_misses).fetch_add(1, Ordering::Relaxed);
    }
    if !is_for_another(member, cluster.now_ms(), sent.map(|answer| answer.verdict)) {
        return;
    }
    let Some(mut taken) = under_way.taken.take() else {
        return;
    };
    taken.push.not_to |= MemberId(number as u8).bit();
    let mut queue = cluster.pushing.queue();
    if may_go_on(cluster, &taken.push) {
        queue.put_back(taken, Instant::now());
    } else {
        queue.done(&taken);
        (cluster.pushing.counters.given_up).fetch_add(1, Ordering::Relaxed);
    }
}

/// The next push that may be sent, with its member.
fn next(context: &PushContext) -> Option<Taken<Push>> {
    let (cluster, store) = (&*context.cluster, &context.cache.store);
    let groups = context.groups();
    let pushing = &cluster.pushing;
    loop {
        let now_ms = cluster.now_ms();
        let has_room = |loads: &Loads<'_>| {
            let mut members = cluster.members();
            members.any(|(id, it)| loads.has_room(usize::from(id.0)) && it.takes_new(now_ms))
        };
        let choose = |push: &Push, loads: &Loads<'_>| choose(cluster, &groups, push, loads);
        let taken = pushing.queue().take(Instant::now(), has_room, choose)?;
        if !store.invalidated_since(taken.push.primary, taken.push.began.own) {
            return Some(taken);
        }
        pushing.counters.purged.fetch_add(1, Ordering::Relaxed);
        pushing.queue().done(&taken);
    }
}

/// The member for a push, of those that may get one more now.
fn choose(cluster: &Cluster, groups: &Groups, push: &Push, loads: &Loads<'_>) -> Option<usize> {
    let now_ms = cluster.now_ms();
    let holders = groups.nodes(trace_of(&push.name));
    let candidate = |(id, member): (MemberId, &Member)| {
        let (bit, at) = (id.bit(), usize::from(id.0));
        (may_get(cluster, id.0, push, now_ms) && loads.has_room(at)).then(|| Candidate {
            member: at,
            busyness: member.busyness(now_ms) + loads.of(at) as u64,
            free_mib: member.load.free_mib.load(Ordering::Relaxed),
            holds: holders & bit != 0,
            belonging: belonging(server_of_key(&push.name), member.name_hash()),
        })
    };
    let candidates = cluster.members().filter_map(candidate);
    let candidates: Vec<_> = candidates.collect();
    // As good as a random number, without a system call for each push that is looked at.
    let chance = XxHash3_64::oneshot_with_seed(now_ms, &push.name);
    target::choose(&candidates, cluster.plan.spread, chance)
}

/// May this member get it once there is room? A member that has not heard all our purges may not: no request would be sent to it.
fn may_get(cluster: &Cluster, number: u8, push: &Push, now_ms: u64) -> bool {
    let id = MemberId(number);
    let takes_new = |member: &Member| member.takes_new(now_ms);
    let is_short_enough = |member: &Member| member.takes_body_of(push.body_bytes);
    push.not_to & id.bit() == 0
        && cluster.member(id).is_some_and(is_short_enough)
        && cluster.member(id).is_some_and(takes_new)
        && cluster.purging.is_current(id)
        && push.began.knows(number)
}

fn may_go_on(cluster: &Cluster, push: &Push) -> bool {
    let now_ms = cluster.now_ms();
    let mut members = cluster.members();
    members.any(|(id, _)| may_get(cluster, id.0, push, now_ms))
}

/// How strongly a server belongs to a member; the same at all fronts.
fn belonging(server: &[u8], name_hash: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(name_hash, server)
}

/// Do hints say that the member holds it?
fn is_hinted(context: &PushContext, member: usize, push: &Push) -> bool {
    let bit = MemberId(member as u8).bit();
    context.groups().nodes(trace_of(&push.name)) & bit != 0
}

/// Registers a push with its member.
fn register(context: &PushContext, member: usize, push: &Push) -> Registered {
    eager::register(&context.groups(), member as u8, &push.name)
}

/// A member's answer to a push.
#[derive(Clone, Copy)]
struct Answer {
    verdict: Verdict,
    /// The member already had a copy.
    had_it: bool,
}

/// Sends a push to a member, and reads its verdict.
async fn send(
    context: &PushContext,
    member: usize,
    push: &Push,
    registered: Registered,
) -> Result<Answer, UpstreamError> {
    let cluster = &context.cluster;
    let id = MemberId(member as u8);
    let told = push.began.of(id.0, registered.column);
    let destination = cluster.destination(id, push.listener);
    let (Some(told), Some(destination)) = (told, destination) else {
        return Ok(Answer {
            verdict: Verdict::Invalidated,
            had_it: false,
        });
    };
    let terms = Terms {
        asked: push.asked,
        received: push.received,
        sent: now_ms(&context.clock).max(push.received),
        column: registered.column,
        incarnation: told.incarnation,
        began: told.sequence,
        known: registered.known,
    };
    let message = push.message(&cluster.places[member].name(), &terms);
    let trip = Trip::new();
    let whom = Whom {
        header: None,
        destination: &destination,
        rules: &context.rules,
        hop: Hop::to(Hierarchy::Node, member),
        trip: &trip,
        verdict: None,
        waits: push.waits,
        signer: None,
    };
    let (watch, limit) = (context.deadlines.watch(), context.deadlines.watch());
    let exchange = async {
        let (upstream, head) =
            upstream::ask_final(&context.origin, &watch, &whom, "POST", &message).await?;
        upstream.keep(&context.origin, &watch, &head).await;
        Ok(Answer {
            verdict: Verdict::of_status(head.status),
            had_it: head.fields.contains(message::HAD),
        })
    };
    let verdict = limit.limit(PUSH_MAX, pin!(exchange)).await;
    verdict.unwrap_or(Err(UpstreamError::Timeout))
}

fn now_ms(clock: &Clock) -> UnixMillis {
    UnixMillis(clock.now().as_millis() as u64)
}

impl Push {
    /// The whole message.
    fn message(&self, host: &str, terms: &Terms) -> Vec<u8> {
        let heads = (self.request.len() + self.response.len()) as u64;
        let bytes = heads + self.body_bytes;
        let mut message = message::write_head(host, terms, bytes);
        message.reserve(bytes as usize);
        for piece in [&self.request, &self.response]
            .into_iter()
            .chain(&self.body)
        {
            message.extend_from_slice(piece);
        }
        message
    }
}

/// Counts the result of a push. Should another member be tried?
fn is_for_another(member: &Member, now_ms: u64, sent: Result<Verdict, UpstreamError>) -> bool {
    let counters = &member.counters;
    match sent {
        Ok(verdict) => {
            counters.pushes[verdict as usize].fetch_add(1, Ordering::Relaxed);
            member.answered();
            matches!(verdict, Verdict::Paused | Verdict::Disk)
        }
        Err(error) => {
            tracing::debug!(member = %member.name(), %error, "took no push");
            counters.pushes_lost.fetch_add(1, Ordering::Relaxed);
            member.failed(now_ms);
            true
        }
    }
}
