//! Request bodies on their way up, interim and early answers on their way down.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Instant,
};

use crate::harness::{client::request, *};

/// An origin that answers with what it was sent: framing, data, trailers.
fn reflecting() -> Origin {
    Origin::start(|exchange| {
        let (data, trailers) = exchange.body();
        let framing = exchange
            .field("transfer-encoding")
            .unwrap_or("length")
            .to_owned();
        let data = String::from_utf8(data).unwrap();
        let sum = trailers.get("x-sum").unwrap_or("none");
        exchange.send(ok(&[], format!("{framing}|{data}|{sum}")));
    })
}

#[test]
fn a_request_body_keeps_its_framing() {
    let origin = reflecting();
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for (method, fields, body, expected) in [
        ("POST", "Content-Length: 5", "hello", "length|hello|none"),
        ("PUT", "Content-Length: 0", "", "length||none"),
        (
            "POST",
            "Transfer-Encoding: chunked",
            "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "chunked|hello|none",
        ),
        (
            "PUT",
            "Transfer-Encoding: Chunked",
            "5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n",
            "chunked|hello|5",
        ),
        ("GET", "Content-Length: 5", "hello", "length|hello|none"),
    ] {
        client.send(request(method, "/a", &[fields], body));
        assert_eq!(client.read(method).text(), expected, "{method} {fields}");
    }
}

#[test]
fn a_request_body_is_streamed() {
    for (fields, first, second) in [
        ("Content-Length: 10", "first", "later"),
        (
            "Transfer-Encoding: chunked",
            "5\r\nfirst\r\n",
            "5\r\nlater\r\n0\r\n\r\n",
        ),
    ] {
        let (sender, arrived) = mpsc::channel();
        let origin = Origin::start(move |exchange| {
            let some = exchange.wire.exactly(first.len()).0;
            sender.send(some).unwrap();
            let rest = exchange.wire.exactly(second.len()).0;
            sender.send(rest).unwrap();
            exchange.send(ok(&[], "done"));
            exchange.close();
        });
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        client.send(request("POST", "/a", &[fields], first));
        assert_eq!(arrived.recv_timeout(PATIENCE).unwrap(), first.as_bytes());
        client.send(second);
        assert_eq!(arrived.recv_timeout(PATIENCE).unwrap(), second.as_bytes());
        assert_eq!(client.read("POST").text(), "done");
    }
}

#[test]
fn a_large_request_body_arrives_whole() {
    let body = pattern(5_000_000);
    let expected = body.clone();
    let origin = Origin::start(move |exchange| {
        let (data, _) = exchange.body();
        assert_same(&data, &expected);
        exchange.send(ok(&[], "same"));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for chunked in [false, true] {
        if chunked {
            client.ask("POST", "/a", &["Transfer-Encoding: chunked"]);
            for piece in body.chunks(70_000) {
                client.send(chunk(piece));
            }
            client.send("0\r\n\r\n");
        } else {
            let field = format!("Content-Length: {}", body.len());
            client.ask("POST", "/a", &[&field]).send(&body);
        }
        assert_eq!(client.read("POST").text(), "same");
    }
}

#[test]
fn a_malformed_chunk_is_refused_and_reaches_nobody_as_a_whole_body() {
    for body in [
        "x\r\n",
        "3\r\nabcd\r\n",
        "3\nabc\n0\n\n",
        "-1\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
    ] {
        let (sender, whole) = mpsc::channel();
        let origin = Origin::start(move |exchange| {
            let (_, _, cut) = exchange.wire.body(Framing::Chunked);
            sender.send(cut.is_none()).unwrap();
            exchange.close();
        });
        let proxy = Proxy::before(&origin);
        let mut client = proxy.client();
        client.send(request("POST", "/a", &["Transfer-Encoding: chunked"], body));
        let answer = client.read("POST");
        assert_eq!(
            (answer.status, answer.field("connection")),
            (400, Some("close"))
        );
        client.expect_close();
        assert!(!whole.recv_timeout(PATIENCE).unwrap_or(false), "{body:?}");
    }
}

#[test]
fn a_client_that_leaves_in_its_body_cuts_the_request() {
    let (sender, whole) = mpsc::channel();
    let origin = Origin::start(move |exchange| {
        let (_, cut) = exchange.wire.exactly(10);
        sender.send(cut.is_none()).unwrap();
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.send(request("POST", "/a", &["Content-Length: 10"], "half"));
    // What is reset before anything was done for it is not passed on (HTTP/2).
    eventually("the origin has its head", || {
        (!origin.requests().is_empty()).then_some(())
    });
    drop(client);
    assert!(!whole.recv_timeout(PATIENCE).unwrap());
}

const EXPECT: &[&str] = &["Expect: 100-continue", "Content-Length: 5"];

#[test]
fn expect_is_passed_on_and_the_origin_says_continue() {
    let origin = Origin::start(|exchange| {
        if exchange.request.method == "POST" {
            assert_eq!(exchange.field("expect"), Some("100-continue"));
            exchange.send(head("100 Continue", &[]));
        }
        let (data, _) = exchange.body();
        exchange.send(ok(&[], data));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("POST", "/a", EXPECT);
    assert_eq!(client.read_head().status, 100);
    client.send("hello");
    assert_eq!(client.read("POST").text(), "hello");
    assert_eq!(client.get("/b").status, 200, "the connection goes on");
}

#[test]
fn the_origin_may_refuse_before_the_body() {
    let origin = Origin::start(|exchange| {
        exchange.send(answer("417 Expectation Failed", &[], "no"));
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("POST", "/a", EXPECT);
    let refused = client.read("POST");
    assert_eq!((refused.status, refused.text()), (417, "no"));
    // What the client sends now could be the body or a request: only the end is unambiguous.
    assert_eq!(refused.field("connection"), Some("close"));
    client.expect_close();
}

#[test]
fn a_silent_origin_does_not_keep_the_client_waiting_for_continue() {
    let origin = Origin::start(|exchange| {
        let (data, _) = exchange.body();
        exchange.send(ok(&[], data));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("POST", "/a", EXPECT);
    assert_eq!(client.read_head().status, 100);
    client.send("hello");
    assert_eq!(client.read("POST").text(), "hello");
}

#[test]
fn a_client_that_does_not_wait_for_continue_is_served() {
    let origin = reflecting();
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.send(request("POST", "/a", EXPECT, "hello"));
    let answer = match client.read_head() {
        interim if interim.status == 100 => client.read("POST"),
        mut last => {
            client.wire.response_body("POST", &mut last);
            last
        }
    };
    assert_eq!(answer.text(), "length|hello|none");
}

#[test]
fn an_early_answer_ends_an_upload() {
    // At once, or when nothing moves any more because nobody takes the body.
    for (stalled, text) in [(false, "too large"), (true, "too large"), (true, "")] {
        for framing in ["Content-Length: 40000000", "Transfer-Encoding: chunked"] {
            let (answer_now, done) = (Gate::new(), Gate::new());
            let (before, after) = (answer_now.clone(), done.clone());
            let origin = Origin::start(move |exchange| {
                before.pass();
                exchange.send(answer("413 Content Too Large", &[], text));
                // Neither reads the body nor closes: the answer alone must do.
                after.pass();
                exchange.close();
            });
            let proxy = Proxy::before(&origin);
            let mut client = proxy.client();
            client.ask("POST", "/a", &[framing]);
            let upload = Upload::start(&client, framing.starts_with('T'));
            if stalled {
                upload.stalls();
            }
            let began = Instant::now();
            answer_now.open();
            let answer = client.read("POST");
            assert_eq!((answer.status, answer.text()), (413, text));
            assert_eq!(answer.field("connection"), Some("close"));
            assert!(
                began.elapsed() < PATIENCE / 2,
                "not before the origin closed"
            );
            done.open();
            drop(client);
        }
    }
}

/// A thread that sends more than all the sockets on the way can hold.
struct Upload(Arc<AtomicUsize>);

impl Upload {
    fn start(client: &Client, chunked: bool) -> Upload {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let mut stream = client.wire.stream().try_clone().unwrap();
        thread::spawn(move || {
            let data = pattern(32 << 10);
            let piece = if chunked { chunk(data) } else { data };
            while count.load(SeqCst) < 1000 && stream.write_all(&piece).is_ok() {
                count.fetch_add(1, SeqCst);
            }
        });
        Upload(sent)
    }

    /// Waits until nothing has moved for a while.
    fn stalls(&self) {
        let (mut before, mut still) = (0, 0);
        eventually("the upload stalls", || {
            let now = self.0.load(SeqCst);
            assert!(now < 1000, "somebody took it all");
            still = if now == before && now > 0 {
                still + 1
            } else {
                0
            };
            before = now;
            (still > 40).then_some(())
        });
    }
}

#[test]
fn an_echo_flows_both_ways_at_once() {
    // More than the sockets hold: who only writes, or only reads, stops for ever.
    const BYTES: usize = 24 << 20;
    let origin = Origin::start(|exchange| {
        let field = format!("Content-Length: {BYTES}");
        exchange.send(head("200 OK", &[&field]));
        let mut left = BYTES;
        while left > 0 {
            let some = exchange.wire.some().unwrap();
            left -= some.len();
            exchange.send(some);
        }
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("POST", "/a", &[&format!("Content-Length: {BYTES}")]);
    let mut up = client.wire.stream().try_clone().unwrap();
    let sending = thread::spawn(move || up.write_all(&pattern(BYTES)));
    let echo = client.read("POST");
    assert_same(&echo.body, &pattern(BYTES));
    sending.join().unwrap().unwrap();
}

#[test]
fn an_answer_to_an_upload_arrives_though_the_origin_closes() {
    let origin = Origin::start(|exchange| {
        exchange.send(answer("403 Forbidden", &["Connection: close"], "no"));
        // What was not read makes the close a reset.
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.ask("POST", "/a", &["Content-Length: 1000000"]);
    let answer = client.read("POST");
    assert_eq!((answer.status, answer.text()), (403, "no"));
}

#[test]
fn what_is_left_of_a_refused_upload_is_no_request() {
    let canary = request("GET", "/canary", &[], "");
    let canaries = canary.repeat((8 << 20) / canary.len());
    let length = format!("Content-Length: {}", canaries.len());
    let origin = Origin::start(|exchange| {
        exchange.wire.exactly(64 << 10);
        exchange.send(answer("413 Content Too Large", &[], "too large"));
        // What was not read makes the close a reset, which a proxy in the middle of a write may see first.
        exchange.close();
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..40 {
        let mut client = proxy.client();
        client.ask("POST", "/a", &[&length]);
        let mut stream = client.wire.stream().try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| stream.write_all(canaries.as_bytes()));
            let answer = client.read("POST");
            assert_eq!((answer.status, answer.text()), (413, "too large"));
            assert_eq!(answer.field("connection"), Some("close"));
            let (more, _) = client.wire.read_to_end();
            assert_eq!(String::from_utf8_lossy(&more), "");
        });
    }
    proxy.stop();
    assert_eq!(origin.count("/a"), origin.requests().len());
}

#[test]
fn an_interim_response_is_passed_on_at_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.send(head(
            "103 Early Hints",
            &["Link: </style.css>; rel=preload"],
        ));
        held.pass();
        exchange.send(ok(&[], "hello"));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    client.send(request("POST", "/a", &["Content-Length: 2"], "ab"));
    let hints = client.read_head();
    assert_eq!(hints.status, 103);
    assert_eq!(hints.field("link"), Some("</style.css>; rel=preload"));
    gate.open();
    assert_eq!(client.read("POST").text(), "hello");

    let mut old = proxy.client();
    old.send("POST /a HTTP/1.0\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(
        old.read("POST").text(),
        "hello",
        "HTTP/1.0 knows no interim responses"
    );
}

#[test]
fn an_interim_response_does_not_confuse_the_cache() {
    let origin = Origin::start(|exchange| {
        exchange.send(head(
            "103 Early Hints",
            &["Link: </style.css>; rel=preload"],
        ));
        exchange.send(ok(&[FRESH], "hello"));
    });
    let proxy = Proxy::before(&origin);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.ask("GET", "/a", &[]);
        let mut answer = client.read_head();
        while answer.status < 200 {
            answer = client.read_head();
        }
        client.wire.response_body("GET", &mut answer);
        assert_eq!(answer.text(), "hello");
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn the_head_does_not_wait_for_the_first_byte_of_the_body() {
    // A stream of events that may be cached or not, and the answer to a POST.
    for (method, fields) in [
        ("GET", [FRESH, "Transfer-Encoding: chunked"]),
        (
            "GET",
            ["Cache-Control: no-store", "Transfer-Encoding: chunked"],
        ),
        (
            "POST",
            ["Cache-Control: no-store", "Transfer-Encoding: chunked"],
        ),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |exchange| {
            exchange.send(head("200 OK", &fields));
            held.pass();
            exchange.send(chunk("event"));
            exchange.send("0\r\n\r\n");
        });
        let proxy = Proxy::start(plan_for(&origin));
        let mut client = proxy.client();
        client.ask(method, "/a", &[]);
        let mut answer = client.read_head();
        assert_eq!(answer.status, 200, "{method} {fields:?}");
        gate.open();
        client.wire.response_body(method, &mut answer);
        assert_eq!(answer.text(), "event");
    }
}
