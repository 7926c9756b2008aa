//! A hit as HTTP/2 sends it.
//!
//! The block of its head is encoded once and kept beside the object; Age and Cache-Status follow it. What a rule changes in an
//! answer is changed in its lines, and encoded for this request alone.

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

/// Whose request it is.
#[derive(Clone)]
pub struct Who {
    /// The listener that it came in by.
    pub listener: Rc<ListenerState>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address of whoever asks us.
    pub hop: SocketAddr,
    /// What is known of TLS.
    pub tls: Option<Rc<Seen>>,
}

impl Who {
    /// The same, lent.
    pub fn by(&self) -> By<'_> {
        By {
            client: self.peer,
            tls: self.tls.as_deref(),
            listener: &self.listener,
        }
    }
}

/// Writes the block of a hit's head. `kept`: that of its object, if it is at hand.
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

/// A hit in memory: its head stays in the worker's output, from where the connection's task sends it with the body.
pub struct ByConnection<'a> {
    /// The block of its head.
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

/// A hit that the stream's task has read.
pub struct ByStream<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// Where its body counts as long as it is queued; what goes to memory counts there.
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
