//! The reader of the ICP socket: answers queries, and hands on the answers to ours.
//!
//! One task of the control thread; a query costs it a look into memory and index, and no read from disk.
//!
//! | the URL is | answer |
//! |---|---|
//! | in memory, and fresh | HIT |
//! | not there, but in a store's index and not made stale by a soft purge | HIT |
//! | not there, and a store is still looked through, or the proxy drains | MISS_NOFETCH |
//! | none of these, or it has variants, or a rule keeps it from the cache | MISS |
//! | none | ERR |
//!
//! What the index cannot know: whether the record on disk has grown stale, whether a purge by pattern is about it, and whether it
//! is that of another key (one in 13,000). Such a HIT is not kept: the sibling's request says only-if-cached, and gets 504. A query has no
//! request fields, so what has variants is never a HIT.
//!
//! A query counts as a request on the first forward listener: its rules about queries and bypassing hold.
//!
//! Not known here: who waits for answers (`icp`).

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hints::icp::{MESSAGE_BYTES_MAX, Opcode};
use httpcache::{RequestDirectives, UnixMillis, Verdict, judge};
use store::KeyHasher;
use tokio::net::{UdpSocket, lookup_host};

use base::{access::Clients, clock::Instant, phase::Phase};
use exchange::{
    edition::Edition,
    listener::{ListenerState, listener_states},
    request::target,
    state::Shared,
};
use peers::icp::{Icp, Manners, Treatment, add};
use plan::Role;
use purging::gate::Served;

/// How often the names of siblings are looked up.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(60);
/// How long nothing is read after that has failed.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// What answering takes.
struct Answering {
    shared: Arc<Shared>,
    /// The first forward listener, and the edition that it is of.
    listener: Option<Rc<ListenerState>>,
    edition: u32,
    manners: Manners,
    /// Nobody is answered: the socket is for our own queries.
    is_mute: bool,
}

/// Reads the socket until the proxy stops. Call it where tasks of one thread run; it starts another that looks up names.
pub async fn serve(shared: Arc<Shared>, icp: Arc<Icp>) {
    let socket = icp.reader().and_then(UdpSocket::from_std);
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => {
            tracing::error!(%error, "the ICP socket cannot be read; siblings are neither asked nor answered");
            return;
        }
    };
    tokio::task::spawn_local(look_up(Arc::clone(&icp)));
    let edition = shared.edition();
    let plan = &edition.plan.icp;
    let allow = plan.allow.clone();
    let mut answering = Answering {
        listener: first_forward(&edition, shared.cache.hasher()),
        edition: edition.number,
        manners: Manners::new(Clients { allow }, plan.rate_max, Instant::now()),
        is_mute: plan.listen.is_none(),
        shared: Arc::clone(&shared),
    };
    let mut phase = shared.phase.subscribe();
    // A longer datagram is cut, and its length is then not the one that it says.
    let mut datagram = vec![0; MESSAGE_BYTES_MAX + 1];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut datagram) => received,
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => return,
        };
        match received {
            Ok((len, from)) => answering.take(&icp, &datagram[..len], from),
            Err(error) => {
                tracing::warn!(%error, "the ICP socket could not be read");
                tokio::time::sleep(READ_PAUSE).await;
            }
        }
    }
}

fn first_forward(edition: &Arc<Edition>, hasher: KeyHasher) -> Option<Rc<ListenerState>> {
    let mut listeners = listener_states(edition, hasher).into_iter();
    listeners.find(|state| matches!(state.listener.role, Role::Forward(_)))
}

impl Answering {
    /// Takes over the edition that is in force.
    fn follow(&mut self) {
        let edition = self.shared.editions.borrow();
        if edition.number != self.edition {
            self.edition = edition.number;
            self.listener = first_forward(&edition, self.shared.cache.hasher());
        }
    }

    fn take(&mut self, icp: &Icp, datagram: &[u8], from: SocketAddr) {
        self.follow();
        let Ok(message) = icp.receive(datagram) else {
            return;
        };
        if message.opcode != Opcode::Query {
            return icp.answered(from, &message);
        }
        if self.is_mute {
            return add(&icp.counters.icp_denied_silently, 1);
        }
        let counters = &icp.counters;
        let opcode = match self.manners.treat(from.ip().to_canonical(), Instant::now()) {
            Treatment::Answer => self.say(message.url),
            Treatment::Deny => Opcode::Denied,
            Treatment::Ignore => return add(&counters.icp_denied_silently, 1),
            Treatment::Drop => return add(&counters.icp_dropped, 1),
        };
        let is_sent = icp.send(&message.answer(opcode), from);
        if !is_sent {
            return add(&counters.icp_dropped, 1);
        }
        add(&counters.icp_queries_received, 1);
        let counter = match opcode {
            Opcode::Hit => &counters.icp_hits_sent,
            Opcode::MissNoFetch => &counters.icp_no_fetch_sent,
            Opcode::Denied => &counters.icp_denied_sent,
            Opcode::Error => &counters.icp_errors_sent,
            Opcode::Query | Opcode::Miss => &counters.icp_misses_sent,
        };
        add(counter, 1);
    }

    fn say(&self, url: &[u8]) -> Opcode {
        let shared = &self.shared;
        let has_it = match (&self.listener, std::str::from_utf8(url)) {
            (Some(listener), Ok(url)) => self.has(listener, url),
            (None, Ok(_)) => Some(false),
            (_, Err(_)) => None,
        };
        match has_it {
            None => Opcode::Error,
            Some(true) if !shared.is_draining() => Opcode::Hit,
            Some(false) if !shared.is_draining() && !self.is_scanning() => Opcode::Miss,
            Some(_) => Opcode::MissNoFetch,
        }
    }

    fn is_scanning(&self) -> bool {
        self.shared
            .cache
            .store
            .stores()
            .any(|store| store.is_scanning())
    }

    /// Would an ordinary GET for this URL be answered from the cache, as far as memory and index know? `None`: it is no URL.
    fn has(&self, listener: &ListenerState, url: &str) -> Option<bool> {
        let shared = &self.shared;
        let place = target::locate(listener, "GET", url, None).ok()?;
        let ruled = place.ruled_plain(listener, shared.clock.now().as_millis() as u64);
        if ruled.bypass {
            return Some(false);
        }
        let mut key = Vec::with_capacity(128);
        let name_bytes = place.write_key(ruled.shape, &mut key);
        let primary = shared.cache.hasher().hash(&key[..name_bytes]);
        if shared.served() != Served::All {
            return Some(false);
        }
        if let Some(resident) = shared.cache.memory.peek(primary, &key) {
            let now = UnixMillis(shared.clock.now().as_millis() as u64);
            let verdict = judge(
                &resident.object.standing,
                &RequestDirectives::default(),
                now,
            );
            return Some(verdict == Verdict::Fresh);
        }
        Some(shared.cache.has_disk && shared.cache.store.of(primary).may_answer(primary))
    }
}

/// Looks up the names of siblings, now and every minute.
async fn look_up(icp: Arc<Icp>) {
    let mut failed = vec![false; icp.siblings().map(|(n, _)| n + 1).max().unwrap_or(0)];
    loop {
        for (number, at) in icp.siblings() {
            let found = lookup_host((at.host.as_str(), at.port)).await;
            let at_hand = |address: &SocketAddr| icp.can_reach(address.ip());
            match found.map(|mut found| found.find(at_hand)) {
                Ok(Some(address)) => {
                    icp.found(number, address);
                    failed[number] = false;
                }
                // The address that it had stays.
                _ if failed[number] => {}
                other => {
                    failed[number] = true;
                    let reason = other.err().map_or(
                        "no address of the family of our ICP socket (icp.listen)".to_owned(),
                        |e| e.to_string(),
                    );
                    tracing::warn!(sibling = %at, reason, "the sibling is not asked by ICP: its name leads to no address that can be asked; it is looked up again every minute");
                }
            }
        }
        tokio::time::sleep(LOOKED_UP_EVERY).await;
    }
}
