//! Writing answers to a client: a stored object, a response on its way, an error.
//!
//! Every answer ends in exactly one record for counters and logs ([`Answering::finish`]). Writes are limited by
//! progress, not by length: a client may be slow, not idle. A body that cannot be completed ends with the
//! connection, never with a clean end.
//!
//! Not known here: what to answer (`exchange`), where it comes from (`fetch`).

use crate::clock::Instant;
use std::{io, rc::Rc};

use bytes::{Buf, Bytes};
use fields::Fields;
use httpcache::{ByteRange, Condition, Span, StandingFlags};
use message::{Version, reason_phrase, write_decimal};
use profile::{Class, StageName, access::Hierarchy};

use crate::{
    cache::holding::Holding,
    cache::object::{self, Object},
    conn::client::{After, Conn, Incoming},
    conn::pace::{self, Wrote},
    fetch::flight::{FlightReader, Next},
    fetch::task::Response,
    record::metrics,
    reply::multipart::{Multipart, Piece},
    reply::pieces::{self, Sending},
    request::asking::Kept,
    request::exchange::Wanted,
    state::{Finished, Stages, Worker},
};

/// One request on its way to an answer.
pub struct Answering {
    /// When its first byte was seen.
    pub began: Instant,
    /// Stages so far.
    pub stages: Stages,
    /// What was asked.
    pub asking: Kept,
    /// The number of the route that took it, on a reverse listener.
    pub route: Option<usize>,
    /// Will the connection stay open?
    pub keep_open: bool,
    /// The body broke off where only the end of the connection marks its end: it must not look like one.
    pub abort: bool,
    /// HTTP/1.1, so chunked may be used.
    pub http11: bool,
    /// The client speaks 1.0 and must be told that the connection stays.
    pub say_keep_alive: bool,
    /// Where the answer came from.
    pub hierarchy: Hierarchy,
    /// Whom we asked.
    pub peer: Vec<u8>,
}

/// The client has gone.
#[derive(Debug)]
pub struct Gone;

impl Answering {
    /// Begins with what the head tells.
    pub fn new(worker: &Worker, incoming: &Incoming) -> Answering {
        let mut stages = Stages::default();
        if let Some(accepted) = incoming.accepted {
            let now = Instant::now();
            stages.set(
                StageName::ClientConnect,
                incoming.began,
                accepted,
                incoming.began,
                now,
            );
        }
        let http11 = incoming.head.version == Version::Http11;
        Answering {
            began: incoming.began,
            stages,
            asking: Kept::of(&incoming.head, incoming.head_bytes, worker.logs_access),
            route: None,
            keep_open: incoming.head.keep_alive,
            abort: false,
            http11,
            say_keep_alive: !http11 && incoming.head.keep_alive,
            hierarchy: Hierarchy::None,
            peer: Vec::new(),
        }
    }

    /// Is this a request for the head alone?
    pub fn head_only(&self) -> bool {
        self.asking.method == "HEAD"
    }

    /// Counts and logs the request; says what happens to the connection.
    pub fn finish(&mut self, worker: &Worker, conn: &Conn, sent: &Sent<'_>) -> After {
        if sent.gone {
            metrics::add(&worker.counters.client_aborts, 1);
            self.keep_open = false;
        }
        let ended = Instant::now();
        self.stages.set(
            StageName::ProxyReply,
            self.began,
            sent.started,
            sent.started,
            ended,
        );
        worker.finish(&Finished {
            began: self.began,
            ended,
            class: sent.class,
            status: sent.status,
            bytes_out: sent.bytes,
            stages: self.stages,
            client: conn.peer,
            listener: &conn.listener,
            route: self.route,
            asking: self.asking.with_body(conn.body_bytes.take()),
            content_type: sent.content_type,
            hierarchy: self.hierarchy,
            peer: &self.peer,
            cache_status: sent.cache_status,
        });
        if self.abort {
            After::Abort
        } else if self.keep_open {
            After::KeepOpen
        } else {
            After::Close
        }
    }

    /// The body is not complete: the connection ends, and visibly so where nothing else `marks` the end of it.
    pub fn break_off(&mut self, marked: bool) {
        self.keep_open = false;
        self.abort |= !marked;
    }

    /// Appends `Connection` where it must be said, and ends the head.
    pub fn end_head(&self, out: &mut Vec<u8>) {
        if !self.keep_open {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if self.say_keep_alive {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// What was sent, for the record.
pub struct Sent<'a> {
    /// The class of the request.
    pub class: Class,
    /// Status sent.
    pub status: u16,
    /// Bytes sent.
    pub bytes: u64,
    /// When sending began.
    pub started: Instant,
    /// Content-Type sent.
    pub content_type: &'a [u8],
    /// Our Cache-Status.
    pub cache_status: &'a [u8],
    /// The client did not take all of it.
    pub gone: bool,
}

/// Writes a head and a body; returns the bytes written before the client left, if it did.
pub async fn write_both(
    worker: &Worker,
    conn: &mut Conn,
    head: Bytes,
    body: Bytes,
) -> Result<u64, (Gone, u64)> {
    let (mut head, mut body) = (head, body);
    let total = (head.len() + body.len()) as u64;
    while head.has_remaining() || body.has_remaining() {
        match pace::write_once(worker, conn, &head, &body, None).await {
            Wrote::Some(n) => {
                let of_head = n.min(head.len());
                head.advance(of_head);
                body.advance(n - of_head);
            }
            _ => return Err((Gone, total - (head.len() + body.len()) as u64)),
        }
    }
    Ok(total)
}

/// Appends the Age and Cache-Status lines.
pub fn write_age_and_status(age_s: Option<u32>, cache_status: &[u8], out: &mut Vec<u8>) {
    if let Some(age_s) = age_s {
        out.extend_from_slice(b"Age: ");
        write_decimal(u64::from(age_s), out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"Cache-Status: ");
    out.extend_from_slice(cache_status);
    out.extend_from_slice(b"\r\n");
}

/// Answers with a stored object, or the part of it the request asks for. `class` is that of a plain answer.
///
/// `None`: nothing was sent, because a large object lacks fragments of what is wanted.
pub async fn object(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    wanted: &Wanted,
    object: &Object,
    class: Class,
    cache_status: &[u8],
) -> Option<After> {
    let request: &Fields = &wanted.request;
    let started = Instant::now();
    let age_s = object.standing.age_s(worker.unix_ms(started));
    let conditional = request.contains(b"if-none-match") || request.contains(b"if-modified-since");
    if conditional
        && object.status == 200
        && let Condition::NotModified = httpcache::evaluate(request, &object.fields())
    {
        let class = if class.is_hit() { Class::ImsHit } else { class };
        let fields = httpcache::not_modified_fields(&object.fields());
        let mut out = Vec::with_capacity(512);
        object::write_head(304, "Not Modified", &fields, &mut out);
        out.extend_from_slice(&worker.shared.via_line);
        write_age_and_status(Some(age_s), cache_status, &mut out);
        on.end_head(&mut out);
        let said: Said<'_> = (304, class, b"", cache_status);
        return Some(whole(worker, conn, on, said, out, Bytes::new(), started).await);
    }
    let total = object.body_bytes();
    let range = if request.contains(b"range") && object.status == 200 && !on.head_only() {
        httpcache::byte_range(request, &object.fields(), total)
    } else {
        ByteRange::Whole
    };
    // Before it is asked whether they are there: what is there then stays.
    let mut holding = Holding::of_range(worker.disk.as_ref(), object, &range, on.head_only());
    if !is_there(worker, object, &range, total) {
        return None;
    }
    let mut out = Vec::with_capacity(object.head.len() + 256);
    let mut several = None;
    let (status, from, to) = match range {
        ByteRange::Whole => {
            out.extend_from_slice(&object.head);
            (object.status, 0, total)
        }
        ByteRange::One { first, last } => {
            write_part_head(&object.fields(), Span { first, last }, total, &mut out);
            (206, first, last + 1)
        }
        ByteRange::Several(parts) => {
            let mut fields = object.fields();
            let multipart = Multipart::new(&worker.hasher, &parts, object.content_type(), total);
            let mut length = Vec::new();
            write_decimal(multipart.bytes(), &mut length);
            fields.set(b"Content-Length", &length);
            fields.set(b"Content-Type", &multipart.content_type);
            object::write_head(206, reason_phrase(206), &fields, &mut out);
            several = Some(multipart);
            (206, 0, 0)
        }
        ByteRange::Unsatisfiable => {
            write_unsatisfied_head(total, &mut out);
            (416, 0, 0)
        }
    };
    write_age_and_status(Some(age_s), cache_status, &mut out);
    on.end_head(&mut out);
    let class = if object.standing.flags.contains(StandingFlags::NEGATIVE) && class.is_hit() {
        Class::NegativeHit
    } else {
        class
    };
    let said = (status, class, object.content_type(), cache_status);
    let (pieces, tail) = match several {
        Some(mut multipart) => {
            out.extend_from_slice(&multipart.pieces[0].lead);
            multipart.pieces[0].lead = out.into();
            (multipart.pieces, multipart.tail)
        }
        None if object.large.is_some() && !on.head_only() && from < to => {
            let (lead, range) = (out.into(), from..to);
            (vec![Piece { lead, range }], Bytes::new())
        }
        None => {
            let body = if on.head_only() || from >= to {
                Bytes::new()
            } else {
                object.body.slice(from as usize..to as usize)
            };
            return Some(whole(worker, conn, on, said, out, body, started).await);
        }
    };
    let (mut bytes, mut gone) = (0, false);
    let holding = &mut holding;
    match pieces::send(
        worker, conn, wanted, object, holding, pieces, tail, &mut bytes,
    )
    .await
    {
        Sending::NotBegun => return None,
        Sending::Sent => {}
        Sending::Lost => on.keep_open = false,
        Sending::Gone => gone = true,
    }
    let (status, class, content_type, cache_status) = said;
    let sent = Sent {
        class,
        status,
        bytes,
        started,
        content_type,
        cache_status,
        gone,
    };
    Some(on.finish(worker, conn, &sent))
}

/// Are the bytes there? Asked before anything is sent, of the index: it may still turn out otherwise.
//= rfc9111 §3.3   an incomplete response answers only what lies wholly within it
fn is_there(worker: &Worker, object: &Object, range: &ByteRange, total: u64) -> bool {
    let (Some(large), Some(disk)) = (&object.large, &worker.disk) else {
        return object.large.is_none();
    };
    let has = |from: u64, to: u64| {
        let missing = disk.missing(object.primary, &object.key, large, from..to);
        missing.is_empty()
    };
    match range {
        ByteRange::Whole => has(0, total),
        ByteRange::One { first, last } => has(*first, *last + 1),
        ByteRange::Several(parts) => parts.iter().all(|part| has(part.first, part.last + 1)),
        ByteRange::Unsatisfiable => true,
    }
}

/// The head of a 206 with one part, but for Age, Cache-Status and its end.
pub fn write_part_head(
    fields: &Fields,
    part: Span,
    total: impl Into<Option<u64>>,
    out: &mut Vec<u8>,
) {
    let mut fields = fields.clone();
    let mut value = Vec::new();
    httpcache::write_content_range(part.first, part.last, total, &mut value);
    fields.set(b"Content-Range", &value);
    value.clear();
    write_decimal(part.len(), &mut value);
    fields.set(b"Content-Length", &value);
    object::write_head(206, reason_phrase(206), &fields, out);
}

/// The head of a 416, but for Age, Cache-Status and its end.
pub fn write_unsatisfied_head(total: u64, out: &mut Vec<u8>) {
    let mut value = Vec::new();
    httpcache::write_unsatisfied_range(total, &mut value);
    let mut fields = Fields::new();
    fields.push(b"Content-Range", &value);
    fields.push(b"Content-Length", b"0");
    object::write_head(416, reason_phrase(416), &fields, out);
}

/// Status, class, content type, Cache-Status: what the record says of an answer.
pub type Said<'a> = (u16, Class, &'a [u8], &'a [u8]);

/// Sends a head and a body that is at hand.
pub async fn whole(
    worker: &Worker,
    conn: &mut Conn,
    on: &mut Answering,
    (status, class, content_type, cache_status): Said<'_>,
    head: Vec<u8>,
    body: Bytes,
    started: Instant,
) -> After {
    let result = write_both(worker, conn, head.into(), body).await;
    let (bytes, gone) = match result {
        Ok(bytes) => (bytes, false),
        Err((Gone, bytes)) => (bytes, true),
    };
    on.finish(
        worker,
        conn,
        &Sent {
            class,
            status,
            bytes,
            started,
            content_type,
            cache_status,
            gone,
        },
    )
}

/// Passes a response on while it arrives, or the one part of it that the request asks for.
///
/// `None`: nothing was sent, because what the fetch no longer keeps has been lost from disk.
#[allow(clippy::too_many_arguments)]
pub async fn arriving(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    request: &Fields,
    reader: &FlightReader,
    response: &Response,
    class: Class,
    cache_status: &[u8],
) -> Option<After> {
    let started = Instant::now();
    let is_shared = class == Class::Collapsed;
    let mut head = Vec::with_capacity(response.head.len() + 256);
    let part = part_of(request, on, response);
    let mut status = response.status;
    // Body bytes still to be sent, where that is not all of them.
    let mut left = u64::MAX;
    let chunked = match (part, response.length, response.bodiless) {
        (Some((Some(part), total)), ..) => {
            write_part_head(&response.fields, part, total, &mut head);
            if !is_shared {
                head.extend_from_slice(&response.withheld);
            }
            reader.advance(part.first);
            (status, left) = (206, part.len());
            false
        }
        (Some((None, total)), ..) => {
            write_unsatisfied_head(total, &mut head);
            (status, left) = (416, 0);
            false
        }
        (None, length, bodiless) => {
            head.extend_from_slice(&response.head);
            if !is_shared {
                head.extend_from_slice(&response.withheld);
            }
            match (length, bodiless) {
                (_, true) => false,
                (Some(length), _) => {
                    head.extend_from_slice(b"Content-Length: ");
                    write_decimal(length, &mut head);
                    head.extend_from_slice(b"\r\n");
                    false
                }
                (None, _) if on.http11 => {
                    head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                    true
                }
                (None, _) => {
                    on.keep_open = false;
                    false
                }
            }
        }
    };
    let age_s = response.standing.age_s(worker.unix_ms(started));
    //= rfc9111 §5.1   an answer that was not made for this request has an age, be it 0
    let told = (age_s > 0 || is_shared).then_some(age_s);
    write_age_and_status(told, cache_status, &mut head);
    on.end_head(&mut head);
    let mut head = Bytes::from(head);
    let mut bytes = 0u64;
    let mut gone = false;
    let mut begun = false;
    let mut holding = Holding::default();
    let mut held = worker.shared.flights.hold_fragment();
    loop {
        if on.head_only() || response.bodiless || left == 0 {
            // A part is through: the fetch goes on for the others and the store.
            match write_both(worker, conn, std::mem::take(&mut head), Bytes::new()).await {
                Ok(n) => bytes += n,
                Err((Gone, n)) => (bytes, gone) = (bytes + n, true),
            }
            break;
        }
        held.set(0);
        let piece = match reader.next().await {
            Next::Piece(piece) => piece,
            Next::Stored {
                number,
                skip,
                key,
                fetch_id,
            } => {
                let found = match &worker.disk {
                    Some(disk) => {
                        let primary = reader.flight.primary;
                        let fetch = (primary, &key[..], fetch_id);
                        holding.load_of_fetch(disk, fetch, number).await
                    }
                    None => None,
                };
                match found.filter(|f| f.len() > skip) {
                    Some(found) if chunked => {
                        // The chunk's length is said before it, so nothing of it can be given back.
                        holding.read(worker.disk.as_ref(), number);
                        held.set(found.len() as u64);
                        reader.advance((found.len() - skip) as u64);
                        found.slice(skip..)
                    }
                    Some(found) => {
                        let end = found.len();
                        let most = usize::try_from(left).unwrap_or(usize::MAX);
                        let part = skip..skip.saturating_add(most).min(end);
                        let sent =
                            pieces::write_held(worker, conn, &mut head, found, part, &mut bytes);
                        let Ok(sent) = sent.await else {
                            gone = true;
                            break;
                        };
                        reader.advance(sent as u64);
                        begun = true;
                        if left != u64::MAX {
                            left -= sent as u64;
                        }
                        if skip + sent == end {
                            // Not before: what was given back is read again.
                            holding.read(worker.disk.as_ref(), number);
                        }
                        continue;
                    }
                    None if !begun => return None,
                    None => {
                        metrics::add(&worker.counters.body_laggards_cut, 1);
                        on.break_off(chunked || response.length.is_some());
                        break;
                    }
                }
            }
            Next::End(trailers) => {
                if let Some((start, end)) = reader.flight.swap_out() {
                    on.stages.set(StageName::SwapOut, on.began, start, end, end);
                }
                let mut end = Vec::new();
                if chunked {
                    // `head` ends the last chunk, if there was one.
                    match trailers {
                        Some(trailers) => http1::write_trailers(&trailers, &mut end),
                        None => end.extend_from_slice(http1::LAST_CHUNK),
                    }
                }
                match write_both(worker, conn, std::mem::take(&mut head), end.into()).await {
                    Ok(n) => bytes += n,
                    Err((Gone, n)) => (bytes, gone) = (bytes + n, true),
                }
                break;
            }
            Next::Broken(broken) => {
                if broken == crate::fetch::flight::Broken::Lagged {
                    metrics::add(&worker.counters.body_laggards_cut, 1);
                }
                // What is there goes out, then the connection ends: the client sees that it is not all.
                if let Ok(n) =
                    write_both(worker, conn, std::mem::take(&mut head), Bytes::new()).await
                {
                    bytes += n;
                }
                on.break_off(chunked || response.length.is_some());
                break;
            }
        };
        if piece.is_empty() {
            continue;
        }
        begun = true;
        let piece = piece.slice(..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        if left != u64::MAX {
            left -= piece.len() as u64;
        }
        let result = if chunked {
            let mut lead = Vec::with_capacity(head.len() + 12);
            lead.extend_from_slice(&std::mem::take(&mut head));
            http1::write_chunk_header(piece.len(), &mut lead);
            let sent = write_both(worker, conn, lead.into(), piece).await;
            // The end of this chunk goes out with the next one, or with the last.
            head = Bytes::from_static(b"\r\n");
            sent
        } else {
            write_both(worker, conn, std::mem::take(&mut head), piece).await
        };
        match result {
            Ok(n) => bytes += n,
            Err((Gone, n)) => {
                bytes += n;
                gone = true;
                break;
            }
        }
    }
    let (at, len) = response.content_type;
    let content_type = response
        .head
        .get(usize::from(at)..usize::from(at) + usize::from(len))
        .unwrap_or_default();
    Some(on.finish(
        worker,
        conn,
        &Sent {
            class,
            status,
            bytes,
            started,
            content_type,
            cache_status,
            gone,
        },
    ))
}

/// The part of an arriving response that a request asks for, `None` if there is none, and the length of all; nothing if it
/// asks for the whole, for several parts, or if the length is not known yet.
fn part_of(request: &Fields, on: &Answering, response: &Response) -> Option<(Option<Span>, u64)> {
    let total = response.length?;
    if response.status != 200 || on.head_only() || !request.contains(b"range") {
        return None;
    }
    match httpcache::byte_range(request, &response.fields, total) {
        //= rfc9110 §14.2   may ignore Range: several parts of what is not there yet are not waited for
        ByteRange::Whole | ByteRange::Several(_) => None,
        ByteRange::One { first, last } => Some((Some(Span { first, last }), total)),
        ByteRange::Unsatisfiable => Some((None, total)),
    }
}

/// An answer of our own, with a sentence for the person who sees it.
pub async fn own(
    worker: &Worker,
    conn: &mut Conn,
    on: &mut Answering,
    status: u16,
    reason: &str,
    extra: &[(&[u8], &[u8])],
    cache_status: &[u8],
) -> After {
    let started = Instant::now();
    let (head, body) = own_bytes(worker, on, status, reason, extra, cache_status);
    let class = if status < 400 {
        Class::Uncachable
    } else {
        Class::Error
    };
    whole(
        worker,
        conn,
        on,
        (status, class, b"text/plain", cache_status),
        head,
        body,
        started,
    )
    .await
}

fn own_bytes(
    worker: &Worker,
    on: &Answering,
    status: u16,
    reason: &str,
    extra: &[(&[u8], &[u8])],
    cache_status: &[u8],
) -> (Vec<u8>, Bytes) {
    let body = if reason.is_empty() {
        String::new()
    } else {
        format!("{status} {}\n{reason}\n", reason_phrase(status))
    };
    let mut fields = Fields::new();
    fields.push(b"Date", &httpcache::format_date(worker.now_ms()));
    if !body.is_empty() {
        fields.push(b"Content-Type", b"text/plain; charset=utf-8");
    }
    fields.push(b"Cache-Control", b"no-store");
    for (name, value) in extra {
        fields.push(name, value);
    }
    let mut out = Vec::with_capacity(256);
    object::write_head(status, reason_phrase(status), &fields, &mut out);
    out.extend_from_slice(b"Content-Length: ");
    write_decimal(body.len() as u64, &mut out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&worker.shared.via_line);
    if !cache_status.is_empty() {
        write_age_and_status(None, cache_status, &mut out);
    }
    on.end_head(&mut out);
    let body = if on.head_only() {
        Bytes::new()
    } else {
        body.into()
    };
    (out, body)
}

/// Refuses a request whose head could not be understood; the connection is closed afterwards.
pub async fn refuse(worker: &Worker, conn: &mut Conn, status: u16, reason: &str, began: Instant) {
    let mut on = Answering {
        began,
        stages: Stages::default(),
        asking: Kept::nonsense(),
        route: None,
        keep_open: false,
        abort: false,
        http11: true,
        say_keep_alive: false,
        hierarchy: Hierarchy::None,
        peer: Vec::new(),
    };
    own(worker, conn, &mut on, status, reason, &[], b"").await;
}

/// Writes bytes as they are, for interim responses and tunnels' first answer.
pub async fn raw(worker: &Worker, conn: &mut Conn, bytes: Vec<u8>) -> io::Result<()> {
    write_both(worker, conn, bytes.into(), Bytes::new())
        .await
        .map(|_| ())
        .map_err(|_| io::ErrorKind::BrokenPipe.into())
}
