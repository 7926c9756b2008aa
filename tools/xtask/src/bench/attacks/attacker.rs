//! The attacker: one thread with a fixed number of rounds a second.
//!
//! The fixed rate makes the figures meaningful: server, attacker and honest client share the machine, and an attacker at full speed
//! would take the honest client's core, which says nothing of the server.
//!
//! It opens a connection when the server has ended the one before, or when that one is held and has nothing more to send.
//!
//! Limits: [`OPENED_PER_S`] connections a second, [`HELD_MAX`] held; then the oldest one is closed.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection};

use super::list::{Attack, Opening};
use crate::failure::{During, Failure, Result};
use crate::h2_load::frame;
use crate::rivals::front::Front;

pub const OPENED_PER_S: u32 = 100;
pub const HELD_MAX: usize = 500;
const TICK: Duration = Duration::from_millis(1);
/// Most rounds in one write.
const BATCH_MAX: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// The counts of an attack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    pub rounds: u64,
    pub connections: u64,
    /// Connections that the server ended.
    pub ended: u64,
    pub seconds: f64,
}

struct Held {
    socket: TcpStream,
    /// Rounds sent on this connection.
    nth: u32,
}

/// Attacks until it is stopped.
pub fn attack(
    attack: &Attack,
    front: &Front,
    config: &Arc<ClientConfig>,
    is_stopped: &AtomicBool,
) -> Result<Done> {
    let began = Instant::now();
    let mut attacker = Attacker {
        attack: *attack,
        front,
        config,
        current: None,
        held: VecDeque::new(),
        done: Done::default(),
    };
    while !is_stopped.load(Ordering::Relaxed) {
        let passed = began.elapsed().as_secs_f64();
        let due = |per_s: u32| (passed * f64::from(per_s)) as u64;
        attacker
            .tick(due(attack.rounds_per_s), due(OPENED_PER_S))
            .during(|| format!("attacking {}", front.address))?;
        std::thread::sleep(TICK);
    }
    attacker.done.seconds = began.elapsed().as_secs_f64();
    Ok(attacker.done)
}

struct Attacker<'a> {
    attack: Attack,
    front: &'a Front,
    config: &'a Arc<ClientConfig>,
    current: Option<Held>,
    held: VecDeque<Held>,
    done: Done,
}

impl Attacker<'_> {
    /// Sends the rounds and opens the connections that are due, given as totals since the beginning.
    fn tick(&mut self, rounds_due: u64, opened_due: u64) -> Result<()> {
        self.look_at_held();
        while self.done.rounds < rounds_due {
            if self.current.is_none() {
                if self.done.connections >= opened_due {
                    // Rounds that could not be sent are not made up for.
                    self.done.rounds = self.done.rounds.max(rounds_due.saturating_sub(1000));
                    return Ok(());
                }
                self.open()?;
                continue;
            }
            let left = rounds_due - self.done.rounds;
            if !self.send(u32::try_from(left).unwrap_or(BATCH_MAX).min(BATCH_MAX)) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        self.done.connections += 1;
        let during = || "connecting".into();
        let mut socket = TcpStream::connect(self.front.address).during(during)?;
        socket.set_nodelay(true).during(during)?;
        let hello = match self.attack.opening {
            Opening::Http2(settings) => {
                let of = |(id, value): &(u16, u32)| {
                    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
                };
                let payload: Vec<u8> = settings.iter().flat_map(of).collect();
                let mut hello = http2::PREFACE.to_vec();
                frame(4, 0, 0, &payload, &mut hello);
                frame(4, 1, 0, &[], &mut hello);
                hello
            }
            Opening::HalfPreface => http2::PREFACE[..16].to_vec(),
            Opening::Hello => {
                let mut hello = Vec::new();
                let mut session = self.session()?;
                session.write_tls(&mut hello).during(during)?;
                hello
            }
            Opening::Handshake => {
                socket.set_read_timeout(Some(PATIENCE)).during(during)?;
                let mut session = self.session()?;
                while session.is_handshaking() {
                    session
                        .complete_io(&mut socket)
                        .during(|| "a handshake".into())?;
                }
                self.done.rounds += 1;
                return Ok(());
            }
        };
        // An error, from a server that closes at once, is noticed later.
        let _ = socket.write_all(&hello);
        socket.set_nonblocking(true).during(during)?;
        self.current = Some(Held { socket, nth: 0 });
        Ok(())
    }

    fn session(&self) -> Result<ClientConnection> {
        let name = ServerName::IpAddress(self.front.address.ip().into());
        ClientConnection::new(Arc::clone(self.config), name)
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Sends up to `rounds` rounds on the current connection. False: it takes no more bytes now.
    fn send(&mut self, rounds: u32) -> bool {
        let Some(mut held) = self.current.take() else {
            return true;
        };
        let mut out = Vec::new();
        let mut sent = 0;
        while sent < rounds && out.len() < 64 << 10 {
            let round = (self.attack.round)(held.nth);
            if round.is_empty() {
                break;
            }
            out.extend_from_slice(&round);
            held.nth += 1;
            sent += 1;
        }
        if out.is_empty() {
            self.done.rounds += 1;
            self.hold(held);
            return true;
        }
        let mut rest = &out[..];
        while !rest.is_empty() {
            match held.socket.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.done.ended += 1;
                    return true;
                }
            }
        }
        self.done.rounds += u64::from(sent);
        if rest.is_empty() {
            match is_open(&mut held.socket) {
                true => self.current = Some(held),
                false => self.done.ended += 1,
            }
        } else {
            // A frame is cut off, so no further frame can follow. The server reads nothing from this connection.
            self.hold(held);
            return false;
        }
        true
    }

    fn hold(&mut self, held: Held) {
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back(held);
    }

    fn look_at_held(&mut self) {
        let before = self.held.len();
        self.held.retain_mut(|held| is_open(&mut held.socket));
        self.done.ended += (before - self.held.len()) as u64;
    }
}

/// Whether the connection is open. Reads and drops what has been received.
fn is_open(socket: &mut TcpStream) -> bool {
    let mut room = [0; 16_384];
    loop {
        match socket.read(&mut room) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
