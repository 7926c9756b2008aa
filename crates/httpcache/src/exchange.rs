//! The parts of a request and its response that matter to caching.

use fields::Fields;

/// The part of a request that matters to caching.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method, case-sensitive.
    pub method: &'a str,
    /// Its header fields.
    pub fields: &'a Fields,
}

/// The part of a response that matters to caching.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// Its header fields.
    pub fields: &'a Fields,
}
