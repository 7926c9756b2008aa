//! Sends hits over HTTP/2.
//!
//! The block of a hit's head is encoded once and kept beside the object; Age and Cache-Status are appended to it. If a rule changes the
//! answer, the changed lines are encoded for this request only.

use std::{net::SocketAddr, rc::Rc};

use bytes::Bytes;
use profile::Protocol;

use super::{block::write_head, link::Stream};
use crate::{
    hit::answer::{By, Head, Sink, Taken},
    listener::ListenerState,
};
use ledger::Ledger;
use tls::seen::Seen;

/// The client and listener of a request.
#[derive(Clone)]
pub struct Who {
    /// The listener that accepted the connection.
    pub listener: Rc<ListenerState>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address of our direct peer.
    pub hop: SocketAddr,
    /// The TLS session's parameters; `None`: the connection is not encrypted.
    pub tls: Option<Rc<Seen>>,
}

impl Who {
    /// The same as references.
    pub fn by(&self) -> By<'_> {
        By {
            client: self.peer,
            tls: self.tls.as_deref(),
            listener: &self.listener,
        }
    }
}

/// Writes the block of a hit's head. `kept`: the object's encoded block, if there is one.
fn write_block(head: &Head<'_>, kept: Option<&[u8]>, out: &mut Vec<u8>) {
    let Head { object, .. } = head;
    match (head.changed, kept) {
        (Some(lines), _) => write_head(object.status, lines, out),
        (None, Some(block)) => out.extend_from_slice(block),
        (None, None) => write_head(object.status, &object.head, out),
    }
    http2::write_field(b"age", head.age, out);
    http2::write_field(b"cache-status", head.cache_status, out);
}

/// Sends a hit in memory: the head stays in the worker's output, and the connection's task sends it with the body.
pub struct ByConnection<'a> {
    /// The object's encoded block, if there is one.
    pub block: Option<&'a [u8]>,
}

impl Sink for ByConnection<'_> {
    const PROTOCOL: Protocol = Protocol::Http2;

    fn write_head(&self, head: &Head<'_>, out: &mut Vec<u8>) {
        write_block(head, self.block, out);
    }

    fn send(&mut self, _: &mut Vec<u8>, _: &Bytes) -> Taken {
        Taken::All
    }
}

/// Sends a hit that the stream's task has read from disk.
pub struct ByStream<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// Counts the body while it is queued.
    pub ledger: &'a Ledger,
}

impl Sink for ByStream<'_> {
    const PROTOCOL: Protocol = Protocol::Http2;

    fn write_head(&self, head: &Head<'_>, out: &mut Vec<u8>) {
        write_block(head, None, out);
    }

    fn send(&mut self, head: &mut Vec<u8>, body: &Bytes) -> Taken {
        if self.stream.is_gone() {
            return Taken::Gone;
        }
        self.stream.begin(head, body.is_empty());
        if !body.is_empty() {
            let holder = self.stream.holder(self.ledger);
            self.stream.piece(holder.count(body.clone()));
            self.stream.end(None);
        }
        Taken::All
    }
}
