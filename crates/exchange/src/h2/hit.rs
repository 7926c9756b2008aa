//! A stored object as the answer to a plain request.
//!
//! The block of its head is encoded once and kept beside the object; Age and Cache-Status follow it. What a rule changes in an
//! answer is changed in its lines, and encoded for this request alone.

use std::{net::SocketAddr, rc::Rc};

use httpcache::{StandingFlags, UnixMillis};
use message::write_decimal;
use profile::{Class, Protocol, StageName, access::Asking};

use crate::{
    conn::look::Passed,
    listener::ListenerState,
    request::{changing::HitChanging, finished::Finished},
    state::Worker,
};
use base::clock::Instant;
use cache::object::Object;
use record::facts::{Facts, Stages};
use rules::rulebook::Tag;
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

/// The block of an object's head, as it is kept.
pub fn block_of(object: &Object) -> Vec<u8> {
    let mut block = Vec::with_capacity(object.head.len());
    write_head(object.status, &object.head, &mut block);
    block
}

/// Writes status line and field lines as a block.
pub fn write_head(status: u16, lines: &[u8], out: &mut Vec<u8>) {
    http2::write_status(status, out);
    let fields = lines.iter().position(|&byte| byte == b'\n');
    http2::write_lines(&lines[fields.map_or(lines.len(), |at| at + 1)..], out);
}

/// A stored object that answers a plain request.
pub struct Hit<'a> {
    pub who: &'a Who,
    pub object: &'a Object,
    /// The block of its head, if that is at hand.
    pub block: Option<&'a [u8]>,
    pub now: UnixMillis,
    pub class: Class,
    /// As in [`Finished`].
    pub began: Instant,
    pub seen: Instant,
    /// When the answer began.
    pub started: Instant,
    pub stages: Stages,
    pub facts: Facts,
    pub route: Option<usize>,
    pub asking: Asking<'a>,
    pub tag: Option<Tag>,
    /// What changes the fields of its answer.
    pub changing: Option<HitChanging<'a>>,
    pub passed: Passed,
}

impl Hit<'_> {
    /// Writes the head of the answer into `out`, counts and logs the request. `said` is scratch space.
    pub fn answer(self, worker: &Worker, said: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Hit { object, who, .. } = self;
        let (standing, listener) = (&object.standing, &*who.listener);
        said.clear();
        let prefix = &listener.edition.hit_prefix;
        httpcache::cache_status::write_hit(prefix, standing.ttl_s(self.now), said);
        out.clear();
        match (&self.changing, self.block) {
            (Some(changing), _) => {
                let mut lines = object.head.to_vec();
                let kind = (object.status, object.content_type());
                changing.change(listener, kind, said, &mut lines);
                write_head(object.status, &lines, out);
            }
            (None, Some(block)) => out.extend_from_slice(block),
            (None, None) => write_head(object.status, &object.head, out),
        }
        let end = said.len();
        write_decimal(u64::from(standing.age_s(self.now)), said);
        http2::write_field(b"age", &said[end..], out);
        said.truncate(end);
        http2::write_field(b"cache-status", said, out);
        let class = match standing.flags.contains(StandingFlags::NEGATIVE) {
            true => Class::NegativeHit,
            false => self.class,
        };
        let mut stages = self.stages;
        let ended = Instant::now();
        if worker.journals() || class != Class::MemoryHit {
            stages.set(
                StageName::ProxyReply,
                self.began,
                self.started,
                ended,
                ended,
            );
        }
        let bytes = (out.len() + object.body.len()) as u64;
        if let Some(Some(bill)) = &self.passed {
            bill.pay(bytes);
        }
        worker.finish(&Finished {
            began: self.began,
            seen: self.seen,
            ended,
            class,
            status: object.status,
            bytes_out: bytes,
            stages,
            client: who.peer,
            tls: who.tls.as_deref(),
            listener,
            route: self.route,
            asking: self.asking,
            has_body: false,
            http_client: Protocol::Http2,
            content_type: object.content_type(),
            facts: self.facts,
            peer: b"",
            cache_status: said,
            tag: self.tag,
        });
    }
}
