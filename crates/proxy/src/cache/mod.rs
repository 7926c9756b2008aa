//! The two tiers, memory and disk, and the thread that does what the stores need done in the background.

pub mod background;
pub mod disk;
pub mod elevator;
pub mod find;
pub mod fragments;
pub mod holding;
pub mod holes;
mod keeping;
pub mod lazy;
pub mod memory;
pub mod object;
pub mod opening;
pub mod parts;
pub mod predicate;
pub mod preloaded;
mod purged;
pub mod room;
pub mod written;
