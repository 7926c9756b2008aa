//! TLS to clients: certificates, handshakes, and encrypted connections.
//!
//! | file | tells |
//! |---|---|
//! | `certificates` | certificates and keys in files |
//! | `reading` | those of a listener, read in parallel |
//! | `served` | the settings that a listener serves, made from files; which listeners share resumption |
//! | `names` | which certificate a client is shown |
//! | `sessions` | sessions kept in memory, each resumed once |
//! | `handshake` | from an accepted socket to a connection, within bounds |
//! | `crowd` | which handshake is given up for another one |
//! | `shaking` | a handshake under way, also while early requests are answered |
//! | `session` | the records of a connection, without its socket |
//! | `stream` | a client's connection, plain or encrypted |
//! | `acme` | a certificate ordered from an authority |
//! | `seen` | facts about a connection, for logs |
//!
//! TLS to origins is in `origin::tls`.
#![forbid(unsafe_code)]

pub mod acme;
pub mod certificates;
pub mod crowd;
pub mod handshake;
mod names;
mod reading;
pub mod seen;
pub mod served;
pub mod session;
#[cfg(test)]
mod session_tests;
pub mod sessions;
pub mod shaking;
pub mod stream;
