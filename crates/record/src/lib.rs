//! Counters, labels, access log and profile.
#![forbid(unsafe_code)]

pub mod buckets;
pub mod events;
pub mod facts;
pub mod journal;
pub mod kernel;
pub mod labels;
pub mod lag;
pub mod lines;
pub mod live;
pub mod metrics;
pub mod origins;
pub mod protocols;
pub mod rule_counts;
pub mod seldom;
pub mod sketch;
pub mod target;
pub mod top;
