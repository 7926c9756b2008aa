//! A robot's connection: TCP, or TLS over it.
//!
//! Reads and writes do not block, as with `TcpStream`. Robots accept every certificate, because the proxy's bytes are tested and not its
//! identity. Sessions are resumed, as browsers do.
//!
//! Not known here: HTTP.   Limits: those of `rustls`, whose buffers hold a record each way.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;

/// The TLS configuration of all connections, with the sessions to resume.
pub(super) fn encryption() -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let anyone = Arc::new(Anyone(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .dangerous()
        .with_custom_certificate_verifier(anyone)
        .with_no_client_auth();
    Arc::new(config)
}

/// A connection; see the module.
pub(super) struct Stream {
    tcp: TcpStream,
    tls: Option<RefCell<Box<ClientConnection>>>,
}

impl Stream {
    /// A plain TCP connection.
    pub(super) fn plain(tcp: TcpStream) -> Stream {
        Stream { tcp, tls: None }
    }

    /// TLS, after a handshake with the proxy at this address.
    pub(super) async fn encrypted(
        tcp: TcpStream,
        config: &Arc<ClientConfig>,
        address: IpAddr,
    ) -> io::Result<Stream> {
        let name = ServerName::IpAddress(address.into());
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let stream = Stream {
            tcp,
            tls: Some(RefCell::new(Box::new(session))),
        };
        while stream.is_shaking() {
            stream.flush().await?;
            match stream.try_read(&mut []) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
                Ok(_) if !stream.is_shaking() => {}
                Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            }
            // The peer's handshake messages come first.
            if stream.is_shaking() && !stream.wants_write() {
                stream.tcp.readable().await?;
            }
        }
        stream.flush().await?;
        Ok(stream)
    }

    fn is_shaking(&self) -> bool {
        (self.tls.as_ref()).is_some_and(|tls| tls.borrow().is_handshaking())
    }

    fn wants_write(&self) -> bool {
        (self.tls.as_ref()).is_some_and(|tls| tls.borrow().wants_write())
    }

    /// Waits until bytes arrive. Call it only after `try_read` returned `WouldBlock`.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.tcp.readable().await
    }

    /// Reads bytes that have arrived; 0 at the end; `WouldBlock` if there are none yet.
    pub(super) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            return self.tcp.try_read(into);
        };
        let tls = &mut **tls.borrow_mut();
        loop {
            if !tls.is_handshaking() {
                match tls.reader().read(into) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    // The peer closed without close_notify. A truncated body is detected by its length.
                    Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
            }
            if tls.read_tls(&mut Tcp(&self.tcp))? == 0 && tls.is_handshaking() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let processed = tls.process_new_packets();
            processed.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            if tls.is_handshaking() && tls.wants_write() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Writes the whole message.
    pub(super) async fn write_all(&self, message: &[u8]) -> io::Result<()> {
        let mut left = message;
        while !left.is_empty() {
            let written = match &self.tls {
                Some(tls) => {
                    let written = tls.borrow_mut().writer().write(left);
                    self.flush().await?;
                    written
                }
                None => self.tcp.try_write(left),
            };
            match written {
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.tcp.writable().await?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    async fn flush(&self) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        while tls.borrow().wants_write() {
            let written = tls.borrow_mut().write_tls(&mut Tcp(&self.tcp));
            match written {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.tcp.writable().await?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

struct Tcp<'a>(&'a TcpStream);

impl Read for Tcp<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Tcp<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
