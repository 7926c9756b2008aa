//! Numbers of values, and the kinds of conditions that have them.
//!
//! Not known here: what the values are.

use smallvec::SmallVec;

/// The numbers of the values that were found.
pub type Found = SmallVec<[u32; 4]>;

/// A kind of condition; [`FIELDS`] and what follows are about fields.
pub type Kind = u32;

pub const HOST: Kind = 0;
pub const PATH: Kind = 1;
pub const CLIENT: Kind = 2;
pub const QUERY: Kind = 3;
pub const METHOD: Kind = 4;
pub const PORT: Kind = 5;
pub const SCHEME: Kind = 6;
pub const LISTENER: Kind = 7;
pub const TIME: Kind = 8;
/// Costs most, so it is the key of a rule only where nothing else is.
pub const HOST_LIST: Kind = 9;
/// The first of those about fields.
pub const FIELDS: Kind = 10;

/// Numbers a new value.
pub type Next<'a> = &'a mut dyn FnMut() -> u32;
