//! What is written down of requests: counters, labels, the access log, the profile.

pub mod journal;
pub mod labels;
pub mod metrics;
pub mod top;
