//! The crate against others: the `h2` crate as client and as server, clients and servers with hand-written frames, and links that
//! split and delay the bytes.

mod attacks;
mod client;
mod hpack;
mod link;
mod oracle;
mod oracle_client;
mod pair;
mod raw;
mod rules;
mod suite;
mod windows;
