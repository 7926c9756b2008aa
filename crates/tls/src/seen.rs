//! Facts about an encrypted connection, for logs.

use profile::{Encryption, access::Tls};
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use super::session::Session;
use base::x509::Facts;

/// The facts of one connection.
#[derive(Debug, Default)]
pub struct Seen {
    /// The version of TLS, and whether an earlier session was resumed.
    pub encryption: Encryption,
    /// `TLS13_AES_256_GCM_SHA384`
    pub cipher: &'static str,
    /// The name that the client asked for.
    pub name: Box<str>,
    /// The subject of the client's verified certificate.
    pub client: Box<str>,
}

impl Seen {
    /// Reads the facts of a connection whose handshake is complete.
    pub fn of(session: &mut Session) -> Seen {
        let name = session.take_name().unwrap_or_default();
        let agreed = session.agreed();
        let subject = |der: &[u8]| Facts::of(der).map_or_else(String::new, |facts| facts.subject);
        let certificates = agreed.peer_certificates();
        let client = certificates.and_then(|chain| chain.first());
        Seen {
            encryption: encryption_of(agreed),
            cipher: (agreed.negotiated_cipher_suite())
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or(""),
            name,
            client: client.map_or_else(String::new, |der| subject(der)).into(),
        }
    }

    /// In the form of the access log.
    pub fn logged(&self) -> Tls<'_> {
        Tls {
            version: self.encryption.version().as_bytes(),
            cipher: self.cipher.as_bytes(),
            name: self.name.as_bytes(),
            client: self.client.as_bytes(),
            is_resumed: self.encryption.is_resumed(),
        }
    }
}

/// There are no other versions: `rustls` speaks 1.2 and 1.3.
fn encryption_of(agreed: &CommonState) -> Encryption {
    let is_resumed = agreed.handshake_kind() == Some(HandshakeKind::Resumed);
    match (agreed.protocol_version(), is_resumed) {
        (Some(ProtocolVersion::TLSv1_2), false) => Encryption::Tls12,
        (Some(ProtocolVersion::TLSv1_2), true) => Encryption::Tls12Resumed,
        (_, false) => Encryption::Tls13,
        (_, true) => Encryption::Tls13Resumed,
    }
}
