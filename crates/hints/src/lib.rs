//! Hints: what peers tell each other about the objects they hold. Formats and filters.
//!
//! | file | content |
//! |---|---|
//! | `bloom` | a Bloom filter: a bit array, and the positions of a number in it |
//! | `counting` | a Bloom filter with a counter for each bit, so that numbers can be removed |
//! | `ages` | a filter that forgets: several bit arrays, the oldest of which is emptied when the next one begins |
//! | `interleaved` | the filters of several nodes as one matrix, for fronts |
//! | `directory` | exact hints: the columns that have a number |
//! | `name` | the names of objects in hints; `paper` has the names and hash functions of paper 003 |
//! | `registrar` | the content of a node's store, and the frames that tell fronts of it |
//! | `view` | the content of all nodes, as a front follows it; `view/groups`, as workers look it up |
//! | `withdrawals` | withdrawn pushes that a node may not have heard of |
//! | `handshake` | messages of the handshake between members of a cluster |
//! | `frames` | the frames that members of a cluster send each other |
//! | `mistakes` | deliberate mistakes, for the simulation |
//! | `digest` | the format of Loligo's digests: filters over what the indexes of the stores know of a key |
//! | `squid` | Squid's Cache Digest: header, keys, bits |
//! | `icp` | the messages of ICP version 2 |
//! | `md5` | MD5, for the keys of Squid's digests |
//!
//! A filter errs on one side only: numbers in it are always found; numbers that are not in it are sometimes found too (*false hit*).
//! Every decoder takes any bytes and returns a value or an error; none panics.
//!
//! Not known here: sockets, time, URLs in normal form, the store.
#![forbid(unsafe_code)]

pub mod ages;
pub mod bloom;
pub mod counting;
pub mod digest;
pub mod directory;
pub mod frames;
pub mod handshake;
pub mod icp;
pub mod interleaved;
mod md5;
pub mod mistakes;
pub mod name;
pub mod paper;
pub mod registrar;
pub mod squid;
pub mod view;
pub mod withdrawals;

pub use ages::Ages;
pub use bloom::{Bits, Shape};
pub use counting::{Counting, Width};
pub use frames::{Frame, Kind, Known};
pub use name::Name;
pub use registrar::Registrar;
pub use view::View;
pub use withdrawals::Withdrawals;
