//! Another process takes our place, without a request that fails and without an empty store.
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
//! *Before Go* the new process writes nothing to the stores. If it ends, or is refused, or takes too long, the old one thaws its stores and
//! serves on. If the old one ends, the new one goes on alone: what it has read is what a clean stop leaves, and whatever was not in that
//! was never acknowledged. That the old one has ended, and has not only closed the link, is what the kernel says of the process.
//!
//! *With Go* the stores are the new one's. The old one has stopped serving what is stored before it says so, because a purge that the new
//! one acknowledges does not reach it. A listening socket is one for both, so whoever connects meanwhile waits in its queue.
//!
//! *After Go* the old process only ends what it has begun. Invalidations go to the new one, which makes them durable, before they are
//! acknowledged. Places that its answers read are not overwritten until it has ended.
//!
//! A purge that comes between Frozen and Go holds at once, waits, and is acknowledged after it was committed (if the stores were
//! thawed) or told.
//!
//! Bounds: one upgrade at a time, and none while the process before the last still drains; so there are two processes at most. Each wait for
//! a word has a limit, named where it is waited for.
//!
//! Not known here: how a process is started, what an executable is (`loligo`).

pub mod link;
pub mod predecessor;
pub mod step;
pub mod successor;

use std::{net::SocketAddr, path::PathBuf};

use device::Passport;
use serde::{Deserialize, Serialize};
use store::{KeyHash, Told};

/// Both must speak the same.
const PROTOCOL: u32 = 1;

/// What is said.
#[derive(Serialize, Deserialize, Debug)]
enum Word {
    Hello(Hello),
    Offer(Offer),
    /// Some of the descriptors that the offer names, in its order: first sockets, then devices.
    Descriptors,
    Prepared,
    /// By either: the old process serves on.
    Refused(String),
    Frozen,
    Ready,
    Go(Go),
    Serving,
    Tell(Vec<Said>),
    /// Are they durable?
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

/// Who comes.
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

/// What there is to take over.
#[derive(Serialize, Deserialize, Debug)]
struct Offer {
    from: Hello,
    sockets: Vec<OfferedSockets>,
    stores: Vec<OfferedStore>,
    /// Without a store: what key hashes are seeded with, so that invalidations can be told.
    hash_seed: Option<u64>,
}

#[derive(Serialize, Deserialize, Debug)]
struct OfferedSockets {
    is_admin: bool,
    /// As it is in the configuration.
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

/// The stores change hands.
#[derive(Serialize, Deserialize, Debug)]
struct Go {
    /// For each store: first chunk and number of chunks of what the old process still reads.
    held: Vec<Vec<(u32, u32)>>,
}

/// An invalidation.
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
