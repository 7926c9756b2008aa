//! The crate against others: the `h2` crate as client and as server, clients and servers of frames written by hand, and links that
//! deliver badly.

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
