//! The short way: a fresh object in memory, asked for plainly.
//!
//! No wait, no allocation, no formatting machinery: key in scratch space, one look-up, two numbers appended to
//! the stored head, one write. Anything out of the ordinary (a directive, a condition, a range, a body, a
//! stale object) answers [`Fast::NotHere`] and takes the long way.
//!
//! An object that is not in memory but on disk is nearly as plain: [`Fast::OnDisk`] has its extent pinned, and
//! [`from_disk`] reads, verifies and sends it. An object that is large or not fresh goes on to the long way
//! together with the request: nothing is parsed or read again.

use base::clock::Instant;
use std::{io::ErrorKind, io::IoSlice, rc::Rc};

use bytes::Bytes;
use http1::RequestView;
use httpcache::{StandingFlags, UnixMillis};
use message::{Framing, Seen, Version, write_decimal};
use profile::{Class, Flags, Protocol, StageName, access::Asking};

use crate::{
    conn::{
        look::{self, Asker, Fresh, Looked, NOT_PLAIN, Passed, Pinned, Plain},
        socket::Conn,
    },
    listener::ListenerState,
    reply::{After, Reply, h1::H1},
    request::{
        asking::{self, Kept},
        body::RequestBody,
        changing::HitChanging,
        exchange::Exchange,
        finished::Finished,
        incoming::{Absent, Incoming},
        methods,
        notes::Notes,
        target,
    },
    state::Worker,
};
use cache::{disk::Unread, object::Object, preloaded::Preloaded};
use ledger::pause;
use record::{
    facts::{Facts, Stages},
    metrics,
};
use rules::rulebook::Tag;

/// A longer body that is read from disk counts in the ledger until it is sent.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// Bodies up to this are copied behind the head and sent as one buffer: cheaper than a vectored write.
const COPY_BYTES_MAX: usize = 4096;

/// What became of a request here.
pub enum Fast {
    /// It is a hit.
    Hit(Sent),
    /// Not for this way.
    NotHere,
    /// Neither in memory nor on disk.
    Absent(Absent),
    /// Not in memory: to be read from disk.
    OnDisk(Box<OnDisk>),
}

/// How far a hit was sent.
pub enum Sent {
    /// All of it. True: the client may send another request.
    All(bool),
    /// As far as the socket took it.
    Some(Box<Unsent>),
    /// The client has gone.
    Gone,
}

/// A plain request whose object is on disk.
pub struct OnDisk {
    /// The request, in case the long way must be taken.
    incoming: Incoming,
    pinned: Pinned,
}

impl OnDisk {
    /// When its connection was accepted, if it is the first request on it.
    pub fn accepted(&self) -> Option<Instant> {
        self.incoming.accepted
    }
}

/// An answer that the socket has not taken all of.
pub struct Unsent {
    head: Vec<u8>,
    body: Bytes,
    /// Bytes that it took.
    sent: u64,
    status: u16,
    /// When its first write began.
    started: Instant,
    keep_open: bool,
    record: Notes,
}

/// Answers the request if it can be answered here.
pub fn answer(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    view: &RequestView<'_, '_>,
    began: Instant,
    accepted: Option<Instant>,
) -> Fast {
    if view.method != "GET"
        || view.seen.intersects(NOT_PLAIN)
        || view.version != Version::Http11
        || !matches!(view.framing, Framing::None | Framing::Length(0))
        || (view.seen.intersects(Seen::UPGRADE) && asks_to_switch(view))
    {
        return Fast::NotHere;
    }
    // Its own, since sending changes the connection.
    let listener = Rc::clone(&conn.listener);
    let client = conn.peer.ip();
    let mut front = worker.front.borrow_mut();
    let asker = Asker {
        listener: &listener,
        client,
        is_member: conn.member.is_some(),
        standing: &mut conn.standing,
    };
    let plain = Plain {
        target: view.target,
        host: view.host,
        fields: view,
    };
    let fresh = match look::look(worker, &mut front, asker, plain, began) {
        Looked::Fresh(fresh) => fresh,
        Looked::Long => return Fast::NotHere,
        Looked::Absent(absent) => return Fast::Absent(absent),
        Looked::OnDisk(pinned) => {
            return Fast::OnDisk(Box::new(OnDisk {
                incoming: Incoming {
                    has_passed: pinned.passed.is_some(),
                    ..Incoming::new(view, began, accepted)
                },
                pinned: *pinned,
            }));
        }
    };
    let Fresh {
        resident,
        hash,
        place,
        rules,
        passed,
    } = fresh;
    let object = &resident.object;
    let mut stages = Stages::default();
    if let (true, Some(accepted)) = (worker.journals(), accepted) {
        stages.set(StageName::ClientConnect, accepted, accepted, began, began);
    }
    let hit = Hit {
        object,
        now: worker.unix_ms(began),
        class: Class::MemoryHit,
        began: accepted.unwrap_or(began),
        seen: began,
        started: began,
        stages,
        facts: Facts::of_hit(accepted.is_some(), hash.0, object.stored_bytes()),
        route: place.route_number(),
        keep_open: view.keep_alive,
        asking: asking::of(view, worker.logs_access.get()),
        tag: rules.tag,
        changing: rules.changing(&place, view, client, || worker.next_id()),
        passed,
    };
    Fast::Hit(hit.send(worker, conn))
}

/// Might the upgrade be honoured? Others (h2c, which some clients always offer) are ordinary requests.
fn asks_to_switch(view: &RequestView<'_, '_>) -> bool {
    view.first(b"upgrade").is_some_and(methods::may_switch_to)
}

/// Puts the head of a hit together; returns where our Cache-Status lies in it.
fn write_hit_head(
    prefix: &[u8],
    object: &Object,
    now: UnixMillis,
    keep_open: bool,
    changing: Option<(&HitChanging<'_>, &ListenerState)>,
    out: &mut Vec<u8>,
) -> (usize, usize) {
    out.clear();
    out.extend_from_slice(&object.head);
    if let Some((changing, listener)) = changing {
        let mut cache_status = Vec::with_capacity(48);
        let ttl_s = object.standing.ttl_s(now);
        httpcache::cache_status::write_hit(prefix, ttl_s, &mut cache_status);
        let kind = (object.status, object.content_type());
        changing.change(listener, kind, &cache_status, out);
    }
    out.extend_from_slice(b"Age: ");
    write_decimal(u64::from(object.standing.age_s(now)), out);
    out.extend_from_slice(b"\r\nCache-Status: ");
    let from = out.len();
    httpcache::cache_status::write_hit(prefix, object.standing.ttl_s(now), out);
    let to = out.len();
    if keep_open {
        out.extend_from_slice(b"\r\n\r\n");
    } else {
        out.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    }
    (from, to)
}

/// Writes head and body as far as the socket takes them now; `None` when the client has gone.
fn send(conn: &mut Conn, head: &mut Vec<u8>, body: &Bytes) -> Option<usize> {
    let result = if body.len() <= COPY_BYTES_MAX {
        let head_len = head.len();
        head.extend_from_slice(body);
        let result = conn.stream.try_write(head);
        head.truncate(head_len);
        result
    } else {
        conn.stream
            .try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
    };
    match result {
        Ok(sent) => Some(sent),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}

/// A stored object that answers a plain request.
struct Hit<'a> {
    object: &'a Object,
    now: UnixMillis,
    class: Class,
    /// As in [`Finished`].
    began: Instant,
    seen: Instant,
    /// When the answer began.
    started: Instant,
    stages: Stages,
    facts: Facts,
    route: Option<usize>,
    keep_open: bool,
    asking: Asking<'a>,
    tag: Option<Tag>,
    /// What changes the fields of its answer.
    changing: Option<HitChanging<'a>>,
    passed: Passed,
}

impl Hit<'_> {
    /// Sends it as far as the socket takes it now; if that is all of it, counts and logs it.
    fn send(self, worker: &Worker, conn: &mut Conn) -> Sent {
        let Hit {
            object, keep_open, ..
        } = self;
        let mut out = worker.output.borrow_mut();
        let prefix = &conn.listener.edition.hit_prefix;
        let changing = self.changing.as_ref().map(|it| (it, &*conn.listener));
        let (from, to) = write_hit_head(prefix, object, self.now, keep_open, changing, &mut out);
        let sent = send(conn, &mut out, &object.body);
        let class = match object.standing.flags.contains(StandingFlags::NEGATIVE) {
            true => Class::NegativeHit,
            false => self.class,
        };
        let (content_type, cache_status) = (object.content_type(), &out[from..to]);
        let (began, started) = (self.began, self.started);
        let (mut stages, mut facts) = (self.stages, self.facts);
        if let Some(sent) = sent
            && sent < out.len() + object.body.len()
        {
            let asking = Kept::of_asking(self.asking, Protocol::Http11);
            let mut record = Notes::new(asking, self.seen, Some(began));
            record.begun(class, (stages, facts), content_type, cache_status);
            (record.route, record.tag) = (self.route, self.tag);
            record.bill = self.passed.flatten();
            let of_head = sent.min(out.len());
            return Sent::Some(Box::new(Unsent {
                head: out[of_head..].to_vec(),
                body: object.body.slice(sent - of_head..),
                sent: sent as u64,
                status: object.status,
                started,
                keep_open,
                record,
            }));
        }
        let ended = Instant::now();
        if sent.is_none() {
            metrics::add(&worker.counters.client_aborts, 1);
            facts.flag(Flags::CLIENT_ABORTED);
            // The stages of others than memory hits are counted too (`Counters::staged`).
        } else if worker.journals() || class != Class::MemoryHit {
            stages.set(StageName::ProxyReply, began, started, ended, ended);
        }
        if let Some(Some(bill)) = &self.passed {
            bill.pay(sent.unwrap_or(0) as u64);
        }
        worker.finish(&Finished {
            began,
            seen: self.seen,
            ended,
            class,
            status: object.status,
            bytes_out: sent.unwrap_or(0) as u64,
            stages,
            client: conn.peer,
            tls: conn.tls.as_deref(),
            listener: &conn.listener,
            route: self.route,
            asking: self.asking,
            has_body: false,
            http_client: Protocol::Http11,
            content_type,
            facts,
            peer: b"",
            cache_status,
            tag: self.tag,
        });
        match sent {
            Some(_) => Sent::All(keep_open),
            None => Sent::Gone,
        }
    }
}

/// Reads an object from disk and sends it: one read, one write. True: the connection stays. `Err`: the request must take the long
/// way, and takes along what was read.
pub async fn from_disk(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on_disk: Box<OnDisk>,
) -> Result<bool, Box<Incoming>> {
    let OnDisk {
        mut incoming,
        pinned,
    } = *on_disk;
    let Pinned {
        guard,
        key,
        hash,
        route,
        sequence,
        removals,
        rules,
        passed,
    } = pinned;
    let shared = &worker.shared;
    let bytes = guard.read().len;
    let mut held = None;
    if bytes > COUNTED_BYTES_MIN {
        let (ledger, watch) = (&shared.ledger, Rc::clone(&conn.watch));
        let (holder, paused) = (conn.holder(ledger), &worker.counters.transfers_paused);
        let room = pause::room_for_whole(ledger, &holder, bytes, &watch, paused);
        // Boxed, so that an idle connection stays small.
        held = Some(Box::pin(room).await);
    }
    let loaded = match &worker.storage.disk {
        Some(disk) => disk.finish_load(guard, hash, &key).await,
        None => Err(Unread::Absent),
    };
    let read = Instant::now();
    let (object, swap_in) = match loaded {
        Ok(loaded) => {
            shared.cache.take_along(loaded.beside, sequence);
            (loaded.object, loaded.swap_in)
        }
        Err(unread) => {
            match unread {
                Unread::Absent => {}
                Unread::GivenUp => incoming.skips_disk = true,
                Unread::Other(other) => incoming.other = Some(other),
            }
            return Err(Box::new(incoming));
        }
    };
    let now = worker.unix_ms(read);
    if object.large.is_some()
        || !object.standing.is_fresh_for(conn.listener.foreign, now)
        || !shared.cache.still_valid(&object, sequence)
    {
        incoming.loaded = Some(Box::new(Preloaded {
            object,
            swap_in,
            began: sequence,
            removals,
        }));
        return Err(Box::new(incoming));
    }
    let (seen, mut stages) = (incoming.began, Stages::default());
    let began = incoming.accepted.unwrap_or(seen);
    if let Some(accepted) = incoming.accepted {
        stages.set(StageName::ClientConnect, began, accepted, seen, seen);
    }
    let listener = Rc::clone(&conn.listener);
    let head = &incoming.head;
    let place = match rules.changes {
        true => target::locate(&listener, "GET", &head.target, head.host.as_deref()).ok(),
        false => None,
    };
    let (fields, client) = (&incoming.head.fields, conn.peer.ip());
    let changing = (place.as_ref())
        .and_then(|place| rules.changing(place, fields, client, || worker.next_id()));
    let asking = asking::of_head(head, incoming.head_bytes, worker.logs_access.get());
    let is_first = incoming.accepted.is_some();
    let mut facts = Facts::of_hit(is_first, hash.0, object.stored_bytes());
    if let Some(swap_in) = swap_in {
        facts.swapped_in(&mut stages, began, swap_in);
    }
    let hit = Hit {
        object: &object,
        now,
        class: Class::DiskHit,
        began,
        seen,
        started: read,
        stages,
        facts,
        route,
        keep_open: incoming.head.keep_alive,
        asking,
        tag: rules.tag,
        changing,
        passed,
    };
    let sent = hit.send(worker, conn);
    shared
        .cache
        .memory
        .promote(&object, |object| shared.cache.may_publish(object, sequence));
    let keep_open = match sent {
        Sent::All(keep_open) => keep_open,
        Sent::Some(unsent) => {
            // Of a short one only what the socket does not take at once is held for long.
            let rest = unsent.body.len();
            held.get_or_insert_with(|| conn.holder(&shared.ledger).hold(rest));
            send_rest(worker, conn, *unsent).await
        }
        Sent::Gone => false,
    };
    drop(held);
    Ok(keep_open)
}

/// Sends what the socket did not take at once. False when the connection is over.
pub async fn send_rest(worker: &Rc<Worker>, conn: &mut Conn, unsent: Unsent) -> bool {
    let Unsent {
        head,
        body,
        sent,
        status,
        started,
        keep_open,
        record,
    } = unsent;
    let (listener, member) = (Rc::clone(&conn.listener), conn.member);
    let (peer, hop) = (conn.peer, conn.hop);
    let body_of_request = RequestBody::framed(Framing::None, &listener.edition.limits);
    let reply = H1::new(worker, conn, Version::Http11, false, keep_open);
    let mut ex = Exchange {
        worker,
        listener,
        peer,
        hop,
        member,
        body: body_of_request,
        reply: Reply::H1(reply.resume((status, sent, started), head, body.len())),
        record,
    };
    if let Ok(()) = ex.reply.piece(body).await {
        let _ = ex.reply.end(None).await;
    }
    ex.finish() == After::KeepOpen
}
