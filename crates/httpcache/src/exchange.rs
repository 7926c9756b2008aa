//! What caching looks at of a request and its response.

use fields::Fields;

/// The part of a request that caching looks at.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method, case-sensitive.
    pub method: &'a str,
    /// Its header fields.
    pub fields: &'a Fields,
}

/// The part of a response that caching looks at.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// Its header fields.
    pub fields: &'a Fields,
}
