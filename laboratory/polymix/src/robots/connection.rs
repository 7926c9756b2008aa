//! One of a robot's connections to the proxy. It carries zipf(64) requests, one after the other; then a new one replaces it if more
//! requests are waiting.
//!
//! The proxy may close a kept connection at any time. If it does so before the first byte of an answer, the request is sent once more
//! on a new connection, as other clients do. That is counted, but is no fault.
//!
//! The bytes go over a `stream`: TCP or TLS.
//!
//! Reads use a buffer that all connections share: a connection has a buffer of its own only while a head is incomplete.
//!
//! Limits: an exchange takes `Settings::patience` at most.   Source: spec section 2.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::TcpSocket;
use tokio::time::Instant;

use super::stream::Stream;
use super::{IDLE, Job, Shared};
use crate::answer::{Answer, Finished};
use crate::check::{Expected, Fault};
use crate::name::nth_address;
use crate::random::zipf;
use crate::request::{Method, server_abort};
use crate::server::now_s;
use crate::wire;

//= spec section 2   zipf(64) requests a connection
const REQUESTS: u32 = 64;
/// ENFILE, EMFILE, EADDRNOTAVAIL, ENOBUFS of Linux.
const EXHAUSTED_CODES: [i32; 4] = [23, 24, 99, 105];
const PIECE_BYTES: usize = 64 * 1024;

thread_local! {
    static PIECE: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE_BYTES]);
}

/// How an exchange ends, if not with a fault.
enum Ended {
    Right(Finished, Instant),
    /// Aborted on purpose, by the robot or by the server.
    Aborted,
}

/// Runs this job and then the robot's queued ones, until the queue is empty.
pub(super) async fn run(shared: Rc<Shared>, robot: u32, first: Job) {
    let mut job = Some(first);
    while let Some(first) = job {
        if !shared.take_socket() {
            shared.failed(&first, &Fault::Exhausted);
            job = shared.next(robot);
            continue;
        }
        job = match connect(&shared, robot).await {
            Ok(stream) => {
                shared.opened();
                let next = use_up(&shared, robot, &stream, first).await;
                shared.closed();
                next
            }
            Err(e) => {
                shared.failed(&first, &refused(&e));
                shared.next(robot)
            }
        };
        shared.state.borrow_mut().sockets -= 1;
    }
    shared.gone(robot);
}

async fn connect(shared: &Shared, robot: u32) -> io::Result<Stream> {
    let proxy = shared.settings.proxy;
    let socket = if proxy.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(first) = shared.settings.addresses {
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((nth_address(first, robot), 0)))?;
    }
    let connecting = tokio::time::timeout(shared.settings.patience, socket.connect(proxy));
    let stream = connecting.await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.set_nodelay(true)?;
    let Some(config) = &shared.encryption else {
        return Ok(Stream::plain(stream));
    };
    let shaking = Stream::encrypted(stream, config, proxy.ip());
    let shaken = tokio::time::timeout(shared.settings.patience, shaking).await;
    shaken.map_err(|_| io::ErrorKind::TimedOut)?
}

/// The fault for a connection that failed: this machine's or the proxy's.
fn refused(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(code) if EXHAUSTED_CODES.contains(&code) => Fault::Exhausted,
        _ => Fault::NoConnection,
    }
}

/// Sends requests on one connection. Returns a job that still has to be done on another connection.
async fn use_up(shared: &Rc<Shared>, robot: u32, stream: &Stream, first: Job) -> Option<Job> {
    let mut job = first;
    let requests = zipf(REQUESTS, shared.state.borrow_mut().chance.unit());
    for left in (0..requests).rev() {
        let exchange = exchange(shared, stream, &job, left > 0);
        let ended = tokio::time::timeout(shared.settings.patience, exchange).await;
        let keep = match ended.unwrap_or(Err(Fault::TimedOut)) {
            Ok(Ended::Right(finished, first_byte)) => {
                shared.finished(robot, &job, &finished, first_byte);
                finished.keep_alive
            }
            Ok(Ended::Aborted) => {
                shared.aborted(&job);
                false
            }
            Err(Fault::Closed) if left + 1 < requests && !job.retried => {
                shared.retry(&mut job);
                return Some(job);
            }
            Err(fault) => {
                shared.failed(&job, &fault);
                false
            }
        };
        let next = shared.next(robot);
        if !keep || left == 0 {
            return next;
        }
        job = match next {
            Some(next) => next,
            None if shared.crowded() => return None,
            None => idle(shared, robot, stream).await?,
        };
    }
    None
}

/// Waits for a job on a kept connection; none if the proxy closes it or `IDLE` passes.
async fn idle(shared: &Shared, robot: u32, stream: &Stream) -> Option<Job> {
    let mut job = shared.keep(robot);
    // `biased` looks at the job first, so a job sent to this connection is never lost: no other task runs between the polls.
    tokio::select! {
        biased;
        job = &mut job => job.ok(),
        () = closed(stream) => None,
        () = tokio::time::sleep(IDLE) => None,
    }
}

/// Waits until the proxy closes the connection, or sends something that was not requested.
async fn closed(stream: &Stream) {
    loop {
        match stream.try_read(&mut [0]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
        if stream.readable().await.is_err() {
            return;
        }
    }
}

async fn exchange(
    shared: &Shared,
    stream: &Stream,
    job: &Job,
    keep_alive: bool,
) -> Result<Ended, Fault> {
    let settings = &shared.settings;
    let request = job.request;
    let expected = Expected {
        request,
        exchange: shared.next_exchange(),
        sent_s: now_s(),
        life: request.id.life(settings.life_scale),
        reloaded_ms: shared.state.borrow().reloads.latest_ms(request.id),
    };
    let mut message = Vec::with_capacity(512);
    let modified_s = expected.asked().since_s;
    wire::write_request(
        &request,
        &settings.servers,
        settings.minor,
        expected.exchange,
        modified_s,
        keep_alive,
        &mut message,
    );
    if let Method::Post(bytes) = request.method {
        let end = message.len() + usize::try_from(bytes).expect("a few KB");
        message.resize(end, b'.');
    }
    let mut answer = Answer::new(expected);
    let received = match stream.write_all(&message).await {
        Ok(()) => receive(stream, &mut answer, request.abort).await,
        Err(_) => Err(Fault::Closed),
    };
    match received {
        Ok(None) => Ok(Ended::Aborted),
        Ok(Some((finished, first_byte))) => Ok(Ended::Right(finished, first_byte)),
        Err(Fault::Truncated | Fault::Status(500..600))
            if server_abort(settings.mix, answer.exchange().unwrap_or(expected.exchange))
                .is_some() =>
        {
            Ok(Ended::Aborted)
        }
        Err(fault) => Err(fault),
    }
}

/// Receives the answer, with the time of its first byte; none if the robot aborted it.
async fn receive(
    stream: &Stream,
    answer: &mut Answer,
    abort: bool,
) -> Result<Option<(Finished, Instant)>, Fault> {
    let mut first_byte = None;
    loop {
        let mut has_more = true;
        let read = PIECE.with_borrow_mut(|piece| match stream.try_read(piece) {
            Ok(0) => answer.end().map(Some),
            Ok(n) => {
                first_byte.get_or_insert_with(Instant::now);
                answer.take(&piece[..n], now_s())
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                has_more = false;
                Ok(None)
            }
            Err(_) if answer.begun() => Err(Fault::Truncated),
            Err(_) => Err(Fault::Closed),
        });
        if let Some(finished) = read? {
            let first_byte = first_byte.unwrap_or_else(Instant::now);
            return Ok(Some((finished, first_byte)));
        }
        if abort && answer.body_bytes() > 0 {
            return Ok(None);
        }
        if !has_more {
            // An error here shows again in the read.
            let _ = stream.readable().await;
        }
    }
}

impl Shared {
    fn next_exchange(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.exchange += 1;
        state.exchange
    }

    /// Takes a socket from the budget; false if none is left.
    fn take_socket(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let left = state.sockets < self.settings.sockets_max;
        state.sockets += u64::from(left);
        left
    }

    fn opened(&self) {
        let state = &mut *self.state.borrow_mut();
        state.counted[state.phase].connections += 1;
        state.connections += 1;
        state.connections_max = state.connections_max.max(state.connections);
        let sample = state.series.at(self.began.elapsed());
        sample.connections_max = sample.connections_max.max(state.connections);
    }

    fn crowded(&self) -> bool {
        self.state.borrow().connections > self.settings.kept_max
    }

    fn closed(&self) {
        self.state.borrow_mut().connections -= 1;
    }

    fn retry(&self, job: &mut Job) {
        job.retried = true;
        self.state.borrow_mut().counted[job.phase].retried += 1;
    }

    fn aborted(&self, job: &Job) {
        let state = &mut *self.state.borrow_mut();
        state.in_flight -= 1;
        state.counted[job.phase].aborted += 1;
    }
}
