//! The effects of the operator's rules on a request, the key under which its resource is stored, and the ports that may be asked.
//!
//! This crate only decides; the crates above it supply the request and carry the decision out.
#![forbid(unsafe_code)]

pub mod key;
pub mod ports;
pub mod routing;
pub mod rulebook;
mod table;
pub mod zone;
