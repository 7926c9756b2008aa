//! Siblings that are asked by ICP and by digest: two of us; and with `--ignored` an installed Squid, each asking the other.

use std::{
    net::{SocketAddr, TcpListener, UdpSocket},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ::proxy::plan::{Ask, PeerAddress, Plan, Sibling};
use profile::{Event, Gauge, Item, Reader};

use crate::{
    harness::{
        running::{forward_plan, with_admin},
        *,
    },
    hierarchy::at,
};

/// With Date: without one a Squid takes any answer for stale.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        exchange.send(ok(&[FRESH, &format!("Date: {date}")], "origin"));
    })
}

fn url(origin: &Origin, path: &str) -> String {
    format!("http://{}{path}", origin.address)
}

/// A proxy that asks this sibling.
fn asking(http: SocketAddr, ask: Ask) -> Plan {
    let mut plan = with_admin(forward_plan(&[]));
    plan.siblings = vec![Sibling {
        name: "sibling".to_owned(),
        at: at(http),
        ask,
        wait: Duration::from_secs(5),
        ..Sibling::default()
    }];
    plan.digests.fetch_interval = Duration::from_millis(200);
    plan
}

fn with_icp(mut plan: Plan) -> Plan {
    plan.icp.listen = Some("127.0.0.1:0".parse().unwrap());
    plan
}

fn with_digest(disk: &Disk, plan: Plan) -> Plan {
    let mut plan = disk.under(plan);
    (plan.digests.serve, plan.digests.squid) = (true, true);
    plan
}

#[test]
fn a_hit_by_icp_is_had_from_the_sibling() {
    let origin = origin();
    let other = Proxy::start(with_icp(forward_plan(&[])));
    let port = other.icp().port();
    let proxy = Proxy::start(asking(other.address(), Ask::Icp { port }));
    other.get(&url(&origin, "/there"));
    // Its address may not be looked up yet; then it is not asked.
    eventually("the sibling is asked", || {
        let n = proxy.counter("icp_queries_sent");
        proxy.get(&url(&origin, &format!("/not-there-{n}")));
        (proxy.counter("icp_queries_sent") > n).then_some(())
    });
    assert_eq!(proxy.get(&url(&origin, "/there")).text(), "origin");
    assert_eq!(origin.count("/there"), 1);
    proxy.await_count("icp_hits_received", 1);
    eventually("it is counted", || {
        (proxy.counter("icp_misses_received") > 0).then_some(())
    });
}

#[test]
fn a_sibling_without_ears_costs_a_wait_and_no_error() {
    let origin = origin();
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = deaf.local_addr().unwrap().port();
    let mut plan = asking(origin.address, Ask::Icp { port });
    plan.siblings[0].wait = Duration::from_millis(5);
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile");
    plan.logs.profile = Some(profile.clone());
    let proxy = Proxy::start(plan);
    let mut asked = 0;
    eventually("it is not waited for any more", || {
        asked += 1;
        let answer = proxy.get(&url(&origin, &format!("/{asked}")));
        assert_eq!((answer.status, answer.text()), (200, "origin"));
        (proxy.counter("icp_queries_spared") > 0).then_some(())
    });
    proxy.await_count("icp_unanswered", 20);
    let sent = proxy.counter("icp_sent");
    eventually("the profile tells", || {
        // It is being written: behind what is whole may be a beginning.
        let file = std::fs::read(&profile).unwrap();
        let mut items = Reader::new(&file[..]).ok()?.map_while(Result::ok);
        items.find_map(|item| match item {
            Item::Event(Event::Second(it)) => it.get(Gauge::IcpSent).filter(|it| *it >= sent),
            _ => None,
        })
    });
}

#[test]
fn a_hit_by_digest_is_had_from_the_sibling() {
    let origin = origin();
    let disk = Disk::of_mib(16);
    let other = Proxy::start(with_digest(&disk, forward_plan(&[])));
    for n in 0..20 {
        other.get(&url(&origin, &format!("/{n}")));
    }
    // It keeps nothing: until the digest is fetched, the origin is asked, however often that is.
    let mut plan = asking(other.address(), Ask::Digest);
    plan.memory_bytes = 0;
    let proxy = Proxy::start(plan);
    let mut fetched = 0;
    eventually("a digest that has them", || {
        fetched += 1;
        proxy.get(&url(&origin, &format!("/{}", fetched % 20)));
        (proxy.counter("digest_true_hits") > 0).then_some(())
    });
    let status = proxy.admin("GET", "/status");
    assert!(
        status.text().contains("\"format\": \"loligo\""),
        "{status:?}"
    );
    eventually("it is counted", || {
        (proxy.counter("digests_fetched") > 0).then_some(())
    });
    assert_eq!(proxy.counter("digest_false_hits"), 0);
}

#[test]
fn what_is_no_digest_is_counted_and_nobody_is_asked_by_it() {
    let origin = origin();
    // Whatever it is asked for, it answers with a page.
    let proxy = Proxy::start(asking(origin.address, Ask::Digest));
    eventually("a failure", || {
        (proxy.counter("digests_failed") > 0).then_some(())
    });
    assert_eq!(proxy.get(&url(&origin, "/a")).status, 200);
    assert_eq!(proxy.counter("digest_yes"), 0);
}

/// An installed Squid. It goes to near origins directly, unless it is told not to (`minimum_direct_rtt`, `minimum_direct_hops`).
struct Squid {
    process: Child,
    _dir: tempfile::TempDir,
    http: SocketAddr,
    icp: u16,
}

/// A port that is free now, for TCP and for UDP.
fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Squid {
    /// On these ports, with these further lines.
    fn start(http: u16, icp: u16, more: &str) -> Squid {
        let dir = tempfile::tempdir().unwrap();
        use std::os::unix::fs::PermissionsExt;
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        let run = dir.path().display();
        let text = format!(
            "http_port 127.0.0.1:{http}\nicp_port {icp}\nudp_incoming_address 127.0.0.1\n\
             acl all_here src 127.0.0.0/8\nhttp_access allow all_here\nicp_access allow all_here\n\
             cache_mem 16 MB\npinger_enable off\nnetdb_filename none\nvisible_hostname squid.test\n\
             shutdown_lifetime 0 seconds\ndigest_rebuild_period 10 seconds\n\
             digest_rewrite_period 10 seconds\ncache_dir ufs {run}/cache 20 4 4\n\
             minimum_direct_rtt 0\nminimum_direct_hops 0\nicp_query_timeout 2000\naccess_log stdio:{run}/access.log squid\n\
             cache_log {run}/cache.log\npid_filename {run}/squid.pid\ncoredump_dir {run}\n{more}\n"
        );
        let conf = dir.path().join("squid.conf");
        std::fs::write(&conf, text).unwrap();
        let command = || {
            let mut command = Command::new("/usr/sbin/squid");
            let service = format!("e2e{http}");
            command.args(["-N", "-n", &service, "-f"]).arg(&conf);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        // Only what is in a cache_dir is in a Squid's digest.
        let made = command().arg("-z").status();
        assert!(made.expect("Squid is installed").success());
        let process = command().spawn().expect("Squid is installed");
        let http = SocketAddr::from(([127, 0, 0, 1], http));
        let squid = Squid {
            process,
            _dir: dir,
            http,
            icp,
        };
        eventually("Squid listens", || std::net::TcpStream::connect(http).ok());
        squid
    }

    fn get(&self, url: &str) -> Response {
        Client::connect(self.http).get(url)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self._dir.path().join("access.log")).unwrap_or_default()
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self._dir.path().join("cache.log"));
            eprintln!("{}\n{}", log.unwrap_or_default(), self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Longer than other waits: a Squid makes its digest every ten seconds.
fn in_a_minute(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !ask() {
        assert!(Instant::now() < deadline, "{what}");
    }
}

#[test]
#[ignore = "needs an installed Squid"]
fn a_squid_and_we_ask_each_other_by_icp() {
    let origin = origin();
    let (http, icp) = (free_port(), free_port());
    let address = SocketAddr::from(([127, 0, 0, 1], http));
    let mut plan = asking(address, Ask::Icp { port: icp });
    // A Squid ignores queries from its own address, whatever their port.
    plan.icp.listen = Some("127.0.0.2:0".parse().unwrap());
    plan.listeners[0].address = "127.0.0.2:0".parse().unwrap();
    let proxy = Proxy::start(plan);
    let (ours, our_icp) = (proxy.address().port(), proxy.icp().port());
    let peer = format!(
        "cache_peer 127.0.0.2 sibling {ours} {our_icp} no-digest no-netdb-exchange name=loligo"
    );
    let squid = Squid::start(http, icp, &peer);
    assert_eq!(squid.icp, icp);
    // Squid has it, we ask.
    assert_eq!(squid.get(&url(&origin, "/a")).status, 200);
    assert_eq!(proxy.get(&url(&origin, "/a")).text(), "origin");
    assert_eq!(origin.count("/a"), 1, "from Squid");
    // We have it, Squid asks.
    assert_eq!(proxy.get(&url(&origin, "/b")).status, 200);
    assert_eq!(squid.get(&url(&origin, "/b")).text(), "origin");
    assert_eq!(origin.count("/b"), 1, "from us");
    let log = eventually("it is logged", || {
        Some(squid.log()).filter(|log| log.contains("SIBLING_HIT"))
    });
    println!("{log}");
    eventually("it is counted", || {
        (proxy.counter("icp_hits_sent") >= 1).then_some(())
    });
    eventually("it is counted", || {
        (proxy.counter("icp_hits_received") >= 1).then_some(())
    });
}

#[test]
#[ignore = "needs an installed Squid, built with digests; takes half a minute"]
fn a_squid_and_we_read_each_others_digest() {
    let origin = origin();
    let (http, icp) = (free_port(), free_port());
    let address = SocketAddr::from(([127, 0, 0, 1], http));
    // Squid spoils the first four kilobytes of a digest (bug 5510): one of twenty is good enough to see that it reads the rest.
    let disk = Disk::of_mib(256);
    let proxy = Proxy::start(with_digest(&disk, asking(address, Ask::Digest)));
    let ours = proxy.address().port();
    for n in 0..100 {
        proxy.get(&url(&origin, &format!("/ours/{n}")));
    }
    let peer =
        format!("cache_peer 127.0.0.1 sibling {ours} 0 no-query no-netdb-exchange name=loligo");
    let squid = Squid::start(http, icp, &peer);
    // Squid reads ours: what it asks for comes from us. It fetches the digest when it first could have used it.
    let mut asked = 0;
    in_a_minute("Squid reads our digest", || {
        let path = format!("/ours/{}", asked % 100);
        asked += 1;
        squid.get(&url(&origin, &path));
        squid.log().contains("CD_SIBLING_HIT/127.0.0.1")
            || squid.log().contains("CD_SIBLING_HIT/loligo")
    });
    println!("{}", squid.log());
    // We read Squid's.
    for n in 0..100 {
        squid.get(&url(&origin, &format!("/squids/{n}")));
    }
    let mut asked = 0;
    in_a_minute("we read Squid's digest", || {
        let path = format!("/squids/{}", asked % 100);
        asked += 1;
        proxy.get(&url(&origin, &path));
        proxy.counter("digest_true_hits") > 0
    });
    println!("false hits: {}", proxy.counter("digest_false_hits"));
}

/// The name of a sibling is looked up, too.
#[test]
fn a_sibling_may_be_named() {
    let origin = origin();
    let other = Proxy::start(with_icp(forward_plan(&[])));
    let port = other.icp().port();
    let mut plan = asking(other.address(), Ask::Icp { port });
    let PeerAddress { host, .. } = &mut plan.siblings[0].at;
    *host = "localhost".to_owned();
    let proxy = Proxy::start(plan);
    // Until the name is resolved nobody is asked; each try wants what is not stored yet.
    let mut tries = 0;
    eventually("it is asked", || {
        tries += 1;
        proxy.get(&url(&origin, &format!("/{tries}")));
        (proxy.counter("icp_queries_sent") > 0).then_some(())
    });
}
