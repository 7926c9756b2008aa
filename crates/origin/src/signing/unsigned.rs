//! Why a request cannot be signed, or its signature is refused; and the client's status for it.

/// Why a request that needs a signature fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsigned {
    /// There are no credentials, or they have ended.
    #[error("the proxy has no credentials for this origin")]
    NoCredentials,
    /// The store does not accept the credentials.
    #[error("the origin does not accept the proxy's credentials")]
    Refused,
    /// S1
    #[error("this origin is asked with the proxy's credentials, which are for GET and HEAD alone")]
    Method,
    /// S4
    #[error("the path has a segment . or .., and is not signed")]
    Path,
}

impl Unsigned {
    /// The status owed to the client.
    pub(crate) fn status(self) -> u16 {
        match self {
            Unsigned::NoCredentials => 503,
            Unsigned::Refused => 502,
            Unsigned::Method => 403,
            Unsigned::Path => 400,
        }
    }

    /// Seconds after which another try is worth while; `None`: unknown.
    pub(crate) fn retry_after_s(self) -> Option<u32> {
        (self == Unsigned::NoCredentials).then_some(5)
    }

    /// The token of RFC 9209.
    pub(crate) fn token(self) -> &'static str {
        match self {
            //= rfc9209 §2.3.30   an error unrelated to the origin
            Unsigned::NoCredentials => "proxy_internal_error",
            //= rfc9209 §2.3.29   an error regarding the configuration
            Unsigned::Refused => "proxy_configuration_error",
            //= rfc9209 §2.3.17   a policy about the request
            Unsigned::Method | Unsigned::Path => "http_request_denied",
        }
    }
}
