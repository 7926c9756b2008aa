//! Fetches that all clients have left: which go on for the store, which are stopped, and what stays of those.

use std::sync::mpsc;

use super::{
    harness::{running::with_admin, *},
    ranges::{F, TAG, serve},
};

/// Long enough that little of it is in buffers on the way.
const LONG: usize = 48 << 20;

/// More than the kernel keeps of a body between its two ends.
const ON_THE_WAY: u64 = 16 << 20;

/// An origin that sends `first` bytes of a body, and the rest once the gate opens; a request with Range is answered at once. The channel has how
/// much of each long answer was taken.
fn sending(
    body: Vec<u8>,
    first: usize,
    gate: &Gate,
    framing: &'static str,
) -> (Origin, mpsc::Receiver<usize>) {
    let (sender, taken) = mpsc::channel();
    let gate = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.field("range").is_some() {
            return serve(exchange, &body, &[FRESH, TAG]);
        }
        let is_chunked = framing == "chunked";
        let framed = match is_chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        exchange.send(head("200 OK", &[FRESH, TAG, &framed]));
        let mut sent = 0;
        for part in [&body[..first], &body[first..]] {
            let taken = part.chunks(F).take_while(|piece| match is_chunked {
                true => exchange.wire.send(chunk(piece)),
                false => exchange.wire.send(piece),
            });
            sent += taken.map(<[u8]>::len).sum::<usize>();
            if sent == first {
                gate.pass();
            }
        }
        if is_chunked && sent == body.len() {
            exchange.send("0\r\n\r\n");
        }
        if sent < body.len() {
            exchange.close();
        }
        let _ = sender.send(sent);
    });
    (origin, taken)
}

/// A client asks for `/a`, takes so many bytes, and leaves; then the rest comes.
fn left(proxy: &Proxy, gate: &Gate, bytes: usize) {
    let mut client = proxy.client();
    client.ask("GET", "/a", &[]).read_head();
    client.bytes(bytes);
    gate.arrived(1);
    // It is noticed when more is sent to it.
    client.vanish();
    gate.open();
}

fn limits_of(origin: &Origin, left: u64, percent: u32) -> ::proxy::plan::Plan {
    let mut plan = with_admin(plan_for(origin));
    plan.limits.quick_abort_left_bytes = left;
    plan.limits.quick_abort_percent = percent;
    plan
}

#[test]
fn a_long_rest_is_not_fetched_and_what_came_serves_ranges() {
    for framing in ["length", "chunked"] {
        let (gate, body) = (Gate::new(), pattern(LONG));
        let (origin, taken) = sending(body.clone(), 10 * F, &gate, framing);
        let disk = Disk::of_mib(128);
        let proxy = Proxy::start(disk.under(limits_of(&origin, 1 << 20, 90)));
        left(&proxy, &gate, 5 * F);
        let sent = taken.recv_timeout(PATIENCE).unwrap();
        assert!(sent < LONG, "{framing}: the origin was let go");
        proxy.await_count("fetches_stopped", 1);
        let asked = origin.requests().len();
        let mut client = proxy.client();
        let range = client
            .ask("GET", "/a", &["Range: bytes=1000-200000"])
            .read("GET");
        assert_same(&range.body, &body[1000..=200_000]);
        // How long a body of chunks is, nobody had said.
        assert_eq!(range.is_hit(), framing == "length", "{}", range.cache());
        let more = usize::from(framing == "chunked");
        assert_eq!(origin.requests().len() - asked, more, "{framing}");
        assert_same(&client.get("/a").body, &body);
    }
}

#[test]
fn what_little_is_missing_is_fetched() {
    for (length, first, framing) in [
        (LONG, LONG - (1 << 20), "length"),
        // Little more comes after the client has left.
        (20 * F, 15 * F, "chunked"),
        (20 * F, 5 * F, "length"),
    ] {
        let (gate, body) = (Gate::new(), pattern(length));
        let (origin, taken) = sending(body.clone(), first, &gate, framing);
        let disk = Disk::of_mib(128);
        let proxy = Proxy::start(disk.under(limits_of(&origin, ON_THE_WAY, 100)));
        left(&proxy, &gate, 1000);
        assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), length);
        eventually("it is stored", || {
            let answer = proxy.get("/a");
            assert_same(&answer.body, &body);
            answer.is_hit().then_some(())
        });
        assert_eq!(origin.count("/a"), 1);
        assert_eq!(proxy.counter("fetches_stopped"), 0);
    }
}

#[test]
fn most_of_it_is_not_given_up() {
    // Of the half that was sent, a quarter has come for certain.
    for (percent, first) in [(20, LONG / 2), (0, F)] {
        let (gate, body) = (Gate::new(), pattern(LONG));
        let (origin, taken) = sending(body.clone(), first, &gate, "length");
        let disk = Disk::of_mib(128);
        let proxy = Proxy::start(disk.under(limits_of(&origin, 0, percent)));
        left(&proxy, &gate, 1000);
        assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), LONG, "{percent}");
        assert_eq!(origin.count("/a"), 1);
    }
}

#[test]
fn another_reader_gets_all_of_it_and_one_that_comes_too_late_asks_anew() {
    let (gate, body) = (Gate::new(), pattern(LONG));
    let (origin, taken) = sending(body.clone(), 10 * F, &gate, "length");
    let disk = Disk::of_mib(128);
    let proxy = Proxy::start(disk.under(limits_of(&origin, 1 << 20, 90)));
    let mut stays = proxy.client();
    stays.ask("GET", "/a", &[]).read_head();
    left(&proxy, &gate, 1000);
    let (rest, end) = stays.wire.exactly(LONG);
    assert_eq!(end, None);
    assert_same(&rest, &body);
    assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), LONG);
    assert_eq!(origin.count("/a"), 1);
    assert_eq!(proxy.counter("fetches_stopped"), 0);
}

#[test]
fn a_client_that_has_all_that_it_asked_for_has_not_left() {
    let (gate, body) = (Gate::new(), pattern(LONG));
    gate.open();
    // It ignores ranges.
    let (sender, taken) = mpsc::channel();
    let all = body.clone();
    let origin = Origin::start(move |exchange| {
        let length = format!("Content-Length: {LONG}");
        exchange.send(head("200 OK", &[FRESH, TAG, &length]));
        let sent = all
            .chunks(F)
            .take_while(|it| exchange.wire.send(it))
            .count();
        let _ = sender.send(sent);
    });
    let disk = Disk::of_mib(128);
    let proxy = Proxy::start(disk.under(limits_of(&origin, 1 << 20, 90)));
    let mut client = proxy.client();
    let range = client.ask("GET", "/a", &["Range: bytes=0-99"]).read("GET");
    assert_same(&range.body, &body[..100]);
    drop(client);
    assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), LONG.div_ceil(F));
    eventually("it is stored", || {
        (proxy.counter("stored_bytes") >= LONG as u64).then_some(())
    });
    assert_eq!(proxy.counter("fetches_stopped"), 0);
    eventually("it is found", || {
        let only = ["Cache-Control: only-if-cached"];
        let answer = proxy.ask("GET", "/a", &only);
        (answer.status == 200).then_some(())
    });
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn downloads_that_many_clients_leave_end() {
    const CLIENTS: usize = 200;
    let (sender, ended) = mpsc::channel();
    let piece = pattern(1 << 20);
    let origin = Origin::start(move |exchange| {
        let length = "Content-Length: 1000000000";
        exchange.send(head("200 OK", &[FRESH, TAG, length]));
        let sent = (0..1000).take_while(|_| exchange.wire.send(&piece)).count();
        exchange.close();
        let _ = sender.send(sent);
    });
    // Large enough for such objects: what is not stored ends with its client in any case.
    let disk = Disk::of_mib(8192);
    let mut plan = with_admin(disk.under(plan_for(&origin)));
    plan.limits.object_bytes_max = 1 << 30;
    let proxy = Proxy::start(plan);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let mut client = proxy.client();
            client.ask("GET", &format!("/{n}"), &[]).read_head();
            client
        })
        .collect();
    clients.into_iter().for_each(Client::vanish);
    for _ in 0..CLIENTS {
        assert!(ended.recv_timeout(PATIENCE).unwrap() < 1000);
    }
    // Most were on their way into the store by then, and would have gone on.
    let stopped = proxy.counter("fetches_stopped");
    assert!(stopped > CLIENTS as u64 / 2, "{stopped}");
}
