//! What an answer consists of and where its bytes come from: stored objects, responses under way, parts of several ranges.

pub mod multipart;
