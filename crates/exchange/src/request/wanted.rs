//! A request and the resource it names, once that is known.

use std::{cell::Cell, sync::Arc};

use bytes::Bytes;
use fields::Fields;
use httpcache::{ClientDirectives, Standing, StandingFlags, cache_status::Forward};
use message::{Framing, RequestHead, Seen};
use store::KeyHash;

use crate::request::target::Asked;
use cache::preloaded::Preloaded;
use rules::rulebook::Met;

/// A request and the resource it names.
pub struct Wanted {
    /// The key of the stored GET.
    pub key: Vec<u8>,
    /// The hash of the name in it.
    pub primary: KeyHash,
    /// Whom to ask.
    pub asked: Asked,
    /// The request but for its fields.
    pub head: RequestHead,
    /// Its fields, but for those of the client's connection: shared, because the fetch outlives the request.
    pub request: Arc<Fields>,
    /// Fields that a rule keeps from the origin, but not from a member of our cluster, whose rules look at them too; none without one.
    pub withheld: Fields,
    /// The member that has forwarded it does not want it to be fetched.
    pub returns_lacking: bool,
    /// The operator's rules it meets.
    pub met: Met,
    /// They say that the cache is passed by.
    pub bypass: bool,
    /// How much it may demand.
    pub client_directives: ClientDirectives,
    /// What is stored and marked so is not for it ([`ListenerState::foreign`]).
    ///
    /// [`ListenerState::foreign`]: crate::listener::ListenerState::foreign
    pub foreign: StandingFlags,
    /// Names and values of what a rule makes part of the key; empty if none does.
    pub extras: Vec<u8>,
    /// The look-up found a response of another tag under its name.
    pub is_contested: Cell<bool>,
    /// The protocols it asks to switch to, where it may.
    pub upgrade: Option<Vec<u8>>,
    /// Its client takes trailers.
    pub takes_trailers: bool,
    /// A moment ago nothing was stored under its key: the first look into the cache takes it.
    pub is_absent: Cell<bool>,
    /// Its disk was waited for in vain: nobody is to wait once more.
    pub skips_disk: bool,
    /// The key of what another tag has stored under the name, as the short way has read; the first look into the cache takes it.
    pub other: Cell<Option<Bytes>>,
    /// What was read for it already; the first look into the cache takes it.
    pub loaded: Cell<Option<Box<Preloaded>>>,
}

impl Wanted {
    /// Why the cache has no part in it; `None`: it has.
    pub fn passes_by(&self) -> Option<Forward> {
        let head = &self.head;
        let conditions = Seen::IF_MATCH.union(Seen::IF_UNMODIFIED_SINCE);
        if !self.is_read() || head.framing != Framing::None || self.upgrade.is_some() {
            Some(Forward::Method)
        } else if head.seen.intersects(conditions) {
            //= rfc9211 §2.2   request: what the request says, not its method, forbids an answer from here
            Some(Forward::Request)
        } else {
            self.bypass.then_some(Forward::Bypass)
        }
    }

    /// Does it only read?
    pub fn is_read(&self) -> bool {
        matches!(self.head.method.as_str(), "GET" | "HEAD")
    }

    /// Was it stored, or fetched, by a word that does not count for this request's listener?
    pub fn is_foreign(&self, standing: &Standing) -> bool {
        standing.flags.intersects(self.foreign)
    }
}
