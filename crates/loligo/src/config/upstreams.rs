//! Servers of the same content: from `[[upstream]]` blocks to `proxy::plan::Upstream`, and the origins that routes name.
//!
//! Rules kept here, and nowhere else:
//!   O1  every upstream has a name of its own, and a server that is not a backup
//!   O2  no two servers of an upstream have the same address, and none has a path
//!   O3  no server is this proxy itself, as far as the addresses show
//!   O4  an upstream that a route names exists; an upstream that no route names is noted

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use proxy::plan::{
    Balance, HealthCheck, Http2, Listener, OriginTls, OriginUrl, Role, Route, UPSTREAMS_MAX,
    Upstream,
};

use super::apply::apply;
use super::general::Draft;
use super::origin_http2;
use super::origin_tls::{self, OriginTlsDraft};
use super::ours::is_own;
use super::problem::{Found, Problem, did_you_mean};
use super::raw::{Block, Given, Value};
use super::rows::{Row, numbers, rows};
use super::servers::{Servers, servers};
use super::signing::{self, SigningDraft};
use super::values;

/// The values of a block.
#[derive(Default)]
pub struct UpstreamDraft {
    plan: Upstream,
    check: HealthCheck,
    name: Option<String>,
    servers: Option<Servers>,
    host: Option<String>,
    http2: Option<Http2>,
    tls: OriginTlsDraft,
    sign: SigningDraft,
}

/// Settings of an `[[upstream]]`.
pub fn rows() -> Vec<Row<UpstreamDraft>> {
    let mut rows = rows![UpstreamDraft:
        /// What routes call it in place of a URL: `origin = "app"`, or `origin = "app/path"`. It stands in the keys of what is stored, so
        /// that servers may come and go without emptying the cache.
        "upstream.name": "letters, digits, `-`, `.`", "required" => name = name;
        /// Its servers, each a URL without a path, or a name that leads to them. `dns:HOST:PORT`: each address of the name is a server;
        /// `srv:NAME`: each address of what its SRV records name, with their ports, weights and priorities, lower ones first. With `https://` before
        /// HOST or NAME they are asked by TLS, and must show a certificate for that name (of a service, for the domain behind `_https._tcp`).
        /// Names are looked up again as often as their answers say (`dns.ttl-min`, 1s at least); while one is not answered, the servers that are
        /// known stay. `weight=N`, 1 to 1000: its share relative to the others, 1 if it is not said. `backup`: it is asked only if no other is up.
        "upstream.servers": "a list of `URL`, `dns:HOST:PORT` or `srv:NAME`, with `weight=N`, `backup`", "required" => servers = servers;
        /// Which server is asked. `least-outstanding`: of two drawn by their weights, the one with fewer requests in flight. `round-robin`:
        /// in turn. `hash-url`, `hash-client`: each URL, or each client's address, has its server; one that goes moves its own share alone.
        "upstream.balance": "`least-outstanding`, `round-robin`, `hash-url`, `hash-client`", "least-outstanding"
            => plan.balance = |given| values::word(given, &[
                (Balance::LeastOutstanding.word(), Balance::LeastOutstanding),
                (Balance::RoundRobin.word(), Balance::RoundRobin),
                (Balance::HashUrl.word(), Balance::HashUrl),
                (Balance::HashClient.word(), Balance::HashClient),
            ]);
        /// What servers get as Host where the client's is not passed on, and with checks.
        "upstream.host": "a host", "the name" => host = host;
        /// Ask its servers by HTTP/2, as `http2` of a route says: `true` those with TLS, `prior-knowledge` those without. Checks
        /// ask by it, too.
        "upstream.http2": "`true`, `false`, `prior-knowledge`", "false" => http2 = origin_http2::http2;
        /// A path that a server answers with one of `health.status` while it is well. Asked of each server by one thread of the process, signed where the upstream has `sign`.
        /// Without it, servers are judged by requests alone.
        "upstream.health.path": "begins with `/`", "none" => check.path = path;
        /// The statuses of a server that is well.
        "upstream.health.status": "a list of `200`, `200-299`, `2xx`", "200-399" => check.status = statuses;
    ];
    let tls = origin_tls::rows("upstream.tls.").into_iter();
    rows.extend(tls.map(|row| row.within(|it: &mut UpstreamDraft| &mut it.tls)));
    let sign = signing::rows(signing::SCOPES[1]).into_iter();
    rows.extend(sign.map(|row| row.within(|it: &mut UpstreamDraft| &mut it.sign)));
    rows.extend(numbers(
        "upstream.health.",
        HealthCheck::SETTINGS,
        |draft: &mut UpstreamDraft| &mut draft.check,
    ));
    rows.extend(numbers(
        "upstream.",
        Upstream::SETTINGS,
        |draft: &mut UpstreamDraft| &mut draft.plan,
    ));
    rows
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_of_it = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !label.is_empty() && label.bytes().all(is_of_it)
    };
    text.len() <= 64 && text.split('.').all(is_label)
}

fn name(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    match is_name(text) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("expected letters, digits, - and ., at most 64".to_owned()),
    }
}

fn host(given: &Given) -> Result<String, String> {
    let at = values::origin(&Given {
        value: Value::Text(format!("http://{}", values::text(given)?)),
        ..given.clone()
    });
    match at {
        Ok(at) if at.path.is_empty() => Ok(at.authority()),
        _ => Err("expected HOST or HOST:PORT".to_owned()),
    }
}

fn path(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    match text.starts_with('/') && values::is_path_and_query(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a path such as /healthz, without # and blanks".to_owned()),
    }
}

fn statuses(given: &Given) -> Result<Vec<RangeInclusive<u16>>, String> {
    let of = |text: &String| {
        let of_class = text.strip_suffix("xx").and_then(|n| n.parse::<u16>().ok());
        let (first, last) = match (of_class, text.split_once('-')) {
            (Some(class), _) => (
                class.checked_mul(100)?,
                class.checked_mul(100)?.checked_add(99)?,
            ),
            (None, Some((first, last))) => (first.parse().ok()?, last.parse().ok()?),
            (None, None) => (text.parse().ok()?, text.parse().ok()?),
        };
        (200 <= first && first <= last && last <= 599).then_some(first..=last)
    };
    let list: Vec<String> = match &given.value {
        Value::Number(n) => vec![n.to_string()],
        Value::List(items) if items.iter().all(|it| matches!(it, Value::Number(_))) => {
            items.iter().map(Value::to_string).collect()
        }
        _ => values::list(given)?,
    };
    let all: Option<Vec<_>> = list.iter().map(of).collect();
    all.filter(|all| !all.is_empty())
        .ok_or_else(|| "expected statuses from 200 to 599, such as \"200-299\"".to_owned())
}

/// Checks the blocks. A block with a problem becomes an upstream without servers.
/// `of_all`: TLS to all origins.
pub fn settle(blocks: &[Block], of_all: &OriginTls, problems: &mut Vec<Problem>) -> Vec<Upstream> {
    if let Some(block) = blocks.get(UPSTREAMS_MAX) {
        let message = format!("at most {UPSTREAMS_MAX} of them");
        problems.push(block.problem("upstream", message));
    }
    let mut settled: Vec<Upstream> = Vec::new();
    for block in blocks {
        let mut draft = UpstreamDraft::default();
        apply(&rows(), &block.given, &mut draft, problems);
        for (key, is_there, example) in [
            ("upstream.name", draft.name.is_some(), "name = \"app\""),
            (
                "upstream.servers",
                draft.servers.is_some(),
                "servers = [\"http://10.0.0.1:8080\", \"http://10.0.0.2:8080\"]",
            ),
        ] {
            // A bad value has been reported already.
            if !is_there && !block.says(key) {
                problems.push(block.problem(key, format!("every upstream needs it: {example}")));
            }
        }
        let checks = |given: &&Given| given.key.starts_with("upstream.health.");
        let is_checked = block.given.iter().any(|given| checks(&given));
        if is_checked && !block.says("upstream.health.path") {
            let message = "checks need a path, such as health.path = \"/healthz\"";
            problems.push(block.problem("upstream.health", message));
        }
        let (Some(name), Some(servers)) = (draft.name, draft.servers) else {
            // Keep its name, or every route to it would be reported, too.
            let name = block
                .find("upstream.name")
                .and_then(|it| values::text(it).ok());
            settled.push(Upstream {
                name: name.unwrap_or_default().to_ascii_lowercase(),
                ..Upstream::default()
            });
            continue;
        };
        if settled.iter().any(|known| known.name == name) {
            let message = "another upstream has this name already";
            problems.push(block.problem("upstream.name", message));
            continue;
        }
        let is_https = servers.listed.iter().any(|server| server.at.tls)
            || servers.names.iter().any(|name| name.tls);
        let scope = (block, "upstream.tls.");
        let is_plain = servers.listed.iter().any(|server| !server.at.tls)
            || servers.names.iter().any(|name| !name.tls);
        let at = (block, "upstream.http2");
        let http2 = origin_http2::settle(at, draft.http2, (is_https, is_plain), problems);
        settled.push(Upstream {
            tls: origin_tls::settle(scope, draft.tls, of_all, is_https, problems),
            sign: signing::settle((block, signing::SCOPES[1]), draft.sign, problems),
            http2,
            name,
            servers: servers.listed,
            names: servers.names,
            host: draft.host,
            health: is_checked.then_some(draft.check),
            ..draft.plan
        });
    }
    settled
}

/// O3, O4
pub fn check(
    blocks: &[Block],
    upstreams: &[Upstream],
    listeners: &[Listener],
    draft: &Draft,
    found: &mut Found,
) {
    let of_listeners = listeners.iter().map(|listener| listener.address);
    let ours: Vec<SocketAddr> = of_listeners.chain(draft.admin).collect();
    let routes: Vec<&Route> = (listeners.iter())
        .filter_map(|listener| match &listener.role {
            Role::Reverse(routes) => Some(routes),
            Role::Forward(_) => None,
        })
        .flatten()
        .collect();
    for upstream in upstreams {
        let name = &upstream.name;
        let is_it = |block: &&Block| {
            let given = block.find("upstream.name");
            given.is_some_and(|given| self::name(given).is_ok_and(|it| it == *name))
        };
        let Some(block) = blocks.iter().find(is_it) else {
            continue;
        };
        for server in &upstream.servers {
            if let Some(own) = ours.iter().find(|own| is_own(&server.at, **own)) {
                let message = format!(
                    "the server {} is this proxy itself (it listens on {own})",
                    server.at
                );
                found
                    .problems
                    .push(block.problem("upstream.servers", message));
            }
        }
        if !(routes.iter()).any(|route| route.upstream.as_ref() == Some(name)) {
            let note = block.problem("upstream.name", "no route names it");
            found.notes.push(note.to_string());
        }
    }
}

/// The origin that a route names.
#[derive(Clone)]
pub enum Named {
    /// A URL.
    Url(OriginUrl),
    /// The name of an upstream, which may not exist, and a path.
    Upstream(String, String),
}

/// `http://HOST[:PORT][/PATH]`, or `NAME[/PATH]`.
pub fn named(given: &Given) -> Result<Named, String> {
    const SEVERAL: &str = "takes one server; for several write a block [[upstream]] with name = \"app\" and servers = [\"http://…\", \"http://…\"], and here its name, \"app\"";
    match &given.value {
        Value::List(servers) if servers.len() > 1 => return Err(SEVERAL.to_owned()),
        Value::List(_) => return Err("takes one server: leave the brackets out".to_owned()),
        Value::Text(text) if is_list(text) => return Err(SEVERAL.to_owned()),
        _ => {}
    }
    let text = values::text(given)?.trim();
    let (name, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let path = path.trim_end_matches('/');
    match !text.contains("://") && is_name(name) && values::is_path(path) {
        true => Ok(Named::Upstream(name.to_ascii_lowercase(), path.to_owned())),
        false => values::origin(given).map(Named::Url),
    }
}

/// Does the text name several servers? In a path a comma is part of the path.
fn is_list(text: &str) -> bool {
    let Some((first, rest)) = text.split_once(',') else {
        return false;
    };
    let first = first.split_once("://").map_or(first, |(_, behind)| behind);
    rest.contains("://") || !first.contains('/')
}

/// A route for everything to the named origin, which `block` sets with `key`.
pub fn route_to(
    named: &Named,
    upstreams: &[Upstream],
    (block, key): (&Block, &str),
    problems: &mut Vec<Problem>,
) -> Option<Route> {
    let (name, path) = match named {
        Named::Url(origin) => return Some(Route::everything_to(origin.clone())),
        Named::Upstream(name, path) => (name, path),
    };
    let names = || upstreams.iter().map(|upstream| upstream.name.as_str());
    if names().any(str::is_empty) {
        // The named upstream may be one without a valid name, which has been reported.
        return None;
    }
    if let Some(known) = upstreams.iter().find(|known| known.name == *name) {
        return Some(Route {
            tls: known.tls.clone(),
            sign: known.sign.clone(),
            http2: known.http2,
            ..Route::everything_to_upstream(name, path)
        });
    }
    let given = block.find(key)?;
    let message = match (did_you_mean(name, names()), values::origin(given)) {
        (Some(meant), _) => {
            format!("there is no [[upstream]] of this name; did you mean \"{meant}\"?")
        }
        (None, Err(why)) if upstreams.is_empty() => why,
        (None, _) => {
            let names: Vec<_> = names().collect();
            format!(
                "there is no [[upstream]] of this name; there are: {}; a single server is a URL, \"http://{name}\"",
                names.join(", ")
            )
        }
    };
    problems.push(given.problem(message));
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{complaints, settle};
    use proxy::plan::{Balance, Role};
    use std::time::Duration;

    const APP: &str = "[[upstream]]\nname = \"App\"\n";

    #[test]
    fn a_block_and_its_defaults() {
        let text = format!(
            "{APP}servers = [\"http://10.0.0.1:8080\", \"https://b weight=2\", \"http://[::1] backup weight=3\"]\n\
             balance = \"hash-url\"\nhealth = {{ path = \"/healthz\", every = \"1s\", status = [\"2xx\", 304] }}\n\
             [[listener]]\norigin = \"app/base/\"\n[[listener.route]]\nhost = \"a\"\norigin = \"http://a\"\n"
        );
        let settled = settle(&text).unwrap();
        let app = &settled.plan.upstreams[0];
        let told: Vec<_> = app
            .servers
            .iter()
            .map(|it| format!("{} {} {}", it.at, it.weight, it.backup))
            .collect();
        assert_eq!(
            told,
            [
                "http://10.0.0.1:8080 1 false",
                "https://b 2 false",
                "http://[::1] 3 true"
            ]
        );
        assert_eq!((app.name.as_str(), app.host()), ("app", "app"));
        assert_eq!((app.balance, app.retries), (Balance::HashUrl, 2));
        let health = app.health.as_ref().unwrap();
        assert_eq!(health.path, "/healthz");
        assert_eq!(health.every, Duration::from_secs(1));
        assert_eq!((health.rise, health.fall), (2, 3));
        assert_eq!(health.status, [200..=299, 304..=304]);
        let Role::Reverse(routes) = &settled.plan.listeners[0].role else {
            panic!("a reverse listener")
        };
        assert_eq!(routes[0].upstream, None);
        assert_eq!(routes[1].upstream.as_deref(), Some("app"));
        assert_eq!(routes[1].origin_name(), "app/base");
    }

    #[track_caller]
    fn complains(text: &str, words: &str) {
        let told = complaints(text);
        assert!(told.contains(words), "{told}");
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let with = |servers: &str| format!("{APP}servers = {servers}\n");
        complains(APP, "upstream.servers: every upstream needs it");
        complains(&with("[]"), "name one server at least");
        complains(&with("[\"http://a backup\"]"), "must be no backup");
        complains(&with("[\"http://a/x\"]"), "a server has no path");
        complains(&with("[\"a:80\"]"), "the scheme is missing");
        complains(&with("[\"http://a weight=0\"]"), "1 to 1000");
        complains(&with("[\"http://a bakcup\"]"), "weight=N and backup");
        complains(&with("[\"http://a\", \"http://a:80\"]"), "twice");
        complains("[[upstream]]\nservers = [\"http://a\"]", "upstream.name");
        let good = with("[\"http://a\"]");
        complains(&format!("{good}{good}"), "has this name already");
        complains(
            &format!("{good}health.every = \"1s\""),
            "checks need a path",
        );
        complains(
            &format!("{good}[[listener]]\norigin = \"apq\""),
            "did you mean \"app\"?",
        );
        complains(
            &format!("{good}[[listener]]\norigin = \"localhost\""),
            "there are: app",
        );
        complains(
            "[[listener]]\norigin = \"example.org\"",
            "the scheme is missing",
        );
        complains(
            &format!("{APP}servers = [\"http://127.0.0.1:3128\"]\n[[listener]]\norigin = \"app\""),
            "is this proxy itself",
        );
    }

    #[test]
    fn one_that_no_route_names_is_noted() {
        let settled = settle(&format!("{APP}servers = [\"http://a\"]\n")).unwrap();
        assert!(settled.notes[0].contains("no route names it"));
    }

    #[test]
    fn a_comma_in_a_path_is_no_list() {
        for path in ["http://a/x,y", "http://a/x,y,z"] {
            let of = format!("[[listener]]\norigin = \"{path}\"\n");
            assert!(settle(&of).is_ok(), "{path}");
        }
        for several in [
            "http://a,http://b",
            "http://a/x,http://b/y",
            "a:80,b:80",
            "http://a,b/x",
        ] {
            let of = format!("[[listener]]\norigin = \"{several}\"\n");
            complains(&of, "takes one server; for several");
        }
    }
}
