//! Sessions against rustls' own client, in memory: no sockets, no time.
//!
//! [`Pair`] carries bytes between both, in pieces that the test chooses. Bytes that a socket would not take are given back to the session, as the
//! stream does.

use std::{
    io::{ErrorKind, IoSlice, Read, Write},
    sync::{Arc, LazyLock},
};

use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, ProtocolVersion, RootCertStore,
    ServerConfig, SupportedProtocolVersion,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use tokio::io::ReadBuf;

use super::{
    names::ByName,
    session::{Scratch, Session},
    sessions::Sessions,
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const NAME: &str = "a.example";

/// The configuration of both sides.
static CONFIGS: LazyLock<Configs> = LazyLock::new(Configs::new);

struct Configs {
    server: Arc<ServerConfig>,
    roots: Arc<RootCertStore>,
}

impl Configs {
    fn new() -> Configs {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let key = provider
            .key_provider
            .load_private_key(PrivateKeyDer::from(key));
        let chain = vec![made.cert.der().clone()];
        let pair = Arc::new(CertifiedKey::new(chain, key.unwrap()));
        let mut names = ByName::default();
        names.add_default(&pair);
        let server = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(names));
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        Configs {
            server: Arc::new(server),
            roots: Arc::new(roots),
        }
    }

    fn client(&self, version: &'static SupportedProtocolVersion) -> ClientConnection {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        let mut client = ClientConnection::new(Arc::new(config), NAME.try_into().unwrap()).unwrap();
        client.set_buffer_limit(None);
        client
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// A random length; small ones are as likely as large ones.
    fn size(&mut self, bound: usize) -> usize {
        let magnitude = self.below(bound.ilog2() as usize + 1);
        self.below(2 << magnitude).min(bound)
    }
}

/// Byte `at` of a stream, the same each time.
fn pattern(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|at| (at % 251) as u8).collect()
}

/// A client, a session, and the bytes under way between them.
struct Pair {
    client: ClientConnection,
    session: Session,
    scratch: Scratch,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Plaintext that the client has received and the test has not examined.
    received: Vec<u8>,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Pair {
        Pair {
            client: CONFIGS.client(version),
            session: Session::new(&CONFIGS.server).unwrap(),
            scratch: Scratch::default(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            received: Vec::new(),
        }
    }

    /// A pair after its handshake.
    fn shaken(version: &'static SupportedProtocolVersion) -> Pair {
        let mut pair = Pair::new(version);
        pair.shake(usize::MAX);
        pair
    }

    /// Carries all bytes, in pieces of `cut` bytes, until both sides are silent.
    fn shake(&mut self, cut: usize) {
        loop {
            self.client_sends();
            self.session_sends();
            if self.to_server.is_empty() && self.to_client.is_empty() {
                return;
            }
            while !self.to_server.is_empty() {
                self.session_hears(cut, None).unwrap();
            }
            while !self.to_client.is_empty() {
                self.client_hears(cut).unwrap();
            }
        }
    }

    /// Puts the client's records on the way.
    fn client_sends(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_server).unwrap();
        }
    }

    /// Puts the session's records on the way.
    fn session_sends(&mut self) {
        self.to_client.extend_from_slice(self.session.unsent());
        self.session.sent(self.session.unsent().len());
    }

    /// The session reads once, as a stream does: at most as much as there is room for.
    fn session_hears(&mut self, cut: usize, reader: Option<&mut ReadBuf<'_>>) -> Result<(), Error> {
        let kept = self.kept();
        let mut space = self.scratch.for_reading();
        // Other connections have used the buffer since.
        space[..kept].fill(0xaa);
        let room = reader.as_ref().map_or(0, |reader| reader.remaining());
        let place = self.session.place_for(&mut space, room);
        let read = cut.min(place.len()).min(self.to_server.len());
        assert!(read > 0, "there is room, and something to read");
        place[..read].copy_from_slice(&self.to_server[..read]);
        self.to_server.drain(..read);
        self.session.take(&mut space, read, reader)
    }

    /// The client reads `cut` bytes.
    fn client_hears(&mut self, cut: usize) -> Result<(), Error> {
        let read = cut.min(self.to_client.len());
        let mut records = &self.to_client[..read];
        while !records.is_empty() {
            self.client.read_tls(&mut records).unwrap();
            self.client.process_new_packets()?;
            match self.client.reader().read_to_end(&mut self.received) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.to_client.drain(..read);
        Ok(())
    }

    /// Bytes of incomplete records.
    fn kept(&self) -> usize {
        let mut space = self.scratch.for_reading();
        let all = space.len();
        all - self.session.place_for(&mut space, all).len()
    }

    /// Writes some of `pieces`, after `skip`, to a socket that takes `socket_takes` bytes now. Returns how many bytes of the pieces were used.
    fn write(&mut self, pieces: &[IoSlice<'_>], skip: usize, socket_takes: usize) -> usize {
        assert!(self.session.unsent().is_empty(), "it goes first");
        let mut sealed = self.scratch.for_sealing();
        let (taken, made) = self.session.seal(pieces, skip, &mut sealed).unwrap();
        let records = sealed.records(made);
        let (now, later) = records.split_at(socket_takes.min(made));
        self.to_client.extend_from_slice(now);
        if !later.is_empty() {
            self.session.keep(later);
        }
        taken
    }

    /// Writes all of it.
    fn write_all(&mut self, bytes: &[u8]) {
        let mut taken = 0;
        while taken < bytes.len() {
            self.session_sends();
            taken += self.write(&[IoSlice::new(bytes)], taken, usize::MAX);
        }
    }

    /// Plaintext that the session holds and nobody has read.
    fn read(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut room = [0; 1000];
        loop {
            let mut buf = ReadBuf::new(&mut room);
            match self.session.read(&mut buf) {
                Ok(Some(1..)) => all.extend_from_slice(buf.filled()),
                Ok(_) | Err(_) => return all,
            }
        }
    }

    /// The session's answer to a reader: bytes of data, the end (0), or nothing yet.
    fn answers(&mut self) -> Result<Option<usize>, ErrorKind> {
        let mut room = [0; 16];
        let answer = self.session.read(&mut ReadBuf::new(&mut room));
        answer.map_err(|error| error.kind())
    }

    fn client_reads(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Everything on the way to the session arrives.
    fn session_takes_all(&mut self) {
        while !self.to_server.is_empty() {
            self.session_hears(usize::MAX, None).unwrap();
        }
    }

    /// The client sends this, and the session receives it.
    fn ask(&mut self, words: &[u8]) {
        self.client.writer().write_all(words).unwrap();
        self.client_sends();
        self.session_takes_all();
        assert_eq!(self.read(), words);
    }

    /// The session sends this, and the client receives it.
    fn answer(&mut self, words: &[u8]) {
        self.write_all(words);
        self.session_sends();
        self.client_hears(usize::MAX).unwrap();
        assert_eq!(self.client_reads(), words);
    }
}

/// Slices of these lengths.
pub fn slices<'a>(bytes: &'a [u8], lens: &[usize]) -> Vec<IoSlice<'a>> {
    let mut at = 0;
    lens.iter()
        .map(|len| {
            at += len;
            IoSlice::new(&bytes[at - len..at])
        })
        .collect()
}

#[test]
fn handshakes_in_one_piece_and_byte_by_byte() {
    for version in VERSIONS {
        for cut in [usize::MAX, 1000, 1] {
            let mut pair = Pair::new(version);
            assert!(pair.session.agreed().is_handshaking());
            pair.shake(cut);
            assert!(!pair.session.agreed().is_handshaking(), "{version:?} {cut}");
            assert!(!pair.client.is_handshaking(), "{version:?} {cut}");
            let agreed: Option<ProtocolVersion> = pair.session.agreed().protocol_version();
            assert_eq!(agreed, Some(version.version));
            assert_eq!(pair.session.take_name().as_deref(), Some(NAME));
            assert_eq!(pair.session.take_name(), None);
            assert_eq!(pair.kept(), 0);
            assert_eq!(pair.answers(), Ok(None));
            pair.ask(b"a question");
            pair.answer(b"an answer");
        }
    }
}

#[test]
fn a_request_may_come_with_the_last_flight() {
    for version in VERSIONS {
        for cut in [usize::MAX, 1] {
            let mut pair = Pair::new(version);
            pair.client.writer().write_all(b"early bird").unwrap();
            pair.shake(cut);
            assert_eq!(pair.read(), b"early bird", "{version:?} {cut}");
        }
    }
}

#[test]
fn new_keys_go_before_what_follows_them() {
    // The number of bytes of an answer that the socket has taken when the client asks for new keys.
    for socket_takes in [0, 1, 16_406, usize::MAX] {
        for requests in [1, 2, 3] {
            let mut pair = Pair::shaken(&TLS13);
            let first = pattern(0, 40_000);
            let mut taken = 0;
            while taken < first.len() {
                pair.session_sends();
                taken += pair.write(&[IoSlice::new(&first)], taken, socket_takes);
            }
            for _ in 0..requests {
                pair.client.refresh_traffic_keys().unwrap();
                pair.ask(b"with the keys that follow");
            }
            pair.session_sends();
            pair.write_all(&pattern(40_000, 100_000));
            pair.session_sends();
            pair.client_hears(usize::MAX).unwrap();
            assert_eq!(pair.client_reads(), pattern(0, 140_000));
            pair.ask(b"and back");
            pair.answer(b"and forth");
        }
    }
}

#[test]
fn an_answer_that_is_due_goes_before_the_goodbye() {
    let mut pair = Pair::shaken(&TLS13);
    pair.client.refresh_traffic_keys().unwrap();
    pair.client_sends();
    pair.session_takes_all();
    pair.session.end();
    pair.session_sends();
    pair.client_hears(usize::MAX).unwrap();
    assert_eq!(pair.client.reader().read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn new_keys_again_and_again_are_refused() {
    let mut pair = Pair::shaken(&TLS13);
    for _ in 0..1000 {
        pair.client.refresh_traffic_keys().unwrap();
    }
    pair.client_sends();
    let mut ended = Ok(());
    while ended.is_ok() && !pair.to_server.is_empty() {
        ended = pair.session_hears(usize::MAX, None);
    }
    assert!(matches!(ended, Err(Error::PeerMisbehaved(_))), "{ended:?}");
}

#[test]
fn what_the_socket_does_not_take_is_sent_later() {
    for version in VERSIONS {
        for seed in 0..50 {
            let mut chance = Chance(seed);
            let mut pair = Pair::shaken(version);
            let lens: Vec<usize> = (0..chance.below(8) + 1)
                .map(|_| chance.size(60_000))
                .collect();
            let all = pattern(0, lens.iter().sum());
            let slices = slices(&all, &lens);
            let mut taken = 0;
            while taken < all.len() || !pair.session.unsent().is_empty() {
                let socket_takes = chance.size(100_000);
                if pair.session.unsent().is_empty() {
                    taken += pair.write(&slices, taken, socket_takes);
                } else {
                    let now = socket_takes.min(pair.session.unsent().len());
                    pair.to_client
                        .extend_from_slice(&pair.session.unsent()[..now]);
                    pair.session.sent(now);
                }
            }
            pair.client_hears(usize::MAX).unwrap();
            assert!(pair.client_reads() == all, "seed {seed}, pieces {lens:?}");
        }
    }
}

#[test]
fn what_waits_goes_before_what_comes() {
    let mut pair = Pair::shaken(&TLS13);
    pair.client.writer().write_all(b"one, ").unwrap();
    pair.client_sends();
    pair.session_takes_all();
    pair.client.writer().write_all(b"two").unwrap();
    pair.client_sends();
    let mut room = [0; 16];
    let mut buf = ReadBuf::new(&mut room);
    pair.session_hears(usize::MAX, Some(&mut buf)).unwrap();
    assert_eq!(buf.filled(), b"");
    assert_eq!(pair.read(), b"one, two");
}

#[test]
fn a_goodbye_is_the_end_of_one_direction() {
    for version in VERSIONS {
        let mut pair = Pair::shaken(version);
        pair.client.writer().write_all(b"last words").unwrap();
        pair.client.send_close_notify();
        pair.client_sends();
        // Bytes after that belong to nobody.
        pair.to_server.extend_from_slice(b"and more");
        pair.session_takes_all();
        assert_eq!(pair.answers(), Ok(Some(10)));
        assert_eq!(pair.answers(), Ok(Some(0)));
        assert_eq!(pair.answers(), Ok(Some(0)));
        assert_eq!(pair.kept(), 0);
        pair.answer(&pattern(0, 100_000));
        pair.session.end();
        assert!(!pair.session.unsent().is_empty());
        pair.session_sends();
        pair.session.end();
        assert!(pair.session.unsent().is_empty(), "only once");
        pair.client_hears(usize::MAX).unwrap();
        assert_eq!(pair.client.reader().read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn our_goodbye_leaves_the_other_direction_open() {
    for version in VERSIONS {
        let mut pair = Pair::shaken(version);
        pair.session.end();
        pair.session_sends();
        pair.client_hears(usize::MAX).unwrap();
        assert_eq!(pair.client.reader().read(&mut [0; 1]).unwrap(), 0);
        pair.ask(b"not yet");
        assert_eq!(pair.answers(), Ok(None));
    }
}

#[test]
fn what_just_stops_has_not_ended() {
    for version in VERSIONS {
        let mut pair = Pair::shaken(version);
        pair.ask(b"a");
        assert_eq!(pair.answers(), Ok(None));
        // Nor when it stops in a record.
        pair.client.writer().write_all(&[b'b'; 1000]).unwrap();
        pair.client_sends();
        let last = pair.to_server.pop().unwrap();
        pair.session_takes_all();
        assert_eq!(pair.answers(), Ok(None));
        assert!(pair.kept() > 1000, "{}", pair.kept());
        pair.to_server.push(last);
        pair.session_takes_all();
        assert_eq!(pair.read(), [b'b'; 1000]);
        assert_eq!(pair.kept(), 0);
    }
}

#[test]
fn what_makes_no_sense_is_answered_by_an_alert_and_breaks_the_session() {
    let bad_mac = [&[23, 3, 3, 0, 100][..], &[7; 100]].concat();
    let cases = [
        (
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            AlertDescription::DecodeError,
        ),
        (&bad_mac[..], AlertDescription::BadRecordMac),
    ];
    for version in VERSIONS {
        for cut in [usize::MAX, 1] {
            for (nonsense, said) in cases {
                let mut pair = Pair::shaken(version);
                pair.client.writer().write_all(b"sense").unwrap();
                pair.client_sends();
                pair.to_server.extend_from_slice(nonsense);
                let mut ended = Ok(());
                while ended.is_ok() {
                    ended = pair.session_hears(cut, None);
                }
                assert!(!pair.session.unsent().is_empty(), "{ended:?}");
                pair.session_sends();
                let heard = pair.client_hears(usize::MAX);
                assert_eq!(heard, Err(Error::AlertReceived(said)), "{ended:?}");
                // Everything before it was sent.
                assert_eq!(pair.answers(), Ok(Some(5)));
                assert_eq!(pair.answers(), Err(ErrorKind::InvalidData));
                assert_eq!(pair.kept(), 0);
                let pieces = [IoSlice::new(b"an answer")];
                let mut sealed = pair.scratch.for_sealing();
                let ended = pair.session.seal(&pieces, 0, &mut sealed);
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::InvalidData);
                pair.session.end();
                assert!(pair.session.unsent().is_empty());
            }
        }
    }
}

#[test]
fn nonsense_instead_of_a_handshake_is_answered_too() {
    let mut pair = Pair::new(&TLS13);
    pair.to_server = [&[22, 3, 1, 0, 8][..], &[1, 0, 0, 4, 9, 9, 9, 9]].concat();
    pair.session_hears(usize::MAX, None).unwrap_err();
    // A fatal alert, unencrypted.
    let unsent = pair.session.unsent();
    assert_eq!(
        (&unsent[..3], unsent[5]),
        (&[21, 3, 3][..], 2),
        "{unsent:?}"
    );
    assert_eq!(pair.answers(), Err(ErrorKind::InvalidData));
}

#[test]
fn a_record_that_is_too_long_is_not_waited_for() {
    for version in VERSIONS {
        let mut pair = Pair::shaken(version);
        // 2^14 and what encryption may add at most, and one.
        //= rfc8446 §5.2   the length MUST NOT exceed 2^14 + 256 bytes; rustls allows 2^14 + 2048, as TLS 1.2 does
        let len: u16 = (1 << 14) + 2048 + 1;
        pair.to_server = [&[23, 3, 3][..], &len.to_be_bytes()].concat();
        let ended = pair.session_hears(usize::MAX, None);
        assert!(matches!(ended, Err(Error::InvalidMessage(_))), "{ended:?}");
        assert!(!pair.session.unsent().is_empty());
        assert_eq!(pair.answers(), Err(ErrorKind::InvalidData));
    }
}

#[test]
fn a_message_that_does_not_end_is_given_up() {
    // The longest message that rustls accepts, in records of this many bytes each.
    for len in [1_usize, 10, 1000, 1 << 14] {
        let mut pair = Pair::new(&TLS13);
        let message = [&[1, 0, 0xff, 0xff][..], &vec![0; 0xffff - 1]].concat();
        for part in message.chunks(len) {
            pair.to_server.extend_from_slice(&[22, 3, 1]);
            pair.to_server
                .extend_from_slice(&(part.len() as u16).to_be_bytes());
            pair.to_server.extend_from_slice(part);
        }
        let (mut ended, mut kept_max) = (Ok(()), 0);
        while ended.is_ok() {
            assert!(!pair.to_server.is_empty(), "it never ends: {len}");
            ended = pair.session_hears(usize::MAX, None);
            kept_max = pair.kept().max(kept_max);
        }
        assert!(kept_max < 64 << 10, "{kept_max}");
        assert_eq!(pair.kept(), 0);
        assert_eq!(pair.answers(), Err(ErrorKind::InvalidData));
    }
}

/// Both sides send, both read, and the network cuts anywhere.
fn talk(seed: u64) {
    let mut chance = Chance(seed);
    let version = VERSIONS[chance.below(2)];
    let mut pair = Pair::new(version);
    let cut = 1 + chance.size(4000);
    pair.shake(cut);
    let (mut asked, mut heard) = (0, 0);
    let (mut answered, mut received) = (0, 0);
    for _ in 0..chance.below(60) {
        match chance.below(12) {
            0..3 => {
                let words = pattern(asked, chance.size(40_000));
                asked += words.len();
                pair.client.writer().write_all(&words).unwrap();
                pair.client_sends();
            }
            3..6 => {
                let lens: Vec<usize> = (0..chance.below(5)).map(|_| chance.size(40_000)).collect();
                let all = pattern(answered, lens.iter().sum());
                let mut at = 0;
                let pieces: Vec<IoSlice<'_>> = lens
                    .iter()
                    .map(|len| {
                        at += len;
                        IoSlice::new(&all[at - len..at])
                    })
                    .collect();
                if pair.session.unsent().is_empty() {
                    let skip = chance.below(all.len() + 1);
                    // For the client, skipped bytes count as sent before.
                    let mut before = 0;
                    while before < skip {
                        before += pair.write(&[IoSlice::new(&all[..skip])], before, usize::MAX);
                    }
                    answered += skip + pair.write(&pieces, skip, chance.size(80_000));
                } else {
                    pair.session_sends();
                }
            }
            6..9 if !pair.to_server.is_empty() => {
                let mut room = vec![0; chance.size(20_000)];
                let mut buf = ReadBuf::new(&mut room);
                // A reader first gets the plaintext that is kept.
                let reader = match pair.session.read(&mut buf).unwrap() {
                    None if chance.below(3) > 0 => Some(&mut buf),
                    _ => None,
                };
                pair.session_hears(1 + chance.size(30_000), reader).unwrap();
                assert_eq!(buf.filled(), pattern(heard, buf.filled().len()));
                heard += buf.filled().len();
            }
            9..11 => {
                pair.client_hears(chance.size(60_000)).unwrap();
                let words = pair.client_reads();
                assert!(words == pattern(received, words.len()));
                received += words.len();
            }
            11 if version == &TLS13 && chance.below(4) == 0 => {
                pair.client.refresh_traffic_keys().unwrap();
                pair.client_sends();
            }
            _ => {}
        }
    }
    pair.client.send_close_notify();
    pair.client_sends();
    while !pair.to_server.is_empty() {
        pair.session_hears(1 + chance.size(30_000), None).unwrap();
    }
    let words = pair.read();
    assert!(words == pattern(heard, words.len()));
    assert_eq!(heard + words.len(), asked);
    assert_eq!(pair.answers(), Ok(Some(0)));
    pair.session.end();
    pair.session_sends();
    pair.client_hears(usize::MAX).unwrap();
    let words = pair.client_reads();
    assert!(words == pattern(received, words.len()));
    assert_eq!(received + words.len(), answered);
    assert_eq!(pair.client.reader().read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(pair.kept(), 0);
}

#[test]
fn whatever_the_cuts_all_arrives_in_order() {
    for seed in 0..1000 {
        let talked = std::panic::catch_unwind(|| talk(seed));
        assert!(talked.is_ok(), "seed {seed}");
    }
}

/// Begins a session that allows early data, and resumes it with a limit of `room` bytes; the client sends `said` early.
fn early(room: u32, said: &[u8]) -> (Pair, Result<(), Error>) {
    let sessions = Arc::new(Sessions::new(1 << 20));
    let server = |room| {
        let mut config = ServerConfig::clone(&CONFIGS.server);
        config.session_storage = Arc::clone(&sessions) as _;
        (config.max_early_data_size, config.send_half_rtt_data) = (room, true);
        Arc::new(config)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(Arc::clone(&CONFIGS.roots))
        .with_no_client_auth();
    client.enable_early_data = true;
    let client = Arc::new(client);
    let pair = |room| Pair {
        client: ClientConnection::new(Arc::clone(&client), NAME.try_into().unwrap()).unwrap(),
        session: Session::new(&server(room)).unwrap(),
        scratch: Scratch::default(),
        to_server: Vec::new(),
        to_client: Vec::new(),
        received: Vec::new(),
    };
    pair(1000).shake(usize::MAX);
    let mut pair = pair(room);
    pair.client.early_data().unwrap().write_all(said).unwrap();
    pair.client_sends();
    let heard = pair.session_hears(usize::MAX, None);
    (pair, heard)
}

#[test]
fn what_comes_early_is_read_and_answered_before_the_handshake_is_complete() {
    let (mut pair, heard) = early(1000, b"early");
    heard.unwrap();
    assert!(pair.session.agreed().is_handshaking() && pair.session.has_plain());
    assert_eq!(pair.read(), b"early");
    pair.session_sends();
    pair.answer(b"at once");
    assert!(pair.session.agreed().is_handshaking());
    pair.client_sends();
    pair.session_takes_all();
    assert!(!pair.session.agreed().is_handshaking());
    pair.session_sends();
    pair.client_hears(usize::MAX).unwrap();
    pair.ask(b"and later");
    pair.answer(b"too");
}

#[test]
fn more_early_data_than_there_may_be_is_refused() {
    let (mut pair, heard) = early(4, b"early");
    assert!(matches!(heard, Err(Error::PeerMisbehaved(_))), "{heard:?}");
    assert_eq!(pair.read(), b"");
    assert_eq!(pair.answers(), Err(ErrorKind::InvalidData));
    pair.session_sends();
    let heard = pair.client_hears(usize::MAX).unwrap_err();
    assert!(matches!(heard, Error::AlertReceived(_)), "{heard:?}");
}
