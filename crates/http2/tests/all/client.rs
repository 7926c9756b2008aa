//! Our side as a client: what it makes of a server's frames, written by hand. The cases are those that h2spec has for clients, and others.
//!
//! A case is what the server sends behind its SETTINGS, on a connection with a GET on stream 1 and a POST, whose body goes on, on stream 3;
//! and in words what the caller hears and what is written.

use std::time::Duration;

use bytes::Buf;
use http2::{Asked, Connection, Event, Fault, Limits, ResetBy, StreamId, Turn};

use crate::raw::*;

const PUSH_PROMISE: u8 = 5;

/// A client, and what its caller heard.
struct Client {
    connection: Connection,
    now: Duration,
    heard: Vec<String>,
    asked: Vec<StreamId>,
}

impl Client {
    /// Its server has sent these settings.
    fn of(settings: &[u8], limits: Limits) -> Client {
        let mut client = Client {
            connection: Connection::client(limits, Duration::ZERO),
            now: Duration::ZERO,
            heard: Vec::new(),
            asked: Vec::new(),
        };
        client.get(&[
            frame(SETTINGS, 0, 0, settings),
            frame(SETTINGS, ACK, 0, &[]),
        ]);
        client.written();
        client
    }

    fn new() -> Client {
        let mut client = Client::of(&[], Limits::default());
        assert!(client.ask("GET", true));
        assert!(client.ask("POST", false));
        client.written();
        client
    }

    fn ask(&mut self, method: &str, ends: bool) -> bool {
        let asked = Asked {
            is_head: method == "HEAD",
            ends,
        };
        let block = request_block(method, "/");
        let stream = (self.connection).request([&block, b""], asked, self.now);
        self.asked.extend(stream);
        stream.is_some()
    }

    fn get(&mut self, frames: &[Vec<u8>]) {
        let input = frames.concat();
        let mut rest = &input[..];
        while let Ok(taken) = self.connection.handle_input(rest, self.now) {
            let (bytes, mut done) = (taken.bytes, None);
            let said = match taken.event {
                None => break,
                Some(Event::Response { stream, head }) => {
                    let end = if head.ends { " end" } else { "" };
                    let length = head.content_length.map(|it| format!(" of {it}"));
                    let length = length.unwrap_or_default();
                    format!("{}: {}{length}{end}", stream.number(), head.status)
                }
                Some(Event::Data {
                    stream,
                    bytes,
                    ends,
                }) => {
                    done = Some((stream, bytes.len()));
                    let end = if ends { " end" } else { "" };
                    format!("{}: data {}{end}", stream.number(), bytes.len())
                }
                Some(Event::Trailers { stream, .. }) => format!("{}: trailers", stream.number()),
                Some(Event::Reset { stream, by }) => match by {
                    ResetBy::Peer(code) => format!("{}: reset {}", stream.number(), code.0),
                    ResetBy::Us(fault) => format!("{}: {fault:?}", stream.number()),
                },
                Some(Event::GoAway(code)) => format!("goaway {}", code.0),
                Some(event) => panic!("a client hears {event:?}"),
            };
            self.heard.push(said);
            if let Some((stream, len)) = done {
                self.connection.consumed(stream, len);
            }
            rest = &rest[bytes..];
        }
    }

    /// What is written, in words: RST_STREAM, GOAWAY and others that answer.
    fn written(&mut self) -> Vec<String> {
        let mut turn = Turn::new();
        let mut out = Vec::new();
        while self.connection.poll_output(&mut turn, 1 << 20, self.now) {
            out.extend_from_slice(&turn.copy_to_bytes(turn.remaining()));
        }
        let mut rest = out.strip_prefix(http2::PREFACE).unwrap_or(&out);
        let mut words = Vec::new();
        while rest.len() >= 9 {
            let len = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
            let (kind, flags) = (rest[3], rest[4]);
            let stream = u32::from_be_bytes([rest[5], rest[6], rest[7], rest[8]]);
            let payload = &rest[9..9 + len];
            let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match kind {
                RST_STREAM => words.push(format!("reset {stream} {}", word(0))),
                GOAWAY => words.push(format!("goaway {} {}", word(0), word(4))),
                PING => words.push(format!("ping {flags}")),
                HEADERS => words.push(format!("headers {stream} {flags}")),
                DATA => words.push(format!("data {stream} {len} {flags}")),
                _ => {}
            }
            rest = &rest[9 + len..];
        }
        words
    }
}

fn answer(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

fn ok(stream: u32) -> Vec<u8> {
    answer(stream, 0, &[(":status", "200")])
}

fn whole(fields: &[(&str, &str)]) -> Vec<u8> {
    answer(1, END_STREAM, fields)
}

const OK: (&str, &str) = (":status", "200");

/// A field whose name is not as it would be written: `write_field` mends names.
fn raw_field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x88, 0x00, name.len() as u8];
    block.extend_from_slice(name);
    block.push(value.len() as u8);
    block.extend_from_slice(value);
    frame(HEADERS, WHOLE, 1, &block)
}

#[test]
fn what_ends_the_connection() {
    use Fault::*;
    let huge = vec![0; 16_385];
    let increase = 0x7fff_ffff_u32;
    let bomb = {
        // An entry of 4,000 bytes, named ten thousand times.
        let mut bomb = vec![0x88, 0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
        bomb.extend_from_slice(&[b'x'; 4000]);
        bomb.extend(vec![0xbe; 12_000]);
        frame(HEADERS, END_HEADERS, 1, &bomb)
    };
    let flood = |empty: bool| {
        let piece: &[u8] = if empty { b"" } else { b"\x88" };
        let first = frame(HEADERS, 0, 1, b"\x88");
        let more = (0..50).map(|_| frame(CONTINUATION, 0, 1, piece));
        std::iter::once(first).chain(more).collect::<Vec<_>>()
    };
    let cases: Vec<(&str, Vec<Vec<u8>>, Fault)> = vec![
        (
            "a push",
            vec![frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x88])],
            Push,
        ),
        ("an even stream", vec![ok(2)], FrameOnWrongStream),
        ("a stream that we have not opened", vec![ok(5)], StreamIdle),
        ("DATA on it", vec![frame(DATA, 0, 5, b"x")], StreamIdle),
        (
            "RST_STREAM on it",
            vec![frame(RST_STREAM, 0, 5, &[0; 4])],
            StreamIdle,
        ),
        ("WINDOW_UPDATE on it", vec![window(5, 1)], StreamIdle),
        ("stream 0", vec![ok(0)], FrameOnWrongStream),
        ("a bomb", vec![bomb], BlockTooLarge),
        (
            "CONTINUATION that never ends",
            flood(false),
            ContinuationFlood,
        ),
        ("empty CONTINUATION", flood(true), ContinuationFlood),
        (
            "CONTINUATION alone",
            vec![frame(CONTINUATION, 4, 1, b"\x88")],
            ContinuationUnexpected,
        ),
        (
            "a block interrupted",
            vec![frame(HEADERS, 0, 1, b"\x88"), frame(PING, 0, 0, &[0; 8])],
            ContinuationExpected,
        ),
        (
            "a block that HPACK cannot read",
            vec![frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")],
            Compression,
        ),
        (
            "a long frame",
            vec![frame(DATA, 0, 1, &huge)],
            FrameTooLarge,
        ),
        (
            "the connection's window above its bound",
            vec![window(0, increase)],
            WindowOverflowConnection,
        ),
        (
            "an update of nothing",
            vec![window(0, 0)],
            WindowZeroConnection,
        ),
        (
            "a push by SETTINGS",
            vec![frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])],
            SettingValue,
        ),
        (
            "an initial window above its bound",
            vec![frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0])],
            SettingWindow,
        ),
        (
            "a frame size below its bound",
            vec![frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff])],
            SettingValue,
        ),
        (
            "SETTINGS on a stream",
            vec![frame(SETTINGS, 0, 1, &[])],
            FrameOnWrongStream,
        ),
        (
            "SETTINGS of an odd length",
            vec![frame(SETTINGS, 0, 0, &[0; 5])],
            FrameLength,
        ),
        (
            "PING of another length",
            vec![frame(PING, 0, 0, &[0; 7])],
            FrameLength,
        ),
        (
            "a priority of a server",
            vec![frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1])],
            PriorityUpdate,
        ),
        (
            "HEADERS behind a reset",
            vec![frame(RST_STREAM, 0, 1, &[0; 4]), ok(1)],
            HeadersOnClosed,
        ),
        (
            "a flood of PING",
            (0..200).map(|_| frame(PING, 0, 0, &[0; 8])).collect(),
            UselessFrames,
        ),
        (
            "a flood of SETTINGS",
            (0..200).map(|_| frame(SETTINGS, 0, 0, &[])).collect(),
            UselessFrames,
        ),
        (
            "interim heads without end",
            (0..200)
                .map(|_| answer(1, 0, &[(":status", "103")]))
                .collect(),
            UselessFrames,
        ),
    ];
    for (name, frames, fault) in cases {
        let mut client = Client::new();
        client.get(&frames);
        assert_eq!(client.connection.fatal(), Some(fault), "{name}");
        let told = format!("goaway 0 {}", fault.code().0);
        assert!(client.written().contains(&told), "{name}");
        assert!(!client.connection.takes_requests(), "{name}");
    }
    // More than the connection's window, on streams that are well.
    let limits = Limits {
        connection_window: 65_535,
        ..Limits::default()
    };
    let mut client = Client::of(&[], limits);
    client.ask("GET", true);
    client.ask("GET", true);
    let full = [
        frame(DATA, 0, 1, &huge[..16_384]),
        frame(DATA, 0, 3, &huge[..16_384]),
    ];
    client.get(&[ok(1), ok(3)]);
    let mut all = 0;
    while client.connection.fatal().is_none() {
        // Nobody takes it.
        let input = full.concat();
        let mut rest = &input[..];
        while let Ok(taken) = client.connection.handle_input(rest, Duration::ZERO) {
            let (bytes, is_all) = (taken.bytes, taken.event.is_none());
            rest = &rest[bytes..];
            if is_all {
                break;
            }
        }
        all += 1;
        assert!(all < 10);
    }
    assert_eq!(client.connection.fatal(), Some(WindowExceededConnection));
}

#[test]
fn what_ends_a_stream() {
    use Fault::*;
    let long = [OK, ("content-length", "5")];
    let huge = "x".repeat(70_000);
    let many: Vec<_> = (0..2000).map(|_| ("a", "b")).collect();
    let content_of = |status| {
        vec![
            answer(1, 0, &[(":status", status)]),
            frame(DATA, 0, 1, b"a"),
        ]
    };
    let cases: Vec<(&str, Vec<Vec<u8>>, Fault)> = vec![
        ("no status", vec![whole(&[("a", "b")])], PseudoMissing),
        ("two", vec![whole(&[OK, OK])], PseudoRepeated),
        (
            "behind a field",
            vec![whole(&[("a", "b"), OK])],
            PseudoAfterField,
        ),
        (
            "one of a request",
            vec![whole(&[OK, (":path", "/")])],
            PseudoUnknown,
        ),
        (
            "one that nobody knows",
            vec![whole(&[OK, (":a", "/")])],
            PseudoUnknown,
        ),
        (
            "a status of two digits",
            vec![whole(&[(":status", "20")])],
            Status,
        ),
        (
            "a status that is no number",
            vec![whole(&[(":status", "2x0")])],
            Status,
        ),
        (
            "a status with a sign",
            vec![whole(&[(":status", "+20")])],
            Status,
        ),
        (
            "a status below all",
            vec![whole(&[(":status", "099")])],
            Status,
        ),
        ("101", vec![whole(&[(":status", "101")])], Status),
        (
            "an end with an interim head",
            vec![whole(&[(":status", "103")])],
            HeadMissing,
        ),
        ("upper case", vec![raw_field(b"Server", b"x")], FieldName),
        (
            "Connection",
            vec![raw_field(b"connection", b"close")],
            ConnectionField,
        ),
        (
            "Transfer-Encoding",
            vec![raw_field(b"transfer-encoding", b"chunked")],
            ConnectionField,
        ),
        (
            "Upgrade",
            vec![raw_field(b"upgrade", b"h2c")],
            ConnectionField,
        ),
        (
            "Keep-Alive",
            vec![raw_field(b"keep-alive", b"timeout=5")],
            ConnectionField,
        ),
        ("TE", vec![raw_field(b"te", b"trailers")], ConnectionField),
        (
            "a line in a value",
            vec![raw_field(b"a", b"b\r\nc: d")],
            FieldValue,
        ),
        (
            "a blank before a value",
            vec![raw_field(b"a", b" b")],
            FieldValue,
        ),
        (
            "two lengths",
            vec![whole(&[
                OK,
                ("content-length", "0"),
                ("content-length", "0"),
            ])],
            ContentLength,
        ),
        (
            "a length with a sign",
            vec![whole(&[OK, ("content-length", "+1")])],
            ContentLength,
        ),
        (
            "an end before the length",
            vec![whole(&long)],
            LengthDiffers,
        ),
        (
            "less than the length",
            vec![answer(1, 0, &long), frame(DATA, END_STREAM, 1, b"abcd")],
            LengthDiffers,
        ),
        (
            "more than the length",
            vec![answer(1, 0, &long), frame(DATA, 0, 1, b"abcdef")],
            LengthDiffers,
        ),
        ("content of 304", content_of("304"), LengthDiffers),
        ("content of 204", content_of("204"), LengthDiffers),
        (
            "content without a head",
            vec![frame(DATA, END_STREAM, 1, b"a")],
            HeadMissing,
        ),
        (
            "content behind an interim head",
            content_of("103"),
            HeadMissing,
        ),
        (
            "content behind the end",
            vec![whole(&[OK]), frame(DATA, 0, 1, b"a")],
            DataOnClosed,
        ),
        (
            "a head behind the end",
            vec![whole(&[OK]), ok(1)],
            HeadersAfterEnd,
        ),
        (
            "trailers that do not end",
            vec![ok(1), answer(1, 0, &[("a", "b")])],
            TrailersNotLast,
        ),
        (
            "two final heads",
            vec![ok(1), whole(&[OK])],
            PseudoAfterField,
        ),
        ("an update of nothing", vec![window(1, 0)], WindowZero),
        (
            "a window above its bound",
            vec![window(1, 0x7fff_ffff)],
            WindowOverflow,
        ),
        (
            "a long head",
            vec![headers(1, &block(&[OK, ("a", &huge)]))],
            HeadTooLarge,
        ),
        (
            "many fields",
            vec![whole(&[&[OK][..], &many].concat())],
            TooManyFields,
        ),
    ];
    for (name, frames, fault) in cases {
        let mut client = Client::new();
        client.get(&frames);
        assert_eq!(client.connection.fatal(), None, "{name}");
        let heard = client.heard.last().cloned().unwrap_or_default();
        assert_eq!(heard, format!("1: {fault:?}"), "{name}");
        let code = match fault.status() {
            Some(_) => 11,
            None => fault.code().0,
        };
        let told = format!("reset 1 {code}");
        assert!(client.written().contains(&told), "{name}: {code}");
        client.connection.release(client.asked[0]);
        // The other request is none the worse.
        client.get(&[answer(3, END_STREAM, &[OK])]);
        assert_eq!(client.heard.last().unwrap(), "3: 200 end", "{name}");
    }
}

#[test]
fn an_answer_comes_whole() {
    let mut client = Client::new();
    client.get(&[
        answer(1, 0, &[(":status", "103"), ("link", "</a>")]),
        answer(1, 0, &[OK, ("content-length", "3")]),
        frame(DATA, 0, 1, b"ab"),
        frame(DATA, 0, 1, b"c"),
        answer(1, END_STREAM, &[("checked", "yes")]),
    ]);
    assert_eq!(
        client.heard,
        [
            "1: 103",
            "1: 200 of 3",
            "1: data 2",
            "1: data 1",
            "1: trailers"
        ]
    );
    client.connection.release(client.asked[0]);
    assert_eq!(client.connection.open_streams(), 1);
    assert_eq!(client.written(), [""; 0], "nothing is to be said about it");
}

#[test]
fn a_head_alone_ends_an_answer_to_head() {
    for (method, status) in [("HEAD", "200"), ("GET", "304")] {
        let mut client = Client::of(&[], Limits::default());
        client.ask(method, true);
        client.get(&[answer(
            1,
            END_STREAM,
            &[(":status", status), ("content-length", "9")],
        )]);
        assert_eq!(client.heard, [format!("1: {status} of 9 end")]);
    }
}

#[test]
fn the_servers_bound_is_kept() {
    // Before its SETTINGS one request may go out.
    let mut client = Client {
        connection: Connection::client(Limits::default(), Duration::ZERO),
        now: Duration::ZERO,
        heard: Vec::new(),
        asked: Vec::new(),
    };
    assert!(client.ask("GET", true) && !client.ask("GET", true));
    client.get(&[frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2])]);
    assert!(client.ask("GET", true) && !client.ask("GET", true));
    client.get(&[whole(&[OK])]);
    client.connection.release(client.asked[0]);
    assert!(client.ask("GET", true) && !client.ask("GET", true));
    // No more than the bound that is lower now.
    client.get(&[frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0])]);
    assert!(!client.connection.may_ask() && client.connection.takes_requests());
}

#[test]
fn a_server_that_leaves_has_not_taken_the_later_ones() {
    let mut client = Client::new();
    let last = |last: u8| frame(GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    let mut early = last(0);
    early[9..13].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    client.get(&[early]);
    let unprocessed = |client: &Client| -> Vec<u32> {
        let all = client.connection.unprocessed();
        all.map(StreamId::number).collect()
    };
    assert_eq!(unprocessed(&client), [0; 0]);
    assert!(!client.connection.may_ask() && !client.connection.takes_requests());
    client.get(&[last(1)]);
    assert_eq!(client.heard, ["goaway 0", "goaway 0"]);
    assert_eq!(unprocessed(&client), [3]);
    let second = client.asked[1];
    client.connection.release(second);
    client.get(&[whole(&[OK])]);
    assert_eq!(client.heard.last().unwrap(), "1: 200 end");
    client.connection.release(client.asked[0]);
    assert!(client.connection.is_over());
}

#[test]
fn whoever_gives_up_cancels() {
    let mut client = Client::new();
    client.get(&[ok(1), frame(DATA, 0, 1, b"abc")]);
    client.connection.release(client.asked[0]);
    assert_eq!(client.written(), ["reset 1 8"]);
    // What was on its way is passed over.
    client.get(&[frame(DATA, END_STREAM, 1, &[0; 9000])]);
    assert_eq!((client.heard.len(), client.connection.fatal()), (2, None));
    // An answer before the end of the request: the rest of that is not wanted.
    client.get(&[answer(3, END_STREAM, &[(":status", "413")])]);
    client.connection.release(client.asked[1]);
    assert_eq!(client.written(), ["reset 3 8"]);
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn resets_of_a_server_cost_nothing() {
    let mut client = Client::of(&[], Limits::default());
    for number in 0..2000 {
        assert!(client.ask("GET", true));
        client.written();
        client.get(&[frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 7])]);
        assert_eq!(
            client.heard.pop().unwrap(),
            format!("{}: reset 7", 2 * number + 1)
        );
        client.connection.release(client.asked.pop().unwrap());
    }
    assert_eq!(client.connection.fatal(), None);
}

#[test]
fn a_body_goes_out_as_windows_allow() {
    // An initial window of 10 bytes.
    let mut client = Client::of(&[0, 4, 0, 0, 0, 10], Limits::default());
    client.ask("POST", false);
    let stream = client.asked[0];
    client
        .connection
        .piece(stream, vec![7; 25].into(), client.now);
    client
        .connection
        .trailers(stream, block(&[("checked", "yes")]));
    assert_eq!(client.written(), ["headers 1 4", "data 1 10 0"]);
    client.get(&[window(1, 10)]);
    assert_eq!(client.written(), ["data 1 10 0"]);
    client.get(&[window(1, 100)]);
    assert_eq!(client.written(), ["data 1 5 0", "headers 1 5"]);
    client.get(&[whole(&[OK])]);
    client.connection.release(stream);
    assert_eq!(client.connection.open_streams(), 0);
    assert_eq!(client.written(), [""; 0]);
}

#[test]
fn a_server_that_takes_nothing_loses_the_stream() {
    let mut client = Client::of(&[0, 4, 0, 0, 0, 0], Limits::default());
    client.ask("POST", false);
    client
        .connection
        .piece(client.asked[0], vec![7; 25].into(), client.now);
    client.now = Duration::from_secs(76);
    let happened = client.connection.handle_timeout(client.now).unwrap();
    assert!(matches!(
        happened,
        Some(Event::Reset {
            by: ResetBy::Us(Fault::Stalled),
            ..
        })
    ));
}

#[test]
fn pings() {
    let mut client = Client::new();
    client.connection.send_ping();
    client.connection.send_ping();
    assert_eq!(client.written(), ["ping 0"]);
    assert!(client.connection.is_ping_out());
    client.get(&[frame(PING, ACK, 0, b"alive? !"), frame(PING, 0, 0, &[1; 8])]);
    assert!(!client.connection.is_ping_out());
    assert_eq!(client.written(), ["ping 1"]);
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let mut connection = Connection::client(Limits::default(), Duration::ZERO);
    let due = connection.next_deadline().unwrap();
    assert_eq!(
        connection.handle_timeout(due).unwrap_err(),
        Fault::PrefaceTimeout
    );
    let mut connection = Connection::client(Limits::default(), Duration::ZERO);
    let said = b"HTTP/1.1 400 Bad Request\r\n";
    let fault = connection.handle_input(said, Duration::ZERO).unwrap_err();
    assert_eq!(fault, Fault::Preface);
}
