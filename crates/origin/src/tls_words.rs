//! Describes failures of TLS with an origin in plain words, with advice, for the log. Clients only get a token.
//!
//! Texts from the origin are shortened, and freed of control characters for terminals.
//!
//! Not known here: connections.

use std::{
    borrow::Cow,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    AlertDescription as Alert, CertificateError as Bad, Error, InvalidMessage, OtherError,
    pki_types::UnixTime,
};

use base::x509;
use plan::Pin;

/// Which part of TLS went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsFault {
    /// The origin's certificate is not valid, or not for this name.
    Certificate,
    /// The origin refused the handshake.
    Alert,
    /// Any other failure of the handshake; also an origin that speaks plain text.
    Protocol,
    /// This system has no trusted roots: no origin can be verified.
    NoRoots,
}

/// Why there is no handshake.
#[derive(Debug)]
pub(super) enum Failed {
    /// TLS failed, for this reason.
    Tls(TlsFault, Arc<str>),
    /// The network failed.
    Io(io::Error),
}

/// The most names of a certificate that are reported,
const NAMES_TOLD: usize = 4;
/// and the most characters of each.
const NAME_CHARS: usize = 80;

/// The most pins of authorities that are reported.
const PINS_TOLD: usize = 4;

/// The error for a key that matches none of the configured pins.
#[derive(Debug)]
pub(super) struct NotPinned {
    /// The pin of the origin's own key,
    pub(super) shown: Pin,
    /// and the pins of the authorities that signed it.
    pub(super) behind: Vec<Pin>,
}

impl std::error::Error for NotPinned {}

impl std::fmt::Display for NotPinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another key than those of tls.pin")
    }
}

/// Classifies an error: rustls wraps its errors in `io::Error`; all others come from the network. `name`: the name that was asked for.
pub(super) fn fault(error: io::Error, name: &str) -> Failed {
    let Some(inner) = of_tls(&error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => Failed::Tls(
                TlsFault::Protocol,
                "it closed the connection in the handshake; does it speak TLS at this port, for this name?".into(),
            ),
            _ => Failed::Io(error),
        };
    };
    let (kind, words): (_, Cow<'_, str>) = match inner {
        Error::InvalidCertificate(bad) => (TlsFault::Certificate, certificate(bad, name).into()),
        Error::NoCertificatesPresented => (TlsFault::Certificate, "it shows no certificate".into()),
        Error::AlertReceived(said) => (TlsFault::Alert, alert(*said).into()),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => (
            TlsFault::Protocol,
            "it does not answer in TLS; does it speak http:// at this port?".into(),
        ),
        Error::PeerIncompatible(why) => (
            TlsFault::Protocol,
            format!("it does not speak what we do: {why:?}; a version below tls.min?").into(),
        ),
        other => (TlsFault::Protocol, other.to_string().into()),
    };
    Failed::Tls(kind, (&*words).into())
}

/// The error of TLS that an error of reading or writing wraps.
pub(super) fn of_tls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Is it an alert received after the handshake?
pub(super) fn is_alert(error: &io::Error) -> bool {
    matches!(of_tls(error), Some(Error::AlertReceived(_)))
}

/// Logs an alert that came in place of an answer, once a second.
pub(super) fn log_alert(to: &impl fmt::Display, error: &io::Error) {
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
    let Some(Error::AlertReceived(said)) = of_tls(error) else {
        return;
    };
    let now_s = base::clock::boot_ms() / 1000;
    if LAST.swap(now_s, Ordering::Relaxed) != now_s {
        let why = alert(*said);
        tracing::warn!(%to, %why, "the origin ended TLS in place of an answer");
    }
}

fn certificate(bad: &Bad, name: &str) -> String {
    let until = |at: &UnixTime| x509::day(i64::try_from(at.as_secs()).unwrap_or(i64::MAX));
    match bad {
        Bad::NotValidForNameContext { presented, .. } => format!(
            "its certificate is for {}, not for {name}; if it is the right server, write one of its names into tls.name",
            names(presented)
        ),
        Bad::NotValidForName => format!(
            "its certificate is not for {name}; if it is the right server, write one of its names into tls.name"
        ),
        Bad::ExpiredContext { not_after, .. } => format!(
            "its certificate has ended, on {}; it has to be renewed there, if the clock here is right",
            until(not_after)
        ),
        Bad::Expired => {
            "its certificate has ended; it has to be renewed there, if the clock here is right"
                .to_owned()
        }
        Bad::NotValidYetContext { not_before, .. } => format!(
            "its certificate begins to hold on {}; look at the clocks",
            until(not_before)
        ),
        Bad::NotValidYet => "its certificate does not hold yet; look at the clocks".to_owned(),
        Bad::UnknownIssuer => {
            "nobody who is trusted has signed its certificate; write the authority's, or its own, into tls.ca-file"
                .to_owned()
        }
        Bad::BadSignature => "it does not have the key of its certificate, or an authority has not signed that".to_owned(),
        Bad::Other(OtherError(other)) => match other.downcast_ref::<NotPinned>() {
            Some(not) => {
                let behind = not.behind.iter().take(PINS_TOLD).map(Pin::to_string);
                let behind = match behind.collect::<Vec<_>>().join(", ") {
                    none if none.is_empty() => none,
                    all => format!(", its authorities' {all}"),
                };
                format!(
                    "its key is {}{behind}, none of tls.pin; if it has a new key, add that, or else somebody answers in its place",
                    not.shown
                )
            }
            // A certificate of an authority that the operator has not listed.
            None => format!(
                "its certificate cannot be trusted ({}); write it into tls.ca-file if it is the right one",
                plain(&other.to_string())
            ),
        },
        other => format!("its certificate cannot be used: {}", plain(&format!("{other:?}"))),
    }
}

/// Describes an alert of the origin. It may come after the handshake: in TLS 1.3 our certificate is judged only then.
pub(super) fn alert(said: Alert) -> String {
    let words = match said {
        Alert::CertificateRequired => "it wants a certificate of ours; set tls.client-certificate",
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            "it does not accept the certificate of tls.client-certificate"
        }
        Alert::UnknownCA => {
            "it does not know who has signed the certificate of tls.client-certificate"
        }
        Alert::CertificateExpired => "the certificate of tls.client-certificate has ended for it",
        Alert::CertificateRevoked => "the certificate of tls.client-certificate is revoked there",
        Alert::AccessDenied => "it refuses us; look at tls.client-certificate",
        Alert::UnrecognisedName => "it has no certificate for this name; look at tls.name",
        Alert::HandshakeFailure => {
            "it refuses the handshake; it may want a certificate of ours (tls.client-certificate), or another version"
        }
        Alert::ProtocolVersion => "it speaks no version of TLS that we do; look at tls.min",
        other => return format!("it ends TLS with the alert {other:?}"),
    };
    words.to_owned()
}

fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name".to_owned();
    }
    // The format is `DnsName("other.test")`.
    let bare = |name: &String| {
        let inner = name
            .split_once('(')
            .and_then(|(_, rest)| rest.strip_suffix(')'));
        plain(inner.unwrap_or(name).trim_matches('"'))
    };
    let told: Vec<_> = presented.iter().take(NAMES_TOLD).map(bare).collect();
    let more = presented.len() - told.len();
    match more {
        0 => told.join(", "),
        _ => format!("{} and {more} more", told.join(", ")),
    }
}

/// The text, shortened, with `?` for characters that are not printable.
fn plain(text: &str) -> String {
    let chars = text.chars().take(NAME_CHARS);
    chars
        .map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_origin_shows_is_told_shortly_and_harmlessly() {
        let presented = vec!["DnsName(\"a\u{1b}[31m\")".to_owned(); 7];
        let bad = Bad::NotValidForNameContext {
            expected: rustls::pki_types::ServerName::try_from("b.test").unwrap(),
            presented,
        };
        let words = certificate(&bad, "b.test");
        assert!(
            words.contains("a?[31m, ") && words.contains(" and 3 more"),
            "{words}"
        );
        assert!(words.chars().all(|c| !c.is_control()));
        let long = vec!["x".repeat(10_000)];
        assert!(names(&long).len() <= NAME_CHARS);
    }
}
