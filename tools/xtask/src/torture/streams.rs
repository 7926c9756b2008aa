//! Clients of HTTP/2 over TLS during upgrades, in addition to the other clients: by the crate `h2`, which is not ours.
//!
//! [`CONNECTIONS`] connections with [`STREAMS`] bodies each, of objects that are in the store and not in memory, in turn. A body
//! that began must arrive whole, byte by byte, through every upgrade and through the stop at the end. The last stream of GOAWAY is read
//! from the wire ([`goaway`](super::goaway)): a stream above it is repeated on a new connection, a stream up to it must arrive whole. The
//! objects never change and have no validator, so lost bytes cannot be fetched again unnoticed.
//!
//! A kill excuses what it cuts, as for other clients. A refused connection without a kill is an error.
//!
//! Limits: one thread; waits of [`WAIT_MAX`].

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::bodies::{Url, Variant};
use super::clients::{Life, Shared};
use super::goaway::Overheard;
use crate::failure::{During, Result};
use crate::http::WAIT_MAX;

const CONNECTIONS: usize = 4;
const STREAMS: usize = 8;
/// Pause between two pieces of a body: a body takes some tenths of a second, so that most of an upgrade happens during bodies.
const PAUSE: Duration = Duration::from_millis(8);
/// Pause before a connection is retried, or before a killed proxy is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Half of the connections have windows like Go's client; the others have small ones that are opened often, and a small receive buffer.
const WIDE: [u32; 2] = [4 << 20, 1 << 30];
const NARROW: [u32; 2] = [400_000, 400_000];
const NARROW_BYTES: u32 = 32 << 10;

/// Counters.
#[derive(Debug, Default)]
struct Counters {
    whole: AtomicU64,
    whole_bytes: AtomicU64,
    hits: AtomicU64,
    cut: AtomicU64,
    cut_by_kills: AtomicU64,
    asked_again: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

/// The results.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Came {
    pub whole: u64,
    pub whole_bytes: u64,
    /// Whole bodies that came from the store.
    pub hits: u64,
    /// Bodies that broke off, or had wrong bytes: must be 0.
    pub cut: u64,
    /// Bodies that broke off because of a kill.
    pub cut_by_kills: u64,
    /// Streams above the last one of GOAWAY, and refused ones; these were repeated.
    pub asked_again: u64,
    pub connections: u64,
    /// Connections refused without a kill: must be 0.
    pub refused: u64,
}

impl Came {
    /// The results in one line.
    pub fn text(&self) -> String {
        format!(
            "HTTP/2 over TLS: {} bodies came whole ({:.1} MiB, {} of them hits), {} were cut, {} by kills; {} were asked again after GOAWAY; \
             {} connections, {} refused",
            self.whole,
            self.whole_bytes as f64 / f64::from(1 << 20),
            self.hits,
            self.cut,
            self.cut_by_kills,
            self.asked_again,
            self.connections,
            self.refused
        )
    }

    /// The reason why the results are a failure, if they are.
    pub fn complaint(&self) -> Option<String> {
        if self.cut > 0 || self.refused > 0 {
            return Some(format!(
                "over HTTP/2 {} bodies were cut and {} connections refused",
                self.cut, self.refused
            ));
        }
        (self.whole == 0).then(|| "no body came over HTTP/2".into())
    }
}

/// The clients; dropping it ends them.
pub struct Streams {
    all: Arc<All>,
    thread: Option<JoinHandle<()>>,
}

struct All {
    shared: Arc<Shared>,
    counters: Counters,
    next: AtomicU64,
    /// The proxy stops: connections may be refused.
    is_stopping: AtomicBool,
    stop: AtomicBool,
}

impl Streams {
    /// Starts all clients.
    pub fn start(
        shared: &Arc<Shared>,
        address: SocketAddr,
        connector: TlsConnector,
    ) -> Result<Self> {
        let all = Arc::new(All::new(shared));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .during(|| "making a runtime".into())?;
        let playing = Arc::clone(&all);
        let thread = std::thread::spawn(move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async {
                let mut tasks = tokio::task::JoinSet::new();
                for number in 0..CONNECTIONS {
                    let (all, connector) = (Arc::clone(&playing), connector.clone());
                    tasks.spawn_local(async move { all.work(number, address, &connector).await });
                }
                while let Some(ended) = tasks.join_next().await {
                    if ended.is_err() {
                        playing.shared.wrong("a client of HTTP/2 panicked");
                    }
                }
            });
        });
        Ok(Self {
            all,
            thread: Some(thread),
        })
    }

    /// The proxy will be stopped: bodies that began must still arrive whole.
    pub fn expect_stop(&self) {
        self.all.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Makes no more requests; waits for those in flight.
    pub fn end(&mut self) {
        self.all.stop.store(true, Ordering::SeqCst);
        if self.thread.take().is_some_and(|it| it.join().is_err()) {
            self.all.shared.wrong("the thread of HTTP/2 panicked");
        }
    }

    /// The results so far.
    pub fn came(&self) -> Came {
        self.all.counters.came()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.end();
    }
}

impl Counters {
    fn came(&self) -> Came {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Came {
            whole: of(&self.whole),
            whole_bytes: of(&self.whole_bytes),
            hits: of(&self.hits),
            cut: of(&self.cut),
            cut_by_kills: of(&self.cut_by_kills),
            asked_again: of(&self.asked_again),
            connections: of(&self.connections),
            refused: of(&self.refused),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How one request ended.
enum Ended {
    Whole {
        hit: bool,
    },
    /// The connection takes no more requests.
    NotSent,
    /// The request was sent and not processed.
    NotBegun,
    Cut(String),
}

/// One connection.
struct Link {
    sender: SendRequest<Bytes>,
    authority: String,
    /// The last stream that will be answered.
    last: Rc<Cell<u32>>,
    /// The number of the life in which it was opened.
    life: u64,
    is_over: Cell<bool>,
    /// Requests to be repeated on another connection.
    again: RefCell<Vec<Url>>,
}

impl All {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            counters: Counters::default(),
            next: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// Uses one connection after the other, until told to stop.
    async fn work(&self, number: usize, address: SocketAddr, connector: &TlsConnector) {
        let is_wide = number.is_multiple_of(2);
        let mut again = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let life = self.shared.life.number();
            if !Life::is_one(life) {
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            let opened = timeout(WAIT_MAX, open(address, connector, is_wide)).await;
            match opened.unwrap_or_else(|_| Err(format!("not within {WAIT_MAX:?}"))) {
                Ok(stream) => {
                    again = self.play(stream, is_wide, address, life, again).await;
                }
                Err(why) => {
                    self.refused(life, &why);
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    fn refused(&self, life: u64, why: &str) {
        let is_expected =
            self.shared.life.has_turned_since(life) || self.is_stopping.load(Ordering::SeqCst);
        if !is_expected {
            count(&self.counters.refused);
            self.shared
                .wrong(&format!("a connection for HTTP/2 was refused: {why}"));
        }
    }

    /// Makes requests on a connection until it takes no more; returns those to be repeated.
    async fn play<S>(
        &self,
        stream: S,
        is_wide: bool,
        address: SocketAddr,
        life: u64,
        again: Vec<Url>,
    ) -> Vec<Url>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let last = Rc::new(Cell::new(u32::MAX));
        let overheard = Overheard::new(stream, Rc::clone(&last));
        let [window, of_connection] = if is_wide { WIDE } else { NARROW };
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(window)
            .initial_connection_window_size(of_connection);
        let (sender, connection) = match builder.handshake::<_, Bytes>(overheard).await {
            Ok(both) => both,
            Err(error) => {
                self.refused(life, &error.to_string());
                return again;
            }
        };
        count(&self.counters.connections);
        let connection = tokio::task::spawn_local(async move {
            // The streams report how it ended.
            let _ = connection.await;
        });
        let link = Link {
            sender,
            authority: address.to_string(),
            last,
            life,
            is_over: Cell::new(false),
            again: RefCell::new(again),
        };
        let streams: [_; STREAMS] = std::array::from_fn(|_| self.one_by_one(&link));
        join_all(streams).await;
        let again = link.again.take();
        drop(link.sender);
        // The client sends GOAWAY and closes.
        let _ = timeout(WAIT_MAX, connection).await;
        again
    }

    async fn one_by_one(&self, link: &Link) {
        let shared = &self.shared;
        while !link.is_over.get()
            && !self.stop.load(Ordering::Relaxed)
            && !shared.life.has_turned_since(link.life)
        {
            let again = link.again.borrow_mut().pop();
            let n = || self.next.fetch_add(1, Ordering::Relaxed);
            let url = again.unwrap_or_else(|| shared.catalogue.lasting(n()));
            match self.one(link, &url).await {
                Ended::Whole { hit } => {
                    let bytes = &self.counters.whole_bytes;
                    count(&self.counters.whole);
                    bytes.fetch_add(url.bytes, Ordering::Relaxed);
                    if hit {
                        count(&self.counters.hits);
                    }
                }
                Ended::NotSent => {
                    link.is_over.set(true);
                    link.again.borrow_mut().extend(again);
                }
                Ended::NotBegun => {
                    link.is_over.set(true);
                    link.again.borrow_mut().push(url);
                    count(&self.counters.asked_again);
                }
                Ended::Cut(_) if shared.life.has_turned_since(link.life) => {
                    link.is_over.set(true);
                    count(&self.counters.cut_by_kills);
                }
                Ended::Cut(how) => {
                    count(&self.counters.cut);
                    shared.wrong(&format!("/o/{} of {} bytes: {how}", url.id, url.bytes));
                }
            }
        }
    }

    async fn one(&self, link: &Link, url: &Url) -> Ended {
        let Ok(mut sender) = link.sender.clone().ready().await else {
            return Ended::NotSent;
        };
        let target = format!("https://{}{}", link.authority, url.path());
        let request = match http::Request::get(target).body(()) {
            Ok(request) => request,
            Err(error) => return Ended::Cut(error.to_string()),
        };
        let Ok((answer, _)) = sender.send_request(request, true) else {
            return Ended::NotSent;
        };
        let id = answer.stream_id().as_u32();
        let answer = match patiently(answer).await {
            Ok(answer) => answer,
            Err(broken) => return broken.as_of(link, id, "before its head"),
        };
        let (head, mut stream) = answer.into_parts();
        let said = head.headers.get("cache-status");
        let said = said.and_then(|said| said.to_str().ok()).unwrap_or_default();
        let wanted = self.shared.catalogue.body(url, 1, Variant::Identity);
        let mut came = 0;
        let next = async |stream: &mut h2::RecvStream| match stream.data().await {
            Some(piece) => piece.map(Some),
            None => Ok(None),
        };
        loop {
            let piece = match patiently(next(&mut stream)).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(broken) => {
                    let place = format!("behind {came} bytes, {said}");
                    return broken.as_of(link, id, &place);
                }
            };
            if let Some(at) = wanted.differs(came, &piece) {
                return Ended::Cut(format!("another byte at {at}, {said}"));
            }
            came += piece.len() as u64;
            let _ = stream.flow_control().release_capacity(piece.len());
            tokio::time::sleep(PAUSE).await;
        }
        match head.status == http::StatusCode::OK && came == url.bytes {
            true => Ended::Whole {
                hit: said.starts_with("loligo; hit"),
            },
            false => Ended::Cut(format!("{}, {came} bytes, {said}", head.status)),
        }
    }
}

/// The reason why a stream ended early; without an error: no response came.
struct Broken(Option<h2::Error>);

impl Broken {
    fn as_of(&self, link: &Link, id: u32, place: &str) -> Ended {
        let is_refused = self.0.as_ref().is_some_and(|error| {
            error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        });
        //= rfc9113 §6.8   what is above the last stream of GOAWAY, or refused, was not processed
        if id > link.last.get() || is_refused {
            return Ended::NotBegun;
        }
        let last = match link.last.get() {
            u32::MAX => "no GOAWAY".to_owned(),
            last => format!("last stream {last}"),
        };
        let why = match &self.0 {
            Some(error) => error.to_string(),
            None => format!("nothing came for {WAIT_MAX:?}"),
        };
        Ended::Cut(format!("broke off {place}: {why} (stream {id}, {last})"))
    }
}

async fn patiently<T>(what: impl Future<Output = Result<T, h2::Error>>) -> Result<T, Broken> {
    match timeout(WAIT_MAX, what).await {
        Ok(came) => came.map_err(|error| Broken(Some(error))),
        Err(_) => Err(Broken(None)),
    }
}

/// Runs all futures to their ends.
async fn join_all<F: Future<Output = ()>, const N: usize>(all: [F; N]) {
    let mut all = all.map(|one| Some(Box::pin(one)));
    std::future::poll_fn(|cx| {
        for one in &mut all {
            if one
                .as_mut()
                .is_some_and(|one| one.as_mut().poll(cx).is_ready())
            {
                *one = None;
            }
        }
        match all.iter().all(Option::is_none) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

async fn open(
    address: SocketAddr,
    connector: &TlsConnector,
    is_wide: bool,
) -> Result<TlsStream<TcpStream>, String> {
    let opened = async {
        let socket = TcpSocket::new_v4()?;
        if !is_wide {
            socket.set_recv_buffer_size(NARROW_BYTES)?;
        }
        let socket = socket.connect(address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        connector.connect(name, socket).await
    };
    let stream = opened.await.map_err(|error| error.to_string())?;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Ok(stream),
        other => Err(format!("{other:?} instead of h2")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::super::bodies::Catalogue;
    use super::super::goaway::GOAWAY;
    use super::super::ledger::Ledger;
    use super::super::report::Figures;
    use super::*;

    fn all() -> All {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let catalogue = Catalogue::new(1, 64 << 20);
        All::new(&Arc::new(Shared {
            ledger: Arc::new(Ledger::new(catalogue.len_of_all())),
            catalogue: Arc::new(catalogue),
            life: Life::default(),
            figures: Figures::default(),
            wrongs: Mutex::default(),
            cuts_forgiven: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            repeats: true,
            strict: false,
            whole_downloads: true,
            bounded_waits: true,
            address: nowhere,
            admin: nowhere,
            begun: Instant::now(),
        }))
    }

    /// Plays on one connection to this server; returns the requests to be repeated.
    fn play<S: Future<Output = ()> + 'static>(
        all: Arc<All>,
        server: impl FnOnce(DuplexStream, Arc<All>) -> S,
    ) -> Vec<Url> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (here, there) = tokio::io::duplex(64 << 10);
        let local = tokio::task::LocalSet::new();
        local.spawn_local(server(there, Arc::clone(&all)));
        let address = all.shared.address;
        local.block_on(&runtime, all.play(here, true, address, 0, Vec::new()))
    }

    /// Serves this many requests, then sends GOAWAY; cuts `less` bytes off the end of each body.
    async fn honest(stream: DuplexStream, all: Arc<All>, requests: usize, less: usize) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut served = 0;
        while let Some(asked) = connection.accept().await {
            let (request, mut answer) = asked.unwrap();
            served += 1;
            if served == requests {
                connection.graceful_shutdown();
            }
            let catalogue = &all.shared.catalogue;
            let url = catalogue.url_of_path(request.uri().path()).unwrap();
            let mut body = vec![0; url.bytes as usize - less];
            catalogue
                .body(&url, 1, Variant::Identity)
                .fill(0, &mut body);
            let head = http::Response::builder().header("cache-status", "loligo; hit");
            let mut stream = answer.send_response(head.body(()).unwrap(), false).unwrap();
            stream.send_data(Bytes::from(body), true).unwrap();
        }
    }

    #[test]
    fn what_ends_whole_is_counted_and_the_rest_is_asked_again() {
        let all = Arc::new(all());
        let again = play(Arc::clone(&all), |stream, all| honest(stream, all, 12, 0));
        let came = all.counters.came();
        assert_eq!((came.cut, came.refused, came.complaint()), (0, 0, None));
        assert!(came.whole >= 12 && came.hits == came.whole, "{came:?}");
        assert_eq!(again.len(), 0, "all that was sent was served");
    }

    #[test]
    fn a_body_that_is_too_short_is_cut() {
        let all = Arc::new(all());
        play(Arc::clone(&all), |stream, all| honest(stream, all, 1, 3));
        let came = all.counters.came();
        assert_eq!(came.whole, 0);
        assert!(came.cut >= STREAMS as u64 && came.complaint().is_some());
    }

    #[test]
    fn streams_up_to_the_last_one_of_goaway_must_come() {
        let all = Arc::new(all());
        let again = play(Arc::clone(&all), |mut stream, _| async move {
            stream
                .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
                .await
                .unwrap();
            let mut buffer = [0; 4096];
            while let Ok(Ok(1..)) =
                timeout(Duration::from_millis(300), stream.read(&mut buffer)).await
            {}
            let goaway = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0];
            stream.write_all(&goaway).await.unwrap();
        });
        // Streams 1, 3, 5 and 7 of 1 to 15.
        assert_eq!(all.counters.came().cut, 4);
        assert_eq!(again.len(), 4);
        let wrongs = all.shared.wrongs.lock().unwrap();
        assert!(wrongs[0].contains("last stream 7"), "{wrongs:?}");
    }
}
