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
    certificates::{Shown, check_times, read_pair, sign_one, verifier},
    names::ByName,
    sessions::Sessions,
};
use base::x509::Facts;
use origin::pem::{self, Stamp, Unusable, out_of_time};
use plan::{Listener, ListenerTls, Plan};

/// What may come before the handshake is complete: some requests. It is kept until it is read.
const EARLY_BYTES_MAX: u32 = 16 << 10;

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
                let made = ServedTls::load(tls, listener, &kept, now)?;
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

impl Kept<'_> {
    /// What is asked of clients, and how they resume: as on another listener that asks the same.
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
    /// One that was made here.
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
        let mut pairs = Vec::new();
        for files in &tls.certificates {
            let (pair, facts) = read_pair(files, provider)?;
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
            own,
        })
    }
}

impl ServedTls {
    fn load(
        tls: &ListenerTls,
        listener: &Listener,
        kept: &Kept<'_>,
        now: Duration,
    ) -> Result<ServedTls, Unusable> {
        // Before they are read: what changes meanwhile is read again.
        let stamp = |file: &PathBuf| Some((file.clone(), Stamp::of(file)?));
        let files = tls.files().filter_map(stamp).collect();
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
                // The answer does not wait for the handshake either.
                config.send_half_rtt_data = true;
            }
        }
        Ok(ServedTls {
            config: Arc::new(config),
            shown: certificates.shown,
            seen_at: now,
            challenges: Arc::clone(challenges),
            demands,
            files,
            self_signed: certificates.own,
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

/// The versions, and how clients are asked for certificates.
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

/// Does not come of files.
fn of_ours(error: rustls::Error) -> Unusable {
    Unusable {
        file: None,
        why: format!("TLS cannot be set up: {error}"),
    }
}
