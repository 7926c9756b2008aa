//! The folder of an ACME account: `account.json` (its key), `certificate.pem` (the chain and its key) and `attempt.json` (the earliest time of
//! the next order). The folder has mode 0700, files have 0600 and are replaced atomically.
//!
//! The line before the certificate names the authority's directory. Readers of PEM ignore that line.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use instant_acme::AccountCredentials;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::{Deserialize, Serialize};

use super::due;
use crate::certificates::check_certificate;
use base::x509::Facts;
use origin::pem::Unusable;
use plan::{Acme, CertificateFiles};

/// Precedes the authority's directory in the first line of the certificate's file.
const OF: &str = "directory: ";
/// The longest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The certificate in the folder.
pub struct Held {
    /// The directory of its authority; empty: self-signed, until one is issued.
    pub directory: String,
    /// Names, subject and times.
    pub facts: Facts,
}

/// The last attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    directory: String,
    names: Vec<String>,
    /// The earliest time of the next attempt, seconds since 1970.
    pub next_unix_s: u64,
    /// Failures in a row.
    pub failures: u32,
}

impl Attempt {
    /// Was it made for the same authority and names?
    pub fn is_for(&self, acme: &Acme) -> bool {
        self.directory == acme.directory && self.names == acme.names
    }

    /// The record of a success.
    pub fn after_success(acme: &Acme, now: Duration, retry: Duration) -> Attempt {
        Attempt {
            directory: acme.directory.clone(),
            names: acme.names.clone(),
            next_unix_s: (now + retry).as_secs(),
            failures: 0,
        }
    }

    /// The record of a failure, after `before`.
    pub fn after_failure(
        acme: &Acme,
        now: Duration,
        retry: Duration,
        before: Option<&Attempt>,
        jitter: f64,
    ) -> Attempt {
        let before = before.filter(|before| before.is_for(acme));
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let pause = due::pause(retry, failures, jitter);
        Attempt {
            next_unix_s: (now + pause).as_secs(),
            failures,
            ..Attempt::after_success(acme, now, retry)
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> Unusable {
    Unusable {
        file: Some(path.to_owned()),
        why: format!(
            "acme.state cannot be used: {error}; name a folder that the user of the proxy may write to"
        ),
    }
}

/// Encodes DER as PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        BASE64_STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text + "-----END " + label + "-----\n"
}

/// See [`super::prepare`].
pub fn prepare(acme: &Acme, now: Duration) -> Result<(), Unusable> {
    let folder = &acme.state;
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| unusable(folder, &error))?;
    let files = acme.certificate();
    if check_certificate(&files, now).is_ok() {
        return Ok(());
    }
    let made = KeyPair::generate().and_then(|key| {
        let certificate = CertificateParams::new(acme.names.clone())?.self_signed(&key)?;
        Ok(format!(
            "{OF}\n{}{}",
            pem("CERTIFICATE", certificate.der()),
            pem("PRIVATE KEY", &key.serialize_der())
        ))
    });
    let text = made.map_err(|error| Unusable {
        file: None,
        why: format!("a certificate for acme.names cannot be made: {error}"),
    })?;
    write(&files.chain, text.as_bytes()).map_err(|error| unusable(&files.chain, &error))
}

/// The certificate in the folder; `None`: self-signed, missing or unreadable.
pub fn held(acme: &Acme) -> Option<Held> {
    let text = read(&acme.certificate().chain)?;
    let first = text.lines().next()?;
    let directory = first.strip_prefix(OF).unwrap_or("").to_owned();
    let certificate = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
    let facts = Facts::of(&certificate)?;
    (!directory.is_empty()).then_some(Held { directory, facts })
}

/// Stores an issued certificate: the chain and its key, in PEM.
pub fn keep(acme: &Acme, pem: &str, now: Duration) -> Result<(), String> {
    let file = acme.certificate().chain;
    let next = next(&file);
    let text = format!("{OF}{}\n{pem}", acme.directory);
    write(&next, text.as_bytes()).map_err(|error| format!("{}: {error}", next.display()))?;
    let files = CertificateFiles {
        chain: next.clone(),
        key: next.clone(),
        ocsp: None,
    };
    let shown = check_certificate(&files, now);
    let judged = shown.map_err(|why| why.to_string()).and_then(|shown| {
        let lacks = |name: &&String| !shown.facts.names.contains(name);
        match acme.names.iter().find(lacks) {
            None => Ok(()),
            Some(name) => Err(format!("it is not for {name}")),
        }
    });
    if let Err(why) = judged {
        let _ = fs::remove_file(&next);
        return Err(format!("the certificate that came cannot be used: {why}"));
    }
    fs::rename(&next, &file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The account with this authority, if there is one.
pub fn account(acme: &Acme) -> Option<AccountCredentials> {
    let text = read(&acme.state.join("account.json"))?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    if value.get("directory")?.as_str()? != acme.directory {
        return None;
    }
    serde_json::from_value(value).ok()
}

/// Stores the account.
pub fn keep_account(acme: &Acme, account: &AccountCredentials) -> Result<(), String> {
    let file = acme.state.join("account.json");
    let text = serde_json::to_vec(account).map_err(|error| error.to_string())?;
    write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Reads the last attempt.
pub fn attempt(acme: &Acme) -> Option<Attempt> {
    serde_json::from_str(&read(&acme.state.join("attempt.json"))?).ok()
}

/// Stores the last attempt.
pub fn keep_attempt(acme: &Acme, attempt: &Attempt) -> Result<(), String> {
    let file = acme.state.join("attempt.json");
    let text = serde_json::to_vec(attempt).map_err(|error| error.to_string())?;
    write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))
}

fn read(file: &Path) -> Option<String> {
    if fs::metadata(file).ok()?.len() > BYTES_MAX {
        return None;
    }
    fs::read_to_string(file).ok()
}

fn next(file: &Path) -> PathBuf {
    file.with_extension("next")
}

/// Replaces a file atomically; only the proxy's user may read it.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("part");
    // A file left from before may have other permissions.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut open = fs::OpenOptions::new();
    let mut part = open
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    part.write_all(bytes)?;
    part.sync_all()?;
    fs::rename(&beside, file)
}
