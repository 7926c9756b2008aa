//! What the records of a store mean: for tools that look into a store while no proxy uses it.
//!
//! The forms of keys are in `request::key`.
//!
//! Nothing here but what the tools need of the other files.

pub use cache::object::{Large, Object};
pub use cache::opening::{manner, words};
pub use cache::predicate::name as predicate_name;
pub use rules::key::{KEY_PREFIX, fragment_key, hash_of_key, name_of_key, variant_key};
