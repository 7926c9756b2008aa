//! The capacity of a cluster of caches with fronts: a queueing model.
//!
//! [`station`] has queues (M/G/1): utilization of a station, waiting time, and the capacity of a network of stations. [`cluster`] turns
//! costs (microseconds of a processor an event) and a mix of requests into such a network: nodes alone, fronts with hints, fronts
//! that handle only requests that cannot be cached, a cluster of equals. [`paper`] has the costs of paper 003, [`claims`] the
//! sentences of that paper that can be compared with the model. [`fit`] searches the unprinted costs that meet most of them.
//! [`own`] has the costs of Loligo, and [`pays`] compares the use of machines as fronts with other uses.
//!
//! Not known here: drawing, the command line, the proxy.
//! Limits: a model of means. Arrivals at every station are taken as Poisson, although behind a busy station with constant service they
//! are not. `tests/simulated.rs` compares with an event-by-event simulation and asserts the difference.
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
