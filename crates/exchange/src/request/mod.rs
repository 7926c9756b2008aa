//! One request: what it names, what the operator's rules say of it, and the way it takes.

pub mod asking;
pub mod believed;
pub mod body;
pub mod cached;
pub mod changing;
pub mod digest_serving;
pub mod exchange;
pub mod find;
pub mod finished;
pub mod forwarded;
pub mod handle;
pub mod head;
pub mod incoming;
pub mod methods;
pub mod named;
pub mod notes;
pub mod onward;
pub mod paying;
pub mod purge;
pub mod refusing;
pub mod ruling;
pub mod target;
pub mod toll;
pub mod wanted;
pub mod wanting;
