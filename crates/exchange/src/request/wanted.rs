//! A request and the resource it names.

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
    /// The hash of the key's name.
    pub primary: KeyHash,
    /// The origin to ask.
    pub asked: Asked,
    /// The request's head without its fields.
    pub head: RequestHead,
    /// The request's fields without the hop-by-hop ones; shared, because the fetch outlives the request.
    pub request: Arc<Fields>,
    /// Fields that a rule hides from the origin but not from a cluster member, whose own rules need them; empty without a cluster.
    pub withheld: Fields,
    /// The member that forwarded the request will fetch a missing object itself.
    pub returns_lacking: bool,
    /// The operator's rules that match.
    pub met: Met,
    /// A rule says to bypass the cache.
    pub bypass: bool,
    /// How far the client's cache directives are heeded.
    pub client_directives: ClientDirectives,
    /// Stored responses with one of these flags are not for this request ([`ListenerState::foreign`]).
    ///
    /// [`ListenerState::foreign`]: crate::listener::ListenerState::foreign
    pub foreign: StandingFlags,
    /// Names and values that a rule makes part of the key; empty if there are none.
    pub extras: Vec<u8>,
    /// The look-up found a response of another tag under the same name.
    pub is_contested: Cell<bool>,
    /// The protocols that the client asks to switch to, if that is allowed.
    pub upgrade: Option<Vec<u8>>,
    /// The client accepts trailers.
    pub takes_trailers: bool,
    /// The short way found nothing under the key just now; the first look-up takes this flag.
    pub is_absent: Cell<bool>,
    /// The short way has waited for the disk in vain, so no further wait is allowed.
    pub skips_disk: bool,
    /// The key of another tag's response under the same name, which the short way has read; the first look-up takes it.
    pub other: Cell<Option<Bytes>>,
    /// The object that the short way has read; the first look-up takes it.
    pub loaded: Cell<Option<Box<Preloaded>>>,
}

impl Wanted {
    /// Why the request bypasses the cache; `None`: it does not.
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

    /// Is the method GET or HEAD?
    pub fn is_read(&self) -> bool {
        matches!(self.head.method.as_str(), "GET" | "HEAD")
    }

    /// Was the response stored because of cache fields that do not count for this listener?
    pub fn is_foreign(&self, standing: &Standing) -> bool {
        standing.flags.intersects(self.foreign)
    }
}
