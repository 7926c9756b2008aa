//! HPACK: field blocks (RFC 7541).
//!
//! | file | story |
//! |---|---|
//! | `constant` | the static table |
//! | `table` | the dynamic table of what a peer sends |
//! | `note` | the meaning of a field, found once and kept in the tables |
//! | `integer` | integers with a prefix |
//! | `decode` | a block to fields |
//! | `encode` | fields to a block, without a dynamic table |

mod constant;
mod decode;
mod encode;
mod integer;
mod note;
mod table;

pub use decode::{BadBlock, Decoder};
pub use encode::{RequestLine, write_field, write_lines, write_request, write_status};
pub use note::{Field, Kind};
