//! A name server that knows a few names, and may be held.
//!
//! `NAME.example` is 127.0.0.1, but names that begin with `missing` do not exist, those that begin with `held` are answered once
//! the gate is open, and those that begin with `silent` are not answered. A name that begins with `moves` is where the test has put it,
//! for a second.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::Gate;

const TYPE_A: u8 = 1;
const NO_SUCH_NAME: u8 = 3;
/// How soon it notices that it is to end.
const TURN: Duration = Duration::from_millis(20);

/// A name server; ends when dropped.
pub struct NameServer {
    pub address: SocketAddr,
    told: Arc<Told>,
    stopping: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

/// What a test tells it, and asks it.
struct Told {
    /// The last byte of the address of names that move.
    host: AtomicU8,
    /// Questions that were not answered.
    unanswered: AtomicUsize,
}

impl NameServer {
    pub fn start(gate: &Gate) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TURN)).unwrap();
        let address = socket.local_addr().unwrap();
        let stopping = Arc::<AtomicBool>::default();
        let told = Arc::new(Told {
            host: AtomicU8::new(1),
            unanswered: AtomicUsize::new(0),
        });
        let serving = thread::spawn({
            let (stopping, gate) = (Arc::clone(&stopping), gate.clone());
            let told = Arc::clone(&told);
            move || serve(&socket, &gate, &told, &stopping)
        });
        NameServer {
            address,
            told,
            stopping,
            serving: Some(serving),
        }
    }

    /// From now on the names that move are 127.0.0.`host`.
    pub fn move_to(&self, host: u8) {
        self.told.host.store(host, Ordering::SeqCst);
    }

    /// How many questions were not answered.
    pub fn unanswered(&self) -> usize {
        self.told.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn serve(socket: &UdpSocket, gate: &Gate, told: &Told, stopping: &AtomicBool) {
    let mut question = [0; 512];
    while !stopping.load(Ordering::SeqCst) {
        let Ok((len, from)) = socket.recv_from(&mut question) else {
            continue;
        };
        let question = question[..len].to_vec();
        if question[13..].starts_with(b"silent") {
            told.unanswered.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let is_held = question[13..].starts_with(b"held");
        let (host, ttl) = match question[13..].starts_with(b"moves") {
            true => (told.host.load(Ordering::SeqCst), 1),
            false => (1, 60),
        };
        let answer = answer(&question, host, ttl);
        if is_held {
            let (socket, gate) = (socket.try_clone().unwrap(), gate.clone());
            thread::spawn(move || {
                gate.pass();
                let _ = socket.send_to(&answer, from);
            });
        } else {
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// RFC 1035 as far as one question without compression goes; whatever stands behind it is not repeated.
fn answer(question: &[u8], host: u8, ttl: u8) -> Vec<u8> {
    let name_bytes = question[12..].iter().position(|&b| b == 0).unwrap() + 1;
    let end = 12 + name_bytes + 4;
    let is_missing = question[13..].starts_with(b"missing");
    let has_address = !is_missing && question[end - 3] == TYPE_A;
    let code = if is_missing { NO_SUCH_NAME } else { 0 };
    let mut answer = question[..2].to_vec();
    let count = u8::from(has_address);
    answer.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    if has_address {
        // The name by reference, type A, class IN, TTL, four bytes.
        answer.extend([
            0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, ttl, 0, 4, 127, 0, 0, host,
        ]);
    }
    answer
}
