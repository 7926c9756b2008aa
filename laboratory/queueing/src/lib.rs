//! What a cluster of caches with fronts can carry: a model of stations with queues.
//!
//! [`station`] knows queues (M/G/1): how busy a station is, how long its queue is, which rate a network of stations stands.
//! [`cluster`] turns costs (microseconds of a processor an event) and a mix of requests into such a network: nodes alone,
//! fronts that know what nodes hold, fronts that take only what cannot be cached, a cluster of equals. [`paper`] has the
//! costs of paper 003, [`claims`] the sentences of that paper which can be held against the model, [`fit`] looks for the
//! unprinted costs that meet most of them. [`own`] has the costs of Loligo, and [`pays`] says where a front pays.
//!
//! Not known here: drawing, the command line, the proxy.
//! Limits: a model in the mean. Arrivals at every station are taken as Poisson, which they are not behind a busy station with
//! constant service; `tests/simulated.rs` compares with an event-by-event simulation and says how far off that is.
//! Source: paper 003, section 3.
#![forbid(unsafe_code)]

pub mod claims;
pub mod cluster;
pub mod fit;
pub mod own;
pub mod paper;
mod parameters;
pub mod pays;
pub mod station;

pub use parameters::Parameter;
