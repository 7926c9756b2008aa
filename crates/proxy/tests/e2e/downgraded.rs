//! Requests of HTTP/2 that would be something else in HTTP/1.1: what reaches the origin is clean, or nothing does.
//!
//! HTTP/2 carries names and values by their length, so any byte may stand in them. Each attack comes on a stream of its own, with a canary
//! behind it on the same connection. Whatever becomes of the attack, the canary is answered, and arrives as the one request that it is. An
//! attack that is not refused arrives as exactly one request: the target and the body that were sent, one Host, one framing.
//!
//! [`check`] takes the requests of `smuggling`, which are written for HTTP/1, line by line into fields. The rest here is about what only HTTP/2 has.

use ::proxy::plan::Listener;

use crate::{
    harness::{
        Proxy,
        running::{local, plan, url},
        way,
    },
    http2_client::{HOST, speaking},
    http2_raw::{
        DATA, END_HEADERS, END_STREAM, HEADERS, Raw, block, field, frame, get, head, headers,
    },
    smuggling::{Arrived, Spy},
};

/// Legal names in trailers over HTTP/2, which a recipient must not find there.
const NO_TRAILERS: [&str; 9] = [
    "content-length",
    "host",
    "cookie",
    "authorization",
    "cache-control",
    "content-type",
    "te",
    "trailer",
    "x-forwarded-for",
];

/// Where attacks go to.
struct Target {
    spy: Spy,
    proxy: Proxy,
}

impl Target {
    fn start() -> Target {
        let spy = Spy::start();
        let listener = Listener::reverse(local(), Vec::new(), url(spy.address));
        let proxy = Proxy::start(speaking(way::undress(plan(listener))));
        Target { spy, proxy }
    }

    /// Sends these frames on stream 1 and a canary on stream 3. What became of stream 1, and what has arrived of it.
    #[track_caller]
    fn attack(&self, shown: &str, frames: &[u8]) -> (Result<u16, u32>, Option<Arrived>) {
        let (outcome, arrived) = self.try_attack(shown, frames);
        let outcome = outcome.unwrap_or_else(|| panic!("{shown}: the connection ended"));
        (outcome, arrived)
    }

    /// The same; `None`: the attack has ended the connection.
    #[track_caller]
    fn try_attack(
        &self,
        shown: &str,
        frames: &[u8],
    ) -> (Option<Result<u16, u32>>, Option<Arrived>) {
        let mut raw = Raw::connect(self.proxy.address());
        raw.send(frames);
        let outcome = raw.outcome(1);
        if outcome.is_none() {
            assert!(self.spy.take().is_empty(), "{shown}");
            return (None, None);
        }
        raw.send(&get(3, "/canary"));
        assert_eq!(raw.outcome(3), Some(Ok(200)), "{shown}: the canary");
        let arrived = self.spy.take();
        assert!(arrived.iter().all(Result::is_ok), "{shown}: {arrived:?}");
        let mut arrived: Vec<Arrived> = arrived.into_iter().map(Result::unwrap).collect();
        let canary = arrived.pop().expect("the canary was answered");
        assert_eq!(canary.head.target, "/canary", "{shown}: {arrived:?}");
        assert!(canary.body.is_empty(), "{shown}: {canary:?}");
        assert_eq!(canary.head.fields.get("host"), Some(HOST), "{shown}");
        assert!(arrived.len() <= 1, "{shown}: {arrived:?}");
        let is_answered = outcome == Some(Ok(200));
        assert!(!is_answered || arrived.len() == 1, "{shown}: {arrived:?}");
        (outcome, arrived.pop())
    }
}

/// What arrived is what was sent, and cannot be read as anything else.
#[track_caller]
fn assert_clean(shown: &str, arrived: &Arrived, target: &str, body: &[u8]) {
    assert_eq!(arrived.head.target, target, "{shown}");
    assert_eq!(arrived.body, body, "{shown}");
    let fields = &arrived.head.fields;
    assert_eq!(fields.all("host").len(), 1, "{shown}");
    assert_eq!(fields.all("via").len(), 1, "{shown}");
    for of_connection in [
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "http2-settings",
    ] {
        assert_eq!(fields.all(of_connection).len(), 0, "{shown}");
    }
    for (name, value) in fields.0.iter().chain(&arrived.trailers.0) {
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        assert!(
            !name.is_empty() && name.bytes().all(is_token),
            "{shown}: {name:?}"
        );
        let is_text = |c: char| c == '\t' || !c.is_control();
        assert!(value.chars().all(is_text), "{shown}: {value:?}");
    }
    for forbidden in NO_TRAILERS.iter().chain(&["evil"]) {
        let found = arrived.trailers.all(forbidden).len();
        assert_eq!(found, 0, "{shown}: {forbidden}");
    }
    assert_eq!(fields.all("evil").len(), 0, "{shown}");
}

/// Requests of HTTP/1, as their author would send them over HTTP/2: the words of the first line, and each line as a field.
pub fn check<'a>(attacks: impl Iterator<Item = &'a [u8]>) {
    let target = Target::start();
    for attack in attacks {
        let shown = String::from_utf8_lossy(&attack[..attack.len().min(200)]).into_owned();
        let end = attack.windows(4).position(|it| it == b"\r\n\r\n");
        let (before, body) = attack.split_at(end.unwrap_or(attack.len()));
        let body = body.get(4..).unwrap_or_default();
        let mut lines = split(before);
        let first = lines.remove(0);
        let mut words = first.splitn(2, |b| *b == b' ');
        let method = words.next().unwrap_or_default();
        let rest = words.next().unwrap_or_default();
        let path = rest.strip_suffix(b" HTTP/1.1").unwrap_or(rest);
        let pseudo = [
            (&b":method"[..], method),
            (b":scheme", b"http"),
            (b":authority", HOST.as_bytes()),
            (b":path", path),
        ];
        let mut fields: Vec<u8> = pseudo.iter().flat_map(|(n, v)| field(n, v)).collect();
        for line in lines {
            let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
            let value = line.get(colon + 1..).unwrap_or_default();
            let name = line[..colon].to_ascii_lowercase();
            // A Host of its own would be one that differs.
            if (&name[..], value) != (b"host", b" test.example") {
                fields.extend(field(&name, value.strip_prefix(b" ").unwrap_or(value)));
            }
        }
        let frames = match body {
            [] => headers(END_STREAM, 1, &fields),
            body => {
                let mut frames = headers(0, 1, &fields);
                for piece in body.chunks(16 << 10) {
                    frames.extend(frame(DATA, 0, 1, piece));
                }
                frames.extend(frame(DATA, END_STREAM, 1, &[]));
                frames
            }
        };
        let (outcome, arrived) = target.try_attack(&shown, &frames);
        if let Some(arrived) = arrived {
            assert_eq!(outcome, Some(Ok(200)), "{shown}: {arrived:?}");
            assert_clean(&shown, &arrived, &String::from_utf8_lossy(path), body);
        }
    }
}

/// As lines end in HTTP/1.
fn split(mut text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = text.windows(2).position(|it| it == b"\r\n") {
        lines.push(&text[..end]);
        text = &text[end + 2..];
    }
    lines.push(text);
    lines
}

/// A POST with these fields beside the pseudo-fields, this body, and trailers.
fn post(fields: &[(&str, &str)], body: &[u8], trailers: Option<&[u8]>) -> Vec<u8> {
    let head = [head("POST", "/a"), block(fields)].concat();
    let mut frames = headers(0, 1, &head);
    let ends = if trailers.is_none() { END_STREAM } else { 0 };
    frames.extend(frame(DATA, ends, 1, body));
    if let Some(trailers) = trailers {
        frames.extend(headers(END_STREAM, 1, trailers));
    }
    frames
}

#[test]
fn a_length_is_that_of_the_body_or_nothing_arrives() {
    let target = Target::start();
    for (lengths, is_good) in [
        (&["5"][..], true),
        // Some read a leading 0 as octal: it does not go on.
        (&["05"], true),
        (&["4"], false),
        (&["6"], false),
        (&["5", "5"], false),
        (&["5", "6"], false),
        (&["5, 5"], false),
        (&["-5"], false),
        (&["18446744073709551621"], false),
        (&[""], false),
        (&["5\r\ntransfer-encoding: chunked"], false),
    ] {
        let fields: Vec<_> = lengths.iter().map(|l| ("content-length", *l)).collect();
        for trailers in [None, Some(&block(&[("sum", "7")])[..])] {
            let (outcome, arrived) = target.attack("a length", &post(&fields, b"hello", trailers));
            assert_eq!(outcome == Ok(200), is_good, "{lengths:?}: {outcome:?}");
            let Some(arrived) = arrived else { continue };
            assert!(is_good, "{lengths:?}: {arrived:?}");
            assert_clean("a length", &arrived, "/a", b"hello");
            let said = arrived.head.fields.get("content-length");
            assert_eq!(said, Some("5"), "{lengths:?}");
        }
    }
    // What is announced goes on as it comes: that more follows shows behind it. So this may arrive, without what was not announced.
    let none = Target::start();
    let mut raw = Raw::connect(none.proxy.address());
    raw.send(&post(&[("content-length", "0")], b"hello", None));
    assert!(matches!(raw.outcome(1), Some(Err(_))));
    for arrived in none.spy.take() {
        assert_clean("no length", &arrived.unwrap(), "/a", b"");
    }
    // Without a length the origin gets chunks, whatever the bytes look like.
    let body = b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let (outcome, arrived) = target.attack("chunks in a body", &post(&[], body, None));
    assert_eq!(outcome, Ok(200));
    assert_clean("chunks in a body", &arrived.unwrap(), "/a", body);
}

#[test]
fn trailers_are_clean_or_the_request_does_not_arrive_whole() {
    let target = Target::start();
    let good = block(&[("sum", "7"), ("x-a", "b")]);
    let (outcome, arrived) = target.attack("good", &post(&[], b"hello", Some(&good)));
    assert_eq!(outcome, Ok(200));
    let arrived = arrived.unwrap();
    assert_clean("good", &arrived, "/a", b"hello");
    assert_eq!(arrived.trailers.get("sum"), Some("7"));
    let dirty: [(&[u8], &[u8]); 17] = [
        (b":path", b"/evil"),
        (b":status", b"200"),
        (b":evil", b"1"),
        (b"", b"1"),
        (b"Sum", b"7"),
        (b"sum\r\nevil", b"1"),
        (b"sum: 7\r\n\r\nGET /evil HTTP/1.1\r\nx", b"1"),
        (b"sum x", b"7"),
        (b"sum", b"7\r\nevil: 1"),
        (b"sum", b"7\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"),
        (b"sum", b"7\nevil: 1"),
        (b"sum", b"7\revil: 1"),
        (b"sum", b"7\0"),
        (b"sum", b"7\x7f"),
        (b"connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
    ];
    for (name, value) in dirty {
        let shown = String::from_utf8_lossy(name).into_owned();
        for length in [&[][..], &[("content-length", "5")]] {
            let trailers = [block(&[("sum", "7")]), field(name, value)].concat();
            let frames = post(length, b"hello", Some(&trailers));
            let (outcome, _) = target.attack(&shown, &frames);
            assert!(outcome.is_err(), "{shown}: {outcome:?}");
        }
    }
    // They are left out, or the request is refused.
    for name in NO_TRAILERS {
        let trailers = block(&[(name, "5")]);
        let (_, arrived) = target.attack(name, &post(&[], b"hello", Some(&trailers)));
        if let Some(arrived) = arrived {
            assert_clean(name, &arrived, "/a", b"hello");
        }
    }
    // Trailers that do not end the stream, and DATA behind trailers.
    let open = frame(HEADERS, END_HEADERS, 1, &good);
    let frames = [post(&[], b"hello", Some(&good)), open.clone()].concat();
    let begun = [headers(0, 1, &head("POST", "/a")), open].concat();
    let mut raw = Raw::connect(target.proxy.address());
    raw.send(&begun);
    assert!(matches!(raw.outcome(1), Some(Err(_)) | None));
    let mut raw = Raw::connect(target.proxy.address());
    raw.send(&frames);
    assert!(matches!(raw.outcome(1), Some(_) | None));
    assert!(target.spy.take().len() <= 1, "the first of both may arrive");
}

#[test]
fn pseudo_fields_are_there_once_and_first_and_agree_with_host() {
    let target = Target::start();
    let good = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", HOST),
        (":path", "/a"),
    ];
    let with = |more: &[(&str, &str)]| block(&[&good[..], more].concat());
    let (outcome, arrived) = target.attack("good", &headers(END_STREAM, 1, &with(&[])));
    assert_eq!(outcome, Ok(200));
    assert_clean("good", &arrived.unwrap(), "/a", b"");
    let same_host = headers(END_STREAM, 1, &with(&[("host", HOST)]));
    let (outcome, arrived) = target.attack("host", &same_host);
    assert_eq!(outcome, Ok(200));
    assert_eq!(arrived.unwrap().head.fields.get("host"), Some(HOST));
    for (name, value) in good {
        for other in [value, "evil.example"] {
            let twice = headers(END_STREAM, 1, &with(&[(name, other)]));
            let (outcome, _) = target.attack(name, &twice);
            assert!(outcome.is_err(), "{name} twice: {outcome:?}");
        }
        if name != ":authority" {
            let without: Vec<_> = good.iter().filter(|it| it.0 != name).copied().collect();
            let (outcome, _) = target.attack(name, &headers(END_STREAM, 1, &block(&without)));
            assert!(outcome.is_err(), "no {name}: {outcome:?}");
        }
        let (first, last) = (("x-a", "b"), (name, value));
        let mut late: Vec<_> = good.iter().filter(|it| it.0 != name).copied().collect();
        late.extend([first, last]);
        let (outcome, _) = target.attack(name, &headers(END_STREAM, 1, &block(&late)));
        assert!(outcome.is_err(), "{name} behind a field: {outcome:?}");
    }
    for more in [
        &[(":status", "200")][..],
        &[(":protocol", "websocket")],
        &[("host", "evil.example")],
        &[("host", "")],
        &[("host", HOST), ("host", "evil.example")],
        &[("host", "evil.example"), ("host", HOST)],
        &[("host", "a.example:80")],
        &[("host", "a.example, evil.example")],
    ] {
        let frames = headers(END_STREAM, 1, &with(more));
        let (outcome, arrived) = target.attack("more", &frames);
        // A Host that means the same is no harm.
        if let Some(arrived) = arrived {
            assert_eq!(more, [("host", "a.example:80")], "{outcome:?}");
            assert_clean("host", &arrived, "/a", b"");
        }
    }
    for authority in [
        "",
        "a b",
        "u@evil.example",
        "evil.example/",
        "a\r\nevil: 1",
        "a:b",
        "[::1",
    ] {
        let fields = good.map(|(n, v)| (n, if n == ":authority" { authority } else { v }));
        let (outcome, _) = target.attack(authority, &headers(END_STREAM, 1, &block(&fields)));
        assert_ne!(outcome, Ok(200), "{authority:?}");
    }
}
