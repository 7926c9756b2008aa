//! An origin that does what a script says: answers, garbage, silence, half an answer.
//!
//! One thread accepts, one serves each connection. The script is called once a request and writes raw bytes.

use std::{
    collections::BTreeMap,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::{
    client,
    wire::{Fields, Wire, framing},
};

/// A request as the origin received it.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: ::wire::Request,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// How many requests for its target there were, this one included.
    pub nth: usize,
}

impl std::ops::Deref for Request {
    type Target = ::wire::Request;

    fn deref(&self) -> &::wire::Request {
        &self.head
    }
}

impl Request {
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.fields.get(name)
    }
}

/// A request being answered.
pub struct Exchange {
    pub request: Request,
    /// How many requests there were on this connection, this one included.
    pub nth_here: usize,
    pub wire: Wire,
    closing: bool,
    body_read: bool,
}

impl Exchange {
    pub fn path(&self) -> &str {
        &self.request.target
    }

    pub fn nth(&self) -> usize {
        self.request.nth
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.request.field(name)
    }

    /// Sends raw bytes; a proxy that has gone is not our concern.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.wire.send(bytes);
    }

    /// Reads the request's body: data and trailers.
    pub fn body(&mut self) -> (Vec<u8>, Fields) {
        self.body_read = true;
        let framing = framing(self.request.head.framing());
        let (data, trailers, cut) = self.wire.body(framing);
        assert_eq!(cut, None);
        (data, trailers)
    }

    /// Closes the connection when the script is done.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The same with a reset.
    pub fn reset(&mut self) {
        self.closing = true;
        client::reset(self.wire.stream());
    }
}

type Script = dyn Fn(&mut Exchange) + Send + Sync;

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    /// Copies of the open connections, to end them with.
    sockets: Mutex<BTreeMap<usize, TcpStream>>,
    stopping: AtomicBool,
}

/// An origin; ends when dropped.
pub struct Origin {
    pub address: SocketAddr,
    log: Arc<Log>,
    accepting: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts one on a port of its own.
    pub fn start(script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let script: Arc<Script> = Arc::new(script);
        let accepting = thread::spawn({
            let log = Arc::clone(&log);
            move || accept(&listener, &log, &script)
        });
        Origin {
            address,
            log,
            accepting: Some(accepting),
        }
    }

    /// One that always sends the same bytes.
    pub fn sending(bytes: impl Into<Vec<u8>>) -> Origin {
        let bytes = bytes.into();
        Origin::start(move |exchange| exchange.send(&bytes))
    }

    /// What was received, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.log.requests).clone()
    }

    /// How many requests there were for this target.
    pub fn count(&self, target: &str) -> usize {
        let requests = lock(&self.log.requests);
        requests.iter().filter(|r| r.target == target).count()
    }

    /// The last request received.
    pub fn last(&self) -> Request {
        lock(&self.log.requests).last().expect("a request").clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.log.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in lock(&self.log.sockets).values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, log: &Arc<Log>, script: &Arc<Script>) {
    for connection in 0.. {
        let (stream, _) = listener.accept().unwrap();
        if log.stopping.load(Ordering::SeqCst) {
            return;
        }
        let copy = stream.try_clone().unwrap();
        lock(&log.sockets).insert(connection, copy);
        let (log, script) = (Arc::clone(log), Arc::clone(script));
        thread::spawn(move || {
            let _leaving = Leaving(&log, connection);
            serve(Wire::new(stream), connection, &log, &script);
        });
    }
}

/// Lets go of the copy, which would keep the connection open, also when a script panics.
struct Leaving<'a>(&'a Log, usize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        lock(&self.0.sockets).remove(&self.1);
    }
}

fn serve(mut wire: Wire, connection: usize, log: &Log, script: &Arc<Script>) {
    for nth_here in 1.. {
        let Ok(head) = wire.request_head() else { break };
        let request = {
            let mut requests = lock(&log.requests);
            let before = requests.iter().filter(|r| r.target == head.target);
            let request = Request {
                nth: before.count() + 1,
                connection,
                head,
            };
            requests.push(request.clone());
            request
        };
        let mut exchange = Exchange {
            request,
            nth_here,
            wire,
            closing: false,
            body_read: false,
        };
        script(&mut exchange);
        if exchange.closing {
            break;
        }
        if !exchange.body_read {
            exchange.body();
        }
        wire = exchange.wire;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
