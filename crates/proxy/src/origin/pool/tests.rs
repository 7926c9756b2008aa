//! The pool over real sockets on loopback.

use super::*;
use crate::access::Forbidden;
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
                Stream::Tcp(crate::socket::of(ours.unwrap())),
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
    lease.stream.tcp().local_addr().unwrap().port()
}

/// Polls once, so that it stands in the queue.
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
    if let Some(lease) = probe {
        // Not noticed yet: wait until it is, then put it back as it would have been.
        lease.stream.tcp().readable().await.unwrap();
        pool.put_back(lease);
        assert!(origin.checkout(&pool).is_none());
    }
    assert_eq!((pool.idle(), pool.in_use()), (0, 0));
    pool.audit();
}

#[tokio::test]
async fn a_connection_with_unasked_bytes_is_not_kept() {
    let (pool, origin) = (Pool::new(small()), Origin::new().await);
    let (lease, mut theirs) = origin.lease(&pool).await;
    theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    lease.stream.tcp().readable().await.unwrap();
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
    // Not because of its address alone: any own address of this machine is inward.
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
    // The grant is on its way when its receiver leaves: it must go on to the next.
    drop(lease);
    drop(cancelled);
    assert!(matches!(patient.await, Ok(Grant::Slot(_))));
    assert_eq!((pool.in_use(), pool.waiting()), (0, 0));
    pool.audit();
}
