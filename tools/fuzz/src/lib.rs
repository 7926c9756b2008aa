//! What several targets need: the slow twin of HPACK.

pub mod hpack;
