//! Ranges of what is not stored, or not wholly.

pub mod fill;
pub mod fill_lock;
pub mod join;
pub mod part;
pub mod pass_list;
pub mod send;
