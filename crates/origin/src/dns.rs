//! Names to addresses.
//!
//! IP literals and `localhost` need no query. Everything else goes to hickory-resolver, configured like the system
//! (resolv.conf, the hosts file) or with configured servers. It asks for IPv4 and IPv6 at once (`both`) and caches answers
//! for their TTL, within bounds.
//!
//! The resolver is made at the first query, so a proxy whose origins are literals never reads resolv.conf. A change
//! of that file takes effect after a restart.
//!
//! Not known here: which addresses may be used (`access`), and which of them answers (`connect`).
//! Limits: `LOOKUPS_MAX` questions at once (beyond: refused), `ADDRESSES_MAX` addresses an answer (beyond: dropped),
//! `DnsSettings::names_max` answers kept.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::time::timeout;

use crate::both::{self, Until};
use crate::connection::ConnectError;
use base::clock::Instant;

/// The most names that one worker looks up at once; further ones are refused.
const LOOKUPS_MAX: usize = 1024;
/// The most addresses of one name that are tried.
pub(super) const ADDRESSES_MAX: usize = 8;

/// How long a name without an answer is remembered: as long as the wait for it took, but not longer than this.
const SILENT_FOR_MAX: Duration = Duration::from_secs(30);

/// The result of a look-up.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// All addresses, never none.
    pub addresses: Vec<IpAddr>,
    /// Until when the addresses are valid.
    pub until: Instant,
    /// The addresses are of one family, and it is not known whether the other family has any.
    pub is_partial: bool,
}

/// A server that a name offers (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// Servers of lower numbers are asked first.
    pub priority: u16,
    /// The share among servers of one priority.
    pub weight: u16,
    /// Where it listens.
    pub port: u16,
    /// Its name.
    pub target: String,
}

impl Found {
    /// The addresses to try, in order: at most `ADDRESSES_MAX`.
    pub(super) fn to_try(&self) -> Vec<IpAddr> {
        alternate(&self.addresses)
    }
}

/// How names are looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsSettings {
    /// Name servers; empty: the system's. The hosts file counts either way.
    pub servers: Vec<SocketAddr>,
    /// The limit for one query to one server; a look-up may take `attempts` times as long.
    pub timeout: Duration,
    /// How often a query is sent, at least once.
    pub attempts: usize,
    /// The shortest time an answer is cached: a TTL of zero would cost a query for each connection.
    pub ttl_min: Duration,
    /// The longest time an answer is cached: a wrong record should not stay for weeks.
    pub ttl_max: Duration,
    /// The longest time that "no such name" is cached.
    pub negative_ttl_max: Duration,
    /// The most cached answers.
    pub names_max: usize,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(3),
            attempts: 2,
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(3600),
            negative_ttl_max: Duration::from_secs(30),
            names_max: 4096,
        }
    }
}

/// One worker's resolver.
pub struct Resolver {
    settings: RefCell<DnsSettings>,
    hickory: RefCell<Option<TokioResolver>>,
    asking: Cell<usize>,
    /// Names whose look-up had no answer, and until when they are not asked for again.
    silent: Until,
    /// Names whose answer for IPv6 was late.
    late: Until,
}

/// Names that need no query: IP literals, `localhost` and everything below it.
pub(super) fn without_question(host: &str) -> Option<Vec<IpAddr>> {
    if let Ok(literal) = host.parse::<IpAddr>() {
        return Some(vec![literal]);
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let localhost = name == "localhost" || name.ends_with(".localhost");
    // RFC 6761 §6.3: never asked of a name server. IPv4 first: most local origins listen there only.
    localhost.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

impl Resolver {
    /// A resolver that will read the system's settings when first asked.
    pub fn new(settings: DnsSettings) -> Self {
        Self {
            settings: RefCell::new(settings),
            hickory: RefCell::new(None),
            asking: Cell::new(0),
            silent: Until::default(),
            late: Until::default(),
        }
    }

    /// Looks names up by these settings from now on. If they differ from those before, cached answers are forgotten.
    pub fn follow(&self, settings: DnsSettings) {
        if *self.settings.borrow() != settings {
            self.settings.replace(settings);
            self.hickory.take();
            self.silent.clear();
            self.late.clear();
        }
    }

    #[cfg(test)]
    /// Forgets answers and settings; the next query reads them again.
    pub fn reload(&self) {
        self.hickory.take();
    }

    #[cfg(test)]
    /// Names being looked up now.
    pub fn asking(&self) -> usize {
        self.asking.get()
    }

    /// The addresses of `host` (lower case). A name that had no answer a moment ago is not asked for again.
    pub(super) async fn look_up(&self, host: &str) -> Result<Found, ConnectError> {
        let began = Instant::now();
        if self.silent.has(host, began) {
            let error = Arc::new(ConnectError::DnsTimeout);
            return Err(ConnectError::Remembered(error));
        }
        let found = self.ask(host).await;
        match &found {
            Err(ConnectError::DnsTimeout) => {
                let now = Instant::now();
                let wait = now.saturating_duration_since(began).min(SILENT_FOR_MAX);
                self.silent.note(host, now, now + wait);
            }
            _ => self.silent.forget(host),
        }
        found
    }

    /// The addresses of `host`, even if it had no answer a moment ago.
    pub(super) async fn look_up_anew(&self, host: &str) -> Result<Found, ConnectError> {
        self.ask(host).await
    }

    /// The addresses of `host` (lower case) in ascending order, the first `most` of them, never none.
    pub async fn look_up_all(&self, host: &str, most: usize) -> Result<Vec<IpAddr>, ConnectError> {
        let mut found = self.ask(host).await?.addresses;
        found.sort_unstable();
        found.dedup();
        found.truncate(most);
        Ok(found)
    }

    /// The addresses of `host` (lower case), and until when they are valid.
    ///
    /// # Errors
    /// The name has no address, or the name servers fail to answer.
    pub async fn addresses(&self, host: &str) -> Result<Found, ConnectError> {
        self.ask(host).await
    }

    /// The servers that a name offers, in order and never none, and until when the answer is valid.
    ///
    /// # Errors
    /// The name offers none, or the name servers fail to answer.
    //= rfc2782   a Target of "." means that the service is decidedly not available
    pub async fn services(&self, name: &str) -> Result<(Vec<Service>, Instant), ConnectError> {
        let name = Name::from_ascii(name).map_err(|_| ConnectError::NotFound)?;
        let answer = self.within(async |by| by.lookup(name, RecordType::SRV).await);
        let answer = answer.await?;
        let of = |record: &Record| match &record.data {
            RData::SRV(srv) if !srv.target.is_root() => Some(Service {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_lowercase().to_ascii(),
            }),
            _ => None,
        };
        let mut services: Vec<Service> = answer.answers().iter().filter_map(of).collect();
        services.sort_unstable();
        services.dedup();
        match services.is_empty() {
            true => Err(ConnectError::NotFound),
            false => Ok((services, Instant::from_std(answer.valid_until()))),
        }
    }

    async fn ask(&self, host: &str) -> Result<Found, ConnectError> {
        if let Some(addresses) = without_question(host) {
            let until = Instant::now() + self.settings.borrow().ttl_max;
            return Ok(Found {
                addresses,
                until,
                is_partial: false,
            });
        }
        // Not `from_str`, which would apply IDNA rules: the host is ASCII as the client sent it.
        let name = Name::from_ascii(host).map_err(|_| ConnectError::NotFound)?;
        let found = self.within(async |by| both::addresses(&by, &name, &self.late).await);
        let found = found.await?;
        match found.addresses.is_empty() {
            true => Err(ConnectError::NotFound),
            false => Ok(found),
        }
    }

    /// Asks a question within the bounds on number and time.
    async fn within<T>(
        &self,
        question: impl AsyncFnOnce(TokioResolver) -> Result<T, NetError>,
    ) -> Result<T, ConnectError> {
        let _asking = Asking::begin(&self.asking).ok_or(ConnectError::DnsFailed)?;
        let hickory = self.hickory()?;
        let patience = (self.settings.borrow().timeout).saturating_mul(self.attempts());
        match timeout(patience, question(hickory)).await {
            Err(_) | Ok(Err(NetError::Timeout)) => Err(ConnectError::DnsTimeout),
            Ok(Err(error)) if error.is_no_records_found() => Err(ConnectError::NotFound),
            Ok(Err(error)) => {
                tracing::debug!(%error, "name look-up failed");
                Err(ConnectError::DnsFailed)
            }
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    fn attempts(&self) -> u32 {
        u32::try_from(self.settings.borrow().attempts)
            .unwrap_or(u32::MAX)
            .max(1)
    }

    fn hickory(&self) -> Result<TokioResolver, ConnectError> {
        let mut made = self.hickory.borrow_mut();
        if let Some(hickory) = &*made {
            return Ok(hickory.clone());
        }
        let settings = self.settings.borrow();
        let mut builder = if settings.servers.is_empty() {
            TokioResolver::builder_tokio().unwrap_or_else(|error| {
                tracing::warn!(%error, "no name server is configured: only the hosts file is used");
                with_servers(&[])
            })
        } else {
            with_servers(&settings.servers)
        };
        let DnsSettings {
            timeout,
            ttl_min,
            ttl_max,
            negative_ttl_max,
            names_max,
            ..
        } = *settings;
        let options = builder.options_mut();
        options.timeout = timeout;
        options.attempts = self.attempts() as usize - 1;
        options.cache_size = names_max as u64;
        // A lower bound above the upper one would make hickory panic.
        options.positive_min_ttl = Some(ttl_min.min(ttl_max));
        options.positive_max_ttl = Some(ttl_max);
        options.negative_min_ttl = Some(ttl_min.min(negative_ttl_max));
        options.negative_max_ttl = Some(negative_ttl_max);
        let hickory = builder.build().map_err(|error| {
            tracing::warn!(%error, "the name resolver can not be set up");
            ConnectError::DnsFailed
        })?;
        Ok(made.insert(hickory).clone())
    }
}

fn with_servers(servers: &[SocketAddr]) -> ResolverBuilder<TokioRuntimeProvider> {
    let servers = servers.iter().map(|server| {
        let connections =
            [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
        NameServerConfig::new(server.ip(), true, connections.into())
    });
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
}

/// Counts one look-up until it is dropped.
struct Asking<'a>(&'a Cell<usize>);

impl<'a> Asking<'a> {
    fn begin(count: &'a Cell<usize>) -> Option<Self> {
        if count.get() >= LOOKUPS_MAX {
            return None;
        }
        count.set(count.get() + 1);
        Some(Self(count))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Alternates the address families, so that a broken family costs one attempt instead of all (RFC 8305 §4).
fn alternate(answer: &[IpAddr]) -> Vec<IpAddr> {
    let mut v6 = answer.iter().copied().filter(IpAddr::is_ipv6);
    let mut v4 = answer.iter().copied().filter(IpAddr::is_ipv4);
    let mut addresses = Vec::with_capacity(ADDRESSES_MAX);
    while addresses.len() < ADDRESSES_MAX {
        let pair = [v6.next(), v4.next()];
        if pair == [None, None] {
            break;
        }
        addresses.extend(pair.into_iter().flatten());
    }
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

/// A name server for tests, speaking just enough of RFC 1035.
#[cfg(test)]
pub(super) struct NameServer(tokio::net::UdpSocket);

#[cfg(test)]
impl NameServer {
    pub(super) async fn new() -> Self {
        Self(tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap())
    }

    pub(super) fn settings(&self) -> DnsSettings {
        DnsSettings {
            servers: vec![self.0.local_addr().unwrap()],
            ..DnsSettings::default()
        }
    }

    /// Answers until `work` is done; the number of questions.
    pub(super) async fn while_answering<T>(&self, work: impl Future<Output = T>) -> usize {
        let mut work = std::pin::pin!(work);
        let mut question = [0; 512];
        let mut asked = 0;
        loop {
            tokio::select! {
                _ = &mut work => return asked,
                got = self.0.recv_from(&mut question) => {
                    let (length, from) = got.unwrap();
                    asked += 1;
                    if let Some(answer) = Self::answer(&question[..length]) {
                        self.0.send_to(&answer, from).await.unwrap();
                    }
                }
            }
        }
    }

    /// two.example has one address of each family, many.example twenty, inside.example a loopback address; none.example does not exist. silent6 and
    /// lame6.example: one family gets no answer, or an error. fail6.example: an error, and no address of the other. only6.example has only IPv6.
    fn answer(question: &[u8]) -> Option<Vec<u8>> {
        let name_length = question[12..].iter().position(|&b| b == 0).unwrap() + 1;
        let question_end = 12 + name_length + 4;
        let ipv4 = question[question_end - 3] == 1;
        let host = question[13..].split(|&b| b == 7).next().unwrap();
        let is_of_one = |families: [&[u8]; 2]| host == families[usize::from(ipv4)];
        if is_of_one([b"silent6", b"silent4"]) {
            return None;
        }
        let is_lame = is_of_one([b"lame6", b"lame4"]) || is_of_one([b"fail6", b"fail4"]);
        let address: Option<&[u8]> = match (host, ipv4) {
            _ if is_lame => None,
            (b"two" | b"silent6" | b"lame6", true) => Some(&[192, 0, 2, 7]),
            (b"two" | b"silent4" | b"lame4" | b"only6", false) => {
                Some(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7])
            }
            (b"many", true) => Some(&[192, 0, 2, 0]),
            (b"inside", true) => Some(&[127, 0, 0, 1]),
            _ => None,
        };
        let code = match &question[13..15] {
            b"br" => 2,
            _ if is_lame => 2,
            b"no" => 3,
            _ => 0,
        };
        let times = match (address, &question[13..17]) {
            (None, _) => 0,
            (Some(_), b"many") => 20,
            (Some(_), _) => 1,
        };
        let mut answer = question[..2].to_vec();
        answer.extend([0x81, 0x80 | code, 0, 1, 0, times, 0, 0, 0, 0]);
        answer.extend(&question[12..question_end]);
        for number in 0..times {
            // The name by reference, type, class IN, TTL 0, length.
            let (kind, address) = (if ipv4 { 1 } else { 28 }, address.unwrap());
            answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, address.len() as u8]);
            answer.extend(address);
            *answer.last_mut().unwrap() += number;
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn literals_and_localhost_need_no_question() {
        assert_eq!(without_question("192.0.2.1"), Some(ips(&["192.0.2.1"])));
        assert_eq!(without_question("2001:db8::1"), Some(ips(&["2001:db8::1"])));
        for host in ["localhost", "localhost.", "a.localhost"] {
            assert_eq!(
                without_question(host),
                Some(ips(&["127.0.0.1", "::1"])),
                "{host}"
            );
        }
        for host in [
            "notlocalhost",
            "localhost.example",
            "127.1",
            "0x7f000001",
            "",
        ] {
            assert_eq!(without_question(host), None, "{host}");
        }
    }

    #[test]
    fn families_take_turns_and_the_list_is_bounded() {
        let answer = ips(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]);
        let expected = ips(&["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        assert_eq!(alternate(&answer), expected);
        let many: Vec<IpAddr> = (0..100)
            .map(|n| Ipv4Addr::new(192, 0, 2, n).into())
            .collect();
        assert_eq!(alternate(&many), many[..ADDRESSES_MAX]);
    }

    #[test]
    fn look_ups_at_once_are_bounded_and_counted_to_the_end() {
        let count = Cell::new(0);
        let mut asking: Vec<_> = (0..LOOKUPS_MAX)
            .map(|_| Asking::begin(&count).unwrap())
            .collect();
        assert!(Asking::begin(&count).is_none());
        asking.pop();
        assert!(Asking::begin(&count).is_some());
        drop(asking);
        assert_eq!(count.get(), 0);
    }

    #[tokio::test]
    async fn all_addresses_come_in_order_and_are_asked_for_anew() {
        let server = NameServer::new().await;
        let resolver = Resolver::new(DnsSettings {
            ttl_min: Duration::ZERO,
            ttl_max: Duration::ZERO,
            names_max: 0,
            ..server.settings()
        });
        for most in [20, 3] {
            let asked = server.while_answering(async {
                let all = resolver.look_up_all("many.example", most).await.unwrap();
                let expected = (0..most).map(|n| IpAddr::from([192, 0, 2, n as u8]));
                assert_eq!(all, expected.collect::<Vec<_>>());
            });
            assert_eq!(asked.await, 2, "both families, each time");
        }
        let work = async {
            let few = resolver.look_up("many.example").await.unwrap();
            assert_eq!(few.to_try().len(), ADDRESSES_MAX);
        };
        server.while_answering(work).await;
    }

    #[tokio::test]
    async fn what_is_no_name_is_not_found() {
        let resolver = Resolver::new(DnsSettings::default());
        let long = "a".repeat(64);
        for host in ["a..b", &long] {
            assert_eq!(
                resolver.look_up(host).await,
                Err(ConnectError::NotFound),
                "{host}"
            );
        }
        assert_eq!(resolver.asking(), 0);
    }

    #[tokio::test]
    async fn answers_are_asked_for_once_even_with_a_ttl_of_zero() {
        let server = NameServer::new().await;
        let resolver = Resolver::new(DnsSettings {
            ttl_min: Duration::from_secs(60),
            ..server.settings()
        });
        let asked = server.while_answering(async {
            for _ in 0..3 {
                let found = resolver.look_up("two.example").await.unwrap();
                assert_eq!(found.to_try(), ips(&["2001:db8::7", "192.0.2.7"]));
            }
        });
        assert_eq!(asked.await, 2, "one question for each family");
        resolver.reload();
        let asked =
            server.while_answering(async { resolver.look_up("two.example").await.unwrap() });
        assert_eq!(asked.await, 2, "nothing is remembered");
    }

    #[tokio::test]
    async fn names_that_do_not_exist_and_failures_are_told_apart() {
        let server = NameServer::new().await;
        let resolver = Resolver::new(server.settings());
        server
            .while_answering(async {
                assert_eq!(
                    resolver.look_up("none.example").await,
                    Err(ConnectError::NotFound)
                );
                assert_eq!(
                    resolver.look_up("broken.example").await,
                    Err(ConnectError::DnsFailed)
                );
            })
            .await;
        let impatient = DnsSettings {
            timeout: Duration::from_millis(5),
            attempts: 1,
            ..server.settings()
        };
        let silence = Resolver::new(impatient).look_up("two.example").await;
        assert_eq!(silence, Err(ConnectError::DnsTimeout));
    }
}
