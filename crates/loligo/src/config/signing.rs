//! `sign` of routes and upstreams: requests that are signed for an object store.
//!
//! Rules kept here, and nowhere else:
//!   G1  signing needs the region and a source of credentials
//!   G2  a route to an upstream signs as the upstream is configured
//!   G3  a route that fetches tokens does not sign: both use Authorization

use std::path::PathBuf;
use std::sync::Arc;

use proxy::plan::{CredentialSource, Plan, Route, Signing};

use super::machine::Machine;
use super::problem::{Found, Problem};
use super::raw::{Block, Given, Raw};
use super::rows::{Row, rows};
use super::values;

/// How the names of the settings of a route or upstream begin.
pub const SCOPES: [&str; 2] = ["listener.route.sign.", "upstream.sign."];

/// The values of a `sign` table.
#[derive(Default)]
pub struct SigningDraft {
    region: Option<String>,
    service: Option<String>,
    credentials: Option<CredentialSource>,
    writes: bool,
}

/// Settings of a `sign` table. `scope`: one of [`SCOPES`].
pub fn rows(scope: &str) -> Vec<Row<SigningDraft>> {
    let rows = rows![SigningDraft:
        /// Requests are signed for a store that speaks Amazon's S3 (Signature Version 4), for this region. Only GET and HEAD are; Host is then
        /// the origin's own unless `pass-host` says otherwise. Of stored copies nobody asks for credentials: `allow` and rules say who gets them.
        /// See [guide.md](guide.md#a-private-bucket).
        "aws.region": "a region; `us-east-1` where the store has none", "nothing is signed" => region = word;
        /// Where access key and secret come from. `environment`: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`. `file:PATH`:
        /// `[default]` of a file as `~/.aws/credentials`, read again when it has changed. `web-identity`: the token that
        /// `AWS_WEB_IDENTITY_TOKEN_FILE` names, for the role `AWS_ROLE_ARN`, at `AWS_ENDPOINT_URL_STS` or the region's own service. `instance`:
        /// the role of this machine (IMDSv2) or container (`AWS_CONTAINER_CREDENTIALS_FULL_URI`, `..._RELATIVE_URI`). It is part of
        /// the key of what is stored.
        "aws.credentials": "`environment`, `file:PATH`, `web-identity`, `instance`", "required to sign" => credentials = credentials;
        /// The service that is signed for.
        "aws.service": "`s3`, `s3-object-lambda`, `s3-outposts`", "s3" => service = service;
        /// Sign methods that change something, too: whoever may use the listener may then write and delete. Bodies are not part of the signature
        /// (`UNSIGNED-PAYLOAD`). `false`: they are refused with 403.
        "aws.writes": "`true`, `false`", "false" => writes = values::switch;
    ];
    let named = |row: Row<SigningDraft>| Row {
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

fn word(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    match !text.is_empty() && text.len() <= 64 && is_word(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a region such as \"eu-central-1\"".to_owned()),
    }
}

fn service(given: &Given) -> Result<String, String> {
    let words = Signing::SERVICES.map(|word| (word, word));
    values::word(given, &words).map(str::to_owned)
}

fn credentials(given: &Given) -> Result<CredentialSource, String> {
    let text = values::text(given)?;
    match (text, text.strip_prefix("file:")) {
        ("environment", _) => Ok(CredentialSource::Environment),
        ("web-identity", _) => Ok(CredentialSource::WebIdentity),
        ("instance", _) => Ok(CredentialSource::Instance),
        (_, Some(path)) if path.starts_with('/') => Ok(CredentialSource::File(PathBuf::from(path))),
        _ => Err(
            "expected environment, web-identity, instance, or file: and the absolute path of a file, never a key itself"
                .to_owned(),
        ),
    }
}

/// G1
pub fn settle(
    (block, scope): (&Block, &str),
    draft: SigningDraft,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Signing>> {
    let first = block.given.iter().find(|it| it.key.starts_with(scope))?;
    let mut wants = |key: &str, example: &str| {
        // A bad value has been reported already.
        if !block.says(&format!("{scope}{key}")) {
            let message = format!("signing needs {key} as well, such as {key} = \"{example}\"");
            problems.push(first.problem(message));
        }
    };
    if draft.region.is_none() {
        wants("aws.region", "us-east-1");
    }
    if draft.credentials.is_none() {
        wants("aws.credentials", "environment");
    }
    Some(Arc::new(Signing {
        region: draft.region?,
        service: draft.service.unwrap_or("s3".to_owned()),
        credentials: draft.credentials?,
        writes: draft.writes,
    }))
}

/// G2, G3. How a route's requests are signed. `of_upstream`: as its upstream is configured, if it has one.
pub fn of_route(
    block: &Block,
    draft: SigningDraft,
    route: &Route,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Signing>> {
    let scope = SCOPES[0];
    let given = block.given.iter().find(|it| it.key.starts_with(scope));
    if let (Some(given), Some(_)) = (given, &route.upstream) {
        let message = "is said once for an upstream, for all its routes; write it into its block [[upstream]]";
        problems.push(given.problem(message));
        return None;
    }
    match route.upstream {
        Some(_) => route.sign.clone(),
        None => settle((block, scope), draft, problems),
    }
}

/// G3
pub fn check_tokens(block: &Block, route: &Route, problems: &mut Vec<Problem>) {
    if route.sign.is_some() && route.mirror.tokens.is_some() {
        let message = "cannot go with sign: a request has one Authorization";
        problems.push(block.problem("listener.route.token-hosts", message));
    }
}

/// Checks that a start can use the sources. Credentials that may be in the environment of the service only cause a note.
pub fn look(raw: &Raw, machine: &Machine, found: &mut Found) {
    let routes = raw.listeners.iter().flat_map(|listener| &listener.routes);
    let blocks = (routes.map(|block| (block, SCOPES[0])))
        .chain(raw.upstreams.iter().map(|block| (block, SCOPES[1])));
    for (block, scope) in blocks {
        let Some(given) = block.find(&format!("{scope}aws.credentials")) else {
            continue;
        };
        let Ok(source) = credentials(given) else {
            continue;
        };
        let Err(why) = (machine.credentials)(&source) else {
            continue;
        };
        match source {
            CredentialSource::File(_) => found.problems.push(given.problem(why)),
            _ => found.notes.push(format!(
                "{why} here: where the proxy runs it has to be, or requests that are signed are answered with 503"
            )),
        }
    }
}

/// A note for each origin to which signed requests go without encryption.
pub fn in_plain(plan: &Plan) -> impl Iterator<Item = String> {
    let note = |who| {
        format!(
            "requests to {who} are signed but not encrypted: who reads one on its way may repeat it for 15 minutes, and change what comes back; use https"
        )
    };
    plan.signed_in_plain().into_iter().map(note)
}

/// The signing in words, for `loligo check`: follows a comma.
pub fn explain(signing: &Signing) -> String {
    let what = match signing.writes {
        true => "every method",
        false => "GET and HEAD",
    };
    format!(
        ", {what} signed for {} in {} with the credentials of {}; stored copies go to whom this listener serves, without credentials of their own",
        signing.service, signing.region, signing.credentials
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{complaints, settle};
    use super::*;
    use proxy::plan::Role;

    const BUCKET: &str = "[[listener]]\n[[listener.route]]\norigin = \"https://s3.eu-central-1.amazonaws.com/bucket\"\n";

    fn routes(text: &str) -> Vec<Route> {
        let plan = settle(text).unwrap().plan;
        let Role::Reverse(routes) = &plan.listeners[0].role else {
            panic!("it has routes");
        };
        routes.clone()
    }

    #[test]
    fn a_route_says_all_of_it() {
        let text = format!(
            "{BUCKET}sign = {{ aws = {{ region = \"eu-central-1\", service = \"s3-outposts\", credentials = \"file:/keys\", writes = true }} }}\n"
        );
        let route = &routes(&text)[0];
        let expected = Signing {
            region: "eu-central-1".to_owned(),
            service: "s3-outposts".to_owned(),
            credentials: CredentialSource::File("/keys".into()),
            writes: true,
        };
        assert_eq!(route.sign.as_deref(), Some(&expected));
        assert!(!route.pass_host, "the store knows its own name alone");
        let passing = routes(&format!("{text}pass-host = true\n"));
        assert!(passing[0].pass_host);
        assert!(routes(BUCKET)[0].sign.is_none());
    }

    #[test]
    fn an_upstream_says_it_for_its_routes() {
        let upstream = "[[upstream]]\nname = \"store\"\nservers = [\"https://a\", \"https://b\"]\n\
            sign.aws = { region = \"r\", credentials = \"web-identity\" }\n";
        let route = "[[listener]]\n[[listener.route]]\norigin = \"store/bucket\"\n";
        let signed = routes(&format!("{upstream}{route}"));
        let signing = signed[0].sign.as_ref().unwrap();
        assert_eq!(
            (&*signing.service, signing.writes, signed[0].pass_host),
            ("s3", false, false)
        );
        assert_eq!(signing.credentials, CredentialSource::WebIdentity);
        let own = routes(&format!("{upstream}[[listener]]\norigin = \"store\"\n"));
        assert!(own[0].sign.is_some() && !own[0].pass_host);
        let twice = format!("{upstream}{route}sign.aws.region = \"r\"\n");
        assert!(complaints(&twice).contains("[[upstream]]"));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        let with = |text: &str| format!("{BUCKET}{text}\n");
        let both = "sign.aws = { region = \"r\", credentials = \"environment\" }";
        for (text, part) in [
            (with("sign.aws.region = \"r\""), "aws.credentials as well"),
            (
                with("sign.aws.credentials = \"instance\""),
                "aws.region as well",
            ),
            (
                with("sign.aws = { region = \"a b\", credentials = \"instance\" }"),
                "eu-central-1",
            ),
            (
                with("sign.aws = { region = \"r\", credentials = \"AKIA:secret\" }"),
                "never a key itself",
            ),
            (
                with("sign.aws = { region = \"r\", credentials = \"file:keys\" }"),
                "absolute",
            ),
            (
                with(
                    "sign.aws = { region = \"r\", credentials = \"instance\", service = \"ec2\" }",
                ),
                "s3",
            ),
            (
                with("sign.aws = { region = \"r\", credentials = \"file:/missing/keys\" }"),
                "No such file",
            ),
            (
                with(&format!("{both}\ntoken-hosts = []")),
                "one Authorization",
            ),
            (with("sign.gcp.region = \"r\""), "sign"),
        ] {
            let told = complaints(&text);
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn what_is_odd_is_noted() {
        let noted = |text: &str, part: &str| {
            let settled = settle(text).unwrap();
            settled.notes.iter().any(|it| it.contains(part))
        };
        let https =
            format!("{BUCKET}sign.aws = {{ region = \"r\", credentials = \"instance\" }}\n");
        assert!(!noted(&https, "not encrypted"));
        assert!(noted(&https.replace("https:", "http:"), "not encrypted"));
        let unset = https.replace("instance", "environment");
        assert!(noted(&unset, "AWS_ACCESS_KEY_ID is not set here"));
    }

    #[test]
    fn check_says_who_gets_copies() {
        let text =
            format!("{BUCKET}sign.aws = {{ region = \"r\", credentials = \"file:/keys\" }}\n");
        let said = explain(routes(&text)[0].sign.as_ref().unwrap());
        for part in [
            "GET and HEAD signed for s3 in r",
            "file:/keys",
            "without credentials of their own",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
