//! Members of a cluster on this machine, each on an address of its own that is known before it starts.
//!
//! All of 127/8 is this machine, so every member gets an address of which nobody else in this process, nor in another one, has the port.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use ::proxy::plan::{Cluster, ClusterKey, ClusterMember, PeerAddress, Plan};

use super::{Proxy, eventually, running::with_admin};

/// The port of every member.
const PORT: u16 = 3130;

/// Addresses for the members of one cluster.
pub fn addresses(members: u8) -> Vec<SocketAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let (of_process, of_cluster) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let second = 64 + (of_process % 128) as u8;
    let address = |member| Ipv4Addr::new(127, second, of_cluster, member);
    let socket = |member| SocketAddr::new(IpAddr::V4(address(member)), PORT);
    (1..=members).map(socket).collect()
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
