//! A name server that says for any name the addresses that a test has set, or fails.

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
const FAILED: u8 = 2;
/// How soon it notices that it is to end.
const TURN: Duration = Duration::from_millis(20);

/// The name server; ends when dropped.
pub struct Listing {
    pub address: SocketAddr,
    /// `None`: it answers that it has failed.
    listed: Arc<Mutex<Option<Vec<SocketAddr>>>>,
    stopping: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Listing {
    pub fn of(listed: &[SocketAddr]) -> Listing {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TURN)).unwrap();
        let address = socket.local_addr().unwrap();
        let listed = Arc::new(Mutex::new(Some(listed.to_vec())));
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
        *self.listed.lock().unwrap() = Some(listed.to_vec());
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

fn answer(question: &[u8], listed: Option<&[SocketAddr]>) -> Vec<u8> {
    let name_len = question[12..].iter().position(|&b| b == 0).unwrap() + 1;
    let end = 12 + name_len + 4;
    let code = if listed.is_none() { FAILED } else { 0 };
    let listed = match question[end - 3] {
        TYPE_A => listed.unwrap_or_default(),
        _ => &[],
    };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, listed.len() as u8, 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    for address in listed {
        let IpAddr::V4(address) = address.ip() else {
            panic!("an IPv4 address");
        };
        // The name by reference, type, class IN, TTL of a minute, length.
        answer.extend([0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}
