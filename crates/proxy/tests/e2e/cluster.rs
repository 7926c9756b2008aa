//! A cluster's links: who is let in, what members know of each other, and what they make of those who are gone, silent or ending.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use ::proxy::plan::{ClusterKey, Plan};
use serde_json::Value;

use crate::harness::{
    Disk, FRESH, Gate, Origin, Proxy,
    cable::Cable,
    cluster::{addresses, cluster, front, member},
    eventually, ok, plan_for,
    running::draining_long,
};

fn origin() -> Origin {
    Origin::start(|exchange| {
        let body = format!("this is {}", exchange.path());
        exchange.send(ok(&[FRESH], body));
    })
}

fn on_disk(disk: &Disk, origin: &Origin) -> Plan {
    disk.under(plan_for(origin))
}

/// The cluster as `/status` tells it.
fn status(proxy: &Proxy) -> Value {
    let answer = proxy.admin("GET", "/status");
    let status: Value = serde_json::from_str(answer.text()).unwrap();
    status["cluster"].clone()
}

/// What it says of the member of this name.
fn told_of(proxy: &Proxy, name: &str) -> Value {
    let status = status(proxy);
    let members = status["members"].as_array().unwrap();
    let found = members.iter().find(|member| member["name"] == name);
    found
        .unwrap_or_else(|| panic!("{name} is none of {members:?}"))
        .clone()
}

#[track_caller]
fn await_state(proxy: &Proxy, name: &str, state: &str) {
    eventually(&format!("{name} is {state}"), || {
        (told_of(proxy, name)["state"] == state).then_some(())
    });
}

/// Until the front has all that this member tells of so many objects.
#[track_caller]
fn await_entries(proxy: &Proxy, name: &str, entries: u64) {
    let mut told = Value::Null;
    eventually(&format!("{entries} entries of {name}"), || {
        told = told_of(proxy, name);
        let column = &told["columns"][0];
        let is_there =
            column["entries"] == entries && column["behind"] == 0 && column["label"].is_u64();
        is_there.then_some(())
    });
}

#[test]
fn a_front_knows_what_two_nodes_hold_by_one_look_up() {
    let origin = origin();
    let all = addresses(3);
    let disks = [Disk::of_mib(16), Disk::of_mib(16)];
    let nodes: Vec<Proxy> = (0..2)
        .map(|n| Proxy::start(member(on_disk(&disks[n], &origin), n, &all)))
        .collect();
    let front = Proxy::start(front(plan_for(&origin), 2, &all));
    for path in ["/a", "/b", "/c"] {
        nodes[0].get(path);
    }
    nodes[1].get("/d");
    await_entries(&front, "n1", 3);
    await_entries(&front, "n2", 1);
    // The stores are new, so they took the seed of the cluster.
    assert_eq!(status(&front)["hints_groups"], 1);
    assert_eq!(status(&nodes[0])["told_entries"], 3);
    assert_eq!(status(&front)["told_entries"], Value::Null);
    // What leaves is told as well.
    nodes[0].admin("DELETE", &format!("/cache?url=http://{}/a", origin.address));
    nodes[0].ask("DELETE", "/b", &[]);
    await_entries(&front, "n1", 2);
    eventually("it is counted", || {
        (front.counter("cluster_hint_frames") >= 3).then_some(())
    });
    assert_eq!(front.counter("cluster_followed_gaps"), 0);
}

#[test]
fn a_directory_tells_the_same() {
    let origin = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(16);
    let directory = |mut plan: Plan| {
        cluster(&mut plan).hints = ::proxy::plan::HintKind::Directory;
        plan
    };
    let node = Proxy::start(directory(member(on_disk(&disk, &origin), 0, &all)));
    let front = Proxy::start(directory(front(plan_for(&origin), 1, &all)));
    node.get("/a");
    await_entries(&front, "n1", 1);
}

#[test]
fn who_has_another_key_is_not_let_in_and_is_counted() {
    let origin = origin();
    let all = addresses(3);
    let disk = Disk::of_mib(16);
    let node = Proxy::start(member(on_disk(&disk, &origin), 0, &all));
    let mut stranger = front(plan_for(&origin), 1, &all);
    cluster(&mut stranger).key = ClusterKey::new([8; ClusterKey::BYTES]);
    let stranger = Proxy::start(stranger);
    let friend = Proxy::start(front(plan_for(&origin), 2, &all));
    node.get("/a");
    await_entries(&friend, "n1", 1);
    for proxy in [&node, &stranger] {
        eventually("a refusal", || {
            (proxy.counter("cluster_handshakes_refused") > 0).then_some(())
        });
    }
    assert_eq!(told_of(&stranger, "n1")["state"], "away");
    assert_eq!(told_of(&node, "n2")["state"], "away");
    assert_eq!(told_of(&stranger, "n1")["columns"], serde_json::json!([]));
    assert_eq!(stranger.get("/b").status, 200, "it serves its own clients");
}

#[test]
fn somebody_who_speaks_no_handshake_is_put_out() {
    let origin = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(16);
    let node = Proxy::start(member(on_disk(&disk, &origin), 0, &all));
    let mut stream = TcpStream::connect(all[0]).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nLoligo-From: 192.0.2.1\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    node.await_count("cluster_handshakes_refused", 1);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_node_that_was_away_tells_anew_what_it_holds() {
    let origin = origin();
    let all = addresses(2);
    let (disk, state) = (Disk::of_mib(16), tempfile::tempdir().unwrap());
    let node = || {
        let mut plan = member(on_disk(&disk, &origin), 0, &all);
        cluster(&mut plan).state = Some(state.path().to_owned());
        Proxy::start(plan)
    };
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    let first = node();
    for path in ["/a", "/b"] {
        first.get(path);
    }
    await_entries(&front, "n1", 2);
    first.stop();
    await_state(&front, "n1", "away");
    let again = node();
    await_state(&front, "n1", "up");
    await_entries(&front, "n1", 2);
    again.get("/c");
    await_entries(&front, "n1", 3);
}

#[test]
fn a_node_without_a_journal_tells_nothing_of_what_it_drops() {
    let origin = origin();
    let all = addresses(2);
    let disk = Disk::of_mib(16);
    let node = || Proxy::start(member(on_disk(&disk, &origin), 0, &all));
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    let first = node();
    for path in ["/a", "/b"] {
        first.get(path);
    }
    await_entries(&front, "n1", 2);
    first.stop();
    await_state(&front, "n1", "away");
    let again = node();
    again.get("/c");
    await_entries(&front, "n1", 1);
    let front_has_asked = front.get("/a");
    let said = front_has_asked.fields.all("cache-status").join(", ");
    assert!(!said.contains("detail=hint"), "{said}");
}

#[test]
fn a_node_that_ends_says_so() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        held.pass();
        exchange.send(ok(&[FRESH], "late"));
    });
    let all = addresses(2);
    let disk = Disk::of_mib(16);
    let plan = draining_long(on_disk(&disk, &origin));
    let node = Proxy::start(member(plan, 0, &all));
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    await_state(&front, "n1", "up");
    let mut client = node.client();
    client.ask("GET", "/a", &[]);
    gate.arrived(1);
    node.begin_to_stop();
    await_state(&front, "n1", "draining");
    gate.open();
    assert_eq!(client.read("GET").status, 200);
    await_state(&front, "n1", "away");
}

#[test]
fn a_node_that_ends_in_order_has_lost_nobodys_trust() {
    let origin = origin();
    let all = addresses(2);
    let front = Proxy::start(front(plan_for(&origin), 1, &all));
    for _ in 0..5 {
        let node = Proxy::start(member(plan_for(&origin), 0, &all));
        await_state(&front, "n1", "up");
        // With nothing to do it ends at once.
        node.stop();
        await_state(&front, "n1", "away");
        assert_eq!(told_of(&front, "n1")["distrusted"], 0);
    }
}

#[test]
fn a_node_that_falls_silent_is_away_until_it_is_heard() {
    let origin = origin();
    let all = addresses(3);
    let disk = Disk::of_mib(16);
    // The front reaches the node by a way that can stop.
    let cable = Cable::lay(all[2], all[0]);
    let node = Proxy::start(member(on_disk(&disk, &origin), 0, &all[..2]));
    let mut plan = front(plan_for(&origin), 1, &all[..2]);
    cluster(&mut plan).members[0].at.host = all[2].ip().to_string();
    let front = Proxy::start(plan);
    node.get("/a");
    await_entries(&front, "n1", 1);
    cable.stop();
    await_state(&front, "n1", "away");
    node.get("/b");
    assert_eq!(front.get("/a").status, 200, "the origin answers");
    cable.mend();
    await_state(&front, "n1", "up");
    await_entries(&front, "n1", 2);
}

/// It takes connections and says nothing: as a process that is stopped, or a machine that hangs.
fn hanging(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            kept.push(stream);
        }
    });
}

#[test]
fn a_member_that_hangs_from_the_beginning_holds_nobody_up() {
    let origin = origin();
    let all = addresses(3);
    hanging(all[0]);
    let disk = Disk::of_mib(16);
    let node = Proxy::start(member(on_disk(&disk, &origin), 1, &all));
    let front = Proxy::start(front(plan_for(&origin), 2, &all));
    node.get("/a");
    await_entries(&front, "n2", 1);
    assert_eq!(told_of(&front, "n1")["state"], "away");
    assert_eq!(front.get("/b").status, 200);
    front.stop();
}

#[test]
fn what_comes_over_a_link_and_is_no_frame_ends_it() {
    let origin = origin();
    let all = addresses(3);
    let disk = Disk::of_mib(16);
    let node = Proxy::start(member(on_disk(&disk, &origin), 0, &all[..2]));
    // Whatever goes to the node is garbled behind the handshake.
    garble(all[2], all[0]);
    let mut plan = front(plan_for(&origin), 1, &all[..2]);
    cluster(&mut plan).members[0].at.host = all[2].ip().to_string();
    let front = Proxy::start(plan);
    eventually("a frame that is none", || {
        (front.counter("cluster_frames_malformed") > 0).then_some(())
    });
    node.get("/a");
    assert_eq!(front.get("/a").status, 200, "it goes on without hints");
}

/// Carries connections, and turns a bit in what comes back behind the handshake.
fn garble(from: SocketAddr, to: SocketAddr) {
    const HANDSHAKE_BYTES: usize = 160;
    let listener = TcpListener::bind(from).unwrap();
    thread::spawn(move || {
        for inward in listener.incoming() {
            let (Ok(mut inward), Ok(outward)) = (inward, TcpStream::connect(to)) else {
                continue;
            };
            let (mut back, mut there) = (outward.try_clone().unwrap(), outward);
            let mut home = inward.try_clone().unwrap();
            thread::spawn(move || std::io::copy(&mut inward, &mut there));
            thread::spawn(move || {
                let mut piece = [0; 4096];
                let mut carried = 0;
                while let Ok(read @ 1..) = back.read(&mut piece) {
                    if let Some(bit) = HANDSHAKE_BYTES.checked_sub(carried)
                        && bit < read
                    {
                        piece[bit] ^= 1;
                    }
                    carried += read;
                    if home.write_all(&piece[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}
