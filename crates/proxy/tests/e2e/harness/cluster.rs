//! Members of a cluster on this machine, each on an address of its own that is known before it starts.
//!
//! All of 127/8 is this machine, so every member gets an address of which nobody else in this process, nor in another one, has the port.
//!
//! Limits: 32,768 clusters at a time on one machine.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ::proxy::plan::{Cluster, ClusterKey, ClusterMember, PeerAddress, Plan};

use super::{Proxy, eventually, running::with_admin};

/// The port of every member.
const PORT: u16 = 3130;

/// Addresses for the members of one cluster: those of a network of its own, 127.64.0.0/24 to 127.191.255.0/24.
///
/// A network is taken by a socket on its last address, which is held until the process ends. So no two tests have the same one, nor two
/// processes of the same number modulo something.
pub fn addresses(members: u8) -> Vec<SocketAddr> {
    const NETWORKS: u32 = 128 << 8;
    const TAKES: u8 = 254;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static TAKEN: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    assert!(members < TAKES, "{members}");
    let start = process::id().wrapping_mul(256);
    for _ in 0..NETWORKS {
        let network = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % NETWORKS;
        let (second, third) = (64 + (network >> 8) as u8, network as u8);
        let socket = |last| {
            let address = Ipv4Addr::new(127, second, third, last);
            SocketAddr::new(IpAddr::V4(address), PORT)
        };
        if let Ok(taken) = TcpListener::bind(socket(TAKES)) {
            let mut all = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(taken);
            return (1..=members).map(socket).collect();
        }
    }
    panic!("no network of 127.64.0.0/10 and 127.128.0.0/10 is free at port {PORT}");
}

/// The plan as that of the member of this number, called `n1`, `n2` and so on. It has an admin interface, and tells news every 100 ms.
pub fn member(plan: Plan, number: usize, all: &[SocketAddr]) -> Plan {
    let name = |number: usize| format!("n{}", number + 1);
    let others = all.iter().enumerate().filter(|(other, _)| *other != number);
    let other = |(number, address): (usize, &SocketAddr)| ClusterMember {
        name: name(number),
        at: PeerAddress {
            host: address.ip().to_string(),
            port: address.port(),
        },
    };
    let cluster = Cluster {
        name: name(number),
        address: all[number],
        key: ClusterKey::new([7; ClusterKey::BYTES]),
        members: others.map(other).collect(),
        update_period: Duration::from_millis(100),
        // What a member stores from its first moment on may be served at once.
        rejoin_wait: Duration::ZERO,
        ..Cluster::default()
    };
    with_admin(Plan {
        cluster: Some(cluster),
        ..plan
    })
}

/// The same as a front; with no memory, so that what it has is what members have, and pushing nothing.
pub fn front(plan: Plan, number: usize, all: &[SocketAddr]) -> Plan {
    let mut plan = member(plan, number, all);
    let settings = cluster(&mut plan);
    (settings.front, settings.push_max_bytes) = (true, 0);
    Plan {
        memory_bytes: 0,
        ..plan
    }
}

/// Its settings of the cluster.
pub fn cluster(plan: &mut Plan) -> &mut Cluster {
    plan.cluster.as_mut().expect("it is a member")
}

/// What a front says of where a request for this URL would go.
pub fn route(front: &Proxy, url: &str) -> String {
    let answer = front.admin("GET", &format!("/cluster/route?url={url}"));
    answer.text().to_owned()
}

/// Until a front knows that the member of this name seems to have what is asked for.
#[track_caller]
pub fn await_hint(front: &Proxy, url: &str, name: &str) {
    await_route(front, url, &format!("member {name}: up; seems to have it"));
}

/// Until a front says this of where a request would go.
#[track_caller]
pub fn await_route(front: &Proxy, url: &str, words: &str) {
    let mut said = String::new();
    eventually(words, || {
        said = route(front, url);
        said.contains(words).then_some(())
    });
}

/// Until nothing is being pushed.
#[track_caller]
pub fn await_quiet(front: &Proxy) {
    eventually("nothing is on its way", || {
        let metrics = front.admin("GET", "/metrics");
        let is_quiet = metrics
            .text()
            .contains("\nloligo_cluster_push_bytes_open 0\n");
        is_quiet.then_some(())
    });
}
