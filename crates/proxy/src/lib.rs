//! The proxy as a process: its threads, and how they start, change and end.
//!
//! | file | contents |
//! |---|---|
//! | `serve` | opening, listening, starting the threads, ending them |
//! | `worker` | a thread that accepts connections and answers requests |
//! | `connecting` | a plan's settings of connections to origins |
//! | `reload` | another configuration replaces the current one |
//! | `upgrade` | another process replaces this one |
//! | `user` | a process started as root becomes an ordinary user |
//!
//! The life of a request is in `exchange`, the admin interface in `admin`.
//!
//! Not known here: the command line, configuration files.
#![forbid(unsafe_code)]

mod connecting;
mod reload;
mod serve;
#[cfg(feature = "simulation")]
pub mod simulation;
mod upgrade;
mod user;
mod worker;

pub use ::plan;
pub use admin::{explain, live};
pub use base::clock::Clock;
pub use base::mistakes::Mistake;
#[cfg(feature = "mistakes")]
pub use base::mistakes::make_mistake;
pub use base::upgrades::Launch;
pub use cache::opening::StoreError;
pub use cluster::new_cluster_key;
pub use exchange::stored;
pub use origin::{
    check_certificates, look_at_client_certificate, signing::source::look_at_credentials,
};
pub use record::metrics::DIAGNOSTICS_LOST;
pub use reload::{Reading, Reread};
pub use rules::zone::name_of_zone;
pub use serve::{
    Ready, ServeError, Stopper, Succession, serve, start, start_at, start_in_succession, start_on,
    start_reloadable,
};
pub use tls::certificates::{Shown, check_certificate, check_client_ca, look_at_certificate};
pub use upgrade::predecessor::Predecessor;
pub use user::UserError;
