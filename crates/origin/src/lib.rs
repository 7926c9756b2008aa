//! Connections to origins: from a destination to a stream that is ready for a request.
//!
//! ```text
//!   Connector::lease ──> Pool::checkout (newest first) ──────────────────────────> Lease
//!          └─ none ────> a slot (bound per destination) > dns > access > connect > tls ─┘
//! ```
//!
//! A [`Lease`] is the right to one connection and is counted while it lives. [`Lease::reuse`] puts the connection
//! back, dropping the lease closes it, so no path can forget to count.
//!
//! `connection` has what all of them speak of: [`Destination`], [`Stream`], [`ConnectError`], [`ConnectTimes`]. `dns` turns names
//! into addresses, `inward` tells which are this machine's own, `connect` makes TCP connections, `race` to several addresses of a name, `tls` encrypts them and `listed` judges certificates,
//! `pool` keeps them, `h2` speaks HTTP/2 on those that many requests share, `habits` tells for how long origins do, `failures` remembers destinations that could not be reached; `leasing` says which one a request goes out on, `upstream` asks, by `writing`, with a `context`, signed if the origin wants it (`signing`), and the answer's `body` follows; `once` is all of that for one small answer; `trip` notes what asking takes, for the record of a request.
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
