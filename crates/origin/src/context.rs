//! The context of a request to an origin: the parts of the worker's thread that it uses, its bounds, and the traits by which others take part.
//!
//! Not known here: workers, upstreams, mirrors, the cluster. They implement the traits.

use std::{cell::RefCell, pin::Pin, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use message::Framing;

use crate::{connect::Connector, outcome::UpstreamError};
use base::{
    heads::Heads,
    member::{OfMember, Refusal},
    socket::Socket,
};
use ledger::Ledger;
use record::metrics::Counters;

/// The parts of a worker's thread that a request to an origin uses.
pub struct OriginContext {
    /// Connections: pooled and new ones.
    pub connector: Connector,
    /// Memory for heads that are not complete yet.
    pub heads: Rc<Heads>,
    /// Counts the memory of bodies under way.
    pub ledger: Ledger,
    /// The worker's buffer into which a read goes first.
    pub input: Rc<RefCell<Box<[u8]>>>,
    /// The counters to update.
    pub counters: Arc<Counters>,
}

/// The bounds of one request to an origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginWaits {
    /// The wait for the head of the answer.
    pub first_byte: Duration,
    /// The wait for progress while the request is written.
    pub write: Duration,
    /// The wait between two reads of the answer's body.
    pub idle_read: Duration,
    /// The limits for the head of an answer.
    pub limits: http1::Limits,
}

/// Is told the outcome of a request to a server that was chosen among several. Dropped when that server's answer is over.
pub trait Verdict {
    /// The server has answered with this status.
    fn answered(&self, status: u16);
    /// There was no connection to it, or no answer.
    fn failed(&self, error: &UpstreamError);
}

/// Changes or checks a body between the origin and its readers.
pub trait BodyFilter {
    /// The framing of the body as the origin sends it.
    fn framing(&self) -> Framing;
    /// Takes the next piece, and returns the bytes that may be passed on.
    fn take(&mut self, piece: Bytes) -> Option<Bytes>;
    /// Called at the end of the body: returns the bytes that the filter still holds. A second call returns `None`.
    ///
    /// # Errors
    /// The body is not the expected one.
    fn end(&mut self) -> Result<Option<Bytes>, UpstreamError>;
}

/// The end of an introduction.
pub type Introduced<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'a>>;

/// How a connection to a member of the cluster begins.
pub trait Introduction {
    /// Both sides prove that they have the cluster's key; then the connection takes requests for the member's listener.
    fn introduce<'a>(&'a self, to: OfMember, stream: &'a mut Socket) -> Introduced<'a>;
}
