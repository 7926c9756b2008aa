//! HTTP/2 to origins: what is the same as over HTTP/1, what is sent again, and what becomes of origins that break it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use ::proxy::plan::{Http2, Listener, OriginTls, OriginUrl, Plan, Role, Route};
use http2::{write_field, write_status};

use super::{
    harness::{
        running::*,
        tls::{Authority, listener_tls},
        *,
    },
    http2_client::speaking,
};

/// A plan with one route, which is asked by HTTP/2.
pub fn plan_by_h2(at: OriginUrl, http2: Http2) -> Plan {
    let route = Route {
        http2: Some(http2),
        ..Route::everything_to(at)
    };
    plan_with(route)
}

fn plan_with(route: Route) -> Plan {
    let mut plan = plan(Listener::reverse(local(), Vec::new(), url(nobody())));
    plan.listeners[0].role = Role::Reverse(vec![route]);
    plan.cache.unreachable_ttl = Duration::ZERO;
    with_admin(plan)
}

/// A proxy that speaks HTTP/2 to another one, which asks the origin by HTTP/1.
pub struct Chain {
    pub front: Proxy,
    pub back: Proxy,
    origin: Origin,
}

/// A proxy that speaks HTTP/2 to whoever asks, and passes everything on.
pub fn translating(origin: &Origin) -> Proxy {
    let mut plan = speaking(plan_for(origin));
    plan.rules = vec![::proxy::plan::Rule {
        then: ::proxy::plan::Then {
            bypass: Some(true),
            ..Default::default()
        },
        name: None,
        when: Default::default(),
    }];
    Proxy::start(with_admin(plan))
}

impl Chain {
    pub fn new(script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Chain {
        let origin = Origin::start(script);
        let back = translating(&origin);
        let front = Proxy::start(plan_by_h2(url(back.address()), Http2::Known));
        Chain {
            front,
            back,
            origin,
        }
    }
}

/// Did the front have it? The back says in Cache-Status what it did, too.
fn is_hit(answer: &Response) -> bool {
    format!("{:?}", answer.fields).contains("loligo; hit")
}

#[test]
fn what_is_stored_validated_and_passed_is_as_over_http1() {
    let chain = Chain::new(|exchange| {
        let path = exchange.path().to_owned();
        match (&path[..], exchange.field("if-none-match")) {
            ("/stale", Some("\"1\"")) => {
                let fields = ["Cache-Control: max-age=60", "ETag: \"1\""];
                exchange.send(head("304 Not Modified", &fields));
            }
            ("/stale", _) => {
                let fields = ["Cache-Control: max-age=0", "ETag: \"1\"", "X-Kept: yes"];
                exchange.send(ok(&fields, "stale"));
            }
            ("/echo", _) => {
                let (body, _) = exchange.body();
                exchange.send(ok(&[], body));
            }
            ("/large", _) => exchange.send(ok(&["Cache-Control: max-age=60"], pattern(700_000))),
            ("/none", _) => exchange.send(head("204 No Content", &[])),
            _ => exchange.send(ok(&["Cache-Control: max-age=60"], "hello")),
        }
    });
    let (front, back) = (&chain.front, &chain.back);
    let first = front.get("/a");
    assert_eq!((first.status, &first.body[..]), (200, &b"hello"[..]));
    let said = format!("{:?}", first.fields);
    assert!(said.contains("2.0 loligo"), "{said}");
    assert!(is_hit(&front.get("/a")));
    // Validated.
    assert_eq!(front.get("/stale").body, b"stale");
    let validated = front.get("/stale");
    assert_eq!(
        (validated.status, &validated.body[..]),
        (200, &b"stale"[..])
    );
    assert_eq!(validated.fields.get("x-kept"), Some("yes"));
    assert!(is_hit(&front.get("/stale")), "it is fresh again");
    // HEAD, ranges, a body, nothing at all.
    let head = front.ask("HEAD", "/head", &[]);
    assert_eq!(
        (head.status, head.fields.get("content-length")),
        (200, Some("5"))
    );
    assert_same(&front.get("/large").body, &pattern(700_000));
    let part = front.ask("GET", "/large", &["Range: bytes=100-199"]);
    assert_eq!(part.status, 206);
    assert_same(&part.body, &pattern(700_000)[100..200]);
    assert_eq!(front.get("/none").status, 204);
    let body = "x".repeat(200_000);
    for line in ["Content-Length: 200000", "Transfer-Encoding: chunked"] {
        let mut client = front.client();
        let sent = match line.starts_with('C') {
            true => body.clone().into_bytes(),
            false => [chunk(&body), b"0\r\n\r\n".to_vec()].concat(),
        };
        let asked = format!("POST /echo HTTP/1.1\r\nHost: a.example\r\n{line}\r\n\r\n");
        client.send(asked).send(sent);
        let echoed = client.read("POST");
        assert_eq!(
            (echoed.status, echoed.body.len()),
            (200, body.len()),
            "{line}"
        );
    }
    // All of it by one connection, or one a worker.
    assert!(back.counter("h2_streams") >= 8);
    assert!(
        back.counter("h2_connections") <= 2,
        "{}",
        back.counter("h2_connections")
    );
    assert_eq!(
        front.counter("origin_connections"),
        back.counter("h2_connections")
    );
    assert_eq!(
        chain
            .origin
            .requests()
            .iter()
            .filter(|it| it.target == "/a")
            .count(),
        1
    );
}

#[test]
fn many_at_once_share_a_connection_and_equal_ones_a_fetch() {
    let chain = Chain::new(|exchange| {
        thread::sleep(Duration::from_millis(30));
        let body = exchange.path().to_owned();
        exchange.send(ok(&["Cache-Control: max-age=60"], body));
    });
    thread::scope(|scope| {
        for number in 0..60 {
            let front = &chain.front;
            scope.spawn(move || {
                let path = format!("/{}", number % 30);
                assert_eq!(front.get(&path).body, path.as_bytes());
            });
        }
    });
    assert!(chain.back.counter("h2_connections") <= 2);
    assert_eq!(chain.origin.requests().len(), 30);
}

#[test]
fn tls_agrees_on_it_or_http1_is_spoken() {
    let authority = Authority::new();
    let shown = authority.sign("site", &["127.0.0.1"]);
    for speaks_h2 in [true, false] {
        let origin = Origin::start(|exchange| {
            let (body, _) = exchange.body();
            exchange.send(ok(&[], body));
        });
        let mut plan = plan_for(&origin);
        plan.listeners[0].tls = Some(listener_tls(&[&shown]));
        plan.listeners[0].http2 = speaks_h2;
        let back = Proxy::start(with_admin(plan));
        let at = OriginUrl {
            tls: true,
            ..url(back.address())
        };
        let route = Route {
            http2: Some(Http2::Negotiated),
            tls: Some(Arc::new(OriginTls {
                ca_file: Some(authority.path("ca.pem")),
                only_ca_file: true,
                ..OriginTls::default()
            })),
            ..Route::everything_to(at)
        };
        let front = Proxy::start(plan_with(route));
        for _ in 0..3 {
            let mut client = front.client();
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nping");
            assert_eq!(client.read("POST").body, b"ping");
        }
        let streams = back.counter("h2_streams");
        assert_eq!(streams, if speaks_h2 { 3 } else { 0 });
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut out = vec![len[1], len[2], len[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn block(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    write_status(status, &mut block);
    for (name, value) in fields {
        write_field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// A whole answer, which may be stored.
fn answered(stream: u32, body: &str) -> Vec<u8> {
    let fields = [("cache-control", "max-age=60")];
    [
        frame(HEADERS, 4, stream, &block(200, &fields)),
        frame(0, 1, stream, body.as_bytes()),
    ]
    .concat()
}

/// A server of frames that are written by hand. The script has the connection, the stream and how many requests came before: what is
/// sent; nothing more: the connection is closed.
struct Raw {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Raw {
    fn start(script: impl Fn(usize, u32, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let raw = Raw {
            address,
            asked: Arc::clone(&asked),
        };
        let script = Arc::new(script);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                thread::spawn(move || serve(stream, number, &*script, &asked));
            }
        });
        raw
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn proxy(&self) -> Proxy {
        Proxy::start(speaking(plan_by_h2(url(self.address), Http2::Known)))
    }
}

fn serve(
    mut stream: TcpStream,
    number: usize,
    script: &(dyn Fn(usize, u32, usize) -> Option<Vec<u8>> + Send + Sync),
    asked: &AtomicUsize,
) {
    let mut preface = [0; 24];
    if stream.read_exact(&mut preface).is_err() {
        return;
    }
    let hello = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat();
    let _ = stream.write_all(&hello);
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; len];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        if head[3] == HEADERS {
            let before = asked.fetch_add(1, Ordering::Relaxed);
            match script(number, id, before) {
                Some(bytes) => {
                    let _ = stream.write_all(&bytes);
                }
                None => return,
            }
        }
    }
}

fn post(proxy: &Proxy, body: &str) -> Response {
    let mut client = proxy.client();
    let len = body.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {len}\r\n\r\n{body}"
    ));
    client.read("POST")
}

#[test]
fn what_was_not_taken_is_sent_again_and_nothing_else() {
    let go_away = |last: u32| frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    // Refused; behind the last one of a GOAWAY.
    let refused = Raw::start(|_, id, before| {
        Some(match before {
            0 => frame(RST_STREAM, 0, id, &7_u32.to_be_bytes()),
            _ => answered(id, "again"),
        })
    });
    assert_eq!(post(&refused.proxy(), "body").body, b"again");
    assert_eq!(refused.asked(), 2);
    let leaving = Raw::start(move |number, id, _| {
        Some(match (number, id) {
            (0, 1) => answered(1, "first"),
            (0, _) => go_away(1),
            _ => answered(id, "again"),
        })
    });
    let proxy = leaving.proxy();
    assert_eq!(post(&proxy, "one").body, b"first");
    assert_eq!(post(&proxy, "two").body, b"again");
    assert_eq!(leaving.asked(), 3);
    // Whoever refuses always is not asked for ever.
    let never = Raw::start(|_, id, _| Some(frame(RST_STREAM, 0, id, &7_u32.to_be_bytes())));
    let answer = never.proxy().get("/");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(
        answer.text().contains("destination_unavailable"),
        "{}",
        answer.text()
    );
    assert_eq!(never.asked(), 3);
    // What may have been carried out is not repeated: reset for another reason, closed without a word.
    for closes in [false, true] {
        let broken = Raw::start(move |_, id, _| match closes {
            true => None,
            false => Some(frame(RST_STREAM, 0, id, &2_u32.to_be_bytes())),
        });
        let answer = post(&broken.proxy(), "body");
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(
            answer.text().contains("connection_terminated"),
            "{}",
            answer.text()
        );
        assert_eq!(broken.asked(), 1);
    }
}

#[test]
fn an_origin_that_breaks_http2_is_told_so_and_nothing_of_it_is_stored() {
    fn headers(id: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
        frame(HEADERS, 4 | flags, id, &block(200, fields))
    }
    type Frames = fn(u32) -> Vec<u8>;
    const FRESH: (&str, &str) = ("cache-control", "max-age=60");
    let cases: &[(&str, Frames)] = &[
        ("a push", |id| {
            [frame(5, 4, id, &[0, 0, 0, 2, 0x88]), answered(id, "x")].concat()
        }),
        ("a wrong stream", |id| answered(id + 8, "x")),
        ("upper case", |id| {
            let mut head = block(200, &[FRESH]);
            head.extend_from_slice(b"\x00\x01A\x01b");
            [frame(HEADERS, 4, id, &head), frame(0, 1, id, b"x")].concat()
        }),
        ("Connection", |id| {
            let mut head = block(200, &[FRESH]);
            head.extend_from_slice(b"\x00\x0aconnection\x05close");
            [frame(HEADERS, 4, id, &head), frame(0, 1, id, b"x")].concat()
        }),
        ("a long block", |id| {
            let long = "x".repeat(16_000);
            let head = block(200, &[FRESH, ("a", &long)]);
            let more = (0..30).flat_map(|_| frame(9, 0, id, &block(200, &[("b", &long)])));
            frame(HEADERS, 0, id, &head)
                .into_iter()
                .chain(more)
                .collect()
        }),
        ("more than was announced", |id| {
            [
                headers(id, 0, &[FRESH, ("content-length", "1")]),
                frame(0, 1, id, b"xy"),
            ]
            .concat()
        }),
        ("less than was announced", |id| {
            [
                headers(id, 0, &[FRESH, ("content-length", "5")]),
                frame(0, 1, id, b"xy"),
            ]
            .concat()
        }),
        ("HTTP/1", |_| {
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()
        }),
    ];
    for (name, frames) in cases {
        let frames: Frames = *frames;
        let raw = Raw::start(move |_, id, _| Some(frames(id)));
        let proxy = raw.proxy();
        for round in 1..=2 {
            let mut client = proxy.client();
            client.ask("GET", "/", &["Host: a.example"]);
            let answer = client.read_whatever("GET");
            let is_refused = answer.status == 502 && answer.text().contains("http_protocol_error");
            // The head of a body that turned out wrong was out.
            assert!(
                is_refused || answer.cut.is_some(),
                "{name}: {} {}",
                answer.status,
                answer.text()
            );
            assert!(raw.asked() >= round, "{name}: nothing was stored");
        }
    }
}
