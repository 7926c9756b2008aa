//! Opening a connection: a slot of the pool, the name's addresses, the rules, TCP, TLS.
//!
//! Every wait has a time-out, and each step notes its times in [`ConnectTimes`]. Several addresses are tried one after the
//! other (`race`).
//!
//! The rules of `access` are applied to every resolved address before a packet is sent to it; the kernel is asked which
//! addresses are this machine's own (`inward`). The rules are applied once more to both ends of the new connection before a
//! byte is sent.
//!
//! Not known here: requests, retries.

mod riding;

pub(crate) use riding::Riding;

use base::clock::Instant;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::dns::{DnsSettings, Resolver, without_question};
use super::failures::Failures;
use super::inward::{Machine, permitted};
use super::pool::{Grant, Lease, Limits, Pool, Slot};
use super::race::Families;
use super::tls::Tls;
use crate::connection::{ConnectError, ConnectTimes, Destination, Stream};
use crate::context::Introduction;
use base::access::{Destinations, Forbidden};
use base::member::{OfMember, Refusal};
use base::mistakes::{Mistake, makes};
use base::socket::Socket;

/// A failure of TLS is logged at most once in this time.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// After this time, a name whose renewal failed is looked up again.
const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// How a connection begins.
#[derive(Clone, Copy)]
struct Opening<'a> {
    /// Bytes to write first: a PROXY header, or none.
    header: &'a [u8],
    /// TLS offers HTTP/2 beside HTTP/1.1.
    offers_h2: bool,
}

/// The time-outs of connecting, and the bounds of the pool.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For TCP and TLS together, over all addresses; and for a slot if the destination is at its bound.
    pub connect_timeout: Duration,
    /// Name look-ups.
    pub dns: DnsSettings,
    /// The pool's bounds.
    pub pool: Limits,
    /// How long a failure to connect is remembered; zero: not at all.
    pub failure_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            dns: DnsSettings::default(),
            pool: Limits::default(),
            failure_ttl: Duration::ZERO,
        }
    }
}

/// One worker's connections to origins.
pub struct Connector {
    connect_timeout: Cell<Duration>,
    pool: Pool,
    resolver: Resolver,
    tls: RefCell<Tls>,
    failures: Failures,
    families: Families,
    machine: Machine,
    /// When a failure of TLS was logged last, and how many were not logged since.
    told: Cell<(Option<Instant>, u64)>,
    /// How members of the cluster prove who they are.
    cluster: Option<Arc<dyn Introduction>>,
}

impl Connector {
    /// A connector with its own pool and resolver.
    pub fn new(settings: Settings, tls: Tls) -> Self {
        Self {
            connect_timeout: Cell::new(settings.connect_timeout),
            pool: Pool::new(settings.pool),
            resolver: Resolver::new(settings.dns),
            tls: RefCell::new(tls),
            failures: Failures::new(settings.failure_ttl),
            families: Families::default(),
            machine: Machine::default(),
            told: Cell::default(),
            cluster: None,
        }
    }

    /// Applies new settings to connections made from now on. Connections being opened keep the old ones.
    pub fn follow(&self, settings: Settings, tls: Tls) {
        self.connect_timeout.set(settings.connect_timeout);
        self.resolver.follow(settings.dns);
        self.failures.follow(settings.failure_ttl);
        self.pool.follow(settings.pool);
        if !self.tls.borrow().is(&tls) {
            self.pool.forget_tls();
            self.tls.replace(tls);
        }
    }

    /// The same connector, as a member of this cluster.
    pub fn in_cluster(self, cluster: Option<Arc<dyn Introduction>>) -> Self {
        Self { cluster, ..self }
    }

    /// A new TCP connection that is not pooled: for the link to a member.
    pub async fn socket_to(
        &self,
        to: &Destination,
        access: &Destinations,
    ) -> Result<Socket, ConnectError> {
        let found = match without_question(&to.host) {
            Some(found) => found,
            None => self.resolver.look_up(&to.host).await?.to_try(),
        };
        let addresses = permitted(found, to.port, access, &self.machine)?;
        let race = self.families.race(&to.host, &addresses);
        let opened = timeout(self.connect_timeout.get(), race).await;
        let tcp = opened.unwrap_or(Err(ConnectError::Timeout))?;
        access.check_connected(tcp.local_addr()?, tcp.peer_addr()?)?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    /// To be called once a second: closes idle connections that the pool need not keep. Returns destinations with open connections whose names
    /// are to be looked up again ([`Self::renew`]).
    pub fn sweep(&self, now: Instant) -> Vec<Destination> {
        self.pool.sweep(now)
    }

    /// Looks a name up again. Connections to addresses that the name no longer has take no further request. While the look-up fails, the
    /// last addresses stay valid.
    pub async fn renew(&self, to: &Destination) {
        match self.resolver.look_up_anew(&to.host).await {
            Ok(found) => self.pool.resolved(to, &found.addresses, found.until),
            Err(error) => {
                tracing::debug!(%to, %error, "the name could not be looked up again");
                self.pool.unresolved(to, Instant::now() + RENEW_AGAIN);
            }
        }
    }

    /// The pool, for its gauges.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// An open connection: a pooled one if there is one, else a new one. See [`Lease::is_reused`].
    pub async fn lease(
        &self,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        if let Some(lease) = self.pool.checkout(to, access) {
            return Ok(lease);
        }
        self.recall(to, access, times)?;
        self.lease_untold(to, access, times).await
    }

    /// A connection that was released while this call waited, or a new one. A remembered failure is ignored.
    pub async fn lease_untold(
        &self,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        match self.wait_for_place(to, times).await? {
            Grant::Warm(lease) if lease.is_permitted(access) => Ok(*lease),
            Grant::Warm(lease) => self.open(lease.into_slot(), to, access, times).await,
            Grant::Slot(slot) => self.open(slot, to, access, times).await,
        }
    }

    /// A connection for a request that may not be repeated: a new one, or a young one that was released while this call waited. `recalls`:
    /// return a remembered failure instead of trying.
    pub async fn lease_young(
        &self,
        to: &Destination,
        access: &Destinations,
        recalls: bool,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        if recalls {
            self.recall(to, access, times)?;
        }
        match self.wait_for_place(to, times).await? {
            Grant::Warm(mut lease) => match lease.is_permitted(access) && lease.is_young() {
                true => Ok(*lease),
                false => self.open(lease.into_slot(), to, access, times).await,
            },
            Grant::Slot(slot) => self.open(slot, to, access, times).await,
        }
    }

    /// A new connection: for a tunnel, or after a pooled one turned out to be closed.
    pub async fn connect(
        &self,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        self.recall(to, access, times)?;
        self.connect_untold(to, access, times).await
    }

    /// The same, ignoring a remembered failure.
    pub async fn connect_untold(
        &self,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        let slot = self.slot(to, times).await?;
        self.open(slot, to, access, times).await
    }

    /// A new connection that begins with this PROXY header and is closed after its request. `recalls`: return a remembered failure instead.
    pub async fn connect_telling(
        &self,
        to: &Destination,
        access: &Destinations,
        header: &[u8],
        recalls: bool,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        if recalls {
            self.recall(to, access, times)?;
        }
        let slot = self.slot(to, times).await?;
        let opening = Opening {
            header,
            offers_h2: false,
        };
        let lease = self.open_telling(slot, to, access, opening, times).await?;
        match makes(Mistake::ShareTold) {
            true => Ok(lease),
            false => Ok(lease.for_one_request()),
        }
    }

    /// A new connection for one request (`once`), ignoring a remembered failure. `has_place`: set when the wait for a slot is over, because a
    /// time-out after that is the server's fault and not ours.
    pub(super) async fn connect_anew(
        &self,
        to: &Destination,
        access: &Destinations,
        has_place: &Cell<bool>,
    ) -> Result<Lease, ConnectError> {
        let mut times = ConnectTimes::default();
        let slot = self.slot(to, &mut times).await?;
        has_place.set(true);
        self.open(slot, to, access, &mut times).await
    }

    /// May this destination be reached, as far as that can be said without a name server?
    pub fn check_literal(
        &self,
        to: &Destination,
        access: &Destinations,
    ) -> Result<(), ConnectError> {
        match without_question(&to.host) {
            Some(found) => Ok(permitted(found, to.port, access, &self.machine).map(drop)?),
            None => Ok(()),
        }
    }

    /// How many failures to connect were remembered so far, and how often one was returned instead of a new attempt.
    pub fn failures(&self) -> (u64, u64) {
        self.failures.counts()
    }

    /// Returns a remembered failure. The step that had failed is noted with no duration.
    fn recall(
        &self,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<(), ConnectError> {
        let now = Instant::now();
        let Some(error) = self.failures.recall(to, access, &self.machine, now) else {
            return Ok(());
        };
        match error.is_of_name() {
            true => times.dns = Some((now, now)),
            false => times.connect = Some((now, now)),
        }
        Err(error)
    }

    async fn wait_for_place(
        &self,
        to: &Destination,
        times: &mut ConnectTimes,
    ) -> Result<Grant, ConnectError> {
        // The clock is read only if there is a wait.
        let mut waited = None;
        let grant = {
            let mut place = std::pin::pin!(self.pool.slot(to, self.connect_timeout.get()));
            std::future::poll_fn(|cx| {
                let poll = place.as_mut().poll(cx);
                if poll.is_pending() {
                    waited.get_or_insert_with(Instant::now);
                }
                poll
            })
            .await
        };
        times.queue = waited.map(|began| (began, Instant::now()));
        grant
    }

    async fn open(
        &self,
        slot: Slot,
        to: &Destination,
        access: &Destinations,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        let opening = Opening {
            header: b"",
            offers_h2: false,
        };
        self.open_telling(slot, to, access, opening, times).await
    }

    /// Opens a connection and writes the header, if there is one.
    async fn open_telling(
        &self,
        slot: Slot,
        to: &Destination,
        access: &Destinations,
        opening: Opening<'_>,
        times: &mut ConnectTimes,
    ) -> Result<Lease, ConnectError> {
        let found = match self.addresses(to, times).await {
            Ok(found) => found,
            Err(error) => {
                self.failures.note(to, &[], &[], &error, Instant::now());
                return Err(error);
            }
        };
        // The name also has an address of our own. If no other address answers, the request was meant for this proxy.
        let ours = |ip: &IpAddr| {
            access.check(SocketAddr::new(*ip, to.port)) == Err(Forbidden::OwnListener)
        };
        let is_ours = found.iter().any(ours);
        let addresses = permitted(found.clone(), to.port, access, &self.machine)?;

        let began = Instant::now();
        let tls = self.tls.borrow().clone();
        let opened = timeout(
            self.connect_timeout.get(),
            self.open_stream(to, &addresses, access, opening, times),
        )
        .await;
        times.connect = Some((began, Instant::now()));
        let (stream, peer, is_inward) = match opened.unwrap_or(Err(ConnectError::Timeout)) {
            Err(ConnectError::Refused | ConnectError::Unroutable) if is_ours => {
                return Err(Forbidden::OwnListener.into());
            }
            Err(error) => {
                let now = Instant::now();
                self.log(to, &error, now);
                self.failures.note(to, &found, &addresses, &error, now);
                return Err(error);
            }
            Ok(opened) => opened,
        };
        self.failures.clear(to);
        let lease = Lease::new(slot, stream, peer, is_inward);
        // Other roots may have come into force while this connection was opened.
        let is_of_before = to.tls && to.terms.is_none() && !self.tls.borrow().is(&tls);
        Ok(match is_of_before {
            true => lease.for_one_request(),
            false => lease,
        })
    }

    /// Logs a failure of TLS, at most once a second. Clients only get a token, so the log is the only place with the reason.
    fn log(&self, to: &Destination, error: &ConnectError, now: Instant) {
        if !matches!(error, ConnectError::Tls(..)) {
            return;
        }
        let (last, untold) = self.told.get();
        if last.is_some_and(|last| now.saturating_duration_since(last) < LOG_PAUSE) {
            return self.told.set((last, untold + 1));
        }
        self.told.set((Some(now), 0));
        tracing::warn!(%to, %error, untold, "no connection; `untold` is how many failures of TLS were not logged before");
    }

    async fn addresses(
        &self,
        to: &Destination,
        times: &mut ConnectTimes,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        if let Some(addresses) = without_question(&to.host) {
            return Ok(addresses);
        }
        let began = Instant::now();
        let answer = self.resolver.look_up(&to.host).await;
        times.dns = Some((began, Instant::now()));
        let found = answer?;
        self.pool.resolved(to, &found.addresses, found.until);
        Ok(found.to_try())
    }

    async fn open_stream(
        &self,
        to: &Destination,
        addresses: &[SocketAddr],
        access: &Destinations,
        opening: Opening<'_>,
        times: &mut ConnectTimes,
    ) -> Result<(Stream, SocketAddr, bool), ConnectError> {
        let mut tcp = self.families.race(&to.host, addresses).await?;
        times.tcp = Some(Instant::now());
        let peer = tcp.peer_addr()?;
        let local = tcp.local_addr()?;
        if !makes(Mistake::PermitAnything) {
            access.check_connected(local, peer)?;
        }
        // Stored with the connection, because a listener with stricter rules may use it later.
        let is_inward = local.ip() == peer.ip() || self.machine.owns(peer.ip());
        // Requests are written whole, so Nagle's algorithm would only delay them.
        tcp.set_nodelay(true)?;
        if !opening.header.is_empty() {
            tcp.write_all(opening.header).await?;
        }
        let stream = match to.member {
            Some(of) => Stream::Tcp(self.prove_to(of, tcp).await?),
            None if to.tls => {
                let of_all = || self.tls.borrow().clone();
                let tls = to.terms.clone().unwrap_or_else(of_all);
                Stream::Tls(tls.handshake(&to.host, tcp, opening.offers_h2).await?)
            }
            None => Stream::Tcp(tcp),
        };
        Ok((stream, peer, is_inward))
    }
}

impl Connector {
    /// The handshake with a member, after which the connection takes requests for its listener.
    async fn prove_to(&self, of: OfMember, mut tcp: Socket) -> Result<Socket, ConnectError> {
        let cluster = self.cluster.as_ref().ok_or(Refusal::Unknown)?;
        cluster.introduce(of, &mut tcp).await?;
        Ok(tcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::NameServer;
    use tokio::net::TcpListener;

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address without a listener.
    async fn closed() -> SocketAddr {
        listen().await.1
    }

    fn to(host: &str, port: u16) -> Destination {
        Destination {
            tls: false,
            host: host.into(),
            port,
            member: None,
            terms: None,
            http2: None,
        }
    }

    fn times() -> ConnectTimes {
        ConnectTimes::default()
    }

    /// The rules of a listener beyond loopback.
    fn public() -> Destinations {
        Destinations {
            loopback: false,
            link_local: false,
            ..Destinations::default()
        }
    }

    fn connector(settings: Settings) -> Connector {
        Connector::new(settings, Tls::only(Vec::new()))
    }

    #[tokio::test]
    async fn a_new_connection_leaves_its_times_and_is_pooled_afterwards() {
        let (_listener, address) = listen().await;
        let (connector, access) = (connector(Settings::default()), Destinations::default());
        let to = to("127.0.0.1", address.port());

        let mut first = times();
        let lease = connector.lease(&to, &access, &mut first).await.unwrap();
        assert_eq!((lease.peer(), lease.is_reused()), (address, false));
        let (began, ended) = first.connect.expect("a connection was made");
        assert!((began..=ended).contains(&first.tcp.unwrap()));
        assert_eq!(
            (first.dns, first.queue),
            (None, None),
            "a literal needs no name server"
        );
        lease.reuse();

        let mut second = times();
        let lease = connector.lease(&to, &access, &mut second).await.unwrap();
        assert!(lease.is_reused());
        assert_eq!(second.connect, None);
        let fresh = connector.connect(&to, &access, &mut times()).await.unwrap();
        assert!(!fresh.is_reused());
        assert_eq!(connector.pool().in_use(), 2);
    }

    #[tokio::test]
    async fn localhost_is_tried_on_both_families() {
        let (_listener, address) = listen().await;
        let connector = connector(Settings::default());
        let lease = connector
            .lease(
                &to("localhost", address.port()),
                &Destinations::default(),
                &mut times(),
            )
            .await
            .unwrap();
        assert_eq!(lease.peer(), address);
    }

    #[tokio::test]
    async fn a_refused_connection_is_reported_and_gives_its_place_back() {
        let connector = connector(Settings::default());
        let mut times = times();
        let answer = connector
            .lease(
                &to("127.0.0.1", closed().await.port()),
                &Destinations::default(),
                &mut times,
            )
            .await;
        assert_eq!(answer.err(), Some(ConnectError::Refused));
        assert!(times.connect.is_some(), "a failure takes time too");
        assert_eq!(connector.pool().in_use(), 0);
    }

    #[tokio::test]
    async fn a_refusal_is_remembered_until_its_time_is_over() {
        let connector = connector(Settings {
            failure_ttl: Duration::from_millis(100),
            ..Settings::default()
        });
        let address = closed().await;
        let (to, access) = (to("127.0.0.1", address.port()), Destinations::default());
        let first = connector.lease(&to, &access, &mut times()).await;
        assert_eq!(first.err(), Some(ConnectError::Refused));
        for _ in 0..2 {
            let again = connector.connect(&to, &access, &mut times()).await;
            assert!(matches!(again.err(), Some(ConnectError::Remembered(_))));
        }
        let _listener = TcpListener::bind(address).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while connector.lease(&to, &access, &mut times()).await.is_err() {
            assert!(Instant::now() < deadline, "never tried again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn rules_hold_for_addresses_not_names() {
        let (_listener, address) = listen().await;
        let connector = connector(Settings::default());
        let public = public();
        for host in ["127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"] {
            let answer = connector
                .lease(&to(host, address.port()), &public, &mut times())
                .await;
            assert!(
                matches!(answer.err(), Some(ConnectError::Forbidden(_))),
                "{host}"
            );
        }
        let own = Destinations {
            own: vec![address],
            ..Destinations::default()
        };
        for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
            let answer = connector
                .lease(&to(host, address.port()), &own, &mut times())
                .await;
            // The other address of localhost is tried too, and refuses.
            assert_eq!(answer.err(), Some(Forbidden::OwnListener.into()), "{host}");
        }
        assert_eq!(connector.pool().in_use(), 0);
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused() {
        let (_listener, address) = listen().await;
        let server = NameServer::new().await;
        let connector = connector(Settings {
            dns: server.settings(),
            ..Settings::default()
        });
        let public = public();
        server
            .while_answering(async {
                let to = to("inside.example", address.port());
                let mut times = times();
                let answer = connector.lease(&to, &public, &mut times).await;
                assert_eq!(answer.err(), Some(Forbidden::Loopback.into()));
                assert!(
                    times.dns.is_some() && times.connect.is_none(),
                    "no packet went there"
                );

                // A connection opened for a more trusted listener does not bypass the rules.
                let trusted = connector
                    .lease(&to, &Destinations::default(), &mut times)
                    .await;
                trusted.unwrap().reuse();
                let answer = connector.lease(&to, &public, &mut times).await;
                assert_eq!(answer.err(), Some(Forbidden::Loopback.into()));
            })
            .await;
    }

    #[test]
    fn of_several_addresses_the_permitted_ones_are_tried() {
        let public = public();
        let ips = |list: &[&str]| {
            list.iter()
                .map(|ip| ip.parse().unwrap())
                .collect::<Vec<IpAddr>>()
        };
        let machine = Machine::with(ips(&["203.0.113.5"]));
        let permitted = |found: &[&str]| permitted(ips(found), 80, &public, &machine);
        let mixed = permitted(&["127.0.0.1", "203.0.113.5", "192.0.2.1"]);
        assert_eq!(mixed, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
        let none = permitted(&["169.254.0.1", "127.0.0.1"]);
        assert_eq!(none, Err(Forbidden::LinkLocal), "the first reason is given");
        for own in ["203.0.113.5", "::ffff:203.0.113.5", "64:ff9b::203.0.113.5"] {
            let answer = permitted(&[own]);
            assert_eq!(answer, Err(Forbidden::Inward), "{own}");
        }
    }

    #[tokio::test]
    async fn a_destination_at_its_bound_is_busy_after_a_wait() {
        let (_listener, address) = listen().await;
        let pool = Limits {
            per_destination_max: 1,
            ..Limits::default()
        };
        let settings = Settings {
            pool,
            connect_timeout: Duration::from_millis(20),
            ..Settings::default()
        };
        let (connector, access) = (connector(settings), Destinations::default());
        let to = to("127.0.0.1", address.port());
        let _held = connector.lease(&to, &access, &mut times()).await.unwrap();
        let mut second = times();
        let answer = connector.lease(&to, &access, &mut second).await;
        assert_eq!(answer.err(), Some(ConnectError::Busy));
        assert!(second.queue.is_some());
    }
}
