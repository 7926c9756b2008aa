//! Reads and checks certificates and their keys in files.
//!
//! The error for a file that cannot be used names the file and says what to do.
//!
//! Not known here: which of them is shown to whom, when files are read again.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use base::x509::{self, Facts};
use plan::CertificateFiles;

/// The largest file of certificates, keys or an OCSP response.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A warning is given when a certificate ends sooner than this.
pub const ENDS_SOON: Duration = Duration::from_secs(14 * 86_400);

/// A file that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file; `None`: the error is not about a file.
    pub file: Option<PathBuf>,
    /// Why, and what to do.
    pub why: String,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: {}", file.display(), self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// The error for this file.
pub fn unusable(file: &Path, why: impl Into<String>) -> Unusable {
    Unusable {
        file: Some(file.to_owned()),
        why: why.into(),
    }
}

/// The bytes of a file of certificates or keys.
///
/// # Errors
/// It can't be read, or is too long.
pub fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
    let said = |error: io::Error| {
        let what_to_do = match error.kind() {
            io::ErrorKind::PermissionDenied => "; let the user that the proxy becomes read it",
            io::ErrorKind::NotFound => "; name a file that is there",
            _ => "",
        };
        unusable(file, format!("cannot be read: {error}{what_to_do}"))
    };
    let found = fs::metadata(file).map_err(said)?;
    if !found.is_file() {
        return Err(unusable(file, "is no file"));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(unusable(
            file,
            "is larger than 1 MiB: no certificate or key",
        ));
    }
    fs::read(file).map_err(said)
}

/// The certificates of a file.
///
/// # Errors
/// It can't be read, is no PEM, or has none.
pub fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let text = read(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| unusable(file, format!("is no PEM file: {error}")))?;
    match chain.is_empty() {
        true => Err(unusable(
            file,
            "has no certificate (PEM, -----BEGIN CERTIFICATE-----)",
        )),
        false => Ok(chain),
    }
}

/// A certificate with its key.
///
/// # Errors
/// A file can't be used, or the key belongs to another certificate.
pub fn pair(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Facts), Unusable> {
    let chain = chain(&files.chain)?;
    let text = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let encrypted = memchr::memmem::find(&text, b"ENCRYPTED").is_some();
        let why = match encrypted {
            true => "the private key is encrypted; take the password off (openssl pkey)",
            false => "has no private key (PEM, -----BEGIN PRIVATE KEY-----)",
        };
        unusable(&files.key, why)
    })?;
    let first = chain.first();
    let facts = first
        .and_then(|first| Facts::of(first))
        .ok_or_else(|| unusable(&files.chain, "its first certificate cannot be understood"))?;
    let pair = CertifiedKey::from_der(chain, key, provider);
    let pair = pair.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let of = files.chain.display();
            unusable(
                &files.key,
                format!("is not the key of the certificate {of}"),
            )
        }
        error => unusable(&files.key, format!("the key cannot be used: {error}")),
    })?;
    Ok((pair, facts))
}

/// The reason why the certificate is not valid at this time, if it is not.
pub fn out_of_time(facts: &Facts, now: Duration) -> Option<String> {
    let now_s = now.as_secs() as i64;
    if facts.until_unix_s <= now_s {
        let until = x509::day(facts.until_unix_s);
        return Some(format!("has ended, on {until}; renew it"));
    }
    let from = x509::day(facts.from_unix_s);
    let is_early = facts.from_unix_s > now_s;
    is_early.then(|| format!("begins to hold on {from}; look at the clock, or wait"))
}

/// Two stamps of a file differ if the file has changed in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Stamp {
    /// `None`: the file cannot be looked at.
    pub fn of(file: &Path) -> Option<Stamp> {
        let found = fs::metadata(file).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}
