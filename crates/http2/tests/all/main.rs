//! The crate against others: the `h2` crate as client, a client of frames written by hand, and links that deliver badly.

mod attacks;
mod hpack;
mod link;
mod oracle;
mod raw;
mod rules;
mod suite;
mod windows;
