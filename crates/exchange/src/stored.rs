//! The formats of a store's records, for tools that look into a store while no proxy uses it.
//!
//! The forms of keys are in `rules::key`.
//!
//! This file only re-exports the parts of other files that the tools need.

pub use cache::object::{Large, Object};
pub use cache::opening::{manner, words};
pub use cache::predicate::name as predicate_name;
pub use rules::key::{KEY_PREFIX, fragment_key, hash_of_key, name_of_key, variant_key};
