//! One request: the resource it names, the operator's rules for it, and its steps.

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
