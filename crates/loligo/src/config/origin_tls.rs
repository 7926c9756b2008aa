//! TLS to origins: `[tls]`, and `tls` of routes, upstreams and parents.
//!
//! Rules kept here, and nowhere else:
//!   T1  settings that an origin leaves out are those of `[tls]`
//!   T2  an origin in plain HTTP has no settings of TLS
//!   T3  a key has a certificate
//!   T4  there is no `ca-file` where nothing is verified

use std::path::PathBuf;
use std::sync::Arc;

use proxy::plan::{CertificateFiles, OriginTls, Pin, Plan};

use super::machine::Machine;
use super::problem::{Found, Problem};
use super::raw::{Block, Given, Raw};
use super::rows::{Row, rows};
use super::values;

/// How the names of the settings of a route, upstream or parent begin.
pub const SCOPES: [&str; 3] = ["listener.route.tls.", "upstream.tls.", "parent.tls."];

/// The values of a `tls` table.
#[derive(Default, Clone, PartialEq, Debug)]
pub struct OriginTlsDraft {
    ca_file: Option<PathBuf>,
    name: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    pins: Vec<Pin>,
    verify: Option<bool>,
    only_tls13: Option<bool>,
}

/// Settings of a `tls` table. `scope`: one of [`SCOPES`].
pub fn rows(scope: &str) -> Vec<Row<OriginTlsDraft>> {
    let rows = rows![OriginTlsDraft:
        /// PEM file of certificates to trust here, and nobody else, the system's roots neither: of authorities, or the origin's own, as with
        /// `tls.ca-file`.
        "ca-file": "a PEM file", "the system's, and `tls.ca-file`" => ca_file = values::path;
        /// The name to ask for (SNI), and to look for in the certificate.
        "name": "a host name or an address", "the host of the URL" => name = name;
        /// PEM: a certificate to show if the origin asks for one, and behind it those that lead to a root. It is read again with
        /// a reload, and when it has changed. It is part of the key of what is stored.
        "client-certificate.certificate": "a PEM file", "that of `[tls]`" => certificate = values::path;
        /// PEM: its private key, without a password.
        "client-certificate.key": "a PEM file", "the certificate's file" => key = values::path;
        /// The SHA-256 of public keys (as curl's `--pinnedpubkey`), one of which the origin's own certificate must have, or an authority on
        /// the path that was verified. They count besides `verify`; without that, only the origin's own key does. Name the next key before
        /// it is used.
        "pin": "a list of `sha256/BASE64`", "any key" => pins = pins;
        /// Look whether the certificate is for the name, holds now and was signed by somebody trusted. `false`: whoever answers is the
        /// origin, unless there is a `pin`.
        "verify": "`true`, `false`", "that of `[tls]`" => verify = values::switch;
        /// The oldest version of TLS that is spoken.
        "min": "`1.2`, `1.3`", "that of `[tls]`" => only_tls13 = version;
    ];
    let named = |row: Row<OriginTlsDraft>| Row {
        key: format!("{scope}{}", row.key),
        // The reference describes each setting once.
        doc: match scope == SCOPES[0] {
            true => row.doc,
            false => "As in a route.",
        },
        ..row
    };
    rows.into_iter().map(named).collect()
}

/// `1.2` or `1.3`: are older versions refused?
pub fn version(given: &Given) -> Result<bool, String> {
    values::word(given, &[("1.2", false), ("1.3", true)])
}

fn name(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match values::split_authority(text) {
        _ if text.parse::<std::net::IpAddr>().is_ok() => Ok(text.to_owned()),
        Some((_, None)) => Ok(bare.unwrap_or(text).to_ascii_lowercase()),
        _ => Err("expected a host name or an address, without port".to_owned()),
    }
}

fn pins(given: &Given) -> Result<Vec<Pin>, String> {
    let pins: Result<Vec<Pin>, _> = values::list(given)?.iter().map(|it| it.parse()).collect();
    match pins {
        Ok(pins) if pins.len() > OriginTls::PINS_MAX => {
            Err(format!("at most {} pins", OriginTls::PINS_MAX))
        }
        Ok(pins) if !pins.is_empty() => Ok(pins),
        _ => Err("expected pins such as \"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\": `openssl x509 -in CERT.pem -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64`".to_owned()),
    }
}

/// T3
fn certificate(
    (block, scope): (&Block, &str),
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    problems: &mut Vec<Problem>,
) -> Option<CertificateFiles> {
    let said = format!("{scope}client-certificate.certificate");
    if certificate.is_none() && key.is_some() && !block.says(&said) {
        let message = "needs client-certificate.certificate, the certificate of this key";
        let key = format!("{scope}client-certificate.key");
        problems.push(block.problem(&key, message));
    }
    let chain = certificate?;
    Some(CertificateFiles {
        key: key.unwrap_or_else(|| chain.clone()),
        chain,
        ocsp: None,
    })
}

/// Fills in the parts of `[tls]` that depend on several settings. `whole`: the settings as written.
pub fn settle_all(
    tls: &mut OriginTls,
    (chain, key): (Option<PathBuf>, Option<PathBuf>),
    whole: &Block,
    problems: &mut Vec<Problem>,
) {
    tls.certificate = certificate((whole, "tls."), chain, key, problems);
    if tls.is_unverified && tls.ca_file.is_some() {
        // T4
        let message = "counts for nothing with verify = false: leave one of the two out";
        problems.push(whole.problem("tls.ca-file", message));
    }
}

/// T1. TLS to a route's origin, to an upstream or a parent. `of_all`: `[tls]`; `is_https`: is TLS spoken there at all?
pub fn settle(
    (block, scope): (&Block, &str),
    draft: OriginTlsDraft,
    of_all: &OriginTls,
    is_https: bool,
    problems: &mut Vec<Problem>,
) -> Option<Arc<OriginTls>> {
    let own = |given: &&Given| given.key.starts_with(scope);
    let first = block.given.iter().find(own)?;
    if !is_https {
        // T2
        let message = "is for https://, and this is asked in plain HTTP";
        problems.push(first.problem(message));
        return None;
    }
    let is_unverified = draft.verify.map_or(of_all.is_unverified, |verify| !verify);
    if is_unverified && draft.ca_file.is_some() {
        // T4
        let message = match draft.verify {
            Some(_) => "counts for nothing with verify = false: leave one of the two out",
            None => "counts for nothing with tls.verify = false: write verify = true here",
        };
        problems.push(block.problem(&format!("{scope}ca-file"), message));
    }
    let shown = certificate((block, scope), draft.certificate, draft.key, problems);
    Some(Arc::new(OriginTls {
        only_ca_file: draft.ca_file.is_some(),
        ca_file: draft.ca_file.or_else(|| of_all.ca_file.clone()),
        name: draft.name,
        certificate: shown.or_else(|| of_all.certificate.clone()),
        pins: draft.pins,
        is_unverified,
        only_tls13: draft.only_tls13.unwrap_or(of_all.only_tls13),
    }))
}

/// Checks that a start can use the files.
pub fn look(raw: &Raw, whole: &Block, machine: &Machine, found: &mut Found) {
    let routes = raw.listeners.iter().flat_map(|listener| &listener.routes);
    let blocks = (routes.map(|block| (block, SCOPES[0])))
        .chain(raw.upstreams.iter().map(|block| (block, SCOPES[1])))
        .chain(raw.parents.iter().map(|block| (block, SCOPES[2])));
    for (block, scope) in std::iter::once((whole, "tls.")).chain(blocks) {
        let file = |key: &str| {
            let given = block.find(&format!("{scope}{key}"))?;
            Some((given, values::path(given).ok()?))
        };
        if let Some((given, path)) = file("ca-file")
            && let Err(why) = (machine.certificates)(&path)
        {
            let message = format!("{}: {why}", path.display());
            found.problems.push(given.problem(message));
        }
        let Some((given, chain)) = file("client-certificate.certificate") else {
            continue;
        };
        let key = file("client-certificate.key");
        let files = CertificateFiles {
            key: key.map_or_else(|| chain.clone(), |(_, key)| key),
            chain,
            ocsp: None,
        };
        match (machine.client_certificate)(&files) {
            Ok(note) => found.notes.extend(note),
            Err(why) => found.problems.push(given.problem(why)),
        }
    }
}

/// A note for each origin whose certificate is not verified.
pub fn unverified(plan: &Plan) -> impl Iterator<Item = String> {
    let note = |who| {
        format!(
            "the certificate of {who} is not verified: whoever answers there is believed (verify = false)"
        )
    };
    plan.unverified().into_iter().map(note)
}

/// The settings that differ from the defaults, for `loligo check`: each after a comma, or nothing.
pub fn explain(tls: &OriginTls) -> String {
    let mut said = String::new();
    match (tls.is_unverified, tls.only_ca_file, &tls.ca_file) {
        (true, ..) if !tls.pins.is_empty() => said += ", certificate not checked but for its key",
        (true, ..) => said += ", certificate NOT checked",
        (false, true, Some(file)) => {
            said += &format!(", certificate checked by {} alone", file.display())
        }
        _ => said += ", certificate checked",
    }
    if let Some(name) = &tls.name {
        said += &format!(", as {name}");
    }
    match tls.pins.len() {
        0 => {}
        1 => said += ", with the one key of pin",
        pins => said += &format!(", with one of {pins} keys"),
    }
    if let Some(files) = &tls.certificate {
        said += &format!(", shown {}", files.chain.display());
    }
    if tls.only_tls13 {
        said += ", TLS 1.3";
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::testing::{complaints, settle};
    use super::*;
    use proxy::plan::Role;

    const PIN: &str = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    #[track_caller]
    fn route_of(text: &str) -> OriginTls {
        let plan = settle(text).unwrap().plan;
        let Role::Reverse(routes) = &plan.listeners[0].role else {
            panic!("it has routes");
        };
        OriginTls::clone(routes[0].tls.as_ref().expect("it has settings"))
    }

    #[test]
    fn a_route_says_all_of_it() {
        let tls = route_of(&format!(
            "[[listener]]\n[[listener.route]]\norigin = \"https://10.0.0.1\"\ntls = {{ ca-file = \"/ca.pem\", name = \"App.internal\", \
             client-certificate = {{ certificate = \"/c.pem\", key = \"/c.key\" }}, pin = [\"{PIN}\", \"{}\"], verify = true, min = \"1.3\" }}\n",
            PIN.replacen('/', "//", 1)
        ));
        let pin: Pin = PIN.parse().unwrap();
        let expected = OriginTls {
            ca_file: Some("/ca.pem".into()),
            only_ca_file: true,
            name: Some("app.internal".to_owned()),
            certificate: Some(CertificateFiles {
                chain: "/c.pem".into(),
                key: "/c.key".into(),
                ocsp: None,
            }),
            pins: vec![pin, pin],
            is_unverified: false,
            only_tls13: true,
        };
        assert_eq!(tls, expected);
    }

    #[test]
    fn what_is_not_said_is_as_for_all() {
        let tls = route_of(
            "[tls]\nca-file = \"/ca.pem\"\nmin = \"1.3\"\nclient-certificate.certificate = \"/both.pem\"\n\
             [[upstream]]\nname = \"app\"\nservers = [\"https://a\"]\ntls.name = \"::1\"\n\
             [[listener]]\n[[listener.route]]\norigin = \"app\"\n",
        );
        assert_eq!((tls.name.as_deref(), tls.only_tls13), (Some("::1"), true));
        assert_eq!(
            (tls.ca_file, tls.only_ca_file),
            (Some("/ca.pem".into()), false)
        );
        assert_eq!(tls.certificate.unwrap().key, PathBuf::from("/both.pem"));
        let settled = settle(
            "[tls]\nverify = false\n[[parent]]\naddress = \"https://p\"\ntls.verify = true\n",
        )
        .unwrap();
        assert_eq!(settled.plan.parents[0].at.port, 443);
        assert!(!settled.plan.parents[0].tls.as_ref().unwrap().is_unverified);
        assert!(
            settled
                .notes
                .iter()
                .any(|it| it.contains("all https origins")),
            "{:?}",
            settled.notes
        );
    }

    #[test]
    fn what_is_not_verified_is_noted_unless_it_is_pinned() {
        let noted = |more: &str| {
            let text = format!(
                "[[listener]]\n[[listener.route]]\norigin = \"https://a\"\ntls = {{ verify = false{more} }}\n"
            );
            let settled = settle(&text).unwrap();
            settled
                .notes
                .iter()
                .any(|it| it.contains("https://a is not verified"))
        };
        assert!(noted(""));
        assert!(!noted(&format!(", pin = \"{PIN}\"")));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        let route = "[[listener]]\n[[listener.route]]\norigin = \"https://a\"\n";
        let plain = "[[listener]]\n[[listener.route]]\norigin = \"http://a\"\n";
        let upstream = "[[upstream]]\nname = \"u\"\nservers = [\"http://a\"]\n";
        let to_upstream = "[[upstream]]\nname = \"u\"\nservers = [\"https://a\"]\n[[listener]]\n[[listener.route]]\norigin = \"u\"\n";
        for (text, line, part) in [
            (format!("{plain}tls.verify = true\n"), 4, "plain HTTP"),
            (
                format!("{upstream}tls.min = \"1.3\"\n[[listener]]\norigin = \"u\"\n"),
                4,
                "plain HTTP",
            ),
            (
                "[[parent]]\naddress = \"p\"\ntls.min = \"1.3\"\n".to_owned(),
                3,
                "plain HTTP",
            ),
            (format!("{to_upstream}tls.min = \"1.3\"\n"), 7, "upstream"),
            (
                format!("{route}tls.ca-file = \"/missing/ca.pem\"\n"),
                4,
                "No such file",
            ),
            (
                format!("{route}tls.client-certificate.certificate = \"/missing/c.pem\"\n"),
                4,
                "No such file",
            ),
            (
                format!("{route}tls.client-certificate.key = \"/c.key\"\n"),
                4,
                "needs client-certificate.certificate",
            ),
            (
                format!("{route}tls.pin = \"sha256/AAAA\"\n"),
                4,
                "sha256/47",
            ),
            (format!("{route}tls.pin = []\n"), 4, "sha256/47"),
            (format!("{route}tls.name = \"a:443\"\n"), 4, "without port"),
            (format!("{route}tls.min = \"1.1\"\n"), 4, "1.2 or 1.3"),
            (
                format!("{route}tls = {{ verify = false, ca-file = \"/ca.pem\" }}\n"),
                4,
                "counts for nothing",
            ),
            (format!("{route}tls.verfy = false\n"), 4, "verify"),
            (
                "[tls]\nclient-certificate.key = \"/c.key\"\n".to_owned(),
                2,
                "needs client-certificate.certificate",
            ),
            (
                "[tls]\nverify = false\nca-file = \"/ca.pem\"\n".to_owned(),
                3,
                "counts for nothing",
            ),
            (
                "[tls]\nclient-certificate.certificate = \"/missing/c.pem\"\n".to_owned(),
                2,
                "No such file",
            ),
        ] {
            let told = complaints(&text);
            let place = format!(":{line}: ");
            assert!(
                told.contains(&place) && told.contains(part),
                "{text}\n{told}"
            );
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }
}
