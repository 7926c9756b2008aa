//! What an answer consists of, and where its bytes come from.
//!
//! | file | story |
//! |---|---|
//! | `stored` | a stored object, or the part of it that is asked for |
//! | `arriving` | a response that a fetch is bringing |
//! | `spans` | the one loop: spans of a body, each from memory, disk, a fetch under way or the origin |
//! | `ahead` | the next fragments are read while one is sent |
//! | `multipart` | several parts in one body |
//!
//! Not known here: why this is answered (`request`), how a fetch runs (`fetch`), how an answer looks on the wire (`reply`).

pub mod ahead;
pub mod arriving;
pub mod multipart;
pub mod spans;
pub mod stored;
