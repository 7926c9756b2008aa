//! The storage lab: which layout should the disk side of a proxy cache use?
//!
//! A trace of requests ([`Access`]) goes through a memory cache and a disk cache, as in a proxy. The resulting disk requests
//! ([`DiskRequest`]) go to a file-space manager, which lays the objects out on a disk, real or modelled.
//!
//! [`hints`] measures another system, that of paper 003: how well a front knows the contents of the caches behind it.
//!
//! Source: paper 002, section 3.1 (method); paper 003, section 4.
#![forbid(unsafe_code)]

pub mod cache;
pub mod disks;
pub mod generate;
pub mod hints;
pub mod layouts;
pub mod managers;
pub mod paper;
pub mod policies;
pub mod requests;
pub mod trace;
pub mod versions;

/// A request of a trace: the fields that matter to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Milliseconds since the beginning of the trace.
    pub at_ms: u64,
    /// The URL's number: equal for equal URLs, in the order of their first appearance.
    pub object: u32,
    /// The number of the URL's server: equal for equal servers, in the order of their first appearance.
    pub server: u32,
    /// Size of the response.
    pub size_bytes: u32,
}

/// The operation of a [`DiskRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOp {
    /// The object is read whole: a disk hit.
    Read,
    /// The object is new and written whole: a miss.
    Write,
    /// The object leaves the cache.
    Delete,
}

/// A request to a file-space manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// The operation.
    pub op: DiskOp,
    /// The object's number, as in [`Access`].
    pub object: u32,
    /// The number of its server.
    pub server: u32,
    /// Its size.
    pub size_bytes: u32,
}
