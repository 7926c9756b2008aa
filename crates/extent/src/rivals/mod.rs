//! Other ways to manage the same space, behind the same trait, to be measured against.

pub(crate) mod best_fit;
pub(crate) mod buddy;
pub(crate) mod first_fit;
pub(crate) mod linear_merge;
pub(crate) mod tree_merge;
