//! The certificates of a listener, read from their files.
//!
//! Files that have not changed since the previous edition are not read again. The others are read on all cores, because most of the time goes into
//! checking that a key belongs to its certificate.
//!
//! Not known here: which certificate a client is shown, what happens if one cannot be used.

use std::{collections::HashMap, num::NonZero, path::Path, sync::Arc, thread};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey};

use super::certificates::{Shown, read_pair};
use origin::pem::{Stamp, Unusable};
use plan::CertificateFiles;

/// A thread is started for at least this many certificates.
const OF_A_THREAD_MIN: usize = 32;
/// More threads would only wait for the disk.
const THREADS_MAX: usize = 16;

/// A certificate with its key, as read from files.
#[derive(Debug)]
pub struct Pair {
    files: CertificateFiles,
    /// The stamps of its files, taken before they were read.
    stamps: [Option<Stamp>; 3],
    /// The certificate with its key.
    pub key: Arc<CertifiedKey>,
    /// The facts in the certificate.
    pub shown: Shown,
}

impl Pair {
    /// Its files.
    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }
}

/// The certificates of the previous edition, by files.
#[derive(Default)]
pub struct Before<'a>(HashMap<&'a CertificateFiles, &'a Arc<Pair>>);

impl<'a> Before<'a> {
    /// Indexes these certificates.
    pub fn of(pairs: impl Iterator<Item = &'a Arc<Pair>>) -> Before<'a> {
        Before(pairs.map(|pair| (&pair.files, pair)).collect())
    }

    /// The certificate of these files.
    pub fn get(&self, files: &CertificateFiles) -> Option<&'a Arc<Pair>> {
        self.0.get(files).copied()
    }
}

/// Reads each certificate; the results are in order.
pub fn read_all(
    certificates: &[CertificateFiles],
    before: &Before<'_>,
    provider: &CryptoProvider,
) -> Vec<Result<Arc<Pair>, Unusable>> {
    let read = |part: &[CertificateFiles]| -> Vec<_> {
        let each = part.iter().map(|files| read_one(files, before, provider));
        each.collect()
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores
        .min(THREADS_MAX)
        .min(certificates.len() / OF_A_THREAD_MIN);
    if threads < 2 {
        return read(certificates);
    }
    let parts = certificates.chunks(certificates.len().div_ceil(threads));
    thread::scope(|scope| {
        let running: Vec<_> = parts
            .map(|part| (part, scope.spawn(move || read(part))))
            .collect();
        let parts = running.into_iter();
        // If a thread has panicked, this one repeats its work, and so meets the same panic.
        parts
            .flat_map(|(part, running)| running.join().unwrap_or_else(|_| read(part)))
            .collect()
    })
}

fn read_one(
    files: &CertificateFiles,
    before: &Before<'_>,
    provider: &CryptoProvider,
) -> Result<Arc<Pair>, Unusable> {
    let stamp = |file: Option<&Path>| file.and_then(Stamp::of);
    let stamps = [
        stamp(Some(&files.chain)),
        stamp(Some(&files.key)),
        stamp(files.ocsp.as_deref()),
    ];
    if let Some(known) = before.get(files)
        && known.stamps == stamps
        && stamps[..2].iter().all(Option::is_some)
    {
        return Ok(Arc::clone(known));
    }
    let (key, facts) = read_pair(files, provider)?;
    Ok(Arc::new(Pair {
        files: files.clone(),
        stamps,
        key: Arc::new(key),
        shown: Shown {
            file: Some(files.chain.clone()),
            facts,
        },
    }))
}
