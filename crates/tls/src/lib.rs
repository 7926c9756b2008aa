//! TLS to clients: what is shown to them, the handshake, and the connection behind it.
//!
//! | file | tells |
//! |---|---|
//! | `certificates` | certificates and keys in files |
//! | `reading` | those of a listener, all at once |
//! | `served` | from files to what a listener shows, and who resumes what |
//! | `names` | which certificate a client is shown |
//! | `sessions` | those that are kept here, and resumed once |
//! | `handshake` | from an accepted socket to a connection, within bounds |
//! | `crowd` | which handshake makes room for another one |
//! | `shaking` | a handshake while it goes on, also behind a request that came early |
//! | `session` | its records, without the socket |
//! | `stream` | a client's connection, plain or encrypted |
//! | `acme` | a certificate that is ordered from an authority |
//! | `seen` | what is known of a connection, for logs |
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
