//! What was typed and written becomes a plan.

pub mod draft;
pub mod explain;
pub mod into_plan;
pub mod machine;
#[cfg(test)]
mod mistakes;
pub mod own;
pub mod problem;
pub mod raw;
pub mod reference;
pub mod rules;
pub mod settings;
pub mod shadowed;
pub mod stores;
pub mod surroundings;
pub mod table;
#[cfg(test)]
pub mod testing;
