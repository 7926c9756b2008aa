//! Plays a row of requests through a proxy, against an origin of ours that counts the proxy's misses.
//!
//! ```text
//! row of Ask --player--> proxy --origin--> size and bytes, computed from the name
//!       |                                    |
//!     bench: the requests under way, and those that reached the origin: a hit is one that did not
//! ```
//!
//! A name says all that the origin has to know: size and version, and so the bytes ([`content`]). The origin needs no table, and every
//! answer can be checked. Header fields of the proxy are not trusted.
//!
//! Memory: the requests under way, and two MiB of noise.
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
