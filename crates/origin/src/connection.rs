//! A connection to an origin: its destination, its stream, the errors of connecting, and the times that connecting took.
//!
//! Not known here: how a connection is made and kept.

use base::clock::Instant;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use plan::Http2;

use super::tls::Tls;
use super::tls_words::{Failed, TlsFault};

use base::access::Forbidden;
use base::member::{OfMember, Refusal};
use base::socket::Socket;

/// The server of a request, and the key of pooled connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// TLS to the origin (`https`).
    pub tls: bool,
    /// A name or an IP literal, lower case, IPv6 without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
    /// The cluster member that this is, and its listener; `None`: not a member.
    pub member: Option<OfMember>,
    /// TLS settings for this server alone; `None`: those for all others.
    pub terms: Option<Tls>,
    /// How HTTP/2 is used; `None`: HTTP/1.1 only.
    pub http2: Option<Http2>,
}

/// Usually two writes: hashing many small fields costs several times as much.
impl Hash for Destination {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.host.as_bytes());
        state.write_u64(u64::from(self.port) | u64::from(self.tls) << 16 | 1 << 32);
        if let Some(member) = &self.member {
            member.hash(state);
        }
        if let Some(terms) = &self.terms {
            terms.hash(state);
        }
        if let Some(http2) = &self.http2 {
            http2.hash(state);
        }
    }
}

impl Destination {
    /// Takes TLS and HTTP/2 settings from `other` if it is the same server, so that no other server is shown its certificate.
    pub fn as_of(self, other: &Destination) -> Destination {
        let is_same = (self.tls, self.port, &self.host) == (other.tls, other.port, &other.host);
        match is_same {
            true => Destination {
                terms: other.terms.clone(),
                http2: other.http2,
                ..self
            },
            false => self,
        }
    }

    /// The authority as in a Host field: IPv6 in brackets, the scheme's default port left out (RFC 9110 §4.2.3).
    pub fn as_authority(&self) -> String {
        let default_port = if self.tls { 443 } else { 80 };
        if self.port == default_port {
            if self.is_ipv6() {
                format!("[{}]", self.host)
            } else {
                self.host.to_string()
            }
        } else {
            self.as_host_and_port()
        }
    }

    /// `host:port`, IPv6 in brackets, the port always named.
    pub fn as_host_and_port(&self) -> String {
        let (host, port) = (&*self.host, Some(self.port));
        message::Authority { host, port }.to_text()
    }

    fn is_ipv6(&self) -> bool {
        self.host.contains(':')
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.as_authority())
    }
}

/// A connection to an origin, plain or TLS.
///
/// A TLS stream that ends without close_notify reads as `UnexpectedEof`: a body that ends there is cut short.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Tcp(Socket),
    /// TLS over TCP.
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// The socket underneath.
    pub fn tcp(&self) -> &Socket {
        match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Did the handshake of TLS agree on HTTP/2?
    pub(crate) fn has_agreed_on_h2(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    /// Is an idle connection open, with nothing to read? An end of stream or unexpected bytes make it useless. An
    /// event that the runtime has not yet received is not seen, so the connection can still turn out to be closed
    /// when it is used.
    ///
    /// One system call if the runtime has marked the socket readable, else none. TLS session tickets are read and do
    /// not count as unexpected.
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        match self {
            Self::Tcp(tcp) => {
                matches!(tcp.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Tls(tls) => {
                let mut buf = ReadBuf::new(&mut byte);
                let read = poll_fn(|cx| Pin::new(&mut *tls).poll_read(cx, &mut buf));
                // Unconstrained, because a task that has used up its budget gets "pending" for any socket.
                let read = pin!(tokio::task::unconstrained(read));
                read.poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            }
        }
    }

    /// The same, but asks the kernel now. One or two system calls.
    pub fn is_quiet_now(&mut self) -> bool {
        self.is_quiet() && !base::socket::is_readable(self.tcp())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

/// Why there is no connection. Cheap to copy to every waiter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name does not exist or has no address.
    #[error("the origin's name does not resolve to an address")]
    NotFound,
    /// The resolver failed (SERVFAIL, unreachable, too many questions at once).
    #[error("looking up the origin's name failed")]
    DnsFailed,
    /// The resolver did not answer in time.
    #[error("looking up the origin's name took too long")]
    DnsTimeout,
    /// The connection was refused.
    #[error("the origin refused the connection")]
    Refused,
    /// No route to any of the origin's addresses.
    #[error("there is no route to the origin")]
    Unroutable,
    /// The connection or the TLS handshake was not made in time.
    #[error("connecting to the origin took too long")]
    Timeout,
    /// The TLS handshake failed.
    #[error("TLS to the origin failed: {1}")]
    Tls(TlsFault, Arc<str>),
    /// A rule of `access` forbids it.
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    /// One of the two members has refused the other.
    #[error("{0}")]
    Member(#[from] Refusal),
    /// All connections to the destination are in use, and the queue is full or did not move.
    #[error("too many connections to this origin are in use")]
    Busy,
    /// This machine has no more sockets or ports.
    #[error("the proxy has no more sockets to connect with")]
    Exhausted,
    /// Any other error of the system.
    #[error("connecting to the origin failed: {0}")]
    Io(io::ErrorKind),
    /// It failed a moment ago and was not tried again.
    #[error("{0} (a moment ago; it was not tried again)")]
    Remembered(Arc<ConnectError>),
}

impl ConnectError {
    /// The status for the client.
    pub fn status(&self) -> u16 {
        match self {
            Self::NotFound | Self::DnsFailed | Self::Refused | Self::Unroutable => 502,
            Self::Tls(..) | Self::Io(_) | Self::Member(_) => 502,
            Self::DnsTimeout | Self::Timeout => 504,
            Self::Forbidden(_) => 403,
            //= rfc9209 §2.3.4   destination_unavailable: 503 is recommended
            Self::Busy | Self::Exhausted | Self::Remembered(_) => 503,
        }
    }

    /// Did looking up the name fail?
    pub fn is_of_name(&self) -> bool {
        match self {
            Self::NotFound | Self::DnsFailed | Self::DnsTimeout => true,
            Self::Remembered(error) => error.is_of_name(),
            _ => false,
        }
    }

    /// The text for a client. It contains nothing that the origin, its certificate or the system has said: those go to the log only.
    pub fn for_client(&self) -> String {
        match self {
            Self::Tls(..) => "TLS to the origin failed".to_owned(),
            Self::Io(_) | Self::Member(_) => "connecting to the origin failed".to_owned(),
            Self::Remembered(error) => {
                let words = error.for_client();
                format!("{words} (a moment ago; it was not tried again)")
            }
            other => other.to_string(),
        }
    }

    /// The proxy error type of RFC 9209 §2.3: a token, fit for `detail` in Cache-Status.
    pub fn detail_token(&self) -> &'static str {
        match self {
            Self::NotFound | Self::DnsFailed => "dns_error",
            Self::DnsTimeout => "dns_timeout",
            Self::Refused => "connection_refused",
            Self::Unroutable => "destination_ip_unroutable",
            Self::Timeout => "connection_timeout",
            Self::Tls(TlsFault::Certificate, _) => "tls_certificate_error",
            Self::Tls(TlsFault::Alert, _) => "tls_alert_received",
            Self::Tls(TlsFault::Protocol, _) => "tls_protocol_error",
            Self::Tls(TlsFault::NoRoots, _) => "proxy_configuration_error",
            Self::Forbidden(forbidden) => forbidden.detail_token(),
            Self::Busy => "connection_limit_reached",
            Self::Exhausted => "proxy_internal_error",
            Self::Io(_) | Self::Member(_) => "connection_terminated",
            Self::Remembered(_) => "destination_unavailable",
        }
    }
}

impl From<Failed> for ConnectError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Tls(fault, why) => Self::Tls(fault, why),
            Failed::Io(error) => error.into(),
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        // Errors without a stable kind are recognised by number.
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        match (error.kind(), error.raw_os_error()) {
            (_, Some(ENFILE | EMFILE)) => Self::Exhausted,
            // No free ephemeral port, or IPv6 switched off.
            (Kind::AddrNotAvailable | Kind::OutOfMemory, _) => Self::Exhausted,
            (Kind::ConnectionRefused, _) => Self::Refused,
            (Kind::TimedOut, _) => Self::Timeout,
            (Kind::NetworkUnreachable | Kind::HostUnreachable | Kind::NetworkDown, _) => {
                Self::Unroutable
            }
            // The answer of a local packet filter.
            (Kind::PermissionDenied, _) => Self::Unroutable,
            (kind, _) => Self::Io(kind),
        }
    }
}

/// When each step of connecting began and ended. A step that was not needed has no time.
#[derive(Clone, Default, Debug)]
pub struct ConnectTimes {
    /// The wait for a slot at a destination's bound.
    pub queue: Option<(Instant, Instant)>,
    /// The name look-up; none for literals and pooled connections.
    pub dns: Option<(Instant, Instant)>,
    /// TCP and TLS, successful or not; none for pooled connections.
    pub connect: Option<(Instant, Instant)>,
    /// When TCP was connected and TLS, if any, began.
    pub tcp: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(tls: bool, host: &str, port: u16) -> Destination {
        Destination {
            tls,
            host: host.into(),
            port,
            member: None,
            terms: None,
            http2: None,
        }
    }

    #[test]
    fn authorities_leave_out_the_default_port() {
        assert_eq!(
            destination(false, "example.org", 80).as_authority(),
            "example.org"
        );
        assert_eq!(
            destination(false, "example.org", 443).as_authority(),
            "example.org:443"
        );
        assert_eq!(
            destination(true, "example.org", 443).as_authority(),
            "example.org"
        );
        assert_eq!(
            destination(true, "2001:db8::1", 443).as_authority(),
            "[2001:db8::1]"
        );
        assert_eq!(
            destination(true, "2001:db8::1", 8443).to_string(),
            "https://[2001:db8::1]:8443"
        );
        assert_eq!(
            destination(true, "::1", 443).as_host_and_port(),
            "[::1]:443"
        );
    }

    #[test]
    fn every_error_has_a_status_a_sentence_and_a_token() {
        let all = [
            ConnectError::NotFound,
            ConnectError::DnsFailed,
            ConnectError::DnsTimeout,
            ConnectError::Refused,
            ConnectError::Unroutable,
            ConnectError::Timeout,
            ConnectError::Tls(TlsFault::Certificate, "expired".into()),
            ConnectError::Tls(TlsFault::NoRoots, "none".into()),
            ConnectError::Forbidden(Forbidden::Loopback),
            ConnectError::Forbidden(Forbidden::OwnListener),
            ConnectError::Busy,
            ConnectError::Exhausted,
            ConnectError::Io(io::ErrorKind::ConnectionReset),
            ConnectError::Remembered(Arc::new(ConnectError::Refused)),
        ];
        for error in all {
            assert!([403, 502, 503, 504].contains(&error.status()), "{error:?}");
            let told = error.for_client();
            assert!(!told.is_empty() && !told.contains("expired"), "{told}");
            assert!(
                error
                    .detail_token()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{error:?}"
            );
        }
    }
}
