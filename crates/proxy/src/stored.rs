//! What the records of a store mean: for tools that look into a store while no proxy uses it.
//!
//! ```text
//! name                 GET <URI>                           its hash is the primary hash
//! key of a resource    <name> [TAB tag]                    the tag: how it was reached, see `request::key`; found by the primary hash
//! key of a variant     <resource> LF salt values extras    behind a marker, see `fetch`; extras: what a cache rule adds, see
//!                                                          `rulebook`; found by the hash of all of it
//! key of a fragment    <object> NUL fetch number           see `disk`; the same
//! ```
//!
//! Nothing here but what the tools need of the other files.

pub use crate::cache::disk::fragment_key;
pub use crate::cache::object::{Large, Object};
pub use crate::cache::opening::{manner, words};
pub use crate::cache::predicate::name as predicate_name;
pub use crate::fetch::task::variant_key;
pub use crate::request::key::{KEY_PREFIX, hash_of_key, name_of_key};
