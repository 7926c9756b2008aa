//! ICP (RFC 2186): queries to siblings, and the socket for both directions.
//!
//! There is one UDP socket. A task of the control thread (`serve::answers`) reads it: it answers queries, and hands answers to the table of
//! waiting queries ([`table`]). Workers send their queries on the socket themselves ([`Icp::ask`]).
//!
//! | problem | consequence |
//! |---|---|
//! | no answer within `wait` | [`Answer::Nothing`]; after twenty in a row nothing waits for the sibling until it answers one of the occasional probes |
//! | an answer from another address, to no query of ours, or a second one | ignored, counted |
//! | more than [`table::QUERIES_MAX`] queries under way | [`Answer::Nothing`] at once |
//! | the socket is full, or the URL too long | the same |
//! | the sibling's name has no address | the same, until it has one; the name is looked up every minute |
//!
//! Not known here: what is stored, which clients may ask, HTTP.

mod manners;
mod table;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hints::icp::{Malformed, Message, Opcode};

pub use manners::{Manners, Treatment};
use table::{Asked, Matched, Table};

use base::{chance, clock::Instant};
use plan::{Ask, PeerAddress, Plan};

/// The result of asking a sibling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The sibling has the object.
    Hit,
    /// The sibling does not have it, or refuses to serve it.
    Miss,
    /// The sibling did not answer in time, or was not asked.
    Nothing,
}

macro_rules! counters {
    ($($field:ident, $help:literal;)*) => {
        /// Counters of datagrams and bytes, sent and received.
        #[derive(Default, Debug)]
        pub struct Counters {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Counters {
            /// Name, meaning and value of each.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($field), $help, self.$field.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    icp_sent, "ICP messages sent";
    icp_received, "Datagrams received on the ICP socket";
    icp_sent_bytes, "Bytes of ICP sent";
    icp_received_bytes, "Bytes received on the ICP socket";
    icp_queries_sent, "Queries sent to siblings";
    icp_queries_unsent, "Queries not sent: too many under way, no address, no room in the socket, or a URL that does not fit";
    icp_queries_spared, "Queries not sent to siblings that do not answer";
    icp_hits_received, "Answers HIT to queries of ours";
    icp_misses_received, "Answers MISS, MISS_NOFETCH, DENIED or ERR to queries of ours";
    icp_unanswered, "Queries that were not answered in time";
    icp_strays, "Answers to nothing that was asked, late, twice, or from another address: ignored";
    icp_malformed, "Datagrams that are no ICP messages: ignored";
    icp_queries_received, "Queries received that were answered";
    icp_hits_sent, "Answers HIT sent";
    icp_misses_sent, "Answers MISS sent";
    icp_no_fetch_sent, "Answers MISS_NOFETCH sent, while a store is looked through or the proxy drains";
    icp_denied_sent, "Answers DENIED sent";
    icp_errors_sent, "Answers ERR sent, to queries for what is no URL";
    icp_denied_silently, "Queries of those who may not ask and have been told so often enough: dropped";
    icp_dropped, "Queries beyond icp.rate-max: dropped";
}

/// Adds to a counter that several threads write.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Both directions of ICP; described at the head of this file.
pub struct Icp {
    socket: UdpSocket,
    table: Mutex<Table>,
    /// By the sibling's number in the plan; `None`: it is not asked by ICP.
    siblings: Box<[Option<PeerAddress>]>,
    /// Counters.
    pub counters: Counters,
}

impl Icp {
    /// The ICP of this plan; `None`: the plan does not use ICP.
    ///
    /// # Errors
    /// The address that cannot be bound, and why.
    pub fn open(plan: &Plan) -> Result<Option<Icp>, (SocketAddr, io::Error)> {
        let siblings = plan.siblings.iter().map(|sibling| match sibling.ask {
            Ask::Icp { port } => Some(PeerAddress {
                host: sibling.at.host.clone(),
                port,
            }),
            Ask::Digest | Ask::Try => None,
        });
        let siblings: Box<[_]> = siblings.collect();
        let asks = siblings.iter().any(Option::is_some);
        if plan.icp.listen.is_none() && !asks {
            return Ok(None);
        }
        let is_v6 = |at: &PeerAddress| at.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
        let any = match siblings.iter().flatten().any(is_v6) {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let address = plan.icp.listen.unwrap_or(SocketAddr::new(any, 0));
        let open = || {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Some(Icp {
            socket: open().map_err(|error| (address, error))?,
            table: Mutex::new(Table::new(siblings.len())),
            siblings,
            counters: Counters::default(),
        }))
    }

    /// A second handle to the socket, for its reader.
    ///
    /// # Errors
    /// The system refuses a further descriptor.
    pub fn reader(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// The local address.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a sibling, by its number in the plan, whether it has the response to GET for this URL (in normal form, as in keys). Waits at most
    /// `wait`.
    pub async fn ask(&self, sibling: usize, url: &[u8], wait: Duration) -> Answer {
        let Ok(random) = chance::u64() else {
            return Answer::Nothing;
        };
        let asked = self.table().ask(sibling, random as u32, Instant::now());
        let (request, to, answer) = match asked {
            Asked::Wait {
                request,
                to,
                answer,
            } => (request, to, Some(answer)),
            Asked::Probe { request, to } => (request, to, None),
            Asked::Silent => {
                add(&self.counters.icp_queries_spared, 1);
                return Answer::Nothing;
            }
            Asked::Refused => {
                add(&self.counters.icp_queries_unsent, 1);
                return Answer::Nothing;
            }
        };
        // Removes the query from the table however this ends, also if the client goes away.
        let mut waiting = Waiting {
            icp: self,
            request: answer.is_some().then_some(request),
        };
        let message = Message {
            opcode: Opcode::Query,
            request,
            url,
        };
        if !self.send(&message, to) {
            add(&self.counters.icp_queries_unsent, 1);
            return Answer::Nothing;
        }
        add(&self.counters.icp_queries_sent, 1);
        let Some(answer) = answer else {
            return Answer::Nothing;
        };
        match tokio::time::timeout(wait, answer).await {
            Ok(Ok(Opcode::Hit)) => Answer::Hit,
            Ok(Ok(_)) => Answer::Miss,
            Ok(Err(_)) => Answer::Nothing,
            Err(_) => {
                waiting.request = None;
                add(&self.counters.icp_unanswered, 1);
                if self.table().timed_out(request) {
                    self.tell(
                        sibling,
                        "does not answer ICP queries; it is not waited for until it does",
                    );
                }
                Answer::Nothing
            }
        }
    }

    /// Sends a message; false if it could not be sent.
    pub fn send(&self, message: &Message<'_>, to: SocketAddr) -> bool {
        let mut datagram = Vec::with_capacity(64 + message.url.len());
        let is_sent = message.encode(&mut datagram) && self.send_bytes(&datagram, to).is_ok();
        if is_sent {
            add(&self.counters.icp_sent, 1);
            add(&self.counters.icp_sent_bytes, datagram.len() as u64);
        }
        is_sent
    }

    fn send_bytes(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        let to = match (self.socket.local_addr()?, to.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        };
        self.socket.send_to(datagram, to)
    }

    /// Counts a datagram and reads it.
    ///
    /// # Errors
    /// It is no ICP message.
    pub fn receive<'a>(&self, datagram: &'a [u8]) -> Result<Message<'a>, Malformed> {
        add(&self.counters.icp_received, 1);
        add(&self.counters.icp_received_bytes, datagram.len() as u64);
        Message::decode(datagram).inspect_err(|_| add(&self.counters.icp_malformed, 1))
    }

    /// Handles an answer from this address.
    pub fn answered(&self, from: SocketAddr, message: &Message<'_>) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let matched = (self.table()).answered(from, message.request, message.opcode);
        let counter = match (&matched, message.opcode) {
            (Matched::Stray, _) => &self.counters.icp_strays,
            (_, Opcode::Hit) => &self.counters.icp_hits_received,
            _ => &self.counters.icp_misses_received,
        };
        add(counter, 1);
        match matched {
            Matched::Back(sibling) => self.tell(sibling, "answers ICP queries again"),
            Matched::Denied(sibling) => self.tell(
                sibling,
                "denies our ICP queries: it must allow this address",
            ),
            Matched::Stray | Matched::Taken => {}
        }
    }

    fn tell(&self, sibling: usize, what: &str) {
        if let Some(Some(at)) = self.siblings.get(sibling) {
            tracing::warn!(sibling = %at, "the sibling {what}");
        }
    }

    /// The siblings that are asked by ICP: number and address.
    pub fn siblings(&self) -> impl Iterator<Item = (usize, &PeerAddress)> {
        let numbered = self.siblings.iter().enumerate();
        numbered.filter_map(|(number, at)| Some((number, at.as_ref()?)))
    }

    /// Can the socket send to this address? A socket bound to all IPv6 addresses also reaches IPv4 addresses, as mapped ones.
    pub fn can_reach(&self, to: IpAddr) -> bool {
        let from = self.socket.local_addr().map(|own| own.ip());
        from.is_ok_and(|from| reaches(from, to))
    }

    /// Sets the address of a sibling.
    pub fn found(&self, sibling: usize, address: SocketAddr) {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        self.table().set_address(sibling, address);
    }
}

fn reaches(from: IpAddr, to: IpAddr) -> bool {
    match from.to_canonical() {
        IpAddr::V4(_) => to.to_canonical().is_ipv4(),
        IpAddr::V6(from) => from.is_unspecified() || to.to_canonical().is_ipv6(),
    }
}

/// A query whose answer is waited for.
struct Waiting<'a> {
    icp: &'a Icp,
    request: Option<u32>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            self.icp.table().gave_up(request);
        }
    }
}

#[cfg(test)]
mod tests;
