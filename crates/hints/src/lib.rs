//! What peers tell each other of what they hold, as bytes and as filters.
//!
//! | file | what |
//! |---|---|
//! | `bloom` | a Bloom filter: a bit array, and which of its bits belong to a number |
//! | `counting` | the same with a counter for each bit, so that numbers can leave again |
//! | `ages` | a filter that forgets: several bit arrays, the oldest of which is emptied when the next begins |
//! | `interleaved` | the filters of several nodes as one matrix, for fronts |
//! | `directory` | the exact kind: which columns have a number |
//! | `name` | what objects are called in hints; `paper` has the names and functions of paper 003 |
//! | `registrar` | what a store of a node has, and telling the fronts of it |
//! | `view` | what all nodes have, as a front follows it; `view/groups`, as workers look it up |
//! | `withdrawals` | withdrawn pushes of which a node may not have heard |
//! | `handshake` | how a connection between members of a cluster begins, as bytes |
//! | `frames` | what members of a cluster tell each other, as bytes |
//! | `mistakes` | deliberate mistakes, for the simulation |
//! | `digest` | the digest of one Loligo for another: filters over what its stores' indexes know of a key |
//! | `squid` | Squid's Cache Digest: header, keys, bits |
//! | `icp` | the messages of ICP version 2 |
//! | `md5` | MD5, for the keys of Squid's digests |
//!
//! A filter errs on one side only: what is in it is always found; what is not in it is found now and then (*false hit*).
//! Every decoder takes any bytes and answers with a value or an error; none panics.
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
