//! Turns a finished request into counters, the profile's record and the access log's entry.
//!
//! Every request ends here. Names in a record are hashed with a secret key that siblings do not know.
//!
//! Not known here: how the request was answered, how a record is written.

use base::clock::Instant;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use profile::{
    Class, Encryption, Flags, Hierarchy, Method, Names, Protocol, Record, access::Asking,
    access::Entry,
};

use crate::{
    listener::{ListenerState, RouteState},
    state::Worker,
};
use record::{
    facts::{Facts, Stages, us_between},
    metrics,
};
use rules::rulebook::Tag;
use tls::seen::Seen;

/// A finished request, for counters and logs.
pub struct Finished<'a> {
    /// When it began: when its connection was accepted, or, for a later request on it, when its first byte was seen.
    pub began: Instant,
    /// When its first byte was seen: latencies are counted from here.
    pub seen: Instant,
    /// When the last byte of the answer was written.
    pub ended: Instant,
    /// How it was answered.
    pub class: Class,
    /// The status sent; 0 if none.
    pub status: u16,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// The request's stages.
    pub stages: Stages,
    /// The client's address.
    pub client: SocketAddr,
    /// The encryption of the client's connection; `None`: there is none.
    pub tls: Option<&'a Seen>,
    /// The listener that accepted the request.
    pub listener: &'a ListenerState,
    /// The number of the route that matched, on a reverse listener.
    pub route: Option<usize>,
    /// The request, for the access log.
    pub asking: Asking<'a>,
    /// Did the request have a body?
    pub has_body: bool,
    /// The protocol of the request.
    pub http_client: Protocol,
    /// Content-Type of the answer.
    pub content_type: &'a [u8],
    /// Further facts for the profile, and the server that the request was forwarded to.
    pub facts: Facts,
    /// The origin that was asked, or empty.
    pub peer: &'a [u8],
    /// Our Cache-Status value.
    pub cache_status: &'a [u8],
    /// The tag that the operator's rules gave the request.
    pub tag: Option<Tag>,
}

impl Finished<'_> {
    /// The route that matched.
    fn route(&self) -> Option<&RouteState> {
        self.listener.routes.get(self.route?)
    }
}

impl Worker {
    /// Counts and logs a finished request.
    pub fn finish(&self, done: &Finished<'_>) {
        let us = us_between(done.seen, done.ended);
        self.counters.finish(done.class, done.bytes_out, us);
        let encryption = done.tls.map_or(Encryption::None, |tls| tls.encryption);
        self.counters
            .protocols
            .request(done.http_client, encryption);
        let row = done.listener.rows.of(done.route);
        self.counters.answered(row, done.status, done.bytes_out);
        if let Some(tag) = done.tag {
            done.listener.edition.rule_counts.tagged(tag);
        }
        self.counters.staged(done.class, &done.stages.0);
        // A cluster member is not an origin.
        if !matches!(done.facts.hierarchy, Hierarchy::None | Hierarchy::Node) {
            self.note_origin(done);
        }
        if !self.journals() {
            return;
        }
        let (asking, route) = (&done.asking, done.route());
        let facts = &done.facts;
        let record = Record {
            flags: facts.flags.with(Flags::TLS_CLIENT, done.tls.is_some()),
            http_client: done.http_client,
            encryption,
            http_server: facts.http_server,
            hierarchy: facts.hierarchy,
            total_us: us_between(done.began, done.ended),
            class: done.class,
            status: done.status,
            method: Method::of(asking.method),
            bytes_out: done.bytes_out,
            bytes_in: facts.bytes_in,
            object_bytes: facts.object_bytes,
            device_reads: facts.device_reads,
            names: self.names(done),
            worker: u8::try_from(self.index).unwrap_or(u8::MAX),
            peer: facts.peer,
            store: facts.store,
            cluster: facts.cluster,
            stages: done.stages.0,
            ..Record::begun(self.unix_us(done.began))
        };
        let mut journal = self.journal.borrow_mut();
        let lost = if self.logs_access.get() {
            journal.note(&Entry {
                record,
                client: done.client.ip(),
                listener: done.listener.name.as_bytes(),
                tls: done.tls.map(Seen::logged).unwrap_or_default(),
                asking: done.asking,
                content_type: done.content_type,
                peer: done.peer,
                origin: route.map_or(b"", |route| route.origin.as_bytes()),
                cache_status: done.cache_status,
                tag: done.listener.book.tag(done.tag),
            })
        } else {
            journal.note_record(&record)
        };
        if lost > 0 {
            metrics::add(&self.counters.log_records_lost, lost);
        }
    }

    /// Hashes of the key, client and server, if the profile is to contain them.
    fn names(&self, done: &Finished<'_>) -> Option<Names> {
        let logs = &done.listener.edition.plan.logs;
        let is_wanted = logs.profile_keys && self.shared.events.are_wanted();
        is_wanted.then(|| Names {
            key: self.hash_of_key(done.facts.key),
            client: match logs.profile_clients {
                true => self.hash_of_client(done.client.ip()),
                false => 0,
            },
            server: self.hash_of_server(done.facts.server.as_ref()),
        })
    }

    /// The primary hash of a resource, hashed again with a secret that siblings do not know; 0 stays 0, *there is none*.
    fn hash_of_key(&self, primary: u64) -> u64 {
        match primary {
            0 => 0,
            _ => self.pseudonyms.of(&primary.to_le_bytes()).max(1),
        }
    }

    /// A client's address, hashed with the same secret; never 0, which means *not recorded*.
    fn hash_of_client(&self, client: IpAddr) -> u32 {
        let mut bytes = [0; 17];
        // This prefix keeps addresses and keys from sharing a hash.
        bytes[0] = b'@';
        bytes[1..].copy_from_slice(&match client.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        });
        (self.pseudonyms.of(&bytes) as u32).max(1)
    }

    /// Host and port of a server, hashed with the same secret; 0: there is none.
    fn hash_of_server(&self, server: Option<&(Arc<str>, u16)>) -> u32 {
        server.map_or(0, |(host, port)| {
            let (host, port) = (&**host, Some(*port));
            let name = message::Authority { host, port }.to_text();
            (self.pseudonyms.of(name.as_bytes()) as u32).max(1)
        })
    }

    /// Records how long the origin of a finished request took. An origin that is not a route's is recorded by name only if the names
    /// of requested resources are counted anyway (`shared.top`).
    fn note_origin(&self, done: &Finished<'_>) {
        let name = match done.route() {
            Some(route) => Some(&*route.origin),
            None if self.shared.top.is_some() => std::str::from_utf8(done.peer).ok(),
            None => None,
        };
        let has_failed = done.facts.flags.contains(Flags::ORIGIN_ABORTED)
            || done.facts.was_saved
            || done.class == Class::Error && done.status >= 500;
        let us = (!has_failed)
            .then(|| done.stages.asked_us(done.has_body))
            .flatten();
        if us.is_some() || has_failed {
            self.counters.origins.note(name, us);
        }
    }
}
