//! One request, from the client's bytes to the answer.
//!
//! | folder | story |
//! |---|---|
//! | `conn`, `h2` | a client's connection, as HTTP/1 and HTTP/2 have it |
//! | `hit` | a stored object that answers at once |
//! | `request` | what is asked for, and what to do with it |
//! | `fetch`, `range`, `mirror` | asking an origin, sharing what it answers, storing it |
//! | `deliver`, `reply` | putting the answer together, and sending it |
//! | `edition`, `listener`, `state`, `storage` | what a worker, and all workers, have of the configuration |
//!
//! Not known here: the pages of the admin interface, reloads, upgrades, threads.
#![forbid(unsafe_code)]

pub mod conn;
pub mod deliver;
pub mod edition;
pub mod fetch;
pub mod h2;
pub mod hit;
pub mod listener;
pub mod mirror;
pub mod range;
pub mod reply;
pub mod request;
pub mod state;
pub mod storage;
pub mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
