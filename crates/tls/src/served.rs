//! The TLS settings and certificates of a listener: made from files, checked as a whole, never changed.
//!
//! A certificate that cannot be used (wrong key, missing file) is reported as a warning, and the other names are served. Clients of the
//! broken one's names are shown the version read before, or else the listener's first certificate, which they refuse. An expired or not yet valid
//! certificate is reported too, and shown only if there is no other. A listener without any usable certificate fails the start or
//! reload, with the file in the error; with `tls-strict`, so does the first fault of any kind.
//!
//! *Resumption* is by tickets without any state here, sealed with keys of the process that change every six hours, so a client
//! resumes on every worker, and after a reload. Listeners with the same demands on client certificates share the keys; others
//! must not, because a resumed session is not asked for its certificate again.
//!
//! A listener that answers early data (0-RTT) keeps its sessions in memory instead (`sessions`), because early data can be replayed.
//!
//! Not known here: sockets, when files are read again (`reload/renewing`).

use std::{path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ConfigBuilder, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{NoServerSessionStorage, ProducesTickets, WantsServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use super::{
    acme::{self, challenges::Challenges},
    certificates::{Shown, check_times, sign_one, verifier},
    names::ByName,
    reading::{self, Before, Pair},
    sessions::Sessions,
};
use base::x509::Facts;
use origin::pem::{self, Stamp, Unusable, out_of_time};
use plan::{Listener, ListenerTls, Plan};

/// The bytes of early data that are accepted: some requests. They are kept until they are read.
const EARLY_BYTES_MAX: u32 = 16 << 10;

/// TLS of one listener.
pub struct ServedTls {
    /// The configuration for handshakes.
    pub config: Arc<ServerConfig>,
    /// The certificates, in the order of the settings.
    pub shown: Vec<Shown>,
    /// When the validity of the certificates was last checked.
    seen_at: Duration,
    demands: Demands,
    challenges: Arc<Challenges>,
    /// The files, with their state when read; `None`: the file was missing.
    files: Vec<(PathBuf, Option<Stamp>)>,
    pairs: Vec<Arc<Pair>>,
    /// Why some certificates cannot be used.
    unusable: Vec<String>,
    self_signed: Option<(CertificateDer<'static>, Vec<u8>)>,
}

/// The demands on client certificates, and the means of resumption. A resumed session is not asked for its certificate again.
#[derive(Clone)]
struct Demands {
    /// The accepted authorities, and whether a certificate is required; `None`: none is asked for.
    clients: Option<(Vec<CertificateDer<'static>>, bool)>,
    resumption: Resumption,
}

/// Where sessions are kept for resumption.
#[derive(Clone)]
enum Resumption {
    /// With the clients, sealed in tickets.
    Tickets(Arc<dyn ProducesTickets>),
    /// In memory, so that early data is accepted only once.
    Kept(Arc<Sessions>),
}

impl Demands {
    fn are_early(&self) -> bool {
        matches!(self.resumption, Resumption::Kept(_))
    }
}

/// TLS for each listener of a plan; `None`: a plain listener. `before`: the previous edition's.
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
    let pairs = Before::of(before.iter().flatten().flat_map(|it| &it.pairs));
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
                    pairs: &pairs,
                    challenges: (&challenges, orders),
                    sessions_bytes_max: plan.limits.tls_sessions_bytes,
                };
                let made = ServedTls::load(tls, listener, &kept, now)?;
                known.push(made.demands.clone());
                Some(Arc::new(made))
            }
        };
        all.push(served);
    }
    Ok(all)
}

/// State that is kept from one edition to the next.
struct Kept<'a> {
    demands: &'a [Demands],
    self_signed: Option<(CertificateDer<'static>, Vec<u8>)>,
    /// The certificates of the previous edition. One of these that has expired is no reason to refuse other changes.
    pairs: &'a Before<'a>,
    /// The open challenges, and whether certificates are ordered.
    challenges: (&'a Arc<Challenges>, bool),
    /// The bytes of sessions that may be kept.
    sessions_bytes_max: u64,
}

impl Kept<'_> {
    /// The demands of this listener. Listeners with the same demands share the means of resumption.
    fn demands(&self, tls: &ListenerTls) -> Result<Demands, Unusable> {
        let clients = match &tls.clients {
            None => None,
            Some(clients) => {
                let signers = pem::chain(&clients.ca)?;
                Some((signers, clients.are_required))
            }
        };
        let known = (self.demands.iter())
            .find(|known| known.clients == clients && known.are_early() == tls.early_data);
        Ok(match (known, tls.early_data) {
            (Some(known), _) => known.clone(),
            (None, false) => Demands {
                clients,
                resumption: Resumption::Tickets(ring::Ticketer::new().map_err(of_ours)?),
            },
            (None, true) => Demands {
                clients,
                resumption: Resumption::Kept(Arc::new(Sessions::new(self.sessions_bytes_max))),
            },
        })
    }
}

/// The certificates of one listener.
struct Certificates {
    by_name: ByName,
    shown: Vec<Shown>,
    pairs: Vec<Arc<Pair>>,
    unusable: Vec<String>,
    /// The self-signed certificate, if there is one.
    own: Option<(CertificateDer<'static>, Vec<u8>)>,
}

impl Certificates {
    fn read(
        tls: &ListenerTls,
        listener: &Listener,
        kept: &Kept<'_>,
        provider: &CryptoProvider,
        now: Duration,
    ) -> Result<Certificates, Unusable> {
        let mut by_name = ByName::with(kept.challenges.0);
        let mut shown: Vec<Shown> = Vec::new();
        let mut own = None;
        let (pairs, unusable) = usable(tls, kept, provider)?;
        for pair in &pairs {
            let (facts, files) = (&pair.shown.facts, pair.files());
            let is_in_service = || {
                kept.pairs
                    .get(files)
                    .is_some_and(|it| it.shown == pair.shown)
            };
            match check_times(files, facts, now) {
                Ok(()) => by_name.add(&facts.names, &pair.key),
                Err(why) if tls.is_strict && !is_in_service() => return Err(why),
                Err(_) => by_name.add_untimely(&facts.names, &pair.key),
            }
            shown.push(pair.shown.clone());
        }
        let timely = |one: &&Shown| out_of_time(&one.facts, now).is_none();
        let first = shown.iter().find(timely).or(shown.first()).cloned();
        for (one, pair) in shown.iter().zip(&pairs) {
            // A certificate for the same names with another kind of key is as good a default.
            if first.as_ref().is_some_and(|first| {
                first.facts.names == one.facts.names && timely(&first) == timely(&one)
            }) {
                by_name.add_default(&pair.key);
            }
        }
        if tls.is_self_signed {
            let (certificate, key) = match &kept.self_signed {
                Some(before) => before.clone(),
                None => sign_one(listener.address.ip())?,
            };
            own = Some((certificate.clone(), key.clone()));
            let facts = Facts::of(&certificate).unwrap_or_default();
            let key = PrivateKeyDer::Pkcs8(key.into());
            let pair = CertifiedKey::from_der(vec![certificate], key, provider);
            by_name.add_default(&Arc::new(pair.map_err(of_ours)?));
            shown.push(Shown { file: None, facts });
        }
        Ok(Certificates {
            by_name,
            shown,
            pairs,
            unusable,
            own,
        })
    }
}

/// The certificates that can be used, and why the others cannot.
fn usable(
    tls: &ListenerTls,
    kept: &Kept<'_>,
    provider: &CryptoProvider,
) -> Result<(Vec<Arc<Pair>>, Vec<String>), Unusable> {
    let read = reading::read_all(&tls.certificates, kept.pairs, provider);
    let are_some = read.iter().any(Result::is_ok);
    let (mut pairs, mut unusable) = (Vec::with_capacity(read.len()), Vec::new());
    for (files, one) in tls.certificates.iter().zip(read) {
        match one {
            Ok(pair) => pairs.push(pair),
            Err(why) if tls.is_strict || !are_some => return Err(why),
            Err(why) => {
                let before = kept.pairs.get(files);
                let shown_instead = match before {
                    Some(_) => "what was read before is shown",
                    None => "clients that ask for its names are shown another one, and refuse it",
                };
                unusable.push(format!(
                    "a certificate cannot be used: {why}; {shown_instead}"
                ));
                pairs.extend(before.map(Arc::clone));
            }
        }
    }
    Ok((pairs, unusable))
}

impl ServedTls {
    fn load(
        tls: &ListenerTls,
        listener: &Listener,
        kept: &Kept<'_>,
        now: Duration,
    ) -> Result<ServedTls, Unusable> {
        // Take the stamps before reading, so that a file that changes meanwhile is read again.
        let stamp = |file: &PathBuf| (file.clone(), Stamp::of(file));
        let files = tls.files().map(stamp).collect();
        let provider = Arc::new(ring::default_provider());
        let certificates = Certificates::read(tls, listener, kept, &provider, now)?;
        let demands = kept.demands(tls)?;
        let builder = builder(tls, &demands, &provider)?;
        let mut config = builder.with_cert_resolver(Arc::new(certificates.by_name));
        let (challenges, orders) = kept.challenges;
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
                // Answer early data before the handshake is complete.
                config.send_half_rtt_data = true;
            }
        }
        Ok(ServedTls {
            config: Arc::new(config),
            shown: certificates.shown,
            pairs: certificates.pairs,
            unusable: certificates.unusable,
            seen_at: now,
            challenges: Arc::clone(challenges),
            demands,
            files,
            self_signed: certificates.own,
        })
    }

    /// Why some certificates cannot be used.
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }

    /// Certificates that cannot be used or are refused by clients, with the reason.
    pub fn troubles(&self, now: Duration) -> impl Iterator<Item = String> {
        let untimely = self.shown.iter().filter_map(move |it| it.is_untimely(now));
        self.unusable.iter().cloned().chain(untimely)
    }

    /// Has a file changed since it was read? A missing file does not count as changed: it is being replaced.
    pub fn has_changed(&self) -> bool {
        let differs = |(file, before): &(PathBuf, Option<Stamp>)| {
            Stamp::of(file).is_some_and(|now| Some(now) != *before)
        };
        self.files.iter().any(differs)
    }

    /// Has a certificate expired, or become valid, since the last check?
    pub fn is_past(&self, now: Duration) -> bool {
        let holds_at = |one: &Shown, at| out_of_time(&one.facts, at).is_none();
        let mut shown = self.shown.iter();
        shown.any(|one| holds_at(one, self.seen_at) != holds_at(one, now))
    }

    /// The challenges shown to an ACME authority. All listeners share them.
    pub fn challenges(&self) -> Arc<Challenges> {
        Arc::clone(&self.challenges)
    }

    /// Is its certificate self-signed, made at the start?
    pub fn is_self_signed(&self) -> bool {
        self.self_signed.is_some()
    }
}

/// Sets the versions of TLS, and the demands on client certificates.
fn builder(
    tls: &ListenerTls,
    demands: &Demands,
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, Unusable> {
    let versions: &[_] = match tls.only_tls13 {
        true => &[&TLS13],
        false => &[&TLS13, &TLS12],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(of_ours)?;
    Ok(match (&tls.clients, &demands.clients) {
        (Some(files), Some((signers, are_required))) => {
            let verifier = verifier(&files.ca, signers, *are_required, provider)?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    })
}

/// An error that no file causes.
fn of_ours(error: rustls::Error) -> Unusable {
    Unusable {
        file: None,
        why: format!("TLS cannot be set up: {error}"),
    }
}
