//! What a listener shows to its clients: made of files, checked whole, never changed.
//!
//! A certificate that cannot be shown (its key is another's) refuses the start, or the reload, with its file. One whose time is over, or has not begun,
//! is told loudly and shown where there is no other: clients refuse it, and those of the other names are served. `tls-strict` refuses that, too.
//!
//! *Resumption* is by tickets without any state here, sealed with keys of the process that change every six hours, so a client
//! resumes on every worker, and after a reload. Listeners with the same demands on client certificates share the keys; others
//! must not, because a resumed session is not asked for its certificate again.
//!
//! A listener that answers early data (0-RTT) keeps its sessions instead (`sessions`), because what comes in it can be sent again.
//!
//! Not known here: sockets, when files are read again (`reload/renewing`).

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use super::{
    acme::{self, challenges::Challenges},
    names::ByName,
    sessions::Sessions,
};
use base::x509::{self, Facts};
use plan::{CertificateFiles, Listener, ListenerTls, Plan};

/// The largest file of certificates, keys or an OCSP response.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What may come before the handshake is complete: some requests. It is kept until it is read.
const EARLY_BYTES_MAX: u32 = 16 << 10;

/// A certificate whose end is nearer than this is warned of.
pub const ENDS_SOON: Duration = Duration::from_secs(14 * 86_400);

/// TLS of one listener.
pub struct ServedTls {
    /// What a handshake needs.
    pub config: Arc<ServerConfig>,
    /// What is shown, in the order of the settings.
    pub shown: Vec<Shown>,
    /// When it was seen which of them hold.
    seen_at: Duration,
    demands: Demands,
    challenges: Arc<Challenges>,
    files: Vec<(PathBuf, Stamp)>,
    self_signed: Option<(CertificateDer<'static>, Vec<u8>)>,
}

/// A certificate that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its file; `None`: made at the start.
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

    /// In words, for people.
    pub fn words(&self) -> String {
        let file = match &self.file {
            Some(file) => file.display().to_string(),
            None => "self-signed".to_owned(),
        };
        let until = x509::day(self.facts.until_unix_s);
        format!("{} until {until} ({file})", self.facts.called())
    }

    /// Why clients refuse it now, if so.
    pub fn is_untimely(&self, now: Duration) -> Option<String> {
        let why = out_of_time(&self.facts, now)?;
        let words = self.words();
        Some(format!(
            "the certificate for {words} is refused by clients: it {why}"
        ))
    }

    /// Why somebody should do something, if so.
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

/// A file that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Which; `None`: it is not about a file.
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

fn unusable(file: &Path, why: impl Into<String>) -> Unusable {
    Unusable {
        file: Some(file.to_owned()),
        why: why.into(),
    }
}

/// What was asked of clients, and by whose tickets it need not be asked again.
#[derive(Clone)]
struct Demands {
    /// Who may have signed, and whether a certificate is required; `None`: none is asked for.
    clients: Option<(Vec<CertificateDer<'static>>, bool)>,
    resumption: Resumption,
}

/// How sessions are remembered.
#[derive(Clone)]
enum Resumption {
    /// By the clients, sealed.
    Tickets(Arc<dyn ProducesTickets>),
    /// Here, so that what comes early comes once.
    Kept(Arc<Sessions>),
}

impl Demands {
    fn are_early(&self) -> bool {
        matches!(self.resumption, Resumption::Kept(_))
    }
}

/// Tells whether a file has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Stamp {
    /// `None`: the file cannot be looked at.
    fn of(file: &Path) -> Option<Stamp> {
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

/// TLS of each listener of a plan; `None` where it speaks plain. `before`: that of the edition before.
///
/// # Errors
/// The first file that cannot be used.
pub fn load(
    plan: &Plan,
    before: &[Option<Arc<ServedTls>>],
    now: Duration,
) -> Result<Vec<Option<Arc<ServedTls>>>, Unusable> {
    acme::prepare(plan, now)?;
    let mut known: Vec<Demands> = Vec::new();
    for served in before.iter().flatten() {
        known.push(served.demands.clone());
    }
    let in_service: Vec<&Shown> = before.iter().flatten().flat_map(|it| &it.shown).collect();
    let self_signed = before.iter().flatten();
    let self_signed = self_signed.filter_map(|served| served.self_signed.clone());
    let mut self_signed = self_signed.collect::<Vec<_>>();
    let challenges = before.iter().flatten().next();
    let challenges = challenges.map_or_else(Arc::default, |served| served.challenges());
    let orders = plan.acme.is_some();
    let mut all = Vec::new();
    for listener in &plan.listeners {
        let served = match &listener.tls {
            None => None,
            Some(tls) => {
                let kept = Kept {
                    demands: &known,
                    self_signed: self_signed.pop(),
                    in_service: &in_service,
                    challenges: (&challenges, orders),
                    sessions_bytes_max: plan.limits.tls_sessions_bytes,
                };
                let made = ServedTls::load(tls, listener, kept, now)?;
                known.push(made.demands.clone());
                Some(Arc::new(made))
            }
        };
        all.push(served);
    }
    Ok(all)
}

/// What stays from one edition to the next.
struct Kept<'a> {
    demands: &'a [Demands],
    self_signed: Option<(CertificateDer<'static>, Vec<u8>)>,
    /// One that has ended in service is no reason to refuse what else has changed.
    in_service: &'a [&'a Shown],
    /// And whether a certificate is ordered.
    challenges: (&'a Arc<Challenges>, bool),
    /// Bytes of sessions that may be kept.
    sessions_bytes_max: u64,
}

impl ServedTls {
    fn load(
        tls: &ListenerTls,
        listener: &Listener,
        kept: Kept<'_>,
        now: Duration,
    ) -> Result<ServedTls, Unusable> {
        // Before they are read: what changes meanwhile is read again.
        let stamp = |file: &PathBuf| Some((file.clone(), Stamp::of(file)?));
        let files = tls.files().filter_map(stamp).collect();
        let provider = Arc::new(ring::default_provider());
        let (challenges, orders) = kept.challenges;
        let mut by_name = ByName::with(challenges);
        let mut shown: Vec<Shown> = Vec::new();
        let mut own = None;
        let mut pairs = Vec::new();
        for files in &tls.certificates {
            let (pair, facts) = read_pair(files, &provider)?;
            let one = Shown {
                file: Some(files.chain.clone()),
                facts,
            };
            let pair = Arc::new(pair);
            match check_times(files, &one.facts, now) {
                Ok(()) => by_name.add(&one.facts.names, &pair),
                Err(why) if tls.is_strict && !kept.in_service.contains(&&one) => return Err(why),
                Err(_) => by_name.add_untimely(&one.facts.names, &pair),
            }
            pairs.push(pair);
            shown.push(one);
        }
        let timely = |one: &&Shown| out_of_time(&one.facts, now).is_none();
        let first = shown.iter().find(timely).or(shown.first()).cloned();
        for (one, pair) in shown.iter().zip(&pairs) {
            // One for the same names with another kind of key is as good a default.
            if first.as_ref().is_some_and(|first| {
                first.facts.names == one.facts.names && timely(&first) == timely(&one)
            }) {
                by_name.add_default(pair);
            }
        }
        if tls.is_self_signed {
            let (certificate, key) = match kept.self_signed {
                Some(before) => before,
                None => sign_one(listener.address.ip())?,
            };
            own = Some((certificate.clone(), key.clone()));
            let facts = Facts::of(&certificate).unwrap_or_default();
            let key = PrivateKeyDer::Pkcs8(key.into());
            let pair = CertifiedKey::from_der(vec![certificate], key, &provider);
            by_name.add_default(&Arc::new(pair.map_err(of_ours)?));
            shown.push(Shown { file: None, facts });
        }
        let clients = match &tls.clients {
            None => None,
            Some(clients) => {
                let signers = read_chain(&clients.ca)?;
                Some((signers, clients.are_required))
            }
        };
        let known = (kept.demands.iter())
            .find(|known| known.clients == clients && known.are_early() == tls.early_data);
        let demands = match (known, tls.early_data) {
            (Some(known), _) => known.clone(),
            (None, false) => Demands {
                clients,
                resumption: Resumption::Tickets(ring::Ticketer::new().map_err(of_ours)?),
            },
            (None, true) => Demands {
                clients,
                resumption: Resumption::Kept(Arc::new(Sessions::new(kept.sessions_bytes_max))),
            },
        };
        let versions: &[_] = match tls.only_tls13 {
            true => &[&TLS13],
            false => &[&TLS13, &TLS12],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(of_ours)?;
        let builder = match (&tls.clients, &demands.clients) {
            (Some(files), Some((signers, are_required))) => {
                let verifier = verifier(&files.ca, signers, *are_required, &provider)?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(by_name));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if listener.http2 {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        if orders {
            config
                .alpn_protocols
                .push(acme::challenges::PROTOCOL.to_vec());
        }
        match &demands.resumption {
            Resumption::Tickets(tickets) => {
                config.ticketer = Arc::clone(tickets);
                config.session_storage = Arc::new(NoServerSessionStorage {});
            }
            Resumption::Kept(sessions) => {
                sessions.limit(kept.sessions_bytes_max);
                config.session_storage = Arc::clone(sessions) as _;
                config.max_early_data_size = EARLY_BYTES_MAX;
                // The answer does not wait for the handshake either.
                config.send_half_rtt_data = true;
            }
        }
        Ok(ServedTls {
            config: Arc::new(config),
            shown,
            seen_at: now,
            challenges: Arc::clone(challenges),
            demands,
            files,
            self_signed: own,
        })
    }

    /// Why clients refuse what they are shown, if so.
    pub fn troubles(&self, now: Duration) -> impl Iterator<Item = String> {
        self.shown
            .iter()
            .filter_map(move |one| one.is_untimely(now))
    }

    /// Has one of its files changed since it was read? One that is not there has not: whoever renews it is at it.
    pub fn has_changed(&self) -> bool {
        let differs =
            |(file, before): &(PathBuf, Stamp)| Stamp::of(file).is_some_and(|now| now != *before);
        self.files.iter().any(differs)
    }

    /// Has one of them ended since it was read, or begun to hold?
    pub fn is_past(&self, now: Duration) -> bool {
        let holds_at = |one: &Shown, at| out_of_time(&one.facts, at).is_none();
        let mut shown = self.shown.iter();
        shown.any(|one| holds_at(one, self.seen_at) != holds_at(one, now))
    }

    /// What the authority of an order is shown. All listeners have the same.
    pub fn challenges(&self) -> Arc<Challenges> {
        Arc::clone(&self.challenges)
    }

    /// Shows it a certificate that was made at the start?
    pub fn is_self_signed(&self) -> bool {
        self.self_signed.is_some()
    }
}

/// Does not come of files.
fn of_ours(error: rustls::Error) -> Unusable {
    Unusable {
        file: None,
        why: format!("TLS cannot be set up: {error}"),
    }
}

fn verifier(
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

fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
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

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
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

fn read_pair(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Facts), Unusable> {
    let chain = read_chain(&files.chain)?;
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
    let mut pair = pair.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let of = files.chain.display();
            unusable(
                &files.key,
                format!("is not the key of the certificate {of}"),
            )
        }
        error => unusable(&files.key, format!("the key cannot be used: {error}")),
    })?;
    if let Some(file) = &files.ocsp {
        let response = read(file)?;
        // SEQUENCE, of a successful response: a PEM file or an answer in HTML is none.
        if response.first() != Some(&0x30) {
            return Err(unusable(file, "is no OCSP response (DER)"));
        }
        match x509::is_about_another(&response, &pair.cert[0]) {
            // The certificate may have been renewed just now, and the response not yet. Clients would end the handshake.
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

fn check_times(files: &CertificateFiles, facts: &Facts, now: Duration) -> Result<(), Unusable> {
    match out_of_time(facts, now) {
        None => Ok(()),
        Some(why) => Err(unusable(&files.chain, format!("the certificate {why}"))),
    }
}

/// Why it does not hold at this time, if so.
fn out_of_time(facts: &Facts, now: Duration) -> Option<String> {
    let now_s = now.as_secs() as i64;
    if facts.until_unix_s <= now_s {
        let until = x509::day(facts.until_unix_s);
        return Some(format!("has ended, on {until}; renew it"));
    }
    let from = x509::day(facts.from_unix_s);
    let is_early = facts.from_unix_s > now_s;
    is_early.then(|| format!("begins to hold on {from}; look at the clock, or wait"))
}

/// Makes a certificate for this machine, and its key in PKCS #8.
fn sign_one(address: IpAddr) -> Result<(CertificateDer<'static>, Vec<u8>), Unusable> {
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

/// What a start would show by these files: for `loligo check`.
///
/// # Errors
/// As a start would have them.
pub fn look_at_certificate(files: &CertificateFiles) -> Result<Shown, Unusable> {
    let (_, facts) = read_pair(files, &ring::default_provider())?;
    Ok(Shown {
        file: Some(files.chain.clone()),
        facts,
    })
}

/// The same, and it must hold now.
///
/// # Errors
/// As a start with `tls-strict` would have them.
pub fn check_certificate(files: &CertificateFiles, now: Duration) -> Result<Shown, Unusable> {
    let shown = look_at_certificate(files)?;
    check_times(files, &shown.facts, now)?;
    Ok(shown)
}

/// Can a start use this file to judge certificates of clients?
///
/// # Errors
/// As a start would have them.
pub fn check_client_ca(file: &Path) -> Result<(), Unusable> {
    let signers = read_chain(file)?;
    verifier(file, &signers, true, &Arc::new(ring::default_provider())).map(drop)
}
