//! Why an origin gave no answer, or not all of one.

use std::{io, sync::Arc};

use http1::Reject;
use http2::{ErrorCode, Fault};

use crate::{connection::ConnectError, signing::unsigned::Unsigned, tls_words};
use plan::Mirroring;

/// Interim responses before one answer; with more it counts as malformed.
pub const INTERIM_MAX: usize = 16;

/// Why there is no (complete) answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// Closed or reset before the answer was complete.
    #[error("the origin closed the connection: {0}")]
    Closed(io::Error),
    /// Nothing came for too long.
    #[error("the origin did not answer in time")]
    Timeout,
    /// The answer breaks RFC 9112.
    #[error("the origin's answer is malformed: {0}")]
    Malformed(#[from] Reject),
    /// The answer breaks RFC 9113.
    #[error("the origin's answer is malformed: {0}")]
    Http2(Fault),
    /// The origin reset the stream.
    #[error("the origin reset the request's stream: {0}")]
    Reset(ErrorCode),
    /// The origin has not taken the request: it was shutting down, or overloaded. Any request may be sent again, whatever its method.
    #[error("the origin did not take the request")]
    Unprocessed,
    /// The proxy has no room for the head of the answer. The answer itself is not at fault.
    #[error("the proxy has no room for the head of the origin's answer")]
    Crowded,
    /// A tunnel was refused, with this status.
    #[error("the origin refused a tunnel with status {0}")]
    Refused(u16),
    /// Redirects that lead nowhere.
    #[error("the origin redirects more than {} times", Mirroring::REDIRECTS_MAX)]
    Redirects,
    /// The body has another digest than its path says.
    #[error("the origin's answer has another digest than its path says")]
    Digest,
    /// No server of the upstream is up.
    #[error("no server of the upstream {upstream} is up")]
    NoServer {
        /// The upstream's name.
        upstream: Arc<str>,
        /// Seconds until one may be up again.
        back_in_s: u32,
    },
    /// The request should be signed, but it cannot be, or the origin refused the signature.
    #[error("{0}")]
    Unsigned(#[from] Unsigned),
    /// A request to another proxy, in place of the origin, failed.
    #[error("{}", error.to_string().replace("the origin", &format!("the parent {name}")))]
    Peer {
        /// The peer's name.
        name: Arc<str>,
        /// The error of that request.
        error: Box<UpstreamError>,
    },
}

impl UpstreamError {
    /// Is this proxy the cause, rather than the server?
    pub fn is_ours(&self) -> bool {
        use ConnectError::{Busy, Exhausted, Forbidden, Remembered};
        matches!(
            self,
            UpstreamError::Connect(Forbidden(_) | Busy | Exhausted | Remembered(_))
                | UpstreamError::Crowded
                | UpstreamError::Unsigned(_)
        )
    }

    /// The code with which the origin reset the stream, if it did.
    pub fn reset_code(&self) -> Option<ErrorCode> {
        match self {
            UpstreamError::Reset(code) => Some(*code),
            UpstreamError::Peer { error, .. } => error.reset_code(),
            _ => None,
        }
    }

    /// May the request go to another server? Not if it is forbidden here, if there is no room here, or after a parent has refused it. After a
    /// time-out only if the request changes nothing (`is_safe`), because the first server may still carry it out.
    pub fn may_go_on(&self, is_safe: bool) -> bool {
        match self {
            UpstreamError::Connect(ConnectError::Forbidden(_)) => false,
            UpstreamError::Refused(_) | UpstreamError::Crowded => false,
            UpstreamError::NoServer { .. } | UpstreamError::Unsigned(_) => false,
            UpstreamError::Timeout => is_safe,
            UpstreamError::Peer { error, .. } => error.may_go_on(is_safe),
            _ => true,
        }
    }

    /// The status owed to the client.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::Connect(error) => error.status(),
            UpstreamError::Timeout => 504,
            UpstreamError::Closed(_) | UpstreamError::Malformed(_) | UpstreamError::Crowded => 502,
            UpstreamError::Http2(_) | UpstreamError::Reset(_) => 502,
            UpstreamError::Unprocessed => 503,
            UpstreamError::Redirects | UpstreamError::Digest => 502,
            UpstreamError::Refused(status @ (403 | 503 | 504)) => *status,
            UpstreamError::Refused(_) => 502,
            UpstreamError::NoServer { .. } => 503,
            UpstreamError::Unsigned(error) => error.status(),
            UpstreamError::Peer { error, .. } => error.status(),
        }
    }

    /// The text for a client, with the token of RFC 9209. It names no other machine, and repeats nothing that an origin has sent:
    /// such details go to the log only.
    pub fn for_client(&self) -> String {
        format!("{} ({})", self.words(), self.token())
    }

    fn words(&self) -> String {
        match self {
            UpstreamError::Connect(error) => error.for_client(),
            UpstreamError::Closed(error) if tls_words::is_alert(error) => {
                "TLS to the origin failed".to_owned()
            }
            UpstreamError::Closed(_) => "the origin closed the connection".to_owned(),
            UpstreamError::NoServer { .. } => "no server of the origin is up".to_owned(),
            UpstreamError::Peer { error, .. } => error.words().replace("the origin", "a parent"),
            other => other.to_string(),
        }
    }

    /// Seconds after which another try is worth while; `None`: unknown.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            UpstreamError::NoServer { back_in_s, .. } => Some(*back_in_s),
            UpstreamError::Unsigned(error) => error.retry_after_s(),
            _ => None,
        }
    }

    /// A token for Cache-Status `detail`, from the registry of RFC 9209 where it has one.
    pub fn token(&self) -> &'static str {
        match self {
            UpstreamError::Connect(error) => error.detail_token(),
            //= rfc9209 §2.3.15   in TLS 1.3 our certificate is refused when the handshake is over for us
            UpstreamError::Closed(error) if tls_words::is_alert(error) => "tls_alert_received",
            UpstreamError::Closed(_) => "connection_terminated",
            UpstreamError::Timeout => "connection_read_timeout",
            UpstreamError::Http2(_) => "http_protocol_error",
            UpstreamError::Reset(_) => "connection_terminated",
            UpstreamError::Unprocessed => "destination_unavailable",
            UpstreamError::Malformed(_) | UpstreamError::Redirects | UpstreamError::Digest => {
                "http_protocol_error"
            }
            //= rfc9209 §2.3.30   the intermediary's own limits
            UpstreamError::Crowded => "proxy_internal_error",
            UpstreamError::Refused(_) => "http_request_denied",
            UpstreamError::NoServer { .. } => "destination_unavailable",
            UpstreamError::Unsigned(error) => error.token(),
            UpstreamError::Peer { error, .. } => error.token(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls_words::TlsFault;

    #[test]
    fn a_client_gets_the_word_and_no_name() {
        let tls = |fault| {
            let said = "certificate is only valid for DnsName(\"other.test\")";
            ConnectError::Tls(fault, said.into())
        };
        let of_parent = |error| UpstreamError::Peer {
            name: "inner.test".into(),
            error: Box::new(error),
        };
        let remembered = ConnectError::Remembered(Arc::new(tls(TlsFault::Certificate)));
        let said = || io::Error::other("inner.test:8080 said 10:15:12");
        for (error, word) in [
            (tls(TlsFault::Certificate).into(), "tls_certificate_error"),
            (tls(TlsFault::Alert).into(), "tls_alert_received"),
            (remembered.into(), "destination_unavailable"),
            (UpstreamError::Closed(said()), "connection_terminated"),
            (
                of_parent(UpstreamError::Closed(said())),
                "connection_terminated",
            ),
            (
                of_parent(tls(TlsFault::Protocol).into()),
                "tls_protocol_error",
            ),
            (
                UpstreamError::NoServer {
                    upstream: "inner.test".into(),
                    back_in_s: 1,
                },
                "destination_unavailable",
            ),
        ] {
            let told = error.for_client();
            assert!(told.ends_with(&format!("({word})")), "{told}");
            assert!(!told.contains(".test") && !told.contains("10:15"), "{told}");
        }
    }
}
