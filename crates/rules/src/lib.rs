//! What the operator's rules say of a request, under which key its resource is stored, and which ports may be asked.
//!
//! Deciding only: who asks, and what is then done, is known above.
#![forbid(unsafe_code)]

pub mod key;
pub mod ports;
pub mod routing;
pub mod rulebook;
mod table;
pub mod zone;
