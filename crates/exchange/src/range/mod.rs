//! Parts of large objects: fetching them, storing them, and remembering resources for which that fails.

pub mod fill;
pub mod fill_lock;
pub mod part;
pub mod pass_list;
pub mod validation;
