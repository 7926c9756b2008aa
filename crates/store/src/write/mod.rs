//! From a record to its place: clusters, locality, the frontier.

pub mod cluster;
pub mod companions;
pub mod frontier;
pub mod gather;
pub mod insert;
pub mod locality;
pub mod protected;
pub mod waiting;
pub mod writer;
