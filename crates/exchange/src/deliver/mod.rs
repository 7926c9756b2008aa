//! Composes an answer, and finds the source of its bytes.
//!
//! | file | contents |
//! |---|---|
//! | `stored` | a stored object, or the requested part of it |
//! | `arriving` | a response that a fetch is receiving |
//! | `spans` | the one loop: spans of a body, each from memory, disk, a fetch in progress or the origin |
//! | `ahead` | reading the next fragments while one is sent |
//! | `multipart` | several parts in one body |
//!
//! Not known here: the choice of the answer (`request`), how a fetch runs (`fetch`), the wire format (`reply`).

pub mod ahead;
pub mod arriving;
pub mod multipart;
pub mod spans;
pub mod stored;
