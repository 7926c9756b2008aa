//! Numbers of values, and the kinds of conditions that have them.
//!
//! Not known here: the meaning of the values.

use smallvec::SmallVec;

/// The numbers of the values that match.
pub type Found = SmallVec<[u32; 4]>;

/// A kind of condition; from [`FIELDS`] on, one kind for each field.
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
/// The most expensive kind, so it is the key of a rule only if the rule has no better one.
pub const HOST_LIST: Kind = 9;
/// The first kind about a field.
pub const FIELDS: Kind = 10;

/// Numbers a new value.
pub type Next<'a> = &'a mut dyn FnMut() -> u32;
