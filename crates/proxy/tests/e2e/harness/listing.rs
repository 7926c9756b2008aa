//! A name server that says for any name the addresses that a test has set, or fails.
//!
//! Asked for services, it says that they are offered by `s0.example`, `s1.example` and so on, each of which is one of the addresses.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const TYPE_A: u8 = 1;
const TYPE_SRV: u8 = 33;
const FAILED: u8 = 2;
/// How soon it notices that it is to end.
const TURN: Duration = Duration::from_millis(20);

/// The name server; ends when dropped.
pub struct Listing {
    pub address: SocketAddr,
    /// `None`: it answers that it has failed.
    listed: Arc<Mutex<Option<Vec<Service>>>>,
    stopping: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

/// An address, and what services have besides.
#[derive(Clone, Copy)]
pub struct Service {
    pub at: SocketAddr,
    pub priority: u16,
    pub weight: u16,
}

fn plain(listed: &[SocketAddr]) -> Vec<Service> {
    let service = |at: &SocketAddr| Service {
        at: *at,
        priority: 0,
        weight: 1,
    };
    listed.iter().map(service).collect()
}

impl Listing {
    pub fn of(listed: &[SocketAddr]) -> Listing {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TURN)).unwrap();
        let address = socket.local_addr().unwrap();
        let listed = Arc::new(Mutex::new(Some(plain(listed))));
        let stopping = Arc::<AtomicBool>::default();
        let serving = thread::spawn({
            let (listed, stopping) = (Arc::clone(&listed), Arc::clone(&stopping));
            move || {
                let mut question = [0; 512];
                while !stopping.load(Ordering::SeqCst) {
                    if let Ok((len, from)) = socket.recv_from(&mut question) {
                        let answer = answer(&question[..len], listed.lock().unwrap().as_deref());
                        let _ = socket.send_to(&answer, from);
                    }
                }
            }
        });
        Listing {
            address,
            listed,
            stopping,
            serving: Some(serving),
        }
    }

    /// From now on these are listed.
    pub fn set(&self, listed: &[SocketAddr]) {
        self.offer(&plain(listed));
    }

    /// From now on these are offered.
    pub fn offer(&self, services: &[Service]) {
        *self.listed.lock().unwrap() = Some(services.to_vec());
    }

    /// From now on it fails.
    pub fn fail(&self) {
        *self.listed.lock().unwrap() = None;
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn answer(question: &[u8], listed: Option<&[Service]>) -> Vec<u8> {
    let name_len = question[12..].iter().position(|&b| b == 0).unwrap() + 1;
    let end = 12 + name_len + 4;
    let code = if listed.is_none() { FAILED } else { 0 };
    let kind = question[end - 3];
    let listed: Vec<(usize, &Service)> = match kind {
        TYPE_A | TYPE_SRV => listed.unwrap_or_default().iter().enumerate().collect(),
        _ => Vec::new(),
    };
    // `s0.example` and the others are one address each.
    let one = (question[12..15] == [2, b's', question[14]]).then(|| question[14] - b'0');
    let is_meant = |it: &(usize, &Service)| one.is_none_or(|one| it.0 == usize::from(one));
    let listed: Vec<_> = listed.into_iter().filter(is_meant).collect();
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, listed.len() as u8, 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    for (number, service) in listed {
        // The name by reference, type, class IN, TTL of a minute.
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60]);
        if kind == TYPE_SRV {
            let target = format!("\x02s{number}\x07example\0");
            answer.extend([0, 6 + target.len() as u8]);
            for part in [service.priority, service.weight, service.at.port()] {
                answer.extend(part.to_be_bytes());
            }
            answer.extend(target.as_bytes());
            continue;
        }
        let IpAddr::V4(address) = service.at.ip() else {
            panic!("an IPv4 address");
        };
        answer.extend([0, 4]);
        answer.extend(address.octets());
    }
    answer
}
