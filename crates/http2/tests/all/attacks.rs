//! One test for each thing that a client may do too often: the connection ends with the right fault, at a bounded cost.

use std::time::Duration;

use http2::{Fault, Limits};

use crate::raw::*;

/// Sends the frames again and again; returns the rounds until the connection ends, and the fault that ends it.
fn flood(pair: &mut Pair, rounds: u32, frames: impl Fn(u32) -> Vec<u8>) -> (u32, Option<Fault>) {
    for round in 0..rounds {
        pair.send(&frames(round));
        pair.frames();
        if pair.fatal.is_some() {
            return (round, pair.fatal);
        }
    }
    (rounds, None)
}

fn check(fault: Fault, rounds: std::ops::Range<u32>, frames: impl Fn(u32) -> Vec<u8>) {
    let mut pair = Pair::new(Limits::default());
    let (took, met) = flood(&mut pair, 1_000_000, frames);
    assert_eq!(met, Some(fault));
    assert!(rounds.contains(&took), "{fault:?} after {took}");
    assert_eq!(pair.connection.counts().of(fault), 1);
    assert!(pair.connection.is_over());
}

#[test]
fn rapid_reset() {
    //= CVE-2023-44487
    let mut pair = Pair::new(Limits::default());
    pair.holds = true;
    let (took, met) = flood(&mut pair, 10_000, |round| {
        let id = 2 * round + 1;
        [get(id, "/"), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
    });
    assert_eq!(met, Some(Fault::ResetFlood));
    assert!((450..=510).contains(&took), "{took}");
    // Reset streams count until the caller releases them: no more than a hundred were begun.
    assert_eq!(pair.connection.open_streams(), 100);
    assert_eq!(pair.connection.counts().of(Fault::Refused), took + 1 - 100);
}

#[test]
fn a_slot_is_free_when_its_work_has_ended() {
    let limits = Limits {
        streams_max: 1,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    pair.holds = true;
    pair.send(&get(1, "/"));
    pair.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    pair.send(&get(3, "/"));
    assert_eq!(pair.events.last().unwrap(), "refused Refused");
    let stream = pair.held[0];
    pair.connection.release(stream);
    pair.send(&get(5, "/five"));
    assert_eq!(pair.events.last().unwrap(), "GET /five");
}

#[test]
fn made_to_reset() {
    //= CVE-2025-8671   each of these makes the server reset a stream that is under way
    for bad in [
        |id| window(id, 0),
        |id| window(id, 0x7fff_ffff),
        |id| frame(DATA, 0, id, &[0; 300]),
        |id| frame(HEADERS, END_HEADERS, id, &head("GET", "/")),
        |id| frame(PRIORITY, 0, id, &[0; 4]),
        |id: u32| frame(PRIORITY, 0, id, &[&id.to_be_bytes()[..], &[0]].concat()),
    ] {
        let mut pair = Pair::new(Limits::default());
        pair.holds = true;
        let (took, met) = flood(&mut pair, 10_000, |round| {
            [get(2 * round + 1, "/"), bad(2 * round + 1)].concat()
        });
        // The frames on streams that were refused are useless besides.
        let is_met = matches!(met, Some(Fault::ResetFlood | Fault::UselessFrames));
        assert!(is_met, "{met:?}");
        assert!(took <= 510, "{took}");
        assert!(pair.connection.open_streams() <= 100);
    }
}

#[test]
fn malformed_requests_without_end() {
    check(Fault::ResetFlood, 490..510, |round| {
        get(2 * round + 1, "no slash")
    });
}

#[test]
fn continuation_flood() {
    //= CVE-2024-27316
    check(Fault::ContinuationFlood, 7..10, |round| match round {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
        _ => frame(CONTINUATION, 0, 1, &block(&[("a", "b")])),
    });
    check(Fault::ContinuationFlood, 1..2, |round| match round {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
        _ => frame(CONTINUATION, 0, 1, &[]),
    });
    check(Fault::BlockTooLarge, 7..10, |round| match round {
        0 => frame(HEADERS, END_STREAM, 1, &[0; 16_000]),
        _ => frame(CONTINUATION, 0, 1, &[0; 16_000]),
    });
}

#[test]
fn hpack_bombs() {
    //= CVE-2016-6581   an entry of 4,000 bytes, named many times by a byte each
    let bomb = |times| {
        let entry = [0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
        [
            &head("GET", "/")[..],
            &entry,
            &[b'x'; 4000],
            &vec![0xbe; times],
        ]
        .concat()
    };
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(HEADERS, WHOLE, 1, &bomb(10_000)));
    assert_eq!(pair.fatal, Some(Fault::BlockTooLarge));
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(HEADERS, WHOLE, 1, &bomb(250)));
    assert_eq!(pair.events, ["refused HeadTooLarge"]);
    assert!(pair.frames()[0].starts_with("head 1 :status=431,"));
    // The table is still in step.
    pair.send(&frame(
        HEADERS,
        WHOLE,
        3,
        &[head("GET", "/"), vec![0xbe]].concat(),
    ));
    assert_eq!(pair.events[1], "GET /");

    // Empty crumbs, and the smallest fields.
    let limits = Limits {
        head_bytes_max: 8 << 10,
        fields_max: 100,
        ..Limits::default()
    };
    for (crumb, refused) in [
        (&[0x0f, 17, 0][..], "refused HeadTooLarge"),
        (&[0, 1, b'a', 0], "refused TooManyFields"),
    ] {
        let mut pair = Pair::new(limits);
        let block = [head("GET", "/"), crumb.repeat(5000)].concat();
        pair.send(&frame(HEADERS, WHOLE, 1, &block[..block.len().min(16_000)]));
        assert_eq!(pair.events, [refused], "{crumb:x?}");
    }
}

/// A browser sends a crumb for each cookie, and may encode crumbs in a block that is longer than their text.
#[test]
fn crumbs_of_cookie_are_one_field() {
    let limits = Limits {
        head_bytes_max: 16 << 10,
        fields_max: 8,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    let crumbs = block(&[("cookie", &"c".repeat(80))]).repeat(180);
    let of = |crumbs: &[u8]| [&head("GET", "/")[..], crumbs].concat();
    pair.send(&headers(1, &of(&crumbs)));
    assert_eq!(pair.events, ["GET /"]);
    // A block that is at most 64 KiB too large is answered; it does not end the connection.
    pair.frames();
    pair.send(&headers(3, &of(&crumbs.repeat(5))));
    assert_eq!(pair.events[1], "refused HeadTooLarge");
    let frames = pair.frames();
    assert!(
        frames[0].starts_with("head 3 :status=431,content-type=text/plain"),
        "{frames:?}"
    );
    assert!(
        frames[1].starts_with("data 3 ") && frames[1].ends_with(" end"),
        "{frames:?}"
    );
    // The table is still in step.
    pair.send(&get(5, "/five"));
    assert_eq!(pair.events.last().unwrap(), "GET /five");
}

/// The refusal has no body if the window has no room, or if the method is HEAD.
#[test]
fn a_refusal_without_a_body() {
    let limits = Limits {
        fields_max: 1,
        ..Limits::default()
    };
    let many = block(&[("a", "b"), ("c", "d")]);
    let mut pair = Pair::new(limits);
    pair.send(&frame(
        HEADERS,
        WHOLE,
        1,
        &[head("HEAD", "/"), many.clone()].concat(),
    ));
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]));
    pair.send(&frame(
        HEADERS,
        WHOLE,
        3,
        &[head("GET", "/"), many].concat(),
    ));
    let frames = pair.frames();
    let ends = |id: u32| {
        let head = format!("head {id} :status=431,cache-control=no-store end");
        frames.contains(&head)
    };
    assert!(ends(1) && ends(3), "{frames:?}");
}

/// Fields of two bytes that refer to a name nearly as long as the table: the name is copied, but not checked again. (With the check,
/// 64 KiB of these cost 0.1 s.)
#[test]
fn long_names_by_index() {
    let mut bomb = head("GET", "/");
    bomb.extend_from_slice(&[0x40, 0x7f, 0xa1, 0x1e]);
    bomb.extend_from_slice(&[b'x'; 4000]);
    bomb.push(0);
    // Each of these is added to the table with the same name and an empty value.
    let of = |times| [&bomb[..], &[0x7e, 0].repeat(times)].concat();
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(HEADERS, WHOLE, 1, &of(250)));
    assert_eq!(pair.events, ["refused HeadTooLarge"]);
    // In several frames, on a new, a refused or an open stream: decoding stops at the bound.
    for first in [None, Some("no slash"), Some("/")] {
        let mut pair = Pair::new(Limits::default());
        if let Some(path) = first {
            pair.send(&post_to(1, path));
        }
        pair.send(&in_frames(1, &of(40_000)));
        assert_eq!(pair.fatal, Some(Fault::BlockTooLarge), "{first:?}");
    }
    // A bad name stays bad with another value, and a bad value does not make its name bad.
    let mut pair = Pair::new(Limits::default());
    let with = |more: &[u8]| [&head("GET", "/")[..], more].concat();
    pair.send(&frame(HEADERS, WHOLE, 1, &with(b"\x40\x01A\x00")));
    pair.send(&frame(HEADERS, WHOLE, 3, &with(b"\x7e\x01x")));
    pair.send(&frame(HEADERS, WHOLE, 5, &with(b"\x40\x01b\x01\n")));
    pair.send(&frame(HEADERS, WHOLE, 7, &with(b"\xbe")));
    pair.send(&frame(HEADERS, WHOLE, 9, &with(b"\x7e\x01x")));
    assert_eq!(
        pair.events,
        [
            "refused FieldName",
            "refused FieldName",
            "refused FieldValue",
            "refused FieldValue",
            "GET /"
        ]
    );
}

/// A block in as many frames as it needs.
fn in_frames(id: u32, block: &[u8]) -> Vec<u8> {
    let mut chunks = block.chunks(16_384).peekable();
    let mut frames = frame(HEADERS, END_STREAM, id, chunks.next().unwrap());
    while let Some(chunk) = chunks.next() {
        let flags = if chunks.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        frames.extend(frame(CONTINUATION, flags, id, chunk));
    }
    frames
}

/// Sent answers earn free frames, but do not pay for discarded blocks.
#[test]
fn long_blocks_that_nobody_wants() {
    let block = block(&[("a", &"~".repeat(15_000))]).repeat(4);
    for (path, ends) in [("no slash", false), ("/", true), ("/", false)] {
        let mut pair = Pair::new(Limits::default());
        pair.send(&[get(1, "/"), window(1, 1 << 30), window(0, 1 << 30)].concat());
        pair.holds = true;
        pair.send(&get(3, "/"));
        pair.send(&window(3, 1 << 30));
        pair.answer(pair.held[0], vec![b'x'; 8 << 20].into());
        pair.frames();
        let (took, met) = flood(&mut pair, 1000, |round| {
            let flags = if ends { WHOLE } else { END_HEADERS };
            let id = 2 * round + 5;
            match (round, path) {
                // One stream that is reset at once, then further blocks for it.
                (0, "no slash") => post_to(5, path),
                (_, "no slash") => in_frames(5, &block),
                // Trailers that are too long, or that come after the end.
                _ => [
                    frame(HEADERS, flags, id, &head("POST", path)),
                    in_frames(id, &[&block[..], &block].concat()),
                ]
                .concat(),
            }
        });
        assert_eq!(met, Some(Fault::ResetFlood), "{path} {ends}");
        assert!(took < 40, "{path} {ends}: {took}");
    }
}

#[test]
fn frames_that_carry_nothing() {
    check(Fault::UselessFrames, 100..110, |_| {
        frame(PING, 0, 0, &[0; 8])
    });
    check(Fault::UselessFrames, 100..110, |_| {
        frame(PING, ACK, 0, &[0; 8])
    });
    check(Fault::UselessFrames, 100..110, |_| {
        frame(SETTINGS, 0, 0, &[])
    });
    check(Fault::UselessFrames, 100..110, |_| {
        frame(SETTINGS, ACK, 0, &[])
    });
    check(Fault::UselessFrames, 100..110, |_| {
        frame(PRIORITY, 0, 1, &[0; 5])
    });
    check(Fault::UselessFrames, 100..110, |_| window(0, 1));
    check(Fault::UselessFrames, 100..110, |_| frame(0x77, 0, 0, &[]));
    check(Fault::UselessFrames, 100..110, |_| {
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")
    });
    check(Fault::UselessFrames, 100..110, |round| match round {
        0 => frame(HEADERS, END_HEADERS, 1, &head("POST", "/")),
        _ => frame(RST_STREAM, 0, 1, &[0; 4]),
    });
    check(Fault::UselessFrames, 100..110, |_| {
        frame(GOAWAY, 0, 0, &[0; 8])
    });
    // Blocks for a stream that we have reset must be read, for the table's sake.
    check(Fault::UselessFrames, 100..110, |round| match round {
        0 => frame(HEADERS, END_HEADERS, 1, &head("GET /", "/")),
        _ => frame(HEADERS, WHOLE, 1, &block(&[("a", "b")])),
    });
}

#[test]
fn empty_data() {
    check(Fault::UselessFrames, 100..110, |round| match round {
        0 => frame(HEADERS, END_HEADERS, 1, &head("POST", "/")),
        _ => frame(DATA, 0, 1, &[]),
    });
}

fn post(id: u32) -> Vec<u8> {
    post_to(id, "/")
}

fn post_to(id: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, id, &head("POST", path))
}

#[test]
fn small_data_that_is_taken_is_work() {
    let mut pair = Pair::new(Limits::default());
    pair.holds = true;
    pair.send(&post(1));
    let (_, met) = flood(&mut pair, 40_000, |_| frame(DATA, 0, 1, &[0]));
    assert_eq!(met, None);
}

#[test]
fn small_data_that_waits_to_be_taken_is_bounded_by_windows() {
    let mut pair = Pair::new(Limits::default());
    (pair.holds, pair.takes) = (true, false);
    pair.send(&post(1));
    pair.send(&frame(DATA, 0, 1, &[0]).repeat(65_536));
    assert_eq!(pair.fatal, None);
    let (took, met) = flood(&mut pair, 100, |_| frame(DATA, 0, 1, &[0]));
    assert_eq!(pair.events.last().unwrap(), "WindowExceeded");
    assert_eq!((took, met), (1, Some(Fault::DataBehindReset)));
}

#[test]
fn small_data_that_nobody_took_is_charged_when_its_stream_ends() {
    let mut pair = Pair::new(Limits::default());
    (pair.holds, pair.takes) = (true, false);
    let (took, met) = flood(&mut pair, 100, |round| {
        let id = 2 * round + 1;
        let data = frame(DATA, 0, id, &[0]).repeat(30_000);
        [post(id), data, frame(RST_STREAM, 0, id, &[0; 4])].concat()
    });
    let streams = std::mem::take(&mut pair.held);
    streams
        .iter()
        .for_each(|&stream| pair.connection.release(stream));
    assert!(met.is_some() || pair.connection.fatal() == Some(Fault::SmallFrames));
    assert!(took <= 100);
}

/// The answer comes before the end of the request, as with 413: a window of small DATA that was already under way ends nothing.
#[test]
fn small_data_behind_an_early_answer() {
    let mut pair = Pair::new(Limits::default());
    pair.send(&post(1));
    let (_, met) = flood(&mut pair, 1000, |_| frame(DATA, 0, 1, &[0; 10]));
    assert_eq!(met, None);
    let (took, met) = flood(&mut pair, 100_000, |_| frame(DATA, 0, 1, &[0]));
    assert_eq!(met, Some(Fault::SmallFrames));
    assert!((15_000..17_000).contains(&took), "{took}");
}

/// The answer waits for a window, and the client keeps sending: its stream is reset before the connection ends.
#[test]
fn small_data_behind_an_answer_that_is_not_taken() {
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    pair.send(&post(1));
    let (took, met) = flood(&mut pair, 100_000, |_| frame(DATA, 0, 1, &[0]));
    assert_eq!(pair.events.last().unwrap(), "SmallOfStream");
    assert_eq!(met, Some(Fault::SmallFrames));
    assert!((15_000..17_000).contains(&took), "{took}");
}

#[test]
fn a_reset_after_a_second_is_no_flood() {
    let mut pair = Pair::new(Limits::default());
    for round in 0..2000 {
        let id = 2 * round + 1;
        pair.send(&post(id));
        pair.now += Duration::from_secs(1);
        pair.send(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
        pair.frames();
    }
    assert_eq!(pair.fatal, None);
}

#[test]
fn tiny_windows() {
    // A window of one byte, opened by one byte whenever it is used up.
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    pair.holds = true;
    pair.send(&get(1, "/"));
    let stream = pair.held[0];
    pair.answer(stream, vec![b'x'; 100_000].into());
    let (took, met) = flood(&mut pair, 10_000, |_| window(1, 1));
    assert_eq!(met, Some(Fault::TinyWindows));
    assert!(took <= 101, "{took}");
}

#[test]
fn a_client_that_reads_nothing_is_not_read_either() {
    let mut connection = Pair::new(Limits::default()).connection;
    let now = Duration::from_secs(3600);
    // Large answer heads, while no output is written.
    let mut requests: Vec<u8> = Vec::new();
    (0..90).for_each(|at| requests.extend(get(2 * at + 1, "/")));
    let block = block(&[("x", &"~".repeat(2000))]);
    let mut rest = &requests[..];
    let mut answered = 0;
    while let Ok(taken) = connection.handle_input(rest, now) {
        rest = &rest[taken.bytes..];
        let Some(http2::Event::Request { stream, .. }) = taken.event else {
            break;
        };
        connection.begin(stream, [&[0x88], &block], true);
        answered += 1;
    }
    assert!(connection.must_write());
    assert!((10..25).contains(&answered), "{answered}");
}

#[test]
fn zero_window_stalls() {
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    pair.frames();
    pair.send(&get(1, "/one"));
    assert_eq!(pair.frames(), ["head 1 :status=200"]);
    assert!(!pair.connection.has_output());
    let deadline = pair.connection.next_deadline().unwrap();
    assert!(deadline <= Duration::from_secs(60));
    let late = Duration::from_secs(61);
    let event = pair.connection.handle_timeout(late).unwrap();
    assert!(matches!(
        event,
        Some(http2::Event::Reset {
            by: http2::ResetBy::Us(Fault::Stalled),
            ..
        })
    ));
    assert_eq!(pair.frames(), ["reset 1 8"]);
    assert_eq!(pair.connection.open_streams(), 0);
}

#[test]
fn slow_starts() {
    let late = Duration::from_secs(11);
    let mut connection = http2::Connection::new(Limits::default(), Duration::ZERO);
    assert_eq!(
        connection.handle_timeout(late).unwrap_err(),
        Fault::PrefaceTimeout
    );

    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(HEADERS, END_STREAM, 1, &head("GET", "/")));
    let late = pair.connection.next_deadline().unwrap();
    assert_eq!(late, Duration::from_secs(30));
    assert_eq!(
        pair.connection.handle_timeout(late).unwrap_err(),
        Fault::BlockTimeout
    );

    let mut connection = http2::Connection::new(Limits::default(), Duration::ZERO);
    let hello = [http2::PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    connection.handle_input(&hello, Duration::ZERO).unwrap();
    let late = connection.next_deadline().unwrap();
    assert_eq!(
        connection.handle_timeout(late).unwrap_err(),
        Fault::SettingsTimeout
    );
}

#[test]
fn more_data_than_a_window() {
    let limits = Limits {
        stream_window: 1000,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    pair.holds = true;
    pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/")));
    pair.send(&frame(DATA, 0, 1, &[0; 1001]));
    assert_eq!(pair.events[1], "WindowExceeded");
    assert_eq!(pair.frames(), ["reset 1 3"]);

    // Many streams are reset for too much DATA: their bytes do not use up the connection's window.
    let limits = Limits {
        connection_window: 65_535,
        ..Limits::default()
    };
    let mut pair = Pair::new(limits);
    let (_, met) = flood(&mut pair, 1000, |round| {
        let id = 2 * round + 1;
        let first = frame(HEADERS, END_HEADERS, id, &head("POST", "/"));
        [first, frame(DATA, 0, id, &[0; 16_384])].concat()
    });
    assert_eq!(met, None, "DATA of a stream that has gone is credited");
}

#[test]
fn data_behind_a_reset() {
    // What fits in the window may have been on its way when we reset the stream; more cannot.
    for keeps_slot in [false, true] {
        let mut pair = Pair::new(Limits::default());
        pair.holds = true;
        pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/")));
        match keeps_slot {
            false => pair
                .connection
                .reset(pair.held[0], http2::ErrorCode::CANCEL),
            true => pair.send(&window(1, 0)),
        }
        let (took, met) = flood(&mut pair, 1000, |_| frame(DATA, 0, 1, &[0; 16_384]));
        assert_eq!((took, met), (4, Some(Fault::DataBehindReset)));
    }
    // The same for a request that was refused.
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "no slash")));
    let (took, met) = flood(&mut pair, 1000, |_| frame(DATA, 0, 1, &[0; 16_384]));
    assert_eq!((took, met), (4, Some(Fault::DataBehindReset)));
}

#[test]
fn a_window_opened_by_a_byte_now_and_then() {
    // The stream's window.
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    pair.holds = true;
    pair.send(&get(1, "/"));
    pair.send(&get(3, "/"));
    for stream in pair.held.clone() {
        pair.answer(stream, vec![b'x'; 100_000].into());
    }
    let mut ended_s = None;
    for now_s in 1..300 {
        pair.now = Duration::from_secs(now_s);
        // The first stream lets too little through, the second enough.
        pair.send(&[window(1, 50), window(3, 150)].concat());
        while let Ok(Some(_)) = pair.connection.handle_timeout(pair.now) {}
        let frames = pair.frames();
        assert!(!frames.iter().any(|frame| frame.starts_with("reset 3")));
        if frames.contains(&"reset 1 8".to_owned()) {
            ended_s.get_or_insert(now_s);
        }
    }
    assert!(matches!(ended_s, Some(60..=75)), "{ended_s:?}");
    assert_eq!(pair.connection.counts().of(Fault::Stalled), 1);

    // The connection's window, while those of the streams are wide open.
    let mut pair = Pair::new(Limits::default());
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]));
    pair.holds = true;
    pair.send(&get(1, "/"));
    pair.answer(pair.held[0], vec![b'x'; 200_000].into());
    let mut ended = None;
    for now_s in 1..300 {
        pair.now = Duration::from_secs(now_s);
        pair.send(&window(0, 50));
        if let Err(fault) = pair.connection.handle_timeout(pair.now) {
            ended.get_or_insert((now_s, fault));
        }
    }
    // The first 65,535 bytes pay for a longer pause.
    let (ended_s, fault) = ended.unwrap();
    assert!((120..=135).contains(&ended_s), "{ended_s}");
    assert_eq!(fault, Fault::WindowStalled);
}

#[test]
fn a_stream_that_waits_for_others_is_not_slow() {
    let mut pair = Pair::new(Limits::default());
    pair.holds = true;
    pair.send(&get(1, "/"));
    pair.send(&get(3, "/"));
    for stream in pair.held.clone() {
        pair.answer(stream, vec![b'x'; 10_000_000].into());
    }
    // The first stream's answer is large and is sent first.
    pair.send(&[window(1, 1 << 30), window(3, 1 << 30)].concat());
    for now_s in 1..200 {
        pair.now = Duration::from_secs(now_s);
        pair.send(&window(0, 20_000));
        assert!(matches!(pair.connection.handle_timeout(pair.now), Ok(None)));
        let frames = pair.frames();
        assert!(!frames.iter().any(|frame| frame.starts_with("reset")));
    }
}
