//! What goes back to the client: heads, bodies from memory and disk, parts of several ranges.

pub mod answer;
pub mod interim;
pub mod pieces;
pub mod rest;
