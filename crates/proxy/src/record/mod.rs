//! Counters, labels, access log and profile.

pub mod facts;
pub mod journal;
pub mod labels;
pub mod metrics;
pub mod top;
