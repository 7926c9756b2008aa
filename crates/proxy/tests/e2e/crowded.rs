//! More bodies on their way than there is memory for: what is held, who waits, who goes.

use std::time::{Duration, Instant};

use super::{budgets::gauge, tls::tls_plan};
use crate::{
    harness::{
        Client, Disk, FRESH, Gate, Origin, PATIENCE, Proxy, assert_same, await_hit_by_read,
        eventually, ok, pattern, plan_for,
        running::with_admin,
        tls::{Authority, Encrypted},
    },
    http2_client::{HOST, speaking},
    http2_raw::{DATA, HEADERS, Raw, WINDOW_UPDATE, frame, get},
};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 4 * MIB;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// More than comes along with the head.
const OWN_LEN: usize = 24_000;

/// With [`BUDGET`] for bodies on their way.
fn tight(origin: &Origin) -> Proxy {
    let mut plan = speaking(with_admin(plan_for(origin)));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = BUDGET;
    Proxy::start(plan)
}

/// What this counter comes to rest at.
pub fn rest_of(proxy: &Proxy, counter: &str) -> u64 {
    let (mut last, mut since) = (proxy.counter(counter), Instant::now());
    eventually("it comes to rest", || {
        let now = proxy.counter(counter);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(last)
    })
}

/// The windows are closed, so nothing of a body leaves the proxy: what has come from the origin is what it holds.
#[test]
fn streams_that_take_nothing_hold_what_the_buffer_has_for_them_and_make_room() {
    const CONNECTIONS: usize = 8;
    const STREAMS: u32 = 50;
    let body = pattern(200_000);
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], &body));
    let proxy = tight(&origin);
    let mut attackers: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| Raw::connect_with(proxy.address(), &[(INITIAL_WINDOW_SIZE, 0)]))
        .collect();
    for (nth, raw) in attackers.iter_mut().enumerate() {
        for stream in 0..STREAMS {
            raw.send(&get(2 * stream + 1, &format!("/{nth}/{stream}")));
        }
    }
    let held = rest_of(&proxy, "origin_bytes");
    let streams = CONNECTIONS as u64 * u64::from(STREAMS);
    assert!(held <= BUDGET + streams * 4096, "{held} bytes are held");
    let counted = gauge(&proxy, "transfer_bytes");
    assert!(counted >= held * 9 / 10, "{counted} of {held} are counted");
    // One who holds nothing has what it asks for.
    let began = Instant::now();
    assert_same(&proxy.get("/small").body, &body);
    assert!(began.elapsed() < PATIENCE / 4);
    // Those who hold much and take nothing go; one who is served was not touched.
    eventually("some are cut", || {
        (proxy.counter("transfers_cut") > 0).then_some(())
    });
}

#[test]
fn slow_readers_wait_for_room_and_have_all_of_their_bodies() {
    // More than the kernel takes for a client that reads nothing.
    let body = pattern(12 << 20);
    let origin = Origin::sending(ok(&["Cache-Control: no-store"], &body));
    let proxy = tight(&origin);
    let mut clients: Vec<Client> = (0..12).map(|_| proxy.client()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        client.ask("GET", &format!("/{nth}"), &[]);
    }
    eventually("it is crowded, or all wait", || {
        (proxy.counter("origin_bytes") > 12 * MIB).then_some(())
    });
    assert!(gauge(&proxy, "transfer_bytes") <= BUDGET);
    std::thread::scope(|scope| {
        for client in clients {
            let body = &body;
            scope.spawn(move || {
                let mut client = client;
                assert_same(&client.read("GET").body, body);
            });
        }
    });
    assert_eq!(proxy.counter("transfers_cut"), 0);
}

/// A connection whose client takes a byte now and then, and that holds more than its share.
struct Hoarder {
    raw: Raw,
    next: u32,
}

impl Hoarder {
    fn begin(proxy: &Proxy) -> Hoarder {
        let mut it = Hoarder {
            raw: Raw::connect_with(proxy.address(), &[(INITIAL_WINDOW_SIZE, 0)]),
            next: 1,
        };
        for nth in 0..60 {
            it.ask(&format!("/held/{nth}"));
        }
        eventually("it has more than its share", || {
            (proxy.counter("transfers_paused") > 0).then_some(())
        });
        it
    }

    fn ask(&mut self, path: &str) -> u32 {
        let stream = self.next;
        self.next += 2;
        assert!(self.raw.send(&get(stream, path)));
        stream
    }

    /// Takes a byte.
    fn drip(&mut self) {
        let one = 1_u32.to_be_bytes();
        assert!(self.raw.send(&frame(WINDOW_UPDATE, 0, 1, &one)));
    }

    /// Goes on so until it is so.
    fn drip_until(&mut self, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "it is never so");
            self.drip();
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// An origin whose bodies are not stored: `/shared`, which waits for the gate, may be shared.
fn of_many(gate: &Gate) -> Origin {
    let (held, body) = (gate.clone(), pattern(60_000));
    Origin::start(move |exchange| {
        let fields: &[&str] = match exchange.path() {
            "/shared" => {
                held.pass();
                &[FRESH]
            }
            "/own" => {
                return exchange.send(ok(&["Cache-Control: no-store"], &body[..OWN_LEN]));
            }
            _ => &["Cache-Control: no-store"],
        };
        exchange.send(ok(fields, &body));
    })
}

#[test]
fn nobody_waits_for_what_the_connection_that_began_a_fetch_holds_elsewhere() {
    let gate = Gate::new();
    let origin = of_many(&gate);
    let proxy = tight(&origin);
    let mut hoarder = Hoarder::begin(&proxy);
    hoarder.ask("/shared");
    gate.arrived(1);
    let mut other = proxy.client();
    other.ask("GET", &format!("http://{HOST}/shared"), &[]);
    eventually("they share it", || {
        (proxy.counter("flights_joined") == 1).then_some(())
    });
    gate.open();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || other.read("GET").body);
        hoarder.drip_until(|| reading.is_finished());
        assert_same(&reading.join().unwrap(), &pattern(60_000));
    });
    assert_eq!(origin.count("/shared"), 1);
    assert_eq!(proxy.counter("transfers_cut"), 0);
}

/// A stream whose client takes what comes is not stopped by what others of its connection hold.
#[test]
fn a_body_of_which_nothing_is_held_goes_on_in_small_steps() {
    let origin = of_many(&Gate::new());
    let proxy = tight(&origin);
    let mut hoarder = Hoarder::begin(&proxy);
    let own = hoarder.ask("/own");
    let window = 60_000_u32.to_be_bytes();
    assert!(hoarder.raw.send(&frame(WINDOW_UPDATE, 0, own, &window)));
    let (began, mut came) = (Instant::now(), 0);
    while came < OWN_LEN {
        assert!(began.elapsed() < PATIENCE, "{came} bytes came");
        hoarder.drip();
        let frame = hoarder.raw.frame().expect("the connection stays");
        if frame.kind == DATA && frame.stream == own {
            came += frame.payload.len();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Neither twice, nor not at all: objects in one record, shorter and longer than what a stream may queue.
#[test]
fn what_is_queued_from_disk_counts_once() {
    for (len, streams) in [(60_000, 10), (200_000, 1)] {
        let origin = Origin::sending(ok(&[FRESH], pattern(len)));
        // In a smaller one the longer object would lie in fragments, which are counted where they are kept.
        let disk = Disk::of_mib(256);
        let mut plan = speaking(with_admin(disk.under(plan_for(&origin))));
        plan.memory_bytes = 0;
        plan.limits.transfer_buffer_bytes = 8 * BUDGET;
        let proxy = Proxy::start(plan);
        let urls: Vec<String> = (0..streams)
            .map(|nth| format!("http://{HOST}/{nth}"))
            .collect();
        for url in &urls {
            proxy.get(url);
        }
        for url in &urls {
            await_hit_by_read(&proxy, url);
        }
        let mut raw = Raw::connect_with(proxy.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
        for nth in 0..streams {
            raw.send(&get(2 * nth + 1, &format!("/{nth}")));
        }
        for _ in 0..streams {
            while raw.next().expect("it stays").kind != HEADERS {}
        }
        let all = u64::from(streams) * len as u64;
        // A request that is still being answered counts, too.
        let most = all + u64::from(streams) * (24 << 10);
        eventually("it counts once", || {
            (all..=most)
                .contains(&gauge(&proxy, "transfer_bytes"))
                .then_some(())
        });
    }
}

/// What a fetch keeps for its client lies behind what a client that fell behind reads from disk first.
#[test]
fn a_client_that_fell_behind_its_fetch_does_not_wait_for_what_is_kept_for_it() {
    // More than the kernel takes for a client that reads nothing.
    let body = pattern(24 << 20);
    let held = body.clone();
    let origin = Origin::start(move |exchange| match exchange.path() {
        "/slow" => exchange.send(ok(&[FRESH], &held)),
        _ => exchange.send(ok(&["Cache-Control: no-store"], &held[..60_000])),
    });
    let disk = Disk::of_mib(512);
    let mut plan = speaking(with_admin(disk.under(plan_for(&origin))));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = BUDGET;
    // Alone it is less than makes it crowded; once another one holds as much it is more than its share.
    plan.limits.transfer_bytes_max = MIB + MIB / 4;
    let proxy = Proxy::start(plan);
    let mut slow = proxy.client();
    slow.ask("GET", "/slow", &[]);
    eventually("all of it is stored", || {
        (proxy.counter("stored_bytes") == body.len() as u64).then_some(())
    });
    let mut hoarder = Hoarder::begin(&proxy);
    // What the slow one gives back of its fragment, the other one takes.
    assert_eq!(slow.read_head().status, 200);
    let mut came = Vec::new();
    for _ in 0..10 {
        hoarder.drip();
        came.extend(slow.bytes(64 << 10));
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::scope(|scope| {
        let left = body.len() - came.len();
        let reading = scope.spawn(move || slow.bytes(left));
        hoarder.drip_until(|| reading.is_finished());
        came.extend(reading.join().unwrap());
    });
    assert_same(&came, &body);
    assert_eq!(origin.count("/slow"), 1);
    assert_eq!(proxy.counter("transfers_cut"), 0);
}

/// Many who read one stored object hold parts of it while there is little room, not a whole fragment each.
#[test]
fn readers_of_a_stored_body_hold_small_parts_of_it() {
    const CLIENTS: usize = 24;
    let body = pattern(16 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(512);
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.memory_bytes = MIB;
    plan.limits.transfer_buffer_bytes = BUDGET;
    let proxy = Proxy::start(plan);
    assert_same(&proxy.get("/a").body, &body);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a", &[]);
    }
    let mut most = 0;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in &mut clients {
            let body = &body;
            // Slowly at first: each takes a little again and again.
            scope.spawn(move || {
                let head = client.read_head();
                assert_eq!(head.status, 200);
                let mut came = Vec::new();
                while came.len() < body.len() {
                    let left = body.len() - came.len();
                    came.extend(client.bytes(left.min(256 << 10)));
                }
                assert_same(&came, body);
            });
        }
        while began.elapsed() < Duration::from_millis(500) {
            most = most.max(gauge(&proxy, "transfer_bytes"));
        }
    });
    assert!(most <= 2 * BUDGET, "{most} bytes were held");
    assert_eq!(proxy.counter("transfers_cut"), 0);
    assert_eq!(origin.count("/a"), 1);
}

/// What TLS has encrypted for a client goes out with the next write. A connection that waits for that with its next write waits for ever.
#[test]
fn readers_of_a_stored_body_over_tls_do_not_wait_for_what_they_were_not_sent() {
    const CLIENTS: usize = 16;
    // More than the kernel takes for a client that reads nothing.
    let body = pattern(12 << 20);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let disk = Disk::of_mib(256);
    let authority = Authority::new();
    let signed = authority.sign("a", &["a.example"]);
    let mut plan = disk.under(tls_plan(&origin, &[&signed]));
    plan.memory_bytes = MIB;
    let client = authority.client();
    let before = Proxy::start(plan.clone());
    let mut one = client.connect(before.address(), "a.example");
    assert_same(&one.get("/a", "a.example").body, &body);
    drop(one);
    before.stop();
    // The share of each is less than what is encrypted at once.
    plan.limits.transfer_buffer_bytes = MIB / 4;
    let proxy = Proxy::start(plan);
    let mut clients: Vec<Encrypted> = (0..CLIENTS)
        .map(|_| client.connect(proxy.address(), "a.example"))
        .collect();
    for one in &mut clients {
        one.send("GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    }
    eventually("it is crowded", || {
        (gauge(&proxy, "transfer_bytes") > MIB / 8).then_some(())
    });
    std::thread::scope(|scope| {
        for mut one in clients {
            let body = &body;
            scope.spawn(move || assert_same(&one.answer().body, body));
        }
    });
    assert_eq!(origin.count("/a"), 1);
}
