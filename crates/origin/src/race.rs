//! Several addresses of one name: which is tried first, and which connection wins.
//!
//! RFC 8305, in part: addresses are tried one after the other, the families alternating, each after the last attempt failed or
//! after [`HEAD_START`]. The first connection wins, and the others are closed. IPv6 comes first (`dns`), unless IPv4 has won
//! for this name within [`MEMORY`]: so where IPv6 does not work, only one connection in that time waits for it.
//!
//! Not known here: which addresses may be tried (`inward`). Limits: [`NAMES_MAX`] names for which IPv4 has won; while all of them are
//! recent, further names are not remembered. `dns::ADDRESSES_MAX` attempts at once.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::connection::ConnectError;
use crate::dns::ADDRESSES_MAX;
use base::{clock::Instant, socket::Socket};

/// RFC 8305 §5, "Connection Attempt Delay".
const HEAD_START: Duration = Duration::from_millis(250);
/// How long a win of IPv4 is remembered.
const MEMORY: Duration = Duration::from_secs(600);
/// The most names for which a win of IPv4 is remembered.
const NAMES_MAX: usize = 1024;

/// The names of one worker for which IPv4 has won over IPv6, and until when each is remembered.
#[derive(Default)]
pub(super) struct Families(RefCell<HashMap<Box<str>, Instant>>);

impl Families {
    /// The first connection made to any of these addresses of `host`; each attempt has a head start over the next.
    pub(super) async fn race(
        &self,
        host: &str,
        addresses: &[SocketAddr],
    ) -> Result<Socket, ConnectError> {
        if let [only] = addresses {
            return Ok(Socket::connect(*only).await?);
        }
        let tried = self.ordered(host, addresses, Instant::now());
        let tcp = race(&tried).await?;
        self.won(host, &tried, tcp.peer_addr()?, Instant::now());
        Ok(tcp)
    }

    //= rfc8305 §4   stateful knowledge of which family has worked comes before the rules of address selection
    fn ordered(&self, host: &str, addresses: &[SocketAddr], now: Instant) -> Vec<SocketAddr> {
        let mut ordered = addresses.to_vec();
        let names = self.0.borrow();
        if names.get(host).is_some_and(|until| now < *until)
            && let Some(first) = ordered.iter().position(SocketAddr::is_ipv4)
        {
            ordered[..=first].rotate_right(1);
        }
        ordered
    }

    fn won(&self, host: &str, tried: &[SocketAddr], winner: SocketAddr, now: Instant) {
        let mut names = self.0.borrow_mut();
        if is_v6(&winner) {
            names.remove(host);
        } else if tried.first().is_some_and(is_v6) {
            if names.len() >= NAMES_MAX {
                names.retain(|_, until| now < *until);
            }
            if names.len() < NAMES_MAX {
                names.insert(host.into(), now + MEMORY);
            }
        }
    }
}

fn is_v6(address: &SocketAddr) -> bool {
    matches!(address.ip().to_canonical(), IpAddr::V6(_))
}

async fn race(addresses: &[SocketAddr]) -> Result<Socket, ConnectError> {
    debug_assert!(addresses.len() <= ADDRESSES_MAX);
    let mut attempts = JoinSet::new();
    let mut left = addresses.iter().copied();
    let mut failure: Option<ConnectError> = None;
    loop {
        // No attempt was started yet, or the last one has failed or used up its head start.
        let next = left.next();
        if let Some(address) = next {
            attempts.spawn(Socket::connect(address));
        }
        let turn = tokio::time::Instant::now() + HEAD_START;
        tokio::select! {
            biased;
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(tcp))) => return Ok(tcp),
                Some(Ok(Err(error))) => failure = Some(more_telling(failure, error.into())),
                // An attempt cannot panic or be aborted while we wait; if it did, count it as failed.
                Some(Err(_)) => {}
                None => return Err(failure.unwrap_or(ConnectError::NotFound)),
            },
            () = sleep_until(turn), if next.is_some() => {}
        }
    }
}

/// Which of two failures to report: a refusal by the origin before a time-out, and either before a missing route (which often means
/// that there is no IPv6).
fn more_telling(had: Option<ConnectError>, new: ConnectError) -> ConnectError {
    fn weight(error: &ConnectError) -> u8 {
        match error {
            ConnectError::Refused => 4,
            ConnectError::Timeout => 3,
            ConnectError::Io(_) => 2,
            ConnectError::Unroutable => 1,
            _ => 0,
        }
    }
    match had {
        Some(had) if weight(&had) >= weight(&new) => had,
        _ => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tokio::net::TcpListener;

    async fn listen(at: &str) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address without a listener.
    async fn closed(at: &str) -> SocketAddr {
        listen(at).await.1
    }

    const V4: &str = "127.0.0.1:0";
    const V6: &str = "[::1]:0";

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_fails() {
        let (_listener, open) = listen(V4).await;
        let tcp = race(&[closed(V4).await, open]).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), open);
        let all_closed = [closed(V4).await, closed(V4).await];
        assert_eq!(race(&all_closed).await.err(), Some(ConnectError::Refused));
        assert_eq!(race(&[]).await.err(), Some(ConnectError::NotFound));
    }

    #[tokio::test]
    async fn the_family_that_has_won_is_tried_first_for_a_while() {
        let (_v4, open) = listen(V4).await;
        let dead = closed(V6).await;
        let families = Families::default();
        let tcp = families.race("a", &[dead, open]).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), open);
        let now = Instant::now();
        let more = [dead, open, dead, open];
        let of = |host, now| families.ordered(host, &more, now);
        assert_eq!(of("a", now), [open, dead, dead, open]);
        assert_eq!(of("b", now), more, "of another name nothing is known");
        assert_eq!(of("a", now + MEMORY), more, "IPv6 has another chance");
        // A win of IPv4 where it is tried first tells nothing about IPv6.
        families.won("a", &[open, dead], open, now + MEMORY / 2);
        assert_eq!(of("a", now + MEMORY), more);
        families.won("a", &[open, dead], dead, now);
        assert_eq!(of("a", now), more, "IPv6 works again");
    }

    #[test]
    fn names_are_remembered_up_to_a_bound() {
        let (families, now) = (Families::default(), Instant::now());
        let [v6, v4] = ["[::1]:1", "127.0.0.1:1"].map(|it| it.parse().unwrap());
        let won = |host: usize, now| families.won(&host.to_string(), &[v6, v4], v4, now);
        (0..2 * NAMES_MAX).for_each(|host| won(host, now));
        assert_eq!(families.0.borrow().len(), NAMES_MAX);
        won(0, now + MEMORY);
        assert_eq!(families.0.borrow().len(), 1);
    }

    #[test]
    fn an_answer_tells_more_than_a_silence_and_that_more_than_no_route() {
        let errors = [
            io::ErrorKind::NetworkUnreachable,
            io::ErrorKind::TimedOut,
            io::ErrorKind::ConnectionRefused,
        ];
        let told = errors.into_iter().fold(None, |had, kind| {
            Some(more_telling(had, io::Error::from(kind).into()))
        });
        assert_eq!(told, Some(ConnectError::Refused));
        let told = more_telling(Some(ConnectError::Refused), ConnectError::Unroutable);
        assert_eq!(told, ConnectError::Refused);
    }
}
