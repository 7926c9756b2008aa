//! Parents and siblings: from `[[parent]]` and `[[sibling]]` blocks to `proxy::plan`.
//!
//! Rules kept here, and nowhere else:
//!   P1  every peer has an address
//!   P2  no two peers have the same name, and no two parents or two siblings the same address
//!   P3  no peer is this proxy itself, as far as the addresses show
//!   P4  parents of the same domains agree in `use` and `direct`
//!   P5  no parent comes after others that take all its hosts
//!   P6  there is a forward listener, because only forward listeners use peers
//!
//! Not known here: whether a peer can be reached. That changes, so the proxy checks it while it runs.

use std::sync::Arc;

use proxy::plan::{
    Ask, Direct, Health, Listener, Order, OriginTls, OriginUrl, PEERS_MAX, Parent, PeerAddress,
    Role, Sibling,
};

use super::apply::apply;
use super::general::Draft;
use super::origin_tls::{self, OriginTlsDraft};
use super::ours::is_own;
use super::problem::Problem;
use super::raw::{Block, Given};
use super::rows::{Row, numbers, rows};
use super::values;

/// The values of a `[[parent]]`.
#[derive(Default)]
pub struct ParentDraft {
    plan: Parent,
    name: Option<String>,
    at: Option<(PeerAddress, bool)>,
    tls: OriginTlsDraft,
    order: Option<Order>,
    direct: Option<Direct>,
}

/// The values of a `[[sibling]]`.
#[derive(Default)]
pub struct SiblingDraft {
    plan: Sibling,
    name: Option<String>,
    at: Option<PeerAddress>,
}

/// Settings of a `[[parent]]`.
pub fn parent_rows() -> Vec<Row<ParentDraft>> {
    let mut rows = rows![ParentDraft:
        /// Where it answers HTTP, or HTTP over TLS.
        "parent.address": "`HOST[:PORT]` or `https://HOST[:PORT]`", "required; port 3128, or 443" => at = address;
        /// Its name in logs and messages. By `hash`, leaves choose the same parent for a URL if they call the parents the same.
        "parent.name": "a word", "its address" => name = values::peer_name;
        /// Hosts that it is asked for. `*.` means all names below one. The first parent that is for a host counts, with all others of the
        /// same list; so special ones come first, and one for all hosts last.
        "parent.domains": "a list of `NAME` or `*.NAME`", "all" => plan.domains = values::hosts;
        /// Which of several parents of the same `domains` is asked. `first`: as they stand here. `hash`: each URL has one parent, so that
        /// it is stored once; one that has far more to do than its share is passed over. `round-robin`: in turn.
        "parent.use": "`first`, `hash`, `round-robin`", "first" => order = |given| values::word(given, &[
            ("first", Order::First), ("hash", Order::Hash), ("round-robin", Order::RoundRobin),
        ]);
        /// When the origin is asked although there is a parent. `never`, for networks that let only the parent out; `fallback`, if no
        /// parent is alive, or the only one gives no answer; `prefer`, always, and the parent if the origin does not answer. For one
        /// request two are asked at most.
        "parent.direct": "`never`, `fallback`, `prefer`", "fallback" => direct = |given| values::word(given, &[
            ("never", Direct::Never), ("fallback", Direct::Fallback), ("prefer", Direct::Prefer),
        ]);
        /// What it answers with 200 to 399 while it is well: a path on it, or a URL, such as that of its admin interface. Without it, it
        /// is dead after three failures within ten seconds, and alive when a connection can be made again.
        "parent.health": "`/PATH` or `http://HOST[:PORT]/PATH`", "none" => plan.health = health;
    ];
    let tls = origin_tls::rows("parent.tls.").into_iter();
    rows.extend(tls.map(|row| row.within(|it: &mut ParentDraft| &mut it.tls)));
    rows.extend(numbers(
        "parent.",
        Parent::SETTINGS,
        |draft: &mut ParentDraft| &mut draft.plan,
    ));
    rows
}

/// Settings of a `[[sibling]]`.
pub fn sibling_rows() -> Vec<Row<SiblingDraft>> {
    let mut rows = rows![SiblingDraft:
        /// Where it answers HTTP.
        "sibling.address": "`HOST[:PORT]`", "required; port 3128" => at = values::peer_address;
        /// Its name in logs and messages.
        "sibling.name": "a word", "its address" => name = values::peer_name;
        /// Hosts that it is asked for. `*.` means all names below one.
        "sibling.domains": "a list of `NAME` or `*.NAME`", "all" => plan.domains = values::hosts;
        /// How it is known what it has. `icp`: it is asked by ICP before each miss, on port 3130 or the one named; a round trip more for
        /// each miss. `digest`: by a summary of what it has, which is fetched from time to time; no round trip, and a little out of date.
        /// `try`: by asking for it with `only-if-cached`; the slowest, and what every cache understands.
        "sibling.ask": "`icp`, `icp=PORT`, `digest`, `try`", "icp" => plan.ask = ask;
    ];
    rows.extend(numbers(
        "sibling.",
        Sibling::SETTINGS,
        |draft: &mut SiblingDraft| &mut draft.plan,
    ));
    rows
}

fn ask(given: &Given) -> Result<Ask, String> {
    let expected = || "expected icp, icp=PORT, digest or try".to_owned();
    let text = values::text(given)?;
    match text {
        "icp" => Ok(Ask::default()),
        "digest" => Ok(Ask::Digest),
        "try" => Ok(Ask::Try),
        _ => {
            let port = text.strip_prefix("icp=").and_then(|port| port.parse().ok());
            let port = port.filter(|port| *port != 0).ok_or_else(expected)?;
            Ok(Ask::Icp { port })
        }
    }
}

/// `HOST[:PORT]`, or `https://HOST[:PORT]`: is TLS spoken there?
fn address(given: &Given) -> Result<(PeerAddress, bool), String> {
    let is_https = |text: &str| {
        text.trim()
            .get(..8)
            .is_some_and(|it| it.eq_ignore_ascii_case("https://"))
    };
    if !is_https(values::text(given)?) {
        return values::peer_address(given).map(|at| (at, false));
    }
    let OriginUrl {
        host, port, path, ..
    } = values::origin(given)?;
    match path.is_empty() {
        true => Ok((PeerAddress { host, port }, true)),
        false => Err("a parent has no path: expected https://HOST[:PORT]".to_owned()),
    }
}

fn health(given: &Given) -> Result<Health, String> {
    let text = values::text(given)?;
    if text.starts_with('/') {
        return match values::is_path_and_query(text) {
            true => Ok(Health {
                at: None,
                path: text.to_owned(),
            }),
            false => Err("expected a path such as /healthz, without # and blanks".to_owned()),
        };
    }
    let OriginUrl {
        tls,
        host,
        port,
        path,
    } = values::origin(given)?;
    if tls {
        return Err("a parent's health is asked for by http://".to_owned());
    }
    Ok(Health {
        at: Some(PeerAddress { host, port }),
        path: if path.is_empty() {
            "/".to_owned()
        } else {
            path
        },
    })
}

/// Checks the blocks of both kinds.
pub fn settle(
    [parents, siblings]: [&[Block]; 2],
    listeners: &[Listener],
    draft: &Draft,
    problems: &mut Vec<Problem>,
) -> (Vec<Parent>, Vec<Sibling>) {
    for (blocks, kind) in [(parents, "parent"), (siblings, "sibling")] {
        if let Some(block) = blocks.get(PEERS_MAX) {
            let message = format!("at most {PEERS_MAX} of them");
            problems.push(block.problem(kind, message));
        }
        // P6
        let is_forward = |listener: &Listener| matches!(listener.role, Role::Forward(_));
        if let Some(block) = blocks.first()
            && !listeners.iter().any(is_forward)
        {
            let message = "is asked for forward listeners, and there is none; a reverse listener's route names its origin, which may be a proxy";
            problems.push(block.problem(kind, message));
        }
    }
    let mut met = Met {
        ours: listeners
            .iter()
            .map(|listener| listener.address)
            .chain(draft.admin)
            .collect(),
        names: Vec::new(),
        addresses: Vec::new(),
    };
    let parents = self::parents(parents, &draft.plan.tls, &mut met, problems);
    met.addresses.clear();
    let mut settled = Vec::new();
    for block in siblings {
        let mut draft = SiblingDraft::default();
        apply(&sibling_rows(), &block.given, &mut draft, problems);
        if let Some((name, at)) = met.peer(block, "sibling", draft.name, draft.at, problems) {
            settled.push(Sibling {
                name,
                at,
                ..draft.plan
            });
        }
    }
    (parents, settled)
}

/// The addresses and names seen so far.
struct Met {
    ours: Vec<std::net::SocketAddr>,
    names: Vec<String>,
    addresses: Vec<PeerAddress>,
}

impl Met {
    /// P1, P2, P3
    fn peer(
        &mut self,
        block: &Block,
        kind: &str,
        name: Option<String>,
        at: Option<PeerAddress>,
        problems: &mut Vec<Problem>,
    ) -> Option<(String, PeerAddress)> {
        let key = format!("{kind}.address");
        let Some(at) = at else {
            // A bad address has been reported already.
            if !block.says(&key) {
                let message = format!(
                    "every {kind} needs an address, such as address = \"proxy.example:3128\""
                );
                problems.push(block.problem(&key, message));
            }
            return None;
        };
        let url = OriginUrl {
            tls: false,
            host: at.host.clone(),
            port: at.port,
            path: String::new(),
        };
        if let Some(own) = self.ours.iter().find(|own| is_own(&url, **own)) {
            let message = format!("is this proxy itself (it listens on {own})");
            problems.push(block.problem(&key, message));
        }
        if self.addresses.contains(&at) {
            let message = format!("there is a {kind} at {at} already");
            problems.push(block.problem(&key, message));
        }
        let name = name.unwrap_or_else(|| at.to_string());
        if self.names.contains(&name) {
            let message = format!("another peer is called {name}; give this one a name of its own");
            problems.push(block.problem(&format!("{kind}.name"), message));
        }
        self.names.push(name.clone());
        self.addresses.push(at.clone());
        Some((name, at))
    }
}

fn parents(
    blocks: &[Block],
    of_all: &OriginTls,
    met: &mut Met,
    problems: &mut Vec<Problem>,
) -> Vec<Parent> {
    // The first parent of each list of domains.
    let mut groups: Vec<(&Block, Parent)> = Vec::new();
    let mut settled = Vec::new();
    for block in blocks {
        let mut draft = ParentDraft::default();
        apply(&parent_rows(), &block.given, &mut draft, problems);
        let (at, is_https) = draft.at.unzip();
        let is_https = is_https.unwrap_or(block.says("parent.address"));
        let own = origin_tls::settle(
            (block, "parent.tls."),
            draft.tls,
            of_all,
            is_https,
            problems,
        );
        let peer = met.peer(block, "parent", draft.name, at, problems);
        let domains = &draft.plan.domains;
        let group = groups.iter().find(|(_, first)| first.domains == *domains);
        let (order, direct) = match group {
            Some((_, first)) => (first.order, first.direct),
            None => (
                draft.order.unwrap_or_default(),
                draft.direct.unwrap_or_default(),
            ),
        };
        // P4
        for (key, differs) in [
            ("parent.use", draft.order.is_some_and(|said| said != order)),
            (
                "parent.direct",
                draft.direct.is_some_and(|said| said != direct),
            ),
        ] {
            if differs {
                let message = "an earlier parent of the same domains says something else; say it once for all of them";
                problems.push(block.problem(key, message));
            }
        }
        let parent = Parent {
            order,
            direct,
            tls: own.or_else(|| is_https.then(|| Arc::new(of_all.clone()))),
            ..draft.plan
        };
        if group.is_none() {
            // P5
            if let Some((all, _)) = groups.iter().find(|(_, first)| hides(first, &parent)) {
                let message = format!(
                    "is never asked: the parent{} is for all its hosts; write this one before it",
                    all.place.words()
                );
                problems.push(block.problem("parent.domains", message));
            }
            groups.push((block, parent.clone()));
        }
        settled.extend(peer.map(|(name, at)| Parent { name, at, ..parent }));
    }
    settled
}

/// Does `first` take every host that `other` takes?
fn hides(first: &Parent, other: &Parent) -> bool {
    let is_taken = |domain: &String| first.domains.contains(domain) || first.is_for(domain);
    first.domains.is_empty() || !other.domains.is_empty() && other.domains.iter().all(is_taken)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proxy::plan::{Ask, Direct, Order};

    use crate::config::testing::{complaints, settle};

    #[track_caller]
    fn wrong(text: &str, expected: Expect) {
        expected.assert_eq(&complaints(text));
    }

    #[test]
    fn all_that_can_be_said() {
        let text = r#"
            [[parent]]
            address = "Top.example"
            domains = ["*.far.example"]
            use = "hash"
            direct = "never"
            weight = 3
            health = "/healthz?x"
            health-interval = "5s"
            [[parent]]
            address = "[2001:db8::1]:8080"
            name = "second"
            domains = ["*.far.example"]
            health = "http://127.0.0.1:3129/healthz"
            [[sibling]]
            address = "other.example:3128"
            ask = "icp=3131"
            wait = "20ms"
            [[sibling]]
            address = "third.example"
            ask = "try"
            head-wait = "2s"
        "#;
        let plan = settle(text).unwrap().plan;
        let [top, second] = &plan.parents[..] else {
            panic!()
        };
        assert_eq!(top.at.to_string(), "top.example:3128");
        assert_eq!((&*top.name, top.weight), ("top.example:3128", 3));
        assert_eq!(top.health.as_ref().unwrap().path, "/healthz?x");
        assert_eq!((&*second.name, second.weight), ("second", 1));
        assert_eq!(second.at.to_string(), "[2001:db8::1]:8080");
        let at = second.health.as_ref().unwrap().at.as_ref().unwrap();
        assert_eq!(at.to_string(), "127.0.0.1:3129");
        for parent in [top, second] {
            assert_eq!((parent.order, parent.direct), (Order::Hash, Direct::Never));
        }
        let [other, third] = &plan.siblings[..] else {
            panic!()
        };
        assert_eq!(
            (other.ask, other.wait.as_millis()),
            (Ask::Icp { port: 3131 }, 20)
        );
        assert_eq!((third.ask, third.head_wait.as_secs()), (Ask::Try, 2));
    }

    #[test]
    fn values_that_are_none() {
        wrong(
            "[[parent]]\naddress = \"http://a\"\nuse = \"last\"\ndirect = true\nweight = 0\nhealth = \"well\"\ndomains = \"a b\"\n\
             [[sibling]]\naddress = \"a:0\"\nask = \"icp=x\"\nwait = \"1h\"\nname = \"a b\"\n[[parent]]\n[[sibling]]\nadress = \"a\"\n",
            expect![[r#"
                loligo.toml:2: parent.address = "http://a": is no URL; write "a"
                loligo.toml:3: parent.use = "last": expected first, hash or round-robin
                loligo.toml:4: parent.direct = true: expected text in quotes
                loligo.toml:5: parent.weight = 0: must be from 1 to 1000
                loligo.toml:6: parent.health = "well": the scheme is missing; write "http://well"
                loligo.toml:7: parent.domains = "a b": expected a host name without port, or "*.example.org" for all names below one
                loligo.toml:9: sibling.address = "a:0": expected HOST or HOST:PORT, such as "proxy.example:3128" or "[2001:db8::1]:3128"
                loligo.toml:10: sibling.ask = "icp=x": expected icp, icp=PORT, digest or try
                loligo.toml:11: sibling.wait = "1h": must be from 1ms to 10s
                loligo.toml:12: sibling.name = "a b": expected a word of at most 64 characters, without blanks
                loligo.toml:13: parent.address: every parent needs an address, such as address = "proxy.example:3128"
                loligo.toml:14: sibling.address: every sibling needs an address, such as address = "proxy.example:3128"
                loligo.toml:15: sibling.adress = "a": there is no such setting here; did you mean "address"?
            "#]],
        );
    }

    #[test]
    fn peers_that_do_not_go_together() {
        wrong(
            "[[listener]]\naddress = 3128\n\
             [[parent]]\naddress = \"localhost\"\n[[parent]]\naddress = \"a:1\"\nuse = \"hash\"\n[[parent]]\naddress = \"a:1\"\nname = \"b\"\n\
             [[parent]]\naddress = \"c\"\ndomains = \"x.example\"\n[[sibling]]\naddress = \"d\"\nname = \"b\"\n\
             [[sibling]]\naddress = \"127.0.0.1:3129\"\n",
            expect![[r#"
                loligo.toml:4: parent.address = "localhost": is this proxy itself (it listens on 127.0.0.1:3128)
                loligo.toml:7: parent.use = "hash": an earlier parent of the same domains says something else; say it once for all of them
                loligo.toml:9: parent.address = "a:1": there is a parent at a:1 already
                loligo.toml:13: parent.domains = "x.example": is never asked: the parent in line 3 is for all its hosts; write this one before it
                loligo.toml:16: sibling.name = "b": another peer is called b; give this one a name of its own
                loligo.toml:18: sibling.address = "127.0.0.1:3129": is this proxy itself (it listens on 127.0.0.1:3129)
            "#]],
        );
        wrong(
            "[[listener]]\norigin = \"http://a\"\n[[parent]]\naddress = \"b\"\n[[sibling]]\naddress = \"c\"\n",
            expect![[r#"
                loligo.toml:3: parent: is asked for forward listeners, and there is none; a reverse listener's route names its origin, which may be a proxy
                loligo.toml:5: sibling: is asked for forward listeners, and there is none; a reverse listener's route names its origin, which may be a proxy
            "#]],
        );
        wrong(
            "[[parent]]\naddress = \"a\"\ndomains = [\"*.x.example\", \"y.example\"]\n[[parent]]\naddress = \"b\"\ndomains = [\"y.example\", \"a.x.example\"]\n",
            expect![[r#"
                loligo.toml:6: parent.domains = ["y.example", "a.x.example"]: is never asked: the parent in line 1 is for all its hosts; write this one before it
            "#]],
        );
    }

    #[test]
    fn one_bracket_too_few() {
        wrong(
            "[parent]\naddress = \"a\"\n",
            expect![[r#"
            loligo.toml:1: parent: expected blocks that begin with [[parent]], two brackets
        "#]],
        );
    }
}
