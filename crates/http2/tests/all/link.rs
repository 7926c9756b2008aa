//! A link between two ends that delivers in pieces of any size, late or never; in virtual time, from a seed.
//!
//! `sim` sets a client of hand-written frames against the server: random requests with bodies, random windows, resets, pings
//! and settings, over a link that splits. Demanded: no panic and no fatal fault, each answer has exactly the expected bytes, each
//! request body reaches the server whole, windows are kept, and nothing is left at the end.
//!
//! A failure prints its seed: `cargo xtask sim --http2 --seed n`; `--seeds 10000` plays as many. With `--mistakes` each deliberate mistake of the
//! crate must be noticed, too. The numbers may come from a fuzzer instead (`tools/fuzz`, `http2_pair`).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http2::{Connection, ErrorCode, Event, Limits, PREFACE, StreamId, Turn, write_status};

use crate::raw::*;

/// A generator of numbers: those of a script, then those of a seed (splitmix64).
pub struct Chance {
    script: Vec<u8>,
    seed: u64,
}

impl Chance {
    pub fn of_seed(seed: u64) -> Chance {
        let script = Vec::new();
        Chance { script, seed }
    }

    /// Two bytes a number; a fuzzer writes them.
    pub fn of_script(bytes: &[u8]) -> Chance {
        let script = bytes.iter().rev().copied().collect();
        Chance { script, seed: 0 }
    }

    pub fn next(&mut self) -> u64 {
        if let (Some(low), high) = (self.script.pop(), self.script.pop()) {
            return u64::from(u16::from_le_bytes([low, high.unwrap_or(0)]));
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// The byte of an answer at this place.
fn body_byte(stream: u32, at: usize) -> u8 {
    (stream as usize * 31 + at * 7 + at / 251) as u8
}

fn body(stream: u32, range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(|at| body_byte(stream, at)).collect()
}

/// A request as the client sees it.
#[derive(Default)]
struct Asked {
    answer_len: usize,
    upload_len: usize,
    sent: usize,
    got: usize,
    ended: bool,
    was_reset: bool,
    send_window: i64,
    recv_window: i64,
    /// A field that uses HPACK's table.
    note: Option<(String, String)>,
}

/// A request as the server sees it.
struct Serving {
    answer_len: usize,
    given: usize,
    upload: Vec<u8>,
    upload_ended: bool,
    held: usize,
    number: u32,
}

pub struct World {
    chance: Chance,
    now: Duration,
    server: Connection,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes received by the server and not yet taken.
    input: Vec<u8>,
    read: Vec<u8>,
    next_id: u32,
    asked: BTreeMap<u32, Asked>,
    serving: BTreeMap<u32, (StreamId, Serving)>,
    uploads_done: usize,
    uploads_wanted: usize,
    server_window: i64,
    client_window: i64,
    client_initial: i64,
    server_initial: i64,
    resets: usize,
    pieces: bool,
    /// Streams that were reset, and are not released yet.
    lingering: Vec<StreamId>,
    /// The HPACK table of the client's fields, newest first.
    table: Vec<(String, String)>,
    limits: Limits,
    /// The most bytes lent to windows.
    pool: u32,
}

fn number(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).parse().unwrap()
}

impl World {
    pub fn new(mut chance: Chance) -> World {
        let limits = Limits {
            stream_window: 1000 + chance.below(100_000) as u32,
            stream_window_max: 1000 + chance.below(200_000) as u32,
            connection_window: 65_535 + chance.below(200_000) as u32,
            ..Limits::default()
        };
        World {
            pool: chance.below(300_000) as u32,
            pieces: chance.one_in(2),
            server: Connection::new(limits, Duration::ZERO),
            now: Duration::ZERO,
            to_server: [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(),
            to_client: Vec::new(),
            input: Vec::new(),
            read: Vec::new(),
            next_id: 1,
            asked: BTreeMap::new(),
            serving: BTreeMap::new(),
            uploads_done: 0,
            uploads_wanted: 0,
            server_window: 65_535,
            client_window: 65_535,
            client_initial: 65_535,
            server_initial: 65_535,
            resets: 0,
            lingering: Vec::new(),
            table: Vec::new(),
            limits,
            chance,
        }
    }

    pub fn play(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now += Duration::from_millis(self.chance.below(40) as u64);
            match self.chance.below(10) {
                0 | 1 => self.ask(),
                2 => self.meddle(),
                3 | 4 => self.upload(),
                5 | 6 => self.deliver_to_server(),
                7 => self.serve(),
                8 => self.server_writes(),
                _ => self.deliver_to_client(),
            }
            assert!(self.server.memory_bytes() < 512 << 10);
        }
        // Let all streams end.
        for round in 0.. {
            assert!(round < 20_000, "it does not come to an end");
            self.now += Duration::from_millis(20);
            self.open_windows();
            self.upload();
            self.deliver_to_server();
            self.serve();
            self.server_writes();
            self.deliver_to_client();
            if self
                .asked
                .values()
                .all(|asked| asked.ended || asked.was_reset)
                && self.to_server.is_empty()
                && self.to_client.is_empty()
                && self.serving.is_empty()
                && self.lingering.is_empty()
            {
                break;
            }
        }
        assert_eq!(self.server.open_streams(), 0);
        // The client may still send more than about half of the connection's window: no credit was lost.
        let whole = i64::from(self.limits.connection_window);
        assert!(self.server_window <= whole + i64::from(self.server.lent()));
        assert!(
            self.server_window > whole - whole / 2 - 1,
            "of {whole} are left {}",
            self.server_window
        );
        assert!(!self.server.has_output());
        for (id, asked) in &self.asked {
            assert!(
                asked.was_reset || asked.got == asked.answer_len,
                "stream {id}"
            );
        }
        assert_eq!(self.uploads_done, self.uploads_wanted);
    }

    /// Opens windows that a smaller initial window has closed.
    fn open_windows(&mut self) {
        for (&id, asked) in &mut self.asked {
            if asked.recv_window <= 0 && !asked.ended && !asked.was_reset {
                asked.recv_window += 30_000;
                self.to_server.extend(window(id, 30_000));
            }
        }
    }

    fn ask(&mut self) {
        let open = self
            .asked
            .values()
            .filter(|asked| !asked.ended && !asked.was_reset);
        if open.count() >= 20 || self.next_id > 400 {
            return;
        }
        let id = self.next_id;
        self.next_id += 2;
        let sizes = [0, 1, 300, 3000, 20_000, 90_000];
        let answer_len = sizes[self.chance.below(6)];
        let upload_len = if self.chance.one_in(3) {
            sizes[self.chance.below(6)]
        } else {
            0
        };
        let mut fields = head("POST", &format!("/{answer_len}"));
        if self.chance.one_in(3) {
            let urgency = ["u=0", "u=6, i", "i", "junk"][self.chance.below(4)];
            fields.extend(block(&[("priority", urgency)]));
        }
        if self.chance.one_in(2) {
            fields.extend(block(&[("content-length", &upload_len.to_string())]));
        }
        let note = self.note(&mut fields);
        let ends = if upload_len == 0 { END_STREAM } else { 0 };
        if self.chance.one_in(4) {
            let cut = self.chance.below(fields.len() - 1) + 1;
            self.to_server
                .extend(frame(HEADERS, ends, id, &fields[..cut]));
            self.to_server
                .extend(frame(CONTINUATION, END_HEADERS, id, &fields[cut..]));
        } else {
            self.to_server
                .extend(frame(HEADERS, ends | END_HEADERS, id, &fields));
        }
        self.asked.insert(
            id,
            Asked {
                answer_len,
                upload_len,
                send_window: self.server_initial,
                recv_window: self.client_initial,
                note,
                ..Asked::default()
            },
        );
    }

    /// Adds a field that goes into the HPACK table, or refers to it.
    fn note(&mut self, fields: &mut Vec<u8>) -> Option<(String, String)> {
        if !self.table.is_empty() && self.chance.one_in(3) {
            // Pick the oldest entry as often as all others together.
            let at = match self.chance.one_in(2) {
                true => self.table.len() - 1,
                false => self.chance.below(self.table.len()),
            };
            // The table has about thirty entries, and an index of one byte goes to 126.
            fields.push(0x80 | (62 + at) as u8);
            return Some(self.table[at].clone());
        }
        if self.chance.one_in(2) {
            return None;
        }
        let name = format!("x-note-{}", self.chance.below(5));
        let value = "v".repeat([1, 10, 60, 88, 120][self.chance.below(5)]);
        fields.push(0x40);
        for text in [&name, &value] {
            fields.push(text.len() as u8);
            fields.extend_from_slice(text.as_bytes());
        }
        self.table.insert(0, (name.clone(), value.clone()));
        let size = |(name, value): &(String, String)| name.len() + value.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > 4096 {
            self.table.pop();
        }
        Some((name, value))
    }

    /// The client does something unusual that is allowed now and then.
    fn meddle(&mut self) {
        let ids: Vec<u32> = self
            .asked
            .iter()
            .filter(|(_, a)| !a.ended && !a.was_reset)
            .map(|(id, _)| *id)
            .collect();
        match self.chance.below(5) {
            0 if self.chance.one_in(4) => self.to_server.extend(frame(PING, 0, 0, b"abcdefgh")),
            1 if self.chance.one_in(4) => {
                let window = [0, 1000, 65_535, 200_000][self.chance.below(4)];
                let more = window - self.client_initial;
                self.client_initial = window;
                let payload = [&[0, 4][..], &(window as u32).to_be_bytes()].concat();
                self.to_server.extend(frame(SETTINGS, 0, 0, &payload));
                self.asked
                    .values_mut()
                    .for_each(|asked| asked.recv_window += more);
            }
            2 if !ids.is_empty() && self.resets < 100 && self.chance.one_in(3) => {
                let id = ids[self.chance.below(ids.len())];
                self.asked.get_mut(&id).unwrap().was_reset = true;
                self.resets += 1;
                self.to_server
                    .extend(frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
            }
            3 if !ids.is_empty() && self.chance.one_in(3) => {
                let id = ids[self.chance.below(ids.len())];
                let payload = [&id.to_be_bytes()[..], b"u=1, i"].concat();
                self.to_server
                    .extend(frame(PRIORITY_UPDATE, 0, 0, &payload));
            }
            _ => {}
        }
    }

    fn upload(&mut self) {
        let World {
            asked,
            chance,
            server_window,
            to_server,
            ..
        } = self;
        for (&id, asked) in asked.iter_mut() {
            let left = asked.upload_len - asked.sent;
            let room = asked.send_window.min(*server_window).max(0) as usize;
            if left == 0 || room == 0 || asked.was_reset || asked.ended {
                continue;
            }
            // Large enough not to be a flood, except the last frame.
            let len = left.min(room).min(300 + chance.below(16_000));
            if len < 256 && len < left {
                continue;
            }
            let last = if len == left { END_STREAM } else { 0 };
            to_server.extend(frame(
                DATA,
                last,
                id,
                &body(id, asked.sent..asked.sent + len),
            ));
            asked.sent += len;
            asked.send_window -= len as i64;
            *server_window -= len as i64;
        }
    }

    fn deliver_to_server(&mut self) {
        let most = self
            .to_server
            .len()
            .min([1, 7, 100, 5000, 100_000][self.chance.below(5)]);
        self.input.extend(self.to_server.drain(..most));
        loop {
            let taken = self
                .server
                .handle_input(&self.input, self.now)
                .expect("nothing here is forbidden");
            let bytes = taken.bytes;
            let is_last = taken.event.is_none();
            match taken.event {
                Some(Event::Request { stream, head }) => {
                    if let Some((name, value)) = &self.asked[&stream.number()].note {
                        assert_eq!(head.fields.first(name.as_bytes()), Some(value.as_bytes()));
                    }
                    let serving = Serving {
                        answer_len: number(&head.path.as_bytes()[1..]),
                        given: 0,
                        upload: Vec::new(),
                        upload_ended: head.ends,
                        held: 0,
                        number: stream.number(),
                    };
                    self.uploads_wanted += usize::from(!head.ends);
                    self.serving.insert(stream.number(), (stream, serving));
                }
                Some(Event::Data {
                    stream,
                    bytes,
                    ends,
                }) => {
                    let (_, serving) = self
                        .serving
                        .get_mut(&stream.number())
                        .expect("it is served");
                    serving.upload.extend_from_slice(bytes);
                    serving.held += bytes.len();
                    serving.upload_ended = ends;
                    if ends {
                        let expected =
                            body(stream.number(), 0..self.asked[&stream.number()].upload_len);
                        assert_eq!(serving.upload, expected);
                        self.uploads_done += 1;
                    }
                }
                Some(Event::Reset { stream, .. }) => {
                    // An answer that was given to its end is no longer in `serving`.
                    match self.serving.remove(&stream.number()) {
                        Some((_, serving)) => {
                            self.uploads_wanted -= usize::from(!serving.upload_ended);
                            self.lingering.push(stream);
                        }
                        None => self.server.release(stream),
                    }
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            self.input.drain(..bytes);
            if is_last {
                break;
            }
        }
    }

    /// The server takes uploads and gives answers, a little at a time. An answer begins when its upload is complete.
    fn serve(&mut self) {
        // Streams whose work goes on keep their slots.
        assert!(self.server.open_streams() >= self.serving.len() + self.lingering.len());
        if self.chance.one_in(2) {
            let server = &mut self.server;
            self.lingering
                .drain(..)
                .for_each(|stream| server.release(stream));
        }
        let mut done = Vec::new();
        for (&id, (stream, serving)) in &mut self.serving {
            let held = serving.held;
            if held > 0 {
                let taken = if held < 500 {
                    held
                } else {
                    1 + self.chance.below(held)
                };
                serving.held -= taken;
                self.server.consumed(*stream, taken);
                if self.chance.one_in(2) {
                    let wanted = self.server.wants_lent(*stream);
                    let lent = wanted.min(self.pool.saturating_sub(self.server.lent()));
                    if lent > 0 {
                        self.server.lend(*stream, lent);
                    }
                }
                if self.chance.one_in(20) {
                    self.server.shrink(*stream);
                }
            }
            if !serving.upload_ended || (serving.given > 0 && self.chance.one_in(3)) {
                continue;
            }
            if serving.given == 0 {
                let mut block = Vec::new();
                write_status(200, &mut block);
                self.server.begin(*stream, [&block, b""], false);
            }
            let left = serving.answer_len - serving.given;
            let len = if self.pieces {
                left.min(1 + self.chance.below(30_000))
            } else {
                left
            };
            let piece = body(serving.number, serving.given..serving.given + len);
            self.server.piece(*stream, Bytes::from(piece), self.now);
            serving.given += len;
            if serving.given == serving.answer_len {
                self.server.end(*stream);
                done.push(id);
            }
        }
        done.iter().for_each(|id| drop(self.serving.remove(id)));
    }

    fn server_writes(&mut self) {
        let mut turn = Turn::new();
        let most = 1 + self.chance.below(50_000);
        if self.server.poll_output(&mut turn, most, self.now) {
            self.to_client
                .extend_from_slice(&turn.copy_to_bytes(turn.remaining()));
        }
        let event = self.server.handle_timeout(self.now);
        assert!(event.expect("no time is over").is_none());
    }

    fn deliver_to_client(&mut self) {
        let most = self
            .to_client
            .len()
            .min([1, 7, 100, 5000, 100_000][self.chance.below(5)]);
        self.read.extend(self.to_client.drain(..most));
        let mut credit = 0;
        while let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = &self.read[..] {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if rest.len() < len {
                break;
            }
            let (kind, flags, id) = (*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]));
            let payload = rest[..len].to_vec();
            self.read.drain(..9 + len);
            let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match kind {
                DATA => {
                    let asked = self.asked.get_mut(&id).unwrap();
                    assert!(!asked.ended, "DATA behind the end");
                    assert_eq!(payload, body(id, asked.got..asked.got + len), "stream {id}");
                    asked.got += len;
                    asked.recv_window -= len as i64;
                    self.client_window -= len as i64;
                    assert!(self.client_window >= 0, "the connection's window is kept");
                    credit += len;
                    asked.ended = flags & END_STREAM != 0;
                    // Windows are opened by far more than would count as a flood.
                    if !asked.ended && asked.recv_window < 10_000 {
                        asked.recv_window += 30_000;
                        self.to_server.extend(window(id, 30_000));
                    }
                }
                HEADERS => {
                    let asked = self.asked.get_mut(&id).unwrap();
                    asked.ended = flags & END_STREAM != 0;
                    if !asked.ended && asked.recv_window < 10_000 {
                        asked.recv_window += 30_000;
                        self.to_server.extend(window(id, 30_000));
                    }
                }
                RST_STREAM => panic!("the server resets {id} with {}", word(0)),
                SETTINGS if flags & ACK == 0 => {
                    self.to_server.extend(frame(SETTINGS, ACK, 0, &[]));
                    for setting in payload.chunks(6).filter(|setting| setting[1] == 4) {
                        let initial =
                            i64::from(u32::from_be_bytes(setting[2..].try_into().unwrap()));
                        let more = initial - self.server_initial;
                        self.server_initial = initial;
                        self.asked
                            .values_mut()
                            .for_each(|asked| asked.send_window += more);
                    }
                }
                WINDOW_UPDATE if id == 0 => self.server_window += i64::from(word(0)),
                WINDOW_UPDATE => self.asked.get_mut(&id).unwrap().send_window += i64::from(word(0)),
                SETTINGS | PING => {}
                _ => panic!("frame {kind}: {payload:?} {}", ErrorCode::NO_ERROR.0),
            }
        }
        if credit > 0 {
            self.client_window += credit as i64;
            self.to_server.extend(window(0, credit as u32));
        }
    }
}

/// Seeds of an ordinary run.
const SEEDS: u64 = 200;

fn plays(seed: u64) -> std::thread::Result<()> {
    std::panic::catch_unwind(|| World::new(Chance::of_seed(seed)).play(600))
}

#[test]
fn sim() {
    let of = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds = match of("HTTP2_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = of("HTTP2_FROM").unwrap_or(0);
            from..from + of("HTTP2_SEEDS").unwrap_or(SEEDS)
        }
    };
    for seed in seeds {
        assert!(plays(seed).is_ok(), "cargo xtask sim --http2 --seed {seed}");
    }
}

/// The fuzzer's first inputs.
#[test]
fn scripts_are_played() {
    for script in [
        &include_bytes!("../../../../tools/fuzz/seeds/http2_pair/400")[..],
        include_bytes!("../../../../tools/fuzz/seeds/http2_pair/2000"),
        include_bytes!("../../../../tools/fuzz/seeds/http2_pair/6000"),
    ] {
        World::new(Chance::of_script(script)).play(20 + script.len() / 8);
    }
}

/// Each mistake is noticed by one of the first seeds, which all pass without it.
#[cfg(feature = "mistakes")]
#[test]
fn mistakes_are_noticed() {
    use http2::mistakes::{Mistake, make_mistake};
    std::panic::set_hook(Box::new(|_| {}));
    let mut unnoticed = Vec::new();
    for &mistake in Mistake::ALL {
        make_mistake(Some(mistake));
        let noticed = (0..200).find(|&seed| plays(seed).is_err());
        make_mistake(None);
        match noticed {
            Some(seed) => {
                println!("{}: noticed by seed {seed}", mistake.name());
                assert!(plays(seed).is_ok());
            }
            None => unnoticed.push(mistake.name()),
        }
    }
    let _ = std::panic::take_hook();
    assert!(unnoticed.is_empty(), "nobody noticed {unnoticed:?}");
}

/// Frames that are sound on the wire but follow no rule: no panic, and an end in bounded memory.
#[test]
fn any_frames() {
    for seed in 0..3000 {
        let mut chance = Chance::of_seed(seed);
        let mut pair = Pair::new(Limits::default());
        pair.holds = chance.one_in(2);
        for _ in 0..100 {
            let kind = [0, 1, 1, 1, 2, 3, 4, 6, 7, 8, 9, 16, 33][chance.below(13)];
            let id = [0, 1, 3, 5, 7, 9, 11, 2, 0x7fff_ffff][chance.below(9)];
            let flags = [0, 1, 4, 5, 5, 8, 0x20, 0xff][chance.below(8)];
            let payload = match chance.below(6) {
                0 => Vec::new(),
                1 => head("GET", "/"),
                2 => block(&[("a", "b")]),
                3 => (0..chance.below(12)).map(|_| chance.next() as u8).collect(),
                4 => vec![0, 0, 0, chance.below(4) as u8],
                _ => vec![0; 300 + chance.below(3000)],
            };
            pair.send(&frame(kind, flags, id, &payload));
            if !pair.held.is_empty() && chance.one_in(3) {
                let stream = pair.held.swap_remove(0);
                match chance.below(3) {
                    0 if pair.connection.is_writable(stream) => {
                        pair.connection.reset(stream, ErrorCode::CANCEL)
                    }
                    _ => pair.connection.release(stream),
                }
            }
            pair.frames();
            assert!(pair.connection.open_streams() <= 100);
        }
    }
}
