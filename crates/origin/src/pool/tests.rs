//! The pool over real sockets on loopback.

use super::*;
use base::access::Forbidden;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(20);

fn small() -> Limits {
    Limits {
        idle_per_destination_max: 2,
        idle_max: 3,
        per_destination_max: 2,
        waiting_per_destination_max: 2,
        idle_timeout: Duration::from_secs(60),
        max_age: Duration::from_secs(3600),
    }
}

/// A destination with a listener behind it, so that its connections can be told apart by local port.
struct Origin {
    listener: TcpListener,
    destination: Destination,
    peer: SocketAddr,
}

impl Origin {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap();
        let destination = Destination {
            tls: false,
            host: "127.0.0.1".into(),
            port: peer.port(),
            member: None,
            terms: None,
            http2: None,
        };
        Self {
            listener,
            destination,
            peer,
        }
    }

    /// A new connection in use, and the origin's end of it.
    async fn lease(&self, pool: &Pool) -> (Lease, TcpStream) {
        let Ok(Grant::Slot(slot)) = pool.slot(&self.destination, LONG).await else {
            panic!("a slot was due")
        };
        self.connect(slot).await
    }

    async fn connect(&self, slot: Slot) -> (Lease, TcpStream) {
        let (ours, theirs) = tokio::join!(TcpStream::connect(self.peer), self.listener.accept());
        (
            Lease::new(
                slot,
                Stream::Tcp(base::socket::of(ours.unwrap())),
                self.peer,
                true,
            ),
            theirs.unwrap().0,
        )
    }

    fn checkout(&self, pool: &Pool) -> Option<Lease> {
        pool.checkout(&self.destination, &Destinations::default())
    }
}

fn port(lease: &Lease) -> u16 {
    let Carrier::Alone(stream) = &lease.carrier else {
        panic!("it has a connection of its own");
    };
    stream.tcp().local_addr().unwrap().port()
}

/// Polls once, so that the future joins the queue.
async fn begun<F: Future>(mut future: std::pin::Pin<&mut F>) {
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn the_newest_idle_connection_is_used_first() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (a, _a) = origin.lease(&pool).await;
    let (b, _b) = origin.lease(&pool).await;
    let newest = port(&b);
    assert_eq!((pool.idle(), pool.in_use()), (0, 2));
    a.reuse();
    b.reuse();
    assert_eq!((pool.idle(), pool.in_use()), (2, 0));
    let again = origin.checkout(&pool).unwrap();
    assert_eq!((port(&again), again.is_reused()), (newest, true));
    drop(again);
    assert_eq!(
        (pool.idle(), pool.in_use()),
        (1, 0),
        "a dropped lease is closed"
    );
    pool.audit();
}

#[tokio::test]
async fn a_connection_the_origin_closed_is_not_handed_out() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (lease, theirs) = origin.lease(&pool).await;
    lease.reuse();
    drop(theirs);
    let probe = origin.checkout(&pool);
    if let Some(mut lease) = probe {
        // The runtime has not noticed yet: wait until it has, then put the connection back as it would have been.
        lease.stream().tcp().readable().await.unwrap();
        pool.put_back(lease);
        assert!(origin.checkout(&pool).is_none());
    }
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    pool.audit();
}

#[tokio::test]
async fn a_connection_with_unasked_bytes_is_not_kept() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (mut lease, mut theirs) = origin.lease(&pool).await;
    theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    lease.stream().tcp().readable().await.unwrap();
    lease.reuse();
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    pool.audit();
}

#[tokio::test]
async fn a_connection_another_listener_may_not_use_stays_where_it_is() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (lease, _theirs) = origin.lease(&pool).await;
    lease.reuse();
    let public = Destinations {
        loopback: false,
        ..Destinations::default()
    };
    assert!(pool.checkout(&origin.destination, &public).is_none());
    // The test's address alone does not decide: any own address of this machine is inward.
    let (peer, allow) = (origin.peer, vec!["127.0.0.0/8".parse().unwrap()]);
    assert_eq!(
        public.check_pooled("198.51.100.1:80".parse().unwrap(), false),
        Ok(())
    );
    let inward = public.check_pooled("198.51.100.1:80".parse().unwrap(), true);
    assert_eq!(inward, Err(Forbidden::Inward));
    let allowed = Destinations { allow, ..public };
    assert_eq!(allowed.check_pooled(peer, true), Ok(()));
    assert_eq!(pool.idle(), 1);
    assert!(origin.checkout(&pool).is_some());
    pool.audit();
}

#[tokio::test]
async fn idle_connections_are_bounded_and_the_oldest_go_first() {
    let (pool, a, b) = (Pool::new(small()), Origin::new().await, Origin::new().await);
    let mut ends = Vec::new();
    for origin in [&a, &b] {
        let (one, end_one) = origin.lease(&pool).await;
        let (two, end_two) = origin.lease(&pool).await;
        one.reuse();
        two.reuse();
        ends.extend([end_one, end_two]);
        pool.audit();
    }
    assert_eq!(pool.idle(), 3, "four were put back, the first was closed");
    assert!(a.checkout(&pool).is_some());
    assert!(a.checkout(&pool).is_none());
    drop((b.checkout(&pool).unwrap(), b.checkout(&pool).unwrap()));
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    assert!(pool.0.state.borrow().destinations.is_empty());
}

#[tokio::test]
async fn one_destination_closes_its_own_oldest() {
    let limits = Limits {
        per_destination_max: 3,
        ..small()
    };
    let (pool, origin) = (Pool::new(limits), Origin::new().await);
    let (a, _a) = origin.lease(&pool).await;
    let (b, _b) = origin.lease(&pool).await;
    let (c, _c) = origin.lease(&pool).await;
    let ports = [port(&c), port(&b)];
    a.reuse();
    b.reuse();
    c.reuse();
    pool.audit();
    let left = [
        origin.checkout(&pool).unwrap(),
        origin.checkout(&pool).unwrap(),
    ];
    assert_eq!([port(&left[0]), port(&left[1])], ports);
}

#[tokio::test]
async fn a_new_connection_at_the_bound_takes_an_idle_ones_place() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (a, _a) = origin.lease(&pool).await;
    let (b, _b) = origin.lease(&pool).await;
    a.reuse();
    let (fresh, _fresh) = origin.lease(&pool).await;
    assert_eq!((pool.idle(), pool.in_use()), (0, 2));
    pool.audit();
    drop((b, fresh));
    pool.audit();
}

#[tokio::test]
async fn the_sweep_closes_what_was_idle_too_long() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let start = Instant::now();
    pool.sweep(start);
    let (lease, _theirs) = origin.lease(&pool).await;
    lease.reuse();
    pool.sweep(start + Duration::from_secs(59));
    assert_eq!(pool.idle(), 1);
    pool.sweep(start + Duration::from_secs(60));
    assert_eq!(pool.idle(), 0);
    assert!(pool.0.state.borrow().destinations.is_empty());
    pool.audit();
}

#[tokio::test]
async fn at_the_bound_one_waits_for_a_warm_connection_or_a_slot() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (a, _a) = origin.lease(&pool).await;
    let (b, _b) = origin.lease(&pool).await;
    let warm = port(&a);
    let mut first = pin!(pool.slot(&origin.destination, LONG));
    let mut second = pin!(pool.slot(&origin.destination, LONG));
    begun(first.as_mut()).await;
    begun(second.as_mut()).await;
    assert_eq!(pool.waiting(), 2);
    assert!(
        matches!(
            pool.slot(&origin.destination, LONG).await,
            Err(ConnectError::Busy)
        ),
        "the queue is full"
    );
    pool.audit();

    a.reuse();
    let Ok(Grant::Warm(lease)) = first.await else {
        panic!("the first gets the open connection")
    };
    assert_eq!((port(&lease), lease.is_reused()), (warm, true));
    drop(b);
    let Ok(Grant::Slot(slot)) = second.await else {
        panic!("the second gets the closed one's place")
    };
    assert_eq!((pool.in_use(), pool.waiting(), pool.idle()), (2, 0, 0));
    drop((lease, slot));
    assert_eq!(pool.in_use(), 0);
    pool.audit();
}

#[tokio::test]
async fn who_gave_up_waiting_neither_blocks_the_queue_nor_loses_the_place() {
    let limits = Limits {
        per_destination_max: 1,
        ..small()
    };
    let (pool, origin) = (Pool::new(limits), Origin::new().await);
    let (lease, _theirs) = origin.lease(&pool).await;
    let timed_out = pool.slot(&origin.destination, Duration::ZERO).await;
    assert!(matches!(timed_out, Err(ConnectError::Busy)));

    let mut cancelled = Box::pin(pool.slot(&origin.destination, LONG));
    begun(cancelled.as_mut()).await;
    let mut patient = pin!(pool.slot(&origin.destination, LONG));
    begun(patient.as_mut()).await;
    pool.audit();
    // The receiver leaves while its grant is on the way: the grant must go on to the next waiter.
    drop(lease);
    drop(cancelled);
    assert!(matches!(patient.await, Ok(Grant::Slot(_))));
    assert_eq!((pool.in_use(), pool.waiting()), (0, 0));
    pool.audit();
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn what_may_not_be_repeated_gets_a_connection_that_its_origin_keeps_for_longer() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let young = || pool.checkout_young(&origin.destination, &Destinations::default());
    for (told, is_young) in [(60, true), (0, false)] {
        let (mut lease, _theirs) = origin.lease(&pool).await;
        lease.answered(Instant::now(), Some(told * SECOND));
        lease.reuse();
        assert_eq!(young().is_some(), is_young, "{told} s");
        drop(origin.checkout(&pool));
    }
    let (mut lease, _theirs) = origin.lease(&pool).await;
    lease.answered(Instant::now() - 60 * SECOND, Some(60 * SECOND));
    lease.reuse();
    assert!(young().is_none(), "it is about to be closed");
    assert_eq!(pool.idle(), 1, "another request may have it");
    pool.audit();
}

#[tokio::test]
async fn the_kernel_is_asked_whether_a_young_connection_is_open() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (mut lease, theirs) = origin.lease(&pool).await;
    lease.answered(Instant::now(), Some(60 * SECOND));
    lease.reuse();
    drop(theirs);
    // Nothing is awaited, so the runtime has seen no event.
    assert!(
        pool.checkout_young(&origin.destination, &Destinations::default())
            .is_none()
    );
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    pool.audit();
}

#[tokio::test]
async fn as_many_stay_idle_as_were_in_use_at_once_lately() {
    let limits = Limits {
        per_destination_max: 9,
        idle_per_destination_max: 9,
        idle_max: 9,
        idle_timeout: 1000 * SECOND,
        ..small()
    };
    let (pool, origin) = (Pool::new(limits), Origin::new().await);
    let start = Instant::now();
    pool.sweep(start);
    let mut leases = Vec::new();
    for _ in 0..5 {
        leases.push(origin.lease(&pool).await);
    }
    let (leases, _theirs): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
    leases.into_iter().for_each(Lease::reuse);
    for (at, idle) in [(1, 5), (60, 5), (119, 5), (120, 2), (200, 2)] {
        pool.sweep(start + at * SECOND);
        assert_eq!(pool.idle(), idle, "after {at} s");
        pool.audit();
    }
}

#[tokio::test]
async fn a_name_that_leaves_an_address_takes_its_connections_along() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let start = Instant::now();
    let (idle, _idle) = origin.lease(&pool).await;
    let (used, _used) = origin.lease(&pool).await;
    let resolved = |ip: &str, until| {
        let addresses = [ip.parse().unwrap()];
        pool.resolved(&origin.destination, &addresses, until);
    };
    resolved("127.0.0.1", start + 5 * SECOND);
    idle.reuse();
    assert!(pool.sweep(start + 4 * SECOND).is_empty());
    assert_eq!(
        pool.sweep(start + 5 * SECOND),
        std::slice::from_ref(&origin.destination),
        "it is time to look it up again"
    );
    assert!(pool.sweep(start + 6 * SECOND).is_empty(), "under way");
    pool.unresolved(&origin.destination, start + 8 * SECOND);
    assert_eq!(pool.idle(), 1, "it leads where it led");
    assert_eq!(pool.sweep(start + 8 * SECOND).len(), 1);
    resolved("::ffff:127.0.0.1", start + 9 * SECOND);
    assert_eq!(pool.idle(), 1, "the same address");
    for at in 10..13 {
        assert_eq!(pool.idle(), 1, "it may be one of several answers");
        pool.sweep(start + at * SECOND);
        resolved("127.0.0.2", start + (at + 1) * SECOND);
    }
    assert_eq!((pool.idle(), pool.in_use()), (0, 1));
    used.reuse();
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    assert!(
        pool.sweep(start + 20 * SECOND).is_empty(),
        "nobody needs it"
    );
    pool.audit();
}

#[tokio::test]
async fn answers_that_rotate_leave_connections_alone() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let start = Instant::now();
    let (idle, _idle) = origin.lease(&pool).await;
    let mut idle = Some(idle);
    for at in 0..50 {
        pool.sweep(start + at * SECOND);
        // Each answer has one of five addresses, for a second; several connections ask.
        let answer = [format!("127.0.0.{}", at % 5 + 1).parse().unwrap()];
        for _ in 0..4 {
            pool.resolved(&origin.destination, &answer, start + (at + 1) * SECOND);
        }
        if at == 10 {
            idle.take().unwrap().reuse();
        }
        assert!(at < 10 || pool.idle() == 1, "after {at} s");
    }
    // The name moves, and the pool notices.
    for at in 50..61 {
        pool.sweep(start + at * SECOND);
        let answer = ["127.0.0.9".parse().unwrap()];
        pool.resolved(&origin.destination, &answer, start + (at + 1) * SECOND);
    }
    assert_eq!(pool.idle(), 0);
    pool.audit();
}

#[tokio::test]
async fn each_of_many_names_has_its_turn() {
    let (pool, origin) = (Pool::new(Limits::default()), Origin::new().await);
    let start = Instant::now();
    let (mut used, mut asked) = (Vec::new(), std::collections::HashSet::new());
    let peer = [origin.peer.ip()];
    for n in 0..150 {
        let named = Destination {
            host: format!("n{n}.test").into(),
            ..origin.destination.clone()
        };
        let Ok(Grant::Slot(slot)) = pool.slot(&named, LONG).await else {
            panic!("a slot was due")
        };
        used.push(slot);
        pool.resolved(&named, &peer, start);
    }
    for at in 1..5 {
        for to in pool.sweep(start + at * SECOND) {
            pool.resolved(&to, &peer, start + (at + 1) * SECOND);
            asked.insert(to);
        }
    }
    assert_eq!(asked.len(), 150);
}

#[tokio::test]
async fn an_old_connection_takes_no_further_request() {
    let limits = Limits {
        max_age: 30 * SECOND,
        ..small()
    };
    let (pool, origin) = (Pool::new(limits), Origin::new().await);
    let start = Instant::now();
    pool.sweep(start);
    let (one, _one) = origin.lease(&pool).await;
    let (other, _other) = origin.lease(&pool).await;
    one.reuse();
    pool.sweep(start + 29 * SECOND);
    assert_eq!(pool.idle(), 1);
    pool.sweep(start + 30 * SECOND);
    assert_eq!(pool.idle(), 0);
    other.reuse();
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    pool.audit();
}
