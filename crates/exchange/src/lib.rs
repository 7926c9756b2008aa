//! One request, from the client's bytes to the answer.
//!
//! | folder | contents |
//! |---|---|
//! | `conn`, `h2` | a client's connection, in HTTP/1 and HTTP/2 |
//! | `hit` | a stored object that answers at once |
//! | `request` | the requested resource, and the steps of a request |
//! | `fetch`, `range`, `mirror` | asking an origin, sharing its answer, storing it |
//! | `deliver`, `reply` | composing the answer, and sending it |
//! | `edition`, `listener`, `state`, `storage` | configuration and state of a worker and of the process |
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
