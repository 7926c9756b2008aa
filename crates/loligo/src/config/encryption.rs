//! TLS of a listener: from its settings to its plan, and whether its files can be used.
//!
//! Rules kept here, and nowhere else:
//!   E1  a self-signed certificate is shown on loopback only
//!   E2  a listener that speaks plain HTTP has no settings of TLS

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use proxy::plan::{CertificateFiles, ClientCertificates, Listener, ListenerTls};

use super::apply::apply;
use super::machine::Machine;
use super::problem::{Found, Problem};
use super::raw::Block;
use super::rows::{Row, rows};
use super::values::{self, TlsWord};

/// The values of a listener's block that are about TLS.
#[derive(Default)]
pub struct EncryptionDraft {
    tls: Option<TlsWord>,
    only_tls13: Option<bool>,
    early_data: Option<bool>,
    tls_strict: Option<bool>,
    client_ca: Option<PathBuf>,
    client_required: Option<bool>,
}

/// Settings of a `[[listener]]` that are about TLS.
pub fn rows() -> Vec<Row<EncryptionDraft>> {
    rows![EncryptionDraft:
        /// Speak TLS (1.2 and 1.3) to clients, with this certificate; PEM, the certificate first and then those that lead to a root. A
        /// file with both, or two. For several, write blocks `[[listener.certificate]]`. `self-signed`, on loopback only: one that is
        /// made at the start and that nobody trusts, for trying out.
        "listener.tls": "`CERT.pem,KEY.pem`, `BOTH.pem`, `acme`, `self-signed`", "none" => tls = values::certificate;
        /// The oldest version of TLS that is spoken.
        "listener.tls-min": "`1.2`, `1.3`", "1.2" => only_tls13 = |given| values::word(given, &[("1.2", false), ("1.3", true)]);
        /// Refuse the start, and a reload, if the time of a certificate is over or has not begun. Otherwise that is said in the log, by `check` and in
        /// the answer to a reload; other certificates are shown where they have the name, and clients decide about this one.
        "listener.tls-strict": "`true`, `false`", "`false`" => tls_strict = values::switch;
        /// Answer clients that come back before the handshake of TLS 1.3 is complete (0-RTT), which saves them a round trip: a plain GET of what is
        /// fresh in the cache, and nothing else. Whatever else comes so early waits until the client has proved itself. Somebody who has
        /// recorded such a request may send it again, and gets nothing for it: each session is resumed once. So sessions are kept
        /// here (`limits.tls-sessions`) instead of sealed into tickets.
        "listener.early-data": "`true`, `false`", "`false`" => early_data = values::switch;
        /// Ask clients for certificates that these authorities have signed. The access log has their subjects.
        "listener.client-ca": "a PEM file", "none are asked for" => client_ca = values::path;
        /// With `client-ca`: may a client come without a certificate? One that it shows must be good in either case.
        "listener.client-certificate": "`required`, `optional`", "`required`"
            => client_required = |given| values::word(given, &[("required", true), ("optional", false)]);
    ]
}

/// The values of a certificate's block.
#[derive(Default)]
pub struct CertificateDraft {
    file: Option<PathBuf>,
    key: Option<PathBuf>,
    ocsp: Option<PathBuf>,
}

/// The fewest certificates for which another thread is started.
const OF_A_THREAD_MIN: usize = 64;

/// Settings of a `[[listener.certificate]]`.
pub fn certificate_rows() -> Vec<Row<CertificateDraft>> {
    rows![CertificateDraft:
        /// PEM: the certificate, and behind it those that lead to a root. It is shown to clients that ask for one of its names, `*.`
        /// for a whole label; where several fit, to a client that can verify it, keys of ECDSA first.
        "listener.certificate.file": "a PEM file", "required" => file = values::path;
        /// PEM: its private key, without a password. The user that the proxy becomes must be able to read it.
        "listener.certificate.key": "a PEM file", "`file`" => key = values::path;
        /// DER: an OCSP response, sent along. It is read again when it changes; nothing is fetched.
        "listener.certificate.ocsp": "a file", "none" => ocsp = values::path;
    ]
}

/// The certificates of a listener's blocks.
fn certificates(block: &Block, problems: &mut Vec<Problem>) -> Vec<CertificateFiles> {
    let mut all = Vec::new();
    let rows = certificate_rows();
    for at in &block.certificates {
        let mut draft = CertificateDraft::default();
        apply(&rows, &at.given, &mut draft, problems);
        let Some(chain) = draft.file else {
            if !at.says("listener.certificate.file") {
                let message = "every certificate needs a file, such as file = \"example.org.pem\"";
                problems.push(at.problem("listener.certificate.file", message));
            }
            continue;
        };
        all.push(CertificateFiles {
            key: draft.key.unwrap_or_else(|| chain.clone()),
            chain,
            ocsp: draft.ocsp,
        });
    }
    all
}

/// TLS of a listener on this address; `None`: the listener speaks plain HTTP.
pub fn settle(
    block: &Block,
    draft: EncryptionDraft,
    address: SocketAddr,
    problems: &mut Vec<Problem>,
) -> Option<ListenerTls> {
    let mut tls = ListenerTls {
        certificates: certificates(block, problems),
        only_tls13: draft.only_tls13.unwrap_or(false),
        early_data: draft.early_data.unwrap_or(false),
        is_strict: draft.tls_strict.unwrap_or(false),
        ..ListenerTls::default()
    };
    let word = draft.tls;
    // A bad value has been reported already.
    let is_said = block.says("listener.tls") && word != Some(TlsWord::Plain);
    match word {
        Some(TlsWord::Files(files)) => tls.certificates.insert(0, files),
        Some(TlsWord::SelfSigned) => tls.is_self_signed = true,
        Some(TlsWord::Acme) => tls.is_acme = true,
        Some(TlsWord::Plain) | None => {}
    }
    if let Some(at) = block.certificates.get(ListenerTls::CERTIFICATES_MAX) {
        let message = format!("at most {} certificates", ListenerTls::CERTIFICATES_MAX);
        problems.push(at.problem("listener.certificate", message));
    }
    // E1
    if tls.is_self_signed && !address.ip().to_canonical().is_loopback() {
        let message = "self-signed is for trying out on loopback; beyond it, name a certificate (CERT.pem,KEY.pem)";
        problems.push(block.problem("listener.tls", message));
    }
    if tls.is_self_signed && !tls.certificates.is_empty() {
        let message = "there are certificates in files; take self-signed out";
        problems.push(block.problem("listener.tls", message));
    }
    if !is_said && block.certificates.is_empty() {
        // E2
        for name in [
            "tls-min",
            "tls-strict",
            "early-data",
            "client-ca",
            "client-certificate",
        ] {
            let given = block.find(&format!("listener.{name}"));
            let message = "is for TLS; this listener speaks plain HTTP: set tls, or write a [[listener.certificate]]";
            problems.extend(given.map(|given| given.problem(message)));
        }
        return None;
    }
    match (draft.client_ca, draft.client_required) {
        (Some(ca), required) => {
            tls.clients = Some(ClientCertificates {
                ca,
                are_required: required.unwrap_or(true),
            });
        }
        (None, Some(_)) if !block.says("listener.client-ca") => {
            let message = "needs client-ca: who has signed the certificates of clients";
            problems.push(block.problem("listener.client-certificate", message));
        }
        _ => {}
    }
    Some(tls)
}

/// Checks the files of each certificate, on all cores.
fn looks(
    certificates: &[CertificateFiles],
    is_strict: bool,
    machine: &Machine,
) -> Vec<Result<Option<String>, String>> {
    let look = machine.certificate;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let of_a_thread = certificates.len().div_ceil(cores).max(OF_A_THREAD_MIN);
    thread::scope(|scope| {
        let parts = certificates.chunks(of_a_thread);
        let looking = |part: &'_ [CertificateFiles]| -> Vec<_> {
            part.iter().map(|files| look(files, is_strict)).collect()
        };
        let running: Vec<_> = parts
            .map(|part| (part, scope.spawn(move || looking(part))))
            .collect();
        let running = running.into_iter();
        running
            .flat_map(|(part, it)| it.join().unwrap_or_else(|_| looking(part)))
            .collect()
    })
}

/// Checks that a start can use the files.
pub fn look(listeners: &[Listener], blocks: &[Block], machine: &Machine, found: &mut Found) {
    for (number, listener) in listeners.iter().enumerate() {
        let (Some(tls), Some(block)) = (&listener.tls, blocks.get(number)) else {
            continue;
        };
        // The ordered certificate needs no file: one is made if there is none.
        let ordered = usize::from(tls.is_acme);
        let named = (block.certificates.iter()).filter_map(|at| {
            let given = at.find("listener.certificate.file")?;
            Some((values::path(given).ok()?, at))
        });
        let mut by_file: HashMap<PathBuf, &Block> = HashMap::new();
        for (file, at) in named {
            by_file.entry(file).or_insert(at);
        }
        let in_files = tls.certificates.get(ordered..).unwrap_or_default();
        let looks = looks(in_files, tls.is_strict, machine);
        // With one good certificate the listener can serve its names, so bad ones only cause notes, unless `is_strict`.
        let are_some = ordered > 0 || looks.iter().any(Result::is_ok);
        for (files, look) in in_files.iter().zip(looks) {
            // The block with this file, or else the listener's own.
            let at = by_file.get(&files.chain);
            let problem = |why: String| match at {
                Some(at) => at.problem("listener.certificate.file", why),
                None => block.problem("listener.tls", why),
            };
            match look {
                Ok(None) => {}
                Ok(Some(note)) => found.notes.push(note),
                Err(why) if are_some && !tls.is_strict => {
                    let why = format!("{why}; until then the other certificates are shown");
                    found.notes.push(problem(why).to_string());
                }
                Err(why) => found.problems.push(problem(why)),
            }
        }
        if let Some(clients) = &tls.clients
            && let Err(why) = (machine.client_ca)(&clients.ca)
        {
            let problem = block.problem("listener.client-ca", why);
            found.problems.push(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::settle;
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let problems = settle(text).expect_err("it is wrong");
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn one_certificate_is_a_word_and_several_are_blocks() {
        let text = "[[listener]]\ntls = \"a.pem, b.key\"\ntls-min = \"1.3\"\nclient-ca = \"/ca.pem\"\n\
             [[listener.certificate]]\nfile = \"/c.pem\"\nocsp = \"/c.ocsp\"\n";
        let plan = settle(text).unwrap().plan;
        let tls = plan.listeners[0].tls.as_ref().unwrap();
        let files = |chain: &str, key: &str, ocsp: Option<&str>| CertificateFiles {
            chain: chain.into(),
            key: key.into(),
            ocsp: ocsp.map(PathBuf::from),
        };
        assert_eq!(
            tls.certificates,
            [
                files("a.pem", "b.key", None),
                files("/c.pem", "/c.pem", Some("/c.ocsp"))
            ]
        );
        assert!(tls.only_tls13);
        assert!(tls.clients.as_ref().unwrap().are_required);
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_a_note_among_others() {
        let certificate = |file: &str| format!("[[listener.certificate]]\nfile = \"{file}\"\n");
        let (bad, good) = (certificate("/missing/b.pem"), certificate("/a.pem"));
        let notes = settle(&format!("[[listener]]\n{bad}{good}")).unwrap().notes;
        let is_told =
            |note: &String| note.contains("loligo.toml:3") && note.contains("No such file");
        assert!(notes.iter().any(is_told), "{notes:?}");
        assert_eq!(told(&format!("[[listener]]\n{bad}")).len(), 1);
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        for (text, line, part) in [
            ("tls = \"/missing/a.pem\"", 2, "No such file"),
            ("tls-min = \"1.3\"", 2, "speaks plain HTTP"),
            (
                "tls = \"/a.pem\"\nclient-certificate = \"optional\"",
                3,
                "needs client-ca",
            ),
            (
                "address = \"0.0.0.0:443\"\nallow = \"any\"\ntls = \"self-signed\"",
                4,
                "loopback",
            ),
            (
                "tls = \"/a.pem\"\ntls-strict = true\n[[listener.certificate]]\nfile = \"/missing/b.pem\"",
                5,
                "No such file",
            ),
            ("[[listener.certificate]]\nkey = \"/a\"", 2, "needs a file"),
            (
                "tls = \"/a.pem\"\nclient-ca = \"/missing/ca.pem\"",
                3,
                "No such file",
            ),
        ] {
            let told = told(&format!("[[listener]]\n{text}\n"));
            assert_eq!(told.len(), 1, "{told:?}");
            let place = format!(":{line}: ");
            assert!(
                told[0].contains(&place) && told[0].contains(part),
                "{told:?}"
            );
        }
    }
}
