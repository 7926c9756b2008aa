//! Tests from outside, in one program: it is linked once, and what waits in one of them holds up no other.

mod common;
mod engine;
mod faults;
mod loop_device;
mod model;
mod open;
