//! Collects the response of a fetch for a push to a cluster member, while clients read it.
//!
//! The body's pieces are shared with the flight. They count against the push queue's room from the first byte.
//!
//! Not known here: fetching, how a push is sent.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use ::message::ResponseHead;
use bytes::Bytes;
use httpcache::UnixMillis;
use store::{KeyHash, Sequence};

use crate::{
    fetch::response::{FetchRequest, Response},
    request::wanted::Wanted,
    storage::Storage,
};
use base::clock::Instant;
use cluster::Cluster;
use rules::key::name_of_key;

use cluster::push::{Began, Push, PushContext, message, sending};

/// The head of a request as a member would read it, if its response may be pushed.
pub fn as_sent(cluster: Option<&Cluster>, wanted: &Wanted) -> Option<Bytes> {
    let cluster = cluster?;
    let head = &wanted.head;
    (cluster.pushing.is_on).then(|| {
        let fields = wanted.request.iter().chain(wanted.withheld.iter());
        message::write_request(
            &head.method,
            &head.target,
            head.host.as_deref(),
            head.version,
            fields,
        )
    })
}

/// The state of purges now, if the response of this fetch may be pushed. `own`: the invalidation sequence here.
pub fn began(
    pushing: Option<&PushContext>,
    fetch_request: &FetchRequest,
    own: Sequence,
) -> Option<Began> {
    fetch_request.as_sent.as_ref()?;
    Some(Began::now(own, &pushing?.groups()))
}

/// The response to a fetch.
pub struct Came<'a> {
    /// The head as received.
    pub head: &'a ResponseHead,
    /// The response made from that head.
    pub response: &'a Response,
    /// The hash of the resource's name.
    pub primary: KeyHash,
    /// The key that the response is stored under; a variant has its own.
    pub key: &'a [u8],
    /// When the request was sent.
    pub asked: UnixMillis,
}

/// A response that is being collected for a push.
pub struct Collecting {
    cluster: Arc<Cluster>,
    push: Option<Push>,
    /// Bytes reserved in the queue.
    reserved: u64,
    /// The longest body that a member accepts.
    length_max: u64,
    key: u64,
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Collecting {
    /// Begins to collect a response; `None`: it is not pushed. `began`: the state of purges when the request was sent.
    pub fn begin(
        storage: &Storage,
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
        let cluster = storage.cluster.as_ref()?;
        let pushing = &cluster.pushing;
        let is_for_all =
            response.storable.is_ok() && !fetch_request.request.contains(b"authorization");
        let copied = fetch_request.copied.as_ref();
        let not_to = copied.map_or(0, |copied| copied.not_to);
        if !pushing.is_on || !is_for_all || not_to == u64::MAX {
            return None;
        }
        let request = fetch_request.as_sent.clone()?;
        let began = began?;
        if began.knows_nothing() {
            pushing.counters.untold.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let length_max = length_max(cluster);
        if response.length.is_some_and(|length| length > length_max) {
            pushing.too_long(primary);
            return None;
        }
        let received = response.standing.received;
        let mut collecting = Collecting {
            cluster: Arc::clone(cluster),
            reserved: 0,
            length_max,
            key: storage.hasher.hash(key).0,
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
                began,
                waits: fetch_request.listener.edition.origin_waits(),
                not_to,
                is_copy: copied.is_some(),
            }),
        };
        let push = collecting.push.as_ref()?;
        let bytes = (push.request.len() + push.response.len()) as u64;
        collecting.reserve(bytes).then_some(collecting)
    }

    /// Adds the next piece of the body. False: the body is too long, or the queue is full.
    pub fn take(&mut self, piece: &Bytes) -> bool {
        let bytes = piece.len() as u64;
        let Some(push) = &self.push else {
            return false;
        };
        if push.body_bytes + bytes > self.length_max {
            self.cluster.pushing.too_long(push.primary);
            return false;
        }
        if !self.reserve(bytes) {
            return false;
        }
        if let Some(push) = &mut self.push {
            push.body.push(piece.clone());
            push.body_bytes += bytes;
        }
        true
    }

    /// Queues the push if the body is complete. `length`: the length that the head announced.
    pub fn complete(mut self, pushing: Option<&Rc<PushContext>>, length: Option<u64>) {
        let push = self.push.take();
        let Some(push) = push.filter(|push| length.is_none_or(|length| length == push.body_bytes))
        else {
            return;
        };
        let bytes = std::mem::take(&mut self.reserved);
        let own = &self.cluster.pushing;
        own.large.forget(push.primary);
        own.queue().put(self.key, bytes, push, Instant::now());
        if let Some(context) = pushing {
            sending::start(context);
        }
    }

    fn reserve(&mut self, bytes: u64) -> bool {
        let has_room = self.cluster.pushing.queue().reserve(bytes);
        if has_room {
            self.reserved += bytes;
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

/// The longest body that is pushed now: at most our own `push-max`, and at most the largest limit of a member with a store.
fn length_max(cluster: &Cluster) -> u64 {
    let now_ms = cluster.now_ms();
    let members = cluster.members().map(|(_, member)| member);
    let taken = members
        .filter(|it| it.takes_new(now_ms) && it.load.has_store.load(Ordering::Relaxed))
        .map(|it| it.load.push_max_bytes.load(Ordering::Relaxed));
    let own = cluster.plan.push_max_bytes;
    taken.max().map_or(own, |taken| taken.min(own))
}
