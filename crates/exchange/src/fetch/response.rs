//! What is fetched, and what a fetch brings.
//!
//! Not known here: how a fetch runs, its readers.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use fields::Fields;
use httpcache::{NotStorable, Standing, cache_status::CacheStatus};
use message::Version;
use store::Sequence;

use crate::{
    listener::ListenerState,
    request::{target::Asked, toll::Toll},
};
use cache::object::Object;
use cluster::push::Copied;
use origin::{outcome::UpstreamError, trip::Trip};
use rules::rulebook::{Decision, Met};

/// Why a fetch gave no response.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The origin could not be asked, or its head not read.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The fetching task ended before its time (shutdown).
    #[error("the fetch was abandoned")]
    Abandoned,
}

impl FetchError {
    /// The status owed to the client.
    pub fn status(&self) -> u16 {
        match self {
            FetchError::Upstream(error) => error.status(),
            FetchError::Abandoned => 503,
        }
    }

    /// What a client is told.
    pub fn for_client(&self) -> String {
        match self {
            FetchError::Upstream(error) => error.for_client(),
            FetchError::Abandoned => self.to_string(),
        }
    }

    /// When it is worth another try, seconds; `None`: nobody knows.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            FetchError::Upstream(error) => error.retry_after_s(),
            FetchError::Abandoned => None,
        }
    }

    /// A token for Cache-Status.
    pub fn token(&self) -> &'static str {
        match self {
            FetchError::Upstream(error) => error.token(),
            FetchError::Abandoned => "proxy_internal_error",
        }
    }
}

/// A response as it goes to clients and into the cache.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields without the hop-by-hop ones, Content-Length, Age and those for the client that asked alone; Via and Date added.
    pub fields: Fields,
    /// Status line and `fields`, ready to send.
    pub head: Bytes,
    /// Field lines that go behind the head, for the client that asked alone (`httpcache::take_withheld`, `take_cookies`).
    pub withheld: Bytes,
    /// Where the value of Content-Type lies in `head`.
    pub content_type: (u16, u16),
    /// Length of the body if it is known now.
    pub length: Option<u64>,
    /// This status has no body and no Content-Length (204, 304).
    pub bodiless: bool,
    /// Age and rules.
    pub standing: Standing,
    /// May it be stored?
    pub storable: Result<(), NotStorable>,
    /// Is the answer on its way into the store or the memory tier?
    pub stored: bool,
    /// Why not, though it may be stored.
    pub not_stored: Option<&'static str>,
    /// The fields of the request it answers, for [`httpcache::may_share`].
    pub asked_with: Arc<Fields>,
    /// What the operator's rules say of it.
    pub decision: Decision,
    /// A member of our cluster sends it: as in [`FetchRequest`].
    pub is_forwarded: bool,
    /// A reader that has a part of its body can get the rest by another request.
    pub is_resumable: bool,
}

impl Response {
    /// The value of Content-Type, for the log.
    pub fn content_type(&self) -> &[u8] {
        let (start, len) = (
            usize::from(self.content_type.0),
            usize::from(self.content_type.1),
        );
        self.head.get(start..start + len).unwrap_or_default()
    }

    /// Length of head and body in bytes as they are stored, or would be, if the body has so many.
    pub fn stored_bytes(&self, body: u64) -> u64 {
        let of_length = match self.bodiless {
            true => 0,
            false => b"Content-Length: \r\n".len() as u64 + u64::from(body.max(1).ilog10()) + 1,
        };
        self.head.len() as u64 + of_length + body
    }

    /// Adds what is known of its being stored when its head goes out. Of a body without a length nobody knows how long it will be.
    //= rfc9211 §2.5   stored: whether the cache stored the response
    pub fn say_stored<'a>(&self, line: CacheStatus<'a>) -> CacheStatus<'a> {
        match self.stored && self.length.is_some() {
            true => line.stored(true),
            false => line,
        }
    }

    /// Adds why it is not stored.
    pub fn say_why_not<'a>(&self, line: CacheStatus<'a>) -> CacheStatus<'a> {
        let forbidden = self.storable.err().map(|reason| reason.as_str());
        match forbidden.or(self.not_stored) {
            Some(reason) => line.detail(reason),
            None => line,
        }
    }
}

/// What to fetch.
#[derive(Clone)]
pub struct FetchRequest {
    /// The listener it came in by: its rules say where we may connect.
    pub listener: Rc<ListenerState>,
    /// Whom to ask.
    pub asked: Asked,
    /// The client's fields, complete: caching rules look at these.
    pub request: Arc<Fields>,
    /// The key of the resource.
    pub key: Vec<u8>,
    /// The operator's rules the request meets.
    pub met: Met,
    /// The request's part of the key of a variant, by rule.
    pub extras: Vec<u8>,
    /// Another tag's response is stored under the name: this one becomes a variant.
    pub is_contested: bool,
    /// The origin gets the client's conditions: there is nothing to validate, and a 304 is the client's.
    pub is_conditional: bool,
    /// The version in which it came.
    pub version: Version,
    /// The last answer could not be shared or stored, and likely this one cannot: it is not waited for without a client.
    pub is_for_one: bool,
    /// Its client takes trailers.
    pub takes_trailers: bool,
    /// The stored response to validate.
    pub stale: Option<Object>,
    /// The invalidation sequence at which it was looked up.
    pub stale_began: Sequence,
    /// A member of our cluster answers it, and keeps what it answers: it is not kept here.
    pub is_forwarded: bool,
    /// The head of the client's request as a member of our cluster would read it, if what is fetched may be pushed to one.
    pub as_sent: Option<Bytes>,
    /// A member of our cluster answers it, and a copy is kept here, because it is hot.
    pub copied: Option<Copied>,
    /// Where what it takes is noted, for the request's record.
    pub trip: Trip,
    /// The right to ask for it, where that is counted.
    pub toll: Option<Rc<Toll>>,
}

impl FetchRequest {
    /// For whom it is.
    pub fn asker(&self) -> Asker<'_> {
        Asker {
            request: &self.request,
            met: &self.met,
            listener: &self.listener,
        }
    }
}

/// For whom a response is, as far as it makes a difference to what is stored of it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The fields of the request.
    pub request: &'a Fields,
    /// The operator's rules that it meets,
    pub met: &'a Met,
    /// of those that hold here.
    pub listener: &'a ListenerState,
}

impl Asker<'_> {
    /// What the operator's rules say of a response to it.
    pub fn decide(&self, status: u16, fields: &Fields) -> Decision {
        let content_type = fields.first(b"content-type");
        let ListenerState { book, rules, .. } = self.listener;
        book.response(self.met, status, content_type, rules)
    }
}
