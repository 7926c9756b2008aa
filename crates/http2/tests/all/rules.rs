//! Rules of RFC 9113 that are easier to see than to find in h2spec, a few lines each.

use std::time::Duration;

use bytes::Bytes;
use http2::{Connection, Fault, Limits, PREFACE};

use crate::raw::*;

fn pair() -> Pair {
    Pair::new(Limits::default())
}

#[test]
fn a_request_and_its_answer() {
    let mut pair = pair();
    pair.send(&get(1, "/hello"));
    assert_eq!(pair.events, ["GET /hello"]);
    assert_eq!(
        pair.frames(),
        ["head 1 :status=200", "data 1 \"/hello\" end"]
    );
    assert_eq!(pair.connection.open_streams(), 0);
}

#[test]
fn behind_a_fault_nothing_but_its_goaway_is_sent() {
    let mut pair = pair();
    pair.holds = true;
    pair.send(&get(1, "/a"));
    pair.send(&frame(CONTINUATION, END_HEADERS, 9, &[]));
    assert!(pair.fatal.is_some());
    let said = pair.frames();
    assert!(said.len() == 1 && !said[0].starts_with("reset"), "{said:?}");
    // A reset would tell the client another reason.
    pair.connection.release(pair.held[0]);
    assert_eq!(pair.frames(), [""; 0]);
}

#[test]
fn input_may_come_a_byte_at_a_time() {
    let mut pair = pair();
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &head("POST", "/"));
    bytes.extend(frame(DATA, 0, 1, b"abc"));
    bytes.extend(frame(DATA, 0x8 | END_STREAM, 1, b"\x04de\0\0\0\0"));
    bytes.extend(frame(HEADERS, END_STREAM, 3, &head("GET", "/three")[..5]));
    bytes.extend(frame(
        CONTINUATION,
        END_HEADERS,
        3,
        &head("GET", "/three")[5..],
    ));
    pair.holds = true;
    bytes.iter().for_each(|byte| pair.send(&[*byte]));
    assert_eq!(
        pair.events,
        [
            "POST /",
            "data 1",
            "data 1",
            "data 1",
            "data 1",
            "data 1 end",
            "GET /three"
        ]
    );
}

#[test]
fn an_early_answer_ends_the_request() {
    let mut pair = pair();
    pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/early")));
    assert_eq!(
        pair.frames(),
        ["head 1 :status=200", "data 1 \"/early\" end", "reset 1 0"]
    );
    // DATA and trailers that were under way are ignored.
    pair.send(&frame(DATA, 0, 1, &[0; 500]));
    pair.send(&frame(HEADERS, WHOLE, 1, &block(&[("a", "b")])));
    assert_eq!((pair.frames().len(), pair.fatal), (0, None));
}

#[test]
fn trailers_both_ways() {
    let mut pair = pair();
    pair.holds = true;
    pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/")));
    pair.send(&frame(DATA, 0, 1, &[0; 300]));
    pair.send(&frame(HEADERS, WHOLE, 1, &block(&[("grpc-status", "0")])));
    assert_eq!(pair.events[2], "trailers [(\"grpc-status\", \"0\")]");
    let stream = pair.held[0];
    pair.connection.interim(
        stream,
        [&block(&[(":status", "103"), ("link", "</a>")]), b""],
    );
    pair.connection
        .begin(stream, [&block(&[(":status", "200")]), b""], false);
    pair.connection
        .piece(stream, Bytes::from_static(b"body"), Duration::ZERO);
    pair.connection.trailers(stream, block(&[("digest", "x")]));
    assert_eq!(
        pair.frames(),
        [
            "head 1 :status=103,link=</a>",
            "head 1 :status=200",
            "data 1 \"body\"",
            "head 1 digest=x end"
        ]
    );
    assert_eq!(pair.connection.open_streams(), 0);
}

#[test]
fn bad_trailers() {
    for (fields, flags, fault) in [
        (&[(":path", "/")], WHOLE, "PseudoAfterField"),
        (&[("a", "b")], END_HEADERS, "TrailersNotLast"),
        (&[("content-length", "0")], WHOLE, "FieldName"),
    ] {
        let mut pair = pair();
        pair.holds = true;
        pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/")));
        pair.send(&frame(HEADERS, flags, 1, &block(fields)));
        assert_eq!(pair.events[1], fault);
        assert_eq!(pair.frames(), ["reset 1 1"]);
    }
}

#[test]
fn a_tunnel_ends_on_each_side_alone() {
    let mut pair = pair();
    pair.holds = true;
    let connect = block(&[(":method", "CONNECT"), (":authority", "a:443")]);
    pair.send(&frame(HEADERS, END_HEADERS, 1, &connect));
    let stream = pair.held[0];
    pair.connection
        .begin(stream, [&block(&[(":status", "200")]), b""], false);
    pair.send(&frame(DATA, END_STREAM, 1, b"hello"));
    assert_eq!(pair.events[1], "data 5 end");
    pair.connection
        .piece(stream, Bytes::from_static(b"bye"), Duration::ZERO);
    pair.connection.end(stream);
    assert_eq!(pair.frames(), ["head 1 :status=200", "data 1 \"bye\" end"]);
    assert_eq!(pair.connection.open_streams(), 1);
    pair.connection.release(stream);
    assert_eq!(pair.connection.open_streams(), 0);
}

#[test]
fn a_tunnel_that_breaks_is_reset_by_its_own_code() {
    let mut pair = pair();
    pair.holds = true;
    let connect = block(&[(":method", "CONNECT"), (":authority", "a:443")]);
    pair.send(&frame(HEADERS, END_HEADERS, 1, &connect));
    let stream = pair.held[0];
    let head = block(&[(":status", "200")]);
    pair.connection.begin(stream, [&head, b""], false);
    pair.connection.release(stream);
    assert_eq!(pair.frames(), ["head 1 :status=200", "reset 1 10"]);
}

#[test]
fn a_drain_takes_a_round_trip() {
    let mut pair = pair();
    pair.connection.drain(Duration::ZERO);
    assert_eq!(pair.frames(), ["goaway 2147483647 0", "ping 0"]);
    // A request that crossed the first GOAWAY is answered.
    pair.send(&get(1, "/one"));
    pair.send(&frame(PING, ACK, 0, b"draining"));
    assert_eq!(
        pair.frames(),
        ["head 1 :status=200", "data 1 \"/one\" end", "goaway 1 0"]
    );
    assert!(pair.connection.is_over());
    pair.send(&get(3, "/three"));
    assert_eq!(pair.events, ["GET /one"]);
    assert!(pair.frames().is_empty());
}

#[test]
fn a_drain_without_an_answer_ends_by_time() {
    let mut pair = pair();
    pair.connection.drain(Duration::ZERO);
    let until = pair.connection.next_deadline().unwrap();
    assert_eq!(until, Duration::from_secs(1));
    assert!(pair.connection.handle_timeout(until).unwrap().is_none());
    assert_eq!(pair.frames()[2], "goaway 0 0");
    assert!(pair.connection.is_over());
}

#[test]
fn windows_bound_what_is_sent() {
    let mut pair = pair();
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x03, 0xe8]));
    pair.frames();
    pair.send(&get(1, &format!("/{}", "x".repeat(1999))));
    assert_eq!(pair.frames(), ["head 1 :status=200", "data 1 1000"]);
    pair.send(&window(1, 500));
    assert_eq!(pair.frames(), ["data 1 500"]);
    // The initial window shrinks below what was used: 500 more only bring it back to 0.
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x01, 0xf4]));
    pair.send(&window(1, 500));
    assert_eq!(pair.frames(), ["settings 1"]);
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]));
    assert_eq!(pair.frames(), ["settings 1", "data 1 500 end"]);
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let mut pair = pair();
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    pair.holds = true;
    pair.send(&[get(1, "/"), get(3, "/")].concat());
    pair.frames();
    for stream in std::mem::take(&mut pair.held) {
        pair.answer(stream, vec![b'x'; 40_000].into());
    }
    let sent: usize = pair
        .frames()
        .iter()
        .filter_map(|line| line.split(' ').nth(2)?.parse::<usize>().ok())
        .sum();
    assert_eq!(sent, 65_535);
    assert!(!pair.connection.has_output());
    pair.send(&window(0, 100_000));
    assert_eq!(pair.frames().last().unwrap(), "data 3 14465 end");
}

#[test]
fn urgency_and_increments() {
    let mut pair = pair();
    pair.holds = true;
    let with = |id, priority| {
        let block = [head("GET", "/"), block(&[("priority", priority)])].concat();
        frame(HEADERS, WHOLE, id, &block)
    };
    pair.send(&window(0, 1_000_000));
    // The fifth comes with its priority before it, which overrides the field.
    pair.send(&frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=0"));
    pair.send(&[with(1, "u=5"), with(3, "i"), with(5, "u=7"), with(7, "i")].concat());
    pair.send(&frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6"));
    pair.frames();
    for stream in std::mem::take(&mut pair.held) {
        pair.connection.begin(stream, [&[0x88], b""], false);
        pair.connection
            .piece(stream, vec![b'x'; 17_000].into(), Duration::ZERO);
        pair.connection.end(stream);
    }
    let lines = pair.frames();
    let data: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("data "))
        .collect();
    assert_eq!(
        data,
        [
            "5 16384",
            "5 616 end",
            "3 16384",
            "7 16384",
            "3 616 end",
            "7 616 end",
            "1 16384",
            "1 616 end"
        ]
    );
}

#[test]
fn priorities_ahead_of_requests_are_as_many_as_streams() {
    //= rfc9218 §7.1   prioritized idle streams and active ones MUST NOT exceed SETTINGS_MAX_CONCURRENT_STREAMS
    let early = |id: u32| {
        let payload = [&id.to_be_bytes()[..], b"u=1"].concat();
        frame(PRIORITY_UPDATE, 0, 0, &payload)
    };
    let limits = Limits {
        streams_max: 4,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    pair.holds = true;
    pair.send(&get(1, "/"));
    for id in [3, 5, 7, 3, 5, 7] {
        pair.send(&early(id));
    }
    assert_eq!(pair.fatal, None);
    // A stream that has ended makes room; so does a skipped identifier, which is no longer idle.
    let stream = pair.held[0];
    pair.answer(stream, "x".into());
    pair.frames();
    pair.send(&[early(9), get(5, "/"), early(11)].concat());
    assert_eq!(pair.fatal, None);
    pair.send(&early(13));
    pair.send(&early(15));
    assert_eq!(pair.fatal, Some(Fault::PriorityUpdate));
}

#[test]
fn padding_alone_is_given_back() {
    let limits = Limits {
        stream_window: 4000,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    pair.holds = true;
    pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/")));
    pair.frames();
    let mut frames = Vec::new();
    for _ in 0..60 {
        pair.send(&frame(DATA, 8, 1, &[&[255][..], &[0; 255]].concat()));
        frames.extend(pair.frames());
    }
    // 60 times 256 bytes went through a window of 4,000.
    assert_eq!(pair.fatal, None);
    assert_eq!(frames, vec!["window 1 2048"; 7]);
}

#[test]
fn the_last_stream_of_a_goaway_never_grows() {
    //= rfc9113 §6.8   endpoints MUST NOT increase the value they send in the last stream identifier
    let mut pair = pair();
    pair.holds = true;
    pair.send(&get(1, "/"));
    pair.connection.drain(Duration::ZERO);
    pair.send(&frame(PING, ACK, 0, b"draining"));
    pair.send(&get(3, "/"));
    pair.send(&window(0, 0));
    let frames = pair.frames();
    let said: Vec<&String> = frames
        .iter()
        .filter(|line| line.starts_with("goaway"))
        .collect();
    assert_eq!(said, ["goaway 2147483647 0", "goaway 1 0", "goaway 1 1"]);
}

/// The table has its initial size until the client acknowledges our SETTINGS, and their size from then on.
#[test]
fn our_table_size_holds_when_it_is_acknowledged() {
    let kept = [&head("GET", "/")[..], &[0x40, 1, b'a', 1, b'b']].concat();
    let named = [&head("GET", "/")[..], &[0xbe]].concat();
    let limits = Limits {
        table_bytes_max: 100,
        ..Limits::default()
    };
    let play = |frames: &[Vec<u8>]| {
        let mut connection = Connection::new(limits, Duration::ZERO);
        let mut input = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        input.extend(frames.concat());
        let mut requests = 0;
        loop {
            let taken = connection.handle_input(&input, Duration::ZERO)?;
            let bytes = taken.bytes;
            if taken.event.is_none() {
                return Ok(requests);
            }
            requests += 1;
            input.drain(..bytes);
        }
    };
    let ack = || frame(SETTINGS, ACK, 0, &[]);
    let ask = |id, block: &[u8]| frame(HEADERS, WHOLE, id, block);
    // An entry that fits in either table, and one that fits only in the initial one.
    assert_eq!(play(&[ask(1, &kept), ask(3, &named)]), Ok(2));
    let large = [
        &head("GET", "/")[..],
        &[0x40, 1, b'a', 0x7f, 0x49],
        &[b'b'; 200],
    ]
    .concat();
    assert_eq!(play(&[ask(1, &large), ask(3, &named)]), Ok(2));
    //= rfc9113 §4.3.1   without an update behind the acknowledgement: COMPRESSION_ERROR
    assert_eq!(play(&[ack(), ask(1, &kept)]), Err(Fault::Compression));
    let updated = |block: &[u8]| [&[0x3f, 100 - 31][..], block].concat();
    assert_eq!(
        play(&[ack(), ask(1, &updated(&kept)), ask(3, &named)]),
        Ok(2)
    );
    assert_eq!(
        play(&[ask(1, &large), ack(), ask(3, &updated(&named))]),
        Err(Fault::Compression)
    );
    assert_eq!(
        play(&[ack(), ask(1, &[&[0x3f, 101 - 31][..], &kept].concat())]),
        Err(Fault::Compression)
    );
}

#[test]
fn a_smaller_table_is_acknowledged_once() {
    let mut pair = pair();
    pair.send(&frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]));
    pair.frames();
    // The decoder of the pair has a table of no bytes, and would refuse another size.
    pair.send(&[get(1, "/1"), get(3, "/3")].concat());
    assert_eq!(pair.frames().len(), 4);
}

#[test]
fn commands_on_a_stream_that_is_gone_do_nothing() {
    let mut pair = pair();
    pair.holds = true;
    pair.send(&get(1, "/"));
    let stream = pair.held[0];
    pair.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    pair.answer(stream, "x".into());
    assert!(pair.frames().is_empty());
    pair.connection.release(stream);
    // The slot now belongs to another stream.
    pair.send(&get(3, "/"));
    pair.connection.reset(stream, http2::ErrorCode::CANCEL);
    pair.answer(stream, "x".into());
    pair.connection.release(stream);
    assert!(pair.frames().is_empty());
    assert_eq!(pair.connection.open_streams(), 1);
}

#[test]
fn faults_of_the_connection() {
    let opened = || {
        let mut pair = pair();
        pair.holds = true;
        pair.send(&frame(HEADERS, END_HEADERS, 5, &head("POST", "/")));
        pair.frames();
        pair
    };
    for (bytes, fault) in [
        (frame(DATA, 0, 0, b"x"), Fault::FrameOnWrongStream),
        (frame(DATA, 0, 7, b"x"), Fault::StreamIdle),
        (frame(DATA, 8, 5, b"\x01"), Fault::Padding),
        (frame(DATA, 8, 5, b""), Fault::FrameLength),
        (
            frame(HEADERS, WHOLE, 2, &head("GET", "/")),
            Fault::FrameOnWrongStream,
        ),
        (
            frame(HEADERS, WHOLE, 3, &head("GET", "/")),
            Fault::StreamIdReused,
        ),
        (frame(HEADERS, WHOLE, 7, &[0x80]), Fault::Compression),
        (frame(HEADERS, WHOLE | 8, 7, b"\xffabc"), Fault::Padding),
        (frame(5, END_HEADERS, 5, &[0; 8]), Fault::Push),
        (
            frame(CONTINUATION, END_HEADERS, 5, &[]),
            Fault::ContinuationUnexpected,
        ),
        (frame(PING, 0, 1, &[0; 8]), Fault::FrameOnWrongStream),
        (frame(PING, 0, 0, &[0; 7]), Fault::FrameLength),
        (frame(SETTINGS, 0, 0, &[0; 5]), Fault::FrameLength),
        (
            frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]),
            Fault::SettingValue,
        ),
        (
            frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            Fault::SettingWindow,
        ),
        (
            frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff]),
            Fault::SettingValue,
        ),
        (window(0, 0), Fault::WindowZeroConnection),
        (window(0, 0x7fff_ffff), Fault::WindowOverflowConnection),
        (window(7, 1), Fault::StreamIdle),
        (frame(RST_STREAM, 0, 7, &[0; 4]), Fault::StreamIdle),
        (
            frame(PRIORITY_UPDATE, 0, 5, b"\0\0\0\x05"),
            Fault::PriorityUpdate,
        ),
        (frame(PRIORITY_UPDATE, 0, 0, &[0; 4]), Fault::PriorityUpdate),
        (
            frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x08u=1"),
            Fault::PriorityUpdate,
        ),
        (frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), Fault::FrameLength),
        (frame(PRIORITY, 0, 9, &[0; 4]), Fault::FrameLength),
        (frame(PRIORITY, 0, 0, &[0; 5]), Fault::FrameOnWrongStream),
        (frame(PRIORITY, 0, 9, &[0, 0, 0, 9, 0]), Fault::StreamIdle),
        (frame(RST_STREAM, 0, 5, &[0; 3]), Fault::FrameLength),
        (frame(RST_STREAM, 0, 0, &[0; 4]), Fault::FrameOnWrongStream),
        (frame(WINDOW_UPDATE, 0, 5, &[0; 3]), Fault::FrameLength),
        (frame(SETTINGS, ACK, 0, &[0; 6]), Fault::FrameLength),
        (frame(SETTINGS, 0, 5, &[]), Fault::FrameOnWrongStream),
        (
            frame(SETTINGS, 0, 0, &[0, 9, 0, 0, 0, 2]),
            Fault::SettingValue,
        ),
        (
            frame(HEADERS, WHOLE, 0, &head("GET", "/")),
            Fault::FrameOnWrongStream,
        ),
        (frame(HEADERS, WHOLE | 0x20, 7, &[0; 4]), Fault::FrameLength),
        (frame(GOAWAY, 0, 5, &[0; 8]), Fault::FrameOnWrongStream),
        (frame(GOAWAY, 0, 0, &[0; 7]), Fault::FrameLength),
        (vec![0, 0x40, 1, 0, 0, 0, 0, 0, 5], Fault::FrameTooLarge),
        (
            [
                frame(HEADERS, END_STREAM, 7, &head("GET", "/")),
                frame(PING, 0, 0, &[0; 8]),
            ]
            .concat(),
            Fault::ContinuationExpected,
        ),
    ] {
        let mut pair = opened();
        pair.send(&bytes);
        assert_eq!(pair.fatal, Some(fault), "{bytes:x?}");
        let frames = pair.frames();
        let goaway = frames.last().unwrap();
        assert!(
            goaway.starts_with("goaway ") && goaway.ends_with(&format!(" {}", fault.code().0)),
            "{frames:?}"
        );
        // Nothing is read any more.
        pair.send(&get(9, "/"));
        assert_eq!(pair.events.len(), 1, "{:?}", pair.events);
    }
}

#[test]
fn extended_connect_only_where_offered() {
    let ask = block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/chat"),
    ]);
    let mut pair = pair();
    pair.holds = true;
    pair.send(&frame(HEADERS, END_HEADERS, 1, &ask));
    assert_eq!(pair.events, ["CONNECT /chat"]);
    let mut pair = Pair::new(Limits {
        extended_connect: false,
        ..Limits::default()
    });
    pair.send(&frame(HEADERS, END_HEADERS, 1, &ask));
    assert_eq!(pair.events, ["refused PseudoUnknown"]);
}
