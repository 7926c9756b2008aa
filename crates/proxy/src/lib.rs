//! The data plane: from a client's bytes to an origin's and back, through memory and disk.
//!
//! Life of a request, by file:
//!
//! | step | file |
//! |---|---|
//! | accepted by a worker | `accepting`, `worker` |
//! | read and parsed | `conn/client`, `heads` |
//! | answered from memory or disk, the short way | `conn/fast`, `cache/memory`, `cache/disk` |
//! | everything else is an exchange | `request/exchange`, `request/body`, `reply` |
//! | its resource and key | `request/target`, `request/ports` |
//! | stored? fresh? whom to ask? | `request/handle`, `request/find` |
//! | fetched, shared, stored | `fetch/share`, `fetch/task`, `fetch/flight`, `fetch/storing`, `origin` |
//! | a part of what is not stored, or not all | `range` |
//! | passed through | `fetch/pass`, `conn/switch`, `conn/tunnel` |
//! | put together and sent | `deliver`, `reply` |
//! | a PURGE | `conn/port_purge`, `admin` |
//! | counted and logged | `Exchange::finish`, `state`, `record` |
//!
//! Proxies that know what the others hold are a `cluster`.
//!
//! Beside the requests, one thread does what the stores need done in the background: `background`; `opening` opens them. Another looks
//! whether all of them move, devices included: `watch`, `pulse`.
//!
//! What the process shares is in `state::Shared`, what a worker owns in `state::Worker`. Deciding is left to the
//! pure crates (`http1`, `httpcache`, `store`); this crate moves bytes and waits, and every wait has a limit
//! (`deadline`).
//!
//! Not known here: the command line, configuration files.
#![forbid(unsafe_code)]

mod admin;
mod conn;
mod deliver;
mod edition;
pub mod explain;
mod fetch;
mod h2;
mod health;
mod listener;
mod mirror;
mod range;
mod reload;
mod reply;
mod request;
mod serve;
#[cfg(feature = "simulation")]
pub mod simulation;
mod state;
pub mod stored;
mod upgrade;
mod user;
mod worker;

pub use ::plan;
pub use base::clock::Clock;
pub use base::mistakes::Mistake;
#[cfg(feature = "mistakes")]
pub use base::mistakes::make_mistake;
pub use cache::opening::StoreError;
pub use cluster::new_cluster_key;
pub use origin::check_certificates;
pub use record::metrics::DIAGNOSTICS_LOST;
pub use reload::{Reading, Reread};
pub use rules::zone::name_of_zone;
pub use serve::{
    Ready, ServeError, Stopper, Succession, serve, start, start_at, start_in_succession, start_on,
    start_reloadable,
};
pub use tls::served::{Shown, check_certificate, check_client_ca, look_at_certificate};
pub use upgrade::{asked::Launch, predecessor::Predecessor};
pub use user::UserError;
