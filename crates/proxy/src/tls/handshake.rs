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
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use rustls::Error;
use tokio::io::{AsyncRead, ReadBuf};

use super::{
    acme,
    seen::Seen,
    served::ServedTls,
    session::Session,
    stream::{ClientStream, TlsStream},
};
use crate::{
    clock::Instant,
    deadline::Deadlines,
    listener::ListenerState,
    record::metrics::{self, Counters},
    socket::Socket,
    state::Worker,
};

/// The first read: a client's hello is mostly shorter.
const FIRST_BYTES: usize = 4096;
/// The type of the record with which TLS begins.
//= rfc8446 §5.1   handshake(22)
const HANDSHAKE: u8 = 22;

/// What became of a socket.
pub enum Shaken {
    /// An encrypted connection.
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

/// Counted while a handshake goes on.
struct Place<'a>(&'a Counters);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        metrics::sub(&self.0.tls_handshakes_open, 1);
    }
}

/// Makes the handshake. `first`: bytes that were read already.
pub async fn shake(
    worker: &Rc<Worker>,
    listener: &ListenerState,
    served: &Arc<ServedTls>,
    (socket, first): (Socket, BytesMut),
) -> Shaken {
    let (counters, plan) = (&*worker.counters, &listener.edition.plan);
    let open = counters
        .tls_handshakes_open
        .load(std::sync::atomic::Ordering::Relaxed);
    let is_full = open >= u64::from(plan.limits.handshakes_max);
    if is_full && !worker.shaking.make_room(Instant::now()) {
        metrics::add(&counters.tls_handshakes_crowded, 1);
        return Shaken::Failed;
    }
    metrics::add(&counters.tls_handshakes_open, 1);
    let _place = Place(counters);
    let session = match Session::new(&served.config) {
        Ok(session) => session,
        Err(error) => {
            tracing::error!(%error, "TLS cannot be begun");
            metrics::add(&counters.tls_handshakes_failed, 1);
            return Shaken::Failed;
        }
    };
    let mut tls = Box::new(TlsStream::new(socket, session, &worker.tls));
    let watch = Deadlines::watch(&worker.deadlines);
    let shaking = hello_and_rest(&mut tls, &first);
    let limit = plan.timeouts.client_handshake;
    let shaken = watch.limit(limit, pin!(shaking)).await;
    let counted: &AtomicU64 = match shaken {
        Ok(Ok(())) => {
            if tls.agreed().alpn_protocol() == Some(acme::challenges::PROTOCOL) {
                // The authority has seen what it wanted.
                metrics::add(&counters.tls_handshakes_full, 1);
                return Shaken::Failed;
            }
            let seen = Rc::new(Seen::of(tls.session()));
            metrics::add(
                match seen.encryption.is_resumed() {
                    true => &counters.tls_handshakes_resumed,
                    false => &counters.tls_handshakes_full,
                },
                1,
            );
            return Shaken::Done(ClientStream::Tls(tls), seen);
        }
        Ok(Err(Fault::Foreign(first))) => {
            metrics::add(&counters.tls_handshakes_plain, 1);
            return match first.is_ascii_uppercase() {
                true => Shaken::Plain(tls.into_socket()),
                false => Shaken::Failed,
            };
        }
        Ok(Err(Fault::Broken(error))) => {
            tracing::debug!(%error, "a handshake with a client has failed");
            counter_of(&error, counters)
        }
        Err(_) => &counters.tls_handshakes_timed_out,
    };
    metrics::add(counted, 1);
    Shaken::Failed
}

fn counter_of<'a>(error: &io::Error, counters: &'a Counters) -> &'a AtomicU64 {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
            &counters.tls_handshakes_uncertified
        }
        Some(Error::AlertReceived(_)) => &counters.tls_handshakes_declined,
        Some(_) => &counters.tls_handshakes_failed,
        None => &counters.tls_handshakes_left,
    }
}

async fn hello_and_rest(tls: &mut TlsStream, first: &[u8]) -> Result<(), Fault> {
    let mut is_begun = false;
    poll_fn(|cx| {
        if !is_begun {
            ready!(poll_hello(tls, first, cx))?;
            is_begun = true;
        }
        poll_rest(tls, cx).map_err(Fault::Broken)
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

fn poll_rest(tls: &mut TlsStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        ready!(tls.poll_flush(cx))?;
        if !tls.agreed().is_handshaking() {
            return Poll::Ready(Ok(()));
        }
        if !ready!(tls.poll_fill(cx, None))? {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
    }
}
