//! TLS to the origins of a plan: the settings for all, and those of origins with settings of their own.
//!
//! Files are read when a plan comes into force, and when they have changed. Settings whose files are unchanged keep their [`Tls`], and so
//! their connections. Changed ones get new connections; the old connections are closed after the requests on them.
//!
//! Not known here: when files are read again (`reload/renewing`).

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use base::x509::{self, Facts};
use plan::{CertificateFiles, OriginTls, Plan, Upstream};

use super::{
    pem::{self, ENDS_SOON, Stamp, Unusable, out_of_time},
    tls::{Tls, provider},
    trust::Trust,
};

/// TLS to all origins.
#[derive(Clone)]
pub struct OriginsTls {
    /// TLS to origins without settings of their own.
    pub all: Tls,
    own: HashMap<Arc<OriginTls>, Tls>,
    files: Vec<(PathBuf, Stamp)>,
}

/// One TLS for all origins.
impl From<Tls> for OriginsTls {
    fn from(all: Tls) -> OriginsTls {
        OriginsTls {
            all,
            own: HashMap::new(),
            files: Vec::new(),
        }
    }
}

/// The certificates that settings trust: the system's roots (yes or no), and those of a file.
fn trusted(settings: &OriginTls) -> (bool, Option<PathBuf>) {
    (!settings.only_ca_file, settings.ca_file.clone())
}

impl OriginsTls {
    /// Reads the files of a plan.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(plan: &Plan) -> Result<OriginsTls, Unusable> {
        let mut trusts = HashMap::new();
        let all = Arc::new(plan.tls.clone());
        let mut own = HashMap::new();
        let mut files: HashMap<PathBuf, Stamp> = HashMap::new();
        for settings in std::iter::once(&all).chain(plan.own_tls()) {
            if own.contains_key(settings) {
                continue;
            }
            // Take the stamps before reading, so that a file that changes meanwhile is read again.
            files.extend(
                settings
                    .files()
                    .filter_map(|file| Some((file.clone(), Stamp::of(file)?))),
            );
            let trusted = trusted(settings);
            let trust = match trusts.get(&trusted) {
                Some(trust) => Trust::clone(trust),
                None => {
                    let listed = trusted.1.as_deref().map_or(Ok(Vec::new()), pem::chain)?;
                    let trust = Trust::new(trusted.0, listed);
                    trusts.insert(trusted, trust.clone());
                    trust
                }
            };
            own.insert(Arc::clone(settings), Tls::by(settings, trust)?);
        }
        Ok(OriginsTls {
            all: own[&all].clone(),
            own,
            files: files.into_iter().collect(),
        })
    }

    /// Keeps from `before` each [`Tls`] whose files have not changed.
    pub async fn renewed(mut self, before: &OriginsTls) -> OriginsTls {
        let mut trusts = HashMap::new();
        for settings in before.own.keys() {
            trusts
                .entry(trusted(settings))
                .or_insert_with(|| before.own[settings].trust());
        }
        let mut kept: HashMap<_, Trust> = HashMap::new();
        let mut own = HashMap::new();
        for (settings, tls) in self.own.drain() {
            let trusted = trusted(&settings);
            let trust = match (kept.get(&trusted), trusts.get(&trusted)) {
                (Some(trust), _) => trust.clone(),
                (None, Some(before)) => tls.trust().clone().or(before).await,
                (None, None) => tls.trust().clone(),
            };
            kept.insert(trusted, trust.clone());
            let tls = tls.or(before.own.get(&settings), trust);
            own.insert(settings, tls);
        }
        let is_of_all = |it: &&Tls| it.is_by(&self.all);
        let all = own.values().find(is_of_all).cloned();
        OriginsTls {
            all: all.unwrap_or(self.all),
            own,
            files: self.files,
        }
    }

    /// TLS by these settings; `None`: use [`Self::all`].
    pub fn of(&self, settings: Option<&Arc<OriginTls>>) -> Option<Tls> {
        self.own.get(settings?).cloned()
    }

    /// TLS to the servers of an upstream. Names with TLS resolve to servers that are asked under those names, so these always get a [`Tls`].
    pub fn of_upstream(&self, upstream: &Upstream) -> Option<Tls> {
        let has_names = upstream.names.iter().any(|name| name.tls);
        let of_all = || has_names.then(|| self.all.clone());
        self.of(upstream.tls.as_ref()).or_else(of_all)
    }

    /// Are there files that may change?
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Has a file changed since it was read? A missing file does not count as changed: it is being replaced.
    pub fn has_changed(&self) -> bool {
        let differs =
            |(file, before): &(PathBuf, Stamp)| Stamp::of(file).is_some_and(|now| now != *before);
        self.files.iter().any(differs)
    }

    /// Warnings about certificates shown to origins that end soon or have ended.
    pub fn ends_soon(&self, now: Duration) -> Vec<String> {
        let of = |(settings, tls): (&Arc<OriginTls>, &Tls)| {
            warning(settings.certificate.as_ref()?, tls.shown()?, now)
        };
        let mut words: Vec<String> = self.own.iter().filter_map(of).collect();
        words.sort();
        words.dedup();
        words
    }
}

/// Could this certificate be shown to origins after a start? Returns a warning if it ends soon or has ended.
///
/// # Errors
/// The error that a start would fail with.
pub fn look_at_client_certificate(
    files: &CertificateFiles,
    now: Duration,
) -> Result<Option<String>, Unusable> {
    let (_, facts) = pem::pair(files, &provider())?;
    Ok(warning(files, &facts, now))
}

fn warning(files: &CertificateFiles, facts: &Facts, now: Duration) -> Option<String> {
    let file = files.chain.display();
    if let Some(why) = out_of_time(facts, now) {
        return Some(format!(
            "the certificate {file}, which is shown to origins, is refused by them: it {why}"
        ));
    }
    let is_near = facts.until_unix_s - (now.as_secs() as i64) < ENDS_SOON.as_secs() as i64;
    let until = x509::day(facts.until_unix_s);
    is_near.then(|| {
        format!("the certificate {file}, which is shown to origins, ends on {until}; renew it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use std::{fs, path::Path};

    /// Writes a certificate for this name, and its key into the same file.
    fn write(file: &Path, name: &str, change: impl FnOnce(&mut rcgen::CertificateParams)) {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let pair = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&pair).unwrap();
        let pem = |what: &str, der: &[u8]| {
            let text = STANDARD.encode(der);
            format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
        };
        let text = pem("CERTIFICATE", made.der()) + &pem("PRIVATE KEY", &pair.serialize_der());
        fs::write(file, text).unwrap();
    }

    /// A plan that trusts this file, with one parent that has these settings.
    fn plan(ca: &Path, own: OriginTls) -> Plan {
        let mut plan = Plan::with_listeners(Vec::new());
        plan.tls.ca_file = Some(ca.to_owned());
        plan.parents = vec![plan::Parent {
            tls: Some(Arc::new(own)),
            ..plan::Parent::default()
        }];
        plan
    }

    fn showing(file: &Path) -> OriginTls {
        OriginTls {
            certificate: Some(CertificateFiles {
                chain: file.to_owned(),
                key: file.to_owned(),
                ocsp: None,
            }),
            ..OriginTls::default()
        }
    }

    #[tokio::test]
    async fn what_has_not_changed_stays_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (ca, own) = (at("ca.pem"), at("own.pem"));
        write(&ca, "ca.test", |_| {});
        write(&own, "own.test", |_| {});
        let plan = plan(&ca, showing(&own));
        let settings = plan.parents[0].tls.clone().unwrap();
        let of = |tls: &OriginsTls| tls.of(Some(&settings)).unwrap();
        let first = OriginsTls::load(&plan).unwrap();
        assert!(first.has_files() && !first.has_changed());
        for is_made in [false, true] {
            if is_made {
                first.all.trust().made().unwrap();
                of(&first).trust().made().unwrap();
            }
            let same = OriginsTls::load(&plan).unwrap().renewed(&first).await;
            assert!(same.all.is(&first.all) && of(&same).is(&of(&first)));
        }
        // Only the certificate that is shown has changed.
        write(&own, "own.test", |_| {});
        assert!(first.has_changed());
        let next = OriginsTls::load(&plan).unwrap().renewed(&first).await;
        assert!(next.all.is(&first.all) && !of(&next).is(&of(&first)));
        // Changes the certificates that all trust.
        let mut more = fs::read(&ca).unwrap();
        write(&ca, "second.test", |_| {});
        more.extend(fs::read(&ca).unwrap());
        fs::write(&ca, more).unwrap();
        let last = OriginsTls::load(&plan).unwrap().renewed(&next).await;
        assert!(!last.all.is(&next.all) && of(&last).is(&of(&next)));
    }

    #[test]
    fn a_certificate_that_cannot_be_shown_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (one, other) = (at("one.pem"), at("other.pem"));
        write(&one, "one.test", |_| {});
        write(&other, "other.test", |_| {});
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        let files = |chain: &Path, key: &Path| CertificateFiles {
            chain: chain.to_owned(),
            key: key.to_owned(),
            ocsp: None,
        };
        assert_eq!(
            look_at_client_certificate(&files(&one, &one), now),
            Ok(None)
        );
        fs::write(at("empty.pem"), "nothing").unwrap();
        for (chain, key, file, why) in [
            (
                &one,
                &other,
                "other.pem",
                "is not the key of the certificate",
            ),
            (&at("missing.pem"), &one, "missing.pem", "cannot be read"),
            (&one, &at("missing.pem"), "missing.pem", "cannot be read"),
            (&at("empty.pem"), &one, "empty.pem", "has no certificate"),
            (&one, &at("empty.pem"), "empty.pem", "has no private key"),
        ] {
            let told = look_at_client_certificate(&files(chain, key), now).unwrap_err();
            let told = told.to_string();
            assert!(told.contains(file) && told.contains(why), "{told}");
        }
        write(&one, "one.test", |params| {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        });
        let noted = look_at_client_certificate(&files(&one, &one), now).unwrap();
        assert!(noted.unwrap().contains("has ended, on 2001-01-01"));
    }
}
