//! Reads the ICP socket: answers queries, and passes on the answers to our own.
//!
//! It is one task of the control thread; a query costs a look-up in memory and index, and no read from disk.
//!
//! | the URL | answer |
//! |---|---|
//! | is in memory, and fresh | HIT |
//! | is not in memory, but in a store's index and not made stale by a soft purge | HIT |
//! | is not found while a store is still scanned, or the proxy drains | MISS_NOFETCH |
//! | is not found, or has variants, or a rule bypasses the cache for it | MISS |
//! | is malformed | ERR |
//!
//! The index does not show whether the record on disk is stale, whether a purge by pattern matches it, and whether it belongs to another
//! key (one in 13,000). So a HIT may be wrong; then the sibling's request, which has only-if-cached, is answered 504. A query has no
//! request fields, so a resource with variants is never a HIT.
//!
//! A query is treated like a request on the first forward listener: its rules about queries and bypassing apply.
//!
//! Not known here: the senders of our own queries (`icp`).

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
/// Pause after a failed read.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// The state for answering queries.
struct Answering {
    shared: Arc<Shared>,
    /// The first forward listener of the adopted edition.
    listener: Option<Rc<ListenerState>>,
    edition: u32,
    manners: Manners,
    /// Queries are ignored, because the socket is only for our own queries.
    is_mute: bool,
}

/// Reads the socket until the proxy stops. Must be called in a local task set; starts a second task that looks up names.
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
    // A longer datagram is cut, so its length then differs from the one in its header.
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
    /// Adopts the current edition.
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

    /// Would the cache answer a plain GET for this URL, as far as memory and index show? `None`: the URL is malformed.
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

/// Looks up the names of siblings, at once and then every minute.
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
                // Keep the address found before.
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
