//! From an accepted socket to an encrypted connection.
//!
//! A handshake costs a worker a third of a millisecond, and a client that stops in it some kilobytes. So it must be complete within
//! `timeouts.client-handshake`, and a worker has at most `limits.handshakes-max` at a time; for a connection beyond, the
//! one that has lasted longest is given up (`crowd`), or it is closed at once. Each handshake is counted by how it ended, once.
//!
//! A client that speaks plain HTTP is told so in plain HTTP.
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

/// The first read: a client's hello is mostly shorter.
const FIRST_BYTES: usize = 4096;
/// The type of the record with which TLS begins.
//= rfc8446 §5.1   handshake(22)
const HANDSHAKE: u8 = 22;

/// What a handshake needs of the thread that it runs on.
pub struct TlsContext {
    /// Handshakes that go on.
    pub crowd: Crowd,
    /// Where records of encrypted connections come and go.
    pub scratch: Rc<Scratch>,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// What became of a socket.
pub enum Shaken {
    /// An encrypted connection. If something came early, its handshake goes on ([`ClientStream::is_early`]).
    Done(ClientStream, Rc<Seen>),
    /// The client speaks plain HTTP.
    Plain(Socket),
    /// It is over.
    Failed,
}

/// Why it failed.
enum Fault {
    /// What came is no TLS, and begins like this.
    Foreign(u8),
    Broken(io::Error),
}

/// Makes the handshake. `first`: bytes that were read already.
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
        // The authority has seen what it wanted.
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

/// Reads the first bytes, which tell whether it is TLS at all.
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
