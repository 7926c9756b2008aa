//! Looking at a cluster: what `/status`, `/live`, `/metrics` and `/cluster/route` tell of each member, and that they agree.

use std::time::Duration;

use ::proxy::plan::Plan;
use serde_json::Value;

use crate::harness::{
    cable::Cable,
    cluster::{addresses, await_quiet, cluster, front, member, route},
    running::draining_long,
    *,
};

/// The Host of the harness's requests.
const SITE: &str = "http://test.example";

/// An origin whose bodies are as long as their path says, or the path.
fn origin() -> Origin {
    Origin::start(|exchange| {
        let path = exchange.path();
        let body = match path.trim_start_matches('/').parse() {
            Ok(bytes) => pattern(bytes),
            Err(_) => path.as_bytes().to_vec(),
        };
        exchange.send(ok(&[FRESH, "ETag: \"1\""], body));
    })
}

/// The cluster as the document at this path tells it.
fn told(proxy: &Proxy, path: &str) -> Value {
    let answer = proxy.admin("GET", path);
    let document: Value = serde_json::from_str(answer.text()).unwrap();
    document["cluster"].clone()
}

/// What `/status` tells of the member of this number.
fn told_of(proxy: &Proxy, number: usize) -> Value {
    told(proxy, "/status")["members"][number].clone()
}

/// The value of this line of `/metrics`.
fn metric(proxy: &Proxy, line: &str) -> Option<f64> {
    let metrics = proxy.admin("GET", "/metrics");
    let value = |text: &str| text.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
    metrics.text().lines().find_map(value)
}

#[track_caller]
fn await_state(proxy: &Proxy, number: usize, state: &str) {
    eventually(&format!("member {number} is {state}"), || {
        (told_of(proxy, number)["state"] == state).then_some(())
    });
}

#[test]
fn it_is_told_how_old_what_is_known_of_a_member_is() {
    let origin = origin();
    let all = addresses(3);
    let disk = Disk::of_mib(16);
    let cable = Cable::lay(all[2], all[0]);
    let node = Proxy::start(disk.under(member(plan_for(&origin), 0, &all[..2])));
    let mut plan = front(plan_for(&origin), 1, &all[..2]);
    cluster(&mut plan).members[0].at.host = all[2].ip().to_string();
    let front = Proxy::start(plan);
    node.get("/a");
    node.get("/b");
    let known = eventually("two names are known", || {
        let of = told_of(&front, 0);
        (of["columns"][0]["entries"] == 2 && of["lag_ms"].as_u64()? < 2500).then_some(of)
    });
    assert_eq!(known["trusted"], true);
    assert_eq!(known["distrusted_for_s"], Value::Null);
    assert_eq!(
        known["false_misses"],
        Value::Null,
        "a front that pushes nothing cannot know"
    );
    // A few bits for each name, of which some may be the same.
    let of_names = |hints: &Value| (3..=20).contains(&hints.as_u64().unwrap());
    assert!(of_names(&known["hints_set"]), "{known}");
    let line = |name: &str| format!("loligo_cluster_member_{name}{{member=\"n1\"}}");
    eventually("it is known how old that is", || {
        (metric(&front, &line("lag_seconds"))? < 2.5).then_some(())
    });
    assert_eq!(metric(&front, &line("names")), Some(2.0));
    assert_eq!(metric(&front, &line("trusted")), Some(1.0));
    assert_eq!(metric(&front, &line("distrusted_total")), Some(0.0));
    assert_eq!(metric(&front, &line("false_misses_total")), None);
    cable.stop();
    await_state(&front, 0, "away");
    let silent = told_of(&front, 0);
    assert!(silent["lag_ms"].as_u64().unwrap() >= 2000, "{silent}");
    assert_eq!(
        (&silent["trusted"], &silent["distrusted"]),
        (&false.into(), &1.into())
    );
    assert_eq!(silent["distrusted_for_s"], silent["since_s"]);
    assert_eq!(metric(&front, &line("trusted")), Some(0.0));
    let lag_s = metric(&front, &line("lag_seconds")).unwrap();
    eventually("what is known grows older", || {
        (metric(&front, &line("lag_seconds"))? > lag_s).then_some(())
    });
    // A member without hints of others knows nothing that could be old.
    assert_eq!(told_of(&node, 0)["lag_ms"], Value::Null);
    assert_eq!(
        metric(&node, "loligo_cluster_member_lag_seconds{member=\"n2\"}"),
        None
    );
    cable.mend();
    await_state(&front, 0, "up");
}

/// What became of pushes to the first member.
fn pushes(front: &Proxy, verdict: &str) -> u64 {
    told_of(front, 0)["pushes"][verdict].as_u64().unwrap()
}

/// Until so many pushes have had this verdict.
#[track_caller]
fn await_pushes(front: &Proxy, verdict: &str, count: u64) {
    eventually(&format!("{count} pushes are {verdict}"), || {
        (pushes(front, verdict) == count).then_some(())
    });
}

/// A member that tells nothing new for an hour and stores nothing long, and a front that pushes to it.
fn pair_of_the_deaf(origin: &Origin, disk: &Disk) -> (Proxy, Proxy) {
    let all = addresses(2);
    let mut plan: Plan = disk.under(member(plan_for(origin), 0, &all));
    cluster(&mut plan).update_period = Duration::from_secs(3600);
    plan.limits.object_bytes_max = 1000;
    let node = Proxy::start(plan);
    let mut plan = front(plan_for(origin), 1, &all);
    cluster(&mut plan).push_max_bytes = 1 << 20;
    let front = Proxy::start(plan);
    let mut fetched = 0;
    eventually("the member stores what the front pushes", || {
        fetched += 1;
        front.get(&format!("/before-the-test/{fetched}"));
        (pushes(&front, "stored") > 0).then_some(())
    });
    // What else was fetched before the member took the first.
    await_quiet(&front);
    (node, front)
}

#[test]
fn what_became_of_pushes_is_told_of_each_member() {
    let (origin, disk) = (origin(), Disk::of_mib(64));
    let (_node, front) = pair_of_the_deaf(&origin, &disk);
    let (stored, size) = (pushes(&front, "stored"), pushes(&front, "size"));
    front.get("/new");
    await_pushes(&front, "stored", stored + 1);
    // It is too long for the member's store.
    front.get("/800000");
    await_pushes(&front, "size", size + 1);
    assert_eq!(pushes(&front, "lost"), 0);
    let line = |verdict: &str| {
        let labels = format!("{{member=\"n1\",verdict=\"{verdict}\"}}");
        metric(
            &front,
            &format!("loligo_cluster_member_pushes_total{labels}"),
        )
        .unwrap()
    };
    assert_eq!(line("stored"), (stored + 1) as f64);
    assert_eq!(line("size"), (size + 1) as f64);
    // The sums of all members are those of one.
    front.await_count("cluster_pushes_stored", stored + 1);
    front.await_count("cluster_pushes_refused_size", size + 1);
    let of_live = &told(&front, "/live")["members"][0];
    assert_eq!(of_live["pushes"]["size"], size + 1);
}

#[test]
fn a_false_miss_is_known_by_the_push_that_it_leads_to() {
    let (origin, disk) = (origin(), Disk::of_mib(64));
    let (node, front) = pair_of_the_deaf(&origin, &disk);
    let false_misses = || told_of(&front, 0)["false_misses"].as_u64().unwrap();
    assert_eq!(false_misses(), 0);
    let entries = |proxy: &Proxy| told(proxy, "/status")["told_entries"].as_u64().unwrap();
    let before = entries(&node);
    node.get("/a");
    eventually("the member holds it", || {
        (entries(&node) > before).then_some(())
    });
    assert!(route(&front, &format!("{SITE}/a")).contains("does not seem to have it"));
    front.get("/a");
    assert_eq!(origin.count("/a"), 2, "fetched although the member had it");
    eventually("it is known", || (false_misses() == 1).then_some(()));
    // What the member had not is none, nor is what is asked of it by the hint of the push.
    let stored = pushes(&front, "stored");
    front.get("/b");
    await_pushes(&front, "stored", stored + 1);
    front.get("/a");
    assert_eq!(origin.count("/a"), 2);
    assert_eq!(false_misses(), 1);
    let line = "loligo_cluster_member_false_misses_total{member=\"n1\"}";
    assert_eq!(metric(&front, line), Some(1.0));
    front.await_count("cluster_false_misses", 1);
}

/// The state of a member is the same word in the status, in what is said of a route, and in the metrics.
#[track_caller]
fn assert_agrees(front: &Proxy, number: usize, state: &str) {
    await_state(front, number, state);
    let name = format!("n{}", number + 1);
    let said = route(front, &format!("{SITE}/why"));
    let line = format!("\n  member {name}: {state}");
    let rest = said.split_once(&line).unwrap_or_else(|| panic!("{said}")).1;
    assert!(rest.starts_with([';', ' ', '\n']), "{said}");
    for other in ["away", "catching-up", "avoided", "draining", "up"] {
        let labels = format!("{{member=\"{name}\",state=\"{other}\"}}");
        let value = metric(front, &format!("loligo_cluster_member_state{labels}"));
        assert_eq!(value, Some(f64::from(u8::from(other == state))), "{other}");
    }
    assert_eq!(told(front, "/live")["members"][number]["state"], state);
}

#[test]
fn the_word_for_a_state_is_the_same_everywhere() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "late"));
    });
    let all = addresses(3);
    let disk = Disk::of_mib(16);
    let plan = draining_long(disk.under(member(plan_for(&origin), 0, &all)));
    let node = Proxy::start(plan);
    let front = Proxy::start(front(plan_for(&origin), 2, &all));
    assert_agrees(&front, 0, "up");
    // Nobody has started it.
    assert_agrees(&front, 1, "away");
    let said = route(&front, &format!("{SITE}/why"));
    assert!(
        said.contains("n2: away (its link is down, or it says nothing)\n"),
        "{said}"
    );
    let mut client = node.client();
    client.ask("GET", "/a", &[]);
    gate.arrived(1);
    node.begin_to_stop();
    assert_agrees(&front, 0, "draining");
    gate.open();
    assert_eq!(client.read("GET").status, 200);
    assert_agrees(&front, 0, "away");
}
