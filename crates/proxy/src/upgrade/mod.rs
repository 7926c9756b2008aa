//! Another process replaces this one, without failing a request and without an empty store.
//!
//! ```text
//!   the old process (`successor`)                  the new one, which it starts (`predecessor`)
//!                                    <- Hello
//!   Offer: addresses, stores ->                    reads and checks its configuration
//!   sockets, devices ->
//!                                    <- Prepared
//!   freezes its stores; serves on
//!   Frozen ->                                      reads them; starts its workers, which do not accept yet
//!                                    <- Ready
//!   serves nothing that is stored any more
//!   Go, with what it still reads ->                marks the stores as in use, accepts
//!   drains                           <- Serving
//!   Tell: what it invalidates ->     <- Told: it is durable
//!   Drained, ends
//! ```
//!
//! *Before Go* the new process writes nothing to the stores. If it ends, refuses, or takes too long, the old process thaws its stores and
//! continues to serve. If the old process ends, the new one continues alone: the stores are as after a clean stop, and anything missing
//! was never acknowledged. A closed link does not prove that the old process has ended; the new one asks the kernel.
//!
//! *With Go* the stores belong to the new process. The old one has stopped serving stored responses before, because purges that the new
//! one acknowledges do not reach it. Both share the listening sockets, so clients that connect in between wait in the queue.
//!
//! *After Go* the old process only completes what it has begun. Its invalidations go to the new process, which makes them durable before
//! they are acknowledged. Chunks that its answers read are not overwritten until it has ended.
//!
//! A purge between Frozen and Go takes effect at once and waits. It is acknowledged after it was committed (if the stores were thawed) or
//! told to the new process.
//!
//! Bounds: one upgrade at a time, and none while the previous process still drains; so there are at most two processes. Each wait for a
//! message has a limit, named at the wait.
//!
//! Not known here: how a process is started, which executable (`loligo`).

pub mod link;
pub mod predecessor;
pub mod step;
pub mod successor;

use std::{net::SocketAddr, path::PathBuf};

use device::Passport;
use serde::{Deserialize, Serialize};
use store::{KeyHash, Told};

/// Version of the protocol; both processes must have the same.
const PROTOCOL: u32 = 1;

/// A message.
#[derive(Serialize, Deserialize, Debug)]
enum Word {
    Hello(Hello),
    Offer(Offer),
    /// Some of the descriptors named by the offer, in its order: first sockets, then devices.
    Descriptors,
    Prepared,
    /// From either process: the old one continues to serve.
    Refused(String),
    Frozen,
    Ready,
    Go(Go),
    Serving,
    Tell(Vec<Said>),
    /// Are the invalidations durable?
    Told(bool),
    Drained,
}

impl Word {
    fn name(&self) -> &'static str {
        match self {
            Word::Hello(_) => "Hello",
            Word::Offer(_) => "Offer",
            Word::Descriptors => "Descriptors",
            Word::Prepared => "Prepared",
            Word::Refused(_) => "Refused",
            Word::Frozen => "Frozen",
            Word::Ready => "Ready",
            Word::Go(_) => "Go",
            Word::Serving => "Serving",
            Word::Tell(_) => "Tell",
            Word::Told(_) => "Told",
            Word::Drained => "Drained",
        }
    }
}

/// Identifies a process.
#[derive(Serialize, Deserialize, Debug)]
struct Hello {
    protocol: u32,
    version: String,
    pid: u32,
}

impl Hello {
    fn of_this() -> Hello {
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }

    fn is_understood(&self) -> Result<(), String> {
        match self.protocol == PROTOCOL {
            true => Ok(()),
            false => Err(format!(
                "the other process (version {}) speaks protocol {} of upgrades, this one (version {}) {PROTOCOL}; restart instead",
                self.version,
                self.protocol,
                env!("CARGO_PKG_VERSION"),
            )),
        }
    }
}

/// The sockets and stores to take over.
#[derive(Serialize, Deserialize, Debug)]
struct Offer {
    from: Hello,
    sockets: Vec<OfferedSockets>,
    stores: Vec<OfferedStore>,
    /// Without a store: the seed of key hashes, so that invalidations can be told by hash.
    hash_seed: Option<u64>,
}

#[derive(Serialize, Deserialize, Debug)]
struct OfferedSockets {
    is_admin: bool,
    /// The address in the configuration.
    configured: SocketAddr,
    count: usize,
}

#[derive(Serialize, Deserialize, Debug)]
struct OfferedStore {
    path: PathBuf,
    size_bytes: u64,
    block_bytes: u32,
}

impl OfferedStore {
    fn of(passport: Passport) -> OfferedStore {
        let Passport {
            path,
            size_bytes,
            block_bytes,
        } = passport;
        OfferedStore {
            path,
            size_bytes,
            block_bytes,
        }
    }

    fn passport(&self) -> Passport {
        Passport {
            path: self.path.clone(),
            size_bytes: self.size_bytes,
            block_bytes: self.block_bytes,
        }
    }
}

/// Hands the stores over.
#[derive(Serialize, Deserialize, Debug)]
struct Go {
    /// For each store: first chunk and number of chunks of each extent that the old process still reads.
    held: Vec<Vec<(u32, u32)>>,
}

/// An invalidation told to the new process.
#[derive(Serialize, Deserialize, Debug)]
enum Said {
    Key(u64),
    Doubt(u64),
    Matching(u8, Vec<u8>),
}

impl Said {
    fn of(told: Told) -> Said {
        match told {
            Told::Key(hash) => Said::Key(hash.0),
            Told::Doubt(hash) => Said::Doubt(hash.0),
            Told::Matching { kind, pattern } => Said::Matching(kind, pattern.into()),
        }
    }

    fn meant(self) -> Told {
        match self {
            Said::Key(hash) => Told::Key(KeyHash(hash)),
            Said::Doubt(hash) => Told::Doubt(KeyHash(hash)),
            Said::Matching(kind, pattern) => Told::Matching {
                kind,
                pattern: pattern.into(),
            },
        }
    }
}
