//! What several targets need: the slow twin of HPACK.
#![forbid(unsafe_code)]

pub mod hpack;
