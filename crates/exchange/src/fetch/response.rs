//! The input and the result of a fetch.
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

/// Why a fetch has no response.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The origin could not be asked, or its head could not be read.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The fetching task ended early (shutdown).
    #[error("the fetch was abandoned")]
    Abandoned,
}

impl FetchError {
    /// The status for the client's answer.
    pub fn status(&self) -> u16 {
        match self {
            FetchError::Upstream(error) => error.status(),
            FetchError::Abandoned => 503,
        }
    }

    /// The reason for the client's answer.
    pub fn for_client(&self) -> String {
        match self {
            FetchError::Upstream(error) => error.for_client(),
            FetchError::Abandoned => self.to_string(),
        }
    }

    /// Seconds after which a retry is worthwhile; `None`: not known.
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

/// A response in the form that is sent and stored.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields without hop-by-hop ones, Content-Length, Age and those for the asking client only; Via and Date added.
    pub fields: Fields,
    /// Status line and `fields`, ready to send.
    pub head: Bytes,
    /// Field lines behind the head, for the asking client only (`httpcache::take_withheld`, `take_cookies`).
    pub withheld: Bytes,
    /// The position of Content-Type's value in `head`.
    pub content_type: (u16, u16),
    /// Length of the body, if it is known from the head.
    pub length: Option<u64>,
    /// This status has no body and no Content-Length (204, 304).
    pub bodiless: bool,
    /// Age and freshness.
    pub standing: Standing,
    /// May it be stored?
    pub storable: Result<(), NotStorable>,
    /// Is the response being stored, on disk or in memory?
    pub stored: bool,
    /// Why it is not, although it may be stored.
    pub not_stored: Option<&'static str>,
    /// The fields of the request it answers, for [`httpcache::may_share`].
    pub asked_with: Arc<Fields>,
    /// The operator's rules for the response.
    pub decision: Decision,
    /// A cluster member sends it: see [`FetchRequest`].
    pub is_forwarded: bool,
    /// A reader with a part of the body can get the rest by another request.
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

    /// Bytes of head and body as stored, for a body of `body` bytes.
    pub fn stored_bytes(&self, body: u64) -> u64 {
        let of_length = match self.bodiless {
            true => 0,
            false => b"Content-Length: \r\n".len() as u64 + u64::from(body.max(1).ilog10()) + 1,
        };
        self.head.len() as u64 + of_length + body
    }

    /// Adds `stored` if the response is being stored. Not for a body of unknown length, which may yet prove too long.
    //= rfc9211 §2.5   stored: whether the cache stored the response
    pub fn say_stored<'a>(&self, line: CacheStatus<'a>) -> CacheStatus<'a> {
        match self.stored && self.length.is_some() {
            true => line.stored(true),
            false => line,
        }
    }

    /// Adds the reason why the response is not stored.
    pub fn say_why_not<'a>(&self, line: CacheStatus<'a>) -> CacheStatus<'a> {
        let forbidden = self.storable.err().map(|reason| reason.as_str());
        match forbidden.or(self.not_stored) {
            Some(reason) => line.detail(reason),
            None => line,
        }
    }
}

/// The input of a fetch.
#[derive(Clone)]
pub struct FetchRequest {
    /// The listener of the request; its rules limit the destinations.
    pub listener: Rc<ListenerState>,
    /// The origin to ask.
    pub asked: Asked,
    /// The client's complete fields, for the caching rules.
    pub request: Arc<Fields>,
    /// The key of the resource.
    pub key: Vec<u8>,
    /// The operator's rules that match the request.
    pub met: Met,
    /// Values that rules make part of a variant's key.
    pub extras: Vec<u8>,
    /// Another tag's response is stored under the same name, so this one becomes a variant.
    pub is_contested: bool,
    /// The origin gets the client's conditions: nothing stored is validated, and a 304 is for the client.
    pub is_conditional: bool,
    /// The version of the client's request.
    pub version: Version,
    /// The last answer could not be shared or stored, and this one probably cannot: stop the fetch if its client leaves.
    pub is_for_one: bool,
    /// The client accepts trailers.
    pub takes_trailers: bool,
    /// The stored response to validate.
    pub stale: Option<Object>,
    /// The invalidation sequence at the stored response's look-up.
    pub stale_began: Sequence,
    /// A cluster member answers and stores the response, so it is not stored here.
    pub is_forwarded: bool,
    /// The head of the client's request as a member would read it, if the response may be pushed.
    pub as_sent: Option<Bytes>,
    /// A cluster member answers, and a copy is kept here because the object is hot.
    pub copied: Option<Copied>,
    /// Measures the request to the origin, for the record.
    pub trip: Trip,
    /// The right to ask the origin, if quotas count fetches.
    pub toll: Option<Rc<Toll>>,
}

impl FetchRequest {
    /// The request that the response is for.
    pub fn asker(&self) -> Asker<'_> {
        Asker {
            request: &self.request,
            met: &self.met,
            listener: &self.listener,
        }
    }
}

/// The request that a response is for, as far as the caching rules depend on it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The fields of the request.
    pub request: &'a Fields,
    /// The operator's rules that match the request.
    pub met: &'a Met,
    /// The listener of the request.
    pub listener: &'a ListenerState,
}

impl Asker<'_> {
    /// The operator's rules for a response to this request.
    pub fn decide(&self, status: u16, fields: &Fields) -> Decision {
        let content_type = fields.first(b"content-type");
        let ListenerState { book, rules, .. } = self.listener;
        book.response(self.met, status, content_type, rules)
    }
}
