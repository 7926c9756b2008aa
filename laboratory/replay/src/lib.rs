//! A row of requests played through any proxy, against an origin of ours that counts what the proxy did not have.
//!
//! ```text
//! row of Ask --player--> proxy --origin--> the size and the bytes that the name tells
//!       |                                    |
//!     bench: what is out now, and for which of it the origin was asked: a hit is what the origin did not see
//! ```
//!
//! A name tells all that the origin has to know: size, version, and so the bytes ([`content`]). The origin keeps no table, and each
//! answer can be checked. No header of the proxy is believed.
//!
//! Memory: what is out, and two MiB of noise.
//! Not known here: traces, the command line, which proxy it is.
//! Limits: [`CONNECTIONS_MAX`] requests at a time, [`origin::CONNECTIONS_MAX`] connections of the proxy; plain HTTP/1.1.
#![forbid(unsafe_code)]

mod bench;
pub mod content;
mod name;
pub mod origin;
mod player;
mod proc_io;
mod report;

pub use bench::{Counts, OriginCounts};
pub use name::Ask;
pub use origin::Origin;
pub use player::{CONNECTIONS_MAX, Fault, Settings, Way, play};
pub use proc_io::DeviceBytes;
pub use report::Report;
