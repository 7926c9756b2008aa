//! The choices of a seed before a run begins: the configuration, and the resources of origins.
//!
//! Not known here: the events of the run.

use std::{net::SocketAddr, time::Duration};

use proxy::plan::{
    self, AdmissionKind, Balance, Excess, HealthCheck, HostPort, LazyMode, Listener, LocalityMode,
    Mirroring, OriginUrl, Per, Plan, Quota, QuotaKeys, Rate, Role, Route, StorePlan, Upstream,
    What,
};
use ring::digest::{SHA256, digest};
use simulation::Random;

use crate::{
    drill,
    life::{GROUP_SITE, Listener as Known, MIRROR_SITE, SITE},
    world::{Resource, Vary, write_body},
};

/// An address.
pub fn at(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

/// Origins that every forward listener leads to.
const OUTSIDE: [([u8; 4], &str); 2] = [
    ([203, 0, 113, 1], "203.0.113.1"),
    ([203, 0, 113, 2], "203.0.113.2"),
];
/// The address of the group of servers that share resources. No server has it.
pub const GROUP: [u8; 4] = [203, 0, 113, 10];
/// Number of its servers, which have the next addresses.
const SERVERS: u8 = 3;
/// The origin behind the mirror.
pub const INDEX: [u8; 4] = [203, 0, 113, 20];
/// The host to which this origin may redirect the mirror for files.
pub const FILES: ([u8; 4], &str) = ([203, 0, 113, 21], "203.0.113.21");
/// A host to which it may not.
pub const ELSEWHERE: ([u8; 4], &str) = ([203, 0, 113, 22], "203.0.113.22");
const INSIDE: ([u8; 4], u16, &str) = ([127, 0, 0, 9], 8080, "127.0.0.9:8080");

/// The index of the group's server with this address.
pub fn server_of(address: SocketAddr) -> Option<usize> {
    let SocketAddr::V4(address) = address else {
        return None;
    };
    let [a, b, c, last] = address.ip().octets();
    let number = last.checked_sub(GROUP[3] + 1)?;
    ([a, b, c] == GROUP[..3] && number < SERVERS).then_some(usize::from(number))
}

/// The upstream of the group with its servers, and the route to it.
fn group(random: &mut Random) -> (Upstream, Route) {
    let server = |number: u8| {
        let [a, b, c, last] = GROUP;
        plan::Server::at(OriginUrl {
            tls: false,
            host: format!("{a}.{b}.{c}.{}", last + 1 + number),
            port: 80,
            path: String::new(),
        })
    };
    let upstream = Upstream {
        name: "group".to_owned(),
        servers: (0..SERVERS).map(server).collect(),
        balance: random.pick(&[
            Balance::LeastOutstanding,
            Balance::RoundRobin,
            Balance::HashUrl,
            Balance::HashClient,
        ]),
        slow_start: Duration::from_secs(random.below(10)),
        health: random.one_in(2).then(|| HealthCheck {
            every: drill::CHECK_EVERY,
            path: "/health".to_owned(),
            // Origins of this simulation have no such resource, and answer 404.
            status: vec![404..=404],
            ..HealthCheck::default()
        }),
        ..Upstream::default()
    };
    (upstream, Route::everything_to_upstream("group", ""))
}

/// Settings of a mirror: it follows its origin to the files, and verifies bodies that are named by their digests.
fn mirroring() -> Mirroring {
    let files = HostPort {
        host: FILES.1.to_owned(),
        port: None,
    };
    Mirroring {
        follow: vec![files],
        verify: true,
        ..Mirroring::default()
    }
}

/// A file behind the mirror, which is named by its digest and never changes.
fn file(number: usize, random: &mut Random) -> Resource {
    let mut file = Resource {
        host: MIRROR_SITE,
        path: String::new(),
        origin: at(INDEX, 80),
        vary: Vary::Nothing,
        bytes: random.pick(&[300, 9000, 40_000, 150_000]),
        max_age_s: random.pick(&[10, 60, 600]),
        stale_while_s: 0,
        has_etag: true,
        has_ranges: random.one_in(2),
        knows_if_range: true,
        is_public: random.one_in(2),
        private_one_in: 0,
        tag: "",
        is_file: true,
        version: 1,
    };
    let mut body = vec![0; file.length(1) as usize];
    write_body(number, 0, 1, 0, &mut body);
    let digest = digest(&SHA256, &body);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    file.path = format!("/blobs/sha256:{}", digits.collect::<String>());
    file
}

/// Quotas of a listener.
fn quotas(random: &mut Random) -> Vec<Quota> {
    let quota = |name: &str, per, what, amount: usize, then| Quota {
        name: name.to_owned(),
        per,
        what,
        rate: Rate {
            amount: amount as u64,
            period: Duration::from_secs(10),
        },
        burst: amount as u64,
        then,
        keys: QuotaKeys::default(),
    };
    let mut then = |ms| match random.one_in(2) {
        true => Excess::Refuse,
        false => Excess::Delay(Duration::from_millis(ms)),
    };
    vec![
        quota(
            "fetches",
            Per::Listener,
            What::FetchesAtOnce,
            drill::AT_ONCE,
            then(300),
        ),
        quota("misses", Per::Listener, What::Misses, 6, then(3000)),
        quota(
            "connections",
            Per::Client,
            What::Connections,
            drill::AT_ONCE,
            Excess::Refuse,
        ),
    ]
}

/// The configuration, and its listeners as clients know them.
pub fn choose_plan(random: &mut Random) -> (Plan, Vec<Known>) {
    let networks = || vec!["10.0.0.0/8".parse().expect("a network")];
    let forward = |name, port, leads_inside| {
        let mut listener = Listener::forward(at([192, 0, 2, 1], port), networks());
        if let Role::Forward(forward) = &mut listener.role {
            forward.destinations.loopback = leads_inside;
        }
        let known = Known {
            name,
            site: "",
            is_forward: true,
            tells_client: false,
            leads_inside,
            origin: None,
        };
        (listener, known)
    };
    let reverse = |called, port, (ip, name): ([u8; 4], &str)| {
        let origin = OriginUrl {
            tls: false,
            host: name.to_owned(),
            port: 80,
            path: String::new(),
        };
        let mut listener = Listener::reverse(at([192, 0, 2, 1], port), networks(), origin);
        listener.purge_from = networks();
        let known = Known {
            name: called,
            site: SITE,
            is_forward: false,
            tells_client: false,
            leads_inside: true,
            origin: Some(at(ip, 80)),
        };
        (listener, known)
    };
    let telling = |(mut listener, known): (Listener, Known)| {
        if let Role::Reverse(routes) = &mut listener.role {
            routes[0].tells_client = true;
        }
        let tells_client = true;
        (
            listener,
            Known {
                tells_client,
                ..known
            },
        )
    };
    let (upstream, route) = group(random);
    let of_group = |(mut listener, known): (Listener, Known)| {
        listener.role = Role::Reverse(vec![route]);
        (
            listener,
            Known {
                site: GROUP_SITE,
                ..known
            },
        )
    };
    let of_mirror = |(mut listener, known): (Listener, Known)| {
        if let Role::Reverse(routes) = &mut listener.role {
            routes[0].mirror = mirroring();
        }
        let site = MIRROR_SITE;
        (listener, Known { site, ..known })
    };
    let limited = |(mut listener, known): (Listener, Known)| {
        listener.quotas = ["fetches", "misses", "connections"]
            .map(str::to_owned)
            .to_vec();
        (listener, known)
    };
    let all = [
        forward("forward inside", 3128, true),
        forward("forward", 3129, false),
        reverse("reverse 1", 8001, OUTSIDE[0]),
        limited(reverse("reverse 2", 8002, OUTSIDE[1])),
        of_mirror(reverse("mirror", 8005, (INDEX, "203.0.113.20"))),
        of_group(reverse("group", 8004, (GROUP, "unused"))),
        telling(reverse("reverse telling", 8003, OUTSIDE[0])),
    ];
    let (listeners, known): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let mut plan = Plan::with_listeners(listeners);
    let seconds = |random: &mut Random, most| Duration::from_secs(1 + random.below(most));
    for listener in &mut plan.listeners {
        listener.http2 = true;
    }
    plan.upstreams = vec![upstream];
    plan.quotas = quotas(random);
    plan.workers = 1 + random.index(2);
    plan.memory_bytes = random.pick(&[0, 1 << 20, 16 << 20]);
    if !random.one_in(6) {
        plan.stores = vec![StorePlan::at(
            "simulated",
            Some(random.pick(&[8 << 20, 16 << 20])),
        )];
    }
    let storing = &mut plan.storing;
    storing.cluster_bytes = random.pick(&[64 << 10, 256 << 10]);
    storing.cluster_deadline = Duration::from_millis(random.pick(&[10, 300, 1000]));
    storing.fragment_bytes = 64 << 10;
    storing.lazy_reads = LazyMode::Gather(random.pick(&[0, 4]));
    storing.locality = LocalityMode::Servers(random.pick(&[0, 8]));
    storing.admission = random.pick(&[AdmissionKind::All, AdmissionKind::BySize]);
    storing.read_wait = Duration::from_millis(random.pick(&[200, 1000, 5000]));
    let limits = &mut plan.limits;
    limits.memory_object_bytes_max = random.pick(&[8 << 10, 1 << 20]);
    limits.transfer_bytes_max = random.pick(&[64 << 10, 1 << 20]);
    limits.transfer_buffer_bytes = 4 << 20;
    limits.waiters_max = random.pick(&[1, 4, 1024]);
    let timeouts = &mut plan.timeouts;
    timeouts.client_idle = seconds(random, 30);
    timeouts.client_write = seconds(random, 30);
    timeouts.connect = seconds(random, 5);
    timeouts.origin_first_byte = seconds(random, 10);
    timeouts.origin_idle_read = seconds(random, 10);
    timeouts.pool_idle = seconds(random, 30);
    timeouts.drain = seconds(random, 10);
    plan.pool.per_origin_max = random.pick(&[2, 8, 1024]);
    if random.one_in(3) {
        plan.cache.stale_while_revalidate = Duration::from_secs(20);
        plan.cache.stale_if_error = Duration::from_secs(60);
    }
    (plan, known)
}

/// The resources of all origins.
pub fn choose_resources(random: &mut Random) -> Vec<Resource> {
    let count = 6 + random.index(20);
    let one = |n: usize, random: &mut Random| {
        let outside = OUTSIDE[n % 2];
        let (host, origin) = match random.below(7) {
            6 => (GROUP_SITE, at(GROUP, 80)),
            0 => (INSIDE.2, at(INSIDE.0, INSIDE.1)),
            1..4 => (outside.1, at(outside.0, 80)),
            _ => (SITE, at(outside.0, 80)),
        };
        Resource {
            host,
            path: format!("/{}/{}", random.pick(&["a", "b"]), n / 2),
            origin,
            vary: random.pick(&[Vary::Nothing, Vary::Nothing, Vary::Flavor, Vary::Coding]),
            bytes: match random.below(8) {
                0 => 0,
                1 | 2 => 70_000 + random.below(400_000),
                3..5 => 20_000 + random.below(60_000),
                _ => random.below(8_000),
            },
            max_age_s: random.pick(&[0, 2, 10, 60, 600]),
            stale_while_s: random.pick(&[0, 0, 0, 10]),
            has_etag: !random.one_in(4),
            has_ranges: !random.one_in(3),
            knows_if_range: !random.one_in(3),
            is_public: random.one_in(2),
            private_one_in: random.pick(&[0, 0, 0, 3]),
            tag: random.pick(&["", "red", "blue"]),
            is_file: false,
            version: 1,
        }
    };
    let mut all: Vec<Resource> = (0..count).map(|n| one(n, random)).collect();
    // At least one in each place, so that every listener has something to lead to.
    for (n, (host, origin)) in [
        (INSIDE.2, at(INSIDE.0, INSIDE.1)),
        (SITE, at(OUTSIDE[0].0, 80)),
        (SITE, at(OUTSIDE[1].0, 80)),
        (GROUP_SITE, at(GROUP, 80)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut resource = one(n, random);
        (resource.host, resource.origin, resource.path) = (host, origin, "/a/common".to_owned());
        if random.one_in(2) {
            // Large, with several versions of equal length, and an origin that ignores If-Range: unchecked, versions would be mixed.
            resource.bytes = 200_000 + random.below(200_000);
            (resource.has_etag, resource.has_ranges) = (true, true);
            (resource.knows_if_range, resource.is_public) = (false, true);
            (resource.private_one_in, resource.max_age_s) = (0, 60);
            resource.vary = Vary::Nothing;
        }
        all.push(resource);
    }
    // Remove resources with the same path.
    all.sort_by_key(|r| (r.origin, r.host, r.path.clone()));
    all.dedup_by_key(|r| (r.origin, r.host, r.path.clone()));
    // A body depends on the number of its resource, and files are named by their bodies, so they come last.
    for number in all.len()..all.len() + 3 {
        all.push(file(number, random));
    }
    all
}
