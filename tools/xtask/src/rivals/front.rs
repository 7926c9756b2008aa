//! The listener that a bench measures if clients speak TLS or HTTP/2. It is a second listener of the server; the cache is filled through
//! the plain one.
//!
//! All servers present the same kind of certificate, made for the run, which clients are told to trust.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{During, Result, fail};

/// What clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1
    H1,
    /// HTTP/1.1 over TLS
    Tls,
    /// HTTP/2 by prior knowledge, without TLS
    H2c,
    /// HTTP/2 over TLS
    H2,
}

impl Protocol {
    /// How it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::Tls => "tls",
            Self::H2c => "h2c",
            Self::H2 => "h2",
        }
    }

    /// Does this protocol use TLS?
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::H2)
    }

    /// Does a connection carry several requests at a time?
    pub fn has_streams(self) -> bool {
        matches!(self, Self::H2c | Self::H2)
    }
}

/// The kind of key that a certificate has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// ECDSA with P-256
    #[default]
    P256,
    /// RSA of 2048 bits
    Rsa2048,
}

impl KeyKind {
    /// How it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

/// The listener that is measured.
#[derive(Debug, Clone)]
pub struct Front {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub certificate: Certificate,
}

/// Files of a certificate and its key, PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub chain: PathBuf,
    pub key: PathBuf,
    /// Certificate and key in one file, as HAProxy wants them.
    pub both: PathBuf,
}

impl Certificate {
    /// The files in a run directory.
    pub fn of(run: &Path) -> Self {
        Self {
            chain: run.join("certificate.pem"),
            key: run.join("key.pem"),
            both: run.join("both.pem"),
        }
    }

    /// Makes certificate and key.
    pub fn make(&self, kind: KeyKind) -> Result<()> {
        let key: &[&str] = match kind {
            KeyKind::P256 => &["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
            KeyKind::Rsa2048 => &["rsa:2048"],
        };
        let output = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "30", "-newkey"])
            .args(key)
            .args(["-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&self.key)
            .arg("-out")
            .arg(&self.chain)
            .output()
            .during(|| "running openssl".into())?;
        if !output.status.success() {
            fail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
        }
        let read =
            |path: &Path| fs::read_to_string(path).during(|| format!("reading {}", path.display()));
        let both = read(&self.chain)? + &read(&self.key)?;
        fs::write(&self.both, both).during(|| format!("writing {}", self.both.display()))
    }
}

/// A second `listen` of nginx. Versions before 1.25 can configure HTTP/2 only in this way.
pub(super) fn of_nginx(front: &Front) -> String {
    let Front {
        address,
        protocol,
        certificate,
    } = front;
    let encrypted = if protocol.is_encrypted() { " ssl" } else { "" };
    let streams = if protocol.has_streams() { " http2" } else { "" };
    let mut text = format!("    listen {address}{encrypted}{streams} reuseport backlog=4096;\n");
    if protocol.is_encrypted() {
        text.push_str(&format!(
            "    ssl_certificate {};\n    ssl_certificate_key {};\n    ssl_protocols TLSv1.2 TLSv1.3;\n",
            certificate.chain.display(),
            certificate.key.display()
        ));
    }
    text
}

/// A second `bind` of HAProxy.
pub(super) fn of_haproxy(front: &Front) -> String {
    let how = match front.protocol {
        Protocol::H1 => String::new(),
        Protocol::H2c => " proto h2".into(),
        Protocol::Tls => format!(
            " ssl crt {} alpn http/1.1",
            front.certificate.both.display()
        ),
        Protocol::H2 => format!(" ssl crt {} alpn h2", front.certificate.both.display()),
    };
    format!("  bind {}{how} backlog 4096\n", front.address)
}

/// Loligo's configuration of both listeners; all other settings are flags.
pub fn of_loligo(front: &Front, plain: SocketAddr, origin: SocketAddr) -> String {
    let listener = |address: SocketAddr, more: &str| {
        format!(
            "[[listener]]\naddress = \"{address}\"\norigin = \"http://{origin}\"\nclient-directives = \"obey\"\n{more}\n"
        )
    };
    let mut more = String::new();
    if front.protocol == Protocol::H2c {
        more.push_str("http2 = true\n");
    }
    if front.protocol.is_encrypted() {
        more.push_str(&format!(
            "tls = \"{},{}\"\n",
            front.certificate.chain.display(),
            front.certificate.key.display()
        ));
    }
    listener(plain, "") + &listener(front.address, &more)
}
