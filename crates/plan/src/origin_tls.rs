//! TLS to origins, upstreams and parents: which certificates are accepted, and which one is presented.
//!
//! Each origin may have settings of its own; those it leaves out are taken from `Plan::tls`. The configuration has merged
//! the two already, so these settings are complete.
//!
//! Not known here: files, handshakes (`origin`).

use std::{fmt::Write as _, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest;

use crate::tls::CertificateFiles;

/// How TLS is spoken to an origin.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OriginTls {
    /// PEM: certificates that are trusted, authorities' or origins' own.
    pub ca_file: Option<PathBuf>,
    /// Only those of `ca_file`, not the system's.
    pub only_ca_file: bool,
    /// The name for SNI that must be in the certificate, in place of the origin's host: lower case, or an address.
    pub name: Option<String>,
    /// The certificate presented to an origin that requests one.
    pub certificate: Option<CertificateFiles>,
    /// The public keys accepted from an origin; empty: any.
    pub pins: Vec<Pin>,
    /// Any certificate is accepted. Pins still apply.
    pub is_unverified: bool,
    /// TLS 1.2 is refused.
    pub only_tls13: bool,
}

/// The SHA-256 of a public key as it stands in a certificate (SubjectPublicKeyInfo in DER; RFC 7469 §2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin(pub [u8; 32]);

impl Pin {
    /// The pin of a key in DER.
    pub fn of(key: &[u8]) -> Pin {
        let digest = digest::digest(&digest::SHA256, key);
        let mut pin = [0; 32];
        pin.copy_from_slice(digest.as_ref());
        Pin(pin)
    }
}

/// The form used in a configuration.
impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256/{}", STANDARD.encode(self.0))
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// `sha256/` and base64; `sha256//`, as curl writes it, means the same.
impl std::str::FromStr for Pin {
    type Err = ();

    fn from_str(text: &str) -> Result<Pin, ()> {
        // A hash of 44 characters may itself begin with a slash.
        let text = text.strip_prefix("sha256/").ok_or(())?;
        let bytes = STANDARD.decode(match text.len() {
            45 => text.strip_prefix('/').ok_or(())?,
            _ => text,
        });
        Ok(Pin(bytes
            .ok()
            .and_then(|it| it.try_into().ok())
            .ok_or(())?))
    }
}

impl OriginTls {
    /// The most pins of one origin.
    pub const PINS_MAX: usize = 16;

    /// Is any server accepted as the origin?
    pub fn believes_anybody(&self) -> bool {
        self.is_unverified && self.pins.is_empty()
    }

    /// All files that the settings name.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let shown = self.certificate.iter();
        let shown = shown.flat_map(|files| [&files.chain, &files.key]);
        self.ca_file.iter().chain(shown)
    }

    /// A text for keys of what decides which content an origin gives: our identity towards it, the name it is asked by, and whether another
    /// server may have answered in its place. Empty for the default settings. The name of the certificate's file stands for our identity, so
    /// that a renewed certificate changes no key.
    pub fn tag(&self) -> String {
        let mut text = String::new();
        if let Some(name) = &self.name {
            let _ = write!(text, "name={name} ");
        }
        if let Some(files) = &self.certificate {
            let _ = write!(text, "certificate={:?} ", files.chain);
        }
        if self.believes_anybody() {
            text.push_str("unverified ");
        }
        match text.is_empty() {
            true => text,
            false => {
                let hash = &Pin::of(text.as_bytes()).0[..8];
                hash.iter().fold(" by=".to_owned(), |mut tag, byte| {
                    let _ = write!(tag, "{byte:02x}");
                    tag
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        let slash = Pin([0xff; 32]).to_string();
        assert_eq!(
            (slash.parse(), &slash[..9]),
            (Ok(Pin([0xff; 32])), "sha256///"),
            "a hash that begins with a slash"
        );
        let pin = Pin::of(b"key");
        let text = pin.to_string();
        assert_eq!(text.parse(), Ok(pin));
        assert_eq!(text.replacen('/', "//", 1).parse(), Ok(pin));
        for wrong in [
            "",
            "sha256/",
            "sha1/AAAA",
            &text[..50],
            &format!("{text}A"),
            &text[7..],
        ] {
            assert_eq!(wrong.parse::<Pin>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn keys_differ_where_content_may() {
        let plain = OriginTls::default();
        assert_eq!(plain.tag(), "");
        let ca = OriginTls {
            ca_file: Some("/ca".into()),
            pins: vec![Pin([1; 32])],
            only_tls13: true,
            ..OriginTls::default()
        };
        assert_eq!(ca.tag(), "");
        let named = |name: &str| OriginTls {
            name: Some(name.to_owned()),
            ..OriginTls::default()
        };
        let by = |chain: &str| OriginTls {
            certificate: Some(CertificateFiles {
                chain: chain.into(),
                ..CertificateFiles::default()
            }),
            ..OriginTls::default()
        };
        let unverified = OriginTls {
            is_unverified: true,
            ..OriginTls::default()
        };
        let all = [
            named("a"),
            named("b"),
            by("/a"),
            by("/b"),
            unverified,
            plain,
        ];
        let tags: std::collections::HashSet<_> = all.iter().map(OriginTls::tag).collect();
        assert_eq!(tags.len(), all.len());
    }
}
