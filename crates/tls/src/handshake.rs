//! From an accepted socket to an encrypted connection.
//!
//! A handshake costs a worker a third of a millisecond, and one that stalls costs some kilobytes. So a handshake must be complete within
//! `timeouts.client-handshake`, and a worker has at most `limits.handshakes-max` of them. For a further connection the oldest
//! handshake is given up (`crowd`), or else the new connection is closed at once. Each handshake is counted once, by its outcome.
//!
//! A client that speaks plain HTTP gets an answer in plain HTTP.
//!
//! Not known here: certificates, requests.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

use super::{
    acme,
    crowd::Crowd,
    seen::Seen,
    served::ServedTls,
    session::{Scratch, Session},
    shaking::{Early, Shaking},
    stream::{ClientStream, TlsStream},
};
use base::{clock::Instant, deadline::Deadlines, socket::Socket};
use plan::Plan;
use record::metrics::{self, Counters};

/// The size of the first read: most client hellos are shorter.
const FIRST_BYTES: usize = 4096;
/// The type of the record with which TLS begins.
//= rfc8446 §5.1   handshake(22)
const HANDSHAKE: u8 = 22;

/// The parts of a worker's thread that a handshake uses.
pub struct TlsContext {
    /// Handshakes under way.
    pub crowd: Crowd,
    /// Buffers for the records of encrypted connections.
    pub scratch: Rc<Scratch>,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// The counters to update.
    pub counters: Arc<Counters>,
}

/// The outcome of a handshake.
pub enum Shaken {
    /// An encrypted connection. If early data came, its handshake is still under way ([`ClientStream::is_early`]).
    Done(ClientStream, Rc<Seen>),
    /// The client speaks plain HTTP.
    Plain(Socket),
    /// The connection is over.
    Failed,
}

/// Why a handshake failed.
enum Fault {
    /// The client does not speak TLS; this is its first byte.
    Foreign(u8),
    Broken(io::Error),
}

/// Makes the handshake. `first`: bytes that are read already.
pub async fn shake(
    context: &TlsContext,
    plan: &Plan,
    served: &Arc<ServedTls>,
    (socket, first): (Socket, BytesMut),
) -> Shaken {
    let counters = &*context.counters;
    let open = counters
        .tls_handshakes_open
        .load(std::sync::atomic::Ordering::Relaxed);
    let is_full = open >= u64::from(plan.limits.handshakes_max);
    if is_full && !context.crowd.make_room(Instant::now()) {
        metrics::add(&counters.tls_handshakes_crowded, 1);
        return Shaken::Failed;
    }
    let shaking = Shaking::begin(&context.counters);
    let session = match Session::new(&served.config) {
        Ok(session) => session,
        Err(error) => {
            tracing::error!(%error, "TLS cannot be begun");
            metrics::add(&counters.tls_handshakes_failed, 1);
            return Shaken::Failed;
        }
    };
    let mut tls = Box::new(TlsStream::new(socket, session, &context.scratch));
    let watch = Deadlines::watch(&context.deadlines);
    let limit = plan.timeouts.client_handshake;
    let until = Instant::now() + limit;
    let came = (watch.limit(limit, pin!(hello_and_rest(&mut tls, &first)))).await;
    match came {
        Ok(Ok(())) => {}
        Ok(Err(Fault::Foreign(first))) => {
            shaking.was_foreign();
            return match first.is_ascii_uppercase() {
                true => Shaken::Plain(tls.into_socket()),
                false => Shaken::Failed,
            };
        }
        Ok(Err(Fault::Broken(error))) => {
            shaking.failed(&error);
            return Shaken::Failed;
        }
        Err(_) => {
            shaking.timed_out();
            return Shaken::Failed;
        }
    }
    if tls.agreed().alpn_protocol() == Some(acme::challenges::PROTOCOL) {
        // The authority's check is complete.
        shaking.completed(false);
        return Shaken::Failed;
    }
    let seen = Rc::new(Seen::of(tls.session()));
    match tls.agreed().is_handshaking() {
        true => tls.begin_early(Early::new(shaking, until)),
        false => shaking.completed(seen.encryption.is_resumed()),
    }
    Shaken::Done(ClientStream::Tls(tls), seen)
}

async fn hello_and_rest(tls: &mut TlsStream, first: &[u8]) -> Result<(), Fault> {
    let mut is_begun = false;
    poll_fn(|cx| {
        if !is_begun {
            ready!(poll_hello(tls, first, cx))?;
            is_begun = true;
        }
        tls.poll_handshake(cx, true).map_err(Fault::Broken)
    })
    .await
}

/// Reads the first bytes, which show whether the client speaks TLS.
fn poll_hello(tls: &mut TlsStream, first: &[u8], cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
    let mut space = [0; FIRST_BYTES];
    let mut buf = ReadBuf::new(&mut space);
    let bytes = match first.is_empty() {
        false => first,
        true => {
            ready!(Pin::new(tls.socket_mut()).poll_read(cx, &mut buf)).map_err(Fault::Broken)?;
            buf.filled()
        }
    };
    let Some(&kind) = bytes.first() else {
        return Poll::Ready(Err(Fault::Broken(ErrorKind::UnexpectedEof.into())));
    };
    if kind != HANDSHAKE {
        return Poll::Ready(Err(Fault::Foreign(kind)));
    }
    Poll::Ready(tls.feed(bytes, cx).map_err(Fault::Broken))
}
