//! What origins are asked with: what it needs of the thread that it runs on, its bounds, and who hears what comes of it.
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

/// What asking an origin needs of the thread that it runs on.
pub struct OriginContext {
    /// Connections: pooled and new ones.
    pub connector: Connector,
    /// What is kept of heads that are not complete.
    pub heads: Rc<Heads>,
    /// Bodies on their way.
    pub ledger: Ledger,
    /// Where a read first lands.
    pub input: Rc<RefCell<Box<[u8]>>>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// The bounds of one request to an origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginWaits {
    /// For the head of its answer.
    pub first_byte: Duration,
    /// Without progress in writing.
    pub write: Duration,
    /// Between two reads of its body.
    pub idle_read: Duration,
    /// How much of a head is accepted.
    pub limits: http1::Limits,
}

/// Hears what comes of asking a server that was chosen among several. It is dropped when the server's answer is over.
pub trait Verdict {
    /// The server has answered with this status.
    fn answered(&self, status: u16);
    /// There was no connection to it, or no answer.
    fn failed(&self, error: &UpstreamError);
}

/// Changes a body, or checks it, between the origin and everybody else.
pub trait BodyFilter {
    /// How the body comes from the origin.
    fn framing(&self) -> Framing;
    /// The next piece in, what can be told of it out.
    fn take(&mut self, piece: Bytes) -> Option<Bytes>;
    /// The body is over: what is left of it. A second time nothing is.
    ///
    /// # Errors
    /// The body is not what was promised.
    fn end(&mut self) -> Result<Option<Bytes>, UpstreamError>;
}

/// The end of an introduction.
pub type Introduced<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'a>>;

/// How a connection to a member of the cluster begins.
pub trait Introduction {
    /// Both sides prove that they have the cluster's key; then the connection takes requests for the member's listener.
    fn introduce<'a>(&'a self, to: OfMember, stream: &'a mut Socket) -> Introduced<'a>;
}
