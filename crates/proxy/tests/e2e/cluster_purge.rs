//! Purges in a cluster: they hold at every member, whoever is asked, and for a member that was away before it serves anything.

use std::{
    env, fs,
    io::{self, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

use proxy::plan::{Admin, Cluster, Plan, StorePlan};
use serde_json::Value;
use tempfile::TempDir;

use super::harness::{
    Client, Exchange, FRESH, Origin, Proxy, Response,
    child::{READY, spawn},
    cluster::{addresses, cluster, member},
    eventually, head, ok, plan_for,
    running::local,
};

const HOST: &str = "http://test.example";
/// Answered from the cache or not at all.
const CACHED: &[&str] = &["Cache-Control: only-if-cached"];

/// Each answer says how often its URL was asked for. Those of `/tagged` have a tag.
fn counting() -> Origin {
    Origin::start(|exchange: &mut Exchange| {
        let text = format!("version {}", exchange.nth());
        let tag: &[&str] = match exchange.path().starts_with("/tagged") {
            true => &["Cache-Tag: a-tag"],
            false => &[],
        };
        exchange.send(ok(&[&[FRESH], tag].concat(), text));
    })
}

/// What outlives a member: its store and its journal.
struct House {
    dir: TempDir,
    number: usize,
    all: Vec<SocketAddr>,
}

impl House {
    fn of(number: usize, all: &[SocketAddr]) -> House {
        House {
            dir: tempfile::tempdir().unwrap(),
            number,
            all: all.to_vec(),
        }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// With a store and no memory, so that what is served was read.
    fn plan(&self, origin: &Origin) -> Plan {
        let mut plan = member(plan_for(origin), self.number, &self.all);
        plan.memory_bytes = 0;
        plan.storing.cluster_deadline = Duration::from_millis(10);
        plan.stores = vec![StorePlan::at(self.store(), Some(16 << 20))];
        let settings = cluster(&mut plan);
        settings.state = Some(self.state());
        // What was stored before has to wait for what the others tell.
        settings.rejoin_wait = Cluster::default().rejoin_wait;
        plan
    }

    fn start(&self, origin: &Origin) -> Proxy {
        Proxy::start(self.plan(origin))
    }

    /// Until the device has it. Direct writes: what another descriptor reads is what was written.
    fn await_written(&self, path: &str) {
        eventually("it is on disk", || {
            let bytes = fs::read(self.store()).unwrap();
            memchr::memmem::find(&bytes, path.as_bytes()).map(drop)
        });
    }

    /// What a crash at this moment would leave.
    fn copy(&self) -> House {
        let copy = House::of(self.number, &self.all);
        fs::copy(self.store(), copy.store()).unwrap();
        fs::create_dir(copy.state()).unwrap();
        for file in fs::read_dir(self.state()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.state().join(file.file_name())).unwrap();
        }
        copy
    }
}

fn delete(proxy: &Proxy, query: &str) -> Response {
    proxy.admin("DELETE", &format!("/cache?{query}"))
}

/// A purge that all members have.
#[track_caller]
fn purge(proxy: &Proxy, query: &str) {
    let answer = delete(proxy, query);
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert!(
        !text.contains("away") && !text.contains("missing"),
        "{text}"
    );
}

/// A purge while the member of this name is away.
#[track_caller]
fn purge_without(proxy: &Proxy, query: &str, name: &str) {
    let answer = delete(proxy, query);
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    let away = format!("\"away\": [\n    \"{name}\"\n  ]");
    assert!(text.contains(&away), "{text}");
}

/// Until each has a link to all others.
fn await_links(members: &[&Proxy]) {
    for proxy in members {
        eventually("all are linked", || {
            let answer = delete(proxy, "url=http://nobody.example/");
            let is_all = answer.status == 200 && !answer.text().contains("away");
            is_all.then_some(())
        });
    }
}

/// Until this is answered from what is stored.
fn await_hit(proxy: &Proxy, path: &str) -> String {
    eventually("it is found", || {
        let answer = proxy.ask("GET", path, CACHED);
        answer.is_hit().then(|| answer.text().to_owned())
    })
}

/// Fetches each, and waits until it is a hit.
fn fill(proxy: &Proxy, paths: &[&str]) {
    for path in paths {
        proxy.get(path);
        await_hit(proxy, path);
    }
}

#[test]
fn a_purge_at_any_member_holds_at_all() {
    let origin = counting();
    let all = addresses(3);
    let houses: Vec<House> = (0..2).map(|number| House::of(number, &all)).collect();
    // The third has no store, but memory.
    let mut front = member(plan_for(&origin), 2, &all);
    cluster(&mut front).push_max_bytes = 0;
    let members = [
        houses[0].start(&origin),
        houses[1].start(&origin),
        Proxy::start(front),
    ];
    await_links(&members.iter().collect::<Vec<_>>());
    let paths = ["/url", "/prefix/a", "/tagged", "/kept", "/soft"];
    for proxy in &members {
        fill(proxy, &paths);
    }
    purge(&members[0], &format!("url={HOST}/url"));
    purge(&members[1], &format!("prefix={HOST}/prefix/"));
    purge(&members[2], "tag=A-Tag");
    purge(&members[2], &format!("soft=1&url={HOST}/soft"));
    for proxy in &members {
        for path in ["/url", "/prefix/a", "/tagged", "/soft"] {
            assert_eq!(proxy.ask("GET", path, CACHED).status, 504, "{path}");
        }
        assert!(proxy.ask("GET", "/kept", CACHED).is_hit());
    }
}

#[test]
fn an_unsafe_method_at_one_member_hides_the_object_at_all() {
    let origin = counting();
    let all = addresses(2);
    let houses: Vec<House> = (0..2).map(|number| House::of(number, &all)).collect();
    let members: Vec<Proxy> = houses.iter().map(|house| house.start(&origin)).collect();
    await_links(&[&members[0], &members[1]]);
    fill(&members[0], &["/a"]);
    fill(&members[1], &["/a", "/b"]);
    assert_eq!(
        members[0].ask("POST", "/a", &["Content-Length: 0"]).status,
        200
    );
    for proxy in &members {
        assert_eq!(proxy.ask("GET", "/a", CACHED).status, 504);
    }
    assert!(members[1].ask("GET", "/b", CACHED).is_hit());
}

#[test]
fn a_variant_that_ends_at_one_member_ends_at_all() {
    for status in ["200 OK", "304 Not Modified"] {
        let origin = Origin::start(move |exchange: &mut Exchange| {
            let fields = ["Vary: Accept-Language", "ETag: \"1\""];
            match exchange.field("if-none-match") {
                None => exchange.send(ok(&[&fields[..], &[FRESH]].concat(), "text")),
                Some(_) if status.starts_with("304") => {
                    let fields = [&fields[..], &["Cache-Control: no-store"]].concat();
                    exchange.send(head(status, &fields));
                }
                Some(_) => exchange.send(ok(&["Cache-Control: no-store"], "text")),
            }
        });
        let all = addresses(2);
        let houses: Vec<House> = (0..2).map(|number| House::of(number, &all)).collect();
        let members: Vec<Proxy> = houses.iter().map(|house| house.start(&origin)).collect();
        await_links(&[&members[0], &members[1]]);
        let german = "Accept-Language: de";
        let cached = |proxy: &Proxy| proxy.ask("GET", "/v", &[german, CACHED[0]]);
        for proxy in &members {
            proxy.ask("GET", "/v", &[german]);
            eventually("it is found", || cached(proxy).is_hit().then_some(()));
        }
        members[0].ask("GET", "/v", &[german, "Cache-Control: no-cache"]);
        assert_eq!(cached(&members[0]).status, 504, "{status}");
        eventually("the other member has heard of it", || {
            (cached(&members[1]).status == 504).then_some(())
        });
    }
}

#[test]
fn a_member_that_was_away_serves_nothing_that_was_purged_meanwhile() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let (proxy, away) = (house.start(&origin), other.start(&origin));
    await_links(&[&proxy, &away]);
    let purged = ["/url", "/prefix/a", "/tagged", "/soft", "/posted"];
    fill(&away, &purged);
    fill(&away, &["/kept"]);
    away.stop();
    purge_without(&proxy, &format!("url={HOST}/url"), "n2");
    purge_without(&proxy, &format!("prefix={HOST}/prefix/"), "n2");
    purge_without(&proxy, "tag=a-tag", "n2");
    purge_without(&proxy, &format!("soft=1&url={HOST}/soft"), "n2");
    assert_eq!(
        proxy.ask("POST", "/posted", &["Content-Length: 0"]).status,
        200
    );
    // Its own restart forgets nothing of it either.
    proxy.stop();
    let proxy = house.start(&origin);
    let back = other.start(&origin);
    let answers = purged.map(|path| (path, back.ask("GET", path, CACHED).status));
    assert_eq!(answers, purged.map(|path| (path, 504)), "at once");
    assert_eq!(await_hit(&back, "/kept"), "version 1");
    for path in purged {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}, later");
    }
    await_links(&[&proxy, &back]);
}

#[test]
fn a_third_member_tells_what_the_one_that_was_asked_cannot() {
    let origin = counting();
    let all = addresses(3);
    let houses: Vec<House> = (0..3).map(|number| House::of(number, &all)).collect();
    let members: Vec<Proxy> = houses.iter().map(|house| house.start(&origin)).collect();
    await_links(&members.iter().collect::<Vec<_>>());
    let [asked, third, away] = <[Proxy; 3]>::try_from(members).ok().unwrap();
    fill(&away, &["/a", "/kept"]);
    away.stop();
    purge_without(&asked, &format!("url={HOST}/a"), "n3");
    asked.stop();
    let back = houses[2].start(&origin);
    assert_eq!(await_hit(&back, "/kept"), "version 1");
    assert_eq!(back.ask("GET", "/a", CACHED).status, 504);
    drop(third);
}

#[test]
fn a_member_that_missed_more_than_can_be_told_drops_everything() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let mut plan = house.plan(&origin);
    cluster(&mut plan).journal_max_bytes = 64 << 10;
    let (proxy, away) = (Proxy::start(plan), other.start(&origin));
    await_links(&[&proxy, &away]);
    fill(&away, &["/a", "/b"]);
    away.stop();
    purge_without(&proxy, &format!("url={HOST}/a"), "n2");
    let admin = proxy.ready.admin.unwrap();
    let mut client = Client::connect(admin);
    // Each at a server of its own, so that nothing can stand for many.
    for n in 0..1200 {
        let target = format!(
            "/cache?url=http://server-{n}.{}.example/",
            "a-long-name".repeat(5)
        );
        let host = format!("Host: {admin}");
        assert_eq!(
            client
                .ask("DELETE", &target, &[&host])
                .read("DELETE")
                .status,
            200
        );
    }
    let back = other.start(&origin);
    for path in ["/a", "/b"] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}");
    }
    await_links(&[&proxy, &back]);
    // What is stored from now on stays.
    fill(&back, &["/c"]);
    for path in ["/a", "/b"] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}");
    }
    back.stop();
    let again = other.start(&origin);
    assert_eq!(await_hit(&again, "/c"), "version 1");
    assert_eq!(again.ask("GET", "/b", CACHED).status, 504);
}

/// POSTs to this many paths, so many times, over four connections.
fn post(proxy: &Proxy, times: usize, path: impl Fn(usize) -> String + Sync) {
    thread::scope(|scope| {
        for part in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect(proxy.address());
                for n in (part..times).step_by(4) {
                    let answer = client.ask("POST", &path(n), &["Content-Length: 0"]);
                    assert_eq!(answer.read("POST").status, 200);
                }
            });
        }
    });
}

#[test]
fn a_journal_full_of_unsafe_methods_costs_a_member_that_was_away_no_more_than_what_they_name() {
    let origin = counting();
    let all = addresses(3);
    let houses: Vec<House> = (0..3).map(|number| House::of(number, &all)).collect();
    let start = |house: &House| {
        let mut plan = house.plan(&origin);
        // A hundred times less than there is to say.
        cluster(&mut plan).journal_max_bytes = 64 << 10;
        Proxy::start(plan)
    };
    let members: Vec<Proxy> = houses.iter().map(start).collect();
    await_links(&members.iter().collect::<Vec<_>>());
    let [first, second, away] = <[Proxy; 3]>::try_from(members).ok().unwrap();
    fill(&away, &["/posted/7", "/orders/1199", "/kept", "/posted"]);
    away.stop();
    purge_without(&first, "url=http://nobody.example/", "n3");
    post(&first, 1600, |n| format!("/posted/{}", n % 100));
    // Each another one: their directory stands for them.
    post(&second, 1200, |n| format!("/orders/{n}"));
    post(&first, 800, |n| format!("/posted/{}", n % 100));
    let back = start(&houses[2]);
    for path in ["/posted/7", "/orders/1199"] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}");
    }
    assert_eq!(await_hit(&back, "/kept"), "version 1");
    assert_eq!(await_hit(&back, "/posted"), "version 1");
    for path in ["/posted/7", "/orders/1199"] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}, later");
    }
    await_links(&[&first, &second, &back]);
    // What it was told it can tell: as a witness for one that starts after it.
    fill(&second, &["/orders/3", "/kept-too"]);
    second.stop();
    post(&first, 800, |n| format!("/orders/{n}"));
    first.stop();
    let second = start(&houses[1]);
    assert_eq!(await_hit(&second, "/kept-too"), "version 1");
    assert_eq!(second.ask("GET", "/orders/3", CACHED).status, 504);
}

#[test]
fn a_member_without_its_journal_drops_what_it_had_stored() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let (proxy, away) = (house.start(&origin), other.start(&origin));
    await_links(&[&proxy, &away]);
    fill(&away, &["/a"]);
    away.stop();
    fs::remove_dir_all(other.state()).unwrap();
    let back = other.start(&origin);
    await_links(&[&proxy, &back]);
    fill(&back, &["/b"]);
    assert_eq!(back.ask("GET", "/a", CACHED).status, 504);
}

/// Whoever joins has heard of the purges of the first one, and of no others.
#[test]
fn a_member_that_joins_costs_the_first_one_nothing() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let mut plan = house.plan(&origin);
    // Alone, it serves what it stores.
    cluster(&mut plan).rejoin_wait = Duration::ZERO;
    let first = Proxy::start(plan);
    fill(&first, &["/kept"]);
    // It hears what the first one tells, and can tell nothing itself.
    let mut plan = other.plan(&origin);
    cluster(&mut plan).members[0].at.port += 1;
    let second = Proxy::start(plan);
    await_links(&[&first]);
    second.stop();
    let second = other.start(&origin);
    eventually("the first one has heard everything", || {
        let status: Value = serde_json::from_str(second.admin("GET", "/status").text()).unwrap();
        (status["cluster"]["members"][0]["state"] == "up").then_some(())
    });
    assert_eq!(await_hit(&first, "/kept"), "version 1");
}

#[test]
fn a_member_whose_store_is_left_out_acknowledges_no_purge_and_hears_them_when_it_is_back() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let (proxy, without) = (house.start(&origin), other.start(&origin));
    await_links(&[&proxy, &without]);
    fill(&without, &["/a", "/posted", "/kept"]);
    without.stop();
    let elsewhere = other.store().with_extension("elsewhere");
    fs::rename(other.store(), &elsewhere).unwrap();
    fs::create_dir(other.store()).unwrap();
    let mut plan = other.plan(&origin);
    (plan.storing.required, plan.memory_bytes) = (false, 1 << 20);
    let without = Proxy::start(plan);
    let url = format!("url={HOST}/a");
    eventually("it is named", || {
        let answer = delete(&proxy, &url);
        let text = answer.text();
        (answer.status == 503 && text.contains("missing")).then_some(())
    });
    let began = Instant::now();
    assert_eq!(
        proxy.ask("POST", "/posted", &["Content-Length: 0"]).status,
        200
    );
    let took = began.elapsed();
    // That would take ten seconds.
    assert!(
        took < Duration::from_secs(9),
        "what an unsafe method tells is not waited for: {took:?}"
    );
    // It ends, although it has something to do.
    without.stop();
    fs::remove_dir(other.store()).unwrap();
    fs::rename(&elsewhere, other.store()).unwrap();
    let back = other.start(&origin);
    assert_eq!(await_hit(&back, "/kept"), "version 1");
    for path in ["/a", "/posted"] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}");
    }
}

#[test]
fn alone_it_serves_what_is_new_until_somebody_tells_it_the_rest() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let (proxy, away) = (house.start(&origin), other.start(&origin));
    await_links(&[&proxy, &away]);
    fill(&away, &["/a"]);
    away.stop();
    proxy.stop();
    let mut plan = other.plan(&origin);
    cluster(&mut plan).rejoin_wait = Duration::from_secs(3600);
    plan.memory_bytes = 1 << 20;
    let back = Proxy::start(plan);
    assert_eq!(back.ask("GET", "/a", CACHED).status, 504);
    assert_eq!(back.get("/new").text(), "version 1");
    assert!(back.get("/new").is_hit(), "it came since the start");
    assert_eq!(back.ask("GET", "/a", CACHED).status, 504);
    let _proxy = house.start(&origin);
    assert_eq!(await_hit(&back, "/a"), "version 1");
    back.stop();
    // With a wait that is over, it is served untold.
    let mut plan = other.plan(&origin);
    cluster(&mut plan).rejoin_wait = Duration::ZERO;
    cluster(&mut plan).members[0].at.port += 1;
    let alone = Proxy::start(plan);
    assert_eq!(await_hit(&alone, "/a"), "version 1");
}

#[test]
fn what_was_acknowledged_is_durable_at_every_member() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let (proxy, second) = (house.start(&origin), other.start(&origin));
    await_links(&[&proxy, &second]);
    fill(&second, &["/kept-for-good"]);
    other.await_written("/kept-for-good");
    for n in 0..3 {
        let path = format!("/an-object-of-its-own-{n}");
        fill(&second, &[&path]);
        other.await_written(&path);
        purge(&proxy, &format!("url={HOST}{path}"));
        let mut crashed = other.copy();
        // Alone, so that nobody tells it anew.
        crashed.all = addresses(2);
        let mut plan = crashed.plan(&origin);
        cluster(&mut plan).rejoin_wait = Duration::ZERO;
        let crashed = Proxy::start(plan);
        assert_eq!(await_hit(&crashed, "/kept-for-good"), "version 1");
        assert_eq!(crashed.ask("GET", &path, CACHED).status, 504, "{path}");
    }
}

#[test]
fn a_process_that_was_stopped_serves_nothing_that_was_purged_meanwhile() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let proxy = house.start(&origin);
    let stopped = Child::start(&origin, &other);
    eventually("it is linked", || {
        let answer = delete(&proxy, "url=http://nobody.example/");
        (answer.status == 200 && !answer.text().contains("away")).then_some(())
    });
    stopped.fill(&["/a", "/b", "/kept"]);
    stopped.hold();
    let answer = delete(&proxy, &format!("url={HOST}/a"));
    let text = answer.text();
    let is_named = text.contains("\"n2\"");
    // Not heard for three seconds and more, it is away; before that it has not answered in time.
    assert!(is_named && matches!(answer.status, 200 | 503), "{text}");
    purge_without(&proxy, &format!("url={HOST}/b"), "n2");
    stopped.signal("CONT");
    for path in ["/a", "/b"] {
        assert_eq!(stopped.ask(path).status, 504, "{path}, at once");
    }
    eventually("it serves again", || {
        stopped.ask("/kept").is_hit().then_some(())
    });
    for path in ["/a", "/b"] {
        assert_eq!(stopped.ask(path).status, 504, "{path}, later");
    }
}

#[test]
fn a_member_that_was_killed_hears_what_it_missed() {
    let origin = counting();
    let all = addresses(2);
    let (house, other) = (House::of(0, &all), House::of(1, &all));
    let proxy = house.start(&origin);
    let killed = Child::start(&origin, &other);
    eventually("it is linked", || {
        let answer = delete(&proxy, "url=http://nobody.example/");
        (answer.status == 200 && !answer.text().contains("away")).then_some(())
    });
    let paths = ["/purged-before", "/purged-meanwhile", "/kept-for-good"];
    killed.fill(&paths);
    for path in paths {
        other.await_written(path);
    }
    purge(&proxy, &format!("url={HOST}/purged-before"));
    drop(killed);
    purge_without(&proxy, &format!("url={HOST}/purged-meanwhile"), "n2");
    let back = other.start(&origin);
    for path in &paths[..2] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}, at once");
    }
    assert_eq!(await_hit(&back, paths[2]), "version 1");
    for path in &paths[..2] {
        assert_eq!(back.ask("GET", path, CACHED).status, 504, "{path}, later");
    }
}

const TOLD_TO: &str = "LOLIGO_E2E_MEMBER";

/// A member in a process of its own; killed when dropped.
struct Child {
    process: process::Child,
    address: SocketAddr,
}

impl Child {
    fn start(origin: &Origin, house: &House) -> Child {
        let all: Vec<String> = house.all.iter().map(SocketAddr::to_string).collect();
        let told = format!(
            "{} {} {} {}",
            origin.address,
            house.number,
            all.join(","),
            house.dir.path().display()
        );
        let (process, ready) = spawn("cluster_purge::is_a_member_when_told_to", (TOLD_TO, told));
        let address = ready.parse().unwrap();
        Child { process, address }
    }

    #[track_caller]
    fn ask(&self, path: &str) -> Response {
        Client::connect(self.address)
            .ask("GET", path, CACHED)
            .read("GET")
    }

    fn fill(&self, paths: &[&str]) {
        for path in paths {
            Client::connect(self.address).get(path);
            eventually("it is stored", || self.ask(path).is_hit().then_some(()));
        }
    }

    /// Until each thread has stopped: one that waits for a processor takes the signal when it gets one, and the others run on until then.
    fn hold(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.process.id());
        // One that ends meanwhile is looked for again.
        let is_stopped = |task: io::Result<fs::DirEntry>| {
            let stat = task.and_then(|task| fs::read_to_string(task.path().join("stat")));
            let rest = stat.unwrap_or_default();
            rest.rsplit_once(") ")
                .is_some_and(|(_name, rest)| rest.starts_with('T'))
        };
        eventually("all threads have stopped", || {
            (fs::read_dir(&tasks).unwrap().all(is_stopped)).then_some(())
        });
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let done = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test: what the process started above does. Among the tests it does nothing.
#[test]
fn is_a_member_when_told_to() {
    let Ok(told) = env::var(TOLD_TO) else { return };
    let words: Vec<&str> = told.splitn(4, ' ').collect();
    let [origin, number, all, dir] = words[..] else {
        panic!("{told:?}");
    };
    let all: Vec<SocketAddr> = all.split(',').map(|a| a.parse().unwrap()).collect();
    let listener = proxy::plan::Listener::reverse(
        local(),
        Vec::new(),
        super::harness::running::url(origin.parse().unwrap()),
    );
    let plan = super::harness::running::plan(listener);
    let mut plan = member(plan, number.parse().unwrap(), &all);
    plan.memory_bytes = 1 << 20;
    plan.storing.cluster_deadline = Duration::from_millis(10);
    let dir = Path::new(dir);
    plan.stores = vec![StorePlan::at(dir.join("store"), Some(16 << 20))];
    plan.admin = Some(Admin {
        address: local(),
        allow: Vec::new(),
    });
    let settings = cluster(&mut plan);
    settings.state = Some(dir.join("state"));
    settings.rejoin_wait = Cluster::default().rejoin_wait;
    let proxy = Proxy::start(plan);
    println!("{READY}{}", proxy.address());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    proxy.stop();
}
