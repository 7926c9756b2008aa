//! Connections to origins: from a destination to a stream that is ready for a request.
//!
//! ```text
//!   Connector::lease ──> Pool::checkout (newest first) ──────────────────────────> Lease
//!          └─ none ────> a slot (bound per destination) > dns > access > connect > tls ─┘
//! ```
//!
//! A [`Lease`] is the right to one connection and is counted while it lives. [`Lease::reuse`] puts the connection
//! back; dropping the lease closes the connection, so that the count is right on every path.
//!
//! `connection` has the shared types ([`Destination`], [`Stream`], [`ConnectError`], [`ConnectTimes`]). Connecting: `dns`, `inward` (own addresses),
//! `connect`, `race` (several addresses), `tls`, `listed` (certificates), `pool`, `h2`, `habits` (idle times), `failures` (remembered). A request:
//! `leasing` (its connection), `upstream` with `writing` and `context`, `signing`, `body`; `once` (one small answer); `trip` (times, for the record).
//!
//! Everything belongs to one worker (`Rc`, no locks); only [`Tls`], the trusted roots, is shared by all.
//!
//! Not known here: HTTP. The caller knows whether the last answer was complete.
#![forbid(unsafe_code)]

pub mod body;
mod both;
mod connect;
mod connection;
mod context;
mod dns;
mod failures;
mod h2;
mod habits;
mod inward;
mod leasing;
mod listed;
pub mod once;
mod origins_tls;
pub mod outcome;
pub mod pem;
mod pool;
mod race;
pub mod signing;
mod tls;
mod tls_words;
pub mod trip;
mod trust;
pub mod upstream;
pub mod writing;

pub use connect::{Connector, Settings};
pub use connection::{ConnectError, ConnectTimes, Destination, Stream};
pub use context::{BodyFilter, Introduced, Introduction, OriginContext, OriginWaits, Verdict};
pub use dns::{DnsSettings, Found, Resolver, Service};
pub use origins_tls::{OriginsTls, look_at_client_certificate};
pub use pool::{Lease, Limits};
pub use tls::{Tls, check_certificates};
pub use tls_words::TlsFault;
