//! The certificates of a listener, read from their files.
//!
//! Files that have not changed since the edition before are not read again. The others are read on all cores: most of the time goes into
//! checking that a key is that of its certificate.
//!
//! Not known here: which certificate a client is shown, what follows from one that cannot be used.

use std::{collections::HashMap, num::NonZero, path::Path, sync::Arc, thread};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey};

use super::certificates::{Shown, read_pair};
use origin::pem::{Stamp, Unusable};
use plan::CertificateFiles;

/// So many certificates are worth a thread.
const OF_A_THREAD_MIN: usize = 32;
/// More threads wait for the disk only.
const THREADS_MAX: usize = 16;

/// A certificate as it was read.
#[derive(Debug)]
pub struct Pair {
    files: CertificateFiles,
    /// Of its files, taken before they were read.
    stamps: [Option<Stamp>; 3],
    /// With its key.
    pub key: Arc<CertifiedKey>,
    /// What it says.
    pub shown: Shown,
}

impl Pair {
    /// Where it was read.
    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }
}

/// Those of the edition before.
#[derive(Default)]
pub struct Before<'a>(HashMap<&'a CertificateFiles, &'a Arc<Pair>>);

impl<'a> Before<'a> {
    /// These.
    pub fn of(pairs: impl Iterator<Item = &'a Arc<Pair>>) -> Before<'a> {
        Before(pairs.map(|pair| (&pair.files, pair)).collect())
    }

    /// The one of these files.
    pub fn get(&self, files: &CertificateFiles) -> Option<&'a Arc<Pair>> {
        self.0.get(files).copied()
    }
}

/// For each certificate what was read, in order.
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
        // Whatever a thread died of, this one sees as well.
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
