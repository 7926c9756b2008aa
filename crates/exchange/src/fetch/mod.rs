//! Asking the origin: which requests share a fetch, how a fetch runs, which responses are stored, which are passed through.

pub mod ask;
pub mod collecting;
pub mod flight;
pub mod forwarding;
pub mod hit_for_pass;
pub mod interim;
pub mod members;
pub mod pass;
pub mod place;
pub mod prepare;
pub mod probing;
pub mod receiving;
pub mod response;
pub mod share;
pub mod siblings;
pub mod storing;
pub mod task;
pub mod upload;
pub mod uploads;
pub mod whom;
