//! What the records of a store mean: for tools that look into a store while no proxy uses it.
//!
//! ```text
//! key of a resource    GET <URI> [TAB tag] [TAB by names]   the tag: under whose rules it was fetched, see `target`; the
//!                                                         names: what a cache rule makes part of the key, see `rulebook`
//! key of a variant     <resource> LF salt values    behind a marker, see `fetch`
//! key of a fragment    <object> NUL fetch number    see `disk`
//! ```
//!
//! Nothing here but what the tools need of the other files.

pub use crate::cache::disk::fragment_key;
pub use crate::cache::object::{Large, Object};
pub use crate::cache::opening::{manner, words};
pub use crate::cache::predicate::name as predicate_name;
pub use crate::cache::variant::variant_key;
pub use crate::request::target::KEY_PREFIX;
