//! What is known of an encrypted connection, for logs.

use profile::access::Tls;
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection};

use super::x509::Facts;

/// Of one connection.
#[derive(Debug, Default)]
pub struct Seen {
    /// `TLSv1.3`
    pub version: &'static str,
    /// `TLS13_AES_256_GCM_SHA384`
    pub cipher: &'static str,
    /// The name that the client has asked for.
    pub name: Box<str>,
    /// Was an earlier session resumed?
    pub is_resumed: bool,
    /// The subject of the client's certificate, which was verified.
    pub client: Box<str>,
}

impl Seen {
    /// Of a connection whose handshake is complete.
    pub fn of(session: &ServerConnection) -> Seen {
        let subject = |der: &[u8]| Facts::of(der).map_or_else(String::new, |facts| facts.subject);
        let certificates = session.peer_certificates();
        let client = certificates.and_then(|chain| chain.first());
        Seen {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLS",
            },
            cipher: (session.negotiated_cipher_suite())
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or(""),
            name: session.server_name().unwrap_or("").into(),
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            client: client.map_or_else(String::new, |der| subject(der)).into(),
        }
    }

    /// As it is logged.
    pub fn logged(&self) -> Tls<'_> {
        Tls {
            version: self.version.as_bytes(),
            cipher: self.cipher.as_bytes(),
            name: self.name.as_bytes(),
            client: self.client.as_bytes(),
            is_resumed: self.is_resumed,
        }
    }
}
