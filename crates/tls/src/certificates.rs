//! Certificates of listeners: read from files (`origin::pem`), checked, and described for people.
//!
//! The error for a file that cannot be used names the file and says what to do.
//!
//! Not known here: which listener shows a certificate, when files are read again.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::CertificateDer,
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};

use base::x509::{self, Facts};
use origin::pem::{self, ENDS_SOON, Unusable, out_of_time, unusable};
use plan::CertificateFiles;

/// A certificate that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its file; `None`: it was made at the start.
    pub file: Option<PathBuf>,
    /// Names, subject and times.
    pub facts: Facts,
}

impl Shown {
    /// Its first name, for the metrics.
    pub fn name(&self) -> String {
        let facts = &self.facts;
        let address = || facts.addresses.first().map(IpAddr::to_string);
        let first = facts.names.first().cloned().or_else(address);
        first.unwrap_or_else(|| facts.subject.clone())
    }

    /// A description for people.
    pub fn words(&self) -> String {
        let file = match &self.file {
            Some(file) => file.display().to_string(),
            None => "self-signed".to_owned(),
        };
        let until = x509::day(self.facts.until_unix_s);
        format!("{} until {until} ({file})", self.facts.called())
    }

    /// The reason why clients refuse it now, if they do.
    pub fn is_untimely(&self, now: Duration) -> Option<String> {
        let why = out_of_time(&self.facts, now)?;
        let words = self.words();
        Some(format!(
            "the certificate for {words} is refused by clients: it {why}"
        ))
    }

    /// A warning if it ends soon, or is refused by clients.
    pub fn ends_soon(&self, now: Duration) -> Option<String> {
        let left = self.facts.until_unix_s - now.as_secs() as i64;
        let words = self.words();
        if let Some(untimely) = self.is_untimely(now) {
            return Some(untimely);
        }
        match left {
            left if left < ENDS_SOON.as_secs() as i64 => Some(format!(
                "the certificate for {words} ends in {} days; renew it",
                left / 86_400
            )),
            _ => None,
        }
    }
}

/// The certificate that a start would read from these files: for `loligo check`.
///
/// # Errors
/// The error that a start would fail with.
pub fn look_at_certificate(files: &CertificateFiles) -> Result<Shown, Unusable> {
    let (_, facts) = read_pair(files, &ring::default_provider())?;
    Ok(Shown {
        file: Some(files.chain.clone()),
        facts,
    })
}

/// The same; it must also be valid now.
///
/// # Errors
/// The error that a start with `tls-strict` would fail with.
pub fn check_certificate(files: &CertificateFiles, now: Duration) -> Result<Shown, Unusable> {
    let shown = look_at_certificate(files)?;
    check_times(files, &shown.facts, now)?;
    Ok(shown)
}

/// Could a start use this file to judge client certificates?
///
/// # Errors
/// The error that a start would fail with.
pub fn check_client_ca(file: &Path) -> Result<(), Unusable> {
    let signers = pem::chain(file)?;
    verifier(file, &signers, true, &Arc::new(ring::default_provider())).map(drop)
}

pub(super) fn verifier(
    file: &Path,
    signers: &[CertificateDer<'static>],
    are_required: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Unusable> {
    let mut roots = RootCertStore::empty();
    for signer in signers {
        let added = roots.add(signer.clone());
        added.map_err(|error| {
            unusable(
                file,
                format!("a certificate in it is no authority: {error}"),
            )
        })?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match are_required {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    let built = builder.build();
    built.map_err(|error| unusable(file, format!("cannot be used for clients: {error}")))
}

pub(super) fn read_pair(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Facts), Unusable> {
    let (mut pair, facts) = pem::pair(files, provider)?;
    if let Some(file) = &files.ocsp {
        let response = pem::read(file)?;
        // An OCSP response is DER and begins with SEQUENCE (0x30); a PEM file or an HTML page does not.
        if response.first() != Some(&0x30) {
            return Err(unusable(file, "is no OCSP response (DER)"));
        }
        match x509::is_about_another(&response, &pair.cert[0]) {
            // The certificate may have been renewed before its response. Clients would end the handshake if this one were sent.
            true => tracing::warn!(
                file = %file.display(),
                certificate = %files.chain.display(),
                "the OCSP response is about another certificate: it is not sent"
            ),
            false => pair.ocsp = Some(response),
        }
    }
    Ok((pair, facts))
}

pub(super) fn check_times(
    files: &CertificateFiles,
    facts: &Facts,
    now: Duration,
) -> Result<(), Unusable> {
    match out_of_time(facts, now) {
        None => Ok(()),
        Some(why) => Err(unusable(&files.chain, format!("the certificate {why}"))),
    }
}

/// Makes a self-signed certificate for this machine; the key is PKCS #8.
pub(super) fn sign_one(address: IpAddr) -> Result<(CertificateDer<'static>, Vec<u8>), Unusable> {
    let mut names = vec!["localhost".to_owned()];
    let of_loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    names.extend(of_loopback.iter().map(IpAddr::to_string));
    if !of_loopback.contains(&address) && !address.is_unspecified() {
        names.push(address.to_string());
    }
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| Unusable {
        file: None,
        why: format!("a certificate cannot be made: {error}"),
    })?;
    let key = made.signing_key.serialize_der();
    Ok((made.cert.der().clone(), key))
}
