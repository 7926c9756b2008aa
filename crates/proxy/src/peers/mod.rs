//! Other proxies that are asked before, or in place of, the origin: parents and siblings ([`crate::plan::Parent`],
//! [`crate::plan::Sibling`]).
//!
//! A peer is known by its number: its place among the parents, or among the siblings, of the plan.
//!
//! Not known here: what is stored, what a client may have.
