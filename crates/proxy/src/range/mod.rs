//! Parts of large objects: fetched, filled, joined.

pub mod fill;
pub mod fill_lock;
pub mod part;
pub mod pass_list;
