//! Clients of HTTP/2 that ask all the time, on connections with several streams, while the proxy goes and comes. A client that is told to go
//! connects again, as those of people do, and asks again for what was not begun. Each body that breaks off is told.

use std::{
    cell::Cell,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{harness::pattern, http2_client::Client, http2_client::play};

/// Streams of each connection.
const STREAMS: usize = 8;
/// Tasks begin at different places.
const STRIDE: usize = 7;
/// Between two pieces that a client reads: it takes its answers slowly enough for a connection to end while they are on their way.
const PAUSE: Duration = Duration::from_millis(1);
/// So many requests for a target that ends so name the same object.
const NEW: (&str, usize) = ("/new", 12);

/// The length of the body of each target.
pub type Bodies = &'static [(&'static str, usize)];

pub struct Crowd {
    stops: Arc<AtomicBool>,
    whole: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Crowd {
    /// So many connections to this address, for these bodies.
    pub fn start(connections: usize, address: SocketAddr, bodies: Bodies) -> Crowd {
        let stops = Arc::new(AtomicBool::new(false));
        let (asked, whole) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let clients = (0..connections).map(|number| {
            let (stops, whole) = (Arc::clone(&stops), Arc::clone(&whole));
            let asked = Arc::clone(&asked);
            thread::spawn(move || {
                let mut cut = Vec::new();
                while !stops.load(Ordering::Relaxed) {
                    let all = Asking {
                        bodies,
                        stops: Arc::clone(&stops),
                        asked: Arc::clone(&asked),
                        whole: Arc::clone(&whole),
                    };
                    cut.extend(play(all.on_a_connection(address, number)));
                }
                cut
            })
        });
        Crowd {
            clients: clients.collect(),
            stops,
            whole,
        }
    }

    /// Bodies that came whole so far.
    pub fn whole(&self) -> usize {
        self.whole.load(Ordering::Relaxed)
    }

    /// No more is asked. Those that broke off, in words.
    pub fn stop(self) -> Vec<String> {
        self.stops.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        clients.flat_map(|client| client.join().unwrap()).collect()
    }
}

#[derive(Clone)]
struct Asking {
    bodies: Bodies,
    stops: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    whole: Arc<AtomicUsize>,
}

impl Asking {
    /// Asks on one connection until it takes no more requests.
    async fn on_a_connection(self, address: SocketAddr, number: usize) -> Vec<String> {
        let Some(client) = Client::try_narrow(address).await else {
            return Vec::new();
        };
        let (mut tasks, is_over) = (tokio::task::JoinSet::new(), Rc::new(Cell::new(false)));
        for stream in 0..STREAMS {
            let (client, is_over, all) = (client.clone(), Rc::clone(&is_over), self.clone());
            let first = (number * STREAMS + stream) * STRIDE;
            tasks.spawn_local(async move {
                let mut cut = Vec::new();
                for (path, bytes) in all.bodies.iter().cycle().skip(first % all.bodies.len()) {
                    if is_over.get() || all.stops.load(Ordering::Relaxed) {
                        break;
                    }
                    let asked = all.asked.fetch_add(1, Ordering::Relaxed);
                    let path = match path.ends_with(NEW.0) {
                        true => format!("{path}/{}", asked / NEW.1),
                        false => (*path).to_owned(),
                    };
                    match one(&client, &path, *bytes).await {
                        Came::Whole => _ = all.whole.fetch_add(1, Ordering::Relaxed),
                        Came::NotBegun => is_over.set(true),
                        Came::Cut(how) => cut.push(format!("{path}: {how}")),
                    }
                }
                cut
            });
        }
        let mut cut = Vec::new();
        while let Some(some) = tasks.join_next().await {
            cut.extend(some.unwrap());
        }
        cut
    }
}

enum Came {
    Whole,
    /// The proxy takes no more on this connection: what was asked may be asked again.
    NotBegun,
    Cut(String),
}

async fn one(client: &Client, path: &str, bytes: usize) -> Came {
    let Ok((answer, _)) = client.begin(client.request("GET", path, &[]), true).await else {
        return Came::NotBegun;
    };
    let answer = match answer.await {
        Ok(answer) => answer,
        //= rfc9113 §6.8   what is above the last stream of GOAWAY, or refused, was not processed
        Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
            return Came::NotBegun;
        }
        Err(error) if error.reason() == Some(h2::Reason::REFUSED_STREAM) => return Came::NotBegun,
        Err(error) => return Came::Cut(format!("no head: {error}")),
    };
    let (head, mut body) = answer.into_parts();
    let said = head.headers.get("cache-status").cloned();
    let mut got = Vec::new();
    while let Some(piece) = body.data().await {
        match piece {
            Ok(piece) => {
                got.extend_from_slice(&piece);
                let _ = body.flow_control().release_capacity(piece.len());
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                let len = got.len();
                return Came::Cut(format!("{len} bytes of {bytes}, {error}, {said:?}"));
            }
        }
    }
    match head.status.as_u16() == 200 && got == pattern(bytes) {
        true => Came::Whole,
        false => Came::Cut(format!(
            "{}, {} other bytes of {bytes}",
            head.status,
            got.len()
        )),
    }
}
