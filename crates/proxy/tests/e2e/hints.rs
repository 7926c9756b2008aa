//! What siblings may ask of us beside objects: ICP queries, and digests.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use ::hints::{
    digest::{self, Digest},
    icp::{Message, Opcode},
    squid::{self, SquidDigest},
};
use ::proxy::plan::Plan;
use store::Tracing;

use crate::harness::{
    running::{draining_long, forward_plan, local, with_admin},
    *,
};

fn origin() -> Origin {
    Origin::start(|exchange| match exchange.path() {
        "/stale" => exchange.send(ok(&["Cache-Control: max-age=0"], "x")),
        "/vary" => exchange.send(ok(&[FRESH, "Vary: Accept"], "x")),
        "/private" => exchange.send(ok(&["Cache-Control: private"], "x")),
        _ => exchange.send(ok(&[FRESH], "x")),
    })
}

fn with_icp(mut plan: Plan) -> Plan {
    plan.icp.listen = Some(local());
    plan
}

/// A sibling of the test's.
struct Asker {
    socket: UdpSocket,
    to: SocketAddr,
    request: u32,
}

impl Asker {
    fn of(proxy: &Proxy) -> Asker {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        (socket.set_read_timeout(Some(Duration::from_secs(20)))).unwrap();
        Asker {
            socket,
            to: proxy.icp(),
            request: 0,
        }
    }

    fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to).unwrap();
    }

    fn ask(&mut self, url: &str) -> Opcode {
        self.request += 1;
        let query = Message {
            opcode: Opcode::Query,
            request: self.request,
            url: url.as_bytes(),
        };
        let mut datagram = Vec::new();
        assert!(query.encode(&mut datagram));
        self.send(&datagram);
        let mut answer = [0; 2048];
        let (len, from) = self.socket.recv_from(&mut answer).unwrap();
        assert_eq!(from, self.to);
        assert!(len < datagram.len(), "an answer is shorter than its query");
        let answer = Message::decode(&answer[..len]).unwrap();
        assert_eq!((answer.request, answer.url), (self.request, url.as_bytes()));
        answer.opcode
    }
}

#[test]
fn icp_says_hit_for_what_an_ordinary_request_would_get() {
    let origin = origin();
    let proxy = Proxy::start(with_icp(forward_plan(&[])));
    let mut asker = Asker::of(&proxy);
    let url = |path: &str| format!("http://{}{path}", origin.address);
    for path in ["/a", "/stale", "/vary", "/private"] {
        proxy.get(&url(path));
    }
    assert_eq!(asker.ask(&url("/a")), Opcode::Hit);
    assert_eq!(asker.ask(&url("/b")), Opcode::Miss);
    assert_eq!(asker.ask(&url("/stale")), Opcode::Miss);
    assert_eq!(asker.ask(&url("/vary")), Opcode::Miss);
    assert_eq!(asker.ask(&url("/private")), Opcode::Miss);
    assert_eq!(asker.ask("no url"), Opcode::Error);
    assert_eq!(asker.ask("ftp://a/"), Opcode::Error);
    assert_eq!(origin.requests().len(), 4, "no query reached the origin");
}

#[test]
fn icp_knows_what_is_on_disk_alone() {
    let origin = origin();
    let disk = Disk::of_mib(16);
    let mut plan = with_icp(disk.under(forward_plan(&[])));
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan);
    let mut asker = Asker::of(&proxy);
    let url = format!("http://{}/a", origin.address);
    assert_eq!(asker.ask(&url), Opcode::Miss);
    proxy.get(&url);
    assert_eq!(asker.ask(&url), Opcode::Hit);
    let answer = proxy.ask("GET", &url, &["Cache-Control: only-if-cached"]);
    assert_eq!((answer.status, answer.is_hit()), (200, true));
}

#[test]
fn what_is_no_query_is_ignored_and_what_follows_is_answered() {
    let origin = origin();
    let proxy = Proxy::start(with_icp(forward_plan(&[])));
    let mut asker = Asker::of(&proxy);
    let url = format!("http://{}/a", origin.address);
    asker.send(b"");
    asker.send(&[1, 2, 0, 20]);
    asker.send(&[0; 65_000]);
    let stray = Message {
        opcode: Opcode::Hit,
        request: 9,
        url: url.as_bytes(),
    };
    let mut datagram = Vec::new();
    stray.encode(&mut datagram);
    asker.send(&datagram);
    assert_eq!(asker.ask(&url), Opcode::Miss);
}

#[test]
fn who_drains_says_that_nothing_is_fetched_here() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::start(move |exchange| {
            if exchange.path() == "/slow" {
                gate.pass();
            }
            exchange.send(ok(&[FRESH], "x"));
        })
    };
    let proxy = Proxy::start(with_icp(draining_long(forward_plan(&[]))));
    let mut asker = Asker::of(&proxy);
    let url = |path: &str| format!("http://{}{path}", origin.address);
    proxy.get(&url("/a"));
    let mut client = proxy.client();
    client.ask("GET", &url("/slow"), &[]);
    gate.arrived(1);
    proxy.begin_to_stop();
    let is_draining = || (asker.ask(&url("/a")) == Opcode::MissNoFetch).then_some(());
    eventually("MISS_NOFETCH", is_draining);
    gate.open();
    assert_eq!(client.read("GET").status, 200);
}

fn with_digest(mut plan: Plan) -> Plan {
    plan.digests.serve = true;
    plan.digests.squid = true;
    plan
}

fn may_have(digest: &Digest, url: &str) -> bool {
    let seed = digest.seed;
    digest.may_have(|shape| {
        Tracing {
            seed,
            shards: shape.shards,
            segments: shape.segments,
        }
        .trace(format!("GET {url}").as_bytes())
    })
}

#[test]
fn a_digest_tells_what_is_on_disk_also_after_a_start() {
    let origin = origin();
    let disk = Disk::of_mib(16);
    let url = |path: &str| format!("http://{}{path}", origin.address);
    let proxy = Proxy::start(with_digest(disk.under(forward_plan(&[]))));
    for n in 0..50 {
        proxy.get(&url(&format!("/{n}")));
    }
    proxy.get(&url("/vary"));
    let squids = proxy.get(squid::PATH);
    assert_eq!(squids.field("content-type"), Some(squid::MEDIA_TYPE));
    let squids = SquidDigest::decode(&squids.body).unwrap();
    assert!((0..50).all(|n| squids.may_have(url(&format!("/{n}")).as_bytes())));
    assert!(!squids.may_have(url("/none").as_bytes()));
    proxy.stop();
    // It comes from the index: nothing is asked for after this start.
    let proxy = Proxy::start(with_digest(disk.under(forward_plan(&[]))));
    let digest = eventually("a whole digest", || {
        let answer = proxy.get(digest::PATH);
        assert_eq!(answer.field("content-type"), Some(digest::MEDIA_TYPE));
        // 50 records, a variant, and the marker that leads to it.
        let digest = Digest::decode(&answer.body).unwrap();
        (digest.traces() == 52).then_some(digest)
    });
    assert!((0..50).all(|n| may_have(&digest, &url(&format!("/{n}")))));
    assert!(may_have(&digest, &url("/vary")));
    assert!(!may_have(&digest, &url("/none")));
}

#[test]
fn a_digest_is_served_only_where_one_is_made() {
    let origin = origin();
    let proxy = Proxy::start(forward_plan(&[]));
    for path in [digest::PATH, squid::PATH] {
        assert_eq!(proxy.get(path).status, 404);
        assert_eq!(proxy.ask("POST", path, &["Content-Length: 0"]).status, 400);
    }
    // To a reverse listener it is a path like any other.
    let proxy = Proxy::start(plan_for(&origin));
    assert_eq!(proxy.get(digest::PATH).status, 200);
    assert_eq!(origin.count(digest::PATH), 1);
}

#[test]
fn the_status_tells_of_icp() {
    let origin = origin();
    let proxy = Proxy::start(with_admin(with_icp(forward_plan(&[]))));
    let mut asker = Asker::of(&proxy);
    let url = format!("http://{}/a", origin.address);
    asker.ask(&url);
    proxy.get(&url);
    asker.ask(&url);
    proxy.await_count("icp_hits_sent", 1);
    proxy.await_count("icp_misses_sent", 1);
    proxy.await_count("icp_received", 2);
}
