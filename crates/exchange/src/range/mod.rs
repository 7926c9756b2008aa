//! Parts of large objects: fetching them, storing them, and remembering where that does not work.

pub mod fill;
pub mod fill_lock;
pub mod part;
pub mod pass_list;
pub mod validation;
